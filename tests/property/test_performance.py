"""Change one unit: counts and sums of a performance move no further than their bounds, and some change moves them that
far. Random tables go the real way from raw rows to whole numbers.
"""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import dpexplain as dpx
from dpexplain.core.budget import pure
from dpexplain.core.domain import PublicRange
from dpexplain.core.release import Gate
from dpexplain.core.sensitivity import Neighbours, Unit
from dpexplain.data.rows import Rows
from dpexplain.maths.grids import partition_of
from dpexplain.methods.performance.release import resolve
from dpexplain.methods.performance.request import PerformanceRequest
from dpexplain.methods.performance.spec import LEVELS, Spec, decisions, sensitivity, statistic
from dpexplain.methods.setting import Setting
from dpexplain.models import Predictor
from dpexplain.models.classes import ClassPredictor
from neighbouring import DOMAIN, neighbours, norms, private, wild, within
from rings import examples
from stubs import ADD_REMOVE, BOTH, REPLACE_ONE

MODEL = dpx.Model(wild, output=(-2.0, 2.0), name="wild", version="1")
REQUESTS = [
    PerformanceRequest(target="a", positive=1, cells=5),
    PerformanceRequest(target="a", positive=1, groups=("c", ("c", "b")), cells=5),
    PerformanceRequest(target="c", positive="y", score="a", groups=("b",)),
    PerformanceRequest(target="a", cells=4),
    PerformanceRequest(target="a", groups=("c", "b"), cells=4),
    PerformanceRequest(target="b", score="a", largest_residual=0.5),
]


class Kinds:
    """A wild classifier of three classes that fails on some rows."""

    classes_ = np.array(["x", "y", "z"])
    feature_names_in_ = np.array(["a", "b"])

    def predict(self, rows):
        return self.classes_[self.predict_proba(rows).argmax(axis=1)]

    def predict_proba(self, rows):
        a, b = rows["a"].to_numpy(), rows["b"].to_numpy()
        found = np.stack([np.sin(5 * a + b), np.cos(3 * b), a * b], axis=1)
        found[b > 0.97] = np.nan
        return found


KINDS = dpx.Model(Kinds(), output=(0.0, 1.0), label="y", name="kinds", version="1")
CLASSES = PerformanceRequest(target="c", all_classes=True, groups=("a",), cells=3)


# neither is checked: they fail on some rows
PREDICTORS = {
    False: Predictor(wild, list("abc"), DOMAIN, False, 256),
    True: ClassPredictor(Kinds().predict_proba, ["a", "b"], DOMAIN, False, 256, columns=3),
}


def moved(pair, request, model):
    """How far one unit moves each part that is released, and the bound of each."""
    protection, *both = pair
    found = []
    for rows in both:
        table = private(rows, protection)
        subject = None if request.score else model
        spec = resolve(request, Setting.of(table, subject), pure(1))
        predictor = PREDICTORS[request.all_classes] if subject is not None else None
        gate = Gate(table.door, pure(1))
        reading = table._reading(gate, spec.columns(predictor), 256)
        found.append(sum(statistic(batch, spec, predictor) for batch in reading.batches(table.secrets())))
        table.ledger.close()
    assert found[0].shape == found[1].shape == (spec.size,)
    change = found[1] - found[0]
    parts = [change, decisions(change, spec)] if spec.task == "binary" else [change]
    return parts, sensitivity(spec, table.neighbours)


@settings(max_examples=examples(60), deadline=None)
@given(neighbours(), st.sampled_from(REQUESTS))
def test_one_unit_moves_what_is_released_within_the_bound(pair, request):
    changes, bound = moved(pair, request, MODEL)
    assert all(within(norms(change), bound) for change in changes)


@settings(max_examples=examples(30), deadline=None)
@given(neighbours())
def test_one_unit_moves_the_counts_of_all_classes_within_the_bound(pair):
    [change], bound = moved(pair, CLASSES, KINDS)
    assert within(norms(change), bound)


# The bounds are attained ----------------------------------------------------------------------------------------------

