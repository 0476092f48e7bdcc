"""A stream of local explanations that pays less and less: `AdaptiveExplainer`.

Guarantee    rho-zCDP for all answers together, at most the explainer's own total, for one unit replaced or added or
             removed. Public: the records that are asked about, the model, the weights, the declared domain, and the
             number of rows under replace-one without units. The records are not protected: their explanations tell
             about them.
Statistic    for a record z and the explanations p_j of earlier records: |gradient| of z's loss at each p_j; at the one
             that is chosen, the same length beta again; then the gradients of `descent`, from p_j on.
Sensitivity  D = `Slope.bound` for each gradient, and for the length of each: see `maths/surrogate/descent.py`. So scores
             change in a range of [-D, D], and beta by at most D.
Release      of one query: the average person for a twentieth of the price. The rest, priced in steps: where the number
             of rows is private and not guessed, the count (one step); the choice among the candidates (one step, noisy
             maximum of -|gradient|); beta with noise (one step); then T' steps with noise sigma, both from the
             *released* beta. The worst case, T + 2 steps (T + 3), is reserved before rows are read; what the loop of
             gradients does not use is given back.
Departures   the paper takes T' and sigma from the exact beta, which is neither noised nor charged. Its exponential
             mechanism has no sensitivity in its exponent. Candidates are the computed explanations nearest to z, at
             most 32. It stops when the budget *is* overdrawn; here a query that may not fit is not begun.
References   "Model Explanations with Differential Privacy", Algorithms 2, 3, 4 and section 4.4.
"""

from __future__ import annotations

import math
import threading
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from fractions import Fraction
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from dpexplain.core.budget import Cost
from dpexplain.core.canonical import JsonObject, digest
from dpexplain.core.mechanisms import best, selection
from dpexplain.core.release import Gate, Released
from dpexplain.core.sensitivity import Neighbours, ScoreRange, Sensitivity
from dpexplain.data.table import PrivateTable
from dpexplain.design import DataFlow
from dpexplain.errors import BudgetError, InputError, ModelError
from dpexplain.maths.surrogate import Local, Space, StepWeight, Weight, history
from dpexplain.maths.surrogate import descent as paths
from dpexplain.maths.surrogate.average import REST, SHARE
from dpexplain.methods.attributions import READERS, Attribution
from dpexplain.methods.local_explanation import descent
from dpexplain.methods.local_explanation.descent import GAUSSIAN, Descent
from dpexplain.methods.local_explanation.release import LocalExplanation, anchor_of
from dpexplain.models import Model, Predictor
from dpexplain.models.arguments import of_wrapped
from dpexplain.receipts import Receipt, receipt_for

if TYPE_CHECKING:
    import pandas as pd

Floats = NDArray[np.float64]
Integers = NDArray[np.int64]

NAME, HISTORY_NAME = "adaptive-explanation", "adaptive-history"
LABEL = "adaptive explanation of one record"
COMPUTED, REUSED, FROM_HISTORY = "computed", "reused", "from the history"
CANDIDATES = 32
OVERHEAD = 2  # steps that the choice and beta may cost
LARGEST_SCALE = 2.0**45  # of the noise of a step
MOST_POINTS = 1000  # of the history, nearest first

READERS[NAME] = paths.read
READERS[HISTORY_NAME] = history.read


@dataclass(frozen=True)
class Adaptive:
    """One query made concrete, public and hashed into the ledger."""

    path: Descent
    enhanced: bool
    candidates: tuple[Integers, ...]  # where the path may begin

    def to_json(self) -> JsonObject:
        digests = [digest(point.tolist()) for point in self.candidates]
        return {**self.path.to_json(), "enhanced": self.enhanced, "candidates": digests}


