"""Rows that somebody else reads for us: lazy frames, relations, queries; and what happens when they fail."""

from __future__ import annotations

import pickle
import sqlite3
from collections import Counter

import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import dpexplain as dpx
from dpexplain.core.release import Gate
from dpexplain.data.sources import open_source, origin_of
from stubs import rows_of

SELECT = "SELECT * FROM people -- all of them;"


@pytest.fixture
def url(frame, tmp_path):
    with sqlite3.connect(tmp_path / "people.db") as connection:
        frame.to_sql("people", connection, index=False)
    return f"sqlite:///{tmp_path}/people.db"


@pytest.fixture(params=["lazy", "relation", "url", "engine", "connection", "opened for each pass", "adbc", "hive"])
def source(request, frame, url, tmp_path):
    import sqlalchemy as sa

    path = tmp_path / "people.db"
    if request.param == "relation":
        duckdb = pytest.importorskip("duckdb")
        return duckdb.connect().from_arrow(pa.Table.from_pandas(frame))
    if request.param == "adbc":
        adbc = pytest.importorskip("adbc_driver_duckdb.dbapi")
        connection = adbc.connect()
        request.addfinalizer(connection.close)
        with connection.cursor() as cursor:
            cursor.adbc_ingest("people", pa.Table.from_pandas(frame, preserve_index=False))
        return dpx.Query("SELECT * FROM people", connection)
    if request.param == "connection":
        connection = sqlite3.connect(path)
        request.addfinalizer(connection.close)
        return dpx.Query(SELECT, connection)
    if request.param == "engine":
        engine = sa.create_engine(url)
        request.addfinalizer(engine.dispose)  # noqa: PT021 - the others need no end
        return dpx.Query(SELECT, engine)
    if request.param == "hive":
        for (sex, person), part in frame.groupby(["sex", frame["person"] % 3]):
            folder = tmp_path / "hive" / f"sex={sex}" / f"third={person}"
            folder.mkdir(parents=True)
            part.drop(columns="sex").to_parquet(folder / "part-0.parquet")
        return tmp_path / "hive"
    return {
        "lazy": pl.from_pandas(frame).lazy(),
        "url": dpx.Query(SELECT, url),
        "opened for each pass": dpx.Query(SELECT, lambda: sqlite3.connect(path)),
    }[request.param]


def clean(table, columns=("age", "sex", "income")):
    gate = Gate(table.door, table.cost(epsilon=1))
    batches = list(rows_of(table, gate, list(columns), 64))
    return Counter(zip(*(np.concatenate([rows[name] for rows in batches]).tolist() for name in columns), strict=True))


def test_the_rows_are_those_of_the_frame(make_table, frame, source):
    for protection in ({}, {"unit": dpx.Unit("person", 2), "relation": "add-remove"}):
        table, plain = make_table(source, **protection), make_table(frame, **protection)
        assert table.size == plain.size
        assert clean(table) == clean(plain)
        assert clean(table, ["income"]) == clean(plain, ["income"])


def test_only_the_columns_that_are_needed_are_asked_for(url):
    """The other column is one that cannot be read."""
    broken = dpx.Query(
        "SELECT age, income, json_extract('{', '$.a') AS worse FROM people WHERE 1 = 1 OR '::' = ':a'", url
    )
    (size, raw), *_ = open_source(broken).batches(["income", "age"], 1000)
    assert size == 400
    assert list(raw) == ["income", "age"]


def test_names_are_quoted_as_the_database_wants_it(make_table, tmp_path):
    odd = pd.DataFrame({'an "odd" name': [1, 2, 3], "select": ["a", "b", "a"], "id:x": [1, 2, 3]})
    with sqlite3.connect(tmp_path / "odd.db") as connection:
        odd.to_sql("people", connection, index=False)
    domain = dpx.Domain(
        {'an "odd" name': dpx.Numeric(0, 5), "select": dpx.Categorical(["a", "b"]), "id:x": dpx.Numeric(0, 9)}
    )
    sources = [dpx.Query("SELECT * FROM people;", f"sqlite:///{tmp_path}/odd.db")]
    duckdb = pytest.importorskip("duckdb")
    sources.append(duckdb.connect().from_arrow(pa.Table.from_pandas(odd)))
    for source in sources:
        assert clean(make_table(source, domain=domain), list(domain)) == {(1, 0, 1): 1, (2, 1, 2): 1, (3, 0, 3): 1}


