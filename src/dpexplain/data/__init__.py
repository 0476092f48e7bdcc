"""Rows and what is declared about them. This layer and the statistics are all that ever see a row."""

from dpexplain.data.public_random import PublicRandom
from dpexplain.data.rows import Rows
from dpexplain.data.table import PrivateTable

__all__ = ["PrivateTable", "PublicRandom", "Rows"]
