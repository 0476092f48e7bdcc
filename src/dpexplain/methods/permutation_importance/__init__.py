"""Permutation importance: how much worse predictions become when a column's values are replaced by other ones."""

from dpexplain.methods.permutation_importance.request import PermutationImportance
from dpexplain.methods.registry import Method, register

register(
    Method(
        name="permutation-importance",
        request=PermutationImportance,
        explain=".release:explain",
        outlook=".outlook:outlook",
        diagram=".release:diagram",
        results=(".result:Importance",),
        command="importance",
        summary="Rank columns by how much worse the model predicts without what a column tells.",
        about="All columns that the model uses, or those named with --feature, for one cost, with the probability "
        "that each stands above the next. The target must be declared in the domain. Other values come from other "
        "rows in small groups, or from --marginals that were released before: the order is then more certain at "
        "a small epsilon, and intervals are wider. Large changes are limited, and the intervals contain what that can "
        "have cut off.",
        example="--target income --epsilon 0.5\n--target income --epsilon 0.5 --marginals explanations/marginals.json",
        takes=("marginals", "stand-in"),
        title="Importance",
        lead="how much worse the model predicts when the values of one column are replaced by other ones",
        worst_cases="dpexplain.audit.worst_cases.importance:of_permutation_importance",
        home=__name__,
    )
)
