"""How good a model is, and for whom: every figure computed from the released counts, again and again, free."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property, partial
from typing import TYPE_CHECKING, Any, ClassVar

import numpy as np
from numpy.typing import NDArray

from dpexplain.columns import domain_from_json
from dpexplain.core.canonical import JsonObject
from dpexplain.core.domain import Domain
from dpexplain.core.noise import Noise, checked_level
from dpexplain.errors import InputError
from dpexplain.maths.estimates import Estimate, Figure, smallest_ratio, spread
from dpexplain.maths.residuals import FIGURES as ERRORS
from dpexplain.maths.residuals import ResidualSums
from dpexplain.maths.scores import RATES, SCORES, Decisions, ScoreTable, averaged, share, summed
from dpexplain.methods.performance import words
from dpexplain.methods.performance.spec import CELL_SUMS, LEVELS, Spec, group_of
from dpexplain.methods.result import Floats, Result
from dpexplain.receipts import Receipt

if TYPE_CHECKING:
    import pandas as pd

By = str | Sequence[str] | None
Group = Mapping[str, Any] | None
LEVEL = 0.95

SAME = {"recall": "true_positive_rate", "roc_auc": "auc"}  # other names
OF_PROBABILITIES = ("brier_score", "log_loss", "calibration_error")
OF_GROUPS = ("selection_rate", "true_positive_rate", "false_positive_rate", "precision", "base_rate", "accuracy", "auc")


@dataclass(frozen=True)
class Judged(Estimate):
    """An estimate with the sentence that says what can be concluded."""

    sentence: str = ""


@dataclass(frozen=True)
class Performance(Result):
    """Rates, curves and fairness figures of a score, for everybody and for groups.

    `values` are the estimates in `to_frame()`; where nothing is determined, `values` have the middle of what is
    possible, and `to_frame()` shows no value.
    """

    kind: ClassVar[str] = "performance"
    spec_type: ClassVar[type[Spec]] = Spec
    picture: ClassVar[str] = "dpexplain.render.performance:plot_performance"
    text_view: ClassVar[str] = "dpexplain.render.text:performance_view"

    # What it is about -------------------------------------------------------------------------------------------------

    @property
    def task(self) -> str:
        """ "binary", "classes" or "regression"."""
        task: str = self.spec.task
        return task

    @property
    def by(self) -> tuple[tuple[str, ...], ...]:
        """The columns of each entry of groups."""
        return tuple(crossing.columns for crossing in self.spec.groups if crossing.columns)

    @property
    def labels(self) -> tuple[Any, ...]:
        """The classes, where each is measured against the rest."""
        classes: tuple[Any, ...] = self.spec.classes
        return classes

    @property
    def threshold(self) -> float | None:
        """From which score on a row is positive, where nothing else is said; None for a regression."""
        threshold: float | None = self.spec.threshold
        return threshold

    @property
    def probability(self) -> bool:
        """Whether scores are probabilities: they lie within 0 and 1."""
        return bool(self.task != "regression" and self.spec.range.low >= 0 and self.spec.range.high <= 1)

    @property
    def edges(self) -> tuple[float, ...]:
        """Of the cells of scores: a cell holds its low edge and not its high one, the last one both."""
        edges: tuple[float, ...] = self.spec.edges
        return edges

    @property
    def domain(self) -> Domain | None:
        """What was declared, as the receipt has it."""
        return None if self.receipt.domain is None else domain_from_json(self.receipt.domain)

    @property
    def names(self) -> tuple[str, ...]:
        """The figures there are."""
        if self.task == "regression":
            return tuple(name for name in ERRORS if name != "count" or self._rows is None)
        left_out = [] if self.probability else [*OF_PROBABILITIES, "mean_prediction"]
        left_out += [] if self._rows is None else ["count"]
        return tuple(name for name in (*RATES, *SCORES) if name not in left_out)

    @property
    def target_words(self) -> str:
        """What happened where the target is positive; the target itself where it is a number or a class."""
        if self.task != "binary":
            return str(self.spec.target)
        positive = self.spec.positive
        return (
            f"{self.spec.target} is {positive:g}"
            if isinstance(positive, float)
            else f"{self.spec.target} is {positive}"
        )

    @property
    def score_words(self) -> str:
        """What is judged: a column, or the model by its name."""
        model = self.receipt.request.get("model")
        return str(self.spec.score) if self.spec.score is not None or model is None else f"model {model['name']}"

    @property
    def caveats(self) -> list[str]:
        """What a reader of the figures has to know besides."""
        clipped = self.task == "regression" and self.spec.residual < self._largest_residual
        return [f"Residuals beyond {self.spec.residual:g} count as {self.spec.residual:g}."] if clipped else []

    @property
    def _largest_residual(self) -> float:
        low, high = self.spec.bounds
        return float(max(high - self.spec.range.low, self.spec.range.high - low))

    @property
    def title(self) -> str:
        return words.title(self)

    @property
    def caveat(self) -> str:
        return " ".join([words.caveat(self), *self.caveats])

    @property
    def lead(self) -> list[str]:
        return self.findings

    @cached_property
    def findings(self) -> list[str]:
        return words.findings(self)

    def more_tables(self) -> dict[str, pd.DataFrame]:
        return words.more_tables(self)

    @property
    def picture_size(self) -> tuple[float, float]:
        return words.picture_size(self)

    # Groups -----------------------------------------------------------------------------------------------------------

    def cells_of(self, by: By = None) -> list[dict[str, Any]]:
        """The groups of an entry, each as {column: value}: a category, a whole number, or (low, high)."""
        return self.spec.groups[self._entry(by)].cells if self.by else []

    @staticmethod
    def group_name(group: Mapping[str, Any]) -> str:
        """A group in words: Female; or, of crossed groups, Female, Black."""
        return ", ".join(_value_words(column, value) for column, value in group.items())

    def group_title(self, group: Mapping[str, Any]) -> str:
        """Likewise, as people call columns and values."""
        known = self.receipt.names.columns
        shown = ((self.receipt.called(c), self.receipt.called_value(c, v), c in known) for c, v in group.items())
        return ", ".join(
            f"{column}: {value}" if named and isinstance(value, str) else _value_words(column, value)
            for column, value, named in shown
        )

    def _entry(self, by: By) -> int:
        """The place of an entry of groups; the only one may be left out."""
        if by is None and len(self.by) == 1:
            return 0
        names = (by,) if isinstance(by, str) else () if by is None else by
        if not isinstance(names, list | tuple) or not all(isinstance(name, str) for name in names):
            raise InputError("by is a column, or a list of columns.", hint='by="sex", or by=["race", "sex"]', spent="")
        wanted = set(names)
        for place, columns in enumerate(self.by):
            if set(columns) == wanted:
                return place
        there = ", ".join(" x ".join(columns) for columns in self.by)
        raise InputError(
            "these figures are not grouped."
            if not self.by
            else "say which groups are meant: by=..."
            if by is None
            else f"these figures are not grouped by {' x '.join(map(str, sorted(wanted)))}.",
            hint=f"they are grouped by: {there}" if there else "release them with groups=[...]",
            spent="",
        )

    def _found(self, group: Group) -> tuple[int | None, list[int]]:
        """The entry, and the cells of it, that make up a group; no entry for everybody."""
        if group is not None and not isinstance(group, Mapping):
            raise InputError("a group is {column: value}.", hint='group={"sex": "Female"}', spent="")
        if not group:
            return None, []
        fits = [h for h, crossing in enumerate(self.spec.groups) if set(group) <= set(crossing.columns)]
        if not fits:
            self._entry(tuple(map(str, group)))
        entry = min(fits, key=lambda h: self.spec.groups[h].size)
        places = group_of(self.spec.groups[entry], group)
        if not places:
            columns = self.spec.groups[entry].cells
            known = {name: list(dict.fromkeys(map(str, (cell[name] for cell in columns)))) for name in group}
            raise InputError(
                f"there is no group {', '.join(f'{name} {value}' for name, value in group.items())}."[:200],
                hint="; ".join(f"{name} is one of {', '.join(values[:20])}" for name, values in known.items()),
                spent="",
            )
        return entry, places

    # What was released ------------------------------------------------------------------------------------------------

    @property
    def _rows(self) -> int | None:
        """The number of rows, where it is public."""
        return self.receipt.rows

    @cached_property
    def _blocks(self) -> tuple[list[Floats], Floats, Noise]:
        """For each entry of groups a line for each group; what is left (the cells of a regression); the noise."""
        released, noise = self.part("sums" if self.task == "regression" else "counts")
        blocks, start, each = [], 0, self.spec.group_size
        for crossing in self.spec.groups:
            end = start + crossing.size * each
            blocks.append(released[start:end].astype(np.float64).reshape(crossing.size, each))
            start = end
        return blocks, released[start:].astype(np.float64), noise

    def table_of(self, by: By, mask: Sequence[bool] | None = None, label: Any = None) -> ScoreTable:
        """The counts of some groups of one entry together, as they were released: those where `mask` is true, in the
        order of `cells_of(by)`; all of them without one.
        """
        entry = self._entry(by) if self.by else 0
        places = range(self.spec.groups[entry].size) if mask is None else np.flatnonzero(mask).tolist()
        return self._table(entry, places, self._class(label))

    def _table(self, entry: int, places: Sequence[int], column: int) -> ScoreTable:
        blocks, _, noise = self._blocks
        many, everybody = 2 * self.spec.cells, len(places) == self.spec.groups[entry].size
        edges = np.asarray(self.spec.edges)
        tables = [
            ScoreTable(
                edges=edges,
                counts=blocks[entry][place][column * many : (column + 1) * many].reshape(-1, 2),
                noise=noise,
                exact=self.spec.exact,
                decisions=self._decisions(entry, place),
            )
            for place in places
        ]
        return summed(tables, total=self._rows if everybody else None)

    def _decisions(self, entry: int, place: int) -> Decisions | None:
        """The rows of one group on either side of the threshold, where they were counted."""
        if not self.spec.decisions_share:
            return None
        released, noise = self._part_of_decisions
        group = sum(crossing.size for crossing in self.spec.groups[:entry]) + place
        return Decisions(self.spec.threshold_cell, released[group], noise)

    @cached_property
    def _part_of_decisions(self) -> tuple[Floats, Noise]:
        released, noise = self.part("decisions")
        return released.astype(np.float64).reshape(-1, 2, 2), noise

    def size_of(self, group: Group = None) -> float:
        """About how many rows a group has, by what was released; of everybody, the number itself where it is public."""
        if not group and self._rows is not None:
            return float(self._rows)
        if self.task == "classes":
            return float(self._matrix(group)[0].sum())
        counted = self._sums(group) if self.task == "regression" else self.table(group)
        return counted.figure("count").value

    def _class(self, label: Any) -> int:
        """The place of a class."""
        if self.task == "regression":
            raise InputError("a regression has no score cells.", hint="figure(...) or residuals()", spent="")
        if self.task == "binary":
            if label is not None:
                raise InputError("label picks one of several classes.", hint="leave it out", spent="")
            return 0
        if _single(label, "label") not in self.labels:
            raise InputError(
                "say which class is measured against the rest: label=..."
                if label is None
                else f"there is no class {label!r}."[:200],
                hint="one of " + ", ".join(map(repr, self.labels)),
                spent="",
            )
        return self.labels.index(label)

    @cached_property
    def _tables(self) -> dict[Any, ScoreTable]:
        return {}

    def table(self, group: Group = None, label: Any = None) -> ScoreTable:
        """The counts of a group, or of everybody: averaged over all entries then."""
        column = self._class(label)
        entry, places = self._found(group)
        known = (entry, tuple(places), column)
        if known not in self._tables:
            if entry is not None:
                self._tables[known] = self._table(entry, places, column)
            else:
                each = [self._table(h, range(crossing.size), column) for h, crossing in enumerate(self.spec.groups)]
                self._tables[known] = each[0] if len(each) == 1 else averaged(each)
        return self._tables[known]

    def _sums(self, group: Group) -> ResidualSums:
        entry, places = self._found(group)
        if entry is None:
            entry = min(range(len(self.spec.groups)), key=lambda h: self.spec.groups[h].size)
            places = list(range(self.spec.groups[entry].size))
        blocks, _, noise = self._blocks
        everybody = len(places) == self.spec.groups[entry].size
        return self._residual_sums(blocks[entry][places].sum(axis=0), noise, len(places), everybody=everybody)

    def _residual_sums(self, sums: Floats, noise: Noise, terms: int, *, everybody: bool) -> ResidualSums:
        count, above, below, squares, target, target_squares = map(float, sums)
        low, high = self.spec.bounds
        return ResidualSums(
            count=count,
            over=above,
            under=below,
            squared=squares,
            target=target,
            target_squared=target_squares,
            noise=noise,
            terms=terms,
            levels=LEVELS,
            width=self.spec.residual,
            low=low,
            high=high,
            total=self._rows if everybody else None,
        )

    # Figures ----------------------------------------------------------------------------------------------------------

    @cached_property
    def _figures(self) -> dict[Any, Estimate]:
        return {}

    def figure(
        self,
        name: str,
        *,
        group: Group = None,
        threshold: float | None = None,
        label: Any = None,
        level: float = LEVEL,
    ) -> Estimate:
        """One figure with its interval, for everybody or for a group.

        name       one of `names`; "recall" is the true positive rate
        group      {"sex": "Female"}: one of the groups that were released, or several of a crossing together
        threshold  a score of at least this is positive; at another one than the requested one, the interval includes
                   all rows in the cell where it lies
        label      of several classes the one that is measured against the rest; "accuracy" without one is that of the
                   predicted class
        """
        name, threshold, label = _name(name), _single(threshold, "threshold"), _single(label, "label")
        known = (name, _key(group), threshold, label, checked_level(level))
        if known not in self._figures:
            self._figures[known] = self._figure(name, group, threshold, label, level)
        return self._figures[known]

    def _figure(self, name: str, group: Group, threshold: float | None, label: Any, level: float) -> Estimate:
        self._require(name)
        if self.task == "regression":
            if threshold is not None or label is not None:
                raise InputError("a regression has neither a threshold nor classes.", hint="leave it out", spent="")
            return self._sums(group).figure(name, level)
        if self.task == "classes" and label is None and name == "accuracy" and threshold is None:
            return self._right(group, level)
        at = self._threshold(threshold) if name in RATES else None
        if name in SCORES and threshold is not None:
            raise InputError(f"{name} has no threshold.", hint="leave it out", spent="")
        return self.table(group, label).figure(name, at, level)

    def _require(self, name: str) -> None:
        if name in self.names:
            return
        if name == "count" and self._rows is not None:
            raise InputError(f"the number of rows is public: {self._rows}.", hint="ask for a rate", spent="")
        if self.task != "regression" and name in (*OF_PROBABILITIES, "mean_prediction"):
            low, high = self.spec.range.low, self.spec.range.high
            raise InputError(
                f"{name} is about probabilities, and this score goes from {low:g} to {high:g}.",
                hint="calibration() shows how often the target was positive at each score",
                spent="",
            )
        raise InputError(f"there is no figure {name!r}."[:200], hint="one of " + ", ".join(self.names), spent="")

    def _threshold(self, threshold: float | None) -> float:
        """The threshold as an edge or a place between edges; refused outside of the range of scores."""
        spec: Spec = self.spec
        if threshold is None:
            assert spec.threshold is not None
            return spec.edge(spec.threshold)
        low, high = spec.range.low, spec.range.high
        threshold = _single(threshold, "threshold")
        number = isinstance(threshold, int | float) and not isinstance(threshold, bool)
        if not number or not low <= threshold <= high:
            raise InputError(
                f"the threshold must lie inside the range of scores, {low:g} to {high:g}; got {threshold!r}."[:200],
                hint="a score of at least the threshold is positive",
                spent="",
            )
        return spec.edge(float(threshold))

    def _matrix(self, group: Group) -> tuple[Floats, tuple[float, ...]]:
        """The counts of (predicted class, target), and the factors of their noise."""
        entry, places = self._found(group)
        if entry is None:
            entry = min(range(len(self.spec.groups)), key=lambda h: self.spec.groups[h].size)
            places = list(range(self.spec.groups[entry].size))
        counts = self._blocks[0][entry][places, self.spec.tables_size :].sum(axis=0)
        return counts.reshape(len(self.labels), len(self.spec.values)), (1.0,) * len(places)

    def _right(self, group: Group, level: float) -> Estimate:
        """How often the predicted class is the right one."""
        counts, factors = self._matrix(group)
        right = np.zeros(counts.shape, dtype=bool)
        for place, name in enumerate(self.labels):
            right[place, self.spec.values.index(name)] = True
        total = None if group else self._rows
        inside, outside = counts[right].tolist(), counts[~right].tolist()
        return share(inside, outside, self._blocks[2], factors, level, total=total)

    def by_group(self, by: By = None, threshold: float | None = None, label: Any = None) -> pd.DataFrame:
        """A line for each group and figure: value, low, high; of all entries of groups where none is named."""
        import pandas as pd

        entries = self.by if by is None else [self.by[self._entry(by)]]
        lines = []
        for columns in entries:
            for group in self.cells_of(columns):
                for name in self._shown(label):
                    at = threshold if name in RATES else None
                    estimate = self.figure(name, group=group, threshold=at, label=label)
                    lines.append((" x ".join(columns), self.group_name(group), name, *_cells(estimate)))
        return pd.DataFrame(lines, columns=["by", "group", "figure", "value", "low", "high", "determined"])

    def _shown(self, label: Any = None) -> tuple[str, ...]:
        """The figures of a group in tables."""
        if self.task == "regression":
            return self.names
        return ("accuracy",) if self.task == "classes" and label is None else OF_GROUPS

    # Between groups ---------------------------------------------------------------------------------------------------

    def _family(self, name: str, by: By, threshold: float | None, label: Any, level: float) -> list[Figure]:
        """The figure of each group, at any level; none where fewer than two are determined. One that is not stays: such
        a group may be the largest or the smallest one, and the interval has to have room for it.
        """
        name = _name(name)
        groups = self.spec.groups[self._entry(by)].cells
        family: list[Figure] = [partial(self._at_level, name, group, threshold, label) for group in groups]
        return family if sum(figure(level).determined for figure in family) >= 2 else []

    def _at_level(self, name: str, group: Group, threshold: float | None, label: Any, level: float) -> Estimate:
        return self.figure(name, group=group, threshold=threshold, label=label, level=level)

    def spread(
        self, name: str, by: By = None, *, threshold: float | None = None, label: Any = None, level: float = LEVEL
    ) -> Estimate:
        """The largest value of a figure over the groups less the smallest one. Groups of which nothing is determined
        have no part in the value, and all of it in the interval.
        """
        return self._between(
            spread, [name], by, threshold, label, level, math.inf if self.task == "regression" else 1.0
        )

    def _between(
        self,
        compare: Any,
        names: Sequence[str],
        by: By,
        threshold: float | None,
        label: Any,
        level: float,
        highest: float = 1.0,
    ) -> Estimate:
        families = [self._family(name, by, threshold, label, level) for name in names]
        if any(len(family) < 2 for family in families):
            return Estimate(math.nan, 0.0, highest)
        found: Estimate = compare(*families, level=level)
        return found

    def demographic_parity_difference(
        self, by: By = None, *, threshold: float | None = None, label: Any = None, level: float = LEVEL
    ) -> Estimate:
        """The largest selection rate of a group less the smallest one."""
        return self._between(spread, ["selection_rate"], by, threshold, label, level)

    def demographic_parity_ratio(
        self, by: By = None, *, threshold: float | None = None, label: Any = None, level: float = LEVEL
    ) -> Estimate:
        """The smallest selection rate of a group over the largest one."""
        return self._between(smallest_ratio, ["selection_rate"], by, threshold, label, level)

    def true_positive_rate_difference(
        self, by: By = None, *, threshold: float | None = None, label: Any = None, level: float = LEVEL
    ) -> Estimate:
        """The largest true positive rate of a group less the smallest one."""
        return self._between(spread, ["true_positive_rate"], by, threshold, label, level)

    def false_positive_rate_difference(
        self, by: By = None, *, threshold: float | None = None, label: Any = None, level: float = LEVEL
    ) -> Estimate:
        """The largest false positive rate of a group less the smallest one."""
        return self._between(spread, ["false_positive_rate"], by, threshold, label, level)

    def equal_opportunity_difference(
        self, by: By = None, *, threshold: float | None = None, label: Any = None, level: float = LEVEL
    ) -> Estimate:
        """The largest true positive rate of a group less the smallest one."""
        return self._between(spread, ["true_positive_rate"], by, threshold, label, level)

    def equal_opportunity_ratio(
        self, by: By = None, *, threshold: float | None = None, label: Any = None, level: float = LEVEL
    ) -> Estimate:
        """The smallest true positive rate of a group over the largest one."""
        return self._between(smallest_ratio, ["true_positive_rate"], by, threshold, label, level)

    def equalized_odds_difference(
        self, by: By = None, *, threshold: float | None = None, label: Any = None, level: float = LEVEL
    ) -> Estimate:
        """The larger one of the differences of true and of false positive rates."""
        return self._between(spread, ["true_positive_rate", "false_positive_rate"], by, threshold, label, level)

    def equalized_odds_ratio(
        self, by: By = None, *, threshold: float | None = None, label: Any = None, level: float = LEVEL
    ) -> Estimate:
        """The smaller one of the ratios of true and of false positive rates."""
        return self._between(smallest_ratio, ["true_positive_rate", "false_positive_rate"], by, threshold, label, level)

    def four_fifths(self, by: By = None) -> Judged:
        """The ratio of demographic parity, with what the four-fifths rule makes of it."""
        found, entry = self.demographic_parity_ratio(by), self.by[self._entry(by)]
        return Judged(found.value, found.low, found.high, found.bounded, sentence=words.four_fifths(self, entry))

    # Curves -----------------------------------------------------------------------------------------------------------

    def confusion_matrix(
        self, threshold: float | None = None, group: Group = None, label: Any = None, level: float = LEVEL
    ) -> pd.DataFrame:
        """A line for each target and prediction: about how many rows, and which share of the rows with that target, low
        and high of that share. Of several classes without a label, those of all classes.
        """
        import pandas as pd

        if self.task == "classes" and label is None and threshold is None:
            lines = self._class_lines(group, level)
        else:
            counts = self.table(group, label).confusion(self._threshold(threshold), level)
            rates = ("true_negative_rate", "false_positive_rate"), ("false_negative_rate", "true_positive_rate")
            lines = [
                (
                    true,
                    predicted,
                    counts[true][predicted].value,
                    *_cells(
                        self.figure(rates[true][predicted], group=group, threshold=threshold, label=label, level=level)
                    ),
                )
                for true in (0, 1)
                for predicted in (0, 1)
            ]
        return pd.DataFrame(lines, columns=["target", "predicted", "rows", "share", "low", "high", "determined"])

    def _class_lines(self, group: Group, level: float) -> list[tuple[Any, ...]]:
        counts, factors = self._matrix(group)
        lines = []
        for column, true in enumerate(self.spec.values):
            for line, predicted in enumerate(self.labels):
                others = np.delete(counts[:, column], line).tolist()
                estimate = share([float(counts[line, column])], others, self._blocks[2], factors, level)
                lines.append((true, predicted, float(counts[line, column]), *_cells(estimate)))
        return lines

    def roc(self, group: Group = None, label: Any = None, level: float = LEVEL) -> pd.DataFrame:
        """The rates at each edge of the score cells; low and high are those of the true positive rate."""
        import pandas as pd

        thresholds, false, true = self.table(group, label).roc(level)
        shown = thresholds + 0.5 if self.spec.whole_scores else thresholds
        return pd.DataFrame(
            {
                "threshold": shown,
                "false_positive_rate": [one.value for one in false],
                "true_positive_rate": [one.value for one in true],
                "low": [one.low for one in true],
                "high": [one.high for one in true],
                "false_positive_low": [one.low for one in false],
                "false_positive_high": [one.high for one in false],
                "determined": [a.determined and b.determined for a, b in zip(false, true, strict=True)],
            }
        )

    def calibration(self, group: Group = None, label: Any = None, level: float = LEVEL) -> pd.DataFrame:
        """How often the target is positive where the score lies in each cell."""
        table = self.table(group, label)
        return self._by_cell(table.calibration(level), table.rows(level))

    def residuals(self, level: float = LEVEL) -> pd.DataFrame:
        """The mean residual (target less prediction) where predictions lie in each cell, of everybody."""
        if self.task != "regression":
            raise InputError("residuals are those of a regression.", hint="calibration() is about classes", spent="")
        _, cells, noise = self._blocks
        each = []
        for count, above, below in cells.reshape(-1, len(CELL_SUMS)):
            each.append(self._residual_sums(np.array([count, above, below, 0, 0, 0]), noise, 1, everybody=False))
        return self._by_cell(
            [one.figure("mean_residual", level) for one in each], [one.figure("count", level) for one in each]
        )

    def _by_cell(self, values: Sequence[Estimate], rows: Sequence[Estimate]) -> pd.DataFrame:
        import pandas as pd

        edges = np.clip(np.asarray(self.spec.edges), *self._ends)
        lines = [_cells(estimate) for estimate in values]
        frame = pd.DataFrame(
            {"low_score": edges[:-1], "high_score": edges[1:], "mean_score": (edges[:-1] + edges[1:]) / 2}
        )
        if self.spec.exact:
            frame["mean_score"] = np.asarray(self.spec.edges[:-1]) + 0.5
        for place, name in enumerate(("value", "low", "high", "determined")):
            frame[name] = [line[place] for line in lines]
        frame.insert(6, "rows", [one.value for one in rows])
        return frame

    @property
    def _ends(self) -> tuple[float, float]:
        return self.spec.range.low, self.spec.range.high

    # A result like others ---------------------------------------------------------------------------------------------

    def _lines_at(self, level: float) -> list[tuple[str, str, Estimate]]:
        """Group, figure, estimate: for everybody, for each class, and for each group."""
        ask = partial(self.figure, level=level)
        if self.task == "classes":
            lines = [("everybody", "accuracy", ask("accuracy"))]
            names = [name for name in self.names if name != "count"]
            lines += [
                (f"{c} or not", name, ask(name, threshold=self.threshold if name in RATES else None, label=c))
                for c in self.labels
                for name in names
            ]
        else:
            lines = [("everybody", name, ask(name)) for name in self.names]
        for columns in self.by:
            for group in self.cells_of(columns):
                lines += [(self.group_name(group), name, ask(name, group=group)) for name in self._shown()]
        return lines

    @cached_property
    def _lines(self) -> list[tuple[str, str, Estimate]]:
        return self._lines_at(LEVEL)

    @cached_property
    def values(self) -> Floats:
        return np.array([_finite(estimate) for _, _, estimate in self._lines])

    def interval(self, level: float = LEVEL) -> tuple[Floats, Floats]:
        """(low, high) around each figure of these rows."""
        lines = self._lines if level == LEVEL else self._lines_at(level)
        return np.array([e.low for _, _, e in lines]), np.array([e.high for _, _, e in lines])

    def determined(self, level: float = LEVEL) -> NDArray[np.bool_]:
        lines = self._lines if level == LEVEL else self._lines_at(level)
        return np.array([estimate.determined for _, _, estimate in lines])

    @property
    def doubt(self) -> str:
        known = self.determined()
        if known.all():
            return ""
        if not known.any():
            return "Nothing of this is determined with this epsilon."
        some = f"{(~known).sum()} of {len(known)} figures are not"
        return f"{some} determined with this epsilon: their groups are too small."

    def to_frame(self) -> pd.DataFrame:
        import pandas as pd

        lines = [(group, name, *_cells(estimate)) for group, name, estimate in self._lines]
        return pd.DataFrame(lines, columns=["group", "figure", "value", "low", "high", "determined"])

    def view(self) -> JsonObject:
        return {}

    @classmethod
    def rebuild(cls, receipt: Receipt, released: JsonObject, view: JsonObject) -> Performance:  # noqa: ARG003 - no settings
        found = cls(receipt, released)
        found.spec.check()
        if len(found.part("sums" if found.task == "regression" else "counts")[0]) != found.spec.size:
            raise ValueError("the cells do not fit the released values")
        if found.spec.decisions_share and len(found.part("decisions")[0]) != found.spec.decisions_size:
            raise ValueError("the decisions do not fit the released values")
        return found


def _cells(estimate: Estimate) -> tuple[float, float, float, bool]:
    """Value, low, high, determined; no value where nothing is."""
    known = bool(estimate.determined)
    return (estimate.value if known else math.nan), estimate.low, estimate.high, known


def _finite(estimate: Estimate) -> float:
    """The value; where nothing is determined, the middle of what is possible, or zero."""
    if estimate.determined and math.isfinite(estimate.value):
        return float(estimate.value)
    middle = (estimate.low + estimate.high) / 2
    return float(middle) if math.isfinite(middle) else 0.0


def _name(name: Any) -> str:
    """The name of a figure as it is known here; what there is no figure of is refused later."""
    if not isinstance(name, str):
        raise InputError("the name of a figure is a word.", hint='figure("accuracy"); names has all of them', spent="")
    return SAME.get(name, name)


def _single(value: Any, what: str) -> Any:
    """One plain value, or None."""
    value = value.item() if isinstance(value, np.generic) else value
    if value is None or isinstance(value, str | int | float):
        return value
    said = f"a {what} is a single value; got {type(value).__name__}."
    raise InputError(said, hint=f"ask once for each {what}", spent="")


def _key(group: Group) -> Any:
    if not isinstance(group, Mapping):
        return None if group is None else repr(group)
    return tuple(sorted((str(name), repr(value)) for name, value in group.items()))


def _value_words(column: str, value: Any) -> str:
    if isinstance(value, tuple | list):
        return f"{column} {value[0]:g} to {value[1]:g}"
    if value is None:
        return f"{column} missing"
    return str(value) if isinstance(value, str) else f"{column} {value:g}"
