"""What tells clusters from the rest: for each cluster the chosen attributes, and two histograms of each of them.

Released are, for each attribute that was chosen at all, the counts of its values in every cluster that it explains (its
own cells) and in all other rows together (rest cells): disjoint cells, so cluster and rest add up to all rows. Own
cells count `own` times as much as rest cells under one noise: a cluster is smaller than what is around it.
"""

from __future__ import annotations

import itertools
import math
import re
from dataclasses import dataclass
from fractions import Fraction
from functools import cached_property
from typing import TYPE_CHECKING, Any, ClassVar

import numpy as np

from dpexplain.core.canonical import JsonObject
from dpexplain.core.combinations import UNIT
from dpexplain.core.mechanisms import Selection
from dpexplain.core.noise import Law, Noise, checked_level
from dpexplain.maths.grids import Partition
from dpexplain.maths.tails import combined_halfwidth
from dpexplain.methods.marginals.result import nearest_with_total
from dpexplain.methods.result import Floats, Result
from dpexplain.receipts import Receipt

if TYPE_CHECKING:
    import pandas as pd
    from matplotlib.axes import Axes

LEVEL = 0.95
MOST_LISTED = 2**20  # combinations of candidates
MOST_NAMED = 3  # values of a category that a sentence names
LEAST_GAIN = 0.005  # of a share, for which a sentence names one more value
Chosen = tuple[tuple[int, ...], ...]  # for each cluster the numbers of its attributes


@dataclass(frozen=True)
class Cells:
    """The cells of a combination: attribute after attribute, its clusters in order and then the rest."""

    sizes: tuple[int, ...]  # how many values each attribute has
    chosen: Chosen
    gaussian: bool

    @cached_property
    def attributes(self) -> tuple[int, ...]:
        """Every chosen attribute once."""
        return tuple(sorted(set(itertools.chain.from_iterable(self.chosen))))

    def users(self, attribute: int) -> tuple[int, ...]:
        """The clusters that an attribute explains."""
        return tuple(c for c, mine in enumerate(self.chosen) if attribute in mine)

    @cached_property
    def slices(self) -> dict[tuple[int, int | None], slice]:
        """(attribute, cluster, or None for the rest) to its place in the released vector."""
        places: dict[tuple[int, int | None], slice] = {}
        end = 0
        for a in self.attributes:
            for group in (*self.users(a), None):
                places[a, group] = slice(end, end + self.sizes[a])
                end += self.sizes[a]
        return places

    @property
    def size(self) -> int:
        return int(max(place.stop for place in self.slices.values()))

    @property
    def uses(self) -> int:
        return len(self.chosen[0])

    @cached_property
    def own(self) -> int:
        """How much an own cell counts."""
        return own_weight(len(self.chosen), self.uses, len(self.attributes), self.gaussian)


@dataclass(frozen=True)
class Explanation:
    """One attribute of one cluster: estimated numbers of rows by value, inside the cluster and outside."""

    cluster: str
    attribute: str
    partition: Partition
    names: tuple[str, ...]  # of the values
    counts: Floats
    rest: Floats

    @property
    def shares(self) -> Floats:
        return _shares(self.counts)

    @property
    def rest_shares(self) -> Floats:
        return _shares(self.rest)


