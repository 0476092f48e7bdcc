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
        summary="Release how many rows have each value: one noisy histogram for each column, for one cost.",
        about="Pay once and use it again with --marginals: `importance`, `influence` and `transparency` then take "
        "other people's values from it and spend their whole epsilon on their own question. Influences on a person "
        "become free.",
        example="--epsilon 0.5",
        long=True,
        title="Marginals",
        lead="how many rows have each value of each column",
        worst_cases="dpexplain.audit.worst_cases.effects:of_marginals",
        attack_by_default=False,
        home=__name__,
    )
)
