"""The engine on one machine with processes: for models that hold the interpreter lock while they predict.

This process reads, cleans and deals, as `LocalEngine` does; each of the others has a copy of the kernel, with the model
in it, and gets clean rows through a pipe. The sums are the same: whole numbers add up exactly in any order. A kernel
that needs secret numbers takes them from the operating system where it runs.

Processes are started for each pass (about a second), and once before anything is reserved, to see that the model
arrives. They are spawned and not forked, so a program that is run as a file begins under `if __name__ == "__main__":`.
What goes wrong in them is told to nobody: they answer that they failed, and no word of why.
"""

from __future__ import annotations

import pickle
import signal
from collections.abc import Callable, Iterator
from concurrent.futures import ProcessPoolExecutor
from contextlib import contextmanager
from multiprocessing import get_context
from typing import Any

import numpy as np
from numpy.typing import NDArray

from dpexplain.core.quiet import quiet
from dpexplain.data.assignment import Secrets
from dpexplain.engines.local import LocalEngine, ahead, summed
from dpexplain.errors import InputError

Integers = NDArray[np.int64]
_here: dict[str, Any] = {}  # in a process of ours: the kernel, as it came and as it is


class ProcessEngine(LocalEngine):
    """Kernels run in so many processes."""

    elsewhere = "other processes"

    def __init__(self, processes: int) -> None:
        if isinstance(processes, bool) or not isinstance(processes, int) or processes < 1:
            raise InputError(f"processes must be a whole number of at least 1; got {processes!r}.")
        self.processes = processes

    def ships(self, thing: Any) -> bool:
        """Whether another process can be given this: one is started and tries."""
        try:
            with self._pool(pickle.dumps(thing), 1) as pool:
                return pool.submit(_arrived).result()
        except KeyboardInterrupt:
            raise
        except BaseException:  # what it says may show what is inside
            return False

    def sum_rows(
        self, reading: Any, kernel: Callable[..., Integers], secrets: Any, *, size: int, label: str, parallel: bool,
        secret: bool,
    ) -> Integers:  # fmt: skip
        if secret and type(secrets) is not Secrets:  # numbers that a test has chosen are drawn here
            return super().sum_rows(reading, kernel, secrets, size=size, label=label, parallel=parallel, secret=secret)
        work = _with_secrets if secret else _plainly
        with ahead() as mapped, self._pool(pickle.dumps(kernel), self.processes) as pool:
            batches, total = reading.batches(secrets, mapped), reading.expected
            return summed(work, batches, size=size, label=label, total=total, parallel=parallel, pool=pool)

    def sum_groups(
        self, reading: Any, kernel: Callable[..., Integers], deal: Any, secrets: Any, *, size: int, label: str,
        parallel: bool, total: int | None,
    ) -> Integers:  # fmt: skip
        with (
            ahead() as mapped,
            deal.pieces(reading, secrets, mapped) as pieces,
            self._pool(pickle.dumps(kernel), self.processes) as pool,
        ):
            return summed(
                _plainly, pieces, size=size, label=label, total=total, parallel=parallel, what="groups", pool=pool
            )

    @contextmanager
    def _pool(self, thing: bytes, processes: int) -> Iterator[ProcessPoolExecutor]:
        context = get_context("spawn")
        with ProcessPoolExecutor(processes, context, initializer=_begin, initargs=(thing,)) as pool:
            yield pool


def _begin(thing: bytes) -> None:
    """Keep what was sent. Nothing here may fail: what failed would be printed."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # an interrupt goes to all processes; the one that reads decides
    _here.update(sent=thing)


def _kernel() -> Any:
    if "kernel" not in _here:
        _here["kernel"] = pickle.loads(_here.pop("sent"))
    return _here["kernel"]


def _arrived() -> bool:
    return _quietly(lambda: [_kernel() is not None])[0]  # type: ignore[no-any-return]


def _plainly(piece: Any) -> Integers:
    return _quietly(lambda: _kernel()(piece))  # type: ignore[no-any-return]


def _with_secrets(piece: Any) -> Integers:
    return _quietly(lambda: _kernel()(piece, Secrets().uniform))  # type: ignore[no-any-return]


def _quietly(work: Callable[[], Any]) -> Any:
    """What work answers; or an error without its words, raised outside any handler."""
    try:
        with quiet():
            return work()
    except BaseException:  # what it says may quote a row
        pass
    raise RuntimeError("a process failed; why is not told")
