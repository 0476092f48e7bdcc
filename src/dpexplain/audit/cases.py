"""A part of a release on two neighbouring tables: what an audit of the product is about.

A `Case` is one part of one release under one protection (relation, unit) and definition: two tiny neighbouring tables,
the request, and where needed the history after which the part tells most. `Case.captured` turns it into exact numbers
on both sides. The cost of the whole release is chosen so that the part itself costs what shows defects best: an audit
at epsilon 0.1 could see nothing.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from fractions import Fraction
from functools import partial
from typing import Any

import numpy as np
from numpy.typing import NDArray

from dpexplain.audit.calls import Sum
from dpexplain.audit.capture import FreeAccount, Part, capture
from dpexplain.core.budget import Budget, Cost, Definition, pure, zcdp
from dpexplain.core.domain import Domain
from dpexplain.core.sensitivity import Assignment, Neighbours, Unit
from dpexplain.data.assignment import Ids, Secrets, Tags
from dpexplain.data.table import PrivateTable
from dpexplain.errors import InternalError

Row = tuple[Any, ...]
Pair = tuple[Sequence[Row], Sequence[Row]]
Numbers = tuple[Sequence[int], Sequence[int]]
Run = Callable[[PrivateTable, Cost], Any]

UNIT_ROWS = 2
PROTECTIONS = (("replace-one", 1), ("add-remove", 1), ("replace-one", UNIT_ROWS))
ADD_REMOVE = PROTECTIONS[1:2]
PRICES = {Definition.PURE: pure(Fraction(3, 2)), Definition.ZCDP: zcdp(2)}  # where a 20 % defect shows best
CHOICES = {Definition.PURE: pure(2), Definition.ZCDP: zcdp(Fraction(1, 2))}  # the same for choices
BUDGETS = {Definition.PURE: Budget(1), Definition.ZCDP: Budget(1, Fraction(1, 10**6))}
BOTH, ZCDP_ONLY = (Definition.PURE, Definition.ZCDP), (Definition.ZCDP,)


@dataclass(frozen=True)
class Case:
    """One part of one release, on two neighbouring tables.

    least    the share of the cost that the exact loss on this pair comes to, at least: the slack of pair and bound
    answers  what the sampler answers to its n-th call, where the worst case needs another history than the exact one
    dealt    the secret numbers of the rows on both sides, where rows are dealt by such
    drawn    whether draws can show the loss; not where it lies in outcomes of a choice that hardly ever come up
    dearer   how many times the usual epsilon is paid, where a pair shows only a small part of it
    """

    release: str
    form: str
    part: str
    relation: str
    rows: int  # of a unit; 1: a unit is a row
    definition: Definition
    domain: Domain
    pair: Pair
    run: Run = field(repr=False)
    least: float = 0.99
    answers: Mapping[int, Any] = field(default_factory=dict)
    dealt: Numbers | None = None
    drawn: bool = True
    dearer: int = 1
    options: Mapping[str, Any] = field(default_factory=dict)

    def __str__(self) -> str:
        unit = "" if self.rows == 1 else f", units of {self.rows} rows"
        return f"{self.release} ({self.form}), {self.part}, {self.relation}{unit}, {self.definition.value}"

    def table(self, side: int) -> PrivateTable:
        """One of the two tables. Every unit has all its rows, and they are equal."""
        import pandas as pd

        rows = [(*row, number) for number, row in enumerate(self.pair[side])]
        frame = pd.DataFrame(rows * self.rows, columns=[*self.domain, "id"])
        settings: dict[str, Any] = {
            "domain": self.domain,
            "budget": BUDGETS[self.definition],
            "relation": self.relation,
        }
        settings |= {"ledger": NoLedger(), "name": "audit", **self.options}
        unit = None if self.rows == 1 else Unit("id", self.rows)
        table = PrivateTable(frame, unit=unit, **settings)
        if self.dealt is not None:
            table.secrets = partial(GivenNumbers, list(self.dealt[side]) * self.rows)
        return table

    def parts(self, cost: Cost) -> list[Part]:
        """Every part of the release at this cost, captured on both sides."""
        return capture(self.table(0), self.table(1), lambda table: self.run(table, cost), self.answers)

    def captured(self, price: Cost | None = None) -> Part:
        """The part, in a release of such a cost that the part itself costs `price`."""
        first = self._named(self.parts(PRICES[self.definition]))
        usual = (PRICES if isinstance(first.left[0], Sum) else CHOICES)[self.definition]
        dearer = self.dearer if self.definition is Definition.PURE else self.dearer**2
        wanted = usual * dearer if price is None else price
        if first.cost == wanted:
            return first
        return self._named(self.parts(PRICES[self.definition] * (wanted.amount / first.cost.amount)))

    def _named(self, parts: Iterable[Part]) -> Part:
        for part in parts:
            if part.name == self.part:
                return part
        raise InternalError(f"the release has no part {self.part!r}")


class NoLedger:
    """Audits spend nothing: they are about made-up rows."""

    def account(self, _name: str, *, budget: Budget, neighbours: Neighbours, **_: Any) -> FreeAccount:
        return FreeAccount(budget, neighbours)


class GivenNumbers(Secrets):
    """Rows are dealt by given numbers: the same secret for two neighbouring tables."""

    def __init__(self, numbers: Sequence[int]) -> None:
        self._numbers = np.array(numbers, dtype=np.int64)

    def order(self, size: int) -> NDArray[np.int64]:
        return np.arange(size)

    def uniform(self, size: int) -> NDArray[np.float64]:
        return np.zeros(size)

    def tags(self, _rule: Assignment, _rows: int | None) -> Tags:
        def deal(size: int, _ids: Ids | None) -> NDArray[np.int64]:
            dealt, self._numbers = np.split(self._numbers, [size])
            return dealt

        return deal


def cases_of(
    release: str,
    form: str,
    run: Run,
    domain: Domain,
    pairs: Mapping[str, Pair],
    parts: Mapping[str, float],
    *,
    units: Mapping[str, float] | None = None,
    definitions: Sequence[Definition] = BOTH,
    protections: Sequence[tuple[str, int]] = PROTECTIONS,
    **settings: Any,
) -> list[Case]:
    """The same release under every protection and definition.

    `parts` are its parts with the least loss of each on these pairs; `units` where it is another one with units: what
    moves most and the number of rows, which is private there, cannot both change as far as the bound allows for.
    """
    return [
        Case(release, form, part, relation, rows, definition, domain, pairs[relation], run, least, **settings)
        for relation, rows in protections
        if relation in pairs
        for definition in definitions
        for part, least in ({**parts, **(units or {})} if rows > 1 else parts).items()
    ]
