"""The spec of an explanation of clusters: counts, cells of a combination, sensitivity, laws of the noise."""

from __future__ import annotations

import itertools
import math
import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from fractions import Fraction
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import NDArray

from dpexplain.core.budget import Cost, Definition
from dpexplain.core.canonical import JsonObject
from dpexplain.core.combinations import UNIT, rate_for
from dpexplain.core.mechanisms import Selection, best, selection, selection_epsilon
from dpexplain.core.noise import Law, Noise, checked_level
from dpexplain.core.release import split
from dpexplain.core.sensitivity import Neighbours, Sensitivity
from dpexplain.data.rows import Rows
from dpexplain.maths.coded import Coded
from dpexplain.maths.grids import Partition
from dpexplain.methods.clusters.request import Weights
from dpexplain.methods.clusters.scores import Integers, Scoring

Chosen = tuple[tuple[int, ...], ...]  # for each cluster the numbers of its attributes

MOST_LISTED = 2**20  # combinations of candidates
STAGE_SHARE = Fraction(1, 2)  # of the price of a two-stage choice, for the candidates
EVERYONE_SHARE = Fraction(1, 2)  # of the price of histograms, for those of all rows, where the rest is by subtraction


@dataclass(frozen=True)
class Spec(Coded):
    """The request made concrete: all that fixes the statistic and its noise, public and hashed into the ledger."""

    labels: tuple[str, ...]
    partitions: tuple[Partition, ...]
    whole: tuple[bool, ...]  # whether the values of an attribute are whole numbers
    weights: tuple[int, int, int]
    unit: int  # what one row is in the score of a combination
    cluster_unit: int  # and in that of an attribute for one cluster
    method: str
    bounds: str
    candidates: int | None  # of each cluster; None for one stage
    per_cluster: int
    selection_share: Fraction  # of the price, for the choice
    histograms: str = "disjoint"

    def __post_init__(self) -> None:
        """Refuse what only a damaged file can say."""
        two = self.candidates is not None
        if two != (self.method == "two-stage") or min(self.unit, self.per_cluster, self.cluster_unit if two else 1) < 1:
            raise ValueError("no choice of ours")
        if len(self.whole) != len(self.partitions) or self.histograms not in ("disjoint", "paper"):
            raise ValueError("no attributes of ours")

    def to_json(self) -> JsonObject:
        """What came later is written only where it is not the default."""
        said = super().to_json()
        if not self.subtracts:
            del said["histograms"]
        return said

    @property
    def subtracts(self) -> bool:
        """Whether the rest is what all rows have less what the cluster has, as in the paper."""
        return self.histograms == "paper"

    @property
    def clusters(self) -> int:
        return len(self.labels)

    @property
    def attributes(self) -> int:
        return len(self.partitions)

    @cached_property
    def scoring(self) -> Scoring:
        return Scoring(self.clusters, self.per_cluster, Weights(*self.weights))

    @property
    def most_distinct(self) -> int:
        """How many different attributes a combination can have."""
        return min(self.attributes, self.clusters * self.per_cluster)

    @property
    def combinations(self) -> float:
        """How many combinations are weighed against each other."""
        among = self.attributes if self.candidates is None else self.candidates
        return float(math.comb(among, self.per_cluster)) ** self.clusters

    @property
    def restricted(self) -> bool:
        """Whether it weighs them without a list, as one stage does, what is not among the candidates kept apart."""
        return self.candidates is not None and not self.listed

    @property
    def listed(self) -> bool:
        """Whether the second of two stages lists all combinations of the candidates: where there are few enough."""
        return self.candidates is not None and self.combinations <= MOST_LISTED

    def costs(self, cost: Cost) -> tuple[list[Cost], Cost]:
        """The cost of each stage of the choice, and that of the histograms."""
        choice, histograms = split(cost, self.selection_share)
        return [choice] if self.candidates is None else list(split(choice, STAGE_SHARE)), histograms

    def combination_shortfall(self, parts: JsonObject, level: float) -> float:
        """How many rows of its score the combination may lose, with probability `level` no more.

        One stage: P(score < best - x) <= combinations * exp(-x / scale).
        """
        part, level = parts["combination"], checked_level(level)
        if "rate" in part:
            scale = float(UNIT / (float(_positive(part["rate"])) * math.log(2)))
            return scale * (math.log(self.combinations) - math.log(1 - level)) / self.unit
        return Selection(_positive(part["scale"]), 1, math.ceil(self.combinations)).shortfall(level) / self.unit

    def candidate_shortfall(self, parts: JsonObject, level: float) -> float:
        """How many rows a candidate may lose, in its score for a single cluster."""
        part = parts["candidates"] if "candidates" in parts else parts["candidates-1"]
        law = Selection(_positive(part["scale"]), self.candidates or 0, self.attributes)
        return law.shortfall(checked_level(level)) / self.cluster_unit


