"""The tables that are served: each a project, opened once when the service starts.

For every analyst there is the same open table behind the same account in their name, so no request opens data: rows are
read by a release alone, after its reservation.
"""

from __future__ import annotations

import hashlib
import threading
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from functools import cached_property
from pathlib import Path
from typing import Any

import sqlalchemy as sa

from dpexplain.core.account import Ask, Entry
from dpexplain.core.budget import Cost
from dpexplain.core.canonical import JsonObject
from dpexplain.core.release import Door
from dpexplain.data.domain_file import Domain, domain_of, entries_of
from dpexplain.data.table import PrivateTable
from dpexplain.errors import DomainError, InputError, ModelError
from dpexplain.ledger import LedgerAccount, Statement
from dpexplain.ledger.state import NO_VALUES
from dpexplain.methods.registry import Method
from dpexplain.models import Model
from dpexplain.models.clustering import Clustering
from dpexplain.models.kinds import KINDS
from dpexplain.project.file import Project
from dpexplain.receipts import Receipt
from dpexplain.service.store import Store, models

UNSIGNED = "the domain of this table is not signed yet, or its file has a mistake."
REVIEW = "the curator reviews and signs it; on the machine of the data, `dpexplain plan` says what is wrong with it"
SUFFIXES = {"", *(suffix for kind in KINDS for suffix in kind.suffixes)}  # "" is a folder of MLflow; never a pickle


@dataclass(frozen=True, kw_only=True)
class AllowedAccount(LedgerAccount):
    """An account from which something new is reserved only while that is allowed.

    allow   raises when it is not; what was reserved before, and is gone on with after a crash, is paid for already
    settle  waits for a moment at which a commit does not tell how long the release took
    """

    allow: Callable[[], None] = field(repr=False)
    settle: Callable[[], None] = field(repr=False)

    def reserve(self, ask: Ask) -> str:
        with self.database.read() as connection:
            reserved, committed = self._about(connection, request_id=ask.request_id)
        failed = {event.reservation for _, event in committed if event.payload_hash == NO_VALUES}
        if not reserved.keys() - failed:
            self.allow()
        return super().reserve(ask)

    def commit(self, reservation: str, payload: JsonObject, charged: Cost) -> Entry:
        self.settle()
        return super().commit(reservation, payload, charged)


class ServedTable(PrivateTable):
    """A private table whose releases are finished after a crash, at no new cost.

    Their requests say that they are `resumable` (docs/decisions/0035-batches.md has the proof): a job that is begun
    again, by whichever process, goes on under its reservation, and exactly one outcome leaves.
    """

    @classmethod
    def of(cls, table: PrivateTable) -> ServedTable:
        served = cls.__new__(cls)
        vars(served).update(vars(table))
        return served

    def for_analyst(self, analyst: str, **rules: Callable[[], None]) -> ServedTable:
        """The same open table; what it releases is paid by this analyst, by the rules of an `AllowedAccount`."""
        served = ServedTable.of(self)
        account = replace(self.account, analyst=analyst)
        known: dict[str, Any] = {**vars(account), **rules}
        account = AllowedAccount(**known) if rules else account
        served.analyst, served.door = analyst, Door(account, sampler=self.door.sampler)
        return served

    @property
    def account(self) -> LedgerAccount:
        """The account that pays."""
        found = self.door.account
        assert isinstance(found, LedgerAccount)
        return found

    def release(self, *what: Any, **about: Any) -> tuple[Receipt, JsonObject]:
        return super().release(*what, **{**about, "resumable": True})


