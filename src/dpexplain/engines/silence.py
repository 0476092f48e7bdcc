"""Silence on Spark: nothing that rows make a model, a library or Spark's Python side say is written anywhere.

Spark copies both streams of its Python processes into the logs of the cluster, and the traceback of a task that fails
into those of the driver as well. People read these who may not see rows. So every step that is sent to executors goes
through `unheard`, and every call of Spark on the driver that reads rows stands in `unlogged`.
"""

from __future__ import annotations

import atexit
import logging
import os
import sys
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager, redirect_stderr, redirect_stdout, suppress
from functools import cache
from typing import Any, TextIO

Batches = Iterator[Any]
QUERY_LOGGERS = ("SQLQueryContextLogger", "DataFrameQueryContextLogger")  # of pyspark: they quote a cell on the driver
_calls = threading.local()


def unheard(step: Callable[[Batches], Batches]) -> Callable[[Batches], Batches]:
    """A step as executors get it: a function of one argument, for Spark looks at the signature."""
    return lambda batches: _unheard(step, batches)


def _unheard(step: Callable[[Batches], Batches], batches: Batches) -> Batches:
    """What the step gives; or an error without its words, raised outside any handler."""
    with _silence():
        try:
            yield from step(batches)
            return
        except GeneratorExit:  # nobody wants the rest
            raise
        except BaseException:  # what it says may quote a row
            pass
    os.environ["SPARK_HIDE_TRACEBACK"] = "1"  # one with local variables would show batches; this process ends now
    raise RuntimeError("a task failed; why is not told")


@contextmanager
def _silence() -> Iterator[None]:
    """Nothing is printed, logged or warned of, by Python or by a library underneath it."""
    from dpexplain.core.quiet import quiet

    nowhere, logged = _nowhere(), logging.root.manager.disable
    _flush()
    kept = {stream: os.dup(stream) for stream in (1, 2)}
    logging.disable()
    try:
        for stream in kept:
            os.dup2(nowhere.fileno(), stream)
        with quiet(), redirect_stdout(nowhere), redirect_stderr(nowhere):
            yield
    finally:
        _flush()  # what is left in buffers would come out later
        for stream, copy in kept.items():
            os.dup2(copy, stream)
            os.close(copy)
        logging.disable(logged)


@cache
def _nowhere() -> TextIO:
    """Open until the process ends: a handler that a model made may go on writing to it."""
    nowhere = open(os.devnull, "w", encoding="utf-8")  # noqa: SIM115
    atexit.register(nowhere.close)
    return nowhere


def _flush() -> None:
    """Empty the buffers of Python's streams and of the C library's."""
    for stream in (sys.stdout, sys.stderr, sys.__stdout__, sys.__stderr__):
        with suppress(Exception):  # a model may have closed it
            if stream is not None:
                stream.flush()
    if os.name == "posix":
        import ctypes

        with suppress(Exception):
            ctypes.CDLL(None).fflush(None)


@contextmanager
def unlogged() -> Iterator[None]:
    """What Spark answers to calls of this thread is not logged by pyspark. Its Java side has logs of its own."""
    _filtered()
    before, _calls.silent = getattr(_calls, "silent", False), True
    try:
        yield
    finally:
        _calls.silent = before


@cache
def _filtered() -> None:
    from pyspark.logger import PySparkLogger

    for name in QUERY_LOGGERS:
        PySparkLogger.getLogger(name).addFilter(lambda _: not getattr(_calls, "silent", False))
