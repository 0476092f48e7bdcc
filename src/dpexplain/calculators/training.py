"""What noise that protects the explained table does for the rows that the model was trained on: Theorem 5.1 of
"Model Explanations with Differential Privacy" as a calculator. Free: it sees no data.

Alone        Another model moves a gradient of the mean loss by at most 2 c, a row of the table by c / m. So noise that
             gives rho-zCDP to a table of m rows gives (2 m)^2 rho to the training rows, whatever the training.
Amplified    A model trained with (epsilon, delta)-DP stays (epsilon, delta)-DP in all that is computed from it. Noise
             turns delta into gamma delta (epsilon stays), gamma a bound on the total variation between what two models
             can lead to. All gradients published: gamma = 2 Phi(m sqrt(2 rho)) - 1. The last point alone published:
             also at most 2 Phi((1 + eta c) / (eta sigma)) - 1, eta the learning rate of the last step.

Both need a table without training rows, and no exact prediction beside the explanation. Proofs, and what is wrong in
the paper's: docs/methods/training-guarantee.md.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from fractions import Fraction
from typing import Any

from scipy.special import log_ndtr

from dpexplain.core.accounting import epsilon_of_rho
from dpexplain.core.budget import Budget, digits, exact, float_above
from dpexplain.errors import InputError

USELESS_EPSILON = 20.0  # e^20: an attacker who sees the output is practically certain
USEFUL_GAP = -2.0  # log10(1 - gamma): below, delta falls by less than one percent


@dataclass(frozen=True)
class TrainingGuarantee:
    """What is promised to the training rows. `print` says it in words."""

    rows: int
    iterations: int
    queries: int
    rho: float  # zCDP of the explained table's rows, all queries together
    sigma: float  # of the noise on every coordinate of a gradient of the mean loss
    learning_rate: float  # of the last step
    path_published: bool
    epsilon: float  # of the training rows by this noise alone, at `delta`
    delta: float
    training: tuple[float, float] | None  # (epsilon, delta) of the training itself
    log10_gap: float  # log10(1 - gamma), because gamma itself is 1 in floats
    log10_gap_last: float  # the same by the paper's bound, which needs that only the last point is published

    @property
    def gamma(self) -> float:
        """What delta of the training is multiplied by."""
        return -math.expm1(self.log10_gap * math.log(10))

    @property
    def amplified(self) -> tuple[float, float] | None:
        """(epsilon, delta) of the training rows after DP training and this noise; None without DP training."""
        return None if self.training is None else (self.training[0], self.training[1] * self.gamma)

    @property
    def protects(self) -> bool:
        """Whether the noise alone promises anything."""
        return self.epsilon <= USELESS_EPSILON

    @property
    def amplifies(self) -> bool:
        """Whether the noise improves the promise of the training by something that can be noticed."""
        return self.training is not None and self.training[1] > 0 and self.log10_gap >= USEFUL_GAP

    @property
    def vacuous(self) -> bool:
        """Whether the theorem says nothing that is of use here."""
        return not (self.protects or self.amplifies)

    def __str__(self) -> str:
        return "\n".join([self._alone(), self._after_training(), *self._rest()])

    def _alone(self) -> str:
        verdict = (
            "a real promise" if self.protects else f"vacuous, an epsilon above {USELESS_EPSILON:g} protects nothing"
        )
        return (
            f"By the noise alone: epsilon = {digits(Fraction(self.epsilon))} at delta = {self.delta:g} for the "
            f"training rows ({verdict})."
        )

    def _after_training(self) -> str:
        if self.training is None:
            return "After training without differential privacy there is nothing to amplify."
        epsilon, delta = self.training
        kept = f"After DP training with epsilon = {epsilon:g}, delta = {delta:g}: the same epsilon"
        if delta == 0:
            return f"{kept}; only delta could shrink, and it is 0 already (vacuous)."
        verdict = "" if self.amplifies else " (vacuous: delta stays what it was)"
        return f"{kept}, delta times gamma with 1 - gamma = 10^{self.log10_gap:.4g}{verdict}."

    def _rest(self) -> list[str]:
        advice = (
            "Privacy of the training rows must come from DP training; it then covers every explanation of the model."
        )
        needs = (
            "This holds only if no training row is in the explained table and the model's exact prediction is not "
            'published beside the explanation (anchor="middle").'
        )
        return [advice, needs] if not self.protects else [needs]


def training_guarantee(
    rows: int,
    iterations: int,
    *,
    columns: int,
    epsilon: Any,
    delta: Any,
    training: tuple[float, float] | None = None,
    queries: int = 1,
    accounting: str = "zcdp",
    learning_rate: float | None = None,
    constant: float = 1.0,
    path_published: bool = True,
) -> TrainingGuarantee:
    """What `queries` explanations by noisy gradient descent, each (epsilon, delta)-DP for a table of `rows`, promise
    the rows that the model was trained on.

    columns         coordinates of the explanation
    training        (epsilon, delta) of the model's own training, if it was differentially private
    accounting      "zcdp": the noise that dpexplain adds; "paper": the larger noise of Algorithm 1
    learning_rate   of the last step; the paper's 1 / (G sqrt(T - 1)) with G^2 = c^2 + columns sigma^2 if not given
    constant        c, the bound of one row's gradient; 1 for the paper's stable weight
    path_published  whether the gradients of all steps can be seen, as in every file and ledger of dpexplain
    """
    for name, number, least in (("rows", rows, 1), ("iterations", iterations, 2), ("columns", columns, 1)):
        _whole(name, number, least)
    _whole("queries", queries, 1)
    budget = Budget(epsilon, delta)
    if budget.delta is None:
        raise InputError("delta is needed: Gaussian noise has no pure epsilon.", hint="delta=1e-6")
    c = float(exact(constant, "constant"))
    if accounting == "zcdp":
        rho = float(budget.total.amount)
        sigma = c / rows * math.sqrt(iterations / (2 * rho))
    elif accounting == "paper":
        sigma = c * paper_sigma(rows, iterations, float(budget.epsilon), float(budget.delta))
        rho = iterations * (c / (rows * sigma)) ** 2 / 2
    else:
        raise InputError(f"unknown accounting {accounting!r}.", hint='"zcdp" or "paper"')
    if learning_rate is None:
        eta = 1 / math.sqrt((c**2 + columns * sigma**2) * (iterations - 1))
    else:
        eta = float(exact(learning_rate, "learning_rate"))
    path, last = _log10_gap(rows * math.sqrt(2 * rho * queries)), queries * _log10_gap((1 / eta + c) / sigma)
    alone = Fraction(4 * rows**2 * queries) * Fraction(rho)
    return TrainingGuarantee(
        rows=rows,
        iterations=iterations,
        queries=queries,
        rho=rho * queries,
        sigma=sigma,
        learning_rate=eta,
        path_published=path_published,
        epsilon=epsilon_of_rho(alone, budget.delta),
        delta=float_above(budget.delta),
        training=_checked_training(training),
        log10_gap=path if path_published else max(path, last),  # the last point follows from the path: both hold
        log10_gap_last=last,
    )


def paper_sigma(rows: int, iterations: int, epsilon: float, delta: float) -> float:
    """The noise of Algorithm 1, for a gradient whose sensitivity is 1 / rows."""
    logs = math.log(math.e + math.sqrt(iterations) * epsilon / delta) * math.log(iterations / delta)
    return math.sqrt(16 * iterations * logs) / (rows * epsilon)


def _log10_gap(u: float) -> float:
    """log10(1 - gamma) for gamma = 2 Phi(u) - 1: 1 - gamma = 2 Phi(-u), in logarithms."""
    return (math.log(2) + float(log_ndtr(-u))) / math.log(10)


def _checked_training(training: Any) -> tuple[float, float] | None:
    if training is None:
        return None
    try:
        epsilon, delta = training
        pair = float(exact(epsilon, "epsilon")), 0.0 if delta == 0 else float(exact(delta, "delta"))
    except (TypeError, ValueError):
        pair = (0.0, 1.0)
    if pair[1] >= 1:
        raise InputError("training is a pair (epsilon, delta) of the model's training.", hint="training=(2.0, 1e-5)")
    return pair


def _whole(name: str, value: Any, least: int) -> None:
    if isinstance(value, bool) or not isinstance(value, int) or not least <= value <= 10**12:
        raise InputError(f"{name} is a whole number of at least {least}; got {repr(value)[:60]}.")
