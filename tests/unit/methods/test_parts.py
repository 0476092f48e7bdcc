"""Bad input to releases over parts: a clear error, nothing reserved. And how the number of parts is chosen."""

from __future__ import annotations

import itertools
import json
from contextlib import contextmanager

import numpy as np
import pandas as pd
import pytest

import dpexplain as dpx
from dpexplain.core.budget import pure
from dpexplain.core.domain import PublicRange
from dpexplain.core.sensitivity import Neighbours, Relation, Unit
from dpexplain.data.dealing import Dealt
from dpexplain.methods import parts
from dpexplain.methods.generic_plot import release as generic_plot
from dpexplain.methods.generic_plot.request import GenericPlot
from dpexplain.methods.interaction_ranking import release as interaction_ranking
from dpexplain.methods.rank_aggregation import release as rank_aggregation
from dpexplain.methods.rank_aggregation.request import RankAggregation
from dpexplain.methods.rank_aggregation.result import Votes
from dpexplain.methods.registry import request_from_json
from dpexplain.methods.setting import Setting
from examples import DOMAIN
from stubs import REPLACE_ONE

plot, rank = generic_plot.generic_plot, rank_aggregation.rank_aggregation
interactions = interaction_ranking.interaction_ranking
BOX = {"output": (0, 1), "epsilon": 1}


def fine(rows, model):
    return rows["age"], rows["income"] / 100


def raising(rows, model):
    raise LookupError("no such thing")


def fails_when_constant(rows, model):
    return fine(rows, model) if rows["age"].nunique() > 1 else None


BAD_PLOTS = {
    "raises LookupError: no such thing": raising,
    "returns nothing": lambda rows, model: None,
    "returns NaN or infinite": lambda rows, model: (rows["age"], rows["age"] * np.nan),
    "different lengths, 3 and 2": lambda rows, model: ([1, 2, 3], [1, 2]),
    "not return a pair": lambda rows, model: rows["age"],
    "not two lists": lambda rows, model: (1, 2),
    "an empty plot": lambda rows, model: ([], []),
    "not numbers": lambda rows, model: (["a"], ["b"]),
    "with one value of 'age', it returns nothing": fails_when_constant,
}


@pytest.fixture
def refused(make_table, frame):
    """Asks, expects an InputError with this text, and checks that nothing was reserved or spent."""

    def check(message, ask, **options):
        table = make_table(frame, **options)
        before = table.ledger.anchor()
        with pytest.raises(dpx.InputError, match=message) as error:
            ask(table)
        assert "Nothing was spent" in str(error.value)
        assert table.ledger.anchor() == before
        assert table.ledger.statement(table.name).spent.amount == 0

    return check


@pytest.mark.parametrize("message", BAD_PLOTS)
def test_plots_that_cannot_be_used(refused, message):
    refused(message, lambda table: plot(table, BAD_PLOTS[message], "age", **BOX))


@pytest.mark.parametrize(
    ("message", "explainer", "feature", "options"),
    [
        ("must be a function", "lime", "age", {}),
        ("a pair .low, high.", fine, "age", {"output": 1}),
        ("reversed or equal", fine, "age", {"output": (1, 0)}),
        ("401 parts are more than the 400 rows", fine, "age", {"parts": 401}),
        ("at least 2 points", fine, "age", {"grid": 1}),
        ("3000 points is too long", fine, "income", {"grid": 3000}),
        ("its grid is its declared categories", fine, "sex", {"grid": [1.0, 2.0]}),
        ("not a declared category", fine, "sex", {}),
        ("name must be a text that is not empty", fine, "age", {"name": ""}),
        ("'pdp' has its own name", "pdp", "age", {"name": "mine"}),
        ("'ale' has its own name", "ale", "age", {"version": "1"}),
        ("needs a dpx.Model", "pdp", "age", {}),
        ("needs a dpx.Model", "ale", "age", {"model": fine}),
    ],
)
def test_requests_for_a_plot(refused, message, explainer, feature, options):
    refused(message, lambda table: plot(table, explainer, feature, **{**BOX, **options}))


def test_a_model_that_fails_is_refused(refused):
    model = dpx.Model(lambda rows: rows["age"] * np.nan, output=(0, 1), features=["age", "sex"])
    refused("NaN", lambda table: plot(table, "pdp", "age", model=model, **BOX))
    refused("NaN", lambda table: rank(table, "importance", model=model, target="income", epsilon=1))
    refused("NaN", lambda table: interactions(table, model, kind="total", epsilon=1))


