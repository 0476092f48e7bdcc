"""Plain partial dependence of each part: the mean prediction at every public point (Friedman 2001)."""

from __future__ import annotations

import numpy as np

from dpexplain.data.dealing import Dealt
from dpexplain.data.reading import BATCH_ROWS
from dpexplain.maths.grids import Axis
from dpexplain.methods.plain.grouped import Floats, Levels


def partial_dependence(dealt: Dealt, levels: Levels, axis: Axis) -> Floats:
    """[part, point] in units of the output; NaN for a part without rows. One prediction for each row and point."""
    settings = [{axis.feature: value} for value in axis.settings]
    total = np.zeros((len(settings), dealt.size), dtype=np.int64)
    for start in range(0, dealt.rows.size, BATCH_ROWS):  # a part may have many rows; sums of whole numbers are exact
        place = slice(start, start + BATCH_ROWS)
        for sums, answers in zip(total, levels.at(dealt.rows.take(place), settings), strict=True):
            np.add.at(sums, dealt.group[place], answers)
    with np.errstate(invalid="ignore"):  # 0 / 0 where a part has no rows
        means = total.T / dealt.sizes[:, None]
    return levels.output.low + levels.output.width * means / levels.output.levels
