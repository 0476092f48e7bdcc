"""Columns that keep missing values: a row is in one cell still, so no bound changes. Change one unit and see.

Every example runs the real path from raw rows to integers; the model gives the ends of its range to missing values, so
that going missing moves a row as far as anything can.
"""

from __future__ import annotations

from functools import partial

import numpy as np
import pandas as pd
from hypothesis import given, settings
from hypothesis import strategies as st

import dpexplain as dpx
from dpexplain.core.budget import pure
from dpexplain.core.release import Gate
from dpexplain.core.sensitivity import Sensitivity
from dpexplain.maths.grids import partition_of
from dpexplain.methods import histogram
from dpexplain.methods.accumulated_effects import release as ale
from dpexplain.methods.accumulated_effects.request import AccumulatedEffects
from dpexplain.methods.clusters import spec as clusters
from dpexplain.methods.marginals import release as marginals
from dpexplain.methods.partial_dependence import release as pdp
from dpexplain.methods.setting import Setting
from dpexplain.requests import Marginals, PartialDependence
from neighbouring import neighbours, norms, private, within
from rings import examples

KEPT = dpx.Domain(
    {
        "a": dpx.Numeric(0, 3, integer=True, missing="nan"),
        "b": dpx.Numeric(-1, 1, missing="nan"),
        "c": dpx.Categorical(["x", "y", "z"]),
    }
)
PRICE = pure(1)
VIEWS = PartialDependence(feature=["a", "c", ("a", "b")], grid={"b": 3})
EFFECTS = AccumulatedEffects(feature=["a", "b", "c"], clip=0.5)


def seeing(rows: pd.DataFrame) -> np.ndarray:
    """Not additive, leaves the output range, fails on some rows, and sees which values are missing."""
    a, b = rows["a"].to_numpy(dtype=float), rows["b"].to_numpy()
    value = np.where(np.isnan(a), 5.0, 3 * np.sin(5 * a)) * np.where(np.isnan(b), -1.0, b)
    return np.where(b > 0.97, np.nan, value)


OUTPUT = dpx.Model(seeing, output=(-1, 1)).output


def summed(rows, protection, kernel_of, size_of, spec_of):
    """The exact integers of a statistic, its spec and the relation."""
    table = private(rows, protection, KEPT)
    spec = spec_of(table.neighbours)
    kernel = kernel_of(spec)
    gate = Gate(table.door, PRICE)
    values = table.sum_rows(gate, kernel, list("abc"), size=size_of(spec), label="", parallel=False)
    table.ledger.close()
    return values, spec, table.neighbours


def predictor():
    return dpx.models.Predictor(seeing, list("abc"), KEPT, as_array=False, block=16)


def curves(rows, protection):
    return summed(
        rows,
        protection,
        lambda spec: partial(pdp.statistic, predictor=predictor(), spec=spec),
        lambda spec: spec.size,
        lambda relation: pdp.resolve(VIEWS, Setting(KEPT, OUTPUT, relation, 10, 10), PRICE),
    )


@settings(max_examples=examples(40), deadline=None)
@given(neighbours())
def test_partial_dependence(pair):
    protection, rows, other = pair
    left, spec, relation = curves(rows, protection)
    right, _, _ = curves(other, protection)
    assert [axis.points[-1] for axis in (spec.views[0][0], *spec.views[2])] == [None, None, None]
    cut = spec.curve_size
    assert within(norms(left[:cut] - right[:cut]), pdp.sensitivity(spec, relation))
    assert within(norms(left[cut:] - right[cut:]), Sensitivity.of_counts(relation, len(spec.rug)))


def histograms(rows, protection):
    return summed(
        rows,
        protection,
        lambda spec: partial(histogram.statistic, partitions=spec.partitions),
        lambda spec: histogram.size_of(spec.partitions),
        lambda relation: marginals.resolve(Marginals(cells=4), Setting(KEPT, OUTPUT, relation, 10, 10), PRICE),
    )


@settings(max_examples=examples(40), deadline=None)
@given(neighbours())
def test_marginals(pair):
    protection, rows, other = pair
    left, spec, relation = histograms(rows, protection)
    right, _, _ = histograms(other, protection)
    assert within(norms(left - right), histogram.sensitivity(spec.partitions, relation))


