"""Change one unit: the sums over parts move at most as far as their sensitivity says, and some change moves them so.

Every example runs the real path from raw rows to integer sums: cleaning, dealing under each rule, the black box on each
part, clipping, ballots. The secret randomness of the dealing is the same on both sides, as in the proof.
"""

from __future__ import annotations

import itertools

import numpy as np
import pandas as pd
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import dpexplain as dpx
from dpexplain.core.budget import pure
from dpexplain.core.domain import PublicRange
from dpexplain.core.release import Door
from dpexplain.core.sensitivity import Assignment, Neighbours, Relation, Sensitivity
from dpexplain.methods.generic_plot import release as generic_plot
from dpexplain.methods.generic_plot.request import GenericPlot
from dpexplain.methods.interaction_ranking import release as interaction_ranking
from dpexplain.methods.rank_aggregation import release as rank_aggregation
from dpexplain.methods.rank_aggregation.request import RankAggregation
from dpexplain.methods.rank_aggregation.spec import UNIT, ballot_bounds, ballots_of
from dpexplain.methods.setting import Setting
from neighbouring import DOMAIN, ROW, VALUES, frame, wild
from rings import examples
from stubs import FreeAccount, ZeroNoise

PARTS = 3


MODEL = dpx.Model(wild, output=(-1, 1), name="wild", version="1")
WITHOUT_A = dpx.Model(
    lambda rows: wild(rows.assign(a=1)), output=(-1, 1), features=["b", "c"], name="wild without a", version="1"
)


def wild_plot(rows: pd.DataFrame, model: object) -> object:
    """Leaves the box; fails in all kinds of ways on rows that synthetic parts do not have."""
    b = rows["b"].to_numpy()
    if (b == 1).any():
        raise SystemExit("a row")
    if (b == -1).any():
        return None
    if (b == 0).any():
        return [0, 3], [np.nan, b.sum()]
    return [3, 0, 1.5], [5 * b.sum(), -b[0], np.sin(9 * b[-1])]


def wild_order(rows: pd.DataFrame, model: object) -> object:
    b = rows["b"].to_numpy()
    if (b == 1).any():
        return ["p", "p", "q", "r"]
    return [np.sin(99 * b.sum() + i) if not (b == -1).any() else np.inf for i in range(4)]


def ask_plot(table, explainer):
    request = GenericPlot(explainer=explainer, feature="a", output=(-1, 1), parts=PARTS, rug=False)
    return generic_plot.explain(table, MODEL, request, cost=table.cost(epsilon=1)).part("curve")[0]


def ask_votes(table, ranker):
    options = {"items": "bc", "target": "a"} if ranker == "importance" else {"items": "pqrs"}
    model = WITHOUT_A if ranker == "importance" else MODEL
    request = RankAggregation(ranker=ranker, items=list(options.pop("items")), parts=PARTS, **options)
    return rank_aggregation.explain(table, model, request, cost=table.cost(epsilon=1)).part("votes")[0]


def ask_interaction(table, kind):
    request = interaction_ranking.InteractionRanking(kind=kind, parts=PARTS, points=3)
    return interaction_ranking.explain(table, MODEL, request, cost=table.cost(epsilon=1)).part("votes")[0]


ASK = [
    pytest.param(ask_plot, wild_plot, id="function"),
    pytest.param(ask_plot, "pdp", id="pdp"),
    pytest.param(ask_plot, "ale", id="ale"),
    pytest.param(ask_votes, wild_order, id="ranker"),
    pytest.param(ask_votes, "importance", id="importance"),
    pytest.param(ask_interaction, "pairwise", id="pairwise"),
    pytest.param(ask_interaction, "total", id="total"),
]


@pytest.fixture(autouse=True)
def unchecked(monkeypatch):
    """Models and functions are not tried out on synthetic rows: some fail there, and this is about real rows."""

    def predictor(self, domain, **_rows):
        return dpx.models.Predictor(self.original, self.features(domain), domain, as_array=False)

    monkeypatch.setattr(dpx.Model, "checked", predictor)
    monkeypatch.setattr("dpexplain.methods.parts.try_out", lambda *_, **__: None)


def secret(seed):
    """The randomness of the dealing: the same bytes each time, as many as are asked for."""
    stream = np.random.Generator(np.random.Philox(seed)).bytes(4096)
    return lambda size: stream[:size]


def sums(rows, protection, seed, ask, what):
    """The exact integers of a release for these rows."""
    table = dpx.PrivateTable(
        frame(rows), domain=DOMAIN, budget=dpx.Budget(1), ledger="sqlite:///:memory:", name="t", **protection
    )
    table.door = Door(FreeAccount(table.budget, table.neighbours), sampler=ZeroNoise())
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("dpexplain.data.assignment.secret_bytes", secret(seed))
        values = ask(table, what)
    table.ledger.close()
    return values, table


