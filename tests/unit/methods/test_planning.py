"""Forecasts: the error at a price, the price of an error, and what a table says by itself."""

from __future__ import annotations

import pytest

import dpexplain as dpx
from dpexplain.core.budget import pure
from dpexplain.core.domain import PublicRange
from dpexplain.core.sensitivity import Neighbours, Relation
from dpexplain.methods.partial_dependence import release as pdp
from dpexplain.methods.setting import Setting
from dpexplain.requests import Marginals, PartialDependence

DOMAIN = dpx.Domain(
    {
        "hour": dpx.Numeric(0, 23, integer=True),
        "age": dpx.Numeric(17, 90, integer=True),
        "gain": dpx.Numeric(0, 99999, integer=True),
        "hum": dpx.Numeric(0, 1),
        "sex": dpx.Categorical(["F", "M"]),
    }
)
ONE = PublicRange(0, 1)
RO = Neighbours(Relation.REPLACE_ONE)


def test_more_budget_buys_a_finer_grid_and_a_cheaper_rug():
    request = PartialDependence(feature="hum")
    specs = [pdp.resolve(request, Setting(DOMAIN, ONE, RO, 4000, 4000), pure(e)) for e in (0.1, 1, 3, 100)]
    points = [len(spec.views[0][0].points) for spec in specs]
    assert points == sorted(points)
    assert (points[0], points[-1]) == (20, 101)
    shares = [spec.rug_share for spec in specs]
    assert shares == sorted(shares, reverse=True)
    assert shares[0] > shares[-1]
    unknown = pdp.resolve(request, Setting(DOMAIN, ONE, Neighbours(Relation.ADD_REMOVE), 4000, None), pure(1))
    assert len(unknown.views[0][0].points) == 50


@pytest.mark.parametrize("relation", ["replace-one", "add-remove"])
@pytest.mark.parametrize(
    "request_", [PartialDependence(feature="age"), PartialDependence(feature=["sex", "hum"]), Marginals()]
)
def test_a_wanted_error_is_met_at_the_price_that_is_named(relation, request_):
    wanted = 50.0 if isinstance(request_, Marginals) else 0.01
    forecast = dpx.plan(request_, domain=DOMAIN, n=20_000, relation=relation, max_error=wanted)
    assert [option.definition for option in forecast.options] == ["pure", "zcdp"]
    for option in forecast.options:
        assert option.error <= wanted
        same = dpx.plan(request_, domain=DOMAIN, n=20_000, relation=relation, epsilon=option.epsilon * 1.001)
        assert next(o for o in same.options if o.definition == option.definition).error <= wanted * 1.001
        worse = dpx.plan(request_, domain=DOMAIN, n=20_000, relation=relation, epsilon=option.epsilon * 0.98)
        assert next(o for o in worse.options if o.definition == option.definition).error > wanted * 0.98
    assert forecast.best in forecast.options
    assert list(forecast.to_frame()["definition"]) == ["pure", "zcdp"]
    assert forecast.to_json()["rows"] == 20_000


def test_the_forecast_is_the_noise_that_is_released(make_table, frame, model):
    for budget, position in ((dpx.Budget(5), 0), (dpx.Budget(5, 1e-6), 1)):
        table = make_table(frame, budget=budget)
        for request in (PartialDependence(feature="age"), PartialDependence(feature=["age", "income"])):
            option = dpx.plan(request, domain=table.domain, n=len(frame), relation="replace-one", epsilon=1).options[
                position
            ]
            curve = dpx.partial_dependence(table, model, request.feature, epsilon=1)
            curve = curve if isinstance(curve, dpx.results.Curve) else curve[0]
            noise = curve.part("curve")[1]
            assert (option.law, option.points) == (noise.law.value, noise.size)
            assert option.std == pytest.approx(curve.std)
            assert option.rug_error == curve.part("rug")[1].halfwidth(0.95)


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"epsilon": 1, "max_error": 0.1}, "exactly one"),
        ({}, "exactly one"),
        ({"epsilon": 0}, "positive"),
        ({"max_error": -1}, "positive"),
        ({"epsilon": 1, "n": 1}, "at least 2"),
        ({"epsilon": 1, "n": 2.5}, "at least 2"),
        ({"max_error": 1e-9}, "needs an epsilon above"),
        ({"epsilon": 1, "relation": "neither"}, "unknown relation"),
    ],
)
def test_bad_plans(settings, message):
    with pytest.raises(dpx.InputError, match=message):
        dpx.plan(
            PartialDependence(feature="age"), **{"domain": DOMAIN, "n": 1000, "relation": "replace-one", **settings}
        )