def test_more_parts_than_rows_of_a_private_number_are_just_mostly_empty(make_table, frame):
    table = make_table(frame.iloc[:3], exact=True, relation="add-remove")
    curve = plot(table, lambda rows, model: ([20, 29], [1, 1]), "age", parts=50, **BOX)
    assert curve.values[0] == pytest.approx(1.0)


def ranks(answer):
    return lambda rows, model: answer


BALLOT = "neither all 3 items in order nor a finite number"


@pytest.mark.parametrize(
    ("message", "ranker", "items", "options"),
    [
        ("must be a function", "shap", list("abc"), {}),
        ("name the items", ranks([1, 2, 3]), None, {}),
        ("at least two names", ranks([1]), ["a"], {}),
        ("at least two names", ranks([1]), "abc", {}),
        ("at least two names", ranks([1]), [1, 2], {}),
        ("named twice", ranks([1, 2]), ["a", "a"], {}),
        ("returns nothing", ranks(None), list("abc"), {}),
        (BALLOT, ranks([1, 2]), list("abc"), {}),
        (BALLOT, ranks([1, 2, np.nan]), list("abc"), {}),
        (BALLOT, ranks(["a", "b", "b"]), list("abc"), {}),
        (BALLOT, ranks(["a", "b"]), list("abc"), {}),
        (BALLOT, ranks({"a": 1, "b": 2}), list("abc"), {}),
        (BALLOT, ranks([[1], [2, 3], 4]), list("abc"), {}),
        (BALLOT, ranks(5), list("abc"), {}),
        ("raises LookupError", raising, list("abc"), {}),
        ("the best 4 of 3", ranks([1, 2, 3]), list("abc"), {"k": 4}),
        ("more than the 400 rows", ranks([1, 2, 3]), list("abc"), {"parts": 500}),
        ("the target belongs", ranks([1, 2, 3]), list("abc"), {"target": "age"}),
        ("the target belongs", "importance", None, {}),
        ("needs a dpx.Model", "importance", None, {"target": "age"}),
    ],
)
def test_requests_for_a_ranking(refused, message, ranker, items, options):
    refused(message, lambda table: rank(table, ranker, items, **{"epsilon": 1, **options}))


def test_targets_and_items_of_importance(refused, model):
    def ask(**options):
        return lambda table: rank(table, "importance", model=model, epsilon=1, **options)

    refused("unknown feature 'wage'", ask(target="wage"))
    refused("unknown feature 'wage'", ask(target="age", items=["age", "wage"]))
    refused("'age' is the target", ask(target="age", items=["sex", "income"]))
    short = dpx.Model(lambda rows: rows["age"].to_numpy() / 30, output=(0, 1), features=["age", "income"])
    text = "is categorical: say which of its values counts as one"
    refused(text, lambda table: rank(table, "importance", model=short, target="sex", epsilon=1))


def test_a_series_is_read_by_its_labels(make_table, frame):
    import pandas as pd

    scores = {"a": 1.0, "b": 2.0, "c": 3.0}
    table = make_table(frame, exact=True)

    def sorted_series(rows, model):
        return pd.Series(scores).sort_values(ascending=False)

    assert rank(table, sorted_series, ["a", "b", "c"], epsilon=1, parts=5).items == ["c", "b", "a"]
    with pytest.raises(dpx.InputError, match="neither all 3 items"):
        rank(table, lambda rows, model: pd.Series([1.0, 2, 3], index=list("xyz")), ["a", "b", "c"], epsilon=1)
    with pytest.raises(dpx.InputError, match="neither all 3 items"):
        rank(table, lambda rows, model: pd.Series([1.0, 2, 3], index=list("aab")), ["a", "b", "c"], epsilon=1)


def test_a_function_that_ends_the_interpreter_is_refused(make_table, frame):
    def leave(rows, model):
        raise SystemExit("bye")

    with pytest.raises(dpx.InputError, match="SystemExit"):
        rank(make_table(frame), leave, ["a", "b"], epsilon=1)


@pytest.mark.parametrize(
    ("message", "options"),
    [
        ("unknown kind", {"kind": "triple"}),
        ("points must be", {"points": 1}),
        ("points must be", {"points": True}),
        ("two different names", {"pairs": [("age", "age"), ("age", "sex")]}),
        ("two different names", {"pairs": ["age", "sex"]}),
        ("stand for themselves", {"pairs": [("age", "sex")], "kind": "total"}),
        ("stand for themselves", {"pairs": [("age", "sex")], "features": ["age"]}),
        ("named twice", {"pairs": [("age", "sex"), ("sex", "age")]}),
        ("named twice", {"features": ["age", "age"], "kind": "total"}),
        ("at least two features", {"features": ["age", "sex"]}),
        ("at least two features", {"features": ["age"], "kind": "total"}),
        ("must be a list", {"features": "age"}),
        ("unknown feature 'wage'", {"features": ["age", "sex", "wage"]}),
        ("the best 9 of 3", {"k": 9}),
        ("more than the 400 rows", {"parts": 500}),
    ],
)
def test_requests_for_interactions(refused, model, message, options):
    refused(message, lambda table: interactions(table, model, **{"epsilon": 1, **options}))


