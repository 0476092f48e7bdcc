"""The page of a report, its card in a notebook, and its plan in a terminal. It sees results, never data."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from rich.console import Group, RenderableType
from rich.markup import escape

from dpexplain.columns import domain_from_json, ends
from dpexplain.core.domain import Categorical, Numeric
from dpexplain.methods.rankings import Ranking
from dpexplain.methods.stand_in.result import StandIn
from dpexplain.render.charts import Chart, chart_from, svg_text
from dpexplain.render.html import fill
from dpexplain.render.text import _number, _table, percent

if TYPE_CHECKING:
    from dpexplain.methods.reports.plan import ReportForecast
    from dpexplain.methods.reports.result import Report
    from dpexplain.methods.reports.sampling import Doubt

TITLES = {
    "performance": "How good is the model, and for whom?",
    "importance": "Which columns does the model need?",
    "effects": "What do the columns do to predictions?",
    "interactions": "Which columns act together?",
    "groups": "How do groups differ, and what drives it?",
    "clusters": "Which kinds of rows are there?",
    "persons": "Why this prediction? Synthetic persons",
    "rows": "Where the rows are",
}
SHOWN_DOUBTS = 24  # figures with both intervals; the numbers below the picture of the performance have all of them
SYNTHETIC_ROWS = 4  # that are shown
WIDTH = 200.0  # of a bar with both intervals
GLOSSARY = (
    (
        "privacy noise",
        "Random numbers that were added on purpose to what was counted, so that nobody can work back to a row. "
        "Its interval (filled) contains the exact answer for these rows in 95 of 100 such releases. A larger "
        "epsilon makes it narrower.",
    ),
    (
        "sampling",
        "Other people of the same kind would have given other answers. Its interval (dashed) says by how much, if "
        "the rows are independent draws from a population. No epsilon makes it narrower; more people do.",
    ),
    (
        "epsilon, privacy cost",
        "How much a release may reveal about any one protected unit: the smaller, the less. “What is promised” says "
        "by which factor the odds of a guess can change. The ledger of a table adds up the cost of all releases, and "
        "refuses those beyond the budget.",
    ),
    (
        "delta",
        "A very small probability, such as one in a million, that the odds change by more than that factor.",
    ),
    (
        "synthetic rows, stand-in",
        "Made-up rows, nobody's data. They are drawn from a noisy distribution (the stand-in) that was released once; "
        "they resemble the table to some degree, and using them costs nothing more.",
    ),
    (
        "likely, proven",
        "A proven interval assumes nothing: it follows from how the noise was drawn. A likely value also assumes that "
        "the table resembles synthetic rows to some degree; it is usually nearer to the truth. “numbers” below a "
        "picture lists both. Where the page says that they disagree, use the proven one.",
    ),
    (
        "prediction, score, outcome",
        "Three words for what the model says about a row. Where it decides, the outcome is its decision.",
    ),
    (
        "mean absolute error, mean residual, R2",
        "Mean absolute error: how far predictions are off, on average. Mean residual: what happened less the "
        "prediction, on average; above 0, predictions are too low. R2: 1 if there are no errors at all, 0 or less if "
        "predictions are no better than saying the same mean for everybody.",
    ),
    (
        "importance",
        "How much worse predictions become when the values of one column are replaced by those of others.",
    ),
    (
        "effect",
        "What the model would predict on average if one column had a value in every row, and nothing else "
        "changed. It is about the model, and not about what would happen in the world.",
    ),
    (
        "acting together",
        "The effect of one column depends on the value of another one.",
    ),
    (
        "probability of an order",
        "How likely it is, given what was released, that one truly stands above the other.",
    ),
    (
        "not determined",
        "The noise allows every possible value: nothing was learned about it.",
    ),
)


def report_page(report: Report) -> str:
    """The whole page."""
    sections = [(one.name, TITLES[one.name], one) for one in report.sections]
    if not report.persons and report.summary is not None:
        place = next((i for i, (name, _, _) in enumerate(sections) if name == "rows"), len(sections))
        sections.insert(place, ("persons", TITLES["persons"], report.section("persons")))
    more = [("promise", "What is promised"), ("cost", "What it costs"), ("words", "Words")]
    if report.left_out:
        more.insert(2, ("left-out", "What is not shown"))
    return fill(
        "report.html",
        report=report,
        sections=sections,
        navigation=[("short", "In short"), *((name, title) for name, title, _ in sections), *more],
        ranked=bool(report.section("importance").of(Ranking)),
        figures=[Bar.of(one, report.doubts) for one in report.doubts[:SHOWN_DOUBTS]],
        hidden=max(0, len(report.doubts) - SHOWN_DOUBTS),
        bases=list(dict.fromkeys(curve.basis for curve in report.effects if curve.basis)),
        sampled={str(one.feature): _sampled(report, one) for one in report.bands},
        bands=[_chart_of_bands(one) for one in report.bands],
        surface=None if report.surface is None else _chart_of_reading(report),
        swarm=None if report.summary is None else _chart_of_summary(report),
        synthetic=_synthetic(report),
        columns=_columns(report),
        predicted=_predicted(report),
        costs=_costs(report),
        promise=promise(report),
        protected=_protected(report),
        public=list(dict.fromkeys(fact for receipt in report.receipts for fact in receipt.public)),
        outside=list(dict.fromkeys(str(o) for r in report.receipts for o in r.request.get("outside", []))),
        glossary=GLOSSARY,
        first=report.receipts[0],
        dates=sorted({receipt.entry.committed_at[:10] for receipt in report.receipts}),
        software=report.receipts[0].software,
        guarantees=list(dict.fromkeys(f"{one.label}. {one.short_guarantee}" for one in report.receipts)),
    )


def report_card(report: Report) -> str:
    """The report in a notebook: what came out, and where the page is."""
    return fill("report_card.html", report=report)


# Both intervals -------------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Bar:
    """One figure, with the places of both intervals in a bar that is WIDTH wide."""

    doubt: Doubt
    noise: tuple[float, float]
    sample: tuple[float, float] | None
    value: float

    @classmethod
    def of(cls, doubt: Doubt, every: Sequence[Doubt]) -> Bar:
        """Figures of one kind share a scale, so that groups can be compared."""
        alike = [one for one in every if one.what == doubt.what]
        places = [place for one in alike for place in (*one.noise, *(one.sample or ()))]
        low, high = min(places), max(places)
        span = max(high - low, 1e-9)
        low, span = low - 0.06 * span, 1.12 * span

        def at(interval: tuple[float, float]) -> tuple[float, float]:
            start, end = (WIDTH * (x - low) / span for x in interval)
            return round(start, 1), round(max(end - start, 1.5), 1)

        return cls(
            doubt, at(doubt.noise), doubt.sample and at(doubt.sample), round(WIDTH * (doubt.value - low) / span, 1)
        )

    def written(self, value: float) -> str:
        low, high = self.doubt.noise if self.doubt.sample is None else self.doubt.sample
        if not self.doubt.percent:
            return f"{value:.3g}"
        digits = 1 if min(high - low, self.doubt.noise[1] - self.doubt.noise[0]) < 0.02 else 0
        return f"{100 * value:.{digits}f} %"


# Charts of what is read off -------------------------------------------------------------------------------------------


def _chart_of_bands(curves: Any) -> Chart:
    low, high = curves.bands.min(), curves.bands.max()
    words = f"{curves.title}: bands that hold shares of synthetic rows, from {low:.3g} to {high:.3g}."
    return chart_from(curves.plot, (6.4, 4.6), curves.title, words)


def _chart_of_reading(report: Report) -> Chart:
    reading = report.surface
    assert reading is not None
    named = " and ".join(report.names.title(axis.feature) for axis in reading.axes)
    title = f"Mean prediction by {named}, read off synthetic rows"
    found = chart_from(reading.plot, (6.4, 4.6), title, f"{title}: a map of {len(reading.values)} values.")
    return Chart(title, found.svg, found.notes, found.broad)


def _chart_of_summary(report: Report) -> Chart:
    summary = report.summary
    assert summary is not None
    first = ", ".join(summary.names.title(summary.features[j]) for j in summary.order[:3])
    figure = summary.plot(titled=False)
    svg = svg_text(figure, f"{summary.title}. Most moved by {first}.")
    return Chart(summary.title, svg.replace("<svg", f'<svg width="{72 * figure.get_figwidth():.0f}"', 1), broad=True)


def _sampled(report: Report, curves: Any) -> str:
    """How far the curve may be off for privacy noise, and how far another sample would move it."""
    rows = report.receipts[0].rows
    curve = next(one for one in report.effects if one.feature == curves.feature)
    low, high = curve.interval()
    noise = f"Privacy noise: up to ± {float((high - low).max()) / 2:.2g}."
    if rows is None:
        return noise
    moved = float(curves.sampling_error(rows).max())
    return f"{noise} Sampling: {rows:,} other rows of the same population would move this curve by up to ± {moved:.2g}."


def _predicted(report: Report) -> str:
    """What a number of the model is, where it predicts a number."""
    told = [one for one in report.section("performance").results if getattr(one, "task", "") == "regression"]
    return report.names.axis(told[0].spec.target) if told else ""


# Tables ---------------------------------------------------------------------------------------------------------------


def _synthetic(report: Report) -> tuple[list[str], list[list[Any]]] | None:
    """A few synthetic rows."""
    stand_in = next((one for one in report.results if isinstance(one, StandIn) and not one.free), None)
    if stand_in is None:
        return None
    rows = stand_in.rows(SYNTHETIC_ROWS)
    named = stand_in.receipt.called_value
    lines = [
        [_rounded(stand_in, name, named(name, value)) for name, value in zip(rows.columns, line, strict=True)]
        for line in rows.to_numpy().tolist()
    ]
    return [report.names.title(str(name)) for name in rows.columns], lines


def _rounded(stand_in: StandIn, name: str, value: Any) -> Any:
    """A number to a thousandth of its declared range: more digits say nothing of a synthetic row."""
    column = domain_from_json(stand_in.receipt.domain or {}).get(name)
    if not isinstance(value, float) or not isinstance(column, Numeric):
        return value
    return round(value, 3 - math.ceil(math.log10(float(column.high) - float(column.low))))


def _columns(report: Report) -> list[list[str]]:
    """The declared columns, as people call them."""
    declared = report.receipts[0].domain
    if declared is None:
        return []
    lines, names = [], report.names
    for name, column in domain_from_json(declared).items():
        if isinstance(column, Categorical):
            shown = [str(names.value(declared, name, value)) for value in column.categories]
            values = ", ".join(shown[:12]) + (f" and {len(shown) - 12} more" if len(shown) > 12 else "")
        else:
            values = ends(column) + (", or missing" if column.keeps_missing else "")
        lines.append([names.axis(name), name, values, names.description(name)])
    return lines


def _costs(report: Report) -> list[list[Any]]:
    """Each release with its epsilon, and the error that was expected."""
    expected = {} if report.forecast is None else {one.line.label: one.line.error for one in report.forecast.outlooks}
    lines = []
    for receipt in report.receipts:
        error = expected.get(receipt.label)
        lines.append(
            [receipt.label, receipt.budget.epsilon_of(receipt.cost), "" if error is None else f"± {_short(error)}"]
        )
    for (_, entry, _), (receipt, cost) in report.earlier.items():
        lines.append([f"entry {entry}, which results here were computed from", receipt.budget.epsilon_of(cost), ""])
    return lines


def _short(value: float) -> str:
    """Two digits that count, and no power of ten that a reader has to know."""
    return f"{float(f'{value:.2g}'):,.0f}" if 100 <= value < 1e9 else f"{value:.2g}"


def _protected(report: Report) -> str:
    """Who is protected, in words of the domain file where it has some."""
    neighbours = report.receipts[0].neighbours
    if report.names.units:
        return f"any one of the {report.names.units}"
    return "any single row" if neighbours.unit is None else f"all rows of any one {neighbours.unit.column} together"


def promise(report: Report) -> list[str]:
    """What the total means, in odds."""
    said = []
    for account, (budget, total) in report.totals.items():
        epsilon = budget.epsilon_of(total)
        factor = f"{math.exp(epsilon):.3g}" if epsilon < 20 else "more than a million"
        delta = "" if budget.delta is None else f", except with a probability of 1 in {1 / float(budget.delta):,.0f}"
        said.append(
            f"Reading this page changes the odds of any guess by at most a factor of {factor}{delta}. That is what "
            f"epsilon = {epsilon:.3g} means, the total of all releases here from the account “{account}”."
        )
    return said


# The plan -------------------------------------------------------------------------------------------------------------


def report_forecast_view(forecast: ReportForecast) -> RenderableType:
    """Each section: its share, the error to expect, and whether that tells anything."""
    verdicts = {True: "useful", False: "may say little", None: ""}
    batch = forecast.batch
    lines = [
        [
            one.section,
            escape(one.line.label),
            percent(one.line.share),
            _number(one.line.epsilon),
            _number(one.line.error),
            verdicts[one.told],
        ]
        for one in forecast.outlooks
    ]
    free = [name for name in forecast.wanted.sections if name not in forecast.wanted.by_section]
    return Group(
        f"Plan of a report for {escape(batch.price)}, {batch.rows:,} rows; "
        f"protects {escape(batch.neighbours.describe())}.",
        _table(["section", "asks for", "share", "epsilon", "error", ""], lines),
        "error: 95 % of the values lie within this of the exact ones.",
        *([f"Free, read off synthetic rows: {', '.join(free)}."] if free else []),
        *map(escape, forecast.doubts),
        *(["Not shown:"] if forecast.left_out else []),
        *(f"  {escape(words)}" for words in forecast.left_out),
    )
