"""The engine on one machine: threads, because models release the interpreter lock while they predict.

This thread reads, threads clean what was read, others ask kernels. At most twice as many clean batches as cores, and as
many raw ones, are in memory at a time. Integers add up exactly in any order, so neither the number of threads nor the
size of a batch can be seen in the result.
"""

from __future__ import annotations

import os
from collections import deque
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import Executor, Future, ThreadPoolExecutor
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any, Protocol, TypeVar

from dpexplain.engines.progress import track

if TYPE_CHECKING:  # the command line switches progress on before it knows whether there is anything to sum
    import numpy as np
    from numpy.typing import NDArray

    Integers = NDArray[np.int64]

Kernel = Callable[..., "Integers"]


class Engine(Protocol):
    """What runs the two passes over rows. A reading, a kernel and how groups are dealt (`data/reading.py`,
    `data/dealing.py`) are all that it gets; secret numbers come from `secrets`, for this pass only.
    """

    @property
    def gathers(self) -> bool:
        """Whether all rows can be brought together on this machine."""

    @property
    def elsewhere(self) -> str:
        """What kernels are sent to, in words."""

    def ships(self, thing: Any) -> bool:
        """Whether the machines that run kernels can be given this model or function."""

    def sum_rows(
        self, reading: Any, kernel: Kernel, secrets: Any, *, size: int, label: str, parallel: bool, secret: bool
    ) -> Integers:
        """The sum of `kernel(rows)`, a vector of `size` integers, over all batches of rows; zeros when there are none.

        parallel   whether several threads or processes may ask the kernel at once
        secret     the kernel is called with fresh secret numbers: kernel(rows, uniform)
        """

    def sum_groups(
        self, reading: Any, kernel: Kernel, deal: Any, secrets: Any, *, size: int, label: str, parallel: bool,
        total: int | None,
    ) -> Integers:  # fmt: skip
        """The sum of `kernel(dealt)` over pieces of whole groups; `total` is their number where progress may tell."""


class LocalEngine:
    """Kernels run in other threads than the main one, where a model that raises KeyboardInterrupt only fails."""

    gathers, elsewhere = True, "other threads"

    def ships(self, thing: Any) -> bool:  # noqa: ARG002 - nothing has to be sent anywhere
        return True

    def sum_rows(
        self, reading: Any, kernel: Kernel, secrets: Any, *, size: int, label: str, parallel: bool, secret: bool
    ) -> Integers:
        def work(rows: Any) -> Integers:
            return kernel(rows, secrets.uniform) if secret else kernel(rows)

        with ahead() as mapped:
            batches = reading.batches(secrets, mapped)
            return summed(work, batches, size=size, label=label, total=reading.expected, parallel=parallel)

    def sum_groups(
        self, reading: Any, kernel: Kernel, deal: Any, secrets: Any, *, size: int, label: str, parallel: bool,
        total: int | None,
    ) -> Integers:  # fmt: skip
        with ahead() as mapped, deal.pieces(reading, secrets, mapped) as pieces:
            return summed(kernel, pieces, size=size, label=label, total=total, parallel=parallel, what="groups")


def cores() -> int:
    """How many cores this process may use."""
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


@contextmanager
def ahead() -> Iterator[Callable[[Callable[[Any], Any], Iterable[Any]], Iterator[Any]]]:
    """A `map` that works on the next items, as many as there are cores, while the first one is used."""
    with ThreadPoolExecutor(cores()) as pool:

        def mapped(work: Callable[[Any], Any], items: Iterable[Any]) -> Iterator[Any]:
            pending: deque[Future[Any]] = deque()
            for item in items:
                pending.append(pool.submit(work, item))
                if len(pending) > cores():
                    yield pending.popleft().result()
            while pending:
                yield pending.popleft().result()

        try:
            yield mapped
        except BaseException:
            pool.shutdown(wait=False, cancel_futures=True)
            raise


class Sized(Protocol):
    @property
    def size(self) -> int: ...


B = TypeVar("B", bound=Sized)


def summed(
    kernel: Callable[[B], Integers],
    batches: Iterable[B],
    *,
    size: int,
    label: str,
    total: int | None,
    parallel: bool,
    what: str = "rows",
    pool: Executor | None = None,
) -> Integers:
    """The sum of `kernel(batch)`, a vector of `size` integers, over all batches; zeros when there are none.

    `total` is the number of rows (or of `what` else) where it is public; otherwise progress only shows that work goes
    on. Kernels run in threads, or in the processes of a `pool`.
    """
    import numpy as np

    workers = cores() if parallel or pool is not None else 1
    result = np.zeros(size, dtype=np.int64)
    with track(label, total, what) as advance, pool or ThreadPoolExecutor(workers) as asked:
        pending: deque[tuple[int, Future[Integers]]] = deque()

        def collect() -> None:
            nonlocal result
            size, future = pending.popleft()
            result = result + future.result()
            advance(size)

        try:
            for batch in batches:
                pending.append((batch.size, asked.submit(kernel, batch)))
                if len(pending) >= 2 * workers:
                    collect()
            while pending:
                collect()
        except BaseException:
            asked.shutdown(wait=False, cancel_futures=True)  # what waits is not begun: an interrupt ends soon
            raise
    return result
