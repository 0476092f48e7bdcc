"""A random forest that remembers what it decides about every row of a table with one feature replaced by any value.

So many private releases of unary influences cost one set of predictions, and the exact influences are known too: means
over all rows and all values. The whole path of the product is used; only the model is replaced by its memory. Trees
cut numbers at thresholds, so that one value between two thresholds stands for all of them.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from rich.progress import track

import dpexplain as dpx
from bench.cached import BenchAccount
from bench.influence_models import BUDGET, RICH, Classifier, People
from dpexplain.core.release import Door
from dpexplain.core.sensitivity import Neighbours, Relation
from dpexplain.data.encode import encode
from dpexplain.data.rows import Rows
from dpexplain.data.sources import open_source

ROW = "(row)"  # the number of a row, as a column
Rule = Callable[[Rows, np.ndarray], np.ndarray]  # from rows and decisions to other decisions


@dataclass(frozen=True)
class Lookup:
    """The decisions about all rows with one feature replaced: one line for each value that makes a difference."""

    cuts: np.ndarray | None  # of a number; None: codes
    decided: np.ndarray  # lines x rows

    def line(self, values: np.ndarray) -> np.ndarray:
        return values.astype(np.int64) if self.cuts is None else np.searchsorted(self.cuts, values, side="left")


class Memory:
    """A predictor for rows known by their number, of which at most one feature differs from the table's."""

    def __init__(self, people: People, forest: Classifier) -> None:
        self.people, self.forest = people, forest
        ((size, raw),) = open_source(people.frame).batches(people.columns, 2**30)
        self.rows = Rows(people.domain, {n: encode(people.domain[n], raw[n]) for n in people.columns}, size)
        X = forest.encode(people.frame)
        self.own = forest.score(X) >= 0.5
        self._lookups = {name: self._lookup(name, X) for name in track(people.columns, description="remembering")}

    def _lookup(self, name: str, X: np.ndarray) -> Lookup:
        place, column = self.forest.places(name), self.people.domain[name]
        if isinstance(column, dpx.Categorical):
            lines = np.eye(len(column.categories), dtype=np.float32)
            cuts = None
        else:
            trees = [tree.tree_ for tree in self.forest.fitted.estimators_]
            cuts = np.unique(np.floor(np.concatenate([t.threshold[t.feature == place.start] for t in trees])))
            lines = np.append(cuts, cuts[-1] + 1).astype(np.float32)[:, None]  # numbers are whole
        replaced, decided = X.copy(), np.empty((len(lines), len(X)), dtype=bool)
        for line, values in zip(decided, lines, strict=True):
            replaced[:, place] = values
            line[:] = self.forest.score(replaced) >= 0.5
        return Lookup(cuts, decided)

    # As a predictor ---------------------------------------------------------------------------------------------------

    def model(self, rule: Rule | None = None, looks_at: Sequence[str] = ()) -> MemoryModel:
        """The forest; or what a rule makes of its decisions, which may look at further columns."""
        return MemoryModel(self, rule, looks_at)

    def decided(self, rows: Rows, changed: Sequence[str]) -> np.ndarray:
        """What the forest decides about rows of the table whose features `changed` were replaced."""
        number = rows[ROW].astype(np.int64)
        if not changed:
            return self.own[number]
        (name,) = changed
        lookup = self._lookups[name]
        return lookup.decided[lookup.line(rows[name]), number]

    # Exact influences -------------------------------------------------------------------------------------------------

    def changes(self, name: str, values: np.ndarray) -> np.ndarray:
        """The share of rows whose decision changes, for each value (or code) in the place of their own."""
        lookup = self._lookups[name]
        lines, place = np.unique(lookup.line(values), return_inverse=True)
        return (lookup.decided[lines] != self.own).mean(axis=1)[place]

    def average(self) -> np.ndarray:
        """The exact average influences: all rows, each with the values of all rows."""
        found = [np.unique(self.rows[name], return_counts=True) for name in self.people.columns]
        return np.array(
            [
                counts @ self.changes(name, values) / self.rows.size
                for name, (values, counts) in zip(self.people.columns, found, strict=True)
            ]
        )


class _Predictor:
    """The interface of `dpexplain.models.Predictor` that a class needs."""

    answers, precision = np.zeros(1), 0.0  # a bench account keeps nothing

    def __init__(self, memory: Memory, rule: Rule | None, looks_at: Sequence[str]) -> None:
        self.memory, self.rule = memory, rule
        self.features = [ROW, *memory.people.columns, *looks_at]

    def inputs(self, rows: Rows) -> Rows:
        return rows

    def predict_at(self, rows: Rows, fixed: Mapping[str, np.ndarray]) -> np.ndarray:
        changed = [name for name in self.memory.people.columns if name in fixed]
        rows = Rows(rows.domain, {**rows.columns, **fixed}, rows.size)
        decided = self.memory.decided(rows, changed)
        return (decided if self.rule is None else self.rule(rows, decided)).astype(np.float64)


class MemoryModel(dpx.Model):
    def __init__(self, memory: Memory, rule: Rule | None, looks_at: Sequence[str]) -> None:
        super().__init__(memory.forest, output=(0.0, 1.0), label=RICH, name="random forest", version="bench")
        self._predictor = _Predictor(memory, rule, looks_at)
        self.thread_safe = False

    def checked(self, domain: dpx.Domain, **rows: Any) -> Any:  # noqa: ARG002 - as in dpx.Model
        self._predictor.domain = domain
        return self._predictor


def numbered(people: People, relation: str, **more: tuple[dpx.Categorical, np.ndarray]) -> dpx.PrivateTable:
    """The private table with numbered rows, with further columns, and an account that remembers nothing."""
    frame = people.frame.assign(**{ROW: np.arange(people.size)}, **{n: values for n, (_, values) in more.items()})
    columns = {**people.domain, **{name: column for name, (column, _) in more.items()}}
    columns[ROW] = dpx.Numeric(0, people.size - 1, integer=True)
    table = People(frame, people.rich, dpx.Domain(columns)).table(relation)
    table.door = Door(BenchAccount(BUDGET, Neighbours(Relation(relation))))
    return table
