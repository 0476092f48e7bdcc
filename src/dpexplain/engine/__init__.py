"""Summing a kernel over batches of rows, on all cores of one machine, behind one function."""

from dpexplain.engine.local import map_sum
from dpexplain.engine.progress import progress, track

__all__ = ["map_sum", "progress", "track"]
