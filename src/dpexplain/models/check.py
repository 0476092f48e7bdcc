"""What is found out about a model on synthetic rows, before anything is paid for.

It answers, one finite number for each row; and the number for a row is the same *to the last bit* when it is asked
again, among other rows, and at other places of a block. Nothing is tolerated, so nothing has to be added to a bound.

The other rows are varied on purpose. A batch of evenly drawn rows holds every category and nearly both ends of every
column, so what a model computes from a whole batch is nearly the same for all of them. Hence also blocks in which some
columns are constant, and blocks of copies of one row.
"""

from __future__ import annotations

import sys
import threading
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from time import sleep
from types import FrameType
from typing import Any

import numpy as np

from dpexplain.core.domain import Categorical, Domain, Numeric, PublicRange
from dpexplain.core.quiet import quiet
from dpexplain.data.public_random import PublicRandom
from dpexplain.data.rows import Rows
from dpexplain.errors import ModelError, ModelWarning, warn
from dpexplain.models.predictor import SMALLEST_BLOCK, SYNTHETIC, Call, Floats, Integers, Predictor

SINGLE, DOUBLE = 1e-6, 1e-9  # how far the same model may be from itself on another machine, in output ranges
LAST_DIGITS = 100  # times as much is no matter of rounding
SMALLER = (64, 16, 1)  # blocks that are tried where those of the usual size change last digits
TRIED, CALLS = 2**10, 2**6  # synthetic rows for small blocks, unless they are so many calls
USUAL = 0.2  # of the numbers in a synthetic column are ends, defaults and zero
POOR, ALIKE, COPIED = 8, 16, 3  # blocks with constant columns; different rows in each; blocks of copies of one row
THREADS, ROUNDS, TOGETHER, YIELDS = 3, 2, 2**9, 100
NOT_ROWWISE = (
    "a prediction must be a fixed function of its row; check for batch statistics and random draws "
    "(a model that computes in single precision should return float32)"
)


