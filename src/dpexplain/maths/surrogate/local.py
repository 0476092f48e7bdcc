"""Rows as seen from one record: whole numbers whose products are the moments of the local loss.

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
from collections.abc import Mapping
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any, ClassVar, Self

import numpy as np
from numpy.typing import NDArray

from dpexplain.core.canonical import JsonObject
from dpexplain.core.domain import PublicRange
from dpexplain.errors import InternalError
from dpexplain.maths.coded import Coded
from dpexplain.maths.surrogate.space import Space
from dpexplain.maths.surrogate.weights import SLACK, StepWeight

Floats = NDArray[np.float64]
Integers = NDArray[np.int64]

MOST_LEVELS = 2**16
LARGEST = 2**16  # of |y| and |t|: products of 2^14 rows stay below 2^53, and of 2^31 rows below 2^63
ROWS_AT_ONCE = 2**14
CONSTANT = 0.4  # small: it moves the bound; large: its coefficient is well known. Chosen on Adult


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
