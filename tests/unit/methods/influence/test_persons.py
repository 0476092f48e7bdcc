"""Influences on one person: what is refused, what is free, and what a file brings back."""

from __future__ import annotations

import json

import numpy as np
import pandas as pd
import pytest

import dpexplain as dpx
from dpexplain.maths.grids import cells_of, partition_of
from dpexplain.maths.reference import Reference
from dpexplain.methods.influence import persons
from dpexplain.methods.influence.person import PersonInfluence
from dpexplain.methods.influence.persons import person_influence
from dpexplain.methods.influence.release import InfluenceRequest
from dpexplain.methods.setting import Setting
from dpexplain.models.outcomes import Outcome

ROW = {"age": 25, "sex": "Male", "income": 50.0}


def ask(table, model, *, epsilon=None, marginals=None, **options):
    request = InfluenceRequest(**{"quantity": "individual", "row": ROW, **options})
    cost = None if epsilon is None else table.cost(epsilon=epsilon)
    return person_influence(table, model, request, cost=cost, marginals=marginals)


def spent(table):
    return table.ledger.statement(table.name).spent.amount


@pytest.mark.parametrize(
    ("row", "words"),
    [
        ({**ROW, "height": 180}, "'height', which is not a declared column"),
        ({"age": 25, "sex": "Male"}, "no value for 'income'"),
        ({**ROW, "sex": "other"}, "not a declared category"),
        ({**ROW, "age": 30}, "outside the declared range 20 to 29"),
        ({**ROW, "age": 25.5}, "not a whole number"),
        ({**ROW, "income": float("inf")}, "not a finite number"),
        ("somebody", "who is explained"),
        (pd.DataFrame(columns=list(ROW)), "who is explained"),
        (pd.DataFrame([ROW, ROW]), "one person at a time"),
    ],
    ids=str,
)
def test_who_is_outside_the_domain_is_refused_before_anything_is_paid(make_table, frame, model, row, words):
    table = make_table(frame)
    with pytest.raises(dpx.InputError, match=words):
        ask(table, model, epsilon=1, row=row)
    assert spent(table) == 0


def test_what_cannot_be_answered_is_refused_before_anything_is_paid(make_table, frame, model):
    table = make_table(frame)
    with pytest.raises(dpx.InputError, match="unknown feature"):
        ask(table, model, epsilon=1, features=["height"])
    with pytest.raises(dpx.InputError, match="not available"):
        ask(table, model, epsilon=1, mechanism="discrete-gaussian")
    with pytest.raises(dpx.InputError, match="free with marginals"):
        ask(table, model)
    silent = dpx.Model(lambda r: np.where(r["age"] == 25, np.nan, 0.5), output=(0, 1), features=["age"], version="1")
    with pytest.raises(dpx.errors.ModelError, match="NaN|no number"):
        ask(table, silent, epsilon=1)
    assert spent(table) == 0


def test_many_features_are_explained_one_by_one_but_not_together(make_table):
    many = dpx.Domain({f"f{j}": dpx.Categorical([0, 1]) for j in range(64)})
    table = make_table(pd.DataFrame({name: [0, 1, 1] for name in many}), domain=many)
    model = dpx.Model(lambda rows: rows.mean(axis=1).to_numpy(), output=(0, 1), version="1")
    row = dict.fromkeys(many, 1)
    for options in ({"aggregate": "shapley"}, {"features": [tuple(many)]}, {"given": list(many)[:63]}):
        with pytest.raises(dpx.InputError, match="64 features are too many to be replaced together; 62 is the most"):
            ask(table, model, epsilon=1, row=row, **options)
    assert spent(table) == 0
    assert len(ask(table, model, epsilon=1, row=row).values) == 64


