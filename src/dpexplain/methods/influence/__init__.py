"""Influence: how outcomes change when inputs are replaced by other people's values."""

from dpexplain.methods.influence.request import InfluenceRequest
from dpexplain.methods.registry import Method, register

register(
    Method(
        name="influence",
        request=InfluenceRequest,
        explain=".release:explain",
        outlook=".release:outlook",
        diagram=".release:diagram",
        results=(".result:TableInfluence", ".person:PersonInfluence"),
        command="influence",
        title="Influence",
        lead="which columns caused the outcomes of everybody, a group or a person",
        worst_cases="dpexplain.audit.worst_cases.influence:of_influence",
        attacked={"samples": 2, "row": None},  # no bound depends on how many other values a row takes
        home=__name__,
    )
)
