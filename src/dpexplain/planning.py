"""What will it cost, how good will it be? Answered before anything is paid, from public things alone.

A forecast puts a pure account and a zCDP account side by side, because the choice is made once, when the account is
opened: pure epsilon is better for a few small releases, zCDP for many or for long vectors.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass
from fractions import Fraction
from typing import TYPE_CHECKING, Any

import numpy as np

from dpexplain.clusters import explain as clusters
from dpexplain.clusters import kmeans
from dpexplain.core.budget import Budget, Cost, exact
from dpexplain.core.canonical import JsonObject
from dpexplain.core.domain import Domain, PublicRange
from dpexplain.core.sensitivity import Neighbours, Relation, Unit
from dpexplain.errors import InputError
from dpexplain.explainers import (
    accumulated_effects,
    generic_plot,
    influence,
    interaction_ranking,
    local_explanation,
    local_sketch,
    marginals,
    partial_dependence,
    permutation_importance,
    quantiles,
    rank_aggregation,
    transparency,
)
from dpexplain.explainers.outlook import Outlook, Setting
from dpexplain.models import Model
from dpexplain.results import Marginals

if TYPE_CHECKING:
    import pandas as pd

Request = (
    partial_dependence.PartialDependence
    | accumulated_effects.AccumulatedEffects
    | marginals.MarginalsRequest
    | quantiles.QuantilesRequest
    | permutation_importance.PermutationImportance
    | generic_plot.GenericPlot
    | rank_aggregation.RankAggregation
    | interaction_ranking.InteractionRanking
    | local_explanation.LocalExplanation
    | local_sketch.LocalSketchRequest
    | influence.InfluenceRequest
    | transparency.TransparencyRequest
    | clusters.ClustersRequest
    | kmeans.KMeansRequest
)
# only Gaussian noise can answer these
NEEDS_DELTA = {local_explanation.LocalExplanation, local_sketch.LocalSketchRequest}
OUTLOOKS: dict[type, Callable[..., Outlook]] = {
    partial_dependence.PartialDependence: partial_dependence.outlook,
    accumulated_effects.AccumulatedEffects: accumulated_effects.outlook,
    marginals.MarginalsRequest: marginals.outlook,
    quantiles.QuantilesRequest: quantiles.outlook,
    permutation_importance.PermutationImportance: permutation_importance.outlook,
    generic_plot.GenericPlot: generic_plot.outlook,
    rank_aggregation.RankAggregation: rank_aggregation.outlook,
    interaction_ranking.InteractionRanking: interaction_ranking.outlook,
    local_explanation.LocalExplanation: local_explanation.outlook,
    local_sketch.LocalSketchRequest: local_sketch.outlook,
    influence.InfluenceRequest: influence.outlook,
    transparency.TransparencyRequest: transparency.outlook,
    clusters.ClustersRequest: clusters.outlook,
    kmeans.KMeansRequest: kmeans.outlook,
}


@dataclass(frozen=True)
class Option:
    """One way to pay: the price in one definition and the error it buys.

    error     to expect: 95 % of released values lie within this of the exact ones, in the result's units, before
              smoothing
    interval  half-width of the 95 % interval that will be printed; wider than the error where `wider` says why
    band      half-width of intervals that hold all values at once
    rug_error half-width of the 95 % interval of a rug count, in rows; None without a rug
    note      what a reader of the forecast has to know besides; empty as a rule
    """

    definition: str
    epsilon: float
    delta: float | None
    rho: float | None
    law: str
    points: int
    std: float
    error: float
    band: float
    rug_error: float | None
    interval: float
    note: str = ""
    wider: str = ""


@dataclass(frozen=True)
class Forecast:
    """The options for one request, the better one first in `best`."""

    label: str
    rows: int
    neighbours: Neighbours
    options: tuple[Option, ...]
    needs_delta: bool = False  # a pure account cannot pay for it

    @property
    def best(self) -> Option:
        return min(self.options, key=lambda option: (option.epsilon, option.error))

    def to_frame(self) -> pd.DataFrame:
        import pandas as pd

        return pd.DataFrame([asdict(option) for option in self.options])

    def to_json(self) -> JsonObject:
        return {
            "label": self.label,
            "rows": self.rows,
            "neighbours": self.neighbours.to_json(),
            "options": [asdict(option) for option in self.options],
            "needs_delta": self.needs_delta,
        }

    def __str__(self) -> str:
        from dpexplain.render.text import forecast_text

        return forecast_text(self)


def plan(
    request: Request,
    *,
    domain: Domain,
    n: int,
    relation: str | Relation,
    output: tuple[float, float] | PublicRange | None = None,
    unit: Unit | None = None,
    rows_hint: int | None = None,
    epsilon: Any = None,
    max_error: Any = None,
    delta: Any = 1e-6,
    label: Any = None,
    features: Sequence[str] | None = None,
    marginals: Marginals | None = None,
    model: Model | None = None,
) -> Forecast:
    """The error at a given epsilon, or the epsilon for a wanted error, for a table of about n rows.

    Touches no data and no ledger. Where the number of rows is private, `rows_hint` is the hint that the table has, by
    which grids, draws and forms are chosen; n is your own guess, by which the error is told. `max_error` is the error
    to expect of each value, before smoothing. `marginals` were released before, for explainers that draw from them.

    With the `model`, importance and local explanations are tried on made-up rows of the domain, which
    makes their expected errors sharper. Without it say its `output` range (0 to 1 by default), `label` and `features`.
    """
    if (epsilon is None) == (max_error is None):
        raise InputError("give exactly one of epsilon and max_error.", spent="")
    if type(request) not in OUTLOOKS:
        raise InputError(
            f"a plan is about a request; got an object of type {type(request).__name__}.",
            hint='dpx.plan(dpx.requests.PartialDependence(feature="age"), ...)',
            spent="",
        )
    if marginals is not None and not isinstance(marginals, Marginals):
        raise InputError("marginals must be a result of dpx.marginals, or the .marginals of another result.", spent="")
    if isinstance(n, bool) or not isinstance(n, int | np.integer) or n < 2:
        raise InputError(f"n must be a whole number of at least 2; got {n!r}.", spent="")
    if model is not None:
        if not isinstance(model, Model):
            raise InputError("model must be a dpx.Model.", hint="dpx.Model(estimator, output=(0, 1))", spent="")
        output = model.output if output is None else output
        label = model.label if label is None else label
        features = model.features(domain) if features is None else features
    span = output if isinstance(output, PublicRange) else PublicRange(*(output or (0.0, 1.0)))
    neighbours = Neighbours(Relation.parse(relation), unit)
    hint = int(n) if neighbours.rows_public else rows_hint
    setting = Setting(domain, span, neighbours, int(n), hint, label, features, marginals, model)
    options = []
    pure = [] if type(request) in NEEDS_DELTA else [Budget(1)]
    for budget in [*pure, Budget(1, delta)]:

        def at(price: Any, budget: Budget = budget) -> Option:
            return _option(request, setting, budget, budget.cost(epsilon=price))

        options.append(at(epsilon) if max_error is None else _cheapest(at, float(exact(max_error, "max_error"))))
    return Forecast(request.label, int(n), neighbours, tuple(options), type(request) in NEEDS_DELTA)


def _option(request: Request, setting: Setting, budget: Budget, cost: Cost) -> Option:
    """The forecast of one request at one price."""
    found: Outlook = OUTLOOKS[type(request)](request, setting, cost)
    told = asdict(found) | {"interval": found.error if found.interval is None else found.interval}
    return Option(
        definition=budget.definition.value,
        epsilon=budget.epsilon_of(cost),
        delta=None if budget.delta is None else float(budget.delta),
        rho=None if budget.delta is None else float(cost.amount),
        **told,
    )


def _cheapest(at: Callable[[Fraction], Option], wanted: float) -> Option:
    """An epsilon of three digits whose error is at most `wanted`, as small as a coarse walk up finds it.

    The grid may grow with epsilon, or a release begin to buy histograms, so the error is not quite monotone: walk up,
    then refine the last step.
    """

    def good(price: Fraction) -> bool:
        try:
            return at(price).error <= wanted
        except InputError:  # at some prices a release is not possible at all
            return False

    digits = (100, 133, 178, 237, 316, 422, 562, 750)
    steps = [Fraction(digit, 100) * Fraction(10) ** power for power in range(-4, 4) for digit in digits]
    found = [(low, high) for low, high in itertools.pairwise(steps) if good(high)]
    if not found:
        raise InputError(
            f"an error of {wanted:g} needs an epsilon above {float(steps[-1]):g}.",
            hint="use more rows or a coarser grid",
            spent="",
        )
    low, high = found[0]
    while high / low > Fraction(1005, 1000):
        middle = _three_digits((low + high) / 2)
        if good(middle):
            high = middle
        else:
            low = middle
    return at(high)


def _three_digits(value: Fraction) -> Fraction:
    exponent = int(np.floor(np.log10(float(value)))) - 3
    step = Fraction(10) ** exponent
    return Fraction(-(-value // step)) * step
