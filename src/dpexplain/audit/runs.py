"""Many independent runs of a release on several inputs, on one core or on several.

An error is an output: a run that raises becomes a line of NaN. Other processes are started anew (spawned, not forked: a
fork would copy buffered randomness, and runs would repeat each other). A seeded generator inside the release would
still repeat itself in each of them: equal runs of two processes are refused.
"""

from __future__ import annotations

import math
import pickle
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ProcessPoolExecutor
from contextlib import nullcontext
from dataclasses import dataclass
from functools import partial
from itertools import combinations
from multiprocessing import get_context
from numbers import Real
from typing import Any, TypeVar

import numpy as np
from numpy.typing import NDArray

from dpexplain.engines.progress import track
from dpexplain.errors import InputError
from dpexplain.methods.result import Result

Floats = NDArray[np.float64]
Score = Callable[[Any], float]
Line = list[tuple[Floats | str, float]]  # one run on each input: its vector, or what it raised, and its score
Piece = TypeVar("Piece")
Found = TypeVar("Found")

LEAST_RUNS = 20  # on each input: fewer fit no attacker
_PIECES = 50  # of the work, each done before progress is shown
_CHANCE = 1e-9  # that two processes give the same runs and are refused for it


# Settings -------------------------------------------------------------------------------------------------------------


def whole_number(value: Any, name: str, least: int) -> int:
    if isinstance(value, bool) or not isinstance(value, int) or value < least:
        raise InputError(f"{name} must be a whole number of at least {least}; got {value!r}.", spent="")
    return value


def check_confidence(confidence: Any) -> None:
    if isinstance(confidence, bool) or not isinstance(confidence, float) or not 0.5 <= confidence < 1:
        raise InputError(f"confidence must lie between 0.5 and 1; got {confidence!r}.", hint="usual: 0.999", spent="")


def least_trials(enough: Callable[[int], bool]) -> int:
    """The smallest number of trials that is enough."""
    low, high = 0, 1
    while not enough(high) and high < 2**50:
        low, high = high, 2 * high
    while high - low > 1:
        middle = (low + high) // 2
        low, high = (low, middle) if enough(middle) else (middle, high)
    return high


# Processes ------------------------------------------------------------------------------------------------------------


def mapped(
    work: Callable[[Piece], Found], pieces: Sequence[Piece], workers: int, label: str | None = None
) -> Iterator[Found]:
    """`work(piece)` of each piece in its turn, here or in `workers` processes; with a progress bar if there is a label.

    The bar counts pieces, or what they add up to where they are numbers.
    """
    sizes = [piece if isinstance(piece, int) else 1 for piece in pieces]
    with (
        track(label, sum(sizes)) if label else nullcontext(lambda _: None) as advance,
        ProcessPoolExecutor(workers, mp_context=get_context("spawn")) if workers > 1 else nullcontext() as pool,
    ):
        for size, result in zip(sizes, pool.map(work, pieces) if pool else map(work, pieces), strict=True):
            yield result
            advance(size)


def shared_out(work: Callable[[int], Found], trials: int, workers: int, label: str | None) -> list[Found]:
    """`work(size)` for pieces that add up to `trials`, in this process or in several."""
    if whole_number(workers, "workers", 1) > 1:
        try:
            pickle.dumps(work)
        except Exception:  # pickle raises what it likes, and may quote what it was given
            raise InputError(
                "the release, its inputs or its score cannot be sent to another process.",
                hint="other processes need functions of a module instead of lambdas; or use workers=1",
                spent="",
            ) from None
    size = math.ceil(trials / (max(workers, _PIECES) if label else workers))
    size = size if workers == 1 else max(size, LEAST_RUNS)  # fewer would not show that processes repeat each other
    return list(mapped(work, [min(size, trials - start) for start in range(0, trials, size)], workers, label))


# Runs -----------------------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Runs:
    """What came out: for each input a line of numbers a run, and one score a run."""

    vectors: tuple[Floats, ...]
    scores: tuple[Floats, ...]
    failures: int  # runs that raised

    def part(self, where: slice) -> Runs:
        return Runs(tuple(v[where] for v in self.vectors), tuple(s[where] for s in self.scores), self.failures)

    @property
    def constant(self) -> bool:
        """Whether all runs on all inputs gave the same."""
        return all(_same(v, self.vectors[0][:1]) for v in self.vectors) and len(np.unique(self.scores)) == 1

    @property
    def frozen(self) -> bool:
        """Whether the runs on each input gave the same: no noise at all, or an answer from a ledger."""
        return all(_same(v, v[:1]) for v in self.vectors)


