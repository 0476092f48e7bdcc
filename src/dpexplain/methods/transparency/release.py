"""Differentially private transparency reports: what made the model decide as it did about a person, and what did not.

Guarantee    the account's definition and price, for one unit replaced or added or removed; any number of persons can be
             reported on for one price. Public: the model, its output range, the cells, the declared domain, and the
             number of rows under replace-one without units. The persons' own records are the caller's: not protected.
Statistic    for each cell of each feature the number of rows ("counts"), and the sum of their quantised outcomes in
             {0..K} less K/2 ("outcomes"). A class has the outcomes 0 and K.
Sensitivity  counts: `Sensitivity.of_counts`. Outcomes: a row adds a number in {-K/2..K/2} to one cell of each of p
             features: norms p K/2, sqrt(p) K/2 and K/2, which `Sensitivity.of_norms` turns into bounds for each
             relation. All of them are attained (docs/methods/transparency.md).
Release      both parts with the laws of the smallest forecast error, the price split so that the number of rows with a
             positive outcome in a cell is forecast best. Influences, association measures, intervals and words are
             post-processing. With marginals that were released before, only the outcomes are paid for; without a
             price, the report has no associations, and is free.
References   Datta, Sen, Zick, "Algorithmic Transparency via Quantitative Input Influence" 2016, Table II and Fig. 4.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from fractions import Fraction
from functools import partial
from typing import Any

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from dpexplain.core.budget import Cost
from dpexplain.core.canonical import JsonObject
from dpexplain.core.domain import Domain, PublicRange
from dpexplain.core.mechanisms import best
from dpexplain.core.noise import Noise
from dpexplain.core.release import Gate, split
from dpexplain.core.sensitivity import Neighbours, Sensitivity
from dpexplain.data.public_random import PublicRandom
from dpexplain.data.rows import Rows
from dpexplain.data.table import PrivateTable
from dpexplain.design import DataFlow
from dpexplain.errors import InputError
from dpexplain.maths.grids import CELLS, Partition, cells_of
from dpexplain.methods.influence.forecast import known_rows
from dpexplain.methods.influence.persons import (
    Question,
    answers,
    check_question,
    checked_scores,
    missing_values,
    read_persons,
)
from dpexplain.methods.marginals.release import MarginalsRequest, builds_on, fine_cells, known_marginals
from dpexplain.methods.marginals.result import Marginals
from dpexplain.methods.setting import LEVEL, Outlook, Setting
from dpexplain.methods.transparency.result import TransparencyReport, TransparencyReports
from dpexplain.models import Model
from dpexplain.models.arguments import of_wrapped
from dpexplain.models.outcomes import Asker, Outcome
from dpexplain.receipts import Receipt, receipt_for

Integers = NDArray[np.int64]

NAME = "transparency-report"
SHARES = tuple(Fraction(tenths, 10) for tenths in range(2, 9))  # of the price that may go to the outcomes
QUANTITIES, AGGREGATES = ("individual", "actual"), ("shapley", "banzhaf", "unary")


@dataclass(frozen=True, kw_only=True)
class TransparencyRequest:
    """The request: everything about the reports that a caller decides, but the persons.

    features   the columns that are reported on (default: those the model uses). One that the model does not use has no
               influence, but may well be associated with the outcome
    quantity   "individual": what each value moved the outcome by; "actual": how often another one would change it
    aggregate  "shapley" as in the paper, "banzhaf", or "unary": each feature replaced by itself
    outcome    "class" or "score" (default: a class if the model has a label), with the `threshold` of a class
    cells      about how many for a column with many values (default: by forecast, from 24 on); narrow ones at its low
               end, where many tables have a spike
    samples    orders of features that Shapley values are drawn from (default: by the number of features)
    exact      whether all sets of features are asked about (default: where they are few)
    seed       of the public draws
    mechanism  "cube", "discrete-laplace" or "discrete-gaussian" instead of the one with the smallest forecast error
    """

    features: Sequence[str] | None = None
    quantity: str = "individual"
    aggregate: str = "shapley"
    outcome: str | None = None
    threshold: float | None = None
    cells: int | None = None
    samples: int | None = None
    exact: bool | None = None
    seed: int = 0
    mechanism: str | None = None

    def __post_init__(self) -> None:
        MarginalsRequest(features=self.features, cells=CELLS if self.cells is None else self.cells)
        if self.features is not None and len(set(self.features)) < len(self.features):
            raise InputError("a feature is named twice.")
        if self.quantity not in QUANTITIES:
            raise InputError(f"unknown quantity {self.quantity!r}.", hint=f"one of {', '.join(QUANTITIES)}")
        if self.aggregate not in AGGREGATES:
            raise InputError(f"unknown aggregate {self.aggregate!r}.", hint=f"one of {', '.join(AGGREGATES)}")
        if self.outcome not in (None, "class", "score"):
            raise InputError(f"unknown outcome {self.outcome!r}.", hint='use "class" or "score"')
        whole = isinstance(self.samples, int) and not isinstance(self.samples, bool)
        if self.samples is not None and not (whole and self.samples >= 1):
            raise InputError(f"samples must be a whole number of at least 1; got {self.samples!r}.")
        if self.exact not in (None, True, False):
            raise InputError(f"exact must be true or false; got {self.exact!r}.")
        PublicRandom(self.seed)

    @property
    def label(self) -> str:
        return "transparency report"  # what the ledger calls a release must follow from what was released


@dataclass(frozen=True)
class Spec:
    """What is released, made concrete: public and hashed into the ledger. It knows nothing of the persons."""

    partitions: tuple[Partition, ...]
    outcome: Outcome
    share: Fraction  # of the price that goes to the outcomes
    marginals: str | None  # the payload hash of the marginals that were released before
    mechanism: str | None

    @property
    def size(self) -> int:
        """How many cells there are."""
        return sum(p.size for p in self.partitions)

    def to_json(self) -> JsonObject:
        return {
            "partitions": [p.to_json() for p in self.partitions],
            "outcome": self.outcome.to_json(),
            "share": str(self.share),
            "marginals": self.marginals,
            "mechanism": self.mechanism,
        }


def statistic(rows: Rows, asker: Asker, spec: Spec) -> Integers:
    """Exact integers of one batch: the counts of all cells, then the centred outcomes of all cells."""
    inside = Rows(rows.domain, {name: rows[name] for name in asker.predictor.features}, rows.size)
    centred = asker.ask(asker.predictor.inputs(inside), {}) - spec.outcome.range.levels // 2
    places = [p.place(rows[p.feature]) for p in spec.partitions]
    counts = [np.bincount(at, minlength=p.size) for p, at in zip(spec.partitions, places, strict=True)]
    sums = []
    for p, at in zip(spec.partitions, places, strict=True):
        found = np.zeros(p.size, dtype=np.int64)
        np.add.at(found, at, centred)
        sums.append(found)
    return np.concatenate([*counts, *sums]).astype(np.int64)


def counts_sensitivity(spec: Spec, neighbours: Neighbours) -> Sensitivity:
    return Sensitivity.of_counts(neighbours, len(spec.partitions))


def outcomes_sensitivity(spec: Spec, neighbours: Neighbours) -> Sensitivity:
    """Of the centred outcomes: a row adds one number of at most K/2 to one cell of each feature."""
    p, half = len(spec.partitions), spec.outcome.range.levels // 2
    return Sensitivity.of_norms(neighbours, l1=p * half, l2_squared=p * half * half, linf=half)


def resolve(
    request: TransparencyRequest,
    domain: Domain,
    output: PublicRange,
    neighbours: Neighbours,
    rows: int | None,
    cost: Cost,
    *,
    label: Any = None,
    uses: Sequence[str] | None = None,
    marginals: Marginals | None = None,
) -> Spec:
    """The concrete spec of a request. Reads nothing but public things. `uses` are the model's columns."""
    features = features_of(request, domain, uses)
    outcome = outcome_of(request, output, label)
    if marginals is not None:
        partitions = tuple(marginals.rug(feature).partition for feature in features)
        return Spec(partitions, outcome, Fraction(1), marginals.receipt.entry.payload_hash, request.mechanism)
    cells = cells_of(features, domain, request.cells or CELLS)

    def positives(share: Fraction) -> float:
        """The variance of a cell's number of positive outcomes: centred outcomes and half of the count."""
        noise = forecast(Spec(cells, outcome, share, None, request.mechanism), neighbours, cost)
        return (noise["outcomes"].std / outcome.range.levels) ** 2 + noise["counts"].std ** 2 / 4

    spec = Spec(cells, outcome, min(SHARES, key=positives), None, request.mechanism)
    if request.cells is not None:
        return spec
    noise = forecast(spec, neighbours, cost)["counts"]
    return replace(spec, partitions=fine_cells(features, domain, noise, known_rows(rows)))


