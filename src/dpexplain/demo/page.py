"""The page of the demo: what came out in a few sentences, then every picture with what it shows.

All of it is made of released values and public things; nothing here sees a row.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from html import escape

from dpexplain.core.domain import Categorical, Numeric
from dpexplain.demo.experiment import COLUMNS
from dpexplain.ledger import Statement
from dpexplain.render import text as words
from dpexplain.render.html import Section, bar, card, page, table
from dpexplain.results import Attribution, ClusterExplanation, Curve, Influence, Ranking, Result

Released = Mapping[str, Sequence[Result]]

SHOWN = ("chronic_diseases", "max_expenditure", "coinsurance", "health")  # curves that are seen without a click

LEAD = (
    "How many times a year does a person see a doctor, and what drives it? A gradient-boosting model has learned it "
    "from the RAND Health Insurance Experiment. The plots below show what it has learned, and they can be shown to "
    "anybody: noise was added so that little can be learned about any single row, and shaded bands say how much."
)
PROTECTED = (
    "Whoever reads this page, whatever else they know and however they compute, learns little about any single row of "
    "the table: everything here would have come out about equally likely with other values in that row. How much is "
    "“little” and “about” is the number epsilon of the budget below.",
    "This holds for all plots of this account together, and for those still to come: the ledger refuses what would go "
    "beyond the budget.",
)
NOT_PROTECTED = (
    "A person as a whole. The table has several rows for a person (one for each year) and no person id, so the "
    "protected unit is the row. With an id, dpexplain protects all rows of a person together.",
    "The model. It was trained on the same rows in the usual way; whoever holds the model file may learn about them.",
    "What was declared in public: the columns, their bounds and categories, the range of predictions, how many rows.",
    "What is true of people in general, such as that the sick see more doctors.",
)
FOOTER = (
    "Made by dpexplain demo. Data: RAND Health Insurance Experiment, from statsmodels. Each .json file beside this "
    "page holds released values and their receipt; `dpexplain verify` checks it against the ledger."
)


def demo_page(released: Released, errors: Mapping[str, float], people: Sequence[str], statement: Statement) -> str:
    """The whole page. `errors` are the forecasts from before the release; `people` are those whose predictions are
    explained, in words.
    """
    sections = [
        Section("In short", html=_list(in_short(released, people, statement))),
        _promise(),
        _what_counts(released),
        _curves(released, errors),
        _more_effects(released, errors),
        _persons(released, people),
        _free_care(released),
        _groups(released),
        _columns(released),
        _budget(statement),
    ]
    return page("What drives doctor visits?", LEAD, sections, FOOTER)


# In short -------------------------------------------------------------------------------------------------------------


def in_short(released: Released, people: Sequence[str], statement: Statement) -> list[str]:
    """What the results say, a sentence for each kind of question."""
    return [
        _most_important(released["importance"][0]),
        _price_of_care(next(c for c in released["curves"] if isinstance(c, Curve) and c.feature == "coinsurance")),
        _most_for(people[-1], released["people"][-1]),
        _difference(released["disparity"][0]),
        _told_apart(released["clusters"][0]),
        _paid(statement),
    ]


def _most_important(ranking: Result) -> str:
    assert isinstance(ranking, Ranking)
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


def _most_for(who: str, attribution: Result) -> str:
    assert isinstance(attribution, Attribution)
    most = attribution.top(1).iloc[0]
    return (
        f"For {who} it predicts {attribution.prediction:.1f} visits; an average person has {attribution.base:.1f}. "
        f"What counts most is {most['feature']}: {most['contribution']:+.1f}."
    )


def _difference(influence: Result) -> str:
    assert isinstance(influence, Influence)
    return f"What makes the predictions for people with free care differ? Most of all: {influence.sentences(1)[0]}"


def _told_apart(explanation: Result) -> str:
    assert isinstance(explanation, ClusterExplanation)
    names = list(dict.fromkeys(e.attribute for e in explanation.explanations))
    return f"There are three groups of people; what tells them apart is {' and '.join(names)}."


def _paid(statement: Statement) -> str:
    spent, total = statement.spent_epsilon, float(statement.budget.epsilon)
    return f"All of this together costs epsilon = {spent:.2g}, of the {total:g} that may ever be spent on these rows."


# Sections -------------------------------------------------------------------------------------------------------------


def _promise() -> Section:
    lists = f"<h3>What is protected</h3>{_list(PROTECTED)}<h3>What is not</h3>{_list(NOT_PROTECTED)}"
    return Section("The promise", html=f'<div class="promise">{lists}</div>')


def _what_counts(released: Released) -> Section:
    return Section(
        "Which columns count, and which act together",
        "On the left: how much worse the model predicts when the values of a column are drawn anew from its noisy "
        "histogram (below). On the right: which columns act together with others, by a vote of parts of the rows "
        "(Friedman's H). Behind a name stands the probability that it truly is above the next one.",
        results=[*released["importance"], *released["interactions"]],
    )


def _curves(released: Released, errors: Mapping[str, float]) -> Section:
    curves = [curve for curve in released["curves"] if isinstance(curve, Curve)]
    shown = sorted((c for c in curves if c.feature in SHOWN), key=lambda c: SHOWN.index(c.feature))
    others = [c for c in curves if c.feature not in SHOWN]
    return Section(
        "What the model has learned",
        "Each plot answers: if this one column had this value in every row and nothing else changed, what would the "
        "model predict on average? The line is the released curve, smoothed; the band covers the exact curve of the "
        "table at each point with probability 95 %; grey bars show where the rows are, with noise of their own. "
        f"Forecast before the release: ±{errors['curves']:.2g} visits at each point.",
        html=_cards(shown) + _folded(f"{len(others)} more columns, of the same release", _cards(others)),
    )


def _more_effects(released: Released, errors: Mapping[str, float]) -> Section:
    return Section(
        "Effects where the rows are, and two columns at once",
        "Accumulated effects follow a column in small steps and ask only rows that are near; their mean is zero. Noise "
        f"adds up along the curve: forecast before the release ±{errors['effects']:.2g} visits at the worst point. The "
        "map asks whether paying more oneself keeps the sick from the doctor, too; forecast: "
        f"±{errors['pair']:.2g} visits in each cell.",
        results=[*released["effects"], *released["pair"]],
    )


def _persons(released: Released, people: Sequence[str]) -> Section:
    return Section(
        "Why this prediction?",
        f"Two people who are made up, not from the table: {' and '.join(people)}. Each picture starts at what the "
        "local model says for an average row and ends at the prediction for the person. Both come from one release, a "
        "sketch, from which anybody can be explained from now on, free. The guarantee protects the rows of the table, "
        "not the person who is explained.",
        results=released["people"],
    )


def _free_care(released: Released) -> Section:
    difference = released["disparity"][0]
    assert isinstance(difference, Influence)
    return Section(
        "Free care: what makes the difference, and one person's report",
        "How do the predictions for people who pay nothing differ from those for all others? On the left: what each "
        "column adds to the difference, by replacing its values with those of other people and leaving all else. What "
        "merely goes along with free care, without moving the prediction, adds nothing. On the right, the same "
        "question for one person; transparency.html beside this page is the report as that person would get it.",
        html=_list(difference.sentences()),
        results=released["disparity"],
    )


def _groups(released: Released) -> Section:
    explanation, centres = released["clusters"]
    assert isinstance(explanation, ClusterExplanation)
    told, wide = f'<div class="card">{_list(explanation.sentences)}</div>', '<div style="grid-column:1/-1">'
    return Section(
        "Groups of people, and what tells them apart",
        "Three clusters were found by private k-means over plan and health; for each of them one column that sets it "
        "apart was chosen, by a noisy choice among all of them. Blue is inside the cluster, hatched outside.",
        html=f'<div class="cards">{told}{card(centres)}{wide}{card(explanation)}</div></div>',
    )


def _columns(released: Released) -> Section:
    meanings = [[name, _declared(column), meaning] for name, (column, meaning) in COLUMNS.items()]
    return Section(
        "The columns, and where the rows are",
        "Declared from the published description of the experiment, not read from the rows. The picture has one noisy "
        "histogram for each column.",
        html=f'<div class="wide">{table(["column", "declared", "meaning"], meanings)}</div>',
        results=released["marginals"],
    )


def _budget(statement: Statement) -> Section:
    facts = table(["", ""], words.statement_facts(statement))
    entries = table(*words.statement_entries(statement))
    return Section(
        "The budget",
        "Every release is paid for from one account, which cannot be overdrawn. Asking for the same again is free.",
        html=bar(words.spent_share(statement)) + f'<div class="wide">{facts}{entries}</div>',
    )


# Pieces of HTML -------------------------------------------------------------------------------------------------------


def _list(lines: Sequence[str]) -> str:
    return f"<ul>{''.join(f'<li>{escape(line)}</li>' for line in lines)}</ul>"


def _cards(results: Sequence[Result]) -> str:
    return f'<div class="cards">{"".join(card(result) for result in results)}</div>'


def _folded(title: str, content: str) -> str:
    return f'<details style="margin-top:.8rem"><summary>{escape(title)}</summary>{content}</details>'


def _declared(column: Numeric | Categorical) -> str:
    if isinstance(column, Categorical):
        return ", ".join(map(str, column.categories))
    return f"{column.low:g} to {column.high:g}" + (", or missing" if column.keeps_missing else "")
