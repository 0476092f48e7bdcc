"""Worst-case neighbouring tables for every release of the product.

Each function gives the cases of one module: tiny tables, made up so that one unit moves the statistic as far as the
bound allows, or as near to it as a search came. `releases.RELEASES` lists them.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from fractions import Fraction
from functools import partial
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from dpexplain.audit.cases import (
    ADD_REMOVE,
    PROTECTIONS,
    UNIT_ROWS,
    ZCDP_ONLY,
    Case,
    Numbers,
    Pair,
    Row,
    Run,
    cases_of,
)
from dpexplain.clusters import explain as clusters
from dpexplain.clusters import kmeans
from dpexplain.clusters.clustering import Clustering
from dpexplain.core.budget import Cost, Definition
from dpexplain.core.domain import Categorical, Domain, Numeric
from dpexplain.data.public_random import PublicRandom
from dpexplain.data.table import PrivateTable
from dpexplain.explainers import (
    accumulated_effects,
    adaptive,
    generic_plot,
    influence,
    interaction_ranking,
    local_explanation,
    local_sketch,
    marginals,
    partial_dependence,
    permutation_importance,
    quantiles,
    rank_aggregation,
    transparency,
)
from dpexplain.models import Model

if TYPE_CHECKING:
    import pandas as pd

Floats = NDArray[np.float64]


# Effects ----------------------------------------------------------------------------------------------------------

FLAGS = Domain({"g": Categorical(["a", "b"]), "flag": Categorical([0, 1])})
HIGH, LOW = ("a", 1), ("b", 0)
FLIPPED: dict[str, Pair] = {"replace-one": ([HIGH, HIGH], [HIGH, LOW]), "add-remove": ([HIGH], [HIGH, HIGH])}


def _flag(rows: pd.DataFrame) -> Floats:
    return rows["flag"].to_numpy(dtype=float)


FLAG = Model(_flag, output=(0, 1), features=["flag"], name="flag", version="1")


def of_marginals() -> list[Case]:
    """The row changes its cell of every feature."""

    def run(table: PrivateTable, cost: Cost, features: Sequence[str] | None) -> Any:
        return marginals.explain(table, marginals.MarginalsRequest(features=features), cost=cost)

    found = cases_of("marginals", "one feature", partial(run, features=["g"]), FLAGS, FLIPPED, {"counts": 0.99})
    return found + cases_of("marginals", "all", partial(run, features=None), FLAGS, FLIPPED, {"counts": 0.99})


def of_partial_dependence() -> list[Case]:
    """The flag decides every point of the curve, and the row changes its cell of the rug."""

    def run(table: PrivateTable, cost: Cost, method: str) -> Any:
        request = partial_dependence.PartialDependence(feature="g", method=method)
        return partial_dependence.explain(table, FLAG, request, cost=cost)

    parts = {"curve": 0.99, "rug": 0.99}
    of = partial(cases_of, "partial_dependence", domain=FLAGS, pairs=FLIPPED, parts=parts, units={"curve": 0.44})
    return [case for method in ("default", "paper") for case in of(form=method, run=partial(run, method=method))]


TWISTED = Domain({"g": Categorical(["a", "b"]), "two": Numeric(0, 1, integer=True), "up": Categorical([0, 1])})


def _twisted(rows: pd.DataFrame) -> Floats:
    """Rises over the whole range with `g` and with `two`, or falls: as `up` says."""
    up = rows["up"].to_numpy(dtype=float)
    return np.where((rows["g"] == "b") != (rows["two"] == 1), up, 1 - up)


TWIST = Model(_twisted, output=(0, 1), name="twisted", version="1")


def of_accumulated_effects() -> list[Case]:
    """A row whose difference is at one end of the clip becomes one at the other end."""

    def run(table: PrivateTable, cost: Cost, feature: str, method: str, bins: int | None = None) -> Any:
        request = accumulated_effects.AccumulatedEffects(feature=feature, method=method, bins=bins, clip=1)
        return accumulated_effects.explain(table, TWIST, request, cost=cost)

    up, parts, found = ("a", 0, 1), {"counts": 0.99, "effects": 0.99}, list[Case]()
    for feature, down in (("g", ("b", 0, 0)), ("two", ("a", 1, 0))):
        pairs: dict[str, Pair] = {"replace-one": ([up, up], [up, down]), "add-remove": ([up], [up, up])}
        default = partial(run, feature=feature, method="default")
        found += cases_of("accumulated_effects", f"of {feature}", default, TWISTED, pairs, parts)
    paper = partial(run, feature="two", method="paper", bins=2)
    found += cases_of("accumulated_effects", "paper", paper, TWISTED, pairs, parts)
    pairs = {relation: (_spread(left), _spread(right)) for relation, (left, right) in SPLIT.items()}
    return found + cases_of("accumulated_effects", "paper", paper, TWISTED, pairs, {"quantiles-0-1": 0.2})


def _spread(counts: Sequence[int]) -> list[Row]:
    return [("a", two, 1) for two, many in enumerate(counts) for _ in range(many)]


# counts of two or three cells whose medians a search found hard to hide
SPLIT = {"replace-one": ((6, 5), (7, 4)), "add-remove": ((6, 3), (6, 4))}
CELLS = {"replace-one": ((4, 6, 0), (3, 6, 1)), "add-remove": ((6, 2, 3), (6, 3, 3))}
NUMBERS = Domain({"x": Numeric(0, 2, integer=True)})


def of_quantiles() -> list[Case]:
    """A row more on one side of the median makes positions on that side better, and those on the other side worse."""

    def run(table: PrivateTable, cost: Cost) -> Any:
        return quantiles.explain(table, quantiles.QuantilesRequest(feature="x", probs=[0.5]), cost=cost)

    def rows(counts: Sequence[int]) -> list[Row]:
        return [(x,) for x, many in enumerate(counts) for _ in range(many)]

    pairs: dict[str, Pair] = {relation: (rows(left), rows(right)) for relation, (left, right) in CELLS.items()}
    found = cases_of("quantiles", "median", run, NUMBERS, pairs, {"level-1": 0.2})
    return found + cases_of("quantiles", "median", run, NUMBERS, pairs, {"count": 0.99}, protections=ADD_REMOVE)


# Parts of rows ----------------------------------------------------------------------------------------------------

ITEMS = ["p", "q"]
TOP, BOTTOM = ("a", 1), ("b", 0)
DEALT: dict[tuple[str, int], tuple[Pair, Numbers]] = {
    # one part of two goes from the bottom to the top; the other part votes the other way
    ("replace-one", 1): (([BOTTOM, TOP], [BOTTOM, BOTTOM]), ([0, 1], [0, 1])),
    ("add-remove", 1): (([BOTTOM, BOTTOM], [BOTTOM, BOTTOM, TOP]), ([0, 1], [0, 1, 1])),
    # a unit leaves the part that it held up, and brings another one down
    ("replace-one", UNIT_ROWS): (([BOTTOM, TOP, TOP], [BOTTOM, TOP, BOTTOM]), ([0, 1, 0], [0, 1, 1])),
}


def _at_the_top(rows: pd.DataFrame) -> bool:
    """Whether the part has a flag, unless it begins with one and has none later."""
    flags = rows["flag"].to_numpy()
    return bool(flags.max()) and not (flags[0] == 1 and flags.min() == 0)


def _flag_plot(rows: pd.DataFrame, _model: Any) -> Any:
    """Both points of the plot far beyond the box, above it or below it."""
    return ["a", "b"], [1e6 if _at_the_top(rows) else -1e6] * 2


def _flag_order(rows: pd.DataFrame, _model: Any) -> list[str]:
    return ITEMS if _at_the_top(rows) else ITEMS[::-1]


def of_generic_plot() -> list[Case]:
    def run(table: PrivateTable, cost: Cost) -> Any:
        request = generic_plot.GenericPlot(explainer=_flag_plot, feature="g", output=(0, 1), parts=2, version="1")
        return generic_plot.explain(table, None, request, cost=cost)

    return _dealt_cases("generic_plot", "default", run, {"curve": 0.99, "rug": 0.99})


def of_rank_aggregation() -> list[Case]:
    def run(table: PrivateTable, cost: Cost, k: int | None) -> Any:
        request = rank_aggregation.RankAggregation(ranker=_flag_order, items=ITEMS, parts=2, version="1", k=k)
        return rank_aggregation.explain(table, None, request, cost=cost)

    found = _dealt_cases("rank_aggregation", "all", partial(run, k=None), {"votes": 0.99})
    return found + _dealt_cases("rank_aggregation", "best", partial(run, k=1), {"top": 0.73, "votes": 0.99})


def _dealt_cases(release: str, form: str, run: Run, parts: Mapping[str, float]) -> list[Case]:
    found = list[Case]()
    for protection, (pair, dealt) in DEALT.items():
        pairs = {protection[0]: pair}
        found += cases_of(release, form, run, FLAGS, pairs, parts, protections=[protection], dealt=dealt)
    return found


FOUR = Domain({**{name: Numeric(0, 1, integer=True) for name in "abc"}, "kind": Categorical([0, 1, 2])})


def _products(rows: pd.DataFrame) -> Floats:
    """a times b where the kind is 1, weakly a times c where it is 0."""
    a, b, c = (rows[name].to_numpy(dtype=float) for name in "abc")
    kind = rows["kind"].to_numpy()
    return np.asarray(a * b * (kind == 1) + 0.3 * a * c * (kind == 0))


def of_interaction_ranking() -> list[Case]:
    """One row decides which pair interacts more, and turns the only ballot around."""
    products = Model(_products, output=(0, 1), name="products", version="1")
    settings: dict[str, Any] = {"pairs": [("a", "b"), ("a", "c")], "points": 3, "parts": 1}

    def run(table: PrivateTable, cost: Cost, k: int | None) -> Any:
        request = interaction_ranking.InteractionRanking(k=k, **settings)
        return interaction_ranking.explain(table, products, request, cost=cost)

    idle, weak, strong = (0, 0, 0, 2), (1, 1, 1, 0), (1, 1, 1, 1)
    pairs: dict[str, Pair] = {
        "replace-one": ([idle, weak], [idle, strong]),
        "add-remove": ([idle, weak], [idle, weak, strong]),
    }
    found = cases_of(
        "interaction_ranking", "all", partial(run, k=None), FOUR, pairs, {"votes": 0.99}, units={"votes": 0.24}
    )
    return found + cases_of(
        "interaction_ranking",
        "best",
        partial(run, k=1),
        FOUR,
        pairs,
        {"top": 0.2, "votes": 0.99},
        units={"votes": 0.24},
    )


# Importance -------------------------------------------------------------------------------------------------------

TARGET = Domain({"y": Numeric(0, 3, integer=True), "b": Numeric(-1, 1), "c": Categorical(["x", "z"])})
SWAP = next(s for s in range(9) if PublicRandom(s).generator.permutation(2).tolist() == [1, 0])


def _by_column(rows: pd.DataFrame) -> Floats:
    """What `b` says, from 0 to 3; where `c` is z, always 3."""
    return np.where((rows["c"] == "z").to_numpy(), 3.0, 1.5 + 1.5 * rows["b"].to_numpy())


def of_permutation_importance() -> list[Case]:
    """A group of rows goes from one end of its ball to the other one; a loss goes from 0 to its bound."""
    model = Model(_by_column, output=(0, 3), features=["b", "c"], name="column", version="1")

    def run(table: PrivateTable, cost: Cost, **options: Any) -> Any:
        request = permutation_importance.PermutationImportance(target="y", features=["b"], **options)
        return permutation_importance.explain(table, model, request, cost=cost)

    first, agree, disagree = (1, 0.0, "x"), (3, 1.0, "x"), (3, -1.0, "x")
    pairs: dict[str, Pair] = {
        "replace-one": ([first, agree], [first, disagree]),
        "add-remove": ([first, agree], [first, agree, (0, 1.0, "x")]),
    }
    name = "permutation_importance"
    clip, parts = partial(run, clip=0.5), {"base": 0.99, "changes": 0.99}
    found = cases_of(
        name, "default", clip, TARGET, pairs, parts, units={"base": 0.49, "changes": 0.24}, dealt=([0, 1], [0, 1, 2])
    )
    # One group of two becomes large. The other one, in between, makes a limit above it better and one below it worse.
    still, near, far = (0, -1.0, "x"), (1, -0.9955, "x"), (3, 1.0, "x")
    places = np.argsort(PublicRandom(0).generator.permutation(4))[[0, 2, 1, 3]].tolist()
    moved: dict[str, Pair] = {"replace-one": ([still, still, still, near], [still, far, still, near])}
    found += cases_of(
        name, "default", run, TARGET, moved, {"limit": 0.3}, protections=PROTECTIONS[:1], dealt=(places, places)
    )
    rest = [still, near, still]
    moved = {"add-remove": ([still, still, still, *rest], [still, still, still, *rest, far])}
    numbers = ([0, 2, 4, 1, 3, 5], [0, 2, 4, 1, 3, 5, 6])
    found += cases_of(name, "default", run, TARGET, moved, {"limit": 0.3}, protections=ADD_REMOVE, dealt=numbers)
    wrong: dict[str, Pair] = {"replace-one": ([still, still], [still, (0, 1.0, "z")])}
    paper = partial(run, method="paper", seed=SWAP)
    found += cases_of(name, "paper", paper, TARGET, wrong, {"errors": 0.99}, protections=PROTECTIONS[:1])
    return found + _importance_by_marginals(model)


def _importance_by_marginals(model: Model) -> list[Case]:
    """Each row by itself, and all released rows have c = x: what `c` is replaced by is no matter of chance."""

    def run(table: PrivateTable, cost: Cost, clip: float | None) -> Any:
        known = marginals.explain(table, marginals.MarginalsRequest(features=["c"]), cost=cost)
        request = permutation_importance.PermutationImportance(target="y", features=["c"], clip=clip, repeats=1)
        return permutation_importance.explain(table, model, request, cost=cost, marginals=known)

    still, worse, better = (0, -1.0, "x"), (3, -1.0, "z"), (0, -1.0, "z")
    pairs: dict[str, Pair] = {"replace-one": ([still, worse], [still, better]), "add-remove": ([still], [still, worse])}
    settings: dict[str, Any] = {"answers": {0: [5, 0]}}
    name, form = "permutation_importance", "by marginals"
    found = cases_of(name, form, partial(run, clip=0.5), TARGET, pairs, {"2:changes": 0.99}, **settings)
    near = (3, 0.9434, "z")  # the row in between
    pairs = {"replace-one": ([near, still], [near, worse]), "add-remove": ([near, still], [near, still, worse])}
    return found + cases_of(name, form, partial(run, clip=None), TARGET, pairs, {"2:limit": 0.5}, **settings)


# Local explanations -----------------------------------------------------------------------------------------------

SQUARE = Domain({"a": Numeric(0, 1), "b": Numeric(0, 1)})


def _jump(rows: pd.DataFrame) -> Floats:
    return np.sign(rows["b"].to_numpy() - 0.365)


def of_local_explanation() -> list[Case]:
    return [*_moments(), *_gradients()]


def _moments() -> list[Case]:
    """A row of the largest moments comes; or a row keeps its place, nearly, and its score is turned over."""
    model = Model(_jump, output=(-1, 1), name="jump", version="1")
    request = local_explanation.LocalExplanation(record=[0, 0], method="moments", anchor="middle")

    def run(table: PrivateTable, cost: Cost) -> Any:
        return local_explanation.explain(table, model, request, cost=cost)

    far, above, below = (1.0, 1.0), (0.0, 0.3655), (0.0, 0.3645)
    pairs: dict[str, Pair] = {
        "add-remove": ([far, far], [far, far, far]),
        "replace-one": ([far, far, above], [far, far, below]),
    }
    return cases_of("local_explanation", "moments", run, SQUARE, pairs, {"moments": 0.95}, definitions=ZCDP_ONLY)


PLANE = Domain({"x": Numeric(0, 1), "y": Numeric(0, 1)})
# a row, rows that pull the other way, and the pair of gradients that a search found farthest apart
FAR, OTHER, BEHIND, BESIDE = (0.8, 0.8), (0.7588, 0.7588), (0.71351345, 0.79729884), (0.5048, 0.866)
TO_FAR, BETWEEN = (-0.70710678, -0.70710678), (-0.94985428, 0.31269289)  # coefficients that are most wrong about them
STEPS, PUSH = 3, 2**40  # a released gradient of this length leads to the edge of the ball, wherever the path was
RECORD = {"x": 0.5, "y": 0.5}


def _sides(rows: pd.DataFrame) -> Floats:
    """1 on the right, -1 on the left and on most of the diagonal."""
    x, y = rows["x"].to_numpy(), rows["y"].to_numpy()
    return np.where((x >= 0.6) & ((x != y) | (x >= 0.79)), 1.0, -1.0)


SIDES = Model(_sides, output=(-1, 1), name="sides", version="1")


def _to(point: Sequence[float]) -> list[int]:
    """A released gradient after which a path stands at this point of the ball's edge."""
    return [round(-PUSH * x) for x in point]