def features_of(request: TransparencyRequest, domain: Domain, uses: Sequence[str] | None) -> list[str]:
    features = list(domain if uses is None else uses) if request.features is None else list(request.features)
    for feature in features:
        domain.column(feature)
    return features


def outcome_of(request: TransparencyRequest, output: PublicRange, label: Any) -> Outcome:
    kind = request.outcome or ("score" if label is None else "class")
    return Outcome.of(output, kind, request.threshold)


def forecast(spec: Spec, neighbours: Neighbours, cost: Cost) -> dict[str, Noise]:
    """The noise of each part at this price. Costs nothing, touches no data."""
    outcomes, counts = split(cost, spec.share)
    parts = {"outcomes": best(outcomes_sensitivity(spec, neighbours), spec.size, outcomes, spec.mechanism)}
    if spec.marginals is None:
        parts["counts"] = best(counts_sensitivity(spec, neighbours), spec.size, counts, spec.mechanism)
    return parts


def outlook(request: TransparencyRequest, setting: Setting, cost: Cost) -> Outlook:
    """How far noise will move the share of positive outcomes among a tenth of the rows, all of one cell."""
    spec = resolve(
        request,
        setting.domain,
        setting.output,
        setting.neighbours,
        setting.hint,
        cost,
        label=setting.label,
        uses=setting.features,
    )
    parts, rows = forecast(spec, setting.neighbours, cost), setting.rows / 10
    outcomes, counts, K = parts["outcomes"], parts["counts"], spec.outcome.range.levels
    width = spec.outcome.range.width

    def reach(moved: float, counted: float) -> float:
        """A rate is one half and the centred outcome by rows; at the edge of its range the count moves it as much."""
        return width * float(np.hypot(moved / K, counted / 2)) / rows

    return Outlook(
        law=outcomes.law.value,
        points=len(spec.partitions),
        std=reach(outcomes.std, counts.std),
        error=reach(outcomes.halfwidth(LEVEL), counts.halfwidth(LEVEL)),
        band=reach(outcomes.band(LEVEL), counts.band(LEVEL)),
        rug_error=counts.halfwidth(LEVEL),
    )


