"""A report for one person: what moved the model's decision, and what is only associated with such decisions.

Two things are told side by side, and often disagree. The *influence* of a value is what the model does with it: it is
computed by asking the model again with other values. The *association* is what happens to people who have the value: it
can be strong for a column that the model never sees. Everything here follows from released integers and public answers.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar

import numpy as np
from numpy.typing import NDArray
from scipy.special import xlogy

from dpexplain.columns import labels
from dpexplain.core.canonical import JsonObject
from dpexplain.core.noise import checked_level
from dpexplain.maths.grids import Partition
from dpexplain.methods.influence.person import Amounts, Answer, PersonInfluence, shown_value
from dpexplain.methods.marginals.result import Marginals
from dpexplain.methods.result import Floats, Result, Results
from dpexplain.methods.transparency.spec import Spec
from dpexplain.receipts import Receipt

if TYPE_CHECKING:
    import pandas as pd

SURE_COUNT = 10.0  # cells are joined for mutual information until their count stands so many deviations above noise
ABOUT_ZERO = 0.02  # of the range of outcomes: an influence below it is none worth speaking of
WEAK = 0.05  # a correlation below it is none worth speaking of, however exactly it is known
MEASURES = {
    "mutual_information": "mutual information (nats)",
    "jaccard": "Jaccard index",
    "correlation": "correlation",
    "disparate_impact": "disparate impact ratio",
}
Cells = NDArray[np.bool_]
TINY = 1e-12
MOST_INFORMATION = math.log(2)  # of two outcomes


@dataclass(frozen=True)
class Estimate:
    """A number and its interval."""

    value: float
    low: float
    high: float

    @property
    def sure(self) -> bool:
        """Whether the interval excludes zero."""
        return self.low > 0 or self.high < 0


@dataclass(frozen=True)
class Association:
    """How often the outcome is positive among the people who have a value, and among the others (Table II).

    Of a score between `low` and `high` the outcome counts as positive by that part: the measures are those of a
    decision that is drawn with the score as its chance.
    """

    feature: str
    condition: str  # who has the value, in words
    share: Estimate  # of the people, who have it
    with_it: Estimate  # share of positive outcomes among them
    without: Estimate  # and among the others
    mutual_information: Estimate  # of the whole feature with the outcome
    jaccard: Estimate
    correlation: Estimate
    disparate_impact: Estimate

    @property
    def clear(self) -> bool:
        """Whether the two groups differ by more than the noise."""
        return self.correlation.sure


@dataclass(frozen=True)
class TransparencyReport(PersonInfluence):
    """The report on one person: influences, in the order of `features`, and associations beside them."""

    earlier: Marginals | None = field(default=None, repr=False)  # where the counts were released before

    kind: ClassVar[str] = "transparency-report"
    spec_type: ClassVar[type[Spec]] = Spec  # read only where outcomes were paid for
    text_view: ClassVar[str] = "dpexplain.render.transparency:report_view"

    @property
    def interval_about(self) -> str:
        return self.influence.interval_about

    @property
    def caveat(self) -> str:
        return self.influence.caveat

    @property
    def picture_size(self) -> tuple[float, float]:
        return self.influence.picture_size

    @property
    def relies_on(self) -> list[Result]:
        return [] if self.earlier is None else [self.earlier]

    @cached_property
    def marginals(self) -> Marginals:
        """The released histograms behind it, for reuse."""
        return Marginals(self.receipt, self.released) if self.earlier is None else self.earlier

    @property
    def influence(self) -> PersonInfluence:
        """The influences by themselves, without associations."""
        return PersonInfluence(self.marginals.receipt, self.marginals.released, self.answer)

    @property
    def features(self) -> list[str]:
        return self.items

    @property
    def start(self) -> float | None:
        """The mean outcome with all of the model's inputs replaced, from which Shapley values lead to the person's."""
        if self.aggregate != "shapley" or self.quantity != "individual":
            return None
        all_replaced = set(self.answer.model["features"]) <= set(self.features)
        return self.outcome - float(self.values.sum()) if all_replaced else None

    # Associations -----------------------------------------------------------------------------------------------------

    @cached_property
    def associations(self) -> list[Association]:
        """One for each feature whose cells can be cut at the person's value; none where no outcomes were paid for."""
        return self.associated()

    def associated(self, level: float = 0.95) -> list[Association]:
        """The associations with intervals at another level. Each interval covers by itself."""
        if "outcomes" not in self.released["parts"] or not self._of_this_model:
            return []
        found = (self._association(partition, checked_level(level)) for partition in self.spec.partitions)
        return [association for association in found if association is not None]

    @property
    def _of_this_model(self) -> bool:
        """Whether the released outcomes are those of the model, and of the decision, that the report is about: a free
        report may stand on marginals that were released with the outcomes of another one.
        """
        paid, own = self.receipt.request["model"], self.answer.model
        same = all(paid[key] == own[key] for key in paid if key != "features")
        return same and self.spec.outcome == self.answer.question.outcome

    @cached_property
    def _outcomes(self) -> Amounts:
        return Amounts.of(self, "outcomes", self.spec.partitions, None)

    def _association(self, partition: Partition, level: float) -> Association | None:
        having, condition = self._having(partition)
        if having.all() or not having.any():
            return None
        each = 1 - (1 - level) / 5  # two counts, two sums of outcomes and the share may each be wrong
        inside, outside = self._rate(partition, having, each), self._rate(partition, ~having, each)
        share = self._share(partition, having, each)
        measures = {
            name: _over_box(measure, inside, outside, share)
            for name, measure in (("jaccard", _jaccard), ("correlation", _correlation), ("disparate_impact", _ratio))
        }
        information = self._information(partition, level)
        return Association(partition.feature, condition, share, inside, outside, information, **measures)

    def _having(self, partition: Partition) -> tuple[Cells, str]:
        """The cells of the people who "have this person's value", and who they are in words.

        A category; or, up to the public cells, a number at least as large if more people are below the person's cell
        than above it, and at most as large otherwise.
        """
        value, name = self.record[partition.feature], partition.feature

        def words(value: Any) -> str:
            return shown_value(*labels(self.receipt.domain, name, [value]))

        cells = np.arange(partition.size)
        if partition.edges is None:
            return cells == partition.labels.index(value), f"{name} is {words(value)}"
        if value is None:
            return cells == partition.size - 1, f"{name} is missing"
        numbers = cells < partition.size - partition.missing
        own, whole = int(partition.place(np.array([float(value)]))[0]), isinstance(value, int)
        shares = self.marginals.shares(name)
        if own > 0 and shares[:own].sum() >= shares[numbers][own + 1 :].sum():
            start = partition.edges[own]
            return numbers & (cells >= own), f"{name} is at least {words(math.ceil(start) if whole else start)}"
        end = partition.edges[own + 1]
        word = f"at most {words(math.floor(end))}" if whole else f"below {words(end)}"
        return cells <= own, f"{name} is {word}"

    def _rate(self, partition: Partition, cells: Cells, level: float) -> Estimate:
        """The share of positive outcomes among the rows in `cells`: one half and the centred outcomes by rows."""
        weights, K = {partition.feature: cells.astype(np.float64)}, self.spec.outcome.range.levels
        rows, by_row = self._counts.line(weights)
        centred, by_outcome = self._outcomes.line(weights)
        reach = self._outcomes.halfwidth(by_outcome, level)
        few = rows - self._counts.halfwidth(by_row, level)
        many = rows + self._counts.halfwidth(by_row, level)
        if few <= 0:
            return Estimate(_unit(0.5 + centred / (K * max(rows, 1.0))), 0.0, 1.0)
        ends = []
        for sign in (-1, 1):
            edge = (centred + sign * reach) / K
            ends.append(_unit(0.5 + edge / (few if sign * edge > 0 else many)))  # extreme at the smaller count
        return Estimate(_unit(0.5 + centred / (K * rows)), ends[0], ends[1])

    def _share(self, partition: Partition, cells: Cells, level: float) -> Estimate:
        value, coefficients = self._counts.mean({partition.feature: cells.astype(np.float64)})
        half = self._counts.halfwidth(coefficients, level)
        return Estimate(_unit(value), _unit(value - half), _unit(value + half))

    def _information(self, partition: Partition, level: float) -> Estimate:
        """Mutual information of the feature and the outcome, cells with few rows joined to their neighbours."""
        groups = self._groups(partition)
        each = 1 - (1 - level) / (3 * len(groups))  # two counts and one sum of outcomes of each
        rates = [self._rate(partition, cells, each) for cells in groups]
        return information(rates, [self._share(partition, cells, each) for cells in groups])

    def _groups(self, partition: Partition) -> list[Cells]:
        """Runs of cells with enough rows each to be told from noise."""
        cells, ends = np.arange(partition.size), [0]
        for end in cells + 1:
            if self._told(partition, (cells >= ends[-1]) & (cells < end)):
                ends.append(int(end))
        ends = [*ends[:-1], partition.size] if len(ends) > 1 else [0, partition.size]  # the last run takes what is left
        return [(cells >= start) & (cells < end) for start, end in itertools.pairwise(ends)]

    def _told(self, partition: Partition, cells: Cells) -> bool:
        rows, coefficients = self._counts.line({partition.feature: cells.astype(np.float64)})
        return bool(rows >= SURE_COUNT * self._counts.noise.std * np.linalg.norm(coefficients))

    # Words ------------------------------------------------------------------------------------------------------------

    @property
    def title(self) -> str:
        return "Transparency report"

    @cached_property
    def only_associated(self) -> list[str]:
        """Features that go along with the outcome, but that the model made nothing of for this person, in words; first
        those that it never looks at, and stronger associations before weaker ones.
        """
        found = []
        for association, low, high in self._side_by_side:
            if -self._small <= low <= 0 <= high <= self._small:
                unused = association.feature not in self.answer.model["features"]
                why = "Yet the model takes no account of it" if unused else "Yet for this person it made no difference"
                found.append((not unused, f"{self._rates(association)}. {why}."))
        return [words for _, words in sorted(found, key=lambda finding: finding[0])]

    @cached_property
    def unlike_others(self) -> list[str]:
        """Features that moved this person's outcome against what their association would make one think, in words."""
        found = []
        for association, low, high in self._side_by_side:
            against = high < -self._small if association.correlation.value > 0 else low > self._small
            if self.quantity == "individual" and against:
                verb = "raises" if low > 0 else "lowers"
                found.append(f"{self._rates(association)}. Yet for this person it {verb} {self.words.goal}.")
        return found

    @property
    def _small(self) -> float:
        return ABOUT_ZERO * self.output.width

    @cached_property
    def _side_by_side(self) -> list[tuple[Association, float, float]]:
        """Clear associations, the strongest first, and the interval of the influence of each of their features."""
        low, high = self.interval()
        places = {feature: i for i, feature in enumerate(self.features)}
        clear = [a for a in self.associations if a.clear and abs(a.correlation.value) >= WEAK]
        clear.sort(key=lambda a: -abs(a.correlation.value))
        return [(a, float(low[places[a.feature]]), float(high[places[a.feature]])) for a in clear]

    def _rates(self, association: Association) -> str:
        words, inside, outside = self.words, association.with_it, association.without
        rates = f"Where {association.condition}, {words.people((inside.low, inside.high))}"
        return f"{rates}; elsewhere, {words.people((outside.low, outside.high))}"

    # Tables, pictures, pages ------------------------------------------------------------------------------------------

    def to_frame(self) -> pd.DataFrame:
        """One line for each feature: the person's value, the influence, and the association measures."""
        import pandas as pd

        frame = super().to_frame()
        by_feature = {association.feature: association for association in self.associations}
        if by_feature:
            for name in ("with_it", "without", *MEASURES):
                column = [getattr(by_feature[f], name).value if f in by_feature else math.nan for f in frame["item"]]
                frame[name] = pd.array(column, dtype="Float64")
        return frame

    def text(self) -> str:
        """The report for a terminal or a letter."""
        from dpexplain.render.transparency import report_text

        return report_text(self)

    def to_html(self, path: str | Path | None = None) -> str:
        """One self-contained page, also written to `path` if one is given."""
        from dpexplain.render.transparency import report_page

        page = report_page(self)
        if path is not None:
            Path(path).write_text(page, encoding="utf-8")
        return page

    def _repr_html_(self) -> str:
        from dpexplain.render.transparency import report_card

        return report_card(self)

    # Files ------------------------------------------------------------------------------------------------------------

    def view(self) -> JsonObject:
        earlier = self.earlier
        known = None if earlier is None else {"receipt": earlier.receipt.to_json(), "released": earlier.released}
        return {"person": self.answer.to_json(), "marginals": known}

    @classmethod
    def rebuild(cls, receipt: Receipt, released: JsonObject, view: JsonObject) -> TransparencyReport:
        known, earlier = view["marginals"], None
        if known is not None:
            earlier = Marginals.rebuild(Receipt.from_json(known["receipt"]), known["released"], {})
        report = cls(receipt, released, Answer.from_json(view["person"]), earlier)
        if earlier is not None:
            if earlier.receipt.request["table"] != receipt.request["table"]:
                raise ValueError("the histograms of another table")
            if earlier.receipt.entry.payload_hash != report.spec.marginals:
                raise ValueError("other histograms than those that were used")
        report.check()
        said = {*report.only_associated, *report.unlike_others}
        if len(said) > len(report.features) or not report.headline or not report.sentences():
            raise ValueError("no report of ours")
        return report


