"""Marginals: how many rows have each value of each column. Paid once, used again by other methods."""

from dpexplain.methods.marginals.request import MarginalsRequest
from dpexplain.methods.registry import Method, register

register(
    Method(
        name="marginals",
        request=MarginalsRequest,
        explain=".release:explain",
        outlook=".release:outlook",
        diagram=".release:diagram",
        results=(".result:Marginals",),
        command="marginals",
        title="Marginals",
        lead="how many rows have each value of each column",
        worst_cases="dpexplain.audit.worst_cases.effects:of_marginals",
        home=__name__,
    )
)
