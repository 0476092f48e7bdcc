"""`dpexplain importance` and `dpexplain interactions`: which columns count, and which act together."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated, Any

from dpexplain.cli.marginals import marginals_of
from dpexplain.cli.methods import needed_target
from dpexplain.cli.options import Call, Features, Guess, MarginalsFile, Mechanism, Price, Target, once, option
from dpexplain.cli.release import release
from dpexplain.project.file import Project
from dpexplain.project.run import Task

if TYPE_CHECKING:
    from dpexplain.core.domain import Domain
    from dpexplain.models import Model


def importance(
    *,
    target: Target = None,
    feature: Features = None,
    marginals: MarginalsFile = None,
    price: Price,
    loss: Annotated[str, option("--loss", "NAME", "squared, absolute, log or accuracy.")] = "squared",
    limit: Annotated[
        str, option("--limit", "NAME", "What large changes are limited for: order, or interval for narrower intervals.")
    ] = "order",
    method: Annotated[str, option("--method", "NAME", "default, or paper for the published design.")] = "default",
    mechanism: Mechanism = None,
    n: Guess = None,
    call: Call,
) -> None:
    """Rank columns by permutation importance: how much worse the model predicts without what a column tells.

    All columns that the model uses, or those named with --feature, for one price, with the probability that each stands
    above the next. The target must be declared in the domain. Other values come from other rows in small groups, or
    from --marginals that were released before: the order is then more certain at small prices, intervals are wider.
    Large changes are limited, and the intervals contain what that can have cut off.

        dpexplain importance --target income --epsilon 0.5

        dpexplain importance --target income --epsilon 0.5 --marginals explanations/marginals.json
    """
    from dpexplain.methods.permutation_importance import release as permutation_importance

    known = marginals_of(marginals)
    aim = needed_target(target or Project.load(call.project).target)
    options: dict[str, Any] = {"loss": loss, "limit": limit, "method": method, "mechanism": mechanism}

    def ask(_domain: Domain, _model: Model) -> Task:
        request = permutation_importance.PermutationImportance(target=aim, features=once(feature) or None, **options)
        lead = "how much worse the model predicts when the values of one column are replaced by other ones"
        return Task(request, permutation_importance.explain, "Importance", lead, known)

    release(call, price, ask, n=n)


def interactions(
    *,
    feature: Features = None,
    kind: Annotated[str, option("--kind", "NAME", "pairwise, or total: each column with all others.")] = "pairwise",
    parts: Annotated[
        int | None, option("--parts", "N", "Into how many parts the rows are dealt. Default: by forecast.")
    ] = None,
    top: Annotated[int | None, option("--top", "K", "Only the best K, more surely.")] = None,
    price: Price,
    n: Guess = None,
    call: Call,
) -> None:
    """Rank pairs of columns by Friedman's H: how much of their joint effect is not the sum of their own ones.

    The rows are dealt to parts, each part votes, and the votes are counted with noise.

        dpexplain interactions --epsilon 1 --top 5
    """
    from dpexplain.methods.interaction_ranking import release as interaction_ranking

    def ask(_domain: Domain, _model: Model) -> Task:
        options = {"features": once(feature) or None, "kind": kind, "parts": parts, "k": top}
        request = interaction_ranking.InteractionRanking.of_json(options)
        lead = "which columns act together, so that their joint effect is not the sum of their own ones"
        return Task(request, interaction_ranking.explain, "Interactions", lead)

    release(call, price, ask, n=n)
