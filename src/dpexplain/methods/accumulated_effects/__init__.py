"""Accumulated effects: how the prediction changes along a column, for the rows that are there."""

from dpexplain.methods.accumulated_effects.request import AccumulatedEffects
from dpexplain.methods.registry import Method, register

register(
    Method(
        name="accumulated-effects",
        request=AccumulatedEffects,
        explain=".release:explain",
        outlook=".release:outlook",
        diagram=".release:diagram",
        results=(".result:AccumulatedCurve",),
        command="ale",
        title="Accumulated effects",
        lead="how the prediction changes along a column for the rows that have about that value",
        worst_cases="dpexplain.audit.worst_cases.effects:of_accumulated_effects",
        home=__name__,
    )
)
