"""Who granted what: a chain of decisions in the service's store, whose every link is kept in a ledger too.

    hash = SHA-256 of the canonical JSON of {seq, at, actor, what, body, account, prev}

What is spent, and the limits of analysts, are events of the ledger itself. Tokens, models, signed domains and approvals
are decided here. The digest of each decision is declared in the ledger's account, beside the digests of model files, so
that the head of the ledger fixes this chain as well: a decision that was changed, or cut off, is noticed
(docs/decisions/0038-the-service.md).
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import UTC, datetime

import sqlalchemy as sa

from dpexplain.core.canonical import JsonObject, canonical_json, digest
from dpexplain.errors import LedgerCorrupt
from dpexplain.ledger import LedgerAccount
from dpexplain.ledger.chain import records
from dpexplain.ledger.database import events
from dpexplain.ledger.events import ModelDeclared
from dpexplain.service.store import Store, decisions

GENESIS = "0" * 64


@dataclass(frozen=True)
class Decision:
    """One line of the chain."""

    seq: int
    at: str
    actor: str
    what: str
    body: JsonObject
    prev_hash: str
    hash: str
    account: str

    def true_hash(self) -> str:
        """What follows from what it says."""
        said = {"seq": self.seq, "at": self.at, "actor": self.actor, "what": self.what, "body": self.body}
        return digest({**said, "prev": self.prev_hash, "account": self.account})

    def to_json(self) -> JsonObject:
        return dict(vars(self))


class Decisions:
    """The chain of one service. `accounts` are those of the tables that it serves; the first one is its home."""

    def __init__(self, store: Store, accounts: Mapping[str, LedgerAccount]) -> None:
        self._store, self._accounts = store, accounts
        self._anchored = 0  # the last one that this process saw in the ledger

    def learn(self, accounts: Mapping[str, LedgerAccount]) -> None:
        """A table was opened: what is decided about it goes into its account."""
        self._accounts, self._anchored = accounts, 0

    def add(self, connection: sa.Connection, actor: str, what: str, body: JsonObject, table: str | None = None) -> int:
        """Write a decision down, in the transaction that carries it out. Then `anchor` it."""
        last = connection.execute(sa.select(decisions).order_by(decisions.c.seq.desc()).limit(1)).first()
        seq, prev = (1, GENESIS) if last is None else (last.seq + 1, last.hash)
        account = table if table is not None and table in self._accounts else next(iter(self._accounts), "")
        draft = Decision(seq, datetime.now(UTC).date().isoformat(), actor, what, body, prev, "", account)
        values = {**vars(draft), "body": canonical_json(body), "hash": draft.true_hash()}
        connection.execute(decisions.insert().values(values))
        return seq

    def anchor(self) -> None:
        """Declare in the ledger what is not declared there yet: what a crash kept back is caught up by the next one."""
        for one in self.every(after=self._anchored):
            account = self._accounts.get(one.account)
            if account is not None:
                mine = [float(byte) for byte in bytes.fromhex(one.hash)]
                if account.declare(self._identity(one.seq), mine) != mine:
                    raise _broken(f"the ledger knows another decision {one.seq}")
            self._anchored = one.seq

    def every(self, after: int = 0) -> list[Decision]:
        """All decisions, oldest first."""
        asked = sa.select(decisions).where(decisions.c.seq > after).order_by(decisions.c.seq)
        with self._store.read() as connection:
            rows = connection.execute(asked).all()
        return [Decision(**{**row._asdict(), "body": json.loads(row.body)}) for row in rows]

    def latest(self, connection: sa.Connection, what: str) -> JsonObject:
        """The last decision of a kind, or nothing."""
        asked = sa.select(decisions.c.body).where(decisions.c.what == what).order_by(decisions.c.seq.desc()).limit(1)
        found = connection.scalar(asked)
        return {} if found is None else dict(json.loads(found))

    def verify(self) -> JsonObject:
        """Recompute the chain and compare each link with the ledger; or raise LedgerCorrupt."""
        prev, open_ends, every = GENESIS, 0, self.every()
        for place, one in enumerate(every, 1):
            if (one.seq, one.prev_hash, one.hash) != (place, prev, one.true_hash()):
                raise _broken(f"its chain breaks at decision {place}")
            prev = one.hash
            account = self._accounts.get(one.account)
            kept = None if account is None else self._declared(account, one.seq)
            open_ends += kept is None
            if kept not in (None, one.hash):
                raise _broken(f"the ledger knows another decision {one.seq}")
        beyond = len(every) + 1
        if any(self._declared(account, beyond) is not None for account in self._accounts.values()):
            raise _broken(f"the ledger knows decision {beyond}, and the service does not: its end was cut off")
        return {"decisions": len(every), "head": f"{len(every)}:{prev}", "not_yet_in_the_ledger": open_ends}

    def _identity(self, seq: int) -> str:
        return digest({"decision of service": self._store.id, "seq": seq})

    def _declared(self, account: LedgerAccount, seq: int) -> str | None:
        """The hash that the ledger keeps of a decision."""
        database, identity = account.database, self._identity(seq)
        with database.read() as connection:
            found = records(connection, events.c.account == account.name, database.body_has("identity", identity))
            known = next((event for record in found if isinstance(event := record.event(), ModelDeclared)), None)
        return None if known is None else bytes(int(byte) for byte in known.answers).hex()


def _broken(what: str) -> LedgerCorrupt:
    return LedgerCorrupt(
        f"the service's decisions were changed or are damaged: {what}.",
        hint="keep the store as it is, and compare it with a backup",
    )