TWO = dpx.Domain({"g": dpx.Categorical(["a", "b"]), "f": dpx.Numeric(0, 1), "y": dpx.Numeric(0, 1)})
UNITS = [*BOTH, *(Neighbours(rows.relation, Unit("id", 3)) for rows in BOTH)]


def spec_of(request, neighbours, domain=TWO) -> Spec:
    setting = Setting(domain, PublicRange(0.0, 1.0), neighbours, 100, 100)
    return resolve(request, setting, pure(1))


def added(spec, domain, rows):
    columns = {}
    for j, (name, column) in enumerate(domain.items()):
        values = [row[j] for row in rows]
        numeric = isinstance(column, dpx.Numeric)
        columns[name] = np.array(values if numeric else [column.categories.index(value) for value in values])
    return statistic(Rows(domain, columns, len(rows)), spec, None)


def change_of(spec, domain, neighbours, one, other):
    """A unit of as many rows as it may have comes, or takes the place of another one."""
    came = added(spec, domain, [other] * neighbours.rows)
    return came if neighbours.relation is ADD_REMOVE.relation else came - added(spec, domain, [one] * neighbours.rows)


@pytest.mark.parametrize("relation", UNITS, ids=Neighbours.describe)
def test_a_row_that_changes_all_its_cells_attains_the_bound_of_counts(relation):
    domain = dpx.Domain({**TWO, "y": dpx.Categorical([0, 1])})
    spec = spec_of(PerformanceRequest(target="y", score="f", groups=("g",)), relation, domain)
    change, bound = change_of(spec, domain, relation, ("a", 0.0, 0), ("b", 1.0, 1)), sensitivity(spec, relation)
    for part in (change, decisions(change, spec)):
        assert norms(part) == (bound.l1, bound.l2_squared, bound.linf)


@pytest.mark.parametrize("relation", UNITS, ids=Neighbours.describe)
def test_sums_of_groups_come_near_their_bound(relation):
    """A row as far off as can be, and one in the next cell of predictions that is nearly so."""
    spec = spec_of(PerformanceRequest(target="y", score="f", groups=("g",)), relation)
    near, far = ("b", 0.1, 1.0), ("a", 0.0, 1.0)
    change, bound = change_of(spec, TWO, relation, near, far), sensitivity(spec, relation)
    assert within(norms(change), bound)
    bounds = (bound.l1, bound.l2_squared, bound.linf)
    assert all(moved >= 0.94 * most for moved, most in zip(norms(change), bounds, strict=True))


def test_sums_of_everybody_come_near_their_bound():
    """Nine: two for errors above and below, one each for squares, target and its square, four for cells. Squares do not
    move with the rest: eight are attained.
    """
    spec = spec_of(PerformanceRequest(target="y", score="f"), REPLACE_ONE)
    change = change_of(spec, TWO, REPLACE_ONE, ("a", 0.0, 1.0), ("b", 1.0, 0.0))
    assert not spec.counted
    assert norms(change) == (8 * LEVELS, 8 * LEVELS**2, LEVELS)
    assert sensitivity(spec, REPLACE_ONE).l1 == 9 * LEVELS


def test_crossed_groups_are_a_partition():
    """Every row is in exactly one group of a crossing, missing values too."""
    from dpexplain.methods.performance.spec import Crossing

    domain = dpx.Domain({**DOMAIN, "b": dpx.Numeric(-1, 1, missing="nan")})
    partitions = tuple(partition_of(name, column, 4) for name, column in domain.items())
    crossing = Crossing(partitions, tuple(isinstance(c, dpx.Numeric) and c.integer for c in domain.values()))
    draw = np.random.default_rng(0)
    columns = {
        "a": draw.integers(0, 4, 500).astype(float),
        "b": np.where(draw.random(500) < 0.2, np.nan, draw.uniform(-1, 1, 500)),
        "c": draw.integers(0, 3, 500),
    }
    places = crossing.place(Rows(domain, columns, 500))
    assert places.min() >= 0
    assert places.max() < crossing.size == len(crossing.cells)
    missing = [crossing.cells[place]["b"] is None for place in places]
    assert missing == np.isnan(columns["b"]).tolist()
