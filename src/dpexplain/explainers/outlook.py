"""What a release will be worth, told before it: the common form in which explainers answer `dpx.plan`."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from dpexplain.core.domain import Domain, PublicRange
from dpexplain.core.sensitivity import Neighbours
from dpexplain.results import Marginals

LEVEL = 0.95
# for whoever needs Gaussian noise and has a pure account
OPEN_WITH_DELTA = (
    "an account keeps its kind: open another one with a delta, by another name, "
    "budget=dpx.Budget(epsilon=2.0, delta=1e-6). What was spent from this one was spent on the same people. "
    "dpx.plan compares both kinds before anything is spent"
)


@dataclass(frozen=True)
class Setting:
    """All that is public about a release: the domain, the model's output range, label and columns, who is protected.

    rows   about how many there are, for telling the error; `hint` is what the table itself may choose grids by
    marginals  that were released before, where they will be handed over
    """

    domain: Domain
    output: PublicRange
    neighbours: Neighbours
    rows: int
    hint: int | None
    label: Any = None
    features: Sequence[str] | None = None
    marginals: Marginals | None = None


@dataclass(frozen=True)
class Outlook:
    """The noise at one price: half-widths of 95 % intervals, in the units of the result, before smoothing.

    error   of each value; `band` of all values at once; `rug_error` of a rug's count in rows, None without a rug
    note    what a reader of the forecast has to know besides
    """

    law: str
    points: int
    std: float
    error: float
    band: float
    rug_error: float | None = None
    note: str = ""
