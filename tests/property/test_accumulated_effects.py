"""Change one unit: with the bins fixed, as they are once the counts are released, the sums of differences move at most
as far as their sensitivity says, and some change moves them that far."""

from __future__ import annotations

from functools import partial

import numpy as np
import pandas as pd
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import dpexplain as dpx
from dpexplain.core.budget import pure
from dpexplain.core.domain import PublicRange
from dpexplain.core.release import Gate
from dpexplain.core.sensitivity import Neighbours, Relation, Sensitivity
from dpexplain.methods import histogram
from dpexplain.methods.accumulated_effects import release as ale
from dpexplain.methods.accumulated_effects.request import AccumulatedEffects
from dpexplain.methods.setting import Setting
from neighbouring import DOMAIN, neighbours, norms, private, wild, within
from rings import examples

REQUEST = AccumulatedEffects(feature=["a", "b", "c"], clip=0.5)


def sums(rows, protection, released, model=wild, request=REQUEST):
    """Counts and sums of differences for the bins that these released counts lead to."""
    table = private(rows, protection)
    output = dpx.Model(model, output=(-1, 1)).output
    spec = ale.resolve(request, Setting(DOMAIN, output, table.neighbours, 10, None), pure(1))
    bins = spec.bins_of(released(spec.cells), 10)
    predictor = dpx.models.Predictor(model, list("abc"), DOMAIN, as_array=False, block=16)
    gate = Gate(table.door, pure(1))
    kernel = partial(ale.statistic, predictor=predictor, spec=spec, bins=bins)
    size = sum(b.size for b in bins)
    found = table.sum_rows(gate, kernel, list("abc"), size=size, label="", parallel=False)
    kernel = partial(histogram.statistic, partitions=spec.partitions)
    counts = table.sum_rows(gate, kernel, list("abc"), size=spec.cells, label="")
    table.ledger.close()
    return counts, found, spec, table.neighbours


PAPER = AccumulatedEffects(feature="c", clip=0.5, method="paper")


@pytest.mark.parametrize("request_", [REQUEST, PAPER], ids=["ours", "the paper's categories"])
@settings(max_examples=examples(150), deadline=None)
@given(neighbours(), st.integers(0, 2**32 - 1))
def test_one_unit_moves_counts_and_sums_at_most_as_far_as_their_bounds(request_, pair, seed):
    protection, rows, other = pair

    def released(cells):  # any counts at all: the bins they lead to must not matter
        return np.random.default_rng(seed).integers(-5, 40, cells).tolist()

    counts, left, spec, relation = sums(rows, protection, released, request=request_)
    others, right, _, _ = sums(other, protection, released, request=request_)
    assert within(norms(left - right), ale.sensitivity(spec, relation))
    assert within(norms(counts - others), Sensitivity.of_counts(relation, len(spec.steps)))


def steep(rows: pd.DataFrame) -> np.ndarray:
    """The largest difference between any two values of `a` and of `c`, up or down as `b` says."""
    sign, c = np.sign(rows["b"].to_numpy()), rows["c"].map({"x": 0, "y": 1, "z": 2}).to_numpy(dtype=float)
    return sign * (20 * (rows["a"].to_numpy() - 1.5) + 10 * (c - 1)) / 100


UP, DOWN, MIDDLE_UP, MIDDLE_DOWN = (1, 1.0, "x"), (1, -1.0, "x"), (1, 1.0, "y"), (1, -1.0, "y")


@pytest.mark.parametrize(
    ("feature", "up", "down", "method"),
    [
        ("a", UP, DOWN, "default"),
        ("c", MIDDLE_UP, MIDDLE_DOWN, "default"),
        ("c", MIDDLE_UP, MIDDLE_DOWN, "paper"),
        ("c", UP, DOWN, "paper"),  # the first category
    ],
    ids=["numeric", "categorical", "categorical, paper", "first category, paper"],
)
@pytest.mark.parametrize(
    ("relation", "unit"), [("replace-one", None), ("add-remove", None), ("replace-one", 2), ("add-remove", 2)]
)
def test_the_bound_is_attained(feature, up, down, method, relation, unit):
    """A row whose differences are all at the upper clip becomes one at the lower clip; or comes; twice in a unit."""
    protection = {"relation": relation} | ({} if unit is None else {"unit": dpx.Unit("id", unit)})
    request = AccumulatedEffects(feature=feature, clip=0.05, method=method)
    others = [(UP, 0), (UP, 1)]
    before = [] if relation == "add-remove" else [(down, 2)] * (unit or 1)
    after = [(up, 2)] * (unit or 1)

    def released(cells):
        return [10] * cells

    _, left, spec, neighbours_ = sums([*others, *before], protection, released, steep, request)
    _, right, _, _ = sums([*others, *after], protection, released, steep, request)
    bound = ale.sensitivity(spec, neighbours_)
    assert norms(left - right) == (bound.l1, bound.l2_squared, bound.linf)


def test_several_features_add_up_in_l1_and_squared_l2():
    relation = Neighbours(Relation.ADD_REMOVE)
    spec = ale.resolve(REQUEST, Setting(DOMAIN, PublicRange(-1, 1), relation, 10, None), pure(1))
    bound, half = ale.sensitivity(spec, relation), spec.levels // 2
    assert (bound.l1, bound.l2_squared, bound.linf) == (4 * half, 4 * half**2, half)  # a: 1, b: 1, c: 2
