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
        summary="Write a report for a person: what made the model decide as it did.",
        about="It also says what only goes along with such decisions. For one person, or for many for one cost; "
        "persons that come later are free. The guarantee is about the rows of the table; the person's own record is "
        "in the report, and it is not protected.",
        example="--row age=40 --row sex=Female --epsilon 0.5\n--rows people.csv --epsilon 0.5",
        typed="dpexplain.cli.typed:persons",
        takes=("marginals",),
        long=True,
        then="To hand over, one page for each person: {pages} in {out}.",
        title="Transparency report",
        lead="what made the model decide as it did about a person, and what did not",
        worst_cases="dpexplain.audit.worst_cases.influence:of_transparency",
        attack_by_default=False,
        home=__name__,
    )
)
