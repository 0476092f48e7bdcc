"""Outcomes and sizes of two groups that a performance has released before: what a disparity need not pay for again.

A performance by the columns of the group has counted the rows of the group, and of all others, in each score cell.
With the threshold at an edge of the cells, noisy counts of positive outcomes P' and of rows n' of both groups follow.
What is left to release for each set S of inputs are the sums A(S) of K/2 - o(S), and

    n (mean of o() - o(S)) = A(S) + K P - K/2 n

With z the noise of A(S), y that of the cells, and kappa the true mean of o() - o(S),

    A'(S) + K P' - K/2 n' - kappa n' = z + (K/2 - kappa) (y over positive cells) - (K/2 + kappa) (y over the others)

whose law is known for each kappa: the two noises are independent.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING, Any, cast

import numpy as np
from numpy.typing import NDArray

from dpexplain.core.domain import Categorical
from dpexplain.errors import InputError
from dpexplain.maths.scores import ScoreTable
from dpexplain.maths.tails import Term, combined_halfwidth
from dpexplain.methods.histogram import released_by

if TYPE_CHECKING:
    from dpexplain.data.groups import Group
    from dpexplain.data.table import PrivateTable
    from dpexplain.methods.influence.request import InfluenceRequest
    from dpexplain.methods.influence.spec import Spec
    from dpexplain.methods.performance.result import Performance
    from dpexplain.models import Model

Floats = NDArray[np.float64]

OTHERWISE = "leave performance out: then all of it is released here"


@dataclass(frozen=True, eq=False)
class KnownRates:
    """The noisy tables of a group and of all others, and from which score on an outcome is positive."""

    tables: tuple[ScoreTable, ScoreTable]
    threshold: float

    @cached_property
    def _positive(self) -> NDArray[np.bool_]:
        return np.asarray(self.tables[0].edges[:-1] >= self.threshold)

    @cached_property
    def counts(self) -> Floats:
        """The rows of both groups."""
        return np.array([table.estimates.sum() for table in self.tables])

    @cached_property
    def positives(self) -> Floats:
        """Those with a positive outcome."""
        return np.array([table.estimates[self._positive].sum() for table in self.tables])

    def terms(self, *factors: tuple[float, float]) -> list[Term]:
        """The noise of the cells of both groups, with these factors for positive and for other outcomes of each: one
        term for each part of the performance, so that a law without independence is respected.
        """
        each = [
            table.terms(np.repeat(np.where(self._positive, *pair)[:, None], 2, axis=1))
            for table, pair in zip(self.tables, factors, strict=True)
        ]
        return [(noise, np.concatenate([first, second])) for (noise, first), (_, second) in zip(*each, strict=True)]

    def reach(self, block: int, level: float) -> float:
        """Half the interval of the number of rows of a group."""
        return combined_halfwidth(self.tables[block].terms(np.ones_like(self.tables[block].counts)), 0.0, level)

    def unsure(self, level: float) -> float:
        """How far the numbers of rows may be off, as a part of themselves, at most."""
        return float(max(self.reach(block, level) / n for block, n in enumerate(self.counts)))


def checked_performance(table: PrivateTable, model: Model, found: Any, request: InfluenceRequest) -> Performance:
    """A performance whose rates can be shared, if this table's account has released it for this very model.

    What a file says is not enough: its cost becomes part of a guarantee.
    """
    require_use(found, request)
    if found.receipt.request["table"] != table.identity:
        raise InputError("this performance was released from another table, or from another version of it.")
    if not model.versioned:
        raise InputError("a model without a version may be another one each time.", hint="give it a version")
    if found.receipt.request.get("model") != model.identity:
        raise InputError("this performance is about another model.", hint=OTHERWISE)
    if not released_by(table, found):
        raise InputError(
            "the account of this table has not released this performance.",
            hint="release it from it: dpx.performance(table, ...)",
        )
    return cast("Performance", found)


def require_use(found: Any, request: InfluenceRequest) -> None:
    """Refuse what is no performance, and questions that have no use for one."""
    from dpexplain.methods.performance.result import Performance

    if not isinstance(found, Performance):
        raise InputError("performance must be a result of dpx.performance.")
    if request.quantity != "disparity" or request.aggregate != "unary" or request.given or request.method == "paper":
        raise InputError(
            "the rates of a performance serve a disparity, each item by itself.",
            hint='quantity="disparity", aggregate="unary" without given, or leave performance out',
        )


def rates_of(found: Performance, group: Group, threshold: float | None) -> KnownRates:
    """What the performance tells about this group and all others at this threshold."""
    if threshold is None or found.task != "binary":
        raise InputError(
            "a performance tells rates of classes, not mean scores.", hint=f'outcome="class", or {OTHERWISE}'
        )
    domain = found.domain
    if domain is None:
        raise InputError("this performance does not say what was declared.", hint=OTHERWISE)
    for condition in group.conditions:
        if condition.values is None or not isinstance(domain[condition.column], Categorical):
            raise InputError("rates can be shared for groups by categories.", hint=OTHERWISE)
    fits = [by for by in found.by if set(group.columns) <= set(by)]
    if not fits:
        raise InputError(
            f"this performance is not by {' and '.join(group.columns)}.",
            hint=f"dpx.performance(..., groups=[{', '.join(map(repr, group.columns))}]), or {OTHERWISE}",
        )

    by = min(fits, key=lambda by: len(found.cells_of(by)))  # as `Performance.figure` chooses: the same numbers

    def inside(cell: Mapping[str, Any]) -> bool:
        return all(condition.values and cell[condition.column] in condition.values for condition in group.conditions)

    cells = found.cells_of(by)
    known = KnownRates(
        (
            found.table_of(by, [inside(cell) for cell in cells]),
            found.table_of(by, [not inside(cell) for cell in cells]),
        ),
        threshold,
    )
    if threshold not in known.tables[0].edges[1:-1]:
        raise InputError(
            f"this performance has no cells that end at the threshold {threshold:g}.",
            hint=f"its own threshold is {found.threshold:g}; use that, or {OTHERWISE}",
        )
    return known


def of_spec(found: Performance | None, spec: Spec) -> KnownRates | None:
    """What a result of this spec is computed from."""
    if spec.rates is None:
        return None
    if found is None or found.receipt.entry.payload_hash != spec.rates or spec.group is None:
        raise ValueError("the performance that this was computed from is not at hand")
    return rates_of(found, spec.group, spec.outcome.threshold)
