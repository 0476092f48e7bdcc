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
        summary="Tell which columns caused the outcomes of everybody, of a group or of a person.",
        about="Quantitative input influence: a column's values are replaced with other people's, and outcomes "
        "change, or do not. For everybody, for a group, for what sets a group apart, or for one person, whose "
        "influences are free with --marginals: a file that `dpexplain marginals`, or an earlier importance or "
        "influence, wrote. A disparity takes the rates of its groups from a file of `dpexplain performance` with "
        "--performance; the forecast says whether that makes the error smaller. --stand-in makes the values better by "
        "its synthetic rows, free.",
        example="--quantity disparity --group sex=Female --epsilon 0.5\n"
        "--quantity individual --row age=40 --row sex=Female --marginals explanations/influence.json\n"
        "--quantity disparity --group sex=Female --performance explanations/performance.json --epsilon 0.25",
        typed="dpexplain.cli.typed:influences",
        takes=("marginals", "performance", "stand-in"),
        title="Influence",
        lead="which columns caused the outcomes of everybody, a group or a person",
        worst_cases="dpexplain.audit.worst_cases.influence:of_influence",
        attacked={"samples": 2, "row": None},  # no bound depends on how many other values a row takes
        home=__name__,
    )
)