def _positive(text: str) -> Fraction:
    """A positive fraction as the core writes it, and not one that fills the memory."""
    if not re.fullmatch(r"\d{1,60}(/\d{1,60})?", text) or Fraction(text) <= 0:
        raise ValueError("no scale of ours")
    return Fraction(text)


def statistic(
    rows: Rows, assign: Callable[[Rows], Integers], partitions: Sequence[Partition], clusters: int
) -> Integers:
    """The exact counts of one batch: a line of cells for each cluster and "other", attribute after attribute.

    A row that no declared cluster takes is in "other", the last one. Values are clean: nothing is lost.
    """
    small = (clusters + 1) * max(partition.size for partition in partitions) < 2**31
    labels: NDArray[Any] = assign(rows).astype(np.int32 if small else np.int64)
    counts = []
    for partition in partitions:
        values = rows[partition.feature]
        cells = labels * partition.size + (values if partition.edges is None else partition.place(values))
        counts.append(np.bincount(cells, minlength=(clusters + 1) * partition.size))
    return np.concatenate(counts).astype(np.int64)


def size_of(partitions: Sequence[Partition], clusters: int) -> int:
    """How many counts there are."""
    return (clusters + 1) * sum(partition.size for partition in partitions)


def tables_of(counts: Integers, partitions: Sequence[Partition], clusters: int) -> list[Integers]:
    """The counts of each attribute as [cluster or other, cell]."""
    ends = np.cumsum([(clusters + 1) * partition.size for partition in partitions])
    return [part.reshape(clusters + 1, -1) for part in np.split(counts, ends[:-1])]


@dataclass(frozen=True)
class Cells:
    """The cells of a combination: attribute after attribute, its clusters in order (own cells) and then the rest."""

    sizes: tuple[int, ...]  # how many values each attribute has
    chosen: Chosen
    gaussian: bool
    subtracts: bool = False  # then all rows stand in the place of the rest, as a release of their own

    @cached_property
    def attributes(self) -> tuple[int, ...]:
        """Every chosen attribute once."""
        return tuple(sorted(set(itertools.chain.from_iterable(self.chosen))))

    def users(self, attribute: int) -> tuple[int, ...]:
        """The clusters that an attribute explains."""
        return tuple(c for c, mine in enumerate(self.chosen) if attribute in mine)

    @cached_property
    def slices(self) -> dict[tuple[int, int | None], slice]:
        """(attribute, cluster, or None for the rest) to its place in the vector that is released."""
        places: dict[tuple[int, int | None], slice] = {}
        end = 0
        for a in self.attributes:
            for group in self.users(a) if self.subtracts else (*self.users(a), None):
                places[a, group] = slice(end, end + self.sizes[a])
                end += self.sizes[a]
        return places

    @cached_property
    def everyone_slices(self) -> dict[int, slice]:
        """The place of each attribute in the vector of all rows, where that is released."""
        ends = np.cumsum([0, *(self.sizes[a] for a in self.attributes)]).tolist()
        return {a: slice(*ends[i : i + 2]) for i, a in enumerate(self.attributes if self.subtracts else ())}

    @property
    def size(self) -> int:
        return int(max(place.stop for place in self.slices.values()))

    @cached_property
    def own(self) -> int:
        """How much an own cell counts."""
        if self.subtracts:
            return 1
        return own_weight(len(self.chosen), len(self.chosen[0]), len(self.attributes), self.gaussian)

    def histograms(self, tables: Sequence[Integers]) -> Integers:
        """The counts of the chosen attributes, own cells weighted: what gets noise."""
        counts = np.empty(self.size, dtype=np.int64)
        for (a, group), place in self.slices.items():
            if group is None:
                counts[place] = tables[a].sum(axis=0) - tables[a][list(self.users(a))].sum(axis=0)
            else:
                counts[place] = self.own * tables[a][group]
        return counts

    def everyone(self, tables: Sequence[Integers]) -> Integers:
        """The counts of the chosen attributes in all rows."""
        return np.concatenate([tables[a].sum(axis=0) for a in self.everyone_slices])

    def sensitivity(self, neighbours: Neighbours) -> Sensitivity:
        """Of `histograms`. Where the rest is not among them, a row is in its own cells alone."""
        uses = len(self.chosen[0])
        return sensitivity(neighbours, self.own, uses, uses if self.subtracts else len(self.attributes))


def own_weight(clusters: int, uses: int, distinct: int, gaussian: bool) -> int:
    """How much own cells count, for C clusters with l = uses attributes each, d different ones in all.

    A row is in l own cells and in d - l rest cells. The squared error of shares is about (C / own)^2 for a cluster, a
    C-th of the rows, plus (C / (C - 1))^2 for the rest, times the square of l own + (d - l) (Laplace noise) or times
    l own^2 + (d - l) (Gaussian). It is smallest at the third, or the fourth, root of (C - 1)^2 (d - l) / l.
    """
    odds = (clusters - 1) ** 2 * (distinct - uses) / uses
    return max(1, round(float(odds ** (1 / 4 if gaussian else 1 / 3))))


