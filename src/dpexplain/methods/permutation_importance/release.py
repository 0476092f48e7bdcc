"""Differentially private permutation feature importance: how much worse predictions become without a feature.

Guarantee    the account's definition and cost, for one unit replaced, or added or removed. Marginals that are handed
             over were paid for before; their cost comes on top, and the guarantee names it. Public: the model, its
             output range, the loss and its bound, the declared domain, and the number of rows under replace-one without
             units. Nothing is promised about the data the model was trained on.
Statistic    rows are dealt to small groups; every row is predicted again with feature j taken from other rows of its
             group, and d_j is the sum over the group of the mean change of the quantised loss. (With marginals, from a
             released histogram of that feature, and each row is a group of its own.) The vector d of a group is shrunk
             to a norm of at most C, and groups are added up. Beside that sum: that of its squares, from which chance is
             estimated; how far apart the cut-off changes of each group lie, which bounds what the limit took from any
             feature; the mean loss as the rows are (`base`), and the number of rows where it is private. C is chosen
             among public limits by a noisy selection: so that a wanted number of groups is shrunk.
Sensitivity  groups: a unit changes c of them, and each moves inside a ball of radius C: 2 c C, in the norm of the ball,
             which is the norm the noise is calibrated to (sum: Laplace, Euclidean: Gaussian, largest: cube). Rows by
             themselves: k C (add-remove) or 2 k C. Squares and what was cut off have bounds of the same kind.
             docs/methods/permutation-importance.md has the proofs.
Release      base, limit, changes, squares and what was cut off share one cost. Means, intervals and the order are
             post-processing. `spec.py` has `statistic` and `sensitivity`, `result.py` what intervals contain.
References   Breiman 2001; Fisher, Rudin, Dominici 2019; "Differentially Private Global Explanations", Lemma V.3
             (method="paper": one fixed permutation for each feature, sensitivity 2 K of each error, Laplace noise. It
             needs all rows at once, in the memory of this machine).
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import replace
from functools import partial
from typing import Any, Literal, TypeVar

import numpy as np

from dpexplain.core.budget import Cost, Definition
from dpexplain.core.noise import Law
from dpexplain.core.release import Gate
from dpexplain.core.sensitivity import Assignment, Neighbours
from dpexplain.data.assignment import assignment_for
from dpexplain.data.donors import by_permutation
from dpexplain.data.table import PrivateTable
from dpexplain.design import DataFlow
from dpexplain.engines import summed
from dpexplain.errors import InputError
from dpexplain.maths.losses import Loss
from dpexplain.methods import histogram as histograms
from dpexplain.methods.marginals.result import Marginals
from dpexplain.methods.permutation_importance.request import PermutationImportance as PermutationImportance
from dpexplain.methods.permutation_importance.result import Importance
from dpexplain.methods.permutation_importance.spec import (
    MAX_FEATURES,
    Histograms,
    Integers,
    Spec,
    Sums,
    base_sensitivity,
    base_statistic,
    drawn_statistic,
    forecast,
    group_statistic,
    limit_selection,
    lost_sensitivity,
    noise_at,
    paper_sensitivity,
    paper_statistic,
    score_range,
    sensitivity,
    squares_sensitivity,
)
from dpexplain.methods.setting import Setting
from dpexplain.methods.sharpening import known_stand_in, learn
from dpexplain.methods.stand_in.result import StandIn
from dpexplain.methods.sums import RowSums
from dpexplain.methods.targets import own_class, target_of
from dpexplain.models import Model, ModelPair, predictor_of
from dpexplain.models.arguments import of_wrapped
from dpexplain.models.classes import ClassPredictor, OwnClass

Found = TypeVar("Found", bound=Importance)

NORMS = {Law.LAPLACE: "sum", Law.GAUSSIAN: "euclidean", Law.CUBE: "largest"}  # what a group's changes are limited in
UNKNOWN_ROWS = 10_000  # what all this is chosen by where the number of rows is private and no hint was given
LIMITS = 25  # each sqrt(2) times smaller than the one before
# times the noise, in groups: so many groups are shrunk; and enough of them that the selection can tell
SHRUNK, SEEN = {"order": 10, "interval": 2}, 4
# from so many times as many rows as noise on, so many draws are worth their predictions: from other rows, or histograms
OTHER_ROWS, HISTOGRAMS = ((400, 3), (0, 1)), ((400, 10), (0, 3))
WHERE_GROUPS_WIDEN = 4  # times as many for narrow intervals: larger groups can lose more


def resolve(request: PermutationImportance, setting: Setting, cost: Cost, losses: type[Loss] = Loss) -> Spec:
    """The concrete spec of a request: groups, limits, draws. Reads nothing but public things."""
    neighbours, marginals, paper = setting.neighbours, setting.marginals, request.method == "paper"
    features = _features(request, setting)
    classes = () if setting.model is None else setting.model.every_class
    if classes and request.positive is not None:
        raise InputError("positive= is about one class.", hint="Model(..., label=...), or leave it out")
    target = (
        own_class(request.target, setting.domain, classes)
        if classes
        else target_of(request.target, setting.domain, setting.label if request.positive is None else request.positive)
    )
    loss = losses.of(request.loss, setting.output, floor=request.floor, binary=target.binary)
    if paper and not neighbours.rows_public:
        raise InputError(
            'method="paper" permutes the rows of a table whose number of rows is public.',
            hint='use relation="replace-one" without units, or the default method',
        )
    if marginals is None and request.method == "marginals":
        raise InputError(
            'method="marginals" takes other values from marginals that were released before.',
            hint="hand them over: marginals=dpx.marginals(table, epsilon=...)",
        )
    if marginals is not None and request.method in ("paper", "groups"):
        raise InputError(f'method="{request.method}" has no use for marginals.', hint="leave them out")
    pure = paper or cost.definition is Definition.PURE
    law = Law(request.mechanism or (Law.LAPLACE if pure else Law.GAUSSIAN))
    spec = Spec(
        features=features,
        target=request.target,
        target_values=target,
        loss=loss,
        method="paper" if paper else "default",
        assignment=assignment_for(neighbours, None),  # rows with one id may give each other their values
        seed=request.seed if marginals is None else 0,
        mechanism=law.value,
        marginals=None if marginals is None else marginals.receipt.entry.payload_hash,
        histograms=None if marginals is None else _known(marginals, features),
        most=1,
        norm=None if paper else NORMS[law],
        aim=request.limit,
        # one row counts as much as its largest move of the base, so the count fits under the same bound
        count_weight=RowSums.of(loss.range, neighbours).weight,
    )
    if paper:
        return spec
    rows = UNKNOWN_ROWS if setting.hint is None else setting.hint
    noisy = _noise_norm(_with_draws(spec, 1, request, neighbours, rows), neighbours, cost)
    draws = request.repeats
    if draws is None:
        few = WHERE_GROUPS_WIDEN if spec.aim == "interval" else 1
        draws = next(d for enough, d in (HISTOGRAMS if spec.drawn else OTHER_ROWS) if rows >= few * enough * noisy)
    spec = _with_draws(spec, draws, request, neighbours, rows)
    if len(spec.limits) == 1:
        return spec
    chance = float(limit_selection(spec, neighbours, cost).scale)
    return replace(spec, shrunk=math.ceil(max(SHRUNK[spec.aim] * noisy, SEEN * chance)), pull=math.ceil(chance / 2))


def _features(request: PermutationImportance, setting: Setting) -> tuple[str, ...]:
    domain, target = setting.domain, request.target
    domain.column(target)
    if setting.features is not None and target in setting.features:
        raise InputError(
            f"the model uses {target!r}, which is the target it is measured by.",
            hint="say which columns the model uses with Model(features=[...])",
        )
    used = [name for name in domain if name != target] if setting.features is None else setting.features
    features = tuple(used if request.features is None else request.features)
    if not features:
        raise InputError("the model uses no column.", hint="say which ones with Model(features=[...])")
    for feature in features:
        domain.column(feature)
    if target in features:
        raise InputError(f"{target!r} is the target; its importance has no meaning.")
    if len(features) > MAX_FEATURES:
        raise InputError(f"{len(features)} features are too many; {MAX_FEATURES} is the most.", hint="name some")
    return features


def _known(marginals: Marginals, features: Sequence[str]) -> Histograms:
    """What is known of marginals that are handed over. A feature that they do not have is refused here."""
    cells = tuple(marginals.histogram(feature).partition.size for feature in features)
    return Histograms(marginals.part("counts")[1], cells, len(marginals.features), marginals.total)


def _with_draws(spec: Spec, draws: int, request: PermutationImportance, neighbours: Neighbours, rows: int) -> Spec:
    """The spec with so many other values for each row, the groups that have them, and the limits of such groups."""
    spec = replace(spec, draws=draws)
    if not spec.drawn and spec.assignment is Assignment.POSITION:  # groups differ by one row at most
        spec = replace(spec, group=draws + 1)
        spec = replace(spec, most=max(1, math.ceil(rows / spec.groups(rows))))
    elif not spec.drawn:  # by secret numbers, a row may have less company than wanted, and few groups twice the size
        group = draws + 2 if neighbours.unit is None else neighbours.rows * (draws + 3)
        spec = replace(spec, group=group, most=2 * group, loners=neighbours.unit is None)
    M = len(spec.features)
    top = spec.cap * {"sum": M, "largest": 1, "euclidean": math.isqrt(M - 1) + 1}[spec.norm or ""]
    limits = tuple(math.ceil(top / math.sqrt(2) ** step) for step in range(LIMITS))
    if request.clip is not None:
        steps = request.clip / spec.loss.range.width * spec.loss.range.levels
        limits = (top if steps >= top else max(1, math.ceil(steps)),)
    return replace(spec, top=top, limits=limits)


def _noise_norm(spec: Spec, neighbours: Neighbours, cost: Cost) -> float:
    """The expected norm of the noise, in units of the limit."""
    limit, M = spec.limits[0], len(spec.features)
    noise = noise_at(spec, neighbours, cost, limit)
    return float(noise.scale) / limit * (math.sqrt(M) if spec.norm == "euclidean" else M)


def diagram() -> DataFlow:
    """Where the rows go, and where noise is added."""
    stages = {
        "table": "private rows",
        "rows": "changes of losses with values of other rows",
        "base": "sum of the losses as the rows are, and their number where it is private",
        "limit": "a limit that shrinks a wanted number of groups",
        "changes": "sum of the changes, each row's or group's limited",
        "lost": "sum of the largest changes that the limit cut off",
        "squares": "sum of the squares of limited changes",
        "importances": "division, order, intervals",
    }
    edges = [
        ("table", "rows"),
        ("table", "base"),
        ("rows", "limit"),
        ("rows", "changes"),
        *((part, other) for part in ("rows", "limit") for other in ("lost", "squares")),
        ("limit", "changes"),
        *((part, "importances") for part in ("limit", "changes", "base", "lost", "squares")),
    ]
    noised = ["base", "limit", "changes", "lost", "squares"]
    return DataFlow(stages, edges, name="Permutation importance", noised=noised)


def explain(
    table: PrivateTable,
    model: Model,
    request: PermutationImportance,
    *,
    cost: Cost,
    marginals: Marginals | None = None,
    stand_in: StandIn | None = None,
) -> Importance:
    """Release the importances of `request` for `cost`."""
    if marginals is not None:
        histograms.known_marginals(table, marginals)
    if stand_in is not None and (request.method == "paper" or not request.smooth):
        raise InputError(
            "released values are shown as they are, so a stand-in has no use.", hint="leave the stand-in out"
        )
    spec = resolve(request, Setting.of(table, model, marginals=marginals), cost)
    if stand_in is not None and model.every_class:
        raise InputError("a stand-in has no use where all classes are explained together.", hint="leave it out")
    if stand_in is not None:
        known_stand_in(table, stand_in, [*model.features(table.domain), *spec.features])
    result = released(table, model, spec, cost, "permutation-importance", request.label, Importance, marginals)
    if stand_in is None or spec.paper or not request.smooth:  # without one, the order would be less certain
        return result
    source = result.synthetic_source(result.columns_for(table.predictor(model).features), stand_in)
    return replace(result, sharpening=learn(table, model, result.receipt, source, result._ask))


def released(
    table: PrivateTable,
    model: Model | ModelPair,
    spec: Spec,
    cost: Cost,
    method: str,
    label: str,
    kind: type[Found],
    marginals: Marginals | None = None,
) -> Found:
    """Release the sums of a spec, of the losses of a model or of the differences of those of two, as a result."""
    if spec.paper:
        table.require_gathering("the published form of importance")
    forecast(spec, table.neighbours, cost)  # an unavailable mechanism is refused here, before anything is reserved
    predictor, prices = predictor_of(table, model), spec.shares(cost)
    if isinstance(predictor, ClassPredictor) and isinstance(model, Model):
        predictor = OwnClass(predictor, spec.target, model.every_class)
    columns = list(dict.fromkeys([*predictor.features, *spec.features, spec.target]))
    how: dict[str, Any] = {"label": label, "parallel": model.thread_safe}
    kernel: dict[str, Any] = {"predictor": predictor, "spec": spec}

    def body(gate: Gate) -> None:
        if spec.paper:  # errors under fixed permutations, and the base
            batches = by_permutation(table.gathered(gate, columns), spec.features, spec.seed)
            errors = summed(partial(paper_statistic, **kernel), batches, size=spec.size, total=table.size, **how)
            bound = paper_sensitivity(spec, gate.neighbours)
            gate.noisy_sum("errors", errors, bound, prices["errors"], mechanism=spec.mechanism)
            return
        first = 2 if spec.count_weight else 1  # the numbers of the base
        if marginals is not None:
            others = histograms.references(spec.features, marginals, table.domain)
            drawn = partial(drawn_statistic, others=others, **kernel)
            exact = table.sum_rows(gate, drawn, columns, size=first + spec.size, secret=True, **how)
            groups = send_base(gate, exact[:first])
        elif spec.count_weight:  # groups are made by the *released* number of rows: two passes
            base = table.sum_rows(gate, partial(base_statistic, **kernel), columns, size=first, **how)
            groups = send_base(gate, base)
            exact = np.append(base, in_groups(gate, groups, spec.size))
        else:
            groups = spec.groups(table.size or 1)
            exact = in_groups(gate, groups, first + spec.size, with_base=True)
            send_base(gate, exact[:first])
        send_changes(gate, spec, cost, exact[first:], groups)

    def in_groups(gate: Gate, groups: int, size: int, **options: Any) -> Integers:
        found = partial(group_statistic, **kernel, **options)
        return table.sum_groups(gate, found, columns, groups, size=size, rule=spec.assignment, secret=True, **how)

    def send_base(gate: Gate, sums: Integers) -> int:
        """Release the mean loss as the rows are; how many groups there are, by the released number of rows."""
        noisy = gate.noisy_sum("base", sums, base_sensitivity(spec, gate.neighbours), prices["base"])
        return spec.groups(max(1.0, noisy[-1] / spec.count_weight) if spec.count_weight else table.size or 1)

    about = {"model": model.identity, **histograms.builds_on(marginals)}
    public = ["the loss", "the output range", "the model" if isinstance(model, Model) else "both models"]
    receipt, payload = table.release(method, label, spec.to_json(), cost, body, public=public, **about)
    return kind(receipt, payload, known=marginals)


def send_changes(gate: Gate, spec: Spec, cost: Cost, exact: Integers, groups: int) -> None:
    """Choose the limit, then release what groups shrunk to it add up to. `exact` is the `statistic` of all rows."""
    prices, neighbours = spec.shares(cost), gate.neighbours
    lines, chosen = [Sums.read(line) for line in exact.reshape(len(spec.limits), -1)], 0
    if "limit" in prices:
        scores = spec.scores(np.array([sums.above for sums in lines]), groups)
        chosen = gate.select("limit", scores, score_range(spec, neighbours), prices["limit"])[0]
    sums, bound = lines[chosen], sensitivity(spec, neighbours, spec.limits[chosen])
    gate.noisy_sum("changes", sums.changes, bound, prices["changes"], mechanism=spec.mechanism)
    if "lost" in prices:
        gate.noisy_sum("lost", [sums.lost], lost_sensitivity(spec, neighbours), prices["lost"])
    gate.noisy_sum("squares", sums.squares, squares_sensitivity(spec, neighbours), prices["squares"])


@of_wrapped
def permutation_importance(
    table: PrivateTable,
    model: Model,
    target: str,
    *,
    epsilon: float | None = None,
    rho: float | None = None,
    features: Sequence[str] | None = None,
    marginals: Marginals | None = None,
    loss: Literal["squared", "absolute", "log", "accuracy"] = "squared",
    positive: str | int | float | bool | None = None,
    clip: float | None = None,
    limit: Literal["order", "interval"] = "order",
    repeats: int | None = None,
    floor: float = 0.01,
    method: Literal["default", "marginals", "groups", "paper"] = "default",
    mechanism: Literal["cube", "discrete-laplace", "discrete-gaussian"] | None = None,
    seed: int = 0,
    smooth: bool = True,
    stand_in: StandIn | None = None,
) -> Importance:
    """Differentially private permutation importance of `features` (all that the model uses by default).

    `epsilon` (or `rho`) is the whole cost. Other values come from other rows, or from `marginals` that were released
    before. A `stand_in` that was released before makes the values better, for free.
    `requests.PermutationImportance` describes the options.
    """
    request = PermutationImportance(
        target=target, features=features, loss=loss, positive=positive, clip=clip, limit=limit, repeats=repeats,
        floor=floor, method=method, mechanism=mechanism, seed=seed, smooth=smooth,
    )  # fmt: skip
    cost = table.cost(epsilon=epsilon, rho=rho)
    return explain(table, model, request, cost=cost, marginals=marginals, stand_in=stand_in)