@dataclass(frozen=True)
class Check:
    """One model on one domain. Everything here is public."""

    domain: Domain
    output: PublicRange
    chosen: bool  # whether the caller chose the size of blocks

    def passed(self, predictor: Predictor) -> Predictor:
        """The predictor, with its answers; one for smaller blocks where the last digits change in those it has."""
        for block in [predictor.block] if self.chosen else [predictor.block, *SMALLER]:
            predictor = predictor if block == predictor.block else predictor.resized(block)
            first, predictor.precision = self._first(predictor)
            predictor.answers = first[:SYNTHETIC]
            pairs = self._in_blocks(predictor, first) if block > 1 else self._one_by_one(predictor)
            with quiet():  # what a model has to warn of, it warns of at the first rows
                same = self._same(predictor, pairs) and self._same(predictor, self._among_few(predictor))
            if same:
                break
        else:
            raise self._unsteady(predictor.block)
        if predictor.thread_safe:
            _check_threads(predictor, self.domain)
        return predictor

    def _unsteady(self, block: int) -> ModelError:
        if block > 1:
            return ModelError(
                f"in blocks of {block} rows the last digits of the model's answer for a row depend on the other rows, "
                "or on its place among them.",
                hint="leave block out: then smaller blocks are tried too. block=1 is exact for any model, and slow",
            )
        return ModelError(
            "the last digits of the model's answer change when the same row is asked again.",
            hint="set n_jobs=1 and a fixed seed: random draws do this, and threads that add up in changing order",
        )

    def same_as_before(self, predictor: Predictor) -> bool:
        """Whether a model that passed still answers the first synthetic rows as it did then, to the last bit."""
        return np.array_equal(self._first(predictor)[0][:SYNTHETIC], predictor.answers)

    def _first(self, predictor: Predictor) -> tuple[Floats, float]:
        """The answers for the first synthetic rows, over and over to the end of a block, and their precision; refused
        where there are none in the range.
        """
        size = max(SYNTHETIC, predictor.block)
        try:
            raw = predictor.raw_answers(_tiled(PublicRandom(0).rows(self.domain, SYNTHETIC), size))
            answers = [part.astype(np.float64) for part in raw]
        except Exception as error:
            raise ModelError(
                f"the model fails on synthetic rows drawn from the declared domain: {type(error).__name__}: {error}",
                hint="check the declared columns, their order and their types against what the model was fitted with"
                + self._missing_hint,
            ) from None
        block = predictor.block
        wrong = [part.shape for part in answers if part.shape not in ((block,), (block, 1))]
        if wrong:
            raise ModelError(
                f"the model must return one number for each row; for {block} rows it returned shape {wrong[0]}."
            )
        answer = np.concatenate([part.reshape(block) for part in answers])[:size]
        if not np.isfinite(answer).all():
            raise ModelError(
                "the model returns NaN or infinite values for rows inside the declared domain.",
                hint="narrow the domain, or let the model handle such rows" + self._missing_hint,
            )
        if ((answer < self.output.low) | (answer > self.output.high)).all():
            raise ModelError(
                f"every prediction on synthetic rows lies outside output=({self.output.low:g}, {self.output.high:g}).",
                hint="declare the range that the model's predictions really have",
            )
        return answer, SINGLE if raw[0].dtype in (np.float32, np.float16) else DOUBLE

    @property
    def _missing_hint(self) -> str:
        """What else may be wrong where the model is handed missing values."""
        kept = [name for name, column in self.domain.items() if column.keeps_missing]
        return f'; missing values are handed over as NaN (missing="nan"): {", ".join(kept)}' if kept else ""

    def _in_blocks(self, predictor: Predictor, repeated: Floats) -> Iterator[tuple[str, Floats, Floats]]:
        """Pairs of answers for the same rows, at other places and among other rows. Three blocks do, because each is
        long: `repeated` has a few rows over and over; a second one mixes them, moved, with new rows; and a third one
        has the new rows again, in reverse, among still others.
        """
        yield "at another place", np.resize(repeated[:SYNTHETIC], len(repeated)), repeated
        size = max(2 * SYNTHETIC, min(TRIED, CALLS * predictor.block), predictor.block)
        size += size % 2  # odd blocks may be chosen
        here, known = np.arange(size), np.resize(repeated[:SYNTHETIC], size)
        moved, even = np.roll(here, 35), here % 2 == 0
        first = _tiled(PublicRandom(0).rows(self.domain, SYNTHETIC), size)
        other, _ = self._other(predictor.features, size)

        def ask(mine: Rows, rest: Rows) -> Floats:
            columns = {name: np.where(even, mine[name], rest[name]) for name in other.columns}
            return predictor.predict_at(predictor.inputs(Rows(self.domain, columns, size)), {})

        mixed = ask(first.take(moved), other)
        yield "among other rows", known[moved][even], mixed[even]
        back = here[::-1]  # what stood at an odd place comes to an even one
        yield "in another order", mixed[back][even], ask(other.take(back), other.take(back))[even]

    def _among_few(self, predictor: Predictor) -> Iterator[tuple[str, Floats, Floats]]:
        """Pairs of answers for rows among others that are alike in some way, which shows statistics of a batch. Whether
        other rows matter shows in blocks of any size, so small ones will do.
        """
        small = predictor.resized(min(predictor.block, SMALLEST_BLOCK))
        size = max(SMALLEST_BLOCK, small.block)
        here = np.arange(size)
        other, alike = self._other(small.features, size)

        def ask(rows: Rows) -> Floats:
            return small.predict_at(small.inputs(rows), {})

        answers = ask(other)
        answered = np.isfinite(answers)  # copies of a row on which the model fails would be asked one by one
        for places in alike:
            chosen = places[answered[places]]
            if len(chosen):
                order = chosen[here % len(chosen)]
                yield "among rows with a constant column", answers[order], ask(other.take(order))
        single = here[len(alike) * ALIKE :][answered[len(alike) * ALIKE :]]
        for i, row in enumerate(single[:COPIED]):
            place = i * (small.block - 1) // (COPIED - 1)  # one other row: first, in the middle, last
            order = np.where(here % small.block == place, single[-1 - i], row)
            yield "among copies of one row", answers[order], ask(other.take(order))

    def _other(self, features: list[str], size: int) -> tuple[Rows, list[Integers]]:
        """More synthetic rows, and the places of those that have the same values in some columns.

        A fifth of the numbers are those that private columns are full of: the ends, to which values are clipped, the
        default of missing ones, and zero. Few columns are held near one end and then the other, one column at a time.
        Each of many is near the lower end in three blocks, near the upper end in three and free in two, in a drawn
        order of its own.
        """
        rows, draw = PublicRandom(1).rows(self.domain, size), PublicRandom(2).generator
        for name in features:
            if (usual := _usual(self.domain[name])).size:
                often = draw.random(size) < USUAL
                rows[name][often] = draw.choice(usual, int(often.sum()))
        few = 2 * len(features) <= POOR
        alike = [np.arange(i * ALIKE, (i + 1) * ALIKE) for i in range(2 * len(features) if few else POOR)]
        for j, name in enumerate(features):
            ends = [0] * (2 * j) + [-1, 1] if few else draw.permutation([-1, 1] * 3 + [0] * 2)
            for places, end in zip(alike, ends, strict=False):
                if end:
                    rows[name][places] = _near(self.domain[name], upper=end > 0)
        return rows, alike

    def _one_by_one(self, predictor: Predictor) -> Iterator[tuple[str, Floats, Floats]]:
        rows = PublicRandom(0).rows(self.domain, SYNTHETIC).take(np.arange(SYNTHETIC)[::-1])
        yield "again", predictor.answers[::-1], predictor.predict_at(predictor.inputs(rows), {})

    def _same(self, predictor: Predictor, pairs: Iterator[tuple[str, Floats, Floats]]) -> bool:
        """Whether all pairs are equal to the last bit; refused where they differ by more than last digits."""
        exact = True
        for how, one, two in pairs:
            if np.array_equal(one, two, equal_nan=True):
                continue
            exact = False
            if not np.allclose(one, two, 0, LAST_DIGITS * predictor.precision * self.output.width, equal_nan=True):
                raise ModelError(
                    f"the model's answer for a row is not always the same: asked {how}, it is another one.",
                    hint=NOT_ROWWISE,
                )
        return exact


