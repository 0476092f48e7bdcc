"""How predictions for single rows go along a column, and what can be said about the shape of their mean. Free.

Individual curves are those of weighted synthetic rows: bands that hold a share of them. No band is about noise, and no
curve is anybody's. A statement about the shape of the mean curve ("rises up to 40") is true or not of every curve that
released numbers leave likely; its probability is the share of joint posterior draws of which it is true.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from dpexplain.columns import Names, labels
from dpexplain.core.canonical import JsonObject
from dpexplain.errors import InputError
from dpexplain.maths.grids import Axis

if TYPE_CHECKING:
    import pandas as pd
    from matplotlib.axes import Axes

    from dpexplain.methods.posterior import Posterior

Floats = NDArray[np.float64]

PROBS = (0.1, 0.25, 0.5, 0.75, 0.9)
DRAWS, SEED = 2000, 7
SMALL = 0.1  # of the range of a curve: a turn that is smaller is none
STILL = 0.2  # of that range: a curve that moves less on a part is level there
LEVEL_PART = 0.25  # of the axis: shorter parts are not spoken of
EQUAL = 1e-9  # of the output's range: predictions that differ by less are the same
NAMED = 4  # categories in one statement


@dataclass(frozen=True, eq=False)
class IndividualCurves:
    """Bands of predictions of single synthetic rows along one column.

    probs   shares of the rows whose prediction is at most that of a line
    bands   [share, point]: predictions; mean, std over all rows: [point]
    names   for people
    basis   what all of this rests on, in a sentence
    """

    axis: Axis
    probs: tuple[float, ...]
    bands: Floats
    mean: Floats
    std: Floats
    domain: JsonObject
    names: Names
    basis: str

    @property
    def feature(self) -> str:
        return self.axis.feature

    @property
    def title(self) -> str:
        return f"Predictions of single synthetic rows along {self.names.title(self.feature)}"

    @property
    def values(self) -> Floats:
        """All bands, one after the other, in the order of `to_frame()`."""
        return self.bands.ravel()

    def sampling_error(self, rows: int) -> Floats:
        """How far the mean prediction at each point would move with another sample of so many rows of the same
        population: 1.96 standard errors. Noise that was added for privacy is not in it.
        """
        if isinstance(rows, bool) or not isinstance(rows, int) or rows < 1:
            raise InputError(f"rows are a whole number of at least 1; got {rows!r}."[:200], spent="")
        return np.asarray(1.96 * self.std / np.sqrt(rows))

    def to_frame(self) -> pd.DataFrame:
        """A line for each band and point."""
        import pandas as pd

        points = labels(self.domain, self.feature, self.axis.points)
        lines = [
            (q, x, float(y))
            for q, band in zip(self.probs, self.bands, strict=True)
            for x, y in zip(points, band, strict=True)
        ]
        frame = pd.DataFrame(lines, columns=["share of rows", self.feature, "prediction"])
        frame.attrs["basis"] = self.basis
        return frame

    def plot(self, ax: Axes | None = None) -> Axes:
        """Draw the bands, marked as synthetic rows."""
        from dpexplain.render.views import plot_individual

        return plot_individual(self, ax)


@dataclass(frozen=True)
class Statement:
    """A sentence about the shape of a curve, and how likely it is, given all that was released."""

    words: str
    probability: float

    def __str__(self) -> str:
        return f"{self.words} (probability {share_words(self.probability)})"


def share_words(probability: float) -> str:
    """A probability as people say it: never certain where it was counted in draws."""
    if probability > 1 - 1 / DRAWS:
        return "more than 99 %"
    return "less than 1 %" if probability < 0.01 else f"{100 * min(probability, 0.99):.0f} %"


def individual_curves(posterior: Posterior, feature: str, probs: Sequence[float]) -> IndividualCurves:
    """The bands of one column."""
    shares = tuple(probs)
    if not shares or not all(isinstance(q, float) and 0 < q < 1 for q in shares) or list(shares) != sorted(set(shares)):
        raise InputError("probs are shares between 0 and 1, each larger than the one before.", hint="(0.1, 0.5, 0.9)")
    axis, answers = posterior.predictions_along(feature)
    weights = posterior.weights
    order = np.argsort(answers, axis=0, kind="stable")
    bands = np.empty((len(shares), answers.shape[1]))
    for point in range(answers.shape[1]):
        below = np.cumsum(weights[order[:, point]])
        places = np.minimum(np.searchsorted(below, np.array(shares) * below[-1]), len(below) - 1)
        bands[:, point] = answers[order[places, point], point]
    mean = weights @ answers
    std = np.sqrt(np.maximum(weights @ (answers - mean) ** 2, 0.0))
    about = posterior.stand_in.domain.to_json(), posterior.stand_in.receipt.names, posterior.basis
    return IndividualCurves(axis, shares, bands, mean, std, *about)


# Shape ----------------------------------------------------------------------------------------------------------------


def shape(posterior: Posterior, feature: str) -> list[Statement]:
    """What can be said about the mean prediction along a column, the likeliest statement first."""
    axis, answers = posterior.predictions_along(feature)
    draws = posterior.drawn_means(answers, DRAWS, SEED)
    named = labels(posterior.stand_in.domain.to_json(), feature, axis.points)
    title, alike = posterior.stand_in.receipt.called(feature), alike_as(answers, EQUAL * posterior.model.output.width)
    if axis.ordered:
        size = len(axis.numbers)
        found = _of_numbers(title, named[:size], draws[:, :size]) if len(set(alike[:size])) > 1 else []
    else:
        shown = [str(posterior.stand_in.receipt.called_value(feature, point)) for point in named]
        found = _of_categories(title, shown, draws, alike)
    return sorted(found, key=lambda one: -one.probability)


def _of_numbers(title: str, points: list[Any], draws: Floats) -> list[Statement]:
    """From one turn of the mean to the next it rises or falls, between its level parts; and where it is level."""
    mean = draws.mean(axis=0)
    knots, small = turns(mean), SMALL * float(np.ptp(mean))
    shown, found = point_words(points), list[Statement]()
    for start, end in itertools.pairwise(knots):
        first, last, half = moving(mean, start, end, small)
        sign = 1 if mean[end] >= mean[start] else -1
        steps = sign * np.diff(
            draws[:, [first, half, last]] if first < half < last else draws[:, [first, last]], axis=1
        )
        goes = f"{title} goes from {shown[first]} to {shown[last]}"
        words = f"The mean prediction {'rises' if sign > 0 else 'falls'} as {goes}"
        found.append(Statement(words, float((steps > 0).all(axis=1).mean())))
        for low, high, words in (
            (start, first, f"{shown[first]} or less"),
            (last, end, f"{shown[last]} or more"),
        ):
            if high - low >= LEVEL_PART * (len(points) - 1) and (low == 0 or high == len(points) - 1):
                level = np.ptp(draws[:, low : high + 1], axis=1) < STILL * float(np.ptp(mean))
                still = f"The mean prediction hardly changes where {title} is {words}"
                found.append(Statement(still, float(level.mean())))
    return found


def moving(mean: Floats, start: int, end: int, small: float) -> tuple[int, int, int]:
    """The part of a stretch where the curve moves: the last point that is still near its beginning, the first that is
    near its end, and one about half the way up.
    """
    stretch = mean[start : end + 1]
    first = int(np.flatnonzero(np.abs(stretch - stretch[0]) <= small).max())
    beyond = np.flatnonzero(np.abs(stretch - stretch[-1]) <= small)
    last = int(beyond[beyond > first].min()) if (beyond > first).any() else len(stretch) - 1
    half = first + int(np.argmin(np.abs(stretch[first : last + 1] - (stretch[first] + stretch[last]) / 2)))
    return start + first, start + last, start + half


def turns(mean: Floats) -> list[int]:
    """Where a curve turns, both ends included: changes back that are small beside its range do not count."""
    least = SMALL * float(np.ptp(mean))
    if least <= 0:
        return []
    knots, extreme, direction = [0], 0, 0
    for i in range(1, len(mean)):
        if direction == 0:
            if abs(mean[i] - mean[0]) > least:
                direction, extreme = (1 if mean[i] > mean[0] else -1), i
        elif direction * (mean[i] - mean[extreme]) >= 0:
            extreme = i
        elif direction * (mean[extreme] - mean[i]) > least:
            knots.append(extreme)
            direction, extreme = -direction, i
    return [*knots, len(mean) - 1] if knots[-1] != len(mean) - 1 else knots


def alike_as(answers: Floats, least: float) -> list[int]:
    """For each point, the first one at which the model says the same about every synthetic row."""
    found = list[int]()
    for point in range(answers.shape[1]):
        same = (first for first in found if np.abs(answers[:, point] - answers[:, first]).max() <= least)
        found.append(next(same, point))
    return found


def _of_categories(title: str, points: list[str], draws: Floats, alike: Sequence[int]) -> list[Statement]:
    """Which category has the highest mean prediction, and which the lowest. Those that the model treats alike are named
    together: which of them comes first is rounding. If it treats all alike, nothing is said.
    """
    firsts = list(dict.fromkeys(alike))
    if len(firsts) < 2:
        return []
    names = [[points[i] for i in range(len(points)) if alike[i] == first] for first in firsts]
    found, means = list[Statement](), draws[:, firsts]
    for word, place in (("highest", np.argmax(means, axis=1)), ("lowest", np.argmin(means, axis=1))):
        counts = np.bincount(place, minlength=len(firsts))
        best = int(np.argmax(counts))
        more = len(names[best]) - NAMED
        listed = " or ".join([*names[best][:NAMED], *([f"one of {more} more"] if more > 0 else [])])
        words = f"The mean prediction is {word} where {title} is {listed}"
        found.append(Statement(words, float(counts[best] / len(draws))))
    return found


def point_words(points: Sequence[Any]) -> list[str]:
    """Points of a column in words: numbers to a thousandth of their range, without zeros that say nothing."""
    numbers = [point for point in points if isinstance(point, float)]
    width = max(numbers) - min(numbers) if numbers else 0.0
    digits = max(3 - math.ceil(math.log10(width)), 0) if width > 0 else 3
    return [_number(point, digits) if isinstance(point, float) else str(point) for point in points]


def _number(point: float, digits: int) -> str:
    short = f"{point:,.{digits}f}"
    short = short.rstrip("0").rstrip(".") if "." in short else short
    return "0" if short == "-0" else short
