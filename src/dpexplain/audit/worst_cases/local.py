"""Local explanations, the adaptive explainer, the sketch."""

from __future__ import annotations

import math
from collections.abc import Sequence
from functools import partial
from operator import itemgetter
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from dpexplain.audit.cases import ZCDP_ONLY, Case, Pair, Row, cases_of
from dpexplain.audit.worst_cases import asks
from dpexplain.core.budget import Cost
from dpexplain.core.domain import Domain, Numeric
from dpexplain.data.table import PrivateTable
from dpexplain.methods.adaptive.release import AdaptiveExplainer
from dpexplain.methods.local_explanation.request import LocalExplanation
from dpexplain.methods.local_sketch.request import LocalSketchRequest
from dpexplain.models import Model

if TYPE_CHECKING:
    import pandas as pd

Floats = NDArray[np.float64]

_cases = partial(cases_of, definitions=ZCDP_ONLY)
COLUMN = Domain({"f": Numeric(0, 1)})
SQUARE = Domain({"a": Numeric(0, 1), "b": Numeric(0, 1)})


def _jump(rows: pd.DataFrame) -> Floats:
    return np.sign(rows["b"].to_numpy() - 0.365)


def of_local_explanation() -> list[Case]:
    return [*_moments(), *_gradients()]


def _moments() -> list[Case]:
    """A row of the largest moments comes; or a row keeps its place, nearly, and its score is turned over."""
    model = Model(_jump, output=(-1, 1), name="jump", version="1")
    run = asks(LocalExplanation(record=[0, 0], method="moments", anchor="middle"), model)
    far, above, below = (1.0, 1.0), (0.0, 0.3655), (0.0, 0.3645)
    pairs: dict[str, Pair] = {
        "add-remove": ([far, far], [far, far, far]),
        "replace-one": ([far, far, above], [far, far, below]),
    }
    cases = _cases("local_explanation", "moments", run, SQUARE, pairs, {"moments": 0.95})
    return cases + _cases("local_explanation", "moments", run, SQUARE, CORNERS, {"average": 0.99})


PLANE = Domain({"x": Numeric(0, 1), "y": Numeric(0, 1)})
# a row, rows that pull the other way, and the pair of gradients that a search found farthest apart
ONES, ZEROS = (1.0, 1.0), (0.0, 0.0)
FAR, OTHER, BEHIND, BESIDE = (0.8, 0.8), (0.7588, 0.7588), (0.71351345, 0.79729884), (0.5048, 0.866)
TO_FAR, BETWEEN = (-0.70710678, -0.70710678), (-0.94985428, 0.31269289)  # coefficients that are most wrong about them
STEPS, PUSH = 3, 2**40  # a released gradient of this length leads to the edge of the ball, wherever the path was
RECORD = {"x": 0.5, "y": 0.5}
CORNERS: dict[str, Pair] = {"add-remove": ([ONES], [ONES, ONES]), "replace-one": ([ONES, ONES], [ONES, ZEROS])}
JOINS: dict[str, Pair] = {"add-remove": ([FAR], [FAR, FAR])}


def _sides(rows: pd.DataFrame) -> Floats:
    """1 on the right, -1 on the left and on most of the diagonal."""
    x, y = rows["x"].to_numpy(), rows["y"].to_numpy()
    return np.where((x >= 0.6) & ((x != y) | (x >= 0.79)), 1.0, -1.0)


SIDES = Model(_sides, output=(-1, 1), name="sides", version="1")


def _to(point: Sequence[float]) -> list[int]:
    """A released gradient after which a path stands at this point of the ball's edge."""
    return [round(-PUSH * x) for x in point]


def _gradients() -> list[Case]:
    """The second step of a path, at the point where a row's gradient is longest."""
    run = asks(LocalExplanation(record=RECORD, method="gradient", anchor=0.0, iterations=STEPS), SIDES)
    name, form, options = "local_explanation", "gradient", {"rows_hint": 2}
    turns: dict[str, Pair] = {"replace-one": ([FAR, BEHIND], [FAR, BESIDE])}
    cases = _cases(name, form, run, PLANE, JOINS, {"count": 0.99})
    for pairs, point, least in ((JOINS, TO_FAR, 0.99), (turns, BETWEEN, 0.79)):
        settings: dict[str, Any] = {"answers": {1: _to(point)}, "options": options}
        cases += _cases(name, form, run, PLANE, pairs, {"gradient-2": least}, **settings)
    return cases


