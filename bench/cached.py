"""A table whose predictions are remembered, so that many private explanations of it cost one set of predictions.

The whole path of the product is used: request, spec, passes over the table, sensitivity, door, noise, post-processing.
Only the model is replaced by a memory of its own answers (a repetition differs from another one in its noise alone),
and the account by one without a limit (accuracy does not depend on where a price is written down).
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Mapping
from typing import Any

import numpy as np
import pandas as pd
from numpy.typing import NDArray
from sklearn.ensemble import RandomForestClassifier

import dpexplain as dpx
from bench.fast_models import agrees, copied
from bench.tables import Case
from dpexplain.core.account import Ask, Entry
from dpexplain.core.budget import Cost
from dpexplain.core.release import Door
from dpexplain.core.sensitivity import Neighbours, Relation
from dpexplain.data.encode import encode
from dpexplain.data.rows import Rows
from dpexplain.data.sources import open_source

Floats = NDArray[np.float64]

NEIGHBOURS = Neighbours(Relation.REPLACE_ONE)
ROW = "(row)"
SAME = 1e-9  # how far the fast copy of a forest may be from it


class BenchAccount:
    """An account without limit, which remembers nothing."""

    name = "bench"
    budget = dpx.Budget(10**6)

    def __init__(self, budget: dpx.Budget = budget, neighbours: Neighbours = NEIGHBOURS) -> None:
        self.budget, self.neighbours = budget, neighbours

    def declare(self, identity: str, answers: list[float]) -> list[float]:  # noqa: ARG002
        return answers

    def find(self, request_id: str) -> None:  # noqa: ARG002 - the protocol of core.account
        return None

    def reserve(self, ask: Ask) -> str:  # noqa: ARG002
        return "bench"

    def commit(self, reservation: str, payload: dict[str, Any], charged: Cost) -> Entry:  # noqa: ARG002
        return Entry("bench", reservation, 0, "", "", "", charged)


class Remembered:
    """A predictor for rows known by their number. Values of a feature that were announced are predicted once."""

    answers, precision = np.zeros(1), 0.0  # a bench account keeps nothing

    def __init__(self, case: Case) -> None:
        self.features = [ROW, *case.domain]
        self._predictor = case.model().checked(case.domain, rows=len(case.frame))
        columns = list(case.domain)
        ((size, raw),) = open_source(case.frame).batches(columns, 2**30)
        self.rows = Rows(case.domain, {name: encode(case.domain[name], raw[name]) for name in columns}, size)
        self._inputs = self._predictor.inputs(self.rows)
        self._said: dict[bytes, Any] = {}
        self._known: dict[str, tuple[np.ndarray, np.ndarray]] = {}  # values in order, and a line of answers for each
        self._own = self._predictor.predict_at(self._inputs, {})
        self.case, self._fast = case, None
        if isinstance(case.estimator, RandomForestClassifier):
            self._fast = copied(case.estimator, list(case.estimator.feature_names_in_))
            if agrees(self._fast, case.estimator, case.frame[case.estimator.feature_names_in_]) > SAME:
                raise ValueError(f"the fast copy of the model of {case.name} says something else")

    def announce(self, feature: str, values: Iterable[float]) -> None:
        known, answers = self._known.get(feature, (np.empty(0), np.empty((0, self.rows.size))))
        new = np.setdiff1d(np.array(list(values), dtype=np.float64), known)
        if not len(new):
            return
        more = self.lines(feature, new)
        order = np.argsort(np.concatenate([known, new]))
        self._known[feature] = np.concatenate([known, new])[order], np.concatenate([answers, more])[order]

    def lines(self, feature: str, values: Floats) -> Floats:
        """[value, row]: what the model says with a feature at each of these values. Forests by their fast copies."""
        if self._fast is None:
            return np.stack([self._predictor.predict_at(self._inputs, {feature: value}) for value in values.tolist()])
        column = self.case.domain[feature]
        seen = [column.categories[int(value)] for value in values] if isinstance(column, dpx.Categorical) else values
        features = list(self.case.estimator.feature_names_in_)
        return self._fast.lines(self.case.frame[features].to_numpy(float), features.index(feature), seen)

    def forget(self, feature: str) -> None:
        self._known.pop(feature, None)

    def resized(self, block: int) -> Any:
        """For rows that are not the table's, such as synthetic ones: the model itself, which remembers what it said."""
        return self._predictor.resized(block, around=self._remembering)

    def _remembering(self, call: Any) -> Any:
        def known(own: Any) -> Any:
            values = own.to_numpy() if hasattr(own, "to_numpy") else own
            key = hashlib.blake2b(np.ascontiguousarray(values, dtype=np.float64).tobytes(), digest_size=16).digest()
            if key not in self._said:
                self._said[key] = call(own)
            return self._said[key]

        return known

    def inputs(self, rows: Rows) -> np.ndarray:
        return rows[ROW].astype(np.int64)

    def predict_at(self, inputs: np.ndarray, fixed: Mapping[str, Any]) -> np.ndarray:
        if not fixed:
            return self._own[inputs]
        if len(fixed) > 1:
            raise ValueError("one feature at a time")
        ((feature, values),) = fixed.items()
        values = np.broadcast_to(np.asarray(values, dtype=np.float64), inputs.shape)
        answer, known = np.empty(len(inputs)), np.zeros(len(inputs), dtype=bool)
        if feature in self._known:
            announced, answers = self._known[feature]
            place = np.minimum(np.searchsorted(announced, values), len(announced) - 1)
            known = announced[place] == values
            answer[known] = answers[place[known], inputs[known]]
        if not known.all():
            some = self._predictor.inputs(self.rows.take(inputs[~known]))
            answer[~known] = self._predictor.predict_at(some, {feature: values[~known]})
        return answer


class CachedModel(dpx.Model):
    """Checked once, remembered for ever."""

    def __init__(self, case: Case) -> None:
        super().__init__(case.estimator, output=case.output, label=case.label, name=case.name, version="bench")
        self.remembered = Remembered(case)
        self.thread_safe = False  # threads only cost time where nothing is predicted

    def checked(self, domain: dpx.Domain, **rows: Any) -> Any:  # noqa: ARG002 - as in dpx.Model
        return self.remembered


class DealtOnce:
    """Stands for the `sum_groups` of a table: the exact sums of so many parts are computed the first time, so that
    repetitions differ in their noise alone.
    """

    def __init__(self, table: dpx.PrivateTable) -> None:
        self._sum, self._known = table.sum_groups, dict[Any, NDArray[np.int64]]()

    def __call__(self, gate: Any, kernel: Any, columns: Any, groups: int, **about: Any) -> NDArray[np.int64]:
        key = (groups, about["size"], about["label"])
        if key not in self._known:
            self._known[key] = self._sum(gate, kernel, columns, groups, **about)
        return self._known[key]


def cached_table(case: Case) -> dpx.PrivateTable:
    """The private table of a case, its rows numbered for the memory."""
    table = dpx.PrivateTable(
        numbered(case.frame),
        domain=dpx.Domain({**case.domain, ROW: numbers(case)}),
        budget=BenchAccount.budget,
        relation="replace-one",
        ledger="sqlite:///:memory:",
        name="bench",
    )
    table.door = Door(BenchAccount())
    return table


def numbered(frame: pd.DataFrame) -> pd.DataFrame:
    return frame.assign(**{ROW: np.arange(len(frame))})


def numbers(case: Case) -> dpx.Numeric:
    """The column of the rows' numbers."""
    return dpx.Numeric(0, len(case.frame) - 1, integer=True)
