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
        summary="Release the accumulated effects of columns: how the prediction changes for the rows that are there.",
        about="Unlike `pdp`, no row is moved to values that do not go with the rest of it. Several columns share two "
        "passes over the table, and one cost. --stand-in makes the values better by its synthetic rows, free.",
        example="--feature age --feature sex --epsilon 0.5",
        typed="dpexplain.cli.typed:columns",
        title="Accumulated effects",
        lead="how the prediction changes along a column for the rows that have about that value",
        worst_cases="dpexplain.audit.worst_cases.effects:of_accumulated_effects",
        takes=("marginals", "stand-in"),
        home=__name__,
    )
)
