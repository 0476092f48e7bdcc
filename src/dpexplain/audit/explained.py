"""Explanations of many records of a table, exact and at several costs, for the attack on explained records.

Records     some rows by a public seed. An attacker sees what an attribution shows without the record: its base and the
            contribution of each feature.
Exact       the moments of the whole table around each record, without noise: what a service without privacy would send.
Moments     the same with the noise of `local_explanation`; every record pays the cost for itself.
Sketch      one release for the cost, from which every record is explained.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from functools import partial
from typing import Any

import numpy as np
from numpy.typing import NDArray

from dpexplain.audit.capture import FreeAccount
from dpexplain.audit.project_report import Explained
from dpexplain.audit.reconstruction import reconstruction
from dpexplain.audit.subject import Subject, record_of
from dpexplain.core.budget import Cost
from dpexplain.core.domain import Domain
from dpexplain.core.noise import Law
from dpexplain.core.release import Door, Gate
from dpexplain.data.public_random import PublicRandom
from dpexplain.data.rows import Rows
from dpexplain.engines import track
from dpexplain.maths.surrogate import Fit, Local, Space, StepWeight
from dpexplain.maths.surrogate.moments import Moments
from dpexplain.methods.local_explanation.spec import forecast, sensitivity
from dpexplain.methods.local_sketch import release as local_sketch
from dpexplain.methods.local_sketch.request import LocalSketchRequest

Floats = NDArray[np.float64]

RECORDS = 500
MAX_NOISE = 1_000_000  # numbers that are drawn for explanations that pay for themselves


def attacked_explanations(
    subject: Subject, epsilons: Sequence[float], say: Callable[[str], None]
) -> tuple[list[Explained], list[str]]:
    """Attacks on exact explanations and on those of every cost; and what was left out."""
    rows, features = subject.clean(subject.frame), subject.features
    chosen = PublicRandom(2).generator.permutation(rows.size)[:RECORDS]
    records = [record_of(rows, int(i), features) for i in chosen]
    domain = Domain({name: subject.domain[name] for name in features})
    attack = partial(reconstruction, records=rows.take(chosen), domain=domain)
    say(f"explained records: {len(records)} of them; the attacker holds half, with their explanations")
    local, notes = Locals(subject, rows, records), list[str]()
    attacks = [Explained("exact", None, attack(local.exact()))]
    few = local.numbers * len(epsilons) <= MAX_NOISE
    if not few:
        notes.append("local explanations that each pay for themselves: with so many columns they would take too long.")
    for epsilon in epsilons:
        cost = subject.budget.cost(epsilon=epsilon)
        request, table = LocalSketchRequest(method="moments"), subject.opened(subject.frame)
        sketch = local_sketch.explain(table, subject.model, request, cost=cost)
        lines = sketch.explain_many(records).to_frame().to_numpy(dtype=np.float64)
        attacks.append(Explained("sketch", epsilon, attack(lines)))
        if few:
            attacks.append(Explained("moments", epsilon, attack(local.noisy(cost))))
    return attacks, notes


class Locals:
    """Local explanations of many records by the moments of the table around each."""

    def __init__(self, subject: Subject, rows: Rows, records: Sequence[Mapping[str, Any]]) -> None:
        self._subject, self._records = subject, records
        predictor, output = subject.predictor, subject.model.output
        self._space = space = Space(subject.domain, tuple(predictor.features))
        weight = StepWeight.of("stable", space.diameter)
        self._around = Local(space, weight, output, space.read(records[0]), None)
        self._spec = Moments.of(self._around, subject.neighbours.relation, 1.0)
        predictions = predictor.predict_at(predictor.inputs(rows), {})
        coordinates = self._space.coordinates(rows.columns, rows.size)
        self._packed = list[list[int]]()
        with track("local explanations", len(records)) as advance:
            for record in records:
                spec = self._of(record)
                self._packed.append(spec.pack(spec.local.gram(coordinates, predictions)))
                advance(1)

    def _of(self, record: Mapping[str, Any]) -> Moments:
        """The spec of another record: weights, levels and bounds are the same for all."""
        return replace(self._spec, local=replace(self._around, record=self._space.read(record)))

    @property
    def numbers(self) -> int:
        """How many noisy numbers one explanation of every record takes."""
        return self._spec.size * len(self._records)

    def exact(self) -> Floats:
        return self._lines(self._packed, 0.0)

    def noisy(self, cost: Cost) -> Floats:
        """Every record pays this cost for itself."""
        neighbours, released = self._subject.neighbours, list[list[int]]()
        bound, law = sensitivity(self._spec, neighbours), Law.GAUSSIAN.value

        def body(gate: Gate) -> None:
            for number, values in enumerate(self._packed):
                released.append(gate.noisy_sum(f"record-{number}", values, bound, cost, mechanism=law))

        Door(FreeAccount(self._subject.budget, neighbours)).release("audit", {}, cost * len(self._packed), body)
        return self._lines(released, forecast(self._spec, neighbours, cost)["moments"].std)

    def _lines(self, packed: Sequence[Sequence[int]], std: float) -> Floats:
        pairs = zip(self._records, packed, strict=True)
        return np.array([_contributions(self._space, r, self._of(r).fit(values, std)) for r, values in pairs])


def _contributions(space: Space, record: Mapping[str, Any], fit: Fit) -> Floats:
    """What an attribution shows: the base, and the contribution of each feature."""
    values = space.by_feature((space.locate(space.read(record)) - fit.reference) * fit.coefficients)
    return np.concatenate([[fit.value - values.sum()], values])
