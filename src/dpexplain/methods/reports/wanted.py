"""What a report asks for: a request of a batch for each of its sections, and what it leaves out and why."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from dpexplain.core.domain import Categorical, Domain
from dpexplain.errors import InputError
from dpexplain.methods.clusters.request import Clusters
from dpexplain.methods.influence.request import InfluenceRequest
from dpexplain.methods.interaction_ranking.request import InteractionRanking
from dpexplain.methods.marginals.request import MarginalsRequest
from dpexplain.methods.partial_dependence.request import PartialDependence
from dpexplain.methods.performance.request import PerformanceRequest
from dpexplain.methods.permutation_importance.request import PermutationImportance
from dpexplain.methods.reports.choice import Movement, largest_importance, movement
from dpexplain.methods.reports.request import ReportRequest
from dpexplain.methods.request import Request
from dpexplain.methods.stand_in.request import StandInRequest
from dpexplain.models import Model

if TYPE_CHECKING:
    from dpexplain.columns import Names

RANKED = 30  # columns whose importance is asked for
PAIRED = 5  # columns whose pairs may act together
LEAST_PAIRED = 3  # two columns are one pair, which has no rank
POINTS = 16  # of a part, at which a pair is judged: half the predictions of the usual number
STAND_IN_COLUMNS = 60  # of a table with more, synthetic rows are drawn from the declared domain
PREDICTIONS = 2**22  # for the influences: a report takes a minute, and chance stays in their intervals
FREE = "persons"  # read off synthetic rows
SYNTHETIC = "synthetic rows"


@dataclass(frozen=True)
class Wanted:
    """The requests of a report.

    by_section  the request of each section that is paid for; that of synthetic rows, which all share, has its own name
    sections    the names of the sections, in the order of the page
    signals     by section: an error that is as large as this says nothing, in the units of its forecast
    left_out    sentences: what the report does not show, and why
    """

    request: ReportRequest
    by_section: Mapping[str, Request]
    sections: tuple[str, ...]
    signals: Mapping[str, float] = field(default_factory=dict)
    left_out: tuple[str, ...] = ()

    @property
    def requests(self) -> list[Request]:
        return list(self.by_section.values())

    def without(self, names: Sequence[str]) -> Wanted:
        """The same without some sections."""
        kept = {name: one for name, one in self.by_section.items() if name not in names}
        sections = tuple(name for name in self.sections if name not in names)
        return Wanted(self.request, kept, sections, self.signals, self.left_out)


def wanted(request: ReportRequest, domain: Domain, model: Model, names: Names, *, clustering: Any = None) -> Wanted:
    """What a report asks for, by public things alone."""
    _require_declared(request, domain)
    moved, left_out = movement(domain, model), list[str]()
    shown = _features(request, moved, names, left_out)
    asked: dict[str, Request] = {}
    columns = list(dict.fromkeys([*moved.by_column, *([request.target] if request.target else [])]))
    if len(columns) <= STAND_IN_COLUMNS:
        asked[SYNTHETIC] = StandInRequest(features=columns, target=request.target)
    else:  # histograms of the columns that are ranked are what others share: a tree of all pairs would take hours
        asked[SYNTHETIC] = MarginalsRequest(features=list(dict.fromkeys([*(_ranked(moved) or []), *shown])))
        left_out.append(
            f"A stand-in for the table: it would have {len(columns)} columns. Synthetic rows come from the declared "
            "domain instead, and say nothing about where the rows of the table are."
        )
    group = _compared(request, domain)
    possible: dict[str, Request | None] = {
        "performance": _performance(request),
        "importance": _importance(request, moved, names, left_out),
        "effects": PartialDependence(feature=list(shown), rug=SYNTHETIC in asked),
        "interactions": _interactions(moved, shown, names, left_out),
        "groups": None if group is None else _disparity(group, moved),
        "clusters": None if clustering is None else Clusters(labels=list(clustering.labels)),
    }
    why = {
        "performance": "How good the model is: no target was named.",
        "interactions": "Which columns act together: that takes effects of three columns, and so several pairs.",
        "groups": "What drives differences between groups: no group was named.",
    }
    chosen = request.sections
    for name, one in possible.items():
        if chosen is not None and name not in chosen:
            continue
        if one is not None:
            asked[name] = one
        elif chosen is not None:
            raise InputError(
                f"the report cannot have the section {name}.",
                hint=why.get(name, "hand over a clustering: clustering=..."),
            )
        elif name in why:
            left_out.append(why[name])
    persons = request.persons and (chosen is None or FREE in chosen)
    sections = (*(name for name in asked if name != SYNTHETIC), *([FREE] if persons else []))
    if not set(asked) - {SYNTHETIC}:
        raise InputError(
            "this report has nothing to pay for: synthetic persons alone are explained without one.",
            hint="release a stand-in alone: dpx.stand_in(table, epsilon=...)",
        )
    return Wanted(request, asked, sections, _signals(domain, model, request, moved), tuple(left_out))


def _require_declared(request: ReportRequest, domain: Domain) -> None:
    for name in (request.target, *(request.features or ()), *(request.compared or ())):
        if name is not None:
            domain.column(name)
    column = None if request.target is None else domain[request.target]
    if isinstance(column, Categorical) and len(column.categories) < 2:
        raise InputError(
            f"the target {request.target!r} has one declared value: there is nothing to predict.",
            hint="declare all its values, or leave target out",
        )


def _features(request: ReportRequest, moved: Movement, names: Names, left_out: list[str]) -> list[str]:
    """The columns whose effects are shown."""
    if request.features is not None:
        unknown = [name for name in request.features if name not in moved.by_column]
        if unknown:
            raise InputError(
                f"the model does not use {unknown[0]!r}.", hint="it uses: " + ", ".join(list(moved.by_column)[:40])
            )
        return list(request.features)
    chosen = moved.order[: request.most_features]
    if rest := moved.order[len(chosen) :]:
        left_out.append(
            f"Effects of {_listed(rest, names)}: the public model moves least by them over their declared ranges. "
            "features=[...] names others."
        )
    return [name for name in moved.by_column if name in chosen]


def _ranked(moved: Movement) -> list[str] | None:
    """The columns that are ranked; None for all of them."""
    return None if len(moved.by_column) <= RANKED else [n for n in moved.by_column if n in moved.order[:RANKED]]


def _importance(request: ReportRequest, moved: Movement, names: Names, left_out: list[str]) -> Request:
    ranked = _ranked(moved)
    if ranked is not None:
        rest = moved.order[RANKED:]
        left_out.append(f"Importance of {_listed(rest, names)}: the public model moves least by them.")
    if request.target is None:
        return InfluenceRequest(features=ranked, most_predictions=PREDICTIONS)
    # sentences rest on intervals: those of other rows' values, limited for them, are the narrowest
    about: dict[str, Any] = {"method": "groups", "limit": "interval"}
    return PermutationImportance(target=request.target, features=ranked, positive=request.positive, **about)


def _interactions(moved: Movement, shown: Sequence[str], names: Names, left_out: list[str]) -> Request | None:
    """Pairs of the columns that move the model most."""
    some = [name for name in moved.order if name in shown][:PAIRED]
    if len(some) < LEAST_PAIRED:
        return None
    if rest := [name for name in moved.order if name not in some]:
        left_out.append(f"Whether {_listed(rest, names)} act together with other columns.")
    pairs = moved.pairs(some)
    ordered: list[Any] = sorted(tuple(sorted(pair)) for pair in pairs)
    return InteractionRanking(pairs=ordered, points=POINTS)


def _performance(request: ReportRequest) -> Request | None:
    if request.target is None:
        return None
    return PerformanceRequest(target=request.target, groups=request.groups, positive=request.positive)


def _disparity(group: dict[str, Any], moved: Movement) -> Request:
    about: dict[str, Any] = {"features": _ranked(moved), "most_predictions": PREDICTIONS}
    return InfluenceRequest(quantity="disparity", group=group, **about)


def _compared(request: ReportRequest, domain: Domain) -> dict[str, Any] | None:
    """The group whose difference to all others is explained."""
    if request.compared is not None:
        return dict(request.compared)
    for entry in request.groups:
        column = domain.column(entry) if isinstance(entry, str) else None
        if isinstance(entry, str) and isinstance(column, Categorical) and len(column.categories) == 2:
            return {entry: column.categories[1]}
    return None


def _signals(domain: Domain, model: Model, request: ReportRequest, moved: Movement) -> dict[str, float]:
    """How large the answers may be, by the public model on public rows: what an error is measured against."""
    target = None if request.target is None else domain[request.target]
    rates = model.label is not None or isinstance(target, Categorical)
    found = {"effects": moved.spread, "groups": 0.25 if model.label is not None else moved.spread}
    if request.target is not None:
        width = 1.0 if target is None or isinstance(target, Categorical) else float(target.high) - float(target.low)
        found["performance"] = 0.25 if rates else width / 4
        found["importance"] = largest_importance(domain, model, _ranked(moved))
    return {name: size for name, size in found.items() if size > 0 and math.isfinite(size)}


def _listed(rest: Sequence[str], names: Names) -> str:
    """Names for people, the first few."""
    shown = ", ".join(names.title(name) for name in rest[:5])
    return shown if len(rest) <= 5 else f"{shown} and {len(rest) - 5} more columns"