def of_adaptive() -> list[Case]:
    """The next question after a path, or two, that were led to the edge of the ball."""

    def run(table: PrivateTable, cost: Cost, asked: int) -> Any:
        settings: dict[str, Any] = {"iterations": STEPS, "anchor": 0.0, "reuse_distance": 0, "enhanced": asked == 3}
        settings |= {"rho": cost.amount * asked, "per_query": cost.amount}
        explainer = AdaptiveExplainer(table, SIDES, **settings)
        for number in range(1, asked):
            explainer.explain({"x": 0.1, "y": 0.1 * number})
        return explainer.explain(RECORD)

    turns: dict[str, Pair] = {"replace-one": ([FAR, FAR], [FAR, OTHER])}
    parts: dict[str, Pair] = {"replace-one": ([FAR, BEHIND], [FAR, BESIDE])}
    first: dict[str, Pair] = {
        "add-remove": ([FAR, OTHER], [FAR, OTHER, OTHER]),
        "replace-one": ([FAR, OTHER, FAR], [FAR, OTHER, OTHER]),
    }
    steps, beta = range(1, STEPS + 1), STEPS + 2  # every query asks for the average person first
    there = {number: _to(TO_FAR) for number in steps}
    between = {number: _to(BETWEEN) for number in steps} | {beta: [0]}  # and a beta of 0: full steps
    both = there | {beta: [0]} | {number: _to([-x for x in TO_FAR]) for number in range(beta + 1, beta + 3)}
    settings: dict[str, Any] = {"options": {"rows_hint": 2}}
    name, two, three = "adaptive", partial(run, asked=2), partial(run, asked=3)
    one = partial(run, asked=1)
    return [
        *_cases(name, "first", one, PLANE, JOINS, {"count": 0.99}),
        *_cases(name, "first", one, PLANE, CORNERS, {"average": 0.99}),
        *_cases(name, "second", two, PLANE, JOINS | turns, {"2:beta": 0.7}, answers=there, **settings),
        *_cases(name, "second", two, PLANE, JOINS, {"2:gradient-1": 0.99}, answers=there | {beta: [0]}, **settings),
        *_cases(name, "second", two, PLANE, parts, {"2:gradient-1": 0.79}, answers=between, **settings),
        *_cases(name, "third", three, PLANE, first, {"3:choice": 0.49}, answers=both, **settings),
    ]


def of_local_sketch() -> list[Case]:
    """One cell with its centre in the middle, and rows at its radius; a stand-in whose counts all move."""
    domain = Domain({"a": Numeric(0, 1), "b": Numeric(0, 1), "f": Numeric(-1, 1)})
    model = Model(itemgetter("f"), output=(-1, 1), name="f", version="1")
    given = asks(LocalSketchRequest(features=["a", "b"], centres=[(0.5, 0.5)], radius=0.3), model)
    drawn = asks(LocalSketchRequest(features=["a", "b"], cells=2), model)

    def at(angle: float, f: float) -> Row:
        return 0.5 + 0.2999 * math.cos(angle), 0.5 + 0.2999 * math.sin(angle), f

    turn = math.acos((1.4**2 - 0.7**2) / 2)  # between two rows of one cell that are as far apart as there can be
    middle = (0.5, 0.5, 0.0)
    pairs: dict[str, Pair] = {
        "add-remove": ([middle], [middle, at(1.0, 1)]),
        "replace-one": ([middle, at(0.3, 1)], [middle, at(0.3 + turn, -1)]),
    }
    cases = _cases("local_sketch", "given centres", given, domain, pairs, {"moments": 0.9})
    ends: dict[str, Pair] = {
        "add-remove": ([(1.0, 1.0, 1.0)], [(1.0, 1.0, 1.0)] * 2),
        "replace-one": ([(1.0, 1.0, 1.0)] * 2, [(1.0, 1.0, 1.0), (0.0, 0.0, -1.0)]),
    }
    cases += _cases("local_sketch", "given centres", given, domain, ends, {"average": 0.99})
    cases += _cases("local_sketch", "default", drawn, domain, pairs, {"marginals": 0.99})
    # the release is that of a stand-in, whose other parts `of_stand_in` has: one column has no pairs
    column = Model(itemgetter("f"), output=(0, 1), name="column", version="1")
    rows, low, high = asks(LocalSketchRequest(method="stand-in"), column), (0.0,), (1.0,)
    flips: dict[str, Pair] = {"replace-one": ([low, low], [low, high]), "add-remove": ([low], [low, low])}
    return cases + cases_of("local_sketch", "stand-in", rows, COLUMN, flips, {"counts": 0.99})