def test_the_published_form_of_a_plot_is_what_its_options_say(make_table, frame, model):
    table, options = make_table(frame, exact=True), {"model": model, "output": (0, 1), "epsilon": 1}
    paper = plot(table, "pdp", "age", method="paper", **options)
    same = plot(table, "pdp", "age", parts=200, grid=20, smooth=False, mechanism="discrete-laplace", **options)
    assert same.receipt.replayed  # one and the same request for the ledger
    assert paper.values.tolist() == same.values.tolist()
    assert plot(table, "pdp", "age", method="paper", parts=7, **options).spec.parts.number == 7
    with pytest.raises(dpx.InputError, match="has Laplace noise"):
        plot(table, "pdp", "age", method="paper", mechanism="cube", **options)


def test_interactions_against_one_feature(make_table, frame, model):
    table = make_table(frame)
    ranking = interactions(table, model, against="income", epsilon=1, parts=7, points=5)
    assert set(ranking.items) == {"income x age", "income x sex"}
    request = {"against": "income", "kind": "total"}
    for wrong in (request, {"against": "income", "pairs": [("age", "sex"), ("age", "income")]}):
        with pytest.raises(dpx.InputError, match="against= makes pairs"):
            interactions(table, model, epsilon=1, **wrong)
    with pytest.raises(dpx.InputError, match="nothing"):
        interactions(table, model, epsilon=1, against="nothing")


def test_the_published_ranking_of_interactions(make_table, frame, model):
    """Algorithm 4: its bound on a ballot of three pairs, ceil(9 / 2) + 3 instead of 4, and Laplace noise."""
    table = make_table(frame)
    options = {"epsilon": 1, "points": 5}
    paper = interactions(table, model, method="paper", **options)
    ours = interactions(table, model, parts=paper.parts, mechanism="discrete-laplace", **options)
    bounds = [votes.part("votes")[1].scale / votes.spec.unit for votes in (paper, ours)]
    assert [float(bound) for bound in bounds] == pytest.approx([8, 4])
    assert paper.parts == 80  # the published 200, where there are rows for all points of so many parts
    assert interactions(table, model, method="paper", parts=7, **options).parts == 7
    for wrong in ({"k": 1}, {"mechanism": "cube"}):
        with pytest.raises(dpx.InputError, match="all items with Laplace noise"):
            interactions(table, model, method="paper", **wrong, **options)


def test_the_published_ranking_has_200_ballots(make_table, frame):
    ask = {"ranker": lambda rows, model: list("ab"), "items": list("ab"), "epsilon": 1, "version": "1"}
    assert rank(make_table(frame), method="paper", **ask).parts == 200


def test_interactions_of_what_is_no_model(refused):
    refused("model must be a dpx.Model", lambda table: interactions(table, fine, epsilon=1))


# --- identity and replay ------------------------------------------------------------------------------------------


def test_a_versioned_function_is_answered_again_for_free(make_table, frame, model):
    table = make_table(frame)
    first = plot(table, fine, "age", version="1", **BOX)
    again = plot(table, fine, "age", version="1", **BOX)
    assert again.receipt.replayed
    np.testing.assert_array_equal(first.values, again.values)
    assert not plot(table, fine, "age", **BOX).receipt.replayed
    assert not plot(table, fine, "age", **BOX).receipt.replayed  # without a version every call is a new one
    assert not plot(table, fine, "age", version="2", **BOX).receipt.replayed
    assert (
        interactions(table, model, epsilon=1).values.tolist() == interactions(table, model, epsilon=1).values.tolist()
    )


def test_released_marginals_serve_as_the_rug(make_table, frame):
    table = make_table(frame)
    marginals = dpx.marginals(table, ["age"], epsilon=1)
    curve = plot(table, fine, "age", rug=marginals, **BOX)
    assert "rug" not in curve.released["parts"]
    assert curve.rug[0].counts.sum() > 300
    with pytest.raises(dpx.InputError, match="another table"):
        plot(make_table(frame), fine, "age", rug=marginals, **BOX)


