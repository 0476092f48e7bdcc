"""Stand-ins for tests: an account that never refuses, a sampler that adds nothing, and doors built on them."""

from __future__ import annotations

import itertools
import pickle
from collections.abc import Callable, Iterator, Mapping, Sequence
from fractions import Fraction
from itertools import count
from typing import Any

import numpy as np

from dpexplain.core.account import Ask, Entry, Stored
from dpexplain.core.budget import Budget, Cost
from dpexplain.core.canonical import JsonObject, digest
from dpexplain.core.mechanisms import Selection
from dpexplain.core.noise import Noise
from dpexplain.core.release import Door, Gate, Released
from dpexplain.core.samplers import Sampler
from dpexplain.core.sensitivity import Neighbours, Relation, ScoreRange, Sensitivity, Unit
from dpexplain.data.assignment import Secrets
from dpexplain.data.reading import BATCH_ROWS
from dpexplain.data.rows import Rows

PURE = Budget(epsilon=10)
ZCDP = Budget(epsilon=10, delta=1e-6)
ADD_REMOVE = Neighbours(Relation.ADD_REMOVE)
REPLACE_ONE = Neighbours(Relation.REPLACE_ONE)
BOTH = (ADD_REMOVE, REPLACE_ONE)


def rows_of(table: Any, gate: Gate, columns: Sequence[str], batch_rows: int = BATCH_ROWS) -> Iterator[Rows]:
    """Clean batches of a table's rows, as the kernels of `sum_rows` get them."""
    return table._reading(gate, columns, batch_rows).batches(table.secrets())


class Unshuffled(Secrets):
    """A secret order that leaves rows where they are."""

    def order(self, size: int) -> Any:
        return np.arange(size)


class Copies:
    """Stands for a pool of processes: each piece of work is done by a copy of its own, pickled as for a process."""

    def __init__(self, workers: int, **_: Any) -> None:
        assert workers > 1

    def __enter__(self) -> Copies:
        return self

    def __exit__(self, *_: object) -> None:
        pass

    def map(self, work: Callable[[Any], Any], pieces: Sequence[Any]) -> list[Any]:
        return [pickle.loads(pickle.dumps(work))(piece) for piece in pieces]


class FreeAccount:
    """An `Account` in memory without a limit. `calls` lists what was asked of it, in order."""

    def __init__(self, budget: Budget = PURE, neighbours: Neighbours = REPLACE_ONE, *, keep: bool = True) -> None:
        self.name = "free"
        self.budget, self.neighbours = budget, neighbours
        self.calls: list[str] = []
        self.reserved: dict[str, Ask] = {}
        self.stored: dict[str, Stored] = {}
        self.declared: dict[str, list[float]] = {}
        self._keep = keep  # audits make many releases and need no replay

    def declare(self, identity: str, answers: list[float]) -> list[float]:
        self.calls.append("declare")
        return self.declared.setdefault(identity, answers)

    def find(self, request_id: str) -> Stored | None:
        self.calls.append("find")
        return self.stored.get(request_id)

    def reserve(self, ask: Ask) -> str:
        self.calls.append("reserve")
        reservation = f"reservation-{len(self.reserved)}"
        self.reserved[reservation] = ask
        return reservation

    def commit(self, reservation: str, payload: JsonObject, charged: Cost) -> Entry:
        self.calls.append("commit")
        ask = self.reserved[reservation]
        assert charged <= ask.cost
        if not self._keep:
            self.reserved.clear()
            self.calls.clear()
        number = len(self.stored) + 1
        event = digest([reservation, number])
        entry = Entry(self.name, reservation, number, event, digest(payload), "2024-01-01T00:00:00Z", charged)
        if self._keep:
            self.stored[ask.request_id] = Stored(ask.label, entry, payload)
        return entry


class ZeroNoise:
    """A `Sampler` that adds nothing and picks the plainly best, earlier ones first. For golden tests only."""

    def perturb(self, values: Sequence[int], noise: Noise, _sensitivity: Sensitivity, _cost: Cost) -> list[int]:
        assert len(values) == noise.size
        return [int(v) for v in values]

    def choose(self, scores: Sequence[int], selection: Selection, _change: ScoreRange, _cost: Cost) -> list[int]:
        return sorted(range(len(scores)), key=lambda i: -int(scores[i]))[: selection.k]

    def combine(self, scores: Any, _rate: Fraction, uses: int) -> list[list[int]]:
        groups = len(scores[0]).bit_length() - 1
        best = max(combinations_of(len(scores), groups, uses), key=lambda c: combination_score(scores, c))
        return [list(chosen) for chosen in best]


class SteadyNoise(ZeroNoise):
    """Noise of the right size from a fixed seed: pictures look as in life, and the same in every run."""

    def __init__(self) -> None:
        self._draw = np.random.default_rng(0)

    def perturb(self, values: Sequence[int], noise: Noise, _sensitivity: Sensitivity, _cost: Cost) -> list[int]:
        shifts = noise.std * self._draw.standard_normal(noise.size)
        return [int(v) + round(z) for v, z in zip(values, shifts, strict=True)]


def combinations_of(candidates: int, groups: int, uses: int) -> Iterator[tuple[tuple[int, ...], ...]]:
    """Every way to give each group `uses` of the candidates."""
    return itertools.product(itertools.combinations(range(candidates), uses), repeat=groups)


def combination_score(scores: Any, combination: tuple[tuple[int, ...], ...]) -> int:
    """The sum over candidates of their score for the set of groups that uses them."""
    sets = [sum(1 << g for g, chosen in enumerate(combination) if a in chosen) for a in range(len(scores))]
    return sum(int(line[subset]) for line, subset in zip(scores, sets, strict=True))


def free_door(
    budget: Budget = PURE,
    relation: Relation | str = Relation.REPLACE_ONE,
    *,
    unit: Unit | None = None,
    sampler: Sampler | None = None,
    keep: bool = True,
) -> Door:
    """A real door on a free account; with the real sampler unless another one is given."""
    return Door(FreeAccount(budget, Neighbours(Relation(relation), unit), keep=keep), sampler=sampler)


def exact_door(budget: Budget = PURE, relation: Relation | str = Relation.REPLACE_ONE, **settings: Any) -> Door:
    """A door without noise: what leaves is the statistic itself."""
    return free_door(budget, relation, sampler=ZeroNoise(), **settings)


_fresh = count()


def release(door: Door, cost: Cost, body: Callable[[Gate], Any], request: Mapping[str, Any] | None = None) -> Released:
    """One release; a fresh request each time unless one is given, so that nothing is replayed."""
    return door.release("test", {"fresh": next(_fresh)} if request is None else request, cost, body)


def released(door: Door, cost: Cost, body: Callable[[Gate], Any]) -> list[int]:
    """The values of the only part that a fresh release lets out."""
    (part,) = release(door, cost, body).payload["parts"].values()
    values: list[int] = part["values"]
    return values
