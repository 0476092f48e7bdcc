"""How one total is divided between a stand-in and the requests of a batch: by forecasts, from public things alone.

Tried are a few shares for something that several requests can use (released histograms, or a stand-in), none included,
and for each of them many divisions of the rest. Best is the smallest product of two numbers: the geometric mean of the
errors, each relative to that of the request alone at the whole cost, and the largest of them. Weights are exponents of
the mean.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from fractions import Fraction
from inspect import signature
from typing import Any

from dpexplain.core.budget import Cost
from dpexplain.data.table import PrivateTable
from dpexplain.errors import InputError, ModelError
from dpexplain.maths.posterior import DOMAIN_WORTH
from dpexplain.methods.batches.gates import rehearse
from dpexplain.methods.batches.part import Part, Wanted
from dpexplain.methods.marginals.request import MarginalsRequest
from dpexplain.methods.registry import keyword_of, method_of
from dpexplain.methods.request import Request
from dpexplain.methods.result import Result
from dpexplain.methods.setting import Outlook, Setting
from dpexplain.methods.stand_in.request import StandInRequest

SHARED_SHARES = tuple(Fraction(share, 20) for share in (1, 3, 5, 8))  # of the total, for what several requests use
QUANTA = 8  # of the rest, for each request: shares are whole numbers of them
MOVES = (4, 2, 1)  # so many go from one request to another, as long as that is better
BETTER = 1e-6  # what counts as better: last digits of another machine do not
STEP = 2  # errors are forecast at the powers of it, as prices, and read off between them: forecasts may take long
LEAST_WORTH = 1.0  # rows that a stand-in is worth at least, in a forecast
USABLE = "marginals", "stand_in"
UNSURE = {"permutation-importance"}  # a stand-in makes their error larger (`python -m bench posterior_influence`)
FOLLOWING = {"dp-kmeans"}  # they begin where a stand-in says: what they ask for follows from its values


class TooSmall(InputError):
    """A total is not enough for all requests of a batch."""


@dataclass(frozen=True)
class Shared:
    """What is released first, for the requests that can use it: the requests, and the share of each of the total."""

    requests: tuple[Request, ...] = ()
    share: Fraction = Fraction(0)  # of each of them

    def __hash__(self) -> int:
        return hash((self.names, self.share))  # a request may hold a list

    @property
    def names(self) -> tuple[str, ...]:
        return tuple(map(repr, self.requests))

    @property
    def rest(self) -> Fraction:
        return 1 - len(self.requests) * self.share


@dataclass(frozen=True)
class Rehearsed:
    """Something that would be released first: its part, what it asks for, and what it would be, from public rows."""

    part: Part
    wanted: Wanted
    result: Result


@dataclass(frozen=True)
class Expected:
    """The forecast of one request at one cost, and which of the shared results it is handed, by keyword."""

    outlook: Outlook
    handed: tuple[str, ...]


@dataclass(frozen=True, eq=False)
class Reading:
    """A request that is read off the stand-in of a batch, free: its place in the list that was given, and how."""

    request: Request
    place: int
    weight: float
    how: Callable[[PrivateTable, Any, Any], Any]


@dataclass(frozen=True, eq=False)
class Question:
    """What is asked of one table for one total. Everything in it is public.

    requests  those that the total is divided between, without what is shared; `places` in the list that was given
    readings  those that are read off a shared stand-in
    chosen    what is shared, where the caller says so: it gets a share in any case
    """

    table: PrivateTable
    model: Any
    clustering: Any
    requests: tuple[Request, ...]
    places: tuple[int, ...]
    chosen: tuple[Request, ...]
    weights: tuple[float, ...]
    setting: Setting
    readings: tuple[Reading, ...] = ()
    remembered: dict[Any, Any] = field(default_factory=dict)

    def subject(self, request: Request) -> Any:
        """What a request explains: the model, a clustering, or nothing but the table."""
        if isinstance(request, StandInRequest | MarginalsRequest):
            return None
        return self.clustering if method_of(request).takes_clustering else self.model

    def candidates(self) -> list[Shared]:
        """What may be shared, and for which share of the total."""
        if self.chosen:
            return [Shared(self.chosen, share) for share in SHARED_SHARES]
        if self.readings:
            return [Shared((StandInRequest(),), share) for share in SHARED_SHARES]
        usable = {name for request in self.requests for name in keywords_of(request)}
        if not usable:
            return [Shared()]
        wanted: Request = StandInRequest() if "stand_in" in usable else MarginalsRequest()
        return [Shared(), *(Shared((wanted,), share) for share in SHARED_SHARES)]

    def rehearsed(self, shared: Shared, total: Cost, seed: int = 0) -> list[Rehearsed]:
        """The shared parts at this cost, one after the other, as they would be on public rows."""
        key = "shared", shared, total.amount, seed
        if key not in self.remembered:
            found = list[Rehearsed]()
            for number, request in enumerate(shared.requests):
                handed = self._handed(request, found)
                part = Part(number, request, self.subject(request), total * shared.share, handed)
                known = known_of(part, [one.result for one in found])
                wanted = part.wanted(self.table, known)
                payload = rehearse(self.table, wanted.body, part.cost, seed)
                found.append(Rehearsed(part, wanted, part.provisional(self.table, wanted, payload, known)))
            self.remembered[key] = found
        return list(self.remembered[key])

    def _handed(self, request: Request, earlier: Sequence[Rehearsed]) -> dict[str, int]:
        """What a shared part gets of those before it."""
        if not earlier or "marginals" not in keywords_of(request):
            return {}
        return {"marginals": earlier[-1].part.number}

    def worth(self, shared: Shared, total: Cost) -> float:
        """How many rows the stand-in is taken to be worth in forecasts: the middle, by orders of magnitude, of one row
        and what the noise of its counts allows; without one, of what the declared domain can be worth.
        """
        most = max((getattr(one.result, "worth", 0.0) for one in self.rehearsed(shared, total)), default=0.0)
        return math.sqrt(LEAST_WORTH * max(most, DOMAIN_WORTH))

    def shared_outlooks(self, shared: Shared, total: Cost) -> list[Outlook]:
        """The forecasts of the shared parts."""
        key = "shared outlooks", shared, total.amount
        if key not in self.remembered:
            rehearsed, found = self.rehearsed(shared, total), list[Outlook]()
            known = [one.result for one in rehearsed]
            for part in (one.part for one in rehearsed):
                setting = replace(self.setting, **known_of(part, known))
                if part.subject is None:
                    setting = replace(setting, features=None, model=None)
                found.append(part.method.load(part.method.outlook)(part.request, setting, part.cost))
            self.remembered[key] = found
        return list(self.remembered[key])

    def alone(self, reading: Reading, total: Cost) -> Outlook:
        """The forecast of a request that is read off, by itself at the whole cost."""
        method = method_of(reading.request)
        found: Outlook = method.load(method.outlook)(reading.request, self._setting(reading.request), total)
        return found

    def read_error(self, shared: Shared, total: Cost) -> float:
        """The error of a result that is read off the shared stand-in: that of its counts."""
        return self.shared_outlooks(shared, total)[-1].error  # a stand-in is the last of what is shared

    def expected(self, number: int, shared: Shared, total: Cost, cost: Cost) -> Expected:
        """The forecast of one request for this cost, with whatever of the shared results makes its error smallest: but
        with the stand-in in any case where it can use one. Accumulated effects take finer bins then, which are forecast
        a little worse for their noise; that curves come closer in them is in no forecast (`python -m bench posterior
        --part everything`). So their error is told as the smaller one.
        """
        best: Expected | None = None
        problem: InputError | None = None
        least = math.inf
        for handed in self._options(number, shared, total):
            found = self._outlook(number, handed, shared, total, cost)
            if isinstance(found, InputError):
                problem = problem or found
                continue
            least = min(least, found.error)
            more = best is None or ("stand_in" in handed) > ("stand_in" in best.handed)
            same = best is not None and ("stand_in" in handed) == ("stand_in" in best.handed)
            if more or (same and best is not None and found.error < best.outlook.error * (1 + BETTER)):
                best = Expected(found, handed)
        if best is None:
            assert problem is not None
            raise InputError(problem.message, hint=problem.hint, spent="")
        return replace(best, outlook=replace(best.outlook, error=least))

    def error(self, number: int, shared: Shared, total: Cost, cost: Cost) -> float:
        """About the error of `expected`, read off between costs for which it was forecast; infinite where there is no
        forecast for this cost.
        """
        options = self._options(number, shared, total)
        return min(self._between(number, handed, shared, total, cost) for handed in options)

    def _between(self, number: int, handed: tuple[str, ...], shared: Shared, total: Cost, cost: Cost) -> float:
        power = math.floor(math.log(float(cost.amount), STEP))
        prices = [Fraction(STEP) ** power, Fraction(STEP) ** (power + 1)]
        ends = [self._outlook(number, handed, shared, total, replace(cost, amount=price)) for price in prices]
        low, high = (math.inf if isinstance(end, InputError) else max(end.error, 1e-300) for end in ends)
        if math.isinf(low) or math.isinf(high):
            exact = self._outlook(number, handed, shared, total, cost)
            return math.inf if isinstance(exact, InputError) else exact.error
        place = math.log(cost.amount / prices[0], STEP)
        return math.exp((1 - place) * math.log(low) + place * math.log(high))

    def _options(self, number: int, shared: Shared, total: Cost) -> list[tuple[str, ...]]:
        """What a request may be handed: nothing, one of the shared results, all that it can use."""
        first = [one.result for one in self.rehearsed(shared, total)]
        names = [name for name in keywords_of(self.requests[number]) if provider(name, first) is not None]
        return [one for one in subsets(names) if not one or self._usable(number, one, shared, total)]

    def _usable(self, number: int, handed: tuple[str, ...], shared: Shared, total: Cost) -> bool:
        """Whether a request can be handed these results. What it asks for is written down before rows are read, so the
        values that it is handed must not show there: it asks for the same on other public rows.
        """
        key = "usable", number, handed, shared.names
        if key not in self.remembered:
            request = self.requests[number]
            asked = list[Any]()
            for seed in (0, 1):
                rehearsed = self.rehearsed(shared, total, seed)
                first = [one.result for one in rehearsed]
                numbers = {name: number_of(name, first) for name in handed}
                cost = total * (shared.rest / len(self.requests))
                part = Part(len(first) + number, request, self.subject(request), cost, numbers)
                try:
                    asked.append(part.wanted(self.table, known_of(part, first)).request)
                except ModelError:
                    raise
                except InputError:
                    asked.append(None)
            self.remembered[key] = asked[0] is not None and asked[0] == asked[1]
        usable: bool = self.remembered[key]
        return usable

    def _outlook(
        self, number: int, handed: tuple[str, ...], shared: Shared, total: Cost, cost: Cost
    ) -> Outlook | InputError:
        """The forecast of one request for this cost and with these results, or why there is none. Remembered."""
        key = "outlook", number, handed, (shared, total.amount) if handed else None, cost.amount
        if key not in self.remembered:
            request, method = self.requests[number], method_of(self.requests[number])
            first = [one.result for one in self.rehearsed(shared, total)]
            known = {name: provider(name, first) for name in handed}
            worth = self.worth(shared if "stand_in" in handed else Shared(), total)
            setting = replace(self._setting(request), worth=worth, **known)
            try:
                found = method.load(method.outlook)(request, setting, cost)
                finite = math.isfinite(found.error)
                self.remembered[key] = (
                    found if finite else InputError(f"{request.label} is not possible with this epsilon.")
                )
            except ModelError:  # which no price makes better
                raise
            except InputError as error:
                self.remembered[key] = error
        result: Outlook | InputError = self.remembered[key]
        return result

    def _setting(self, request: Request) -> Setting:
        subject = self.subject(request)
        if subject is self.model and subject is not None:
            return self.setting
        key = "setting", id(subject)
        if key not in self.remembered:
            mine = Setting.of(self.table, subject)
            self.remembered[key] = replace(mine, rows=self.setting.rows, budget=self.setting.budget)
        result: Setting = self.remembered[key]
        return result


@dataclass(frozen=True)
class Division:
    """A total, divided: what is shared, and the share of each request of the total."""

    total: Cost
    shared: Shared
    shares: tuple[Fraction, ...]

    def cost(self, number: int) -> Cost:
        return self.total * self.shares[number]


def keywords_of(request: Request) -> list[str]:
    """By which keywords the method of a request takes earlier results that a batch can share."""
    method = method_of(request)
    declared = {keyword_of(name) for name in method.takes if method.name not in FOLLOWING}
    declared -= {"stand_in"} if method.name in UNSURE else set()
    return [name for name in USABLE if name in declared & set(signature(method.load(method.explain)).parameters)]


def provider(keyword: str, results: Sequence[Any]) -> Any:
    """The shared result that is handed over as this keyword, if there is one."""
    for result in reversed(results):
        if keyword == "marginals" and result.marginals is not None:
            return result.marginals
        if keyword == "stand_in" and result.kind == "stand-in":
            return result
    return None


def number_of(keyword: str, results: Sequence[Any]) -> int:
    """The number of the shared part that is handed over as this keyword."""
    given = provider(keyword, results)
    return next(place for place, one in enumerate(results) if given is one or given.receipt is one.receipt)


def known_of(part: Part, results: Sequence[Any]) -> dict[str, Any]:
    """What a part is handed: earlier results of the same batch, by keyword."""
    return {
        name: results[number].marginals if name == "marginals" else results[number]
        for name, number in part.handed.items()
    }


def subsets(names: Sequence[str]) -> list[tuple[str, ...]]:
    """None of them, each one, all of them."""
    found: list[tuple[str, ...]] = [(), *((name,) for name in names)]
    return found if len(names) < 2 else [*found, tuple(names)]


# The search -----------------------------------------------------------------------------------------------------------


def divide(question: Question, total: Cost) -> Division:
    """The division of a total with the smallest forecast errors; InputError where no division is enough for all."""
    alone = [_alone(question, number, total) for number in range(len(question.requests))]
    alone += [question.alone(reading, total).error for reading in question.readings]
    best: tuple[float, Division] | None = None
    for shared in question.candidates():
        found = _divided(question, shared, total, alone)
        if found is not None and (best is None or found[0] < best[0] - BETTER):
            best = found
    if best is None:
        raise _too_small(question, total)
    return best[1]


def _alone(question: Question, number: int, total: Cost) -> float:
    """The error of a request by itself at the whole cost."""
    return max(question.expected(number, Shared(), total, total).outlook.error, 1e-300)


def _divided(question: Question, shared: Shared, total: Cost, alone: Sequence[float]) -> tuple[float, Division] | None:
    """The best division of the rest, and how good it is; None where none was found that is enough for all."""
    count, weights = len(question.requests), [*question.weights, *(one.weight for one in question.readings)]
    quanta = _quanta(question.weights, QUANTA * count)

    def division(quanta: Sequence[int]) -> Division:
        return Division(total, shared, tuple(shared.rest * Fraction(q, QUANTA * count) for q in quanta))

    def loss(quanta: Sequence[int]) -> float:
        costs = [division(quanta).cost(number) for number in range(count)]
        errors = [question.error(number, shared, total, cost) for number, cost in enumerate(costs)]
        errors += [question.read_error(shared, total) for _ in question.readings]
        logs = [math.log(max(error, 1e-300) / one) for error, one in zip(errors, alone, strict=True)]
        return sum(weight * log for weight, log in zip(weights, logs, strict=True)) / sum(weights) + max(logs)

    try:
        least = loss(quanta)
    except InputError:  # what is shared cannot be had for this price
        return None
    for size in MOVES:
        improved = True
        while improved:
            improved = False
            for giver in range(count):
                for taker in range(count):
                    if giver == taker or quanta[giver] <= size:
                        continue
                    tried = [q + size * ((i == taker) - (i == giver)) for i, q in enumerate(quanta)]
                    new = loss(tried)
                    if new < least - 1e-3:
                        quanta, least, improved = tried, new, True
    return None if math.isinf(least) or math.isnan(least) else (least, division(quanta))


def _quanta(weights: Sequence[float], total: int) -> list[int]:
    """Whole numbers that add up to `total`, at least one each, as near to the weights as that allows."""
    exact = [max(1.0, weight / sum(weights) * total) for weight in weights]
    found = [max(1, math.floor(one)) for one in exact]
    order = sorted(range(len(found)), key=lambda i: (found[i] - exact[i], i))
    while sum(found) != total:
        step = 1 if sum(found) < total else -1
        place = next(i for i in (order if step > 0 else reversed(order)) if found[i] + step >= 1)
        found[place] += step
        order.remove(place)
        order.append(place) if step > 0 else order.insert(0, place)
    return found


def _too_small(question: Question, total: Cost) -> TooSmall:
    """Which requests a total would be enough for, by even shares."""
    kept, reasons = list(range(len(question.requests))), list[str]()
    while kept:
        lost = list[int]()
        for number in kept:
            try:
                question.expected(number, Shared(), total, total * Fraction(1, len(kept)))
            except InputError as error:
                lost.append(number)
                reasons.append(f"{question.requests[number].label} ({error.message.rstrip('.')})")
        if not lost:
            break
        kept = [number for number in kept if number not in lost]
    fits = "; ".join(question.requests[number].label for number in kept)
    return TooSmall(
        f"{question.table.budget.describe(total)} is too small for all of this batch. Not possible: "
        f"{'; '.join(reasons) or 'what is shared'}.",
        hint=f"it is enough for: {fits}. Ask for fewer things, or for more epsilon" if fits else "use a larger epsilon",
    )


def cheapest(question: Question, wanted: Sequence[float], price: Callable[[Fraction], Cost]) -> Division:
    """The smallest total, to three digits, by which every forecast error is at most the wanted one."""

    def enough(epsilon: Fraction) -> Division | None:
        total = price(epsilon)
        found = (_enough(question, shared, total, wanted) for shared in question.candidates())
        return next((one for one in found if one is not None), None)

    steps = [Fraction(digit) * Fraction(10) ** power for power in range(-3, 3) for digit in (1, 2, 4, 7)]
    first = next((step for step in steps if enough(step) is not None), None)
    if first is None:
        raise InputError(
            f"these errors need an epsilon above {float(steps[-1]):g}.", hint="allow larger ones, or ask for less"
        )
    low, high = max((step for step in steps if step < first), default=first / 2), first
    while high / low > Fraction(101, 100):
        middle = three_digits((low + high) / 2)
        if middle in (low, high):
            break
        low, high = (low, middle) if enough(middle) is not None else (middle, high)
    found = enough(high)
    assert found is not None
    return found


def three_digits(value: Fraction) -> Fraction:
    """A little more than `value`, in three digits."""
    step = Fraction(10) ** (math.floor(math.log10(float(value))) - 2)
    return Fraction(-(-value // step)) * step


def _enough(question: Question, shared: Shared, total: Cost, wanted: Sequence[float]) -> Division | None:
    """A division of this total by which nobody's error is above the wanted one, if there is one."""
    grains, count = QUANTA * max(len(wanted), 4), len(question.requests)
    wanted, read = wanted[:count], wanted[count:]

    def good(number: int, grain: int) -> bool:
        cost = total * (shared.rest * Fraction(grain, grains))
        return question.error(number, shared, total, cost) <= wanted[number]

    try:
        if read and question.read_error(shared, total) > min(read):
            return None
    except InputError:  # what is shared cannot be had for this price
        return None
    needed = list[int]()
    for number in range(count):
        low, high = 0, grains - sum(needed)
        try:
            if high < 1 or not good(number, high):
                return None
        except InputError:  # what is shared cannot be had for this price
            return None
        while high - low > 1:
            middle = (low + high) // 2
            low, high = (low, middle) if good(number, middle) else (middle, high)
        needed.append(high)
    while sum(needed) < grains:  # what is left over goes to whoever has least
        needed[needed.index(min(needed))] += 1
    return Division(total, shared, tuple(shared.rest * Fraction(one, grains) for one in needed))


