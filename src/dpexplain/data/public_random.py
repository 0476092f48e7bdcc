"""Seeded randomness that anybody may know: synthetic rows, Monte Carlo draws, fixed permutations. Never noise."""

from __future__ import annotations

import numpy as np

from dpexplain.core.domain import Domain, Numeric
from dpexplain.data.rows import Rows
from dpexplain.errors import InputError

MISSING_SHARE = 1 / 8  # of synthetic values, in columns that keep missing ones


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
