"""What a row adds to a sum is the same whole number alone, among other rows, and at any place: not only predictions,
also the distances, weights, norms and losses that kernels compute in floats."""

from __future__ import annotations

import numpy as np
import pytest

import dpexplain as dpx
from dpexplain.core.domain import PublicRange
from dpexplain.data import PublicRandom
from dpexplain.maths.lloyd import nearest, places_of
from dpexplain.maths.losses import Loss
from dpexplain.maths.surrogate import Local, Space, StepWeight
from dpexplain.maths.surrogate.sketch import GRID, Layout, raw_sums
from dpexplain.methods.permutation_importance.spec import norms_of, shrunk

SIZE = 300
OUTPUT = PublicRange(0.0, 1.0)
WIDTHS = (1, 2, 3, 5, 8, 13, 17, 40)
DRAW = np.random.default_rng(0)
PREDICTIONS = np.where(DRAW.random(SIZE) < 0.05, np.nan, DRAW.uniform(-0.2, 1.2, SIZE))


def space(width: int) -> Space:
    categories = {"c": dpx.Categorical(["x", "y", "z"])} if width % 2 else {}
    domain = dpx.Domain({**{f"n{i}": dpx.Numeric(-1 / 3, 1e3 / 7) for i in range(width)}, **categories})
    return Space(domain, tuple(domain))


def pieces(kernel) -> None:
    """The sum over all rows is that over single rows, and over pieces that begin and end anywhere."""
    whole = kernel(np.arange(SIZE))
    alone = sum(kernel(np.array([i])) for i in range(SIZE))
    np.testing.assert_array_equal(whole, alone)
    np.testing.assert_array_equal(whole, kernel(np.arange(SIZE)[::-1]))
    for cuts in ([1], [3, 10], [7, 8, 111, 240], list(range(0, SIZE, 13))[1:]):
        np.testing.assert_array_equal(whole, sum(kernel(part) for part in np.split(np.arange(SIZE), cuts)))


@pytest.mark.parametrize("width", WIDTHS)
@pytest.mark.parametrize("anchor", [None, 0.3])
def test_moments_around_a_record(width, anchor):
    here = space(width)
    rows = PublicRandom(1).rows(here.domain, SIZE)
    record = {name: "x" if name == "c" else 1.7 for name in here.features}
    local = Local(here, StepWeight.of("gaussian", here.diameter), OUTPUT, here.read(record), anchor)

    def kernel(index):
        part = rows.take(index)
        return local.gram(here.coordinates(part.columns, part.size), PREDICTIONS[index])

    pieces(kernel)


@pytest.mark.parametrize("width", WIDTHS)
def test_moments_of_cells_and_sums_of_clusters(width):
    here = space(width)
    rows = PublicRandom(1).rows(here.domain, SIZE)
    centres = np.rint(here.coordinates(PublicRandom(2).rows(here.domain, 5).columns, 5) * GRID).astype(np.int64)

    def cells(index):
        part = rows.take(index)
        coordinates = here.coordinates(part.columns, part.size)
        return raw_sums(Layout(centres, GRID // 3), OUTPUT, coordinates, PREDICTIONS[index])

    def clusters(index):
        part = rows.take(index)
        return np.bincount(nearest(centres, places_of(here, part.columns, part.size)), minlength=5)

    pieces(cells)
    pieces(clusters)


@pytest.mark.parametrize("norm", ["sum", "euclidean", "largest"])
@pytest.mark.parametrize("features", WIDTHS)
def test_shrunk_changes(norm, features):
    changes = DRAW.integers(-(2**40), 2**40, (SIZE, features))
    limit = 2**39

    def kernel(index):
        norms = norms_of(changes[index], norm)
        return np.append(shrunk(changes[index], norms, limit, norm).sum(axis=0), (norms > limit).sum())

    pieces(kernel)


@pytest.mark.parametrize("name", ["squared", "absolute", "log", "accuracy"])
def test_losses(name):
    loss, target = Loss.of(name, OUTPUT, binary=True), DRAW.integers(2, size=SIZE).astype(float)
    pieces(lambda index: loss.range.quantize(loss(target[index], PREDICTIONS[index])).sum())
