"""Local linear models as pure mathematics: coordinates, weights and their proven bounds, the exact solve.

Nothing here sees rows of a table, spends or makes noise. `explainers/` sums what is defined here over rows; `results/`
turns what was released into attributions.
"""

from dpexplain.surrogate.ball import Quadratic
from dpexplain.surrogate.fit import Fit
from dpexplain.surrogate.local import Local
from dpexplain.surrogate.space import Space
from dpexplain.surrogate.weights import StepWeight, Weight

__all__ = ["Fit", "Local", "Quadratic", "Space", "StepWeight", "Weight"]
