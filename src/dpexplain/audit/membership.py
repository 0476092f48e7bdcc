"""Membership inference: can an attacker tell from a release whether a person's row was in the table?

Attacker    knows both tables, the release and its settings, and can run it as often as they like. They see one output.
            Shadow runs fit them, a likelihood ratio (audit/likelihood.py) or a threshold on a score, and choose their
            thresholds: one for each rate of false positives and one for the largest advantage.
Statement   Clopper-Pearson intervals, which all hold together with probability `confidence` (each of m events has two
            rates, each wrong with probability (1 - confidence) / (2 m)). The claim is refuted when the true positives
            are surely more than it allows at the most the false positives can be. Silence is no proof.
References  Neyman, Pearson 1933; Carlini et al. 2022 (true positives at low rates of false positives).
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from dpexplain.audit import bounds, likelihood
from dpexplain.audit.bounds import area, roc_points
from dpexplain.audit.claims import Claim, checked_claim, most_advantage, most_true_positives
from dpexplain.audit.measured import Guess, Measured, shadowed
from dpexplain.audit.runs import Runs, least_trials
from dpexplain.core.canonical import JsonObject
from dpexplain.errors import InputError

if TYPE_CHECKING:
    from matplotlib.axes import Axes

Floats = NDArray[np.float64]
ATTACKS = ("likelihood-ratio", "threshold")
_LEAST_HITS = 3  # expected false positives, below which a rate is not shown: 3 / n is the upper limit of none in n


@dataclass(frozen=True)
class Point:
    """One event "the output speaks for this table", how often it is right and wrong, and what the claim allows."""

    says: str  # the table that the event speaks for
    rate: float | None  # of false positives that was aimed at; None: the largest advantage was
    false_positives: float
    false_low: float
    false_high: float
    true_positives: float
    true_low: float
    true_high: float
    allowed: float  # true positives that the claim allows at `false_high`

    @property
    def refutes(self) -> bool:
        return self.true_low > self.allowed


@dataclass(frozen=True)
class Attack:
    """One attacker's results. `points[0]` is the event of the largest advantage."""

    name: str
    how: str
    area: float  # under the ROC curve
    roc: tuple[tuple[float, float], ...]  # (false, true) positives of "right"
    points: tuple[Point, ...]

    @property
    def advantage(self) -> float:
        return self.points[0].true_positives - self.points[0].false_positives

    @property
    def interval(self) -> tuple[float, float]:
        point = self.points[0]
        return point.true_low - point.false_high, point.true_high - point.false_low


