"""What tells clusters from the rest, from released counts of all clusters and attributes.

The choice of attributes is that of the best score of the likely counts: free, and exact. Their histograms are sharpened
by what the public clustering says about synthetic rows. Both rest on `maths/cluster_tables.py`.
"""

from __future__ import annotations

import json
import math
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING, ClassVar

import numpy as np
from scipy.special import ndtri

from dpexplain.columns import domain_from_json
from dpexplain.core.canonical import JsonObject, digest
from dpexplain.core.domain import Domain
from dpexplain.core.noise import Noise, checked_level
from dpexplain.data.public_random import PublicRandom
from dpexplain.data.rows import Rows
from dpexplain.maths.cluster_tables import Labelled, Sharp, Tables, with_sizes
from dpexplain.maths.posterior import DOMAIN_WORTH, EVEN, Sharpened
from dpexplain.maths.trees import Joint, worth
from dpexplain.methods.clusters.best import Scores
from dpexplain.methods.clusters.result import LEVEL, ClusterExplanation, Explanation, cell_names, reach_of_sum
from dpexplain.methods.clusters.spec import Chosen, tables_of
from dpexplain.methods.clusters.tables import TablesSpec
from dpexplain.methods.result import Floats, Result, from_json
from dpexplain.methods.sharpening import SEED, STAND_IN, entries_of
from dpexplain.methods.stand_in.result import StandIn
from dpexplain.receipts import Receipt

if TYPE_CHECKING:
    import pandas as pd

ROWS = 3_000  # synthetic rows that the clustering labels
DRAWS, FEW_DRAWS, MANY_STATES = 40, 8, 2**11  # of tables, for the quality of the choice; fewer for many clusters
LEAST_STD = 0.1  # of the noise, in rows: nothing is taken as surer
CLOSE = 0.01  # of the largest possible score