def test_fourteen_features_are_too_many_for_all_their_sets(make_table):
    many = dpx.Domain({f"f{j}": dpx.Categorical([0, 1]) for j in range(14)})
    frame = pd.DataFrame({name: [0, 1, 1] for name in many})
    table = make_table(frame, domain=many)
    model = dpx.Model(lambda rows: rows.mean(axis=1).to_numpy(), output=(0, 1), version="1")
    row = dict.fromkeys(many, 1)
    with pytest.raises(dpx.InputError, match="13 inputs are the most"):
        ask(table, model, epsilon=1, aggregate="shapley", exact=True, row=row)
    assert spent(table) == 0
    assert len(ask(table, model, epsilon=1, aggregate="shapley", samples=50, row=row).values) == 14


def test_more_features_than_a_mask_has_bits_are_refused_before_anything_is_paid(make_table):
    many = dpx.Domain({f"f{j}": dpx.Categorical([0, 1]) for j in range(63)})
    table = make_table(pd.DataFrame({name: [0, 1, 1] for name in many}), domain=many)
    model = dpx.Model(lambda rows: rows.mean(axis=1).to_numpy(), output=(0, 1), version="1")
    row = dict.fromkeys(many, 1)
    with pytest.raises(dpx.InputError, match="62 is the most"):
        dpx.transparency_report(table, model, row, epsilon=1)
    assert spent(table) == 0
    assert len(dpx.transparency_report(table, model, row, epsilon=1, aggregate="unary").values) == 63


def test_a_forged_file_of_marginals_is_refused(make_table, frame, model):
    table = make_table(frame)
    released = dpx.marginals(table, epsilon=1)
    parts = released.released["parts"]
    values = [count + 1 for count in parts["counts"]["values"]]
    forged = dpx.results.Marginals(released.receipt, {"parts": {"counts": {**parts["counts"], "values": values}}})
    with pytest.raises(dpx.InputError, match="has not released these"):
        ask(table, model, marginals=forged)


def test_marginals_make_it_free_and_others_are_refused(make_table, frame, model):
    table = make_table(frame)
    released = dpx.marginals(table, epsilon=1)
    before = spent(table)
    found = ask(table, model, marginals=released)
    assert spent(table) == before
    assert found.receipt == released.receipt
    assert found.marginals.released == released.released
    with pytest.raises(dpx.InputError, match="not both"):
        ask(table, model, marginals=released, epsilon=1)
    with pytest.raises(dpx.InputError, match="another table"):
        ask(make_table(frame), model, marginals=released)
    with pytest.raises(dpx.InputError, match="do not have 'sex'"):
        ask(table, model, marginals=dpx.marginals(table, ["age"], epsilon=1))
    with pytest.raises(dpx.InputError, match="result of dpx"):
        ask(table, model, marginals="mine")


def test_paid_marginals_can_be_used_again_and_a_second_person_is_free(make_table, frame, model):
    table = make_table(frame)
    first = ask(table, model, epsilon=1)
    second = ask(table, model, epsilon=1, row={**ROW, "age": 21})
    assert second.receipt.replayed
    assert spent(table) == table.cost(epsilon=1).amount
    assert set(first.released["parts"]) == persons.diagram().noised
    assert persons.diagram().noised in persons.diagram().privacy_enabling_sets()
    again = ask(table, model, marginals=first.marginals)
    np.testing.assert_allclose(again.values, first.values)
    dpx.verify(first, table.ledger)


@pytest.mark.parametrize("row", [ROW, pd.Series(ROW), pd.DataFrame([ROW])], ids=["mapping", "series", "frame"])
def test_a_person_in_any_form(make_table, frame, model, row):
    table = make_table(frame, exact=True)
    assert ask(table, model, epsilon=1, row=row).record == ROW