def test_results_come_back_from_files_and_draw_themselves(make_table, frame, tmp_path):
    table = make_table(frame)
    curve = plot(table, fine, "age", **BOX)
    votes = rank(table, ranks(["c", "a", "b"]), list("abc"), epsilon=1, parts=50)
    for result in (curve, votes):
        again = dpx.from_json(tmp_path / "x.json") if result.to_json(tmp_path / "x.json") else None
        assert type(again) is type(result)
        np.testing.assert_allclose(again.values, result.values)
        assert result.plot().get_title(loc="left")
        assert "<svg" in result._repr_html_()
    assert curve.title == f"fine, mean over {curve.parts} parts, of age"
    ends = ["low", "high", "determined", "above_next", "in_top_1"]
    assert list(votes.to_frame().columns) == ["item", "mean points", *ends]


def test_requests_and_specs_of_rankings_come_back_from_json(make_table, frame, model):
    for request in (
        dpx.requests.RankAggregation(ranker="importance", target="income", k=2, parts=7),
        dpx.requests.InteractionRanking(pairs=[("age", "sex"), ("age", "income")], points=5),
        dpx.requests.InteractionRanking(kind="total", features=["age", "sex"]),
    ):
        assert request_from_json(json.loads(json.dumps(request.to_json()))) == request
    with pytest.raises(dpx.InputError, match="cannot be written down"):
        RankAggregation(ranker=fine, items=["a", "b"]).to_json()
    table = make_table(frame)
    for votes in (
        rank(table, ranks([1, 2, 3]), list("abc"), epsilon=1, parts=20, k=2, version="1"),
        interactions(table, model, kind="total", epsilon=1, parts=7, points=5),
    ):
        assert votes.spec.to_json() == votes.receipt.request["spec"]
        assert dpx.from_json(votes.to_json()) == votes


def test_forged_results_are_refused(make_table, frame):
    votes = rank(make_table(frame), ranks([1, 2, 3]), list("abc"), epsilon=1, parts=20, k=2)
    released = {"parts": {**votes.released["parts"], "top": {"values": [0, 7]}}}
    for view, forged in ((None, released), ({"k": 1}, votes.released)):
        with pytest.raises(ValueError, match="no choice|no view"):
            Votes.rebuild(votes.receipt, forged, view or {})
    short = {"parts": {**votes.released["parts"], "top": {"values": [0]}}}
    with pytest.raises(ValueError, match="do not fit"):
        Votes.rebuild(votes.receipt, short, {})


# --- the number of parts ------------------------------------------------------------------------------------------


def resolved(rows, epsilon=1, neighbours=REPLACE_ONE, explainer=fine, **options):
    request = GenericPlot(explainer=explainer, feature="income", output=(0, 1), **options)
    setting = Setting(DOMAIN, PublicRange(0, 1), neighbours, rows or 1000, rows)
    return generic_plot.resolve(request, setting, pure(epsilon))


def test_more_rows_and_less_budget_make_more_parts():
    assert resolved(1_000).parts.number < resolved(10_000).parts.number < resolved(100_000).parts.number
    assert resolved(10_000, 5).parts.number < resolved(10_000, 0.5).parts.number
    assert resolved(2).parts.number == 2
    assert resolved(10_000, parts=37).parts.number == 37
    assert resolved(10**7).parts.number == parts.MOST_CALLS
    assert resolved(10**7, explainer="ale").parts.number > parts.MOST_CALLS


def test_partial_dependence_takes_as_many_parts_as_rows_and_more_where_rows_could_share_one():
    assert resolved(5_000, explainer="pdp").parts.number == 5_000
    for neighbours in (Neighbours(Relation.ADD_REMOVE), Neighbours(Relation.ADD_REMOVE, Unit("id", 5))):
        assert resolved(5_000, neighbours=neighbours, explainer="pdp").parts.number == parts.MOST_PARTS
        assert resolved(5_000, neighbours=neighbours, explainer="ale").parts.number <= 5_000


def test_an_unknown_number_of_rows_means_the_published_number_of_parts():
    assert resolved(None, neighbours=Neighbours(Relation.ADD_REMOVE)).parts.number == 200


def test_ballots_by_forecast():
    def number(rows, epsilon):
        request = RankAggregation(ranker=fine, items=list("abcdefgh"))
        setting = Setting(DOMAIN, PublicRange(0, 1), REPLACE_ONE, rows, rows)
        return rank_aggregation.resolve(request, setting, pure(epsilon)).parts.number

    assert 300 < number(30_000, 1) < 900
    assert number(10**7, 1) == parts.MOST_CALLS
    assert number(30_000, 10) < number(30_000, 1) < number(30_000, 0.1)


