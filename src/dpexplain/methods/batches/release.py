"""Several differentially private explanations for one cost, reserved once.

Guarantee    the account's definition and the total cost, for one unit replaced or added or removed; that of each part
             is its own cost, and what it was computed from. Public: what is public for each part, and the division.
Statistic    those of the parts.
Release      one call of the door. Its body runs the bodies of the parts, which read the rows in shared passes and send
             what they release through the gate of the batch, under their numbers. What is shared comes first; the
             others begin when it is released, because what they ask may follow from it.
Proof        docs/decisions/0035-batches.md: costs add up to the total, and a batch that was interrupted is finished at
             no new cost.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any

from dpexplain.core.budget import Cost
from dpexplain.core.canonical import JsonObject
from dpexplain.core.release import Gate
from dpexplain.data.table import PrivateTable
from dpexplain.errors import InputError, InternalError
from dpexplain.methods.batches import division as dividing
from dpexplain.methods.batches.division import Division, Question, Reading, Shared, known_of, number_of
from dpexplain.methods.batches.forecast import BatchForecast, Line
from dpexplain.methods.batches.gates import PartGate
from dpexplain.methods.batches.part import Part, Wanted
from dpexplain.methods.batches.passes import answer
from dpexplain.methods.batches.result import Batch
from dpexplain.methods.batches.turns import Meet, take_turns
from dpexplain.methods.registry import method_of
from dpexplain.methods.request import Request
from dpexplain.methods.setting import OPEN_WITH_DELTA, Outlook, Setting
from dpexplain.methods.stand_in.release import stand_in
from dpexplain.methods.stand_in.request import StandInRequest
from dpexplain.models import Model
from dpexplain.models.arguments import of_wrapped

MAX_REQUESTS = 40
ALONE = {"adaptive-explanation": "asks again and again, for costs of its own"}
READ_OFF = "Read off the stand-in, free: the error is that of its counts."
FIRST = "marginals", "stand-in"  # what others may be computed from, in this order


# The question and its forecast ----------------------------------------------------------------------------------------


def question_of(
    table: PrivateTable, model: Any, requests: Sequence[Request], *, weights: Any = None, clustering: Any = None,
    rows: int | None = None,
) -> Question:  # fmt: skip
    """What is asked, after all that is wrong with it by itself was found out."""
    if not isinstance(table, PrivateTable):
        raise InputError("table must be a dpx.PrivateTable.", spent="")
    if isinstance(requests, Request) or not isinstance(requests, Sequence) or not requests:
        raise InputError(
            "a batch is a list of requests.", hint='[dpx.requests.PartialDependence(feature="age"), ...]', spent=""
        )
    if len(requests) > MAX_REQUESTS:
        raise InputError(f"a batch has at most {MAX_REQUESTS} requests; got {len(requests)}.", spent="")
    for place, request in enumerate(requests):
        method = method_of(request)
        if request in requests[:place]:
            raise InputError(f"{request.label} is in the batch twice.", hint="one release answers both", spent="")
        if method.name in ALONE:
            raise InputError(
                f"{request.label} cannot be a part of a batch: it {ALONE[method.name]}.", hint="release it by itself"
            )
        if (method.needs_delta or request.needs_delta) and table.budget.delta is None:
            raise InputError(
                f"{request.label}: a pure account cannot pay for this, it needs Gaussian noise.", hint=OPEN_WITH_DELTA
            )
        if method.takes_clustering and clustering is None:
            raise InputError(
                f"{request.label} is about a clustering.",
                hint="hand it over as `clustering`; in a project file, describe it under [clustering]",
            )
    named = [one for name in FIRST for one in requests if method_of(one).name == name]
    _require_compatible(named)
    setting = Setting.of(table, model, rows=rows)
    if len(named) == len(requests):  # then the last of them is what the batch is for
        named = named[:-1]
    said = dividing.weights_of(requests, weights)
    readings = _readings(table, requests, named, said, setting)
    apart = [*named, *(reading.request for reading in readings)]
    places = tuple(place for place, one in enumerate(requests) if one not in apart)
    others, weighted = zip(*((requests[place], said[place]) for place in places), strict=True)
    return Question(table, model, clustering, others, places, tuple(named), weighted, setting, readings)


def _readings(
    table: PrivateTable,
    requests: Sequence[Request],
    named: Sequence[Request],
    weights: Sequence[float],
    setting: Setting,
) -> tuple[Reading, ...]:
    """The requests that are read off the stand-in that others share; none where nothing else would use one."""
    columns = set(table.domain)
    if named:
        last = named[-1]
        if not isinstance(last, StandInRequest):
            return ()
        columns &= set(last.features or columns)
    found = list[Reading]()
    for place, request in enumerate(requests):
        method = method_of(request)
        if request in named or method.read_off is None:
            continue
        how = method.load(method.read_off)(request, setting, table.budget.cost(epsilon=1))
        needed = {*(setting.features or columns), *(getattr(request, "features", None) or ())}
        if how is not None and needed <= columns:
            found.append(Reading(request, place, weights[place], how))
    rest = [one for one in requests if one not in named and one not in [reading.request for reading in found]]
    return tuple(found) if rest else ()


def _require_compatible(named: Sequence[Request]) -> None:
    """Refuse parts that exclude each other: two that every other one could be computed from."""
    kinds = [method_of(one).name for one in named]
    for kind in FIRST:
        if kinds.count(kind) > 1:
            raise InputError(
                f"two requests exclude each other: a batch has one of the kind {kind}, which all others share.",
                hint="release the other one by itself",
            )
    if len(kinds) == len(FIRST) and getattr(named[1], "grade", "") == "marginals":
        raise InputError(
            'the marginals and the stand-in exclude each other: one of the grade "marginals" is made of the same '
            "histograms.",
            hint='leave the marginals out, they are stand_in.marginals; or grade="tree"',
        )


def forecast_of(question: Question, found: Division) -> BatchForecast:
    """What a division is worth."""
    budget, total, shared = question.table.budget, found.total, found.shared
    lines = list[Line]()
    for one, outlook in zip(question.rehearsed(shared, total), question.shared_outlooks(shared, total), strict=True):
        about = one.part.request.label, float(shared.share), budget.epsilon_of(one.part.cost)
        lines.append(Line(*about, *_errors(outlook), None, law=outlook.law))
    for number, request in enumerate(question.requests):
        cost = found.cost(number)
        expected = question.expected(number, shared, total, cost)
        outlook = expected.outlook
        alone = question.expected(number, Shared(), total, total).outlook.error
        about = request.label, float(found.shares[number]), budget.epsilon_of(cost)
        lines.append(Line(*about, *_errors(outlook), alone, expected.handed, outlook.law, outlook.note))
    for reading in question.readings:
        outlook, alone = question.shared_outlooks(shared, total)[-1], question.alone(reading, total).error
        lines.append(Line(reading.request.label, 0.0, 0.0, *_errors(outlook), alone, ("stand_in",), note=READ_OFF))
    used = shared if any("stand_in" in line.uses for line in lines) else Shared()
    return BatchForecast(
        rows=question.setting.rows,
        neighbours=question.setting.neighbours,
        price=budget.describe(total),
        epsilon=budget.epsilon_of(total),
        delta=None if budget.delta is None else float(budget.delta),
        rho=None if budget.delta is None else float(total.amount),
        worth=question.worth(used, total),
        lines=tuple(lines),
        division=found,
    )


def _errors(outlook: Outlook) -> tuple[float, float]:
    """The error of an outlook, and half of the width of its interval."""
    return outlook.error, outlook.error if outlook.interval is None else outlook.interval


def plan_batch(
    requests: Sequence[Request],
    table: PrivateTable,
    model: Any,
    *,
    epsilon: Any = None,
    rho: Any = None,
    max_error: Any = None,
    weights: Any = None,
    clustering: Any = None,
    rows: int | None = None,
) -> tuple[Question, BatchForecast]:
    """The question, and the forecast of its best division. Reads no row and spends nothing."""
    question = question_of(table, model, requests, weights=weights, clustering=clustering, rows=rows)
    if (epsilon is None and rho is None) == (max_error is None):
        raise InputError("give exactly one of epsilon and max_error.", spent="")
    if max_error is None:
        found = dividing.divide(question, table.cost(epsilon=epsilon, rho=rho))
    else:
        said = dividing.by_place(requests, max_error, "max_error")
        each = [*question.places, *(reading.place for reading in question.readings)]
        missing = [requests[place].label for place in each if place not in said]
        if missing:
            raise InputError(
                f"max_error says nothing about {'; '.join(missing)}.", hint="give an error for each", spent=""
            )
        wanted = [said[place] for place in each]
        if not all(0 < one < float("inf") for one in wanted):
            raise InputError("errors in max_error are numbers above 0.", spent="")
        found = dividing.cheapest(question, wanted, lambda price: table.budget.cost(epsilon=price))
    return question, forecast_of(question, found)


# The release ----------------------------------------------------------------------------------------------------------


@dataclass(frozen=True, eq=False)
class Parts:
    """All parts of a batch in the order of their numbers: first what is shared, then the others."""

    question: Question
    shared: tuple[tuple[Part, Wanted], ...]
    others: tuple[tuple[Part, Wanted], ...]

    @classmethod
    def of(cls, question: Question, found: Division) -> Parts:
        """What each part asks for, found out on public rows. Whatever is wrong with one is refused here."""
        rehearsed = question.rehearsed(found.shared, found.total)
        first = [one.result for one in rehearsed]
        again = [one.result for one in question.rehearsed(found.shared, found.total, seed=1)]
        others = list[tuple[Part, Wanted]]()
        for place, request in enumerate(question.requests):
            cost = found.cost(place)
            handed = question.expected(place, found.shared, found.total, cost).handed
            numbers = {name: number_of(name, first) for name in handed}
            part = Part(len(first) + place, request, question.subject(request), cost, numbers)
            wanted = part.wanted(question.table, known_of(part, first))
            if handed and part.wanted(question.table, known_of(part, again)).request != wanted.request:
                raise InternalError("what a part asks for follows from values of the same batch")
            others.append((part, wanted))
        return cls(question, tuple((one.part, one.wanted) for one in rehearsed), tuple(others))

    @property
    def every(self) -> list[tuple[Part, Wanted]]:
        return [*self.shared, *self.others]

    @property
    def requests(self) -> list[JsonObject]:
        """What the ledger has of each part."""
        return [{"label": wanted.label, "request": wanted.request} for _, wanted in self.every]

    @property
    def public(self) -> list[str]:
        known = [str(fact) for _, wanted in self.every for fact in wanted.request["public"]]
        common = {self.question.table.domain.describe(), *self.question.table.neighbours.public}
        return [*(fact for fact in dict.fromkeys(known) if fact not in common), "how the total is divided"]

    def body(self, label: str, gate: Gate) -> None:
        """Release everything: what is shared one after the other, then all others side by side."""
        table, first = self.question.table, list[Any]()
        answers = partial(answer, table, gate, label)
        for part, wanted in self.shared:
            known, sent = known_of(part, first), dict[str, Any]()
            body = self._same(part, wanted, known).body
            take_turns([partial(_send, gate, part, body, sent)], answers)
            first.append(part.provisional(table, wanted, sent, known))
        asked = [(part, self._same(part, wanted, known_of(part, first))) for part, wanted in self.others]
        take_turns([partial(_send, gate, part, wanted.body, {}) for part, wanted in asked], answers)

    def _same(self, part: Part, wanted: Wanted, known: Mapping[str, Any]) -> Wanted:
        """What a part asks for now, which must be what was written into the request of the batch."""
        now = part.wanted(self.question.table, known)
        if now.request != wanted.request:
            raise InternalError("a part asks for something else than was reserved for it")
        return now


def _send(gate: Gate, part: Part, body: Any, sent: dict[str, Any], meet: Meet) -> None:
    """Run the body of one part with a gate of its own; `sent` is what it released."""
    own = PartGate(gate, part.number, part.cost, meet)
    body(own)
    sent.update(own.sent())


@of_wrapped
def batch(
    table: PrivateTable,
    model: Model,
    requests: Sequence[Request],
    *,
    epsilon: float | None = None,
    rho: float | None = None,
    max_error: Mapping[Any, float] | Sequence[float] | None = None,
    weights: Mapping[Any, float] | Sequence[float] | None = None,
    clustering: Any = None,
) -> Batch:
    """Several differentially private explanations for one cost: one reservation, shared passes over the rows.

    `epsilon` (or `rho`) is the whole cost; with `max_error`, an error for each request or its label, it is the
    smallest one whose forecast errors are that small. It is divided between the requests, and histograms or a stand-in
    that they share, by `dpx.plan(requests, table=table, model=model, epsilon=...)`, which shows the division for free.

    weights     how much the error of a request matters, beside 1 for the others
    clustering  what requests about clusters explain

    An identical batch is answered from the ledger, free. One that was interrupted is finished by the same call, at no
    new cost.
    """
    about: dict[str, Any] = {"max_error": max_error, "weights": weights, "clustering": clustering}
    question, forecast = plan_batch(requests, table, model, epsilon=epsilon, rho=rho, **about)
    return release_batch(question, forecast, requests)


def release_batch(question: Question, forecast: BatchForecast, requests: Sequence[Request]) -> Batch:
    """Release what was planned."""
    table, found = question.table, forecast.division
    parts = Parts.of(question, found)
    label = label_of(requests)
    receipt, payload = table.release(
        "batch",
        label,
        {"parts": len(parts.every)},
        found.total,
        partial(parts.body, label),
        public=parts.public,
        requests=parts.requests,
        resumable=True,
    )
    first = list[Any]()
    for part, wanted in parts.shared:
        first.append(part.final(table, wanted, receipt, payload, known_of(part, first)))
    others = [part.final(table, wanted, receipt, payload, known_of(part, first)) for part, wanted in parts.others]
    others += [reading.how(table, question.model, first[-1]) for reading in question.readings]
    places = [*(part.request for part, _ in parts.every), *(reading.request for reading in question.readings)]
    given = [[*first, *others][places.index(request)] for request in requests]
    domain = partial(stand_in, table, grade="domain")
    return Batch(requests, given, first, receipt, forecast, question.model, domain)


def label_of(requests: Sequence[Request]) -> str:
    """What the ledger calls the batch."""
    text = f"batch of {len(requests)}: " + "; ".join(request.label for request in requests)
    return text if len(text) <= 200 else text[:199] + "…"


def costs_of(found: Division) -> list[Cost]:
    """The costs of all parts, which add up to the total."""
    return [found.total * found.shared.share] * len(found.shared.requests) + [
        found.cost(number) for number in range(len(found.shares))
    ]
