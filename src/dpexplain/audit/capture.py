"""One real release on two neighbouring tables: what each of its parts hands to the sampler, and what that can tell.

Method      The release runs on the left table with a sampler that adds nothing and remembers what it was asked for, and
            on the right table, where the sampler gives the same answers again. Under the same history everything but
            the exact numbers must be equal: requests, parts, laws, bounds, costs, charges. Where they differ, rows
            decide what is seen.
Parts       Each part is held against its own share of the cost, after a fixed history. That is what composition asks
            for: a part must be worth its share after *every* history, and the door adds the shares up.
Exact loss  The law of the noise is known, so its loss on this pair is a number, and it must not exceed the cost: a
            check of bound and cost without chance.
Draws       `draws` sends the captured numbers through a real door again and again and scores every answer by its log
            likelihood ratio, the best score there is (Neyman, Pearson 1933). They are held against the exact loss
            (`Part.claim`), which is sharper than the cost. Numbers that are equal on both sides tell nothing under
            independent noise, and are left out; many draws of independent noise are one long vector.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass
from fractions import Fraction
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.special import ndtri

from dpexplain.audit.calls import Call, Choice, Combination, Sum, laws, renyi
from dpexplain.core.account import Ask, Entry, Stored
from dpexplain.core.budget import Budget, Cost, Definition
from dpexplain.core.canonical import JsonObject, digest
from dpexplain.core.combinations import draw
from dpexplain.core.mechanisms import Selection
from dpexplain.core.noise import Noise
from dpexplain.core.release import Door, Gate
from dpexplain.core.sensitivity import Neighbours, ScoreRange, Sensitivity
from dpexplain.data.table import PrivateTable
from dpexplain.errors import InternalError
from dpexplain.maths.laws import log_ratio, shape_of

Floats = NDArray[np.float64]
Integers = NDArray[np.int64]
Explain = Callable[[PrivateTable], Any]

FINE_SCALE = 8  # from this scale on, discrete Gaussian noise is as good as continuous: mu is off by less than 0.1 %
CONTINUOUS = 2**10  # from this scale on, only change / scale counts
BLOCK = 20_000  # noisy numbers in one release


class Recorder:
    """A sampler that adds no noise and remembers its calls. It answers as it is told, by the number of the call; else
    with the exact values, the plainly best candidates, or the first ones for every slot.
    """

    def __init__(self, answers: Mapping[int, Any]) -> None:
        self._answers = answers
        self.calls: list[Call] = []
        self.given: list[Any] = []

    def perturb(self, values: Sequence[int], noise: Noise, sensitivity: Sensitivity, cost: Cost) -> list[int]:
        exact = tuple(int(v) for v in values)
        answer: list[int] = self._answer(Sum(exact, noise, sensitivity, cost), list(exact))
        return answer

    def choose(self, scores: Sequence[int], selection: Selection, change: ScoreRange, cost: Cost) -> list[int]:
        exact = tuple(int(s) for s in scores)
        best = sorted(range(len(exact)), key=lambda i: -exact[i])[: selection.k]
        answer: list[int] = self._answer(Choice(exact, selection, change, cost), best)
        return answer

    def combine(self, scores: Integers, rate: Fraction, uses: int) -> list[list[int]]:
        slots = scores.shape[1].bit_length() - 1
        exact = tuple(tuple(int(s) for s in line) for line in scores)
        answer: list[list[int]] = self._answer(Combination(exact, rate, uses), [list(range(uses))] * slots)
        return answer

    def _answer(self, call: Call, usual: Any) -> Any:
        answer = self._answers.get(len(self.calls), usual)
        self.calls.append(call)
        self.given.append(answer)
        return answer


class FreeAccount:
    """An account in memory that never refuses; it keeps what was asked, released and charged.

    It never replays, except for releases of the explainers that it `knows`: what is computed from those asks for them.
    """

    def __init__(self, budget: Budget, neighbours: Neighbours, *, knows: Collection[str] = ()) -> None:
        self.name, self.budget, self.neighbours = "audit", budget, neighbours
        self.line: JsonObject = {}  # no account came before it
        self.asked: list[tuple[str, Cost]] = []  # the digest of each request, and its price
        self.payloads: list[JsonObject] = []
        self.charged: list[Cost] = []
        self._knows, self._known = knows, dict[str, Stored]()
        self._ask: Ask | None = None

    def declare(self, _identity: str, answers: list[float]) -> list[float]:
        return answers

    def find(self, request_id: str) -> Stored | None:
        return self._known.get(request_id)

    def reserve(self, ask: Ask) -> str:
        self._ask = ask
        self.asked.append((ask.request_id, ask.cost))
        return "audit"

    def commit(self, reservation: str, payload: JsonObject, charged: Cost) -> Entry:
        self.payloads.append(payload)
        self.charged.append(charged)
        number = len(self.payloads)
        entry, ask = Entry(self.name, reservation, number, digest(number), "", "", charged), self._ask
        if ask is not None and ask.request.get("explainer") in self._knows:
            self._known[ask.request_id] = Stored(ask.label, entry, payload)
        return entry


def capture(
    left: PrivateTable, right: PrivateTable, explain: Explain, answers: Mapping[int, Any] | None = None
) -> list[Part]:
    """Every part of what `explain` releases, on both tables after the same history.

    `answers` sets parts of that history: the answer to the n-th call of the sampler, counted from 0.
    """
    return recorded(left, explain, answers).beside(right, explain)


@dataclass(frozen=True)
class Recorded:
    """What one run of a release showed and was told."""

    parts: list[tuple[str, Cost, int]]  # name, price, number of calls of the sampler
    calls: list[Call]
    given: list[Any]
    account: FreeAccount

    @property
    def public(self) -> Any:
        """What must not depend on rows, the same answers given."""
        laws = [(type(call), call.public) for call in self.calls]
        return self.parts, laws, self.account.asked, self.account.charged

    def beside(self, right: PrivateTable, explain: Explain) -> list[Part]:
        """Every part, with this run on the left and a run on another table after the same history on the right."""
        two = recorded(right, explain, dict(enumerate(self.given)))
        if self.public != two.public:
            raise InternalError(
                "what is released, its noise or its price depends on rows: neighbouring tables differ in it"
            )
        place, parts = 0, []
        for name, cost, size in self.parts:
            here = slice(place, place + size)
            parts.append(Part(name, cost, tuple(self.calls[here]), tuple(two.calls[here]), right.neighbours))
            place += size
        return parts


def recorded(table: PrivateTable, explain: Explain, answers: Mapping[int, Any] | None = None) -> Recorded:
    """One run through a free account, to stand beside several others; the table's own door comes back afterwards."""
    recorder, door = Recorder(answers or {}), table.door
    account = FreeAccount(table.budget, table.neighbours, knows=("marginals", "performance"))
    table.door = Door(account, sampler=recorder)
    try:
        explain(table)
    finally:
        table.door = door
    parts = [
        (name if number == 1 else f"{number}:{name}", Cost.from_json(part["cost"]), _calls(part))
        for number, payload in enumerate(account.payloads, 1)
        for name, part in payload["parts"].items()
    ]
    return Recorded(parts, recorder.calls, recorder.given, account)


