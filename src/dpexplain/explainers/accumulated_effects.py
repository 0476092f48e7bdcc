"""Differentially private accumulated local effects of one feature or of several.

Guarantee    the account's definition and price, for one unit replaced or added or removed. Public: the cells, the clip,
             the output range, the model, the declared domain, and the number of rows under replace-one without units.
Statistic    counts of public cells; then, with bins made of the released counts, for every bin the sum over its rows of
             q(f(x with x_j := upper edge) - f(x with x_j := lower edge)), where q clips to [-C, C] and rounds to
             {-K/2..K/2}. Categories: every row adds its differences to both neighbouring categories, in their declared
             order. A row whose value is missing, where missing values are kept, has no neighbours: it adds nothing.
Sensitivity  counts: `Sensitivity.of_counts`. Sums: a row adds to one bin of a feature (to two for categories), so its
             vector has norms L1 t K/2, squared L2 t K^2/4, L-inf K/2 with t = 1 or 2, added up over features in L1 and
             squared L2; `Sensitivity.of_norms`. docs/methods/accumulated-effects.md has the proof.
Release      counts first: they give the rug, the bins and the denominators. Then the sums. Accumulating, centring by
             the released density, shrinking and intervals are post-processing.
References   Apley and Zhu 2020; "Differentially Private Global Explanations" (method="paper").
"""

from __future__ import annotations

import sys
from collections.abc import Sequence
from dataclasses import dataclass, replace
from fractions import Fraction
from functools import partial
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.special import ndtri

from dpexplain.binning import MOST_BINS, Steps, steps_of
from dpexplain.core.budget import Cost
from dpexplain.core.canonical import JsonObject
from dpexplain.core.domain import Domain, Numeric, PublicRange
from dpexplain.core.mechanisms import best
from dpexplain.core.noise import Law, Noise
from dpexplain.core.release import Gate
from dpexplain.core.sensitivity import Neighbours, Sensitivity
from dpexplain.data.rows import Rows
from dpexplain.data.table import PrivateTable
from dpexplain.design import DataFlow
from dpexplain.errors import InputError
from dpexplain.explainers import quantiles
from dpexplain.explainers.outlook import LEVEL, Outlook, Setting
from dpexplain.models import Model, Predictor
from dpexplain.models.arguments import of_wrapped
from dpexplain.results import Curve, Curves, Marginals
from dpexplain.results.accumulated import (
    LEVEL_PARTS,
    TWO_SIDED,
    AccumulatedCurve,
    Accumulation,
    Bins,
    bins_of,
    bins_of_quantiles,
    sharing,
)
from dpexplain.results.base import receipt_for
from dpexplain.results.quantiles import Ladder

COUNT_SHARE = Fraction(1, 5)  # of the price, for the counts; chosen on the tables of `python -m bench effects`
PAPER_SHARES = {"counts": Fraction(1, 9), "quantiles": Fraction(4, 9), "effects": Fraction(4, 9)}
PAPER_BINS = 20
LEAST_CLIP = 1e-3  # of the output range: below that, a model's own rounding errors would be explained
USUAL_BINS = 20  # of a feature, to know the noise before the bins are known
USUAL_EFFECT, USUAL_STEPS = 1 / 3, 0.1  # of the output range: along a number, up and down between categories


