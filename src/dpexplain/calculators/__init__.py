"""What can be computed about a promise without a table."""

from dpexplain.calculators.sampling import amplified_epsilon
from dpexplain.calculators.training import training_guarantee

__all__ = ["amplified_epsilon", "training_guarantee"]
