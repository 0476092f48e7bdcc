"""Many independent runs of a release on several inputs, as vectors of numbers, on one core or on several.

An error is an output: a run that raises becomes a line of NaN. Runs that agree between two processes are refused.

`membership` and `table_reconstruction` fit an attacker on shadow runs and measure it on fresh ones; `shadowed` makes
both.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial
from itertools import combinations
from numbers import Real
from typing import Any

import numpy as np
from numpy.typing import NDArray

from dpexplain.audit.processes import mapped, require_picklable
from dpexplain.engines.progress import track
from dpexplain.errors import InputError
from dpexplain.methods.result import Result

Floats = NDArray[np.float64]
Score = Callable[[Any], float]
_CHUNKS = 4  # pieces of work for each process
LEAST_RUNS = 20  # on each input: fewer fit no attacker


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
    label: str,
    score: Score | None = None,
    workers: int = 1,
) -> Runs:
    """Run `release` on each input `trials` times, the inputs in turns.

    The vector of an output: the released numbers of a result of dpexplain (or of several), or the output itself as an
    array. Its score: `score(output)`, or the sum of the vector.
    """
    run = partial(_chunk, release, tuple(inputs), score)
    with track(label, trials) as advance:
        if workers == 1:
            chunks = []
            for _ in range(trials):
                chunks.append(run(1))
                advance(1)
        else:
            chunks = _shared_out(run, trials, workers, advance)
    return _joined([line for chunk in chunks for line in chunk], len(inputs))


@dataclass(frozen=True)
class Shadowed:
    """Runs to fit an attacker with, and fresh ones to measure it on."""

    runs: Runs
    shadows: int  # on each input

    @property
    def seen(self) -> Runs:
        return self.runs.part(slice(self.shadows))

    @property
    def fresh(self) -> Runs:
        return self.runs.part(slice(self.shadows, None))


def shadowed(
    release: Callable[[Any], Any],
    inputs: Sequence[Any],
    *,
    trials: int,
    shadows: int | None,
    confidence: float,
    workers: int,
    label: str,
    score: Score | None = None,
) -> Shadowed:
    """Shadow runs (by default as many as trials) and fresh runs on each input, their settings checked before."""
    check_confidence(confidence)
    whole_number(trials, "trials", LEAST_RUNS)
    whole_number(workers, "workers", 1)
    fitted = trials if shadows is None else whole_number(shadows, "shadows", LEAST_RUNS)
    return Shadowed(collect(release, inputs, fitted + trials, label=label, score=score, workers=workers), fitted)


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


Line = list[tuple[Floats | str, float]]  # one run on each input: its vector, or what it raised, and its score


def _chunk(release: Callable[[Any], Any], inputs: tuple[Any, ...], score: Score | None, trials: int) -> list[Line]:
    return [[_run(release, data, score) for data in inputs] for _ in range(trials)]


def _run(release: Callable[[Any], Any], data: Any, score: Score | None) -> tuple[Floats | str, float]:
    try:
        output = release(data)
    except Exception as error:  # an error is an output like any other; its text may quote a row
        return type(error).__name__, -math.inf
    vector = vector_of(output)
    value = float(vector.sum()) if score is None else score(output)
    if not isinstance(value, Real | np.bool_):
        raise InputError("the score of an output must be a number.", hint="score=lambda output: ...", spent="")
    return vector, -math.inf if math.isnan(value) else float(value)


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
            "the outputs are neither results of dpexplain nor numbers.", hint="return a vector of numbers", spent=""
        ) from None


def _shared_out(
    run: Callable[[int], list[Line]], trials: int, workers: int, advance: Callable[[int], None]
) -> list[list[Line]]:
    """So many runs in pieces for several processes."""
    require_picklable(run, "the release")
    size = max(1, math.ceil(trials / (_CHUNKS * workers)))
    sizes = [min(size, trials - start) for start in range(0, trials, size)]
    chunks = []
    for chunk in mapped(run, sizes, workers):
        chunks.append(chunk)
        advance(len(chunk))
    _require_fresh([_joined(chunk, len(chunk[0])) for chunk in chunks if len(chunk) == size])
    return chunks


def _require_fresh(chunks: list[Runs]) -> None:
    """Refuse noise that two processes drew alike, as from a seed that both were sent."""
    for one, other in combinations(chunks, 2):
        equal = all(a.shape == b.shape and _same(a, b) for a, b in zip(one.vectors, other.vectors, strict=True))
        if equal and not one.frozen and len(one.vectors[0]) >= 20 and len(np.unique(one.vectors[0])) >= 5:
            raise InputError(
                "two processes drew the same noise: the release takes it from a seed that both were sent.",
                hint="every call must draw fresh randomness; or use workers=1",
                spent="",
            )


def _joined(lines: list[Line], inputs: int) -> Runs:
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
