"""Performance: how good a model is, for everybody and for each group, and fairness figures by the names people know."""

from dpexplain.methods.performance.request import PerformanceRequest
from dpexplain.methods.registry import Method, register

register(
    Method(
        name="performance",
        request=PerformanceRequest,
        explain=".release:explain",
        outlook=".release:outlook",
        diagram=".release:diagram",
        results=(".result:Performance",),
        command="performance",
        summary="Tell how good a model is, for everybody and for each group, and whether it errs against one.",
        about="One release of counts by score, target and group gives accuracy, ROC and AUC, precision and recall, "
        "calibration, and fairness figures: selection rates, true and false positive rates, their differences and "
        "ratios. For a regression: R2, mean absolute error, residuals. --score judges a column of the table instead "
        "of the project's model.",
        example="--target reoffended --group sex --epsilon 1\n"
        "--score decile_score --target reoffended --group sex --group sex,race --threshold 5 --epsilon 1",
        typed="dpexplain.cli.typed:performances",
        subject="dpexplain.cli.typed:model_or_score",
        title="Performance",
        lead="how good the model is, and for whom",
        worst_cases="dpexplain.audit.worst_cases.performance:of_performance",
        home=__name__,
    )
)
