"""Influence, of everybody and of a person, and transparency reports."""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from dpexplain.audit.cases import PROTECTIONS, Case, Pair, cases_of
from dpexplain.audit.worst_cases.importance import SWAP
from dpexplain.core.budget import Cost
from dpexplain.core.domain import Categorical, Domain
from dpexplain.data.table import PrivateTable
from dpexplain.methods.influence import release as influence
from dpexplain.methods.transparency import release as transparency
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


def of_influence() -> list[Case]:
    """All released rows have s = b and t = 0, so that what `s` is replaced by is no matter of chance."""

    def run(table: PrivateTable, cost: Cost, **options: Any) -> Any:
        request = influence.InfluenceRequest(**{"features": ["s"], "outcome": "score", "samples": 1, **options})
        return influence.explain(table, TOLD, request, cost=cost)

    up, down, still, away = ("a", 0, 0, "x"), ("a", 0, 1, "x"), ("b", 0, 0, "x"), ("a", 0, 1, "y")
    name = "influence"
    only_b: dict[str, Any] = {"answers": {0: [0, 5]}}
    moved: dict[str, Pair] = {"replace-one": ([up, up], [up, still]), "add-remove": ([up], [up, up])}
    turned: dict[str, Pair] = {"replace-one": ([up, up], [up, down]), "add-remove": ([up], [up, up])}
    crossed: dict[str, Pair] = {"replace-one": ([up, up], [up, away]), "add-remove": ([up], [up, up])}
    group: dict[str, Any] = {"group": {"g": "x"}}
    paper = partial(run, method="paper", seed=SWAP)
    shared: dict[str, Any] = {"features": ["s", "t"], "aggregate": "shapley", "samples": None, **group}
    shapley = partial(run, quantity="group", exact=True, **shared)
    rates = partial(run, quantity="disparity", exact=False, most_predictions=300_000, **shared)  # one draw
    return [
        *cases_of(name, "average", run, PEOPLE, moved, {"counts": 0.99, "influences": 0.79}, **only_b),
        *cases_of(
            name, "group", partial(run, quantity="group", **group), PEOPLE, turned, {"influences": 0.99}, **only_b
        ),
        *cases_of(
            name,
            "disparity",
            partial(run, quantity="disparity", **group),
            PEOPLE,
            crossed,
            {"influences": 0.74},
            **only_b,
        ),
        *cases_of(name, "shapley", shapley, PEOPLE, turned, {"influences": 0.99}, answers={0: [0, 5, 5, 0]}),
        *cases_of(
            name,
            "rates",
            rates,
            PEOPLE,
            turned,
            {"influences": 0.85},
            units={"influences": 0.74},
            answers={0: [0, 5, 5, 0]},
        ),
        *cases_of(name, "paper", paper, PEOPLE, moved, {"influences": 0.99}, protections=PROTECTIONS[:1]),
    ]


PERSON = {"s": "a", "t": 0, "u": 0, "g": "x"}


def of_persons() -> list[Case]:
    """What is released for a person is the marginals of the table."""

    def run(table: PrivateTable, cost: Cost) -> Any:
        request = influence.InfluenceRequest(quantity="individual", features=["s"], row=PERSON, outcome="score")
        return influence.explain(table, TOLD, request, cost=cost)

    up, still = ("a", 0, 0, "x"), ("b", 0, 0, "x")
    moved: dict[str, Pair] = {"replace-one": ([up, up], [up, still]), "add-remove": ([up], [up, up])}
    return cases_of("persons", "individual", run, PEOPLE, moved, {"counts": 0.99})


def of_every_influence() -> list[Case]:
    """Everything that `dpx.influence` releases."""
    return [*of_influence(), *of_persons()]


def of_transparency() -> list[Case]:
    """A row keeps its cell, and its outcome is turned over."""
    request = transparency.TransparencyRequest(features=["s"], outcome="score", row=PERSON)

    def run(table: PrivateTable, cost: Cost) -> Any:
        return transparency.explain(table, TOLD, request, cost=cost)

    up, down, still = ("a", 0, 0, "x"), ("a", 0, 1, "x"), ("b", 0, 0, "x")
    turned: dict[str, Pair] = {"replace-one": ([up, up], [up, down]), "add-remove": ([up], [up, up])}
    moved: dict[str, Pair] = {"replace-one": ([up, up], [up, still]), "add-remove": ([up], [up, up])}
    return [
        *cases_of("transparency", "default", run, PEOPLE, turned, {"outcomes": 0.99}),
        *cases_of("transparency", "default", run, PEOPLE, moved, {"counts": 0.99}),
    ]