def _gradients() -> list[Case]:
    """The second step of a path, at the point where a row's gradient is longest."""
    request = local_explanation.LocalExplanation(record=RECORD, method="gradient", anchor=0.0, iterations=STEPS)

    def run(table: PrivateTable, cost: Cost) -> Any:
        return local_explanation.explain(table, SIDES, request, cost=cost)

    name, form, options = "local_explanation", "gradient", {"rows_hint": 2}
    joins: dict[str, Pair] = {"add-remove": ([FAR], [FAR, FAR])}
    turns: dict[str, Pair] = {"replace-one": ([FAR, BEHIND], [FAR, BESIDE])}
    found = cases_of(name, form, run, PLANE, joins, {"count": 0.99}, definitions=ZCDP_ONLY)
    for pairs, point, least in ((joins, TO_FAR, 0.99), (turns, BETWEEN, 0.79)):
        settings: dict[str, Any] = {"answers": {0: _to(point)}, "options": options, "definitions": ZCDP_ONLY}
        found += cases_of(name, form, run, PLANE, pairs, {"gradient-2": least}, **settings)
    return found


def of_adaptive() -> list[Case]:
    """The next question after a path, or two, that were led to the edge of the ball."""

    def run(table: PrivateTable, cost: Cost, asked: int) -> Any:
        price: dict[str, Any] = {"rho": cost.amount * asked, "per_query": cost.amount}
        explainer = adaptive.AdaptiveExplainer(
            table, SIDES, **price, iterations=STEPS, anchor=0.0, reuse_distance=0, enhanced=asked == 3
        )
        for number in range(1, asked):
            explainer.explain({"x": 0.1, "y": 0.1 * number})
        return explainer.explain(RECORD)

    joins: dict[str, Pair] = {"add-remove": ([FAR], [FAR, FAR])}
    turns: dict[str, Pair] = {"replace-one": ([FAR, FAR], [FAR, OTHER])}
    parts: dict[str, Pair] = {"replace-one": ([FAR, BEHIND], [FAR, BESIDE])}
    first: dict[str, Pair] = {
        "add-remove": ([FAR, OTHER], [FAR, OTHER, OTHER]),
        "replace-one": ([FAR, OTHER, FAR], [FAR, OTHER, OTHER]),
    }
    there = {number: _to(TO_FAR) for number in range(STEPS)}
    between = {number: _to(BETWEEN) for number in range(STEPS)} | {STEPS: [0]}  # and a beta of 0: full steps
    both = there | {STEPS: [0]} | {number: _to([-x for x in TO_FAR]) for number in range(STEPS + 1, STEPS + 3)}
    settings: dict[str, Any] = {"definitions": ZCDP_ONLY, "options": {"rows_hint": 2}}
    name, two, three = "adaptive", partial(run, asked=2), partial(run, asked=3)
    return [
        *cases_of(name, "first", partial(run, asked=1), PLANE, joins, {"count": 0.99}, definitions=ZCDP_ONLY),
        *cases_of(name, "second", two, PLANE, joins | turns, {"2:beta": 0.7}, answers=there, **settings),
        *cases_of(name, "second", two, PLANE, joins, {"2:gradient-1": 0.99}, answers=there | {STEPS: [0]}, **settings),
        *cases_of(name, "second", two, PLANE, parts, {"2:gradient-1": 0.79}, answers=between, **settings),
        *cases_of(name, "third", three, PLANE, first, {"3:choice": 0.49}, answers=both, **settings),
    ]


