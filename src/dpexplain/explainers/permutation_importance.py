"""Differentially private permutation feature importance: how much worse predictions become without a feature.

Guarantee    the account's definition and price, for one unit replaced (its number of rows public) or added or removed.
             Public: the model, its output range, the loss and its bound, the declared domain, and the number of rows
             under replace-one without units. Nothing is promised about the data the model was trained on.
Statistic    rows are dealt to small groups. Inside a group every row is predicted again with feature j taken from
             other rows of the group; d_j is the sum over the group's rows of the mean change of the quantised loss. The
             vector d of a group is shrunk to a norm of at most C, and groups are added up. The mean loss as the rows
             are (`base`) is released too, and the number of rows where it is private. C is chosen among public
             limits by a noisy selection: so that a wanted number of groups is shrunk.
             With marginals that were released before, each row is a group of its own, and the values are drawn from
             them.
Sensitivity  a unit changes c groups, and each of them moves inside a ball of radius C: 2 c C in the norm of the ball,
             which is the norm the noise is calibrated to (sum: Laplace, Euclidean: Gaussian, largest: cube). Rows by
             themselves: k C (add-remove) or 2 k C. docs/methods/permutation-importance.md has the proofs.
Release      base, limit and changes share one price. Means, intervals and the order are post-processing.
References   Breiman 2001; Fisher, Rudin, Dominici 2019; "Differentially Private Global Explanations", Lemma V.3
             (method="paper": one fixed permutation for each feature, sensitivity 2 K of each error, Laplace noise).
"""

from __future__ import annotations

import math
import sys
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from fractions import Fraction
from functools import partial
from typing import Any

import numpy as np
from numpy.typing import NDArray

from dpexplain.core.budget import Cost, Definition
from dpexplain.core.canonical import JsonObject
from dpexplain.core.domain import Domain, PublicRange
from dpexplain.core.mechanisms import Selection, best, selection
from dpexplain.core.noise import Law, Noise
from dpexplain.core.release import Gate
from dpexplain.core.sensitivity import Assignment, Neighbours, Relation, ScoreRange, Sensitivity
from dpexplain.data.assignment import assignment_for
from dpexplain.data.donors import Replaced, by_feature, by_group, by_permutation, deal, gather
from dpexplain.data.public_random import PublicRandom
from dpexplain.data.rows import Rows
from dpexplain.data.table import PrivateTable
from dpexplain.design import DataFlow
from dpexplain.engine import map_sum
from dpexplain.errors import InputError
from dpexplain.explainers.marginals import builds_on, known_marginals
from dpexplain.explainers.outlook import LEVEL, Outlook, Setting
from dpexplain.explainers.targets import Target, target_of
from dpexplain.losses import Loss
from dpexplain.models import Model, Predictor
from dpexplain.results import Marginals
from dpexplain.results.base import receipt_for
from dpexplain.results.importance import Importance, gap_halfwidth, groups_for

Integers = NDArray[np.int64]
Norms = NDArray[np.int64] | NDArray[np.float64]

NORMS = {Law.LAPLACE: "sum", Law.GAUSSIAN: "euclidean", Law.CUBE: "largest"}  # what a group's changes are limited in
BASE_SHARE, LIMIT_SHARE = Fraction(1, 20), Fraction(1, 10)
LIMITS = 25  # each sqrt(2) times smaller than the one before
SHRUNK = 10  # times the noise, in groups: so many groups are shrunk; and enough of them that the selection can tell
SEEN = 4
DRAWS = ((400, 3), (0, 1))  # from so many times as many rows as noise on, so many draws are worth their predictions
MOST_DRAWS, MOST_FEATURES = 100, 2_000
INEXACT = 2.0**-40  # more than the rounding of floats can add to a norm of MOST_FEATURES numbers


