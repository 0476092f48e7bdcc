"""Differentially private influence of inputs on the outcomes of a table: quantitative input influence (QII).

Guarantee    the account's definition and cost, for one unit replaced (its number of rows public) or added or removed,
             marginals included. Public: the model, the outcome, the group, the cells, the declared domain, and the
             number of rows under replace-one without units. Nothing is promised about the model's training data.
Statistic    o(S) is a row's outcome with the inputs S replaced by values of released histograms: all of them by their
             weights, or secret draws of the row's own. A row adds its influences: o() - o(S) for each set S (summed
             apart, subtracted after the noise: half the range), or Shapley or Banzhaf values. "average" takes
             |o() - o(S)| over everybody; "group" adds up the rows of a group, "disparity" also those of all others, in
             a block of its own, and the outcomes of both as they are. Private counts stand beside the sums.
Sensitivity  a row adds one vector to one block. With N its norm (`row_norms`), w the weight of a count and k rows of a
             unit: k (N + w) under add-remove; under replace-one the largest of staying 2 k N, leaving k (N + w), and
             crossing over 2 k (N + w). docs/methods/influence.md has the proof.
Release      a share of the cost for the histograms ("counts"), the rest for the sums ("influences"). Division,
             intervals and words are post-processing. With marginals that were released before, all is for the sums;
             with a performance by the same group, none of it for outcomes as they are and counts (`shared.py`).
             Draws are as many as keep the Monte Carlo error below half of the noise, rows that are used as many as
             33 million predictions allow, or the caller: `forecast.py` chooses, before any row is touched. What chance
             adds is in the intervals, and where it is more than the noise, the result says so.
References   Datta, Sen, Zick 2016 (method="paper": values from other rows by public pairings, each row being
             explained once and a donor once, so that the bound doubles; Laplace noise. It needs all rows at once, in
             the memory of this machine).
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import replace
from fractions import Fraction
from functools import partial
from typing import Any, Literal

import numpy as np
from scipy.special import ndtri

from dpexplain.core.budget import Cost
from dpexplain.core.release import Gate, split
from dpexplain.data.donors import by_pairing
from dpexplain.data.table import PrivateTable
from dpexplain.design import DataFlow
from dpexplain.engines import summed
from dpexplain.errors import InputError
from dpexplain.maths.posterior import FEWEST_ROWS, Prior, rows_for
from dpexplain.maths.tails import Term, combined_halfwidth
from dpexplain.methods import histogram as histograms
from dpexplain.methods.influence import persons
from dpexplain.methods.influence.forecast import GROUP_PARTS, chance, expected_chance, forecast, resolve, sampling_error
from dpexplain.methods.influence.request import MARGINALS_SHARE, Item
from dpexplain.methods.influence.request import PERSON as PERSON
from dpexplain.methods.influence.request import InfluenceRequest as InfluenceRequest
from dpexplain.methods.influence.result import Influence, TableInfluence
from dpexplain.methods.influence.shared import OTHERWISE, checked_performance, of_spec, require_use
from dpexplain.methods.influence.sharp import by_default, forecast_prior, leaning_error, members, suits
from dpexplain.methods.influence.spec import Integers, Spec, drawn_statistic, paired_statistic, sensitivity
from dpexplain.methods.marginals.result import Marginals
from dpexplain.methods.performance.result import Performance
from dpexplain.methods.setting import LEVEL, Outlook, Setting
from dpexplain.methods.sharpening import expected_gain, known_stand_in, learn
from dpexplain.methods.stand_in.result import StandIn
from dpexplain.models import Model, predictor_of
from dpexplain.models.arguments import of_wrapped
from dpexplain.models.classes import checked_classes
from dpexplain.models.outcomes import Asker

WITHOUT = "leave the stand-in out"


def outlook(request: InfluenceRequest, setting: Setting, cost: Cost) -> Outlook:
    """How far noise and chance will move the influences in a table of about this many rows; of a group, if it has half
    of them, and of a disparity, if one group has a third.

    What a noisy number of rows adds is a share of the influence itself and left out, but for a centred average, where
    it is as large as the noise of a sum; so is the error of orders that all rows share (`samples`), which depends on
    the model. The printed intervals have room for the most that chance can add; where that is much more, the note says.
    """
    if setting.performance is not None:
        return _beside_performance(request, setting, cost)
    if request.quantity in PERSON:
        return persons.outlook(request, setting, cost)
    spec = resolve(request, setting, cost)
    parts = forecast(spec, setting.neighbours, cost)
    noise, x = parts["influences"], spec.base_weight
    each = [1.0, *([1 / x] if x else []), *([spec.lift / spec.count_weight] if spec.lift else [])]
    coefficients = [c / part for part in GROUP_PARTS[spec.quantity] for c in each]
    unit = spec.step / setting.rows * spec.one_in
    drawn, most = (told(spec, setting.rows) * spec.step / unit for told in (expected_chance, chance))
    both = (1 + LEVEL) / 2 if most else LEVEL
    error, interval = (combined_halfwidth([(noise, coefficients)], g, LEVEL) * unit for g in (drawn, most))
    std = math.hypot(math.hypot(*coefficients) * noise.std, drawn) * unit
    return Outlook(
        law=noise.law.value,
        points=len(spec.items),
        std=std,
        error=min(_expected(spec, setting, std, error) if request.smooth else error, error),
        interval=None if setting.worth is None else error,  # the proven one
        band=(sum(coefficients) * noise.band(both) - most * ndtri((1 - both) / (2 * len(spec.items)))) * unit,
        rug_error=parts["counts"].halfwidth(LEVEL) if "counts" in parts else None,
        note=_wide(interval, error),
    )


def _expected(spec: Spec, setting: Setting, std: float, error: float) -> float:
    """The error after sharpening, by what the model says about rows drawn evenly from the domain. Values of a disparity
    keep to synthetic rows, which are taken to be worth the rows of the table there, and to zero
    (`SharpInfluences.values`).
    """
    model, worth = setting.model, setting.worth
    suited = by_default(spec) if setting.stand_in is None else suits(spec)
    if model is None or worth is None or not suited:
        return error
    # what the model is asked about does not depend on the price, but for these weights
    key = "influences", spec.quantity, spec.items, spec.group, spec.base_weight, spec.outcome_weight
    if key not in setting.tried:
        asked = checked_classes(model, setting.domain) if model.every_class else model.checked(setting.domain)
        setting.tried[key] = forecast_prior(asked.resized(FEWEST_ROWS), setting.domain, spec)
    known: Prior | None = setting.tried[key]
    width = spec.outcome.range.width
    if known is None:
        return error
    if spec.blocks == 2:
        return width * leaning_error(known, std / width, max(setting.rows, FEWEST_ROWS), LEVEL)
    return error * expected_gain(known, std / width, worth, 2.0)


def _wide(interval: float, error: float) -> str:
    wide = f"Intervals will reach up to ±{interval:.2g}: they have room for the most that chance in the draws can add."
    return wide if interval > 1.25 * error else ""


def _beside_performance(request: InfluenceRequest, setting: Setting, cost: Cost) -> Outlook:
    """The same for influences close to zero whose rates and counts are those of a performance: what these add has its
    noise, which is known. The note says when the error would be smaller without it.
    """
    known = setting.performance
    require_use(known, request)
    assert known is not None
    if known.domain != setting.domain:
        raise InputError("this performance was released with another declared domain.", hint=OTHERWISE, spent="")
    spec = resolve(request, setting, cost)
    rates, parts = of_spec(known, spec), forecast(spec, setting.neighbours, cost)
    assert rates is not None
    noise, shares, half = parts["influences"], GROUP_PARTS["disparity"], spec.K / 2
    sums: list[Term] = [(noise, [1 / part for part in shares])]
    cells = rates.terms(*((half / part, half / part) for part in shares))
    unit = spec.step / setting.rows
    drawn, most = (told(spec, setting.rows) * spec.step / unit for told in (expected_chance, chance))
    error, interval = (combined_halfwidth([*sums, *cells], g, LEVEL) * unit for g in (drawn, most))
    each = 1 - (1 - LEVEL) / (3 if most else 2)
    band = sum(1 / part for part in shares) * noise.band(each) + combined_halfwidth(cells, 0.0, each)
    band -= most * ndtri((1 - each) / (2 * len(spec.items)))
    std = math.hypot(drawn, *(law.std * float(np.linalg.norm(factors)) for law, factors in [*sums, *cells]))
    alone = outlook(request, replace(setting, performance=None), cost)
    dear = f"Without the performance the error would be smaller, ±{alone.error:.2g}: its noise is in all influences. "
    note = (dear if error > alone.error else "") + _wide(interval, error)
    return replace(alone, law=noise.law.value, std=std * unit, error=error, band=band * unit, note=note.strip())


def diagram() -> DataFlow:
    """Where the rows go, and where noise is added."""
    stages = {
        "table": "private rows",
        "counts": "rows in each public cell of each replaced feature",
        "draws": "other values for each row, by secret numbers",
        "influences": "sums of outcomes before and after, for each group, and its count where it is private",
        "means": "division, intervals, words; the histograms, to be used again",
    }
    edges = [("table", "counts"), ("counts", "draws"), ("draws", "influences"), ("table", "influences")]
    edges += [("counts", "means"), ("influences", "means")]
    return DataFlow(stages, edges, name="Influence", noised=["counts", "influences"])


def explain(
    table: PrivateTable,
    model: Model,
    request: InfluenceRequest,
    *,
    cost: Cost | None,
    marginals: Marginals | None = None,
    performance: Performance | None = None,
    stand_in: StandIn | None = None,
) -> Influence:
    """Release the influences of `request` for `cost`; for a person they are free with `marginals`."""
    if performance is not None:
        checked_performance(table, model, performance, request)
    if stand_in is not None:
        require_use_of_stand_in(request, performance)
    if request.quantity in PERSON:
        return persons.person_influence(table, model, request, cost=cost, marginals=marginals)
    if cost is None:
        raise InputError("influences over a table cost budget.", hint="epsilon=0.5, for example")
    if marginals is not None:
        histograms.known_marginals(table, marginals)
        if request.method == "paper":
            raise InputError('method="paper" has no use for marginals.', hint="leave them out")
    setting = replace(Setting.of(table, model, marginals=marginals), performance=performance)
    spec = resolve(request, setting, cost)
    of_spec(performance, spec)  # refuses a group or a threshold that the performance does not have
    if stand_in is not None:
        known_stand_in(table, stand_in, [*model.features(table.domain), *_columns(spec)])
    if spec.method == "paper":
        table.require_gathering("the published form of influence")
    asker = Asker(predictor_of(table, model), spec.outcome)
    columns = list(dict.fromkeys([*asker.predictor.features, *_columns(spec)]))
    how: dict[str, Any] = {"size": spec.size, "label": request.label, "parallel": model.thread_safe}
    if not (spec.single or spec.own):
        _ = spec.plan  # it may be large: made before anything is reserved

    def paired(gate: Gate) -> Integers:
        """Sums with values from other rows."""
        batches = by_pairing(table.gathered(gate, columns), spec.names, spec.draws, spec.seed)
        return summed(partial(paired_statistic, asker=asker, spec=spec), batches, total=table.size, **how)

    def drawn(gate: Gate, cost: Cost) -> Integers:
        """Sums with values from histograms that are released here, or were before."""
        known = (
            histograms.send_counts(table, gate, spec.partitions, cost, request.label)
            if marginals is None
            else histograms.references(spec.names, marginals, table.domain)
        )
        kernel = partial(drawn_statistic, asker=asker, spec=spec, known=known)
        return table.sum_rows(gate, kernel, columns, one_in=spec.one_in, secret=True, **how)

    def body(gate: Gate) -> None:
        counts_cost, sums_cost = split(cost, spec.marginals_share)
        sums = paired(gate) if spec.method == "paper" else drawn(gate, counts_cost)
        gate.noisy_sum("influences", sums, sensitivity(spec, gate.neighbours), sums_cost, mechanism=spec.mechanism)

    public = ["the model", "the output range", *(["the group's conditions"] if spec.group else [])]
    public += ["the cells"] if spec.partitions else []
    about = {"model": model.identity, **histograms.builds_on(marginals, performance)}
    receipt, payload = table.release("influence", request.label, spec.to_json(), cost, body, public=public, **about)
    result = TableInfluence(receipt, payload, known=marginals, performance=performance)
    if spec.samples is not None:
        used = result.marginals
        known = {} if used is None else histograms.references(spec.names, used, table.domain)
        result = replace(result, sampling=sampling_error(spec, asker, known))
    return _sharpened(table, model, result, stand_in) if request.smooth else result


def _columns(spec: Spec) -> list[str]:
    """The columns that are replaced, and those of the group."""
    return [*spec.names, *(spec.group.columns if spec.group else [])]


def _sharpened(table: PrivateTable, model: Model, result: TableInfluence, stand_in: StandIn | None) -> TableInfluence:
    """With the prior of its sums, where these have one and synthetic rows are in all groups."""
    if not (by_default(result.spec) if stand_in is None else suits(result.spec)) or not result.conclusive:
        return result
    source = result.synthetic_source(result.columns_for(model.features(table.domain)), stand_in)
    if members(source, rows_for(table.rows_hint), result.spec) is None:
        return result
    return replace(result, sharpening=learn(table, model, result.receipt, source, result._ask))


def require_use_of_stand_in(request: InfluenceRequest, performance: Performance | None) -> None:
    """Refuse a stand-in that would change nothing."""
    if request.quantity in PERSON:
        raise InputError("a stand-in makes influences over a table better, not those on a person.", hint=WITHOUT)
    if request.method == "paper" or not request.smooth:
        raise InputError("released values are shown as they are, so a stand-in has no use.", hint=WITHOUT)
    if performance is not None:
        raise InputError("with the rates of a performance a stand-in has no use.", hint="hand over one of them")


@of_wrapped
def influence(
    table: PrivateTable,
    model: Model,
    quantity: Literal["average", "group", "disparity", "individual", "actual"] = "average",
    features: Sequence[Item] | None = None,
    *,
    epsilon: float | None = None,
    rho: float | None = None,
    marginals: Marginals | None = None,
    performance: Performance | None = None,
    stand_in: StandIn | None = None,
    aggregate: Literal["unary", "shapley", "banzhaf"] = "unary",
    given: Sequence[str] = (),
    group: Any = None,
    outcome: Literal["class", "score"] | None = None,
    threshold: float | None = None,
    samples: int | None = None,
    most_predictions: int | None = None,
    exact: bool | None = None,
    method: Literal["default", "paper"] = "default",
    cells: int | None = None,
    marginals_share: float | Fraction = MARGINALS_SHARE,
    mechanism: Literal["cube", "discrete-laplace", "discrete-gaussian"] | None = None,
    seed: int = 0,
    smooth: bool = True,
    row: Any = None,
) -> Influence:
    """Differentially private influence of inputs on outcomes: of everybody, of a group, on the disparity between a
    group and all others; or, from released marginals, on one person.

    `epsilon` (or `rho`) is the whole cost, marginals included; with `marginals` that were released before, all of it
    goes to the influences, and those of a person are free. With a `performance` of this model by the same group and
    threshold, a disparity takes rates and sizes of both groups from it: they are the same numbers, and cost nothing
    more; `dpx.plan` says whether that makes the error smaller. A `stand_in` that was released before makes the values
    better, for free. `requests.Influence` describes the options.
    """
    request = InfluenceRequest(
        quantity=quantity, features=features, aggregate=aggregate, given=given, group=group, outcome=outcome,
        threshold=threshold, samples=samples, most_predictions=most_predictions, exact=exact, method=method,
        cells=cells, marginals_share=marginals_share, mechanism=mechanism, seed=seed, smooth=smooth,
        row=row,
    )  # fmt: skip
    free = quantity in PERSON and marginals is not None and epsilon is None and rho is None
    cost = None if free else table.cost(epsilon=epsilon, rho=rho)
    return explain(table, model, request, cost=cost, marginals=marginals, performance=performance, stand_in=stand_in)