def test_a_plan_tells_the_error_to_expect_and_the_wider_interval():
    """With the model the error is that of likely tables; the same plan says the same numbers again."""
    domain = dpx.Domain(
        {"a": dpx.Numeric(0, 1), "b": dpx.Categorical(["x", "y"]), "ill": dpx.Categorical(["no", "yes"])}
    )
    model = dpx.Model(lambda rows: 0.2 + 0.6 * rows["a"].to_numpy(), output=(0, 1), features=["a", "b"])
    request = dpx.requests.PermutationImportance(target="ill", positive="yes")

    def told():
        return dpx.plan(request, domain=domain, n=2_000, relation="replace-one", epsilon=1.0, model=model)

    forecast = told()
    assert forecast.to_json() == told().to_json()
    assert all(0 < option.error < option.interval for option in forecast.options)
    assert "The 95 % interval will be about ±" in " ".join(str(forecast).split())
    assert "Expected error" not in str(
        dpx.plan(dpx.requests.PartialDependence(feature="a"), domain=domain, n=2_000, relation="replace-one", epsilon=1)
    )
    with pytest.raises(dpx.InputError, match=r"model must be a dpx\.Model"):
        dpx.plan(request, domain=domain, n=2_000, relation="replace-one", epsilon=1.0, model=lambda rows: rows)


@pytest.mark.parametrize("relation", ["replace-one", "add-remove"])
@pytest.mark.parametrize("delta", [None, 1e-5])
def test_a_table_says_all_that_a_plan_needs(make_table, frame, model, relation, delta):
    """The spelled-out plan says the same, of the account that the table has."""
    table = make_table(frame, relation=relation, budget=dpx.Budget(5, delta), rows_hint=300)
    request = PartialDependence(feature="age")
    said = dpx.plan(request, table=table, model=model, epsilon=1)
    rows = {"n": len(frame)} if relation == "replace-one" else {"n": 300, "rows_hint": 300}
    spelled = dpx.plan(request, domain=table.domain, relation=relation, model=model, epsilon=1, delta=1e-5, **rows)
    assert said.options == (spelled.options[0 if delta is None else 1],)
    assert (said.rows, said.neighbours) == (rows["n"], table.neighbours)
    if relation == "add-remove":
        assert dpx.plan(request, table=table, model=model, epsilon=1, n=2_000).rows == 2_000


def test_a_table_is_not_asked_twice(make_table, frame, model):
    request, table = PartialDependence(feature="age"), make_table(frame)
    again = {"domain": table.domain, "relation": "replace-one", "unit": dpx.Unit("person", 2), "rows_hint": 4}
    again |= {"n": 5, "delta": 1e-6, "output": (0, 1), "label": "x", "features": ["age"]}
    for name, value in again.items():
        with pytest.raises(dpx.InputError, match=f"{name} is known from the table"):
            dpx.plan(request, table=table, model=model, epsilon=1, **{name: value})
    assert dpx.plan(request, table=table, output=(0, 2), epsilon=1).options[0].error == pytest.approx(
        2 * dpx.plan(request, table=table, model=model, epsilon=1).options[0].error
    )
    with pytest.raises(dpx.InputError, match="a pure account cannot pay for this"):
        dpx.plan(dpx.requests.LocalSketch(method="moments"), table=table, model=model, epsilon=1)
    with pytest.raises(dpx.InputError, match=r"table must be a dpx\.PrivateTable"):
        dpx.plan(request, table=frame, model=model, epsilon=1)
    private = make_table(frame, relation="add-remove", name="private")
    with pytest.raises(dpx.InputError, match="the number of rows is private, and the table has no hint"):
        dpx.plan(request, table=private, model=model, epsilon=1)
    for name in ("domain", "relation", "n"):
        known = {"domain": table.domain, "relation": "replace-one", "n": 400}
        with pytest.raises(dpx.InputError, match=f"{name} is missing"):
            dpx.plan(request, epsilon=1, **{other: value for other, value in known.items() if other != name})
