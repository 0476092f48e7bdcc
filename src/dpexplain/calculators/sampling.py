"""What a release promises when it sees a secret sample of the rows only: amplification by sampling as a calculator.
Free: it sees no data, and no explainer of dpexplain samples.

    every row by itself with probability q (poisson), one row added or removed    log(1 + q (e^epsilon - 1))
    every row by itself with probability q (poisson), one row replaced            log((1 - q + q e^epsilon) /
                                                                                      (1 - q + q e^-epsilon))
    a fixed share q of the rows (fixed), one row replaced                         log(1 + q (e^epsilon - 1))

`epsilon` is what the release promises to the rows of its sample, before sampling: when one of them is added or removed
(poisson, whose samples have no fixed size), or replaced (fixed). All three are attained. The sample must stay secret.
Proofs, and Theorem 13 of the QII paper beside them: docs/methods/influence.md.
"""

from __future__ import annotations

from dataclasses import dataclass
from decimal import Decimal, localcontext
from fractions import Fraction
from typing import Any

from dpexplain.core.budget import Definition, digits, exact, float_above
from dpexplain.core.sensitivity import Relation
from dpexplain.errors import InputError

SAMPLINGS = ("poisson", "fixed")
_WORDS = {Relation.ADD_REMOVE: "added or removed", Relation.REPLACE_ONE: "replaced"}
LARGEST = 1_000  # e^1000 promises nothing, sampled or not
SMALLEST = Fraction(1, 10**100)
DIGITS = 300  # of the arithmetic: 1 + q (e^epsilon - 1) still shows a q epsilon of 1e-200


@dataclass(frozen=True)
class AmplifiedEpsilon:
    """The promise after sampling. `describe` says it in words."""

    base: float  # the promise to the rows of the sample
    rate: float
    sampling: str
    relation: Relation
    epsilon: float  # the promise to the rows of the table, rounded up
    theorem_13: float | None  # what the paper's factor of two says, for a base of at most one

    def describe(self) -> str:
        if self.sampling == "poisson":
            seen, before = f"every row with probability {self.rate:g}, each by itself", Relation.ADD_REMOVE
        else:
            seen, before = f"a random sample of {self.rate:.4%} of the rows", Relation.REPLACE_ONE
        return (
            f"epsilon = {digits(Fraction(self.epsilon))} when one row of the table is {_WORDS[self.relation]}, by a "
            f"release that sees {seen}, and promises epsilon = {self.base:g} when one of the rows it sees is "
            f"{_WORDS[before]}. Which rows it sees must stay secret.{self._beside_the_paper()}"
        )

    def _beside_the_paper(self) -> str:
        if self.theorem_13 is None:
            return ""
        verdict = "more than needed" if self.theorem_13 >= self.epsilon else "too little here"
        return f" The factor of two of the QII paper (Theorem 13) gives {self.theorem_13:.4g}: {verdict}."

    def __str__(self) -> str:
        return self.describe()


def amplified_epsilon(
    epsilon: Any,
    rate: Any,
    *,
    sampling: str = "poisson",
    relation: str | Relation = "add-remove",
    definition: str | Definition = Definition.PURE,
) -> AmplifiedEpsilon:
    """The epsilon of a release that sees a secret sample of the rows, from its epsilon for the rows of the sample.

    epsilon    before sampling: for one row of the sample added or removed (poisson) or replaced (fixed)
    rate       the share of rows in the sample, or the probability of each row
    sampling   "poisson": every row by itself; "fixed": as many rows as rate says
    relation   of the answer: what may happen to one row of the table
    """
    _refuse_other_definitions(definition)
    base, q, related = exact(epsilon, "epsilon"), exact(rate, "rate"), Relation.parse(relation)
    if sampling not in SAMPLINGS:
        raise InputError(f"unknown sampling {sampling!r}.", hint='use "poisson" or "fixed"')
    if q > 1:
        raise InputError(f"rate is a share of the rows, at most 1; got {float(q):g}.", hint="for example rate=0.1")
    if min(base, q) < SMALLEST or base > LARGEST:
        raise InputError(f"epsilon goes from 1e-100 to {LARGEST:,} here, and rate from 1e-100 to 1.")
    if sampling == "fixed" and related is Relation.ADD_REMOVE:
        raise InputError(
            "a sample of a fixed size has no known rate when the number of rows is private: from a table of as many "
            "rows as the sample has it takes them all, and nothing is amplified.",
            hint='use sampling="poisson", or relation="replace-one"',
        )
    doubled = sampling == "poisson" and related is Relation.REPLACE_ONE
    return AmplifiedEpsilon(
        float(base),
        float(q),
        sampling,
        related,
        min(_formula(base, q, doubled), float_above((2 if doubled else 1) * base)),
        float(2 * q * base) if base <= 1 else None,
    )


def _refuse_other_definitions(definition: str | Definition) -> None:
    if definition not in list(Definition):
        raise InputError(f"unknown definition {definition!r}.", hint='use "pure"')
    if definition != Definition.PURE:
        raise InputError(
            "sampling amplifies pure epsilon by these formulas, not zCDP: neither rho nor the epsilon that it converts "
            "to at a delta may be put into them.",
            hint="use a release of a pure account",
        )


def _formula(epsilon: Fraction, rate: Fraction, doubled: bool) -> float:
    """The formulas of the module, in so many digits that the last step up is all that rounding does."""
    with localcontext(prec=DIGITS):
        e, q = (Decimal(x.numerator) / Decimal(x.denominator) for x in (epsilon, rate))
        result = (1 - q + q * e.exp()).ln()
        if doubled:
            result -= (1 - q + q * (-e).exp()).ln()
        return float_above(Fraction(result) * (1 + Fraction(1, 10**50)))
