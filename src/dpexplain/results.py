"""What releases return, for annotations and `isinstance`: `dpx.results.Curve`. `dpx.from_json` reads any of them."""

from dpexplain.methods.attributions import Attribution
from dpexplain.methods.clusters.result import ClusterExplanation
from dpexplain.methods.clusters.sharp import SharpClusters
from dpexplain.methods.compare.result import RateDifferences
from dpexplain.methods.compare.versions import VersionDifference
from dpexplain.methods.curves import Curve, Curves
from dpexplain.methods.influence.result import Influence
from dpexplain.methods.local_sketch.result import LocalSketch
from dpexplain.methods.local_sketch.rows import RowSketch
from dpexplain.methods.marginals.result import Marginals
from dpexplain.methods.performance.result import Performance
from dpexplain.methods.quantiles.result import Quantiles
from dpexplain.methods.rankings import Ranking
from dpexplain.methods.result import Result
from dpexplain.methods.stand_in.result import StandIn
from dpexplain.methods.transparency.result import TransparencyReport, TransparencyReports

__all__ = [
    "Attribution",
    "ClusterExplanation",
    "Curve",
    "Curves",
    "Influence",
    "LocalSketch",
    "Marginals",
    "Performance",
    "Quantiles",
    "Ranking",
    "RateDifferences",
    "Result",
    "RowSketch",
    "SharpClusters",
    "StandIn",
    "TransparencyReport",
    "TransparencyReports",
    "VersionDifference",
]
