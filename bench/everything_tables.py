"""Tables, groups and exact answers of `bench posterior --part everything`.

The tables and models of `bench posterior` with their targets, which importance needs. A disparity is that of a group
of rows with one category of a declared column. Exact answers are computed from fast copies of the models
(bench/fast_models.py), for the table's own rows or for any others, such as MST rows: `Plain` says what a plain
explanation of some rows is, with nothing private about it.

    disparity    for each column, how much the mean outcome inside the group falls, less that outside, when the column
                 gets values of the same rows at random: in expectation over all values, weighted by their frequency
    importance   the mean squared error with a column permuted, less that without: means over PERMUTATIONS of each (of
                 MST rows FEW, whose error is far larger than what permutations add)
    local        local models around some rows, values at the record fitted (`Around`)
    clusters     counts of each cluster and attribute
"""

from __future__ import annotations

import itertools
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
from numpy.typing import NDArray
from sklearn.cluster import KMeans

import dpexplain as dpx
from bench import synthetic
from bench.cluster_baselines import TabEE, of_choices
from bench.performance_tables import TARGET
from bench.posterior_baselines import DELTAS, FEWEST_ROWS, MOST_ROWS
from bench.posterior_tables import TABLES, Case
from bench.scenes import stable
from dpexplain.data.encode import encode
from dpexplain.data.rows import Rows
from dpexplain.data.sources import open_source
from dpexplain.maths.grids import cells_of
from dpexplain.maths.surrogate import Space

Floats = NDArray[np.float64]
Integers = NDArray[np.int64]

MODELS = ("forest", "network")  # one with steps, one without
GROUPS = {"adult": "sex", "bike": "workingday", "framingham": "sex", "german": "sex", "diabetes": "race"}
TARGETS = {"bike": dpx.Numeric(0, 1000)}
THRESHOLDS = {"adult": 0.5, "framingham": 0.15, "german": 0.3, "diabetes": 0.11}
PERMUTATIONS, FEW, MOST_VALUES, RECORDS = 10, 2, 60, 20
CLUSTERS, COUNTED = 5, 10  # clusters of each table; cells of a number in what is counted


