"""Quantiles of one numeric feature."""

from dpexplain.methods.quantiles.request import QuantilesRequest
from dpexplain.methods.registry import Method, register

register(
    Method(
        name="quantiles",
        request=QuantilesRequest,
        explain=".release:explain",
        outlook=".release:outlook",
        diagram=".release:diagram",
        results=(".result:Quantiles",),
        title="Quantiles",
        lead="the values below which given shares of the rows lie",
        worst_cases="dpexplain.audit.worst_cases.effects:of_quantiles",
        home=__name__,
    )
)
