"""What a caller decides about quantiles."""

from __future__ import annotations

from collections.abc import Sequence
from fractions import Fraction
from typing import Annotated, Any

from pydantic import Field, field_validator

from dpexplain.errors import InputError
from dpexplain.methods.request import Request

CELLS, MAX_CELLS = 1024, 2**14


class QuantilesRequest(Request):
    """Quantiles of one numeric feature, for one cost."""

    feature: Annotated[str, Field(description="A numeric feature.")]
    probs: Annotated[
        Sequence[float],
        Field(
            description="Increasing probabilities between 0 and 1; each is taken as the nearest fraction with a "
            "denominator of at most 10,000."
        ),
    ]
    cells: Annotated[
        int,
        Field(
            ge=2,
            le=MAX_CELLS,
            description="Cells of a continuous feature, or of an integer one that has more values than that; a value "
            "inside a cell is interpolated.",
        ),
    ] = CELLS

    @field_validator("probs", mode="before")
    @classmethod
    def _probs(cls, value: Any) -> tuple[float, ...]:
        return tuple(float(p) for p in exact_probs(value))

    @property
    def label(self) -> str:
        return f"quantiles of {self.feature}"


def exact_probs(probs: Any) -> tuple[Fraction, ...]:
    """Increasing probabilities as fractions with small denominators."""
    from dpexplain.maths.ladder import FINEST, MAX_PROBS  # loads numpy: not before somebody asks for quantiles

    hint = "for example probs=[0.25, 0.5, 0.75]"
    if isinstance(probs, str) or not hasattr(probs, "__iter__"):
        raise InputError("probs must be a list of probabilities.", hint=hint)
    given = [p.item() if hasattr(p, "item") else p for p in probs]
    for p in given:
        if isinstance(p, bool) or not isinstance(p, int | float | Fraction):
            kind = type(p).__name__
            raise InputError(f"a probability is a number between 0 and 1; got an object of type {kind}.", hint=hint)
        if not 0 < p < 1:
            raise InputError(f"a probability lies between 0 and 1; got {repr(p)[:60]}.", hint=hint)
    exact = tuple(Fraction(p).limit_denominator(FINEST) for p in given)
    if not 1 <= len(exact) <= MAX_PROBS:
        raise InputError(f"from 1 to {MAX_PROBS} probabilities can be asked for; got {len(exact)}.", hint=hint)
    if any(a >= b for a, b in zip((Fraction(0), *exact), (*exact, Fraction(1)), strict=True)):
        raise InputError(f"probabilities must increase, by at least 1/{FINEST:,}.", hint=hint)
    return exact
