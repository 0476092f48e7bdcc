"""What a local explanation or a sketch will be worth: releases of a few likely tables, played through beforehand.

What noise does to a local line depends on how rows lie around the record and how columns go together, which nobody
knows before. So some small likely tables are drawn (`PublicRandom.likely_rows`) and counted as often as makes the
declared number of rows; the model is asked about them, or, without it, a made-up curved one for each table; public
random numbers of the noise's law are added, and lines, contributions and intervals follow as they will from a release.
The forecast is the middle of these tables: of the error that 95 % of contributions stay below, and of the mean
interval.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.special import ndtr

from dpexplain.core.budget import Cost
from dpexplain.data.public_random import PublicRandom
from dpexplain.data.rows import Rows
from dpexplain.maths.surrogate import Fit, Space
from dpexplain.maths.surrogate.fit import PART, contributions, counted_from, halfwidths
from dpexplain.methods import averages
from dpexplain.methods.setting import LEVEL, Outlook, Setting

Floats = NDArray[np.float64]
Integers = NDArray[np.int64]

TABLES, ROWS, DRAWS = 7, 1024, 6
MANY = 64  # coordinates, from which on fewer tables and draws are tried: solving takes its time
WIDER = "it also holds what the rows may leave undetermined"


@dataclass(frozen=True)
class LikelyTable:
    """Public rows in coordinates, their predictions, and how often each of them counts."""

    seed: int
    rows: Rows
    coordinates: Floats
    predictions: Floats
    times: float

    @property
    def cells(self) -> PublicRandom:
        """Random numbers for where cells are: the same ones with and without noise, because cells are given."""
        return PublicRandom(self.seed)

    def scaled(self, sums: Integers) -> Integers:
        """Sums over these rows as those of a whole table."""
        return np.asarray(np.rint(sums * self.times).astype(np.int64))


# a table, its noise (None: as good as none) -> the local model at a record
Solve = Callable[[LikelyTable, PublicRandom | None], Callable[[Floats], Fit]]


def rehearsed(
    setting: Setting,
    space: Space,
    cost: Cost,
    solve: Solve,
    law: str,
    points: int,
    record: Mapping[str, Any] | None = None,
) -> Outlook:
    """The error, interval and band of contributions to the prediction for a record, or for some rows of a table."""
    errors = []
    for seed, table in enumerate(_tables(setting, space, record)):
        draw = PublicRandom(seed)
        places = table.coordinates[:3] if record is None else space.locate(record)[None]
        exact = _answers(setting, space, cost, solve, table, None)
        truth = [contributions(exact(z), space, z) for z in places]
        off, half, band = [], [], []
        for _ in range(DRAWS if space.size <= MANY else 1):
            noisy = _answers(setting, space, cost, solve, table, draw)
            for z, values in zip(places, truth, strict=True):
                fit = noisy(z)
                lines, own = space.lines(z - fit.reference), np.eye(len(space.features), dtype=bool)
                off.append(np.abs(contributions(fit, space, z) - values))
                half.append(halfwidths(fit, space, lines, own, LEVEL))
                band.append(halfwidths(fit, space, lines, own, 1 - (1 - LEVEL) / len(lines)))
        errors.append([np.quantile(off, LEVEL), np.mean(half), np.max(np.mean(band, axis=0))])
    error, interval, widest = np.median(errors, axis=0).tolist()
    return Outlook(law, points, error / 2, error, widest, interval=interval, wider=WIDER)


def _answers(
    setting: Setting, space: Space, cost: Cost, solve: Solve, table: LikelyTable, draw: PublicRandom | None
) -> Callable[[Floats], Fit]:
    """The local model at any record, counted from the average person, both with noise or both without."""
    average = averages.average_for(space, setting.output, setting.neighbours)
    sums = table.scaled(average.sums(table.coordinates, table.predictions))
    std = averages.forecast(average, setting.neighbours, cost)[PART].std if draw is not None else 1.0
    person = average.read(with_noise(sums, std, draw).tolist(), std, None if average.counted else setting.rows)
    answer = solve(table, draw)
    return lambda z: counted_from(answer(z), person)


def with_noise(sums: Integers, std: float, draw: PublicRandom | None) -> Integers:
    """Sums with public random numbers in the place of noise."""
    if draw is None:
        return sums
    return np.asarray(sums + np.rint(std * draw.generator.standard_normal(len(sums))).astype(np.int64))


def _tables(setting: Setting, space: Space, record: Mapping[str, Any] | None) -> list[LikelyTable]:
    key = ("local", space.features)
    if key not in setting.tried:  # a plan asks at many prices
        count = TABLES if space.size <= MANY else 2
        drawn = [PublicRandom(seed).likely_rows(setting.domain, ROWS, record) for seed in range(count)]
        setting.tried[key] = [_table(setting, space, rows, seed) for seed, rows in enumerate(drawn)]
    tables: list[LikelyTable] = setting.tried[key]
    return tables


def _table(setting: Setting, space: Space, rows: Rows, seed: int) -> LikelyTable:
    coordinates = space.coordinates(rows.columns, rows.size)
    if setting.model is None:  # a probit of a random line, as steep as it is wide
        line = coordinates @ PublicRandom(seed).generator.normal(size=space.size)
        line = (line - line.mean()) / max(float(line.std()), 1e-9)
        predictions = setting.output.low + setting.output.width * ndtr(line)
    else:
        predictor = setting.model.checked(setting.domain, rows=rows.size, exact=True)
        predictions = predictor.predict_at(predictor.inputs(rows), {})
    return LikelyTable(seed, rows, coordinates, predictions, setting.rows / rows.size)
