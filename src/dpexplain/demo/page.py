"""The page of the demo: what came out in a few sentences, then every picture with what it shows.

All of it is made of released values and public things; nothing here sees a row.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from dpexplain.core.domain import Categorical, Numeric
from dpexplain.demo.experiment import COLUMNS
from dpexplain.ledger import Statement
from dpexplain.methods.attributions import Attribution
from dpexplain.methods.clusters.result import ClusterExplanation
from dpexplain.methods.curves import Curve
from dpexplain.methods.influence.result import Influence
from dpexplain.methods.performance.result import Performance
from dpexplain.methods.performance.words import number
from dpexplain.methods.rankings import Ranking
from dpexplain.methods.stand_in.result import StandIn
from dpexplain.render import text as words
from dpexplain.render.html import fill

Released = Mapping[str, Sequence[Any]]  # results of the kind that each name stands for

SYNTHETIC_ROWS = 5  # that are shown
SHOWN = ("chronic_diseases", "max_expenditure", "coinsurance", "health")  # curves that are seen without a click


def demo_page(released: Released, errors: Mapping[str, float], people: Sequence[str], statement: Statement) -> str:
    """The whole page. `errors` are the forecasts from before the release; `people` are those whose predictions are
    explained, in words.
    """
    curves = {curve.feature: curve for curve in released["curves"]}
    assert statement.spent is not None
    return fill(
        "demo.html",
        released=released,
        errors=errors,
        people=people,
        both_ways=both_ways(released),
        synthetic=synthetic_rows(released["stand-in"][0]),
        short=in_short(released, people, statement),
        shown=[curves[name] for name in SHOWN if name in curves],
        others=[curve for name, curve in curves.items() if name not in SHOWN],
        columns=[[name, _declared(column), meaning] for name, (column, meaning) in COLUMNS.items()],
        account=words.statement_facts(statement),
        entries=words.statement_entries(statement),
        percent=100 * words.spent_share(statement),
        guarantees=[f"DP: {statement.budget.describe(statement.spent)}; {statement.neighbours.describe()}."],
    )


# One budget, both ways ------------------------------------------------------------------------------------------------


def both_ways(released: Released) -> list[str]:
    """Effects released alone, and a stand-in with effects for the same price: what each bought, in words."""
    alone, stand_in, sharper = released["effects"], released["stand-in"][0], released["effects with it"]
    receipts = [results.receipt for results in (alone[0], stand_in, sharper[0])]
    prices = [receipt.budget.epsilon_of(receipt.cost) for receipt in receipts]
    likely, proven, likely_too = (
        sum(float((high - low).mean()) / 2 for low, high in intervals) / len(intervals)
        for intervals in (
            [curve.interval() for curve in alone],
            [curve.proven_interval() for curve in alone],
            [curve.interval() for curve in sharper],
        )
    )
    closer = "narrower" if likely_too < likely else "wider"
    assumed = any(curve.sharpened for curve in alone)
    relied = f", and ±{proven:.2g} if nothing but the noise may be relied on" if assumed else ""
    return [
        f"Alone, for epsilon = {prices[0]:.2g}: the effects above have intervals of ±{likely:.2g} visits{relied}.",
        f"The stand-in for epsilon = {prices[1]:.2g} and the effects for {prices[2]:.2g}, which together cost no more: "
        f"±{likely_too:.2g} visits, which is {closer}; this assumes that the table resembles synthetic rows in some "
        "measure.",
        "And the stand-in is left: as many synthetic rows as anybody wants, for any tool, free. The map above uses it "
        "too.",
    ]


def synthetic_rows(stand_in: StandIn) -> tuple[list[str], list[list[Any]]]:
    """A few synthetic rows as a table."""
    rows = stand_in.rows(SYNTHETIC_ROWS)
    return list(rows.columns), rows.to_numpy().tolist()


# In short -------------------------------------------------------------------------------------------------------------


def in_short(released: Released, people: Sequence[str], statement: Statement) -> list[str]:
    """What the results say, a sentence for each kind of question."""
    return [
        _how_good(released["performance"][0]),
        _most_important(released["importance"][0]),
        _price_of_care(next(curve for curve in released["curves"] if curve.feature == "coinsurance")),
        _most_for(people[-1], released["people"][-1]),
        _difference(released["disparity"][0]),
        _told_apart(released["clusters"][0]),
        _paid(statement),
    ]


def _how_good(performance: Performance) -> str:
    off, explained = performance.figure("mean_absolute_error"), performance.figure("r2")
    return f"The model is off by {number(off)} visits a year on average; its R2 is {number(explained)}."


def _most_important(ranking: Ranking) -> str:
    first, second, third = ranking.items[:3]
    sure = ranking.order_probability[0]
    told = f"The model needs {first} most, then {second} and {third}. "
    if sure <= 0.5:
        return f"{told}Which of the first two truly matters more is not certain at this price."
    return f"{told}That the first truly comes before the second is at least {int(100 * sure)} % sure."


def _price_of_care(curve: Curve) -> str:
    low, high = curve.interval()
    free, dear = 0, curve.axes[0].points.index(95)
    half = max((high - low)[[free, dear]]) / 2
    return (
        f"If care were free for everybody, the model would predict {curve.values[free]:.1f} visits a year on average; "
        f"if everybody paid 95 % of each bill, {curve.values[dear]:.1f} (each ± {half:.2g})."
    )


def _most_for(who: str, attribution: Attribution) -> str:
    most = attribution.top(1).iloc[0]
    return (
        f"For {who} it predicts {attribution.prediction:.1f} visits; an average person has {attribution.base:.1f}. "
        f"What counts most is {most['feature']}: {most['contribution']:+.1f}."
    )


def _difference(influence: Influence) -> str:
    return f"What makes the predictions for people with free care differ? Most of all: {influence.sentences(1)[0]}"


def _told_apart(explanation: ClusterExplanation) -> str:
    names = list(dict.fromkeys(e.attribute for e in explanation.explanations))
    return f"There are three groups of people; what tells them apart is {' and '.join(names)}."


def _paid(statement: Statement) -> str:
    spent, total = statement.spent_epsilon, float(statement.budget.epsilon)
    return f"All of this together costs epsilon = {spent:.2g}, of the {total:g} that may ever be spent on these rows."


def _declared(column: Numeric | Categorical) -> str:
    if isinstance(column, Categorical):
        return ", ".join(map(str, column.categories))
    return f"{column.low:g} to {column.high:g}" + (", or missing" if column.keeps_missing else "")
