"""Work shared out to processes that are started anew.

Spawned, never forked: a fork would copy a buffer of secret randomness, and two processes would repeat each other.
"""

from __future__ import annotations

import pickle
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ProcessPoolExecutor
from multiprocessing import get_context
from typing import Any, TypeVar

from dpexplain.errors import InputError

Piece = TypeVar("Piece")
Found = TypeVar("Found")


def mapped(work: Callable[[Piece], Found], pieces: Sequence[Piece], workers: int) -> Iterator[Found]:
    """`work(piece)` of each piece in its turn: here, or in `workers` processes."""
    if workers == 1:
        yield from map(work, pieces)
        return
    with ProcessPoolExecutor(workers, mp_context=get_context("spawn")) as pool:
        yield from pool.map(work, pieces)


def require_picklable(work: Any, what: str) -> None:
    """Refuse what cannot be sent; `what` names it."""
    try:
        pickle.dumps(work)
    except Exception:  # pickle raises what it likes, and may quote what it was given
        raise InputError(
            f"{what}, its inputs or its score cannot be sent to another process.",
            hint="other processes need functions of a module instead of lambdas; or use workers=1",
            spent="",
        ) from None
