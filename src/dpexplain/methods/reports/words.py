"""What a report says in short: a sentence or two for each section, in plain words, with how sure it is."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

from dpexplain.methods.clusters.result import ClusterExplanation
from dpexplain.methods.influence.result import TableInfluence
from dpexplain.methods.performance.result import Performance
from dpexplain.methods.performance.words import UNDETERMINED, between_groups, number, percent
from dpexplain.methods.rankings import Ranking

if TYPE_CHECKING:
    from dpexplain.methods.curves import Curve
    from dpexplain.methods.reports.result import Report

SURE = 0.9  # probability from which an order is stated without doubt
EVEN = 0.5
COST = "All of this has the privacy price epsilon = {:.3g}: under “What is promised” stands what that means."


def in_short(report: Report) -> list[str]:
    """The sentences, in the order of the sections."""
    return [*_sentences(report), COST.format(report.epsilon)]


def _sentences(report: Report) -> Iterator[str]:
    for perf in report.section("performance").of(Performance):
        yield from how_good(perf)
    for ranking in report.section("importance").of(Ranking):
        yield most_important(ranking)
    for influence in report.section("importance").of(TableInfluence):
        yield from influence.sentences(1)[:1]
    if report.effects:
        yield strongest(report.effects[0])
    for ranking in report.section("interactions").of(Ranking)[:1]:
        yield together(ranking)
    for influence in report.section("groups").of(TableInfluence):
        if influence.disparity is not None:
            group = influence.spec.group
            said = influence.disparity.sentences[0].replace(group.describe(), group.describe(influence.receipt))
            yield said.replace("mean score", "mean prediction")
        if influence.disparity is None or influence.disparity.conclusive:
            most = "Most of all" if influence.disparity is None else "The largest part of that"
            yield f"{most}: {influence.sentences(1)[0].replace('mean score', 'mean prediction')}"
    for clusters in report.section("clusters").of(ClusterExplanation):
        apart = dict.fromkeys(clusters.receipt.called(e.attribute) for e in clusters.explanations)
        yield (
            f"The rows were sorted into {len(clusters.labels)} kinds. What sets them apart, by a choice with "
            f"noise: {_and(list(apart))}."
        )


def how_good(perf: Performance) -> Iterator[str]:
    """How far off, or how often right; and whether that differs between groups."""
    model, name = perf.score_words, "accuracy"
    if perf.task == "regression":
        name, off = "mean_absolute_error", perf.figure("mean_absolute_error")
        target = perf.receipt.names.axis(perf.spec.target)
        yield (
            f"Predictions of {target} by {model} are off by {number(off)} on average."
            if off.determined
            else f"How far predictions of {target} are off is {UNDETERMINED}."
        )
        yield than_the_mean(perf)
    else:
        right = perf.figure("accuracy")
        yield (
            f"The decisions of {model} are right for {percent(right)} of the rows."
            if right.determined
            else f"How often {model} is right is {UNDETERMINED}."
        )
    words = "The mean error" if perf.task == "regression" else "The share of right decisions"
    for by in perf.by:
        yield between_groups(perf, by, name, words)


def than_the_mean(perf: Performance) -> str:
    """Whether the model is of more use than one number for everybody."""
    less = perf.figure("r2")  # by which part squared errors are smaller
    if not less.determined or less.low <= 0 < less.high:
        return "Whether that is better than to say the mean for everybody cannot be told at this price."
    if less.high <= 0:
        return "To say the mean for everybody would be as good or better."
    return f"Squared errors are {percent(less)} smaller than those of saying the mean for everybody."


def most_important(ranking: Ranking) -> str:
    """The first columns, and how sure their order is."""
    first, *others = (ranking.receipt.called(item) for item in ranking.items[:3])
    if not ranking.determined().any():
        return "Which columns the model needs most is not determined at this price."
    if not others:
        return f"The model needs {first}."
    sure = float(ranking.order_probability[0])
    said = f"The model needs {first} most, then {_and(others)}."
    if sure <= EVEN:
        return f"{said} Which of the first two matters more is not certain at this price."
    return f"{said} That the first comes before the second has a probability of at least {int(100 * sure)} %."


def strongest(curve: Curve) -> str:
    """The two ends of the curve with the largest range."""
    values, points = curve.values, curve.axes[0].points
    low, high = int(values.argmin()), int(values.argmax())
    ends = curve.interval()
    half = float(max(ends[1][i] - ends[0][i] for i in (low, high))) / 2
    title = curve.receipt.called(str(curve.feature))
    least, most = (_point(curve, points[i]) for i in (low, high))
    return (
        f"If {title} were {least} in every row, the mean prediction would be {values[low]:.3g}; with {most}, "
        f"{values[high]:.3g} (each ± {half:.2g} for privacy noise)."
    )


def together(ranking: Ranking) -> str:
    """The pair that acts together most."""
    first = ranking.receipt.called(ranking.items[0]).replace(" x ", " and ")
    sure = float(ranking.top_probability(1)[0]) if len(ranking.items) > 1 else 1.0
    if sure < EVEN:
        return "Which columns act together most is not certain at this price."
    return f"{first} act together most (probability {min(int(100 * sure), 99)} %)."


def _point(curve: Curve, point: object) -> str:
    from dpexplain.columns import labels

    (shown,) = labels(curve.receipt.domain, str(curve.feature), [point])
    value = curve.receipt.called_value(str(curve.feature), shown)
    unit = curve.receipt.names.columns.get(str(curve.feature), {}).get("unit", "")
    said = "missing" if value is None else f"{value:.4g}" if isinstance(value, float) else str(value)
    return f"{said} {unit}".strip()


def _and(names: list[str]) -> str:
    return names[0] if len(names) == 1 else f"{', '.join(names[:-1])} and {names[-1]}"
