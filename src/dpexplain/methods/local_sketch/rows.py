"""A local sketch made of a stand-in: synthetic rows and what the model says about them, from which any record can be
explained, free.

The release is that of a stand-in (`methods/stand_in`), so pure accounts can pay for it too. The model was asked about
its rows once; what it said is kept, in the file and in the ledger, and everything else is post-processing
(`methods/local_readings.py`).
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar

import numpy as np

from dpexplain.core.canonical import JsonObject
from dpexplain.core.domain import Domain
from dpexplain.core.noise import checked_level
from dpexplain.errors import VerificationError
from dpexplain.maths.surrogate import Space, StepWeight, Weight
from dpexplain.methods.local_readings import Kept, LocalRows, RowAttribution
from dpexplain.methods.local_sketch.result import Attributions, lines_of, sketch_from
from dpexplain.methods.result import Floats, Result
from dpexplain.methods.stand_in.result import StandIn
from dpexplain.methods.stand_in.spec import Spec
from dpexplain.receipts import Receipt

if TYPE_CHECKING:
    import pandas as pd

BANDS = 10  # of the output range, whose shares of rows are shown


@dataclass(frozen=True)
class RowSketch(Result):
    """A stand-in's rows with the model's answers. `values` are the shares of rows by tenths of the output range that
    their predictions lie in.
    """

    kept: Kept = field(repr=False)
    earlier: Any = field(default=None, repr=False)  # marginals that the stand-in was made of

    kind: ClassVar[str] = "row-sketch"
    picture: ClassVar[str] = "dpexplain.render.stand_in:plot_row_sketch"
    spec_type: ClassVar[type[Spec]] = Spec

    @classmethod
    def of(cls, stand_in: StandIn, kept: Kept) -> RowSketch:
        return cls(stand_in.receipt, stand_in.released, kept, stand_in.earlier)

    @cached_property
    def stand_in(self) -> StandIn:
        """The stand-in that was released, for anything else: `dpx.posterior(sketch.stand_in, model)`."""
        return StandIn(self.receipt, self.released, self.earlier)

    @cached_property
    def local(self) -> LocalRows:
        return LocalRows.of_kept(self.stand_in, self.kept)

    @property
    def space(self) -> Space:
        """The coordinates of records, and with them the features and their declared columns."""
        return self.local.rows.space

    # Explaining -------------------------------------------------------------------------------------------------------

    def explain(
        self,
        record: Any,
        prediction: float | None = None,
        *,
        anchor: str | float | None = None,
        weight: Weight | StepWeight = "stable",
        width: float = 1.0,
    ) -> RowAttribution:
        """What moves the model's prediction for one record: free, as often as you like. Options as for
        `LocalSketch.explain`.
        """
        return next(self.local.explained([record], [prediction], anchor, weight, width))

    def explain_many(
        self,
        records: Any,
        predictions: Sequence[float] | None = None,
        *,
        anchor: str | float | None = None,
        weight: Weight | StepWeight = "stable",
        width: float = 1.0,
    ) -> Attributions:
        """`explain` for each line of a DataFrame, or for each record of a list, with the same options."""
        lines = lines_of(records)
        known = [None] * len(lines) if predictions is None else list(predictions)
        return Attributions(self.local.explained(lines, known, anchor, weight, width))

    # What is shown of it ----------------------------------------------------------------------------------------------

    @cached_property
    def _inside(self) -> Floats:
        """[row, band]: 1 in the band of a row's prediction."""
        band = np.minimum((self.local.rows.scaled + 1) / 2 * BANDS, BANDS - 1).astype(np.int64)
        return np.asarray(band[:, None] == np.arange(BANDS), dtype=np.float64)

    @cached_property
    def values(self) -> Floats:
        return np.asarray(self.local.rows.weights @ self._inside)

    @property
    def possible(self) -> tuple[float, float]:
        return 0.0, 1.0

    def interval(self, level: float = 0.95) -> tuple[Floats, Floats]:
        """(low, high) around the share of the table's rows in each band: likely, not proven."""
        spread = self.local.known.mixture(self._inside)
        low, high = spread.wider(spread.mean - self.values).around(self.values).interval(checked_level(level))
        return np.clip(low, 0, 1), np.clip(high, 0, 1)

    def to_frame(self) -> pd.DataFrame:
        import pandas as pd

        low, high = self.interval()
        output = self.kept.output
        edges = output.low + output.width * np.arange(BANDS + 1) / BANDS
        bands = {"prediction_from": edges[:-1], "prediction_to": edges[1:]}
        return pd.DataFrame({**bands, "share": self.values, "low": low, "high": high})

    @property
    def title(self) -> str:
        return f"Local sketch from a stand-in, model {self.kept.model['name']}"

    @property
    def lead(self) -> list[str]:
        return [
            f"{len(self.kept.answers):,} synthetic rows of a stand-in, and what the model says about them: any record "
            "can be explained from them, free.",
            *self.stand_in.lead,
        ]

    @property
    def caveat(self) -> str:
        return f"{self.local.basis} Explanations from it have likely intervals, not proven ones."

    @property
    def file_name(self) -> str:
        return "local-sketch"

    @property
    def relies_on(self) -> list[Result]:
        return self.stand_in.relies_on

    # Files ------------------------------------------------------------------------------------------------------------

    def save(self, path: str | Path) -> None:
        """Write the sketch to a file: released numbers, what the model said about synthetic rows, public settings."""
        self.to_json(path)

    @classmethod
    def load(cls, path: str | Path, domain: Domain | None = None) -> RowSketch:
        """A sketch from a file. With `domain`, one whose features are declared otherwise is refused."""
        return sketch_from(path, domain, (cls,))

    def view(self) -> JsonObject:
        return {"rows": self.kept.to_json(), "stand_in": self.stand_in.view()}

    @classmethod
    def rebuild(cls, receipt: Receipt, released: JsonObject, view: JsonObject) -> RowSketch:
        local = LocalRows.from_file(receipt, released, view)
        assert local.kept is not None
        if json.loads(json.dumps(view)) != (sketch := cls.of(local.stand_in, local.kept)).view():
            raise VerificationError("this file holds more than was written.")
        vars(sketch).update(stand_in=local.stand_in, local=local)
        return sketch
