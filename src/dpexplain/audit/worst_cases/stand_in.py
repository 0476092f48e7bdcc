"""Stand-ins: counts of columns, choices of pairs, counts of pairs, counts by scores."""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from dpexplain.audit.cases import PROTECTIONS, Case, Pair, Row, cases_of
from dpexplain.audit.worst_cases import asks
from dpexplain.core.budget import Definition
from dpexplain.core.domain import Categorical, Domain
from dpexplain.methods.stand_in.request import StandInRequest
from dpexplain.models import Model

if TYPE_CHECKING:
    import pandas as pd

THREE = Domain({name: Categorical(["a", "b"]) for name in "xyz"})
AAA, BBB, AAB, BBA = ("a", "a", "a"), ("b", "b", "b"), ("a", "a", "b"), ("b", "b", "a")


def _first(rows: pd.DataFrame) -> NDArray[np.float64]:
    return np.where(rows["x"] == "b", 1.0, 0.0)


FIRST = Model(_first, output=(0, 1), features=["x", "y", "z"], name="first", version="1")


def _rows(same: int, other: int) -> list[Row]:
    """x and y always agree; z agrees with them in `same` of `same + other` rows."""
    return [AAA, BBB] * same + [AAB, BBA] * other


FLIPPED: dict[str, Pair] = {"replace-one": ([AAA, AAA], [AAA, BBB]), "add-remove": ([AAA], [AAA, AAA])}
# The row leaves (x, y) where too few are and comes where too many are (+2), and the other way round in (x, z) (-2);
# nearly always (x, y) is chosen, so the loss is in what hardly ever comes up
FAR = _rows(120, 80)
RARELY: dict[str, Pair] = {
    "replace-one": ([*FAR, ("a", "b", "a")], [*FAR, AAB]),
    "add-remove": (FAR, [*FAR, AAB]),
}
# The same between (x, z) and (y, z), which are equally far from independence: both are chosen equally often
NEAR = _rows(110, 90)
EQUALLY: dict[str, Pair] = {
    "replace-one": ([*NEAR, ("a", "b", "b")], [*NEAR, ("b", "a", "b")]),
    "add-remove": (NEAR, [*NEAR, ("b", "a", "b")]),
}


def of_stand_in() -> list[Case]:
    """The row changes its cell of every column and of every pair, and scores move as far as they can."""
    columns, tree = asks(StandInRequest(grade="marginals")), asks(StandInRequest(grade="tree"))
    of = partial(cases_of, "stand_in", domain=THREE)
    scores = asks(StandInRequest(grade="marginals"), FIRST)
    cases = of("columns", columns, pairs=FLIPPED, parts={"counts": 0.99})
    for protection in PROTECTIONS:
        # released counts of columns: no cell is rare, and a quarter of the rows is expected in every cell of a pair
        even = [200 * protection[1]] * 6
        tree_of = partial(of, "tree", tree, protections=[protection])
        by_score = partial(of, "scores", scores, protections=[protection])
        cases += by_score(pairs=FLIPPED, parts={"scores": 0.99}, answers={0: even})
        cases += tree_of(pairs=FLIPPED, parts={"counts": 0.99, "pairs": 0.99}, answers={0: even})
        for definition, least in ((Definition.PURE, 0.99), (Definition.ZCDP, 0.01)):
            rarely = partial(tree_of, pairs=RARELY, definitions=[definition], answers={0: even}, drawn=False)
            cases += rarely(parts={"edge-1": least})
        cases += tree_of(pairs=EQUALLY, parts={"edge-2": 0.9}, answers={0: even, 1: [0]}, drawn=False)
    return cases
