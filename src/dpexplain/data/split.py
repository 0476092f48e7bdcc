"""`table.split(parts)`: disjoint parts of a table, private tables with accounts of their own, for the cost of one.

    Every unit lies in one part at most, whatever the rows are (`Division`). What is released about the other parts has
    the same law with and without that unit, so all that is asked of the parts together loses no more about anybody
    than the dearest part may spend.

Proof. Let T and T' differ in one unit, added or removed. Without a unit column a unit is a row, and the part of a row
is a function of that row and the declaration: the first part whose conditions hold. With one, a unit's part is the
first of the parts of its rows, a function of its own rows, and only those of its rows that lie in it are used. So the
rows of all parts but one, j, are the same in T and T'. Go through everything that is released from the table and its
parts, in whatever order it is asked for: given what came before, a release about a part other than j has the same law
on both sides and loses nothing; one about j loses at most its cost in j's account, which never exceeds that account's
total B; one about the whole table loses its cost. Losses of adaptively chosen releases add up (in both definitions,
and where an account stops them by what is left: the filters that accounts are). So the parts add B, once, to what the
table's own account has spent, and B is what the split reserved there before any part was opened.

Replace-one. The size of a part is private, whatever the relation of the table, so parts are always add-remove. The unit
that leaves may lie in one part and the one that comes in another: B + B. Or both in the same part, at distance two in
its relation: a release of cost b then loses 2 b (pure), or 4 b (zCDP: group privacy grows with the square; Bun and
Steinke 2016, Proposition 1.9). So the table pays FACTOR times the total of a part.

One part in twenty of the cost buys the noisy number of rows of each part, by which forecasts in the parts choose.
"""

from __future__ import annotations

import copy
import math
import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from fractions import Fraction
from functools import partial
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from dpexplain.core.budget import Budget, Cost, Definition
from dpexplain.core.canonical import JsonObject
from dpexplain.core.domain import Categorical, Domain, Numeric
from dpexplain.core.release import Door, Gate
from dpexplain.core.release import split as shared
from dpexplain.core.sensitivity import Neighbours, Relation
from dpexplain.data.assignment import Ids
from dpexplain.data.encode import NO_ID
from dpexplain.data.groups import Group
from dpexplain.data.rows import Rows
from dpexplain.errors import InputError
from dpexplain.receipts import Receipt

if TYPE_CHECKING:
    from dpexplain.data.table import PrivateTable

Integers = NDArray[np.int64]

FACTOR = {  # what a table pays for a part's total of one
    (Relation.ADD_REMOVE, Definition.PURE): 1,
    (Relation.ADD_REMOVE, Definition.ZCDP): 1,
    (Relation.REPLACE_ONE, Definition.PURE): 2,
    (Relation.REPLACE_ONE, Definition.ZCDP): 4,
}
SIZES_SHARE = Fraction(1, 20)
MOST_PARTS = 1_000
PAID_DIGITS, LONGEST_NAME = 12, 200  # of the reservation, in the name of an account; and characters of such a name
EPSILON_DIGITS = 6  # of a part's epsilon, rounded down: every machine converts the same rho to the same number
EXAMPLE = 'table.split("site", epsilon=1), or table.split({"young": {"age": (18, 40)}, "old": {"age": (41, 90)}}, ...)'
NOWHERE = -1
OF_A_PART = re.compile(r" / part [0-9]+: .* \([0-9a-f]{12}\)$")  # the names of their accounts


@dataclass(frozen=True)
class Division:
    """Parts of a table by public conditions on declared columns: a row lies in the first part whose conditions hold."""

    labels: tuple[str, ...]
    groups: tuple[Group, ...]

    @classmethod
    def of(cls, parts: Any, domain: Domain) -> Division:
        """From the name of a column, whose declared values are the parts; or from {name: conditions}."""
        if isinstance(parts, str):
            parts = _by_value(parts, domain)
        if not isinstance(parts, Mapping) or not 1 <= len(parts) <= MOST_PARTS:
            raise InputError(f"parts are 1 to {MOST_PARTS} names with their conditions, or a column.", hint=EXAMPLE)
        labels = tuple(parts)
        if not all(isinstance(label, str) and label.strip() and len(label) <= 100 for label in labels):
            raise InputError("the name of a part is a text of up to 100 characters.", hint=EXAMPLE)
        return cls(labels, tuple(Group.of(group, domain) for group in parts.values()))

    def numbers(self, rows: Rows) -> Integers:
        """The part of each row: of that row and these conditions alone; -1 for a row in none."""
        found = np.full(rows.size, NOWHERE, dtype=np.int64)
        for number in reversed(range(len(self.groups))):
            found[self.groups[number].member(rows)] = number
        return found

    @property
    def columns(self) -> list[str]:
        """What conditions are about."""
        return list(dict.fromkeys(name for group in self.groups for name in group.columns))

    def to_json(self) -> JsonObject:
        groups = [group.to_json() for group in self.groups]
        return {"labels": list(self.labels), "groups": groups}


