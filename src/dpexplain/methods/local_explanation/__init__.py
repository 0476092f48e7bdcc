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
        summary="Explain what moved the prediction for one record; free from a sketch or a stand-in.",
        about="With --sketch: free, from a file, without the table. With --stand-in: free too, from a file of "
        "`dpexplain stand-in` and the project's model. Else: a release of its own that costs budget, from an account "
        "with a delta. The guarantee is about the rows of the table; the record that is explained is yours, "
        "and it is not protected.",
        example="--sketch explanations/local-sketch.json --row age=40 --row sex=Female\n"
        "--row age=40 --row sex=Female --epsilon 0.5",
        typed="dpexplain.cli.typed:record",
        free="dpexplain.cli.typed:from_sketch",
        title="Local explanation",
        lead="what moved the model's prediction for one record, by a linear model of its neighbourhood",
        worst_cases="dpexplain.audit.worst_cases.local:of_local_explanation",
        attacked={"method": "moments", "features": None},
        needs_delta=True,
        no_missing=True,
        attack_by_default=False,
        home=__name__,
    )
)
