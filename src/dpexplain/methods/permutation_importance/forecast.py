"""What is chosen for permutation importance before any row is touched: groups, limits, draws.

All of it follows from public things: the request, the domain, the number of rows where it is public (or a hint, or
10,000), and the price. `resolve` makes a request concrete; `forecast` tells the noise.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import replace
from typing import Any

from dpexplain.core.budget import Cost, Definition
from dpexplain.core.canonical import JsonObject
from dpexplain.core.domain import Domain, PublicRange
from dpexplain.core.mechanisms import Selection, best, selection
from dpexplain.core.noise import Law, Noise
from dpexplain.core.sensitivity import Assignment, Neighbours, Relation
from dpexplain.data.assignment import assignment_for
from dpexplain.errors import InputError
from dpexplain.maths.losses import Loss
from dpexplain.methods.marginals.result import Marginals
from dpexplain.methods.permutation_importance.request import PermutationImportance
from dpexplain.methods.permutation_importance.result import groups_for
from dpexplain.methods.permutation_importance.spec import (
    MOST_FEATURES,
    Spec,
    base_sensitivity,
    lost_sensitivity,
    paper_sensitivity,
    score_range,
    sensitivity,
    squares_sensitivity,
)
from dpexplain.methods.targets import target_of

NORMS = {Law.LAPLACE: "sum", Law.GAUSSIAN: "euclidean", Law.CUBE: "largest"}  # what a group's changes are limited in
UNKNOWN_ROWS = 10_000  # what all this is chosen by where the number of rows is private and no hint was given
LIMITS = 25  # each sqrt(2) times smaller than the one before
# times the noise, in groups: so many groups are shrunk; and enough of them that the selection can tell
SHRUNK, SEEN = {"order": 10, "interval": 2}, 4
# from so many times as many rows as noise on, so many draws are worth their predictions: from other rows, or histograms
OTHER_ROWS, HISTOGRAMS = ((400, 3), (0, 1)), ((400, 10), (0, 3))
WHERE_GROUPS_WIDEN = 4  # times as many for narrow intervals: larger groups can lose more


def resolve(
    request: PermutationImportance,
    domain: Domain,
    output: PublicRange,
    neighbours: Neighbours,
    rows: int | None,
    cost: Cost,
    *,
    label: Any = None,
    uses: Sequence[str] | None = None,
    assignment: Assignment | None = None,
    marginals: Marginals | None = None,
) -> Spec:
    """The concrete spec of a request. Reads nothing but public things. `uses` are the model's columns."""
    features = _features(request, domain, uses)
    target = target_of(request.target, domain, label if request.positive is None else request.positive)
    loss = Loss("squared" if request.loss is None else request.loss, output, request.floor, target.binary)
    rule = assignment_for(neighbours, None) if assignment is None else assignment
    paper = request.method == "paper"
    if paper and not neighbours.rows_public:
        raise InputError(
            'method="paper" permutes the rows of a table whose number of rows is public.',
            hint='use relation="replace-one" without units, or the default method',
        )
    _check_known(request, marginals, features)
    law = Law.LAPLACE if paper and request.mechanism is None else _law(request, cost)
    spec = Spec(
        features=features,
        target=target,
        loss=loss,
        method="paper" if paper else "default",
        assignment=rule,
        seed=request.seed,
        mechanism=law.value,
    )
    if paper:
        return spec
    about = UNKNOWN_ROWS if rows is None else rows
    K = loss.range.levels
    spec = replace(
        spec,
        seed=0 if marginals is not None else request.seed,
        aim=request.limit,
        marginals=None if marginals is None else marginals.receipt.entry.payload_hash,
        histograms=None if marginals is None else _known_noise(marginals, features),
        norm=NORMS[law],
        # one row counts as much as its largest move of the base, so the count fits under the same bound
        count_weight=0 if neighbours.rows_public else K // 2 if neighbours.relation is Relation.ADD_REMOVE else K,
    )
    noisy = _noise_norm(_with_draws(spec, 1, request, neighbours, about), neighbours, cost)
    draws = request.repeats
    if draws is None:
        few = WHERE_GROUPS_WIDEN if spec.aim == "interval" else 1
        draws = next(d for enough, d in (HISTOGRAMS if spec.drawn else OTHER_ROWS) if about >= few * enough * noisy)
    spec = _with_draws(spec, draws, request, neighbours, about)
    if len(spec.limits) == 1:
        return spec
    chance = float(limit_selection(spec, neighbours, cost).scale)
    return replace(spec, shrunk=math.ceil(max(SHRUNK[spec.aim] * noisy, SEEN * chance)), pull=math.ceil(chance / 2))


def _check_known(request: PermutationImportance, marginals: Marginals | None, features: Sequence[str]) -> None:
    """Marginals that are handed over must be of use, and have every feature: else they are refused before payment."""
    if marginals is None:
        if request.method == "marginals":
            raise InputError(
                'method="marginals" takes other values from marginals that were released before.',
                hint="hand them over: marginals=dpx.marginals(table, epsilon=...)",
            )
        return
    if request.method in ("paper", "groups"):
        raise InputError(f'method="{request.method}" has no use for marginals.', hint="leave them out")
    for feature in features:
        marginals.rug(feature)


