"""Rows that were dealt to parts, and predictions for all of them at once as whole numbers."""

from __future__ import annotations

import os
from collections import deque
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass
from functools import cached_property
from typing import Any, TypeVar

import numpy as np
from numpy.typing import NDArray

from dpexplain.core.domain import PublicRange
from dpexplain.data.public_random import PublicRandom
from dpexplain.data.rows import Rows
from dpexplain.models import Predictor

Integers = NDArray[np.int64]
Floats = NDArray[np.float64]
T = TypeVar("T")

BATCH_ROWS = 2**14


@dataclass(frozen=True)
class Dealt:
    """All rows, those of part 0 first; within a part in the secret order in which they were gathered."""

    rows: Rows
    part: Integers  # of each row, in increasing order
    parts: int

    @classmethod
    def of(cls, rows: Rows, part: Integers, parts: int) -> Dealt:
        order = np.argsort(part, kind="stable")
        return cls(rows.take(order), part[order], parts)

    @cached_property
    def sizes(self) -> Integers:
        """The number of rows of each part."""
        return np.bincount(self.part, minlength=self.parts).astype(np.int64)

    @cached_property
    def starts(self) -> Integers:
        """Where each part begins."""
        return np.concatenate([[0], np.cumsum(self.sizes)[:-1]]).astype(np.int64)

    def __iter__(self) -> Iterator[Rows]:
        for start, size in zip(self.starts, self.sizes, strict=True):
            yield self.rows.take(slice(int(start), int(start + size)))

    def sums(self, values: Integers) -> Integers:
        """The sum of one whole number for each row, over each part."""
        total = np.concatenate([[0], np.cumsum(values)])
        sums: Integers = total[self.starts + self.sizes] - total[self.starts]
        return sums

    def shuffled(self) -> Integers:
        """The rows of each part in an order that is drawn once for all tables, by their places in the part."""
        place = np.arange(self.rows.size) - self.starts[self.part]
        draws = PublicRandom(0).generator.random(int(place.max(initial=-1)) + 1)  # longer parts go on drawing
        return np.lexsort((draws[place], self.part)).astype(np.int64)


@dataclass(frozen=True)
class Levels:
    """A model's predictions as whole numbers {0..levels}; a row on which the model fails counts as the middle."""

    predictor: Predictor
    output: PublicRange
    parallel: bool  # whether several threads may predict at once

    def at(self, rows: Rows, settings: Sequence[Mapping[str, Any]]) -> Integers:
        """Predictions [setting, row] of a few rows, with some columns held at other values."""
        inputs = self.predictor.inputs(rows)
        answers = [self.output.quantize(self.predictor.predict_at(inputs, fixed)) for fixed in settings]
        return np.array(answers, dtype=np.int64).reshape(len(settings), rows.size)

    def in_batches(self, size: int, kernel: Callable[[slice], T], batch: int = BATCH_ROWS) -> Iterator[tuple[slice, T]]:
        """`kernel` for each batch of `size` rows, in order. It runs in other threads than the main one, where a model
        that raises KeyboardInterrupt is only a model that fails (see `models.Predictor`).
        """
        workers = (os.cpu_count() or 1) if self.parallel else 1
        batch = max(1, min(batch, -(-size // workers)))
        places = [slice(start, min(start + batch, size)) for start in range(0, size, batch)]
        pending: deque[tuple[slice, Future[T]]] = deque()
        with ThreadPoolExecutor(workers) as pool:
            for place in places:
                pending.append((place, pool.submit(kernel, place)))
                if len(pending) >= 2 * workers:
                    done, future = pending.popleft()
                    yield done, future.result()
            for done, future in pending:
                yield done, future.result()
