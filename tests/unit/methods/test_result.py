"""Results: files and back, intervals that keep their word, nothing but released values."""

from __future__ import annotations

import json
from dataclasses import replace

import numpy as np
import pandas as pd
import pytest
from scipy.stats import binom

import dpexplain as dpx
from dpexplain.core.release import Door
from dpexplain.methods.histogram import nearest_with_total
from dpexplain.render.files import write_results
from dpexplain.render.plots import figure_of
from stubs import FreeAccount

pytestmark = pytest.mark.usefixtures("sketched_pictures")


@pytest.fixture
def curve(make_table, frame, model):
    return dpx.partial_dependence(make_table(frame), model, "age", epsilon=1)


def test_round_trip_through_text_and_file(curve, make_table, frame, model, tmp_path):
    table = make_table(frame, relation="add-remove", budget=dpx.Budget(3, 1e-6))
    others = [
        dpx.marginals(table, epsilon=0.5),
        dpx.partial_dependence(table, model, ("age", "sex"), epsilon=0.5),
        dpx.partial_dependence(table, model, "sex", epsilon=0.5, smooth=False),
    ]
    for result in [curve, *others]:
        path = tmp_path / "result.json"
        again = dpx.from_json(result.to_json(path))
        assert again == result
        assert dpx.from_json(path).receipt.guarantee == result.receipt.guarantee
        assert dpx.from_json(str(path)) == result
        np.testing.assert_array_equal(again.values, result.values)
        np.testing.assert_array_equal(again.interval(0.9), result.interval(0.9))


def test_a_file_without_its_prior_shows_what_was_released(curve, tmp_path):
    path = tmp_path / "result.json"
    text = curve.to_json(path, prior=False)
    again = dpx.from_json(path)
    assert path.read_text() == text
    assert "sharpening" not in text
    np.testing.assert_array_equal(again.values, curve.raw)
    np.testing.assert_array_equal(again.interval(), curve.proven_interval())
    assert again.basis == ""
    assert again.to_json(prior=False) == again.to_json()


def test_a_curve_says_what_it_rests_on(curve):
    assert "500 synthetic rows drawn evenly from the declared domain" in curve.basis
    assert "proven interval" in curve.basis
    assert "500 synthetic rows" in curve.footnote
    rough = replace(curve, smoothed=False)
    assert (rough.basis, rough.sharpened) == ("", False)


def test_a_file_that_was_altered_is_refused(curve):
    document = json.loads(curve.to_json())
    document["values"][3] += 0.01
    with pytest.raises(dpx.errors.VerificationError, match="not those that follow"):
        dpx.from_json(json.dumps(document))
    for damage in ({"kind": "nothing"}, {"released": {}}, {"receipt": None}, {"values": "x"}):
        with pytest.raises(dpx.InputError, match="damaged"):
            dpx.from_json(json.dumps({**json.loads(curve.to_json()), **damage}))
    with pytest.raises(dpx.InputError, match="format 99"):
        dpx.from_json(json.dumps({**document, "dpexplain": 99}))
    with pytest.raises(dpx.InputError, match="damaged"):
        dpx.from_json("{ not json")
    with pytest.raises(dpx.InputError, match="cannot be read"):
        dpx.from_json("nowhere.json")


def test_the_guarantee_names_everything(make_table, frame, model):
    curve = dpx.partial_dependence(make_table(frame), model, "age", epsilon=0.5)
    text = curve.receipt.guarantee
    for words in (
        "epsilon = 0.5 (pure)",
        "one row replaced",
        "the number of rows",
        "the grid",
        "Outside the guarantee",
    ):
        assert words in text
    table = make_table(frame, budget=dpx.Budget(2, 1e-6), relation="add-remove", unit=dpx.Unit("person", 3))
    text = dpx.partial_dependence(table, model, "age", epsilon=0.5).receipt.guarantee
    for words in ("zCDP", "delta = 1e-06", "all rows of one person (at most 3) added or removed"):
        assert words in text
    assert "the number of rows" not in text


