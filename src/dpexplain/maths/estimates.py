"""Numbers with honest intervals from noisy counts: ratios, differences, and the spread of several."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

Figure = Callable[[float], "Estimate"]  # an estimate at any level, such as `partial(table.auc)` or `lambda level: ...`


@dataclass(frozen=True)
class Estimate:
    """A figure of THESE rows with its interval: noise and discretisation, never the chance that drew the rows."""

    value: float  # NaN where nothing is determined
    low: float
    high: float

    @property
    def determined(self) -> bool:
        """Whether the interval leaves out any possible value."""
        raise NotImplementedError


def difference(a: Figure, b: Figure, level: float = 0.95) -> Estimate:
    """a - b of two figures with independent noise, such as one rate in two groups (MOVER)."""
    raise NotImplementedError


def ratio(a: Figure, b: Figure, level: float = 0.95) -> Estimate:
    """a / b of two figures that are not negative, with independent noise (MOVER-R); high may be infinite."""
    raise NotImplementedError


def spread(*families: Sequence[Figure], level: float = 0.95) -> Estimate:
    """The largest difference within a family, the largest of the families: one family for a rate by group, two (true and
    false positive rates by group) for the difference of equalised odds.
    """
    raise NotImplementedError


def smallest_ratio(*families: Sequence[Figure], level: float = 0.95) -> Estimate:
    """The smallest value over the largest within a family, the smallest of the families."""
    raise NotImplementedError
