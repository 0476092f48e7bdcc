"""A released stand-in: a distribution over the declared columns, and synthetic rows drawn from it."""

from __future__ import annotations

import json
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar

import numpy as np
from numpy.typing import NDArray

from dpexplain.columns import domain_from_json
from dpexplain.core.canonical import JsonObject
from dpexplain.core.domain import Domain
from dpexplain.core.noise import Noise
from dpexplain.errors import InputError
from dpexplain.maths.grids import Partition
from dpexplain.maths.trees import Edge, Joint, Noisy, Tree, fit, worth
from dpexplain.methods.histogram import Integers, nearest_with_total
from dpexplain.methods.marginals.result import Marginals
from dpexplain.methods.result import Floats, Result, from_json
from dpexplain.methods.stand_in.spec import DOMAIN, WHY, Columns, Spec
from dpexplain.receipts import Receipt

if TYPE_CHECKING:
    import pandas as pd

SYNTHETIC_KEY = b"dpexplain.synthetic"  # in the metadata of a Parquet file
DOUBTFUL = 8  # standard deviations of a mean of squares of noise: a table that is farther from the stand-in is named
LAPLACE_SPREAD = 5.0  # the variance of the square of Laplace noise of variance 1, the largest of our laws


@dataclass(frozen=True, eq=False)
class ScoreTables:
    """Noisy counts of rows by the score of a model and by the value of a column.

    edges   of the cells of scores, which are public
    counts  for each column a table: cells of scores down, groups of the column's cells across
    places  for each column the group of each of its cells
    noise   of every count
    """

    model: JsonObject  # the identity of the model
    edges: tuple[float, ...]
    counts: dict[str, Integers]
    places: dict[str, Integers]
    noise: Noise


