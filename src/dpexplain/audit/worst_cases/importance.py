"""Permutation importance."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from dpexplain.audit.cases import ADD_REMOVE, PROTECTIONS, Case, Pair, Run, cases_of
from dpexplain.audit.worst_cases import asks
from dpexplain.core.budget import Cost
from dpexplain.core.domain import Categorical, Domain, Numeric
from dpexplain.data.public_random import PublicRandom
from dpexplain.data.table import PrivateTable
from dpexplain.methods.marginals.release import explain as released_marginals
from dpexplain.methods.marginals.request import MarginalsRequest
from dpexplain.methods.permutation_importance.release import explain
from dpexplain.methods.permutation_importance.request import PermutationImportance
from dpexplain.models import Model

if TYPE_CHECKING:
    import pandas as pd

Floats = NDArray[np.float64]

TARGET = Domain({"y": Numeric(0, 3, integer=True), "b": Numeric(-1, 1), "c": Categorical(["x", "z"])})
SWAP = next(s for s in range(9) if PublicRandom(s).generator.permutation(2).tolist() == [1, 0])


def _by_column(rows: pd.DataFrame) -> Floats:
    """What `b` says, from 0 to 3; where `c` is z, always 3."""
    return np.where((rows["c"] == "z").to_numpy(), 3.0, 1.5 + 1.5 * rows["b"].to_numpy())


COLUMN = Model(_by_column, output=(0, 3), features=["b", "c"], name="column", version="1")


def of_permutation_importance() -> list[Case]:
    """A group of rows goes from one end of its ball to the other one; a loss goes from 0 to its bound."""

    def run(**options: Any) -> Run:
        return asks(PermutationImportance(target="y", features=["b"], **{"method": "groups", **options}), COLUMN)

    still, wrong = (0, -1.0, "x"), (0, 1.0, "z")
    pairs: dict[str, Pair] = {"replace-one": ([still, still], [still, wrong])}
    paper = partial(cases_of, "permutation_importance", "paper", run(method="paper", seed=SWAP), TARGET)
    listed = of_groups(partial(cases_of, "permutation_importance", "groups"), run)
    listed += paper(pairs, {"errors": 0.99}, protections=PROTECTIONS[:1])
    return listed + _importance_by_marginals(COLUMN)


def of_groups(cases: Callable[..., list[Case]], run: Callable[..., Run]) -> list[Case]:
    """The cases of changes within groups; `run` asks for the importance of `b` with these options."""
    first, agree, disagree = (1, 0.0, "x"), (3, 1.0, "x"), (3, -1.0, "x")
    pairs: dict[str, Pair] = {
        "replace-one": ([first, agree], [first, disagree]),
        "add-remove": ([first, agree], [first, agree, (0, 1.0, "x")]),
    }
    parts, units, three = {"base": 0.99, "changes": 0.99}, {"base": 0.49, "changes": 0.24}, ([0, 1], [0, 1, 2])
    listed = cases(run(clip=0.5, repeats=1), TARGET, pairs, parts, units=units, dealt=three)
    # Nothing changes in a group; then each row is as wrong as can be with the other's value, and that is cut off.
    still, far = (0, -1.0, "x"), (3, 1.0, "x")
    wide: dict[str, Pair] = {
        "replace-one": ([still, still], [still, far]),
        "add-remove": ([still, still], [still, still, far]),
    }
    tight, cut = run(clip=0.05, repeats=1), {"squares": 0.99, "lost": 0.98}
    listed += cases(tight, TARGET, wide, cut, protections=PROTECTIONS[:1], dealt=([0, 1], [0, 1]))
    few = {**cut, "lost": 0.11}  # under add-remove a group may have six rows, of which two change here
    listed += cases(tight, TARGET, wide, few, protections=ADD_REMOVE, dealt=three)
    # One group of two becomes large. The other one, in between, makes a limit above it better and one below it worse.
    near = (1, -0.9955, "x")
    moved: dict[str, Pair] = {"replace-one": ([still, still, still, near], [still, far, still, near])}
    chosen, places = run(repeats=1), ([0, 2, 1, 3], [0, 2, 1, 3])
    listed += cases(chosen, TARGET, moved, {"limit": 0.3}, protections=PROTECTIONS[:1], dealt=places)
    rest = [still, near, still]
    moved = {"add-remove": ([still, still, still, *rest], [still, still, still, *rest, far])}
    numbers = ([0, 2, 4, 1, 3, 5], [0, 2, 4, 1, 3, 5, 6])
    return listed + cases(chosen, TARGET, moved, {"limit": 0.3}, protections=ADD_REMOVE, dealt=numbers)


def _importance_by_marginals(model: Model) -> list[Case]:
    """Each row by itself, and all released rows have c = x: what `c` is replaced by is no matter of chance."""

    def run(table: PrivateTable, cost: Cost, clip: float | None) -> Any:
        known = released_marginals(table, None, MarginalsRequest(features=["c"]), cost=cost)
        request = PermutationImportance(target="y", features=["c"], method="marginals", clip=clip, repeats=1)
        return explain(table, model, request, cost=cost, marginals=known)

    still, worse, better, near = (0, -1.0, "x"), (3, -1.0, "z"), (0, -1.0, "z"), (3, 0.96, "z")
    moved: dict[str, Pair] = {"replace-one": ([still, worse], [still, better]), "add-remove": ([still], [still, worse])}
    passed: dict[str, Pair] = {  # `near` is the row in between
        "replace-one": ([near, still], [near, worse]), "add-remove": ([near, still], [near, still, worse])
    }  # fmt: skip
    appeared: dict[str, Pair] = {
        "replace-one": ([still, still], [still, worse]), "add-remove": ([still], [still, worse])
    }  # fmt: skip
    cases = partial(cases_of, "permutation_importance", "by marginals", answers={0: [5, 0]})
    limited = partial(run, clip=0.05)
    return [
        *cases(partial(run, clip=0.5), TARGET, moved, {"2:changes": 0.99}),
        *cases(partial(run, clip=None), TARGET, passed, {"2:limit": 0.77}),
        *cases(limited, TARGET, appeared, {"2:squares": 0.99, "2:lost": 0.98}),
    ]