@dataclass(frozen=True, kw_only=True)
class PermutationImportance:
    """The request: everything about the release that a caller decides.

    target     the declared column that the model predicts
    features   whose importance is asked for (default: all that the model uses)
    loss       "squared" (default), "absolute", "log" or "accuracy"
    positive   the value of the target that counts as one, all others as zero (default: the label of the model)
    clip       the most by which the losses of one group of rows may change in all, in units of the loss; by default it
               is chosen from the data for a tenth of the price. `math.inf` for no limit
    repeats    how many other rows each row takes its replaced values from, one after the other (default: by forecast)
    floor      the least probability that the log loss takes a class to have
    method     "default", or "paper" for the published design: fixed permutations, Laplace noise, replace-one only
    mechanism  "discrete-laplace", "discrete-gaussian" or "cube"; decides the norm that changes are limited in
    seed       of the public permutations that groups (or, in the published design, replaced columns) come from
    """

    target: str
    features: Sequence[str] | None = None
    loss: str | None = None
    positive: Any = None
    clip: float | None = None
    repeats: int | None = None
    floor: float = 0.01
    method: str = "default"
    mechanism: str | None = None
    seed: int = 0

    def __post_init__(self) -> None:
        if self.method not in ("default", "paper"):
            raise InputError(f"unknown method {self.method!r}.", hint='use "default" or "paper"')
        if isinstance(self.features, str) or (self.features is not None and not list(self.features)):
            raise InputError(
                "features must be a list of names.", hint='features=["age", "sex"], or leave it out for all'
            )
        if self.features is not None and not all(isinstance(name, str) for name in self.features):
            raise InputError("a feature is a name.")
        if self.features is not None and len(set(self.features)) < len(self.features):
            raise InputError("a feature is named twice.")
        number = isinstance(self.clip, int | float) and not isinstance(self.clip, bool)
        if self.clip is not None and not (number and (0 < self.clip <= sys.float_info.max or self.clip == math.inf)):
            raise InputError(f"clip must be a positive number; got {self.clip!r}.", hint="or leave it out")
        whole = isinstance(self.repeats, int) and not isinstance(self.repeats, bool)
        if self.repeats is not None and not (whole and 1 <= self.repeats <= MOST_DRAWS):
            raise InputError(f"repeats must be a whole number from 1 to {MOST_DRAWS}; got {self.repeats!r}.")
        if self.method == "paper" and (self.clip is not None or self.repeats is not None):
            raise InputError('method="paper" has neither clip nor repeats.', hint="leave them out")
        PublicRandom(self.seed)

    @property
    def label(self) -> str:
        names = "" if self.features is None else f": {', '.join(self.features)}"
        return f"permutation importance for {self.target}{names}"


@dataclass(frozen=True, kw_only=True)
class Spec:
    """The request made concrete: all that fixes the statistic and its noise, public and hashed into the ledger."""

    features: tuple[str, ...]
    target: Target
    loss: Loss
    method: str
    assignment: Assignment  # how rows are dealt to groups
    seed: int
    mechanism: str
    marginals: str | None = None  # the payload hash of the marginals that values are drawn from; None: from other rows
    group: int = 1  # rows in a group, or about so many where their number is private
    loners: bool = False  # whether a row may have no other one in its group, often enough to be allowed for
    draws: int = 1
    norm: str | None = None  # what groups are limited in; the published form limits nothing
    limits: tuple[int, ...] = ()  # what C is chosen from, in steps of a quantised loss; a single one is C
    shrunk: int = 0  # how many groups the chosen C shall shrink
    pull: int = 0  # what a limit that is one step larger must do better, in groups: decides where no group lies between
    count_weight: int = 0  # what each row adds to the count beside the base; 0 where the number of rows is public

    @property
    def paper(self) -> bool:
        return self.method == "paper"

    @property
    def size(self) -> int:
        """How many integers a batch gives: for each limit the sums and the number of groups above it; or the errors
        and the base.
        """
        M = len(self.features)
        return M + 1 if self.paper else len(self.limits) * (M + 1)

    def shares(self, cost: Cost) -> tuple[Cost, Cost, Cost]:
        """The price of the base, of the limit and of the changes."""
        base = Fraction(0) if self.paper else BASE_SHARE
        limit = LIMIT_SHARE if len(self.limits) > 1 else Fraction(0)
        return cost * base, cost * limit, cost * (1 - base - limit)

    def to_json(self) -> JsonObject:
        return {
            "features": list(self.features),
            "target": self.target.column,
            "target_values": self.target.to_json(),
            "loss": self.loss.to_json(),
            "method": self.method,
            "marginals": self.marginals,
            "assignment": self.assignment.value,
            "group": self.group,
            "loners": self.loners,
            "draws": self.draws,
            "seed": self.seed,
            "norm": self.norm,
            "limits": list(self.limits),
            "shrunk": self.shrunk,
            "pull": self.pull,
            "count_weight": self.count_weight,
            "mechanism": self.mechanism,
        }