def test_a_peeked_domain_is_named_in_the_guarantee(make_table, frame, model, domain):
    peeked = dpx.Domain(dict(domain), reviewed_by="Ada", peeked=True)
    text = dpx.partial_dependence(make_table(frame, domain=peeked), model, "age", epsilon=0.5).receipt.guarantee
    assert "drafted by looking at the data" in text
    assert "Ada" in text


def test_results_hold_no_exact_numbers(make_table, frame, model):
    """Under add-remove the file must not contain the number of rows, in any key."""
    table = make_table(frame, relation="add-remove")
    text = dpx.partial_dependence(table, model, "age", epsilon=1).to_json()
    document = json.loads(text)
    assert document["receipt"]["request"]["table"]["rows"] is None
    assert set(document) == {"dpexplain", "kind", "guarantee", "cleaning", "receipt", "released", "view", "values"}
    assert set(document["released"]["parts"]) == {"curve", "rug"}


RUNS = 300


def covers(interval, exact):
    low, high = interval
    return (low - 1e-6 <= exact) & (exact <= high + 1e-6)


@pytest.mark.drawn(1e-5)
@pytest.mark.parametrize(
    "protection",
    [
        {"relation": "replace-one"},
        pytest.param({"relation": "add-remove"}, marks=pytest.mark.long),
        pytest.param({"relation": "replace-one", "budget": dpx.Budget(5, 1e-6)}, marks=pytest.mark.long),
        pytest.param({"relation": "add-remove", "unit": dpx.Unit("person", 50)}, marks=pytest.mark.long),
    ],
)
@pytest.mark.long
def test_intervals_cover_the_exact_curve(make_table, frame, model, protection):
    """300 releases at level 0.8: fewer covered points than the binomial allows with probability 1e-6 is a failure.

    The points of a release are not independent, so one point and the simultaneous band are counted, not all points.
    """
    table = make_table(frame, **protection)
    table.door = Door(FreeAccount(table.budget, table.neighbours, keep=False))
    exact = 0.1 + 0.04 * np.arange(10) + 0.3 * ((frame["sex"] == "Male") * frame["income"]).mean() / 100
    single = band = likely = likely_band = 0
    widths = np.zeros(2)
    for run in range(RUNS):
        curve = dpx.partial_dependence(table, model, "age", epsilon=1)
        single += bool(covers(curve.proven_interval(0.8), exact)[4])
        band += bool(covers(curve.proven_interval(0.8, simultaneous=True), exact).all())
        if run % 4 == 0:  # these take longer
            ends = curve.interval(0.8)
            likely += bool(covers(ends, exact)[4])
            likely_band += bool(covers(curve.interval(0.8, simultaneous=True), exact).all())
            widths += [np.mean(high - low) for low, high in (ends, curve.proven_interval(0.8))]
    floor, likely_floor = binom.ppf(1e-6, RUNS, 0.8), binom.ppf(1e-6, RUNS // 4, 0.8)
    assert single >= floor
    assert band >= floor
    assert likely >= likely_floor  # columns are independent here, as in the synthetic rows
    assert likely_band >= likely_floor
    if "unit" not in protection:  # with 50 rows of a person noise hides whether there are any: nothing is sharpened
        assert widths[0] < 0.9 * widths[1]
    if protection == {"relation": "replace-one"}:  # and they are not needlessly wide
        assert single <= binom.ppf(1 - 1e-6, RUNS, 0.8)
        assert band <= binom.ppf(1 - 1e-6, RUNS, 0.8)


def test_levels_out_of_range(curve):
    for level in (0, 1, -1, 2, float("nan"), "x"):
        with pytest.raises(dpx.InputError, match="confidence level"):
            curve.interval(level)


def test_an_empty_table_is_a_table_like_any_other(make_table, frame, model):
    table = make_table(frame.head(0), relation="add-remove")
    curve = dpx.partial_dependence(table, model, "age", epsilon=0.5)
    low, high = curve.interval()
    assert (low <= high).all()
    assert ((curve.values >= 0) & (curve.values <= 1)).all()
    assert dpx.marginals(table, epsilon=0.5).values.min() >= 0


def test_curves_by_name_position_and_slice(make_table, frame, model):
    curves = dpx.partial_dependence(make_table(frame), model, ["age", "sex"], epsilon=1)
    assert curves["sex"] is curves[1]
    assert len(curves[:1]) == 1
    assert repr(curves) == "Curves(age, sex)"
    assert curves._repr_html_().count('role="img"') == 2
    with pytest.raises(KeyError):
        curves["height"]


def test_nearest_with_total():
    assert nearest_with_total(np.array([5.0, 5.0]), 10).tolist() == [5, 5]
    assert nearest_with_total(np.array([-4.0, 12.0]), 10).tolist() == [0, 10]
    assert nearest_with_total(np.array([3.0, 1.0]), 0).tolist() == [0, 0]
    draw = np.random.default_rng(0)
    for _ in range(50):
        noisy, total = draw.normal(0, 10, 6), draw.uniform(1, 30)
        best = nearest_with_total(noisy, total)
        assert best.min() >= 0
        assert best.sum() == pytest.approx(total)
        for _ in range(20):  # no other point of the simplex is nearer
            other = draw.dirichlet(np.ones(6)) * total
            assert ((best - noisy) ** 2).sum() <= ((other - noisy) ** 2).sum() + 1e-9


def test_marginals_are_paid_once_and_serve_as_a_free_rug(make_table, frame, model, tmp_path):
    table = make_table(frame)
    marginals = dpx.marginals(table, epsilon=0.5)
    plain = dpx.partial_dependence(table, model, "sex", epsilon=1)
    curve = dpx.partial_dependence(table, model, "sex", epsilon=1, rug=marginals)
    assert set(curve.released["parts"]) == {"curve"}
    assert curve.std < plain.std  # the whole price is for the curve
    np.testing.assert_array_equal(curve.rug[0].counts, marginals.histogram("sex").counts)
    assert dpx.from_json(curve.to_json(tmp_path / "curve.json")) == curve
    note = " ".join(" ".join(t.get_text() for t in figure_of(curve).axes[0].texts).split())
    assert "Counts of rows: an earlier release with epsilon = 0.5 (pure)" in note
    assert float(table.ledger.statement(table.name).spent.amount) == 2.5


def test_marginals_that_do_not_fit_are_refused(make_table, frame, model):
    table, other = make_table(frame), make_table(frame)
    with pytest.raises(dpx.InputError, match="another table"):
        dpx.partial_dependence(table, model, "sex", epsilon=1, rug=dpx.marginals(other, epsilon=1))
    with pytest.raises(dpx.InputError, match="do not have 'sex'"):
        dpx.partial_dependence(table, model, "sex", epsilon=1, rug=dpx.marginals(table, ["age"], epsilon=1))
    assert float(table.ledger.statement(table.name).spent.amount) == 1  # for the marginals alone


def test_several_curves_as_one_table_files_and_figure(make_table, frame, model, tmp_path):
    curves = dpx.partial_dependence(make_table(frame), model, ["age", "sex", ("sex", "age")], epsilon=1)
    lines = curves.to_frame()
    proven = ["released", "proven low", "proven high"]
    assert list(lines.columns) == ["feature", "point", "value", "low", "high", *proven, "determined"]
    np.testing.assert_array_equal(lines[["proven low", "proven high"]].to_numpy().T, curves.proven_interval())
    rough = dpx.partial_dependence(make_table(frame), model, ["age", "sex"], epsilon=1, smooth=False).to_frame()
    assert list(rough.columns) == ["feature", "point", "value", "low", "high", "released", "determined"]
    assert lines["feature"].value_counts().to_dict() == {"sex x age": 20, "age": 10, "sex": 2}
    assert lines["point"].iloc[-1] == ("Male", 29.0)
    np.testing.assert_array_equal(lines["value"], curves.values)
    paths = curves.to_json(tmp_path / "published")
    assert [dpx.from_json(path) for path in paths] == list(curves)
    assert len(curves.plot().axes) == 4  # three plots and the colour bar of the map


def test_a_forged_rug_is_noticed(make_table, frame, model):
    table = make_table(frame)
    marginals = dpx.marginals(table, epsilon=0.5)
    curve = dpx.partial_dependence(table, model, "sex", epsilon=1, rug=marginals)
    dpx.verify(curve, table.ledger)
    document = json.loads(curve.to_json())
    values = document["view"]["marginals"]["released"]["parts"]["counts"]["values"]
    values[0], values[1] = values[1], values[0] + 50
    forged_rug = dpx.results.Marginals.rebuild(marginals.receipt, document["view"]["marginals"]["released"], {})
    forged = replace(curve, marginals=forged_rug)
    assert dpx.from_json(forged.to_json()) == forged  # the file agrees with itself
    with pytest.raises(dpx.errors.VerificationError, match="not those that the ledger recorded"):
        dpx.verify(forged, table.ledger)
    other = make_table(frame)
    with pytest.raises(dpx.errors.VerificationError, match="another table"):
        dpx.verify(replace(curve, marginals=dpx.marginals(other, epsilon=0.5)), table.ledger)


def test_the_written_guarantee_is_checked(curve):
    document = json.loads(curve.to_json())
    document["guarantee"] = "perfectly safe"
    with pytest.raises(dpx.errors.VerificationError, match="guarantee written in this file"):
        dpx.from_json(json.dumps(document))


def hostile(change):
    def altered(document):
        change(document)
        return json.dumps(document)

    return altered


@pytest.mark.parametrize(
    "text",
    [
        hostile(lambda d: d["receipt"]["entry"]["charged"].update(amount="1e99999999")),
        hostile(lambda d: d["receipt"]["entry"]["charged"].update(amount="1/0")),
        hostile(lambda d: d["receipt"]["entry"]["charged"].update(amount="-1/2")),
        hostile(lambda d: d["released"]["parts"]["curve"]["noise"].update(scale="1e99999999")),
        hostile(lambda d: d["receipt"]["entry"].update(sequence=10**30)),
        hostile(lambda d: d["receipt"]["entry"].update(account="\ud800")),
        hostile(lambda d: d["receipt"]["entry"].update(account=7)),
        hostile(lambda d: d["receipt"]["request"]["spec"]["views"][0][0].update(points=list(range(40_000)))),
        hostile(lambda d: d["receipt"]["request"].update(extra=float("inf"))),
        hostile(lambda d: d["view"].update(index=5)),
        hostile(lambda d: d["view"].update(marginals=json.loads(json.dumps(d)))),
        lambda d: "{" * 5 + '"a":' * 3,
        lambda d: '{"a":' * 100_000,
        lambda d: "a\0b",
        lambda d: "[]",
    ],
)
def test_hostile_files_are_refused_in_words(curve, text):
    with pytest.raises((dpx.InputError, dpx.errors.VerificationError)):
        dpx.from_json(text(json.loads(curve.to_json())))


def test_a_feature_may_have_any_name(make_table, frame, tmp_path):
    """Names that clash with our columns, look like formulas or markup, or are too long for a file system."""
    names = ["value", "$_$", "a$^$b", "[/red]", "x" * 300, "../../etc", "ä" * 200]
    domain = dpx.Domain({name: dpx.Categorical(["$0-$10k", "$_$"]) for name in names})
    rows = pd.DataFrame({name: ["$_$", "$0-$10k"] * 50 for name in names})
    model = dpx.Model(lambda rows: np.full(len(rows), 0.5), output=(0, 1))
    progress = dpx.progress
    progress(True)
    try:
        curves = dpx.partial_dependence(make_table(rows, domain=domain), model, names, epsilon=1)
    finally:
        progress(None)
    named = ["value (feature)", "value", "low", "high", "released", "proven low", "proven high", "determined"]
    assert curves["value"].to_frame().columns.tolist() == named
    paths = write_results(list(curves), tmp_path)
    assert len(set(paths)) == len(names)
    assert all(path.parent == tmp_path and path.exists() for path in paths)
    labels = [label.get_text() for label in figure_of(curves[1]).axes[0].get_yticklabels()]
    assert any(r"\$0-\$10k" in label for label in labels)
