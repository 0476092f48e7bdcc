"""What tells clusters from the rest: for each cluster the chosen attributes, and two histograms of each of them.

Released are, for each attribute that was chosen at all, the counts of its values in every cluster that it explains (its
own cells) and in all other rows together (rest cells): disjoint cells, so cluster and rest add up to all rows. Own
cells count `own` times as much as rest cells under one noise: a cluster is smaller than what is around it.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING, Any, ClassVar

import numpy as np

from dpexplain.columns import date_text, unit_of
from dpexplain.core.canonical import JsonObject
from dpexplain.core.noise import Law, Noise, checked_level
from dpexplain.maths.grids import Partition
from dpexplain.maths.tails import combined_halfwidth
from dpexplain.methods.clusters.spec import Cells, Chosen, Spec, nth_combination
from dpexplain.methods.histogram import nearest_with_total
from dpexplain.methods.result import Floats, Result
from dpexplain.receipts import Receipt

if TYPE_CHECKING:
    import pandas as pd

LEVEL = 0.95
MOST_NAMED = 3  # values of a category that a sentence names
LEAST_GAIN = 0.005  # of a share, for which a sentence names one more value
Groups = Sequence[int | None]  # clusters, and None for the rest: histograms of one attribute
Histograms = Mapping[tuple[int, int | None], Floats]  # by attribute and group


@dataclass(frozen=True)
class Explanation:
    """One attribute of one cluster: estimated numbers of rows by value, inside the cluster and outside."""

    cluster: str
    attribute: str
    partition: Partition
    names: tuple[str, ...]  # of the values
    counts: Floats
    rest: Floats
    unit: str = ""  # of a column of dates, numpy's name of its step

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
    spec_type: ClassVar[type[Spec]] = Spec
    picture: ClassVar[str] = "dpexplain.render.clusters:plot_clusters"
    lines_shown: ClassVar[int] = 0

    @property
    def labels(self) -> list[str]:
        """The names of the clusters."""
        return list(self.spec.labels)

    @property
    def title(self) -> str:
        return f"What tells {len(self.labels)} clusters apart"

    @property
    def partitions(self) -> tuple[Partition, ...]:
        """The attributes with their cells."""
        partitions: tuple[Partition, ...] = self.spec.partitions
        return partitions

    @cached_property
    def _numbers(self) -> Chosen:
        """The chosen attributes of each cluster by their number, as they were released."""
        spec, values = self.spec, self.released["parts"]["combination"]["values"]
        listed = [] if spec.candidates is None else self.candidates
        if listed and [len(mine) for mine in listed] != [spec.candidates] * spec.clusters:
            raise ValueError("no candidates of ours")
        if spec.listed:
            (number,) = values
            if type(number) is not int:
                raise ValueError("no candidates of ours")
            chosen = nth_combination(listed, spec.per_cluster, number)
        else:
            chosen = tuple(map(tuple, values))
        if spec.restricted and not all(set(mine) <= set(own) for mine, own in zip(chosen, listed, strict=True)):
            raise ValueError("no choice among the candidates")
        known = all(type(a) is int and 0 <= a < spec.attributes for mine in chosen for a in mine)
        if not known or [(len(mine), len(set(mine))) for mine in chosen] != [(spec.per_cluster,) * 2] * spec.clusters:
            raise ValueError("no choice of ours")
        return chosen

    @property
    def candidates(self) -> list[list[int]]:
        """The candidates of each cluster in a two-stage choice, by their number, best first."""
        parts = self.released["parts"]
        if "candidates" in parts:
            return [list(mine) for mine in parts["candidates"]["values"]]
        return [list(parts[f"candidates-{c + 1}"]["values"]) for c in range(len(self.labels))]

    @property
    def chosen(self) -> dict[str, list[str]]:
        """Cluster to its attributes."""
        names = [[self.partitions[a].feature for a in mine] for mine in self._numbers]
        return dict(zip(self.labels, names, strict=True))

    @cached_property
    def _explained(self) -> list[tuple[int, int]]:
        """The cluster and the attribute of each explanation, by their numbers."""
        return [(c, a) for c, mine in enumerate(self._numbers) for a in mine]

    @cached_property
    def cells(self) -> Cells:
        _, noise = self.part("histograms")
        sizes = tuple(p.size for p in self.partitions)
        return Cells(sizes, self._numbers, noise.law is Law.GAUSSIAN, self.spec.subtracts)

    @cached_property
    def _noisy(self) -> Histograms:
        """Every released histogram in rows, as noisy as it is."""
        values, _ = self.part("histograms")
        found: dict[tuple[int, int | None], Floats] = {
            (a, group): values[place] / (1 if group is None else self.cells.own)
            for (a, group), place in self.cells.slices.items()
        }
        if self.spec.subtracts:
            everyone, _ = self.part("everyone")
            found |= {(a, None): everyone[place].astype(np.float64) for a, place in self.cells.everyone_slices.items()}
        return found

    @cached_property
    def sizes(self) -> Floats:
        """The estimated number of rows of each cluster, and of rows in none: they add up to all rows.

        Least squares over the totals of all released histograms, then the nearest that are not negative. Where the
        number of rows is public it is not estimated.
        """
        rows, clusters = self.receipt.request["table"]["rows"], len(self.labels)
        lines, totals, least = [], [], self.part("histograms")[1].std
        for (a, group), counts in self._noisy.items():
            line = np.zeros(clusters + 1)  # of the unknown sizes, and of the unknown number of all rows
            if group is None:
                users = () if self.spec.subtracts else self.cells.users(a)
                line[[*users, -1]] = [-1.0] * len(users) + [1.0]
            else:
                line[group] = 1.0
            noise, factor = self._noise_of(group)
            precision = least / noise.std / factor / math.sqrt(len(counts))
            lines.append(precision * line)
            totals.append(precision * counts.sum())
        left, right = np.array(lines), np.array(totals)
        if rows is not None:
            left, right = left[:, :-1], right - left[:, -1] * rows
        solved = np.linalg.lstsq(left, right, rcond=None)[0]
        total = max(0.0, float(solved[-1])) if rows is None else float(rows)
        return nearest_with_total(np.append(solved[:clusters], total - solved[:clusters].sum()), total)

    def _noise_of(self, group: int | None) -> tuple[Noise, float]:
        """The noise of a released histogram, and what its numbers are multiplied with to be rows."""
        _, noise = self.part("everyone" if group is None and self.spec.subtracts else "histograms")
        return noise, 1.0 if group is None else 1 / self.cells.own

    @cached_property
    def _counts(self) -> Histograms:
        """Every released histogram, not negative, with the total of its cluster or of its rest."""
        counts = {}
        for (a, group), noisy in self._noisy.items():
            users = list(self.cells.users(a))
            total = self.sizes.sum() - self.sizes[users].sum() if group is None else self.sizes[group]
            counts[a, group] = nearest_with_total(noisy, float(total))
        return counts

    def _sides(self, c: int, a: int) -> tuple[Groups, Groups]:
        """The released histograms that make up a cluster, and those that make up the rest: all rows and the cluster,
        which is subtracted; or all but the cluster.
        """
        return [c], [c, None] if self.spec.subtracts else [g for g in (*self.cells.users(a), None) if g != c]

    def _sum(self, histograms: Histograms, a: int, groups: Groups) -> Floats:
        if self.spec.subtracts and len(groups) > 1:
            own, everyone = (histograms[a, g] for g in groups)
            return everyone - own
        return sum((histograms[a, g] for g in groups), np.zeros(self.partitions[a].size))

    @cached_property
    def explanations(self) -> list[Explanation]:
        """One for each cluster and each of its attributes, in order."""
        explanations = []
        for c, a in self._explained:
            partition, unit = self.partitions[a], unit_of(self.receipt.domain, self.partitions[a].feature)
            names = cell_names(partition, whole=self.spec.whole[a], unit=unit)
            if self.spec.subtracts:  # as the paper has it: what is negative is nothing, and nothing has to add up
                counts, rest = (np.maximum(self._sum(self._noisy, a, groups), 0.0) for groups in self._sides(c, a))
            else:
                counts, rest = (self._sum(self._counts, a, groups) for groups in self._sides(c, a))
            explanations.append(Explanation(self.labels[c], partition.feature, partition, names, counts, rest, unit))
        return explanations

    @cached_property
    def values(self) -> Floats:
        return np.concatenate([np.concatenate([e.counts, e.rest]) for e in self.explanations])

    def interval(self, level: float = LEVEL) -> tuple[Floats, Floats]:
        """(low, high) around each exact number of rows."""
        sides = [(a, groups) for c, a in self._explained for groups in self._sides(c, a)]
        middles = [self._sum(self._noisy, a, groups) for a, groups in sides]
        halves = [self._reach(groups, 1, level) for _, groups in sides]
        low, high = (
            np.concatenate([np.maximum(middle + sign * half, 0) for middle, half in zip(middles, halves, strict=True)])
            for sign in (-1, 1)
        )
        return low, high

    def share_interval(
        self, explanation: int, cells: list[int], *, rest: bool, level: float = LEVEL
    ) -> tuple[float, float]:
        """(low, high) around the exact share of some cells among the rows of a cluster, or among the others.

        A share grows with the rows in these cells and falls with those in all other cells; both are noisy, so each
        interval may miss half as often.
        """
        c, a = self._explained[explanation]
        groups = self._sides(c, a)[int(rest)]
        noisy = self._sum(self._noisy, a, groups)
        inside = np.zeros(len(noisy), dtype=bool)
        inside[cells] = True
        each = (1 + checked_level(level)) / 2
        ends = []
        for mask in (inside, ~inside):
            half, middle = self._reach(groups, int(mask.sum()), each), float(noisy[mask].sum())
            ends.append((max(0.0, middle - half), max(0.0, middle + half)))
        (low, high), (low_rest, high_rest) = ends
        return low / max(low + high_rest, 1e-300), high / (high + low_rest) if high > 0 else 0.0

    def _reach(self, groups: Groups, cells: int, level: float) -> float:
        """Half the width of the interval of a sum over so many cells of each group."""
        return reach_of_sum([self._noise_of(group) for group in groups], cells, level)

    def _half_of_total(self, number: int) -> float:
        """Half the width of the interval of the number of rows of its cluster, by its own histogram."""
        c, a = self._explained[number]
        return self._reach([c], self.partitions[a].size, LEVEL)

    @cached_property
    def sentences(self) -> list[str]:
        """One sentence for each explanation."""
        return [self._sentence(i) for i in range(len(self.explanations))]

    def _sentence(self, number: int) -> str:
        e = self.explanations[number]
        cells, named = telling_cells(e), self.receipt.called(e.attribute)
        total, half = float(e.counts.sum()), self._half_of_total(number)
        if total <= half:
            return f"Cluster {e.cluster}: too few rows to tell anything by {named} ({total:,.0f} ± {half:,.0f})."
        share, rest = float(e.shares[cells].sum()), float(e.rest_shares[cells].sum())
        low, high = self.share_interval(number, cells, rest=False)
        _, rest_high = self.share_interval(number, cells, rest=True)
        if low <= rest_high:
            return f"Cluster {e.cluster}: within the noise, {named} is like elsewhere."
        what = f"is mostly {values_named(e, cells)}" if low > 0.5 else f"is more often {values_named(e, cells)}"
        inside = f"{_percent(share)} ± {_percent(max(high - share, share - low, 0.0))}"
        return f"Cluster {e.cluster}: {named} {what} ({inside}, elsewhere {_percent(rest)})."

    def shortfall(self, level: float = LEVEL) -> float:
        """With probability `level`, the score of the chosen combination is at most so many rows below that of the best
        one: of all combinations, or of those that the candidates of a two-stage choice allow.
        """
        return float(self.spec.combination_shortfall(self.released["parts"], level))

    @property
    def utility(self) -> str:
        """What the noise of the choice may have cost, in words (of the paper: Proposition 5.1)."""
        largest, lost = float(self.sizes.sum()) / len(self.labels), self.shortfall()
        part = f" ({_percent(lost / largest)} of the largest possible score)" if largest > 0 else ""
        text = (
            f"With probability 95 % the score of this choice is at most {lost:,.4g} rows{part} below that of the best "
            f"of {self.spec.combinations:,.4g} combinations"
        )
        if self.spec.candidates is None:
            return text + "."
        first = self.spec.candidate_shortfall(self.released["parts"], LEVEL)
        return (
            f"{text} of its candidates. With probability 95 % each candidate of a cluster scores at most "
            f"{first:,.4g} rows below the attribute that it should not have beaten."
        )

    @property
    def findings(self) -> list[str]:
        return [*self.sentences, self.utility]

    def describe(self) -> str:
        """The explanation in words."""
        return "\n".join(self.findings)

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

    @property
    def panels(self) -> tuple[int, int]:
        """Columns and lines of panels: a column for each attribute of a cluster, or two clusters side by side."""
        number = len(self.explanations)
        uses = number // len(self.labels)
        columns = min(number, uses if uses > 1 else 2)
        return columns, -(-number // columns)

    @property
    def picture_size(self) -> tuple[float, float]:
        columns, lines = self.panels
        return 5.2 * columns, 2.9 * lines + 0.9

    def view(self) -> JsonObject:
        return {}

    @classmethod
    def rebuild(cls, receipt: Receipt, released: JsonObject, view: JsonObject) -> ClusterExplanation:
        """Refuse what no release of ours says."""
        result = cls(receipt, released)
        labels, (values, noise) = result.labels, result.part("histograms")
        if len(set(labels)) < len(labels) or not all(label.strip() and label != "other" for label in labels):
            raise ValueError("every cluster has a name of its own")
        sizes, subtracts = [len(values)], result.spec.subtracts
        if subtracts:
            sizes.append(len(result.part("everyone")[0]))
        everyone = sum(result.partitions[a].size for a in result.cells.attributes)
        if view or sizes != [result.cells.size, everyone][: len(sizes)] or noise.law is Law.CUBE:
            raise ValueError("the cells do not fit the released values")
        if not np.isfinite(np.concatenate(result.interval())).all() or not result.describe() or not receipt.public:
            raise ValueError("no explanation of ours")
        return result


def reach_of_sum(noises: Sequence[tuple[Noise, float]], cells: int, level: float) -> float:
    """h with P(|sum| <= h) >= level for a sum over so many coordinates of each of these noises times its factor."""
    factors: dict[Noise, list[float]] = {}
    for noise, factor in noises:
        factors.setdefault(noise, []).extend([factor] * cells)
    return combined_halfwidth(list(factors.items()), 0.0, level)


def cell_names(partition: Partition, *, whole: bool, unit: str = "") -> tuple[str, ...]:
    """What the values in each cell are called: a category, a whole number or a range of them, an interval."""
    return tuple(_range_name(partition, i, i, whole, unit) for i in range(partition.size))


def _range_name(partition: Partition, first: int, last: int, whole: bool, unit: str = "") -> str:
    if partition.edges is None:
        return str(partition.labels[first])
    if partition.labels[first] is None:
        return "missing"
    low, high = partition.edges[first], partition.edges[last + 1]
    if whole:
        low, high = low + 0.5, high - 0.5
    if unit:
        return date_text(low, unit) if low == high else f"{date_text(low, unit)} to {date_text(high, unit)}"
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
        whole = bool(explanation.unit) or explanation.names != cell_names(partition, whole=False)
        return _range_name(partition, cells[0], cells[-1], whole, explanation.unit)
    names = [explanation.names[i] for i in cells]
    return names[0] if len(names) == 1 else f"{', '.join(names[:-1])} or {names[-1]}"


def _shares(counts: Floats) -> Floats:
    total = counts.sum()
    return counts / total if total > 0 else np.full(len(counts), 1 / len(counts))


def _percent(share: Any) -> str:
    value = 100 * float(share)
    return f"{value:.0f} %" if value >= 9.95 or value == 0 else f"{value:.2g} %"
