"""Declared columns: what they refuse when declared, and that no value of any row makes them fail."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import pandas as pd
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp

from dpexplain.columns import column_from_json, domain_from_json
from dpexplain.core.domain import Categorical, Domain, Numeric, PublicRange
from dpexplain.errors import DomainError, InputError

ANY_FLOATS = hnp.arrays(np.float64, st.integers(0, 30), elements=st.floats(allow_nan=True, allow_infinity=True))
BOUNDS = st.tuples(st.floats(-1e300, 1e300), st.floats(-1e300, 1e300)).filter(lambda b: b[0] < b[1])
BAD_BOUNDS = [(1, 0), (1, 1), (0, math.inf), (-math.inf, 0), (0, math.nan), ("0", 1), (None, 1), (0, None), (True, 2)]
TOO_FAR = (-1.7e308, 1.7e308)
OUTPUTS = st.tuples(st.floats(-1e99, 1e99), st.floats(-1e99, 1e99)).filter(lambda b: b[1] - b[0] >= 1e-100)


# --- the output range ---------------------------------------------------------------------------------------------


@given(OUTPUTS, ANY_FLOATS, st.integers(1, 2**20).map(lambda n: 2 * n))
def test_quantized_values_are_levels(bounds: tuple[float, float], values: Any, levels: int) -> None:
    output = PublicRange(*bounds, levels=levels)
    with np.errstate(all="raise", under="ignore"):
        whole = output.quantize(values)
    assert whole.dtype == np.int64
    assert ((whole >= 0) & (whole <= levels)).all()


def test_quantizing() -> None:
    output = PublicRange(-1, 1, levels=10)
    values = np.array([-1, 1, 0, 0.21, -7, 7, math.nan, math.inf, -math.inf])
    assert output.quantize(values).tolist() == [0, 10, 5, 6, 0, 10, 5, 10, 0]
    assert (output.width, output.middle) == (2, 0)


@given(ANY_FLOATS)
def test_quantizing_is_row_by_row_and_monotone(values: Any) -> None:
    output = PublicRange(0.0, 1.0)
    whole = output.quantize(values)
    assert [int(output.quantize(np.array([v]))[0]) for v in values] == whole.tolist()
    finite = ~np.isnan(values)
    order = np.argsort(values[finite], kind="stable")
    assert (np.diff(whole[finite][order]) >= 0).all()


@pytest.mark.parametrize("bounds", [*BAD_BOUNDS, TOO_FAR, (0, 1e-200), (0, 1e150)])
def test_bad_output_ranges(bounds: Any) -> None:
    with pytest.raises(InputError):
        PublicRange(*bounds)


def test_output_range_survives_json() -> None:
    output = PublicRange(0, 1, levels=64)
    assert PublicRange.from_json(output.to_json()) == output
    assert isinstance(output.low, float)


# --- numeric columns ----------------------------------------------------------------------------------------------


@given(BOUNDS, ANY_FLOATS)
def test_cleaning_numbers_never_fails(bounds: tuple[float, float], values: Any) -> None:
    low, high = bounds
    with np.errstate(all="raise"):
        clean = Numeric(low, high).clean(values)
    assert ((clean >= low) & (clean <= high)).all()
    inside = (values >= low) & (values <= high)
    assert (clean[inside] == values[inside]).all()


@given(st.integers(-1000, 1000), st.integers(1, 1000), ANY_FLOATS)
def test_whole_columns_hold_whole_numbers(low: int, width: int, values: Any) -> None:
    column = Numeric(low, low + width, integer=True)
    clean = column.clean(values)
    assert (clean == np.rint(clean)).all()
    assert ((clean >= low) & (clean <= low + width)).all()
    assert column.values == width + 1


def test_missing_numbers() -> None:
    values = np.array([math.nan, 3.0])
    assert Numeric(0, 10).clean(values).tolist() == [5, 3]
    assert Numeric(0, 10, missing=0).clean(values).tolist() == [0, 3]
    assert Numeric(0, 9, integer=True).clean(values).tolist() == [4, 3]
    assert Numeric(0, 10, missing=2.5).missing == 2.5


def test_missing_numbers_that_stay_missing() -> None:
    """NaN is then a declared value; all others are cleaned as ever."""
    column = Numeric(0, 9, integer=True, missing="nan")
    clean = column.clean(np.array([math.nan, 2.6, -5.0, math.inf]))
    assert np.array_equal(clean, [math.nan, 3, 0, 9], equal_nan=True)
    assert (column.keeps_missing, column.missing, column.values) == (True, "nan", 10)
    assert not Numeric(0, 9).keeps_missing
    again = domain_from_json(Domain({"a": column}).to_json())
    assert again["a"] == column
    assert again.digest != Domain({"a": Numeric(0, 9, integer=True)}).digest


@pytest.mark.parametrize("missing", ["NaN", "", "40", math.nan, math.inf, 11, True, np.array([1.0, 2.0])])
def test_bad_defaults_of_numbers(missing: Any) -> None:
    with pytest.raises(DomainError, match="missing"):
        Numeric(0, 10, missing=missing)


@pytest.mark.parametrize("bounds", [*BAD_BOUNDS, TOO_FAR])
def test_bad_numeric_bounds(bounds: Any) -> None:
    with pytest.raises(DomainError):
        Numeric(*bounds)


@pytest.mark.parametrize(
    "settings", [{"missing": 11}, {"missing": -1}, {"missing": math.nan}, {"missing": "0"}, {"missing": True}]
)
def test_bad_default_of_a_number(settings: Any) -> None:
    with pytest.raises(DomainError):
        Numeric(0, 10, **settings)


def test_bounds_of_a_whole_column_are_whole() -> None:
    with pytest.raises(DomainError, match="whole numbers"):
        Numeric(0.5, 3, integer=True)


# --- categorical columns ------------------------------------------------------------------------------------------


@given(hnp.arrays(np.int32, st.integers(0, 30)))
def test_cleaning_codes_never_fails(codes: Any) -> None:
    clean = Categorical(["a", "b", "c"], missing="b").clean(codes)
    assert clean.dtype == np.int32
    assert ((clean >= 0) & (clean < 3)).all()
    known = (codes >= 0) & (codes < 3)
    assert (clean[known] == codes[known]).all()
    assert (clean[~known] == 1).all()


def test_categories_are_plain_values() -> None:
    column = Categorical(["x", "y"])
    assert column.categories == ("x", "y")
    assert column.missing == "x"
    assert Categorical([1, 2.5, "z"], missing=2.5).missing_code == 1


AGES = pd.DataFrame({"age": [18, 94], "city": ["Ulm", "Bonn"], "score": [0.5, 1.5]})


@pytest.mark.parametrize(
    "declare",
    [
        lambda: Numeric(AGES.age.min(), AGES.age.max()),
        lambda: Numeric(0, AGES.score.max()),
        lambda: Numeric(0, 120, missing=AGES.age.median()),
        lambda: Categorical(AGES.city.unique()),
        lambda: Categorical(AGES.age.unique()),
        lambda: Categorical(AGES.city),
        lambda: Categorical(sorted(AGES.age.unique())),
        lambda: Categorical(np.array(["x", "y"])),
    ],
)
def test_a_domain_that_was_read_from_rows_is_refused(declare: Any) -> None:
    with pytest.raises(DomainError, match="looks as if it was read from the rows") as refused:
        declare()
    assert "If this one is public" in refused.value.hint


@pytest.mark.parametrize(
    "values", [[], (), "abc", ["a", "a"], [1, 1.0], [1, True], [None], [math.nan], [math.inf], [["a"]], [object()]]
)
def test_bad_categories(values: Any) -> None:
    with pytest.raises(DomainError):
        Categorical(values)


@pytest.mark.parametrize("missing", ["z", 0, math.nan])
def test_bad_default_of_a_category(missing: Any) -> None:
    with pytest.raises(DomainError, match="not one of"):
        Categorical(["a", "b"], missing=missing)


# --- the domain ---------------------------------------------------------------------------------------------------

DOMAIN = Domain({"age": Numeric(0, 120, integer=True), "sex": Categorical(["f", "m"], missing="m")})


def test_a_domain_is_a_mapping_in_order() -> None:
    assert list(DOMAIN) == ["age", "sex"]
    assert len(DOMAIN) == 2
    assert DOMAIN["age"] == Numeric(0, 120, integer=True)
    assert "Numeric" in repr(DOMAIN)
    assert DOMAIN.column("sex") is DOMAIN["sex"]


def test_an_unknown_feature_lists_the_names() -> None:
    with pytest.raises(InputError, match="'height'") as caught:
        DOMAIN.column("height")
    assert "age, sex" in caught.value.hint


@pytest.mark.parametrize("columns", [{}, {"a": None}, {"a": (0, 1)}, {1: Numeric(0, 1)}])
def test_bad_domains(columns: Any) -> None:
    with pytest.raises(DomainError):
        Domain(columns)


def test_review() -> None:
    DOMAIN.require_review()
    with pytest.raises(DomainError, match="reviewed"):
        Domain({"a": Numeric(0, 1)}, reviewed_by=None).require_review()


def test_peeking_is_said() -> None:
    assert DOMAIN.describe() == "the declared domain"
    peeked = Domain({"a": Numeric(0, 1)}, reviewed_by="Ada", peeked=True)
    assert "looking at the data, reviewed by Ada" in peeked.describe()


def test_domains_survive_json_and_are_identified_by_it() -> None:
    again = domain_from_json(DOMAIN.to_json())
    assert again == DOMAIN
    assert again.digest == DOMAIN.digest
    assert Domain({"age": Numeric(0, 121, integer=True), "sex": DOMAIN["sex"]}).digest != DOMAIN.digest


@pytest.mark.parametrize(
    ("entry", "words"),
    [
        ({}, "type None"),
        ({"type": "text"}, "type 'text'"),
        ({"type": "numeric", "low": 0}, "upper bound"),
        ({"type": "numeric", "low": 0, "high": 1, "bins": 3}, "unknown setting: bins"),
        ({"type": "numeric", "low": 2, "high": 1}, "reversed"),
        ({"type": "categorical"}, "at least one"),
        ({"type": "categorical", "values": []}, "at least one"),
        ({"type": "categorical", "values": ["a"], "low": 0}, "unknown setting: low"),
    ],
)
def test_bad_entries_name_the_column(entry: Any, words: str) -> None:
    with pytest.raises(DomainError, match=words) as caught:
        column_from_json("income", entry)
    assert "'income'" in str(caught.value)
