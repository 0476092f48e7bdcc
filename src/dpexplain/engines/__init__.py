"""Summing a kernel over batches of rows, on all cores of one machine, behind one function."""

from dpexplain.engines.local import map_sum
from dpexplain.engines.progress import progress, track

__all__ = ["map_sum", "progress", "track"]
