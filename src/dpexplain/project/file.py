"""The project file `dpexplain.toml`. Paths in it are relative to it; a key that it does not know is an error.

[table]                                  [budget]
path = "patients.parquet"                epsilon = 2.0
domain = "domain.yaml"                   delta = 1e-6
name = "patients"                        ledger = "sqlite:///budget.db"
version = "2026-11"                      wants = ["pdp", "local"]
relation = "replace-one"                 renewal = {every = "year", people = "new-only"}
unit = {column = "id", max_rows = 4}
row_id = "id"                            [model]
separate_from = ["staff"]                path = "model.onnx"
                                         output = [0.0, 1.0]
                                         label = ">50K"
                                         name = "credit"
                                         version = "3"
                                         target = "income"
                                         classes = ["<=50K", ">50K"]
                                         transform = "columns:derived"
                                         options = {output = "probabilities"}
[clustering]                             of `dpexplain clusters`, if it is not DP k-means
import = "segments:of"                   name = "segments"
labels = ["young", "old"]                version = "1"

[service]                                of `dpexplain serve`; docs/service.md says what each one is
store = "sqlite:///service.db"           slot = 5.0
jobs = 2                                 rate = 6000
largest_body = 1000000                   patience = 10.0
token_days = 90                          models = "models"
approve_above = 0.1                      grace = 30.0
lease = 15.0                             oidc = {...}, a section [service.oidc]
public_url = "https://explain.example.org"

A model has a path (docs/models.md has the kinds of files), a url of a model server, or an import of one's own code.
"""

from __future__ import annotations

import difflib
import importlib
import os
import sys
import tomllib
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

from dpexplain.errors import InputError, ModelError
from dpexplain.project.accounts import check_account, wanted
from dpexplain.project.renewal import EXAMPLE, Renewal

if TYPE_CHECKING:
    from dpexplain.core.budget import Budget
    from dpexplain.core.domain import Domain
    from dpexplain.core.sensitivity import Neighbours
    from dpexplain.data.table import PrivateTable
    from dpexplain.models import Model
    from dpexplain.models.clustering import Clustering

LEDGER_VARIABLE = "DPEXPLAIN_LEDGER"
UNKNOWN = "???"
NUMBER, NAMES = (int, float), list[str]
KEYS: Mapping[str, Mapping[str, Any]] = {  # and the types of their values
    "table": {
        **dict.fromkeys(("domain", "name", "version", "relation", "row_id"), str),
        "path": (str, NAMES),
        "unit": dict,
        "rows_hint": int,
        "processes": int,
        "separate_from": NAMES,
    },
    "budget": {"epsilon": NUMBER, "delta": NUMBER, "ledger": str, "wants": NAMES, "renewal": dict},
    "model": {
        **dict.fromkeys(("path", "url", "import", "transform", "name", "version", "target"), str),
        "output": list,
        "classes": list,
        "options": dict,
        "label": (str, int, float, bool),
        "features": NAMES,
        "thread_safe": bool,
        "block": int,
    },
    "clustering": {**dict.fromkeys(("path", "import", "name", "version"), str), "labels": list, "features": NAMES},
    "service": {
        **dict.fromkeys(("store", "models", "public_url"), str),
        **dict.fromkeys(("jobs", "rate", "largest_body", "token_days"), int),
        **dict.fromkeys(("slot", "patience", "lease", "grace", "approve_above"), NUMBER),
        "oidc": dict,
    },
}
EXAMPLES = {
    ("table", "path"): '"patients.parquet"',
    ("table", "domain"): '"domain.yaml"',
    ("table", "name"): '"patients"',
    ("table", "version"): '"2026-11"; the same request on the same version is answered again, free',
    ("table", "relation"): '"replace-one" (the number of rows is public) or "add-remove" (it is not)',
    ("table", "separate_from"): '["other account"]; accounts of this ledger that hold other people\'s data',
    ("budget", "epsilon"): "2.0; the most that may ever be spent on these people",
    ("budget", "ledger"): '"sqlite:///budget.db"',
    ("budget", "wants"): '["pdp", "local"]',
    ("budget", "renewal"): EXAMPLE.removeprefix("renewal = "),
    ("model", "output"): "[0.0, 1.0], the public range of its predictions",
    ("model", "name"): '"credit"',
    ("model", "version"): '"1"; change it whenever the model changes',
    ("clustering", "name"): '"segments"',
    ("clustering", "version"): '"1"; change it whenever the clustering changes',
    ("clustering", "labels"): '["young", "old"]; what it answers',
}


def _value(section: str, key: str) -> Any:
    return property(lambda project: project.get(section, key))


