"""Every source gives the same clean rows, and no value makes anything raise."""

from __future__ import annotations

import decimal
from decimal import Decimal

import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import dpexplain as dpx
from chosen import chosen
from dpexplain.core.budget import pure
from dpexplain.core.release import Gate
from dpexplain.data.encode import check_type, encode
from dpexplain.data.sources import open_source
from stubs import rows_of

AGE = dpx.Numeric(0, 100, integer=True, missing=40)
SEX = dpx.Categorical(["Female", "Male"], missing="Male")


def all_rows(table: dpx.PrivateTable, columns=None):
    gate = Gate(table.door, pure(1))
    columns = list(table.domain) if columns is None else columns
    parts = list(rows_of(table, gate, columns))
    return {name: np.concatenate([np.empty(0), *(rows[name] for rows in parts)]) for name in columns}


@pytest.fixture(params=["pandas", "polars", "arrow", "batch", "reader", "parquet", "parquet-list", "folder", "csv"])
def source(request, frame, tmp_path):
    arrow = pa.Table.from_pandas(frame)
    paths = [tmp_path / "part-0.parquet", tmp_path / "part-1.parquet"]
    if request.param in ("parquet-list", "folder"):
        pq.write_table(arrow.slice(0, 150), paths[0])
        pq.write_table(arrow.slice(150), paths[1])
    if request.param == "parquet":
        pq.write_table(arrow, paths[0])
    if request.param == "csv":
        frame.to_csv(tmp_path / "table.csv", index=False)
    return {
        "pandas": frame,
        "polars": pl.from_arrow(arrow),
        "arrow": arrow,
        "batch": arrow.to_batches()[0],
        "reader": lambda: pa.RecordBatchReader.from_batches(arrow.schema, arrow.to_batches(max_chunksize=70)),
        "parquet": str(paths[0]),
        "parquet-list": paths,
        "folder": tmp_path,
        "csv": tmp_path / "table.csv",
    }[request.param]


def test_every_source_gives_the_same_rows(make_table, frame, source):
    table = make_table(source)
    assert table.size == len(frame)
    rows = all_rows(table)
    np.testing.assert_array_equal(rows["age"], frame["age"])
    np.testing.assert_array_equal(rows["sex"], (frame["sex"] == "Male").astype(int))
    np.testing.assert_allclose(rows["income"], frame["income"], rtol=1e-12)


def test_every_source_can_be_read_in_small_batches(make_table, frame, source, monkeypatch):
    monkeypatch.setattr("dpexplain.data.table.BATCH_ROWS", 256)
    table = make_table(source, unit=dpx.Unit("person", 2), relation="add-remove")
    clean = [(float(age), int(sex == "Male"), float(x)) for age, sex, x in frame[["age", "sex", "income"]].to_numpy()]
    kept = frame.iloc[chosen(clean, frame["person"].tolist(), 2)]
    assert sorted(all_rows(table, ["age"])["age"]) == sorted(kept["age"])


HOSTILE = [None, float("nan"), float("inf"), -float("inf"), "12", "twelve", b"\xff\xfe", "", 10**400, [1, 2], {"a": 1},
           decimal.Decimal("7"), True, object(), pd.NA, pd.NaT, np.datetime64("NaT"), 1e308, -5, "Male"]  # fmt: skip


class Rude:
    """An object that refuses everything."""

    def __str__(self):
        raise RuntimeError("private value 1234")

    __float__ = __hash__ = __eq__ = __str__


def test_no_python_object_makes_cleaning_raise():
    column = pd.Series([*HOSTILE, Rude()], dtype=object)
    ages = encode(AGE, column)
    assert ((ages >= 0) & (ages <= 100) & (ages == np.rint(ages))).all()
    assert ages[0] == 40  # missing
    assert ages[2] == 100  # infinite: clipped
    assert ages[4] == 12  # a number in a text
    assert ages[5] == 40  # not a number
    codes = encode(SEX, column)
    assert set(codes.tolist()) == {1}


