"""A stand-in: a released distribution over the declared domain, from which synthetic rows are drawn, free."""

from dpexplain.methods.registry import Method, register
from dpexplain.methods.stand_in.request import StandInRequest

register(
    Method(
        name="stand-in",
        request=StandInRequest,
        explain=".release:explain",
        outlook=".release:outlook",
        diagram=".release:diagram",
        results=(".result:StandIn",),
        command="stand-in",
        summary="Release a distribution that stands in for the table: synthetic rows for any explainer, free.",
        about="Noisy counts of every column and, where epsilon allows it, of the pairs of columns that belong "
        "together most. Synthetic rows drawn from them serve any tool that wants a table. --marginals takes the counts "
        "of columns from an earlier release, so that the whole cost is for pairs.",
        example="--epsilon 1 --rows 10000",
        subject="dpexplain.cli.typed:model_for_scores",
        also="dpexplain.cli.typed:synthetic_rows",
        takes=("marginals",),
        long=True,
        title="Stand-in",
        lead="a distribution over the declared columns, released once, that synthetic rows are drawn from",
        worst_cases="dpexplain.audit.worst_cases.stand_in:of_stand_in",
        attack_by_default=False,
        home=__name__,
    )
)