def _calls(part: JsonObject) -> int:
    """How many calls of the sampler a part stands for: several choices may have one cost."""
    several = "scale" in part and part["values"] and isinstance(part["values"][0], list)
    return len(part["values"]) if several else 1


# What a part can tell ---------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Part:
    """One part of a release, as two neighbouring tables hand it to the sampler after the same history."""

    name: str
    cost: Cost  # its share of the price
    left: tuple[Call, ...]
    right: tuple[Call, ...]
    neighbours: Neighbours

    @property
    def law(self) -> str:
        """What makes it private, in words."""
        call = self.left[0]
        if isinstance(call, Sum):
            return call.noise.law.value
        if isinstance(call, Combination):
            return "exponential mechanism"
        return "permute-and-flip" if self.cost.definition is Definition.PURE else "Gumbel noise"

    @property
    def sums(self) -> tuple[Sum, Sum]:
        """The two calls of a part that is a vector."""
        (one,), (two,) = self.left, self.right
        assert isinstance(one, Sum)
        assert isinstance(two, Sum)
        return one, two

    @property
    def change(self) -> Integers:
        """Right minus left, where the part is a vector."""
        one, two = self.sums
        return np.array([b - a for a, b in zip(one.values, two.values, strict=True)], dtype=np.int64)

    @property
    def silent(self) -> bool:
        """Whether the tables hand over the same numbers, so that the part tells nothing about this pair."""
        return self.left == self.right

    @property
    def loss(self) -> float:
        """What the stated law loses on this pair, in units of the cost."""
        if self.silent:
            return 0.0
        if self.cost.definition is Definition.PURE:
            return self.largest_ratio
        noisy = isinstance(self.left[0], Sum)
        return self.largest_ratio**2 / 2 if noisy else renyi(laws(self.left), laws(self.right))

    @property
    def attained(self) -> float:
        """The loss on this pair as a share of the cost: 1 at the worst case, and never above."""
        return self.loss / float(self.cost.amount)

    @property
    def gaussian(self) -> bool:
        call = self.left[0]
        return isinstance(call, Sum) and not shape_of(call.noise).pure

    @property
    def claim(self) -> Cost:
        """What draws on this pair are held against: rho with mu = sqrt(2 rho) for Gaussian noise, epsilon for all else.

        A choice, and pure noise in a zCDP account, lose a bounded amount on a pair: epsilon is the sharper claim. Where
        the law loses more than its cost, which is a mistake, the claim is what it may lose.
        """
        excess, little = max(1.0, self.attained), 1 + Fraction(1, 10**9)
        if self.gaussian:
            return Cost(Definition.ZCDP, Fraction(self.mu**2 / 2 / excess) * little)
        excess = excess if self.cost.definition is Definition.PURE else math.sqrt(excess)
        return Cost(Definition.PURE, Fraction(self.largest_ratio / excess) * little)

    @property
    def largest_ratio(self) -> float:
        """The largest log likelihood ratio of an outcome. Gaussian noise has none: then the distance over the scale."""
        call = self.left[0]
        if isinstance(call, Sum):
            return _norm(self.change, shape_of(call.noise).norm) / float(call.noise.scale)
        both = zip(laws(self.left), laws(self.right), strict=True)
        return sum(max(abs(one[key] - two[key]) for key in one) for one, two in both)

    @property
    def mu(self) -> float:
        """The mu of Gaussian noise: no event tells the tables apart better than mu-Gaussian-DP allows.

        With a scale of 8 or more that is |change| / scale. Coarser noise has events a little better than that, because
        its values lie on a grid: the best of them is found by adding up the law of sum change_i z_i.
        """
        scale, change = float(self.sums[0].noise.scale), self.change[self.change != 0]
        if scale >= FINE_SCALE:
            return _norm(change, 2) / scale
        return _coarse_mu(change, scale)

    @property
    def signature(self) -> Any:
        """Parts with the same signature have the same laws of scores on both sides (to 0.1 % where noise is fine)."""
        call = self.left[0]
        if isinstance(call, Combination):
            return self.left, self.right
        if isinstance(call, Choice):
            laws = [[_steps(c) for c in side] for side in (self.left, self.right)]
            return self.law, call.law.k, digest(laws)
        size = 0 if shape_of(call.noise).independent else call.noise.size
        if call.noise.scale < CONTINUOUS:
            return call.noise.law, call.noise.scale, size, tuple(sorted(abs(int(c)) for c in self.change if c))
        steps = sorted(round(abs(int(c)) / float(call.noise.scale), 6) for c in self.change if c)
        return call.noise.law, size, round(_norm(np.array(steps), 2), 6) if self.gaussian else tuple(steps)


