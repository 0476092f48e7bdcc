"""How much a row counts by its distance from the explained record, and how far one row can then move a statistic.

A weight function is evaluated on a public grid of distances only, once, and used as a step function: what it does on
private rows is then known for every distance there can be, so its bounds hold for any function a user writes, and none
is ever called on a row.

Notation    d = x - z in the coordinates of a `Space`, u = |d| at most its diameter, a = weight(u) in [0, 1],
            g = the target in [-1, 1], r = the radius of the ball of coefficients.
Gradient    2 a (phi.d - g) d of one row, |phi| <= r: its norm is at most a (2 r u^2 + 2 u), so
            c = max over steps of w + q with w = 2 a r u^2, q = 2 a u.
            add-remove: c. replace-one: min(2 c, c + max q). Proof: (phi.e) e = phi/2 + phi'/2 with e = d/u and phi' the
            mirror image of phi, so a row's gradient is (w/r) phi/2 plus a vector of norm at most w/2 + q, and two of
            them differ by at most |w - w'|/2 + (w + w')/2 + q + q' = max(w, w') + q + q' <= c + max q.
            (For the paper's stable weight with r = 1: 1.73 c; a search over pairs finds 1.55 c.)
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import NDArray

from dpexplain.core.canonical import JsonObject
from dpexplain.core.sensitivity import Relation
from dpexplain.errors import InputError

Floats = NDArray[np.float64]
Weight = str | Callable[[float], float]

STEPS = 4096
SLACK = 1 + 1e-9  # a distance computed in floats may fall into the step below its own


def stable(distance: Floats) -> Floats:
    """Equation 5 of the paper with c = 1: constant nearby, then as 1 / (2 u (u + 1))."""
    near = (math.sqrt(3) - 1) / 2
    u = np.maximum(distance, near)
    return np.asarray(np.minimum(1.0, 1 / (2 * u * (u + 1))))


NAMED: dict[str, Callable[[Floats, float], Floats]] = {
    "stable": lambda u, width: stable(u / width),
    "exponential": lambda u, width: np.exp(-u / width),
    "gaussian": lambda u, width: np.exp(-((u / width) ** 2)),
}


@dataclass(frozen=True, eq=False)
class StepWeight:
    """A weight as used: one public number for each of `STEPS` steps of distance up to the diameter."""

    name: str
    width: float
    diameter: float
    values: Floats

    @classmethod
    def of(cls, weight: Weight, diameter: float, *, width: float = 1.0) -> StepWeight:
        """`weight` by name ("stable", "exponential", "gaussian") or as a function of a distance."""
        if isinstance(width, bool) or not isinstance(width, int | float) or not 1e-6 <= width <= 1e6:
            raise InputError(f"the width of a weight is a positive number; got {width!r}.", hint="width=1.0")
        middles = (np.arange(STEPS) + 0.5) * diameter / STEPS
        if isinstance(weight, str):
            if weight not in NAMED:
                raise InputError(f"unknown weight {weight!r}.", hint=f"one of {', '.join(NAMED)}, or a function")
            return cls(weight, float(width), diameter, NAMED[weight](middles, float(width)))
        if not callable(weight):
            raise InputError("a weight is a name or a function of a distance.", hint=f"one of {', '.join(NAMED)}")
        name = f"the function {getattr(weight, '__name__', 'of the caller')}"  # never that of a named one
        return cls(name, 1.0, diameter, _tabulate(weight, middles))

    def __eq__(self, other: object) -> bool:
        return isinstance(other, StepWeight) and self.to_json() == other.to_json()

    def __hash__(self) -> int:
        return hash((self.name, self.width, self.diameter))

    def __call__(self, distance: Floats) -> Floats:
        step = np.minimum((distance * (STEPS / self.diameter)).astype(np.int64), STEPS - 1)
        return np.asarray(self.values[step])

    @cached_property
    def edges(self) -> Floats:
        """The largest distance of each step."""
        return np.asarray(np.arange(1.0, STEPS + 1) * (self.diameter / STEPS * SLACK))

    def gradient_bound(self, relation: Relation, radius: float = 1.0) -> float:
        """How far one row can move the sum of gradients, for coefficients in a ball."""
        q = 2 * self.values * self.edges
        c = float((q * (1 + radius * self.edges)).max())
        return c if relation is Relation.ADD_REMOVE else min(2 * c, c + float(q.max()))

    def to_json(self) -> JsonObject:
        named = self.name in NAMED
        return {
            "name": self.name,
            "width": self.width,
            "diameter": self.diameter,
            "values": None if named else self.values.tolist(),
        }

    @classmethod
    def from_json(cls, value: JsonObject) -> StepWeight:
        if value["values"] is None:
            return cls.of(value["name"], value["diameter"], width=value["width"])
        values = np.array(value["values"], dtype=np.float64)
        if values.shape != (STEPS,) or not ((values >= 0) & (values <= 1)).all():
            raise ValueError("these are no weights")
        return cls(str(value["name"]), value["width"], value["diameter"], values)


def _tabulate(weight: Callable[[float], Any], distances: Floats) -> Floats:
    try:
        values = np.array([float(weight(float(u))) for u in distances])
    except Exception as error:
        raise InputError(f"the weight function fails on a distance: {type(error).__name__}: {error}") from None
    if not np.isfinite(values).all() or values.min() < 0 or values.max() > 1 or values.max() == 0:
        raise InputError(
            "a weight lies between 0 and 1 for every distance inside the domain, and somewhere above 0.",
            hint=f"distances go from 0 to {distances[-1]:.3g}; divide by the largest weight",
        )
    return values