def test_types_that_databases_have(make_table, tmp_path):
    from datetime import date, datetime
    from decimal import Decimal

    rows = [(Decimal("1.5"), memoryview(b"a"), date(2020, 1, 2), True), (None, None, datetime(2021, 1, 1), None)]

    class Cursor:
        description = (("x",), ("c",), ("when",), ("t",))

        def __init__(self):
            self.rest = list(rows)

        def execute(self, sql):
            assert sql == "SELECT 1"

        def fetchmany(self, size):
            part, self.rest = self.rest[:size], self.rest[size:]
            return part

        def close(self):
            pass

    class Connection:
        cursor = Cursor

    domain = dpx.Domain(
        {
            "x": dpx.Numeric(0, 2), "c": dpx.Categorical(["b", "a"]), "when": dpx.Date("2019-01-01", "2022-01-01"),
            "t": dpx.Categorical([False, True]),
        }
    )  # fmt: skip
    table = make_table(dpx.Query("SELECT 1", Connection()), domain=domain)
    assert clean(table, list(domain)) == {(1.5, 1, 18263.0, 1): 1, (1.0, 0, 18628.0, 0): 1}


def test_a_query_with_a_url_can_be_sent_elsewhere_and_says_nothing_of_it(url):
    query = dpx.Query("SELECT * FROM people WHERE age <> 21", url.replace("sqlite://", "sqlite://"))
    assert repr(query) == "Query(...)"
    assert pickle.loads(pickle.dumps(open_source(query))).count() < 400
    secret = open_source(query)
    secret._engine = "postgresql://anna:secret@example.org/people"
    assert "secret" not in origin_of(secret)[0]


def test_the_same_query_under_another_name_is_noticed(make_table, url, tmp_path):
    ledger = f"sqlite:///{tmp_path}/budget.db"
    make_table(dpx.Query(SELECT, url), ledger=ledger, name="one")
    with pytest.raises(dpx.errors.InputError, match="one"):
        make_table(dpx.Query(SELECT, url), ledger=ledger, name="two", separate_from=[])


@pytest.mark.parametrize("wrong", ["", "  ;", 3, None])
def test_what_is_no_query_is_refused(wrong):
    with pytest.raises(dpx.errors.InputError, match="one SELECT statement"):
        dpx.Query(wrong, "sqlite://")
    with pytest.raises(dpx.errors.InputError, match="cannot be asked of"):
        dpx.Query("SELECT 1", 3)


# Faults ---------------------------------------------------------------------------------------------------------------


def lost(table):
    """The error of a release over this table, all of it in words."""
    with pytest.raises(dpx.ReleaseLost) as error:
        dpx.marginals(table, ["age"], epsilon=0.1)
    assert error.value.__context__ is None
    return str(error.value)


class Dropping:
    """A connection that drops after some rows, and tells one of them."""

    def __init__(self, path, after):
        self.inner, self.after = sqlite3.connect(path), after

    def cursor(self):
        return DroppingCursor(self.inner.cursor(), self.after)

    def close(self):
        self.inner.close()


class DroppingCursor:
    def __init__(self, inner, after):
        self.inner, self.after = inner, after

    def __getattr__(self, name):
        return getattr(self.inner, name)

    def fetchmany(self, size):
        self.after -= 1
        if self.after < 0:
            raise OSError("connection dropped after the row of Anna, 37")
        return self.inner.fetchmany(min(size, 50))


def test_a_connection_that_drops_loses_the_release_and_tells_nothing(make_table, url):
    path, after = url.removeprefix("sqlite:///"), [10**6]
    table = make_table(dpx.Query("SELECT * FROM people", lambda: Dropping(path, after[0])), relation="add-remove")
    after[0] = 3
    assert "Anna" not in lost(table)
    after[0] = 10**6  # the next release opens another connection
    assert len(dpx.marginals(table, ["sex"], epsilon=0.1).values) == 2


