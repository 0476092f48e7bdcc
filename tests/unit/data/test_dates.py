"""Dates as a declared kind of column: what a value becomes, what a model sees, what people read."""

from __future__ import annotations

import datetime as dt
from typing import Any

import numpy as np
import pandas as pd
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

import dpexplain as dpx
from dpexplain.columns import column_from_json
from dpexplain.data.domain_file import domain_text, parse_domain
from dpexplain.data.encode import check_type, encode
from dpexplain.data.groups import Group
from dpexplain.data.public_random import PublicRandom
from dpexplain.maths.grids import axis_of
from dpexplain.models.predictor import frame_of

DAY = dpx.Date("2015-01-01", "2026-12-31")
MONTH = dpx.Date("2015-01", "2016-12", step="month", missing="2016-03")
YEAR = dpx.Date("1990", "2026", step="year")


def shown(column: dpx.Date, raw: Any) -> list[str]:
    check_type("when", column, raw.type if isinstance(raw, pa.Array) else None)
    return [column.shown(code) for code in encode(column, raw)]


# Declarations ---------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("column", [DAY, MONTH, YEAR, dpx.Date("1500-01-01", "9999-12-31", missing="nan")])
def test_a_declared_date_comes_back_from_files(column: dpx.Date) -> None:
    assert column_from_json("when", column.to_json()) == column
    domain = dpx.Domain({"when": column})
    again = parse_domain(domain_text(domain))
    assert dict(again) == dict(domain)
    assert again.digest == domain.digest


def test_bounds_may_be_dates_of_python_and_have_a_middle() -> None:
    assert dpx.Date(dt.date(2015, 1, 1), dt.date(2026, 12, 31)) == DAY
    assert YEAR.shown(YEAR.missing) == "2008"
    assert MONTH.values == 24
    assert dpx.Date("2015-01", "2026-12", step="month") != DAY


@pytest.mark.parametrize(
    ("low", "high", "options", "says"),
    [
        ("2016-01-01", "2015-01-01", {}, "reversed"),
        ("2015-03-01", "2015-03-31", {"step": "month"}, "one month"),
        ("2015-01", "2016-12", {}, "names no day"),
        (2015, 2016, {"step": "year"}, "not a date"),
        ("soon", "2016-01-01", {}, "not a date"),
        ("2015-02-30", "2016-01-01", {}, "not a date"),
        ("2015-01-01", "2016-01-01", {"step": "week"}, "day, month, year"),
        ("2015-01-01", "2016-01-01", {"missing": "2017-01-01"}, "outside"),
        ("2015-01-01", "2016-01-01", {"missing": "never"}, "not a date"),
        (pd.NaT, "2016-01-01", {}, "not a date"),
    ],
)
def test_what_cannot_be_declared_is_refused(low: Any, high: Any, options: dict[str, Any], says: str) -> None:
    with pytest.raises(dpx.errors.DomainError, match=says):
        dpx.Date(low, high, **options)


# Values ---------------------------------------------------------------------------------------------------------------

MOMENTS = ["2015-03-31", "2015-04-01 23:59:59.999", "2014-12-31T23:00", "2027-01-01", "", None]


def test_a_value_becomes_its_day_clipped_and_missing_ones_the_default() -> None:
    assert shown(DAY, pa.array(MOMENTS)) == [
        "2015-03-31", "2015-04-01", "2015-01-01", "2026-12-31", "2020-12-31", "2020-12-31",
    ]  # fmt: skip
    assert shown(MONTH, pa.array(MOMENTS)) == ["2015-03", "2015-04", "2015-01", "2016-12", "2016-03", "2016-03"]
    assert shown(YEAR, pa.array(MOMENTS)) == ["2015", "2015", "2014", "2026", "2008", "2008"]


@pytest.mark.parametrize(
    "kind", ["object", "date32", "date64", "s", "ms", "us", "ns", "zone", "binary", "dictionary", "text dictionary"]
)
@pytest.mark.parametrize("column", [DAY, MONTH, YEAR])
def test_the_type_in_which_dates_are_stored_does_not_matter(kind: str, column: dpx.Date) -> None:
    days = [dt.date(2015, 3, 31), dt.date(1969, 12, 31), None, dt.date(2016, 2, 29), dt.date(1680, 1, 1)]
    texts = [None if day is None else day.isoformat() for day in days]
    raw: Any
    if kind == "object":
        raw = pd.Series([days[0], pd.Timestamp(days[1]), pd.NaT, np.datetime64("2016-02-29"), texts[4]], dtype=object)
    elif kind == "binary":
        raw = pa.array([None if text is None else text.encode() for text in texts])
    elif "dictionary" in kind:
        raw = pa.array(days if kind == "dictionary" else texts).dictionary_encode()
    elif kind == "zone":
        raw = pa.array(days).cast(pa.timestamp("s", "America/New_York"))  # midnight in UTC, the evening before there
    else:
        raw = pa.array(days).cast(getattr(pa, kind)() if "date" in kind else pa.timestamp(kind))
    assert shown(column, raw) == shown(column, pa.array(texts))


