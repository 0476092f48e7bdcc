"""`dpexplain pdp` and `dpexplain ale`: how predictions change with a column."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Annotated, Any

from dpexplain.cli.options import (
    All,
    Call,
    Features,
    Grid,
    Guess,
    Mechanism,
    Method,
    NoRug,
    NoSmooth,
    Pairs,
    Price,
    once,
    option,
)
from dpexplain.cli.project import Project
from dpexplain.cli.release import Task, release
from dpexplain.errors import InputError

if TYPE_CHECKING:
    from dpexplain.core.domain import Domain
    from dpexplain.methods.partial_dependence.request import Feature, PartialDependence
    from dpexplain.models import Model


def pdp(
    *,
    feature: Features = None,
    pair: Pairs = None,
    everything: All = False,
    price: Price,
    grid: Grid = None,
    method: Method = "default",
    mechanism: Mechanism = None,
    no_smooth: NoSmooth = False,
    no_rug: NoRug = False,
    n: Guess = None,
    call: Call,
) -> None:
    """Release the partial dependence of columns: how the mean prediction changes with a column's value.

    Shows the price, the expected error and what is left; then releases, and writes a page, pictures and receipts. The
    price is taken from the budget for ever. The same request again (same versions of table and model) is free.

    The model is loaded from the project's [model] path, a pickle or joblib file, or imported. Loading either runs the
    code inside: use only a model you trust.

        dpexplain pdp --feature age --feature sex --pair age,sex --epsilon 0.5
    """
    from dpexplain.methods.partial_dependence import release as partial_dependence

    options = {"grid": grid, "method": method, "mechanism": mechanism, "smooth": not no_smooth, "rug": not no_rug}

    def ask(domain: Domain, model: Model) -> Task:
        names = _named(feature, everything, domain, model, call)
        request = dependence_request(domain, names, pair, options)
        lead = "how the model's mean prediction changes when one column is set to a value for everybody"
        return Task(request, partial_dependence.explain, "Partial dependence", lead)

    release(call, price, ask, n=n)


def ale(
    *,
    feature: Features = None,
    everything: All = False,
    price: Price,
    bins: Annotated[
        int | None, option("--bins", "N", "At most so many bins of a column. Default: by forecast.")
    ] = None,
    clip: Annotated[float | None, option("--clip", "X", "The largest effect of one row that counts in full.")] = None,
    method: Method = "default",
    mechanism: Mechanism = None,
    no_smooth: NoSmooth = False,
    n: Guess = None,
    call: Call,
) -> None:
    """Release the accumulated effects of columns: how the prediction changes along a column, for the rows there.

    Unlike `pdp`, no row is moved to values that do not go with the rest of it. Several columns share two passes over
    the table. The price is taken from the budget for ever; the same request again is free.

        dpexplain ale --feature age --feature sex --epsilon 0.5
    """
    from dpexplain.methods.accumulated_effects.release import explain
    from dpexplain.methods.accumulated_effects.request import AccumulatedEffects

    options: dict[str, Any] = {
        "bins": bins,
        "clip": clip,
        "method": method,
        "mechanism": mechanism,
        "smooth": not no_smooth,
    }

    def ask(domain: Domain, model: Model) -> Task:
        names = _named(feature, everything, domain, model, call)
        if not names:
            raise InputError("name what to explain.", hint="--feature age, or --all")
        for name in names:
            domain.column(name)
        lead = "how the prediction changes along a column for the rows that have about that value"
        request = AccumulatedEffects(feature=names, **options)
        return Task(request, explain, "Accumulated effects", lead)

    release(call, price, ask, n=n)


def dependence_request(
    domain: Domain, named: Sequence[str], pairs: Sequence[str] | None, options: dict[str, Any]
) -> PartialDependence:
    """The request, its names checked against the domain."""
    from dpexplain.methods.partial_dependence.request import PartialDependence

    views: list[Feature] = list(named)
    for pair in pairs or []:
        names = [name.strip() for name in pair.split(",")]
        if len(names) != 2:
            raise InputError(f"--pair takes two names; got {pair!r}.", hint="--pair age,sex")
        views.append((names[0], names[1]))
    if not views:
        raise InputError("name what to explain.", hint="--feature age, or --pair age,sex")
    request = PartialDependence(feature=views, **options)
    for name in request.features:
        domain.column(name)
    return request


def _named(features: Sequence[str] | None, everything: bool, domain: Domain, model: Model, call: Call) -> list[str]:
    """The features asked for, each once; with --all, all that the model uses, without what it predicts."""
    if everything and features:
        raise InputError("give --feature or --all, not both.")
    if not everything:
        return once(features)
    target = Project.load(call.project).target
    return [name for name in model.features(domain) if name != target]