def test_a_connection_that_drops_while_the_table_is_opened_tells_nothing(make_table, url):
    path = url.removeprefix("sqlite:///")
    with pytest.raises(dpx.errors.TableError, match="cannot be read to its end") as error:
        make_table(dpx.Query("SELECT * FROM people", lambda: Dropping(path, 3)))
    assert "Anna" not in str(error.value)
    assert error.value.__context__ is None


@pytest.mark.parametrize("error", [OSError, RuntimeError, ValueError, KeyError])
def test_a_reader_or_stream_that_breaks_while_the_table_is_opened_tells_nothing(error):
    """Arrow's CSV reader quotes the line on which it fails."""
    schema = pa.schema([("age", pa.int64())])

    def broken():
        yield pa.record_batch([[1, 2]], schema)
        raise error("Anna,37,positive")

    class Stream:
        def __arrow_c_stream__(self, requested_schema=None):
            if error is RuntimeError:
                raise error("Anna,37,positive")
            return pa.RecordBatchReader.from_batches(schema, broken()).__arrow_c_stream__(requested_schema)

    for source in (Stream(), lambda: pa.RecordBatchReader.from_batches(schema, list(broken()))):
        with pytest.raises(dpx.errors.TableError, match="cannot be read") as refused:
            open_source(source)
        assert "Anna" not in str(refused.value)
        assert refused.value.__context__ is None


@pytest.mark.parametrize("opened", [False, True])
def test_a_driver_that_takes_types_from_rows_is_refused(tmp_path, opened):
    """The one row with a text made 12345680000.0 of the number of another person."""
    adbc = pytest.importorskip("adbc_driver_sqlite.dbapi")
    path = str(tmp_path / "people.db")
    with sqlite3.connect(path) as connection:
        connection.execute("CREATE TABLE people (income)")
        connection.executemany("INSERT INTO people VALUES (?)", [(12345678901.123457,), ("unknown",)])
    with adbc.connect(path) as connection:
        query = dpx.Query("SELECT * FROM people", (lambda: adbc.connect(path)) if opened else connection)
        with pytest.raises(dpx.errors.TableError, match="infers types from rows"):
            open_source(query)


def test_a_wrong_statement_or_password_is_not_repeated(tmp_path):
    for connection in (f"sqlite:///{tmp_path}/none.db", sqlite3.connect(":memory:")):
        with pytest.raises(dpx.errors.TableError, match="cannot be read") as error:
            open_source(dpx.Query("SELECT * FROM nothing WHERE name = 'Anna'", connection))
        assert "Anna" not in str(error.value)
    connection.close()
    with pytest.raises(dpx.errors.TableError) as error:
        open_source(dpx.Query("SELECT 1", "postgresql://anna:secret@127.0.0.1:1/people"))
    assert "secret" not in str(error.value)


def test_a_query_that_changes_between_passes_is_noticed_where_the_number_of_rows_is_public(make_table, frame, url):
    table = make_table(dpx.Query(SELECT, url))
    private = make_table(dpx.Query(SELECT, url), relation="add-remove", name="private")
    with sqlite3.connect(url.removeprefix("sqlite:///")) as connection:
        frame.iloc[:1].to_sql("people", connection, index=False, if_exists="append")
    assert "was reserved" in lost(table)
    assert len(dpx.marginals(private, ["sex"], epsilon=0.1).values) == 2  # an error would tell the number of rows


