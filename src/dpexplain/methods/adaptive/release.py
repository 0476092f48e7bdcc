"""A stream of local explanations that pays less and less: `AdaptiveExplainer`.

Guarantee    rho-zCDP for all answers together, at most the explainer's own total, for one unit replaced or added or
             removed. Public: the records that are asked about, the model, the weights, the declared domain, and the
             number of rows under replace-one without units. The records are not protected: their explanations tell
             about them.
Statistic    for a record z and the explanations p_j of earlier records: |gradient| of z's loss at each p_j; at the one
             that is chosen, the same length beta again; then the gradients of `descent`, from p_j on.
Sensitivity  D = `Descent.bound` for each gradient, and for the length of each: see `maths/surrogate/descent.py`. So
             scores change in a range of [-D, D], and beta by at most D.
Release      of one query: the average person for a twentieth of the cost. The rest, charged in steps: where the number
             of rows is private and not guessed, the count (one step); the choice among the candidates (one step, noisy
             maximum of -|gradient|); beta with noise (one step); then T' steps with noise sigma, both from the
             *released* beta. The worst case, T + 2 steps (T + 3), is reserved before rows are read; what the loop of
             gradients does not use is given back.
Departures   the paper takes T' and sigma from the exact beta, which is neither noised nor charged. Its exponential
             mechanism has no sensitivity in its exponent. Candidates are the computed explanations nearest to z, at
             most 32 (`candidates=None`: all of them, as in the paper). It stops when the budget *is* overdrawn; here a
             query that may not fit is not begun.
References   "Model Explanations with Differential Privacy", Algorithms 2, 3, 4 and section 4.4.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from fractions import Fraction
from functools import cached_property
from typing import TYPE_CHECKING, Any, Literal, cast

import numpy as np
from numpy.typing import NDArray

from dpexplain.core.budget import Budget, Cost
from dpexplain.core.canonical import JsonObject, digest
from dpexplain.core.mechanisms import best, selection
from dpexplain.core.noise import Noise
from dpexplain.core.release import Gate
from dpexplain.core.sensitivity import Neighbours
from dpexplain.data.table import PrivateTable
from dpexplain.design import DataFlow
from dpexplain.errors import BudgetError, InputError, ModelError
from dpexplain.maths.surrogate import Local, Space, StepWeight
from dpexplain.maths.surrogate.descent import Descent, Sums
from dpexplain.maths.surrogate.fit import REST, SHARE, Asked, Released
from dpexplain.methods.adaptive.request import AdaptiveExplanation
from dpexplain.methods.adaptive.spec import LABELS, Adaptive, History, economy, sensitivity
from dpexplain.methods.attributions import Attribution, released_parts
from dpexplain.methods.averages import GAUSSIAN, require_delta
from dpexplain.methods.local_explanation import descent
from dpexplain.methods.local_explanation import spec as local_spec
from dpexplain.methods.local_explanation.release import locate, path_outlook, placed, prediction_of
from dpexplain.methods.local_explanation.request import Anchor, NamedWeight
from dpexplain.methods.setting import Outlook, Setting
from dpexplain.models import Model, Predictor
from dpexplain.models.arguments import of_wrapped
from dpexplain.receipts import Receipt

if TYPE_CHECKING:
    import pandas as pd

Floats = NDArray[np.float64]
Integers = NDArray[np.int64]

NAME, HISTORY_NAME = "adaptive-explanation", "adaptive-history"
COMPUTED, REUSED, FROM_HISTORY = "computed", "reused", "from the history"
OVERHEAD = 2  # steps that the choice and beta may cost
MOST_POINTS = 1000  # of the history, nearest first


def resolve(request: AdaptiveExplanation, setting: Setting, cost: Cost) -> Adaptive:
    """The concrete spec of a first query. Reads nothing but public things."""
    require_delta(cost)
    request, budget = request.published, setting.budget or Budget(1, 1e-6)
    return spec_of(request, locate(request, request.anchor, setting), setting.hint, budget=budget, cost=cost)


def spec_of(
    request: AdaptiveExplanation,
    local: Local,
    rows: int | None,
    candidates: Sequence[Integers] = (),
    *,
    budget: Budget | None = None,
    cost: Cost | None = None,
) -> Adaptive:
    """All steps of the worst case cost the same, whether they are taken or not; with the noise of the paper, less than
    what was reserved for them; that noise depends on the cost. A path may begin at `candidates`.
    """
    fair = step = _fair(request.iterations, rows)
    if request.accounting == "paper" and budget is not None and cost is not None:
        step = descent.paper_step(request.iterations, budget, cost, fair)
    count = fair if rows is None else Fraction(0)
    path = Descent(local, request.iterations, request.radius, request.accounting, rows, step, count, SHARE)
    return Adaptive(path, request.enhanced, tuple(digest(point.tolist()) for point in candidates))


def _fair(iterations: int, rows: int | None) -> Fraction:
    """The part of the cost for the choice, for beta, for the count, and at most for each step."""
    return REST / (iterations + OVERHEAD + (1 if rows is None else 0))


def outlook(request: AdaptiveExplanation, setting: Setting, cost: Cost) -> Outlook:
    """The error of a first query's contributions by the noise of all its steps."""
    path = resolve(request, setting, cost).path
    return path_outlook(path, local_spec.forecast(path, setting.neighbours, cost)["gradient"], setting.rows)


