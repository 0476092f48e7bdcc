"""Change one unit: sums of a comparison move at most as far as their bounds say, and some change moves them so far."""

from __future__ import annotations

from functools import partial

import numpy as np
import pytest
from hypothesis import given, settings

import dpexplain as dpx
from dpexplain.core.budget import pure
from dpexplain.core.release import Gate
from dpexplain.methods.compare import release as compare
from dpexplain.methods.compare import spec as comparing
from dpexplain.methods.compare.request import Compare
from dpexplain.methods.partial_dependence import release as pdp
from dpexplain.methods.permutation_importance import release as pfi
from dpexplain.methods.permutation_importance import spec as importance
from dpexplain.methods.setting import Setting
from dpexplain.models import ModelPair, predictor_of
from dpexplain.requests import PartialDependence, Performance, PermutationImportance
from neighbouring import DOMAIN, neighbours, norms, private, wild, within
from rings import examples

COST = pure(1)
CURVES = Compare(request=PartialDependence(feature=["a", ("b", "c")], grid={"b": 3}, rug=False))
RATES = Compare(request=Performance(target="c", positive="y", groups=["b", "a"], threshold=0.1))
LOSSES = Compare(request=PermutationImportance(target="a", features=["b"], repeats=1))


def against(rows):
    return -wild(rows)


def sign(rows):
    return np.sign(rows["b"].to_numpy())


def against_sign(rows):
    return -sign(rows)


def pair_of(first, second, features="b"):
    each = [(first, "1"), (second, "2")]
    return ModelPair(*(dpx.Model(f, output=(-1, 1), features=list(features), name="m", version=v) for f, v in each))


def sums(rows, protection, request, pair):
    """The exact integers of a comparison, with their bound, after the whole way of a row."""
    table = private(rows, protection)
    setting = Setting(DOMAIN, pair.output, table.neighbours, 10, len(rows) if table.neighbours.rows_public else 10)
    asked = request.request
    if isinstance(asked, PartialDependence):
        spec = pdp.resolve(asked, compare.of_difference(request, setting), COST)
        kernel, size, bound = pdp.statistic, spec.size, pdp.sensitivity(spec, table.neighbours)
    elif isinstance(asked, Performance):
        spec = compare.resolve_rates(asked, setting)
        kernel, size, bound = comparing.rates_statistic, spec.size, comparing.rates_sensitivity(spec, table.neighbours)
    else:
        spec = pfi.resolve(asked, setting, COST, comparing.LossDifference)
        size = 2 if spec.count_weight else 1
        kernel, bound = importance.base_statistic, importance.base_sensitivity(spec, table.neighbours)
    pair = pair if isinstance(asked, PartialDependence) else ModelPair(*pair.both, separately=True)
    predictor = pair.joined([dpx.models.Predictor(one._call, one._features, DOMAIN, False, 16) for one in pair.both])
    columns = list(dict.fromkeys([*predictor.features, *"abc"]))
    ready = partial(kernel, predictor=predictor, spec=spec)
    found = table.sum_rows(Gate(table.door, COST), ready, columns, size=size, label="", parallel=False)
    table.ledger.close()
    return found, bound


ASKED = {"curves": CURVES, "rates": RATES, "losses": LOSSES, "limited curves": CURVES.but(limit=0.3)}


@pytest.mark.parametrize("name", ASKED)
@settings(max_examples=examples(60), deadline=None)
@given(neighbours())
def test_one_unit_moves_the_sums_at_most_as_far_as_their_bound(name, pair):
    protection, rows, other = pair
    models = pair_of(wild, against, "abc") if "curves" in name else pair_of(sign, against_sign)
    left, bound = sums(rows, protection, ASKED[name], models)
    right, _ = sums(other, protection, ASKED[name], models)
    assert within(norms(left - right), bound)


HIGH, LOW = (0, 1.0, "x"), (3, -1.0, "y")


@pytest.mark.parametrize(
    ("relation", "unit", "left", "right"),
    [
        ("replace-one", None, [(HIGH, 0), (HIGH, 1)], [(HIGH, 0), (LOW, 1)]),
        ("add-remove", None, [(HIGH, 0)], [(HIGH, 0), (HIGH, 1)]),
        ("replace-one", 2, [(HIGH, 0), (HIGH, 1), (HIGH, 1)], [(HIGH, 0), (LOW, 1), (LOW, 1)]),
        ("add-remove", 2, [(HIGH, 0)], [(HIGH, 0), (LOW, 1), (LOW, 1)]),
    ],
)
def test_the_bounds_are_attained(relation, unit, left, right):
    """Two models that say the opposite: a row moves a difference from one end of its range to the other."""
    protection = {"relation": relation} | ({} if unit is None else {"unit": dpx.Unit("id", unit)})
    models, curves = pair_of(against_sign, sign), Compare(request=PartialDependence(feature=["a", "c"], rug=False))
    for request in (curves, curves.but(limit=0.5), RATES):
        one, bound = sums(left, protection, request, models)
        two, _ = sums(right, protection, request, models)
        moved = norms(one - two)
        assert within(moved, bound)
        assert moved[2] == bound.linf
        if unit is None:  # every point of a curve, or one cell (or two) of each partition
            assert moved[0] == bound.l1


def test_the_difference_of_two_is_centred_by_itself():
    """A row about which both say the same adds nothing to a sum of differences under add-remove."""
    rows = [(HIGH, 0)]
    models = ModelPair(*(dpx.Model(sign, output=(-1, 1), features=["b"], name="m", version=v) for v in "12"))
    found, _ = sums(rows, {"relation": "add-remove"}, CURVES, models)
    assert (found[:-1] == 0).all()
    assert found[-1] > 0


def test_both_models_keep_their_promise(make_table, frame):
    """A model that is another one under the same version is refused before anything is spent."""
    first = dpx.Model(lambda r: r["age"].to_numpy() / 30, output=(0, 1), features=["age"], name="a", version="1")
    second = dpx.Model(lambda r: r["age"].to_numpy() / 40, output=(0, 1), features=["age"], name="b", version="1")
    changed = dpx.Model(lambda r: r["age"].to_numpy() / 50, output=(0, 1), features=["age"], name="b", version="1")
    table = make_table(frame)
    predictor_of(table, ModelPair.of([first, second]))
    with pytest.raises(dpx.errors.ModelError, match="other answers"):
        dpx.compare(table, [first, changed], PartialDependence(feature="age"), epsilon=1)
    assert table.ledger.statement(table.name).spent.amount == 0
