"""`PrivateTable`: rows behind a door.

It knows the declared domain, who is protected and how (relation, unit), and the account that pays. Rows can be read
only through an open gate of this table's own door, that is, after a reservation in the ledger.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from itertools import chain
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from dpexplain.core.budget import Budget, Cost
from dpexplain.core.canonical import JsonObject, digest
from dpexplain.core.domain import Domain
from dpexplain.core.release import Door, Gate
from dpexplain.core.sensitivity import Assignment, Neighbours, Relation, Unit
from dpexplain.data.assignment import Secrets, assignment_for
from dpexplain.data.dealing import Deal, Dealt
from dpexplain.data.encode import NO_ID, check_id_objects, check_id_type, check_objects, check_type, identifiers
from dpexplain.data.processes import ProcessEngine
from dpexplain.data.queries import SparkSource
from dpexplain.data.reading import BATCH_ROWS, Reading
from dpexplain.data.rows import LARGEST_BLOCK, Rows, even_size
from dpexplain.data.sources import Source, open_source, origin_of, schemas_of
from dpexplain.data.split import Part, Parts, check_name, split
from dpexplain.engines import Engine, LocalEngine
from dpexplain.engines.spark import SparkEngine
from dpexplain.errors import InputError, InternalError, ModelError, TableError
from dpexplain.ledger import Ledger, open_ledger
from dpexplain.receipts import Receipt, receipt_for

if TYPE_CHECKING:
    from dpexplain.models import Model, Predictor


class PrivateTable:
    """A sensitive table, its declared domain and its privacy account.

    source    pandas or polars DataFrame, LazyFrame, Arrow table, a function that opens a RecordBatchReader, Parquet or
              CSV path(s), a hive-partitioned folder, a DuckDB relation, `dpx.Query(sql, connection)`, a Spark DataFrame
              or the name of a table of the running Spark session
    domain    what is declared about its columns; must have been reviewed by a person
    budget    `Budget(epsilon=2)` for a pure account, `Budget(epsilon=2, delta=1e-6)` for zCDP
    relation  "replace-one" (the number of rows is public) or "add-remove" (it is not)
    ledger    where the account is kept: "sqlite:///budget.db" or "postgresql://..."
    name      of the account: one for each protected population, whatever the version of the data
    version   of the data; the same request on the same version is answered from the ledger, free
    unit      `Unit("patient_id", max_rows=4)` when a person may have several rows
    row_id    a declared id column, for dealing rows to parts where the order of rows may not be used
    analyst   who asks; the account may hold a limit for this analyst
    separate_from  names of accounts in the same ledger that hold other people's data, although these rows come from the
              same files or have the same columns
    rows_hint a public guess of the number of rows where that is private; forecasts choose grids and forms by it
    processes for models that hold Python's interpreter lock: they are asked in so many processes instead of threads
    """

    engine: Engine = LocalEngine()
    secrets: Callable[[], Secrets] = Secrets  # new ones for each pass; audits put public numbers in their place
    part: Part | None = None  # of another table, which it was split from

    def __init__(
        self,
        source: Any,
        *,
        domain: Domain,
        budget: Budget,
        relation: str | Relation,
        ledger: str | Path | Ledger,
        name: str,
        version: str = "1",
        unit: Unit | None = None,
        row_id: str | None = None,
        analyst: str | None = None,
        rows_hint: int | None = None,
        separate_from: Sequence[str] = (),
        processes: int | None = None,
    ) -> None:
        if not isinstance(domain, Domain):
            raise InputError("domain must be a dpx.Domain.", hint='dpx.Domain({"age": dpx.Numeric(0, 120), ...})')
        if not isinstance(budget, Budget):
            raise InputError("budget must be a dpx.Budget.", hint="dpx.Budget(epsilon=2.0, delta=1e-6)")
        domain.require_review()
        self.domain, self.budget = domain, budget
        check_name(_text(name, "name"))
        self.name, self.version, self.analyst = _text(name, "name"), _text(version, "version"), analyst
        self.neighbours = Neighbours(Relation.parse(relation), unit)
        self.row_id = row_id
        self._source: Source = open_source(source)
        if isinstance(self._source, SparkSource):
            self.engine = SparkEngine()
        elif processes is not None:
            self.engine = ProcessEngine(processes)
        self._check_columns()
        self.size = self._public_size()
        if rows_hint is not None and (isinstance(rows_hint, bool) or not isinstance(rows_hint, int) or rows_hint < 1):
            raise InputError(f"rows_hint must be a whole number of at least 1; got {rows_hint!r}.")
        self.rows_hint = rows_hint if self.size is None else self.size
        if isinstance(separate_from, str) or not all(isinstance(name, str) for name in separate_from):
            raise InputError("separate_from must be a list of names.", hint='separate_from=["other account"]')
        self.ledger = open_ledger(ledger) if isinstance(ledger, str | Path) else ledger
        account = self.ledger.account(
            self.name,
            budget=budget,
            neighbours=self.neighbours,
            table_version=self.version,
            domain_digest=domain.digest,
            analyst=analyst,
            columns=list(self._source.types),
            origin=origin_of(self._source),
            separate_from=separate_from,
        )
        self.line = account.line
        self.door = Door(account)

    def __repr__(self) -> str:
        size = "a private number of rows" if self.size is None else f"{self.size} rows"
        return f"PrivateTable({self.name!r}, version {self.version!r}, {size}, {self.neighbours.describe()})"

    @property
    def identity(self) -> JsonObject:
        """What identifies this table in a request."""
        return {
            "name": self.name,
            "version": self.version,
            "domain": self.domain.digest,
            "neighbours": self.neighbours.to_json(),
            "rows": self.size,
            **({"line": self.line} if self.line else {}),
        }

    def cost(self, *, epsilon: Any = None, rho: Any = None) -> Cost:
        """The cost of one release in this account's definition."""
        return self.budget.cost(epsilon=epsilon, rho=rho)

    def split(
        self, parts: str | Mapping[str, Mapping[str, Any]], *, epsilon: float | None = None, rho: float | None = None
    ) -> Parts:
        """Disjoint parts of this table by name: private tables with accounts of their own, for the cost of one.

        parts    a column, whose declared values are the parts; or {name: conditions}, such as {"north": {"site":
                 ["A", "B"]}, "young": {"age": (18, 40)}}: a row lies in the first part whose conditions hold, a unit in
                 the first of the parts of its rows
        epsilon  (or rho) what this account pays once for all parts. Each may spend it (all but 5 %) on its own rows;
                 under replace-one a half of it, or a quarter in rho

        The same split of the same version again opens the same accounts, free. docs/splitting.md has the proof.
        """
        return split(self, parts, self.cost(epsilon=epsilon, rho=rho))

    def predictor(self, model: Model) -> Predictor:
        """The model, tried on synthetic rows of this domain: the one way from a model to predictions about rows.

        A version is a promise that the model stays what it is: its answers to these rows are kept in the ledger, and
        another model under the same name and version is refused before anything is reserved or answered again.
        """
        predictor = model.checked(self.domain, rows=self.rows_hint, exact=self.size is not None)
        self.know(model, model.identity, predictor, predictor.answers, predictor.precision * model.output.width)
        return predictor

    def know(
        self, model: Model, identity: JsonObject, predictor: Predictor, answers: NDArray[Any], tolerance: float
    ) -> None:
        """Refuse a model that cannot be sent to where rows are read, or another one than its version promises."""
        self.require_shipping(f'the model "{model.name}"', predictor)
        if model.versioned:
            title = f'the model "{model.name}", version "{model.version}",'
            self._same_file(title, model)
            self.declare(title, identity, answers, tolerance)

    def _same_file(self, title: str, model: Model) -> None:
        """Keep the digest of the file that a model was read from, or refuse another file of that name and version."""
        if model.file_digest is None:
            return
        mine = [float(byte) for byte in bytes.fromhex(model.file_digest)]
        if self.door.account.declare(digest({"file of": [model.name, model.version]}), mine) != mine:
            raise ModelError(
                f'{title} was read from another file than the one that account "{self.name}" knows by that name and '
                "version.",
                hint="give what has changed a new version",
            )

    def require_shipping(self, what: str, thing: Any) -> None:
        """Refuse a model or a function that the engine cannot send to the machines that read rows: nothing is spent."""
        if not self.engine.ships(thing):
            raise ModelError(
                f"{what} cannot be sent to {self.engine.elsewhere}: it cannot be pickled.",
                hint="leave out what holds a lock, a file, a connection or a session, or open it when first used. "
                "With processes=, unlike on Spark, functions of a module are needed instead of lambdas",
            )

    def require_gathering(self, what: str) -> None:
        """Refuse a method that permutes all rows at once where they cannot be brought together: nothing is spent."""
        if not self.engine.gathers:
            raise InputError(
                f"{what} permutes all rows at once, which does not run on Spark.",
                hint='leave out method="paper"; the default form runs on executors',
            )

    def declare(self, title: str, identity: JsonObject, answers: NDArray[Any], tolerance: float) -> None:
        """Keep what something with a version says about the synthetic rows of this domain, or refuse other answers."""
        known_as = digest({"identity": identity, "domain": self.domain.digest})
        kept = self.door.account.declare(known_as, answers.astype(np.float64).tolist())
        if len(kept) != len(answers) or not np.allclose(kept, answers, rtol=0, atol=tolerance):
            raise ModelError(
                f'{title} gives other answers than the one that account "{self.name}" knows by that name and version.',
                hint="give what has changed a new version",
            )

    def release(
        self,
        method: str,
        label: str,
        spec: JsonObject,
        cost: Cost,
        body: Callable[[Gate], None],
        *,
        public: Sequence[str],
        outside: Sequence[str] | None = None,
        **about: JsonObject | list[JsonObject] | bool | None,
    ) -> tuple[Receipt, JsonObject]:
        """What `body` sends through the gate, with its receipt; or the same request's earlier release, free.

        The request that the ledger knows is made here: the method, this table, the spec, what the guarantee takes as
        public (the domain and what the relation makes public come by themselves) or as outside of it, and whatever else
        it is `about`: model=..., clustering=..., builds_on=[...].
        """
        asked = self.asked(method, spec, public, outside, about)
        released = self.door.release(label, asked, cost, body)
        return receipt_for(self.budget, self.neighbours, released, self.domain), released.payload

    def asked(
        self, method: str, spec: JsonObject, public: Sequence[str], outside: Sequence[str] | None, about: JsonObject
    ) -> JsonObject:
        """The request that the ledger knows, less its cost."""
        return {
            "explainer": method,
            "table": self.identity,
            "spec": spec,
            "public": [
                *public,
                self.domain.describe(),
                *self.neighbours.public,
                *([] if self.part is None else [self.part.words]),
            ],
            **({} if outside is None else {"outside": list(outside)}),
            **about,
        }

    def sum_rows(
        self,
        gate: Gate,
        kernel: Callable[..., NDArray[np.int64]],
        columns: Sequence[str],
        *,
        size: int,
        label: str,
        parallel: bool = True,
        one_in: int = 1,
        secret: bool = False,
    ) -> NDArray[np.int64]:
        """The exact sum over all rows of a kernel that gives `size` integers for a batch. The gate must be open.

        kernel   an object that can be pickled: it holds a spec and a predictor, never this table or anything secret
        one_in   each row is used with probability one in so many, by a secret number of its own
        secret   the kernel is called as kernel(rows, uniform), with fresh secret numbers for this batch
        """
        reading = self._reading(gate, columns, BATCH_ROWS if parallel else 2 * BATCH_ROWS, one_in=one_in)
        return self.engine.sum_rows(
            reading, kernel, self.secrets(), size=size, label=label, parallel=parallel, secret=secret
        )

    def sum_groups(
        self,
        gate: Gate,
        kernel: Callable[[Dealt], NDArray[np.int64]],
        columns: Sequence[str],
        groups: int,
        *,
        size: int,
        label: str,
        parallel: bool = True,
        at_once: int = BATCH_ROWS,
        rule: Assignment | None = None,
        secret: bool = False,
    ) -> NDArray[np.int64]:
        """The exact sum over groups: rows are dealt to a public number of them, and a kernel gives `size` integers for
        a piece of whole groups. The gate must be open.

        at_once  rows that a kernel gets, at most, unless one group has more; 0: one group at a time
        rule     by which rows are dealt; default: `assignment`
        secret   rows of a unit stand together, and each row has a secret number of its own
        """
        rule = self.assignment if rule is None else rule
        unit = self.neighbours.unit
        id_column = None if rule is not Assignment.KEYED else self.row_id if unit is None else unit.column
        reading = self._reading(gate, columns, BATCH_ROWS, id_column=id_column)
        deal = Deal(groups, rule, secret, self._batch_size(at_once, len(columns)) if at_once else 0)
        # steps of pieces that are cut by numbers of rows would tell these
        total = groups if not at_once or rule is Assignment.POSITION else None
        return self.engine.sum_groups(
            reading, kernel, deal, self.secrets(), size=size, label=label, parallel=parallel, total=total
        )

    def gathered(self, gate: Gate, columns: Sequence[str]) -> Rows:
        """All rows at once, in memory on this machine, in a secret order: for the published importance and influence
        alone, whose definition is one permutation of all rows.
        """
        reading, secrets = self._reading(gate, columns, BATCH_ROWS), self.secrets()
        first, *others = reading.batches(secrets)
        rows = first.before(others)
        return rows.take(secrets.order(rows.size))

    @property
    def assignment(self) -> Assignment:
        return assignment_for(self.neighbours, self.row_id)

    def _reading(
        self, gate: Gate, columns: Sequence[str], batch_rows: int, *, id_column: str | None = None, one_in: int = 1
    ) -> Reading:
        """A pass over clean rows. Nothing is read when the gate is shut."""
        if gate.door is not self.door or not gate.is_open:
            raise InternalError("rows were asked for without an open reservation in this table's account")
        batch_rows = self._batch_size(batch_rows, len(columns))
        names, unit = tuple(columns), self.neighbours.unit
        about = (unit, id_column, batch_rows, self.size, one_in, self.part)
        return Reading(self._source, self.domain, names, *about)

    def _batch_size(self, most: int, columns: int) -> int:
        """Rows in a batch, by public things: wide tables in shorter ones, and such that blocks of predictions fit."""
        most = max(256, min(most, 2**22 // max(columns, 1)))
        power = 1 << (most.bit_length() - 1)
        block = min(power, LARGEST_BLOCK)
        return power if self.size is None else even_size(self.size, block) * (power // block)

    def _check_columns(self) -> None:
        types = self._source.types
        extra = [] if self.neighbours.unit is None else [self.neighbours.unit.column]
        extra += [] if self.row_id is None else [self.row_id]
        missing = [name for name in chain(self.domain, extra) if name not in types]
        if missing:
            raise TableError(
                f"the table has no column {', '.join(map(repr, missing))}.",
                hint="its columns are: " + ", ".join(types),
            )
        for schema in schemas_of(self._source):
            for name, column in self.domain.items():
                check_type(name, column, schema[name])
            for name in extra:
                check_id_type(name, schema[name])
        if objects := [name for name in dict.fromkeys(chain(self.domain, extra)) if types[name] is None]:
            self._check_objects(objects, extra)

    def _check_objects(self, names: Sequence[str], ids: Sequence[str]) -> None:
        """Columns of Python objects are looked through: the types in them are their schema."""
        try:
            for _, raw in self._source.batches(names, BATCH_ROWS):
                for name in names:
                    if name in ids:
                        check_id_objects(name, raw[name])
                    if name in self.domain:
                        check_objects(name, raw[name], self.domain[name])
            return
        except (KeyboardInterrupt, TableError):
            raise
        except BaseException:  # some readers raise what is no Exception
            pass
        # raised outside the handler: what the reader said may quote a value
        raise TableError("the columns could not be looked through: the source cannot be read to its end.")

    def _public_size(self) -> int | None:
        """The number of rows where it is public. Under replace-one there must be two units: their number is public,
        and a guarantee about one unit among one says nothing.
        """
        if self.neighbours.relation is not Relation.REPLACE_ONE:
            return None
        size = None
        try:
            if self.neighbours.unit is None:
                size = found = self._source.count()
            else:
                found = self._count_units(at_most=2)
        except KeyboardInterrupt:
            raise
        except BaseException:  # some readers raise what is no Exception
            found = -1
        if found < 0:  # raised outside the handler: what the reader said may quote a value
            raise TableError("the rows could not be counted: the source cannot be read to its end.")
        if found < 2:
            raise TableError(
                "replace-one protects one unit among others, but the table has fewer than two.",
                hint='use relation="add-remove", where an empty table is a table like any other',
            )
        return size

    def _count_units(self, at_most: int) -> int:
        assert self.neighbours.unit is not None
        column, ids = self.neighbours.unit.column, set[str]()
        if isinstance(self._source, SparkSource):
            return self._source.units(column, at_most)
        for _, raw in self._source.batches([column], BATCH_ROWS):
            codes, distinct = identifiers(raw[column])
            ids.update(distinct[code] for code in np.unique(codes))
            ids.discard(NO_ID)
            if len(ids) >= at_most:
                break
        return len(ids)


def _text(value: Any, what: str) -> str:
    if not isinstance(value, str) or not value.strip():
        raise InputError(f"{what} must be a text that is not empty; got {value!r}.")
    return value
