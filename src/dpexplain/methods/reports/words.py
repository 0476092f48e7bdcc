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

EVEN = 0.5  # a place, or an order, that is less likely is not said
NAMED = 3  # columns at most
COST = "The privacy cost is epsilon = {:.3g}; “What is promised” explains it."


def in_short(report: Report) -> list[str]:
    """The sentences, in the order of the sections."""
    return [*_sentences(report), COST.format(report.epsilon)]


def _sentences(report: Report) -> Iterator[str]:
    for perf in report.section("performance").of(Performance):
        yield from how_good(perf)
    for ranking in report.section("importance").of(Ranking):
        needed = "" if report.forecast is None else report.forecast.needed("importance")
        yield most_important(ranking, needed)
    for influence in report.section("importance").of(TableInfluence):
        yield from influence.sentences(1)[:1]
    if report.effects:
        yield strongest(report.effects[0])
    for ranking in report.section("interactions").of(Ranking)[:1]:
        yield together(ranking)
    for influence in report.section("groups").of(TableInfluence):
        if influence.disparity is not None:
            yield influence.disparity.sentences[0].replace("mean score", "mean prediction")
        if influence.disparity is None or influence.disparity.conclusive:
            yield drives(influence)
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
    """Whether the model predicts better than the mean does."""
    less = perf.figure("r2")  # by which part squared errors are smaller
    if not less.determined or less.low <= 0 < less.high:
        return "With this epsilon we cannot tell whether the model beats predicting the mean."
    if less.high <= 0:
        return "Predicting the mean for everybody would be as good or better."
    return f"Squared errors are {percent(less)} smaller than when predicting the mean for everybody."


def most_important(ranking: Ranking, needed: str = "") -> str:
    """The first column, and those after it, as far as intervals and probabilities show it.

    A column is named where its interval lies above 0; the first one as the first where it is so with a probability of
    one half or more. `needed` says what would show more.
    """
    low, _ = ranking.interval()
    above = [ranking.receipt.called(item) for item, end in zip(ranking.items, low, strict=True) if end > 0]
    if not above:
        where = "the intervals of all columns contain 0"
        return f"With this epsilon we cannot tell which column the model needs most: {where}. {needed}".strip()
    if len(ranking.items) == 1:
        return f"The model needs {above[0]}."
    first = float(ranking.top_probability(1)[0])
    if low[0] <= 0 or first < EVEN:
        shown = above if len(above) <= NAMED else [*above[:NAMED], f"{len(above) - NAMED} more columns"]
        unsure = "with this epsilon we cannot tell which column it needs most."
        return f"The model needs {_and(shown)}; {unsure} {needed}".strip()
    said = f"The model needs {above[0]} most (probability {min(int(100 * first), 99)} %)"
    some = min(NAMED, len(ranking.items))
    likely = ranking.top_probability(some)
    next_ones = [ranking.receipt.called(ranking.items[i]) for i in range(1, some) if low[i] > 0 and likely[i] >= EVEN]
    if not next_ones:
        return f"{said}. With this epsilon we cannot tell which one comes next."
    return f"{said}, then {_and(next_ones)}."


def drives(influence: TableInfluence) -> str:
    """The column with the largest part in the difference between a group and all others."""
    spec, names = influence.spec, influence.receipt.called
    if influence.note is not None:
        return influence.note
    first = influence.order[0]
    if not influence.sure[first]:
        return "With this epsilon we cannot tell which column drives it."
    low, high = influence.interval()
    value = float(influence.values[first])
    sign = 1 if value >= 0 else -1
    ends = sorted((sign * float(low[first]), sign * float(high[first])))
    others = [max(abs(float(low[i])), abs(float(high[i]))) for i in influence.order[1:]]
    most = "The largest part" if ends[0] > max(others, default=0.0) else "Perhaps the largest part"
    item = names(influence.items[first])
    if spec.group is not None and list(spec.group.columns) == [influence.items[first]]:
        item = f"{item} (the column that defines the groups)"
    rate = spec.outcome.rate.replace("mean score", "mean prediction")
    points = spec.outcome.written(abs(value)).replace(" %", " percentage points")
    way = "higher" if value >= 0 else "lower"
    said = f"{item} makes the {rate} of this group {points} {way} ({spec.outcome.interval(*ends)})."
    return f"{most} of that difference: {said}"


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
        return "With this epsilon we cannot tell which columns act together most."
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
