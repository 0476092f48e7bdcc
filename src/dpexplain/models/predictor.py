"""`Predictor`: a model asked about clean rows, always in blocks of one fixed number of rows.

The bounds of all explainers need one thing of a model: that the answer for a row does not depend on the other rows, to
the last bit, because one bit can move a rounded prediction by a level and a class from one to the other. Matrix
products take other paths, and round otherwise, for other *numbers* of rows. So the model is only ever asked about
blocks of as many rows as `block` says, a public number; public synthetic rows ("filler") stand where no row of the
table is. That the other rows of a block and the place in it do not matter is checked on synthetic rows, to the last bit
(`models.check`). docs/decisions/0015-predictions-in-fixed-blocks.md has the argument.

Where the model fails on a block, one half of its rows and then the other is put back to filler, in place, down to the
single row: NaN, which explainers count as a public default.
"""

from __future__ import annotations

import os
import sys
import threading
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, contextmanager, nullcontext
from dataclasses import dataclass
from functools import cached_property, lru_cache
from typing import Any

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from dpexplain.columns import Date
from dpexplain.core.domain import Categorical, Domain, Numeric
from dpexplain.data.public_random import PublicRandom
from dpexplain.data.rows import LARGEST_BLOCK, Rows, even_size
from dpexplain.errors import ModelError

Floats = NDArray[np.float64]
Integers = NDArray[np.int64]
Call = Callable[[Any], Any]  # of a pandas DataFrame or a two-dimensional array

SYNTHETIC = 128  # different public rows: filler, and what a model is checked on first
SMALLEST_BLOCK, USUAL_BLOCK = 2**8, 2**12
MOST_NUMBERS = 2**21  # in one block, unless it is of the smallest size
REMEMBERED = 2**22  # predictions that are remembered while one batch of rows is looked at: 32 MiB


