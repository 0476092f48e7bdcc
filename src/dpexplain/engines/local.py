"""`map_sum` on threads: models release the interpreter lock while they predict.

At most twice as many batches as cores are in memory at a time. Integers add up exactly in any order, so neither the
number of threads nor the size of a batch can be seen in the result.
"""

from __future__ import annotations

import os
from collections import deque
from collections.abc import Callable, Iterable
from concurrent.futures import Future, ThreadPoolExecutor
from typing import TYPE_CHECKING, Protocol, TypeVar

from dpexplain.engines.progress import track

if TYPE_CHECKING:  # the command line switches progress on before it knows whether there is anything to sum
    import numpy as np
    from numpy.typing import NDArray

    Integers = NDArray[np.int64]


class Sized(Protocol):
    @property
    def size(self) -> int: ...


B = TypeVar("B", bound=Sized)


def map_sum(
    kernel: Callable[[B], Integers],
    batches: Iterable[B],
    *,
    size: int,
    label: str,
    total: int | None,
    parallel: bool,
) -> Integers:
    """The sum of `kernel(batch)`, a vector of `size` integers, over all batches; zeros when there are none.

    `total` is the number of rows where it is public; otherwise the progress bar only shows that work goes on.
    """
    import numpy as np

    workers = (os.cpu_count() or 1) if parallel else 1
    result = np.zeros(size, dtype=np.int64)
    with track(label, total) as advance, ThreadPoolExecutor(workers) as pool:
        pending: deque[tuple[int, Future[Integers]]] = deque()

        def collect() -> None:
            nonlocal result
            size, future = pending.popleft()
            result = result + future.result()
            advance(size)

        try:
            for batch in batches:
                pending.append((batch.size, pool.submit(kernel, batch)))
                if len(pending) >= 2 * workers:
                    collect()
            while pending:
                collect()
        except BaseException:
            pool.shutdown(wait=False, cancel_futures=True)  # what waits is not begun: an interrupt ends soon
            raise
    return result