def test_a_hostile_object_column_passes_through_a_whole_release(make_table, frame, model):
    opened = [value for value in HOSTILE if not isinstance(value, np.datetime64)]  # times are refused by their type
    column = pd.Series((opened * 30)[: len(frame)], dtype=object)
    table = make_table(frame.assign(age=column, sex=column), unit=dpx.Unit("person", 3), relation="add-remove")
    assert len(dpx.partial_dependence(table, model, "age", epsilon=1).values) == 10


@pytest.mark.parametrize(
    "array",
    [
        pa.array([5, None, 500], pa.int64()),
        pa.array([5.0, float("nan"), float("inf")], pa.float32()),
        pa.array(["5", "x", "500"]),
        pa.array([b"5", b"\xff", b"500"], pa.binary()),
        pa.array(["5", None, "500"]).dictionary_encode(),
        pa.array([decimal.Decimal(5), None, decimal.Decimal(500)]),
        pa.chunked_array([["5"], [None, "500"]]),
        pa.chunked_array([pa.array(["5", None]).dictionary_encode(), pa.array(["500"]).dictionary_encode()]),
        pa.array([5, 2**63 + 1, 500], pa.uint64()),
    ],
    ids=str,
)
def test_arrow_numbers(array):
    values = encode(AGE, array)
    assert values[0] == 5
    assert values[1] in (40, 100)
    assert values[2] == 100


def test_arrow_categories():
    numbers = dpx.Categorical([1, 2, 3], missing=3)
    assert encode(numbers, pa.array(["1", "2", "9"])).tolist() == [0, 1, 2]
    assert encode(numbers, pa.array([1.0, 2.0, None])).tolist() == [0, 1, 2]
    assert encode(dpx.Categorical(["1", "2"]), pa.array([2, 1, 7])).tolist() == [1, 0, 0]
    assert encode(SEX, pa.nulls(2)).tolist() == [1, 1]
    assert encode(AGE, pa.nulls(2)).tolist() == [40, 40]
    assert encode(AGE, pa.array([True, False, None])).tolist() == [1, 0, 40]
    not_utf8 = pa.array([b"Female", b"\xff"]).cast(pa.string(), safe=False)
    assert encode(SEX, not_utf8).tolist() == [0, 1]


def test_pandas_categories_of_every_kind(make_table, frame):
    mixed = frame.assign(sex=pd.Categorical([1, "Female"] * 200, categories=[1, "Female"]))
    assert all_rows(make_table(mixed), ["sex"])["sex"].tolist() == [0] * 400
    plain = frame.assign(sex=pd.Categorical(["Male", None] * 200))
    assert all_rows(make_table(plain), ["sex"])["sex"].tolist() == [1, 0] * 200


def test_types_that_hold_no_declared_value_are_refused_by_schema():
    with pytest.raises(dpx.errors.TableError, match="declared numeric, but the table stores it as timestamp"):
        check_type("when", AGE, pa.timestamp("us"))
    with pytest.raises(dpx.errors.TableError, match="declared categorical"):
        check_type("list", SEX, pa.list_(pa.int8()))
    check_type("anything", AGE, None)
    check_type("nothing", AGE, pa.null())


@pytest.mark.parametrize("values", [[1, "1"], ["01", 1], [True, "true"], [2**53, 2**53 + 1], [0.5, "0.50"]])
def test_numbers_that_a_table_can_spell_like_another_category_are_refused(make_table, frame, values):
    with pytest.raises(dpx.errors.DomainError, match="declares categories that a table can spell alike"):
        make_table(frame, domain=dpx.Domain({"age": dpx.Categorical([*values, "other"])}))


def test_two_spellings_of_one_number_need_a_column_of_texts():
    codes = dpx.Categorical(["01", "1", "x"], missing="x")
    with pytest.raises(dpx.errors.TableError, match="declares '01', '1', which readers take for one number unless"):
        check_type("code", codes, pa.int64())
    check_type("code", codes, pa.string())
    with pytest.raises(dpx.errors.TableError, match="one number unless"):
        check_type("code", codes, None)
    assert encode(codes, pa.array(["1", "01", "1.0", "y"])).tolist() == [1, 0, 2, 2]
    assert encode(codes, pd.Series([1, "1", True], dtype=object)).tolist() == [2, 1, 2]


