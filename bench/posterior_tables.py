"""Tables, models and exact curves of `bench posterior`.

Adult, Framingham, German credit and Diabetes are those of `bench performance` without their target, which no curve
needs: an account that pays for rows or histograms does not pay for it either. Of Diabetes twelve columns are kept. Bike
is that of `bench effects` with declared bounds; its models are regressors of the same kinds (a log-linear one stands
for the logistic one), with predictions clipped to 0 and 1000.

Predictions come from fast copies of the models (bench/fast_models.py). `Case.private` gives the table with an account
of its own: request, spec, sensitivity, noise, ledger and post-processing are those of the product. Two things are
remembered, because a repetition differs in its noise alone: predictions about the table's own rows, and exact sums that
were asked for before.
"""

from __future__ import annotations

import hashlib
import pickle
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property, partial
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
from numpy.typing import NDArray
from sklearn.compose import TransformedTargetRegressor, make_column_transformer
from sklearn.ensemble import HistGradientBoostingRegressor, RandomForestRegressor
from sklearn.linear_model import PoissonRegressor
from sklearn.neural_network import MLPRegressor
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import OneHotEncoder, StandardScaler

import dpexplain as dpx
from bench import performance_tables
from bench.fast_models import Layers, Trees, agrees, copied
from bench.performance_tables import TARGET, Judged
from dpexplain.data.encode import encode
from dpexplain.data.rows import Rows
from dpexplain.data.sources import open_source
from dpexplain.maths.binning import steps_of
from dpexplain.maths.grids import Axis, axis_of

Floats = NDArray[np.float64]
Integers = NDArray[np.int64]

MODELS = ("forest", "boosting", "network", "logistic")
MOST_REMEMBERED = 30_000_000  # predictions for one column of one model
GRID = 12  # points of a numeric column, for every method; fewer where it has fewer whole numbers
DIABETES_COLUMNS = (
    "time_in_hospital", "num_lab_procedures", "num_medications", "number_emergency", "number_inpatient",
    "number_diagnoses", "race", "age", "admission_type_id", "discharge_disposition_id", "diag_1", "insulin",
)  # fmt: skip
SINGLE = {  # an important number, a category, and something in the middle
    "adult": ("capital_gain", "occupation", "hours_per_week"),
    "bike": ("hr", "weathersit", "hum"),
    "framingham": ("sysBP", "sex", "cigsPerDay"),
    "german": ("duration_months", "checking_status", "age"),
    "diabetes": ("number_inpatient", "discharge_disposition_id", "num_medications"),
}


# Tables ---------------------------------------------------------------------------------------------------------------


class Rentals(Judged):
    """Bike: the target is a number."""

    def _fit(self, kind: str) -> Any:
        numeric = [name for name in self.features if isinstance(self.domain[name], dpx.Numeric)]
        rest = [name for name in self.features if name not in numeric]
        known = [list(self.domain[name].categories) for name in rest]
        spread = make_column_transformer((OneHotEncoder(categories=known), rest), (StandardScaler(), numeric))
        options = {"alpha": 0.1, "learning_rate_init": 0.005, "max_iter": 60, "random_state": 0}
        network = MLPRegressor(hidden_layer_sizes=(16,), **options)
        makers: dict[str, Callable[[], Any]] = {
            "logistic": lambda: make_pipeline(spread, PoissonRegressor(alpha=1e-3, max_iter=1_000)),
            "forest": lambda: RandomForestRegressor(50, min_samples_leaf=5, random_state=0),
            "boosting": lambda: HistGradientBoostingRegressor(max_iter=120, random_state=0),
            "network": lambda: TransformedTargetRegressor(
                make_pipeline(spread, network), func=np.log, inverse_func=np.exp
            ),
        }
        return makers[kind]().fit(self.fitting[self.features], self.fitting[TARGET])