class TransparencyReports(Results[TransparencyReport]):
    """Reports on several persons: one release, one cost, one receipt."""

    def to_frame(self) -> pd.DataFrame:
        """One table: the number of the person, counted from zero, and the lines of each report."""
        import pandas as pd

        frames = [report.to_frame() for report in self]
        for person, frame in enumerate(frames):
            frame.insert(0, "person", person)
        return pd.concat(frames, ignore_index=True)

    def to_html(self, folder: str | Path) -> list[Path]:
        """One page for each person, with nobody else on it, to hand over. An earlier page of the same report is written
        again; one of another report stays, and the new page takes the next free name.
        """
        from dpexplain.render.files import write_page

        Path(folder).mkdir(parents=True, exist_ok=True)
        return [
            write_page(report.to_html(), [report], Path(folder), f"transparency-person-{number}")
            for number, report in enumerate(self, 1)
        ]

    def __repr__(self) -> str:
        return f"TransparencyReports({len(self)} persons)"


# Measures of a table of two by two: rate with the value, rate without it, share of those who have it ------------------

Measure = Callable[[float, float, float], float]


def _over_box(measure: Measure, inside: Estimate, outside: Estimate, share: Estimate) -> Estimate:
    """The measure, and its least and largest value over the intervals of what it is made of.

    All three rise or fall with each of the rates. In the share they do so too, but for the correlation, whose square is
    1 / (1 + (A / (1 - q) + B / q) / d^2), with A and B the variances of the two rates and d their difference: it is
    largest where q / (1 - q) = sqrt(B / A).
    """
    found = []
    for a, b in itertools.product((inside.low, inside.high), (outside.low, outside.high)):
        spread, other = math.sqrt(a * (1 - a)), math.sqrt(b * (1 - b))
        peak = other / (spread + other) if spread + other > 0 else 0.5
        found += [measure(a, b, q) for q in (share.low, share.high, min(max(peak, share.low), share.high))]
    return Estimate(measure(inside.value, outside.value, share.value), min(found), max(found))


