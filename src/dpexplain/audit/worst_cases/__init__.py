"""Worst-case neighbouring tables for every release of the product, a file for each subject.

Each function `of_NAME` gives the cases of the module NAME: tiny tables, made up so that one unit moves the statistic as
far as the bound allows, or as near to it as a search came. `releases.RELEASES` finds them by these names.
"""

from dpexplain.audit.worst_cases.clusters import of_clusters, of_kmeans
from dpexplain.audit.worst_cases.effects import (
    of_accumulated_effects,
    of_marginals,
    of_partial_dependence,
    of_quantiles,
)
from dpexplain.audit.worst_cases.importance import of_permutation_importance
from dpexplain.audit.worst_cases.influence import of_influence, of_persons, of_transparency
from dpexplain.audit.worst_cases.local import of_adaptive, of_local_explanation, of_local_sketch
from dpexplain.audit.worst_cases.parts import of_generic_plot, of_interaction_ranking, of_rank_aggregation

__all__ = [
    "of_accumulated_effects",
    "of_adaptive",
    "of_clusters",
    "of_generic_plot",
    "of_influence",
    "of_interaction_ranking",
    "of_kmeans",
    "of_local_explanation",
    "of_local_sketch",
    "of_marginals",
    "of_partial_dependence",
    "of_permutation_importance",
    "of_persons",
    "of_quantiles",
    "of_rank_aggregation",
    "of_transparency",
]