def _by_value(name: str, domain: Domain) -> dict[str, Any]:
    column = domain.column(name)
    if isinstance(column, Categorical) and len(column.categories) > 1:
        return {str(value): {name: value} for value in column.categories}
    if isinstance(column, Numeric) and column.integer and 1 < column.values <= MOST_PARTS:
        whole = range(math.ceil(column.low), math.floor(column.high) + 1)
        return {str(value): {name: float(value)} for value in whole}
    raise InputError(f"{name!r} has no short list of declared values to make parts of.", hint=EXAMPLE)


@dataclass(frozen=True)
class Part:
    """One part of a table, as a pass over its rows knows it."""

    division: Division
    number: int

    @property
    def words(self) -> str:
        """What is public about it."""
        words, first = self.division.groups[self.number].describe(), self.division.labels[: self.number]
        apart = f", and not in a part before it: {', '.join(first)}" if first else ""
        return f"the rule of the part ({words}{apart})"

    def holds(self, rows: Rows, units: Ids | None, homes: Homes | None) -> NDArray[np.bool_]:
        """Which rows lie in it; of a unit only those whose home it is."""
        inside = np.asarray(self.division.numbers(rows) == self.number)
        if homes is None or units is None:
            return inside
        codes, distinct = units
        home = np.array([homes.of(value) for value in distinct], dtype=np.int64)[codes]
        return np.asarray(inside & (home == self.number))


class Homes:
    """The part of each unit: the first of the parts of its rows, so a function of its own rows. A pass fills it."""

    def __init__(self) -> None:
        self._first: dict[str, int] = {}

    def add(self, units: Ids, numbers: Integers) -> None:
        """Some rows of the pass. Rows without an id belong to no unit, and are not used."""
        codes, distinct = units
        known = numbers != NOWHERE
        lowest = np.full(len(distinct), np.iinfo(np.int64).max)
        np.minimum.at(lowest, codes[known], numbers[known])
        for code in np.unique(codes[known]).tolist():
            if (value := distinct[code]) != NO_ID:
                self._first[value] = min(int(lowest[code]), self._first.get(value, MOST_PARTS))

    def of(self, unit: str) -> int:
        return self._first.get(unit, NOWHERE)


class Parts(Mapping[str, "PrivateTable"]):
    """The parts of a table by name. Each is a private table with what is left of its own account.

    sizes    the released number of rows of each part, with noise
    receipt  of what the table's account has paid for all of them
    """

    def __init__(self, tables: Mapping[str, PrivateTable], sizes: Mapping[str, int], receipt: Receipt) -> None:
        self._tables, self.sizes, self.receipt = dict(tables), dict(sizes), receipt

    def __getitem__(self, label: str) -> PrivateTable:
        return self._tables[label]

    def __iter__(self) -> Iterator[str]:
        return iter(self._tables)

    def __len__(self) -> int:
        return len(self._tables)

    def __repr__(self) -> str:
        lines = [f"  {label}: about {size} rows" for label, size in self.sizes.items()]
        each = next(iter(self._tables.values())).budget
        return "\n".join([f"{len(self)} parts, each with {each.describe(each.total)} to spend", *lines])


