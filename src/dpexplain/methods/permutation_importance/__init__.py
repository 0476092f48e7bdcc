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
        title="Importance",
        lead="how much worse the model predicts when the values of one column are replaced by other ones",
        worst_cases="dpexplain.audit.worst_cases.importance:of_permutation_importance",
        home=__name__,
    )
)
