"""One request of a batch: what its method would ask the door for, and what it makes of the answer.

A method's `explain` ends in one `table.release(...)`. It is called with a table that stands for the private one: first
to find out what it asks for (the call ends there), later, when all is released, to make its result of the answer. Both
calls must ask for the same thing: what a part asks for is written into the request of the batch before rows are read.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from types import SimpleNamespace
from typing import Any

from dpexplain.columns import names_of
from dpexplain.core.account import Entry, Stored
from dpexplain.core.budget import Cost
from dpexplain.core.canonical import JsonObject, digest, freeze
from dpexplain.core.release import Gate
from dpexplain.data.rows import Rows
from dpexplain.data.table import PrivateTable
from dpexplain.errors import InputError, InternalError
from dpexplain.methods.batches.passes import OwnPass, RowPass
from dpexplain.methods.registry import Method, method_of
from dpexplain.methods.request import Request
from dpexplain.methods.result import Result
from dpexplain.receipts import Receipt, Whole, package_version, placeholder


@dataclass(frozen=True)
class Wanted:
    """What a part asks the door for."""

    label: str
    request: JsonObject  # with its price
    body: Callable[[Gate], None]


class Asked(BaseException):
    """Ends a call of `explain` where it asks for its release. No error, so nothing that handles errors stops it."""

    def __init__(self, wanted: Wanted) -> None:
        super().__init__()
        self.wanted = wanted


@dataclass(frozen=True)
class Answer:
    """What was released for a part, and where that stands."""

    wanted: Wanted
    receipt: Receipt
    payload: JsonObject


class PartTable(PrivateTable):
    """A private table as one part of a batch sees it: the part's gate says how rows are read, and a release is asked
    for once. `known` are results of the same batch that are not in the ledger yet.
    """

    def __init__(self, table: PrivateTable, answer: Answer | None, known: Sequence[Result]) -> None:
        vars(self).update(vars(table))
        self._table, self._answer = table, answer
        every = [one for result in known for one in (result, *result.relies_on)]
        receipts = [(one.receipt, one.released) for one in every if one.receipt.entry.sequence < 0]
        stored = {paid.ledger_request_id: Stored(paid.label, paid.entry, values) for paid, values in receipts}
        account = table.door.account

        def find(request_id: str) -> Stored | None:
            return stored.get(request_id) or account.find(request_id)

        asks: Any = SimpleNamespace(find=find, declare=account.declare, name=account.name, budget=account.budget)
        self.door = SimpleNamespace(account=asks)  # type: ignore[assignment]  # no way out: it cannot release

    def release(
        self,
        method: str,
        label: str,
        spec: JsonObject,
        cost: Cost,
        body: Callable[[Gate], None],
        *,
        public: Sequence[str],
        outside: Sequence[str] | None = None,
        **about: Any,
    ) -> tuple[Receipt, JsonObject]:
        asked = self.asked(method, spec, public, outside, about)
        wanted = Wanted(label, freeze({**asked, "cost": cost.to_json()}), body)
        if self._answer is None:
            raise Asked(wanted)
        if wanted.request != self._answer.receipt.request:
            raise InternalError(f"{method} asks for something else after its release than before it")
        return self._answer.receipt, self._answer.payload

    def sum_rows(self, gate: Any, kernel: Any, columns: Sequence[str], *, size: int, label: str, **how: Any) -> Any:  # noqa: ARG002 - the batch has one message
        return gate.meet(RowPass(kernel, tuple(columns), size, **how))

    def sum_groups(self, gate: Any, *what: Any, **how: Any) -> Any:
        return gate.meet(OwnPass(lambda whole: self._table.sum_groups(whole, *what, **how)))

    def gathered(self, gate: Any, columns: Sequence[str]) -> Rows:
        rows: Rows = gate.meet(OwnPass(lambda whole: self._table.gathered(whole, columns)))
        return rows


@dataclass(frozen=True)
class Part:
    """One request of a batch, its cost, and what it explains.

    handed  by the keywords that `explain` takes, the numbers of the parts whose results are handed over
    """

    number: int
    request: Request
    subject: Any
    cost: Cost
    handed: Mapping[str, int] = field(default_factory=dict)

    @property
    def method(self) -> Method:
        return method_of(self.request)

    def wanted(self, table: PrivateTable, known: Mapping[str, Any]) -> Wanted:
        """What it asks the door for. Whatever is wrong with the request is found out here."""
        try:
            self._explain(PartTable(table, None, list(known.values())), known)
        except Asked as asked:
            if Cost.from_json(asked.wanted.request["cost"]) != self.cost:
                raise self._refusal() from None
            return asked.wanted
        raise self._refusal()

    def _refusal(self) -> InputError:
        return InputError(
            f"{self.request.label} cannot be a part of a batch: it is no single release for one cost.",
            hint="release it by itself",
        )

    def provisional(self, table: PrivateTable, wanted: Wanted, payload: JsonObject, known: Mapping[str, Any]) -> Result:
        """Its result before the batch has an entry: placeholders stand where later ones will."""
        sequence, hashed = placeholder(self.number)
        entry = Entry(table.name, "", sequence, "", hashed, "", self.cost)
        found: Result = self._result(table, wanted, wanted.request, entry, None, payload, known)
        return found

    def final(
        self, table: PrivateTable, wanted: Wanted, whole: Receipt, payload: JsonObject, known: Mapping[str, Any]
    ) -> Any:
        """Its result, from what the batch released."""
        batch = Whole(self.number, whole.request, whole.entry.payload_hash, whole.entry.charged)
        mine = batch.part(payload)
        entry = replace(whole.entry, payload_hash=digest(mine), charged=self.cost)
        request = batch.bound(whole.entry, payload)
        return self._result(table, wanted, request, entry, batch, mine, known, replayed=whole.replayed)

    def _result(
        self,
        table: PrivateTable,
        wanted: Wanted,
        request: JsonObject,
        entry: Entry,
        batch: Whole | None,
        payload: JsonObject,
        known: Mapping[str, Any],
        *,
        replayed: bool = False,
    ) -> Any:
        domain, label = table.domain.to_json(), wanted.label if batch is None else batch.label
        about = label, request, table.budget, table.neighbours, entry, package_version()
        receipt = Receipt(*about, replayed=replayed, domain=domain, batch=batch, names=names_of(table.domain))
        return self._explain(PartTable(table, Answer(wanted, receipt, payload), list(known.values())), known)

    def _explain(self, table: PrivateTable, known: Mapping[str, Any]) -> Any:
        answer = self.method.load(self.method.explain)(table, self.subject, self.request, cost=self.cost, **known)
        return answer[0] if getattr(self.request, "single", False) else answer