@dataclass(frozen=True, kw_only=True)
class AccumulatedEffects:
    """The request: everything about the release that a caller decides.

    feature    a name, or a list of names for several curves of one price
    bins       at most so many bins of near-equal mass for a numeric feature; by default the forecast error decides
    clip       the largest effect of one row in one bin that counts in full, in units of the output; by default the
               whole output range: nothing is cut off, and intervals leave nothing out
    method     "default", or "paper" for the published design: 20 private quantiles, equal mass, Laplace, no shrinking
    smooth     shrink noisy steps (free; intervals stay those of the unshrunk ones)
    mechanism  "cube", "discrete-laplace" or "discrete-gaussian" instead of the one with the smallest forecast error
    """

    feature: str | Sequence[str]
    bins: int | None = None
    clip: float | None = None
    method: str = "default"
    smooth: bool = True
    mechanism: str | None = None

    def __post_init__(self) -> None:
        if self.method not in ("default", "paper"):
            raise InputError(f"unknown method {self.method!r}.", hint='use "default" or "paper"')
        if (
            not isinstance(self.feature, Sequence)
            or not self.features
            or not all(isinstance(n, str) for n in self.features)
        ):
            raise InputError("name at least one feature; accumulated effects are of single features, not of pairs.")
        if len(set(self.features)) < len(self.features):
            raise InputError("a feature is named twice.")
        whole = isinstance(self.bins, int) and not isinstance(self.bins, bool)
        if self.bins is not None and not (whole and 1 <= self.bins <= MOST_BINS):
            raise InputError(f"bins must be a whole number from 1 to {MOST_BINS}; got {self.bins!r}.")
        number = isinstance(self.clip, int | float) and not isinstance(self.clip, bool)
        if self.clip is not None and not (number and 0 < self.clip <= sys.float_info.max):
            raise InputError(f"clip must be a number above 0, in units of the output; got {self.clip!r}.")

    @property
    def single(self) -> bool:
        """Whether one curve was asked for, and not a list of them."""
        return isinstance(self.feature, str)

    @property
    def features(self) -> list[str]:
        return [self.feature] if isinstance(self.feature, str) else list(self.feature)

    @property
    def label(self) -> str:
        return "accumulated effects of " + ", ".join(self.features)


@dataclass(frozen=True)
class Spec:
    """The request made concrete: all that fixes the statistic and its noise, public and hashed into the ledger."""

    steps: tuple[Steps, ...]
    ladders: tuple[Ladder | None, ...]  # of features whose bins are quantiles
    output: PublicRange
    clip: float
    bins: int | None
    count_noise: float  # of a cell's count: by this and the next the bins are chosen
    sum_noise: float  # of a bin's sum, in units of the output range
    shares: tuple[Fraction, Fraction, Fraction]  # of the price: counts, quantiles, effects
    mechanism: str | None

    @property
    def levels(self) -> int:
        """K: the quantised differences are whole numbers from -K/2 to K/2."""
        return self.output.levels

    @property
    def differences(self) -> PublicRange:
        """What a row's difference is clipped to."""
        return PublicRange(-self.clip, self.clip, self.levels)

    @property
    def cells(self) -> int:
        return sum(steps.cells.size for steps in self.steps)

    def to_json(self) -> JsonObject:
        return {
            "steps": [steps.to_json() for steps in self.steps],
            "ladders": [None if ladder is None else ladder.to_json() for ladder in self.ladders],
            "output": self.output.to_json(),
            "span": self.output.width,
            "clip": self.clip,
            "levels": self.levels,
            "bins": self.bins,
            "count_noise": self.count_noise,
            "sum_noise": self.sum_noise,
            "shares": [str(share) for share in self.shares],
            "mechanism": self.mechanism,
            "cut": True,  # the curve, at the width of the output range
        }

    def costs(self, cost: Cost) -> tuple[Cost, Cost, Cost]:
        """The price of counts, of quantiles and of effects; together at most `cost`."""
        counts, levels, effects = (cost * share for share in self.shares)
        return counts, levels, effects


def statistic(rows: Rows, predictor: Predictor, spec: Spec, bins: Sequence[Bins]) -> NDArray[np.int64]:
    """Exact integer sums of differences of one batch: no noise, no budget, no randomness."""
    inputs, limits, output = predictor.inputs(rows), spec.differences, spec.output
    zero, own = spec.levels // 2, None

    def predictions(fixed: dict[str, Any]) -> NDArray[np.float64]:
        return np.clip(predictor.predict_at(inputs, fixed), output.low, output.high)

    sums = []
    for steps, chosen in zip(spec.steps, bins, strict=True):
        values = rows[steps.feature]
        if steps.ordered:
            points, present = np.asarray(chosen.points), steps.present(values)
            place = chosen.place(np.where(present, values, points[0]))
            low, high = (predictions({steps.feature: points[place + side]}) for side in (0, 1))
            sums.append(_add_up(place, np.where(present, limits.quantize(high - low) - zero, 0), chosen.size))
            continue
        last = len(steps.points) - 1
        own = predictions({}) if own is None else own
        both = np.zeros(chosen.size, dtype=np.int64)
        for step, away in ((0, 1), (-1, -1)):  # to the next category, to the one before
            there = values + away
            inside = (there >= 0) & (there <= last)
            other = predictions({steps.feature: np.clip(there, 0, last)})
            moved = limits.quantize(away * (other - own)) - zero
            both += _add_up((values + step)[inside], moved[inside], chosen.size)
        sums.append(both)
    return np.concatenate(sums)


