"""dpexplain: explain machine-learning models and clusterings with differential privacy.

    core/        trusted: budgets, sensitivities, noise, the door
    ledger/      trusted: what was spent and released, hash-chained, in SQLite or PostgreSQL
    data/        rows and what is declared about them          models/   any model, row by row
    engine/      sums over batches on all cores                grids     public grids and cells
    reference    a released distribution, to take values from  requests  what a caller decides, frozen
    explainers/  one file each (influence and importance have several): request, statistic, sensitivity, explain
    clusters/    clusterings as functions, private k-means, explanations of clusters
    plain/       textbook explainers of a part of the rows; never released as they are
    surrogate/   local linear models: coordinates, weights, the exact solve
    games/       influence as a game: sets of inputs, groups of people, outcomes, proven norms
    sampling     what sampling adds to a promise
    training     what noise does for the rows a model was trained on
    binning      bins from a released histogram                losses    bounded losses of a prediction
    planning     price and error before anything is paid       results/  released values and their receipts
    verification a published result against the ledger         smoothing free post-processing
    render/      pictures and pages                            audit/    attacks on our own releases
    design/      data-flow diagrams: where noise must go       cli/      the command `dpexplain`
    errors       what went wrong, and what was spent           demo/     one of each, on one page

An explanation is a pure statistic with a proven sensitivity, released once through one door; everything after the door
is post-processing.
"""

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:  # for editors and type checkers; a test compares with what is found at run time
    from dpexplain import audit, design, requests
    from dpexplain.clusters import Clustering, dp_kmeans, explain_clusters
    from dpexplain.core.budget import Budget
    from dpexplain.core.domain import Categorical, Domain, Numeric
    from dpexplain.core.sensitivity import Unit
    from dpexplain.data import PrivateTable
    from dpexplain.data.domain_file import load_domain, save_domain
    from dpexplain.engine import progress
    from dpexplain.errors import (
        BudgetError,
        BudgetWarning,
        DomainError,
        DpexplainError,
        InputError,
        InternalError,
        LedgerCorrupt,
        LedgerError,
        LedgerTooNew,
        LedgerUnavailable,
        ModelError,
        ModelWarning,
        ReleaseLost,
        TableError,
        VerificationError,
    )
    from dpexplain.explainers.accumulated_effects import accumulated_effects
    from dpexplain.explainers.adaptive import AdaptiveExplainer
    from dpexplain.explainers.generic_plot import generic_plot
    from dpexplain.explainers.influence import influence
    from dpexplain.explainers.interaction_ranking import interaction_ranking
    from dpexplain.explainers.local_explanation import local_explanation
    from dpexplain.explainers.local_sketch import local_sketch
    from dpexplain.explainers.marginals import marginals
    from dpexplain.explainers.partial_dependence import partial_dependence
    from dpexplain.explainers.permutation_importance import permutation_importance
    from dpexplain.explainers.quantiles import quantiles
    from dpexplain.explainers.rank_aggregation import rank_aggregation
    from dpexplain.explainers.transparency import transparency_report
    from dpexplain.ledger import open_ledger
    from dpexplain.models import Model
    from dpexplain.planning import plan
    from dpexplain.results import (
        Attribution,
        ClusterExplanation,
        Curve,
        Curves,
        Influence,
        LocalSketch,
        Marginals,
        Quantiles,
        Ranking,
        TransparencyReport,
        TransparencyReports,
        from_json,
    )
    from dpexplain.sampling import amplified_epsilon
    from dpexplain.training import training_guarantee
    from dpexplain.verification import verify

__all__ = [
    "AdaptiveExplainer",
    "Attribution",
    "Budget",
    "BudgetError",
    "BudgetWarning",
    "Categorical",
    "ClusterExplanation",
    "Clustering",
    "Curve",
    "Curves",
    "Domain",
    "DomainError",
    "DpexplainError",
    "Influence",
    "InputError",
    "InternalError",
    "LedgerCorrupt",
    "LedgerError",
    "LedgerTooNew",
    "LedgerUnavailable",
    "LocalSketch",
    "Marginals",
    "Model",
    "ModelError",
    "ModelWarning",
    "Numeric",
    "PrivateTable",
    "Quantiles",
    "Ranking",
    "ReleaseLost",
    "TableError",
    "TransparencyReport",
    "TransparencyReports",
    "Unit",
    "VerificationError",
    "accumulated_effects",
    "amplified_epsilon",
    "audit",
    "design",
    "dp_kmeans",
    "explain_clusters",
    "from_json",
    "generic_plot",
    "influence",
    "interaction_ranking",
    "load_domain",
    "local_explanation",
    "local_sketch",
    "marginals",
    "open_ledger",
    "partial_dependence",
    "permutation_importance",
    "plan",
    "progress",
    "quantiles",
    "rank_aggregation",
    "requests",
    "save_domain",
    "training_guarantee",
    "transparency_report",
    "verify",
]

# module -> its public names, imported when somebody asks for one; other names are modules themselves
_HOMES = {
    "clusters": "Clustering dp_kmeans explain_clusters",
    "core.budget": "Budget",
    "core.domain": "Categorical Domain Numeric",
    "core.sensitivity": "Unit",
    "data": "PrivateTable",
    "data.domain_file": "load_domain save_domain",
    "engine": "progress",
    "errors": (
        "BudgetError BudgetWarning DomainError DpexplainError InputError InternalError LedgerCorrupt "
        "LedgerError LedgerTooNew LedgerUnavailable ModelError ModelWarning ReleaseLost TableError "
        "VerificationError"
    ),
    "explainers.accumulated_effects": "accumulated_effects",
    "explainers.adaptive": "AdaptiveExplainer",
    "explainers.generic_plot": "generic_plot",
    "explainers.influence": "influence",
    "explainers.interaction_ranking": "interaction_ranking",
    "explainers.local_explanation": "local_explanation",
    "explainers.local_sketch": "local_sketch",
    "explainers.marginals": "marginals",
    "explainers.partial_dependence": "partial_dependence",
    "explainers.permutation_importance": "permutation_importance",
    "explainers.quantiles": "quantiles",
    "explainers.rank_aggregation": "rank_aggregation",
    "explainers.transparency": "transparency_report",
    "ledger": "open_ledger",
    "models": "Model",
    "planning": "plan",
    "results": (
        "Attribution ClusterExplanation Curve Curves Influence LocalSketch Marginals Quantiles Ranking "
        "TransparencyReport TransparencyReports from_json"
    ),
    "sampling": "amplified_epsilon",
    "training": "training_guarantee",
    "verification": "verify",
}


if not TYPE_CHECKING:  # with it, a type checker would believe in any name

    def __getattr__(name: str) -> Any:
        """Import a name when somebody asks for it: `import dpexplain` alone loads nothing heavy, and no attack."""
        home = next((home for home, names in _HOMES.items() if name in names.split()), None)
        try:
            module = import_module(f"dpexplain.{home or name}")
        except ModuleNotFoundError as error:
            if home is None and error.name == f"dpexplain.{name}":
                raise AttributeError(f"module 'dpexplain' has no attribute {name!r}") from None
            raise
        value = module if home is None else getattr(module, name)
        globals()[name] = value  # the next time it is there
        return value


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})
