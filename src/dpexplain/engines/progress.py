"""Progress of long work: a bar on a terminal, plain lines elsewhere. A share of the rows is shown only where their
number is public.

Where it is private, the bar pulses, and lines are one line: a count of batches, or a percentage that moves in steps of
one batch, would tell the number of rows.
"""

from __future__ import annotations

import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager

EVERY = 5.0  # seconds between two lines
_shown: bool | None = None


def progress(shown: bool | None) -> None:
    """Show progress always, never, or (None, the default) when standard error is a terminal.

    Always means lines of plain text where standard error is a pipe or a file; the command line does that.
    """
    global _shown
    _shown = shown


@contextmanager
def track(label: str, total: int | None, what: str = "rows") -> Iterator[Callable[[int], None]]:
    """The progress of one pass; yields a function that is told how many rows, or what else is counted, were done."""
    if _shown is False or (_shown is None and not sys.stderr.isatty()):
        yield lambda _: None
        return
    from rich.console import Console

    console = Console(stderr=True)
    if not console.is_terminal:
        yield _lines(label, total, what)
        return
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
    with Progress(*columns, console=console, transient=True) as bars:
        task = bars.add_task(label, total=total)
        yield (lambda rows: bars.advance(task, rows)) if total is not None else (lambda _: None)


def _lines(label: str, total: int | None, what: str) -> Callable[[int], None]:
    """A line now and then for a log. Of a private number of rows, one line before the first is read: how many more
    there were would tell how long the work took.
    """
    name = "".join(c if c.isprintable() else " " for c in label)
    if total is None:
        print(f"{name} ...", file=sys.stderr, flush=True)
        return lambda _: None
    done, last = 0, time.monotonic()

    def advance(rows: int) -> None:
        nonlocal done, last
        done = min(done + rows, total)  # of rows that are chosen at random there may be more than expected
        if time.monotonic() - last >= EVERY:
            last = time.monotonic()
            print(f"{name}: {done / total:.0%} of {total:,} {what}", file=sys.stderr, flush=True)

    return advance