def test_a_moment_with_a_zone_is_its_day_in_utc_however_it_is_written() -> None:
    east = dt.datetime(2015, 3, 31, 23, 30, tzinfo=dt.timezone(dt.timedelta(hours=-5)))
    stored = pa.array([east], pa.timestamp("us", "UTC"))
    for raw in (pa.array(["2015-03-31 23:30:00-05:00"]), stored, pd.Series([east]), pd.Series([east], dtype=object)):
        raw = pa.array(raw) if isinstance(raw, pd.Series) and raw.dtype != object else raw
        assert shown(DAY, raw) == ["2015-04-01"]
    assert shown(DAY, pa.array(["2015-04-01T00:30+01"])) == ["2015-03-31"]


def test_no_value_raises() -> None:
    """Ends of all calendars, numbers, and objects that cannot be compared."""

    class Odd:
        def __eq__(self, other: object) -> bool:
            raise ValueError("row 7")

        __hash__ = None  # type: ignore[assignment]

    zone = dt.timezone(dt.timedelta(hours=-12))
    last = dt.datetime(9999, 12, 31, 23, tzinfo=zone)
    odd = [Odd(), 20150331, 2015.0, True, (1, 2), "2015-3-31", "31/03/2015", "2015-03-31 24:00", "2015-13-01", last]
    raw = pd.Series(pd.array(odd, dtype=object))
    assert shown(DAY, raw) == ["2020-12-31"] * len(odd)
    far = pa.array([2**62, -(2**62)], pa.int64()).cast(pa.timestamp("s"))
    assert shown(DAY, far) == ["2026-12-31", "2015-01-01"]
    assert shown(DAY, pa.array([2**62], pa.timestamp("s")).dictionary_encode()) == ["2026-12-31"]


DATES = (
    r"\A([12]\d|0[01]|9\d)\d\d-(0\d|1[0-3])-[0-3]\d"
    r"([ T][0-2]\d(:?[0-6]\d(:?[0-6]\d(\.\d{1,9})?)?)?( ?Z|[+-][0-2]\d(:?[0-6]\d)?)?)?\Z"
)


@given(text=st.from_regex(DATES))
def test_a_text_that_arrow_takes_for_a_date_is_that_date_for_us(text: str) -> None:
    """Readers decide by all entries whether a column is one of dates, so both forms must give the same code."""
    import io

    import pyarrow.csv as pa_csv

    read = pa_csv.read_csv(io.BytesIO(f"when,end\n{text},1\n".encode()))["when"]
    column = dpx.Date("0000-01-01", "9999-12-31", missing="5000-01-01")
    if not pa.types.is_string(read.type):
        assert encode(column, read).tolist() == encode(column, pa.array([text])).tolist()


@pytest.mark.parametrize("kind", [pa.int64(), pa.float64(), pa.bool_(), pa.decimal128(8)])
def test_a_column_of_numbers_is_refused_with_a_hint(kind: pa.DataType) -> None:
    with pytest.raises(dpx.errors.TableError, match="declared date") as refused:
        check_type("when", YEAR, kind)
    assert "Numeric" in refused.value.hint


def test_times_of_day_and_durations_are_no_dates() -> None:
    for kind in (pa.time32("s"), pa.duration("s")):
        with pytest.raises(dpx.errors.TableError, match="stores it as"):
            check_type("when", DAY, kind)
    rows = pd.DataFrame({"when": pd.Series([dt.time(8), "2020-01-01"], dtype=object), "x": 1.0})
    with pytest.raises(dpx.errors.TableError, match="Python objects of type time"):
        private(rows, DAY)


# Explanations ---------------------------------------------------------------------------------------------------------


def private(rows: Any, column: dpx.Date, **options: Any) -> dpx.PrivateTable:
    domain = dpx.Domain({"when": column, "x": dpx.Numeric(0, 1)})
    settings = {"budget": dpx.Budget(100, delta=1e-6), "relation": "replace-one", "ledger": "sqlite:///:memory:"}
    return dpx.PrivateTable(rows, domain=domain, name="t", **settings | options)


def winter(rows: pd.DataFrame) -> Any:
    return rows["when"].dt.month.isin([12, 1, 2]) * rows["x"]


