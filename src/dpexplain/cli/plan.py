"""`dpexplain plan`: the error to expect at an epsilon, or the epsilon for an error, before anything is spent."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from dpexplain.cli.methods import called, parsed, request_of
from dpexplain.cli.options import DEFAULT_PROJECT, Epsilon, Json, ProjectFile, number, option
from dpexplain.cli.report import Reporter
from dpexplain.cli.typed import Place, earlier_results
from dpexplain.errors import InputError
from dpexplain.methods.registry import commands
from dpexplain.project.file import Project, reviewed
from dpexplain.project.run import SOME_SIZES


def plan(
    *,
    rest: Annotated[
        list[str] | None, typer.Argument(metavar="OPTION", help="The options of the explainer's own command.")
    ] = None,
    explainer: Annotated[str, option("--explainer", "NAME", "The command that would release it.")] = "pdp",
    epsilon: Epsilon = None,
    max_error: Annotated[
        str | None, option("--max-error", "X", "Instead of --epsilon: the largest error allowed.")
    ] = None,
    n: Annotated[int | None, option("--n", "ROWS", "About how many rows. Default: three examples.")] = None,
    delta: Annotated[str, option("--delta", "D", "Of the zCDP account that is compared.")] = "1e-6",
    domain: Annotated[Path | None, option("--domain", "FILE", "A domain file instead of the project's.")] = None,
    output: Annotated[str | None, option("--output", "LOW,HIGH", "The model's range instead of the project's.")] = None,
    relation: Annotated[
        str | None, option("--relation", "NAME", "Instead of the project's: replace-one or add-remove.")
    ] = None,
    project: ProjectFile = DEFAULT_PROJECT,
    json: Json = False,
) -> None:
    """Tell the error of a release at an epsilon, or the epsilon for an error. Free: no row is read, no ledger opened.

    What is planned is typed as for its own command: `dpexplain ale --help` lists what there is for ale.

    If the project's model file is there, importance and sketches are tried with it on made-up rows; otherwise the
    forecast knows their noise only, and says so. Loading a model runs the code inside: use only one you trust.

    A pure account and a zCDP account are compared side by side, because the choice is made once: when the account is
    opened (with or without delta in the project file).

        dpexplain plan --feature age --epsilon 0.5 --n 20000

        dpexplain plan --feature age --max-error 0.01

        dpexplain plan --explainer importance --target income --epsilon 0.5

        dpexplain plan --explainer sketch --epsilon 1
    """
    from dpexplain.core.sensitivity import Neighbours, Relation
    from dpexplain.methods.planning import plan as forecast_of
    from dpexplain.render import text as words

    if (epsilon is None) == (max_error is None):
        raise InputError("give exactly one of --epsilon and --max-error.", hint="plan --feature age --epsilon 0.5")
    if explainer not in commands():
        raise InputError(f"unknown explainer {explainer!r}.", hint="use " + ", ".join(commands()))
    method = commands()[explainer]
    typed = parsed(method, rest or [])
    known = Project(project, {}) if domain and output and relation else Project.load(project)
    declared = reviewed(domain) if domain else known.domain()
    neighbours = Neighbours(Relation.parse(relation)) if relation else known.neighbours
    target = typed.get("target") or known.target
    about = earlier_results(method, typed)
    # a score may stand in the table, and a stand-in may do without scores
    modelled = not method.takes_clustering and typed.get("score") is None and typed.get("scores") is not False
    if modelled:
        subject = about["model"] = None if output else known.model_at_hand()
    else:
        assert method.subject is not None
        subject = called(method, method.subject, typed)(known, declared)
    if modelled and subject is None:
        about["output"] = _pair_of_numbers(output) if output else known.output
        about["features"] = [name for name in declared if name != target]
        about["label"] = known.label
    request = request_of(method, typed, Place(declared, target, subject, planned=True))
    forecasts = [
        forecast_of(
            request,
            domain=declared,
            n=size,
            relation=neighbours.relation,
            unit=neighbours.unit,
            rows_hint=known.rows_hint,
            epsilon=number(epsilon, "epsilon"),
            max_error=number(max_error, "max-error"),
            delta=number(delta, "delta"),
            **about,
        )
        for size in ([n] if n is not None else SOME_SIZES)
    ]
    reporter = Reporter(as_json=json)
    reporter.show(words.forecast_view(forecasts), "Nothing was read and nothing was spent.")
    reporter.finish({"forecasts": [forecast.to_json() for forecast in forecasts]})


def _pair_of_numbers(value: str) -> tuple[float, float]:
    try:
        low, high = (float(part) for part in value.split(","))
    except ValueError:
        raise InputError(f"--output takes two numbers; got {value!r}.", hint="--output 0,1") from None
    return low, high
