"""Silence while private rows are being read: a warning may quote a value.

Warning filters belong to the whole process, so passes that overlap in several threads share one silence: the first one
in makes it, the last one out ends it.
"""

from __future__ import annotations

import threading
import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

_lock = threading.Lock()
_passes = 0
_silence = warnings.catch_warnings()


def _swallow(*_: Any, **__: Any) -> None:
    """Show nothing."""


@contextmanager
def quiet() -> Iterator[None]:
    """No warning of any library is shown until every pass that is under way has ended."""
    global _passes, _silence
    with _lock:
        if _passes == 0:
            _silence = warnings.catch_warnings()
            _silence.__enter__()
            warnings.simplefilter("ignore")
            warnings.showwarning = _swallow  # libraries reset the filters: scikit-learn does, for each tree of a forest
        _passes += 1
    try:
        yield
    finally:
        with _lock:
            _passes -= 1
            if _passes == 0:
                _silence.__exit__(None, None, None)