def _jaccard(inside: float, outside: float, share: float) -> float:
    """Of having the value and having a positive outcome."""
    either = share + (1 - share) * outside
    return share * inside / either if either > 0 else 0.0


def _correlation(inside: float, outside: float, share: float) -> float:
    gap, share = inside - outside, min(max(share, TINY), 1 - TINY)
    if gap == 0:
        return 0.0
    spread = inside * (1 - inside) / (1 - share) + outside * (1 - outside) / share
    return math.copysign(1 / math.sqrt(1 + min(spread / gap / gap, 1 / TINY)), gap)


def _ratio(inside: float, outside: float, share: float) -> float:  # noqa: ARG001 - one signature for all measures
    """Positive outcomes with the value by those without it; the share of people does not matter."""
    return inside / outside if outside > 0 else math.inf if inside > 0 else 1.0


def information(rates: Sequence[Estimate], shares: Sequence[Estimate]) -> Estimate:
    """Mutual information of a partition with two outcomes, from the rate and the share of each part, in nats.

    With q the shares and p the rates it is the least over r of sum q kl(p, r), taken at the mean rate. So any r gives
    an upper bound, with the ends of p farthest from it; the nearest ones, minimised over r, give a lower bound.
    """
    from scipy.optimize import minimize_scalar

    p, low, high = (np.array([getattr(rate, name) for rate in rates]) for name in ("value", "low", "high"))
    least, most = np.array([share.low for share in shares]), np.array([share.high for share in shares])
    q = np.array([share.value for share in shares])
    q = q / q.sum() if q.sum() > 0 else np.full(len(q), 1 / len(q))
    middle = float(q @ p)
    value = max(float(q @ _kl(p, middle)), 0.0)
    above = float(most @ np.maximum(_kl(low, middle), _kl(high, middle)))
    nearest = minimize_scalar(
        lambda r: float(least @ _kl(np.clip(r, low, high), r)), bounds=(0, 1), options={"xatol": 1e-10}
    )  # convex in r
    return Estimate(value, min(max(nearest.fun, 0.0), value), max(min(above, MOST_INFORMATION), value))


def _kl(p: Floats, r: float) -> Floats:
    """What a coin of probability p tells against one of probability r, in nats."""
    r = min(max(r, TINY), 1 - TINY)
    return np.asarray(xlogy(p, p / r) + xlogy(1 - p, (1 - p) / (1 - r)))


def _unit(number: float) -> float:
    return min(max(number, 0.0), 1.0)
