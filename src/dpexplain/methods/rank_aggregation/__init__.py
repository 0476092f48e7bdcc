"""Rank aggregation: items in the order that any ranker gives them, by a vote of parts of the rows."""

from dpexplain.methods.rank_aggregation.request import RankAggregation
from dpexplain.methods.registry import Method, register

register(
    Method(
        name="rank-aggregation",
        request=RankAggregation,
        explain=".release:explain",
        outlook=".release:outlook",
        diagram=".release:diagram",
        results=(".result:Votes",),
        title="Ranking",
        lead="the order in which a ranker puts the items, by a vote of parts of the rows",
        worst_cases="dpexplain.audit.worst_cases.parts:of_rank_aggregation",
        home=__name__,
    )
)
