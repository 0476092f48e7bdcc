"""Seeded randomness that anybody may know: synthetic rows, Monte Carlo draws, fixed permutations. Never noise."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.special import betaincinv, ndtr

from dpexplain.core.domain import Domain, Numeric
from dpexplain.data.rows import Rows
from dpexplain.errors import InputError

Generator = np.random.Generator  # for what draws by one that is handed over
MISSING_SHARE = 1 / 8  # of synthetic values, in columns that keep missing ones
# How likely rows lie in a declared domain: the middles and standard deviations of numbers, as shares of the range; how
# much rarer a category is than the one before; the part of each column that all columns share. Chosen on three tables.
MIDDLES, SPREADS, RARER, SHARED = (0.25, 0.75), (0.06, 0.2), 2.0, (0.5, 0.97)


class PublicRandom:
    """A reproducible source of public draws; its seed belongs in the result that used it."""

    def __init__(self, seed: int) -> None:
        if isinstance(seed, bool) or not isinstance(seed, int) or seed < 0:
            raise InputError(f"a seed is a whole number of at least 0; got {seed!r}.")
        self.seed = seed
        self.generator = np.random.Generator(np.random.Philox(seed))

    def rows(self, domain: Domain, size: int) -> Rows:
        """Synthetic rows: every column drawn evenly from its declared domain, with no look at any table. Where missing
        values are kept, one in eight is missing.
        """
        draw = self.generator
        columns = {}
        for name, column in domain.items():
            if isinstance(column, Numeric):
                values = draw.uniform(column.low, column.high, size)
                if column.keeps_missing:
                    values[draw.random(size) < MISSING_SHARE] = np.nan
                columns[name] = column.clean(values)
            else:
                columns[name] = draw.integers(len(column.categories), size=size).astype(np.int32)
        return Rows(domain, columns, size)

    def likely_rows(self, domain: Domain, size: int, near: Mapping[str, Any] | None = None) -> Rows:
        """Synthetic rows as tables have them: numbers that lie together, categories of which few are common, columns
        that go with each other. How, is drawn first: another seed is another table. With no look at any table. `near`
        is a public record that such a table may well have.
        """
        draw, columns = self.generator, {}
        alike, common = draw.uniform(*SHARED), draw.normal(size=size)
        for name, column in domain.items():
            even = np.sqrt(1 - alike) * draw.normal(size=size)
            even = ndtr(even + draw.choice([-1, 1]) * np.sqrt(alike) * common)
            if isinstance(column, Numeric):
                width, own = column.high - column.low, None if near is None else near.get(name)
                place = None if own is None or np.isnan(own) else (own - column.low) / width
                values = column.low + _bell(draw, even, place) * width
                if column.keeps_missing:
                    values[draw.random(size) < MISSING_SHARE] = np.nan
                columns[name] = column.clean(values)
            else:
                shares = 1 / np.arange(1, len(column.categories) + 1) ** RARER
                shares = draw.permutation(shares / shares.sum())
                if near is not None and near.get(name) in column.categories:  # what a row has is likely to be common
                    own, other = column.categories.index(near[name]), draw.choice(len(shares), p=shares)
                    shares[[own, other]] = shares[[other, own]]
                ends = np.cumsum(shares)[:-1]
                columns[name] = np.searchsorted(ends, even, side="right").astype(np.int32)
        return Rows(domain, columns, size)


def _bell(draw: np.random.Generator, even: NDArray[np.float64], near: float | None) -> NDArray[np.float64]:
    """Even numbers from 0 to 1 as those of a beta distribution with a middle and a spread that are drawn."""
    spread = np.exp(draw.uniform(*np.log(SPREADS)))
    middle = draw.uniform(*MIDDLES) if near is None else np.clip(near + spread * draw.normal(), *MIDDLES)
    weight = middle * (1 - middle) / spread**2 - 1
    values: NDArray[np.float64] = betaincinv(middle * weight, (1 - middle) * weight, even)
    return values
