"""Sources that somebody else reads for us: a polars LazyFrame, a DuckDB relation, a query on a database.

All are read batch by batch, and only the columns that are needed where the engine can leave others out. Nothing here
relies on the order of rows: engines give them in any order, and another one each time. Every pass asks once and sees
one answer; two passes may see different ones if somebody writes in between, which a table's `version` promises not to
happen.

What a driver says when it fails may quote a row or a password, so none of it is ever shown.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import closing, contextmanager, suppress
from typing import TYPE_CHECKING, Any, TypeVar

import pandas as pd
import pyarrow as pa

from dpexplain.core.quiet import quiet
from dpexplain.engines.silence import unheard, unlogged
from dpexplain.errors import InputError, InternalError, TableError

if TYPE_CHECKING:
    from dpexplain.data.sources import Batch

Types = Mapping[str, pa.DataType | None]
T = TypeVar("T")


def asked(what: str, question: Callable[[], T]) -> T:
    """The answer of somebody else's engine; or an error without its words, raised outside any handler."""
    try:
        return question()
    except (KeyboardInterrupt, TableError):  # what we say ourselves quotes nothing
        raise
    except BaseException as error:  # some engines raise what is no Exception
        kind = type(error).__name__
    raise TableError(
        f"{what} cannot be read ({kind}).",
        hint="try it by itself; what it says is not shown here because it may quote rows or a password",
    )


class LazySource:
    """A polars LazyFrame: streamed, with the columns that are needed."""

    def __init__(self, frame: Any) -> None:
        import polars as pl

        self._frame = frame
        schema = asked("the LazyFrame", frame.collect_schema)
        self._types = {f.name: f.type for f in pl.DataFrame(schema=schema).to_arrow().schema}

    @property
    def types(self) -> Types:
        return self._types

    def count(self) -> int:
        import polars as pl

        return int(self._frame.select(pl.len()).collect().item())

    def batches(self, columns: Sequence[str], rows: int) -> Iterator[Batch]:
        wanted = self._frame.select(list(columns))
        if hasattr(wanted, "collect_batches"):
            parts: Any = wanted.collect_batches(chunk_size=rows, maintain_order=False)
        else:  # polars before 1.34
            parts = [wanted.collect()]
        for part in parts:
            for batch in part.to_arrow().to_batches(max_chunksize=rows):
                yield batch.num_rows, {name: batch.column(name) for name in columns}


class SparkSource:
    """A Spark DataFrame, which `SparkEngine` reads on the executors. No row comes here."""

    def __init__(self, frame: Any) -> None:
        from pyspark.sql.pandas.types import to_arrow_schema

        self.frame = frame
        schema = asked("the Spark DataFrame", lambda: to_arrow_schema(frame.schema))
        if not asked("the Spark DataFrame", self._same_each_time):
            raise TableError(
                "the Spark DataFrame draws numbers (rand(), uuid()) or numbers its rows by where they lie, so a "
                "task that runs again would see other rows, and count some twice.",
                hint="write it to a table or to Parquet files first, and open these",
            )
        self._types = {field.name: field.type for field in schema}

    @property
    def types(self) -> Types:
        return self._types

    def _same_each_time(self) -> bool:
        """Whether Spark itself takes the plan for one that gives the same rows again. Spark Connect does not say."""
        plan = getattr(self.frame, "_jdf", None)
        return plan is None or bool(plan.queryExecution().analyzed().deterministic())

    def count(self) -> int:
        with unlogged():
            return int(self.frame.count())

    def units(self, column: str, at_most: int) -> int:
        """How many different ids there are, as far as `at_most`: counted there, by the hashes of their spellings."""
        from pyspark.sql import functions as f

        from dpexplain.data.shipping import distinct_ids

        ids = self.frame.select(f.col("`" + column.replace("`", "``") + "`").alias("id"))
        with quiet(), unlogged():
            return int(ids.mapInArrow(unheard(distinct_ids), "id bigint").distinct().limit(at_most).count())

    def batches(self, columns: Sequence[str], rows: int) -> Iterator[Batch]:  # noqa: ARG002 - it has none
        raise InternalError("the rows of a Spark DataFrame stay where they are")


