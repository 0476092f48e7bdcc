"""`dpexplain ale`: how predictions change along a column."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated, Any

from dpexplain.cli.methods import Place, columns
from dpexplain.cli.options import All, Call, Features, Guess, Mechanism, Method, NoSmooth, Price, option
from dpexplain.cli.release import release
from dpexplain.project.file import Project
from dpexplain.project.run import Task

if TYPE_CHECKING:
    from dpexplain.core.domain import Domain
    from dpexplain.models import Model


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
        place = Place(domain, Project.load(call.project).target, model)
        lead = "how the prediction changes along a column for the rows that have about that value"
        request = AccumulatedEffects(**columns(place, feature=feature, everything=everything), **options)
        return Task(request, explain, "Accumulated effects", lead)

    release(call, price, ask, n=n)