class Project:
    """The sections of a project file. What a command needs is checked when it asks for it.

    row_id     a declared column of ids, by which rows may be dealt to parts
    rows_hint  a public guess of the number of rows
    target     the declared column that the model predicts
    label      the class whose probability is explained, if the model is a classifier
    """

    row_id, rows_hint = _value("table", "row_id"), _value("table", "rows_hint")
    target, label = _value("model", "target"), _value("model", "label")

    def __init__(self, path: Path, sections: Mapping[str, Mapping[str, Any]]) -> None:
        self.path, self.folder = path, path.absolute().parent
        self._sections = {section: sections.get(section, {}) for section in KEYS}

    @classmethod
    def load(cls, path: Path) -> Project:
        try:
            document = tomllib.loads(path.read_text(encoding="utf-8"))
        except FileNotFoundError:
            raise InputError(
                f"there is no project file {path}.",
                hint="`dpexplain init TABLE` drafts one; --project names one that is elsewhere",
            ) from None
        except (OSError, UnicodeDecodeError):
            raise InputError(f"the project file {path} cannot be read.") from None
        except tomllib.TOMLDecodeError as error:
            raise InputError(f"{path.name} is not valid TOML: {error}.", hint="texts need quotes") from None
        _check_keys(path.name, "section", document, KEYS)
        for section, known in KEYS.items():
            content = document.get(section, {})
            if not isinstance(content, dict):
                raise InputError(f"{path.name}: {section} must be a section.", hint=f"write [{section}]")
            _check_keys(f"{path.name}: [{section}]", "key", content, known)
        return cls(path, document)

    def get(self, section: str, key: str) -> Any:
        """A value of the right type, or None where there is none."""
        value, kind = self._sections[section].get(key), KEYS[section][key]
        if value is None:
            return None
        hint = f"{key} = {EXAMPLES[section, key]}" if (section, key) in EXAMPLES else ""
        if value == UNKNOWN:
            raise InputError(f"{self.path.name}: [{section}] {key} is still {UNKNOWN}.", hint=f"write {hint}")
        if value == "" or not any(_fits(value, one) for one in (kind if isinstance(kind, tuple) else (kind,))):
            raise InputError(f"{self.path.name}: [{section}] {key} has a wrong value.", hint=hint and f"write {hint}")
        return value

    def need(self, section: str, key: str) -> Any:
        value = self.get(section, key)
        if value is None:
            raise InputError(
                f"{self.path.name}: [{section}] has no {key}.", hint=f"write {key} = {EXAMPLES[section, key]}"
            )
        return value

    @property
    def name(self) -> str:
        return str(self.need("table", "name"))

    @property
    def neighbours(self) -> Neighbours:
        from dpexplain.core.sensitivity import Neighbours, Relation, Unit

        relation, unit = self.need("table", "relation"), self.get("table", "unit")
        if relation not in list(Relation):
            raise InputError(
                f"{self.path.name}: unknown relation {relation!r}.", hint='use "replace-one" or "add-remove"'
            )
        if unit is not None and (set(unit) != {"column", "max_rows"} or not isinstance(unit["column"], str)):
            raise InputError(
                f"{self.path.name}: [table] unit has a wrong value.",
                hint='write unit = {column = "patient_id", max_rows = 4}',
            )
        return Neighbours(Relation(relation), None if unit is None else Unit(unit["column"], unit["max_rows"]))

    @property
    def output(self) -> tuple[float, float]:
        output = self.need("model", "output")
        if len(output) != 2:
            raise InputError(f"{self.path.name}: [model] output is a pair.", hint="write output = [0.0, 1.0]")
        return output[0], output[1]

    def domain(self) -> Domain:
        return reviewed(self.folder / self.need("table", "domain"))

    def budget(self) -> Budget:
        from dpexplain.core.budget import Budget

        epsilon, delta = self.need("budget", "epsilon"), self.get("budget", "delta")
        check_account(self.wants, delta)
        try:
            return Budget(epsilon, delta)
        except InputError as error:
            raise InputError(f"{self.path.name}: [budget] {error.message}", hint="write epsilon = 2.0") from None

    def renewal(self) -> Renewal:
        """When its account may be closed and a successor be opened; a project that does not say so has no renewals."""
        return Renewal.read(self.need("budget", "renewal"), f"{self.path.name}: [budget] renewal")

    @property
    def wants(self) -> list[str]:
        """The explanations that the account has to pay for, where the project says so."""
        return wanted(",".join(self.get("budget", "wants") or []))

    def ledger(self) -> str:
        """The URL of the ledger: from the environment, or from the file and then relative to it."""
        found = os.environ.get(LEDGER_VARIABLE)
        if found:
            return ledger_url(found, Path.cwd())
        return ledger_url(self.need("budget", "ledger"), self.folder)

    def table(self, domain: Domain, *, analyst: str | None = None, ledger: str | None = None) -> PrivateTable:
        """The table behind its account, which is opened if it is new."""
        from dpexplain.data.table import PrivateTable

        paths = self.need("table", "path")
        source = [self.folder / path for path in ([paths] if isinstance(paths, str) else paths)]
        return PrivateTable(
            source,
            domain=domain,
            budget=self.budget(),
            relation=self.neighbours.relation,
            unit=self.neighbours.unit,
            row_id=self.row_id,
            rows_hint=self.rows_hint,
            ledger=self.ledger() if ledger is None else ledger,
            name=self.name,
            version=str(self.need("table", "version")),
            analyst=analyst,
            separate_from=self.get("table", "separate_from") or [],
            processes=self.get("table", "processes"),
        )

    def _source(self, section: str) -> Any:
        """What a section names: a path, an address, or an object of one's own code, which is run to find it."""
        keys = [key for key in ("path", "url", "import") if key in KEYS[section]]
        given = {key: value for key in keys if (value := self.get(section, key)) is not None}
        if len(given) != 1:
            either = ", ".join(keys[:-1]) + " or import"
            raise InputError(
                f"{self.path.name}: [{section}] needs either {either}.",
                hint=f'write path = "{section}.skops" or import = "package.module:object"',
            )
        key, value = given.popitem()
        return self.folder / value if key == "path" else value if key == "url" else _import_object(value, self.folder)

    @property
    def has_clustering(self) -> bool:
        return bool(self._sections["clustering"])

    def clustering(self, domain: Domain) -> Clustering:
        """The clustering, tried on synthetic rows."""
        from dpexplain.models.clustering import Clustering

        options = {key: self.get("clustering", key) for key in ("labels", "features")}
        options |= {key: self.need("clustering", key) for key in ("name", "version")}
        from dpexplain.models.kinds import recognised

        return Clustering.of(recognised(self._source("clustering")).model, domain=domain, **options)

    def model_at_hand(self) -> Model | None:
        """The model, if its file is there already or it can be imported; a plan may be made before there is one."""
        path = self.get("model", "path")
        there = path is None and any(self.get("model", key) is not None for key in ("import", "url"))
        there = there or (path is not None and (self.folder / path).exists())
        return self.model() if there else None

    def model(self) -> Model:
        """The model."""
        return self._model(self._source("model"), self.need("model", "version"))

    def other_model(self, named: str, version: str) -> Model:
        """Another model of the same thing: a file, an address, or "module:object"; the rest as in [model]."""
        if "://" in named:
            return self._model(named, version)
        return self._model(_import_object(named, self.folder) if ":" in named else self.folder / named, version)

    def _model(self, source: Any, version: str) -> Model:
        from dpexplain.models import Model

        options = {key: self.get("model", key) for key in ("features", "thread_safe", "block", "classes", "options")}
        options |= {"name": self.need("model", "name"), "version": version}
        transform = self.get("model", "transform")
        if transform is not None:
            options["transform"] = _import_object(transform, self.folder)
        return Model(source, output=self.output, label=self.label, **options)


