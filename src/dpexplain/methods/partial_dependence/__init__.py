"""Partial dependence: how the mean prediction changes when a column is set to a value for everybody."""

from dpexplain.methods.partial_dependence.request import PartialDependence
from dpexplain.methods.registry import Method, register

register(
    Method(
        name="partial-dependence",
        request=PartialDependence,
        explain=".release:explain",
        outlook=".release:outlook",
        diagram=".release:diagram",
        results=(".result:DependenceCurve",),
        command="pdp",
        summary="Release the partial dependence of columns: what the model predicts on average at each value.",
        about="Every row is set to the value, one value after the other, and the predictions are averaged. Several "
        "columns, or pairs of columns for surfaces, share one cost. --marginals takes the row counts from an earlier "
        "release and leaves the whole cost to the curves; --stand-in makes values better by its synthetic rows, free.",
        example="--feature age --feature sex --pair age,sex --epsilon 0.5",
        typed="dpexplain.cli.typed:curves",
        title="Partial dependence",
        lead="how the model's mean prediction changes when one column is set to a value for everybody",
        takes=("marginals", "stand-in"),
        worst_cases="dpexplain.audit.worst_cases.effects:of_partial_dependence",
        home=__name__,
    )
)