@pytest.mark.parametrize(
    "options",
    [
        {},
        {"quantity": "actual"},
        {"aggregate": "shapley", "samples": 60},
        {"aggregate": "banzhaf", "samples": 60},
        {"aggregate": "shapley", "exact": True, "samples": 8},
        {"features": [("age", "sex"), "income"], "samples": 40},
        {"features": ["income"], "given": ["age"]},
        {"outcome": "class", "threshold": 0.3},
    ],
    ids=str,
)
def test_a_file_brings_the_same_back_without_the_model(make_table, frame, model, options):
    found = ask(make_table(frame, relation="add-remove"), model, epsilon=1, **options)
    back = dpx.from_json(found.to_json())
    assert isinstance(back, PersonInfluence)
    np.testing.assert_allclose(back.values, found.values)
    np.testing.assert_allclose(back.interval(0.9), found.interval(0.9))
    assert back.sentences() == found.sentences()
    low, high = found.interval()
    assert (low <= found.values).all()
    assert (found.values <= high).all()


def test_a_wider_level_is_a_wider_interval_and_drawn_values_add_to_it(make_table, frame, model):
    table = make_table(frame)
    released = dpx.marginals(table, epsilon=5)
    few = ask(table, model, marginals=released, aggregate="shapley", samples=20)
    many = ask(table, model, marginals=released, aggregate="shapley", samples=4_000)
    widths = [
        np.diff(found.interval(level), axis=0).mean() for found, level in ((many, 0.5), (many, 0.95), (few, 0.95))
    ]
    assert widths[0] < widths[1] < widths[2]
    assert (many.noise_halfwidth() > 0).all()


def test_one_draw_says_nothing(make_table, frame, model):
    found = ask(make_table(frame), model, epsilon=1, aggregate="shapley", samples=1)
    low, high = found.interval()
    assert (high - low >= 1).all()


def test_a_model_that_never_changes_has_no_influences(make_table, frame):
    constant = dpx.Model(lambda rows: np.full(len(rows), 0.3), output=(0, 1), version="1")
    found = ask(make_table(frame), constant, epsilon=1)
    assert not found.values.any()
    assert found.sentences() == ["No feature makes a clear difference: no difference at all."]


def test_points_stand_for_their_cells(domain):
    income = Reference(domain["income"], partition_of("income", domain["income"], 5), np.full(5, 0.2))
    assert income.points[:4].tolist() == [2.5, 7.5, 12.5, 17.5]
    age = Reference(domain["age"], partition_of("age", domain["age"], 5), np.full(5, 0.2))
    assert age.points.tolist() == list(range(20, 30))
    assert age.cells.tolist() == [0, 0, 1, 1, 2, 2, 3, 3, 4, 4]
    sex = Reference(domain["sex"], partition_of("sex", domain["sex"], 5), np.array([0.25, 0.75]))
    codes, cells = persons.drawn(sex, dpx.data.PublicRandom(0), [40, 40])
    assert codes.tolist() == cells.tolist()
    assert [int(part.sum()) for part in np.split(codes, 2)] == [30, 30]  # evenly, in each batch


def test_the_outlook_tells_the_noise(domain):
    request = InfluenceRequest(quantity="individual", row=ROW)
    neighbours = dpx.core.sensitivity.Neighbours(dpx.core.sensitivity.Relation.REPLACE_ONE)
    output = Outcome.of(dpx.core.domain.PublicRange(0, 1), "score").range
    setting = Setting(domain, output, neighbours, 1_000, 1_000)
    pure = dpx.core.budget.pure
    few = InfluenceRequest(quantity="individual", row=ROW, cells=24)
    near, far = (persons.outlook(few, setting, pure(epsilon)) for epsilon in (2, 1))
    assert far.points == 3
    assert far.error == pytest.approx(2 * near.error, rel=0.1)
    assert near.error < persons.outlook(request, setting, pure(2)).error < far.error  # finer cells have more noise


# Where rows lie inside their cells ------------------------------------------------------------------------------------

TWO = dpx.Domain({"x": dpx.Numeric(0, 1), "y": dpx.Numeric(0, 60, integer=True), "z": dpx.Categorical(["a", "b"])})
GAMES = [
    {},
    {"features": [("x", "y")]},
    {"aggregate": "shapley"},
    {"aggregate": "shapley", "samples": 300},
    {"aggregate": "banzhaf", "samples": 400},
    {"quantity": "actual"},
    {"outcome": "class", "threshold": 0.6},
    {"features": [("x", "y")], "samples": 400},
]