def _steps(call: Call) -> list[str]:
    """How far each candidate is below the best, in units of the scale: all that a choice depends on."""
    assert isinstance(call, Choice)
    return [str((max(call.scores) - score) / call.law.scale) for score in call.scores]


def _norm(change: NDArray[Any], order: float) -> float:
    return float(np.linalg.norm(change.astype(np.float64), order)) if len(change) else 0.0


def _coarse_mu(change: Integers, scale: float) -> float:
    """The mu of the best event "sum change_i z_i >= t", by the law of that sum; the right table adds |change|^2."""
    reach = math.ceil(12 * scale)
    z = np.arange(-reach, reach + 1)
    weights = np.exp(-((z / scale) ** 2) / 2)
    law = np.ones(1)
    for step in np.abs(change).tolist():
        stretched = np.zeros(2 * reach * step + 1)
        stretched[::step] = weights / weights.sum()
        law = np.convolve(law, stretched)
    moved, above = int((change**2).sum()), np.cumsum(law[::-1])[::-1]  # P(sum >= t) on the left, t from the lowest on
    p, q = np.concatenate([np.ones(moved), above])[: len(above)], above
    some = (q > 1e-12) & (p < 1 - 1e-12)
    return float((ndtri(p[some]) - ndtri(q[some])).max())