def bound(table, ask, size):
    changed = table.assignment.changed_parts(table.neighbours)
    if ask is ask_plot:
        points = size - (table.assignment is not Assignment.POSITION)  # the count of parts that answered costs nothing
        return Sensitivity.of_parts(table.neighbours, points, 2**20, changed)
    l1, l2, linf = ballot_bounds(size, size)
    return Sensitivity(table.neighbours, UNIT * changed * l1, (UNIT * changed) ** 2 * l2, UNIT * changed * linf)


def assert_within(left, right, protection, seed, ask, what):
    one, table = sums(left, protection, seed, ask, what)
    two, _ = sums(right, protection, seed, ask, what)
    move, limit = abs(one - two), bound(table, ask, len(one))
    assert move.sum() <= limit.l1
    assert (move**2).sum() <= limit.l2_squared
    assert move.max() <= limit.linf


@settings(max_examples=examples(8), deadline=None)
@given(st.lists(ROW, min_size=3, max_size=9), VALUES, st.integers(0, 8))
@pytest.mark.parametrize(("ask", "what"), ASK)
def test_replace_one_row_dealt_by_position(ask, what, rows, values, place):
    place %= len(rows)
    other = [*rows[:place], (values, rows[place][1]), *rows[place + 1 :]]
    assert_within(rows, other, {"relation": "replace-one"}, 0, ask, what)


@settings(max_examples=examples(8), deadline=None)
@given(st.lists(ROW, max_size=8), ROW, st.integers(0, 99))
@pytest.mark.parametrize(("ask", "what"), ASK)
def test_add_one_row_dealt_at_random(ask, what, rows, row, seed):
    """The row comes last: then the others keep the secret numbers that they drew."""
    assert_within(rows, [*rows, row], {"relation": "add-remove", "rows_hint": 9}, seed, ask, what)


@settings(max_examples=examples(8), deadline=None)
@given(st.lists(ROW, max_size=8), VALUES, st.integers(0, 8), st.integers(0, 99))
@pytest.mark.parametrize(("ask", "what"), ASK)
def test_add_one_row_dealt_by_its_id(ask, what, rows, values, place, seed):
    other = [*rows[:place], (values, 77), *rows[place:]]
    assert_within(rows, other, {"relation": "add-remove", "row_id": "id"}, seed, ask, what)


UNIT_ROWS = st.lists(VALUES, max_size=3)


@settings(max_examples=examples(8), deadline=None)
@given(st.lists(ROW, min_size=2, max_size=7), UNIT_ROWS, UNIT_ROWS, st.integers(0, 99), st.data())
@pytest.mark.parametrize("relation", ["replace-one", "add-remove"])
@pytest.mark.parametrize(("ask", "what"), ASK)
def test_units_of_several_rows(ask, what, relation, rows, before, after, seed, data):
    """A unit comes, goes, or is exchanged for one with another id; more rows than are used included."""
    rows = [*rows, ((0, 0.0, "x"), 0), ((0, 0.5, "x"), 1)]  # replace-one needs two units
    before = [] if relation == "add-remove" else before

    def mixed(new, unit):
        result = list(rows)
        for values in new:
            result.insert(data.draw(st.integers(0, len(result))), (values, unit))
        return result

    protection = {"relation": relation, "unit": dpx.Unit("id", 2)}
    assert_within(mixed(before, 98), mixed(after, 99), protection, seed, ask, what)


# --- the bounds are attained --------------------------------------------------------------------------------------


def all_or_nothing(rows: pd.DataFrame, model: object) -> object:
    """The top of the box for a part with a row of b > 0 and none of category z; otherwise the bottom."""
    top = (rows["b"] > 0).any() and not (rows["c"] == "z").any()
    return [0, 3], [1e9 if top else -1e9] * 2


def up_or_down(rows: pd.DataFrame, model: object) -> object:
    return ["p", "q", "r", "s"] if all_or_nothing(rows, model)[1][0] > 0 else ["s", "r", "q", "p"]


HIGH, LOW, BAD = (0, 1.0, "x"), (0, -1.0, "x"), (0, 1.0, "z")
BASE = [(LOW, i) for i in range(3)] + [(HIGH, i) for i in range(3, 6)]
NEIGHBOURS = {
    "replace-one by position": ({"relation": "replace-one"}, [(LOW, 0)] * 5 + [(HIGH, 0)], [(LOW, 0)] * 6),
    "add-remove at random": ({"relation": "add-remove"}, BASE, [*BASE, (BAD, 9)]),
    "add-remove by id": ({"relation": "add-remove", "row_id": "id"}, BASE, [*BASE, (BAD, 9)]),
    "unit added": ({"relation": "add-remove", "unit": dpx.Unit("id", 2)}, BASE, [*BASE, (BAD, 9), (BAD, 9)]),
    "unit replaced": (
        {"relation": "replace-one", "unit": dpx.Unit("id", 2)},
        [(LOW, 0), (HIGH, 1), (HIGH, 8)],  # 8 lifts the part of 0; 9 will pull down the part of 1
        [(LOW, 0), (HIGH, 1), (BAD, 9)],
    ),
}