@pytest.mark.parametrize(
    "line",
    [
        b"22,Male",
        b"22,Male,4,5",
        b'22,"Male,3',
        b'22,Male,"3',
        b"",
        b"\xff,\x00,3",
        b"22,Male,3\r4",
        b"x" * 3_000_000,
        b'"',
    ],
    ids=["short", "long", "open quote", "open quote at the end", "empty", "bytes", "return", "huge", "quote"],
)
def test_no_csv_line_changes_how_another_one_is_read(make_table, tmp_path, line):
    path = tmp_path / "t.csv"
    before, after = b"21,Male,3\n" * 500, b"29,Female,7\n" * 500
    path.write_bytes(b"\xef\xbb\xbfage,sex,income\n" + before + line + b"\n" + after)
    table = make_table(path)
    assert table.size == 1001
    ages = all_rows(table, ["age"])["age"]
    assert ages[:500].tolist() == [21] * 500
    assert ages[501:].tolist() == [29] * 500


def test_csv_fields(make_table, tmp_path):
    path = tmp_path / "t.csv"
    path.write_bytes(b'age,sex,income\r\n21,"Male","3.5"\r\n,,\r\n28,Female,1e1')
    rows = all_rows(make_table(path))
    assert rows["age"].tolist() == [21, 24, 28]
    assert rows["sex"].tolist() == [1, 0, 0]
    assert rows["income"].tolist() == [3.5, 50, 10]


@pytest.mark.parametrize(
    ("source", "message"),
    [
        (42, "cannot be read from a int"),
        ("nowhere.parquet", "there is no file"),
        (pa.RecordBatchReader.from_batches(pa.schema([("a", pa.int8())]), []), "only once"),
        (lambda: 42, "must return a pyarrow.RecordBatchReader"),
        (pa.table([[1], [2], [3]], names=["a", "b", "a"]), "two columns of the same name: 'a'"),
        (pd.DataFrame([[1, 2, 3, 4]], columns=["a", "b", "b", "a"]), "same name: 'a', 'b'"),
    ],
)
def test_unusable_sources(source, message):
    with pytest.raises(dpx.errors.TableError, match=message):
        open_source(source)


def test_a_name_that_two_columns_have_is_named_in_every_kind_of_source(tmp_path):
    """Names are public, so the error says which. polars itself refuses such a frame; its Arrow stream may not."""
    double = pa.table([[1], [2], [3]], names=["age", "sex", "age"])
    pq.write_table(double, tmp_path / "double.parquet")
    (tmp_path / "double.csv").write_text("age,sex,age\n1,2,3\n")

    class Stream:
        def __arrow_c_stream__(self, schema=None):
            return double.__arrow_c_stream__(schema)

    sources = [double, double.to_pandas(), Stream(), lambda: double.to_reader(), double.to_batches()[0]]
    for source in [*sources, tmp_path / "double.parquet", tmp_path / "double.csv"]:
        with pytest.raises(dpx.errors.TableError, match="same name: 'age'") as refused:
            open_source(source)
        assert "'sex'" not in str(refused.value)


def test_a_missing_number_stays_missing_where_that_is_declared():
    """Whatever the type a reader stored the column in: the code depends on the value and the declaration alone."""
    column = dpx.Numeric(0, 9, integer=True, missing="nan")
    values = [3, None, 12]
    stored = [
        pa.array(values, pa.int64()), pa.array([3.0, np.nan, 12.0]), pa.array(["3", "?", "12"]),
        pa.array(["3", None, "12"]).dictionary_encode(), pd.Series([3, None, 12], dtype=object),
        pd.Series([3, pd.NA, "12.0"], dtype=object),
    ]  # fmt: skip
    for raw in stored:
        assert np.array_equal(encode(column, raw), [3, np.nan, 9], equal_nan=True)


