"""What the bodies of a batch ask of the rows, and how one pass answers several of them.

Sums of integers add up whatever else is added up beside them, so one pass over the rows with all kernels side by side
gives each of them exactly what a pass of its own would. The columns of the pass are those of all kernels together.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from dpexplain.core.release import Gate
from dpexplain.data.rows import Rows
from dpexplain.data.table import PrivateTable
from dpexplain.models.predictor import remembering

Integers = NDArray[np.int64]


@dataclass(frozen=True)
class RowPass:
    """One call of `sum_rows`."""

    kernel: Callable[..., Integers]
    columns: tuple[str, ...]
    size: int
    parallel: bool = True
    one_in: int = 1
    secret: bool = False


@dataclass(frozen=True)
class OwnPass:
    """Another way to read rows, which nothing shares: groups, or all rows at once."""

    read: Callable[[Gate], Any]


@dataclass(frozen=True)
class SideBySide:
    """The kernels of several passes as one, which asks a model about the same rows and settings once."""

    kernels: tuple[tuple[Callable[..., Integers], bool], ...]  # and whether it takes secret numbers

    def __call__(self, rows: Rows, uniform: Any = None) -> Integers:
        with remembering():
            found = [kernel(rows, uniform) if secret else kernel(rows) for kernel, secret in self.kernels]
        return np.concatenate(found)


def answer(table: PrivateTable, gate: Gate, label: str, asked: Sequence[RowPass | OwnPass]) -> list[Any]:
    """What each of them asked for: passes over rows together, the others one by one."""
    found: dict[int, Any] = {}
    together: dict[int, list[int]] = {}
    for place, one in enumerate(asked):
        if isinstance(one, RowPass):
            together.setdefault(one.one_in, []).append(place)
        else:
            found[place] = one.read(gate)
    for one_in, places in together.items():
        passes = [one for one in (asked[place] for place in places) if isinstance(one, RowPass)]
        sums = _one_pass(table, gate, label, passes, one_in)
        ends = np.cumsum([one.size for one in passes])[:-1]
        found |= dict(zip(places, np.split(sums, ends), strict=True))
    return [found[place] for place in range(len(asked))]


def _one_pass(table: PrivateTable, gate: Gate, label: str, passes: Sequence[RowPass], one_in: int) -> Integers:
    first, *others = passes
    columns = list(dict.fromkeys(name for one in passes for name in one.columns))
    kernel = SideBySide(tuple((one.kernel, one.secret) for one in passes)) if others else first.kernel
    return table.sum_rows(
        gate,
        kernel,
        columns,
        size=sum(one.size for one in passes),
        label=label,
        parallel=all(one.parallel for one in passes),
        one_in=one_in,
        secret=any(one.secret for one in passes),
    )