def test_going_missing_attains_the_bound_of_counts():
    """A row that goes missing in both columns leaves one cell of each, and enters one."""
    here, gone = [((0, 0.5, "x"), 0), ((1, 0.5, "x"), 1)], [((0, 0.5, "x"), 0), ((None, np.nan, "x"), 1)]
    left, spec, relation = histograms(here, {"relation": "replace-one"})
    right, _, _ = histograms(gone, {"relation": "replace-one"})
    assert norms(left - right)[0] == 4 == histogram.sensitivity(spec.partitions, relation).l1 - 2  # c stays what it is
    assert left.sum() == right.sum() == 3 * 2


@settings(max_examples=examples(40), deadline=None)
@given(st.lists(st.floats(-3, 6) | st.just(float("nan")), max_size=30), st.integers(1, 9))
def test_every_row_is_in_one_cell(values, cells):
    for column in (KEPT["a"], KEPT["b"]):
        partition = partition_of("v", column, cells)
        clean = column.clean(np.array(values, dtype=np.float64))
        assert partition.counts(clean).sum() == len(values)
        assert partition.counts(clean)[-1] == np.isnan(clean).sum()


def effects(rows, protection, released):
    table = private(rows, protection, KEPT)
    spec = ale.resolve(EFFECTS, Setting(KEPT, OUTPUT, table.neighbours, 10, None), PRICE)
    bins = spec.bins_of(released(spec.cells), 10)
    gate = Gate(table.door, PRICE)
    kernel = partial(ale.statistic, predictor=predictor(), spec=spec, bins=bins)
    sums = table.sum_rows(gate, kernel, list("abc"), size=sum(b.size for b in bins), label="", parallel=False)
    kernel = partial(histogram.statistic, partitions=spec.partitions)
    counts = table.sum_rows(gate, kernel, list("abc"), size=spec.cells, label="")
    table.ledger.close()
    return counts, sums, spec, table.neighbours


@settings(max_examples=examples(40), deadline=None)
@given(neighbours(), st.integers(0, 2**32 - 1))
def test_accumulated_effects(pair, seed):
    protection, rows, other = pair

    def released(cells):
        return np.random.default_rng(seed).integers(-5, 40, cells).tolist()

    counts, left, spec, relation = effects(rows, protection, released)
    others, right, _, _ = effects(other, protection, released)
    assert within(norms(left - right), ale.sensitivity(spec, relation))
    assert within(norms(counts - others), Sensitivity.of_counts(relation, 3))


@settings(max_examples=examples(40), deadline=None)
@given(neighbours())
def test_counts_of_clusters(pair):
    """Two clusters: whether `a` is missing. A row is in one cell of each attribute and cluster."""
    protection, rows, other = pair
    partitions = [partition_of(name, KEPT[name], 4) for name in "ab"]

    def counted(some):
        return summed(
            some,
            protection,
            lambda _: lambda batch: clusters.statistic(batch, lambda r: np.isnan(r["a"]).astype(int), partitions, 2),
            lambda _: clusters.size_of(partitions, 2),
            lambda _: None,
        )

    left, _, relation = counted(rows)
    right, _, _ = counted(other)
    assert within(norms(left - right), Sensitivity.of_counts(relation, len(partitions)))


def test_what_stands_beside_a_missing_value_does_not_change_how_a_model_sees_a_row():
    """Whole numbers beside a missing one become floats; so they are floats always, for every row."""
    kinds = set()

    def spy(rows: pd.DataFrame) -> np.ndarray:
        kinds.add(str(rows["a"].dtype))
        return rows["b"].fillna(0).to_numpy()

    asked = dpx.models.Predictor(spy, list("abc"), KEPT, as_array=False, block=4)
    for a in ([1.0, 2.0, 3.0, 0.0], [1.0, np.nan, 3.0, 0.0], [np.nan] * 4):
        columns = {"a": np.array(a), "b": np.zeros(4), "c": np.zeros(4, dtype=np.int32)}
        inputs = asked.inputs(dpx.data.rows.Rows(KEPT, columns, 4))
        asked.predict_at(inputs, {})
        asked.predict_at(inputs, {"a": 2.0})
        asked.predict_at(inputs, {"a": np.nan})
    assert kinds == {"float64"}