@dataclass(frozen=True)
class SharpClusters(ClusterExplanation):
    """For each cluster the attributes that tell it from the rest, by posterior counts. `values` are numbers of rows, as
    in `ClusterExplanation`; `raw` the released ones.

    given     the labels of the synthetic rows, by their numbers
    stand_in  where these rows come from; else columns by themselves, as they were released here
    """

    given: tuple[int, ...] = ()
    stand_in: StandIn | None = None

    kind: ClassVar[str] = "cluster-tables"
    spec_type: ClassVar[type[TablesSpec]] = TablesSpec  # type: ignore[assignment]

    def __post_init__(self) -> None:
        self.promise_with([] if self.stand_in is None else entries_of(self.stand_in.receipt))

    # Synthetic rows ---------------------------------------------------------------------------------------------------

    @cached_property
    def _noise(self) -> Noise:
        return self.part("tables")[1]

    @cached_property
    def tables(self) -> Tables:
        """The released counts."""
        counts, noise = self.part("tables")
        if len(counts) != self.spec.size:
            raise ValueError("the cells do not fit the released values")
        noisy = [t.astype(np.float64) for t in tables_of(counts, self.partitions, len(self.labels))]
        rows = self.receipt.request["table"]["rows"]
        return Tables(noisy, max(noise.std, LEAST_STD), None if rows is None else float(rows))

    @cached_property
    def domain(self) -> Domain:
        if self.receipt.domain is None:
            raise ValueError("a release without its domain")
        return domain_from_json(self.receipt.domain)

    @cached_property
    def synthetic(self) -> Rows:
        """The public rows that the clustering labels: those of the stand-in, or columns drawn by their own counts."""
        if self.stand_in is not None:
            drawn = self.stand_in.draw(ROWS, SEED, even=EVEN)
            return Rows(Domain({name: self.domain[name] for name in drawn}), drawn, ROWS)
        others = [name for name in self.domain if name not in {p.feature for p in self.partitions}]
        even, shares = Joint.even(self.domain, others), [self.tables.shares_of(a) for a in range(len(self.partitions))]
        joint = Joint.product(self.domain, [*self.partitions, *even.partitions], [*shares, *even.shares])
        return Rows(self.domain, joint.draw(ROWS, SEED, even=EVEN), ROWS)

    @property
    def known_as(self) -> str:
        """What the ledger knows the labels of these rows by."""
        request, source = self.receipt.request, {"from": self.receipt.entry.payload_hash}
        asked = {"clustering": request["clustering"], "table": request["table"]["domain"], "spec": request["spec"]}
        origin = source if self.stand_in is None else {"from": STAND_IN, "entries": entries_of(self.stand_in.receipt)}
        return digest({"labels of": asked, "origin": origin, "rows": ROWS, "even": str(EVEN), "seed": SEED})

    @cached_property
    def posterior(self) -> Sharp:
        labels, rows = np.array(self.given, dtype=np.int64), self.synthetic
        codes = [rows[p.feature] if p.edges is None else p.place(rows[p.feature]) for p in self.partitions]
        if self.stand_in is None:
            shares, n = [self.tables.shares_of(a) for a in range(len(codes))], len(self.labels) + 1
            most = worth(shares, [self.tables.std * math.sqrt(n)] * len(codes), self.tables.total[0])
        else:
            most = self.stand_in.worth
        most = min(max(most, DOMAIN_WORTH), float(ROWS))
        return Sharp(self.tables, Labelled(labels, np.column_stack(codes), self.stand_in is not None, most))

    # The choice -------------------------------------------------------------------------------------------------------

    @cached_property
    def _numbers(self) -> Chosen:
        return Scores.of(self.posterior.means, self.spec.scoring).best(self.spec.per_cluster)

    @cached_property
    def losses(self) -> Floats:
        """How many rows of its score the choice loses against the best one, in tables drawn from the posterior."""
        spec, random = self.spec, PublicRandom(SEED).generator
        losses = []
        for _ in range(DRAWS if (spec.per_cluster + 1) ** spec.clusters <= MANY_STATES else FEW_DRAWS):
            scores = Scores.of(self.posterior.draw(random), spec.scoring)
            losses.append(max(scores.total(scores.best(spec.per_cluster)) - scores.total(self._numbers), 0.0))
        return np.array(losses)

    def shortfall(self, level: float = LEVEL) -> float:
        """In a share `level` of the tables drawn from the posterior, the choice scores at most so many rows below the
        best one. Not proven: it rests on what `basis` says, and is too small where noise hides how columns go together
        (docs/methods/clusters.md).
        """
        return float(np.quantile(self.losses, checked_level(level)))

    @property
    def utility(self) -> str:
        largest, lost = max(float(self.sizes.sum()) / len(self.labels), 1.0), self.losses
        near = float((lost <= CLOSE * largest).mean())
        return (
            f"In {100 * near:.0f} % of {len(lost)} tables drawn from the posterior this choice scores within 1 % (of "
            f"the largest possible score) of the best of all combinations; on average "
            f"{100 * lost.mean() / largest:.2g} % below it. That is likely, not proven: "
            "where columns go together in ways that noise hides, it says too much."
        )

    @property
    def basis(self) -> str:
        where = "synthetic rows drawn from the released counts, each column by itself"
        if self.stand_in is not None:
            where = f"synthetic rows of the stand-in in entry {self.stand_in.entry}"
        against = " What was released and these rows do not agree: trust the proven one." if self.contradicts else ""
        return (
            f"Choice and likely values combine the released counts with {where}, which the public clustering labels. "
            f"The proven interval (`proven_interval`) rests on the noise alone.{against}"
        )

    @property
    def contradicts(self) -> bool:
        """Whether what was released of a chosen attribute and the synthetic rows do not agree."""
        return any(self._alone[a].contradicts for a in self._alone)

    # Histograms -------------------------------------------------------------------------------------------------------

    @cached_property
    def sizes(self) -> Floats:
        return self.posterior.sizes

    @cached_property
    def _alone(self) -> dict[int, Sharpened]:
        """The posterior of each attribute that was chosen."""
        return {a: self.posterior.alone(a) for a in sorted({a for _, a in self._explained})}

    @cached_property
    def _tables(self) -> dict[int, Floats]:
        """The likely counts of each attribute that was chosen: never negative, all with the same sizes."""
        total, shape = self.tables.total[0], {a: self.tables.noisy[a].shape for a in self._alone}
        return {a: with_sizes(total * one.values.reshape(shape[a]), self.sizes) for a, one in self._alone.items()}

    @cached_property
    def explanations(self) -> list[Explanation]:
        explanations = []
        for c, a in self._explained:
            partition, table = self.partitions[a], self._tables[a]
            names = cell_names(partition, whole=self.spec.whole[a])
            own, rest = table[c], np.delete(table, c, axis=0).sum(axis=0)
            explanations.append(Explanation(self.labels[c], partition.feature, partition, names, own, rest))
        return explanations

    @property
    def raw(self) -> Floats:
        """The released numbers of rows, in the order of `values`."""
        return np.concatenate([self._of(a, self._side(c, rest)) for c, a in self._explained for rest in (0, 1)])

    def _side(self, c: int, rest: int) -> list[int]:
        """The lines of a table that are a cluster, or the rest."""
        return [line for line in range(self.tables.lines) if (line != c) == bool(rest)]

    def _of(self, a: int, lines: list[int]) -> Floats:
        return np.asarray(self.tables.noisy[a][lines].sum(axis=0))

    def _proven_half(self, lines: int, cells: int, level: float) -> float:
        """For a sum of so many released counts of an attribute. The attribute was chosen by the same counts, so the
        interval has to hold for all attributes at once, with 1 / A of what may miss for each.
        """
        each = 1 - (1 - checked_level(level)) / len(self.partitions)
        return reach_of_sum([(self._noise, 1.0)] * lines, cells, each)

    def proven_interval(self, level: float = LEVEL) -> tuple[Floats, Floats]:
        """(low, high) around each exact number of rows by the noise of the release alone, whatever was chosen."""
        halves = []
        for c, a in self._explained:
            for rest in (0, 1):
                half = self._proven_half(len(self._side(c, rest)), 1, level)
                halves.append(np.full(self.partitions[a].size, half))
        middle, reach = self.raw, np.concatenate(halves)
        return np.maximum(middle - reach, 0.0), np.maximum(middle + reach, 0.0)

    def interval(self, level: float = LEVEL) -> tuple[Floats, Floats]:
        """(low, high) around each exact number of rows, by all that `values` rest on; with the proven interval, where
        release and synthetic rows contradict each other.
        """
        ends = []
        for c, a in self._explained:
            cells = self.partitions[a].size
            for rest in (0, 1):
                ends += [self._likely(a, self._side(c, rest), [v], level) for v in range(cells)]
        low, high = np.array(ends).T
        return np.minimum(low, self.values), np.maximum(high, self.values)

    def _likely(self, a: int, lines: list[int], cells: list[int], level: float) -> tuple[float, float]:
        """(low, high) around the rows in these cells of these lines. Noise that is not normal has the wider tails of
        its own law or of a normal one, whichever are wider.
        """
        if not cells:
            return 0.0, 0.0
        post, (total, off) = self._alone[a], self.tables.total
        which = np.zeros(self.tables.noisy[a].shape)
        which[np.ix_(lines, cells)] = 1.0
        middle, spread = total * float(which.ravel() @ post.values), total * (which.ravel() @ post.root)
        std = math.hypot(math.sqrt(float(spread @ spread)), middle / total * off)
        far = max(-float(ndtri((1 - checked_level(level)) / 2)), self._noise.halfwidth(level) / self.tables.std)
        low, high = middle - far * std, middle + far * std
        if post.contradicts:
            noisy = float(self.tables.noisy[a][np.ix_(lines, cells)].sum())
            half = self._proven_half(len(lines), len(cells), level)
            low, high = min(low, noisy - half), max(high, noisy + half)
        return max(low, 0.0), max(high, 0.0)

    def share_interval(
        self, explanation: int, cells: list[int], *, rest: bool, level: float = LEVEL
    ) -> tuple[float, float]:
        c, a = self._explained[explanation]
        lines, each = self._side(c, int(rest)), (1 + checked_level(level)) / 2
        others = [v for v in range(self.partitions[a].size) if v not in set(cells)]
        (low, high), (low_rest, high_rest) = (self._likely(a, lines, some, each) for some in (cells, others))
        return low / max(low + high_rest, 1e-300), high / (high + low_rest) if high > 0 else 0.0

    def _half_of_total(self, number: int) -> float:
        c, a = self._explained[number]
        low, high = self._likely(a, [c], list(range(self.partitions[a].size)), LEVEL)
        return (high - low) / 2

    def to_frame(self) -> pd.DataFrame:
        low, high = self.proven_interval()
        return super().to_frame().assign(**{"released": self.raw, "proven low": low, "proven high": high})

    # Files ------------------------------------------------------------------------------------------------------------

    @property
    def relies_on(self) -> list[Result]:
        return [] if self.stand_in is None else [self.stand_in]

    def view(self) -> JsonObject:
        stand_in = None if self.stand_in is None else json.loads(self.stand_in.to_json())
        return {"labels": list(self.given), "stand_in": stand_in}

    @classmethod
    def rebuild(cls, receipt: Receipt, released: JsonObject, view: JsonObject) -> SharpClusters:
        """Refuse what no release of ours says."""
        stand_in = None if view["stand_in"] is None else from_json(json.dumps(view["stand_in"]))
        if stand_in is not None and not isinstance(stand_in, StandIn):
            raise ValueError("no stand-in")
        given, names = view["labels"], receipt.request["spec"]["labels"]
        known = isinstance(given, list) and all(type(label) is int and 0 <= label <= len(names) for label in given)
        if not known or len(given) != ROWS or len(set(names)) < len(names):
            raise ValueError("no labels of ours")
        result = cls(receipt, released, tuple(given), stand_in)
        ends = np.concatenate([*result.interval(), *result.proven_interval()])
        if not np.isfinite(ends).all() or not result.describe() or not receipt.public:
            raise ValueError("no explanation of ours")
        return result
