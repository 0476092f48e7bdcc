"""Performance: counts by score, target and group, of one class or of several; sums of a regression."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from dpexplain.audit.cases import Case, Pair, cases_of
from dpexplain.audit.worst_cases import asks
from dpexplain.core.domain import Categorical, Domain, Numeric
from dpexplain.methods.performance.request import PerformanceRequest
from dpexplain.models import Model

if TYPE_CHECKING:
    import pandas as pd

Floats = NDArray[np.float64]

JUDGED = Domain({"g": Categorical(["a", "b"]), "flag": Categorical([0, 1]), "y": Categorical([0, 1])})
SCORED = Domain({"g": Categorical(["a", "b"]), "score": Numeric(1, 10, integer=True), "y": Categorical([0, 1])})
NUMBERS = Domain({"g": Categorical(["a", "b"]), "f": Numeric(0, 1), "y": Numeric(0, 1)})


def _flag(rows: pd.DataFrame) -> Floats:
    return rows["flag"].to_numpy(dtype=float)


class _Flags:
    """A classifier that is sure of the flag."""

    classes_ = np.array([0, 1])

    def predict(self, rows: Any) -> Any:
        return rows[:, 0]

    def predict_proba(self, rows: Any) -> Floats:
        one = np.asarray(rows, dtype=float)[:, 0]
        return np.stack([1 - one, one], axis=1)


FLAG = Model(_flag, output=(0, 1), features=["flag"], name="flag", version="1")
FLAGS = Model(_Flags(), output=(0, 1), label=1, features=["flag"], name="flags", version="1")


def of_performance() -> list[Case]:
    """The row changes its score cell, its target and its group: it leaves one cell of each histogram for another."""
    counted, parts = _pairs(("a", 1, 1), ("b", 0, 0)), {"counts": 0.99}
    decided = {**parts, "decisions": 0.99}  # cells are so many that a table of decisions is worth its price
    by: tuple[Any, ...] = ("g", ("g", "flag"))
    every = [
        ("everybody", asks(PerformanceRequest(target="y", cells=2), FLAG), JUDGED),
        ("by group", asks(PerformanceRequest(target="y", groups=by, cells=2), FLAG), JUDGED),
        ("all classes", asks(PerformanceRequest(target="y", groups=by[:1], all_classes=True, cells=2), FLAGS), JUDGED),
    ]
    many = asks(PerformanceRequest(target="y", groups=by, cells=100), FLAG)
    cases = [case for form, run, domain in every for case in cases_of("performance", form, run, domain, counted, parts)]
    cases += cases_of("performance", "many cells", many, JUDGED, counted, decided)
    score = asks(PerformanceRequest(target="y", score="score", groups=["g"]))
    cases += cases_of("performance", "score column", score, SCORED, _pairs(("a", 10, 1), ("b", 1, 0)), parts)
    return cases + _regressions()


def _regressions() -> list[Case]:
    """Residual and target are as large as they can be (y = 1 predicted as 0). By group, a row that is nearly as far off
    takes its place, in the other group and the next cell of predictions. Without groups both rows add to the same
    sums: y = 0 predicted as 1 moves them most, and with units the bound has room for a count that does not move.
    """
    far, next_to, turned = ("a", 0.0, 1.0), ("b", 0.1, 1.0), ("b", 1.0, 0.0)
    by = asks(PerformanceRequest(target="y", score="f", groups=["g"]))
    everybody = asks(PerformanceRequest(target="y", score="f"))
    return [
        *cases_of("performance", "regression by group", by, NUMBERS, _pairs(far, next_to), {"sums": 0.94}),
        *cases_of(
            "performance", "regression", everybody, NUMBERS, _pairs(far, turned), {"sums": 0.88}, units={"sums": 0.55}
        ),
    ]


def _pairs(one: Sequence[Any], other: Sequence[Any]) -> dict[str, Pair]:
    first, second = tuple(one), tuple(other)
    return {"replace-one": ([first, first], [first, second]), "add-remove": ([first], [first, first])}
