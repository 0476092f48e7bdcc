"""Progress bars for long work. They show a share of the rows only where the number of rows is public.

Where it is private, the bar pulses: a count of batches, or a percentage that moves in steps of one batch, would tell
the number of rows.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager

_shown: bool | None = None


def progress(shown: bool | None) -> None:
    """Show progress bars always, never, or (None, the default) when standard error is a terminal."""
    global _shown
    _shown = shown


@contextmanager
def track(label: str, total: int | None) -> Iterator[Callable[[int], None]]:
    """A bar for one pass over the rows; yields a function that is told how many rows were done."""
    if not (sys.stderr.isatty() if _shown is None else _shown):
        yield lambda _: None
        return
    from rich.console import Console
    from rich.progress import (
        BarColumn,
        Progress,
        TaskProgressColumn,
        TextColumn,
        TimeElapsedColumn,
        TimeRemainingColumn,
    )

    columns = [TextColumn("{task.description}", markup=False), BarColumn(), TimeElapsedColumn()]
    if total is not None:
        columns += [TaskProgressColumn(), TimeRemainingColumn()]
    with Progress(*columns, console=Console(stderr=True), transient=True) as bars:
        task = bars.add_task(label, total=total)
        yield (lambda rows: bars.advance(task, rows)) if total is not None else (lambda _: None)
