"""Plain partial dependence of each part: the mean prediction at every public point (Friedman 2001)."""

from __future__ import annotations

import numpy as np

from dpexplain.maths.grids import Axis
from dpexplain.methods.plain.grouped import Dealt, Floats, Integers, Levels


def partial_dependence(dealt: Dealt, levels: Levels, axis: Axis) -> Floats:
    """[part, point] in units of the output; NaN for a part without rows.

    One prediction for each row and point. Sums of whole numbers are exact, so a batch may end inside a part.
    """
    settings = [{axis.feature: value} for value in axis.settings]

    def kernel(place: slice) -> tuple[int, Integers]:
        answers = levels.at(dealt.rows.take(place), settings)
        part = dealt.part[place]
        first = int(part[0])
        starts = np.flatnonzero(np.diff(part, prepend=-1))
        sums = np.zeros((len(settings), int(part[-1]) - first + 1), dtype=np.int64)
        sums[:, part[starts] - first] = np.add.reduceat(answers, starts, axis=1)
        return first, sums.T

    total = np.zeros((dealt.parts, len(settings)), dtype=np.int64)
    for _, (first, sums) in levels.in_batches(dealt.rows.size, kernel):
        total[first : first + len(sums)] += sums
    with np.errstate(invalid="ignore"):  # 0 / 0 where a part has no rows
        means = total / dealt.sizes[:, None]
    return levels.output.low + levels.output.width * means / levels.output.levels