@dataclass(frozen=True)
class StandIn(Result):
    """A distribution that stands in for the table. `values` are released counts of the cells of each column.

    `rows` draws synthetic rows, `draw` the same as codes, `joint` is the distribution itself. Intervals are about the
    counts of the columns alone: nothing says how far numbers that are read off synthetic rows are from the table's.
    """

    earlier: Marginals | None = None  # whose counts were used, where they were released before

    kind: ClassVar[str] = "stand-in"
    spec_type: ClassVar[type[Spec]] = Spec
    picture: ClassVar[str] = "dpexplain.render.stand_in:plot_stand_in"
    has_missing: ClassVar[bool] = True

    # What it is -------------------------------------------------------------------------------------------------------

    @property
    def grade(self) -> str:
        """ "domain": every declared value is as likely as any other; "marginals": columns are independent; "tree": with
        the pairs of `edges`.
        """
        grade: str = self.spec.grade
        return grade

    @property
    def partitions(self) -> tuple[Partition, ...]:
        partitions: tuple[Partition, ...] = self.spec.partitions
        return partitions

    @property
    def features(self) -> list[str]:
        """The columns of its rows."""
        return [partition.feature for partition in self.partitions]

    @property
    def target(self) -> str | None:
        target: str | None = self.spec.target
        return target

    @property
    def edges(self) -> list[tuple[str, str]]:
        """The pairs of columns that were chosen, in the order of the choice; none in the grade "marginals"."""
        return [(self.features[a], self.features[b]) for a, b in self._edges]

    @property
    def entry(self) -> int:
        """Its number in the ledger."""
        return self.receipt.entry.sequence

    @cached_property
    def domain(self) -> Domain:
        if self.receipt.domain is None:
            raise ValueError("a stand-in without its domain")
        return domain_from_json(self.receipt.domain)

    @property
    def free(self) -> bool:
        """Whether it is the declared domain alone: nothing of the table is in it."""
        return self.grade == DOMAIN

    @property
    def marginals(self) -> Marginals | None:
        """The counts of its columns, for reuse; none where there are no counts."""
        if self.free:
            return None
        return Marginals(self.receipt, self.released) if self.earlier is None else self.earlier

    @property
    def relies_on(self) -> list[Result]:
        return [] if self.earlier is None else [self.earlier]

    @property
    def joint(self) -> Joint:
        """The distribution over the cells of the columns."""
        return self._fitted[0]

    @cached_property
    def worth(self) -> float:
        """How many independent rows of the table would know its histograms as well, at least 1: what its noise allows.
        Ties between columns that it does not have are not in this number.
        """
        if self.free:
            return 1.0
        noise, tree = self._columns.std, self._fitted[1]
        shares, stds = list(self._columns.shares), [noise] * len(self.features)
        if tree is not None:
            shares += [pair / pair.sum() for pair in tree.pairs.values()]
            stds += [self._pairs[1].std] * len(tree.pairs)
        return worth(shares, stds, self._columns.total)

    @cached_property
    def score_tables(self) -> ScoreTables | None:
        """Counts by the scores of a model, where one was given."""
        if not self.spec.score_columns:
            return None
        counts, noise = self.part("scores")
        names = [name for name in self.features if name in self.spec.score_columns]
        places = {name: self._columns.groupings[self.features.index(name)].place for name in names}
        widths = [int(place.max()) + 1 for place in places.values()]
        ends = self.spec.score_cells * np.cumsum(widths)
        if len(counts) != ends[-1]:
            raise ValueError("the counts by scores do not fit their cells")
        parts = zip(names, np.split(counts, ends[:-1]), strict=True)
        tables = {name: part.reshape(self.spec.score_cells, -1) for name, part in parts}
        return ScoreTables(self.receipt.request["model"], self.spec.score_edges, tables, places, noise)

    @property
    def total(self) -> float:
        """The number of rows: public, or the mean of the noisy totals of its columns; 0 where nothing says it."""
        return float(self.receipt.rows or 0) if self.free else self._columns.total

    # Synthetic rows ---------------------------------------------------------------------------------------------------

    def draw(self, n: int = 1000, seed: int = 0, even: float = 0.0) -> dict[str, NDArray[Any]]:
        """Synthetic rows as codes: floats for numbers (NaN: missing), codes of categories. The same for the same seed.

        even  the share of values, each by itself, that are drawn evenly from the declared domain instead
        """
        return self.joint.draw(n, seed, even=even)

    def rows(self, n: int = 1000, seed: int = 0) -> pd.DataFrame:
        """Synthetic rows as models get rows: free, and as many as you like. The same for the same seed.

        `rows.attrs["synthetic"]` says where they come from.
        """
        import pandas as pd

        from dpexplain.models.predictor import frame_column

        drawn = self.draw(n, seed)
        frame = pd.DataFrame({name: frame_column(self.domain[name], values) for name, values in drawn.items()})
        frame.attrs["synthetic"] = self.origin(seed)
        return frame

    def origin(self, seed: int) -> JsonObject:
        """What is said about its synthetic rows wherever they go."""
        return {
            "synthetic": "these rows are synthetic: drawn evenly from the declared domain, nobody's data"
            if self.free
            else "these rows are synthetic: drawn from a differentially private stand-in, nobody's data",
            "account": self.receipt.entry.account,
            "entry": self.entry,
            "payload": self.receipt.entry.payload_hash,
            "seed": seed,
            "guarantee": self.receipt.guarantee,
        }

    def to_parquet(self, path: str | Path, n: int = 1000, seed: int = 0) -> Path:
        """Synthetic rows as a Parquet file whose metadata say that they are. A file of anything else stays."""
        import pyarrow as pa
        import pyarrow.parquet as pq

        path = Path(path)
        if path.exists() and not self.wrote(path):
            raise InputError(
                f"{str(path)[:200]!r} exists, and does not hold synthetic rows of this stand-in.",
                hint="name another file",
                spent="",
            )
        frame = self.rows(n, seed)
        table = pa.Table.from_pandas(frame, preserve_index=False)
        said = json.dumps(self.origin(seed)).encode()
        table = table.replace_schema_metadata({**(table.schema.metadata or {}), SYNTHETIC_KEY: said})
        try:
            pq.write_table(table, path)
        except OSError as error:
            raise InputError(f"{str(path)[:200]!r} cannot be written: {error.strerror}.", spent="") from None
        return path

    def wrote(self, path: Path) -> bool:
        """Whether a file holds synthetic rows of this stand-in."""
        import pyarrow as pa
        import pyarrow.parquet as pq

        try:
            said = json.loads((pq.read_schema(path).metadata or {})[SYNTHETIC_KEY])
            return bool(said["payload"] == self.receipt.entry.payload_hash)
        except (OSError, pa.ArrowException, LookupError, TypeError, ValueError):
            return False

    # Counts -----------------------------------------------------------------------------------------------------------

    @property
    def possible(self) -> tuple[float, float] | None:
        return (0.0, 1.0) if self.free else None

    @cached_property
    def values(self) -> Floats:
        """Counts of cells; of the domain alone, shares."""
        if self.free:
            return np.concatenate(self.joint.shares)
        parts = [nearest_with_total(counts.astype(np.float64), self.total) for counts in self._columns.by_column]
        return np.concatenate(parts)

    def interval(self, level: float = 0.95) -> tuple[Floats, Floats]:
        """(low, high) around the exact number of rows in each cell of each column; of the domain alone, any share."""
        if self.free:
            return np.zeros(len(self.values)), np.ones(len(self.values))
        counts, half = self._columns.counts, self._counts[1].halfwidth(level)
        return np.maximum(counts - half, 0).astype(np.float64), np.maximum(counts + half, 0).astype(np.float64)

    def to_frame(self) -> pd.DataFrame:
        import pandas as pd

        low, high = self.interval()
        cells = [(p.feature, label) for p in self.partitions for label in p.labels]
        features, labels = zip(*cells, strict=True)
        if self.free:
            return pd.DataFrame({"feature": features, "cell": labels, "share in the stand-in": self.values})
        fitted = self.total * np.concatenate(self.joint.shares)
        counts = {"count": self.values, "low": low, "high": high, "in the stand-in": fitted}
        return pd.DataFrame({"feature": features, "cell": labels, **counts})

    @cached_property
    def consistency(self) -> pd.DataFrame:
        """How far the stand-in is from each released table, in units of its noise: about 1 by forecast, less where
        several tables speak of the same column. Much more says that the stand-in leaves something out.
        """
        import pandas as pd

        lines, tree = list[dict[str, Any]](), self._fitted[1]
        if self.free:
            return pd.DataFrame(columns=["table", "cells", "forecast", "realised"])
        columns = self._columns
        for name, counts, shares in zip(self.features, columns.by_column, self.joint.shares, strict=True):
            away = (counts - self.total * shares) / columns.std
            lines.append({"table": name, "cells": len(counts), "realised": _size(away)})
        if tree is not None:
            released, noise = self._pair_tables, self._pairs[1].std
            for (a, b), names in zip(self._edges, self.edges, strict=True):
                away = (released[a, b] - tree.pairs[a, b]) / noise
                lines.append({"table": " x ".join(names), "cells": away.size, "realised": _size(away)})
        frame = pd.DataFrame(lines)
        frame.insert(2, "forecast", 1.0)
        return frame

    # Words ------------------------------------------------------------------------------------------------------------

    @property
    def lead(self) -> list[str]:
        tree = self.grade == "tree"
        if self.free:
            return [
                f"A stand-in for {len(self.features)} columns: the declared domain alone. Every declared value is as "
                "likely as any other. The table was not read, and nothing was spent."
            ]
        said = [
            f"A stand-in for {len(self.features)} columns, worth about {self.worth:,.0f} independent rows: "
            + ("a tree of pairs of columns." if tree else "every column by itself, without ties between columns.")
        ]
        if tree:
            called = self.receipt.called
            said.append("Pairs: " + "; ".join(f"{called(a)} and {called(b)}" for a, b in self.edges) + ".")
        if self.spec.why:
            said.append(f"This grade was taken because {WHY[self.spec.why]}.")
        known = self.consistency
        far = known[known["realised"] ** 2 > 1 + DOUBTFUL * np.sqrt(LAPLACE_SPREAD / known["cells"])]
        if len(far):
            said.append("It is far from the released counts of " + ", ".join(far["table"]) + ".")
        return said

    @property
    def interval_about(self) -> str:
        return ""  # its picture is of synthetic rows

    @property
    def caveat(self) -> str:
        ties = "Ties between columns that are no pair of it are weaker in its rows than in the table, or lost."
        if self.grade != "tree":
            ties = "Its columns are independent of each other: no tie between columns is in its rows."
        if self.free:
            return (
                "Rows that are drawn from it are synthetic, and say nothing about the table: which values are "
                "frequent, and which go together, is not in them. Nor is there an interval."
            )
        return f"Rows that are drawn from it are synthetic. {ties} What is read off them has no interval."

    @property
    def doubt(self) -> str:
        return "" if self.free else super().doubt  # its caveat says it

    @property
    def picture_size(self) -> tuple[float, float]:
        return 7.36, 1.8 + 0.62 * len(self.partitions)

    def more_tables(self) -> dict[str, pd.DataFrame]:
        return {} if self.free else {"consistency": self.consistency}

    def more_facts(self) -> JsonObject:
        edges = [list(edge) for edge in self.edges]
        return {"grade": self.grade, "target": self.target, "edges": edges, "worth": self.worth}

    # Files ------------------------------------------------------------------------------------------------------------

    def view(self) -> JsonObject:
        return {"marginals": None if self.earlier is None else json.loads(self.earlier.to_json())}

    @classmethod
    def rebuild(cls, receipt: Receipt, released: JsonObject, view: JsonObject) -> StandIn:
        earlier = None if view["marginals"] is None else from_json(json.dumps(view["marginals"]))
        if earlier is not None and not isinstance(earlier, Marginals):
            raise ValueError("no marginals")
        result = cls(receipt, released, earlier)
        result.spec.check()
        for partition in result.partitions:
            if partition.feature not in result.domain:
                raise ValueError("a column that is not declared")
        if result.free and released != {"parts": {}}:
            raise ValueError("values that nobody released")
        _ = result._edges, result._pair_tables, result.score_tables, result.interval()
        return result

    # What was released ------------------------------------------------------------------------------------------------

    @cached_property
    def _counts(self) -> tuple[Integers, Noise]:
        """The released counts of all columns: of this release, or of the earlier one."""
        if self.spec.marginals is None:
            return self.part("counts")
        if self.earlier is None or self.earlier.receipt.hash_of(self.earlier.released) != self.spec.marginals:
            raise ValueError("the marginals are not those that the stand-in was made with")
        counts = np.concatenate([self.earlier.noisy_counts(name) for name in self.features])
        if tuple(self.earlier.histogram(name).partition for name in self.features) != self.partitions:
            raise ValueError("the marginals have other cells")
        return counts, self.earlier.part("counts")[1]

    @cached_property
    def _pairs(self) -> tuple[Integers, Noise]:
        return self.part("pairs")

    @cached_property
    def _columns(self) -> Columns:
        counts, noise = self._counts
        parts = [name for name in ("pairs", "scores") if name in self.released["parts"]]
        pair_std = max([self.part(name)[1].std for name in parts], default=noise.std)
        columns: Columns = self.spec.columns(counts, noise.std, pair_std, self.receipt.rows)
        return columns

    @cached_property
    def _edges(self) -> list[Edge]:
        """The chosen pairs, each among those that joined two parts of the forest when it was chosen."""
        if self.grade != "tree":
            return []
        chosen, parts = list[Edge](), self.released["parts"]
        for number in range(1, len(self.features)):
            (place,) = parts[f"edge-{number}"]["values"]
            if type(place) is not int or place < 0:
                raise ValueError("no number of a pair")
            chosen.append(self.spec.open_pairs(chosen)[place])
        return chosen

    @cached_property
    def _pair_tables(self) -> dict[Edge, Floats]:
        """The released counts of the chosen pairs."""
        if self.grade != "tree":
            return {}
        sizes, counts = self._columns.sizes, self._pairs[0].astype(np.float64)
        ends = np.cumsum([sizes[a] * sizes[b] for a, b in self._edges])
        if len(counts) != ends[-1]:
            raise ValueError("the pairs do not fit the released values")
        parts = np.split(counts, ends[:-1])
        return {(a, b): p.reshape(sizes[a], sizes[b]) for (a, b), p in zip(self._edges, parts, strict=True)}

    @cached_property
    def _fitted(self) -> tuple[Joint, Tree | None]:
        if self.free:
            return Joint.even(self.domain, self.features, self.partitions), None
        columns = self._columns
        if self.grade != "tree":
            return Joint.product(self.domain, self.partitions, columns.shares), None
        noisy = Noisy(columns.total, columns.noisy, columns.noise, self._pair_tables, self._pairs[1].std)
        tree = fit(noisy)
        return Joint.of_tree(self.domain, self.partitions, columns.groupings, tree), tree


def _size(away: Floats) -> float:
    """The root of the mean square."""
    return float(np.sqrt(np.mean(np.square(away))))