def check(spec: Adaptive, neighbours: Neighbours, cost: Cost) -> None:
    """Refuse a cost at which noise would drown everything, before anything is reserved."""
    scores, length = sensitivity(spec, neighbours)
    each = cost * _fair(spec.path.iterations, spec.path.rows)
    local_spec.forecast(spec.path, neighbours, cost)
    selection(scores, max(1, len(spec.candidates)), each, 1)
    best(length, 1, each, GAUSSIAN)


def send(
    table: PrivateTable,
    gate: Gate,
    predictor: Predictor,
    spec: Adaptive,
    candidates: Sequence[Integers],
    cost: Cost,
    *,
    label: str = "adaptive explanation",
) -> None:
    """Everything inside the body of one query's release."""
    path = spec.path
    gram, count = descent.collect(table, gate, predictor, path.local, cost, label=label)
    sums, each, rows = Sums(gram, path.size), cost * path.step, descent.size(gate, path, count, cost)
    start, steps, share = path.start(), path.iterations, Fraction(1)
    if candidates:
        start, beta = choose(gate, spec, candidates, sums, cost * _fair(path.iterations, path.rows))
        scale = float(local_spec.forecast(path, gate.neighbours, cost)["gradient"].scale)
        steps, share = economy(spec, beta, scale, rows)
    descent.walk(gate, sums, path, each * share, steps, start, rows)


def choose(gate: Gate, spec: Adaptive, candidates: Sequence[Integers], sums: Sums, each: Cost) -> tuple[Integers, int]:
    """The candidate with about the shortest gradient, and about how long that gradient is. Two releases."""
    scores, length = sensitivity(spec, gate.neighbours)
    divisor, index = spec.path.divisor, 0
    if len(candidates) > 1:
        lengths = sums.lengths(np.stack(candidates), divisor)
        (index,) = gate.select("choice", [-long for long in lengths], scores, each)
    start = candidates[index]
    (beta,) = gate.noisy_sum("beta", sums.lengths(start[None], divisor), length, each, mechanism=GAUSSIAN)
    return start, beta


def diagram() -> DataFlow:
    """Where the rows go, and where noise is added."""
    stages = {
        "table": "private rows",
        "sums": "weighted products of coordinates and predictions",
        "count": "the number of rows, where it is private and not guessed",
        "average": "sums of coordinates and predictions",
        "choice": "the earlier explanation with the shortest gradient",
        "beta": "the length of that gradient",
        "gradient": "the gradient at each point of the path",
        "path": "steps in the ball; attributions; the history",
    }
    noised = ["count", "average", "choice", "beta", "gradient"]
    edges = [("table", name) for name in ("count", "average", "sums")]
    edges += [("sums", name) for name in ("choice", "beta", "gradient")]
    edges += [(name, "path") for name in noised]
    return DataFlow(stages, edges, name="Adaptive explanations", noised=noised)


def explain(table: PrivateTable, model: Model, request: AdaptiveExplanation, *, cost: Cost) -> Attribution:
    """Release the explanation of a first record for `cost`."""
    options: dict[str, Any] = {name: getattr(request, name) for name in type(request).model_fields}
    record = options.pop("record")
    return AdaptiveExplainer(table, model, **options | {"rho": cost.amount, "per_query": cost.amount}).explain(record)


