"""The public requests: frozen descriptions of a release, for `plan`, project files and the service."""

from dpexplain.explainers.accumulated_effects import AccumulatedEffects
from dpexplain.explainers.marginals import MarginalsRequest as Marginals
from dpexplain.explainers.partial_dependence import PartialDependence
from dpexplain.explainers.quantiles import QuantilesRequest as Quantiles

__all__ = ["AccumulatedEffects", "Marginals", "PartialDependence", "Quantiles"]
