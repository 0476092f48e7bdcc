"""Plain explainers of parts of the rows: textbook methods without noise, for `subsample and aggregate` alone.

What they return is as private as the rows; it leaves only through `Gate.noisy_sum`, as whole numbers inside a public
box or as votes. The line of a part depends on the rows of that part alone: predictions are made for many parts at
once, but row by row, and become whole numbers before they are added up, so that no part can see the rows of another.
"""

from dpexplain.methods.plain.accumulated_effects import accumulated_effects
from dpexplain.methods.plain.grouped import Levels
from dpexplain.methods.plain.importance import importance
from dpexplain.methods.plain.interaction import pairwise_interaction, total_interaction
from dpexplain.methods.plain.partial_dependence import partial_dependence

__all__ = [
    "Levels",
    "accumulated_effects",
    "importance",
    "pairwise_interaction",
    "partial_dependence",
    "total_interaction",
]
