"""What every request refuses, by one contract over all that are registered: values of a wrong type or out of range,
prices that are none, columns that are not declared, options that do not exist. Nothing is spent, nothing is recorded.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from fractions import Fraction
from inspect import Parameter, isfunction, signature
from typing import Any, get_args, get_origin

import annotated_types as limits
import numpy as np
import pytest

import dpexplain as dpx
from dpexplain.methods.registry import Method, methods
from dpexplain.methods.request import Names, choices_of, members
from examples import DOMAIN

METHODS = [method for method in methods().values() if method.home.startswith("dpexplain.")]
WIDE = dpx.Domain({**DOMAIN, "outcome": dpx.Numeric(0, 1)})
RECORD = {"age": 25, "sex": "Male", "income": 50.0}
# what a caller has to say; a value that is right for every request that has such a field
NEEDED: Mapping[str, Any] = {
    "feature": "income",
    "target": "outcome",
    "record": RECORD,
    "probs": [0.5],
    "k": 2,
    "explainer": "pdp",
    "ranker": "importance",
    "output": (0.0, 1.0),
    "request": dpx.requests.PartialDependence(feature="income"),
}
COLUMNS = {"feature": "height", "features": ["height"], "attributes": ["height"], "columns": ["height"]}
PRICES: list[tuple[dict[str, Any], str]] = [
    *(({"epsilon": wrong}, "positive, finite") for wrong in (0, -1, float("nan"), float("inf"), "0.5", True)),
    ({"epsilon": np.array([1.0])}, "positive, finite"),
    ({}, "exactly one of epsilon and rho|needs epsilon or rho"),
    ({"epsilon": 1, "rho": 1}, "exactly one of epsilon and rho"),
]


MODEL = dpx.Model(lambda r: r["age"].to_numpy() / 30, output=(0, 1), features=list(DOMAIN), name="m", version="1")


def halves(rows):
    return (rows["age"] >= 25).map({True: "old", False: "young"})


OTHER = dpx.Model(lambda r: r["age"].to_numpy() / 31, output=(0, 1), features=list(DOMAIN), name="m", version="2")


class Odd:
    def __repr__(self) -> str:
        return "a secret row"


def public_function(method: Method) -> Any:
    """The function of `dpexplain` that makes this request, or nothing where only a class does."""
    named = [getattr(dpx, name) for name in dpx.__all__]
    return next((one for one in named if isfunction(one) and one.__module__.startswith(f"{method.home}.")), None)


def needed(method: Method) -> dict[str, Any]:
    options = {name: NEEDED[name] for name, field in method.request.model_fields.items() if field.is_required()}
    return options | ({"target": "outcome"} if options.get("ranker") == "importance" else {})


def ask(method: Method, table: dpx.PrivateTable, options: Mapping[str, Any], **price: Any) -> None:
    """As a caller would: by the public function, or else by the request."""
    function = public_function(method)
    if function is None:
        method.request(**options)
        return
    taken = signature(function).parameters
    usual = {"row": RECORD, "clustering": halves}
    required = {name: usual[name] for name in usual if name in taken and taken[name].default is Parameter.empty}
    if "model" in taken:
        required["model"] = [MODEL, OTHER] if method.name == "compare" else MODEL
    if "clustering" in taken:
        required["labels"] = ["young", "old"]
    function(table, **{**required, **options, **price})


def wrong_values(field: Any) -> list[Any]:
    """Values that a field of this type must refuse."""
    kinds = list(members(field.annotation))
    plain = {kind for kind in kinds if isinstance(kind, type)}
    words = choices_of(field.annotation)
    lists = any(get_origin(kind) in (list, Sequence, tuple, Mapping) for kind in kinds)
    wrong: list[Any] = [] if Any in kinds else [Odd()]
    if words and str not in plain:
        wrong.append("magic")
    if plain & {int, float, Fraction} and bool not in plain:
        wrong.append(True)
        wrong += [] if str in plain or words else ["many"]
    if int in plain and float not in plain:
        wrong.append(2.5)
    if plain == {bool}:
        wrong += ["yes", 1]
    if plain == {str} and not lists:
        wrong.append(7)
    if field.annotation == Names or any(get_origin(kind) is Sequence and get_args(kind) == (str,) for kind in kinds):
        wrong.append([7])
    facts = [fact for item in flat(field) for fact in (getattr(item, "metadata", None) or [item])]
    for fact in facts:
        if isinstance(fact, limits.Ge):
            wrong += [fact.ge - 1, float("nan")] if float in plain else [fact.ge - 1]
        elif isinstance(fact, limits.Gt):
            wrong += [fact.gt, float("nan")]
        elif isinstance(fact, limits.Le):
            wrong.append(fact.le + 1)
        elif isinstance(fact, limits.Lt):
            wrong.append(fact.lt)
    return wrong


def flat(field: Any) -> list[Any]:
    """The limits of a field, also those that stand inside a union."""
    facts, kinds = list(field.metadata), [field.annotation]
    while kinds:
        kind = kinds.pop()
        facts += getattr(kind, "__metadata__", ())
        kinds += [part for part in get_args(kind) if not isinstance(part, str | int)]
    return facts


FIELDS = [
    pytest.param(method, name, id=f"{method.name}-{name}")
    for method in METHODS
    for name, field in method.request.model_fields.items()
    if wrong_values(field)
]


@pytest.fixture
def table(make_table, frame):
    """A table whose ledger must stay as it is."""
    table = make_table(frame.assign(outcome=0.5), domain=WIDE, budget=dpx.Budget(10, 1e-6))
    before = table.ledger.anchor()
    yield table
    assert table.ledger.anchor() == before
    assert table.ledger.statement(table.name).spent.amount == 0


@pytest.mark.parametrize(("method", "name"), FIELDS)
def test_a_value_that_a_field_cannot_have(table, method, name):
    for value in wrong_values(method.request.model_fields[name]):
        with pytest.raises(dpx.InputError) as error:
            ask(method, table, needed(method) | {name: value}, epsilon=1)
        said = str(error.value)
        assert name.rstrip("s") in said, said
        assert "Nothing was spent" in said
        assert any(word in said for word in ("must be", "unknown", " is a ", "are ")), said
        assert "secret" not in said


def test_every_kind_of_field_is_tried():
    tried = {parameter.values[1] for parameter in FIELDS}
    assert {"grid", "features", "mechanism", "seed", "cells", "smooth", "clip", "anchor", "parts", "target"} <= tried
    assert len(FIELDS) > 90


@pytest.mark.parametrize("method", METHODS, ids=lambda method: method.name)
class TestEveryMethod:
    def test_prices(self, table, method):
        if public_function(method) is None:
            return
        for price, message in PRICES:
            with pytest.raises(dpx.InputError, match=message) as error:
                ask(method, table, needed(method), **price)
            assert "Nothing was spent" in str(error.value)

    def test_a_column_that_is_not_declared(self, table, method):
        for name in COLUMNS.keys() & method.request.model_fields.keys():
            if public_function(method) is not None:
                with pytest.raises(dpx.InputError, match="unknown feature 'height'") as error:
                    ask(method, table, needed(method) | {name: COLUMNS[name]}, epsilon=1)
                assert "declared columns: age, sex, income" in str(error.value)

    def test_names(self, method):
        for name, field in method.request.model_fields.items():
            if field.annotation == Names or name in ("features", "attributes", "columns"):
                for wrong, message in (("age", "list of names"), ([], "list of names"), (["age", "age"], "twice")):
                    with pytest.raises(dpx.InputError, match=message):
                        method.request(**needed(method) | {name: wrong})

    def test_a_misspelt_option(self, method):
        for name in method.request.model_fields:
            with pytest.raises(dpx.InputError, match=f"there is no option '{name}x'") as error:
                method.request(**needed(method) | {f"{name}x": 1})
            assert f"did you mean {name}?" in error.value.hint

    def test_noise_that_the_account_cannot_pay_for(self, make_table, frame, method):
        """Gaussian noise in a pure account; and whatever needs it."""
        gaussian = {"mechanism": "discrete-gaussian"} if "mechanism" in method.request.model_fields else {}
        if public_function(method) is None or not (gaussian or method.needs_delta):
            return
        table = make_table(frame.assign(outcome=0.5), domain=WIDE)
        with pytest.raises(dpx.InputError, match="pure account|needs an account with a delta") as error:
            ask(method, table, needed(method) | gaussian, epsilon=1)
        assert method.needs_delta is ("delta=1e-6" in error.value.hint)
        with pytest.raises(dpx.InputError, match="counts pure epsilon"):
            ask(method, table, needed(method), rho=0.1)
        assert table.ledger.statement(table.name).spent.amount == 0
