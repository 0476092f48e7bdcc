"""Adaptive explanations: a stream of local explanations for one total cost."""

from dpexplain.methods.adaptive.request import AdaptiveExplanation
from dpexplain.methods.registry import Method, register

register(
    Method(
        name="adaptive-explanation",
        request=AdaptiveExplanation,
        explain=".release:explain",
        outlook=".release:outlook",
        diagram=".release:diagram",
        results=("dpexplain.methods.attributions:Attribution",),
        title="Adaptive explanation",
        lead="what moved the model's prediction for one record, the first of many that share one cost",
        worst_cases="dpexplain.audit.worst_cases.local:of_adaptive",
        needs_delta=True,
        no_missing=True,
        home=__name__,
    )
)
