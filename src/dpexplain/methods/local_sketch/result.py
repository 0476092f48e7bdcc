"""A released moment sketch: any number of local explanations for the cost of one release.

Everything here is post-processing of released numbers: no table, no ledger, no model, nothing to pay. A sketch can be
saved to a file and sent to whoever explains predictions. It protects the rows of the table that it was computed from.
The records that are explained with it are the caller's own, and are not protected by it.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar, TypeVar

import numpy as np

from dpexplain.core.canonical import JsonObject, digest
from dpexplain.core.domain import Domain, PublicRange
from dpexplain.core.noise import checked_level
from dpexplain.errors import InputError, VerificationError
from dpexplain.maths.surrogate import Space, StepWeight, Weight
from dpexplain.maths.surrogate.fit import Asked, AveragePerson, average_of, counted_from
from dpexplain.maths.surrogate.sketch import ROW, WEIGHT_ONE, Cells
from dpexplain.methods.attributions import Attribution, released_parts
from dpexplain.methods.local_sketch.spec import Spec
from dpexplain.methods.result import Floats, Result, from_json
from dpexplain.receipts import Receipt

if TYPE_CHECKING:
    import pandas as pd


@dataclass(frozen=True)
class LocalSketch(Result):
    """The moments of rows and predictions in cells. `values` are the mean predictions of the cells, rows beyond the
    radius of their cell counted less.
    """

    kind: ClassVar[str] = "local-sketch"
    spec_type: ClassVar[type[Spec]] = Spec
    picture: ClassVar[str] = "dpexplain.render.plots:plot_sketch"

    @property
    def space(self) -> Space:
        """The coordinates of records, and with them the features and their declared columns."""
        space: Space = self.spec.space
        return space

    @cached_property
    def cells(self) -> Cells:
        cells: Cells = self.spec.read_cells(released_parts(self))
        return cells

    @cached_property
    def average(self) -> AveragePerson | None:
        """The average person that contributions are counted from; None in files from before it was released."""
        return average_of(released_parts(self), self.space, self.spec.output)

    def explain(
        self,
        record: Any,
        prediction: float | None = None,
        *,
        anchor: str | float | None = None,
        weight: Weight | StepWeight = "stable",
        width: float = 1.0,
    ) -> Attribution:
        """What moves the model's prediction for one record, from the sketch alone: free, as often as you like.

        record      a mapping or pandas Series by name, or a sequence in the order of `space.features`
        prediction  the model's own output for it, if you know it: shown beside what the local model says
        anchor      a number that the local model is made to pass through, or "middle" for the middle of the output
                    range (the loss of the paper). Without it, the value at the record is fitted too.
        weight      how much rows count by their distance: "stable", "exponential", "gaussian" or a function
        """
        point = self.space.read(record)
        steps = self._weight(weight, width)
        fixed, own = (asked_number(asked, self.cells.output) for asked in (anchor, prediction))
        fit = counted_from(self.cells.answer(self.space.locate(point), steps, fixed), self.average)
        own = None if own is None else min(max(own, self.cells.output.low), self.cells.output.high)
        answer = Attribution(self.receipt, self.released, Asked(point, own, anchor=fixed, weight=steps), fit)
        vars(answer).update(spec=self.spec, record=point)  # known already: no need to read them again
        return answer

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
        lines: list[Any] = lines_of(records)
        known: list[Any] = [None] * len(lines) if predictions is None else list(predictions)
        if len(known) != len(lines):
            raise InputError(f"there are {len(lines)} records and {len(known)} predictions.", spent="")
        steps = self._weight(weight, width) if lines else weight  # a weight function is tabulated once
        pairs = zip(lines, known, strict=True)
        return Attributions(self.explain(line, value, anchor=anchor, weight=steps) for line, value in pairs)

    def _weight(self, weight: Weight | StepWeight, width: float) -> StepWeight:
        return weight if isinstance(weight, StepWeight) else StepWeight.of(weight, self.space.diameter, width=width)

    @property
    def counts(self) -> Floats:
        """The noisy number of rows of each cell, those beyond its radius counted less; it may be below zero."""
        return self.cells.numbers[0]

    @cached_property
    def values(self) -> Floats:
        """The mean prediction of each cell, rows beyond its radius counted less; the middle of the output range where
        no row is seen.
        """
        cells = self.cells
        mean = np.where(cells.kept, cells.numbers[3] / np.where(cells.kept, self.counts, 1.0), 0.0)
        return np.asarray(cells.output.middle + cells.output.width / 2 * np.clip(mean, -1, 1))

    def interval(self, level: float = 0.95) -> tuple[Floats, Floats]:
        """(low, high) around each of `values` without noise: sum and count may each miss half as often."""
        cells, half = self.cells, self._halfwidth((1 + checked_level(level)) / 2)
        count, total = self.counts, cells.numbers[3]
        few, many = count - half[0], count + half[0]
        ends = []
        for sign in (-1, 1):
            edge = total + sign * half[3]
            ratio = edge / np.maximum(np.where(sign * edge > 0, few, many), 1e-9)
            ends.append(cells.output.middle + cells.output.width / 2 * np.clip(ratio, -1, 1))
        seen = cells.kept & (few > 0)  # of other cells nothing is known
        return np.where(seen, ends[0], cells.output.low), np.where(seen, ends[1], cells.output.high)

    def _halfwidth(self, level: float) -> Floats:
        """How far the released numbers of each block may be off, in rows; one more for what was cut off."""
        weights = np.array(self.cells.blocks.weights) / WEIGHT_ONE
        return np.asarray((self.part("moments")[1].halfwidth(level) + 1) / ROW / weights)

    def to_frame(self) -> pd.DataFrame:
        import pandas as pd

        low, high = self.interval()
        half = float(self._halfwidth(0.95)[0])
        return pd.DataFrame(
            {
                "cell": np.arange(len(self.values)),
                "count": np.maximum(self.counts, 0),  # rows beyond the radius count less
                "count_low": np.maximum(self.counts - half, 0),
                "count_high": np.maximum(self.counts + half, 0),
                "prediction": self.values,
                "low": low,
                "high": high,
            }
        )

    def save(self, path: str | Path) -> None:
        """Write the sketch to a file: released numbers and public settings, nothing else."""
        self.to_json(path)

    @classmethod
    def load(cls, path: str | Path, domain: Domain | None = None) -> LocalSketch:
        """A sketch from a file. With `domain`, one whose features are declared otherwise is refused."""
        return sketch_from(path, domain, (cls,))

    def view(self) -> JsonObject:
        return {"receipt": digest(self.receipt.to_json())}

    @classmethod
    def rebuild(cls, receipt: Receipt, released: JsonObject, view: JsonObject) -> LocalSketch:
        if digest(released) != receipt.entry.payload_hash or view != {"receipt": digest(receipt.to_json())}:
            raise VerificationError(
                "the released numbers or the receipt in this file are not those that were written.",
                hint="it was altered or damaged: fetch it again, or write it again with LocalSketch.save",
            )
        sketch = cls(receipt, released)
        if not (np.isfinite(sketch.cells.noise) & (sketch.cells.noise > 0)).all():
            raise ValueError("no sketch of ours")
        return sketch


class Attributions(list[Attribution]):
    """The attributions of several records."""

    def to_frame(self) -> pd.DataFrame:
        """A line for each record: the base, then the contribution of each feature."""
        import pandas as pd

        if not self:
            return pd.DataFrame({"base": []})
        columns = ["base", *self[0].space.features]
        return pd.DataFrame([[a.base, *a.values] for a in self], columns=columns)


S = TypeVar("S", bound=Result)


def sketch_from(path: str | Path, domain: Domain | None, kinds: tuple[type[S], ...]) -> S:
    """A sketch of one of these kinds from a file, whose features are declared as in `domain`, where one is given."""
    again = "fetch the file again, or write it again with .save of the sketch"
    try:
        sketch = from_json(Path(path))
    except VerificationError:
        raise
    except InputError as error:
        raise InputError(error.message, hint=error.hint or again, spent="") from None
    if not isinstance(sketch, kinds):
        raise InputError(f"this file holds a result of kind {sketch.kind!r}, not a local sketch.", spent="")
    space: Space = sketch.space  # type: ignore[attr-defined]  # all sketches have one
    for name in space.features if domain is not None else ():
        if domain is not None and (name not in domain or domain[name].to_json() != space.domain[name].to_json()):
            raise InputError(
                f"this sketch is of another domain: {name!r} is declared otherwise.",
                hint="use a sketch of this domain, or the domain that the sketch was released for",
                spent="",
            )
    return sketch


def lines_of(records: Any) -> list[Any]:
    """The records of a pandas or polars DataFrame, of an array, or of a list."""
    if hasattr(records, "to_dicts"):
        return list(records.to_dicts())
    return list(records.to_dict("records") if hasattr(records, "to_dict") else records)


def asked_number(asked: str | float | None, output: PublicRange) -> float | None:
    """A value at the record, in units of the output."""
    if asked is None:
        return None
    if asked == "middle":
        return output.middle
    number = isinstance(asked, int | float | np.floating | np.integer) and not isinstance(asked, bool)
    if not number or not math.isfinite(float(asked)):
        raise InputError(
            f"the value at the record is a finite number; got {asked!r}."[:200], hint='or anchor="middle"', spent=""
        )
    return float(asked)
