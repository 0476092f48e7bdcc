"""Drawing the noise: OpenDP for discrete Laplace, discrete Gaussian and noisy top-k; the cube is ours.

`Sampler` is a protocol so that tests can inject a known one. There is no seed and no switch that turns noise off.
"""

from __future__ import annotations

from collections.abc import Sequence
from fractions import Fraction
from functools import cache
from typing import Any, Protocol

from dpexplain.core.budget import Cost, Definition
from dpexplain.core.combinations import Integers, draw
from dpexplain.core.mechanisms import Selection
from dpexplain.core.noise import Law, Noise, pure_epsilon
from dpexplain.core.rng import below, geometric
from dpexplain.core.sensitivity import ScoreRange, Sensitivity
from dpexplain.errors import InternalError


class Sampler(Protocol):
    def perturb(self, values: Sequence[int], noise: Noise, sensitivity: Sensitivity, cost: Cost) -> list[int]:
        """`values` plus noise of that law, after checking that the law is worth at most `cost`."""

    def choose(self, scores: Sequence[int], selection: Selection, change: ScoreRange, cost: Cost) -> list[int]:
        """The indices of the k noisily best scores, best first."""

    def combine(self, scores: Integers, rate: Fraction, uses: int) -> list[list[int]]:
        """For each slot the candidates that a drawn combination gives it (core.combinations)."""


class ExactSampler:
    """The real thing: exact laws from operating-system entropy."""

    def perturb(self, values: Sequence[int], noise: Noise, sensitivity: Sensitivity, cost: Cost) -> list[int]:
        plain = [int(v) for v in values]
        if len(plain) != noise.size:
            raise InternalError("the noise has another size than the statistic")
        if noise.law is Law.CUBE:
            if Fraction(sensitivity.linf) / noise.scale > pure_epsilon(cost):
                raise InternalError("the cube noise is too small for its price")
            return [v + z for v, z in zip(plain, cube(noise.size, noise.scale), strict=True)]
        dp = _opendp()
        space, scale = dp.domains.vector_domain(dp.domains.atom_domain(T="i64")), float(noise.scale)
        if noise.law is Law.LAPLACE:
            measurement = dp.measurements.make_laplace(space, dp.metrics.l1_distance(T="i64"), scale=scale)
            _require(measurement.map(sensitivity.l1), pure_epsilon(cost))
        else:
            if cost.definition is not Definition.ZCDP:
                raise InternalError("Gaussian noise has no price in a pure account")
            measurement = dp.measurements.make_gaussian(space, dp.metrics.l2_distance(T="f64"), scale=scale)
            # rounded up: OpenDP takes the L2 distance as a float
            distance = (sensitivity.l2_squared**0.5) * (1 + 2**-50)
            _require(measurement.map(distance), cost.amount)
        return [int(v) for v in measurement(plain)]

    def choose(self, scores: Sequence[int], selection: Selection, change: ScoreRange, cost: Cost) -> list[int]:
        dp = _opendp()
        # A change in [low, high] is, after a shift that no selection sees, at most (high - low) / 2 in absolute value.
        # Doubling the scores and the scale keeps that half an integer.
        pure = cost.definition is Definition.PURE
        measure = dp.measures.max_divergence() if pure else dp.measures.zero_concentrated_divergence()
        measurement = dp.measurements.make_noisy_top_k(
            dp.domains.vector_domain(dp.domains.atom_domain(T="i64")),
            dp.metrics.linf_distance(T="i64"),
            measure,
            k=selection.k,
            scale=float(2 * selection.scale),
        )
        _require(measurement.map(change.length), cost.amount)
        return [int(i) for i in measurement([2 * int(s) for s in scores])]

    def combine(self, scores: Integers, rate: Fraction, uses: int) -> list[list[int]]:
        return draw(scores, rate, uses=uses)


def cube(size: int, scale: Fraction) -> list[int]:
    """z in Z^size with P(z) proportional to exp(-|z|_inf / scale), exactly.

    The sum t of size + 1 geometrics has P(t) ~ C(t + m, m) q^t. Accepting with probability
    prod_{i=1..m} (2t+1) / (2(t+i)) leaves P(t) ~ (2t+1)^m q^t, and then z uniform in {-t..t}^m has
    P(z) ~ sum_{t >= |z|_inf} q^t ~ q^{|z|_inf}.
    """
    rate = 1 / scale
    while True:
        t = sum(geometric(rate) for _ in range(size + 1))
        if all(below(2 * (t + i)) < 2 * t + 1 for i in range(1, size + 1)):
            return [below(2 * t + 1) - t for _ in range(size)]


@cache
def _opendp() -> Any:
    """The parts of OpenDP that we call, imported where they are used. Its prelude would load scikit-learn and more."""
    import opendp.domains
    import opendp.measurements
    import opendp.measures
    import opendp.metrics
    import opendp.mod

    opendp.mod.enable_features("contrib")
    return opendp


def _require(loss: float, allowed: Fraction) -> None:
    """OpenDP's own privacy map must agree that the release is worth at most its cost."""
    if Fraction(loss) > allowed:
        raise InternalError("OpenDP's privacy map asks for more than the price of this release")