def _same(one: Floats, other: Floats) -> bool:
    return bool(((one == other) | (np.isnan(one) & np.isnan(other))).all())


def collect(
    release: Callable[[Any], Any],
    inputs: Sequence[Any],
    trials: int,
    *,
    label: str | None,
    score: Score | None = None,
    workers: int = 1,
    vectors: bool = True,
) -> Runs:
    """Run `release` on each input `trials` times, the inputs in turns.

    The vector of an output: the released numbers of a result of dpexplain (or of several), or the output itself as an
    array; its score alone without `vectors`. Its score: `score(output)`, or the sum of the vector.
    """
    chunks = shared_out(partial(_chunk, release, tuple(inputs), score, vectors), trials, workers, label)
    if workers > 1:
        _require_fresh(chunks)
    return _joined([line for chunk in chunks for line in chunk], len(inputs))


def _chunk(
    release: Callable[[Any], Any], inputs: tuple[Any, ...], score: Score | None, vectors: bool, trials: int
) -> list[Line]:
    return [[_run(release, data, score, vectors) for data in inputs] for _ in range(trials)]


def _run(release: Callable[[Any], Any], data: Any, score: Score | None, vectors: bool) -> tuple[Floats | str, float]:
    try:
        output = release(data)
    except Exception as error:  # an error is an output like any other; its text may quote a row
        return type(error).__name__, -math.inf
    vector = vector_of(output) if vectors or score is None else np.empty(0)
    value = float(vector.sum()) if score is None else score(output)
    if not isinstance(value, Real | np.bool_):
        raise InputError("the score of an output must be a number.", hint="score=lambda output: ...", spent="")
    if math.isnan(value):
        return vector if vectors else "nothing but scores that are not numbers", -math.inf
    return vector, float(value)


def vector_of(output: Any) -> Floats:
    """The released numbers of results, or the output itself as one line of numbers."""
    if isinstance(output, Result):
        parts = output.released["parts"].values()
        return np.concatenate([np.asarray(part["values"], dtype=np.float64).ravel() for part in parts])
    if isinstance(output, Sequence) and len(output) and all(isinstance(item, Result) for item in output):
        once = {item.receipt.entry.reservation: item for item in output}  # curves of one release share its payload
        return np.concatenate([vector_of(item) for item in once.values()])
    try:
        return np.asarray(output, dtype=np.float64).ravel()
    except (TypeError, ValueError):
        raise InputError(
            "the outputs are neither results of dpexplain nor numbers.",
            hint="return a vector of numbers, or pass score=, a number for each output",
            spent="",
        ) from None


def _require_fresh(chunks: Sequence[Sequence[Line]]) -> None:
    """Refuse runs of two processes that are equal although chance would hardly make them so."""
    seen = [[tuple((v if isinstance(v, str) else v.tobytes(), s) for v, s in line) for line in c] for c in chunks]
    for one, two in combinations(seen, 2):
        size = min(len(one), len(two))
        collision = sum((many / size) ** 2 for many in Counter(one[:size]).values())  # of two single runs
        if one[:size] == two[:size] and size * math.log(collision) < math.log(_CHANCE):
            raise InputError(
                "two processes gave the same runs: the release takes its noise from a seed that both were sent.",
                hint="take randomness from the operating system, or use workers=1",
                spent="",
            )


def _joined(lines: Sequence[Line], inputs: int) -> Runs:
    """Equal lengths for all lines: what is missing is NaN."""
    raised = [vector for line in lines for vector, _ in line if isinstance(vector, str)]
    if len(raised) == len(lines) * inputs:
        raise InputError(f"nothing can be attacked: every run raised {raised[0]}.", spent="")
    width = max(len(vector) for line in lines for vector, _ in line if not isinstance(vector, str))
    vectors = np.full((inputs, len(lines), width), np.nan)
    scores = np.empty((inputs, len(lines)))
    for i, line in enumerate(lines):
        for side, (vector, score) in enumerate(line):
            scores[side, i] = score
            if not isinstance(vector, str):
                vectors[side, i, : len(vector)] = vector
    return Runs(tuple(vectors), tuple(scores), len(raised))
