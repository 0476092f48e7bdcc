"""What a user holds after a release: frozen, serialisable, built from released values and public inputs only."""

from dpexplain.results.accumulated import AccumulatedCurve
from dpexplain.results.attribution import Attribution
from dpexplain.results.base import Receipt, Result, from_json
from dpexplain.results.centres import ClusterCentres
from dpexplain.results.clusters import ClusterExplanation
from dpexplain.results.curve import Curve, Curves, MeanCurve
from dpexplain.results.generic_curve import GenericCurve
from dpexplain.results.importance import Importance
from dpexplain.results.influence import Influence, TableInfluence
from dpexplain.results.marginals import Marginals, Rug
from dpexplain.results.person import PersonInfluence
from dpexplain.results.quantiles import Quantiles
from dpexplain.results.ranking import Ranking
from dpexplain.results.sketch import LocalSketch
from dpexplain.results.transparency import TransparencyReport, TransparencyReports
from dpexplain.results.votes import Votes

__all__ = [
    "AccumulatedCurve",
    "Attribution",
    "ClusterCentres",
    "ClusterExplanation",
    "Curve",
    "Curves",
    "GenericCurve",
    "Importance",
    "Influence",
    "LocalSketch",
    "Marginals",
    "MeanCurve",
    "PersonInfluence",
    "Quantiles",
    "Ranking",
    "Receipt",
    "Result",
    "Rug",
    "TableInfluence",
    "TransparencyReport",
    "TransparencyReports",
    "Votes",
    "from_json",
]