def _add_up(place: NDArray[Any], values: NDArray[np.int64], size: int) -> NDArray[np.int64]:
    total = np.zeros(size, dtype=np.int64)
    np.add.at(total, place.astype(np.int64), values)
    return total


def counts(rows: Rows, spec: Spec) -> NDArray[np.int64]:
    """The exact counts of the cells of one batch, and of the cells of quantiles."""
    ladders = [quantiles.histogram(rows, ladder) for ladder in spec.ladders if ladder is not None]
    return np.concatenate([*(s.counts(rows[s.feature]) for s in spec.steps), *ladders])


def sensitivity(spec: Spec, neighbours: Neighbours) -> Sensitivity:
    """Of the sums: from the public request alone. It does not depend on the bins, so these may be chosen later."""
    half, touched = spec.levels // 2, sum(steps.touched for steps in spec.steps)
    return Sensitivity.of_norms(neighbours, l1=touched * half, l2_squared=touched * half**2, linf=half)


def resolve(
    request: AccumulatedEffects,
    domain: Domain,
    output: PublicRange,
    neighbours: Neighbours,
    cost: Cost,
) -> Spec:
    """The concrete spec of a request. Reads nothing but public things."""
    paper = request.method == "paper"
    steps = tuple(steps_of(feature, domain.column(feature)) for feature in request.features)
    ladders: tuple[Ladder | None, ...] = (None,) * len(steps)
    shares = (COUNT_SHARE, Fraction(0), 1 - COUNT_SHARE)
    if paper:
        number = PAPER_BINS if request.bins is None else request.bins
        probs = [i / number for i in range(1, number)]
        by_quantile = [isinstance(domain[s.feature], Numeric) and number > 1 for s in steps]
        ladders = tuple(
            quantiles.ladder_of(s.feature, domain, probs) if asked else None
            for s, asked in zip(steps, by_quantile, strict=True)
        )
        rug, between, effects = PAPER_SHARES["counts"], PAPER_SHARES["quantiles"], PAPER_SHARES["effects"]
        shares = (rug, between, effects) if any(by_quantile) else (rug + between, Fraction(0), effects)
    mechanism = Law.LAPLACE.value if paper and request.mechanism is None else request.mechanism
    bins = 1 if paper and request.bins == 1 else None if paper else request.bins
    draft = Spec(steps, ladders, output, output.width, bins, 0.0, 0.0, shares, mechanism)
    laws = forecast(draft, neighbours, cost)
    noise = laws["effects"].std * 2 / draft.levels  # at the whole range, in units of it
    share = 1.0 if request.clip is None else min(request.clip / output.width, 1.0)
    if share < LEAST_CLIP:
        raise InputError(
            f"clip={request.clip:g} is too small a part of the output range.",
            hint=f"use at least {LEAST_CLIP * output.width:g}",
        )
    found = replace(draft, clip=share * output.width, count_noise=laws["counts"].std, sum_noise=share * noise)
    _ = found.differences  # a range that is too wide or too narrow is refused here, before anything is paid
    return found


def forecast(spec: Spec, neighbours: Neighbours, cost: Cost) -> dict[str, Noise]:
    """The noise of counts and of effects at this price. Costs nothing, touches no data."""
    for_counts, for_levels, for_effects = spec.costs(cost)
    for ladder, share in zip(spec.ladders, _level_costs(spec, for_levels), strict=True):
        if ladder is not None:
            quantiles.check(ladder, neighbours, share)
    size = sum(USUAL_BINS if s.ordered else s.size for s in spec.steps)
    return {
        "counts": best(Sensitivity.of_counts(neighbours, len(spec.steps)), spec.cells, for_counts),
        "effects": best(sensitivity(spec, neighbours), size, for_effects, spec.mechanism),
    }