def bent(rows):
    """Rises in x and falls in y, and not additively."""
    x, y, b = rows["x"].to_numpy(), rows["y"].to_numpy() / 60, (rows["z"] == "b").to_numpy()
    return 0.5 + 0.3 * x * (1 + b) - 0.4 * x * y


def at_one_end(upper, cells=5):
    """Rows that all lie at the lower (upper) ends of cells, whatever these are: beside the edges of five of them."""
    x = (np.arange(cells) + (0.999 if upper else 0.001)) / cells
    y = np.array([12, 25, 38, 51, 60] if upper else [0, 13, 26, 39, 52])
    z = np.array(["a", "b"])
    grid = np.meshgrid(np.arange(5), np.arange(5), np.arange(2), indexing="ij")
    i, j, k = (np.tile(part.reshape(-1), 8) for part in grid)
    return pd.DataFrame({"x": x[i], "y": y[j], "z": z[k]})


@pytest.mark.parametrize("upper", [False, True], ids=["lower ends", "upper ends"])
@pytest.mark.parametrize("options", GAMES, ids=str)
def test_an_interval_holds_wherever_rows_lie_in_their_cells(make_table, monkeypatch, upper, options):
    """No noise, five even cells, all rows at one end of theirs; the truth is the same game by the exact columns."""
    even = lambda names, domain, *_, **__: tuple(partition_of(name, domain[name], 5) for name in names)  # noqa: E731
    model = dpx.Model(bent, output=(0, 1), version="1")
    row, rows = {"x": 0.7, "y": 20, "z": "b"}, at_one_end(upper)
    monkeypatch.setattr(persons, "cells_of", even)
    table = make_table(rows, domain=TWO, exact=True)
    found = ask(table, model, epsilon=1, cells=5, **{"row": row, "outcome": "score", **options})
    # every value that rows have is a category of its own: nothing is left open
    values = {name: tuple(dict.fromkeys(rows[name].tolist())) for name in ("x", "y")}
    own = {name: (*values[name], row[name]) for name in values}
    exactly = dpx.Domain({**{n: dpx.Categorical([str(v) for v in own[n]]) for n in own}, "z": TWO["z"]})
    spelled = rows.assign(x=rows["x"].astype(str), y=rows["y"].astype(str))
    same = dpx.Model(lambda r: bent(r.assign(x=r["x"].astype(float), y=r["y"].astype(int))), output=(0, 1), version="2")
    sure = {**options, "samples": None}
    there = {**row, "x": str(row["x"]), "y": str(row["y"])}
    truth = ask(
        make_table(spelled, domain=exactly, exact=True), same, epsilon=1, **{"row": there, "outcome": "score", **sure}
    )
    assert not truth.within.any()
    assert found.within.any()
    drawn = np.array([4 * line.error for line in found.answer.lines])  # public draws, the same in every run
    away, (below, above) = truth.values - found.values, found.within.T
    assert (-below - drawn - 1e-6 <= away).all()
    assert (away <= above + drawn + 1e-6).all()
    assert (below + above).max() < 0.3
    if "samples" not in options and options.get("outcome") != "class":
        assert np.abs(away).max() > 0.005  # which is what evenly spread values miss
    low, high = found.interval()
    assert (low <= found._inside(found.values - below) + 1e-9).all()
    assert (high >= found._inside(found.values + above) - 1e-9).all()


def test_what_cells_leave_open_is_nothing_for_categories_and_whole_numbers(make_table, frame, model):
    found = ask(make_table(frame), model, epsilon=1)
    open_in = dict(zip(found.items, found.within.max(axis=1), strict=True))
    assert open_in["age"] == open_in["sex"] == 0
    assert open_in["income"] > 0


