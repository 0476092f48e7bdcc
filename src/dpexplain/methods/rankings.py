"""Items in the order of a released score: features by importance, pairs by interaction, whatever was voted on."""

from __future__ import annotations

from abc import abstractmethod
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING, ClassVar, Self

import numpy as np
from scipy.special import ndtr

from dpexplain.core.canonical import JsonObject
from dpexplain.core.noise import Noise
from dpexplain.errors import InputError
from dpexplain.maths.laws import below
from dpexplain.methods.result import Floats, Result
from dpexplain.receipts import Receipt

if TYPE_CHECKING:
    import pandas as pd


MOST_TOP = 5  # items that the default of `top_probability` asks about
SPREADS = np.geomspace(0.01, 1, 24)  # of true scores, as a share of the largest one that is thought of
PLACES = np.linspace(-6, 6, 161)  # in standard deviations: where a score may be
IN_THE_TAILS = (0.99, 2.576)  # so many standard deviations hold this share of a normal law; heavier tails count as more


@dataclass(frozen=True)
class Ranking(Result):
    """Items, the best first. `values`, `interval` and `to_frame` all stand in that order.

    Intervals cover the exact score of the (cleaned) table; `caveat` says what they leave out. How sure the order is:
    `order_probability` says for each item how probable it is that it truly stands above the next one, and
    `top_probability` that it is truly one of the best `top`. Both count every error that the result knows of.

    Behind both: true scores are taken as normally distributed around their mean with a spread that nobody knows (all
    spreads on a logarithmic scale are equally likely beforehand), released ones as true ones plus normal errors. Where
    errors are larger than any spread that the released scores show, every item has about the same probability, as it
    should; taking scores as "anything is possible" instead would call the luckiest of many equal items sure.
    """

    quantity: ClassVar[str] = "score"  # what the values are, for axes and tables
    picture: ClassVar[str] = "dpexplain.render.plots:plot_ranking"
    text_view: ClassVar[str] = "dpexplain.render.text:ranking_view"

    @property
    def picture_size(self) -> tuple[float, float]:
        return 7.36, 1.8 + 0.26 * len(self.candidates)

    @property
    @abstractmethod
    def candidates(self) -> tuple[str, ...]:
        """The items that scores were released of, in their public order."""

    @property
    @abstractmethod
    def scores(self) -> Floats:
        """The released score of each candidate, in their public order."""

    @property
    @abstractmethod
    def gap_noise(self) -> tuple[Noise, float]:
        """The law of the noise in the scores, and how much of a score one unit of it is."""

    @abstractmethod
    def score_interval(self, level: float) -> tuple[Floats, Floats]:
        """(low, high) around the exact score of each candidate, in their public order."""

    @cached_property
    def order(self) -> list[int]:
        """Positions of the candidates, the best first; of equal ones, the earlier one in public order."""
        return [int(i) for i in np.argsort(-self.scores, kind="stable")]

    @property
    def items(self) -> list[str]:
        """The items, the best first."""
        return [self.candidates[i] for i in self.order]

    @property
    def values(self) -> Floats:
        return self.scores[self.order]

    def interval(self, level: float = 0.95) -> tuple[Floats, Floats]:
        low, high = self.score_interval(level)
        return low[self.order], high[self.order]

    @property
    def score_std(self) -> Floats:
        """Standard deviation of the errors of each score, in public order: as far as the intervals know of them."""
        low, high = self.score_interval(IN_THE_TAILS[0])
        found: Floats = np.maximum(high - low, 1e-12 * (1 + np.abs(self.scores))) / (2 * IN_THE_TAILS[1])
        return found

    @property
    def _centre(self) -> float:
        """The mean of the true scores: an estimate, or known."""
        return float(self.scores.mean())

    @property
    def widest(self) -> float:
        """The largest possible standard deviation of true scores, where one is known."""
        return np.inf

    @property
    def unreleased(self) -> int:
        """How many more items there are, of which nothing was released but that they were not chosen."""
        return 0

    @cached_property
    def _posterior(self) -> tuple[Floats, Floats, Floats, Floats]:
        """Spreads of true scores with their weights, and means and deviations [spread, item] of each true score given
        the spread. Items that were not released follow at the end, with nothing known about them.
        """
        scores, std, centre = self.values, self.score_std[self.order], self._centre
        size = float(np.sqrt(np.mean((scores - centre) ** 2 + std**2)))
        spreads = min(3 * size, self.widest) * SPREADS
        both = spreads[:, None] ** 2 + std**2
        logs = -0.5 * (np.log(both) + (scores - centre) ** 2 / both).sum(axis=1)
        weights = np.exp(logs - logs.max())
        kept = spreads[:, None] ** 2 / both
        more = (len(spreads), self.unreleased)
        means = np.hstack([centre + kept * (scores - centre), np.full(more, centre)])
        deviations = np.hstack([np.sqrt(kept) * std, np.broadcast_to(spreads[:, None], more)])
        return spreads, weights / weights.sum(), means, deviations

    @cached_property
    def order_probability(self) -> Floats:
        """For each item but the last, the probability that it truly stands above the next one.

        The smaller of two: with the law of the noise, if nothing is known about the two; and with all errors, allowing
        for the luck of the best among many.
        """
        noise, unit = self.gap_noise
        alone = np.array([below(noise, gap / unit) for gap in -np.diff(self.values)])
        _, weights, means, deviations = self._posterior
        n = len(self.values)
        apart = np.hypot(deviations[:, : n - 1], deviations[:, 1:n])
        found: Floats = np.minimum(alone, weights @ ndtr(-np.diff(means[:, :n], axis=1) / apart))
        return found

    @property
    def top(self) -> int:
        """How many of the best `top_probability` asks about unless told: a third of the items, five at most."""
        return min(MOST_TOP, max(1, (len(self.values) + self.unreleased) // 3))

    def top_probability(self, top: int | None = None) -> Floats:
        """For each item, the probability that it is truly one of the best `top`; in the order of `items`."""
        total = len(self.values) + self.unreleased
        top = self.top if top is None else top
        if isinstance(top, bool) or not isinstance(top, int) or not 1 <= top <= total:
            raise InputError(f"top is a whole number from 1 to {total}; got {top!r}.", spent="")
        _, weights, means, deviations = self._posterior
        keep = weights > 1e-6
        weights, means, deviations = weights[keep] / weights[keep].sum(), means[keep], deviations[keep]
        ends = [(means + sign * 6 * deviations) for sign in (-1, 1)]
        low, high = ends[0].min(axis=1), ends[1].max(axis=1)
        place = low[:, None] + (high - low)[:, None] * (PLACES + 6) / 12  # [spread, place]
        upper = ndtr((means[:, None, :] - place[:, :, None]) / deviations[:, None, :])  # P(above this place)
        here = -np.diff(upper, axis=1)  # P(between this place and the next)
        above = (upper[:, 1:] + upper[:, :-1]) / 2
        # how many of the others are above: counts up to top - 1, over the items before and after each one
        before, after = _counts_above(above, top), _counts_above(above[..., ::-1], top)
        found = []
        for i in range(len(self.values)):
            others, rest = before[i], np.cumsum(after[total - 1 - i], axis=-1)
            few = sum(others[..., j] * rest[..., top - 1 - j] for j in range(top))  # P(fewer than `top` above)
            found.append(float(weights @ (here[..., i] * few).sum(axis=1)))
        return np.clip(found, 0.0, 1.0)

    def view(self) -> JsonObject:
        return {}

    @classmethod
    def rebuild(cls, receipt: Receipt, released: JsonObject, view: JsonObject) -> Self:
        if view:
            raise ValueError("a ranking has no view")
        ranking = cls(receipt, released)
        ranking.check()
        return ranking

    def check(self) -> None:
        """What can be read can be shown: an error here, and not later, for a file that was tampered with."""
        ends, sure = np.concatenate(self.interval()), np.append(self.order_probability, self.top_probability())
        if not np.isfinite(ends).all() or not np.isfinite(sure).all() or not self.title or not self.quantity:
            raise ValueError("no ranking of ours")

    def columns_beside(self) -> dict[str, Floats]:
        """More columns of `to_frame()`: the released values, where others are shown."""
        return {}

    def to_frame(self, top: int | None = None) -> pd.DataFrame:
        """One line for each item, the best first; `top` is for the probability of being one of so many best."""
        import pandas as pd

        low, high = self.interval()
        sure = [*self.order_probability, None]
        columns = {"item": self.items, self.quantity: self.values, "low": low, "high": high, **self.columns_beside()}
        best = {f"in_top_{self.top if top is None else top}": self.top_probability(top)}
        columns |= {"determined": self.determined(), "above_next": pd.array(sure, dtype="Float64")}
        return pd.DataFrame({**columns, **best})


def _counts_above(above: Floats, most: int) -> list[Floats]:
    """For each i, the law of how many of the first i items are above: probabilities of 0 .. most - 1."""
    law = np.zeros((*above.shape[:-1], most))
    law[..., 0] = 1.0
    found = [law]
    for i in range(above.shape[-1]):
        p = above[..., i, None]
        law = law * (1 - p)
        law[..., 1:] += found[-1][..., :-1] * p
        found.append(law)
    return found