@dataclass(frozen=True, eq=False)
class Whole(Case):
    """A table with its target, which no model sees."""

    threshold: float | None = None  # of a class
    _known: dict[Any, Any] = field(default_factory=dict)

    @classmethod
    def load(cls, key: str, data: Path) -> Whole:
        plain, judged = Case.of(key, data), TABLES[key](data)
        outcome = TARGETS.get(key) or judged.domain[TARGET]
        target = np.asarray(judged.frame[TARGET], dtype=np.float64)
        frame = plain.frame.assign(**{TARGET: target})
        domain = dpx.Domain({**plain.domain, TARGET: outcome})
        return cls(key, frame, domain, plain.output, plain.fast, threshold=THRESHOLDS.get(key))

    @property
    def features(self) -> list[str]:
        return [name for name in self.domain if name != TARGET]

    @cached_property
    def rows(self) -> Rows:
        """The table as statistics see it: clean, all rows at once, the target among them."""
        ((size, raw),) = open_source(self.frame).batches(list(self.domain), 2**30)
        return Rows(self.domain, {name: encode(column, raw[name]) for name, column in self.domain.items()}, size)

    def remember(self, what: Any, find: Callable[[], Any]) -> Any:
        """What is asked for often, found once."""
        if what not in self._known:
            self._known[what] = find()
        return self._known[what]

    @property
    def group(self) -> dict[str, Any]:
        """The category that the group has."""
        column = self.domain[GROUPS[self.key]]
        assert isinstance(column, dpx.Categorical)
        return {GROUPS[self.key]: column.categories[0]}

    @property
    def positive(self) -> dict[str, Any]:
        """What `permutation_importance` is told about the target."""
        column = self.domain[TARGET]
        return {"positive": column.categories[1]} if isinstance(column, dpx.Categorical) else {}

    @property
    def outcome(self) -> dict[str, Any]:
        """What `influence` is told about the outcome."""
        return {"outcome": "score"} if self.threshold is None else {"outcome": "class", "threshold": self.threshold}

    @cached_property
    def exact(self) -> Plain:
        return Plain.of(self, self.frame)

    @cached_property
    def records(self) -> Integers:
        """The rows that local explanations are about."""
        return np.random.default_rng(0).choice(self.size, RECORDS, replace=False)

    @cached_property
    def clustering(self) -> Any:
        """k-means of numbers and codes of categories, each with a spread of one; fixed, and public as a rule: a
        function of rows as models get them.
        """
        middle, spread = self.exact.matrix.mean(axis=0), self.exact.matrix.std(axis=0)
        fitted = KMeans(CLUSTERS, n_init=2, random_state=0).fit((self.exact.matrix - middle) / spread)

        def label(frame: pd.DataFrame) -> Integers:
            matrix = frame[self.features].to_numpy(np.float64)
            return fitted.predict((matrix - middle) / spread).astype(np.int64)

        return label

    @cached_property
    def counted(self) -> Any:
        """The cells of each attribute in which clusters are told apart."""
        return cells_of(self.features, self.domain, COUNTED, most_whole=COUNTED)

    def synthetic(self, account: str, epsilon: float, seed: int) -> Plain:
        """MST rows for the whole price, kept for the other models and explanations."""

        def drawn() -> Plain:
            coding = synthetic.Coding.of(self.domain, synthetic.cells_at(epsilon))
            rows, codes = max(FEWEST_ROWS, min(self.size, MOST_ROWS)), coding.codes(self.frame)
            found = synthetic.mst_rows(codes, coding.sizes, epsilon, DELTAS[account], seed, rows=rows)
            return Plain.of(self, coding.frame(found, seed))

        found: Plain = self.remember((account, epsilon, seed), drawn)
        return found


# Plain explanations of some rows --------------------------------------------------------------------------------------


