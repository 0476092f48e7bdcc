"""Rows as seen from one record: how much each of them counts, and whole numbers whose products are the moments of the
local loss.

Weight      evaluated on a public grid of distances only, once, and used as a step function: what it does on private
            rows is then known for every distance there can be, so bounds hold for any function a user writes, and
            none is ever called on a row.
Loss        L(phi) = sum over rows of a (phi.d - g)^2, with d = x - z, a = weight(|d|) and the target
            g = (f - anchor) / reach in [-1, 1], f the prediction on the scale of -1 to 1, reach = 1 + |anchor|.
            The local model passes through (z, anchor): the model's own prediction for z, or the middle of its range
            (the paper's loss). Without an anchor its value at z is fitted too: d gets one more coordinate, the constant
            CONSTANT, whose coefficient is that value.
Quantising  y = round(levels sqrt(a) d), t = round(levels sqrt(a) g), coordinate by coordinate. Products of whole
            numbers are exact in floats below 2^53, so a fast matrix product gives exact sums: y y' for A, t y for b.
Bounds      for a row in a step with weight a and largest distance u: |y| <= Y = levels sqrt(a) u + sqrt(n) / 2 and
            |t| <= T = levels sqrt(a) + 1/2, because rounding moves each of n coordinates by at most 1/2. With the
            constant coordinate, sqrt(u^2 + CONSTANT^2) stands for u.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from functools import cached_property, lru_cache
from typing import Any, ClassVar, Self

import numpy as np
from numpy.typing import NDArray

from dpexplain.core.canonical import JsonObject
from dpexplain.core.domain import PublicRange
from dpexplain.errors import InputError, InternalError
from dpexplain.maths.coded import Coded
from dpexplain.maths.surrogate.space import Space

Floats = NDArray[np.float64]
Integers = NDArray[np.int64]
Weight = str | Callable[[float], float]

STEPS = 4096
SLACK = 1 + 1e-9  # a distance computed in floats may fall into the step below its own
MOST_LEVELS = 2**16
LARGEST = 2**16  # of |y| and |t|: products of 2^14 rows stay below 2^53, and of 2^31 rows below 2^63
ROWS_AT_ONCE = 2**14
CONSTANT = 0.4  # small: it moves the bound; large: its coefficient is well known. Chosen on Adult


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
        if isinstance(weight, str):
            if weight not in NAMED:
                raise InputError(f"unknown weight {weight!r}.", hint=f"one of {', '.join(NAMED)}, or a function")
            return _named(weight, diameter, float(width))
        if not callable(weight):
            raise InputError("a weight is a name or a function of a distance.", hint=f"one of {', '.join(NAMED)}")
        name = f"the function {getattr(weight, '__name__', 'of the caller')}"  # never that of a named one
        return cls(name, 1.0, diameter, _tabulate(weight, _middles(diameter)))

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


def _middles(diameter: float) -> Floats:
    """The middle of each step of distance."""
    return (np.arange(STEPS) + 0.5) * diameter / STEPS


@lru_cache(maxsize=64)
def _named(name: str, diameter: float, width: float) -> StepWeight:
    return StepWeight(name, width, diameter, NAMED[name](_middles(diameter), width))


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


@dataclass(frozen=True)
class Local(Coded):
    """One record, and how rows count for it. Public."""

    space: Space
    weight: StepWeight
    output: PublicRange
    record: Mapping[str, Any]  # checked by `space.read`
    anchor: float | None  # in units of the model's output; None where the value at the record is fitted

    @property
    def fitted(self) -> bool:
        return self.anchor is None

    @property
    def passes(self) -> float:
        """The anchor, where a method needs one."""
        if self.anchor is None:
            raise InternalError("this method cannot fit the value at the record")
        return self.anchor

    @property
    def size(self) -> int:
        """The number of coordinates of y."""
        return self.space.size + self.fitted

    @cached_property
    def centre(self) -> Floats:
        return self.space.locate(self.record)

    @cached_property
    def _anchor(self) -> float:
        if self.anchor is None:
            return 0.0
        return float(np.clip(2 * (self.anchor - self.output.low) / self.output.width - 1, -1, 1))

    @property
    def reach(self) -> float:
        """One unit of the target on the scale of -1 to 1."""
        return 1 + abs(self._anchor)

    @property
    def unit(self) -> float:
        """One unit of the target in units of the model's output."""
        return self.reach * self.output.width / 2

    @cached_property
    def levels(self) -> int:
        """As fine as exact products allow: a power of two."""
        largest = float((np.sqrt(self.weight.values) * np.maximum(self._edges, 1)).max())
        fits = int(math.log2((LARGEST - math.sqrt(self.size)) / max(largest, 1e-9)))
        return min(MOST_LEVELS, 1 << fits)

    @property
    def _edges(self) -> Floats:
        """The largest |d| of each step."""
        return np.asarray(np.hypot(self.weight.edges, CONSTANT * SLACK) if self.fitted else self.weight.edges)

    @cached_property
    def longest(self) -> tuple[Floats, Floats]:
        """(Y, T) for each step of distance."""
        root = self.levels * np.sqrt(self.weight.values)
        return (root * self._edges + math.sqrt(self.size) / 2) * SLACK, (root + 0.5) * SLACK

    def gram(self, coordinates: Floats, predictions: Floats) -> Integers:
        """The sum over rows of y y' (all n^2 entries) and of t y (n entries), exactly."""
        total = np.zeros(self.size * (self.size + 1), dtype=np.int64)
        for start in range(0, len(predictions), ROWS_AT_ONCE):
            some = slice(start, start + ROWS_AT_ONCE)
            y, t = self._quantised(coordinates[some], predictions[some])
            total += np.concatenate([(y.T @ y).ravel(), t @ y]).astype(np.int64)
        return total

    def seen(self, coordinates: Floats) -> tuple[Floats, Floats]:
        """d of each row, and its weight."""
        d = coordinates - self.centre
        weights = self.weight(np.sqrt(np.einsum("ij,ij->i", d, d)))
        return (np.column_stack([d, np.full(len(d), CONSTANT)]) if self.fitted else d), weights

    def _quantised(self, coordinates: Floats, predictions: Floats) -> tuple[Floats, Floats]:
        d, weights = self.seen(coordinates)
        root = self.levels * np.sqrt(weights)
        scaled = np.clip(2 * (predictions - self.output.low) / self.output.width - 1, -1, 1)
        g = (np.nan_to_num(scaled, nan=0.0) - self._anchor) / self.reach
        return np.rint(root[:, None] * d), np.rint(root * g)

    @classmethod
    def from_json(cls, value: JsonObject) -> Local:
        local = super().from_json(value)
        return replace(local, record=local.space.read(local.record))


@dataclass(frozen=True)
class LocalSpec(Coded):
    """Base of specs about one record: in JSON, the fields of `local` stand beside their own."""

    local: Local

    method: ClassVar[str]

    @property
    def space(self) -> Space:
        return self.local.space

    @property
    def output(self) -> PublicRange:
        return self.local.output

    def to_json(self) -> JsonObject:
        own = super().to_json()
        return {"method": self.method, **own.pop("local"), **own}

    @classmethod
    def from_json(cls, value: JsonObject) -> Self:
        return super().from_json({**value, "local": value})