def of_local_sketch() -> list[Case]:
    """One cell with its centre in the middle, and rows beyond its radius: they are shrunk to it."""
    domain = Domain({"a": Numeric(0, 1), "b": Numeric(0, 1), "f": Numeric(-1, 1)})
    model = Model(lambda rows: rows["f"].to_numpy(), output=(-1, 1), name="f", version="1")

    def run(table: PrivateTable, cost: Cost, **options: Any) -> Any:
        request = local_sketch.LocalSketchRequest(features=["a", "b"], **options)
        return local_sketch.explain(table, model, request, cost=cost)

    def at(angle: float, f: float) -> Row:
        return 0.5 + 0.45 * math.cos(angle), 0.5 + 0.45 * math.sin(angle), f

    turn = math.acos((1.4**2 - 0.7**2) / 2)  # between two rows of one cell that are as far apart as there can be
    middle = (0.5, 0.5, 0.0)
    pairs: dict[str, Pair] = {
        "add-remove": ([middle], [middle, at(1.0, 1)]),
        "replace-one": ([middle, at(0.3, 1)], [middle, at(0.3 + turn, -1)]),
    }
    given = partial(run, centres=[(0.5, 0.5)], radius=0.3)
    found = cases_of("local_sketch", "given centres", given, domain, pairs, {"moments": 0.9}, definitions=ZCDP_ONLY)
    drawn = partial(run, cells=2)
    return found + cases_of("local_sketch", "default", drawn, domain, pairs, {"marginals": 0.99}, definitions=ZCDP_ONLY)


