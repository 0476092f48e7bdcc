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
    from dpexplain.calculators.sampling import amplified_epsilon
    from dpexplain.calculators.training import training_guarantee
    from dpexplain.core.budget import Budget
    from dpexplain.core.domain import Categorical, Domain, Numeric
    from dpexplain.core.sensitivity import Unit
    from dpexplain.data import PrivateTable
    from dpexplain.data.domain_file import load_domain, save_domain
    from dpexplain.engines import progress
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
    from dpexplain.ledger import open_ledger
    from dpexplain.methods.accumulated_effects.release import accumulated_effects
    from dpexplain.methods.adaptive.release import AdaptiveExplainer
    from dpexplain.methods.attributions import Attribution
    from dpexplain.methods.clusters.release import explain_clusters
    from dpexplain.methods.clusters.result import ClusterExplanation
    from dpexplain.methods.curves import Curve, Curves
    from dpexplain.methods.generic_plot.release import generic_plot
    from dpexplain.methods.influence.release import influence
    from dpexplain.methods.influence.result import Influence
    from dpexplain.methods.interaction_ranking.release import interaction_ranking
    from dpexplain.methods.kmeans.release import dp_kmeans
    from dpexplain.methods.local_explanation.release import local_explanation
    from dpexplain.methods.local_sketch.release import local_sketch
    from dpexplain.methods.local_sketch.result import LocalSketch
    from dpexplain.methods.marginals.release import marginals
    from dpexplain.methods.marginals.result import Marginals
    from dpexplain.methods.partial_dependence.release import partial_dependence
    from dpexplain.methods.permutation_importance.release import permutation_importance
    from dpexplain.methods.planning import plan
    from dpexplain.methods.quantiles.release import quantiles
    from dpexplain.methods.quantiles.result import Quantiles
    from dpexplain.methods.rank_aggregation.release import rank_aggregation
    from dpexplain.methods.rankings import Ranking
    from dpexplain.methods.result import from_json
    from dpexplain.methods.transparency.release import transparency_report
    from dpexplain.methods.transparency.result import TransparencyReport, TransparencyReports
    from dpexplain.models import Model
    from dpexplain.models.clustering import Clustering
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
    "calculators.sampling": "amplified_epsilon",
    "calculators.training": "training_guarantee",
    "core.budget": "Budget",
    "core.domain": "Categorical Domain Numeric",
    "core.sensitivity": "Unit",
    "data": "PrivateTable",
    "data.domain_file": "load_domain save_domain",
    "engines": "progress",
    "errors": (
        "BudgetError BudgetWarning DomainError DpexplainError InputError InternalError "
        "LedgerCorrupt LedgerError LedgerTooNew LedgerUnavailable ModelError "
        "ModelWarning ReleaseLost TableError VerificationError"
    ),
    "ledger": "open_ledger",
    "methods.accumulated_effects.release": "accumulated_effects",
    "methods.adaptive.release": "AdaptiveExplainer",
    "methods.attributions": "Attribution",
    "methods.clusters.release": "explain_clusters",
    "methods.clusters.result": "ClusterExplanation",
    "methods.curves": "Curve Curves",
    "methods.generic_plot.release": "generic_plot",
    "methods.influence.release": "influence",
    "methods.influence.result": "Influence",
    "methods.interaction_ranking.release": "interaction_ranking",
    "methods.kmeans.release": "dp_kmeans",
    "methods.local_explanation.release": "local_explanation",
    "methods.local_sketch.release": "local_sketch",
    "methods.local_sketch.result": "LocalSketch",
    "methods.marginals.release": "marginals",
    "methods.marginals.result": "Marginals",
    "methods.partial_dependence.release": "partial_dependence",
    "methods.permutation_importance.release": "permutation_importance",
    "methods.planning": "plan",
    "methods.quantiles.release": "quantiles",
    "methods.quantiles.result": "Quantiles",
    "methods.rank_aggregation.release": "rank_aggregation",
    "methods.rankings": "Ranking",
    "methods.result": "from_json",
    "methods.transparency.release": "transparency_report",
    "methods.transparency.result": "TransparencyReport TransparencyReports",
    "models": "Model",
    "models.clustering": "Clustering",
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
