"""Local explanation: what moved the model's prediction for one record."""

from dpexplain.methods.local_explanation.request import LocalExplanation
from dpexplain.methods.registry import Method, register

register(
    Method(
        name="local-explanation",
        request=LocalExplanation,
        explain=".release:explain",
        outlook=".release:outlook",
        diagram=".release:diagram",
        results=("dpexplain.methods.attributions:Attribution",),
        command="local",
        title="Local explanation",
        lead="what moved the model's prediction for one record, by a linear model of its neighbourhood",
        worst_cases="dpexplain.audit.worst_cases.local:of_local_explanation",
        attacked={"method": "moments", "features": None},
        needs_delta=True,
        home=__name__,
    )
)
