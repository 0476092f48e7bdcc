"""Differentially private accumulated local effects of one feature or of several.

Guarantee    the account's definition and cost, for one unit replaced or added or removed. Public: the cells, the clip,
             the output range, the model, the declared domain, and the number of rows under replace-one without units.
Statistic    counts of public cells; then, with bins made of the released counts, for every bin the sum over its rows of
             q(f(x with x_j := upper edge) - f(x with x_j := lower edge)), where q clips to [-C, C] and rounds to
             {-K/2..K/2}. Categories: every row adds its differences to both neighbouring categories, in their declared
             order; with method="paper" to the one before it alone (a row of the first category, to the next). A row
             whose value is missing, where missing values are kept, has no neighbours: it adds nothing.
Sensitivity  counts: `Sensitivity.of_counts`. Sums: a row adds to one bin of a feature (to two for our categories), so
             its vector has norms L1 t K/2, squared L2 t K^2/4, L-inf K/2 with t = 1 or 2, added up over features in L1
             and squared L2; `Sensitivity.of_norms`. docs/methods/accumulated-effects.md has the proof.
Release      counts first (or those of marginals that the account released before): they give the histogram, the bins
             and the denominators. Then the sums. Accumulating, centring by the released density, the posterior
             and intervals are post-processing.
References   Apley and Zhu 2020; "Differentially Private Global Explanations" (method="paper").
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import replace
from fractions import Fraction
from functools import partial
from typing import Literal

import numpy as np
from scipy.special import ndtri

from dpexplain.core.budget import Cost
from dpexplain.core.domain import Domain, Numeric
from dpexplain.core.mechanisms import best
from dpexplain.core.noise import Law, Noise
from dpexplain.core.release import Gate
from dpexplain.core.sensitivity import Neighbours
from dpexplain.data.table import PrivateTable
from dpexplain.design import DataFlow
from dpexplain.errors import InputError
from dpexplain.maths.accumulation import TWO_SIDED, Accumulation, SharpEffects
from dpexplain.maths.binning import Steps, steps_of
from dpexplain.maths.grids import WHOLE_NUMBERS
from dpexplain.maths.posterior import DOMAIN_WORTH, FEWEST_ROWS, Prior
from dpexplain.maths.tails import pooled_halfwidth
from dpexplain.maths.trees import Joint
from dpexplain.methods import histogram
from dpexplain.methods.accumulated_effects.request import AccumulatedEffects
from dpexplain.methods.accumulated_effects.result import AccumulatedCurve
from dpexplain.methods.accumulated_effects.spec import (
    LEVEL_PARTS,
    Floats,
    Spec,
    levels_at,
    prior,
    sensitivity,
    statistic,
)
from dpexplain.methods.curves import Curve, Curves
from dpexplain.methods.marginals.result import Marginals
from dpexplain.methods.quantiles import spec as quantiles
from dpexplain.methods.setting import LEVEL, Outlook, Setting
from dpexplain.methods.sharpening import DOMAIN, SEVERAL, Source, advice, known_stand_in, learn
from dpexplain.methods.stand_in.result import StandIn
from dpexplain.models import Model
from dpexplain.models.arguments import of_wrapped

COUNT_SHARE = Fraction(1, 5)  # of the price, for the counts; chosen on the tables of `python -m bench effects`
PAPER_SHARES = (Fraction(1, 9), Fraction(4, 9), Fraction(4, 9))  # counts, quantiles, effects
PAPER_SHARES_WITHOUT_QUANTILES = (Fraction(5, 9), Fraction(0), Fraction(4, 9))
PAPER_BINS = 20
FINE_BINS = 32  # of near-equal mass, beside a stand-in: fine enough for what its rows know, whatever the noise
LEAST_CLIP = 1e-3  # of the output range: below that, a model's own rounding errors would be explained
USUAL_BINS = 20  # of a feature, to know the noise before the bins are known
USUAL_EFFECT, USUAL_STEPS = 1 / 3, 0.1  # of the output range: along a number, up and down between categories


def resolve(request: AccumulatedEffects, setting: Setting, cost: Cost) -> Spec:
    """The concrete spec of a request. Reads nothing but public things."""
    domain, output, paper = setting.domain, setting.output, request.method == "paper"
    known, for_counts = setting.marginals, COUNT_SHARE if setting.marginals is None else Fraction(0)
    if known is not None and paper:
        raise InputError('method="paper" has no use for marginals.', hint="leave them out")
    steps = tuple(_steps(feature, domain, known) for feature in request.features)
    draft = Spec(
        steps, (None,) * len(steps), output, output.width, request.bins, 0.0, 0.0,
        (for_counts, Fraction(0), 1 - for_counts), request.mechanism, cut=True,
        marginals=None if known is None else known.receipt.entry.payload_hash,
    )  # fmt: skip
    if paper:
        number = PAPER_BINS if request.bins is None else request.bins
        probs = [i / number for i in range(1, number)]
        ladders = tuple(
            quantiles.ladder_of(name, domain, probs) if probs and isinstance(domain[name], Numeric) else None
            for name in request.features
        )
        shares = PAPER_SHARES if any(ladders) else PAPER_SHARES_WITHOUT_QUANTILES
        mechanism, bins = request.mechanism or Law.LAPLACE.value, None if probs else 1
        one_sided = tuple(replace(one, one_sided=not one.ordered) for one in steps)
        draft = replace(draft, steps=one_sided, ladders=ladders, bins=bins, shares=shares, mechanism=mechanism)
    laws = forecast(draft, setting.neighbours, cost, known)
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


def _steps(feature: str, domain: Domain, known: Marginals | None) -> Steps:
    """The steps of one feature: those of the histogram that is known, if there is one."""
    column = domain.column(feature)
    if known is None:
        return steps_of(feature, column)
    cells = known.histogram(feature).partition
    if isinstance(column, Numeric) and cells.size - cells.missing > WHOLE_NUMBERS:
        raise InputError(
            f"these marginals have more than {WHOLE_NUMBERS} cells of {feature!r}, too many for accumulated effects.",
            hint="release some with fewer: dpx.marginals(table, cells=64, epsilon=...)",
        )
    return steps_of(feature, column, cells)


def forecast(spec: Spec, neighbours: Neighbours, cost: Cost, marginals: Marginals | None = None) -> dict[str, Noise]:
    """The noise of counts (or that of earlier ones) and of effects at this cost. Costs nothing, touches no data."""
    for_counts, for_quantiles, for_effects = spec.costs(cost)
    for ladder in spec.by_quantile.values():
        quantiles.check(ladder, neighbours, for_quantiles)
    size = sum(USUAL_BINS if steps.ordered else steps.size for steps in spec.steps)
    known = None if marginals is None else marginals.part("counts")[1]
    return {
        "counts": known or histogram.forecast(spec.partitions, neighbours, for_counts),
        "effects": best(sensitivity(spec, neighbours), size, for_effects, spec.mechanism),
    }


def expected(spec: Spec, setting: Setting, noise: dict[str, Noise]) -> list[Accumulation]:
    """The curves of a usual table, with exact counts: how far noise would move them.

    How many rows a cell has decides most of the error. It is known from marginals that are handed over; without them
    numbers are taken as bell-shaped and categories as unequally frequent (the r-th has a share like r^-1.25, in an
    order that mixes rare and frequent ones). The effect is a third of the output range along a number, and a tenth of
    it up and down between categories. Chosen on the tables of `python -m bench honesty`.
    """
    cells = np.concatenate([np.rint(setting.rows * _usual_shares(s, setting.marginals)) for s in spec.steps])
    even = {place: [round(p * ladder.size) for p in ladder.ends] for place, ladder in spec.by_quantile.items()}
    curves, public = [], setting.neighbours.rows_public
    for place, bins in enumerate(spec.bins_of(cells.astype(int).tolist(), setting.rows, even)):
        up_and_down = (-1.0) ** np.arange(bins.size) / np.sqrt(bins.size)
        sums = bins.rows * spec.span * (USUAL_EFFECT * bins.widths if bins.ordered else USUAL_STEPS * up_and_down)
        curves.append(spec.curve(place, bins, sums, noise["effects"], noise["counts"], rows_public=public))
    return curves


def _usual_shares(steps: Steps, marginals: Marginals | None) -> Floats:
    """The share of the rows in each cell: as marginals have it, else that of a usual table."""
    cells = steps.cells
    if marginals is not None:
        there = marginals.shares(steps.feature)[: cells.size]  # a last one is that of missing values
        return there / max(float(there.sum()), 1e-9)
    if steps.ordered:
        x = (np.arange(cells.size) + 0.5) / cells.size
        shares = np.exp(-0.5 * ((x - 0.45) / 0.2) ** 2)
    else:
        order = np.argsort(np.arange(1, cells.size + 1) * 0.6180339887 % 1, kind="stable")
        shares = (1.0 + order) ** -1.25
    return np.asarray(shares / shares.sum(), dtype=np.float64)


def outlook(request: AccumulatedEffects, setting: Setting, cost: Cost) -> Outlook:
    """How far noise will move a usual point of the curves of a usual table; all at once: the worst point."""
    request, marginals = beside(request, setting.stand_in, setting.marginals)
    setting = replace(setting, marginals=marginals)
    spec = resolve(request, setting, cost)
    noise = forecast(spec, setting.neighbours, cost, setting.marginals)
    curves = expected(spec, setting, noise)
    each = np.concatenate([curve.std for curve in curves])
    std = float(np.sqrt(np.mean(each**2)))
    released = min(TWO_SIDED * std, spec.span)
    sharpened = _sharpened(spec, setting, curves) if request.smooth and request.method != "paper" else released
    table = "a table with the frequencies of these marginals" if setting.marginals is not None else "a usual table"
    better = "" if setting.marginals is not None else "; marginals that are handed over make it closer"
    return Outlook(
        law=noise["effects"].law.value,
        points=len(each),
        std=std,
        error=min(sharpened, released),
        interval=None if setting.worth is None else released,  # the proven one
        band=min(-float(ndtri((1 - LEVEL) / (2 * len(each)))) * float(each.max()), spec.span),
        rug_error=noise["counts"].halfwidth(LEVEL),
        note=f"For a usual point of {table}: rare values have larger errors{better}."
        + (advice("accumulated-effects", len(spec.steps)) if request.smooth else ""),
    )


def _sharpened(spec: Spec, setting: Setting, curves: Sequence[Accumulation]) -> float:
    """The error of sharpened points, by what the model says about rows drawn evenly from the domain; infinite where
    none are sharpened.
    """
    model, worth = setting.model, setting.worth
    if model is None or worth is None or (setting.stand_in is None and len(curves) < SEVERAL):
        return math.inf
    if (key := ("levels", spec.steps)) not in setting.tried:
        even = Source(Joint.even(setting.domain, model.features(setting.domain)), DOMAIN_WORTH, {"from": DOMAIN})
        predictor = model.checked(setting.domain).resized(FEWEST_ROWS)
        inputs = predictor.inputs(even.draw(FEWEST_ROWS))
        setting.tried[key] = [levels_at(predictor, inputs, spec, steps, steps.points) for steps in spec.steps]
    moved = [
        spec.moved(levels[np.searchsorted(steps.points, curve.bins.points)] if steps.ordered else levels)
        for steps, levels, curve in zip(spec.steps, setting.tried[key], curves, strict=True)
    ]
    known = Prior.of_answers(np.concatenate(moved), DOMAIN_WORTH)
    sharp = SharpEffects(curves, known, [curve.bins.weights for curve in curves])
    return pooled_halfwidth(sharp.expected_stds(worth), LEVEL)


def diagram() -> DataFlow:
    """Where the rows go, and where noise is added."""
    stages = {
        "table": "private rows",
        "counts": "rows in each public cell",
        "bins": "edges and denominators from noisy counts",
        "effects": "sums of clipped differences between the edges of a row's bin",
        "curve": "division, the posterior by public synthetic rows, accumulation, centring",
        "plot": "curve with its row counts",
    }
    edges = [
        ("table", "counts"), ("counts", "bins"), ("table", "effects"), ("bins", "effects"),
        ("effects", "curve"), ("bins", "curve"), ("curve", "plot"), ("counts", "plot"),
    ]  # fmt: skip
    return DataFlow(stages, edges, name="Accumulated effects", noised=["counts", "effects"])


def beside(
    request: AccumulatedEffects, stand_in: StandIn | None, marginals: Marginals | None
) -> tuple[AccumulatedEffects, Marginals | None]:
    """The request as it is beside a stand-in: with its counts, and finer bins."""
    if stand_in is None or request.method == "paper" or stand_in.marginals is None:
        return request, marginals
    finer = request if request.bins is not None else request.but(bins=FINE_BINS)
    return finer, stand_in.marginals if marginals is None else marginals


def explain(
    table: PrivateTable,
    model: Model,
    request: AccumulatedEffects,
    *,
    cost: Cost,
    marginals: Marginals | None = None,
    stand_in: StandIn | None = None,
) -> Curves:
    """Release the curves of `request` for `cost`, histograms included. Two passes: counts, then differences.

    With marginals the first pass was made before: their counts give the bins, and the whole cost is for differences.
    By a stand-in values are sharpened, and effects are taken between finer bins; by the histograms, where there are
    several features.
    """
    if stand_in is not None:
        known_stand_in(table, stand_in, [*model.features(table.domain), *request.features])
        request, marginals = beside(request, stand_in, marginals)
    if marginals is not None:
        histogram.known_marginals(table, marginals, request.features)
    spec = resolve(request, Setting.of(table, model, marginals=marginals), cost)
    predictor, label = table.predictor(model), request.label
    columns = list(dict.fromkeys([*predictor.features, *request.features]))

    def count(gate: Gate) -> tuple[list[int], dict[int, list[int]]]:
        """The first pass: released counts, and by its place the released quantiles of a feature."""
        for_counts, for_quantiles, _ = spec.costs(cost)
        cells = [*spec.partitions, *(ladder.partition for ladder in spec.by_quantile.values())]
        kernel, size = partial(histogram.statistic, partitions=cells), histogram.size_of(cells)
        exact = table.sum_rows(gate, kernel, request.features, size=size, label=label + ": counts")
        noisy = gate.noisy_counts("counts", exact[: spec.cells], for_counts, partitions=len(spec.steps))
        positions, start = dict[int, list[int]](), spec.cells
        for place, ladder in spec.by_quantile.items():
            mine, start = exact[start : start + ladder.partition.size], start + ladder.partition.size
            prefix = LEVEL_PARTS.format(place)
            positions[place] = quantiles.select_quantiles(gate, mine, ladder, for_quantiles, prefix)
        return noisy, positions

    def body(gate: Gate) -> None:
        for_effects = spec.costs(cost)[2]
        counts, positions = (spec.known_counts(marginals).tolist(), None) if marginals else count(gate)
        bins = spec.bins_of(counts, table.size, positions)
        kernel = partial(statistic, predictor=predictor, spec=spec, bins=bins)
        size = sum(one.size for one in bins)
        sums = table.sum_rows(gate, kernel, columns, size=size, label=label, parallel=model.thread_safe)
        gate.noisy_sum("effects", sums, sensitivity(spec, gate.neighbours), for_effects, mechanism=spec.mechanism)

    public = ["the cells", "the clip", "the output range", "the model"]
    receipt, payload = table.release(
        *("accumulated-effects", label, spec.to_json(), cost, body),
        public=public,
        model=model.identity,
        **histogram.builds_on(marginals),
    )
    smooth = request.smooth and request.method != "paper"
    curves = [AccumulatedCurve(receipt, payload, i, smooth, marginals) for i in range(len(spec.steps))]
    if smooth and (stand_in is not None or len(curves) >= SEVERAL):
        source = curves[0].synthetic_source(columns, stand_in)
        known = learn(table, model, receipt, source, partial(prior, spec=spec, bins=curves[0].all_bins))
        curves = [replace(curve, sharpening=known) for curve in curves]
    return Curves(curves)


@of_wrapped
def accumulated_effects(
    table: PrivateTable,
    model: Model,
    feature: str | Sequence[str],
    *,
    epsilon: float | None = None,
    rho: float | None = None,
    marginals: Marginals | None = None,
    stand_in: StandIn | None = None,
    bins: int | None = None,
    clip: float | None = None,
    method: Literal["default", "paper"] = "default",
    smooth: bool = True,
    mechanism: Literal["cube", "discrete-laplace", "discrete-gaussian"] | None = None,
) -> Curve | Curves:
    """Differentially private accumulated local effects: a `Curve` for a name, `Curves` for a list of names.

    `epsilon` (or `rho`) is the whole cost, histograms and all features included. `marginals` that this table's account
    has released before take the place of the histograms: the effects then get the whole cost. A `stand_in` that was
    released before makes the values better, for free.
    `requests.AccumulatedEffects` describes the options.
    """
    request = AccumulatedEffects(
        feature=feature, bins=bins, clip=clip, method=method, smooth=smooth, mechanism=mechanism
    )
    cost = table.cost(epsilon=epsilon, rho=rho)
    curves = explain(table, model, request, cost=cost, marginals=marginals, stand_in=stand_in)
    return curves[0] if request.single else curves
