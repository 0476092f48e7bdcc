"""The questions of `bench honesty`, each with its exact answer: plain averages over all rows, written on their own.

An exact answer is what the result says its interval is about. Where a release chooses bins or histograms first, the
exact answer is taken for those.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from typing import Any

import numpy as np

import dpexplain as dpx
from bench.honesty_tables import TARGET, HonestTable
from bench.scenes import stable
from dpexplain.core.release import Door
from dpexplain.core.samplers import ExactSampler
from dpexplain.maths.reference import WHOLE
from dpexplain.maths.scores import LEAST_PROBABILITY
from dpexplain.maths.surrogate.sketch import GRID

Floats = np.ndarray
STEP = 2.0**-15  # of the range of predictions: what rounding to whole levels may move a mean
DELTA = 1e-6
PREDICTIONS = 2**19  # for influences, so that many releases can be made; chance is in their intervals
CLASS = {"outcome": "class", "threshold": 0.5, "most_predictions": PREDICTIONS}


@dataclass(frozen=True)
class Answer:
    """A release beside the truth. `value` is what the forecast is about: before smoothing."""

    truth: Floats
    low: Floats
    high: Floats
    value: Floats
    span: Floats | float  # the public range of each answer
    slack: float = 0.0


@dataclass(frozen=True)
class Question:
    """How to ask, what is true, and what `plan` says before."""

    ask: Callable[[HonestTable, dpx.PrivateTable, float], Answer]
    request: Callable[[HonestTable], Any] | None = None
    delta: float | None = None
    relations: tuple[str, ...] = ("replace-one", "add-remove")
    scale: Callable[[HonestTable], float] | None = None  # of the forecast, where its unit is another one

    def forecast(self, scene: HonestTable, table: dpx.PrivateTable, epsilon: float) -> tuple[float, float] | None:
        """The error that `plan` tells to expect, and half of the width of the interval that will be printed."""
        if self.request is None:
            return None
        told = dpx.plan(
            self.request(scene), domain=scene.domain, n=scene.rows, relation=table.neighbours.relation,
            rows_hint=table.rows_hint, epsilon=epsilon, delta=DELTA, model=scene.model,
        )  # fmt: skip
        pure = [option for option in told.options if (option.delta is None) == (self.delta is None)]
        return pure[0].error, pure[0].interval


def _intervals(result: Any) -> tuple[Floats, Floats]:
    low, high = result.interval(0.95)
    return np.asarray(low, dtype=np.float64), np.asarray(high, dtype=np.float64)


# Counts ---------------------------------------------------------------------------------------------------------------


def marginals(scene: HonestTable, table: dpx.PrivateTable, epsilon: float) -> Answer:
    found = dpx.marginals(table, scene.features, epsilon=epsilon)
    exact = [p.counts(scene.columns[p.feature]) for p in found.partitions]
    released = found.part("counts")[0].astype(np.float64)
    return Answer(np.concatenate(exact), *_intervals(found), released, float(scene.rows))


def stand_in(scene: HonestTable, table: dpx.PrivateTable, epsilon: float) -> Answer:
    """Counts of its columns; nothing else of it has an interval."""
    found = dpx.stand_in(table, features=scene.features, grade="tree", epsilon=epsilon)
    exact = [p.counts(scene.columns[p.feature]) for p in found.partitions]
    released = found.part("counts")[0].astype(np.float64)
    return Answer(np.concatenate(exact), *_intervals(found), released, float(scene.rows))


def quantiles(scene: HonestTable, table: dpx.PrivateTable, epsilon: float) -> Answer:
    feature, probs = scene.numeric[0], [0.1, 0.25, 0.5, 0.75, 0.9]
    found = dpx.quantiles(table, feature, probs, epsilon=epsilon)
    exact = np.quantile(scene.columns[feature], probs, method="inverted_cdf")
    column = scene.domain[feature]
    return Answer(exact, *_intervals(found), found.values, column.high - column.low)


def clusters(scene: HonestTable, table: dpx.PrivateTable, epsilon: float, method: Any = "one-stage") -> Answer:
    """Two attributes of each cluster, of a clustering by public rules."""
    a, b = scene.numeric[:2]
    cut = {name: (scene.domain[name].low + scene.domain[name].high) / 2 for name in (a, b)}

    def rule(rows: Any) -> Any:
        return (np.asarray(rows[a]) > cut[a]).astype(int) + 2 * (np.asarray(rows[b]) > cut[b]).astype(int)

    clustering = dpx.Clustering.of(
        rule, labels=[0, 1, 2, 3], features=[a, b], domain=scene.domain, name="quarters", thread_safe=False
    )
    found = dpx.explain_clusters(table, clustering, epsilon=epsilon, method=method)
    label = rule(scene.columns)
    exact = []
    for explanation in found.explanations:
        inside = label == int(explanation.cluster)
        cells = explanation.partition.place(scene.frame[explanation.partition.feature].to_numpy())
        exact += [np.bincount(cells[mask], minlength=explanation.partition.size) for mask in (inside, ~inside)]
    return Answer(np.concatenate(exact), *_intervals(found), found.values, float(scene.rows))


def kmeans(scene: HonestTable, table: dpx.PrivateTable, epsilon: float) -> Answer:
    """Means of the rows that were nearest to the centres of the round before."""
    found = dpx.dp_kmeans(table, 3, features=scene.numeric, epsilon=epsilon).result
    low = np.array([scene.domain[name].low for name in scene.numeric])
    width = np.array([scene.domain[name].high - scene.domain[name].low for name in scene.numeric])
    places = (np.column_stack([scene.columns[name] for name in scene.numeric]) - low) / width
    centres = found.walk.before / GRID
    nearest = ((places[:, None, :] - centres) ** 2).sum(axis=2).argmin(axis=1)
    exact = np.array(
        [
            places[nearest == c].mean(axis=0) if (nearest == c).any() else np.full(len(width), np.nan)
            for c in range(len(centres))
        ]
    )
    truth = (low + width * exact).reshape(-1)
    lows, highs = _intervals(found)
    known = ~np.isnan(truth)
    spans = np.tile(width, len(centres))
    return Answer(truth[known], lows[known], highs[known], found.values[known], spans[known], 1e-3 * width.max())


# Effects --------------------------------------------------------------------------------------------------------------


def partial_dependence(scene: HonestTable, table: dpx.PrivateTable, epsilon: float) -> Answer:
    curves = dpx.partial_dependence(table, scene.model, scene.features, epsilon=epsilon)
    exact = [scene.mean_at(curve.feature, curve.axes[0].points) for curve in curves]
    raw = np.concatenate([curve.raw for curve in curves])
    return Answer(np.concatenate(exact), *_intervals(curves), raw, 1.0, STEP)


def pair_dependence(scene: HonestTable, table: dpx.PrivateTable, epsilon: float) -> Answer:
    pair = (scene.numeric[0], scene.categorical[0])
    curve = dpx.partial_dependence(table, scene.model, pair, epsilon=epsilon)
    a, b = curve.axes
    codes = [scene.codes(axis.feature, axis.points) for axis in (a, b)]
    exact = [scene.predict(**{a.feature: x, b.feature: y}).mean() for x, y in itertools.product(*codes)]
    return Answer(np.array(exact), *_intervals(curve), curve.raw, 1.0, STEP)


def generic_plot(scene: HonestTable, table: dpx.PrivateTable, epsilon: float) -> Answer:
    feature = scene.numeric[0]
    curve = dpx.generic_plot(table, "pdp", feature, output=(0.0, 1.0), model=scene.model, epsilon=epsilon)
    return Answer(scene.mean_at(feature, curve.axes[0].points), *_intervals(curve), curve.raw, 1.0, STEP)


def numeric_effects(scene: HonestTable, table: dpx.PrivateTable, epsilon: float) -> Answer:
    return _effects(scene, table, epsilon, scene.numeric)


def category_effects(scene: HonestTable, table: dpx.PrivateTable, epsilon: float) -> Answer:
    return _effects(scene, table, epsilon, scene.categorical)


def effects_marginals(scene: HonestTable, table: dpx.PrivateTable, epsilon: float) -> Answer:
    """Marginals released before, at the same price, from an account that remembers them."""
    fresh = scene.table(table.neighbours.relation.value, None, memory=True)
    known = dpx.marginals(fresh, scene.numeric, epsilon=epsilon)
    answer = _effects(scene, fresh, epsilon, scene.numeric, marginals=known)
    fresh.ledger.close()
    return answer


def _effects(
    scene: HonestTable, table: dpx.PrivateTable, epsilon: float, features: list[str], **options: Any
) -> Answer:
    curves = dpx.accumulated_effects(table, scene.model, features, epsilon=epsilon, **options)
    exact = [_exact_effects(scene, curve) for curve in curves]
    raw = np.concatenate([curve.raw for curve in curves])
    return Answer(np.concatenate(exact), *_intervals(curves), raw, 2.0, STEP)


def _exact_effects(scene: HonestTable, curve: dpx.results.Curve) -> Floats:
    """The accumulated effects of all rows for the bins of a release; differences are not clipped."""
    feature, bins = curve.feature, curve.bins
    values = scene.columns[feature]
    if not bins.ordered:
        last, codes = len(bins.points) - 1, values.astype(int)
        up = scene.predict(**{feature: np.minimum(codes + 1, last)}) - scene.own
        down = scene.own - scene.predict(**{feature: np.maximum(codes - 1, 0)})
        counts = np.bincount(codes, minlength=last + 1)
        sums = np.bincount(codes, up, last + 1)[:-1] + np.bincount(codes, down, last + 1)[1:]
        climbed = np.concatenate([[0], np.cumsum(sums / np.maximum(counts[:-1] + counts[1:], 1))])
        return climbed - (counts * climbed).sum() / counts.sum()
    points, place = np.asarray(bins.points, dtype=np.float64), bins.place(values)
    moved = scene.predict(**{feature: points[place + 1]}) - scene.predict(**{feature: points[place]})
    rows = np.bincount(place, minlength=bins.size)
    climbed = np.concatenate([[0], np.cumsum(np.bincount(place, moved, bins.size) / np.maximum(rows, 1))])
    counts = bins.cells.counts(values)
    return climbed - counts @ np.interp(np.asarray(bins.cells.labels), points, climbed) / counts.sum()


# Importance and rankings ----------------------------------------------------------------------------------------------


def importance(scene: HonestTable, table: dpx.PrivateTable, epsilon: float, **options: Any) -> Answer:
    found = dpx.permutation_importance(table, scene.model, TARGET, positive="1", epsilon=epsilon, **options)
    place = {name: i for i, name in enumerate(found.items)}
    order = [place[name] for name in scene.features]
    low, high = _intervals(found)
    values = np.asarray(found.values)[order]
    return Answer(scene.importances, low[order], high[order], values, 2.0, 2 * STEP)


def importance_repeats(scene: HonestTable, table: dpx.PrivateTable, epsilon: float) -> Answer:
    return importance(scene, table, epsilon, method="groups", repeats=20)


def importance_marginals(scene: HonestTable, table: dpx.PrivateTable, epsilon: float) -> Answer:
    """Marginals released before, at the same price, from an account that remembers them."""
    fresh = scene.table(table.neighbours.relation.value, None, memory=True)
    known = dpx.marginals(fresh, scene.features, epsilon=epsilon)
    answer = importance(scene, fresh, epsilon, marginals=known)
    fresh.ledger.close()
    return answer


class Watching(ExactSampler):
    """The exact sampler; it remembers the exact values that noise was added to last."""

    exact = np.empty(0)

    def perturb(self, values: Any, noise: Any, sensitivity: Any, cost: Any) -> list[int]:
        self.exact = np.array(values, dtype=np.float64)
        return super().perturb(values, noise, sensitivity, cost)


def interactions(scene: HonestTable, table: dpx.PrivateTable, epsilon: float) -> Answer:
    """Mean points on the ballots as they were dealt: the exact sums are those that noise was added to."""
    sampler = Watching()
    table.door = Door(table.door.account, sampler=sampler)
    features = scene.features[:4]
    found = dpx.interaction_ranking(table, scene.model, features=features, points=8, epsilon=epsilon)
    exact = dict(zip(found.candidates, sampler.exact * found.gap_noise[1], strict=True))
    truth = np.array([exact[item] for item in found.items])
    return Answer(truth, *_intervals(found), found.values, float(len(found.candidates) - 1), 1e-6)


# Influence ------------------------------------------------------------------------------------------------------------


def average_influence(scene: HonestTable, table: dpx.PrivateTable, epsilon: float) -> Answer:
    """Values come from the released histograms, and so they do in the exact answer."""
    found = dpx.influence(table, scene.model, "average", **CLASS, epsilon=epsilon)
    own = scene.own >= 0.5
    exact = []
    for name in found.items:
        given = found.marginals.reference(name, scene.domain)
        changed = [np.mean((scene.predict(**{name: point}) >= 0.5) != own) for point in given.points]
        exact.append(given.weights / WHOLE @ np.array(changed))
    return Answer(np.array(exact), *_intervals(found), found.values, 1.0, STEP)


def disparity(scene: HonestTable, table: dpx.PrivateTable, epsilon: float) -> Answer:
    feature = scene.categorical[-1]
    found = dpx.influence(table, scene.model, "disparity", group={feature: "1"}, **CLASS, epsilon=epsilon)
    inside = scene.columns[feature] == 1
    own = (scene.own >= 0.5).astype(float)
    exact = []
    for name in found.items:
        given = found.marginals.reference(name, scene.domain)
        weights = given.weights / WHOLE
        mean = sum(w * (scene.predict(**{name: point}) >= 0.5) for w, point in zip(weights, given.points, strict=True))
        change = own - mean
        exact.append(change[inside].mean() - change[~inside].mean())
    return Answer(np.array(exact), *_intervals(found), found.values, 4.0, STEP)


def shapley(scene: HonestTable, table: dpx.PrivateTable, epsilon: float) -> Answer:
    """Of the categories, whose sets of values can be gone through one by one."""
    names = scene.categorical[-3:]
    feature = names[-1]
    found = dpx.influence(
        table,
        scene.model,
        "group",
        names,
        aggregate="shapley",
        group={feature: "1"},
        **CLASS,
        epsilon=epsilon,
    )
    inside = scene.columns[feature] == 1
    given = {name: found.marginals.reference(name, scene.domain) for name in names}

    def worth(kept: frozenset[str]) -> float:
        """The mean outcome of the group with all inputs but these replaced."""
        replaced = [name for name in names if name not in kept]
        total = 0.0
        for points in itertools.product(*(range(len(given[name].points)) for name in replaced)):
            weight = np.prod([given[name].weights[i] / WHOLE for name, i in zip(replaced, points, strict=True)])
            if weight:
                fixed = {name: given[name].points[i] for name, i in zip(replaced, points, strict=True)}
                total += float(weight) * float((scene.predict(**fixed) >= 0.5)[inside].mean())
        return total

    worths = {kept: worth(kept) for size in range(4) for kept in map(frozenset, itertools.combinations(names, size))}
    exact = np.zeros(3)
    for order in itertools.permutations(names):
        for place, name in enumerate(order):
            before = frozenset(order[:place])
            exact[names.index(name)] += (worths[before | {name}] - worths[before]) / 6
    truth = np.array([exact[names.index(item)] for item in found.items])
    return Answer(truth, *_intervals(found), found.values, 2.0, STEP)


def one_person(scene: HonestTable, table: dpx.PrivateTable, epsilon: float) -> Answer:
    """What each input of one person did, other values being those of all rows."""
    person = {name: scene.columns[name][17] for name in scene.features}
    row = {name: str(int(v)) if name in scene.categorical else float(v) for name, v in person.items()}
    found = dpx.influence(table, scene.model, "individual", row=row, outcome="score", epsilon=epsilon)
    own = float(scene.network({name: np.array([value]) for name, value in person.items()})[0])
    exact = []
    for name in found.items:
        values, shares = scene.distinct(name)
        others = {other: np.full(len(values), value) for other, value in person.items()}
        exact.append(own - shares @ scene.network({**others, name: values}))
    return Answer(np.array(exact), *_intervals(found), found.values, 2.0, STEP)


# Local explanations ---------------------------------------------------------------------------------------------------


def local(scene: HonestTable, table: dpx.PrivateTable, epsilon: float) -> Answer:
    """The weighted least-squares line around one record, and its way from the mean of all rows."""
    record = scene.person(17)
    found = dpx.local_explanation(table, scene.model, record, method="moments", epsilon=epsilon)
    X, slices = scene.coordinates
    away = X - X[17]
    weights = np.sqrt(stable(np.sqrt((away * away).sum(axis=1))))
    lines = np.column_stack([away, np.ones(scene.rows)]) * weights[:, None]
    slope = np.linalg.lstsq(lines, scene.own * weights, rcond=1e-9)[0][:-1]
    way = (X[17] - X.mean(axis=0)) * slope
    exact = np.array([way[where].sum() for where in slices.values()])
    return Answer(exact, *_intervals(found), found.values, 2.0, STEP)


def sketch(scene: HonestTable, table: dpx.PrivateTable, epsilon: float) -> Answer:
    """Against the same sketch with next to no noise: cells spread over the domain are the same in both."""
    record, options = scene.person(17), {"centres": "domain", "cells": CELLS}
    found = dpx.local_sketch(table, scene.model, method="moments", epsilon=epsilon, **options).explain(record)
    key = (scene.name, table.neighbours.relation)
    if key not in _exact_sketches:
        _exact_sketches[key] = (
            dpx.local_sketch(table, scene.model, method="moments", epsilon=2e5, **options).explain(record).values
        )
    return Answer(_exact_sketches[key], *_intervals(found), found.values, 2.0, 1e-4)


_exact_sketches: dict[Any, Floats] = {}
CELLS = 6


# Performance ----------------------------------------------------------------------------------------------------------


def performance(scene: HonestTable, table: dpx.PrivateTable, epsilon: float) -> Answer:
    """Rates, areas and probability figures of everybody, and rates by a group."""
    by = scene.categorical[-1]
    found = dpx.performance(table, scene.model, TARGET, [by], positive="1", epsilon=epsilon)
    true, code = scene.frame[TARGET].to_numpy() == 1, scene.columns[by]
    whose = {"everybody": np.ones(scene.rows, dtype=bool)}
    whose |= {found.group_name(group): code == place for place, group in enumerate(found.cells_of(by))}
    lines = found.to_frame()
    exact = [
        _figure(name, scene.own[whose[group]], true[whose[group]], found.edges)
        for group, name in zip(lines["group"], lines["figure"], strict=True)
    ]
    truth, (low, high) = np.array(exact), _intervals(found)
    known = ~np.isnan(truth)
    return Answer(truth[known], low[known], high[known], found.values[known], 1.0, 1e-9)


def _figure(name: str, scores: Floats, true: Floats, edges: tuple[float, ...]) -> float:
    """One figure of some rows, at a threshold of one half; NaN where nobody is in it."""
    said, everybody = scores >= 0.5, np.ones(len(true), dtype=bool)
    rates = {
        "accuracy": (said == true, everybody),
        "selection_rate": (said, everybody),
        "base_rate": (true, everybody),
        "true_positive_rate": (said, true),
        "false_negative_rate": (~said, true),
        "false_positive_rate": (said, ~true),
        "true_negative_rate": (~said, ~true),
        "precision": (true, said),
    }
    if name == "count":
        return float(len(true))
    if name in rates:
        happened, among = rates[name]
        return float(happened[among].mean()) if among.any() else np.nan
    if not true.any() or true.all():
        return np.nan
    if name == "auc":
        below = np.sort(scores[~true])
        beaten = np.searchsorted(below, scores[true], "left") + np.searchsorted(below, scores[true], "right")
        return float(beaten.mean() / (2 * len(below)))
    if name == "calibration_error":
        cell = np.searchsorted(np.asarray(edges[1:-1]), scores, side="right")
        return float(np.abs(np.bincount(cell, true - scores)).sum() / len(true))
    p = np.clip(scores, LEAST_PROBABILITY, 1 - LEAST_PROBABILITY)
    of_row = {"brier_score": (scores - true) ** 2, "log_loss": -np.log(np.where(true, p, 1 - p))}
    return float((of_row | {"mean_prediction": scores})[name].mean())


R = dpx.requests
# Differences ----------------------------------------------------------------------------------------------------------


def _compared(scene: HonestTable, table: dpx.PrivateTable, request: Any, epsilon: float) -> Any:
    return dpx.compare(table, [scene.changed.model, scene.model], request, epsilon=epsilon)


def difference_of_curves(scene: HonestTable, table: dpx.PrivateTable, epsilon: float) -> Answer:
    curves = _compared(scene, table, R.PartialDependence(feature=scene.features), epsilon)
    points = [(curve.feature, curve.axes[0].points) for curve in curves]
    exact = np.concatenate([scene.mean_at(*one) - scene.changed.mean_at(*one) for one in points])
    return Answer(exact, *_intervals(curves), np.concatenate([curve.raw for curve in curves]), 2.0, 2 * STEP)


def difference_of_importances(scene: HonestTable, table: dpx.PrivateTable, epsilon: float) -> Answer:
    found = _compared(scene, table, R.PermutationImportance(target=TARGET, positive="1"), epsilon)
    low, high = found.score_interval(0.95)
    exact = scene.importances - scene.changed.importances
    assert list(found.candidates) == scene.features
    return Answer(exact, low, high, found.scores, 4.0, 4 * STEP)


def difference_of_rates(scene: HonestTable, table: dpx.PrivateTable, epsilon: float) -> Answer:
    group = scene.categorical[-1]
    found = _compared(scene, table, R.Performance(target=TARGET, positive="1", groups=[group]), epsilon)
    yes = [one.own >= 0.5 for one in (scene.changed, scene)]
    happened, codes, exact = scene.frame[TARGET].to_numpy() == 1, scene.columns[group], list[float]()
    for mask in [np.ones(scene.rows, dtype=bool), *(codes == c for c in range(len(scene.domain[group].categories)))]:
        for among, right in ((mask, True), (mask & happened, True), (mask & ~happened, True), (mask, happened)):
            each = [float((one == right)[among].mean()) if among.any() else 0.0 for one in yes]
            exact.append(each[1] - each[0])
    return Answer(np.array(exact), *_intervals(found), found.values, 2.0)


QUESTIONS: dict[str, Question] = {
    "difference of curves": Question(
        difference_of_curves, lambda s: R.Compare(request=R.PartialDependence(feature=s.features))
    ),
    "difference of importances": Question(difference_of_importances),
    "difference of rates": Question(difference_of_rates),
    "marginals": Question(marginals, lambda s: R.Marginals(features=s.features)),
    "stand-in": Question(stand_in, lambda s: R.StandIn(features=s.features, grade="tree")),
    "quantiles": Question(quantiles),
    "clusters": Question(clusters),
    "clusters, posterior": Question(partial(clusters, method="posterior")),
    "k-means": Question(kmeans),
    "partial dependence": Question(partial_dependence, lambda s: R.PartialDependence(feature=s.features)),
    "partial dependence of a pair": Question(
        pair_dependence, lambda s: R.PartialDependence(feature=(s.numeric[0], s.categorical[0]))
    ),
    "generic plot": Question(
        generic_plot, lambda s: R.GenericPlot(explainer="pdp", feature=s.numeric[0], output=(0.0, 1.0))
    ),
    "accumulated effects": Question(numeric_effects, lambda s: R.AccumulatedEffects(feature=s.numeric)),
    "accumulated effects of categories": Question(
        category_effects, lambda s: R.AccumulatedEffects(feature=s.categorical)
    ),
    "accumulated effects, known marginals": Question(effects_marginals),
    "importance": Question(importance, lambda s: R.PermutationImportance(target=TARGET, positive="1")),  # noqa: ARG005
    "importance, 20 repeats": Question(
        importance_repeats,
        lambda s: R.PermutationImportance(target=TARGET, positive="1", method="groups", repeats=20),  # noqa: ARG005
    ),
    "importance, known marginals": Question(importance_marginals),
    "interactions": Question(interactions, lambda s: R.InteractionRanking(features=s.features[:4], points=8)),
    "performance": Question(
        performance, lambda s: R.Performance(target=TARGET, positive="1", groups=[s.categorical[-1]])
    ),
    "influence": Question(average_influence, lambda s: R.Influence(**CLASS)),  # noqa: ARG005
    "disparity": Question(
        disparity, lambda s: R.Influence(quantity="disparity", group={s.categorical[-1]: "1"}, **CLASS)
    ),
    "Shapley values of a group": Question(
        shapley,
        lambda s: R.Influence(
            quantity="group",
            features=s.categorical[-3:],
            aggregate="shapley",
            group={s.categorical[-1]: "1"},
            **CLASS,
        ),
    ),
    "influence on one person": Question(one_person),
    "local explanation": Question(
        local, lambda s: R.LocalExplanation(record=s.person(17), method="moments"), delta=DELTA
    ),
    "local sketch": Question(
        sketch,
        lambda s: R.LocalSketch(centres="domain", cells=CELLS),  # noqa: ARG005
        delta=DELTA,
    ),
}
