"""Generic plots: the mean, over parts of the rows, of what any plot explainer says about each part."""

from dpexplain.methods.generic_plot.request import GenericPlot
from dpexplain.methods.registry import Method, register

register(
    Method(
        name="generic-plot",
        request=GenericPlot,
        explain=".release:explain",
        outlook=".release:outlook",
        diagram=".release:diagram",
        results=(".result:GenericCurve",),
        title="Generic plot",
        lead="the mean, over parts of the rows, of what a plot explainer says about each part",
        worst_cases="dpexplain.audit.worst_cases.parts:of_generic_plot",
        home=__name__,
    )
)
