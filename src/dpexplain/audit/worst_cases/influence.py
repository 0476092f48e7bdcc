"""Influence, of everybody and of a person, and transparency reports."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from dpexplain.audit.cases import PROTECTIONS, Case, Pair, Row, Run, cases_of
from dpexplain.audit.worst_cases import asks
from dpexplain.audit.worst_cases.importance import SWAP
from dpexplain.core.budget import Cost
from dpexplain.core.domain import Categorical, Domain
from dpexplain.data.table import PrivateTable
from dpexplain.methods.influence.release import explain
from dpexplain.methods.influence.request import InfluenceRequest
from dpexplain.methods.performance.release import explain as released_performance
from dpexplain.methods.performance.request import PerformanceRequest
from dpexplain.methods.transparency.request import TransparencyRequest
from dpexplain.models import Model

if TYPE_CHECKING:
    import pandas as pd

Floats = NDArray[np.float64]

PEOPLE = Domain(
    {"s": Categorical(["a", "b"]), "t": Categorical([0, 1]), "u": Categorical([0, 1]), "g": Categorical(["x", "y"])}
)


def _told(rows: pd.DataFrame) -> Floats:
    """Whether `s` is a; turned around by `u`."""
    return np.asarray((rows["s"] == "a").to_numpy() != (rows["u"] == 1).to_numpy(), dtype=np.float64)


TOLD = Model(_told, output=(0, 1), features=["s", "t", "u"], name="told", version="1")


UP, DOWN, STILL, AWAY = ("a", 0, 0, "x"), ("a", 0, 1, "x"), ("b", 0, 0, "x"), ("a", 0, 1, "y")
PERSON = {"s": "a", "t": 0, "u": 0, "g": "x"}


def _pairs(other: Row) -> dict[str, Pair]:
    return {"replace-one": ([UP, UP], [UP, other]), "add-remove": ([UP], [UP, UP])}


def _influence(**options: Any) -> Run:
    return asks(InfluenceRequest(**{"features": ["s"], "outcome": "score", **options}), TOLD)


def of_influence() -> list[Case]:
    """All released rows have s = b and t = 0, so that what `s` is replaced by is no matter of chance."""

    def of(form: str, pair: Row, parts: dict[str, float], options: dict[str, Any], **settings: Any) -> list[Case]:
        run = _influence(**{"samples": 1, **options})
        return cases_of("influence", form, run, PEOPLE, _pairs(pair), parts, **settings)

    group: dict[str, Any] = {"group": {"g": "x"}}
    shared: dict[str, Any] = {"features": ["s", "t"], "aggregate": "shapley", "samples": None, **group}
    exact = {"quantity": "group", "exact": True, **shared}
    rates = {"quantity": "disparity", "exact": False, "most_predictions": 300_000, **shared}  # one draw
    one, both = {0: [0, 5]}, {0: [0, 5, 5, 0]}
    person = _influence(quantity="individual", row=PERSON)  # releases the marginals of the table
    return [
        *of("average", STILL, {"counts": 0.99, "influences": 0.79}, {}, answers=one),
        *of("group", DOWN, {"influences": 0.99}, {"quantity": "group", **group}, answers=one),
        *of("disparity", AWAY, {"influences": 0.74}, {"quantity": "disparity", **group}, answers=one),
        *of("shapley", DOWN, {"influences": 0.99}, exact, answers=both),
        *of("rates", DOWN, {"influences": 0.85}, rates, units={"influences": 0.74}, answers=both),
        *of("paper", STILL, {"influences": 0.99}, {"method": "paper", "seed": SWAP}, protections=PROTECTIONS[:1]),
        *_beside_a_performance(),
        *cases_of("persons", "individual", person, PEOPLE, _pairs(STILL), {"counts": 0.99}),
    ]


def _beside_a_performance() -> list[Case]:
    """The rates are those of a performance, released before: the outcome of the row after `s` is replaced is turned
    over, and nothing else is in the sums.
    """
    judged = PerformanceRequest(target="t", positive=1, groups=["g"], cells=2)
    options: dict[str, Any] = {"quantity": "disparity", "group": {"g": "x"}, "outcome": "class", "samples": 1}

    def run(table: PrivateTable, cost: Cost) -> Any:
        known = released_performance(table, TOLD, judged, cost=cost)
        return explain(table, TOLD, InfluenceRequest(features=["s"], **options), cost=cost, performance=known)

    shown = {"2:influences": 0.99}
    return cases_of("influence", "beside a performance", run, PEOPLE, _pairs(DOWN), shown, answers={1: [0, 5]})


def of_transparency() -> list[Case]:
    """A row keeps its cell, and its outcome is turned over; or it changes its cell."""
    run = asks(TransparencyRequest(features=["s"], outcome="score", row=PERSON), TOLD)
    outcomes = cases_of("transparency", "default", run, PEOPLE, _pairs(DOWN), {"outcomes": 0.99})
    return [*outcomes, *cases_of("transparency", "default", run, PEOPLE, _pairs(STILL), {"counts": 0.99})]