def test_a_part_has_the_rows_it_needs_for_interactions_and_the_predictions_are_limited():
    def number(rows, points):
        request = interaction_ranking.InteractionRanking(points=points)
        setting = Setting(DOMAIN, PublicRange(0, 1), REPLACE_ONE, rows, rows, features=["age", "sex", "income"])
        return interaction_ranking.resolve(request, setting, pure(0.01)).parts.number

    assert number(1_000, 50) == 20
    assert number(10**8, 100) == interaction_ranking.MAX_PREDICTIONS // (6 * 100**2)


@pytest.mark.parametrize("neighbours", [REPLACE_ONE, Neighbours(Relation.ADD_REMOVE)], ids=lambda n: n.relation.value)
def test_the_parts_and_predictions_that_the_page_on_interactions_names(neighbours):
    request = interaction_ranking.InteractionRanking()
    domain = dpx.Domain({name: dpx.Numeric(0, 1) for name in "abcdefgh"})
    setting = Setting(domain, PublicRange(0, 1), neighbours, 20_000, 20_000)
    spec = interaction_ranking.resolve(request, setting, pure(1))
    views = interaction_ranking.views_of(request, setting)
    assert spec.parts.number == 289
    assert spec.parts.number * interaction_ranking.predictions(views, "pairwise", 24) == 5_992_704


@pytest.mark.parametrize("most", [2, 3, 10, 997, 2**15])
def test_the_ladder_of_parts(most):
    steps = parts.ladder(most)
    assert (steps[0], steps[-1]) == (2, most)
    assert all(a < b <= max(a + 1, 1.2 * a) for a, b in itertools.pairwise(steps))


def test_rows_of_one_table_are_dealt_in_the_order_of_parts():
    frame = pd.DataFrame({"x": [5.0, 1.0, 2.0, 8.0]})
    domain = dpx.Domain({"x": dpx.Numeric(0, 10)})
    rows = dpx.data.rows.Rows(domain, {"x": frame["x"].to_numpy()}, 4)
    dealt = Dealt.of(rows, np.array([2, 0, 2, 0]), 4)
    assert [part["x"].tolist() for part in dealt] == [[1.0, 8.0], [], [5.0, 2.0], []]
    assert dealt.sums(np.array([1, 2, 3, 4])).tolist() == [3, 0, 7, 0]


def test_long_work_shows_that_it_goes_on(make_table, frame, model, monkeypatch):
    """One bar at a time: parts are counted for a user's function, and for our own work where rows are public."""
    table, bars, open_bars = make_table(frame), [], []

    @contextmanager
    def track(label, total, _what):
        assert not open_bars  # rich can show one at a time
        open_bars.append(label)
        steps = []
        yield steps.append
        bars.append((open_bars.pop(), total, sum(steps)))

    def median(rows, model):
        return [20, 29], [rows["income"].median() / 100] * 2

    monkeypatch.setattr("dpexplain.engines.local.track", track)
    dpx.generic_plot(table, median, "age", output=(0, 1), parts=7, epsilon=1)
    dpx.generic_plot(table, "pdp", "age", output=(0, 1), parts=7, epsilon=1, model=model)
    interactions(table, model, epsilon=1, parts=7, points=5)
    assert bars == [
        ("median of age in parts", 7, 7),
        ("pdp of age in parts", 7, 7),
        ("ranking of pairs by interaction", 7, 7),
    ]
    bars.clear()
    table = make_table(frame, relation="add-remove")  # steps of parts by their rows would tell the number of rows
    dpx.generic_plot(table, median, "age", output=(0, 1), parts=7, epsilon=1)
    dpx.generic_plot(table, "pdp", "age", output=(0, 1), parts=7, epsilon=1, model=model)
    assert [(label, total) for label, total, _ in bars] == [
        ("median of age in parts", 7),
        ("pdp of age in parts", None),
    ]


@pytest.mark.parametrize(("box", "row_id", "words"), [
    ((0, 1), None, ""),
    ((0, 0.5), None, "the parts as they were dealt"),
    ((-1, 2), "person", "if every row has an id of its own"),
])  # fmt: skip
def test_partial_dependence_in_parts_says_when_it_is_not_about_all_rows(make_table, frame, model, box, row_id, words):
    """Clipped to a box, the mean of the parts' means is not that of all rows; nor where rows share an id."""
    table = make_table(frame, relation="add-remove", row_id=row_id, rows_hint=len(frame))
    curve = dpx.generic_plot(table, "pdp", "age", model=model, output=box, epsilon=1)
    assert words in curve.caveat
    assert bool(words) == bool(curve.caveat)
