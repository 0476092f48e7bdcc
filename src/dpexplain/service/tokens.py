"""Who asks: tokens of four roles. A token is shown once; what is kept is its hash.

curator   tables, models, limits, tokens; signs domains; approves what agents ask
analyst   plans, asks within a personal limit, and reads what they asked for
viewer    reads every release of their tables, and verifies
person    reads one report about themselves, and nothing else
"""

from __future__ import annotations

import hashlib
import hmac
import json
from collections.abc import Collection, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from enum import StrEnum
from typing import Any

import sqlalchemy as sa

from dpexplain.core.rng import secret_bytes
from dpexplain.errors import InputError
from dpexplain.service.store import Store, new_id, now, tokens

DAY = 86_400.0
PREFIX = "dpx"
NOBODY = "0" * 64  # what the secret of an unknown token is compared with


class Role(StrEnum):
    """What somebody may do."""

    CURATOR = "curator"
    ANALYST = "analyst"
    VIEWER = "viewer"
    PERSON = "person"


@dataclass(frozen=True)
class Principal:
    """Somebody who showed a valid token.

    tables   those that they may ask about; None for all, which curators always have
    release  the one that a person may read
    agent    whether a program asks in their name: plans first, and waits for approval above a cost

    by_issuer says that the token is one of a house's own issuer (oidc.py), which is not kept here.
    """

    id: str
    name: str
    role: Role
    tables: frozenset[str] | None
    release: str | None
    agent: bool
    expires: float
    by_issuer: bool = False

    def may_see(self, table: str) -> bool:
        return self.role is not Role.PERSON and (self.tables is None or table in self.tables)


@dataclass(frozen=True)
class Wanted:
    """A token to be made."""

    name: str
    role: Role
    tables: Sequence[str] | None = None
    release: str | None = None
    agent: bool = False
    days: float = 90.0

    def check(self) -> None:
        """Refuse what makes no sense."""
        if not self.name.strip() or not self.name.isprintable() or len(self.name) > 100:
            raise InputError("the name of a token must be 1 to 100 printable characters.", spent="")
        if (self.role is Role.PERSON) != (self.release is not None):
            raise InputError("a person's token names one release, and no other token does.", spent="")
        if self.role is Role.CURATOR and self.tables is not None:
            raise InputError(
                "a curator decides about all tables, so a curator's token names none.",
                hint="leave tables out; for a curator of some tables alone, serve these by themselves",
                spent="",
            )
        if self.agent and self.role is not Role.ANALYST:
            raise InputError("an agent is an analyst.", hint='role = "analyst"', spent="")
        if not 0 < self.days <= 3660:
            raise InputError("days must be above 0 and at most 3660.", spent="")


def issue(connection: sa.Connection, wanted: Wanted) -> tuple[str, str]:
    """A new token, which is shown once, and its id."""
    wanted.check()
    known, secret = new_id(), secret_bytes(32).hex()
    tables = None if wanted.tables is None else json.dumps(sorted(wanted.tables))
    connection.execute(
        tokens.insert().values(
            id=known, hash=_hash(secret), name=wanted.name, role=wanted.role.value, tables=tables,
            release=wanted.release, agent=int(wanted.agent), expires=now() + wanted.days * DAY, revoked=0,
            made=datetime.now(UTC).date().isoformat(),
        )
    )  # fmt: skip
    return f"{PREFIX}_{known}_{secret}", known


def revoke(connection: sa.Connection, token: str) -> bool:
    """End a token at once; whether there was one."""
    changed = connection.execute(tokens.update().where(tokens.c.id == token).values(revoked=1))
    return bool(changed.rowcount)


def check(store: Store, shown: str) -> Principal | None:
    """Whose token this is; None for one that is unknown, forged, expired or revoked, all in the same steps."""
    prefix, _, rest = shown.partition("_")
    known, _, secret = rest.partition("_")
    usable = prefix == PREFIX and shown.isascii() and len(shown) < 200
    with store.read() as connection:
        row = connection.execute(sa.select(tokens).where(tokens.c.id == (known if usable else ""))).first()
    same = hmac.compare_digest(_hash(secret if usable else ""), NOBODY if row is None else row.hash)
    return _principal(row) if row is not None and same and _lasts(row) else None


def by_id(store: Store, token: str) -> Principal | None:
    """Whose token has this id, while it lasts: for whoever has shown it before."""
    with store.read() as connection:
        row = connection.execute(sa.select(tokens).where(tokens.c.id == token)).first()
    return _principal(row) if row is not None and _lasts(row) else None


def listed(store: Store) -> list[dict[str, object]]:
    """All tokens, without what would let somebody use them."""
    columns = [column for column in tokens.c if column.name != "hash"]
    with store.read() as connection:
        rows = connection.execute(sa.select(*columns).order_by(tokens.c.made, tokens.c.id)).all()
    return [
        {
            **row._asdict(),
            "tables": None if row.tables is None else json.loads(row.tables),
            "agent": bool(row.agent),
            "revoked": bool(row.revoked),
            "expires": datetime.fromtimestamp(row.expires, UTC).isoformat(timespec="seconds"),
        }
        for row in rows
    ]


def any_of(connection: sa.Connection, role: Role) -> bool:
    """Whether a token of this role was ever made."""
    return connection.scalar(sa.select(tokens.c.id).where(tokens.c.role == role.value).limit(1)) is not None


def names_of(store: Store, roles: Collection[Role]) -> set[str]:
    """Everybody who has a token of these roles."""
    wanted = [role.value for role in roles]
    with store.read() as connection:
        return set(connection.scalars(sa.select(tokens.c.name).where(tokens.c.role.in_(wanted))))


def _lasts(row: Any) -> bool:
    """Whether a token still counts. Curators limited to some tables were made by earlier versions: they could make
    others without such a limit, so they count no more.
    """
    limited = row.role == Role.CURATOR.value and row.tables is not None
    return not row.revoked and row.expires > now() and not limited


def _principal(row: sa.Row[tuple[object, ...]]) -> Principal:
    tables = None if row.tables is None else frozenset(json.loads(row.tables))
    return Principal(row.id, row.name, Role(row.role), tables, row.release, bool(row.agent), row.expires)


def _hash(secret: str) -> str:
    """Secrets are 256 random bits, so a plain hash keeps them."""
    return hashlib.sha256(secret.encode("utf-8", "replace")).hexdigest()
