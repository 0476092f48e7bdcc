"""One model on two versions of a table: how curves, importances and rates differ between them.

The same person may be in both versions, so what both releases tell about this person adds up: both are charged to the
one account that all versions of a table share, each for half of the cost. Nothing is saved by comparing them, and
nothing is lost: the noise of both is independent, and the interval is that of the difference.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, ClassVar, Self

import numpy as np
from numpy.typing import NDArray

from dpexplain.core.budget import Cost
from dpexplain.core.canonical import JsonObject, digest
from dpexplain.core.noise import checked_level
from dpexplain.data.table import PrivateTable
from dpexplain.errors import BudgetError, InputError
from dpexplain.maths.estimates import Estimate, Figure, difference
from dpexplain.maths.tails import combined_halfwidth
from dpexplain.methods.batches.part import Part
from dpexplain.methods.compare.request import Compare
from dpexplain.methods.compare.result import group_words
from dpexplain.methods.curves import Curve, MeanCurve
from dpexplain.methods.partial_dependence import release as dependence
from dpexplain.methods.partial_dependence.request import PartialDependence
from dpexplain.methods.performance import release as performance
from dpexplain.methods.performance.request import PerformanceRequest
from dpexplain.methods.performance.result import OF_GROUPS, Group, Performance
from dpexplain.methods.permutation_importance import release as importance
from dpexplain.methods.rankings import Ranking
from dpexplain.methods.result import Floats, Result, from_json
from dpexplain.methods.setting import LEVEL, Setting
from dpexplain.methods.sharpening import entries_of
from dpexplain.models import Model
from dpexplain.receipts import Receipt

if TYPE_CHECKING:
    import pandas as pd

ASKED = {  # of all kinds of specs
    *("views", "output", "rug"),
    *("features", "target", "target_values", "loss"),
    *("task", "truth", "positive", "score", "range", "threshold", "groups"),
}


@dataclass(frozen=True)
class VersionDifference(Result):
    """A result about a later version of a table less the same one about an earlier version."""

    before: Result
    after: Result

    kind: ClassVar[str] = "version-difference"
    lines_shown: ClassVar[int] = 40

    def __post_init__(self) -> None:
        """The promise is that of both releases: the cost of the earlier version, and whatever either one rests on,
        stands beside that of the later one.
        """
        earlier = [*entries_of(self.before.receipt), *self.before.receipt.also, *self.after.receipt.also]
        object.__setattr__(self, "receipt", replace(self.receipt, also=tuple(earlier)))

    @property
    def title(self) -> str:
        if self._rates:
            return f"Change of {self.after.receipt.label}"
        return f"Change of {self.after.title[:1].lower()}{self.after.title[1:]}"

    @property
    def versions(self) -> tuple[str, str]:
        """The versions of the table: the earlier, the later."""
        first, second = (str(one.receipt.request["table"]["version"]) for one in (self.before, self.after))
        return first, second

    @property
    def caveat(self) -> str:
        first, second = self.versions
        if self._rates:
            return (
                f"Shown is version {second} less version {first}, for decisions from {self.after.spec.threshold:.4g} "
                "on. Intervals are of each change by itself, and about these rows: they leave out sampling."
            )
        own = "" if self._exact else " Intervals join those of both versions, and are wider than they need to be."
        own += f" Of each version: {self.after.caveat}" if self.after.caveat else ""
        return f"Shown is version {second} less version {first}.{own}"

    @property
    def relies_on(self) -> list[Result]:
        return [self.before, self.after]

    def may_rely_on(self, other: Result) -> bool:
        """Both are of one account, of the same declared columns and people protected alike, and ask the same of the
        same model; a file that puts other things together was altered.
        """
        mine, theirs = (one.receipt for one in (self, other))
        tables = [dict(one.request["table"]) for one in (mine, theirs)]
        same = all(tables[0].get(name) == tables[1].get(name) for name in ("name", "domain", "neighbours", "line"))
        return same and mine.label == theirs.label and _question(mine) == _question(theirs)

    @property
    def values(self) -> Floats:
        """Of rates that are not determined, the middle of what is possible."""
        if self._rates:
            return np.array([e.value if e.determined else (e.low + e.high) / 2 for e in self._changes(LEVEL)])
        return _values(self.after) - _values(self.before)

    @property
    def possible(self) -> tuple[float, float] | None:
        if self._rates:
            return -1.0, 1.0
        ranges = [one.possible for one in (self.before, self.after)]
        if ranges[0] is None or ranges[1] is None:
            return None
        return ranges[1][0] - ranges[0][1], ranges[1][1] - ranges[0][0]

    @property
    def _rates(self) -> bool:
        return isinstance(self.after, Performance)

    def _changes(self, level: float) -> list[Estimate]:
        """For each group and figure, what was released of the later version less that of the earlier one."""
        pairs = zip(_figures(self.after), _figures(self.before), strict=True)
        return [difference(later, earlier, level) for later, earlier in pairs]

    def determined(self, level: float = LEVEL) -> NDArray[np.bool_]:
        """A change of a rate is determined where the rate is, in both versions."""
        if self._rates:
            return np.array([change.determined for change in self._changes(level)])
        return super().determined(level)

    @property
    def doubt(self) -> str:
        known = self.determined()
        if not self._rates or known.all():
            return super().doubt
        if not known.any():
            return "No change is determined with this epsilon."
        some = f"{(~known).sum()} of {len(known)} changes are not"
        return f"{some} determined with this epsilon: their groups are too small."

    @property
    def _exact(self) -> bool:
        """Whether the law of the difference is known: of means over public numbers of rows."""
        each = (self.before, self.after)
        return all(isinstance(one, MeanCurve) and not one.spec.count_weight for one in each)

    def interval(self, level: float = LEVEL) -> tuple[Floats, Floats]:
        """(low, high) around the exact differences. Of rates, that of two figures with independent noise
        (`maths.estimates.difference`). Else, where the number of rows is public, by the law of the sum of both noises;
        where it is not, both intervals are taken such that they miss together as often as the level says.
        """
        checked_level(level)
        if self._rates:
            changes = self._changes(level)
            return np.array([change.low for change in changes]), np.array([change.high for change in changes])
        lowest, highest = self.possible or (-np.inf, np.inf)
        if self._exact:
            terms = [(one.part("curve")[1], [_unit(one)]) for one in (self.before, self.after)]
            half = combined_halfwidth(terms, 0.0, level)
            middle = _unclipped(self.after) - _unclipped(self.before)
            return np.clip(middle - half, lowest, highest), np.clip(middle + half, lowest, highest)
        each = (1 + level) / 2
        (low, high), (low_2, high_2) = (_interval(one, each) for one in (self.before, self.after))
        return np.clip(low_2 - high, lowest, highest), np.clip(high_2 - low, lowest, highest)

    def to_frame(self) -> pd.DataFrame:
        import pandas as pd

        low, high = self.interval()
        known = self.determined()
        values = np.where(known, self.values, np.nan) if self._rates else self.values
        columns = {"difference": values, "low": low, "high": high, "determined": known}
        return pd.DataFrame({"where": _where(self.after), **columns})

    def view(self) -> JsonObject:
        return {"before": json.loads(self.before.to_json()), "after": json.loads(self.after.to_json())}

    @classmethod
    def rebuild(cls, receipt: Receipt, released: JsonObject, view: JsonObject) -> Self:
        before, after = (from_json(json.dumps(view[name])) for name in ("before", "after"))
        kinds = Curve | Ranking | Performance
        if type(before) is not type(after) or not isinstance(before, kinds) or not isinstance(after, kinds):
            raise ValueError("no two results that can be compared")
        found = cls(receipt, released, before, after)
        if after.receipt != receipt or after.released != released or _where(before) != _where(after):
            raise ValueError("the two results do not fit")
        found.interval()
        return found


def _question(receipt: Receipt) -> JsonObject:
    """What was asked of which model, without what follows from the number of rows and the cost."""
    spec = {name: value for name, value in receipt.request["spec"].items() if name in ASKED}
    return {"explainer": receipt.request["explainer"], "model": receipt.request.get("model"), "spec": spec}


def _values(one: Result) -> Floats:
    if isinstance(one, Ranking):
        return one.scores
    assert isinstance(one, Curve)
    return one.raw


def _interval(one: Result, level: float) -> tuple[Floats, Floats]:
    if isinstance(one, Ranking):
        return one.score_interval(level)
    assert isinstance(one, Curve)
    return one.proven_interval(level)


def _where(one: Result) -> list[str]:
    """The points of a curve, the items of a ranking in their public order, or the figures of a performance."""
    if isinstance(one, Ranking):
        return list(one.candidates)
    if isinstance(one, Performance):
        called = {name: name.replace("_", " ") for name in OF_GROUPS} | {"auc": "AUC"}
        return [f"{called[name]}, {group_words(group)}" for group, name in _lines(one)]
    assert isinstance(one, Curve)
    frame = one.to_frame()
    return [", ".join(map(str, line)) for line in frame.iloc[:, : len(one.axes)].to_numpy().tolist()]


def _lines(one: Performance) -> list[tuple[Group, str]]:
    """Which figures are compared, all of them shares: those that a performance shows of groups."""
    if one.task != "binary":
        raise ValueError("no rates of something that happens or does not")
    groups: list[Group] = [None, *(group for columns in one.by for group in one.cells_of(columns))]
    return [(group, name) for group in groups for name in OF_GROUPS]


def _figures(one: Result) -> list[Figure]:
    assert isinstance(one, Performance)

    def figure(group: Group, name: str) -> Figure:
        return lambda level: one.figure(name, group=group, level=level)

    return [figure(*line) for line in _lines(one)]


def _unit(one: Result) -> float:
    """How much one unit of noise is of a mean."""
    assert isinstance(one, MeanCurve)
    return one.output.width / (one.output.levels * one.rows_counted)


def _unclipped(one: Result) -> Floats:
    assert isinstance(one, MeanCurve)
    return one._means.unclipped


def between_versions(
    before: PrivateTable, after: PrivateTable, model: Model, request: Compare, each: Cost
) -> VersionDifference:
    """Release the request about both versions, each for the cost `each`."""
    same = before.name == after.name and before.ledger.statement(before.name) == after.ledger.statement(after.name)
    if not same or before.neighbours != after.neighbours or before.domain.digest != after.domain.digest:
        raise InputError(
            "these are not two versions of one table: account, declared domain, relation and unit must be the same.",
            hint="tables of the same people share the name, and differ in version=",
        )
    if before.version == after.version:
        raise InputError("both tables have the same version.", hint='version="2025" and version="2026"')
    asked = request.request
    if isinstance(asked, PartialDependence):
        if not asked.single:
            raise InputError("one curve at a time is compared between versions.", hint='feature="age"')
        asked = _on_one_grid(before, after, model, asked, each)
    _require_price([(table, Part(0, asked, model, each)) for table in (before, after)])
    if isinstance(asked, PartialDependence):
        curves = [dependence.explain(table, model, asked, cost=each)[0] for table in (before, after)]
        return VersionDifference(curves[1].receipt, curves[1].released, *curves)
    if isinstance(asked, PerformanceRequest):
        rates = [performance.explain(table, model, asked, cost=each) for table in (before, after)]
        return VersionDifference(rates[1].receipt, rates[1].released, *rates)
    found = [importance.explain(table, model, asked, cost=each) for table in (before, after)]
    return VersionDifference(found[1].receipt, found[1].released, *found)


def _require_price(parts: Sequence[tuple[PrivateTable, Part]]) -> None:
    """Refuse a cost that is not left, before half of it is spent. What was released before is free."""
    asked = [(table, part.cost, digest(part.wanted(table, {}).request)) for table, part in parts]
    unpaid = [(table, cost) for table, cost, request_id in asked if table.door.account.find(request_id) is None]
    people = {table.analyst for table, _ in unpaid}
    for who in [None, *(people - {None})]:  # all together, then each analyst by the limit of this name
        costs = [cost for table, cost in unpaid if who in (None, table.analyst)]
        if not costs:
            continue
        table, total = unpaid[0][0], costs[0] * len(costs)
        left = _left(table, who)
        if not total <= left:
            budget, whose = table.budget, "" if who is None else f' for analyst "{who}"'
            together = "both versions together cost" if len(costs) == len(parts) else "this version costs"
            raise BudgetError(
                f"{together} {budget.describe(total)}; left{whose} is {budget.describe(left)}.",
                hint="use a smaller epsilon",
            )


def _left(table: PrivateTable, analyst: str | None) -> Cost:
    """What is left in the account, or within the limit of an analyst."""
    statement = table.ledger.statement(table.name)
    line = next((one for one in statement.analysts if one.analyst == analyst), None)
    if line is None or line.limit is None:
        return statement.left
    return line.limit - line.spent if line.spent <= line.limit else line.limit * 0


def _on_one_grid(
    before: PrivateTable, after: PrivateTable, model: Model, asked: PartialDependence, cost: Cost
) -> PartialDependence:
    """The request with the points that the coarser of both grids has, and the released values as they are."""
    specs = [dependence.resolve(asked, Setting.of(table, model), cost) for table in (before, after)]
    axes = min(specs, key=lambda spec: spec.points).views[0]
    points = {axis.feature: [float(x) for x in axis.numbers] for axis in axes if axis.ordered}
    return asked.but(grid=points or None, rug=False, smooth=False)
