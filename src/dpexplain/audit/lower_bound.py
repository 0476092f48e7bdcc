"""An empirical lower bound on the privacy loss of any mechanism, from runs on two neighbouring inputs.

Method      Run the mechanism `trials` times on each input, in turns. The first, third, ... runs choose an event of the
            form "score >= t" or "score <= t" and which input makes it likely; the second, fourth, ... runs give
            Clopper-Pearson bounds p <= P(event | one input) and q >= P(event | the other), each wrong with probability
            at most (1 - confidence) / 2. Choice and measurement use different runs, so the choice costs no confidence.
Statements  all three hold together with probability `confidence`, for independent runs:
                epsilon >= log((p - delta) / q)         or the mechanism is not (epsilon, delta)-DP
                rho     >= max_alpha D_alpha(p, q) / alpha   (data processing for zCDP; any mechanism)
                mu      >= Phi^-1(p) - Phi^-1(q)        of Gaussian differential privacy (Dong, Roth, Su 2022)
            Gaussian noise of cost rho has mu = sqrt(2 rho), a much sharper statement than rho itself; other zCDP
            mechanisms may have a larger mu, so it is compared with the claim only when `gaussian=True`.
Failures    an error is an output: a run that raises, and a score that is not a number, count as the lowest score.
References  Clopper, Pearson 1934; Bun, Steinke 2016; Jagielski, Ullman, Oprea 2020.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, TypeVar

import numpy as np
from numpy.typing import NDArray
from scipy.special import ndtr

from dpexplain.audit import bounds
from dpexplain.audit.claims import Claim, checked_claim
from dpexplain.audit.runs import check_confidence, collect, least_trials, whole_number
from dpexplain.core.budget import Cost, Definition
from dpexplain.errors import InputError

Floats = NDArray[np.float64]
Input = TypeVar("Input")
Output = TypeVar("Output")

_THRESHOLDS = 100  # tried when the event is chosen
_DEFECT = 0.2


@dataclass(frozen=True)
class LowerBound:
    """What the runs prove about the privacy loss. Silence is no proof: see `power`."""

    epsilon: float  # the mechanism is not (e, delta)-DP for any e below this
    rho: float  # nor r-zCDP for any r below this
    mu: float  # nor m-Gaussian-DP for any m below this
    delta: float
    confidence: float
    trials: int  # runs on each of the two inputs
    claim: Cost | None
    gaussian: bool  # whether a zCDP claim stands for the trade-off curve of Gaussian noise
    event: str  # that was chosen to tell the inputs apart
    failures: int  # runs that raised or gave no number

    @property
    def violates(self) -> bool:
        """Whether the claim is refuted: its stated loss lies below the lower bound."""
        if self.claim is None:
            raise InputError("the audit was run without a claim to compare with.", spent="")
        pure_claim = self.claim.definition is Definition.PURE
        proven = self.epsilon if pure_claim else self.mu if self.gaussian else self.rho
        return proven > _claimed(self.claim, self.gaussian)

    @property
    def power(self) -> float | None:
        """The probability that a loss 20 % above the claim would have been caught; None without a claim."""
        return None if self.claim is None else self.power_against(_DEFECT)

    def power_against(self, defect: float) -> float:
        """The probability to catch a mechanism whose epsilon (zCDP: sqrt(2 rho)) is `1 + defect` times the claimed one.

        Exact binomial calculation for the event that tells Laplace noise (zCDP: Gaussian noise) apart best. It leaves
        out that the event must first be found, which costs up to about 0.15 in the middle; a poor `score` costs more.
        """
        if self.claim is None:
            raise InputError("power is a statement about a claim, and the audit was run without one.", spent="")
        if not 0 < defect < math.inf:
            raise InputError(f"a defect is a positive number; got {defect!r}.", spent="")
        claimed = _claimed(self.claim, self.gaussian)
        if self.claim.definition is Definition.PURE:
            events = [(0.5, 0.5 * math.exp(-(1 + defect) * claimed))]
        else:
            mu = (1 + defect) * math.sqrt(2 * float(self.claim.amount))
            cuts = [mu / 2] if self.gaussian else list(np.linspace(mu / 2, mu / 2 + 4, 9))
            events = [(float(ndtr(mu - cut)), float(ndtr(-cut))) for cut in cuts]
        metric = _metric(self.claim, self.gaussian, self.delta)
        n, error = self.trials // 2, (1 - self.confidence) / 2
        return max(bounds.power(p, q, n, error, lambda a, b: metric(a, b) > claimed) for p, q in events)

    def describe(self) -> str:
        """The result in plain words."""
        lines = [
            f"Lower bound: epsilon is at least {max(self.epsilon, 0):.3g}"
            + (f" at delta = {self.delta:g}" if self.delta else "")
            + f" (confidence {self.confidence:g}, {self.trials} runs on each of two neighbouring inputs).",
            f"Event that told them apart: {self.event}.",
        ]
        if self.failures:
            lines.append(f"{self.failures} runs raised an error or gave no number; an error is an output too.")
        if self.claim is None:
            return "\n".join([*lines, "No claim was given to compare with."])
        if self.claim.definition is Definition.ZCDP:
            kind = f"mu is at least {max(self.mu, 0):.3g}" if self.gaussian else f"rho is at least {self.rho:.3g}"
            lines.append(f"In the terms of the claim: {kind}.")
        stated = str(self.claim)
        if self.gaussian:
            stated += f" by Gaussian noise, mu={_claimed(self.claim, True):.4g}"
        if self.violates:
            lines.append(f"The claim ({stated}) is REFUTED.")
        else:
            lines.append(f"The claim ({stated}) is not refuted. That is no proof of it.")
        loss = "epsilon" if self.claim.definition is Definition.PURE else "mu = sqrt(2 rho)"
        lines.append(f"A true {loss} {_DEFECT:.0%} above it would be caught with probability {self.power:.2f}.")
        return "\n".join(lines)

    def __str__(self) -> str:
        return self.describe()


def epsilon_lower_bound(
    mechanism: Callable[[Input], Output],
    left: Input,
    right: Input,
    *,
    trials: int = 20_000,
    confidence: float = 0.999,
    score: Callable[[Output], float] | None = None,
    claim: Claim | None = None,
    gaussian: bool = False,
    delta: float = 0.0,
    workers: int = 1,
    progress: bool = False,
) -> LowerBound:
    """Run `mechanism` on two neighbouring inputs and prove a lower bound on its privacy loss.

    mechanism   any function of one input; every call must be a fresh, independent release (no replay from a ledger)
    left, right neighbours that make the statistic move as far as it can; the bound is only as good as this pair
    trials      runs on each input
    score       a number for each output. The best score grows with the log of the likelihood ratio of the two inputs.
                Default: the number itself, or the sum of a vector, right for a shift in all coordinates under Laplace
                or Gaussian noise; for the cube and a shift in all coordinates, max + min is right.
    claim       what the mechanism says it costs: `Cost`, or a number for pure epsilon
    gaussian    the claim is zCDP and the noise Gaussian: compare mu with sqrt(2 rho)
    workers     processes that share the runs; mechanism, inputs and score must then be picklable (no lambdas)
    progress    show a bar where progress bars are shown (`dpexplain.engines.progress`)
    """
    checked = checked_claim(1 if claim is None else claim, gaussian, delta)
    stated = None if claim is None else checked
    _require_enough(trials, confidence, stated, gaussian, delta)
    made = collect(
        mechanism, (left, right), trials - trials % 2,
        label="audit" if progress else None, score=score, workers=workers, vectors=False,
    )  # fmt: skip
    settings: dict[str, Any] = {"claim": stated, "confidence": confidence, "gaussian": gaussian, "delta": delta}
    return from_scores(np.array(made.scores), **settings, failures=made.failures)


def from_scores(
    scores: Floats,
    *,
    claim: Cost | None,
    confidence: float = 0.999,
    gaussian: bool = False,
    delta: float = 0.0,
    failures: int = 0,
) -> LowerBound:
    """A lower bound from the scores of independent runs: a line for the left input, a line for the right one."""
    half, error = scores.shape[1] // 2, (1 - confidence) / 2
    _require_enough(2 * half, confidence, claim, gaussian, delta)
    if scores.min() == scores.max():
        raise InputError(
            "nothing can be audited: every run on both inputs gave the same score.",
            hint="every call must be a fresh release",
            spent="",
        )
    threshold, above, likely, hits = _measured(scores, error, _metric(claim, gaussian, delta))
    p, q = bounds.lower(hits[[likely]], half, error), bounds.upper(hits[[1 - likely]], half, error)
    return LowerBound(
        epsilon=float(bounds.epsilon(p, q, delta)[0]),
        rho=float(bounds.rho(p, q)[0]),
        mu=float(bounds.mu(p, q)[0]),
        delta=float(delta),
        confidence=confidence,
        trials=2 * half,
        claim=claim,
        gaussian=gaussian,
        event=f"score {'>=' if above else '<='} {threshold:g} is likelier on the {('left', 'right')[likely]} input",
        failures=failures,
    )


def power_on(scores: Floats, *, claim: Cost, trials: int, confidence: float = 0.999, gaussian: bool = False) -> float:
    """The probability that `trials` runs of the mechanism behind these scores refute the claim.

    By the frequencies of the event that these runs choose, so it is as exact as they are many. Unlike
    `LowerBound.power` it knows the pair of inputs and the score.
    """
    half, error, metric = scores.shape[1] // 2, (1 - confidence) / 2, _metric(claim, gaussian, 0.0)
    _, _, likely, hits = _measured(scores, error, metric)
    p, q = hits[likely] / half, hits[1 - likely] / half
    claimed = _claimed(claim, gaussian)
    return bounds.power(p, q, trials // 2, error, lambda a, b: metric(a, b) > claimed)


def _measured(scores: Floats, error: float, metric: bounds.Metric) -> tuple[float, bool, int, NDArray[np.int64]]:
    """Choose an event on the first, third, ... runs; how often it happened in the others, on each input."""
    even = scores[:, : scores.shape[1] // 2 * 2]
    threshold, above, likely = _choose(even[:, 0::2], error, metric)
    fresh = even[:, 1::2]
    return threshold, above, likely, (fresh >= threshold if above else fresh <= threshold).sum(axis=1)


def _require_enough(trials: int, confidence: float, claim: Cost | None, gaussian: bool, delta: float) -> None:
    """Refuse when even inputs that never agree could not contradict the claim."""
    whole_number(trials, "trials", 2)
    check_confidence(confidence)
    metric, claimed = _metric(claim, gaussian, delta), 0.0 if claim is None else _claimed(claim, gaussian)

    def can(half: int) -> bool:
        n, error = np.array([half]), (1 - confidence) / 2
        return bool(metric(bounds.lower(n, half, error), bounds.upper(0 * n, half, error))[0] > claimed)

    if can(trials // 2):
        return
    raise InputError(
        f"{trials} trials are too few for any statement at this claim and confidence.",
        hint=f"at least {2 * least_trials(can)} are needed, and many more to have any power",
        spent="",
    )


def _choose(scores: Floats, error: float, metric: bounds.Metric) -> tuple[float, bool, int]:
    """Threshold, side (above?) and likelier input of the event that would give the best bound on these runs."""
    ranked, half = np.sort(scores, axis=1), scores.shape[1]
    values = np.unique(ranked)
    if len(values) > _THRESHOLDS:  # evenly spread, and denser towards both ends
        pooled = np.sort(ranked, axis=None)
        tails = np.unique(np.geomspace(1, len(pooled), _THRESHOLDS // 6).astype(np.int64)) - 1
        even = np.linspace(0, len(pooled) - 1, _THRESHOLDS // 2).astype(np.int64)
        values = np.unique(pooled[np.concatenate([even, tails, len(pooled) - 1 - tails])])
    below = np.array([np.searchsorted(line, values, side="left") for line in ranked])
    upto = np.array([np.searchsorted(line, values, side="right") for line in ranked])
    best: tuple[float, float, bool, int] | None = None
    for above, hits in ((True, half - below), (False, upto)):
        for likely in (0, 1):
            losses = metric(bounds.lower(hits[likely], half, error), bounds.upper(hits[1 - likely], half, error))
            i = int(np.argmax(losses))
            if best is None or losses[i] > best[0]:
                best = float(losses[i]), float(values[i]), above, likely
    assert best is not None
    return best[1:]


def _metric(claim: Cost | None, gaussian: bool, delta: float) -> bounds.Metric:
    if claim is None or claim.definition is Definition.PURE:
        return lambda p, q: bounds.epsilon(p, q, delta)
    return bounds.mu if gaussian else bounds.rho


def _claimed(claim: Cost, gaussian: bool) -> float:
    return math.sqrt(2 * float(claim.amount)) if gaussian else float(claim.amount)