def warn_slow(block: int) -> None:
    """Warn of smaller blocks than usual."""
    warn(
        ModelWarning,
        "the last digits of the model's answer for a row depend on the rows that it is asked about together, so it is "
        f"asked about {f'{block} rows' if block > 1 else 'one row'} at a time, which is slow. It may be faster in one "
        f"thread (OMP_NUM_THREADS=1), or in blocks of another size: Model(block=...). With block={block} this is not "
        "shown.",
    )


def _near(column: Numeric | Categorical, *, upper: bool) -> float:
    """A value near one end: not the end itself, which is often zero, or one, and hides what is multiplied by it."""
    if isinstance(column, Categorical):
        return len(column.categories) - 1 if upper else 0
    share = 0.9 if upper else 0.1
    return float(column.clean(np.array((1 - share) * column.low + share * column.high)))


def _usual(column: Numeric | Categorical) -> Floats:
    """Numbers that cleaning makes of many values, and zero."""
    if isinstance(column, Categorical):
        return np.empty(0)
    return np.unique(column.clean(np.array([column.low, column.high, np.nan, 0.0])))


def _tiled(rows: Rows, size: int) -> Rows:
    return rows.take(np.arange(size) % rows.size)


# Threads --------------------------------------------------------------------------------------------------------------


def _check_threads(predictor: Predictor, domain: Domain) -> None:
    """Refuse a model that mixes up threads: different rows at once, several times, against each by itself."""
    small = predictor.resized(min(predictor.block, TOGETHER), around=_yielding)
    size = max(small.block, 16)
    inputs = [small.inputs(PublicRandom(2 + i).rows(domain, size)) for i in range(THREADS)]
    alone = [small.predict_at(one, {}) for one in inputs]
    barrier = threading.Barrier(THREADS)

    def ask(thread: int) -> bool:
        same = True
        for number in range(ROUNDS):
            mine = (thread + number) % THREADS
            barrier.wait()
            same = np.array_equal(small.predict_at(inputs[mine], {}), alone[mine], equal_nan=True) and same
        return same

    with quiet(), ThreadPoolExecutor(THREADS) as pool:  # threads that reset warning filters get in each other's way
        same = all(list(pool.map(ask, range(THREADS))))
    if not same:
        raise ModelError(
            "the model gives other answers when several threads ask it at once.",
            hint="Model(..., thread_safe=False): then one thread asks",
        )


def _yielding(call: Call) -> Call:
    """Let other threads in when the model calls a function, the first times and then now and again: a race that is
    rare becomes a likely one.
    """

    def slowed(inputs: Any) -> Any:
        number, profiler = 0, sys.getprofile()

        def give_way(_frame: FrameType, _event: str, _argument: Any) -> None:
            nonlocal number
            number += 1
            if number < YIELDS or number % YIELDS == 0:
                sleep(0)

        sys.setprofile(give_way)  # of this thread alone
        try:
            return call(inputs)
        finally:
            sys.setprofile(profiler)

    return slowed
