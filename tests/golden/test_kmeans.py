"""With a sampler that adds nothing, dp_kmeans is Lloyd's algorithm, and finds clusters that anybody can see."""

from __future__ import annotations

import itertools

import numpy as np
import pandas as pd
import pytest

import dpexplain as dpx
from chosen import rows_used
from clustered import setting
from dpexplain.core.budget import pure
from dpexplain.data import PublicRandom, Rows
from dpexplain.maths.surrogate.sketch import GRID
from dpexplain.methods.kmeans import release as kmeans
from dpexplain.methods.kmeans.release import dp_kmeans
from dpexplain.requests import KMeans
from stubs import ADD_REMOVE

DOMAIN = dpx.Domain(
    {
        "x": dpx.Numeric(0, 100),
        "y": dpx.Numeric(-5, 5),
        "g": dpx.Categorical(["a", "b", "c"]),
        "person": dpx.Numeric(0, 9),
    }
)
START = [{"x": 20, "y": 0, "g": "a"}, {"x": 60, "y": 3, "g": "b"}, {"x": 90, "y": -4, "g": "c"}]
PROTECTIONS = [
    {"relation": "replace-one"},
    {"relation": "add-remove"},
    {"relation": "replace-one", "unit": dpx.Unit("person", 400)},
    {"relation": "add-remove", "budget": dpx.Budget(10_000, 1e-6)},
]
CENTRES = np.array([[0.2, 0.2], [0.8, 0.3], [0.5, 0.85]])


@pytest.fixture
def blobs():
    draw = np.random.default_rng(0)
    cluster = draw.integers(3, size=3_000)
    places = np.clip(CENTRES[cluster] + draw.normal(0, 0.04, (3_000, 2)), 0, 1)
    frame = pd.DataFrame({"x": 100 * places[:, 0], "y": 10 * places[:, 1] - 5})
    return frame.assign(g=draw.choice(["a", "b", "c"], 3_000), person=draw.integers(10, size=3_000), cluster=cluster)


def coordinates(frame):
    """Written out: numbers between 0 and 1, and sqrt(1/2) for the category."""
    own = np.column_stack([(frame["g"] == c) * np.sqrt(0.5) for c in "abc"])
    return np.column_stack([frame["x"] / 100, (frame["y"] + 5) / 10, own])


def nearest_of(points, centres):
    return ((points[:, None] - centres[None]) ** 2).sum(axis=2).argmin(axis=1)


def lloyd(points, centres, rounds):
    for _ in range(rounds):
        label = nearest_of(points, centres)
        centres = np.array([points[label == i].mean(axis=0) for i in range(len(centres))])
    return centres


@pytest.mark.parametrize("protection", PROTECTIONS)
@pytest.mark.parametrize("rounds", [1, 4])
def test_equals_lloyd_from_the_same_centres(make_table, blobs, protection, rounds):
    table = make_table(blobs, exact=True, domain=DOMAIN, **{"budget": dpx.Budget(10_000), **protection})
    used = blobs if "unit" not in protection else rows_used(blobs, DOMAIN, "person", 400)
    clustering = dp_kmeans(table, 3, ["x", "y", "g"], epsilon=1_000, rounds=rounds, start=START)
    expected = lloyd(coordinates(used), coordinates(pd.DataFrame(START)), rounds)
    np.testing.assert_allclose(clustering.result.centres / GRID, expected, atol=5e-5)
    frame = clustering.result.to_frame().set_index(["cluster", "coordinate"])["centre"]
    assert frame["1", "x"] == pytest.approx(100 * expected[1, 0], abs=0.01)
    assert frame["2", "y"] == pytest.approx(10 * expected[2, 1] - 5, abs=0.001)
    assert frame["0", "g=b"] == pytest.approx(expected[0, 3] / np.sqrt(0.5), abs=1e-4)
    before = lloyd(coordinates(used), coordinates(pd.DataFrame(START)), rounds - 1)
    counted = np.bincount(nearest_of(coordinates(used), before))
    np.testing.assert_allclose(clustering.result.rows, counted)


def test_the_statistic_is_what_a_loop_counts():
    rows = PublicRandom(3).rows(DOMAIN, 50)
    request = KMeans(k=3, features=["x", "g"], rounds=1)
    spec = kmeans.resolve(request, setting(DOMAIN, ADD_REMOVE), pure(1)).lloyd
    centres = np.array([[9_000, 46_341, 0, 0], [50_000, 0, 46_341, 0], [60_000, 20_000, 0, 20_000]])
    expected = np.zeros((3, 5), dtype=object)
    for i in range(rows.size):
        place = [round(rows["x"][i] / 100 * 2**16), 0, 0, 0]
        place[1 + rows["g"][i]] = 46_341
        away = [sum((a - b) ** 2 for a, b in zip(place, centre, strict=True)) for centre in centres.tolist()]
        mine = min(range(3), key=away.__getitem__)
        expected[mine] += [spec.weight, place[0] - 2**15, *place[1:]]
    assert kmeans.statistic(rows, spec, centres).tolist() == expected.ravel().tolist()


@pytest.mark.parametrize("start", ["marginals", "domain"])
@pytest.mark.parametrize("seed", range(3))
def test_three_obvious_clusters_are_found(make_table, blobs, start, seed):
    table = make_table(blobs, exact=True, domain=DOMAIN, relation="add-remove", budget=dpx.Budget(100))
    clustering = dp_kmeans(table, 3, ["x", "y"], epsilon=100, start=start, seed=seed)
    rows = Rows(DOMAIN, {name: blobs[name].to_numpy() for name in "xy"}, len(blobs))
    found = clustering.assign(rows)
    agreement = max((np.array(names)[found] == blobs["cluster"]).mean() for names in itertools.permutations(range(3)))
    assert agreement > 0.99
    expected = np.array([coordinates(blobs)[blobs["cluster"] == i, :2].mean(axis=0) for i in range(3)])
    nearest = np.abs(clustering.result.centres[:, None] / GRID - expected[None]).max(axis=2).min(axis=0)
    assert nearest.max() < 0.01


@pytest.mark.drawn(1e-5)
def test_noise_does_not_hide_them(make_table, blobs):
    """At epsilon 5 the noise of a centre is below a hundredth of the range with probability far above 1 - 1e-6."""
    table = make_table(blobs, domain=DOMAIN, relation="add-remove", budget=dpx.Budget(100))
    clustering = dp_kmeans(table, 3, ["x", "y"], epsilon=5)
    rows = Rows(DOMAIN, {name: blobs[name].to_numpy() for name in "xy"}, len(blobs))
    found = clustering.assign(rows)
    agreement = max((np.array(names)[found] == blobs["cluster"]).mean() for names in itertools.permutations(range(3)))
    assert agreement > 0.99
