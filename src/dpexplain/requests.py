"""The public requests: frozen descriptions of a release, for `plan`, project files and the service."""

from dpexplain.explainers.marginals import MarginalsRequest as Marginals
from dpexplain.explainers.partial_dependence import PartialDependence

__all__ = ["Marginals", "PartialDependence"]
