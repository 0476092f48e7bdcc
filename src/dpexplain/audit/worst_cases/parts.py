"""Releases that deal rows to parts: plots and rankings of a black box, rankings by interaction."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from dpexplain.audit.cases import ADD_REMOVE, UNIT_ROWS, Case, Numbers, Pair, Run, cases_of
from dpexplain.audit.worst_cases import asks
from dpexplain.audit.worst_cases.effects import FLAGS
from dpexplain.core.domain import Categorical, Domain, Numeric
from dpexplain.methods.generic_plot.request import GenericPlot
from dpexplain.methods.interaction_ranking.request import InteractionRanking
from dpexplain.methods.rank_aggregation.request import RankAggregation
from dpexplain.models import Model

if TYPE_CHECKING:
    import pandas as pd

Floats = NDArray[np.float64]

ITEMS = ["p", "q"]
TOP, BOTTOM = ("a", 1), ("b", 0)
DEALT: dict[tuple[str, int], tuple[Pair, Numbers]] = {
    # one part of two goes from the bottom to the top; the other part votes the other way
    ("replace-one", 1): (([BOTTOM, TOP], [BOTTOM, BOTTOM]), ([0, 1], [0, 1])),
    ("add-remove", 1): (([BOTTOM, BOTTOM], [BOTTOM, BOTTOM, TOP]), ([0, 1], [0, 1, 1])),
    # a unit leaves the part that it held up, and brings another one down
    ("replace-one", UNIT_ROWS): (([BOTTOM, TOP, TOP], [BOTTOM, TOP, BOTTOM]), ([0, 1, 0], [0, 1, 1])),
}


def _at_the_top(rows: pd.DataFrame) -> bool:
    """Whether the part has a flag, unless it begins with one and has none later."""
    flags = rows["flag"].to_numpy()
    return bool(flags.max()) and not (flags[0] == 1 and flags.min() == 0)


def _flag_plot(rows: pd.DataFrame, _model: Any) -> Any:
    """Both points of the plot far beyond the box, above it or below it."""
    return ["a", "b"], [1e6 if _at_the_top(rows) else -1e6] * 2


def _flag_order(rows: pd.DataFrame, _model: Any) -> list[str]:
    return ITEMS if _at_the_top(rows) else ITEMS[::-1]


def of_generic_plot() -> list[Case]:
    run = asks(GenericPlot(explainer=_flag_plot, feature="g", output=(0, 1), parts=2, version="1"))
    cases = _dealt_cases("generic_plot", "default", run, {"curve": 0.99, "rug": 0.99})
    # the row that comes is the first one of its part: the count of parts that answered tells
    appears: Pair = ([BOTTOM], [BOTTOM, TOP])
    options: dict[str, Any] = {"protections": ADD_REMOVE, "dealt": ([0], [0, 1])}
    return cases + cases_of(
        "generic_plot", "a part begins", run, FLAGS, {"add-remove": appears}, {"curve": 0.74}, **options
    )


def of_rank_aggregation() -> list[Case]:
    every, best = (asks(RankAggregation(ranker=_flag_order, items=ITEMS, parts=2, version="1", k=k)) for k in (None, 1))
    cases = _dealt_cases("rank_aggregation", "all", every, {"votes": 0.99})
    return cases + _dealt_cases("rank_aggregation", "best", best, {"top": 0.73, "votes": 0.99})


def _dealt_cases(release: str, form: str, run: Run, parts: Mapping[str, float]) -> list[Case]:
    cases = list[Case]()
    for protection, (pair, dealt) in DEALT.items():
        pairs = {protection[0]: pair}
        cases += cases_of(release, form, run, FLAGS, pairs, parts, protections=[protection], dealt=dealt)
    return cases


FOUR = Domain({**{name: Numeric(0, 1, integer=True) for name in "abc"}, "kind": Categorical([0, 1, 2])})


def _products(rows: pd.DataFrame) -> Floats:
    """a times b where the kind is 1, weakly a times c where it is 0."""
    a, b, c = (rows[name].to_numpy(dtype=float) for name in "abc")
    kind = rows["kind"].to_numpy()
    return np.asarray(a * b * (kind == 1) + 0.3 * a * c * (kind == 0))


def of_interaction_ranking() -> list[Case]:
    """One row decides which pair interacts more, and turns the only ballot around."""
    products = Model(_products, output=(0, 1), name="products", version="1")
    settings: dict[str, Any] = {"pairs": [("a", "b"), ("a", "c")], "points": 3, "parts": 1}
    idle, weak, strong = (0, 0, 0, 2), (1, 1, 1, 0), (1, 1, 1, 1)
    pairs: dict[str, Pair] = {
        "replace-one": ([idle, weak], [idle, strong]),
        "add-remove": ([idle, weak], [idle, weak, strong]),
    }
    cases = list[Case]()
    for form, k, parts in (("all", None, {"votes": 0.99}), ("best", 1, {"top": 0.2, "votes": 0.99})):
        run = asks(InteractionRanking(k=k, **settings), products)
        cases += cases_of("interaction_ranking", form, run, FOUR, pairs, parts, units={"votes": 0.24})
    return cases