def _level_costs(spec: Spec, cost: Cost) -> list[Cost]:
    """An equal part of the price of quantiles for each feature that has them."""
    asked = sum(ladder is not None for ladder in spec.ladders)
    return [cost * Fraction(1, max(asked, 1)) for _ in spec.ladders]


def expected(
    spec: Spec, neighbours: Neighbours, cost: Cost, rows: int, marginals: Marginals | None = None
) -> list[Accumulation]:
    """The curves of a usual table, with exact counts: how far noise would move them.

    How many rows a cell has decides most of the error. It is known from marginals that were released before; without
    them numbers are taken as bell-shaped and categories as unequally frequent (the r-th has a share like r^-1.25, in an
    order that mixes rare and frequent ones). The effect is a third of the output range along a number, and a tenth of
    it up and down between categories. Chosen on the tables of `python -m bench honesty`.
    """
    noise = forecast(spec, neighbours, cost)
    counts = [np.rint(rows * _usual_shares(s, marginals)) for s in spec.steps]
    found = bins_of(spec.to_json(), np.concatenate(counts).astype(int).tolist(), rows)
    unit, curves = 2 * spec.clip / spec.levels, []
    for number, (bins, ladder) in enumerate(zip(found, spec.ladders, strict=True)):
        if bins is None:
            assert ladder is not None
            positions = [round(float(p) * ladder.size) for p in ladder.ends]
            bins = bins_of_quantiles(ladder, positions, float(rows))
        up_and_down = (-1.0) ** np.arange(bins.size) / np.sqrt(bins.size)
        steps = USUAL_EFFECT * bins.widths if bins.ordered else USUAL_STEPS * up_and_down
        sums = bins.rows * spec.output.width * steps
        shares = sharing(spec.steps, number, neighbours.rows_public)
        width, effects, rows_in_cells = spec.output.width, noise["effects"], noise["counts"]
        curves.append(Accumulation(bins, sums, unit, effects, rows_in_cells, spec.clip, width, *shares))
    return curves


def _usual_shares(steps: Steps, marginals: Marginals | None) -> NDArray[np.float64]:
    """The share of the rows in each cell: as marginals have it, else of a usual table."""
    cells = steps.cells
    if marginals is not None and steps.feature in marginals.features:
        known = marginals.rug(steps.feature).partition
        every = marginals.shares(steps.feature)
        there = every[:-1] / max(float(every[:-1].sum()), 1e-9) if known.missing else every
        below = np.concatenate([[0.0], np.cumsum(there)])
        if known.edges is None or cells.edges is None:
            return np.diff(below)
        return np.diff(np.interp(cells.edges, known.edges, below))
    if steps.ordered:
        x = (np.arange(cells.size) + 0.5) / cells.size
        shares = np.exp(-0.5 * ((x - 0.45) / 0.2) ** 2)
    else:
        order = np.argsort(np.arange(1, cells.size + 1) * 0.6180339887 % 1, kind="stable")
        shares = (1.0 + order) ** -1.25
    return np.asarray(shares / shares.sum(), dtype=np.float64)


def outlook(request: AccumulatedEffects, setting: Setting, cost: Cost) -> Outlook:
    """How far noise will move a usual point of the curves of a usual table; all at once: the worst point."""
    spec = resolve(request, setting.domain, setting.output, setting.neighbours, cost)
    noise = forecast(spec, setting.neighbours, cost)
    curves = expected(spec, setting.neighbours, cost, setting.rows, setting.marginals)
    each = np.concatenate([curve.std for curve in curves])
    std, span = float(np.sqrt(np.mean(each**2))), spec.output.width
    table = "a table with the frequencies of these marginals" if setting.marginals is not None else "a usual table"
    better = "" if setting.marginals is not None else "; marginals that were released before make it closer"
    return Outlook(
        law=noise["effects"].law.value,
        points=len(each),
        std=std,
        error=min(TWO_SIDED * std, span),
        band=min(-float(ndtri((1 - LEVEL) / (2 * len(each)))) * float(each.max()), span),
        rug_error=noise["counts"].halfwidth(LEVEL),
        note=f"For a usual point of {table}: rare values have larger errors{better}.",
    )


