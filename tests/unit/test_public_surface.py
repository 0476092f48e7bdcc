"""The public names change only on purpose: with this list."""

from __future__ import annotations

import tomllib
from pathlib import Path

import pytest

import dpexplain as dpx
from dpexplain import errors
from dpexplain.methods.request import Request

PROJECT = Path(__file__).parents[2] / "pyproject.toml"
NAMES = [
    "AdaptiveExplainer",
    "Budget",
    "BudgetError",
    "Categorical",
    "Client",
    "Clustering",
    "Date",
    "Domain",
    "DpexplainError",
    "InputError",
    "Model",
    "Numeric",
    "PrivateTable",
    "Query",
    "ReleaseLost",
    "Unit",
    "__version__",
    "accumulated_effects",
    "audit",
    "batch",
    "calculators",
    "compare",
    "design",
    "dp_kmeans",
    "errors",
    "explain_clusters",
    "from_json",
    "generic_plot",
    "influence",
    "interaction_ranking",
    "local_explanation",
    "local_sketch",
    "marginals",
    "open_ledger",
    "partial_dependence",
    "performance",
    "permutation_importance",
    "plan",
    "posterior",
    "progress",
    "quantiles",
    "rank_aggregation",
    "report",
    "requests",
    "results",
    "stand_in",
    "transparency_report",
    "verify",
]


def test_the_stub_file_has_the_written_names_and_no_others():
    assert sorted(dpx.__all__) == NAMES == dir(dpx)
    assert all(hasattr(dpx, name) for name in NAMES)
    assert len(NAMES) <= 50, "think twice: what people need every day stands at the top"


def test_the_version_is_that_of_the_package():
    assert dpx.__version__ == tomllib.loads(PROJECT.read_text())["project"]["version"]


def test_what_left_the_top_is_one_step_below():
    assert dpx.errors.TableError is errors.TableError
    assert dpx.results.Curve.__name__ == "Curve"
    assert dpx.calculators.training_guarantee is not None
    with pytest.raises(AttributeError, match="no attribute 'TableError'"):
        getattr(dpx, "TableError")  # noqa: B009


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
