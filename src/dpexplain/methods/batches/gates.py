"""Gates of the parts of a batch. None of them makes noise: what a part sends goes through the gate of the batch."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from dpexplain.core.budget import Cost
from dpexplain.core.canonical import JsonObject
from dpexplain.core.mechanisms import best
from dpexplain.core.release import Gate, IntVector, QueryLoop
from dpexplain.core.sensitivity import ScoreRange, Sensitivity
from dpexplain.data.public_random import PublicRandom
from dpexplain.data.table import PrivateTable
from dpexplain.errors import InternalError
from dpexplain.methods.batches.passes import OwnPass, RowPass
from dpexplain.methods.batches.turns import Meet
from dpexplain.receipts import part_name, part_of

REHEARSED_ROWS = 1_024  # public rows, in a rehearsal


class PartGate(Gate):
    """The gate of one part: it takes from the part's own cost first, then from the gate of the whole batch, which
    alone releases anything and keeps what is released. A part can therefore spend no more than its own cost, and all
    of them together no more than was reserved, whatever a part does.
    """

    def __init__(self, whole: Gate, number: int, cost: Cost, meet: Meet) -> None:
        super().__init__(whole.door, cost)
        self.is_open = False  # rows are read by the gate of the batch alone, as long as that one is open
        self.meet, self.released = meet, 0
        self._whole, self._number = whole, number

    def _name(self, part: str, cost: Cost) -> str:
        self._take(cost)
        self.released += 1
        return part_name(self._number, part)

    def sent(self) -> JsonObject:
        """What this part released."""
        if not self.released:
            raise InternalError("a part of a batch released nothing")
        return part_of({"parts": self._whole._parts}, self._number)

    def noisy_sum(
        self, part: str, values: IntVector, sensitivity: Sensitivity, cost: Cost, *, mechanism: str | None = None
    ) -> list[int]:
        return self._whole.noisy_sum(self._name(part, cost), values, sensitivity, cost, mechanism=mechanism)

    def select(self, part: str, scores: IntVector, change: ScoreRange, cost: Cost, *, k: int = 1) -> list[int]:
        return self._whole.select(self._name(part, cost), scores, change, cost, k=k)

    def select_each(
        self, part: str, scores: Sequence[IntVector], change: ScoreRange, cost: Cost, *, k: int = 1
    ) -> list[list[int]]:
        return self._whole.select_each(self._name(part, cost), scores, change, cost, k=k)

    def select_combination(
        self, part: str, scores: Any, change: ScoreRange, cost: Cost, *, uses: int = 1
    ) -> list[list[int]]:
        return self._whole.select_combination(self._name(part, cost), scores, change, cost, uses=uses)

    def query_loop(self, part: str, cost: Cost) -> QueryLoop:
        return self._whole.query_loop(self._name(part, cost), cost)


class Rehearsal(Gate):
    """The gate of a rehearsal, which sees public rows only: what is sent comes back as it is, with the law that its
    noise would have. No account and no sampler has to do with it.
    """

    def __init__(self, table: PrivateTable, cost: Cost, seed: int) -> None:
        super().__init__(table.door, cost)
        self.is_open = False  # nothing is reserved, so that no private row can be read by it
        size = min(REHEARSED_ROWS, table.rows_hint or REHEARSED_ROWS)
        even = PublicRandom(seed).rows(table.domain, size)
        self._rows = even.take(np.zeros(size, dtype=np.int64)) if seed else even
        self._times = max(1, (table.rows_hint or REHEARSED_ROWS) // size) + seed

    def meet(self, wanted: RowPass | OwnPass) -> Any:
        if not isinstance(wanted, RowPass) or wanted.secret:
            raise InternalError("only sums over rows are rehearsed")
        return self._times * wanted.kernel(self._rows)

    def noisy_sum(
        self, part: str, values: IntVector, sensitivity: Sensitivity, cost: Cost, *, mechanism: str | None = None
    ) -> list[int]:
        noise, plain = best(sensitivity, len(values), cost, mechanism), [int(value) for value in values]
        self._record(part, {"values": plain, "noise": noise.to_json(), "cost": cost.to_json()})
        return plain

    def select(self, part: str, scores: IntVector, change: ScoreRange, cost: Cost, *, k: int = 1) -> list[int]:  # noqa: ARG002 - as for a gate
        chosen = [int(place) for place in np.argsort(-np.asarray(scores), kind="stable")[:k]]
        self._record(part, {"values": chosen, "scale": "1/1", "cost": cost.to_json()})
        return chosen

    def select_each(self, *_: Any, **__: Any) -> list[list[int]]:
        raise InternalError("this is not rehearsed")

    select_combination = select_each

    def query_loop(self, *_: Any, **__: Any) -> QueryLoop:
        raise InternalError("this is not rehearsed")


def rehearse(table: PrivateTable, body: Callable[[Gate], None], cost: Cost, seed: int = 0) -> Any:
    """What a body would release if the table were rows drawn evenly from the domain, and noise were none. Another seed
    stands for a table that is as far from even as can be: one row of the domain, again and again.
    """
    gate = Rehearsal(table, cost, seed)
    body(gate)
    return gate.close()
