"""The adaptive explainer of paper 001 on our tables: Figures 2, 3, 4, 5 and 9, and our sketch beside them.

The product's `AdaptiveExplainer` answers every query, with all of its requests, bounds and prices. Two things are done
faster here: the exact sums of a record are computed from arrays and remembered (on Adult and Census the first are
compared with the product's), and noise is normal, seeded and rounded, not exactly discrete: the same law at scales in
the thousands and more. As in `showcase`, a table "as if of so many rows" has every row that many times: the same means,
less noise for each row. Census and text come in three disjoint thirds with queries of their own, as in the paper, so
that their prices do not add up (parallel composition). Adult is small: three streams ask the whole table, and the mean
of their prices is shown.
"""

from __future__ import annotations

from argparse import Namespace
from collections.abc import Iterable, Sequence
from concurrent.futures import ProcessPoolExecutor
from dataclasses import dataclass, replace
from fractions import Fraction
from multiprocessing import get_context
from typing import Any

import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from rich.progress import track
from sklearn.cluster import MiniBatchKMeans
from threadpoolctl import threadpool_limits

import dpexplain as dpx
from bench import report, scenes
from bench.cached import BenchAccount
from bench.local import DELTA, ENDLESS, algorithm_1, cost_of
from bench.scenes import Problem, Scene
from dpexplain.core.budget import Cost
from dpexplain.core.noise import Law, Noise
from dpexplain.core.release import Door
from dpexplain.core.samplers import ExactSampler
from dpexplain.core.sensitivity import Neighbours, Relation, Sensitivity
from dpexplain.maths.surrogate import StepWeight
from dpexplain.maths.surrogate import descent as paths
from dpexplain.methods.adaptive.release import COMPUTED, REUSED, Query
from dpexplain.methods.attributions import released_parts
from dpexplain.methods.local_sketch import release as local_sketch
from dpexplain.methods.local_sketch.request import LocalSketchRequest

T = 300
THIRDS = 3
PATHS = 15  # of Figure 4, over all thirds
CLUSTERS = 15
TREES = 20
CURVE = 40  # points of a curve that are written down
PLAIN, ADAPTIVE, ENHANCED = "non-adaptive", "adaptive", "enhanced"
NEW, NEW_PAPER = "non-interactive", "non-interactive, labels of the paper"
EQUAL = "non-adaptive at the epsilon that adaptive spent"
SKETCH = "sketch at the epsilon that adaptive spent"
UNNOISED = ("as many steps", "T steps from the same start", "T steps from zero")
VARIANTS = (ADAPTIVE, ENHANCED)
ACS, TEXT = 1_494_974, 8_815_568  # rows of the paper's tables
# section 6.2 and Figure 5: epsilon of a query, mean steps; of 4,500 queries, those with all T steps or a good start
PUBLISHED = {
    "Census": {"epsilon": 0.01, ADAPTIVE: 121, ENHANCED: 43, "all steps": 73, "below the noise": 2220},
    "Text": {"epsilon": 0.006, ADAPTIVE: 149, ENHANCED: 28, "all steps": 94, "below the noise": 1850},
}
LOSSES = np.logspace(-6, 0, 49)
STEPS = np.arange(0, T + 20, 10)


class Rounded(ExactSampler):
    """Normal noise, rounded. Fast, and no privacy."""

    def __init__(self, seed: int) -> None:
        self._random = np.random.default_rng(seed)

    def perturb(self, values: Sequence[int], noise: Noise, sensitivity: Sensitivity, cost: Cost) -> list[int]:
        if noise.law is not Law.GAUSSIAN or noise.scale < 2:
            return super().perturb(values, noise, sensitivity, cost)
        drawn = np.rint(self._random.normal(0, float(noise.scale), noise.size)).tolist()
        return [value + int(z) for value, z in zip(values, drawn, strict=True)]