def test_a_model_sees_timestamps() -> None:
    domain = dpx.Domain({"when": dpx.Date("2015-01", "2016-12", step="month", missing="nan"), "x": dpx.Numeric(0, 1)})
    frame = frame_of(domain, list(domain), PublicRandom(0).rows(domain, 64))
    assert frame["when"].dtype == "datetime64[ns]"
    assert frame["when"].isna().any()
    assert set(frame["when"].dropna().dt.day) == {1}
    far = dpx.Domain({"when": dpx.Date("1500-01-01", "9000-01-01")})
    assert frame_of(far, ["when"], PublicRandom(0).rows(far, 4))["when"].dtype == "datetime64[s]"


def test_the_curve_of_a_date_is_labelled_by_dates() -> None:
    draw = np.random.default_rng(0)
    rows = pd.DataFrame(
        {"when": pd.Timestamp("2015-01-01") + pd.to_timedelta(draw.integers(0, 700, 500), "D"), "x": draw.random(500)}
    )
    table = private(rows, MONTH)
    model = dpx.Model(winter, output=(0, 1), name="winter")
    curve = dpx.partial_dependence(table, model, "when", epsilon=50, smooth=False)
    frame = dpx.from_json(curve.to_json()).to_frame()
    assert frame["when"].tolist() == [f"{y}-{m:02}" for y in (2015, 2016) for m in range(1, 13)]
    cold = frame["when"].str[-2:].isin(["12", "01", "02"])
    assert frame["value"][cold].min() > 0.3
    assert frame["value"][~cold].max() < 0.2
    assert "2015-01..2016-12 and cut to the month; a missing one becomes 2016-03" in " ".join(curve.receipt.cleaning())
    axes = curve.plot()
    axes.figure.canvas.draw()
    assert all(label.get_text()[:2] == "20" for label in axes.get_xticklabels())
    counts = dpx.marginals(table, ["when"], epsilon=10).to_frame()
    assert counts["cell"].tolist()[0] == "2015-01"
    found = dpx.quantiles(table, "when", [0.5], epsilon=10).to_frame()
    assert "2015-10" <= found["value"][0] <= "2016-02"


def test_what_a_person_writes_as_a_date_is_understood() -> None:
    domain = dpx.Domain({"when": MONTH, "x": dpx.Numeric(0, 1)})
    assert axis_of(domain, "when", ["2015-03", "2016-05"], 20).points == (542.0, 556.0)
    with pytest.raises(dpx.errors.InputError, match="2015-01 to 2016-12"):
        axis_of(domain, "when", ["2015-03", "2018-05"], 20)
    group = Group.of({"when": ("2015-07", None)}, domain)
    assert group.describe() == "when is at least 2015-07"
    assert Group.from_json(group.to_json()) == group
    assert Group.of({"when": "2015-07"}, domain).describe() == "when is 2015-07"
    with pytest.raises(dpx.errors.InputError, match="nobody is in such a group"):
        Group.of({"when": "2020-07"}, domain)


def test_a_local_explanation_takes_and_shows_dates() -> None:
    rows = pd.DataFrame({"when": ["2015-07-01", "2016-01-31"] * 50, "x": 0.5})
    model = dpx.Model(winter, output=(0, 1), name="winter")
    found = dpx.local_explanation(private(rows, MONTH), model, {"when": "2016-01", "x": 0.3}, epsilon=10)
    assert "when = 2016-01" in str(dpx.from_json(found.to_json()))
    with pytest.raises(dpx.errors.InputError, match="2015-01 to 2016-12"):
        dpx.local_explanation(private(rows, MONTH), model, {"when": "2020-01", "x": 0.3}, epsilon=10)


def test_what_makes_no_sense_of_dates_is_refused_before_it_is_paid() -> None:
    from sklearn.linear_model import LinearRegression

    rows = pd.DataFrame({"when": ["2015-07-01", "2016-01-31"] * 50, "x": 0.5})
    table = private(rows, MONTH)
    line = LinearRegression().fit([[0, 0], [1, 1]], [0, 1])
    numbers = dpx.Model(line, output=(0, 1), name="line", features=["when", "x"])
    with pytest.raises(dpx.errors.ModelError, match="is a date"):
        dpx.partial_dependence(table, numbers, "when", epsilon=1)
    model = dpx.Model(lambda rows: rows["x"], output=(0, 1), name="x", features=["x"])
    with pytest.raises(dpx.errors.InputError, match="is a date"):
        dpx.permutation_importance(table, model, target="when", epsilon=1)
    with pytest.raises(dpx.errors.InputError, match="groups are made of"):
        dpx.performance(table, model, "x", groups=["when"], epsilon=1)
