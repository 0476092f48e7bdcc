"""Every public function says what to wrap when it is handed a bare table or a bare model, and notices a wrong order."""

from __future__ import annotations

import inspect

import numpy as np
import pandas as pd
import pytest

import dpexplain as dpx
from examples import DOMAIN, score

FRAME = pd.DataFrame({"age": [20, 21, 777], "sex": ["Female", "Male", "Male"], "income": [1.0, 2.0, 3.0]})
FUNCTIONS = {
    name: function
    for name in dpx.__all__
    if name not in ("audit", "posterior", "verify", "compare")  # these take no single table and model
    and not name.endswith("Warning")
    and callable(function := getattr(dpx, name))
    and {"table", "model"} & set(inspect.signature(function).parameters)
}
OF_BOTH = [
    name
    for name, function in FUNCTIONS.items()
    if inspect.signature(function).parameters.get("model") is not None
    and inspect.signature(function).parameters["model"].annotation in ("Model", "Model | str | None")
]
REST = {
    "partial_dependence": ("age",),
    "accumulated_effects": ("age",),
    "permutation_importance": ("income",),
    "performance": ("income",),
    "local_explanation": ({"age": 20, "sex": "Female", "income": 1.0},),
    "transparency_report": ({"age": 20, "sex": "Female", "income": 1.0},),
}
OF_A_TABLE = {"generic_plot", "rank_aggregation", "marginals", "quantiles", "dp_kmeans", "explain_clusters", "stand_in"}


class Estimator:
    def predict(self, rows):
        return np.zeros(len(rows))


def call(name, table, model):
    more = {"per_query": 0.1} if name == "AdaptiveExplainer" else {}
    return FUNCTIONS[name](table, model, *REST.get(name, ()), epsilon=0.5, **more)


@pytest.fixture
def table(make_table):
    return make_table(FRAME)


def test_every_explainer_is_tried_here():
    assert set(FUNCTIONS) - {"Model", "plan"} == set(OF_BOTH) | OF_A_TABLE
    assert len(OF_BOTH) == 12


@pytest.mark.parametrize("name", [*OF_BOTH, *sorted(OF_A_TABLE)])
@pytest.mark.parametrize("bare", [FRAME, "people.parquet", FRAME.to_numpy(), dpx.PrivateTable, None, DOMAIN])
def test_a_bare_table_is_told_what_to_wrap(name, bare):
    with pytest.raises(dpx.InputError, match=r"table must be a dpx\.PrivateTable; got ") as caught:
        call(name, bare, "age" if name in OF_A_TABLE else dpx.Model(score, output=(0, 1)))
    assert "dpx.PrivateTable(" in caught.value.hint
    assert "777" not in str(caught.value)


NO_MODELS = [Estimator(), Estimator, score, "age", None]
# of a performance a name is that of a column of scores, and without a model score= names one
NAMED = [(name, bare) for name in OF_BOTH for bare in NO_MODELS[: 3 if name == "performance" else None]]


@pytest.mark.parametrize(("name", "bare"), NAMED)
def test_a_bare_model_is_told_what_to_wrap(name, table, bare):
    with pytest.raises(dpx.InputError, match=r"model must be a dpx\.Model; got ") as caught:
        call(name, table, bare)
    assert "dpx.Model(" in caught.value.hint
    assert caught.value.spent == "Nothing was spent."


@pytest.mark.parametrize("name", OF_BOTH)
def test_swapped_arguments_are_told_their_order(name, table):
    with pytest.raises(dpx.InputError, match="table must be a") as caught:
        call(name, dpx.Model(score, output=(0, 1)), table)
    assert caught.value.hint == f"{name}(table, model, ...): the table comes first"


def test_names_work_as_places_do(table):
    with pytest.raises(dpx.InputError, match="model must be a"):
        dpx.partial_dependence(model=score, table=table, feature="age", epsilon=0.5)
    with pytest.raises(TypeError, match="feature"):  # what Python says about the rest stays
        dpx.partial_dependence(table, dpx.Model(score, output=(0, 1)))


def test_a_plan_is_about_a_request(table):
    with pytest.raises(dpx.InputError, match="a plan is about a request; got an object of type PrivateTable") as caught:
        dpx.plan(table, domain=DOMAIN, n=10, relation="replace-one", epsilon=1)
    assert "dpx.requests." in caught.value.hint
