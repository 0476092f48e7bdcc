"""Transparency reports: what made the model decide as it did about a person, and what did not."""

from dpexplain.methods.registry import Method, register
from dpexplain.methods.transparency.request import TransparencyRequest

register(
    Method(
        name="transparency-report",
        request=TransparencyRequest,
        request_name="TransparencyReport",
        explain=".release:explain",
        outlook=".release:outlook",
        diagram=".release:diagram",
        results=(".result:TransparencyReport",),
        command="transparency",
        title="Transparency report",
        lead="what made the model decide as it did about a person, and what did not",
        worst_cases="dpexplain.audit.worst_cases.influence:of_transparency",
        home=__name__,
    )
)
