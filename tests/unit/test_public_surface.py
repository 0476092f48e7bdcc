"""The public names change only on purpose: with this list."""

from __future__ import annotations

import dpexplain as dpx
from dpexplain import errors
from dpexplain.methods.request import Request

NAMES = [
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


def test_all_is_the_written_list():
    assert sorted(dpx.__all__) == sorted(NAMES)
    assert all(hasattr(dpx, name) for name in NAMES)


def test_requests_are_frozen_and_serve_plan():
    for name in dpx.requests.__all__:
        cls = getattr(dpx.requests, name)
        assert issubclass(cls, Request)
        assert cls.model_config["frozen"]


def test_every_error_says_what_to_do_and_whether_budget_was_spent():
    tree = [cls for cls in vars(errors).values() if isinstance(cls, type) and issubclass(cls, dpx.DpexplainError)]
    assert all(cls.__name__ in errors.__doc__ for cls in tree)
    text = str(dpx.InputError("wrong.", hint="do this"))
    assert text == "wrong.\nHint: do this\nNothing was spent."
    assert dpx.InputError("wrong.").to_dict() == {
        "kind": "InputError", "message": "wrong.", "hint": "", "spent": "Nothing was spent."
    }  # fmt: skip
    assert {cls.__name__: cls.exit_code for cls in tree}["BudgetError"] == 3
