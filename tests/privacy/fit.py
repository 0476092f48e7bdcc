"""Goodness of fit: does a sample follow an exact law?

`p_value` is Pearson's chi-square with cells pooled until each expects at least 25 draws, where its tail is close to the
exact one. Tests accept above `FALSE_ALARM`, so a correct sampler fails one test in a million runs.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Hashable, Iterable, Mapping

from scipy.stats import binomtest, chi2

FALSE_ALARM = 1e-6


def p_value(sample: Iterable[Hashable], law: Mapping[Hashable, float], *, least: float = 25.0) -> float:
    """Of Pearson's test. `law` may leave out a small rest of the probability; the rest is one more cell."""
    counts = Counter(sample)
    n = sum(counts.values())
    if any(law.get(value, 0.0) == 0.0 and is_certain(law) for value in counts):
        return 0.0  # an impossible value was drawn
    cells: list[tuple[float, int]] = []
    expected, seen = n * max(0.0, 1 - sum(law.values())), sum(c for v, c in counts.items() if v not in law)
    for value, probability in sorted(law.items(), key=lambda item: item[1]):
        expected, seen = expected + n * probability, seen + counts[value]
        if expected >= least:
            cells.append((expected, seen))
            expected, seen = 0.0, 0
    if seen or expected:
        last = cells.pop()
        cells.append((last[0] + expected, last[1] + seen))
    assert len(cells) >= 2, "the law has too few cells to test anything"
    statistic = sum((seen - expected) ** 2 / expected for expected, seen in cells)
    return float(chi2.sf(statistic, len(cells) - 1))


def is_certain(law: Mapping[Hashable, float]) -> bool:
    """Whether the law leaves nothing out."""
    return abs(sum(law.values()) - 1) < 1e-12


def coin_p_value(hits: int, n: int, probability: float) -> float:
    """Exact, for a coin."""
    return float(binomtest(hits, n, probability).pvalue)


def normalised(weights: Mapping[Hashable, float]) -> dict[Hashable, float]:
    total = math.fsum(weights.values())
    return {value: weight / total for value, weight in weights.items()}


def geometric_law(rate: float, first: int = 0) -> dict[Hashable, float]:
    """P(x) ~ exp(-rate x) on x >= first, down to 1e-16."""
    return normalised({x: math.exp(-rate * x) for x in range(first, first + math.ceil(37 / rate))})


def laplace_law(scale: float) -> dict[Hashable, float]:
    reach = math.ceil(37 * scale)
    return normalised({x: math.exp(-abs(x) / scale) for x in range(-reach, reach + 1)})


def gaussian_law(scale: float) -> dict[Hashable, float]:
    reach = math.ceil(9 * scale) + 1
    return normalised({x: math.exp(-x * x / (2 * scale * scale)) for x in range(-reach, reach + 1)})


def cube_radius_law(size: int, scale: float) -> dict[int, float]:
    """Of |z|_inf: there are (2r+1)^m - (2r-1)^m points at distance r."""
    reach = math.ceil(scale * (size + 37 + 9 * math.sqrt(size)))
    weights = {r: ((2 * r + 1) ** size - (2 * r - 1) ** size if r else 1) * math.exp(-r / scale) for r in range(reach)}
    return normalised(weights)  # type: ignore[arg-type,return-value]


def cube_marginal_law(size: int, scale: float) -> dict[Hashable, float]:
    """Of one coordinate x: at distance r of the whole vector the others have (2r+1)^(m-1) or fewer places."""
    reach = math.ceil(scale * (size + 37 + 9 * math.sqrt(size)))
    weights: dict[Hashable, float] = {}
    for x in range(reach):
        total = float((2 * x + 1) ** (size - 1)) * math.exp(-x / scale)
        for r in range(x + 1, reach):
            total += ((2 * r + 1) ** (size - 1) - (2 * r - 1) ** (size - 1)) * math.exp(-r / scale)
        weights[x] = weights[-x] = total
    return normalised(weights)