@dataclass(frozen=True)
class Query:
    """One line of the record: what was asked, and where the answer came from.

    how       "computed" (paid for), "reused" (the explanation of a record nearby) or "from the history" (Algorithm 4)
    source    the number of the query whose explanation was reused, or at whose explanation the path began
    distance  to that query's record
    """

    number: int
    how: str
    attribution: Attribution
    cost: Cost
    source: int | None = None
    distance: float | None = None

    @property
    def iterations(self) -> int:
        """The steps that were paid for."""
        return sum(name.startswith("gradient-") for name in self._released.parts) if self.how == COMPUTED else 0

    @property
    def beta(self) -> float | None:
        """The released length of the mean gradient where the path began; None where it began in the middle."""
        if self.how != COMPUTED or self.source is None:
            return None
        path, (length, *_) = self._spec.path, self._released.parts["beta"]["values"]
        return float(length / (path.unit * path.rows_in(self._released)))

    @cached_property
    def centre(self) -> Floats:
        """The record's coordinates."""
        return self.attribution.space.locate(self.attribution.record)

    @property
    def point(self) -> Integers:
        """Where the path ended."""
        return self._end[0]

    @property
    def loss_bound(self) -> float | None:
        """How far above its minimum the mean loss can be expected to end, at most (Theorems 3.2 and 4.5), by the steps
        and the noise of this query; None where nothing was computed.
        """
        if self.how != COMPUTED or not self.iterations:
            return None
        path, parts = self._spec.path, self._released.parts
        scale = float(Noise.from_json(parts["gradient-1"]["noise"]).scale)
        return path.loss_bound(scale / (path.unit * path.rows_in(self._released)), self.iterations)

    @property
    def deviation(self) -> float:
        """The standard deviation of the coefficients in any direction, in units of the output."""
        return self._end[1] * self._spec.path.local.unit

    @cached_property
    def _end(self) -> tuple[Integers, float]:
        return self._spec.replay(self._released, self.attribution.settings.start)

    @property
    def _spec(self) -> Adaptive:
        return cast("Adaptive", self.attribution.spec)

    @property
    def _released(self) -> Released:
        return released_parts(self.attribution)


