"""A report: results by section, what is read off them, and the page."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any

from dpexplain.columns import Names
from dpexplain.core.budget import Budget, Cost
from dpexplain.core.canonical import JsonObject
from dpexplain.errors import DpexplainError, InputError
from dpexplain.methods.clusters.result import ClusterExplanation
from dpexplain.methods.curves import Curve
from dpexplain.methods.influence.person import PersonInfluence
from dpexplain.methods.influence.result import TableInfluence
from dpexplain.methods.kmeans.result import ClusterCentres
from dpexplain.methods.marginals.result import Marginals
from dpexplain.methods.performance.result import Performance
from dpexplain.methods.permutation_importance.result import Importance
from dpexplain.methods.rankings import Ranking
from dpexplain.methods.reports.request import SECTIONS
from dpexplain.methods.reports.sampling import Doubt, doubts
from dpexplain.methods.result import Result, Results
from dpexplain.methods.stand_in.result import StandIn
from dpexplain.receipts import Receipt

if TYPE_CHECKING:
    from dpexplain.methods.individuals import IndividualCurves, Statement
    from dpexplain.methods.posterior import Posterior
    from dpexplain.methods.readings import Reading
    from dpexplain.methods.reports.plan import ReportForecast
    from dpexplain.methods.swarms import Summary

BANDS = 2  # columns whose single predictions are shown
SHAPES = 3  # statements about the shape of one curve
LIKELY = 0.5  # a statement that is less likely is left out
WAYS = 2  # to another prediction that are told for one person
ROWS = "rows"  # the section about where the rows are, with synthetic ones


@dataclass(frozen=True)
class Section:
    """Some results of one kind."""

    name: str
    results: tuple[Result, ...] = ()

    def of(self, *kinds: type) -> list[Any]:
        return [result for result in self.results if isinstance(result, kinds)]


@dataclass(frozen=True, eq=False)
class Report:
    """What was released about a model and a table, in sections, and the page for people.

    results    every result that was paid for; each has its own receipt
    sections   they by question, in the order of the page
    left_out   sentences: what it does not show, and why
    posterior  what all results say together with synthetic rows: free. None where no model or no stand-in is at hand
    forecast   what was expected, where it was released here
    """

    title: str
    results: tuple[Result, ...]
    left_out: tuple[str, ...] = ()
    persons_asked: int = 3
    forecast: ReportForecast | None = None
    how_read: Callable[[], Posterior | None] = field(default=lambda: None, repr=False)
    replayed: bool = True  # whether nothing was spent for it this time
    statement: JsonObject | None = None  # of the account, when the report was made: {"facts": pairs of words}

    @classmethod
    def of_results(
        cls, results: Sequence[Result], *, model: Any = None, title: str | None = None, persons: int = 3
    ) -> Report:
        """A report from results that were paid for already, such as files: free.

        model  what they explain, for what is read off synthetic rows of a stand-in among them
        """
        every = tuple(each for one in results for each in (one if isinstance(one, Results) else [one]))
        if not every or not all(isinstance(one, Result) for one in every):
            raise InputError("a report is made of released results.", hint="dpx.from_json(path) reads one", spent="")
        _require_one(every)
        every = tuple(_with_histograms(one, every) for one in every)
        stand_in = next((one for one in every if isinstance(one, StandIn)), None)

        def how_read() -> Posterior | None:
            if model is None or stand_in is None:
                return None
            from dpexplain.methods.posterior import posterior

            return posterior(stand_in, model, [one for one in every if _explains(one, model)])

        said = () if model is not None and stand_in is not None else (NO_READINGS,)
        return cls(title or _title(every), every, said, persons, None, how_read)

    # What it has ------------------------------------------------------------------------------------------------------

    @cached_property
    def sections(self) -> tuple[Section, ...]:
        found: dict[str, list[Result]] = {}
        for result in self.results:
            found.setdefault(section_of(result), []).append(result)
        names = (*SECTIONS, ROWS)
        return tuple(Section(name, tuple(found[name])) for name in names if name in found)

    def section(self, name: str) -> Section:
        """The results of one section, if there are any."""
        return next((one for one in self.sections if one.name == name), Section(name))

    @cached_property
    def receipts(self) -> list[Receipt]:
        """One receipt for each release that was paid for, and its price once."""
        return list({one.receipt.place: one.receipt for one in self.results}.values())

    @cached_property
    def earlier(self) -> dict[tuple[str, int, str], tuple[Receipt, Cost]]:
        """Releases that results here were computed from and that are not among them, such as a stand-in whose file was
        not named: (account, entry, digest of its values) to a receipt that names it, and its price. What stands here
        tells of them too, so they count.
        """
        found: dict[tuple[str, int, str], tuple[Receipt, Cost]] = {}
        for receipt in self.receipts:
            for one in receipt.earlier:
                found.setdefault(
                    (receipt.entry.account, one["entry"], one["payload"]), (receipt, Cost.from_json(one["cost"]))
                )
        here = {(one.entry.account, one.entry.sequence, one.entry.payload_hash) for one in self.receipts}
        return {place: one for place, one in found.items() if place not in here and one[1].amount}

    @property
    def names(self) -> Names:
        return self.results[0].receipt.names

    @property
    def price(self) -> str:
        """What all of it costs, account by account, in words."""
        return "; ".join(budget.describe(cost) for budget, cost in self.totals.values())

    @cached_property
    def totals(self) -> dict[str, tuple[Budget, Cost]]:
        """By account: what everything here costs together, with what it was computed from."""
        found: dict[str, tuple[Budget, Cost]] = {}
        for receipt, cost in [*((one, one.cost) for one in self.receipts), *self.earlier.values()]:
            account = receipt.entry.account
            found[account] = (receipt.budget, found[account][1] + cost if account in found else cost)
        return found

    @property
    def epsilon(self) -> float:
        """The epsilon that all of it stands for; the sum over accounts, where there are several."""
        return float(sum(budget.epsilon_of(cost) for budget, cost in self.totals.values()))

    # What is read off it: free ----------------------------------------------------------------------------------------

    @cached_property
    def posterior(self) -> Posterior | None:
        try:
            return self.how_read()
        except DpexplainError:
            return None

    @cached_property
    def doubts(self) -> list[Doubt]:
        """Figures with both intervals: of the noise that was added, and of sampling."""
        return [one for perf in self.section("performance").of(Performance) for one in doubts(perf)]

    @cached_property
    def effects(self) -> list[Curve]:
        """Curves of single columns, the one with the largest range first."""
        curves = [one for one in self.section("effects").of(Curve) if len(one.axes) == 1]
        return sorted(curves, key=lambda curve: -float(curve.values.max() - curve.values.min()))

    @cached_property
    def shapes(self) -> dict[str, list[Statement]]:
        """Statements about the shape of each effect, each with its probability."""
        known = self.posterior
        if known is None:
            return {}
        found = {}
        for curve in self.effects:
            if curve.feature in known.stand_in.features:
                said = [one for one in known.shape(curve.feature) if one.probability >= LIKELY]
                found[str(curve.feature)] = said[:SHAPES]
        return found

    @cached_property
    def bands(self) -> list[IndividualCurves]:
        """How single predictions go along the columns with the largest effects."""
        known = self.posterior
        if known is None:
            return []
        names = [str(curve.feature) for curve in self.effects if curve.feature in known.stand_in.features]
        return [known.individual_curves(name) for name in names[:BANDS]]

    @cached_property
    def surface(self) -> Reading | None:
        """The mean prediction over the two columns that act together most."""
        known, rankings = self.posterior, self.section("interactions").of(Ranking)
        if known is None or not rankings:
            return None
        pair = rankings[0].items[0].split(" x ")
        if len(pair) != 2 or not set(pair) <= set(known.stand_in.features):
            return None
        return known.partial_dependence([(pair[0], pair[1])])[0]

    @cached_property
    def summary(self) -> Summary | None:
        """All columns at once: what moves the predictions for synthetic rows."""
        known = self.posterior
        if known is None or not self.persons_asked:
            return None
        try:
            return known.summary()
        except DpexplainError:  # columns that keep missing values have no distances
            return None

    @property
    def persons(self) -> list[Any]:
        """Explanations of single records: synthetic persons, and what was released for others."""
        return list(self.section("persons").results)

    @cached_property
    def ways(self) -> list[list[str]]:
        """For each synthetic person, what would have to be different for another prediction."""
        known = self.posterior
        return [] if known is None else [_ways(known, person) for person in self.persons]

    # For people -------------------------------------------------------------------------------------------------------

    @cached_property
    def in_short(self) -> list[str]:
        """What came out, a sentence for each kind of question."""
        from dpexplain.methods.reports.words import in_short

        return in_short(self)

    def to_html(self, path: str | Path | None = None) -> str:
        """The page: one file, nothing loaded from outside. Also written to `path` if one is given."""
        from dpexplain.render.reports import report_page

        page = report_page(self)
        if path is not None:
            Path(path).write_text(page, encoding="utf-8")
        return page

    def to_json(self, folder: str | Path) -> list[Path]:
        """One file for each result, which can be published and verified by itself; `of_results` reads them again."""
        from dpexplain.render.files import write_results

        return write_results(self.results, Path(folder), pictures=False)

    def _repr_html_(self) -> str:
        from dpexplain.render.reports import report_card

        return report_card(self)

    def __str__(self) -> str:
        return "\n".join([self.title, *(f"- {words}" for words in self.in_short)])

    def __repr__(self) -> str:
        return f"Report({self.title!r}: {', '.join(one.name for one in self.sections)})"


NO_READINGS = (
    "Shapes, surfaces and bands of single rows: they are read off a stand-in with the model, and one of the two is not "
    "at hand."
)


def _ways(known: Posterior, person: Any) -> list[str]:
    """To the other side of the threshold; of a score, to the other side of the mean prediction."""
    if not isinstance(person, PersonInfluence):
        return []
    label, output = known.model.label, known.model.output
    edge = output.middle if label is not None else float(known.weights @ known.predictions)
    wanted = (edge, None) if person.score < edge else (None, edge)
    try:
        return known.counterfactuals(person.record, wanted, most=WAYS).sentences
    except DpexplainError:
        return []


def section_of(result: Result) -> str:
    """The section that a result belongs to."""
    if isinstance(result, Performance):
        return "performance"
    if isinstance(result, Importance) or (isinstance(result, TableInfluence) and result.quantity == "average"):
        return "importance"
    if isinstance(result, Curve):
        return "effects" if len(result.axes) == 1 else "interactions"
    if isinstance(result, Ranking):
        return "interactions"
    if isinstance(result, TableInfluence):
        return "groups"
    if isinstance(result, ClusterExplanation | ClusterCentres):
        return "clusters"
    return ROWS if isinstance(result, StandIn | Marginals) else "persons"


def _require_one(results: Sequence[Result]) -> None:
    """Refuse results of several tables, models or ledgers: nobody could tell which of them a page speaks of, and what
    all of it costs.
    """
    tables = dict.fromkeys(one.receipt.entry.account for one in results)
    asked = (one.receipt.request.get("model") for one in results)
    models = dict.fromkeys(f"{one['name']}, version {one['version']}" for one in asked if one and "version" in one)
    for what, several in (("tables", tables), ("models", models)):
        if len(several) > 1:
            raise InputError(
                f"these results are about several {what}: {'; '.join(several)}."[:300],
                hint="name the files of one of them",
                spent="",
            )
    entries, kinds = dict[int, str](), set[tuple[Any, ...]]()
    for one in (result.receipt for result in results):
        kinds.add((one.neighbours, one.budget.definition, one.budget.delta))
        if entries.setdefault(one.entry.sequence, one.entry.event_hash) != one.entry.event_hash or len(kinds) > 1:
            raise InputError(
                f"these results come from several ledgers, which have an account “{one.entry.account}” each.",
                hint="name the files of one of them",
                spent="",
            )


def _with_histograms(result: Result, every: Sequence[Result]) -> Result:
    """A file of influences names the histograms that values were drawn from: with those, if they are at hand."""
    if not isinstance(result, TableInfluence) or result.marginals is not None:
        return result
    for known in every:
        one = known.marginals if isinstance(known, StandIn) else known
        if isinstance(one, Marginals) and one.receipt.hash_of(one.released) == result.earlier_marginals:
            return result.with_marginals(one)
    return result


def _explains(result: Result, model: Any) -> bool:
    asked = result.receipt.request.get("model")
    return asked is None or asked == model.identity


def _title(results: Sequence[Result]) -> str:
    first = results[0].receipt
    models = [one.receipt.request["model"]["name"] for one in results if one.receipt.request.get("model")]
    table = first.request["table"]["name"]
    return f"What {models[0]} does, and for whom: {table}" if models else f"What was released about {table}"
