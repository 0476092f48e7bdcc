"""What a user holds after a release: frozen, serialisable, built from released values and public inputs only."""

from dpexplain.results.accumulated import AccumulatedCurve
from dpexplain.results.base import Receipt, Result, from_json
from dpexplain.results.curve import Curve, Curves, MeanCurve
from dpexplain.results.marginals import Marginals, Rug
from dpexplain.results.quantiles import Quantiles
from dpexplain.results.ranking import Ranking

__all__ = [
    "AccumulatedCurve",
    "Curve",
    "Curves",
    "Marginals",
    "MeanCurve",
    "Quantiles",
    "Ranking",
    "Receipt",
    "Result",
    "Rug",
    "from_json",
]