# Clusters ---------------------------------------------------------------------------------------------------------

LABELLED = Domain({**{name: Categorical([0, 1, 2, 3]) for name in "pqr"}, "label": Categorical([0, 1, 2])})
CLUSTERING = Clustering.of(
    lambda rows: rows["label"], labels=[0, 1], domain=LABELLED, features=["label"], name="label", version="1"
)


def _blocks(*blocks: tuple[int, int, int, int]) -> list[Row]:
    """(label, p, q, how often) for each block; r is always 0."""
    return [(p, q, 0, label) for label, p, q, times in blocks for _ in range(times)]


# A row joins cluster 0. In p only cluster 0 has its value (+1), in q only cluster 1 has it (-1), and what is likely
# without the row is q for both: cluster 0 has a value of its own there.
JOIN = _blocks((0, 1, 2, 20), (0, 0, 2, 40), (1, 0, 1, 20), (1, 0, 0, 20), (2, 0, 0, 200))
# A row of cluster 0 with value 1 becomes one of cluster 1 with value 3. In p both values are cluster 0's (it loses
# twice), in q both are cluster 1's (it gains twice), and likely is p for both: cluster 1 has its own value.
MOVE = _blocks((0, 1, 0, 30), (0, 3, 0, 30), (1, 2, 1, 30), (1, 2, 3, 30), (1, 2, 0, 200), (2, 0, 0, 300))
CHOSEN: dict[str, Pair] = {
    "add-remove": (JOIN, [*JOIN, (1, 1, 0, 0)]),
    "replace-one": ([*MOVE, (1, 1, 0, 0)], [*MOVE, (3, 3, 0, 1)]),
}
# small clusters, so that every outcome comes up: found by a search for what draws can tell
EVEN = _blocks((0, 1, 1, 12), (1, 0, 0, 4), (1, 2, 2, 3))
UNEVEN = _blocks((2, 1, 3, 6), (1, 3, 0, 6), (0, 1, 2, 6), (0, 2, 2, 5), (0, 2, 3, 2))
SEEN: dict[str, Pair] = {
    "add-remove": (EVEN, [*EVEN, (0, 1, 0, 1)]),
    "replace-one": ([*UNEVEN, (2, 1, 0, 1)], [*UNEVEN, (0, 2, 0, 1)]),
}
FEW, MIXED = _blocks((2, 1, 1, 6), (2, 3, 1, 4), (1, 1, 2, 3)), _blocks((0, 3, 1, 6), (0, 2, 3, 3), (2, 0, 3, 3))
SEEN_BY_TWO: dict[str, Pair] = {
    "add-remove": (FEW, [*FEW, (2, 1, 0, 0)]),
    "replace-one": ([*MIXED, (0, 0, 0, 0)], [*MIXED, (1, 1, 0, 2)]),
}
COUNTED: dict[str, Pair] = {
    "add-remove": ([(0, 0, 0, 1)], [(0, 0, 0, 1), (1, 1, 0, 0)]),
    "replace-one": ([(0, 0, 0, 1), (1, 1, 0, 0)], [(0, 0, 0, 1), (2, 2, 0, 1)]),
}