class AdaptiveExplainer:
    """Explains record after record of one table and model for one total cost (Algorithms 2, 3 and 4 of the paper).

    epsilon, rho    the total, exactly one of them; a limit besides that of the table's account, which pays
    per_query       the most that one query may cost, in the same units as the total

    `AdaptiveExplanation` in `methods/adaptive/request.py` describes the other options. Features are the model's inputs.
    When what is left does not cover a query's worst case, answers come from the history, free and with a note. The same
    queries in the same order on the same table are replayed from the ledger. Its history belongs to one model: once
    that is fitted anew, it answers nothing more.
    """

    @of_wrapped
    def __init__(
        self,
        table: PrivateTable,
        model: Model,
        *,
        per_query: float,
        epsilon: float | None = None,
        rho: float | None = None,
        iterations: int = 300,
        enhanced: bool = False,
        weight: NamedWeight | Callable[[float], float] = "stable",
        width: float = 1.0,
        reuse_distance: float | None = None,
        anchor: Anchor = "prediction",
        radius: float = 1.0,
        candidates: int | None = 32,
        accounting: Literal["zcdp", "paper"] = "zcdp",
        method: Literal["default", "paper"] = "default",
    ) -> None:
        self.request = AdaptiveExplanation(
            record=None,
            iterations=iterations,
            enhanced=enhanced,
            weight=weight,
            width=width,
            reuse_distance=reuse_distance,
            anchor=anchor,
            radius=radius,
            candidates=candidates,
            accounting=accounting,
            method=method,
        )
        self.labels, self.request = "paper" if method == "paper" else "model", self.request.published
        self.total = table.cost(epsilon=epsilon, rho=rho)
        self.per_query = table.cost(epsilon=per_query) if rho is None else table.cost(rho=per_query)
        require_delta(self.total)
        if not self.per_query <= self.total:
            raise InputError("per_query is more than the total of this explainer.", hint="use a smaller per_query")
        self.table, self.model, self.reuse_distance = table, model, self.request.reach
        self.space = Space(table.domain, tuple(model.features(table.domain)))
        self.weight = StepWeight.of(weight, self.space.diameter, width=width)
        self._predictor = table.predictor(model)
        self._identity, self._answers = model.identity, self._predictor.answers
        self._spent = self.total * 0
        self._refused = False
        self._queries: list[Query] = []
        self._alone = threading.Lock()

    @property
    def history(self) -> tuple[Query, ...]:
        """The record: every query that was answered, in order."""
        return tuple(self._queries)

    @property
    def spent(self) -> Cost:
        """What the answers have cost, lost ones included."""
        return self._spent

    @property
    def left(self) -> Cost:
        """What is left of this explainer's total."""
        return self.total - self._spent

    @property
    def exhausted(self) -> bool:
        """Whether the next new record is answered from the history."""
        return self._refused or not self.per_query <= self.left

    def __repr__(self) -> str:
        state = "exhausted" if self.exhausted else f"{self.left} left"
        return f"AdaptiveExplainer({self.model.name!r} on {self.table.name!r}, {len(self._queries)} queries, {state})"

    def explain(self, record: Any) -> Attribution:
        """The attribution of one record: reused, computed, or from the history."""
        with self._alone:  # what is left is looked at and spent by one thread at a time
            self._predictor = self.table.predictor(self.model)
            local, prediction = self.look(record, self._predictor)
            query = self._reuse(local, prediction) or self._compute(local, prediction)
            query = query or self._recall(local, prediction)
            self._queries.append(query)
        return query.attribution

    def non_interactive(self, *, labels: Literal["model", "paper"] | None = None) -> HistoryExplainer:
        """An explainer that answers from the present history alone: free, and without the table.

        labels   "model" (ours) or "paper" (Algorithm 4 as printed): see `History` in `methods/adaptive/spec.py`; by
                 default what the explainer's method says
        """
        return HistoryExplainer(self, labels or self.labels)

    def to_frame(self) -> pd.DataFrame:
        """The record as a table."""
        import pandas as pd

        columns = ["number", "how", "source", "distance", "beta", "iterations"]
        lines = [[getattr(q, name) for name in columns] + [float(q.cost.amount)] for q in self._queries]
        return pd.DataFrame(lines, columns=[*columns, "rho"]).astype({"source": "Int64"})

    def look(self, record: Any, predictor: Predictor) -> tuple[Local, float]:
        """A record of the caller's as seen by this explainer, and the model's prediction for it. `predictor` is the
        model as it is now: another one than that of the history is refused.
        """
        output, anchor = self.model.output, self.request.anchor
        tolerance = predictor.precision * output.width
        same = np.allclose(predictor.answers, self._answers, rtol=0, atol=tolerance)
        if not same or self.model.identity != self._identity:
            raise ModelError(
                "the model was fitted anew since this explainer was made, and its history belongs to the old one.",
                hint="make a new AdaptiveExplainer",
            )
        point = self.space.read(record)
        prediction = prediction_of(point, self.space.features, predictor, output)
        value = prediction if anchor == "prediction" else placed(anchor, output)
        return Local(self.space, self.weight, output, point, value), prediction

    def _computed(self) -> list[Query]:
        return [query for query in self._queries if query.how == COMPUTED]

    def _reuse(self, local: Local, prediction: float) -> Query | None:
        """Algorithm 3, lines 6 to 9. Only what was computed is reused, or errors would add up (Flag)."""
        near = nearest(self._computed(), local, 1)
        if not near or near[0][0] > self.reuse_distance:
            return None
        distance, source = near[0]
        note = f"the explanation of query {source.number}, {distance:.3g} away; nothing was spent on this record"
        asked = Asked(dict(local.record), prediction, (note,), source.attribution.settings.start, local.passes)
        attribution = replace(source.attribution, settings=asked)
        return Query(len(self._queries) + 1, REUSED, attribution, self.total * 0, source.number, distance)

    def _compute(self, local: Local, prediction: float) -> Query | None:
        """Algorithm 3, lines 11 to 18; None when the budget does not allow the worst case."""
        cost, table, label = self.per_query, self.table, self.request.label
        if not cost <= self.left:
            return None
        near = nearest(self._computed(), local, self.request.candidates)
        starts = [query.point for _, query in near]
        spec = spec_of(self.request, local, table.rows_hint, starts, budget=table.budget, cost=cost)
        check(spec, table.neighbours, cost)

        def body(gate: Gate) -> None:
            send(table, gate, self._predictor, spec, starts, cost, label=label)

        self._spent = self._spent + cost  # the whole price counts until the ledger says what it came to
        try:
            receipt, payload = table.release(
                *(NAME, label, spec.to_json(), cost, body),
                public=["the records that are explained", "the model", "the weights"],
                outside=["the record that is explained"],
                model=self.model.identity,
            )
        except BudgetError:
            self._spent, self._refused = self._spent - cost, True
            return None
        self._spent, self._refused = self._spent - cost + receipt.charged, False
        asked, source, distance = Asked(dict(local.record), prediction), None, None
        if near:
            distance, first = near[spec.chosen(Released(payload["parts"]))]
            asked, source = replace(asked, start=tuple(first.point.tolist())), first.number
        attribution = Attribution(receipt, payload, asked)
        return Query(len(self._queries) + 1, COMPUTED, attribution, receipt.charged, source, distance)

    def _recall(self, local: Local, prediction: float) -> Query:
        """Algorithm 4."""
        if not self._computed():
            raise BudgetError(
                "the budget does not cover a single query of this explainer, and its history is empty.",
                hint=f"one query may cost {self.per_query}; use a smaller per_query",
            )
        attribution = self.non_interactive().answer(local, prediction, "the budget of this explainer is exhausted")
        return Query(len(self._queries) + 1, FROM_HISTORY, attribution, self.total * 0)


