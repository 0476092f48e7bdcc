"""How far one row can move the sum of gradients, in real numbers: what the bound of whole numbers must be near."""

from __future__ import annotations

from dpexplain.core.sensitivity import Relation
from dpexplain.maths.surrogate import StepWeight


def gradient_bound(weight: StepWeight, relation: Relation, radius: float = 1.0) -> float:
    """c or c + max q of `maths/surrogate/descent.py`, for coefficients in a ball."""
    q = 2 * weight.values * weight.edges
    c = float((q * (1 + radius * weight.edges)).max())
    return c if relation is Relation.ADD_REMOVE else min(2 * c, c + float(q.max()))