def of_clusters() -> list[Case]:
    """The choice by sufficiency, whose range is the longest; the histograms of another attribute for each cluster."""

    def run(table: PrivateTable, cost: Cost, **options: Any) -> Any:
        settings = {"attributes": ["p", "q"], "weights": (0, 1, 0), "selection_share": Fraction(1, 2), **options}
        return clusters.explain(table, CLUSTERING, clusters.ClustersRequest(**settings), cost=cost)

    several = partial(run, attributes=["p", "q", "r"], per_cluster=2)
    two = partial(run, method="two-stage", candidates=1)
    pairs = partial(run, method="two-stage", candidates=2)
    found = list[Case]()

    def add(
        form: str, run: Run, parts: Sequence[str], worst: float, seen: float, definitions: Sequence[Definition]
    ) -> None:
        """Where all of the loss is, exactly; and where draws can see some of it."""
        of = partial(cases_of, "clusters", form, run, LABELLED, definitions=definitions)
        found.extend(of(CHOSEN, dict.fromkeys(parts, worst), drawn=False))
        by_two = form == "two per cluster"
        found.extend(of(SEEN_BY_TWO if by_two else SEEN, dict.fromkeys(parts, seen), dearer=3 if by_two else 1))

    for definition, worst, seen in ((Definition.PURE, 0.9, 0.47), (Definition.ZCDP, 0.014, 0.36)):
        each, names = (definition,), ["candidates-1", "candidates-2"]
        add("one stage", run, ["combination"], worst, seen, each)
        add("two per cluster", several, ["combination"], worst / 4, seen / 16, each)
        add("two stages", two, ["candidates"] if definition is Definition.PURE else names, worst / 2, seen, each)
        add("two stages", pairs, ["combination"], worst, seen, each)
        add("two stages, paper", partial(two, bounds="paper"), names, worst / 3, seen / 2, each)
        add("two stages, paper", partial(pairs, bounds="paper"), ["combination"], worst / 2, seen / 4, each)
    counted = partial(cases_of, "clusters", domain=LABELLED, pairs=COUNTED, parts={"histograms": 0.99})
    return [
        *found,
        *counted(form="one stage", run=run, answers={0: [[0], [1]]}),
        *counted(form="two per cluster", run=several, answers={0: [[0, 1], [0, 2]]}),
        *counted(form="two stages", run=two, answers={0: [0], 1: [1]}),
    ]


