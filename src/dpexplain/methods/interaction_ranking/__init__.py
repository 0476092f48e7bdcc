"""Interaction ranking: which features, or pairs of them, act together in a model, by a vote of parts of the rows."""

from dpexplain.methods.interaction_ranking.request import InteractionRanking
from dpexplain.methods.registry import Method, register

register(
    Method(
        name="interaction-ranking",
        request=InteractionRanking,
        explain=".release:explain",
        outlook=".release:outlook",
        diagram=".release:diagram",
        results=("dpexplain.methods.rank_aggregation.result:Votes",),
        command="interactions",
        title="Interactions",
        lead="which columns act together, so that their joint effect is not the sum of their own ones",
        worst_cases="dpexplain.audit.worst_cases.parts:of_interaction_ranking",
        attacked={"kind": "total"},
        home=__name__,
    )
)