def base_statistic(rows: Rows, predictor: Predictor, spec: Spec) -> Integers:
    """The sum of the quantised losses of one batch as it is, and its weighted number of rows where that is private."""
    losses = _losses(rows, predictor, spec, predictor.inputs(rows), {})
    if not spec.count_weight:
        return np.array([losses.sum()])
    return np.array([(losses - spec.loss.range.levels // 2).sum(), spec.count_weight * rows.size])


def statistic(batch: Replaced, predictor: Predictor, spec: Spec) -> Integers:
    """Exact integer sums of one batch: no noise, no budget, and no randomness but the values it is given.

    For each limit the shrunk sums of all groups; then, for each limit, the number of groups above it.
    """
    groups = changes(batch, predictor, spec)
    norms = _norms(groups, spec.norm)
    sums = [shrunk(groups, norms, limit, spec.norm).sum(axis=0) for limit in spec.limits]
    above = [int((norms > limit).sum()) for limit in spec.limits]
    return np.concatenate([*sums, np.array(above, dtype=np.int64)])


def changes(batch: Replaced, predictor: Predictor, spec: Spec) -> Integers:
    """One line for each group: the sum over its rows of the mean change of the loss, for each feature."""
    rows, inputs = batch.rows, predictor.inputs(batch.rows)
    before = _losses(rows, predictor, spec, inputs, {})
    found = np.zeros((rows.size, len(spec.features)), dtype=np.int64)
    number = np.maximum(sum(valid.astype(np.int64) for valid in batch.valid), 1)
    for j, feature in enumerate(spec.features):
        if feature in predictor.features:
            for values, valid in zip(batch.values[feature], batch.valid, strict=True):
                found[:, j] += np.where(valid, _losses(rows, predictor, spec, inputs, {feature: values}) - before, 0)
    found = np.sign(found) * (np.abs(found) // number[:, None])
    return np.add.reduceat(found, batch.starts, axis=0) if rows.size else found


def shrunk(groups: Integers, norms: Norms, limit: int, norm: str | None) -> Integers:
    """Each group's vector scaled down to a norm of at most `limit`, its numbers rounded toward zero.

    Sums and maxima are exact integers; a Euclidean norm may be off in its last bits. Where a vector is scaled, a factor
    a little below one covers that and the rounding of the product.
    """
    above = norms * (1 + INEXACT) > limit if norm == "euclidean" else norms > limit
    factor = np.where(above, limit / np.maximum(norms, 1) * (1 - INEXACT), 1.0)
    size = np.floor(np.abs(groups) * factor[:, None]).astype(np.int64)
    signed: Integers = np.where(groups < 0, -size, size)
    return signed


def _norms(groups: Integers, norm: str | None) -> Norms:
    if norm == "euclidean":
        return np.asarray(np.sqrt((groups.astype(np.float64) ** 2).sum(axis=1)))
    size = np.abs(groups)
    return np.asarray(size.sum(axis=1) if norm == "sum" else size.max(axis=1, initial=0))


def paper_statistic(batch: Replaced, predictor: Predictor, spec: Spec) -> Integers:
    """The sums of the quantised losses with each feature replaced, and as the rows are."""
    rows, inputs = batch.rows, predictor.inputs(batch.rows)
    moved = {feature: values for feature in spec.features for values in batch.values[feature]}  # one draw of each
    sums = [_losses(rows, predictor, spec, inputs, {feature: values}).sum() for feature, values in moved.items()]
    return np.array([*sums, _losses(rows, predictor, spec, inputs, {}).sum()])


def _losses(rows: Rows, predictor: Predictor, spec: Spec, inputs: Any, fixed: dict[str, Any]) -> Integers:
    """The quantised loss of each row; the middle of its range where the model fails."""
    return spec.loss.range.quantize(spec.loss(spec.target(rows), predictor.predict_at(inputs, fixed)))


def base_sensitivity(spec: Spec, neighbours: Neighbours) -> Sensitivity:
    K = spec.loss.range.levels
    if not spec.count_weight:
        return Sensitivity.of_boxes([(0, K)], neighbours)
    return Sensitivity.of_boxes([(-K // 2, K // 2), (spec.count_weight, spec.count_weight)], neighbours)


def groups_changed(spec: Spec, neighbours: Neighbours) -> int:
    """How many groups can differ between neighbouring tables, the secret numbers being the same in both."""
    return spec.assignment.changed_parts(neighbours) if spec.marginals is None else neighbours.rows


def sensitivity(spec: Spec, neighbours: Neighbours, limit: int) -> Sensitivity:
    """Of the sum of groups shrunk to `limit`: from public things alone.

    A changed group moves from one point of the ball to another: 2 limit in the norm of the ball. Rows by themselves
    come or go under add-remove: limit each. The other norms follow: |v|_inf <= |v|_2 <= |v|_1 <= M |v|_inf and
    |v|_1 <= sqrt(M) |v|_2.
    """
    single = spec.marginals is not None and neighbours.relation is Relation.ADD_REMOVE
    moved, M = groups_changed(spec, neighbours) * (1 if single else 2) * limit, len(spec.features)
    if spec.norm == "sum":
        return Sensitivity(neighbours, moved, moved**2, moved)
    if spec.norm == "largest":
        return Sensitivity(neighbours, M * moved, M * moved**2, moved)
    return Sensitivity(neighbours, math.isqrt(M * moved**2 - 1) + 1, moved**2, moved)


def paper_sensitivity(spec: Spec, neighbours: Neighbours) -> Sensitivity:
    """Of the errors and the base, under replace-one: a row is predicted once with another row's value, and gives its
    own value to one other row, so two losses of each error change by at most K each; of the base, one.
    """
    K, M = spec.loss.range.levels, len(spec.features)
    return Sensitivity(neighbours, (2 * M + 1) * K, (4 * M + 1) * K * K, 2 * K)


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
    K = loss.range.levels
    if request.method == "paper":
        if not neighbours.rows_public:
            raise InputError(
                'method="paper" permutes the rows of a table whose number of rows is public.',
                hint='use relation="replace-one" without units, or the default method',
            )
        return Spec(
            features=features,
            target=target,
            loss=loss,
            method="paper",
            assignment=rule,
            seed=request.seed,
            mechanism=Law.LAPLACE.value if request.mechanism is None else request.mechanism,
        )
    law = _law(request, cost)
    known = None if marginals is None else marginals.receipt.entry.payload_hash
    if marginals is not None:
        for feature in features:
            marginals.rug(feature)  # one that the marginals do not have is refused before anything is paid

    def spec(draws: int) -> Spec:
        group = 1 if known is not None else _group(rule, neighbours, draws)
        loners = known is None and rule is not Assignment.POSITION and neighbours.unit is None
        return Spec(
            features=features,
            target=target,
            loss=loss,
            method="default",
            assignment=rule,
            seed=request.seed,
            mechanism=law.value,
            marginals=known,
            group=group,
            loners=loners,
            draws=draws,
            norm=NORMS[law],
            limits=_limits(request, loss, NORMS[law], group, len(features)),
            # one row counts as much as its largest move of the base, so the count fits under the same bound
            count_weight=0 if neighbours.rows_public else K // 2 if neighbours.relation is Relation.ADD_REMOVE else K,
        )

    noisy = _noise_norm(spec(1), neighbours, cost)
    draws = request.repeats
    if draws is None:
        draws = next(d for enough, d in DRAWS if (rows or 0) >= enough * noisy)
        draws = draws if known is None else DRAWS[0][1]
    found = spec(draws)
    if len(found.limits) == 1:
        return found
    chance = float(_selection(found, neighbours, cost).scale)
    return replace(found, shrunk=math.ceil(max(SHRUNK * noisy, SEEN * chance)), pull=math.ceil(chance / 2))


def _group(rule: Assignment, neighbours: Neighbours, draws: int) -> int:
    """How many rows shall be together. Dealt by secret numbers, a row may have less company than wanted."""
    if rule is Assignment.POSITION:
        return draws + 1
    return draws + 2 if neighbours.unit is None else neighbours.rows * (draws + 3)


def _limits(request: PermutationImportance, loss: Loss, norm: str, group: int, M: int) -> tuple[int, ...]:
    """What the limit is chosen from, the largest first: one that shrinks no group of twice the usual size."""
    K = loss.range.levels
    top = 2 * group * K * {"sum": M, "largest": 1, "euclidean": math.isqrt(M - 1) + 1}[norm]
    if request.clip is None:
        return tuple(math.ceil(top / math.sqrt(2) ** step) for step in range(LIMITS))
    steps = request.clip / loss.range.width * K
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
    noise = best(sensitivity(spec, neighbours, limit), M, spec.shares(cost)[2], spec.mechanism)
    return float(noise.scale) / limit * (math.sqrt(M) if spec.norm == "euclidean" else M)


def forecast(spec: Spec, neighbours: Neighbours, cost: Cost) -> dict[str, Noise]:
    """The noise of each part at this price. Costs nothing, touches no data.

    The noise of the changes follows the limit that will be chosen; told is the one for a limit of one whole loss.
    """
    base_cost, _, changes_cost = spec.shares(cost)
    M = len(spec.features)
    if spec.paper:
        return {"errors": best(paper_sensitivity(spec, neighbours), M + 1, changes_cost, spec.mechanism)}
    if len(spec.limits) > 1:
        _selection(spec, neighbours, cost)
    laws = [best(sensitivity(spec, neighbours, limit), M, changes_cost, spec.mechanism) for limit in spec.limits]
    nearest = min(range(len(laws)), key=lambda i: abs(math.log(spec.limits[i] / spec.loss.range.levels)))
    base = best(base_sensitivity(spec, neighbours), 2 if spec.count_weight else 1, base_cost)
    return {"base": base, "changes": laws[nearest]}


def outlook(request: PermutationImportance, setting: Setting, cost: Cost) -> Outlook:
    """How far noise will move the importances in a table of about this many rows.

    Told for a limit of one whole loss, or for `clip`; the limit that will be chosen is often smaller, and the noise
    with it. What a noisy number of rows adds is a share of the importance itself, and left out.
    """
    neighbours = setting.neighbours
    spec = resolve(
        request, setting.domain, setting.output, neighbours, setting.hint, cost,
        label=setting.label, uses=setting.features,
    )  # fmt: skip
    noise = forecast(spec, neighbours, cost)["errors" if spec.paper else "changes"]
    unit, law, points = spec.loss.range.width / (spec.loss.range.levels * setting.rows), noise.law.value, noise.size
    if spec.paper:  # differences from the base, which is as noisy as an error
        error, band = gap_halfwidth(noise, LEVEL), 2 * noise.band(LEVEL)
        return Outlook(law, points - 1, math.sqrt(2) * noise.std * unit, error * unit, band * unit)
    error = noise.halfwidth((1 + LEVEL) / 2 if spec.count_weight else LEVEL)
    return Outlook(law, points, noise.std * unit, error * unit, noise.band(LEVEL) * unit)


def _selection(spec: Spec, neighbours: Neighbours, cost: Cost) -> Selection:
    """How the limit is chosen; a price that is too small for it is refused here."""
    return selection(_score_range(spec, neighbours), len(spec.limits), spec.shares(cost)[1], 1)


def _score_range(spec: Spec, neighbours: Neighbours) -> ScoreRange:
    """The number of groups above a limit changes by at most as many groups as change; so does its distance from the
    wanted number.
    """
    changed = groups_changed(spec, neighbours)
    return ScoreRange(neighbours, -changed, changed)


def diagram() -> DataFlow:
    """Where the rows go, and where noise is added."""
    stages = {
        "table": "private rows",
        "groups": "changes of the loss in each group of rows, with values of other rows",
        "base": "sum of the losses as the rows are, and their number where it is private",
        "limit": "a limit that shrinks a wanted number of groups",
        "changes": "sum of the changes, each group's limited",
        "importances": "division, order, intervals",
    }
    edges = [
        ("table", "groups"),
        ("table", "base"),
        ("groups", "limit"),
        ("groups", "changes"),
        ("limit", "changes"),
        ("limit", "importances"),
        ("changes", "importances"),
        ("base", "importances"),
    ]
    return DataFlow(stages, edges, name="Permutation importance", noised=["base", "limit", "changes"])


def explain(
    table: PrivateTable,
    model: Model,
    request: PermutationImportance,
    *,
    cost: Cost,
    marginals: Marginals | None = None,
) -> Importance:
    """Release the importances of `request` for `cost`."""
    if marginals is not None:
        known_marginals(table, marginals)
        if request.method == "paper":
            raise InputError('method="paper" has no use for marginals.', hint="leave them out")
    spec = resolve(
        request,
        table.domain,
        model.output,
        table.neighbours,
        table.rows_hint,
        cost,
        label=model.label,
        uses=model.features(table.domain),
        assignment=table.assignment,
        marginals=marginals,
    )
    forecast(spec, table.neighbours, cost)  # an unavailable mechanism is refused here, before anything is reserved
    predictor = model.checked(table.domain)
    job = _Job(table, predictor, spec, request.label, model.thread_safe)

    def body(gate: Gate) -> None:
        if spec.paper:
            job.release_errors(gate, cost)
        else:
            job.release_changes(gate, cost, marginals)

    public = ["the loss", "the output range", "the model", table.domain.describe(), *table.neighbours.public]
    identity = {
        "explainer": "permutation-importance",
        "table": table.identity,
        "model": model.identity,
        "spec": spec.to_json(),
        "public": public,
        **builds_on(marginals),
    }
    released = table.door.release(request.label, identity, cost, body)
    return Importance(receipt_for(table.budget, table.neighbours, released), released.payload)


def send_changes(gate: Gate, spec: Spec, cost: Cost, found: Integers, groups: int) -> None:
    """Choose the limit, then release the sums of groups shrunk to it. `found` is the `statistic` of all rows."""
    _, limit_cost, changes_cost = spec.shares(cost)
    many, M = len(spec.limits), len(spec.features)
    sums, above, chosen = found[: many * M].reshape(many, M), found[many * M :], 0
    if many > 1:
        wanted = min(spec.shrunk, groups // 2)
        scores = [-abs(int(number) - wanted) - spec.pull * (many - i) for i, number in enumerate(above)]
        chosen = gate.select("limit", scores, _score_range(spec, gate.neighbours), limit_cost)[0]
    bound = sensitivity(spec, gate.neighbours, spec.limits[chosen])
    gate.noisy_sum("changes", sums[chosen], bound, changes_cost, mechanism=spec.mechanism)


@dataclass(frozen=True)
class _Job:
    """One release under way: what its passes over the rows share."""

    table: PrivateTable
    predictor: Predictor
    spec: Spec
    label: str
    parallel: bool

    @property
    def columns(self) -> list[str]:
        return list(dict.fromkeys([*self.predictor.features, *self.spec.features, self.spec.target.column]))

    def release_errors(self, gate: Gate, cost: Cost) -> None:
        """The published design: errors under fixed permutations, and the base, with Laplace noise."""
        spec = self.spec
        batches = by_permutation(gather(self.table, gate, self.columns), spec.features, spec.seed)
        sums = self._sum(partial(paper_statistic, predictor=self.predictor, spec=spec), batches)
        bound = paper_sensitivity(spec, gate.neighbours)
        gate.noisy_sum("errors", sums, bound, spec.shares(cost)[2], mechanism=spec.mechanism)

    def release_changes(self, gate: Gate, cost: Cost, marginals: Marginals | None) -> None:
        """Base, limit, changes. Groups are made and limits wanted by the *released* number of rows."""
        spec, table = self.spec, self.table
        kernel = partial(base_statistic, predictor=self.predictor, spec=spec)
        size = 2 if spec.count_weight else 1
        losses = table.map_sum(gate, kernel, self.columns, size=size, label=self.label, parallel=self.parallel)
        noisy = gate.noisy_sum("base", losses, base_sensitivity(spec, gate.neighbours), spec.shares(cost)[0])
        count = max(1.0, noisy[-1] / spec.count_weight) if spec.count_weight else float(table.size or 1)
        groups = groups_for(count, spec.group)
        if spec.marginals is None:
            found = self._group_sums(gate, groups)
        else:
            assert marginals is not None
            found = self._row_sums(gate, marginals)
        send_changes(gate, spec, cost, found, groups)

    def _group_sums(self, gate: Gate, groups: int) -> Integers:
        """Rows take their values from other rows of their group."""
        spec, gathered = self.spec, gather(self.table, gate, self.columns)
        group, mark = deal(gathered.tags, spec.assignment, parts=groups, size=self.table.size, seed=spec.seed)
        batches = by_group(gathered, group, mark, spec.features, spec.draws)
        return self._sum(partial(statistic, predictor=self.predictor, spec=spec), batches)

    def _row_sums(self, gate: Gate, marginals: Marginals) -> Integers:
        """Rows take their values from released histograms."""
        spec = self.spec
        references = {name: marginals.reference(name, self.table.domain) for name in spec.features}

        def kernel(rows: Rows) -> Integers:
            return statistic(by_feature(rows, references, spec.draws, self.table.uniform), self.predictor, spec)

        return self.table.map_sum(gate, kernel, self.columns, size=spec.size, label=self.label, parallel=self.parallel)

    def _sum(self, kernel: Callable[[Replaced], Integers], batches: Iterator[Replaced]) -> Integers:
        return map_sum(
            kernel, batches, size=self.spec.size, label=self.label, total=self.table.size, parallel=self.parallel
        )


def permutation_importance(
    table: PrivateTable,
    model: Model,
    target: str,
    *,
    features: Sequence[str] | None = None,
    epsilon: Any = None,
    rho: Any = None,
    marginals: Marginals | None = None,
    **options: Any,
) -> Importance:
    """Differentially private permutation importance of `features` (all that the model uses by default).

    `epsilon` (or `rho`) is the whole price. Replaced values come from other rows, or, if they are given, from
    `marginals` that were released before. Options: see `requests.PermutationImportance`.
    """
    request = PermutationImportance(target=target, features=features, **options)
    return explain(table, model, request, cost=table.cost(epsilon=epsilon, rho=rho), marginals=marginals)