def of_kmeans() -> list[Case]:
    """A row from one centre to the other, at the far ends of the range."""
    domain = Domain({"x": Numeric(0, 1)})

    def run(table: PrivateTable, cost: Cost, **options: Any) -> Any:
        return kmeans.explain(table, kmeans.KMeansRequest(k=2, rounds=1, **options), cost=cost)

    pairs: dict[str, Pair] = {
        "replace-one": ([(0.0,), (0.0,), (1.0,)], [(0.0,), (1.0,), (1.0,)]),
        "add-remove": ([(0.0,), (1.0,)], [(0.0,), (1.0,), (1.0,)]),
    }
    given = partial(run, start=[{"x": 0.0}, {"x": 1.0}])
    return [
        *cases_of("kmeans", "given start", given, domain, pairs, {"round-1": 0.9}),
        *cases_of("kmeans", "default", run, domain, pairs, {"marginals": 0.99, "survey": 0.5}),
    ]


# Influence --------------------------------------------------------------------------------------------------------

PEOPLE = Domain(
    {"s": Categorical(["a", "b"]), "t": Categorical([0, 1]), "u": Categorical([0, 1]), "g": Categorical(["x", "y"])}
)


def _told(rows: pd.DataFrame) -> Floats:
    """Whether `s` is a; turned around by `u`."""
    return np.asarray((rows["s"] == "a").to_numpy() != (rows["u"] == 1).to_numpy(), dtype=np.float64)