class RelationSource:
    """A DuckDB relation, read as record batches."""

    def __init__(self, relation: Any) -> None:
        self._relation = relation
        schema = asked("the relation", lambda: _table(relation.limit(0)).schema)
        self._types = {field.name: field.type for field in schema}

    @property
    def types(self) -> Types:
        return self._types

    def count(self) -> int:
        return int(self._relation.aggregate("count(*)").fetchall()[0][0])

    def batches(self, columns: Sequence[str], rows: int) -> Iterator[Batch]:
        quoted = ", ".join('"' + name.replace('"', '""') + '"' for name in columns)
        with closing(_reader(self._relation.project(quoted), rows)) as reader:
            for batch in reader:
                for start in range(0, batch.num_rows, rows):
                    part = batch.slice(start, rows)
                    yield part.num_rows, {name: part.column(name) for name in columns}


def _table(relation: Any) -> Any:
    return relation.to_arrow_table() if hasattr(relation, "to_arrow_table") else relation.fetch_arrow_table()


def _reader(relation: Any, rows: int) -> Any:
    """Its record batches; the name changed in DuckDB 1.4."""
    return relation.to_arrow_reader(rows) if hasattr(relation, "to_arrow_reader") else relation.fetch_record_batch(rows)


class Query:
    """The rows that a query gives, in any order.

    sql         one SELECT statement that computes row by row: no GROUP BY, LIMIT or window, by which a record of the
                database would change several rows, while what is protected is one row
    connection  a URL or engine of SQLAlchemy; a connection of DB-API or ADBC; or a function that opens one, which is
                then opened for each pass and closed after it

    With a URL or an engine only the columns that are needed are asked for. A connection that is handed over stays open
    and is used by one pass at a time.
    """

    def __init__(self, sql: str, connection: Any) -> None:
        if not isinstance(sql, str) or not sql.strip().rstrip(";"):
            raise InputError("a query is a text: one SELECT statement.", hint='dpx.Query("SELECT * FROM visits", url)')
        self.sql = sql.strip().rstrip(";").strip()
        known = isinstance(connection, str) or callable(connection) or hasattr(connection, "cursor")
        if not known and not hasattr(connection, "connect"):
            raise InputError(
                f"a query cannot be asked of a {type(connection).__name__}.",
                hint="a URL or engine of SQLAlchemy, a connection of DB-API or ADBC, or a function that opens one",
            )
        self.connection = connection

    def __repr__(self) -> str:
        return "Query(...)"  # the statement may name persons, and a URL has a password

    def source(self) -> QuerySource | EngineSource:
        opened = self.connection
        if isinstance(opened, str):
            return EngineSource(self.sql, opened)
        engine = hasattr(opened, "connect") and hasattr(opened, "dialect")
        return EngineSource(self.sql, opened) if engine else QuerySource(self.sql, opened)