class HistoryExplainer:
    """Answers from earlier explanations alone (Algorithm 4): no table, no ledger, any number of records.

    The cost of an answer is the total of the explainer, which all explanations behind it share: which of them were
    computed depends on their answers. Such an answer is no release, so `dpx.verify` does not know it; verify the
    attributions of `AdaptiveExplainer.history` instead.
    """

    def __init__(self, explainer: AdaptiveExplainer, labels: str = "model") -> None:
        if labels not in LABELS:
            raise InputError(f"unknown labels {labels!r}.", hint=f"one of {', '.join(LABELS)}")
        known = [query for query in explainer.history if query.how != FROM_HISTORY]
        if not known:
            raise InputError("nothing was explained yet, so there is no history to answer from.")
        self._explainer, self._labels, self._known = explainer, labels, known
        self._receipt = self._summed([query.attribution.receipt for query in known if query.how == COMPUTED])

    def explain(self, record: Any) -> Attribution:
        """The attribution of one record, free."""
        model, table = self._explainer.model, self._explainer.table
        now = model.checked(table.domain, rows=table.rows_hint, exact=table.size is not None)
        return self.answer(*self._explainer.look(record, now))

    def answer(self, local: Local, prediction: float, *notes: str) -> Attribution:
        """The attribution of a record that `AdaptiveExplainer.look` has seen, with more notes."""
        near = [query for _, query in nearest(self._known, local, MOST_POINTS)]
        average = self._known[-1].attribution.fit.average
        asked = Asked(
            dict(local.record),
            prediction,
            (*notes, f"from {len(near)} earlier explanations, without new data and without new cost"),
            average=None if average is None else average.to_json(),
            anchor=local.passes,
            points=tuple(tuple(query.centre.tolist()) for query in near),
            slopes=tuple(tuple(query.attribution.fit.coefficients.tolist()) for query in near),
            values=tuple(query.attribution.prediction for query in near),
            deviations=tuple(query.deviation for query in near),
        )
        return Attribution(self._receipt, {"parts": {}}, asked)

    def _summed(self, receipts: list[Receipt]) -> Receipt:
        """One receipt for all of them."""
        last, own = receipts[-1], self._explainer
        spec = History(own.space, own.weight, own.model.output, own.request.radius, self._labels)
        request: JsonObject = {
            "cost": own.total.to_json(),
            "explainer": HISTORY_NAME,
            "spec": spec.to_json(),
            **{name: last.request[name] for name in ("table", "model", "public", "outside")},
            "entries": [receipt.entry.sequence for receipt in receipts],
        }
        counted = sum((receipt.charged for receipt in receipts), own.total * 0)
        entry = replace(last.entry, charged=counted)
        return replace(last, label="explanation from a history", request=request, entry=entry, replayed=False)


def nearest(queries: Sequence[Query], local: Local, most: int | None) -> list[tuple[float, Query]]:
    """Queries with their distances from a record, the nearest first; at most so many."""
    away = [float(np.linalg.norm(query.centre - local.centre)) for query in queries]
    return [(away[i], queries[i]) for i in np.argsort(away, kind="stable")[:most]]