@pytest.mark.parametrize("case", NEIGHBOURS)
@pytest.mark.parametrize(("ask", "what"), [(ask_plot, all_or_nothing), (ask_votes, up_or_down)])
def test_the_bound_is_attained(case, ask, what):
    protection, left, right = NEIGHBOURS[case]
    farthest = 0
    for seed in range(120):  # some secret deals the units as the worst case wants them
        one, table = sums(left, protection, seed, ask, what)
        two, _ = sums(right, protection, seed, ask, what)
        limit, move = bound(table, ask, len(one)), abs(one - two)
        assert move.sum() <= limit.l1
        farthest = max(farthest, int(move.sum()))
        if farthest == limit.l1:
            assert (move**2).sum() == limit.l2_squared
            assert move.max() == limit.linf
            return
    pytest.fail(f"at most {farthest} of {limit.l1}")


def test_a_part_that_begins_to_answer_moves_the_count_as_far_as_the_bound_allows():
    protection = {"relation": "add-remove", "rows_hint": 9}
    one, table = sums([], protection, 0, ask_plot, all_or_nothing)
    two, _ = sums([(HIGH, 0)], protection, 0, ask_plot, all_or_nothing)
    move, limit = abs(one - two), bound(table, ask_plot, len(one))
    assert (move[:-1] == 2**19).all()  # from the middle to the top
    assert move[-1] == limit.linf
    assert move.sum() <= limit.l1
    assert (move**2).sum() <= limit.l2_squared


def test_with_one_point_the_count_weighs_half_and_fits_too():
    neighbours = Neighbours(Relation.ADD_REMOVE)
    domain = dpx.Domain({"only": dpx.Categorical(["x"])})
    request = GenericPlot(explainer="pdp", feature="only", output=(0, 1), parts=2)
    spec = generic_plot.resolve(request, Setting(domain, PublicRange(0, 1), neighbours, 9, 9), pure(1))
    limit = generic_plot.sensitivity(spec, neighbours)
    silent, low, high = (
        generic_plot.statistic(np.array([[first], [0.3]]), spec).astype(object) for first in (np.nan, 0.0, 1.0)
    )
    moves = [abs(high - low), abs(high - silent), abs(silent - low)]
    assert max(move.sum() for move in moves) == limit.l1
    assert max((move**2).sum() for move in moves) == limit.l2_squared
    assert max(move.max() for move in moves) == limit.linf


# --- ballots ------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("items", [2, 3, 4, 5, 6])
def test_no_pair_of_ballots_is_farther_apart(items):
    """All pairs of ballots, the failed one included; by symmetry one of them is fixed, or failed."""
    orders = np.array(list(itertools.permutations(range(items))), dtype=float)
    failed = np.full(items, np.nan)
    ballots = ballots_of(np.vstack([orders, failed]))
    moves = abs(np.vstack([ballots - ballots[0], ballots - ballots[-1]]))
    assert (ballots.sum(axis=1) == ballots[0].sum()).all()
    moves.sort(axis=1)
    for released in range(1, items + 1):
        worst = moves[:, -released:]  # the entries that move the farthest
        l1, l2_squared, linf = ballot_bounds(items, released)
        assert worst.sum(axis=1).max() == UNIT * l1
        assert (worst**2).sum(axis=1).max() == UNIT**2 * l2_squared
        assert worst.max() == UNIT * linf
    assert ballot_bounds(items, items) == (items**2 // 2, items * (items**2 - 1) // 3, items - 1)


@pytest.mark.parametrize("items", [2, 3, 4, 5])
def test_no_pair_of_ballots_with_ties_is_farther_apart(items):
    """All pairs of ballots on which any items may share their points."""
    scores = np.array(list(itertools.product(range(items), repeat=items)), dtype=float)
    ballots = np.unique(ballots_of(scores), axis=0)
    moves = np.sort(abs(ballots[:, None] - ballots[None]), axis=2)
    for released in range(1, items + 1):
        worst = moves[:, :, -released:]
        l1, l2_squared, linf = ballot_bounds(items, released)
        assert worst.sum(axis=2).max() == UNIT * l1
        assert (worst**2).sum(axis=2).max() == UNIT**2 * l2_squared
        assert worst.max() == UNIT * linf


@given(st.integers(2, 60))
def test_closed_forms(items):
    assert ballot_bounds(items, items) == (items**2 // 2, items * (items**2 - 1) // 3, items - 1)
    for k in range(1, items + 1):
        p, q = k // 2, k - k // 2
        assert ballot_bounds(items, k)[0] == p * (items - p) + q * (items - q)
