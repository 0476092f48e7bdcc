"""One file each: request, `statistic`, `sensitivity`, `explain`. Believing one means believing two functions."""

from dpexplain.explainers import (
    accumulated_effects,
    adaptive,
    descent,
    generic_plot,
    influence,
    interaction_ranking,
    local_explanation,
    local_sketch,
    marginals,
    partial_dependence,
    permutation_importance,
    persons,
    quantiles,
    rank_aggregation,
    transparency,
)

# every one publishes its `diagram` and tells its `outlook`
EXPLAINERS = (
    partial_dependence,
    accumulated_effects,
    generic_plot,
    permutation_importance,
    rank_aggregation,
    interaction_ranking,
    quantiles,
    marginals,
    local_explanation,
    local_sketch,
    influence,
    transparency,
)
# these too publish a `diagram`; their prices are told by who uses them
ALGORITHMS = (descent, adaptive, persons)