# Drawing again ----------------------------------------------------------------------------------------------------


def draws(part: Part, trials: int, *, defect: float = 0.0) -> Floats:
    """The scores of so many fresh releases of a captured part: a line for the left table, a line for the right one.

    defect   0.2 plants noise of 80 % of the right scale, by paying more at the door than the part says
    """
    factor = 1 / (1 - Fraction(str(defect)))
    call = part.left[0]
    if isinstance(call, Sum):
        return np.array([_noisy(part, side, trials, factor) for side in (0, 1)])
    ratios = [
        {key: one[key] - two[key] for key in one} for one, two in zip(laws(part.left), laws(part.right), strict=True)
    ]
    return np.array([_chosen(part, side, trials, factor, ratios) for side in (0, 1)])


def _noisy(part: Part, side: int, trials: int, factor: Fraction) -> Floats:
    call = part.sums[0]
    independent, law = shape_of(call.noise).independent, call.noise.law
    keep = part.change != 0 if independent else np.ones(len(call.values), dtype=np.bool_)
    change, width = part.change[keep], int(keep.sum())
    left, exact = (np.array(one.values, dtype=np.int64)[keep] for one in (call, part.sums[side]))
    each = max(1, BLOCK // width)  # releases of independent noise in one long vector
    sizes = [each] * (trials // each) + [trials % each] if independent else [1] * trials
    cost, scores = _price(part.cost, factor), []

    def send(gate: Gate, name: str, values: Integers) -> list[int]:
        return gate.noisy_sum(name, values, call.bound, cost, mechanism=law.value)

    for released in _through_the_door(part, cost, send, [np.tile(exact, size) for size in sizes if size]):
        away = np.array(released, dtype=np.int64).reshape(-1, width) - left
        scores.append(log_ratio(call.noise, away, change))
    return np.concatenate(scores)


def _chosen(part: Part, side: int, trials: int, factor: Fraction, ratios: Sequence[Mapping[Any, float]]) -> Floats:
    calls, cost = (part.left, part.right)[side], _price(part.cost, factor)
    first = calls[0]
    if isinstance(first, Combination):
        scores, rate = np.array(first.scores, dtype=np.int64), _rounded(first.rate * factor)
        combinations = (draw(scores, rate, uses=first.uses) for _ in range(trials))
        return np.array([ratios[0][tuple(map(tuple, released))] for released in combinations])
    assert isinstance(first, Choice)
    change, k, options = first.change, first.law.k, [call.scores for call in calls if isinstance(call, Choice)]
    released = _through_the_door(
        part, cost, lambda gate, name, _: gate.select_each(name, options, change, cost, k=k), [()] * trials
    )
    return np.array([sum(ratio[tuple(mine)] for ratio, mine in zip(ratios, lines, strict=True)) for lines in released])


def _rounded(rate: Fraction) -> Fraction:
    """To 30 binary digits, as `combinations.draw` wants it."""
    power = Fraction(2) ** (30 - (rate.numerator.bit_length() - rate.denominator.bit_length()))
    return Fraction(math.floor(rate * power)) / power


def _through_the_door(
    part: Part, cost: Cost, send: Callable[[Gate, str, Any], Any], inputs: Sequence[Any]
) -> list[Any]:
    """What `send` lets out for each input, in one release of a free account."""
    released: list[Any] = []

    def body(gate: Gate) -> None:
        released.extend(send(gate, f"draw-{number}", given) for number, given in enumerate(inputs))

    pure = cost.definition is Definition.PURE
    door = Door(FreeAccount(Budget(1) if pure else Budget(1, Fraction(1, 10**6)), part.neighbours))
    door.release("audit", {"part": part.name}, cost * len(inputs), body)
    return released


def _price(cost: Cost, factor: Fraction) -> Cost:
    """The cost of noise that is `factor` times smaller."""
    return cost * (factor if cost.definition is Definition.PURE else factor**2)