def test_unusable_files(tmp_path):
    bad = tmp_path / "bad.parquet"
    bad.write_text("this is not Parquet")
    with pytest.raises(dpx.errors.TableError, match="not a readable Parquet file"):
        open_source(bad)
    (tmp_path / "notes.txt").write_text("x")
    with pytest.raises(dpx.errors.TableError, match="only Parquet and CSV"):
        open_source(tmp_path / "notes.txt")
    (tmp_path / "empty").mkdir()
    with pytest.raises(dpx.errors.TableError, match="holds no Parquet files"):
        open_source(tmp_path / "empty")
    for name, columns in (("one", ["a"]), ("two", ["b"])):
        pq.write_table(pa.table([[1]], names=columns), tmp_path / f"{name}.parquet")
        (tmp_path / f"{name}.csv").write_text(f"{columns[0]}\n1\n")
    with pytest.raises(dpx.errors.TableError, match="other columns than"):
        open_source([tmp_path / "one.parquet", tmp_path / "two.parquet"])
    with pytest.raises(dpx.errors.TableError, match="different header lines"):
        open_source([tmp_path / "one.csv", tmp_path / "two.csv"])


def test_columns_need_not_be_named_by_text(make_table, frame):
    numbered = frame[["age"]].rename(columns={"age": 0})
    table = make_table(numbered, domain=dpx.Domain({"0": dpx.Numeric(20, 29, integer=True)}))
    np.testing.assert_array_equal(all_rows(table)["0"], frame["age"])
    with pytest.raises(dpx.errors.TableError, match="same name"):
        open_source(pd.DataFrame([[1, 2]], columns=[0, "0"]))


def kept(ids, max_rows=1, size=None):
    """Which rows of a table with this id column are used."""
    column = pa.array(range(len(ids) if size is None else size), pa.int64())
    table = dpx.PrivateTable(
        pa.table({"row": column, "id": ids}),
        domain=dpx.Domain({"row": dpx.Numeric(0, 10**6, integer=True)}),
        budget=dpx.Budget(1),
        relation="add-remove",
        unit=dpx.Unit("id", max_rows),
        ledger="sqlite:///:memory:",
        name="t",
    )
    return all_rows(table)["row"].tolist()


def same(rows, units):
    """Whether one row of each unit is used, and no others."""
    return len(rows) == len(units) and all(len(set(rows) & set(unit)) == 1 for unit in units)


def test_equal_ids_are_one_unit_and_different_ids_are_two():
    repeated = pa.DictionaryArray.from_arrays(pa.array([0, 1, 2, 3]), pa.array(["p", "p", "p", "q"]))
    assert same(kept(repeated), [[0, 1, 2], [3]])
    assert same(kept(pa.array([b"\xff", b"\xfe", b"\xff"], pa.binary())), [[0, 2], [1]])
    assert same(kept(pa.array([1, 2, 1])), [[0, 2], [1]])
    assert kept(pa.array(["a", "A", "a "])) == [0, 1, 2]
    assert same(kept(pa.array(["7", "7.0", " 7", "07", "7.5"])), [[0, 1, 2], [3], [4]])
    mixed = pd.Series([1, "1", "+1", "0x1", Decimal("1.50"), "1.5"], dtype=object)
    objects = pd.DataFrame({"row": range(6), "id": mixed})
    table = dpx.PrivateTable(
        objects,
        domain=dpx.Domain({"row": dpx.Numeric(0, 9, integer=True)}),
        budget=dpx.Budget(1),
        relation="add-remove",
        unit=dpx.Unit("id", 1),
        ledger="sqlite:///:memory:",
        name="t",
    )
    assert same(all_rows(table)["row"].tolist(), [[0, 1, 2, 3], [4, 5]])