class EngineSource:
    """A query through SQLAlchemy: a connection for each pass, and a cursor on the server where there is one."""

    def __init__(self, sql: str, engine: Any) -> None:
        self._sql, self._engine = sql, engine
        self._names = asked("the query", self._described)

    @contextmanager
    def _result(self, head: str, columns: Sequence[str] = (), tail: str = "", rows: int = 1) -> Iterator[Any]:
        """What SELECT these columns, in the quotes of the dialect, FROM the query says."""
        import sqlalchemy as sa

        engine = self._engine
        if isinstance(engine, str):
            engine = sa.create_engine(engine, poolclass=sa.pool.NullPool, hide_parameters=True)
        selected = head or ", ".join(map(engine.dialect.identifier_preparer.quote, columns))
        statement = f"SELECT {selected} FROM ({self._sql}\n) asked {tail}".replace(":", "\\:")  # no parameters
        with engine.connect() as connection:
            yield connection.execute(sa.text(statement), execution_options={"stream_results": True, "yield_per": rows})

    def _described(self) -> list[str]:
        with self._result("*", tail="WHERE 1 = 0") as result:
            return [str(name) for name in result.keys()]  # noqa: SIM118 - of a result, not of a dictionary

    @property
    def types(self) -> Types:
        return dict.fromkeys(self._names)

    @property
    def origin(self) -> list[str]:
        """What tells this source from others, without a password."""
        import sqlalchemy as sa

        url = sa.make_url(self._engine) if isinstance(self._engine, str) else self._engine.url
        return [f"{url.set(password=None).render_as_string()} {self._sql}"]

    def count(self) -> int:
        with self._result("COUNT(*)") as result:
            return int(result.scalar_one())

    def batches(self, columns: Sequence[str], rows: int) -> Iterator[Batch]:
        with self._result("", columns, rows=rows) as result:
            for part in result.partitions(rows):
                yield _objects(part, columns, range(len(columns)))


class QuerySource:
    """A query on a connection of DB-API or ADBC: the whole statement is run, and other columns are passed over."""

    def __init__(self, sql: str, connection: Any) -> None:
        self._sql, self._connection = sql, connection
        self._types = asked("the query", self._described)

    @contextmanager
    def _cursor(self) -> Iterator[Any]:
        own = not hasattr(self._connection, "cursor")
        connection = self._connection() if own else self._connection
        try:
            _require_declared_types(connection)
            with closing(connection.cursor()) as cursor:
                cursor.arraysize = 2**12
                cursor.execute(self._sql)
                yield cursor
        finally:
            if own:
                with suppress(Exception):
                    connection.close()

    def _described(self) -> Types:
        with self._cursor() as cursor:
            if hasattr(cursor, "fetch_record_batch"):
                return {field.name: field.type for field in cursor.fetch_record_batch().schema}
            if cursor.description is None:
                raise TypeError("no rows")
            return dict.fromkeys(str(line[0]) for line in cursor.description)

    @property
    def types(self) -> Types:
        return self._types

    def count(self) -> int:
        return sum(size for size, _ in self.batches([], 2**14))

    def batches(self, columns: Sequence[str], rows: int) -> Iterator[Batch]:
        places = [list(self._types).index(name) for name in columns]
        with self._cursor() as cursor:
            if hasattr(cursor, "fetch_record_batch"):
                for batch in cursor.fetch_record_batch():
                    for start in range(0, batch.num_rows, rows):
                        part = batch.slice(start, rows)
                        yield part.num_rows, {n: part.column(i) for n, i in zip(columns, places, strict=True)}
                return
            while part := cursor.fetchmany(rows):
                yield _objects(part, columns, places)


def _require_declared_types(connection: Any) -> None:
    """Refuse the one driver of ADBC that takes the type of a column from its first rows: where one of them is a text,
    it makes texts of the numbers of all others, with fewer digits.
    """
    told: Mapping[Any, Any] = getattr(connection, "adbc_get_info", dict)()
    if str(told.get("vendor_name")).lower() == "sqlite":
        raise TableError(
            "the ADBC driver of SQLite infers types from rows, so one row would change how others are read.",
            hint='pass the URL, dpx.Query(sql, "sqlite:///people.db"), or a connection of the module sqlite3',
        )


def _objects(lines: Sequence[Sequence[Any]], columns: Sequence[str], places: Sequence[int]) -> Batch:
    """Lines of Python values, whose types are those of each value."""
    raw = {}
    for name, place in zip(columns, places, strict=True):
        values = pd.Series([None] * len(lines), dtype=object)
        values[:] = [_plain(line[place]) for line in lines]
        raw[name] = values
    return len(lines), raw


def _plain(value: Any) -> Any:
    return bytes(value) if isinstance(value, memoryview | bytearray) else value
