"""Some rows of a user's own table, ready to be attacked, and the pairs of tables that an attacker must tell apart.

For      the data holder. Exact rows are read without the ledger: nothing is reserved and nothing is spent.
Rows     whole units, chosen by a public seed. What is attacked stands in the last place, so that all other rows keep
         their places when it comes or goes.
Target   the most exposed of some candidates: units with extreme predictions, far from all others, and some at random. A
         release is captured with each of them in the same place beside a few other rows, and the one (under
         replace-one: the pair) with the largest exact loss is attacked.
Hidden   the target's value of one column: the two declared values between which its prediction changes most.
Secrets  rows that a release deals to parts by secret numbers, or gives other values to, get public numbers here: a row
         has the same on both sides of a pair. The attacker knows them as well, and the bounds hold whatever they are.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from typing import Any

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from dpexplain.audit.capture import recorded
from dpexplain.audit.cases import NoLedger
from dpexplain.columns import shown_date
from dpexplain.core.budget import Budget, Cost
from dpexplain.core.canonical import digest
from dpexplain.core.domain import Categorical, Domain, Numeric
from dpexplain.core.sensitivity import Assignment, Neighbours, Relation
from dpexplain.data.assignment import TAGS, Ids, Secrets, Tags
from dpexplain.data.encode import NO_ID, encode, identifiers
from dpexplain.data.public_random import PublicRandom
from dpexplain.data.reading import BATCH_ROWS
from dpexplain.data.rows import Rows
from dpexplain.data.table import PrivateTable
from dpexplain.errors import InputError, TableError
from dpexplain.maths.surrogate import Space
from dpexplain.models import Model, Predictor
from dpexplain.models.clustering import Clustering

Integers = NDArray[np.int64]
Explain = Callable[[PrivateTable, Cost], Any]

ROWS, ATTACKED_ROWS, COMPANY = 20_000, 1_000, 100  # read; beside a target; beside a candidate
CANDIDATES = 2  # of each kind


class PublicNumbers(Secrets):
    """Public numbers in the place of secret ones, the same for every pass and every table of an audit. All tables of an
    audit fit into one batch.
    """

    def __init__(self) -> None:
        self._uniform, self._tags = PublicRandom(0).generator, PublicRandom(0).generator

    def order(self, size: int) -> Integers:
        return np.arange(size)

    def uniform(self, size: int) -> NDArray[np.float64]:
        """The same number for the same place, however many rows there are."""
        return self._uniform.random(2 * BATCH_ROWS)[:size]

    def tags(self, rule: Assignment, rows: int | None) -> Tags:
        if rule is Assignment.POSITION:
            return super().tags(rule, rows)
        return self._tagged

    def _tagged(self, size: int, ids: Ids | None) -> Integers:
        if ids is None:
            return self._tags.integers(TAGS, size=size)
        return np.array([int(digest(one)[:15], 16) for one in ids[1]], dtype=np.int64)[ids[0]]


class OpenTable(PrivateTable):
    """A table whose rows get public numbers instead of secret ones."""

    secrets = PublicNumbers


class TriedModel(Model):
    """A model that was tried on synthetic rows and is not tried again at every release."""

    def __init__(self, model: Model, domain: Domain) -> None:
        vars(self).update(vars(model))
        self._tried = model.checked(domain)

    def checked(self, _domain: Domain, *, rows: int | None = None, exact: bool = False) -> Predictor:  # noqa: ARG002
        return self._tried


@dataclass(frozen=True)
class Subject:
    """Some rows of a table as they are, the model, and what was declared. Private: it holds rows."""

    frame: pd.DataFrame = field(repr=False)
    units: Integers = field(repr=False)  # the unit of each row
    places: Integers = field(repr=False)  # of the rows in the table
    domain: Domain
    budget: Budget
    neighbours: Neighbours
    row_id: str | None
    rows_hint: int | None
    model: TriedModel
    target: str | None  # what the model predicts
    clustering: Clustering | int | None  # a rule, or how many clusters private k-means finds
    name: str
    size: int  # rows of the whole table

    @property
    def predictor(self) -> Predictor:
        return self.model.checked(self.domain)

    @property
    def features(self) -> list[str]:
        return self.model.features(self.domain)

    def opened(self, frame: pd.DataFrame) -> OpenTable:
        """A table of these rows, in an account that costs nothing."""
        return OpenTable(
            frame,
            domain=self.domain,
            budget=self.budget,
            relation=self.neighbours.relation,
            unit=self.neighbours.unit,
            row_id=self.row_id,
            rows_hint=self.rows_hint,
            ledger=NoLedger(),  # type: ignore[arg-type]  # has all that a table asks of a ledger
            name="audit",
        )

    def clean(self, frame: pd.DataFrame) -> Rows:
        columns = {name: encode(column, frame[name]) for name, column in self.domain.items()}
        return Rows(self.domain, columns, len(frame))

    def rows_of(self, unit: int) -> pd.DataFrame:
        mine: pd.DataFrame = self.frame.loc[self.units == unit]
        return mine

    def others(self, left_out: Sequence[int], rows: int) -> pd.DataFrame:
        """The first rows of all other units."""
        kept: pd.DataFrame = self.frame.loc[~np.isin(self.units, left_out)]
        return kept.iloc[:rows]

    def in_place(self, unit: int, of: int) -> pd.DataFrame:
        """The rows of a unit, under the id of the one whose place it takes."""
        rows, ids = self.rows_of(unit), self.neighbours.unit
        return rows if ids is None else rows.assign(**{ids.column: self.rows_of(of)[ids.column].iloc[0]})

    def called(self, unit: int) -> str:
        """Where the unit is in the table, counted from 1."""
        first, ids = int(self.places[self.units == unit].min()) + 1, self.neighbours.unit
        return f"row {first}" if ids is None else f"the {ids.column} of row {first}"


def read(
    table: PrivateTable,
    model: Model,
    target: str | None = None,
    clustering: Clustering | int | None = None,
    *,
    rows: int = ROWS,
    seed: int = 0,
) -> Subject:
    """About so many rows of a table, by a public seed. Its account is not asked."""
    unit = table.neighbours.unit
    names = list(dict.fromkeys([*table.domain, *([unit.column] if unit else []), *filter(None, [table.row_id])]))
    tried = TriedModel(model, table.domain)
    try:
        units = _units(table)
        many = int(units.max(initial=-1)) + 1
        turn = PublicRandom(seed).generator.permutation(max(many, 1))[units]
        places = np.argsort(np.where(units < 0, many, turn), kind="stable")[: min(rows, int((units >= 0).sum()))]
        frame = _rows_at(table, names, places) if many > 1 else pd.DataFrame()
    except Exception:  # what a reader says may quote a value
        many = -1
    if many < 0:
        raise TableError("the rows could not be read: the source cannot be read to its end.")
    if many < 2:
        raise TableError(
            f"an audit tells one unit from others, but the table has {'only one' if many else 'none'}.",
            hint="audit a table with at least two",
        )
    return Subject(
        frame=frame,
        units=units[places],
        places=places,
        domain=table.domain,
        budget=table.budget,
        neighbours=table.neighbours,
        row_id=table.row_id,
        rows_hint=table.rows_hint if table.size is None else None,
        model=tried,
        target=target,
        clustering=clustering,
        name=table.name,
        size=len(units),
    )


def _units(table: PrivateTable) -> Integers:
    """The unit of each row; -1 where it has no id."""
    unit = table.neighbours.unit
    if unit is None:
        return np.arange(table._source.count(), dtype=np.int64)
    known: dict[str, int] = {}
    found = [np.empty(0, dtype=np.int64)]
    for _, raw in table._source.batches([unit.column], BATCH_ROWS):
        codes, distinct = identifiers(raw[unit.column])
        numbers = [-1 if one == NO_ID else known.setdefault(one, len(known)) for one in distinct]
        found.append(np.array(numbers, dtype=np.int64)[codes])
    return np.concatenate(found)


def _rows_at(table: PrivateTable, names: Sequence[str], places: Integers) -> pd.DataFrame:
    """The raw rows at these places, in this order, as Python objects."""
    kept, start, found = np.sort(places), 0, list[pd.DataFrame]()
    for size, raw in table._source.batches(names, BATCH_ROWS):
        here = kept[(kept >= start) & (kept < start + size)] - start
        found.append(pd.DataFrame({name: _objects(raw[name])[here] for name in names}, dtype=object))
        start += size
    return pd.concat(found, ignore_index=True).iloc[np.argsort(np.argsort(places))].reset_index(drop=True)


def _objects(raw: Any) -> NDArray[Any]:
    values = np.empty(len(raw), dtype=object)
    values[:] = raw.tolist() if isinstance(raw, pd.Series) else raw.to_pylist()
    return values


# Targets --------------------------------------------------------------------------------------------------------------


def candidates(subject: Subject, seed: int = 1) -> list[int]:
    """Units with the lowest and the highest predictions, far from the middle of all rows, and some at random."""
    rows = subject.clean(subject.frame.iloc[:ATTACKED_ROWS])
    predictions = np.nan_to_num(subject.predictor.predict_at(subject.predictor.inputs(rows), {}))
    numbers = {
        name: Numeric(c.low, c.high, c.integer) if isinstance(c, Numeric) and c.keeps_missing else c
        for name, c in subject.domain.items()
    }
    columns = {name: column.clean(rows[name]) for name, column in numbers.items()}  # missing ones in the middle
    places = Space(Domain(numbers), tuple(numbers)).coordinates(columns, rows.size)
    far = ((places - places.mean(axis=0)) ** 2).sum(axis=1)
    orders = [predictions, -predictions, -far, PublicRandom(seed).generator.permutation(rows.size)]
    picked = [int(row) for order in orders for row in np.argsort(order, kind="stable")[:CANDIDATES]]
    return list(dict.fromkeys(int(subject.units[row]) for row in picked))


def most_exposed(subject: Subject, explain: Explain, cost: Cost) -> tuple[int, int | None]:
    """The unit to attack, and under replace-one the unit that takes its place on the other side."""
    units = candidates(subject)
    if len(units) == 1:  # all of them are one unit
        units.append(int(next(unit for unit in subject.units if unit != units[0])))
    company, run = subject.others(units, COMPANY), partial(priced, explain, cost)
    joined = [pd.concat([company, subject.in_place(unit, units[0])], ignore_index=True) for unit in units]
    if subject.neighbours.relation is Relation.ADD_REMOVE:
        alone = recorded(subject.opened(company), run)
        losses = [sum(part.loss for part in alone.beside(subject.opened(table), run)) for table in joined]
        return units[int(np.argmax(losses))], None
    first = recorded(subject.opened(joined[0]), run)
    seen = [first.beside(subject.opened(table), run) for table in joined]  # all after the history of the first
    best, pair = -1.0, (units[1], units[0])
    for i, one in enumerate(seen):
        for j, two in enumerate(seen[:i]):
            loss = sum(replace(a, left=a.right, right=b.right).loss for a, b in zip(one, two, strict=True))
            if loss > best:
                best, pair = loss, (units[i], units[j])
    return pair


def priced(explain: Explain, cost: Cost, table: PrivateTable) -> Any:
    """A release at a cost, in the form that `capture` takes."""
    return explain(table, cost)


@dataclass(frozen=True)
class Pair:
    """Two tables that an attacker must tell apart, and in words what differs."""

    left: pd.DataFrame = field(repr=False)
    right: pd.DataFrame = field(repr=False)
    about: str
    values: tuple[str, str]


def membership_pair(subject: Subject, unit: int, other: int | None) -> Pair:
    """With the target on the right; without it, or with the other one in its place, on the left."""
    company = subject.others([unit] if other is None else [unit, other], ATTACKED_ROWS)
    right = pd.concat([company, subject.rows_of(unit)], ignore_index=True)
    if other is None:
        return Pair(company, right, f"{subject.called(unit)} in the table, or not", ("without it", "with it"))
    left = pd.concat([company, subject.in_place(other, unit)], ignore_index=True)
    about = f"{subject.called(unit)} in the table, or {subject.called(other)} in its place"
    return Pair(left, right, about, ("the other one", "the target"))


def hidden_pair(subject: Subject, unit: int) -> Pair:
    """The target with two values of the column that its prediction depends on most."""
    mine, domain = subject.rows_of(unit), subject.domain
    row, best = subject.clean(mine.iloc[:1]), -1.0
    for name in subject.features:
        values = _values(domain[name])
        inputs = subject.predictor.inputs(row.take(np.zeros(len(values), dtype=np.int64)))
        coded = encode(domain[name], pd.Series(values, dtype=object))
        found = np.nan_to_num(subject.predictor.predict_at(inputs, {name: coded}))
        low, high = int(np.argmin(found)), int(np.argmax(found))
        if len(values) > 1 and found[high] - found[low] > best:
            best, column = float(found[high] - found[low]), name
            two = (values[low], values[high if high != low else -1])
    if best < 0:
        raise InputError("no column of the model has two declared values: there is nothing to hide.")
    company = subject.others([unit], ATTACKED_ROWS)
    left, right = (pd.concat([company, mine.assign(**{column: value})], ignore_index=True) for value in two)
    return Pair(left, right, f"{column} of {subject.called(unit)}", (_shown(two[0]), _shown(two[1])))


def _values(column: Numeric | Categorical) -> list[Any]:
    """Declared values to choose from."""
    if isinstance(column, Categorical):
        return list(column.categories)
    values = [float(value) for value in np.unique(column.clean(np.linspace(column.low, column.high, 5)))]
    return [*values, math.nan] if column.keeps_missing else values


def _shown(value: Any) -> str:
    return "missing" if value != value else f"{value:g}" if isinstance(value, float) else str(value)


def record_of(rows: Rows, i: int, features: Sequence[str]) -> Mapping[str, Any]:
    """One clean row by name, in the units of the table."""
    record: dict[str, Any] = {}
    for name in features:
        column, value = rows.domain[name], rows[name][i]
        record[name] = (
            column.categories[int(value)] if isinstance(column, Categorical) else shown_date(column, float(value))
        )
    return record