def diagram() -> DataFlow:
    """Where the rows go, and where noise is added."""
    stages = {
        "table": "private rows",
        "counts": "rows in each public cell of each feature",
        "outcomes": "sum of the centred outcomes in each cell",
        "influences": "the model's answers for the person with other values, by the released shares",
        "associations": "who has the person's value, and how often their outcome is positive",
        "report": "sentences, bars, intervals",
    }
    edges = [
        ("table", "counts"),
        ("table", "outcomes"),
        ("counts", "influences"),
        ("counts", "associations"),
        ("outcomes", "associations"),
        ("influences", "report"),
        ("associations", "report"),
    ]
    return DataFlow(stages, edges, name="Transparency report", noised=["counts", "outcomes"])


def explain(
    table: PrivateTable,
    model: Model,
    row: Any,
    request: TransparencyRequest,
    *,
    cost: Cost | None,
    marginals: Marginals | None = None,
) -> TransparencyReports:
    """The reports on all persons in `row`, for `cost`; without a cost, from `marginals` alone."""
    features = features_of(request, table.domain, model.features(table.domain))
    question = Question(
        quantity=request.quantity,
        items=tuple((feature,) for feature in features),
        outcome=outcome_of(request, model.output, model.label),
        aggregate=request.aggregate,
        samples=request.samples,
        exact=request.exact,
        seed=request.seed,
    )
    predictor = table.predictor(model)
    check_question(question, predictor)
    needed = [*predictor.features, *features]
    persons = read_persons(row, table.domain, needed)
    checked_scores(predictor, persons)
    if marginals is not None:
        known_marginals(table, marginals, features)
    if cost is not None:
        receipt, payload = _released(table, model, request, cost, Asker(predictor, question.outcome), marginals)
    elif marginals is not None:
        receipt, payload = marginals.receipt, marginals.released
    else:
        raise InputError(
            "a report needs a price, or marginals that were released before.",
            hint="epsilon=0.5; or marginals=, which makes a report without associations free",
        )
    known = Marginals(receipt, payload) if marginals is None else marginals
    earlier = None if known.receipt is receipt else known
    views = answers(question, model, predictor, persons, known, missing_values(row, needed, table.domain))
    return TransparencyReports([TransparencyReport(receipt, payload, view, earlier) for view in views])


