"""All that is public about a release before it, and what it will be worth: for choices of methods, and `dpx.plan`."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any

from dpexplain.core.budget import Budget
from dpexplain.core.domain import Domain, PublicRange
from dpexplain.core.sensitivity import Assignment, Neighbours
from dpexplain.data.assignment import assignment_for
from dpexplain.models import Model

if TYPE_CHECKING:
    from dpexplain.data.table import PrivateTable
    from dpexplain.methods.marginals.result import Marginals
    from dpexplain.methods.performance.result import Performance
    from dpexplain.methods.stand_in.result import StandIn

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
    row_id a declared id, by which rows may be dealt to parts
    marginals  that were released before, where they will be handed over; likewise `performance` and `stand_in`
    model   that will be explained, where it is at hand: forecasts may try it on public rows
    tried   what came of that, kept for other costs of the same plan
    budget  the account that will pay, where there is one
    worth   rows that synthetic rows are taken to be worth: errors are those of sharpened values then, where a method
            can tell; without it, those of released values
    """

    domain: Domain
    output: PublicRange
    neighbours: Neighbours
    rows: int
    hint: int | None
    label: Any = None
    features: Sequence[str] | None = None
    marginals: Marginals | None = None
    model: Model | None = None
    tried: dict[Any, Any] = field(default_factory=dict)
    row_id: str | None = None
    budget: Budget | None = None
    performance: Performance | None = None
    stand_in: StandIn | None = None
    worth: float | None = None

    @classmethod
    def of(
        cls, table: PrivateTable, model: Any = None, *, rows: int | None = None, marginals: Marginals | None = None
    ) -> Setting:
        """The setting of a table and a model (or of anything without an output range of its own)."""
        about = rows or table.rows_hint or 1000
        setting = cls.declared(table.domain, table.neighbours, model, rows=about, hint=table.rows_hint)
        hint, row_id, budget = table.rows_hint, table.row_id, table.budget
        return replace(setting, hint=hint, marginals=marginals, row_id=row_id, budget=budget)

    @classmethod
    def declared(
        cls, domain: Domain, neighbours: Neighbours, model: Any = None, *, rows: int, hint: int | None
    ) -> Setting:
        """The setting of a table that need not be there yet; where its size is public, the hint is `rows`."""
        return cls(
            domain,
            getattr(model, "output", PublicRange(0.0, 1.0)),
            neighbours,
            rows,
            rows if neighbours.rows_public else hint,
            getattr(model, "label", None),
            model.features(domain) if callable(getattr(model, "features", None)) else None,
            model=model if isinstance(model, Model) else None,
        )

    @property
    def assignment(self) -> Assignment:
        """How rows are dealt to parts."""
        return assignment_for(self.neighbours, self.row_id)


@dataclass(frozen=True)
class Outlook:
    """What one cost buys, in the units of the result, for released values as they are.

    error     to expect: 95 % of released values lie within this of the exact ones
    interval  half of the width of the 95 % interval that will be printed; None where it is `error`
    wider     why, where it is not: "they include ..."
    band      half of the width of intervals that hold all values at once
    rug_error of a rug's count in rows, None without a rug
    note      what a reader of the forecast has to know besides
    """

    law: str
    points: int
    std: float
    error: float
    band: float
    rug_error: float | None = None
    note: str = ""
    interval: float | None = None
    wider: str = ""