def resolve(
    local: Local,
    rows: int | None,
    *,
    iterations: int,
    radius: float,
    enhanced: bool,
    candidates: Sequence[Integers] = (),
) -> Adaptive:
    """All steps of the worst case cost the same, whether they are taken or not."""
    step = REST / (iterations + OVERHEAD + (1 if rows is None else 0))
    path = Descent(local, iterations, radius, "zcdp", rows, step, step if rows is None else Fraction(0))
    return Adaptive(path, enhanced, tuple(candidates))


def sensitivity(spec: Adaptive, neighbours: Neighbours) -> tuple[ScoreRange, Sensitivity]:
    """Of the scores of the candidates, and of beta."""
    bound = spec.path.slope.bound(neighbours)
    return ScoreRange(neighbours, -bound, bound), Sensitivity.of_distance(neighbours, 1, bound)


def check(spec: Adaptive, neighbours: Neighbours, cost: Cost) -> None:
    """Refuse a price at which noise would drown everything, before anything is reserved."""
    scores, length = sensitivity(spec, neighbours)
    each = cost * spec.path.step
    descent.forecast(spec.path, neighbours, cost)
    selection(scores, max(1, len(spec.candidates)), each, 1)
    best(length, 1, each, GAUSSIAN)


def economy(spec: Adaptive, beta: int, scale: float, rows: int) -> tuple[int, Fraction]:
    """Algorithm 2, lines 8 to 14: how many steps, and the part of a full step's price that each of them costs.

    With sigma = max(beta / sqrt(n), sigma_min) and s = sqrt(n) sigma / c (enhanced: s = beta / c), the paper's a solves
    s = (log T)^-a, and for a > 1/2 it takes T' = s^(1 - 1/(2a)) T steps. Because s^(-1/(2a)) = sqrt(log T), that is
    T' = s sqrt(log T) T where it is below T. Noise of sigma instead of sigma_min costs (sigma_min / sigma)^2.
    """
    T, root, slope = spec.path.iterations, math.sqrt(spec.path.slope.size), spec.path.slope
    steepest = slope.steepest * slope.unit * rows
    found = min(max(float(beta), 0.0), steepest, root * LARGEST_SCALE)
    noise = max(found, root * scale)
    fraction = (found if spec.enhanced else noise) / steepest * math.sqrt(math.log(T))
    steps = T if fraction >= 1 else max(2, math.ceil(fraction * T))
    return steps, Fraction(math.ceil((root * scale / noise) ** 2 * 2**30), 2**30)


def send(
    table: PrivateTable, gate: Gate, predictor: Predictor, spec: Adaptive, cost: Cost, *, parallel: bool = True
) -> None:
    """Everything inside the body of one query's release."""
    path, slope = spec.path, spec.path.slope
    sums, count = descent.collect(table, gate, predictor, path.local, cost, label=LABEL, parallel=parallel)
    each, gradients = cost * path.step, descent.sensitivity(path, gate.neighbours)
    rows = descent.size(gate, path, count, cost)
    start, steps, share = slope.start(), path.iterations, Fraction(1)
    if spec.candidates:
        start, beta = choose(gate, spec, sums, each)
        scale = float(best(gradients, slope.size, each, GAUSSIAN).scale)
        steps, share = economy(spec, beta, scale, rows)
    loop = gate.query_loop("gradient", gate.left)
    descent.walk(loop, sums, path, gradients, each * share, steps, start, rows)


def choose(gate: Gate, spec: Adaptive, sums: paths.Sums, each: Cost) -> tuple[Integers, int]:
    """The candidate with about the shortest gradient, and about how long that gradient is. Two releases."""
    scores, length = sensitivity(spec, gate.neighbours)
    divisor, index = spec.path.slope.divisor, 0
    if len(spec.candidates) > 1:
        lengths = sums.lengths(np.stack(spec.candidates), divisor)
        (index,) = gate.select("choice", [-found for found in lengths], scores, each)
    start = spec.candidates[index]
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
    edges = [
        ("table", "count"),
        ("table", "average"),
        ("average", "path"),
        ("table", "sums"),
        ("sums", "choice"),
        ("sums", "beta"),
        ("sums", "gradient"),
        ("count", "path"),
        ("choice", "path"),
        ("beta", "path"),
        ("gradient", "path"),
    ]
    noised = ["count", "average", "choice", "beta", "gradient"]
    return DataFlow(stages, edges, name="Adaptive explanations", noised=noised)


