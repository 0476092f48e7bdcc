"""Local sketch: one payment, from which the predictions for any number of records can be explained."""

from dpexplain.methods.local_sketch.request import LocalSketchRequest
from dpexplain.methods.registry import Method, register

register(
    Method(
        name="local-sketch",
        request=LocalSketchRequest,
        explain=".release:explain",
        outlook=".release:outlook",
        diagram=".release:diagram",
        results=(".result:LocalSketch", "dpexplain.methods.attributions:Attribution"),
        command="sketch",
        title="Local sketch",
        lead="what the model does in each region of the table, from which any record can be explained, free",
        worst_cases="dpexplain.audit.worst_cases.local:of_local_sketch",
        attacked={"features": None},
        needs_delta=True,
        home=__name__,
    )
)