def test_rows_without_an_id_are_not_used():
    """Were they one unit, a person without an id would push another one's row out."""
    assert kept(pa.array(["p", None, "q", None])) == [0, 2]
    assert kept(pa.array([1, None, None, 2])) == [0, 3]
    assert kept(pa.array(["p", "nan", "None", " ", "q"])) == [0, 4]
    assert kept(pa.nulls(3)) == []


def test_id_columns_of_strange_types_are_refused_by_schema(make_table, frame):
    for odd in (pd.Timestamp("2020-01-01"), pd.Timedelta(1)):
        with pytest.raises(dpx.errors.TableError, match="declared an id"):
            make_table(frame.assign(person=odd), unit=dpx.Unit("person", 2))
        with pytest.raises(dpx.errors.TableError, match="declared an id"):
            make_table(frame.assign(person=odd), row_id="person")


def test_a_source_that_breaks_while_it_is_counted_says_nothing_of_its_rows(make_table):
    schema = pa.schema([("age", pa.int64()), ("sex", pa.string()), ("income", pa.float64())])

    def broken():
        yield pa.record_batch([[1], ["Male"], [2.0]], schema=schema)
        raise ValueError("row 17 is 1234")

    with pytest.raises(dpx.errors.TableError, match="could not be counted") as error:
        make_table(lambda: pa.RecordBatchReader.from_batches(schema, broken()))
    assert error.value.__context__ is None


def test_a_text_that_arrow_refuses_is_a_value_like_any_other(make_table, frame):
    odd = pd.Series(["Male", "\ud800"] * 200, dtype=pd.StringDtype("python"))
    assert all_rows(make_table(frame.assign(sex=odd)), ["sex"])["sex"].tolist() == [1, 0] * 200
    category = frame.assign(sex=odd.astype("category"))
    assert all_rows(make_table(category), ["sex"])["sex"].tolist() == [1, 0] * 200


def test_columns_of_strange_types_matter_only_when_they_are_declared(make_table, frame):
    strange = frame.assign(extra=np.full(400, 1j), sparse=pd.arrays.SparseArray([0] * 400))
    assert make_table(strange).size == 400
    with pytest.raises(dpx.errors.TableError, match="stores it as"):
        make_table(strange, domain=dpx.Domain({"extra": dpx.Numeric(0, 1)}))


@pytest.mark.parametrize(
    "content",
    [
        b"54,M,7810.35\n20,F,1\n",
        b"P0,2020-11-09\n1,2\n",
        b"",
        b"a;b\n1;2\n",
        b"a,b\r1,2\r3,4\r",
        "a,b\n1,2\n".encode("utf-16"),
    ],
    ids=["numbers", "date", "empty", "semicolons", "return", "utf-16"],
)
def test_a_first_line_that_is_no_header_is_refused_without_quoting_it(tmp_path, content):
    path = tmp_path / "t.csv"
    path.write_bytes(content)
    with pytest.raises(dpx.errors.TableError, match="header line|column names") as error:
        open_source(path)
    assert "7810" not in str(error.value)


def test_unnamed_columns_get_a_name(tmp_path):
    path = tmp_path / "t.csv"
    path.write_text(",age\n0,21\n")
    assert list(open_source(path).types) == ["unnamed_1", "age"]


def test_booleans_as_other_tools_write_them():
    column = dpx.Categorical([False, True])
    assert encode(column, pa.array(["true", "False", "TRUE", "1", "yes"])).tolist() == [1, 0, 1, 1, 0]
    assert encode(column, pa.array([True, False])).tolist() == [1, 0]


def test_an_id_too_large_to_be_written_is_no_id():
    huge = Decimal("1E+999999999")
    frame = pd.DataFrame({"row": range(4), "id": pd.Series([huge, 10**500, huge, 1], dtype=object)})
    table = dpx.PrivateTable(
        frame,
        domain=dpx.Domain({"row": dpx.Numeric(0, 9, integer=True)}),
        budget=dpx.Budget(1),
        relation="add-remove",
        unit=dpx.Unit("id", 1),
        ledger="sqlite:///:memory:",
        name="t",
    )
    assert all_rows(table)["row"].tolist() == [1, 3]


