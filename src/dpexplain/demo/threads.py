"""The demo computes in one thread of OpenMP and of linear algebra.

A plan asks about small public blocks, thousands of times. Several threads gain nothing there, and where other programs
use the processor they wait for each other and spin: a plan took 130 s in place of 8. The trees of the demo give the
same answer, to the last bit, with any number of threads.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager


@contextmanager
def one_thread() -> Iterator[None]:
    """Within it, models and matrix products use one thread each."""
    try:
        import sklearn.ensemble  # noqa: F401  # loads OpenMP: what is not loaded cannot be limited
        from threadpoolctl import threadpool_limits  # type: ignore[import-untyped]  # comes with scikit-learn
    except ImportError:  # the demo itself will say what is missing
        yield
        return
    with threadpool_limits(1):
        yield
