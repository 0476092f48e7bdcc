"""`dpexplain plan`: the error of a price, or the price of an error, before anything is spent."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

from dpexplain.cli.methods import Place, parameters_of, request_of
from dpexplain.cli.options import (
    DEFAULT_PROJECT,
    Epsilon,
    Features,
    Grid,
    Json,
    Mechanism,
    NoRug,
    Pairs,
    ProjectFile,
    Target,
    number,
    option,
)
from dpexplain.cli.report import Reporter
from dpexplain.errors import InputError
from dpexplain.methods.registry import methods
from dpexplain.project.file import Project
from dpexplain.project.run import SOME_SIZES

if TYPE_CHECKING:
    from dpexplain.core.domain import Domain


def planned() -> list[str]:
    """The commands that can be planned."""
    return sorted(method.command for method in methods().values() if method.command)


def plan(
    *,
    explainer: Annotated[str, option("--explainer", "NAME", f"A command: {', '.join(planned())}.")] = "pdp",
    feature: Features = None,
    pair: Pairs = None,
    epsilon: Epsilon = None,
    max_error: Annotated[
        str | None, option("--max-error", "X", "Instead of --epsilon: the largest error allowed.")
    ] = None,
    n: Annotated[int | None, option("--n", "ROWS", "About how many rows. Default: three examples.")] = None,
    delta: Annotated[str, option("--delta", "D", "Of the zCDP account that is compared.")] = "1e-6",
    grid: Grid = None,
    method: Annotated[
        str,
        option("--method", "NAME", "default, or paper for the published design."),
    ] = "default",
    mechanism: Mechanism = None,
    no_rug: NoRug = False,
    target: Target = None,
    domain: Annotated[Path | None, option("--domain", "FILE", "A domain file instead of the project's.")] = None,
    output: Annotated[str | None, option("--output", "LOW,HIGH", "The model's range instead of the project's.")] = None,
    relation: Annotated[
        str | None, option("--relation", "NAME", "Instead of the project's: replace-one or add-remove.")
    ] = None,
    project: ProjectFile = DEFAULT_PROJECT,
    json: Json = False,
) -> None:
    """Tell the error of a release at a price, or the price of an error. Free: no row is read, no ledger is opened.

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
    found = None if domain and output and relation else Project.load(project)
    declared = _reviewed(domain) if domain else _known(found).domain()
    span = _pair_of_numbers(output) if output else _known(found).output
    neighbours = Neighbours(Relation.parse(relation)) if relation else _known(found).neighbours
    aim = target or (None if found is None else found.target)
    typed = {"feature": feature, "pair": pair, "grid": grid, "method": method, "mechanism": mechanism}
    request = _request(explainer, {**typed, "rug": no_rug, "target": target}, Place(declared, aim))
    model = None if found is None or output else found.model_at_hand()
    forecasts = [
        forecast_of(
            request,
            domain=declared,
            n=size,
            relation=neighbours.relation,
            unit=neighbours.unit,
            rows_hint=None if found is None else found.rows_hint,
            output=span,
            model=model,
            epsilon=number(epsilon, "epsilon"),
            max_error=number(max_error, "max-error"),
            delta=number(delta, "delta"),
            label=None if found is None else found.label,
            features=[name for name in declared if name != aim],
        )
        for size in ([n] if n is not None else SOME_SIZES)
    ]
    reporter = Reporter(as_json=json)
    reporter.show(words.forecast_view(forecasts), "Nothing was read and nothing was spent.")
    reporter.finish({"forecasts": [forecast.to_json() for forecast in forecasts]})


def _request(explainer: str, typed: dict[str, Any], place: Place) -> Any:
    """The request that is planned: what its command would ask for."""
    given = {name: value for name, value in typed.items() if value not in (None, False, [], "default")}
    known = {one.command: one for one in methods().values() if one.command}
    if explainer in known:
        names = {parameter.name for parameter in parameters_of(known[explainer])}
        if "features" in names and "feature" in given:
            given["features"] = given.pop("feature")
    else:
        raise InputError(f"unknown explainer {explainer!r}.", hint="use " + ", ".join(planned()))
    for name in given:
        if name not in names | {"target"}:
            raise InputError(f"--{'no-' * (name == 'rug')}{name} is no option of {explainer}.", hint="leave it out")
    return request_of(known[explainer], {name: value for name, value in given.items() if name in names}, place)


def _known(project: Project | None) -> Project:
    assert project is not None
    return project


def _reviewed(path: Path) -> Domain:
    from dpexplain.data.domain_file import Domain

    domain = Domain.load(path)
    domain.require_review()
    return domain


def _pair_of_numbers(value: str) -> tuple[float, float]:
    try:
        low, high = (float(part) for part in value.split(","))
    except ValueError:
        raise InputError(f"--output takes two numbers; got {value!r}.", hint="--output 0,1") from None
    return low, high
