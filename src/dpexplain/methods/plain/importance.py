"""Plain permutation importance of each part (Breiman 2001; Fisher, Rudin, Dominici 2019).

How much the squared error grows when a feature's values are exchanged among the rows of the part. The exchange is the
same for every table: rows of a part stand in a publicly drawn order, and each takes the value of the next one.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import numpy as np

from dpexplain.data.dealing import Dealt
from dpexplain.data.reading import BATCH_ROWS
from dpexplain.methods.plain.grouped import Floats, Integers, Levels
from dpexplain.methods.targets import Target

LEVELS = 2**16  # coarser than elsewhere, so that sums of squares stay exact for two billion rows


def importance(dealt: Dealt, levels: Levels, features: Sequence[str], target: str, truth_of: Target) -> Floats:
    """[part, feature] in squared levels; NaN for a part without rows.

    `truth_of` turns the target into a number in units of the output. The number of features plus one predictions for
    each row.
    """
    levels = replace(levels, output=replace(levels.output, levels=LEVELS))
    truth, donor = levels.output.quantize(truth_of(dealt.rows[target])), _donors(dealt)
    growth = np.zeros((len(features), dealt.rows.size), dtype=np.int64)
    for start in range(0, dealt.rows.size, BATCH_ROWS):  # a part may have many rows
        place = slice(start, start + BATCH_ROWS)
        exchanged = [{name: dealt.rows[name][donor[place]]} for name in features]
        losses = (levels.at(dealt.rows.take(place), [{}, *exchanged]) - truth[place]) ** 2
        growth[:, place] = losses[1:] - losses[0]
    totals = np.array([dealt.sums(line) for line in growth], dtype=np.float64).T
    return np.where(dealt.sizes[:, None] > 0, totals, np.nan)


def _donors(dealt: Dealt) -> Integers:
    """For each row, the row of the same part whose value it takes."""
    order = dealt.shuffled()
    after = np.roll(order, -1)
    filled = dealt.sizes > 0
    after[(dealt.starts + dealt.sizes - 1)[filled]] = order[dealt.starts[filled]]  # the last one takes from the first
    donor = np.empty_like(order)
    donor[order] = after
    return donor
