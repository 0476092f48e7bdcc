"""`dpexplain sketch`: pay once for local explanations. `dpexplain local`: explain one record, free from a sketch."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

from dpexplain.cli.options import Call, Features, Guess, Price, Row, once, option
from dpexplain.cli.release import records, release, show_results
from dpexplain.cli.report import text
from dpexplain.cli.typed import read_records, record_of
from dpexplain.errors import InputError
from dpexplain.project.run import Task, prepare_folder

if TYPE_CHECKING:
    from dpexplain.core.domain import Domain
    from dpexplain.methods.attributions import Attribution
    from dpexplain.methods.local_sketch.result import LocalSketch
    from dpexplain.models import Model


def sketch(
    *,
    feature: Features = None,
    cells: Annotated[int | None, option("--cells", "K", "Into how many cells. Default: by forecast.")] = None,
    price: Price,
    n: Guess = None,
    call: Call,
) -> None:
    """Release a sketch of the model on the table, and write it to a file.

    From the file any record can be explained with `dpexplain local --sketch`, as often as you like, without the table,
    the model or the ledger, and free: the file holds released values only. The account needs a delta.

        dpexplain sketch --epsilon 1
    """
    from dpexplain.methods.local_sketch import release as local_sketch
    from dpexplain.methods.local_sketch.request import LocalSketchRequest

    def ask(_domain: Domain, _model: Model) -> Task:
        request = LocalSketchRequest(features=once(feature) or None, cells=cells)
        lead = "what the model does in each region of the table, from which any record can be explained, free"
        return Task(request, local_sketch.explain, "Local sketch", lead)

    written = release(call, price, ask, n=n).files.results[0]
    call.reporter.show(f"Explain records from it, free: dpexplain local --sketch {text(written)} --row ...")


def local(
    *,
    sketch: Annotated[Path | None, option("--sketch", "FILE", "A file that `dpexplain sketch` wrote.")] = None,
    row: Row = None,
    rows: Annotated[Path | None, option("--rows", "FILE", "Several records: CSV or Parquet. With --sketch.")] = None,
    prediction: Annotated[
        float | None, option("--prediction", "X", "The model's own answer, to show beside it. With --sketch.")
    ] = None,
    price: Price,
    method: Annotated[str, option("--method", "NAME", "Without a sketch: auto, moments or gradient.")] = "auto",
    n: Guess = None,
    call: Call,
) -> None:
    """Explain what moved the prediction for one record.

    With --sketch: free, from a file, without the table. Without: a release of its own for a price. The guarantee is
    about the rows of the table; the record that is explained is yours, and it is not protected.

        dpexplain local --sketch explanations/local-sketch.json --row age=40 --row sex=female

        dpexplain local --row age=40 --row sex=female --epsilon 0.5
    """
    from dpexplain.methods.local_explanation import release as local_explanation
    from dpexplain.methods.local_explanation.request import LocalExplanation
    from dpexplain.methods.local_sketch.result import LocalSketch

    if (sketch is None) != price.given:
        raise InputError(
            "give either --sketch FILE (free) or a price.", hint="`dpexplain sketch` writes such a file, paid once"
        )
    if sketch is not None:
        _from_sketch(call, LocalSketch.load(sketch), row or [], rows, prediction)
        return
    if rows is not None or prediction is not None:
        raise InputError("--rows and --prediction belong to --sketch.", hint="--row NAME=VALUE, once for each column")

    def ask(domain: Domain, model: Model) -> Task:
        record = record_of(domain, row or [], model.features(domain))
        lead = "what moved the model's prediction for one record, by a linear model of its neighbourhood"
        request = LocalExplanation.of_json({"record": record, "method": method})
        return Task(request, local_explanation.explain, "Local explanation", lead)

    release(call, price, ask, n=n)


def _from_sketch(
    call: Call, found: LocalSketch, row: Sequence[str], rows: Path | None, prediction: float | None
) -> None:
    """No ledger, no table, no price."""
    from dpexplain.render.files import write_results

    if (rows is None) == (not row):
        raise InputError("give one record by --row NAME=VALUE for each column, or several by --rows FILE.")
    prepare_folder(call.out)
    if rows is None:
        record = record_of(found.space.domain, row, list(found.space.features))
        answers: list[Attribution] = [found.explain(record, prediction=prediction)]
    else:
        answers = [found.explain(record) for record in read_records(rows, found.space.domain, found.space.features)]
    files = write_results(answers, call.out)
    show_results(call, answers)
    call.reporter.show(
        "Free: computed from released values alone.", f"Files: {text(call.out)}, a .png and a .json for each record."
    )
    call.reporter.finish(
        {
            "guarantee": found.receipt.guarantee,
            "entry": found.receipt.entry.sequence,
            "results": [
                {
                    "json": str(path),
                    "png": str(path.with_suffix(".png")),
                    "base": a.base,
                    "prediction": a.prediction,
                    "table": records(a.to_frame()),
                }
                for a, path in zip(answers, files, strict=True)
            ],
        }
    )