def bike(data: Path) -> Judged:
    frame = pd.read_parquet(data / "bike_sharing_hour.parquet")
    numeric = {
        "mnth": (1, 12), "hr": (0, 23), "weekday": (0, 6), "atemp": (0.0, 1.0), "hum": (0.0, 1.0),
        "windspeed": (0.0, 1.0),
    }  # fmt: skip
    rows, columns = {}, {}
    for name, (low, high) in numeric.items():
        rows[name] = np.clip(frame[name].to_numpy(dtype=np.float64), low, high)
        columns[name] = dpx.Numeric(low, high, integer=isinstance(high, int))
    for name in ("yr", "holiday", "workingday", "weathersit"):
        codes, known = pd.factorize(frame[name], sort=True)
        rows[name], columns[name] = codes.astype(np.float64), dpx.Categorical(list(range(len(known))))
    rows[TARGET] = frame["cnt"].to_numpy(dtype=np.float64)
    table = pd.DataFrame(rows)
    half = np.sort(np.random.default_rng(0).permutation(len(table))[: len(table) // 2])
    return Rentals("Bike", table, dpx.Domain(columns), table.iloc[half], (), 0.0)


def diabetes(data: Path) -> Judged:
    whole = performance_tables.diabetes(data)
    kept = dpx.Domain({name: whole.domain[name] for name in (*DIABETES_COLUMNS, TARGET)})
    return replace(whole, domain=kept, _fitted={})


TABLES: dict[str, Callable[[Path], Judged]] = {
    "adult": performance_tables.adult,
    "bike": bike,
    "framingham": performance_tables.framingham,
    "german": performance_tables.german,
    "diabetes": diabetes,
}


# Cases ----------------------------------------------------------------------------------------------------------------


@dataclass(frozen=True, eq=False)
class Case:
    """One table with its models."""

    key: str
    frame: pd.DataFrame  # features only
    domain: dpx.Domain
    output: tuple[float, float]
    fast: Mapping[str, Trees | Layers]
    _models: dict[str, RecalledModel] = field(default_factory=dict)

    @classmethod
    def of(cls, key: str, data: Path) -> Case:
        table = TABLES[key](data)
        frame = table.frame[table.features].astype(np.float64)
        fast = {}
        for kind in MODELS:
            estimator = table.estimator(kind)
            fast[kind] = copied(estimator, table.features)
            output = (0.0, 1000.0) if key == "bike" else (0.0, 1.0)
            off = agrees(fast[kind], estimator, frame) / (output[1] - output[0])
            if not off < 1e-6:
                raise RuntimeError(f"the fast copy of {key}, {kind} is off by {off:g}")
        domain = dpx.Domain({name: table.domain[name] for name in table.features})
        return cls(key, frame, domain, output, fast)

    @property
    def features(self) -> list[str]:
        return list(self.domain)

    def is_number(self, feature: str) -> bool:
        return isinstance(self.domain[feature], dpx.Numeric)

    @property
    def size(self) -> int:
        return len(self.frame)

    @property
    def width(self) -> float:
        return self.output[1] - self.output[0]

    @cached_property
    def axes(self) -> dict[str, Axis]:
        """The grid of every feature, as `grid=GRID` makes it."""
        return {name: axis_of(self.domain, name, GRID, GRID) for name in self.domain}

    @cached_property
    def rows(self) -> Rows:
        """The table as statistics see it: clean, all rows at once."""
        ((size, raw),) = open_source(self.frame).batches(self.features, 2**30)
        return Rows(self.domain, {name: encode(self.domain[name], raw[name]) for name in self.features}, size)

    def matrix(self, rows: Rows) -> Floats:
        """Rows as models see them; categories are numbered from zero, so a code is its category."""
        return np.stack([rows[name].astype(np.float64) for name in self.features], axis=1)

    def model(self, kind: str) -> RecalledModel:
        if kind not in self._models:
            self._models[kind] = RecalledModel(self, kind)
        return self._models[kind]

    def forget(self) -> None:
        """Give the memory of all models back."""
        self._models.clear()

    def where(self, matrix: Floats) -> Integers | None:
        """For each of these rows a row of the table with the same values; None where one of them has none."""
        if "_places" not in self.__dict__:
            own = self.matrix(self.rows)
            keys = _keys(own)
            order = np.argsort(keys, kind="stable")
            object.__setattr__(self, "_places", (own, keys[order], order))
        own, keys, order = self.__dict__["_places"]
        found = order[np.minimum(np.searchsorted(keys, _keys(matrix)), len(keys) - 1)]
        return found if np.array_equal(own[found], matrix) else None

    def private(self, delta: float | None, name: str = "bench") -> SummedTable:
        """The table with a new account in memory, nearly without limit."""
        budget = dpx.Budget(10**6) if delta is None else dpx.Budget(10**6, delta)
        table = SummedTable(
            self.frame, domain=self.domain, budget=budget, relation="replace-one", ledger="sqlite:///:memory:",
            name=name,
        )  # fmt: skip
        table.case = self
        return table


def _keys(matrix: Floats) -> NDArray[np.uint64]:
    """A number for each row, the same for the same values."""
    bits = np.ascontiguousarray(matrix + 0.0, dtype=np.float64).view(np.uint64)
    factors = np.random.default_rng(0).integers(1, 2**63, matrix.shape[1], dtype=np.uint64) | np.uint64(1)
    mixed = (bits ^ (bits >> np.uint64(29))) * factors
    return np.asarray((mixed ^ (mixed >> np.uint64(32))).sum(axis=1, dtype=np.uint64))


class SummedTable(dpx.PrivateTable):
    """A table that sums in one batch, and knows what a kernel gave before: the kernel and its arguments are the key."""

    case: Case

    def sum_rows(
        self, gate: Any, kernel: Any, columns: Any, *, size: int, label: str, one_in: int = 1, secret: bool = False,
        **options: Any,
    ) -> Integers:  # fmt: skip
        if one_in != 1 or secret:
            return super().sum_rows(
                gate, kernel, columns, size=size, label=label, one_in=one_in, secret=secret, **options
            )
        self._reading(gate, columns, 256)  # refuses where the gate is shut
        key = key_of(kernel)
        if key is None:
            return np.asarray(kernel(self.case.rows))
        known = self.case.__dict__.setdefault("_sums", {})
        if key not in known:
            known[key] = np.asarray(kernel(self.case.rows))
        return np.array(known[key])


def key_of(kernel: Any) -> bytes | None:
    """What decides the sums of a kernel over one table: its function, its arguments, and the model by name."""
    if not isinstance(kernel, partial) or kernel.args:
        return None
    models = [(name, value.name) for name, value in kernel.keywords.items() if isinstance(value, Recalled)]
    others = {name: value for name, value in kernel.keywords.items() if not isinstance(value, Recalled)}
    try:
        said = pickle.dumps((kernel.func.__module__, kernel.func.__qualname__, models, others))
    except (pickle.PicklingError, AttributeError, TypeError):
        return None
    return hashlib.blake2b(said, digest_size=16).digest()


@dataclass(eq=False)
class Asked:
    """Rows that a model is asked about, and what it said about them."""

    matrix: Floats
    size: int
    own: bool  # whether they are the table's
    where: Integers | None = None  # the row of the table that each of them is like, where all are
    known: dict[str, tuple[Floats, Floats]] = field(default_factory=dict)  # values in order, and a line for each


class Recalled:
    """A predictor that asks the fast copy, all points of a feature at once, and remembers them with the rows."""

    def __init__(self, case: Case, kind: str, real: Any) -> None:
        self.case, self.name, self._fast, self._real = case, kind, case.fast[kind], real
        self._own: Asked | None = None
        self._plain: Floats | None = None

    def __getattr__(self, name: str) -> Any:
        return getattr(self._real, name)

    def resized(self, block: int, *, around: Any = None) -> Any:
        """Blocks do not matter to a fast copy: it computes every row by itself."""
        return self if around is None else self._real.resized(block, around=around)

    def inputs(self, rows: Rows) -> Asked:
        if rows is not self.case.rows:
            matrix = self.case.matrix(rows)
            return Asked(matrix, rows.size, own=False, where=self.case.where(matrix))
        if self._own is None:
            self._own = Asked(self.case.matrix(rows), rows.size, own=True)
        return self._own

    def predict_at(self, asked: Asked, fixed: Mapping[str, Any]) -> Floats:
        if not fixed:
            return self._own_answers(asked)
        if len(fixed) == 1:
            ((feature, values),) = fixed.items()
            if asked.where is not None and np.ndim(values) and (known := self._known_at(asked, feature, values)):
                return known[0]
            points, lines = self._lines(asked, feature)
            wanted = np.broadcast_to(np.asarray(values, dtype=np.float64), asked.size)
            if np.ndim(values) == 0 or asked.own:
                place = np.minimum(np.searchsorted(points, wanted), len(points) - 1)
                if (points[place] == wanted).all():
                    return lines[place, np.arange(asked.size)] if np.ndim(values) else lines[place[0]]
        matrix = asked.matrix.copy()
        for feature, values in fixed.items():
            matrix[:, self.case.features.index(feature)] = values
        return self._fast(matrix)

    def _known_at(self, asked: Asked, feature: str, values: Any) -> tuple[Floats] | None:
        """Predictions for rows like those of the table, with values of a column that are few: remembered for all."""
        own = self.inputs(self.case.rows)
        points, lines = self._lines(own, feature)
        new = np.setdiff1d(values, points)
        if len(new):
            if (len(points) + len(new)) * own.size > MOST_REMEMBERED:
                return None
            more = self._fast.lines(own.matrix, self.case.features.index(feature), new)
            order = np.argsort(np.concatenate([points, new]))
            own.known[feature] = np.concatenate([points, new])[order], np.concatenate([lines, more])[order]
            points, lines = own.known[feature]
        return (lines[np.searchsorted(points, values), asked.where],)

    def _own_answers(self, asked: Asked) -> Floats:
        if asked.where is not None:
            return self._own_answers(self.inputs(self.case.rows))[asked.where]
        if not asked.own:
            return self._fast(asked.matrix)
        if self._plain is None:
            self._plain = self._fast(asked.matrix)
        return self._plain

    def _lines(self, asked: Asked, feature: str) -> tuple[Floats, Floats]:
        """Of the table's own rows all points between which effects are taken, too."""
        if feature not in asked.known:
            points = np.array(self.case.axes[feature].settings, dtype=np.float64)
            column = self.case.domain[feature]
            if asked.own and isinstance(column, dpx.Numeric):
                points = np.union1d(points, np.array(steps_of(feature, column).points, dtype=np.float64))
            place = self.case.features.index(feature)
            asked.known[feature] = points, self._fast.lines(asked.matrix, place, points)
        return asked.known[feature]


class RecalledModel(dpx.Model):
    """A model that is checked as any other and then asked by way of `Recalled`."""

    def __init__(self, case: Case, kind: str) -> None:
        super().__init__(
            case.fast[kind], output=case.output, features=case.features, as_array=True, name=f"{case.key} {kind}",
            version="bench", thread_safe=False,
        )  # fmt: skip
        self._case, self._kind = case, kind
        self._recalled: Recalled | None = None

    def checked(self, domain: dpx.Domain, **rows: Any) -> Any:
        if self._recalled is None:
            self._recalled = Recalled(self._case, self._kind, super().checked(domain, **rows))
        return self._recalled

    @property
    def own(self) -> Recalled:
        return self.checked(self._case.domain, rows=self._case.size, exact=True)


# Exact curves ---------------------------------------------------------------------------------------------------------


def dependence(fast: Trees | Layers, case: Case, matrix: Floats, features: Sequence[str] | None = None) -> Floats:
    """Plain partial dependence of some rows, feature after feature on their grids, in units of the output range."""
    low, high = case.output
    parts = []
    for name in case.features if features is None else features:
        points = np.array(case.axes[name].settings, dtype=np.float64)
        lines = fast.lines(matrix, case.features.index(name), points)
        parts.append((np.clip(lines, low, high).mean(axis=1) - low) / (high - low))
    return np.concatenate(parts)


@dataclass(frozen=True)
class Places:
    """Where accumulated effects are compared, and the share of the table's rows there.

    A number's public cells (every whole number, or a hundred equal ones) at their middles; rows at the low end stand
    there and not in the middle of their cell, because in some columns most rows do. Categories as they are.
    """

    points: Floats
    shares: Floats

    @classmethod
    def of(cls, column: dpx.Numeric | dpx.Categorical, values: Floats) -> Places:
        if not isinstance(column, dpx.Numeric):
            counts = np.bincount(values.astype(np.int64), minlength=len(column.categories))
            return cls(np.arange(len(counts), dtype=np.float64), counts / len(values))
        cells = steps_of("", column).cells
        middles = np.array(cells.labels, dtype=np.float64)
        stands = np.where(values == column.low, column.low, middles[cells.place(values)])
        points, counts = np.unique(stands, return_counts=True)
        return cls(points, counts / len(values))

    def at(self, points: Any, curve: Floats, *, ordered: bool) -> Floats:
        """A curve at these places: straight lines between the points of a number."""
        return np.interp(self.points, np.asarray(points, dtype=np.float64), curve) if ordered else np.asarray(curve)

    def centred(self, values: Floats) -> Floats:
        return np.asarray(values - self.shares @ values)

    def squared_error(self, values: Floats, exact: Floats) -> float:
        """The mean over the table's rows."""
        return float(self.shares @ (values - exact) ** 2)


def plain_effects(fast: Trees | Layers, case: Case, matrix: Floats, feature: str) -> tuple[Floats, Floats]:
    """Plain accumulated effects of some rows, not centred, in units of the output range: (points, curve).

    Numbers: between the upper ends of public cells that hold rows (every whole number, or a hundred equal cells); a
    cell without rows goes with the next one that has some, so that nothing is lost over gaps. Categories: between
    neighbours in declared order, over the rows of both.
    """
    place, column, (low, high) = case.features.index(feature), case.domain[feature], case.output
    values = matrix[:, place]

    def moved(to: Floats) -> Floats:
        other = matrix.copy()
        other[:, place] = to
        return np.clip(fast(other), low, high) / (high - low)

    if not isinstance(column, dpx.Numeric):
        last, codes, own = len(column.categories) - 1, values.astype(np.int64), moved(values)
        up, down = moved(np.minimum(values + 1, last)) - own, own - moved(np.maximum(values - 1, 0))
        counts = np.bincount(codes, minlength=last + 1)
        sums = np.bincount(codes, up, last + 1)[:-1] + np.bincount(codes, down, last + 1)[1:]
        means = sums / np.maximum(counts[:-1] + counts[1:], 1)
        return np.arange(last + 1.0), np.concatenate([[0.0], np.cumsum(means)])
    steps = steps_of(feature, column)
    there, mine = np.unique(steps.step_of_cell[steps.cells.place(values)], return_inverse=True)
    points = np.asarray(steps.points, dtype=np.float64)
    edges = np.concatenate([points[:1], points[there + 1]])
    change = moved(edges[mine + 1]) - moved(edges[mine])
    return edges, np.concatenate([[0.0], np.cumsum(np.bincount(mine, change) / np.bincount(mine))])


def effects_of_rows(
    fast: Trees | Layers, case: Case, matrix: Floats, places: Mapping[str, Places]
) -> dict[str, Floats]:
    """Plain accumulated effects of some rows, each centred by these rows, at the places of comparison."""
    curves = {}
    for name, where in places.items():
        points, curve = plain_effects(fast, case, matrix, name)
        values, ordered = matrix[:, case.features.index(name)], case.is_number(name)
        own = np.interp(values, points, curve) if ordered else curve[values.astype(np.int64)]
        curves[name] = where.at(points, curve - own.mean(), ordered=ordered)
    return curves


class Truth:
    """Exact curves of one model about the whole table, in units of the output range."""

    def __init__(self, case: Case, kind: str) -> None:
        self.case, self.kind = case, kind
        self._matrix = case.matrix(case.rows)

    @cached_property
    def dependence(self) -> Floats:
        return dependence(self.case.fast[self.kind], self.case, self._matrix)

    def dependence_of(self, feature: str) -> Floats:
        sizes = [len(axis.points) for axis in self.case.axes.values()]
        ends = np.cumsum(sizes)[:-1]
        return np.split(self.dependence, ends)[self.case.features.index(feature)]

    @cached_property
    def places(self) -> dict[str, Places]:
        values = zip(self.case.features, self._matrix.T, strict=True)
        return {name: Places.of(self.case.domain[name], mine) for name, mine in values}

    @cached_property
    def _plain(self) -> dict[str, tuple[Floats, Floats]]:
        return {name: plain_effects(self.case.fast[self.kind], self.case, self._matrix, name) for name in self.places}

    @cached_property
    def effects(self) -> dict[str, Floats]:
        """At the places, centred there."""
        return {
            name: places.centred(places.at(*self._plain[name], ordered=self.case.is_number(name)))
            for name, places in self.places.items()
        }

    def effects_on(self, feature: str, points: Sequence[Any]) -> Floats:
        """The exact curve for the bins between these public points, which an interval of a release is about.

        As the release has it: rows belong to bins by their cells, the centre is the mean over rows, each at the middle
        of its cell. For points that are no ends of public cells: the usual curve there.
        """
        column = self.case.domain[feature]
        values, own = self._matrix[:, self.case.features.index(feature)], self.case.model(self.kind).own
        if not isinstance(column, dpx.Numeric):
            return self.effects[feature]
        steps = steps_of(feature, column)
        if not np.isin(points, steps.points).all():
            return np.interp(np.asarray(points, dtype=np.float64), self.places[feature].points, self.effects[feature])
        counts, sums = self._moments(feature, values, own)
        edges = np.searchsorted(np.asarray(steps.points), np.asarray(points, dtype=np.float64))
        bin_of_cell = np.searchsorted(edges[1:-1], steps.step_of_cell, side="right")
        curve = [0.0]
        for k in range(len(edges) - 1):
            mine = bin_of_cell == k
            change = sums[mine][:, edges[k + 1]].sum() - sums[mine][:, edges[k]].sum()
            curve.append(curve[-1] + change / max(counts[mine].sum(), 1))
        middle = np.interp(steps.cells.labels, points, curve)
        return np.array(curve) - counts @ middle / counts.sum()

    def _moments(self, feature: str, values: Floats, own: Recalled) -> tuple[Integers, Floats]:
        """Rows in each cell, and [cell, point]: the sum of their predictions at each public point."""
        known = self.__dict__.setdefault("_known", {})
        if feature not in known:
            low, high = self.case.output
            steps = steps_of(feature, self.case.domain[feature])
            cell = steps.cells.place(values)
            points, lines = own._lines(own.inputs(self.case.rows), feature)
            at = np.searchsorted(points, np.asarray(steps.points, dtype=np.float64))
            shares = (np.clip(lines[at], low, high) - low) / (high - low)
            sums = np.stack([np.bincount(cell, line, steps.cells.size) for line in shares], axis=1)
            known[feature] = np.bincount(cell, minlength=steps.cells.size), sums
        return known[feature]