def _released(
    table: PrivateTable,
    model: Model,
    request: TransparencyRequest,
    cost: Cost,
    asker: Asker,
    marginals: Marginals | None,
) -> tuple[Receipt, JsonObject]:
    """Pay for the counts and the outcomes (or only for these); the same request again is answered from the ledger."""
    spec = resolve(
        request,
        table.domain,
        model.output,
        table.neighbours,
        table.rows_hint,
        cost,
        label=model.label,
        uses=asker.predictor.features,
        marginals=marginals,
    )
    forecast(spec, table.neighbours, cost)  # an unavailable mechanism is refused here, before anything is reserved
    columns = list(dict.fromkeys([*asker.predictor.features, *(p.feature for p in spec.partitions)]))

    def body(gate: Gate) -> None:
        kernel = partial(statistic, asker=asker, spec=spec)
        found = table.map_sum(
            gate, kernel, columns, size=2 * spec.size, label=request.label, parallel=model.thread_safe
        )
        outcomes, counts = split(cost, spec.share)
        if spec.marginals is None:
            bound = counts_sensitivity(spec, gate.neighbours)
            gate.noisy_sum("counts", found[: spec.size], bound, counts, mechanism=spec.mechanism)
        bound = outcomes_sensitivity(spec, gate.neighbours)
        gate.noisy_sum("outcomes", found[spec.size :], bound, outcomes, mechanism=spec.mechanism)

    identity = {
        "explainer": NAME,
        "table": table.identity,
        "model": model.identity,
        "spec": spec.to_json(),
        "public": ["the cells", "the output range", "the model", table.domain.describe(), *table.neighbours.public],
        "outside": ["the record of the person who is explained"],
        **builds_on(marginals),
    }
    released = table.door.release(request.label, identity, cost, body)
    return receipt_for(table.budget, table.neighbours, released, table.domain), released.payload


@of_wrapped
def transparency_report(
    table: PrivateTable,
    model: Model,
    row: Any,
    *,
    epsilon: Any = None,
    rho: Any = None,
    marginals: Marginals | None = None,
    **options: Any,
) -> TransparencyReport | TransparencyReports:
    """What made the model decide as it did about a person, differentially private for the rows of `table`.

    row        the person: a mapping, a pandas Series or a DataFrame of one line; or a DataFrame of several persons, for
               `TransparencyReports` of one price. Later persons are free: the same request is answered from the ledger
    marginals  released before: then only the associations are paid for; without a price there are none, and it is free

    The guarantee does not protect the persons' own records. Options: see `requests.TransparencyReport`.
    """
    request = TransparencyRequest(**options)
    free = epsilon is None and rho is None and marginals is not None
    cost = None if free else table.cost(epsilon=epsilon, rho=rho)
    reports = explain(table, model, row, request, cost=cost, marginals=marginals)
    several = isinstance(row, pd.DataFrame) and len(reports) > 1
    return reports if several else reports[0]
