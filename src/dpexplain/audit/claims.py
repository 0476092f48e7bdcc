"""What a claim allows an attacker: the bounds that the attacks of this package are compared with.

F(a) is the most true positives that any test of one data set against a neighbour can have when its false positives are
a. Every curve here is increasing and concave, and the same in both directions. docs/methods/attacks.md has the proofs.

Pure        F(a) = min(e^epsilon a + delta, 1 - e^-epsilon (1 - a - delta)), at most 1.
Gaussian    noise of cost rho: F(a) = Phi(Phi^-1(a) + mu), mu = sqrt(2 rho) (Neyman, Pearson; Dong, Roth, Su 2022).
            True for Gaussian noise on real numbers. Ours is discrete: with a standard deviation of s whole numbers its
            mu is up to about 0.045 / s^2 larger (relative, at probabilities above 1e-6): nothing for sums of many
            levels, 1 % at s = 2, 5 % at s = 1. Coarse counts are compared without `gaussian=True`.
zCDP        F(a) is the largest p with D_alpha(p, a) <= alpha rho and D_alpha(a, p) <= alpha rho for a list of orders:
            each of them is a true bound. (Measured: up to a third tighter than the best conversion to epsilon and
            delta; the list of orders costs at most 3 % in the far tail.)
"""

from __future__ import annotations

import math
from collections.abc import Callable
from fractions import Fraction
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy.special import ndtr, ndtri

from dpexplain.audit import bounds
from dpexplain.core.budget import Cost, Definition, pure
from dpexplain.core.sensitivity import Relation
from dpexplain.errors import InputError

Floats = NDArray[np.float64]
Claim = Cost | float | Fraction
Curve = Callable[[Floats], Floats]
_HALVINGS = 60  # of an interval of length at most one: to the last bit of a float


def most_true_positives(
    claim: Claim, false_positives: ArrayLike, *, gaussian: bool = False, delta: float = 0.0
) -> Floats:
    """The largest rate of true positives that the claim allows at each rate of false positives."""
    rates = np.asarray(false_positives, dtype=np.float64)
    if not ((rates >= 0) & (rates <= 1)).all():
        raise InputError("rates of false positives lie between 0 and 1.", spent="")
    return _curve(checked_claim(claim, gaussian, delta), gaussian, delta)(np.atleast_1d(rates)).reshape(rates.shape)


def most_advantage(claim: Claim, *, gaussian: bool = False, delta: float = 0.0) -> float:
    """The largest difference of true and false positives that the claim allows: pure (e^eps - 1) / (e^eps + 1)."""
    return 2 * most_success(claim, 2, gaussian=gaussian, delta=delta) - 1


def most_success(claim: Claim, candidates: int, *, gaussian: bool = False, delta: float = 0.0) -> float:
    """The most that any guess of one of k equally likely values can succeed, when any two of them make neighbours.

    It is the one number with S = F((1 - S) / (k - 1)) (proof: docs/methods/attacks.md). Pure: e^eps / (e^eps + k - 1),
    which randomised response attains. Gaussian with k = 2: Phi(mu / 2), attained; with k > 2 the bound is not tight.
    """
    if isinstance(candidates, bool) or not isinstance(candidates, int) or candidates < 2:
        raise InputError(f"a guess needs at least 2 candidates; got {candidates!r}.", spent="")
    curve = _curve(checked_claim(claim, gaussian, delta), gaussian, delta)
    return float(_largest(lambda s: s <= curve((1 - s) / (candidates - 1)), np.array([1 / candidates]))[0])


def claim_of_replacing(claim: Claim, relation: str | Relation, delta: float = 0.0) -> tuple[Cost, float]:
    """What the claim says about two values of one row: one step under replace-one, two (remove, add) under add-remove.

    Two steps: epsilon doubles and delta becomes (1 + e^epsilon) delta; rho becomes four times as much, mu twice
    (Bun, Steinke 2016, Proposition 1.9; Dong, Roth, Su 2022, Theorem 2.14).
    """
    stated = checked_claim(claim, False, delta)
    if Relation.parse(relation) is Relation.REPLACE_ONE:
        return stated, delta
    if stated.definition is Definition.ZCDP:
        return stated * 4, delta
    return stated * 2, min(math.nextafter(1, 0), delta * (1 + math.exp(min(float(stated.amount), 700.0))))


def checked_claim(claim: Any, gaussian: bool, delta: Any) -> Cost:
    """The claim as a cost; an error when there is none, or when the settings contradict it."""
    if claim is None:
        raise InputError(
            "an attack is compared with a claim, and none was given.",
            hint="claim=table.cost(epsilon=...), or a number for pure epsilon",
            spent="",
        )
    stated = claim if isinstance(claim, Cost) else pure(claim)
    if isinstance(delta, bool) or not isinstance(delta, int | float) or not 0 <= delta < 1:
        raise InputError(f"delta must lie between 0 and 1; got {delta!r}.", spent="")
    if gaussian and stated.definition is not Definition.ZCDP:
        raise InputError("gaussian=True needs a zCDP claim.", hint="claim=zcdp(rho)", spent="")
    if delta and stated.definition is Definition.ZCDP:
        raise InputError("a zCDP claim is compared without delta.", spent="")
    return stated


def in_words(claim: Cost, gaussian: bool, delta: float) -> str:
    """What is claimed, for a report."""
    return f"{claim}{f', delta={delta:g}' if delta else ''}{' by Gaussian noise' * gaussian}"


def _curve(claim: Cost, gaussian: bool, delta: float) -> Curve:
    if claim.definition is Definition.PURE:
        factor = math.exp(min(float(claim.amount), 700.0))
        return lambda a: np.clip(np.minimum(factor * a + delta, 1 - (1 - a - delta) / factor), 0.0, 1.0)
    if gaussian:
        mu = math.sqrt(2 * float(claim.amount))
        return lambda a: np.asarray(ndtr(ndtri(a) + mu), dtype=np.float64)
    return lambda a: _renyi_curve(a, float(claim.amount))


def _renyi_curve(a: Floats, rho: float) -> Floats:
    """The largest p >= a whose Renyi divergences from a, both ways, are at most those of rho."""

    def allowed(p: Floats) -> NDArray[np.bool_]:
        return (bounds.rho(p, a) <= rho) & (bounds.rho(1 - a, 1 - p) <= rho)

    return np.where(a <= 0, 0.0, _largest(allowed, a))


def _largest(allowed: Callable[[Floats], NDArray[np.bool_]], low: Floats) -> Floats:
    """The largest numbers up to one that are allowed, rounded up; `low` is."""
    high = np.ones_like(low)
    for _ in range(_HALVINGS):
        middle = (low + high) / 2
        good = allowed(middle)
        low, high = np.where(good, middle, low), np.where(good, high, middle)
    return high