@dataclass(frozen=True, eq=False)
class Plain:
    """Some rows, and what plain explanations of them say."""

    case: Whole
    matrix: Floats  # of the features
    target: Floats

    @classmethod
    def of(cls, case: Whole, frame: pd.DataFrame) -> Plain:
        return cls(case, frame[case.features].to_numpy(np.float64), frame[TARGET].to_numpy(np.float64))

    @classmethod
    def even(cls, case: Whole, rows: int) -> Plain:
        """Rows drawn evenly from the declared domain: no price."""
        from dpexplain.maths.trees import Joint

        drawn = Joint.even(case.domain, list(case.domain)).draw(rows, 0)
        return cls.of(case, pd.DataFrame({name: values.astype(np.float64) for name, values in drawn.items()}))

    @cached_property
    def space(self) -> Space:
        return Space(self.case.domain, tuple(self.case.features))

    @cached_property
    def coordinates(self) -> Floats:
        columns = {name: self.matrix[:, i] for i, name in enumerate(self.case.features)}
        return self.space.coordinates(columns, len(self.matrix))

    def scores(self, kind: str, lines: Floats | None = None) -> Floats:
        """Predictions as shares of the output range."""
        low, width = self.case.output[0], self.case.width
        return np.clip(((self.case.fast[kind](self.matrix) if lines is None else lines) - low) / width, 0, 1)

    def _outcomes(self, scores: Floats) -> Floats:
        threshold = self.case.threshold
        return scores * self.case.width + self.case.output[0] if threshold is None else (scores >= threshold) * 1.0

    def disparity(self, kind: str) -> Floats:
        own = self._outcomes(self.scores(kind))
        ((name, _),) = self.case.group.items()
        inside = self.matrix[:, self.case.features.index(name)] == 0
        if not inside.any() or inside.all():
            return np.zeros(len(self.case.features))
        found = []
        for column in range(len(self.case.features)):
            values, shares = _frequencies(self.matrix[:, column])
            lines = self.case.fast[kind].lines(self.matrix, column, values)
            change = own - shares @ self._outcomes(self.scores(kind, lines))
            found.append(change[inside].mean() - change[~inside].mean())
        return np.array(found)

    def importance(self, kind: str, permutations: int = PERMUTATIONS) -> Floats:
        """In units of the squared output range."""
        draw, outcome = np.random.default_rng(0), (self.target - self.case.output[0]) / self.case.width
        base, found = np.mean((self.scores(kind) - outcome) ** 2), np.zeros(len(self.case.features))
        for column, _ in itertools.product(range(len(found)), range(permutations)):
            moved = self.matrix.copy()
            moved[:, column] = draw.permutation(moved[:, column])
            found[column] += np.mean((self.scores(kind, self.case.fast[kind](moved)) - outcome) ** 2) - base
        return found / permutations

    def around(self, kind: str, record: Floats) -> Around:
        return Around.of(self.coordinates, 2 * self.scores(kind) - 1, record)

    @cached_property
    def tables(self) -> list[Integers]:
        """For each attribute the counts [cluster and none, cell]."""
        frame = pd.DataFrame(self.matrix, columns=self.case.features)
        labels, found = self.case.clustering(frame), []
        for cells in self.case.counted:
            place = cells.place(frame[cells.feature].to_numpy())
            table = np.bincount(labels * cells.size + place, minlength=CLUSTERS * cells.size)
            found.append(np.vstack([table.reshape(CLUSTERS, -1), np.zeros((1, cells.size), dtype=np.int64)]))
        return found

    @cached_property
    def tabee(self) -> TabEE:
        return TabEE.of(self.tables)

    @cached_property
    def choice(self) -> tuple[int, ...]:
        """The best of all combinations."""
        many = range(len(self.case.features))
        listed = self.case.remember("combinations", lambda: np.array(list(itertools.product(many, repeat=CLUSTERS))))
        return tuple(int(a) for a in listed[of_choices(self.tabee.quality, listed).argmax()])


def _frequencies(values: Floats) -> tuple[Floats, Floats]:
    """The values of a column and their shares; where there are many, as many quantiles."""
    known, counts = np.unique(values, return_counts=True)
    if len(known) <= MOST_VALUES:
        return known, counts / counts.sum()
    places = (np.arange(MOST_VALUES) + 0.5) / MOST_VALUES
    return np.quantile(values, places, method="inverted_cdf"), np.full(MOST_VALUES, 1 / MOST_VALUES)


@dataclass(frozen=True)
class Around:
    """The loss around a record, the value there fitted: phi.A phi - 2 b.phi + c, on the scale of -1 to 1."""

    A: Floats
    b: Floats
    c: float

    @classmethod
    def of(cls, rows: Floats, scores: Floats, record: Floats) -> Around:
        away = rows - record
        weights = stable(np.sqrt(np.einsum("ij,ij->i", away, away)))
        weights = weights / weights.sum()
        lines, said = away - weights @ away, scores - weights @ scores
        weighted = lines * weights[:, None]
        return cls(weighted.T @ lines, weighted.T @ said, float(weights @ said**2))

    @cached_property
    def best(self) -> Floats:
        return np.asarray(np.linalg.lstsq(self.A, self.b, rcond=1e-9)[0])

    def loss(self, phi: Floats) -> float:
        return float(phi @ self.A @ phi - 2 * phi @ self.b + self.c)

    @property
    def explained(self) -> float:
        return self.c - self.loss(self.best)

    def lost(self, phi: Floats) -> float:
        return self.loss(phi) - self.loss(self.best)


def share_lost(problems: Sequence[Around], lines: Sequence[Floats]) -> float:
    """Of what there is to explain, over all records."""
    lost = sum(problem.lost(phi) for problem, phi in zip(problems, lines, strict=True))
    return float(lost / sum(problem.explained for problem in problems))