@dataclass(frozen=True, kw_only=True)
class Membership(Measured):
    """How well attackers told two tables apart, against what the claim allows."""

    attacks: tuple[Attack, ...]
    frozen: bool  # the runs on each table gave the same

    @property
    def best(self) -> Attack:
        return max(self.attacks, key=lambda attack: attack.advantage)

    @property
    def advantage(self) -> float:
        """True less false positives of the best attack, at the threshold it chose before."""
        return self.best.advantage

    @property
    def allowed(self) -> float:
        """The largest advantage that the claim allows."""
        return most_advantage(self.claim, gaussian=self.gaussian, delta=self.delta)

    @property
    def guess(self) -> Guess:
        """Between the two tables: an advantage is true less false positives."""
        ends = (self.advantage, *self.best.interval, self.allowed)
        return Guess(*(min((1 + end) / 2, 1.0) for end in ends))

    @property
    def violates(self) -> bool:
        """Whether the claim is refuted."""
        return any(point.refutes for attack in self.attacks for point in attack.points)

    def lines(self) -> list[str]:
        lines = [
            f"Membership attack: two neighbouring tables, {self.trials} fresh runs on each, after {self.shadows} "
            f"shadow runs on each. Intervals hold together with confidence {self.confidence:g}.",
            f"The claim ({self.stated}) allows an advantage of at most {self.allowed:.3g}.",
        ]
        if self.constant:
            return [*lines, "Every run on both tables gave the same output: the advantage is zero."]
        for attack in self.attacks:
            low, high = attack.interval
            lines.append(
                f"{attack.name} ({attack.how}): advantage {attack.advantage:.3g} (between {low:.3g} and {high:.3g}), "
                f"area under the ROC curve {attack.area:.3g}."
            )
            lines += [f"  {_words(point)}" for point in self._told(attack)]
        if self.failures:
            lines.append(f"{self.failures} runs raised an error; an error is an output too.")
        if self.frozen:
            lines.append("Every run on a table gave the same output: no noise at all, or an answer from a ledger.")
        if not self.violates:
            for rate in sorted(
                {p.rate for p in self.attacks[0].points if p.rate is not None and not self._shows(p.rate)}
            ):
                enough = math.ceil(_LEAST_HITS / rate)
                lines.append(f"Nothing is said about a false-positive rate of {rate:g}: that needs {enough} trials.")
        return [*lines, self.verdict]

    def _shows(self, rate: float) -> bool:
        """Whether these trials can show such a rate of false positives."""
        return rate * self.trials >= _LEAST_HITS

    def _told(self, attack: Attack) -> list[Point]:
        """The points that are put in words: those that refute, or the rates that these trials can show."""
        right, left = ([p for p in attack.points if p.says == side] for side in ("right", "left"))
        return (
            [p for p in right if p.refutes]
            or [p for p in left if p.refutes]
            or [p for p in right if p.rate is not None and self._shows(p.rate)]
        )

    def most(self, false_positives: Floats) -> Floats:
        """The true positives that the claim allows."""
        return most_true_positives(self.claim, false_positives, gaussian=self.gaussian, delta=self.delta)

    def content(self) -> JsonObject:
        attacks = [asdict(attack) for attack in self.attacks]
        outcome = {"advantage": self.advantage, "allowed": self.allowed, "attacks": attacks}
        return {"audit": "membership", **super().content(), **outcome}

    def lists(self) -> list[dict[str, Any]]:
        return [
            {"attack": attack.name, **asdict(point), "refutes": point.refutes}
            for attack in self.attacks
            for point in attack.points
        ]

    def plot(self, ax: Axes | None = None) -> Axes:
        """The ROC curves, with logarithmic axes, against the most that the claim allows."""
        from dpexplain.render.audits import plot_membership

        return plot_membership(self, ax)


def membership(
    release: Callable[[Any], Any],
    left: Any,
    right: Any,
    *,
    claim: Claim,
    trials: int = 1000,
    shadows: int | None = None,
    attack: str = "both",
    false_positives: Sequence[float] = (0.001, 0.01, 0.1),
    gaussian: bool = False,
    delta: float = 0.0,
    confidence: float = 0.999,
    score: Callable[[Any], float] | None = None,
    centres: tuple[Any, Any] | None = None,
    workers: int = 1,
) -> Membership:
    """Attack `release`: tell `right` (say, with a person's row) from its neighbour `left` (without it).

    release   any function of one input; every call must be a fresh release (no replay from a ledger). It returns a
              result of dpexplain, several of them, or a vector of numbers
    claim     what the release says it costs: `Cost`, or a number for pure epsilon
    trials    fresh runs on each table; `shadows` (as many) fit the attackers
    attack    "likelihood-ratio", "threshold" (on `score`, by default the sum) or "both"
    gaussian  the claim is zCDP and the noise Gaussian on a fine grid: compare with its own curve (audit/claims.py)
    centres   the exact statistic of both tables, for an attacker who can compute it; needed for long vectors
    workers   processes; `release`, its inputs and `score` are sent to them
    """
    stated = checked_claim(claim, gaussian, delta)
    names = ATTACKS if attack == "both" else (attack,)
    if not set(names) <= set(ATTACKS):
        raise InputError(f"unknown attack {attack!r}.", hint='"likelihood-ratio", "threshold" or "both"', spent="")
    rates = checked_rates(false_positives)
    settings: dict[str, Any] = {"trials": trials, "shadows": shadows, "confidence": confidence, "workers": workers}
    made = shadowed(release, (left, right), label="membership attack", score=score, **settings)
    error = (1 - confidence) / (2 * len(names) * (1 + 2 * len(rates)))

    def most(rate: float) -> float:
        return float(most_true_positives(stated, rate, gaussian=gaussian, delta=delta))

    def measure(name: str) -> Attack:
        how, shadow, test = _scores(name, made.seen, made.fresh, centres, score is not None)
        points = [
            _point(shadow, test, says, rate, ratio=name == ATTACKS[0], error=error, most=most)
            for says, rate in [("right", None), *((side, rate) for side in ("right", "left") for rate in rates)]
        ]
        return Attack(name, how, area(*test), roc_points(*test), tuple(points))

    return Membership(
        claim=stated,
        gaussian=gaussian,
        delta=float(delta),
        attacks=tuple(measure(name) for name in names),
        frozen=made.runs.frozen,
        needed=least_trials(lambda n: refutable(n, error, most)),
        **made.about,
    )