def test_words_for_a_missing_value_are_categories_in_columns_of_texts_only():
    """Arrow makes nulls of "NA" among numbers and leaves it among texts; as the declared default both are the same."""
    school = dpx.Categorical(["1", "2", "NA"])
    check_type("school", school, pa.string())
    for kind in (pa.int64(), None, pa.float64(), pa.null()):
        with pytest.raises(
            dpx.errors.TableError, match="'NA', which readers take for a missing value unless"
        ) as refused:
            check_type("school", school, kind)
        assert "missing=" in refused.value.hint
    check_type("school", dpx.Categorical(["1", "2", "NA"], missing="NA"), pa.int64())


def test_files_of_one_table_may_have_other_types_and_each_is_checked(make_table, tmp_path):
    whole, holed = pd.DataFrame({"age": [21, 22], "id": [1, 2]}), pd.DataFrame({"age": [23, None], "id": [3.0, None]})
    whole.to_parquet(tmp_path / "jan.parquet")
    holed.to_parquet(tmp_path / "feb.parquet")
    files = [tmp_path / "jan.parquet", tmp_path / "feb.parquet"]
    domain = dpx.Domain({"age": AGE})
    assert all_rows(make_table(files, domain=domain))["age"].tolist() == [21, 22, 23, 40]
    with pytest.raises(dpx.errors.TableError, match="floating-point"):
        make_table(files, domain=domain, unit=dpx.Unit("id", 1), relation="add-remove")


def test_dates_are_refused_by_type_because_arrow_drops_the_blanks_around_them():
    days = dpx.Categorical(["2020-01-01", "2020-01-02"])
    with pytest.raises(dpx.errors.TableError, match="stores it as date32"):
        check_type("day", days, pa.date32())


def test_truth_values_are_no_ids(make_table, frame):
    """Readers make one of "true", "TRUE" and "1"."""
    with pytest.raises(dpx.errors.TableError, match="truth values"):
        make_table(frame.assign(person=frame["age"] > 25), unit=dpx.Unit("person", 1), relation="add-remove")


def test_single_precision_finds_the_category_that_was_meant():
    shares = dpx.Categorical([0.3, 0.1, 0.2])
    assert encode(shares, pa.array([0.1, 0.2], pa.float32())).tolist() == [1, 2]


@pytest.mark.parametrize("odd", [7.0, np.float32(7), (1, 2.5), object(), [1], 1j, True, np.bool_(False)])
def test_ids_that_are_floats_or_without_a_spelling_are_refused_among_objects(make_table, frame, odd):
    ids = pd.Series(["a", 1, None, np.nan, b"b"] * 80, dtype=object)
    assert make_table(frame.assign(person=ids), unit=dpx.Unit("person", 1), relation="add-remove").size is None
    ids.iloc[7] = odd
    with pytest.raises(dpx.errors.TableError, match="floating-point|has no spelling|truth values"):
        make_table(frame.assign(person=ids), unit=dpx.Unit("person", 1), relation="add-remove")


def test_minus_zero_is_zero():
    """A whole number has none, a float has: a row that made the column float would turn all zeros around."""
    for column in (dpx.Numeric(-5, 5), dpx.Numeric(-5, 5, integer=True)):
        assert not np.signbit(encode(column, pa.array([-0.0, -0.2 if column.integer else 0.0]))).any()
        assert not np.signbit(encode(column, pd.Series(["-0", "-0.0"], dtype=object))).any()


def test_rows_come_in_even_batches_whatever_the_chunks(make_table, frame):
    small = lambda: pa.Table.from_pandas(frame).to_reader(max_chunksize=7)  # noqa: E731
    table = make_table(small, relation="add-remove")
    sizes = [rows.size for rows in rows_of(table, Gate(table.door, pure(1)), ["age"], 256)]
    assert sizes == [256, 144]
    np.testing.assert_array_equal(all_rows(table, ["age"])["age"], frame["age"])
