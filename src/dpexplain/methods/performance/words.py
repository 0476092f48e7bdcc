"""What a performance says in sentences: how good the score is, for whom, and what nobody may conclude from it; and how
much room its picture needs.

Everything here is made of estimates with their intervals; nothing decides by a point alone.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    import pandas as pd

    from dpexplain.maths.estimates import Estimate
    from dpexplain.methods.performance.result import Performance

UNDETERMINED = "not determined with this epsilon"
NOISE_ONLY = (
    "Intervals are about these rows and the noise that was added, each at 95 % by itself: they do not say what other "
    "people would show. "
    "A difference between groups is no proof of its cause."
)
NO_PROBABILITY = (
    "The score is no probability, so Brier score, log loss and calibration error are left out; "
    "the share of positives at each score is shown."
)
FOUR_FIFTHS = 0.8

# what is compared between groups, in which words: of classes, and of numbers
RATES = {
    "false_positive_rate": "False positive rate",
    "false_negative_rate": "False negative rate",
    "selection_rate": "Selection rate",
    "precision": "Precision",
}
ERRORS = {
    "mean_absolute_error": "Mean absolute error",
    "mean_residual": "Mean residual (target less prediction)",
}


def title(perf: Performance) -> str:
    whom = ", and for whom" if perf.by else ""
    return f"How good is {perf.score_words}{whom}?"


def caveat(perf: Performance) -> str:
    return NOISE_ONLY if perf.task == "regression" or perf.probability else f"{NO_PROBABILITY} {NOISE_ONLY}"


def findings(perf: Performance) -> list[str]:
    """How good the score is for everybody, then what differs between groups."""
    said = _of_numbers(perf) if perf.task == "regression" else _of_classes(perf)
    names = ERRORS if perf.task == "regression" else RATES
    for by in perf.by:
        shown = {"accuracy": "Accuracy"} if perf.task == "classes" else names
        said += [between_groups(perf, by, name, words) for name, words in shown.items()]
        if perf.task == "binary":
            said.append(four_fifths(perf, by))
    return [sentence for sentence in said if sentence]


def _of_classes(perf: Performance) -> list[str]:
    if perf.task == "classes":
        right = perf.figure("accuracy")
        said = [
            f"The predicted class is right for {percent(right)} of the rows."
            if right.determined
            else f"How often the predicted class is right is {UNDETERMINED}."
        ]
        areas = [f"{label}: {number(perf.figure('auc', label=label))}" for label in perf.labels]
        return [*said, f"AUC of each class against the rest: {'; '.join(areas)}."]
    area, right = perf.figure("auc"), perf.figure("accuracy")
    said = [f"AUC {number(area)}{_in_pairs(perf, area)}." if area.determined else f"AUC is {UNDETERMINED}."]
    yes = f"A score of at least {perf.threshold:g} counts as positive"
    said.append(
        f"{yes}: that is right for {percent(right)} of the rows."
        if right.determined
        else f"{yes}; how often that is right is {UNDETERMINED}."
    )
    if perf.by:
        wrong = f"False positives have such a score although it is not true that {perf.target_words}"
        said.append(f"{wrong}; false negatives are the reverse.")
    return said


def _in_pairs(perf: Performance, area: Estimate) -> str:
    times = f"{100 * area.value:.0f} times of 100 (equal scores count half)"
    return f": of a row where {perf.target_words} and one where not, the first has the higher score {times}"


def _of_numbers(perf: Performance) -> list[str]:
    off, squared, bias = (perf.figure(name) for name in ("mean_absolute_error", "r2", "mean_residual"))
    perfect = "1 is perfect, and 0 no better than always saying the mean of the target"
    return [
        f"Predictions of {perf.target_words} are off by {number(off)} on average."
        if off.determined
        else f"How far predictions of {perf.target_words} are off is {UNDETERMINED}.",
        f"R2 {number(squared)}: {perfect}." if squared.determined else f"R2 is {UNDETERMINED}.",
        f"Mean residual (target less prediction) {number(bias, signed=True)}{_direction(bias)}."
        if bias.determined
        else f"The mean residual (target less prediction) is {UNDETERMINED}.",
    ]


def _direction(bias: Estimate) -> str:
    if bias.low <= 0 <= bias.high:
        return ": the noise could hide whether predictions are too high or too low"
    return ": predictions are too low" if bias.value > 0 else ": predictions are too high"


def between_groups(perf: Performance, by: Any, name: str, words: str) -> str:
    """The largest and the smallest of a figure over groups, and whether noise alone can explain that they differ."""
    write = number if perf.task == "regression" else percent
    known = [(group, perf.figure(name, group=group)) for group in perf.cells_of(by)]
    told = [(group, estimate) for group, estimate in known if estimate.determined]
    left_out = len(known) - len(told)
    if len(told) < 2:
        return f"{words} by {written(perf, by)}: {UNDETERMINED}."
    most, highest = max(told, key=lambda pair: pair[1].low)  # those that stand apart most surely: an estimate of a
    least, lowest = min(told, key=lambda pair: pair[1].high)  # small group may be the largest by noise alone
    apart = perf.spread(name, by)
    if most == least or not apart.determined or apart.low <= 0:
        ends = f"{write(min(told, key=_value)[1])} and {write(max(told, key=_value)[1])}"
        reach = f", and may differ by up to {_gap(perf, apart.high)}" if apart.determined else ""
        return (
            f"{words} by {written(perf, by)}: the groups cannot be told apart with this epsilon. "
            f"Their estimates lie between {ends}{reach}{_small(left_out)}."
        )
    sides = f"{write(highest)} for {perf.group_title(most)} against {write(lowest)} for {perf.group_title(least)}"
    verdict = f"the noise does not explain {'this difference' if len(told) == 2 else 'how groups differ'}"
    return f"{words} {sides}: {verdict} ({_difference(perf, apart, len(told))}){_small(left_out)}."


def _value(pair: tuple[Any, Estimate]) -> float:
    return pair[1].value


def _gap(perf: Performance, width: float) -> str:
    return f"{width:.2g}" if perf.task == "regression" else f"{100 * width:.0f} percentage points"


def _small(left_out: int) -> str:
    """Groups too small to tell: what they may be is in the interval of the largest difference."""
    groups = "1 group is" if left_out == 1 else f"{left_out} groups are"
    return f"; {groups} {UNDETERMINED} and may differ by more" if left_out else ""


def _difference(perf: Performance, apart: Estimate, groups: int) -> str:
    largest = "" if groups == 2 else "the largest difference: "
    if perf.task == "regression":
        return f"{largest}{apart.low:.3g} to {apart.high:.3g}"
    digits = 1 if apart.high - apart.low < 0.02 else 0
    return f"{largest}{100 * apart.low:.{digits}f} to {100 * apart.high:.{digits}f} percentage points"


def four_fifths(perf: Performance, by: Any) -> str:
    """The four-fifths rule: is the lowest selection rate below four fifths of the highest one?"""
    ratio = perf.demographic_parity_ratio(by)
    if not ratio.determined:
        return f"Four-fifths rule by {written(perf, by)}: {UNDETERMINED}."
    said = f"The lowest selection rate by {written(perf, by)} is {number(ratio)} of the highest"
    if ratio.high < FOUR_FIFTHS:
        return f"{said}: below four fifths."
    if ratio.low >= FOUR_FIFTHS:
        return f"{said}: not below four fifths."
    return f"{said}: whether it is below four fifths cannot be told with this epsilon."


# Tables ---------------------------------------------------------------------------------------------------------------

SHOWN = ("selection_rate", "true_positive_rate", "false_positive_rate", "precision", "auc")
SHOWN_NUMBERS = ("mean_absolute_error", "root_mean_squared_error", "mean_residual", "r2")
FAIRNESS = (
    "demographic_parity_difference", "demographic_parity_ratio", "equalized_odds_difference", "equalized_odds_ratio",
    "true_positive_rate_difference", "false_positive_rate_difference", "equal_opportunity_ratio",
)  # fmt: skip


def summary(perf: Performance) -> tuple[list[str], list[list[str]]]:
    """For a terminal: a line for everybody and for each group, a column for each figure."""
    names = SHOWN_NUMBERS if perf.task == "regression" else ("accuracy",) if perf.task == "classes" else SHOWN
    shares = [name for name in names if perf.task != "regression" and name != "auc"]
    whose = [("everybody", None), *((perf.group_title(g), g) for by in perf.by for g in perf.cells_of(by))]

    def cell(name: str, group: Any) -> str:
        estimate = perf.figure(name, group=group)
        written = percent(estimate).replace(" %", "") if name in shares else number(estimate)
        return written if estimate.determined else "not determined"

    head = [name.replace("_", " ") + ", %" * (name in shares) for name in names]
    return ["", *head], [[who, *(cell(name, group) for name in names)] for who, group in whose]


def more_tables(perf: Performance) -> dict[str, pd.DataFrame]:
    """Besides the figures: what sets groups apart, and the curves of everybody."""
    import pandas as pd

    if perf.task == "regression":
        return {"residuals": perf.residuals()}
    tables = {"confusion": perf.confusion_matrix()}
    if perf.task == "binary":
        asked = [(by, name, getattr(perf, name)(by)) for by in perf.by for name in FAIRNESS]
        lines = [(" x ".join(by), name, e.value, e.low, e.high, e.determined) for by, name, e in asked]
        columns = ["by", "figure", "value", "low", "high", "determined"]
        tables |= {"fairness": pd.DataFrame(lines, columns=columns)} if lines else {}
        tables |= {"roc": perf.roc(), "calibration": perf.calibration()}
    return tables


# Numbers as people write them -----------------------------------------------------------------------------------------


def percent(estimate: Estimate) -> str:
    """45 % (41 to 49)."""
    if not estimate.determined:
        return UNDETERMINED
    digits = 1 if estimate.high - estimate.low < 0.02 else 0
    value, low, high = (f"{100 * x:.{digits}f}" for x in (estimate.value, estimate.low, estimate.high))
    return f"{value} % ({low} to {high})"


def number(estimate: Estimate, *, signed: bool = False) -> str:
    """0.702 (0.695 to 0.709)."""
    if not estimate.determined:
        return UNDETERMINED
    form = "+.3g" if signed else ".3g"
    return f"{estimate.value:{form}} ({estimate.low:{form}} to {estimate.high:{form}})"


def written(perf: Performance, by: Any) -> str:
    """The columns of an entry of groups, as people call them: sex, or sex and race."""
    return " and ".join(map(perf.receipt.called, [by] if isinstance(by, str) else by))


# Room for the picture -------------------------------------------------------------------------------------------------

OVERALL = ("accuracy", "precision", "true_positive_rate", "false_positive_rate", "selection_rate", "base_rate", "auc")
BARS = 24  # groups of one entry that have bars
WIDTH, TOP, ROW, BAR, WORDS = 11.6, 3.9, 0.95, 0.24, 0.75  # in inches


def picture_size(perf: Performance) -> tuple[float, float]:
    """Width and height in inches."""
    return WIDTH, TOP + WORDS + sum(row_heights(perf))


def row_heights(perf: Performance) -> list[float]:
    """Of the rows below the curves."""
    entries = [ROW + BAR * min(BARS, len(perf.cells_of(by))) for by in perf.by]
    if perf.task == "classes":
        return [1.0 + 0.3 * len(perf.labels), *entries]
    return entries or [ROW + BAR * len(OVERALL)]