def block_for(rows: int | None, columns: int, *, exact: bool = False) -> int:
    """The number of rows in a block, a multiple of 256: from public things only.

    rows   the public number of rows of the table, or a guess
    exact  whether it is no guess: then the fewest blocks that fit, of even size; else a power of two, at most a quarter
           of the rows, so that filling up costs little whatever their number is
    """
    most = max(SMALLEST_BLOCK, min(LARGEST_BLOCK, MOST_NUMBERS // max(columns, 1) // SMALLEST_BLOCK * SMALLEST_BLOCK))
    if rows is None:
        return min(USUAL_BLOCK, most)
    if exact:
        return even_size(rows, most)
    quarter = max(SMALLEST_BLOCK, min(most, rows // 4))
    return 1 << (quarter.bit_length() - 1)


@dataclass(frozen=True, eq=False)
class Inputs:
    """Rows in the form that a model takes, filled up to whole blocks. Private: it holds rows."""

    values: Any  # columns by name, or a matrix
    size: int  # rows of the table; what follows is filler


class Memory:
    """What predictors said about the same rows at the same values: for kernels that look at one batch of rows together.

    It holds predictions about rows, so it lasts for one batch, in one thread, and is bounded: beyond REMEMBERED numbers
    a model is asked again. Everything that is known by its identity is kept alive, so that no other object gets it.
    """

    def __init__(self) -> None:
        self._inputs = dict[tuple[int, int], tuple[Predictor, Rows, Inputs]]()
        self._answers = dict[tuple[int, int, tuple[tuple[str, str], ...]], tuple[Predictor, Inputs, Floats]]()
        self._numbers = 0

    def inputs(self, predictor: Predictor, rows: Rows) -> Inputs:
        key = id(predictor), id(rows)
        if key not in self._inputs:
            self._inputs[key] = predictor, rows, predictor._inputs(rows)
        return self._inputs[key][2]

    def answers(self, predictor: Predictor, inputs: Inputs, used: Mapping[str, Any]) -> Floats:
        key = id(predictor), id(inputs), tuple(sorted((name, repr(float(value))) for name, value in used.items()))
        if key in self._answers:
            return self._answers[key][2].copy()  # a kernel may write into what it gets
        found = predictor._predict(inputs, used)
        if self._numbers + found.size <= REMEMBERED:
            self._numbers += found.size
            self._answers[key] = predictor, inputs, found.copy()
        return found


_here = threading.local()
_turn = threading.RLock()  # of all models that one thread asks at a time


def _renew_turn() -> None:
    """In a forked process: whoever held the turn in the parent is not there to give it back."""
    global _turn
    _turn = threading.RLock()


if hasattr(os, "register_at_fork"):  # not on Windows, where nothing forks
    os.register_at_fork(after_in_child=_renew_turn)


@contextmanager
def remembering() -> Iterator[None]:
    """Within it, predictors in this thread are asked once about the same rows at the same values."""
    _here.memory = Memory()
    try:
        yield
    finally:
        _here.memory = None


class Predictor:
    """Predicts clean rows with some columns held at public values; NaN where the model fails on a row.

    block     rows in every call of the model
    thread_safe  whether several threads may ask it at once; else they take turns, also those of other releases: a model
              that keeps numbers between the lines of its code would mix rows with what somebody else asks
    shape     of an answer: () for a number; (C,) for a number for each of C classes (`models.classes`)
    answers   what it said about the first synthetic rows; set by the check
    precision how far answers of the same model may differ between machines, in units of the output range
    """

    shape: tuple[int, ...] = ()

    def __init__(
        self,
        call: Call,
        features: list[str],
        domain: Domain,
        as_array: bool,
        block: int = USUAL_BLOCK,
        *,
        thread_safe: bool = False,
    ) -> None:
        self.thread_safe = thread_safe
        self._call, self.features, self.domain, self._as_array, self.block = call, features, domain, as_array, block
        self.answers, self.precision = np.empty(0), 0.0
        tried = PublicRandom(0).rows(domain, SYNTHETIC)  # the rows of the check: the model is known to answer them
        self._filler = {name: tried[name][np.arange(block) % SYNTHETIC] for name in features}
        self._as_floats: dict[tuple[str, ...], bool] = {}

    def resized(self, block: int, *, around: Callable[[Call], Call] | None = None) -> Predictor:
        """This model, asked in blocks of another size, with something done around every call."""
        call = self._call if around is None else around(self._call)
        return Predictor(call, self.features, self.domain, self._as_array, block, thread_safe=self.thread_safe)

    def inputs(self, rows: Rows) -> Inputs:
        """The rows in the form that the model takes: made once, asked about at many public values."""
        memory: Memory | None = getattr(_here, "memory", None)
        return self._inputs(rows) if memory is None else memory.inputs(self, rows)

    def _inputs(self, rows: Rows) -> Inputs:
        columns = {name: self._column(name, self._filled(name, rows[name], rows.size)) for name in self.features}
        return Inputs(self._joined(columns, rows.size + -rows.size % self.block), rows.size)

    def predict_at(self, inputs: Inputs, fixed: Mapping[str, Any]) -> Floats:
        """Predictions with the columns in `fixed` set to other values (codes for categorical columns): one value for
        all rows, or an array with one for each row.
        """
        used = {name: self._whole(name, value) for name, value in fixed.items() if name in self.features}
        memory: Memory | None = getattr(_here, "memory", None)
        if memory is not None and not any(np.ndim(value) for value in used.values()):
            return memory.answers(self, inputs, used)
        return self._predict(inputs, used)

    def _predict(self, inputs: Inputs, used: Mapping[str, Any]) -> Floats:
        other = {name: self._column(name, self._filled(name, value, inputs.size)) for name, value in used.items()}
        answers = np.full((inputs.size, *self.shape), np.nan)
        if inputs.size and self._answers_filler(other):
            for start in range(0, inputs.size, self.block):
                mine = answers[start : start + self.block]
                self._fill(mine, np.arange(len(mine)), inputs, other, start, whole=True)
        return answers

    def raw_answers(self, rows: Rows) -> list[NDArray[Any]]:
        """What the model itself says about each block, errors and all. For synthetic rows only."""
        inputs = self.inputs(rows)
        return [np.asarray(self._ask(self._own(inputs, {}, start, None))) for start in range(0, rows.size, self.block)]

    def _fill(
        self, answers: Floats, places: Integers, inputs: Inputs, other: Mapping[str, Any], start: int, *, whole: bool
    ) -> None:
        """Write the answers for these places of a block into `answers`; unless it is whole, filler stands elsewhere."""
        said = self._answers(self._own(inputs, other, start, None if whole else places))
        if said is not None:
            answers[places] = said[places]
        elif len(places) > 1:
            for half in np.array_split(places, 2):
                self._fill(answers, half, inputs, other, start, whole=False)

    def _answers(self, own: Any) -> Floats | None:
        """What the model says about a block; None if it fails."""
        try:
            return _lines(self._ask(own), (self.block, *self.shape))
        except BaseException as error:  # whatever the model raises may quote a row; some raise what is no Exception
            # a real Ctrl-C arrives in the main thread; private rows are predicted in others
            if isinstance(error, KeyboardInterrupt) and threading.current_thread() is threading.main_thread():
                raise
            return None

    def _ask(self, own: Any) -> Any:
        with _one_job(), nullcontext() if self.thread_safe else _turn:
            return self._call(own)

    def _own(self, inputs: Inputs, other: Mapping[str, Any], start: int, places: Integers | None) -> Any:
        """One block, new each time and always laid out alike: a model that writes into its input and then fails, or
        goes by the index, must not change what it says about other rows. With `places`, filler stands elsewhere.
        """
        block = slice(start, start + self.block)
        if self._as_array:
            own = inputs.values[block].copy()
            for name, values in other.items():
                own[:, self.features.index(name)] = values[block]
            return own if places is None else _placed(self._filler_inputs.values, own, places)
        columns = {name: (other[name] if name in other else inputs.values[name])[block] for name in self.features}
        if places is not None:
            filler = self._filler_inputs.values
            columns = {name: _placed(filler[name], values, places) for name, values in columns.items()}
        return pd.DataFrame(columns, index=range(self.block))

    def _filled(self, name: str, values: Any, size: int) -> NDArray[Any]:
        """`size` values of a column (or one for all of them), and filler up to a whole block."""
        rest, values = -size % self.block, np.broadcast_to(values, size)
        return np.concatenate([values, self._filler[name][self.block - rest :]]) if rest else values

    def _joined(self, columns: dict[str, Any], size: int) -> Any:
        if not self._as_array:
            return columns
        matrix = np.empty((size, len(columns)))
        for j, values in enumerate(columns.values()):
            matrix[:, j] = values
        return matrix

    @cached_property
    def _filler_inputs(self) -> Inputs:
        return self.inputs(Rows(self.domain, self._filler, self.block))

    def _whole(self, name: str, value: Any) -> Any:
        """Values of rows in an integer column are whole numbers, always: if a batch became floats because one of them
        is not, that row would change how a model sees all the others. A single value is public and may be anything.
        """
        column = self.domain[name]
        return np.rint(value) if np.ndim(value) and isinstance(column, Numeric) and column.integer else value

    def _column(self, name: str, values: NDArray[Any]) -> Any:
        return array_column(name, self.domain, values) if self._as_array else frame_column(self.domain[name], values)

    def _answers_filler(self, other: Mapping[str, Any]) -> bool:
        """Whether the model answers filler in this form. A public value that is not whole makes an integer column one
        of floats: a model that fails on filler then would fail on the rows of short blocks alone. So it fails on all.
        """
        whole = [] if self._as_array else [name for name in other if _stored_whole(self.domain[name])]
        floats = tuple(name for name in whole if other[name].dtype == np.float64)
        if floats and floats not in self._as_floats:
            form = {name: self._filler[name].astype(np.float64) for name in floats}
            self._as_floats[floats] = self._answers(self._own(self._filler_inputs, form, 0, None)) is not None
        return not floats or self._as_floats[floats]


def frame_of(domain: Domain, columns: Sequence[str], rows: Rows) -> pd.DataFrame:
    """Rows as models get them, without filler: declared categories, numbers as numbers. A new frame each time."""
    return pd.DataFrame({name: frame_column(domain[name], rows[name]) for name in columns})


def frame_column(column: Numeric | Categorical, values: NDArray[Any]) -> Any:
    """A column as a DataFrame holds it."""
    if isinstance(column, Categorical):
        if any(isinstance(c, str) for c in column.categories):
            return pd.Categorical.from_codes(values.astype(np.int32), dtype=_text_kind(column.categories))
        return np.array(column.categories)[values.astype(np.int64)]  # numbers stay numbers
    if isinstance(column, Date):
        return column.timestamps(values.astype(np.float64, copy=False))
    if _stored_whole(column) and np.all(values == np.rint(values)):
        return values.astype(np.int64)
    return values.astype(np.float64, copy=False)


@lru_cache(maxsize=1024)
def _text_kind(categories: tuple[Any, ...]) -> pd.CategoricalDtype:
    return pd.CategoricalDtype(pd.Index(categories))


def array_column(name: str, domain: Domain, values: NDArray[Any] | None = None) -> Floats:
    """A column as floats; categories must then be numbers, because a code would mean something else to the model."""
    column = domain[name]
    if isinstance(column, Date):
        raise ModelError(
            f"column {name!r} is a date, which an array of numbers cannot hold.",
            hint="fit the model on a DataFrame, or wrap it in a function that makes numbers of a DataFrame's dates",
        )
    if not isinstance(column, Categorical):
        return np.empty(0) if values is None else values.astype(np.float64, copy=False)
    if any(isinstance(c, str) for c in column.categories):
        raise ModelError(
            f"column {name!r} has text categories, which an array of numbers cannot hold.",
            hint="fit the model on a DataFrame (or a pipeline that encodes it), or declare the codes as categories",
        )
    table = np.array(column.categories, dtype=np.float64)
    return table if values is None else table[values.astype(np.int64)]


def _stored_whole(column: Numeric | Categorical) -> bool:
    """Whether models get whole numbers as such. Not beside missing values, which make floats of all: whether one of the
    rows of a block has none must not change how a model sees the others.
    """
    return isinstance(column, Numeric) and column.integer and not column.keeps_missing and not isinstance(column, Date)


def _placed(filler: Any, values: Any, places: Integers) -> Any:
    """Filler with some values in their places; floats where a public value made floats of whole numbers."""
    placed = filler.astype(values.dtype) if filler.dtype != values.dtype else filler.copy()
    placed[places] = values[places]
    return placed


def _lines(answer: Any, shape: tuple[int, ...]) -> Floats:
    """One float for each row, infinities as missing; or a line, all of it missing where one is; or an error."""
    values = np.asarray(answer, dtype=np.float64)
    if values.shape != shape and (len(shape) > 1 or values.shape != (*shape, 1)):
        raise ValueError("wrong shape")
    values = values.reshape(shape)
    known = np.isfinite(values)
    return np.where(known if len(shape) == 1 else known.all(axis=1, keepdims=True), values, np.nan)


def _one_job() -> AbstractContextManager[Any]:
    """joblib without workers, in this thread alone. Forests with n_jobs add up their trees in the order in which
    workers end, and the last bits with them; and our own threads use all cores already.
    """
    joblib = sys.modules.get("joblib")
    return nullcontext() if joblib is None else joblib.parallel_backend("sequential")
