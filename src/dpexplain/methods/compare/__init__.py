"""Comparisons: two models, or two versions of a table, by the difference itself."""

from dpexplain.methods.compare.request import Compare
from dpexplain.methods.registry import Method, register

register(
    Method(
        name="compare",
        request=Compare,
        explain=".release:explain",
        outlook=".release:outlook",
        diagram=".release:diagram",
        results=(
            ".result:DifferenceCurve",
            ".result:ImportanceDifference",
            ".result:RateDifferences",
            ".versions:VersionDifference",
        ),
        command="compare",
        summary="Release how two models differ: their curves, their importances, or their rates by group.",
        about="What is released is the difference itself, and not two answers: the project's model less the one that "
        "--with names. --what says of what: curves (pdp, the default), importance, or rates by --group.",
        example="--with old-model.onnx --feature age --epsilon 0.5\n--with old-model.onnx --what rates --group sex "
        "--epsilon 0.5",
        typed="dpexplain.cli.typed:compared",
        subject="dpexplain.cli.typed:two_models",
        title="Comparison",
        lead="how two models, or two versions of a table, differ",
        worst_cases="dpexplain.audit.worst_cases.compare:of_compare",
        attack_by_default=False,
        home=__name__,
    )
)
