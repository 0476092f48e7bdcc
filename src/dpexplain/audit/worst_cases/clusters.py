"""Explanations of clusters, and private k-means."""

from __future__ import annotations

from collections.abc import Sequence
from fractions import Fraction
from functools import partial
from operator import itemgetter
from typing import Any

from dpexplain.audit.cases import Case, Pair, Row, Run, cases_of
from dpexplain.audit.worst_cases import asks
from dpexplain.core.budget import Definition
from dpexplain.core.domain import Categorical, Domain, Numeric
from dpexplain.methods.clusters.request import Clusters
from dpexplain.methods.kmeans.request import KMeans
from dpexplain.models.clustering import Clustering

LABELLED = Domain({**{name: Categorical([0, 1, 2, 3]) for name in "pqr"}, "label": Categorical([0, 1, 2])})
CLUSTERING = Clustering.of(
    itemgetter("label"), labels=[0, 1], domain=LABELLED, features=["label"], name="label", version="1"
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

    def run(**options: Any) -> Run:
        settings = {"attributes": ["p", "q"], "weights": (0, 1, 0), "selection_share": Fraction(1, 2), **options}
        return asks(Clusters(**settings), CLUSTERING)

    one, several = run(), run(attributes=["p", "q", "r"], per_cluster=2)
    two, two_by_paper = (run(method="two-stage", candidates=1, bounds=bounds) for bounds in ("tight", "paper"))
    pairs, pairs_by_paper = (run(method="two-stage", candidates=2, bounds=bounds) for bounds in ("tight", "paper"))
    cases = list[Case]()

    def add(
        form: str, run: Run, parts: Sequence[str], worst: float, seen: float, definitions: Sequence[Definition]
    ) -> None:
        """Where all of the loss is, exactly; and where draws can see some of it."""
        of = partial(cases_of, "clusters", form, run, LABELLED, definitions=definitions)
        cases.extend(of(CHOSEN, dict.fromkeys(parts, worst), drawn=False))
        by_two = form == "two per cluster"
        cases.extend(of(SEEN_BY_TWO if by_two else SEEN, dict.fromkeys(parts, seen), dearer=3 if by_two else 1))

    for definition, worst, seen in ((Definition.PURE, 0.9, 0.47), (Definition.ZCDP, 0.014, 0.36)):
        each, names = (definition,), ["candidates-1", "candidates-2"]
        add("one stage", one, ["combination"], worst, seen, each)
        add("two per cluster", several, ["combination"], worst / 4, seen / 16, each)
        add("two stages", two, ["candidates"] if definition is Definition.PURE else names, worst / 2, seen, each)
        add("two stages", pairs, ["combination"], worst, seen, each)
        add("two stages, paper", two_by_paper, names, worst / 3, seen / 2, each)
        add("two stages, paper", pairs_by_paper, ["combination"], worst / 2, seen / 4, each)
    counted = partial(cases_of, "clusters", domain=LABELLED, pairs=COUNTED, parts={"histograms": 0.99})
    halves = {"histograms": 0.99, "everyone": 0.99}
    released = asks(Clusters(attributes=["p", "q"], method="posterior"), CLUSTERING)
    by_paper = partial(cases_of, "clusters", domain=LABELLED, pairs=COUNTED, parts=halves)
    return [
        *cases,
        *counted(form="one stage", run=one, answers={0: [[0], [1]]}),
        *counted(form="two per cluster", run=several, answers={0: [[0, 1], [0, 2]]}),
        *counted(form="two stages", run=two, answers={0: [0], 1: [1]}),
        # a row is in one cell of the table of each attribute
        *cases_of("clusters", "counts of everything", released, LABELLED, COUNTED, {"tables": 0.99}),
        # half of the price for the clusters, half for all rows: an attribute for each cluster, and a row in both
        *by_paper(form="histograms as in the paper", run=run(histograms="paper"), answers={0: [[0], [1]]}),
    ]


def of_kmeans() -> list[Case]:
    """A row from one centre to the other, at the far ends of the range."""
    domain = Domain({"x": Numeric(0, 1)})
    pairs: dict[str, Pair] = {
        "replace-one": ([(0.0,), (0.0,), (1.0,)], [(0.0,), (1.0,), (1.0,)]),
        "add-remove": ([(0.0,), (1.0,)], [(0.0,), (1.0,), (1.0,)]),
    }
    given, run = asks(KMeans(k=2, rounds=1, start=[{"x": 0.0}, {"x": 1.0}])), asks(KMeans(k=2, rounds=1))
    return [
        *cases_of("kmeans", "given start", given, domain, pairs, {"round-1": 0.9}),
        *cases_of("kmeans", "default", run, domain, pairs, {"marginals": 0.99, "survey": 0.5}),
    ]