def split(table: PrivateTable, parts: Any, cost: Cost) -> Parts:
    """Pay `cost` from the table's account, and open an account for each part."""
    _require_splitting(table)
    division, columns = Division.of(parts, table.domain), list(table.domain)
    _require_names(table, division)
    sizes_cost, rest = shared(cost, SIZES_SHARE)
    factor = FACTOR[table.neighbours.relation, cost.definition]
    budget = _budget_of(rest * Fraction(1, factor), table.budget)
    first, more = ", ".join(division.labels[:5]), ", ..." if len(division.labels) > 5 else ""
    label = f"{len(division.labels)} parts: {first}{more}"

    def body(gate: Gate) -> None:
        kernel = partial(_sizes, division=division)
        counts = table.sum_rows(gate, kernel, division.columns or columns[:1], size=len(division.labels), label=label)
        gate.noisy_counts("sizes", counts, sizes_cost)

    spec = {**division.to_json(), "each": budget.to_json(), "factor": factor, "analyst": table.analyst}
    public = ["the rules of the parts"]
    receipt, payload = table.release("split", label, spec, cost, body, public=public)
    sizes = dict(zip(division.labels, payload["parts"]["sizes"]["values"], strict=True))
    made = {
        name: _part_of(table, Part(division, number), budget, receipt, max(1, sizes[name]))
        for number, name in enumerate(division.labels)
    }
    return Parts(made, sizes, receipt)


def check_name(name: str) -> None:
    """Refuse the account of a part for any other rows than those of the part."""
    if OF_A_PART.search(name):
        raise InputError(
            f'"{name}" is the name of the account of a part, which was paid for with that part\'s rows in mind.',
            hint="open the whole table and split it as before: the same split opens the same accounts, free",
        )


def _require_splitting(table: PrivateTable) -> None:
    """Refuse what cannot be split: nothing is spent."""
    if table.part is not None:
        raise InputError("a part of a table is not split again.", hint="split the whole table into finer parts")
    if not table.engine.gathers:
        raise InputError("tables on Spark are not split.", hint="open a table, with an account, for each part's people")


def _name_of(table: PrivateTable, number: int, label: str, paid: str) -> str:
    """What the ledger calls the account of a part; `OF_A_PART` knows such names."""
    return f"{table.name} / part {number + 1}: {label} ({paid})"


def _require_names(table: PrivateTable, division: Division) -> None:
    """Refuse parts that the ledger could open no account for: nothing is spent."""
    for number, label in enumerate(division.labels):
        name = _name_of(table, number, label, "0" * PAID_DIGITS)
        if not name.isprintable() or len(name) > LONGEST_NAME:
            raise InputError(
                f"no account can be named after the part {label[:60]!r}: with the name of the table it is longer than "
                f"{LONGEST_NAME} characters, or it cannot be printed.",
                hint="give the parts short names of their own, with letters that can be printed",
            )


def _sizes(rows: Rows, division: Division) -> Integers:
    """The number of rows of each part. Rows in none are not counted."""
    return np.bincount(division.numbers(rows) + 1, minlength=len(division.labels) + 1)[1:].astype(np.int64)


def _budget_of(total: Cost, budget: Budget) -> Budget:
    """The budget of a part, whose total is never more than this."""
    if total.definition is Definition.PURE:
        return Budget(total.amount)
    epsilon = Fraction(budget.epsilon_of(total))
    step = Fraction(10) ** (math.floor(math.log10(epsilon)) + 1 - EPSILON_DIGITS)
    epsilon = epsilon // step * step
    while not Budget(epsilon, budget.delta).total <= total:
        epsilon -= step
    return Budget(epsilon, budget.delta)


def _part_of(table: PrivateTable, part: Part, budget: Budget, receipt: Receipt, rows: int) -> PrivateTable:
    """The table of a part, with an account that the split has paid for: its name holds the reservation's."""
    made, paid = copy.copy(table), receipt.entry.reservation[:PAID_DIGITS]
    made.name = _name_of(table, part.number, part.division.labels[part.number], paid)
    made.neighbours = Neighbours(Relation.ADD_REMOVE, table.neighbours.unit)
    made.budget, made.part, made.size, made.rows_hint = budget, part, None, rows
    account = table.ledger.account(
        made.name,
        budget=budget,
        neighbours=made.neighbours,
        table_version=table.version,
        domain_digest=table.domain.digest,
        analyst=table.analyst,
    )
    made.door, made.line = Door(account), {}
    return made


def some_of(ids: Ids | None, keep: NDArray[np.bool_]) -> Ids | None:
    """The ids of the rows that are kept."""
    return None if ids is None else (ids[0][keep], ids[1])