@dataclass(eq=False)
class Served:
    """One project, and what of it is at hand."""

    project: Project
    folder: Path | None  # that models may be registered from
    name: str
    table: ServedTable | None = None
    _models: dict[str, Model] = field(default_factory=dict)
    _lock: threading.RLock = field(default_factory=threading.RLock)

    @classmethod
    def of(cls, project: Project, folder: Path | None) -> Served:
        served = cls(project, folder, project.name)
        served.open()
        return served

    def open(self) -> None:
        """Open the table, unless nobody has signed its domain yet."""
        with self._lock:
            if self.table is not None:
                return
            try:
                domain = self.project.domain()
            except DomainError:  # what it says may quote a draft, which may quote the data
                return
            self.table = ServedTable.of(self.project.table(domain))

    @property
    def opened(self) -> ServedTable:
        """The table, or an error that says what is missing."""
        if self.table is None:
            raise DomainError(UNSIGNED, hint=REVIEW, spent="")
        return self.table

    @property
    def statement(self) -> Statement:
        """The account as it stands now."""
        return self.opened.ledger.statement(self.name)

    # Models -----------------------------------------------------------------------------------------------------------

    @property
    def usual_version(self) -> str:
        """That of the project's model."""
        return str(self.project.need("model", "version"))

    def model(self, version: str | None, store: Store) -> Model:
        """The project's model, or one that the curator registered under another version."""
        wanted = self.usual_version if version is None else version
        with self._lock:
            if wanted not in self._models:
                self._models[wanted] = self._load(wanted, store)
            return self._models[wanted]

    def _load(self, version: str, store: Store) -> Model:
        if version == self.usual_version:
            return self.project.model()
        row = next((row for row in self.registered(store) if row.version == version), None)
        if row is None:
            raise InputError(f"there is no model of version {version!r}."[:200], hint=self._versions(store), spent="")
        path = self.file(row.file)
        if digest_of(path) != row.file_digest:
            raise ModelError(
                f"the file of model version {version!r} is another one than the curator registered.",
                hint="register what has changed under a new version",
            )
        return self.project.other_model(str(path), version)

    def _versions(self, store: Store) -> str:
        return "there is " + ", ".join([self.usual_version, *(row.version for row in self.registered(store))])

    def registered(self, store: Store) -> list[Any]:
        """The models that the curator registered for this table."""
        asked = sa.select(models).where(models.c.table_name == self.name).order_by(models.c.version)
        with store.read() as connection:
            return list(connection.execute(asked).all())

    def file(self, named: str) -> Path:
        """A file of the models' folder by its bare name: nothing outside of it, no code and no pickle."""
        if self.folder is None:
            raise InputError(
                "this service has no folder of models.", hint='models = "models" under [service]', spent=""
            )
        path = self.folder / named
        bare = named == Path(named).name and not named.startswith(".") and "\\" not in named and named.isprintable()
        if not bare or Path(named).suffix not in SUFFIXES or path.resolve().parent != self.folder or not path.exists():
            raise InputError(
                f"there is no model file {named!r} in the folder of models."[:200],
                hint="the bare name of an ONNX, skops or MLflow model that the operator put there",
                spent="",
            )
        return path

    @cached_property
    def clustering(self) -> Clustering | None:
        """The project's clustering, where it has one."""
        return self.project.clustering(self.opened.domain) if self.project.has_clustering else None

    # The domain -------------------------------------------------------------------------------------------------------

    @property
    def _domain_file(self) -> Path:
        return self.project.folder / str(self.project.need("table", "domain"))

    def draft(self) -> JsonObject:
        """What stands in the domain file, for whoever reviews it."""
        try:
            text = self._domain_file.read_text(encoding="utf-8")
        except (OSError, UnicodeDecodeError):
            raise DomainError("the domain file cannot be read.", spent="") from None
        return entries_of(text, self._domain_file.name)

    def sign(self, columns: Mapping[str, Any], reviewed_by: str) -> Domain:
        """Write a reviewed domain down. One that is signed already belongs to an open account, and stays."""
        with self._lock:
            if self.table is not None:
                raise InputError("the domain of this table is signed.", hint="a changed one is a new version", spent="")
            draft = {"dpexplain_domain": 1, "peeked": False, **self.draft()}
            document = {**draft, "columns": dict(columns), "reviewed_by": reviewed_by}
            found = domain_of(document, self._domain_file.name)
            beside = self._domain_file.with_name(f".{self._domain_file.name}.new")
            found.save(beside)
            beside.replace(self._domain_file)
            return found

    # Public parts -----------------------------------------------------------------------------------------------------

    def public(self, store: Store, methods: Mapping[str, Method]) -> JsonObject:
        """All that anybody with a token for this table may know of it before a release."""
        if self.table is None:
            return {"name": self.name, "open": False, "why": UNSIGNED}
        table = self.table
        return {
            "name": self.name,
            "open": True,
            "version": table.version,
            "rows": table.size,
            "rows_hint": table.rows_hint,
            "neighbours": table.neighbours.to_json(),
            "protects": table.neighbours.describe(),
            "budget": table.budget.to_json(),
            "domain": table.domain.to_json(),
            "target": self.project.target,
            "models": [self.usual_version, *(row.version for row in self.registered(store))] if self.has_model else [],
            "clustering": self.project.has_clustering,
            "methods": [name for name, one in methods.items() if table.budget.delta is not None or not one.needs_delta],
        }

    @property
    def has_model(self) -> bool:
        return self.project.get("model", "name") is not None


def digest_of(path: Path) -> str:
    """SHA-256 of a file, or of the files of a folder with their names."""
    total = hashlib.sha256()
    files = sorted(path.rglob("*")) if path.is_dir() else [path]
    for file in files:
        if file.is_file():
            total.update(str(file.relative_to(path.parent)).encode())
            total.update(hashlib.sha256(file.read_bytes()).digest())
    return total.hexdigest()


class Tables(Mapping[str, Served]):
    """All tables of a service, by name."""

    def __init__(self, projects: list[Project], folder: Path | None) -> None:
        self._served: dict[str, Served] = {}
        for project in projects:
            served = Served.of(project, folder)
            if served.name in self._served:
                raise InputError(f'two projects have a table "{served.name}".', hint="a table has one account")
            self._served[served.name] = served

    def __getitem__(self, name: str) -> Served:
        return self._served[name]

    def __iter__(self) -> Iterator[str]:
        return iter(self._served)

    def __len__(self) -> int:
        return len(self._served)

    def accounts(self) -> dict[str, LedgerAccount]:
        """Those that are open, by the name of their table."""
        return {name: served.table.account for name, served in self._served.items() if served.table is not None}