def checked_rates(rates: Sequence[float]) -> list[float]:
    good = isinstance(rates, Sequence | np.ndarray) and all(isinstance(rate, float) and 0 < rate < 1 for rate in rates)
    if not good:
        raise InputError("rates of false positives are numbers between 0 and 1.", hint="(0.001, 0.01, 0.1)", spent="")
    return sorted(set(rates))


def refutable(n: int, error: float, most: Callable[[float], float]) -> bool:
    """Whether an attack that is right in all of n runs on both sides refutes the claim."""
    all_right, none_wrong = bounds.lower(np.array([n]), n, error)[0], bounds.upper(np.array([0]), n, error)[0]
    return bool(all_right > most(float(none_wrong)))


Pair = tuple[Floats, Floats]  # the scores of runs on the left and on the right table


def _scores(name: str, seen: Runs, fresh: Runs, centres: Any, own: bool) -> tuple[str, Pair, Pair]:
    """The attacker in words, and the scores of shadow and of fresh runs; higher ones speak for `right`."""
    if name == "likelihood-ratio":
        attacker = likelihood.fit(seen.vectors, centres)

        def ratios(runs: Runs) -> Pair:
            left, right = (attacker(vectors) for vectors in runs.vectors)
            return left[:, 1] - left[:, 0], right[:, 1] - right[:, 0]

        return f"as for {attacker.family}", ratios(seen), ratios(fresh)
    sign = 1.0 if area(*seen.scores) >= 0.5 else -1.0
    how = f"{'a high' if sign > 0 else 'a low'} {'score' if own else 'sum'} speaks for right"
    shadow, test = ((sign * runs.scores[0], sign * runs.scores[1]) for runs in (seen, fresh))
    return how, shadow, test


def _point(
    shadow: Pair,
    test: Pair,
    says: str,
    rate: float | None,
    *,
    ratio: bool,
    error: float,
    most: Callable[[float], float],
) -> Point:
    """Choose a threshold on shadow runs, measure it on fresh ones."""
    if says == "left":  # the same question with the sides exchanged
        shadow, test = (-shadow[1], -shadow[0]), (-test[1], -test[0])
    threshold = _threshold(shadow, rate, ratio)
    hits = np.array([int((side >= threshold).sum()) for side in test])
    n = len(test[0])
    low, high = bounds.lower(hits, n, error), bounds.upper(hits, n, error)
    wrong, right = (hits / n).tolist()
    return Point(
        says, rate, wrong, float(low[0]), float(high[0]), right, float(low[1]), float(high[1]), most(float(high[0]))
    )


def _threshold(shadow: Pair, rate: float | None, ratio: bool) -> float:
    """The score of the largest advantage, or the smallest one with at most this rate of false positives."""
    values = np.append(np.unique(np.concatenate(shadow)), np.inf)
    wrong, right = (1 - np.searchsorted(np.sort(side), values) / len(side) for side in shadow)
    if rate is None:  # zero, where both tables are equally likely, unless another threshold is clearly better
        level = int(np.searchsorted(values, 0.0))
        i = int(np.argmax(right - wrong))
        gap = (right - wrong)[i] - (right - wrong)[level]
        if ratio and gap < 1 / math.sqrt(len(shadow[0])):
            return 0.0
    else:
        i = int(np.argmax(wrong <= rate))
    middle = float((values[i] + values[max(i - 1, 0)]) / 2)  # between the scores that part, not at one of them
    return middle if math.isfinite(middle) else float(values[i])


def _words(point: Point) -> str:
    aim = "at this threshold" if point.rate is None else f"aiming at false positives of {point.rate:g}"
    return (
        f'saying "{point.says}" {aim} (measured {point.false_positives:.3g}, at most {point.false_high:.3g}): '
        f"true positives {point.true_positives:.3g}, at least {point.true_low:.3g}; the claim allows "
        f"{point.allowed:.3g}{': REFUTED' if point.refutes else ''}"
    )
