"""Reconstruction of explained records: from an explanation to the record that it explains (paper 004).

Attacker    sees the explanation of somebody's record and wants the record. They hold auxiliary records with their
            explanations, and train a model from explanations to records.
Not covered The guarantee of a table is about its rows. The record that is explained is a question, not a row: whoever
            receives its explanation may learn it, at any epsilon, and a better explanation helps them more.
Beside it   the best guess *without* the explanation, from the same auxiliary records. Where almost everything is zero,
            always guessing zero "succeeds" almost always: only the advantage, success less this guess, says anything.
Interval    of the mean over tested records of the paired difference, by Student's t: approximate, and for this trained
            attacker.
References  Toma, Kikuchi 2024 (paper 004); Luo, Jiang, Xiao 2022. docs/methods/attacks.md has the details.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass, replace
from typing import TYPE_CHECKING, Any, ClassVar

import numpy as np
from numpy.typing import NDArray
from scipy.special import stdtrit

from dpexplain.audit.attack_models import AttackModel, factory
from dpexplain.audit.bounds import Roc, area, roc_points
from dpexplain.audit.guesses import Target, Trained, targets_of
from dpexplain.audit.report import Report
from dpexplain.audit.runs import check_confidence
from dpexplain.core.canonical import JsonObject
from dpexplain.core.domain import Domain
from dpexplain.data.public_random import PublicRandom
from dpexplain.errors import InputError
from dpexplain.methods.result import Result

if TYPE_CHECKING:
    from matplotlib.axes import Axes

Floats = NDArray[np.float64]
LEAST_AUXILIARY, LEAST_TESTED = 20, 30
UNCOVERED = (
    "The guarantee of a table does not cover the record that is explained: whoever receives its explanation may learn "
    "it."
)


@dataclass(frozen=True)
class Gain:
    """Success with and without the explanation, and the interval of the difference."""

    auxiliary: int
    success: float
    guess: float  # without the explanation
    low: float
    high: float

    @property
    def advantage(self) -> float:
        return self.success - self.guess


@dataclass(frozen=True)
class FeatureAttack:
    """What the attack found out about one feature."""

    feature: str
    kind: str  # "category" or "number"
    gain: Gain
    uses_explanation: bool  # False: the attacker did better without it on auxiliary records
    mse: float | None  # of numbers, in units of the declared range, by the model
    guess_mse: float | None  # by the mean of the auxiliary records
    area: float | None  # under the ROC curve, for two categories
    roc: Roc | None


@dataclass(frozen=True)
class Reconstruction(Report):
    """How much of explained records an attacker finds out from their explanations."""

    uncovered: ClassVar[str] = UNCOVERED

    attack: str
    threshold: float
    confidence: float
    seed: int
    tested: int
    features: tuple[FeatureAttack, ...]
    sizes: tuple[Gain, ...]  # one for each size of the auxiliary set, increasing
    area: float | None  # of all features with two categories together
    roc: Roc | None
    constant: bool  # all explanations are the same

    @property
    def gain(self) -> Gain:
        """With the most auxiliary records."""
        return self.sizes[-1]

    @property
    def success(self) -> float:
        """The share of features of tested records that were guessed rightly."""
        return self.gain.success

    @property
    def guess(self) -> float:
        """The share that was guessed rightly without the explanation."""
        return self.gain.guess

    @property
    def advantage(self) -> float:
        return self.gain.advantage

    @property
    def interval(self) -> tuple[float, float]:
        return self.gain.low, self.gain.high

    @property
    def mse(self) -> float | None:
        """The mean squared error of the numbers, in units of their declared ranges."""
        known = [feature.mse for feature in self.features if feature.mse is not None]
        return float(np.mean(known)) if known else None

    def lines(self) -> list[str]:
        low, high = self.interval
        lines = [
            f"Reconstruction of explained records by attack {self.attack}: trained on {self.gain.auxiliary} auxiliary "
            f"records with their explanations, tested on {self.tested} others.",
            f"Success {self.success:.3g} of all features (a category matches, a number is within {self.threshold:g} of "
            f"its declared range); without the explanation {self.guess:.3g}.",
            f"Advantage {self.advantage:.3g} (between {low:.3g} and {high:.3g}, confidence {self.confidence:g}).",
        ]
        if self.area is not None:
            lines.append(f"Area under the ROC curve of features with two categories: {self.area:.3g} (chance 0.5).")
        if self.constant:
            lines.append("All explanations are the same: they tell nothing about a record, and the advantage is zero.")
        elif not any(feature.uses_explanation for feature in self.features):
            lines.append(
                "No feature was guessed better with the explanation on the auxiliary records, so the attacker did "
                "without it. Another attack, or more auxiliary records, may find something."
            )
        elif low > 0:
            best = sorted(self.features, key=lambda f: -f.gain.advantage)[:5]
            told = [f"{f.feature} {f.gain.advantage:+.3g}" for f in best if f.gain.advantage > 0]
            lines.append(f"The explanations give records away. Most of all: {', '.join(told)}.")
        else:
            lines.append("No advantage was found. Another attack may find one.")
        return [*lines, self.uncovered]

    def content(self) -> JsonObject:
        return {"audit": "reconstruction", "advantage": self.advantage, "mse": self.mse, **asdict(self)}

    def lists(self) -> list[dict[str, Any]]:
        return [
            {
                "feature": f.feature,
                "kind": f.kind,
                "success": f.gain.success,
                "without": f.gain.guess,
                "advantage": f.gain.advantage,
                "low": f.gain.low,
                "high": f.gain.high,
                "mse": f.mse,
                "mse_without": f.guess_mse,
                "area": f.area,
                "uses_explanation": f.uses_explanation,
            }
            for f in self.features
        ]

    def plot(self, ax: Axes | None = None) -> Axes:
        """Success for each feature, with and without the explanation."""
        from dpexplain.render.audits import plot_reconstruction

        return plot_reconstruction(self, ax)

    def plot_sizes(self, ax: Axes | None = None) -> Axes:
        """Success against the number of auxiliary records."""
        from dpexplain.render.audits import plot_sizes

        return plot_sizes(self, ax)


def reconstruction(
    explanations: Any,
    records: Any,
    domain: Domain,
    *,
    auxiliary: float | int | Sequence[float | int] = 0.5,
    attack: str | Callable[[], AttackModel] = "linear",
    threshold: float = 0.1,
    confidence: float = 0.99,
    seed: int = 0,
) -> Reconstruction:
    """Attack explanations: train a model from explanations to records, and test it on other records.

    explanations  a line of numbers, or a result of dpexplain, for each record
    records       the explained records: a frame with the columns of the domain, or lines in the order of the domain
    auxiliary     how many records the attacker holds with their explanations: a number, a share, or several of these
    attack        "linear", "forest", "mlp", or a function that makes a model with fit(X, Y) and predict(X)
    threshold     how near a guessed number must be, as a share of the declared range
    seed          of the public shuffle and of the attack model
    """
    check_confidence(confidence)
    if isinstance(threshold, bool) or not isinstance(threshold, float) or not 0 < threshold < 0.5:
        raise InputError(f"threshold must lie between 0 and 0.5; got {threshold!r}.", spent="")
    x = _lines(explanations)
    targets = targets_of(records, domain, threshold)
    if len(targets[0].values) != len(x):
        raise InputError(f"there are {len(x)} explanations for {len(targets[0].values)} records.", spent="")
    sizes = _sizes(auxiliary, len(x))
    name = attack if isinstance(attack, str) else "of the caller"
    make = factory(attack, [target.block for target in targets], seed)
    order = PublicRandom(seed).generator.permutation(len(x))
    test = order[sizes[-1] :]
    if all(target.constant(order[: sizes[-1]]) for target in targets):
        raise InputError(
            "every feature has one class only among the auxiliary records: there is nothing to reconstruct.",
            hint="use more auxiliary records, or records that differ",
            spent="",
        )
    constant = not np.ptp(x, axis=0).any()
    gains = []
    for size in sizes:
        trained = Trained.on(x, targets, order[:size], test, None if constant else make, name)
        gains.append(_gain(size, trained.hits.mean(axis=1), trained.guessed.mean(axis=1), confidence))
    pooled = trained.pooled(targets, test)
    return Reconstruction(
        attack=name,
        threshold=threshold,
        confidence=confidence,
        seed=seed,
        tested=len(test),
        features=tuple(_feature(trained, i, one, test, sizes[-1], confidence) for i, one in enumerate(targets)),
        sizes=tuple(gains),
        area=None if pooled is None else area(*pooled),
        roc=None if pooled is None else roc_points(*pooled),
        constant=constant,
    )


def _feature(
    trained: Trained, i: int, target: Target, test: NDArray[np.int64], size: int, confidence: float
) -> FeatureAttack:
    gain = _gain(size, trained.hits[:, i], trained.guessed[:, i], confidence)
    kind = "category" if target.categories else "number"
    result = FeatureAttack(target.feature, kind, gain, trained.used[i], None, None, None, None)
    if not target.categories:
        truth, mean = target.values[test], trained.means[target.block][0]
        predicted = mean if trained.predicted is None else np.clip(trained.predicted[:, target.block][:, 0], 0, 1)
        mse, guess_mse = float(((truth - predicted) ** 2).mean()), float(((truth - mean) ** 2).mean())
        return replace(result, mse=mse, guess_mse=guess_mse)
    sides = trained.sides(target, test)
    return result if sides is None else replace(result, area=area(*sides), roc=roc_points(*sides))


def _gain(auxiliary: int, hits: NDArray[Any], guessed: NDArray[Any], confidence: float) -> Gain:
    difference = hits.astype(np.float64) - guessed
    mean, n = float(difference.mean()), len(difference)
    half = float(-stdtrit(n - 1, (1 - confidence) / 2) * difference.std(ddof=1) / np.sqrt(n))
    return Gain(auxiliary, float(hits.mean()), float(guessed.mean()), mean - half, mean + half)


def _lines(explanations: Any) -> Floats:
    """One line of finite numbers for each explanation."""
    listed = isinstance(explanations, Sequence) and len(explanations) and isinstance(explanations[0], Result)
    try:
        x = np.asarray([item.values for item in explanations] if listed else explanations, dtype=np.float64)
    except (TypeError, ValueError, AttributeError):
        raise InputError("explanations must be lines of numbers, all of one length.", spent="") from None
    if x.ndim == 1:
        x = x[:, None]
    if x.ndim != 2 or not x.size:
        raise InputError("explanations must be lines of numbers, one for each record.", spent="")
    if not np.isfinite(x).all():
        raise InputError(
            f"{int((~np.isfinite(x)).any(axis=1).sum())} explanations are not made of finite numbers.",
            hint="leave their records out, or replace what is missing",
            spent="",
        )
    return x


def _sizes(auxiliary: Any, n: int) -> list[int]:
    """The sizes of the auxiliary set, increasing; what is left is tested."""
    asked = (
        list(auxiliary)
        if isinstance(auxiliary, Sequence | np.ndarray) and not isinstance(auxiliary, str)
        else [auxiliary]
    )
    sizes = []
    for one in asked:
        number = isinstance(one, int | np.integer) and not isinstance(one, bool)
        if not number and not (isinstance(one, float) and 0 <= one < 1):
            raise InputError(
                f"auxiliary is a number of records or a share of them; got {one!r}.", hint="auxiliary=0.5", spent=""
            )
        sizes.append(int(one) if number else int(one * n))
    if not sizes or min(sizes) <= 0:
        raise InputError("the attacker has no auxiliary data to learn from.", hint="auxiliary=0.5", spent="")
    if min(sizes) < LEAST_AUXILIARY or n - max(sizes) < LEAST_TESTED:
        raise InputError(
            f"{n} records are too few for any statement: {min(sizes)} auxiliary, {n - max(sizes)} tested.",
            hint=f"at least {LEAST_AUXILIARY} auxiliary and {LEAST_TESTED} tested records are needed, and many more to "
            "find a small advantage",
            spent="",
        )
    return sorted(set(sizes))
