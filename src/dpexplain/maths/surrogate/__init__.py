"""Local linear models as pure mathematics: coordinates, weights and their proven bounds, the exact solve.

Nothing here sees rows of a table, spends or makes noise. Methods sum what is defined here over rows, and
read attributions from what was released.
"""

from dpexplain.maths.surrogate.ball import Quadratic
from dpexplain.maths.surrogate.fit import Fit
from dpexplain.maths.surrogate.local import Local, StepWeight, Weight
from dpexplain.maths.surrogate.space import Space

__all__ = ["Fit", "Local", "Quadratic", "Space", "StepWeight", "Weight"]