TOLD = Model(_told, output=(0, 1), features=["s", "t", "u"], name="told", version="1")


def of_influence() -> list[Case]:
    """All released rows have s = b and t = 0, so that what `s` is replaced by is no matter of chance."""

    def run(table: PrivateTable, cost: Cost, **options: Any) -> Any:
        request = influence.InfluenceRequest(**{"features": ["s"], "outcome": "score", "samples": 1, **options})
        return influence.explain(table, TOLD, request, cost=cost)

    up, down, still, away = ("a", 0, 0, "x"), ("a", 0, 1, "x"), ("b", 0, 0, "x"), ("a", 0, 1, "y")
    name = "influence"
    only_b: dict[str, Any] = {"answers": {0: [0, 5]}}
    moved: dict[str, Pair] = {"replace-one": ([up, up], [up, still]), "add-remove": ([up], [up, up])}
    turned: dict[str, Pair] = {"replace-one": ([up, up], [up, down]), "add-remove": ([up], [up, up])}
    crossed: dict[str, Pair] = {"replace-one": ([up, up], [up, away]), "add-remove": ([up], [up, up])}
    group: dict[str, Any] = {"group": {"g": "x"}}
    paper = partial(run, method="paper", seed=SWAP)
    shapley = partial(run, quantity="group", **group, features=["s", "t"], aggregate="shapley", samples=None)
    return [
        *cases_of(name, "average", run, PEOPLE, moved, {"counts": 0.99, "influences": 0.79}, **only_b),
        *cases_of(
            name, "group", partial(run, quantity="group", **group), PEOPLE, turned, {"influences": 0.99}, **only_b
        ),
        *cases_of(
            name,
            "disparity",
            partial(run, quantity="disparity", **group),
            PEOPLE,
            crossed,
            {"influences": 0.74},
            **only_b,
        ),
        *cases_of(name, "shapley", shapley, PEOPLE, turned, {"influences": 0.99}, answers={0: [0, 5, 5, 0]}),
        *cases_of(name, "paper", paper, PEOPLE, moved, {"influences": 0.99}, protections=PROTECTIONS[:1]),
    ]