def diagram() -> DataFlow:
    """Where the rows go, and where noise is added."""
    stages = {
        "table": "private rows",
        "counts": "rows in each public cell",
        "bins": "edges and denominators from noisy counts",
        "effects": "sums of clipped differences between the edges of a row's bin",
        "curve": "division, accumulation, centring, shrinking",
        "plot": "curve with its rug",
    }
    edges = [
        ("table", "counts"),
        ("counts", "bins"),
        ("table", "effects"),
        ("bins", "effects"),
        ("effects", "curve"),
        ("bins", "curve"),
        ("curve", "plot"),
        ("counts", "plot"),
    ]
    return DataFlow(stages, edges, name="Accumulated effects", noised=["counts", "effects"])


def explain(table: PrivateTable, model: Model, request: AccumulatedEffects, *, cost: Cost) -> Curves:
    """Release the curves of `request` for `cost`, rugs included. Two passes: counts, then differences."""
    spec = resolve(request, table.domain, model.output, table.neighbours, cost)
    predictor = table.predictor(model)
    columns = list(dict.fromkeys([*predictor.features, *request.features]))

    def body(gate: Gate) -> None:
        for_counts, for_levels, for_effects = spec.costs(cost)
        size = spec.cells + sum(ladder.partition.size for ladder in spec.ladders if ladder is not None)
        label = request.label
        exact = table.map_sum(gate, partial(counts, spec=spec), request.features, size=size, label=label + ": counts")
        noisy = gate.noisy_counts("counts", exact[: spec.cells], for_counts, partitions=len(spec.steps))
        total = float(table.size) if table.size is not None else max(1.0, sum(noisy) / len(spec.steps))
        found, start = [], spec.cells
        level_costs = _level_costs(spec, for_levels)
        known = bins_of(spec.to_json(), noisy, table.size)
        for number, (bins, ladder, share) in enumerate(zip(known, spec.ladders, level_costs, strict=True)):
            if bins is None:
                assert ladder is not None
                mine, start = exact[start : start + ladder.partition.size], start + ladder.partition.size
                inner = quantiles.select_quantiles(gate, mine, ladder, share, LEVEL_PARTS.format(number))
                bins = bins_of_quantiles(ladder, [0, *inner, ladder.size], total)
            found.append(bins)
        kernel = partial(statistic, predictor=predictor, spec=spec, bins=found)
        size = sum(bins.size for bins in found)
        sums = table.map_sum(gate, kernel, columns, size=size, label=label, parallel=model.thread_safe)
        gate.noisy_sum("effects", sums, sensitivity(spec, gate.neighbours), for_effects, mechanism=spec.mechanism)

    public = ["the cells", "the clip", "the output range", "the model", table.domain.describe()]
    identity = {
        "explainer": "accumulated-effects",
        "table": table.identity,
        "model": model.identity,
        "spec": spec.to_json(),
        "public": [*public, *table.neighbours.public],
    }
    released = table.door.release(request.label, identity, cost, body)
    receipt = receipt_for(table.budget, table.neighbours, released, table.domain)
    smooth = request.smooth and request.method != "paper"
    return Curves([AccumulatedCurve(receipt, released.payload, i, smooth) for i in range(len(spec.steps))])


@of_wrapped
def accumulated_effects(
    table: PrivateTable,
    model: Model,
    feature: str | Sequence[str],
    *,
    epsilon: Any = None,
    rho: Any = None,
    **options: Any,
) -> Curve | Curves:
    """Differentially private accumulated local effects: a `Curve` for a name, `Curves` for a list of names.

    `epsilon` (or `rho`) is the whole price, rugs and all features included. Options: see
    `requests.AccumulatedEffects`.
    """
    request = AccumulatedEffects(feature=feature, **options)
    curves = explain(table, model, request, cost=table.cost(epsilon=epsilon, rho=rho))
    return curves[0] if request.single else curves