def nth_combination(candidates: list[list[int]], uses: int, number: int) -> Chosen:
    """The combination with this number among all ways to give each cluster `uses` of its candidates."""
    chosen: list[tuple[int, ...]] = []
    for mine in reversed(candidates):
        choices = list(itertools.combinations(mine, uses))
        number, place = divmod(number, len(choices))
        chosen.append(tuple(sorted(choices[place])))
    if number:
        raise ValueError("no combination of these candidates")
    return tuple(reversed(chosen))


def sensitivity(neighbours: Neighbours, own: int, uses: int, distinct: int) -> Sensitivity:
    """How far the histograms can move: a row adds `own` to `uses` own cells and 1 to distinct - uses rest cells, or, if
    it is in no cluster, 1 to `distinct` rest cells.

    Proof. The vector v that a row adds is non-negative with |v|_1 <= l own + d - l, |v|_2^2 <= l own^2 + d - l and
    |v|_inf <= own, because own >= 1. Up to k rows appear or vanish: k, k^2, k times as much. Replaced: a leaves and b
    comes, both non-negative: |b - a|_1 <= |a|_1 + |b|_1, |b - a|_2^2 <= |a|^2 + |b|^2 as ab >= 0, |b - a|_inf <= max.
    """
    k, changed, rest = neighbours.rows, neighbours.changed_rows, distinct - uses
    return Sensitivity(neighbours, changed * (uses * own + rest), changed * k * (uses * own**2 + rest), k * own)


def selection_laws(spec: Spec, neighbours: Neighbours, cost: Cost) -> JsonObject:
    """The law of each part of the choice at this cost, in the form in which it is released with its values."""
    choice, scoring = spec.costs(cost)[0], spec.scoring
    change = scoring.combination_range(neighbours, spec.bounds)
    if spec.listed:
        last = {"scale": str(selection(change, 1, choice[-1], 1).scale)}
    else:
        epsilon = selection_epsilon(choice[-1])
        last = {"rate": str(rate_for(change.length, epsilon, spec.attributes, spec.clusters, spec.per_cluster))}
    if spec.candidates is None:
        return {"combination": last}
    if together(spec, neighbours, choice[0]):
        first = selection(scoring.joint_range(neighbours), 1, choice[0], spec.candidates)
        names = ["candidates"]
    else:
        each = choice[0] * Fraction(1, spec.clusters)
        first = selection(scoring.cluster_range(neighbours, spec.bounds), 1, each, spec.candidates)
        names = [f"candidates-{c + 1}" for c in range(spec.clusters)]
    parts = {name: {"scale": str(first.scale)} for name in names}
    return {**parts, "combination": last}


def together(spec: Spec, neighbours: Neighbours, cost: Cost) -> bool:
    """Whether the candidates of all clusters are chosen for one cost: where that takes less noise than each for its
    part of the cost. In pure accounts it does; rho is better split.
    """
    if spec.bounds == "paper":
        return False
    one = selection(spec.scoring.joint_range(neighbours), 1, cost, 1)
    each = selection(spec.scoring.cluster_range(neighbours, "tight"), 1, cost * Fraction(1, spec.clusters), 1)
    return one.scale <= each.scale


def shortfalls(spec: Spec, neighbours: Neighbours, cost: Cost, level: float) -> dict[str, float]:
    """How many rows of its score each stage of the choice may lose at this cost, with probability `level` no more."""
    laws = selection_laws(spec, neighbours, cost)
    lost = {"combination": spec.combination_shortfall(laws, level)}
    return lost if spec.candidates is None else {"candidates": spec.candidate_shortfall(laws, level), **lost}


def histogram_noise(spec: Spec, neighbours: Neighbours, cost: Cost, distinct: int) -> Noise:
    """The noise of the histograms at this cost, if so many different attributes are chosen: the largest, for counts of
    all rows, where these are released by themselves.
    """
    price, mechanism, widest = spec.costs(cost)[1], mechanism_for(cost), max(p.size for p in spec.partitions)
    if spec.subtracts:
        half = price * EVERYONE_SHARE
        return best(Sensitivity.of_counts(neighbours, distinct), distinct * widest, half, mechanism)
    own = own_weight(spec.clusters, spec.per_cluster, distinct, cost.definition is Definition.ZCDP)
    cells = (spec.clusters * spec.per_cluster + distinct) * widest
    return best(sensitivity(neighbours, own, spec.per_cluster, distinct), cells, price, mechanism)


def mechanism_for(cost: Cost) -> str:
    """The noise of the histograms: their cells are many and a row is in few of them, so the cube is never at hand."""
    return (Law.GAUSSIAN if cost.definition is Definition.ZCDP else Law.LAPLACE).value
