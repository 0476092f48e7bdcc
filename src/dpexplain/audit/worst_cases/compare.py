"""Comparisons of two models: the row decides both answers, one against the other."""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from dpexplain.audit.cases import Case, Pair, Run, cases_of
from dpexplain.audit.worst_cases import asks
from dpexplain.audit.worst_cases.effects import FLAGS, FLIPPED
from dpexplain.audit.worst_cases.importance import COLUMN, of_groups
from dpexplain.core.domain import Categorical, Domain
from dpexplain.methods.compare.request import Compare
from dpexplain.methods.partial_dependence.request import PartialDependence
from dpexplain.methods.performance.request import PerformanceRequest
from dpexplain.methods.permutation_importance.request import PermutationImportance
from dpexplain.models import Model, ModelPair

if TYPE_CHECKING:
    import pandas as pd

Floats = NDArray[np.float64]


def _flag(rows: pd.DataFrame) -> Floats:
    return rows["flag"].to_numpy(dtype=float)


def _against(rows: pd.DataFrame) -> Floats:
    return 1 - _flag(rows)


# where one says yes the other says no: a row moves the difference from one end of its range to the other
PAIR = ModelPair(
    Model(_against, output=(0, 1), features=["flag"], name="against", version="1"),
    Model(_flag, output=(0, 1), features=["flag"], name="flag", version="1"),
)
SEEN = Domain({"flag": Categorical([0, 1]), "y": Categorical([0, 1]), "g": Categorical(["a", "b"])})
RIGHT, WRONG = (1, 1, "a"), (0, 1, "b")


def _mirrored(rows: pd.DataFrame) -> Floats:
    return 3 - np.asarray(COLUMN.original(rows))


# where one is right the other is as wrong as can be
MIRRORED = ModelPair(Model(_mirrored, output=(0, 3), features=["b", "c"], name="mirrored", version="1"), COLUMN)


def of_compare() -> list[Case]:
    """Curves, importances and rates of two models that contradict each other."""
    curve = asks(Compare(request=PartialDependence(feature="g")), PAIR)
    narrow = asks(Compare(request=PartialDependence(feature="g", rug=False), limit=0.25), PAIR)
    of = partial(cases_of, "compare", domain=FLAGS, pairs=FLIPPED, units={"curve": 0.44})
    cases = of("curve", curve, parts={"curve": 0.99, "rug": 0.99})
    cases += of("curve, limited", narrow, parts={"curve": 0.99})
    pairs: dict[str, Pair] = {"replace-one": ([RIGHT, RIGHT], [RIGHT, WRONG]), "add-remove": ([RIGHT], [RIGHT, RIGHT])}
    for form, groups in (("rates", []), ("rates by group", ["flag", "g"])):
        rates = asks(Compare(request=PerformanceRequest(target="y", groups=groups)), PAIR)
        cases += cases_of("compare", form, rates, SEEN, pairs, {"counts": 0.99})

    def run(**options: Any) -> Run:
        asked = PermutationImportance(target="y", features=["b"], **options)
        return asks(Compare(request=asked), MIRRORED)

    return cases + of_groups(partial(cases_of, "compare", "importance"), run)