@dataclass(frozen=True)
class Part:
    """Rows that answer queries, each of them `copies` times; `queries` and `new` are numbers of rows."""

    scene: Scene
    copies: int
    queries: np.ndarray
    new: np.ndarray
    seed: int
    check: bool = False  # whether the first sums are compared with those of the product

    @property
    def rows(self) -> int:
        return self.copies * self.scene.rows

    def record(self, i: int) -> dict[str, float]:
        return dict(zip(self.scene.columns, map(float, self.scene.X[i]), strict=True))


class Bench:
    """One part as the product sees it. Sums are remembered from one stream of queries to the next."""

    def __init__(self, part: Part) -> None:
        self.part, scene = part, part.scene
        self._known: dict[bytes, np.ndarray] = {}
        self._problems: dict[int, Problem] = {}
        scores = {x.tobytes(): f for x, f in zip(scene.X, scene.f, strict=True)}
        self.model = dpx.Model(
            lambda X: np.array([scores.get(x.tobytes(), 0.0) for x in np.ascontiguousarray(X)]),
            output=(-1, 1), features=scene.columns, as_array=True, name=scene.name, version="bench",
        )  # fmt: skip

    def _table(self, seed: int) -> dpx.PrivateTable:
        table = self.part.scene.table("add-remove", ENDLESS)
        table.rows_hint = round(self.part.rows, -3)
        table.door = Door(BenchAccount(ENDLESS, Neighbours(Relation.ADD_REMOVE)), sampler=Rounded(seed))
        return table

    def problem(self, i: int) -> Problem:
        if i not in self._problems:
            self._problems[i] = self.part.scene.problem(self.part.scene.X[i])
        return self._problems[i]

    def explainer(self, epsilon: float, variant: str, seed: int) -> dpx.AdaptiveExplainer:
        """With a total that pays for every query."""
        table, scene, copies = self._table(seed), self.part.scene, self.part.copies
        honest = table.sum_rows

        def remembered(gate: Any, kernel: Any, columns: Any, **options: Any) -> np.ndarray:
            average, local = kernel.keywords["average"], kernel.keywords["more"].__self__
            key = local.centre.tobytes()
            if key not in self._known:
                rows = scene.X, scene.f
                found = np.concatenate([average.sums(*rows), [scene.rows], local.gram(*rows)])
                if self.part.check and not self._known:
                    np.testing.assert_array_equal(found, honest(gate, kernel, columns, **options))
                self._known[key] = found * copies
            return self._known[key]

        table.sum_rows = remembered  # type: ignore[method-assign]
        options = {"epsilon": ENDLESS.epsilon, "per_query": epsilon, "iterations": T}
        return dpx.AdaptiveExplainer(table, self.model, enhanced=variant == ENHANCED, anchor="middle", **options)

    def sketch(self, epsilon: float, points: Iterable[int], seed: int) -> float:
        """The mean loss over these points of one sketch that costs epsilon in all."""
        table, copies = self._table(seed), self.part.copies
        honest = table.sum_rows
        table.sum_rows = lambda *given, **options: honest(*given, **options) * copies  # type: ignore[method-assign]
        request = LocalSketchRequest(method="moments", features=self.part.scene.columns)
        sketch = local_sketch.explain(table, self.part.scene.model, request, cost=cost_of(epsilon))
        return float(np.mean([self._loss(i, sketch.explain(self.part.record(i), anchor="middle")) for i in points]))

    def _loss(self, i: int, attribution: Any) -> float:
        return float(self.problem(i).excess(attribution.fit.coefficients))

    def plain(self, rho: float) -> list[float]:
        """Algorithm 1 for each query at this price, T steps, with the noise of zCDP accounting."""
        bound = StepWeight.of("stable", np.sqrt(len(self.part.scene.columns))).gradient_bound(Relation.ADD_REMOVE)
        sigma = float(bound / self.part.rows * np.sqrt(T / (2 * rho)))
        random = np.random.default_rng(self.part.seed)
        found = [(self.problem(i), algorithm_1(self.problem(i), sigma, T, 1, random)) for i in self.part.queries]
        return [float(problem.excess(phi)[0]) for problem, phi in found]

    def stream(self, epsilon: float, variant: str, *, history: bool = False) -> dict[str, Any]:
        """All queries of the part, one after the other; then new points from the history alone."""
        explainer = self.explainer(epsilon, variant, self.part.seed)
        losses = [self._loss(i, explainer.explain(self.part.record(i))) for i in self.part.queries]
        asked = explainer.history
        found: dict[str, Any] = {
            "rho": [float(query.cost.amount) for query in asked],
            "how": [query.how for query in asked],
            "steps": [query.iterations for query in asked],
            "good": [_good(query) for query in asked],
            "loss": losses,
        }
        if history:
            found |= {"paths": self._paths(asked), "without noise": self._unnoised(asked)}
            for name, labels, new in ((NEW, "model", self.part.new), (NEW_PAPER, "paper", self.part.new[:100])):
                free = explainer.non_interactive(labels=labels)
                found[name] = [self._loss(i, free.explain(self.part.record(i))) for i in new]
        return found

    def _paths(self, asked: Sequence[Query]) -> list[list[float]]:
        """The loss along the paths whose start was good already: beta no longer than the noise of a gradient."""
        pairs = [(i, query) for i, query in zip(self.part.queries, asked, strict=True) if _good(query)]
        chosen = np.random.default_rng(0).permutation(len(pairs))[: PATHS // THIRDS]
        return [path_losses(pairs[k][1], self.problem(pairs[k][0])) for k in chosen]

    def _unnoised(self, asked: Sequence[Query]) -> list[list[float]]:
        """Where exact gradients lead: as many steps from the same start, T from there, T from zero."""
        found = []
        for i, query in zip(self.part.queries, asked, strict=True):
            if query.how == COMPUTED and query.attribution.settings.start is not None:
                problem, start = self.problem(i), np.array(query.attribution.settings.start) / paths.FINE
                ways = ((start, query.iterations), (start, T), (np.zeros_like(start), T))
                found.append([exact_descent(problem, first, steps, _rate(query)) for first, steps in ways])
        return found


def _rate(query: Query) -> float:
    """The learning rate of a released path at its first step."""
    spec, released = query.attribution.spec, query.attribution.released
    slope, scale = spec.path, float(Noise.from_json(released["parts"]["gradient-1"]["noise"]).scale)
    return slope.rate(scale / (slope.unit * spec.path.rows_in(released_parts(query.attribution))))


def exact_descent(problem: Problem, phi: np.ndarray, steps: int, rate: float) -> float:
    """The loss after so many steps without noise."""
    for t in range(1, steps + 1):
        phi = phi - rate / np.sqrt(t) * 2 * (problem.A @ phi - problem.b)
        phi = phi / max(1.0, float(np.linalg.norm(phi)))
    return float(problem.excess(phi))


def _good(query: Query) -> bool:
    """Whether the steps cost as much as the first one of all: a larger beta would have made them cheaper."""
    parts = query.attribution.released["parts"]
    return query.how == COMPUTED and "beta" in parts and parts["gradient-1"]["cost"] == parts["beta"]["cost"]


def path_losses(query: Query, problem: Problem) -> list[float]:
    """The loss at the start of a released path and after each of its steps."""
    spec, released = query.attribution.spec, query.attribution.released
    slope, rows = spec.path, spec.path.rows_in(released_parts(query.attribution))
    points = [np.array(query.attribution.settings.start)]
    for number in range(1, query.iterations + 1):
        part = released["parts"][f"gradient-{number}"]
        scale = float(Noise.from_json(part["noise"]).scale)
        points.append(slope.follow(points[-1], part["values"], number, scale, rows))
    return [float(loss) for loss in problem.excess(np.array(points) / paths.FINE)]


# Parts and queries ----------------------------------------------------------------------------------------------------


def subset(scene: Scene, numbers: np.ndarray) -> Scene:
    return Scene(scene.name, scene.columns, np.ascontiguousarray(scene.X[numbers]), scene.f[numbers])


def thirds(scene: Scene) -> list[np.ndarray]:
    """Disjoint thirds of the row numbers."""
    return np.array_split(np.random.default_rng(0).permutation(scene.rows), THIRDS)


def random_parts(scene: Scene, queries: int, copies: int, *, whole: bool = False) -> list[Part]:
    """Each third with queries of its own; or three streams of queries on the whole table."""
    found = []
    for seed, numbers in enumerate(thirds(scene)):
        some = subset(scene, np.arange(scene.rows) if whole else numbers)
        drawn = some.sample(2 * queries, seed=seed)
        found.append(Part(some, copies, drawn[:queries], drawn[queries:], seed, check=scene.forest is not None))
    return found


def clusters(scene: Scene) -> np.ndarray:
    """The cluster of each row."""
    model = MiniBatchKMeans(CLUSTERS, random_state=0, n_init=3, batch_size=4096)
    return np.asarray(model.fit_predict(scene.X))


def chosen_parts(scene: Scene, groups: Sequence[np.ndarray], queries: int, copies: int) -> list[Part]:
    """Each third with about as many queries from each group of row numbers, in random order."""
    found = []
    for seed, numbers in enumerate(thirds(scene)):
        random = np.random.default_rng(seed)
        each = [random.permutation(np.flatnonzero(np.isin(numbers, group))) for group in groups]
        lines = [group[: -(-queries // len(groups))] for group in each]
        drawn = random.permutation(np.concatenate(lines))[:queries]
        found.append(Part(subset(scene, numbers), copies, drawn, drawn[:0], seed))
    return found


def densest(scene: Scene, label: np.ndarray, least: int) -> int:
    """The cluster with the smallest mean distance to its centre among those with enough rows."""

    def spread(cluster: int) -> float:
        X = scene.X[label == cluster]
        return float(np.linalg.norm(X - X.mean(axis=0), axis=1).mean()) if len(X) >= least else np.inf

    return min(range(CLUSTERS), key=spread)


# Experiments ----------------------------------------------------------------------------------------------------------


def budget_job(part: Part, epsilons: Sequence[float]) -> dict[str, Any]:
    """Figures 2 to 5 on one part: for each epsilon the non-adaptive losses, the streams, and a sketch."""
    with threadpool_limits(1):
        bench = Bench(part)
        found: dict[str, Any] = {}
        for epsilon in epsilons:
            streams = {name: bench.stream(epsilon, name, history=name == ADAPTIVE) for name in VARIANTS}
            total = sum(streams[ADAPTIVE]["rho"])
            losses = {
                PLAIN: bench.plain(float(cost_of(epsilon).amount)),
                EQUAL: float(np.mean(bench.plain(total / len(part.queries)))),
                SKETCH: bench.sketch(epsilon_of(total), part.queries, part.seed),
            }
            found[f"{epsilon:g}"] = {**streams, **losses}
        zero = np.zeros(len(part.scene.columns))
        found["zero"] = float(np.mean([bench.problem(i).excess(zero) for i in part.queries]))
        return found


def stream_job(part: Part, epsilon: float) -> dict[str, Any]:
    """Figure 9 on one part."""
    with threadpool_limits(1):
        bench = Bench(part)
        found = bench.stream(epsilon, ADAPTIVE)
        return {**found, SKETCH: bench.sketch(epsilon_of(sum(found["rho"])), part.queries, part.seed)}


def epsilon_of(rho: float) -> float:
    """At DELTA; of an amount, exactly as the account does it."""
    return ENDLESS.epsilon_of(Cost(cost_of(1).definition, Fraction(rho)))


def spent(streams: Sequence[dict[str, Any]], *, together: bool) -> list[list[float]]:
    """(queries, epsilon) along the streams. Thirds answer side by side: their queries add up, the dearest counts."""
    rho = np.array([np.cumsum(stream["rho"]) for stream in streams])
    total = rho.mean(axis=0) if not together else rho.max(axis=0)
    size = len(total)
    places = np.unique(np.linspace(0, size - 1, CURVE).round().astype(int))
    factor = len(streams) if together else 1
    return [[float((k + 1) * factor), epsilon_of(float(total[k]))] for k in places]


def plain_spent(queries: int, epsilon: float, *, together: bool) -> list[list[float]]:
    """The same for Algorithm 1 each time."""
    every = {"rho": [float(cost_of(epsilon).amount)] * queries}
    return spent([every] * THIRDS, together=together)


def told(streams: Sequence[dict[str, Any]], *, together: bool) -> dict[str, Any]:
    """What is said about the streams of one variant."""
    how, steps = np.array([s["how"] for s in streams]), np.array([s["steps"] for s in streams])
    rho, loss = np.array([s["rho"] for s in streams]), np.array([s["loss"] for s in streams])
    computed, good = how == COMPUTED, np.array([s["good"] for s in streams])
    early = min(100 // len(streams), rho.shape[1]) if together else min(100, rho.shape[1])
    found: dict[str, Any] = {
        "queries": how.size,
        "computed": int(computed.sum()),
        "with all steps": int((steps == T).sum()),
        "mean steps of a computed query": round(float(steps[computed].mean()), 1),
        "with a start below the noise": int(good.sum()),
        "steps of these": round(float(steps[good].mean()), 1) if good.any() else None,
        "spent epsilon": spent(streams, together=together)[-1][1],
        "share spent on the first 100": round(float(rho[:, :early].sum() / rho.sum()), 3),
        "mean loss": float(loss.mean()),
        "mean loss, computed": float(loss[computed].mean()),
    }
    if (how == REUSED).any():
        found["mean loss, reused"] = float(loss[how == REUSED].mean())
    return found


def budgets(parts: Sequence[dict[str, Any]], epsilon: float, *, together: bool) -> dict[str, Any]:
    """One table at one epsilon, from the results of its parts."""
    mine = [part[f"{epsilon:g}"] for part in parts]
    plain = np.array([part[PLAIN] for part in mine])
    streams = {name: [part[name] for part in mine] for name in VARIANTS}
    new = {name: np.concatenate([stream[name] for stream in streams[ADAPTIVE]]) for name in (NEW, NEW_PAPER)}
    exact = np.concatenate([stream["without noise"] for stream in streams[ADAPTIVE]])
    curves = {PLAIN: plain_spent(plain.shape[1], epsilon, together=together)}
    curves |= {name: spent(streams[name], together=together) for name in VARIANTS}
    losses = {PLAIN: plain, **{name: np.array([s["loss"] for s in streams[name]]) for name in VARIANTS}, **new}
    steps = {name: np.concatenate([s["steps"] for s in streams[name]]) for name in VARIANTS}
    return {
        "per query": epsilon,
        PLAIN: {"spent epsilon": curves[PLAIN][-1][1], "mean loss": float(plain.mean())},
        **{name: told(streams[name], together=together) for name in VARIANTS},
        **{name: {"points": len(found), "mean loss": float(found.mean())} for name, found in new.items()},
        **{name: {"mean loss": float(np.mean([part[name] for part in mine]))} for name in (EQUAL, SKETCH)},
        "without noise": dict(zip(UNNOISED, exact.mean(axis=0).tolist(), strict=True)),
        "loss of phi = 0": float(np.mean([part["zero"] for part in parts])),
        "curves": curves,
        "losses": {name: np.histogram(np.clip(v, 1e-6, 1), LOSSES)[0].tolist() for name, v in losses.items()},
        "steps": {name: np.histogram(v[v > 0], STEPS)[0].tolist() for name, v in steps.items()},
        "paths": [path for stream in streams[ADAPTIVE] for path in stream["paths"]],
    }


def compared(parts: Sequence[dict[str, Any]]) -> dict[str, Any]:
    """One line of Figure 9."""
    sketch = float(np.mean([part[SKETCH] for part in parts]))
    return {**told(parts, together=True), SKETCH: sketch, "curve": spent(parts, together=True)}


class Jobs:
    """Two processes; results by name, in the order of asking."""

    def __init__(self) -> None:
        self._pool = ProcessPoolExecutor(2, mp_context=get_context("spawn"))
        self._asked: list[tuple[str, Any]] = []

    def ask(self, name: str, work: Any, parts: Sequence[Part], *given: Any) -> None:
        self._asked += [(name, self._pool.submit(work, part, *given)) for part in parts]

    def results(self) -> dict[str, list[dict[str, Any]]]:
        found: dict[str, list[dict[str, Any]]] = {}
        for name, future in track(self._asked, description="streams of queries"):
            found.setdefault(name, []).append(future.result())
        self._pool.shutdown()
        return found


# The run --------------------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Case:
    """A table of Figures 2 to 5."""

    name: str
    parts: list[Part]
    epsilons: tuple[float, ...]
    together: bool  # thirds of the table, or the whole of it three times

    @property
    def about(self) -> str:
        return f"{self.parts[0].rows:,} rows " + ("in each of three thirds" if self.together else "in each stream")


def run(options: Namespace) -> None:
    quick, jobs = options.quick, Jobs()
    cases = []
    if not quick:
        imdb = scenes.imdb(options.data)
        copies = round(TEXT / imdb.rows)
        cases.append(Case("Text", random_parts(imdb, 40, copies), (0.006,), True))
        jobs.ask("Text", budget_job, cases[-1].parts, cases[-1].epsilons)
    adult = scenes.adult(options.data)
    cases.append(Case("Adult", random_parts(adult, 20 if quick else 400, 1, whole=True), (0.1, 1.0), False))
    jobs.ask("Adult", budget_job, cases[-1].parts, cases[-1].epsilons)
    regular = adult if quick else scenes.census(options.data, trees=TREES)
    copies = round(ACS / regular.rows)
    if not quick:
        cases.append(Case("Census", random_parts(regular, 300, copies), (0.01, 0.1), True))
        jobs.ask("Census", budget_job, cases[-1].parts, cases[-1].epsilons)
    figure_9 = densities(jobs, regular, copies, 20 if quick else 150)
    load = scenes.adult if quick else scenes.census
    figure_9 |= overfits(jobs, regular, load(options.data, trees=TREES, depth=60), copies, 20 if quick else 150)
    results = jobs.results()
    content: dict[str, Any] = {}
    for case in cases:
        for epsilon in case.epsilons:
            found = budgets(results[case.name], epsilon, together=case.together)
            content[f"{case.name}, epsilon {epsilon:g}"] = {"table": case.about, **found}
    content["Figure 9"] = {
        "about": figure_9,
        **{name: compared(found) for name, found in results.items() if name.startswith("9")},
    }
    summary = {name: {k: v for k, v in found.items() if k not in SERIES} for name, found in content.items()}
    summary["Figure 9"] = {
        name: {k: v for k, v in found.items() if k != "curve"} for name, found in content["Figure 9"].items()
    }
    everything = {"summary": {"published": PUBLISHED, "delta": DELTA, **summary}, **content}
    report.write("adaptive", options, everything, None if quick else _figure(content))


SERIES = ("curves", "losses", "steps", "paths")


def densities(jobs: Jobs, scene: Scene, copies: int, queries: int) -> dict[str, Any]:
    """Figure 9a: queries from the densest cluster, from anywhere, and as many from each cluster."""
    label = clusters(scene)
    dense = densest(scene, label, 10 * queries)
    every = [np.flatnonzero(label == cluster) for cluster in range(CLUSTERS)]
    groups = {"dense": [every[dense]], "random": [np.arange(scene.rows)], "sparse": every}
    for name, chosen in groups.items():
        jobs.ask(f"9a, {name}", stream_job, chosen_parts(scene, chosen, queries, copies), 0.01)
    return {"9a, rows of the densest cluster": len(every[dense]), "9a, rows": scene.rows, "clusters": CLUSTERS}


def overfits(jobs: Jobs, scene: Scene, deep: Scene, copies: int, queries: int) -> dict[str, Any]:
    """Figure 9b: the same queries, where the two forests disagree most often, for both of them.

    The deep forest is right about nearly all rows it was trained on, so this is where the training accuracies differ.
    """
    label, differ = clusters(scene), np.sign(scene.f) != np.sign(deep.f)
    enough = [c for c in range(CLUSTERS) if (label == c).sum() >= 10 * queries]
    worst = max(enough, key=lambda c: float(differ[label == c].mean()))
    for name, forest in (("regular", scene), ("overfitted", replace(deep, X=scene.X))):
        chosen = chosen_parts(forest, [np.flatnonzero(label == worst)], queries, copies)
        jobs.ask(f"9b, {name}", stream_job, chosen, 0.01)
    return {
        "9b, share of rows on which the forests disagree": float(differ.mean()),
        "9b, the same in the cluster of the queries": float(differ[label == worst].mean()),
    }


# The picture ----------------------------------------------------------------------------------------------------------


def _figure(content: dict[str, Any]) -> Figure:
    """Rows: budget, losses, steps, paths; columns: tables. Below: Figure 9, and the legend of the losses."""
    names = [name for name in content if name != "Figure 9"]
    figure = Figure(figsize=(3.6 * len(names), 15), layout="constrained")
    grid = figure.subplots(5, len(names), squeeze=False)
    for j, name in enumerate(names):
        found = content[name]
        _curves(grid[0][j], found["curves"])
        grid[0][j].set_title(f"{name}\n{found['table']}", fontsize=9)
        _losses(grid[1][j], found)
        _steps(grid[2][j], found["steps"])
        _paths(grid[3][j], found["paths"])
    for axes, key in zip(grid[4], ("9a", "9b"), strict=False):
        _curves(axes, {n[4:]: f["curve"] for n, f in content["Figure 9"].items() if n.startswith(key)})
        axes.set_title(f"Figure {key}, Census, epsilon 0.01", fontsize=9)
    for axes in grid[4][2:]:
        axes.set_axis_off()
    grid[4][2].legend(*grid[1][0].get_legend_handles_labels(), title="losses (second row)", loc="upper left")
    labels = ("epsilon spent", "share of queries", "share of computed", "loss along 15 paths", "epsilon spent")
    for line, label in zip(grid, labels, strict=True):
        line[0].set_ylabel(label)
    return figure


COLOURS = {PLAIN: "0.5", ADAPTIVE: "C0", ENHANCED: "C2", NEW: "C1", NEW_PAPER: "C3"}


def _curves(axes: Axes, curves: dict[str, list[list[float]]]) -> None:
    for name, curve in curves.items():
        axes.plot(*zip(*curve, strict=True), color=COLOURS.get(name), label=name)
    axes.set(xlabel="queries answered", ylim=(0, None))
    axes.legend(fontsize=7)


def _losses(axes: Axes, found: dict[str, Any]) -> None:
    for name, counts in found["losses"].items():
        share = np.array(counts) / max(1, sum(counts))
        axes.stairs(share, LOSSES, color=COLOURS[name], label=name, linewidth=1.2)
    sketch = found[SKETCH]["mean loss"]
    axes.axvline(sketch, color="k", linestyle="--", linewidth=1, label="sketch, mean")
    axes.axvline(found["loss of phi = 0"], color="0.6", linestyle=":", linewidth=1, label="phi = 0, mean")
    axes.set(xscale="log", xlabel="approximation loss", xlim=(5e-6, 1))


def _steps(axes: Axes, steps: dict[str, list[int]]) -> None:
    for name, counts in steps.items():
        axes.stairs(np.array(counts) / max(1, sum(counts)), STEPS, color=COLOURS[name], label=name)
    axes.set(xlabel="steps of a computed query")
    axes.legend(fontsize=7)


def _paths(axes: Axes, paths: list[list[float]]) -> None:
    for path in paths:
        axes.plot(np.maximum(path, 1e-7), linewidth=0.8)
    axes.set(xlabel="step", yscale="log", ylim=(5e-4, 5e-2))
    axes.set_title(f"{len(paths)} starts below the noise", fontsize=8)
