"""The door: the only way from rows to the outside.

    reserve  ->  compute  ->  noise  ->  commit with the released values

`Door.release` reserves the whole cost in the ledger, then calls `body` with a `Gate`. The body may look at rows; what
it returns is thrown away. What leaves is what passed through the gate's releases, recorded in the ledger before
anybody sees it. When the body fails, its error may speak of rows, so it does not leave either: the caller hears only
that the release was lost and that its cost stays spent.

A request that says it is `resumable` goes on under its reservation, at no new cost, when a process was killed in
between. Exactly one outcome ever leaves: the first commit counts, and that a body failed is an outcome too, committed
as `NOTHING` (docs/decisions/0035-batches.md).
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from fractions import Fraction
from typing import Any

import numpy as np
from numpy.typing import NDArray

from dpexplain.core.account import NOTHING, Account, Ask, Entry, Stored
from dpexplain.core.budget import Cost
from dpexplain.core.canonical import JsonObject, digest, freeze
from dpexplain.core.combinations import rate_for
from dpexplain.core.mechanisms import best, selection, selection_epsilon
from dpexplain.core.quiet import quiet
from dpexplain.core.samplers import ExactSampler, Sampler
from dpexplain.core.sensitivity import Neighbours, ScoreRange, Sensitivity, whole
from dpexplain.errors import InternalError, ReleaseLost

IntVector = Sequence[int] | NDArray[np.int64]


@dataclass(frozen=True)
class Released:
    """What left through the door: named parts, each with its values and the law of its noise."""

    label: str  # of the reservation: an identical request may have been worded in another way
    request: JsonObject  # what was paid for, as the ledger has it
    payload: JsonObject
    entry: Entry
    replayed: bool  # an identical request was answered from the ledger, free of charge


class Door:
    """One account's way out. Holds no rows."""

    def __init__(self, account: Account, *, sampler: Sampler | None = None) -> None:
        self.account = account
        self.sampler: Sampler = ExactSampler() if sampler is None else sampler

    def release(self, label: str, request: Mapping[str, Any], cost: Cost, body: Callable[[Gate], None]) -> Released:
        """Pay `cost` for what `body` sends through the gate; or return the same request's earlier release, free."""
        if cost.definition is not self.account.budget.definition or "cost" in request:
            raise InternalError("a release has one price, in the definition of its account")
        identity = freeze({**request, "cost": cost.to_json()})
        ask = Ask(label, identity, digest(identity), cost)
        stored = self._find(ask)
        if stored is not None:
            return Released(stored.label, identity, stored.payload, stored.entry, replayed=True)
        reservation = self.account.reserve(ask)
        gate = Gate(self, cost)
        payload = _run(body, gate)
        if payload is not None or ask.resumable:
            entry = self.account.commit(reservation, payload or NOTHING, gate.charged if payload else cost)
        if ask.resumable and (payload is None or entry.payload_hash != digest(payload)):
            stored = self._find(ask)  # another process may have been the first
            payload, entry = (stored.payload, stored.entry) if stored else (None, entry)
        if payload is None:  # raised here, outside any handler, so that the original error is not even attached
            raise ReleaseLost(
                f'"{label}" failed while it was computed.',
                hint="the reason is not shown because it may depend on private rows; try it on a synthetic table",
                spent=f"Its cost, {self.account.budget.describe(cost)}, was reserved before the data was read "
                "and stays spent.",
            )
        return Released(label, identity, payload, entry, replayed=False)

    def _find(self, ask: Ask) -> Stored | None:
        stored = self.account.find(ask.request_id)
        return stored if stored and stored.payload != NOTHING else None


def _run(body: Callable[[Gate], None], gate: Gate) -> JsonObject | None:
    """Everything that left through the gate; None when the body failed.

    Some libraries raise what is no Exception; it may quote a row just as well. An interrupt goes on, without its text.
    """
    interrupted = False
    try:
        with quiet():
            body(gate)
        return gate.close()
    except BaseException as error:
        interrupted = isinstance(error, KeyboardInterrupt)
    finally:
        gate.is_open = False
    if interrupted:
        raise KeyboardInterrupt
    return None


