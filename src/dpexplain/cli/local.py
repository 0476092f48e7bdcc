"""`dpexplain sketch`: pay once for local explanations. `dpexplain local`: explain one record, free from a sketch."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

from dpexplain.cli.explain import Price, Task, prepare_folder, records, release
from dpexplain.cli.report import Reporter, text
from dpexplain.core.domain import Categorical, Domain
from dpexplain.errors import InputError
from dpexplain.explainers import local_explanation, local_sketch
from dpexplain.models import Model
from dpexplain.render import text as words
from dpexplain.render.files import write_results
from dpexplain.results import Attribution, LocalSketch


def sketch(
    reporter: Reporter,
    project: Path,
    *,
    features: Sequence[str],
    price: Price,
    out: Path,
    options: dict[str, Any],
) -> None:
    def task(domain: Domain, model: Model) -> Task:  # noqa: ARG001 - every task is made from both
        request = local_sketch.LocalSketchRequest(features=list(dict.fromkeys(features)) or None, **options)
        lead = "what the model does in each region of the table, from which any record can be explained, free"
        return Task(request, local_sketch.explain, "Local sketch", lead)

    release(reporter, project, task, price, out)
    reporter.show(f"Explain records from it, free: dpexplain local --sketch {text(out)}/local-sketch.json --row ...")


def local(
    reporter: Reporter,
    project: Path,
    *,
    sketch: Path | None,
    row: Sequence[str],
    rows: Path | None,
    prediction: float | None,
    price: Price,
    out: Path,
    options: dict[str, Any],
) -> None:
    """From a sketch: no ledger, no table, no price. Without one: a release of its own."""
    paid = price.epsilon is not None or price.rho is not None
    if (sketch is None) != paid:
        raise InputError(
            "give either --sketch FILE (free) or a price.", hint="`dpexplain sketch` writes such a file, paid once"
        )
    if sketch is not None:
        _from_sketch(reporter, LocalSketch.load(sketch), row, rows, prediction, out)
        return
    if rows is not None or prediction is not None:
        raise InputError("--rows and --prediction belong to --sketch.", hint="--row NAME=VALUE, once for each column")

    def task(domain: Domain, model: Model) -> Task:
        record = record_of(domain, row, model.features(domain))
        lead = "what moved the model's prediction for one record, by a linear model of its neighbourhood"
        request = local_explanation.LocalExplanation(record=record, **options)
        return Task(request, local_explanation.explain, "Local explanation", lead)

    release(reporter, project, task, price, out)


def _from_sketch(
    reporter: Reporter, found: LocalSketch, row: Sequence[str], rows: Path | None, prediction: float | None, out: Path
) -> None:
    if (rows is None) == (not row):
        raise InputError("give one record by --row NAME=VALUE for each column, or several by --rows FILE.")
    prepare_folder(out)
    if rows is None:
        record = record_of(found.space.domain, row, list(found.space.features))
        answers: list[Attribution] = [found.explain(record, prediction=prediction)]
    else:
        answers = [found.explain(record) for record in read_records(rows, found.space.domain, found.space.features)]
    files = write_results(answers, out)
    for answer in answers:
        reporter.show(words.result_view(answer), "")
    reporter.show(
        "Free: computed from released values alone.", f"Files: {text(out)}, a .png and a .json for each record."
    )
    reporter.finish(
        {
            "guarantee": found.receipt.guarantee,
            "entry": found.receipt.entry.sequence,
            "results": [
                {"json": str(path), "png": str(path.with_suffix(".png")), "base": a.base, "table": records(a)}
                for a, path in zip(answers, files, strict=True)
            ],
        }
    )


def record_of(domain: Domain, pairs: Sequence[str], features: Sequence[str]) -> dict[str, Any]:
    """The record that a person typed: NAME=VALUE for every feature."""
    record: dict[str, Any] = {}
    for pair in pairs:
        name, equals, value = pair.partition("=")
        if not equals or name.strip() in record:
            raise InputError(
                f"--row takes NAME=VALUE, once for each column; got {pair!r}.", hint="--row age=40", spent=""
            )
        record[name.strip()] = typed(domain, name.strip(), value.strip())
    missing = [name for name in features if name not in record]
    if missing:
        raise InputError(
            f"the record has no value for {', '.join(missing)}.",
            hint="--row NAME=VALUE, once for each column",
            spent="",
        )
    return {name: record[name] for name in features}


def typed(domain: Domain, name: str, value: str) -> Any:
    """A value as a person types it, in the type that is declared."""
    column = domain.column(name)
    if isinstance(column, Categorical):
        spelled = {str(category): category for category in column.categories}
        return spelled.get(value, value)
    try:
        return float(value)
    except ValueError:
        raise InputError(f"{name}={value!r} is not a number.", spent="") from None


def read_records(path: Path, domain: Domain, features: Sequence[str]) -> list[dict[str, Any]]:
    """The records of a CSV or Parquet file of the caller's own."""
    import pandas as pd

    try:
        frame = pd.read_parquet(path) if path.suffix == ".parquet" else pd.read_csv(path, dtype=str)
    except (OSError, ValueError) as error:
        raise InputError(
            f"{path} cannot be read: {type(error).__name__}.", hint="a CSV or Parquet file", spent=""
        ) from None
    missing = [name for name in features if name not in frame.columns]
    if missing:
        raise InputError(f"{path.name} has no column {', '.join(missing)}.", spent="")
    lines = frame[list(features)].to_dict("records")
    return [
        {
            str(name): typed(domain, str(name), str(value)) if isinstance(value, str) else value
            for name, value in line.items()
        }
        for line in lines
    ]
