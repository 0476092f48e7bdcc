"""A report of a project: planned, released and published; or made of files that were paid for before."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from dpexplain.errors import DpexplainError, InputError
from dpexplain.project.file import Project
from dpexplain.project.run import Files, prepare_folder

if TYPE_CHECKING:
    from dpexplain.data.table import PrivateTable
    from dpexplain.ledger import Statement
    from dpexplain.methods.reports.plan import ReportForecast
    from dpexplain.methods.reports.request import ReportRequest
    from dpexplain.methods.reports.result import Report

MOST_FILES = 500


@dataclass(frozen=True)
class OpenedReport:
    """A report that was planned: ready to be shown and to be released."""

    table: PrivateTable
    forecast: ReportForecast
    out: Path

    @property
    def statement(self) -> Statement:
        """The account as it stands now."""
        return self.table.ledger.statement(self.table.name)

    def release(self) -> Report:
        """Spend the cost, and get the report; the same one again is answered from the ledger, free."""
        from dpexplain.methods.reports.release import release_report
        from dpexplain.render.text import statement_facts

        found = release_report(self.forecast)
        return replace(found, statement={"facts": statement_facts(self.statement)})

    def publish(self, report: Report) -> Files:
        """The page, and a file for each result. What goes wrong here goes wrong after the release, and says so."""
        try:
            return published(report, self.out)
        except Exception as error:  # of results, which hold released values only
            reason = error.strerror if isinstance(error, OSError) else type(error).__name__
            raise InputError(
                f"the report was released, but could not be drawn or written to {self.out}: {reason}.",
                hint="ask again with another --out: the release is kept in the ledger and free from now on",
                spent=f"{self.forecast.price} is spent, and released.",
            ) from None


def published(report: Report, out: Path) -> Files:
    """Write the page and the results of a report."""
    from dpexplain.render.files import write_page, write_results

    files = write_results(report.results, out, pictures=False)
    page = write_page(report.to_html(), report.results, out, "report")
    return Files(page, files, [])


def opened_report(
    known: Project,
    ask: ReportRequest,
    price: dict[str, Any],
    *,
    out: Path,
    clusters: bool,
    analyst: str | None,
    rows: int | None,
    planned: bool,
) -> OpenedReport:
    """The table of a project, opened for a report after all that can be wrong with it was found out.

    clusters  whether the project's clustering is explained
    planned   whether it is only to be shown: no ledger is opened then
    """
    from dpexplain.methods.reports.plan import plan_report

    domain = known.domain()
    if not planned:
        prepare_folder(out)
    clustering = known.clustering(domain) if clusters else None
    table = known.table(domain, analyst=analyst, ledger="sqlite:///:memory:" if planned else None)
    forecast = plan_report(ask, table, known.model(), **price, clustering=clustering, rows=rows)
    if not planned:
        forecast.require_hope()
    return OpenedReport(table, forecast, out)


def report_of_files(paths: Sequence[Path], *, model: Any, title: str | None, persons: int) -> Report:
    """A report of files that dpexplain wrote, or of all such files in a folder: free, without the table."""
    from dpexplain.methods.reports.result import Report
    from dpexplain.methods.result import from_json

    files = [file for path in paths for file in (sorted(path.glob("*.json")) if path.is_dir() else [path])]
    if not files:
        raise InputError(
            f"there is no file of a result in {', '.join(map(str, paths))}.", hint="dpexplain writes them as .json"
        )
    if len(files) > MOST_FILES:
        raise InputError(f"a report is made of at most {MOST_FILES} files; got {len(files)}.", hint="name some of them")
    results = []
    for file in files:
        try:
            results.append(from_json(file))
        except DpexplainError as error:
            error.message = f"{file.name}: {error.message}"
            raise
    return Report.of_results(results, model=model, title=title, persons=persons)
