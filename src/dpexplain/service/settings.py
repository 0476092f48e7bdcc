"""How a service is set up: the section [service] of the project file. Everything has a default."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from urllib.parse import urlsplit

from dpexplain.errors import InputError
from dpexplain.project.file import Project, ledger_url
from dpexplain.service.oidc import Oidc

STORE = "sqlite:///service.db"


@dataclass(frozen=True)
class Settings:
    """What an operator decides.

    store         where tokens, jobs and results are kept; by default beside a SQLite ledger, or in the database
                  of a PostgreSQL one
    slot          seconds between two strokes of the public clock: releases begin and are announced at these alone
    jobs          releases at a time in each process
    rate          requests that one token may send in a minute, to each process
    largest_body  bytes of a request
    patience      seconds in which a request must have arrived
    lease         seconds until another process goes on with what one that died has left behind
    grace         seconds that running releases have to finish when the service is stopped
    token_days    how long a token lasts, unless the curator says less
    models        the folder that models may be registered from; without it, the project's model alone is served
    approve_above the epsilon above which what an agent asks waits for the curator; without it, everything does
    oidc          the issuer whose tokens are taken beside our own, if there is one
    public_url    the origin that browsers see, such as that of a proxy with TLS: https makes cookies Secure, and forms
                  must come from there
    """

    store: str
    slot: float = 5.0
    jobs: int = 2
    rate: int = 6_000
    largest_body: int = 1_000_000
    patience: float = 10.0
    lease: float = 15.0
    grace: float = 30.0
    token_days: int = 90
    models: Path | None = None
    approve_above: float = 0.0
    oidc: Oidc | None = None
    public_url: str | None = None

    @property
    def secure(self) -> bool:
        """Whether browsers reach the console over https, though this server speaks HTTP."""
        return (self.public_url or "").startswith("https:")

    @classmethod
    def of(cls, project: Project) -> Settings:
        """The settings in a project file."""
        names = ("slot", "jobs", "rate", "largest_body", "patience", "lease", "grace", "token_days", "approve_above")
        given = {name: value for name in names if (value := project.get("service", name)) is not None}
        for name, value in given.items():
            if not (value > 0 or (name == "approve_above" and value == 0)) or value > 10**9:
                raise InputError(f"{project.path.name}: [service] {name} must be a number above 0.", hint="slot = 5.0")
        folder = project.get("service", "models")
        models = None if folder is None else (project.folder / folder).resolve()
        written = project.get("service", "oidc")
        oidc = None if written is None else Oidc.read(written, f"{project.path.name}: [service.oidc]")
        public_url = project.get("service", "public_url")
        given |= {} if public_url is None else {"public_url": _origin(public_url, project.path.name)}
        return cls(store=_store(project), models=models, oidc=oidc, **given)


def _origin(url: str, where: str) -> str:
    """Scheme, name and port as a browser says them in `Origin`."""
    try:
        parts = urlsplit(url)
        port = parts.port
    except ValueError:
        parts, port = urlsplit(""), None
    more = parts.path.strip("/") or parts.query or parts.fragment or parts.username or parts.password
    if parts.scheme not in ("http", "https") or not parts.hostname or more:
        raise InputError(
            f"{where}: [service] public_url must be an address without a path.",
            hint='public_url = "https://explain.example.org"',
        )
    name = f"[{parts.hostname}]" if ":" in parts.hostname else parts.hostname
    usual = port in (None, {"http": 80, "https": 443}[parts.scheme])
    return f"{parts.scheme}://{name}" + ("" if usual else f":{port}")


def _store(project: Project) -> str:
    url = project.get("service", "store")
    if url is None:
        ledger = project.ledger()
        url = ledger if ledger.startswith("postgres") else STORE
    return ledger_url(url, project.folder)