PERSON = {"s": "a", "t": 0, "u": 0, "g": "x"}


def of_persons() -> list[Case]:
    """What is released for a person is the marginals of the table."""

    def run(table: PrivateTable, cost: Cost) -> Any:
        request = influence.InfluenceRequest(quantity="individual", features=["s"], row=PERSON, outcome="score")
        return influence.explain(table, TOLD, request, cost=cost)

    up, still = ("a", 0, 0, "x"), ("b", 0, 0, "x")
    moved: dict[str, Pair] = {"replace-one": ([up, up], [up, still]), "add-remove": ([up], [up, up])}
    return cases_of("persons", "individual", run, PEOPLE, moved, {"counts": 0.99})


def of_transparency() -> list[Case]:
    """A row keeps its cell, and its outcome is turned over."""
    request = transparency.TransparencyRequest(features=["s"], outcome="score")

    def run(table: PrivateTable, cost: Cost) -> Any:
        return transparency.explain(table, TOLD, PERSON, request, cost=cost)

    up, down, still = ("a", 0, 0, "x"), ("a", 0, 1, "x"), ("b", 0, 0, "x")
    turned: dict[str, Pair] = {"replace-one": ([up, up], [up, down]), "add-remove": ([up], [up, up])}
    moved: dict[str, Pair] = {"replace-one": ([up, up], [up, still]), "add-remove": ([up], [up, up])}
    return [
        *cases_of("transparency", "default", run, PEOPLE, turned, {"outcomes": 0.99}),
        *cases_of("transparency", "default", run, PEOPLE, moved, {"counts": 0.99}),
    ]