@dataclass(frozen=True)
class ClusterExplanation(Result):
    """For each cluster the attributes that tell it from the rest. `values` are numbers of rows: for each explanation
    the histogram of its cluster and then that of the rest, never negative, all with the same totals.
    """

    kind: ClassVar[str] = "clusters"

    @property
    def spec(self) -> JsonObject:
        spec: JsonObject = self.receipt.request["spec"]
        return spec

    @property
    def labels(self) -> list[str]:
        """The names of the clusters."""
        return [str(label) for label in self.spec["labels"]]

    @property
    def title(self) -> str:
        return f"What tells {len(self.labels)} clusters apart"

    @cached_property
    def partitions(self) -> tuple[Partition, ...]:
        return tuple(Partition.from_json(p) for p in self.spec["partitions"])

    @cached_property
    def _numbers(self) -> Chosen:
        """The chosen attributes of each cluster by their number, as they were released."""
        values = self.released["parts"]["combination"]["values"]
        if self.spec["method"] == "two-stage":
            (number,) = values
            chosen = nth_combination(self.candidates, int(self.spec["per_cluster"]), int(number))
        else:
            chosen = tuple(tuple(int(a) for a in mine) for mine in values)
        uses = int(self.spec["per_cluster"])
        known = all(len(set(mine)) == len(mine) == uses and min(mine) >= 0 for mine in chosen)
        if not known or len(chosen) != len(self.labels) or max(map(max, chosen)) >= len(self.partitions):
            raise ValueError("no choice of ours")
        return chosen

    @property
    def candidates(self) -> list[list[int]]:
        """Of a two-stage choice: the candidates of each cluster, by their number, best first."""
        parts = self.released["parts"]
        if "candidates" in parts:
            listed = parts["candidates"]["values"]
        else:
            listed = [parts[f"candidates-{c + 1}"]["values"] for c in range(len(self.labels))]
        return [[int(a) for a in mine] for mine in listed]

    @property
    def chosen(self) -> dict[str, list[str]]:
        """Cluster to its attributes."""
        names = [[self.partitions[a].feature for a in mine] for mine in self._numbers]
        return dict(zip(self.labels, names, strict=True))

    @cached_property
    def cells(self) -> Cells:
        _, noise = self.part("histograms")
        return Cells(tuple(p.size for p in self.partitions), self._numbers, noise.law is Law.GAUSSIAN)

    @cached_property
    def _noisy(self) -> dict[tuple[int, int | None], Floats]:
        """Every released histogram in rows, as noisy as it is."""
        values, _ = self.part("histograms")
        return {
            (a, group): values[place] / (1 if group is None else self.cells.own)
            for (a, group), place in self.cells.slices.items()
        }

    @cached_property
    def sizes(self) -> Floats:
        """The estimated number of rows of each cluster, and of rows in none: they add up to all rows.

        Least squares over the totals of all released histograms, then the nearest that are not negative. Where the
        number of rows is public it is not estimated.
        """
        rows, clusters = self.receipt.request["table"]["rows"], len(self.labels)
        lines, totals = [], []
        for (a, group), counts in self._noisy.items():
            line = np.zeros(clusters + 1)  # of the unknown sizes, and of the unknown number of all rows
            if group is None:
                line[[*self.cells.users(a), -1]] = [-1.0] * len(self.cells.users(a)) + [1.0]
            else:
                line[group] = 1.0
            precision = (1 if group is None else self.cells.own) / math.sqrt(len(counts))
            lines.append(precision * line)
            totals.append(precision * counts.sum())
        left, right = np.array(lines), np.array(totals)
        if rows is not None:
            left, right = left[:, :-1], right - left[:, -1] * rows
        solved = np.linalg.lstsq(left, right, rcond=None)[0]
        total = max(0.0, float(solved[-1])) if rows is None else float(rows)
        found = solved[:clusters]
        return nearest_with_total(np.append(found, total - found.sum()), total)

    @cached_property
    def _counts(self) -> dict[tuple[int, int | None], Floats]:
        """Every released histogram, not negative, with the total of its cluster or of its rest."""
        counts = {}
        for (a, group), noisy in self._noisy.items():
            total = (
                self.sizes[group]
                if group is not None
                else self.sizes.sum() - self.sizes[list(self.cells.users(a))].sum()
            )
            counts[a, group] = nearest_with_total(noisy, float(total))
        return counts

    @cached_property
    def explanations(self) -> list[Explanation]:
        """One for each cluster and each of its attributes, in order."""
        found = []
        for c, mine in enumerate(self._numbers):
            for a in mine:
                partition = self.partitions[a]
                rest = sum(
                    (self._counts[a, g] for g in (*self.cells.users(a), None) if g != c), np.zeros(partition.size)
                )
                names = cell_names(partition, whole=bool(self.spec["whole"][a]))
                found.append(Explanation(self.labels[c], partition.feature, partition, names, self._counts[a, c], rest))
        return found

    @cached_property
    def values(self) -> Floats:
        return np.concatenate([np.concatenate([e.counts, e.rest]) for e in self.explanations])

    def interval(self, level: float = LEVEL) -> tuple[Floats, Floats]:
        """(low, high) around each exact number of rows."""
        lows, highs = [], []
        for c, mine in enumerate(self._numbers):
            for a in mine:
                for groups in self._sides(c, a):
                    middle = sum((self._noisy[a, g] for g in groups), np.zeros(self.partitions[a].size))
                    half = self._reach(groups, 1, level)
                    lows.append(np.maximum(middle - half, 0))
                    highs.append(np.maximum(middle + half, 0))
        return np.concatenate(lows), np.concatenate(highs)

    def share_interval(
        self, explanation: int, cells: list[int], *, rest: bool, level: float = LEVEL
    ) -> tuple[float, float]:
        """(low, high) around the exact share of some cells among the rows of a cluster, or among the others.

        A share grows with the rows in these cells and falls with those in all other cells; both are noisy, so each
        interval may miss half as often.
        """
        c, a = self._place(explanation)
        groups = self._sides(c, a)[int(rest)]
        noisy = sum((self._noisy[a, g] for g in groups), np.zeros(self.partitions[a].size))
        inside = np.zeros(len(noisy), dtype=bool)
        inside[cells] = True
        each = (1 + checked_level(level)) / 2
        ends = []
        for mask in (inside, ~inside):
            half, middle = self._reach(groups, int(mask.sum()), each), float(noisy[mask].sum())
            ends.append((max(0.0, middle - half), max(0.0, middle + half)))
        (low, high), (low_rest, high_rest) = ends
        return low / max(low + high_rest, 1e-300), high / (high + low_rest) if high > 0 else 0.0

    def _place(self, explanation: int) -> tuple[int, int]:
        """The cluster and the attribute of the explanation with this number."""
        uses = self.cells.uses
        return explanation // uses, self._numbers[explanation // uses][explanation % uses]

    def _sides(self, c: int, a: int) -> tuple[list[int | None], list[int | None]]:
        """The released histograms that make up a cluster, and those that make up the rest."""
        return [c], [g for g in (*self.cells.users(a), None) if g != c]

    def _reach(self, groups: list[int | None], cells: int, level: float) -> float:
        """Half the width of the interval of a sum over so many cells of each group."""
        _, noise = self.part("histograms")
        own = cells * sum(g is not None for g in groups)
        return reach_of_sum(noise, self.cells.own, own, cells * (None in groups), level)

    @cached_property
    def sentences(self) -> list[str]:
        """One sentence for each explanation."""
        return [self._sentence(i) for i in range(len(self.explanations))]

    def _sentence(self, number: int) -> str:
        e = self.explanations[number]
        cells = telling_cells(e)
        total, half = float(e.counts.sum()), self._reach([self._place(number)[0]], len(e.counts), LEVEL)
        if total <= half:
            return f"Cluster {e.cluster}: too few rows to tell anything by {e.attribute} ({total:,.0f} ± {half:,.0f})."
        share, rest = float(e.shares[cells].sum()), float(e.rest_shares[cells].sum())
        low, high = self.share_interval(number, cells, rest=False)
        _, rest_high = self.share_interval(number, cells, rest=True)
        if low <= rest_high:
            return f"Cluster {e.cluster}: within the noise, {e.attribute} is like elsewhere."
        what = f"is mostly {values_named(e, cells)}" if low > 0.5 else f"is more often {values_named(e, cells)}"
        inside = f"{_percent(share)} ± {_percent(max(high - share, share - low, 0.0))}"
        return f"Cluster {e.cluster}: {e.attribute} {what} ({inside}, elsewhere {_percent(rest)})."

    def shortfall(self, level: float = LEVEL) -> float:
        """With probability `level`, the score of the chosen combination is at most so many rows below that of the best
        one: of all combinations, or of those that the candidates of a two-stage choice allow.
        """
        return combination_shortfall(self.spec, self.released["parts"]["combination"], level)

    @property
    def utility(self) -> str:
        """What the noise of the choice may have cost, in words (of the paper: Proposition 5.1)."""
        largest = float(self.sizes.sum()) / len(self.labels)
        lost = self.shortfall()
        part = f" ({_percent(lost / largest)} of the largest possible score)" if largest > 0 else ""
        text = (
            f"With probability 95 % the score of this choice is at most {lost:,.4g} rows{part} below that of the best "
            f"of {combinations_in(self.spec):,.4g} combinations"
        )
        if self.spec["method"] != "two-stage":
            return text + "."
        first = candidate_shortfall(self.spec, self.released["parts"], LEVEL)
        return (
            f"{text} of its candidates. With probability 95 % each candidate of a cluster scores at most "
            f"{first:,.4g} rows below the attribute that it should not have beaten."
        )

    def describe(self) -> str:
        """The explanation in words."""
        return "\n".join([*self.sentences, self.utility])

    def to_frame(self) -> pd.DataFrame:
        import pandas as pd

        low, high = self.interval()
        lines = [
            (e.cluster, e.attribute, name, group, share)
            for e in self.explanations
            for group, shares in (("cluster", e.shares), ("rest", e.rest_shares))
            for name, share in zip(e.names, shares, strict=True)
        ]
        frame = pd.DataFrame(lines, columns=["cluster", "attribute", "value", "group", "share"])
        return frame.assign(rows=self.values, low=low, high=high)

    def plot(self, ax: Axes | None = None) -> Axes:
        from dpexplain.render.clusters import plot_clusters

        return plot_clusters(self, ax)

    def view(self) -> JsonObject:
        return {}

    def check(self) -> None:
        """Refuse a file that asks for endless work, or that says what no release of ours says."""
        labels, parts, uses = self.labels, self.released["parts"], self.spec["per_cluster"]
        if len(set(labels)) < len(labels) or not all(label.strip() and label != "other" for label in labels):
            raise ValueError("every cluster has a name of its own")
        choice = parts["combination"]["values"]
        if self.spec["method"] == "two-stage":
            listed = self.candidates
            ways = math.prod(math.comb(len(mine), uses) for mine in listed)
            if len(listed) != len(labels) or any(len(mine) != self.spec["candidates"] for mine in listed):
                raise ValueError("no candidates of ours")
            if not 0 < ways <= MOST_LISTED or type(choice[0]) is not int:
                raise ValueError("no choice of ours")
        elif not all(type(a) is int for mine in choice for a in mine):
            raise ValueError("no choice of ours")
        if int(self.spec["unit"]) < 1 or int(self.spec["cluster_unit"]) < 1:
            raise ValueError("no scores of ours")

    @classmethod
    def rebuild(cls, receipt: Receipt, released: JsonObject, view: JsonObject) -> ClusterExplanation:
        if view:
            raise ValueError("explanations of clusters have no view")
        found = cls(receipt, released)
        found.check()
        values, noise = found.part("histograms")
        if (
            len(values) != found.cells.size
            or noise.law is Law.CUBE
            or len(found.spec["whole"]) != len(found.partitions)
        ):
            raise ValueError("the cells do not fit the released values")
        if not np.isfinite(np.concatenate(found.interval())).all() or not found.describe() or not found.receipt.public:
            raise ValueError("no explanation of ours")
        return found


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
    options = [list(itertools.combinations(mine, uses)) for mine in candidates]
    found: list[tuple[int, ...]] = []
    for choices in reversed(options):
        number, place = divmod(number, len(choices))
        found.append(tuple(sorted(choices[place])))
    if number:
        raise ValueError("no combination of these candidates")
    return tuple(reversed(found))