def _known_noise(marginals: Marginals, features: Sequence[str]) -> JsonObject:
    """What intervals have to know about histograms that were released before."""
    cells = [marginals.rug(feature).partition.size for feature in features]
    noise = marginals.part("counts")[1].to_json()
    return {"noise": noise, "cells": cells, "features": len(marginals.features), "total": marginals.total}


def _with_draws(spec: Spec, draws: int, request: PermutationImportance, neighbours: Neighbours, rows: int) -> Spec:
    """The spec with so many other values for each row, the groups that have them, and the limits of such groups."""
    if spec.drawn:
        spec = replace(spec, draws=draws)
    else:
        group = _group(spec.assignment, neighbours, draws)
        loners = spec.assignment is not Assignment.POSITION and neighbours.unit is None
        by_place = spec.assignment is Assignment.POSITION
        # dealt by places, groups differ by one row at most; by secret numbers, few have twice the usual size
        most = max(1, math.ceil(rows / groups_for(rows, group))) if by_place else 2 * group
        spec = replace(spec, draws=draws, group=group, loners=loners, most=most)
    M, norm = len(spec.features), spec.norm or ""
    top = spec.cap * {"sum": M, "largest": 1, "euclidean": math.isqrt(M - 1) + 1}[norm]
    return replace(spec, top=top, limits=_limits(request, spec.loss, top))


def _group(rule: Assignment, neighbours: Neighbours, draws: int) -> int:
    """How many rows shall be together. Dealt by secret numbers, a row may have less company than wanted."""
    if rule is Assignment.POSITION:
        return draws + 1
    return draws + 2 if neighbours.unit is None else neighbours.rows * (draws + 3)


def _limits(request: PermutationImportance, loss: Loss, top: int) -> tuple[int, ...]:
    """What the limit is chosen from, the largest first: one that shrinks nothing."""
    if request.clip is None:
        return tuple(math.ceil(top / math.sqrt(2) ** step) for step in range(LIMITS))
    steps = request.clip / loss.range.width * loss.range.levels
    return (top if steps >= top else max(1, math.ceil(steps)),)


def _features(request: PermutationImportance, domain: Domain, uses: Sequence[str] | None) -> tuple[str, ...]:
    domain.column(request.target)
    if uses is not None and request.target in uses:
        raise InputError(
            f"the model uses {request.target!r}, which is the target it is measured by.",
            hint="say which columns the model uses with Model(features=[...])",
        )
    used = [name for name in domain if name != request.target] if uses is None else list(uses)
    features = used if request.features is None else list(request.features)
    if not features:
        raise InputError("the model uses no column.", hint="say which ones with Model(features=[...])")
    for feature in features:
        domain.column(feature)
    if request.target in features:
        raise InputError(f"{request.target!r} is the target; its importance has no meaning.")
    if len(features) > MOST_FEATURES:
        raise InputError(f"{len(features)} features are too many; {MOST_FEATURES} is the most.", hint="name some")
    return tuple(features)


def _law(request: PermutationImportance, cost: Cost) -> Law:
    if request.mechanism is None:
        return Law.LAPLACE if cost.definition is Definition.PURE else Law.GAUSSIAN
    try:
        return Law(request.mechanism)
    except ValueError:
        raise InputError(
            f"unknown mechanism {request.mechanism!r}.", hint="use " + ", ".join(f'"{law}"' for law in Law)
        ) from None


def _noise_norm(spec: Spec, neighbours: Neighbours, cost: Cost) -> float:
    """The expected norm of the noise, in units of the limit."""
    limit, M = spec.limits[0], len(spec.features)
    noise = best(sensitivity(spec, neighbours, limit), M, spec.shares(cost)["changes"], spec.mechanism)
    return float(noise.scale) / limit * (math.sqrt(M) if spec.norm == "euclidean" else M)


def likely_limit(spec: Spec) -> int:
    """The limit that noise is forecast for: nearest to one whole loss; for intervals, to one of each row of a group."""
    aim = spec.loss.range.levels if spec.aim == "order" else spec.cap
    return min(spec.limits, key=lambda limit: abs(math.log(limit / aim)))


def forecast(spec: Spec, neighbours: Neighbours, cost: Cost) -> dict[str, Noise]:
    """The noise of each part at this price. Costs nothing, touches no data.

    The noise of the changes follows the limit that will be chosen; told is the one for `likely_limit`.
    """
    prices, M = spec.shares(cost), len(spec.features)
    if spec.paper:
        return {"errors": best(paper_sensitivity(spec, neighbours), M + 1, prices["errors"], spec.mechanism)}
    if "limit" in prices:
        limit_selection(spec, neighbours, cost)
    laws = {c: best(sensitivity(spec, neighbours, c), M, prices["changes"], spec.mechanism) for c in spec.limits}
    lost = {"lost": best(lost_sensitivity(spec, neighbours), 1, prices["lost"])} if spec.limited else {}
    return {
        "base": best(base_sensitivity(spec, neighbours), 2 if spec.count_weight else 1, prices["base"]),
        "changes": laws[likely_limit(spec)],
        **lost,
        "squares": best(squares_sensitivity(spec, neighbours), M, prices["squares"]),
    }


def limit_selection(spec: Spec, neighbours: Neighbours, cost: Cost) -> Selection:
    """How the limit is chosen; a price that is too small for it is refused here."""
    return selection(score_range(spec, neighbours), len(spec.limits), spec.shares(cost)["limit"], 1)