def weights_of(requests: Sequence[Request], weights: Any) -> tuple[float, ...]:
    """The weight of each request: one, where nothing else is said."""
    said = {} if weights is None else by_place(requests, weights, "weights")
    found = tuple(said.get(number, 1.0) for number in range(len(requests)))
    if not all(math.isfinite(weight) and weight > 0 for weight in found):
        raise InputError("weights are numbers above 0.", spent="")
    return found


def by_place(requests: Sequence[Request], said: Any, what: str) -> dict[int, float]:
    """A number for some requests, by their places: a list has one for each, a mapping names requests or labels."""
    if isinstance(said, Mapping):
        pairs = [(_place(requests, key, what), value) for key, value in said.items()]
    elif isinstance(said, Sequence) and not isinstance(said, str) and len(said) == len(requests):
        pairs = [(place, value) for place, value in enumerate(said) if value is not None]
    else:
        raise InputError(
            f"{what} is a mapping of requests or of their labels, or a list with a number for each request.", spent=""
        )
    try:
        return {place: float(value) for place, value in pairs}
    except (TypeError, ValueError):
        raise InputError(f"{what} has numbers; something else was given.", spent="") from None


def _place(requests: Sequence[Request], key: Any, what: str) -> int:
    places = [place for place, request in enumerate(requests) if key in (request, request.label)]
    if not places:
        raise InputError(
            f"{what} names {str(key)[:100]!r}, which is not in the batch.",
            hint="it has: " + "; ".join(request.label for request in requests),
            spent="",
        )
    if len(places) > 1:
        raise InputError(
            f"{what}: {str(key)[:100]!r} is the label of several requests.", hint="name the request itself", spent=""
        )
    return places[0]
