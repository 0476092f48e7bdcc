"""Curves and counts: marginals, quantiles, partial dependence, accumulated effects."""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from dpexplain.audit.cases import ADD_REMOVE, BOTH, Case, Pair, Row, cases_of
from dpexplain.audit.worst_cases import asks
from dpexplain.core.budget import Definition
from dpexplain.core.domain import Categorical, Domain, Numeric
from dpexplain.methods.accumulated_effects.request import AccumulatedEffects
from dpexplain.methods.marginals.request import MarginalsRequest
from dpexplain.methods.partial_dependence.request import PartialDependence
from dpexplain.methods.quantiles.request import QuantilesRequest
from dpexplain.models import Model

if TYPE_CHECKING:
    import pandas as pd

Floats = NDArray[np.float64]

FLAGS = Domain({"g": Categorical(["a", "b"]), "flag": Categorical([0, 1])})
HIGH, LOW = ("a", 1), ("b", 0)
FLIPPED: dict[str, Pair] = {"replace-one": ([HIGH, HIGH], [HIGH, LOW]), "add-remove": ([HIGH], [HIGH, HIGH])}
KEPT = Domain({"x": Numeric(0, 1, integer=True, missing="nan")})
WENT_MISSING: dict[str, Pair] = {
    "replace-one": ([(0.0,), (0.0,)], [(0.0,), (None,)]),
    "add-remove": ([(0.0,)], [(0.0,), (None,)]),
}


def _flag(rows: pd.DataFrame) -> Floats:
    return rows["flag"].to_numpy(dtype=float)


FLAG = Model(_flag, output=(0, 1), features=["flag"], name="flag", version="1")


def of_marginals() -> list[Case]:
    """The row changes its cell of every feature."""
    one, every, parts = asks(MarginalsRequest(features=["g"])), asks(MarginalsRequest()), {"counts": 0.99}
    return [
        *cases_of("marginals", "one feature", one, FLAGS, FLIPPED, parts),
        *cases_of("marginals", "missing values", every, KEPT, WENT_MISSING, parts),
        *cases_of("marginals", "all", every, FLAGS, FLIPPED, parts),
    ]


def of_partial_dependence() -> list[Case]:
    """The flag decides every point of the curve, and the row changes its cell of the rug."""
    of = partial(cases_of, "partial_dependence", domain=FLAGS, pairs=FLIPPED, units={"curve": 0.44})
    runs = {m: asks(PartialDependence(feature="g", method=m), FLAG) for m in ("default", "paper")}
    cases = [case for form, run in runs.items() for case in of(form, run, parts={"curve": 0.99, "rug": 0.99})]
    for mechanism in (None, "cube"):  # the row goes from one class to another, which the third one does not show
        run = asks(PartialDependence(feature="g", rug=False, mechanism=mechanism), CLASSES)
        definitions = BOTH if mechanism is None else (Definition.PURE,)
        cases += of(
            f"all classes, {mechanism}", run, parts={"curve": 0.99}, definitions=definitions, units={"curve": 0.42}
        )
    return cases


class _Classes:
    """Surely the first class without the flag, and the last one with it."""

    classes_ = ("no", "maybe", "yes")
    feature_names_in_ = ("flag",)

    def predict(self, rows: pd.DataFrame) -> Floats:
        return _flag(rows)

    def predict_proba(self, rows: pd.DataFrame) -> Floats:
        flag = _flag(rows)
        return np.column_stack([1 - flag, np.zeros_like(flag), flag])


CLASSES = Model(_Classes(), output=(0, 1), name="classes", version="1")


TWISTED = Domain({"g": Categorical(["a", "b"]), "two": Numeric(0, 1, integer=True), "up": Categorical([0, 1])})


def _twisted(rows: pd.DataFrame) -> Floats:
    """Rises over the whole range with `g` and with `two`, or falls: as `up` says."""
    up = rows["up"].to_numpy(dtype=float)
    return np.where((rows["g"] == "b") != (rows["two"] == 1), up, 1 - up)


TWIST = Model(_twisted, output=(0, 1), name="twisted", version="1")


def of_accumulated_effects() -> list[Case]:
    """A row whose difference is at one end of the clip becomes one at the other end."""
    up, parts, cases = ("a", 0, 1), {"counts": 0.99, "effects": 0.99}, list[Case]()
    for feature, down in (("g", ("b", 0, 0)), ("two", ("a", 1, 0))):
        pairs: dict[str, Pair] = {"replace-one": ([up, up], [up, down]), "add-remove": ([up], [up, up])}
        if feature == "g":
            published = asks(AccumulatedEffects(feature="g", method="paper", clip=1), TWIST)
            cases += cases_of("accumulated_effects", "paper, categories", published, TWISTED, pairs, parts)
        default = asks(AccumulatedEffects(feature=feature, clip=1), TWIST)
        cases += cases_of("accumulated_effects", f"of {feature}", default, TWISTED, pairs, parts)
    paper = asks(AccumulatedEffects(feature="two", method="paper", bins=2, clip=1), TWIST)
    cases += cases_of("accumulated_effects", "paper", paper, TWISTED, pairs, parts)
    pairs = {relation: (_spread(left), _spread(right)) for relation, (left, right) in SPLIT.items()}
    positions = {"quantiles-0-1": 0.4}
    return cases + cases_of("accumulated_effects", "paper", paper, TWISTED, pairs, positions, dearer=2)


def _spread(counts: Sequence[int]) -> list[Row]:
    return [("a", two, 1) for two, many in enumerate(counts) for _ in range(many)]


# counts of two or three cells whose medians a search found hard to hide
SPLIT = {"replace-one": ((6, 5), (7, 4)), "add-remove": ((6, 3), (6, 4))}
CELLS = {"replace-one": ((4, 6, 0), (3, 6, 1)), "add-remove": ((6, 2, 3), (6, 3, 3))}
NUMBERS = Domain({"x": Numeric(0, 2, integer=True)})


def of_quantiles() -> list[Case]:
    """A row more on one side of the median makes positions on that side better, and those on the other side worse."""
    run = asks(QuantilesRequest(feature="x", probs=[0.5]))

    def rows(counts: Sequence[int]) -> list[Row]:
        return [(x,) for x, many in enumerate(counts) for _ in range(many)]

    pairs: dict[str, Pair] = {relation: (rows(left), rows(right)) for relation, (left, right) in CELLS.items()}
    cases = cases_of("quantiles", "median", run, NUMBERS, pairs, {"level-1": 0.5}, dearer=2)
    return cases + cases_of("quantiles", "median", run, NUMBERS, pairs, {"count": 0.99}, protections=ADD_REMOVE)
