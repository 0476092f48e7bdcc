"""Sums of released means, made better by the posterior of these (`maths/posterior.py`): influences, changes of losses.

With m the posterior of some means, v = mix m + offset. Released means are off by F z for the noise z of a release
(F: how each coordinate moves each mean), and by chance besides. As for curves the noise enters with its own law,
mix gain F z, and all the rest of the posterior variance as normal.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

import numpy as np
from numpy.typing import NDArray

from dpexplain.core.noise import Noise
from dpexplain.maths.posterior import Sharpened
from dpexplain.maths.tails import halfwidths

Floats = NDArray[np.float64]


@dataclass(frozen=True, eq=False)
class Combined:
    """Some sums of means.

    mix, offset  [value, mean] and [value]: values are mix m + offset
    moved        [mean, coordinate]: what one unit of each coordinate of the noise does to each released mean
    beside       the variance that each value has besides
    """

    posterior: Sharpened
    noise: Noise
    moved: Floats
    mix: Floats
    offset: Floats | float = 0.0
    beside: Floats | float = 0.0

    @cached_property
    def values(self) -> Floats:
        return np.asarray(self.mix @ self.posterior.values + self.offset)

    def halfwidths(self, level: float) -> Floats:
        """Of the interval around each value."""
        factors = self.mix @ self.posterior.gain @ self.moved
        variances = ((self.mix @ self.posterior.root) ** 2).sum(axis=1)
        rest = np.maximum(variances - self.noise.std**2 * (factors**2).sum(axis=1), 0.0) + self.beside
        return halfwidths(self.noise, factors, np.sqrt(rest), level)