@pytest.mark.parametrize("relation", ["replace-one", "add-remove"])
def test_a_parquet_file_that_is_corrupt_in_the_middle_loses_the_release(make_table, frame, tmp_path, relation):
    """Not only where the rows that are left are fewer than they were."""
    path = tmp_path / "people.parquet"
    pq.write_table(pa.Table.from_pandas(frame), path, row_group_size=40, compression="zstd")
    table = make_table(path, relation=relation)
    content = bytearray(path.read_bytes())
    content[300 : len(content) // 2] = bytes(len(content) // 2 - 300)
    path.write_bytes(content)
    assert "people" not in lost(table)


def test_a_partition_with_other_columns_is_refused_and_one_with_other_types_is_read(make_table, frame, tmp_path):
    folder = tmp_path / "hive"
    for number, part in enumerate((frame.iloc[:200], frame.iloc[200:].astype({"age": str}))):
        (folder / f"year={number}").mkdir(parents=True)
        part.to_parquet(folder / f"year={number}" / "part.parquet")
    assert clean(make_table(folder)) == clean(make_table(frame))
    frame[["age"]].to_parquet(folder / "year=0" / "other.parquet")
    with pytest.raises(dpx.errors.TableError, match="has other columns"):
        make_table(folder)
    (folder / "year=0" / "other.parquet").unlink()
    frame.to_parquet(folder / "year=1" / "dates.parquet")
    pq.write_table(pa.Table.from_pandas(frame.assign(income=pd.Timestamp(0))), folder / "year=1" / "dates.parquet")
    with pytest.raises(dpx.errors.TableError, match="stores it as timestamp"):
        make_table(folder)


@pytest.mark.parametrize("left", ["_temporary/0/part.parquet", ".part.parquet", "_part.parquet"])
def test_files_that_an_unfinished_write_left_are_not_counted_in_silence(make_table, tmp_path, frame, left):
    folder = tmp_path / "visits"
    (folder / "_year=1").mkdir(parents=True)  # a column, for all tools
    frame.to_parquet(folder / "_year=1" / "part.parquet")
    assert make_table(folder).size == len(frame)
    (folder / left).parent.mkdir(parents=True, exist_ok=True)
    frame.to_parquet(folder / left)
    with pytest.raises(dpx.errors.TableError, match="count twice"):
        make_table(folder)


def test_which_partitions_there_are_is_told_nobody(make_table, tmp_path, frame):
    """They are named by values of rows, and the ledger, which auditors see, has digests of where rows came from."""
    ledgers = []
    for number, people in enumerate((["7", "8"], ["7"])):
        for person in people:
            (tmp_path / str(number) / "visits" / f"patient={person}").mkdir(parents=True)
            frame.to_parquet(tmp_path / str(number) / "visits" / f"patient={person}" / "part.parquet")
        source = open_source(tmp_path / str(number) / "visits")
        ledgers.append([place.replace(f"/{number}/", "/") for place in origin_of(source)])
    assert ledgers[0] == ledgers[1] == [str(tmp_path / "visits")]
    make_table(tmp_path / "0" / "visits")
    with pytest.raises(dpx.errors.InputError, match="second budget"):
        make_table(tmp_path / "0" / "visits" / "patient=7" / "part.parquet", separate_from=[])
    frame.to_parquet(tmp_path / "1" / "visits" / "patient=7" / "_part.parquet")
    for folders in ([tmp_path / "1" / "visits"], [tmp_path / "0" / "visits", tmp_path / "0" / "visits"]):
        with pytest.raises(dpx.errors.TableError) as error:
            open_source(folders)
        assert "patient" not in str(error.value)


def test_folders_of_hive_are_columns_of_texts(make_table, tmp_path):
    for year, sex in (("2025", "a%20b"), ("2026", "__HIVE_DEFAULT_PARTITION__")):
        folder = tmp_path / f"year={year}" / f"sex={sex}"
        folder.mkdir(parents=True)
        pd.DataFrame({"x": [1.0, 2.0]}).to_parquet(folder / "part.parquet")
    kinds = {"year": dpx.Numeric(2000, 2030), "sex": dpx.Categorical(["m", "a b"]), "x": dpx.Numeric(0, 5)}
    table = make_table(tmp_path, domain=dpx.Domain(kinds))
    assert clean(table, list(kinds)) == {(y, s, x): 1 for y, s in ((2025, 1), (2026, 0)) for x in (1, 2)}
    pd.DataFrame({"x": [1.0], "sex": ["m"]}).to_parquet(tmp_path / "year=2025" / "sex=a%20b" / "part.parquet")
    with pytest.raises(dpx.errors.TableError, match="same name"):
        open_source(tmp_path)
