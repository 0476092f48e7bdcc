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
        summary="Rank pairs of columns by how much they act together.",
        about="Friedman's H: how much of their joint effect is not the sum of their own ones. The rows are dealt to "
        "parts, each part votes, and the votes are counted with noise.",
        example="--epsilon 1 --top 5",
        long=True,
        title="Interactions",
        lead="which columns act together, so that their joint effect is not the sum of their own ones",
        worst_cases="dpexplain.audit.worst_cases.parts:of_interaction_ranking",
        attacked={"kind": "total"},
        attack_by_default=False,
        home=__name__,
    )
)
