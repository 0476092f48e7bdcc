"""Sums of integers over rows, and over groups of rows: the only two ways to look at them, behind one protocol."""

from dpexplain.engines.local import Engine, LocalEngine, summed
from dpexplain.engines.progress import progress, track

__all__ = ["Engine", "LocalEngine", "progress", "summed", "track"]
