"""One file an explainer: request, `statistic`, `sensitivity`, `explain`. Believing one means believing two functions."""

from dpexplain.explainers.marginals import marginals
from dpexplain.explainers.partial_dependence import partial_dependence

__all__ = ["marginals", "partial_dependence"]