class Gate:
    """Open while one reservation is being used. Every release through it is charged against that reservation."""

    def __init__(self, door: Door, cost: Cost) -> None:
        self.door = door
        self.neighbours = door.account.neighbours
        self.cost = cost
        self.is_open = cost.amount > 0  # for nothing no row is read and no value leaves
        self._used = cost * 0
        self._loops: list[QueryLoop] = []
        self._parts: dict[str, JsonObject] = {}

    def noisy_sum(
        self, part: str, values: IntVector, sensitivity: Sensitivity, cost: Cost, *, mechanism: str | None = None
    ) -> list[int]:
        """An integer vector with the noise law of the smallest forecast error at this cost."""
        self._admit(sensitivity.neighbours)
        self._take(cost)
        return self._perturb(part, values, sensitivity, cost, mechanism)

    def _perturb(
        self, part: str, values: IntVector, sensitivity: Sensitivity, cost: Cost, mechanism: str | None
    ) -> list[int]:
        self._admit(sensitivity.neighbours)
        noise = best(sensitivity, len(values), cost, mechanism)
        released = self.door.sampler.perturb([whole(v) for v in values], noise, sensitivity, cost)
        self._record(part, {"values": list(released), "noise": noise.to_json(), "cost": cost.to_json()})
        return released

    def noisy_counts(
        self, part: str, counts: IntVector, cost: Cost, *, partitions: int = 1, mechanism: str | None = None
    ) -> list[int]:
        """The cell counts of `partitions` public partitions of the rows."""
        bound = Sensitivity.of_counts(self.neighbours, partitions)
        return self.noisy_sum(part, counts, bound, cost, mechanism=mechanism)

    def select(self, part: str, scores: IntVector, change: ScoreRange, cost: Cost, *, k: int = 1) -> list[int]:
        """The k noisily best of public candidates, best first, by their integer scores."""
        chosen, scale = self._choose([scores], change, cost, k)
        self._record(part, {"values": list(chosen[0]), "scale": scale, "cost": cost.to_json()})
        return chosen[0]

    def select_each(
        self, part: str, scores: Sequence[IntVector], change: ScoreRange, cost: Cost, *, k: int = 1
    ) -> list[list[int]]:
        """Several selections for the cost of one, when `change` bounds the *sum* over them of the lengths of the
        ranges in which their scores can change: selections over disjoint sets of rows, for example.

        Proof. With one scale for all, a selection whose scores change in a range of length r_s loses r_s / scale
        (pure) or r_s^2 / (8 scale^2) (zCDP) for each of its k choices, and these add up over the selections. With
        r = sum of r_s: sum r_s / scale = r / scale, and sum r_s^2 <= r^2: the cost of one selection of range r.
        """
        chosen, scale = self._choose(scores, change, cost, k)
        self._record(part, {"values": [list(c) for c in chosen], "scale": scale, "cost": cost.to_json()})
        return chosen

    def _choose(
        self, scores: Sequence[IntVector], change: ScoreRange, cost: Cost, k: int
    ) -> tuple[list[list[int]], str]:
        self._admit(change.neighbours)
        self._take(cost)
        law, chosen = selection(change, 1, cost, k), []
        for candidates in scores:
            if not 1 <= k <= len(candidates):
                raise InternalError(f"{k} of {len(candidates)} candidates were asked for")
            plain = [whole(score) for score in candidates]
            chosen.append(self.door.sampler.choose(plain, replace(law, candidates=len(plain)), change, cost))
        return chosen, str(law.scale)

    def select_combination(
        self, part: str, scores: NDArray[np.int64], change: ScoreRange, cost: Cost, *, uses: int = 1
    ) -> list[list[int]]:
        """For each of C groups `uses` of A public candidates, drawn by the exponential mechanism over all combinations.

        scores[a, T] is what candidate a adds when the set T of groups uses it (bit c for group c, 2^C columns), and
        `change` is the range in which the score of a whole combination, their sum over candidates, can change.
        """
        self._admit(change.neighbours)
        self._take(cost)
        exact = np.asarray(scores)
        if exact.ndim != 2 or exact.dtype != np.int64 or exact[:, 0].any():
            raise InternalError("the scores of combinations are whole numbers, none for a candidate that is not used")
        groups = exact.shape[1].bit_length() - 1
        rate = rate_for(change.length, selection_epsilon(cost), len(exact), groups, uses)
        chosen = self.door.sampler.combine(exact, rate, uses)
        self._record(part, {"values": chosen, "rate": str(rate), "cost": cost.to_json()})
        return chosen

    def query_loop(self, part: str, cost: Cost) -> QueryLoop:
        """Ask again and again, each question chosen from earlier answers, for at most `cost` in all.

        What the loop does not use is given back: whether it went on must be decided from released answers alone. The
        account is a privacy filter then (Feldman and Zrnic 2021; proof in docs/methods/adaptive-explanations.md).
        Nothing else is ever given back, because a body that skips a release might do so because of the rows, and a
        smaller charge would tell.
        """
        self._take(cost)
        loop = QueryLoop(self, part, cost)
        self._loops.append(loop)
        return loop

    @property
    def left(self) -> Cost:
        """What is left of the reservation."""
        return self.cost - self._used

    @property
    def charged(self) -> Cost:
        """The whole reservation, less what its query loops left."""
        total = self.cost
        for loop in self._loops:
            total = total - loop.left
        return total

    def close(self) -> JsonObject:
        """No more releases; everything that left."""
        self.is_open = False
        if not self._parts and self.cost.amount:  # a price of zero buys a receipt, and no value
            raise InternalError("nothing was released through the gate")
        return {"parts": self._parts}

    def _admit(self, neighbours: Neighbours) -> None:
        if not self.is_open:
            raise InternalError("the gate is closed")
        if neighbours != self.neighbours:
            raise InternalError(
                f"a bound proven for '{neighbours.describe()}' was used for '{self.neighbours.describe()}'"
            )

    def _take(self, cost: Cost) -> None:
        if not self._used + cost <= self.cost:
            raise InternalError("a release would cost more than was reserved for it")
        self._used = self._used + cost

    def _record(self, part: str, values: JsonObject) -> None:
        if part in self._parts:
            raise InternalError(f"the part {part!r} was released twice")
        self._parts[part] = values


class QueryLoop:
    """Questions for one cost, numbered in the order they were asked."""

    def __init__(self, gate: Gate, part: str, cost: Cost) -> None:
        self._gate, self._part = gate, part
        self.left, self.asked = cost, 0

    def ask(
        self, values: IntVector, sensitivity: Sensitivity, cost: Cost, *, mechanism: str | None = None
    ) -> list[int]:
        """One more noisy answer, charged against the loop's cost."""
        if not self.affords(cost):
            raise InternalError("a question would cost more than the loop has left")
        self.asked, self.left = self.asked + 1, self.left - cost
        return self._gate._perturb(f"{self._part}-{self.asked}", values, sensitivity, cost, mechanism)

    def affords(self, cost: Cost) -> bool:
        """Whether one more question of this cost fits."""
        return cost <= self.left


def split(cost: Cost, share: Fraction) -> tuple[Cost, Cost]:
    """`cost` in two parts that add up to it exactly."""
    return cost * share, cost * (1 - share)
