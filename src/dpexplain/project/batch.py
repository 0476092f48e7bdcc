"""A batch in a file, and what a command does with it. Paths in it are relative to it.

epsilon = 1.0                            the total; or a max_error for each request
project = "dpexplain.toml"               where table, model and ledger are; this is the default
out = "explanations"                     the folder for results; likewise

[[requests]]                             as many as there are explanations
request = "partial-dependence"           the method, as requests in JSON spell it; then its options
feature = "age"
weight = 2.0                             how much its error matters; 1 for the others
"""

from __future__ import annotations

import tomllib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from dpexplain.errors import DpexplainError, InputError
from dpexplain.methods.registry import method_of, request_from_json
from dpexplain.methods.request import Request, unknown_option
from dpexplain.project.file import Project
from dpexplain.project.run import Files, prepare_folder

if TYPE_CHECKING:
    from dpexplain.data.table import PrivateTable
    from dpexplain.ledger import Statement
    from dpexplain.methods.batches.division import Question
    from dpexplain.methods.batches.forecast import BatchForecast
    from dpexplain.methods.batches.result import Batch

KEYS = "epsilon", "rho", "project", "out", "requests"
OF_BATCH = "weight", "max_error"  # what a request in the file says besides its options
EXAMPLE = '[[requests]] with request = "partial-dependence" and feature = "age"'


@dataclass(frozen=True)
class BatchFile:
    """What stands in a file of a batch."""

    path: Path
    requests: tuple[Request, ...]
    price: Mapping[str, Any]
    weights: Sequence[float | None]
    project: Path
    out: Path

    @classmethod
    def load(cls, path: Path) -> BatchFile:
        try:
            document = tomllib.loads(path.read_text(encoding="utf-8"))
        except (OSError, UnicodeDecodeError):
            raise InputError(f"the batch file {path} cannot be read.", hint=f"it holds epsilon and {EXAMPLE}") from None
        except tomllib.TOMLDecodeError as error:
            raise InputError(f"{path.name} is not valid TOML: {error}.", hint="texts need quotes") from None
        for key in document:
            if key not in KEYS:
                raise unknown_option(key, list(KEYS))
        written = document.get("requests")
        if not isinstance(written, list) or not written or not all(isinstance(one, dict) for one in written):
            raise InputError(f"{path.name} has no requests.", hint=f"write {EXAMPLE}")
        requests = [_request(path, number, one) for number, one in enumerate(written, 1)]
        weights, errors = ([one.get(key) for one in written] for key in OF_BATCH)
        for name in ("project", "out"):
            if not isinstance(document.get(name, "x"), str):
                raise InputError(f"{path.name}: {name} is a path.", hint=f'write {name} = "..."')
        price: dict[str, Any] = {name: document[name] for name in ("epsilon", "rho") if name in document}
        if any(error is not None for error in errors):
            price["max_error"] = errors
        if len(price) != 1:
            raise InputError(
                f"{path.name} needs one of epsilon, rho and a max_error for each request.", hint="write epsilon = 1.0"
            )
        folder = path.absolute().parent
        places = folder / document.get("project", "dpexplain.toml"), folder / document.get("out", "explanations")
        return cls(path, tuple(requests), price, weights, *places)


def _request(path: Path, number: int, written: Mapping[str, Any]) -> Request:
    options = {name: value for name, value in written.items() if name not in OF_BATCH}
    try:
        return request_from_json(options)
    except DpexplainError as error:
        error.message = f"{path.name}, request {number}: {error.message}"
        raise


@dataclass(frozen=True)
class OpenedBatch:
    """A batch that was planned: ready to be shown and to be released."""

    file: BatchFile
    table: PrivateTable
    question: Question
    forecast: BatchForecast
    out: Path

    @property
    def statement(self) -> Statement:
        """The account as it stands now."""
        return self.table.ledger.statement(self.table.name)

    def release(self) -> Batch:
        """Spend the cost, and get the results; the same batch again is answered from the ledger, free."""
        from dpexplain.methods.batches.release import release_batch

        return release_batch(self.question, self.forecast, self.file.requests)

    def publish(self, batch: Batch) -> Files:
        """Files for each result, and one page. What goes wrong here goes wrong after the release, and says so."""
        from dpexplain.receipts import in_brief
        from dpexplain.render.files import write_page, write_results
        from dpexplain.render.html import results_page

        try:
            files = write_results(batch.results, self.out)
            receipt = batch.receipt
            words = (
                f"Shown are {len(batch)} explanations that share one cost. Noise was added on purpose, so that little "
                "can be learned about any single one of the protected units; the shaded bands say how much. "
                f"{receipt.guarantee} Cleaning of the table: {in_brief(receipt.cleaning())}"
            )
            page = results_page(f"Batch, {self.table.name}", words, batch.results)
            return Files(write_page(page, batch.results, self.out), files, [])
        except Exception as error:  # of results, which hold released values only
            reason = error.strerror if isinstance(error, OSError) else type(error).__name__
            raise InputError(
                f"the batch was released, but could not be drawn or written to {self.out}: {reason}.",
                hint="ask again with another --out: the release is kept in the ledger and free from now on",
                spent=f"{self.forecast.price} is spent, and released.",
            ) from None


def opened_batch(
    file: BatchFile, *, project: Path | None, out: Path | None, analyst: str | None, rows: int | None, planned: bool
) -> OpenedBatch:
    """The table of the project, opened for a batch after all that can be wrong with it was found out.

    planned  whether it is only to be shown: no ledger is opened then
    """
    from dpexplain.methods.batches.release import plan_batch

    known = Project.load(file.project if project is None else project)
    domain, folder = known.domain(), file.out if out is None else out
    if not planned:
        prepare_folder(folder)
    clustered = any(method_of(one).takes_clustering for one in file.requests)
    clustering = known.clustering(domain) if clustered and known.has_clustering else None
    table = known.table(domain, analyst=analyst, ledger="sqlite:///:memory:" if planned else None)
    about: dict[str, Any] = {"weights": file.weights, "clustering": clustering, "rows": rows}
    question, forecast = plan_batch(file.requests, table, known.model(), **file.price, **about)
    return OpenedBatch(file, table, question, forecast, folder)