def combinations_in(spec: JsonObject) -> float:
    """How many combinations were weighed against each other."""
    two = spec["method"] == "two-stage"
    among = int(spec["candidates"]) if two else len(spec["partitions"])
    return float(math.comb(among, int(spec["per_cluster"]))) ** len(spec["labels"])


def combination_shortfall(spec: JsonObject, part: JsonObject, level: float) -> float:
    """In rows of the score. One stage: P(score < best - x) <= combinations * exp(-x / scale)."""
    if "rate" in part:
        scale = UNIT / (float(positive(part["rate"])) * math.log(2))
        found = scale * (math.log(combinations_in(spec)) - math.log(1 - checked_level(level)))
    else:
        found = _selection(part, 1, combinations_in(spec)).shortfall(checked_level(level))
    return float(found / int(spec["unit"]))


def candidate_shortfall(spec: JsonObject, parts: JsonObject, level: float) -> float:
    """Of a candidate of one cluster, in rows of the score of a single cluster."""
    part = parts["candidates"] if "candidates" in parts else parts["candidates-1"]
    law = _selection(part, int(spec["candidates"]), len(spec["partitions"]))
    return law.shortfall(checked_level(level)) / int(spec["cluster_unit"])


def _selection(part: JsonObject, k: int, candidates: float) -> Selection:
    return Selection(positive(part["scale"]), k, math.ceil(candidates))


