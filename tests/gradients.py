"""Paths without a release, and how far one row can move the sum of gradients, in real numbers."""

from __future__ import annotations

from fractions import Fraction

from dpexplain.core.sensitivity import Relation
from dpexplain.maths.surrogate import Local, StepWeight
from dpexplain.maths.surrogate.descent import Descent


def path(local: Local, radius: float = 1.0) -> Descent:
    """Three steps, at no price in particular."""
    return Descent(local, 3, radius, "zcdp", 10, Fraction(1, 3), Fraction(0))


def gradient_bound(weight: StepWeight, relation: Relation, radius: float = 1.0) -> float:
    """c or c + max q of `maths/surrogate/descent.py`, for coefficients in a ball."""
    q = 2 * weight.values * weight.edges
    c = float((q * (1 + radius * weight.edges)).max())
    return c if relation is Relation.ADD_REMOVE else min(2 * c, c + float(q.max()))