@dataclass(frozen=True)
class Query:
    """One line of the record: what was asked, and where the answer came from.

    how       "computed" (paid for), "reused" (the explanation of a record nearby) or "from the history" (Algorithm 4)
    source    the number of the query whose explanation was reused, or at whose explanation the path began
    distance  to that query's record
    beta      the released length of the mean gradient there
    """

    number: int
    how: str
    attribution: Attribution
    cost: Cost
    iterations: int = 0
    source: int | None = None
    distance: float | None = None
    beta: float | None = None
    centre: Floats = field(default_factory=lambda: np.empty(0), repr=False, compare=False)
    point: Integers = field(default_factory=lambda: np.empty(0, dtype=np.int64), repr=False, compare=False)
    deviation: float = field(default=0.0, repr=False, compare=False)  # of the coefficients, in any direction
    prediction: float = field(default=0.0, repr=False, compare=False)


class AdaptiveExplainer:
    """Explains record after record of one table and model for one total price (Algorithms 2, 3 and 4 of the paper).

    epsilon, rho    the total, exactly one of them; a limit besides that of the table's account, which pays
    per_query       the most that one query may cost, in the same units as the total
    iterations      T: steps of a query without a history, and the most of any
    enhanced        fewer steps, without the paper's guarantee of accuracy (its section 4.4)
    weight, width   how much a row counts by its distance: "stable", "exponential", "gaussian" or a function
    reuse_distance  a record at most this far from a computed one gets the same explanation, free (default: log T /
                    sqrt T; 0: only the same record again)
    anchor          what the local model says at the record: the model's own "prediction", the "middle" of the output
                    range (the paper's loss, whose slopes have to make up for it), or a number
    radius          of the ball of coefficients

    Features are the model's inputs. When what is left does not cover a query's worst case, answers come from the
    history, free and with a note. The same queries in the same order on the same table are replayed from the ledger.
    Its history belongs to one model: once that is fitted anew, it answers nothing more.
    """

    @of_wrapped
    def __init__(
        self,
        table: PrivateTable,
        model: Model,
        *,
        per_query: Any,
        epsilon: Any = None,
        rho: Any = None,
        iterations: int = 300,
        enhanced: bool = False,
        weight: Weight = "stable",
        width: float = 1.0,
        reuse_distance: float | None = None,
        anchor: float | str = "prediction",
        radius: float = 1.0,
    ) -> None:
        descent.require_zcdp(table.budget)
        self.total = table.cost(epsilon=epsilon, rho=rho)
        self.per_query = table.cost(epsilon=per_query) if rho is None else table.cost(rho=per_query)
        if not self.per_query <= self.total:
            raise InputError("per_query is more than the total of this explainer.", hint="use a smaller per_query")
        self.iterations = descent.check_iterations(iterations)
        self.reuse_distance = _distance(reuse_distance, self.iterations)
        if not isinstance(enhanced, bool):
            raise InputError(f"enhanced must be true or false; got {enhanced!r}.")
        self.enhanced, self.radius, self.anchor = enhanced, descent.check_radius(radius), anchor
        self.table, self.model = table, model
        self.space = Space(table.domain, tuple(model.features(table.domain)))
        self.weight = StepWeight.of(weight, self.space.diameter, width=width)
        LocalExplanation(record=None, anchor=anchor)  # refuses an anchor of another kind
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

    def non_interactive(self, *, labels: str = "model") -> HistoryExplainer:
        """An explainer that answers from the present history alone: free, and without the table.

        labels   "model" (ours) or "paper" (Algorithm 4 as printed): see `maths/surrogate/history.py`
        """
        return HistoryExplainer(self, labels)

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
        output, domain = self.model.output, self.table.domain
        tolerance = predictor.precision * output.width
        same = np.allclose(predictor.answers, self._answers, rtol=0, atol=tolerance)
        if not same or self.model.identity != self._identity:
            raise ModelError(
                "the model was fitted anew since this explainer was made, and its history belongs to the old one.",
                hint="make a new AdaptiveExplainer",
            )
        checked = self.space.read(record)
        asked = LocalExplanation(record=checked, anchor=self.anchor)
        prediction = anchor_of(LocalExplanation(record=checked, anchor="prediction"), predictor, domain, output)
        anchor = anchor_of(asked, predictor, domain, output)
        return Local(self.space, self.weight, output, checked, anchor), prediction

    def _computed(self) -> list[Query]:
        return [query for query in self._queries if query.how == COMPUTED]

    def _reuse(self, local: Local, prediction: float) -> Query | None:
        """Algorithm 3, lines 6 to 9. Only what was computed is reused, or errors would add up (Flag)."""
        known = self._computed()
        away = [float(np.linalg.norm(query.centre - local.centre)) for query in known]
        if not away or min(away) > self.reuse_distance:
            return None
        distance, source = min(away), known[int(np.argmin(away))]
        note = f"the explanation of query {source.number}, {distance:.3g} away; nothing was spent on this record"
        settings = {
            **source.attribution.settings,
            "record": dict(local.record),
            "value": local.passes,
            "prediction": prediction,
            "notes": [note],
        }
        return replace(
            source,
            number=len(self._queries) + 1,
            how=REUSED,
            attribution=Attribution(source.attribution.receipt, source.attribution.released, settings),
            cost=self.total * 0,
            iterations=0,
            source=source.number,
            distance=distance,
            beta=None,
            centre=local.centre,
            prediction=prediction,
        )

    def _compute(self, local: Local, prediction: float) -> Query | None:
        """Algorithm 3, lines 11 to 18; None when the budget does not allow the worst case."""
        if not self.per_query <= self.left:
            return None
        near = sorted(self._computed(), key=lambda query: float(np.linalg.norm(query.centre - local.centre)))
        near = near[:CANDIDATES]
        spec = resolve(
            local,
            self.table.rows_hint,
            iterations=self.iterations,
            radius=self.radius,
            enhanced=self.enhanced,
            candidates=[query.point for query in near],
        )
        check(spec, self.table.neighbours, self.per_query)
        released = self._release(spec)
        if released is None:
            return None
        return self._entered(released, spec, near, local, prediction)

    def _release(self, spec: Adaptive) -> Released | None:
        """One query through the door. Its whole price counts until the ledger says what it came to."""
        table, cost = self.table, self.per_query

        def body(gate: Gate) -> None:
            send(table, gate, self._predictor, spec, cost, parallel=self.model.thread_safe)

        identity = {
            "explainer": NAME,
            "table": table.identity,
            "model": self.model.identity,
            "spec": {**spec.to_json(), "average": str(SHARE)},
            "public": self._public(),
            "outside": ["the record that is explained"],
        }
        self._spent = self._spent + cost
        try:
            released = table.door.release(LABEL, identity, cost, body)
        except BudgetError:
            self._spent, self._refused = self._spent - cost, True
            return None
        self._spent, self._refused = self._spent - cost + released.entry.charged, False
        return released

    def _entered(self, released: Released, spec: Adaptive, near: list[Query], local: Local, prediction: float) -> Query:
        """The query as the history keeps it."""
        parts = released.payload["parts"]
        settings: JsonObject = {"record": dict(local.record), "prediction": prediction}
        source = distance = beta = None
        if near:
            first = near[parts["choice"]["values"][0] if len(near) > 1 else 0]
            settings["start"] = first.point.tolist()
            source, distance = first.number, float(np.linalg.norm(first.centre - local.centre))
            rows = paths.rows_of(released.request["spec"], released.payload)
            beta = parts["beta"]["values"][0] / (spec.path.slope.unit * rows)
        point, deviation = paths.replay(released.request, released.payload, settings.get("start"))
        receipt = receipt_for(self.table.budget, self.table.neighbours, released, self.table.domain)
        return Query(
            number=len(self._queries) + 1,
            how=COMPUTED,
            attribution=Attribution(receipt, released.payload, settings),
            cost=released.entry.charged,
            iterations=sum(1 for name in parts if name.startswith("gradient-")),
            source=source,
            distance=distance,
            beta=beta,
            centre=local.centre,
            point=point,
            deviation=deviation * local.unit,
            prediction=prediction,
        )

    def _recall(self, local: Local, prediction: float) -> Query:
        """Algorithm 4."""
        if not self._computed():
            raise BudgetError(
                "the budget does not cover a single query of this explainer, and its history is empty.",
                hint=f"one query may cost {self.per_query}; use a smaller per_query",
            )
        attribution = self.non_interactive().answer(local, prediction, "the budget of this explainer is exhausted")
        return Query(len(self._queries) + 1, FROM_HISTORY, attribution, self.total * 0)

    def _public(self) -> list[str]:
        records = "the records that are explained"
        return [records, "the model", "the weights", self.table.domain.describe(), *self.table.neighbours.public]