def test_a_file_of_an_earlier_version_says_what_its_intervals_leave_out(make_table, frame, model):
    document = json.loads(ask(make_table(frame), model, epsilon=1, cells=5).to_json())
    now = dpx.from_json(json.dumps(document))
    for line in document["view"]["lines"]:
        del line["below"], line["above"]
    before = dpx.from_json(json.dumps(document))
    assert "leave out where values lie inside the cells" in before.caveat
    assert "leave out" not in now.caveat
    assert (before.values == now.values).all()
    assert (np.diff(before.interval(), axis=0) <= np.diff(now.interval(), axis=0)).all()
    document["view"]["lines"][0]["below"] = {}  # some lines only: as if there were none
    assert dpx.from_json(json.dumps(document)).within is None
    for wrong in (
        {},
        {"income": [[5, -0.1]]},
        {"income": [[4, 0.1]]},
        {"income": [["a", 0.1]]},
        {"odd": [[5, 0.1]]},
        None,
    ):
        for line in document["view"]["lines"]:
            line["below"] = line["above"] = wrong
        with pytest.raises(dpx.DpexplainError):
            dpx.from_json(json.dumps(document))


SAW = dpx.Domain({"x": dpx.Numeric(0, 1), "y": dpx.Numeric(0, 1)})


def test_what_cells_leave_open_has_noise_of_its_own(make_table):
    """A model with a step in the middle of every second cell, and rows that lie below the steps: evenly spread, the
    outcome would be a half in all cells, so the noise of shares moves nothing; where rows lie, it moves much.
    """
    edges = np.array(cells_of(["x"], SAW, 12)[0].edges)
    wide = np.flatnonzero(np.diff(edges) > 0.02)

    def step(x):
        cell = np.clip(np.searchsorted(edges, x, side="right") - 1, 0, len(edges) - 2)
        upper = x >= (edges[cell] + edges[cell + 1]) / 2
        return np.where(np.isin(cell, wide[1::2]), upper.astype(float), 0.5)

    model = dpx.Model(lambda rows: step(rows["x"].to_numpy()), output=(0, 1), version="1")
    cells = np.tile(wide, 200)[:2000]
    rows = pd.DataFrame({"x": edges[cells] + 0.1 * np.diff(edges)[cells], "y": 0.5})
    options = {"features": ["x"], "row": {"x": 0.999, "y": 0.5}, "epsilon": 1, "cells": 12}
    found = ask(make_table(rows, domain=SAW, exact=True), model, **options)
    exact = step(np.array([0.999]))[0] - step(rows["x"].to_numpy()).mean()
    low, high = found.interval()
    assert found.noise_halfwidth()[0] < 1e-6  # that of evenly spread rows, which was all there was
    below = found.values[0] - found.within[0, 0], found.values[0] + found.within[0, 1]
    assert min(abs(exact - end) for end in below) < 1e-3  # without noise the exact value is one of the ends
    assert low[0] + 0.002 < below[0]
    assert below[1] < high[0] - 0.002


def test_a_higher_price_buys_finer_cells(domain):
    neighbours = dpx.core.sensitivity.Neighbours(dpx.core.sensitivity.Relation.ADD_REMOVE)

    def cells(epsilon, rows=5_000, **options):
        request = InfluenceRequest(quantity="individual", row=ROW, **options)
        setting = Setting(domain, dpx.core.domain.PublicRange(0, 1), neighbours, 5_000, rows)
        spec = persons.resolve(request, setting, dpx.core.budget.pure(epsilon))
        return [partition.size for partition in spec.partitions]

    sizes = [cells(epsilon)[2] for epsilon in (0.001, 0.1, 1, 3, 1_000)]
    assert sizes == sorted(sizes)
    assert 20 <= sizes[0] <= 24
    assert 60 < sizes[2] < sizes[3] <= sizes[4] <= 256
    assert cells(1, rows=None) == cells(1, rows=100_000)
    assert [size[:2] for size in (cells(0.001), cells(3))] == [[10, 2]] * 2  # whole numbers and categories stay
    assert cells(3, cells=24)[2] <= 24
