"""What results have in common whose values are made better by what the public model says about synthetic rows.

`raw` and `proven_interval` are those of the release; `values` and `interval` those of the posterior, where there is a
prior (`sharpening`). `methods/sharpening.py` learns priors; here is what results say about them, and how they are
learned again for `verify`.
"""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, Protocol, Self, cast

import numpy as np
from numpy.typing import NDArray

from dpexplain.columns import domain_from_json
from dpexplain.core.canonical import JsonObject
from dpexplain.maths.posterior import Sharpened
from dpexplain.methods.histogram import Histogram
from dpexplain.methods.marginals.result import Marginals
from dpexplain.methods.result import Floats, Result
from dpexplain.methods.sharpening import Ask, Sharpening, Source, source_of
from dpexplain.models import Predictor

if TYPE_CHECKING:
    from dpexplain.methods.stand_in.result import StandIn


class Sharp(Protocol):
    """The posterior of some numbers."""

    @property
    def posterior(self) -> Sharpened: ...


class SharpenedResult(Result):
    """A result that may have a prior."""

    sharpening: Sharpening | None

    @property
    @abstractmethod
    def raw(self) -> Floats:
        """The released values."""

    @property
    @abstractmethod
    def _sharp(self) -> Sharp | None:
        """The posterior, where there is one; ValueError for a prior of other numbers."""

    @property
    def sharpened(self) -> bool:
        """Whether `values` and `interval` are those of the posterior."""
        return self._sharp is not None

    @property
    def contradicts(self) -> bool:
        """Whether what was released and the synthetic rows do not agree."""
        return self._sharp is not None and self._sharp.posterior.contradicts

    # Words ------------------------------------------------------------------------------------------------------------

    @property
    def synthetic_rows(self) -> str:
        """The synthetic rows by which values are sharpened, in words; empty where they are not."""
        if self.sharpening is None or not self.sharpened:
            return ""
        return f"{self.sharpening.prior.rows:,} {self.sharpening.sentence(self.receipt)}"

    @property
    def disagreement(self) -> str:
        return " What was released contradicts these rows: trust the proven interval." if self.contradicts else ""

    @property
    def basis(self) -> str:
        if not (rows := self.synthetic_rows):
            return ""
        return (
            f"Values and intervals are likely ones: they combine the release with what the model says about {rows}. "
            "They assume that the table resembles these rows to a degree that is estimated; where it does not, an "
            "interval may hold less often than it says. The proven interval (proven low, proven high) follows from the "
            f"release alone.{self.disagreement}"
        )

    @property
    def doubt(self) -> str:
        said = super().doubt
        if not said or not self.sharpened:
            return said
        return f"By the release alone: {said[:1].lower()}{said[1:]} Likely values come from synthetic rows there."

    # Intervals --------------------------------------------------------------------------------------------------------

    def wide_enough(
        self, likely: tuple[Floats, Floats], proven: tuple[Floats, Floats], far: NDArray[np.bool_] | bool = False
    ) -> tuple[Floats, Floats]:
        """The likely interval; with the proven one where the release says nothing, or where the two disagree, in all
        values or in those that are `far` from synthetic rows: there no prior can be trusted.
        """
        low, high = proven
        doubtful: NDArray[np.bool_] = np.full(len(low), self.contradicts) | ~self.leaves_out(low, high) | far
        ends = np.minimum(likely[0], low), np.maximum(likely[1], high)
        return np.where(doubtful, ends[0], likely[0]), np.where(doubtful, ends[1], likely[1])

    # Where a prior comes from -----------------------------------------------------------------------------------------

    @property
    def _histograms(self) -> Mapping[str, Histogram]:
        """The histograms that were released with the values, by feature, where no marginals hold them."""
        return {}

    @property
    def rows_counted(self) -> float:
        """The number of rows: public, or as it was released."""
        return float(self.receipt.rows or 0)

    def synthetic_source(self, names: Sequence[str], stand_in: StandIn | None) -> Source:
        """Where synthetic rows with these columns come from: the best that is free for this release."""
        if self.receipt.domain is None:
            raise ValueError("a release without its domain")
        domain, paid = domain_from_json(self.receipt.domain), (self.marginals or self).receipt
        mine = self._histograms if self.marginals is None else self.marginals.histograms
        return source_of(domain, names, mine, self.rows_counted, paid.entry.payload_hash, stand_in)

    @property
    def _ask(self) -> Ask:
        """What the model is asked about synthetic rows, where there are priors."""
        raise ValueError("a result without a prior")

    @property
    def _needed(self) -> Sequence[str]:
        """The columns that synthetic rows need besides those of the model."""
        return []

    def columns_for(self, features: Sequence[str]) -> list[str]:
        """The columns that synthetic rows need for a model of these features."""
        return list(dict.fromkeys([*features, *self._needed]))

    def learned_again(self, predictor: Predictor, stand_in: StandIn | None) -> Sharpening:
        """The prior as it follows from the model and from what this result holds: for `verify`.

        stand_in  where the prior came from one
        """
        if self.sharpening is None:
            raise ValueError("a result without a prior")
        rows, part = self.sharpening.prior.rows, self.sharpening.part
        source = self.synthetic_source(self.columns_for(predictor.features), stand_in)
        return Sharpening(self._ask(predictor.resized(rows), source, rows), source.origin, part)

    @property
    def earlier_marginals(self) -> str | None:
        """The payload of marginals that a prior needs and files do not hold."""
        return None

    def with_marginals(self, found: Marginals) -> Self:
        """With marginals that files do not hold."""
        return cast("Self", replace(cast("Any", self), known=found))

    # Files ------------------------------------------------------------------------------------------------------------

    def as_released(self) -> Self:
        """Without the prior."""
        return cast("Self", replace(cast("Any", self), sharpening=None))

    def to_json(self, path: str | Path | None = None, *, prior: bool = True) -> str:
        """The result as JSON text, also written to `path` if one is given.

        prior  whether the file holds what the model says on average about synthetic rows. Without it `values` cannot
               be what they are: the file then shows the released values, as `smooth=False` does.
        """
        if prior or self.sharpening is None:
            return super().to_json(path)
        return self.as_released().to_json(path)

    @property
    def prior_view(self) -> JsonObject:
        """What files have of the prior."""
        return {} if self.sharpening is None else {"sharpening": self.sharpening.to_json()}
