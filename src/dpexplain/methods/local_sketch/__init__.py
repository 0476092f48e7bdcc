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
        results=(
            ".result:LocalSketch",
            ".rows:RowSketch",
            "dpexplain.methods.attributions:Attribution",
            "dpexplain.methods.local_readings:RowAttribution",
        ),
        command="sketch",
        summary="Pay once for local explanations of any number of records.",
        about="Releases a sketch of the model on the table, and writes it to a file. From the file any record can be "
        "explained with `dpexplain local --sketch`, as often as you like, without the table, the model or the "
        "ledger, and free: the file holds released values, and what the model says about synthetic rows. "
        "--method moments needs an account with a delta.",
        example="--epsilon 1",
        then="Explain records from it, free: dpexplain local --sketch {file} --row ...",
        title="Local sketch",
        lead="what the model does in each region of the table, from which any record can be explained, free",
        worst_cases="dpexplain.audit.worst_cases.local:of_local_sketch",
        read_off=".release:read_off",
        attacked={"method": "moments", "features": None},  # the other form is attacked as a stand-in
        no_missing=True,
        long=True,
        home=__name__,
    )
)