def positive(text: str) -> Fraction:
    """A positive fraction as the core writes it, and not one that fills the memory."""
    if not re.fullmatch(r"\d{1,60}(/\d{1,60})?", text) or Fraction(text) <= 0:
        raise ValueError("no scale of ours")
    return Fraction(text)


def reach_of_sum(noise: Noise, own: int, own_cells: int, rest_cells: int, level: float) -> float:
    """h with P(|sum| <= h) >= level for a sum of noise / own over some coordinates and of noise over some others."""
    return combined_halfwidth([(noise, [1 / own] * own_cells + [1.0] * rest_cells)], 0.0, level)


def cell_names(partition: Partition, *, whole: bool) -> tuple[str, ...]:
    """What the values in each cell are called: a category, a whole number or a range of them, an interval."""
    return tuple(_range_name(partition, i, i, whole) for i in range(partition.size))


def _range_name(partition: Partition, first: int, last: int, whole: bool) -> str:
    if partition.edges is None:
        return str(partition.labels[first])
    if partition.labels[first] is None:
        return "missing"
    low, high = partition.edges[first], partition.edges[last + 1]
    if whole:
        low, high = low + 0.5, high - 0.5
    return f"{low:g}" if low == high else f"{low:g} to {high:g}"


def telling_cells(explanation: Explanation) -> list[int]:
    """The cells that the cluster has more of than the rest: the run of neighbouring ones, or the few categories, with
    the largest difference of shares.
    """
    gain = explanation.shares - explanation.rest_shares - LEAST_GAIN
    if explanation.partition.edges is None:
        best = [int(i) for i in np.argsort(-gain, kind="stable")[:MOST_NAMED] if gain[i] > 0]
        return sorted(i for i in best if gain[i] >= gain[best[0]] / 4) or [0]
    size = len(gain) - explanation.partition.missing  # missing values, in the last cell, have no neighbours
    sums = np.concatenate([[0.0], np.cumsum(gain)])
    runs = [(float(sums[j] - sums[i]), i - j, i, j) for i in range(size) for j in range(i + 1, size + 1)]
    _, _, first, end = max([*runs, *((float(gain[i]), -1, i, i + 1) for i in range(size, len(gain)))])
    return list(range(first, end))


def values_named(explanation: Explanation, cells: list[int]) -> str:
    """Some cells in words."""
    partition = explanation.partition
    if partition.edges is not None:
        whole = explanation.names != cell_names(partition, whole=False)
        return _range_name(partition, cells[0], cells[-1], whole)
    names = [explanation.names[i] for i in cells]
    return names[0] if len(names) == 1 else f"{', '.join(names[:-1])} or {names[-1]}"


def _shares(counts: Floats) -> Floats:
    total = counts.sum()
    return counts / total if total > 0 else np.full(len(counts), 1 / len(counts))


def _percent(share: Any) -> str:
    value = 100 * float(share)
    return f"{value:.0f} %" if value >= 9.95 or value == 0 else f"{value:.2g} %"