def reviewed(path: Path) -> Domain:
    """The domain in a file that a person has reviewed."""
    from dpexplain.data.domain_file import Domain

    domain = Domain.load(path)
    domain.require_review()
    return domain


def ledger_url(url: str, folder: Path) -> str:
    """The URL with a relative SQLite path made absolute from `folder`."""
    prefix = "sqlite:///"
    rest = url.removeprefix(prefix)
    if rest.split("?")[0] in (":memory:", "") and url != "":
        raise InputError(
            "the command line needs a ledger that stays: what was spent must not be forgotten.",
            hint="write sqlite:///budget.db, or postgresql://user@host/database",
        )
    if not url.startswith(prefix) and "://" in url:
        return url
    return prefix + str(folder / rest)


def _fits(value: Any, kind: Any) -> bool:
    if kind == NAMES:
        return isinstance(value, list) and all(isinstance(name, str) for name in value)
    return isinstance(value, kind) and (kind is bool or not isinstance(value, bool))


def _check_keys(where: str, what: str, written: Mapping[str, Any], known: Mapping[str, Any]) -> None:
    for key in written:
        if key not in known:
            close = difflib.get_close_matches(key, known, 1)
            hint = f"did you mean {close[0]}?" if close else "it may have: " + ", ".join(sorted(known))
            raise InputError(f"{where} has an unknown {what} {key!r}.", hint=hint)


def _import_object(spec: str, folder: Path) -> Any:
    module, _, name = spec.partition(":")
    if not module or not name:
        raise ModelError("[model] import names no object.", hint='write import = "package.module:object"')
    sys.path.append(str(folder))  # and it stays: the model may import more when it predicts
    try:
        found: Any = importlib.import_module(module)
        for part in name.split("."):
            found = getattr(found, part)
    except Exception as error:
        raise ModelError(
            f"the model {spec!r} cannot be imported ({type(error).__name__}).",
            hint="the module must be installed, or lie beside the project file",
        ) from None
    return found