class HistoryExplainer:
    """Answers from earlier explanations alone (Algorithm 4): no table, no ledger, any number of records.

    The price of an answer is the total of the explainer, which all explanations behind it share: which of them were
    computed depends on their answers. Such an answer is no release, so `dpx.verify` does not know it; verify the
    attributions of `AdaptiveExplainer.history` instead.
    """

    def __init__(self, explainer: AdaptiveExplainer, labels: str = "model") -> None:
        if labels not in history.LABELS:
            raise InputError(f"unknown labels {labels!r}.", hint=f"one of {', '.join(history.LABELS)}")
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
        """The same for a record that `AdaptiveExplainer.look` has seen, with more notes."""
        away = [float(np.linalg.norm(query.centre - local.centre)) for query in self._known]
        near = [self._known[i] for i in np.argsort(away, kind="stable")[:MOST_POINTS]]
        note = f"from {len(near)} earlier explanations, without new data and without new cost"
        average = self._known[-1].attribution.fit.average
        settings: JsonObject = {
            "record": dict(local.record),
            "prediction": prediction,
            "average": None if average is None else average.to_json(),
            "anchor": local.passes,
            "points": [query.centre.tolist() for query in near],
            "slopes": [query.attribution.fit.coefficients.tolist() for query in near],
            "values": [query.prediction for query in near],
            "deviations": [query.deviation for query in near],
            "notes": [*notes, note],
        }
        return Attribution(self._receipt, {"parts": {}}, settings)

    def _summed(self, receipts: list[Receipt]) -> Receipt:
        """One receipt for all of them."""
        last, explainer = receipts[-1], self._explainer
        counted = sum((receipt.charged for receipt in receipts), explainer.total * 0)
        request = {
            "cost": explainer.total.to_json(),
            "explainer": HISTORY_NAME,
            "table": last.request["table"],
            "model": last.request["model"],
            "spec": {
                "space": explainer.space.to_json(),
                "weight": explainer.weight.to_json(),
                "output": explainer.model.output.to_json(),
                "radius": explainer.radius,
                "labels": self._labels,
            },
            "public": last.request["public"],
            "outside": last.request["outside"],
            "entries": [receipt.entry.sequence for receipt in receipts],
        }
        return replace(
            last,
            label="explanation from a history",
            request=request,
            entry=replace(last.entry, charged=counted),
            replayed=False,
        )


def _distance(distance: Any, iterations: int) -> float:
    if distance is None:
        return math.log(iterations) / math.sqrt(iterations)
    if isinstance(distance, bool) or not isinstance(distance, int | float) or not 0 <= distance < math.inf:
        raise InputError(f"reuse_distance must be a number of at least 0; got {distance!r}.")
    return float(distance)
