"""Jobs: what was asked under a key, and what came of it, as far as the public clock has announced it.

    waiting  -> queued -> running -> done | refused | lost        waiting for the curator: an agent needs approval
    waiting  -> declined          queued, waiting -> cancelled    before the reservation alone

A job belongs to whoever asked; the same key again is the same job. Whoever claims a job holds a lease. When a process
dies, the lease runs out and another one begins the job again: it finds the reservation in the ledger, and goes on at no
new cost.
"""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import sqlalchemy as sa

from dpexplain.core.canonical import JsonObject
from dpexplain.errors import InputError
from dpexplain.methods.result import Result
from dpexplain.service.store import Store, jobs, new_id, now, results

MAX_OPEN = 50  # jobs of one person that have not ended
MAX_LISTED = 1_000
OPEN = ("waiting", "queued", "running")
ENDED = ("done", "refused", "lost", "cancelled", "declined")


class KeyTaken(InputError):
    """A key was used for something else before."""


class TooMany(InputError):
    """Somebody has too many jobs that have not ended."""


@dataclass(frozen=True)
class Ask:
    """What is to become a job."""

    table: str
    owner: str
    key: str
    body: str
    body_digest: str
    label: str
    price: str
    state: str


def submit(store: Store, ask: Ask) -> tuple[Any, bool]:
    """The job of this key, and whether it is new."""
    with store.write() as connection:
        mine = connection.execute(sa.select(jobs).where(jobs.c.owner == ask.owner, jobs.c.key == ask.key)).first()
        if mine is not None:
            if mine.body_digest != ask.body_digest:
                raise KeyTaken("this key was used for another request.", hint="take a new key for a new request")
            return mine, False
        unknown = sa.or_(jobs.c.state.in_(OPEN), jobs.c.announced > now())  # an end that is not announced is none yet
        open_ones = sa.select(sa.func.count()).where(jobs.c.owner == ask.owner, unknown)
        if (connection.scalar(open_ones) or 0) >= MAX_OPEN:
            raise TooMany(f"{MAX_OPEN} requests of yours have not ended yet.", hint="wait for them, or cancel some")
        row = {
            "id": new_id(), "table_name": ask.table, "owner": ask.owner, "key": ask.key, "body": ask.body,
            "body_digest": ask.body_digest, "label": ask.label, "price": ask.price, "state": ask.state,
            "worker": None, "lease": 0.0, "asked": now(), "announced": None, "outcome": None,
        }  # fmt: skip
        connection.execute(jobs.insert().values(row))
        return connection.execute(sa.select(jobs).where(jobs.c.id == row["id"])).one(), True


def cancel(store: Store, job: str) -> bool:
    """Cancel a job that nobody has begun; whether it was possible. What has begun may have been paid for."""
    return _move(store, job, ("queued", "waiting"), "cancelled")


def decide(connection: sa.Connection, job: str, *, approved: bool) -> bool:
    """Carry out what the curator says to a job that waits; whether it did."""
    return _moved(connection, job, ("waiting",), "queued" if approved else "declined")


def claim(store: Store, worker: str, most: int, lease: float) -> list[Any]:
    """The oldest jobs that wait for a worker, now this one's; and those whose worker has died."""
    if most <= 0:
        return []
    with store.write() as connection:
        lapsed = sa.and_(jobs.c.state == "running", jobs.c.lease < now())
        free = sa.select(jobs.c.id).where(sa.or_(jobs.c.state == "queued", lapsed)).order_by(jobs.c.asked).limit(most)
        ids = list(connection.scalars(free))
        connection.execute(
            jobs.update().where(jobs.c.id.in_(ids)).values(state="running", worker=worker, lease=now() + lease)
        )
        return list(connection.execute(sa.select(jobs).where(jobs.c.id.in_(ids)).order_by(jobs.c.asked)).all())


def renew(store: Store, worker: str, ids: list[str], lease: float) -> None:
    """Say that this worker is still at it."""
    mine = sa.and_(jobs.c.id.in_(ids), jobs.c.worker == worker)
    with store.write() as connection:
        connection.execute(jobs.update().where(mine).values(lease=now() + lease))


def give_back(store: Store, worker: str) -> None:
    """Let others go on with what this worker has not finished. It has begun, so it is not queued: nobody cancels it."""
    mine = sa.and_(jobs.c.worker == worker, jobs.c.state == "running")
    with store.write() as connection:
        connection.execute(jobs.update().where(mine).values(worker=None, lease=0.0))


def finish(
    store: Store, job: Any, state: str, outcome: JsonObject, documents: list[Result],
    announces: Callable[[float], float],
) -> float:  # fmt: skip
    """Write down what came of a job, once, and when it is announced; its body, which may name a person, is not kept."""
    written = [document.to_json() for document in documents]
    with store.write() as connection:
        announced = announces(now())
        if not _moved(connection, job.id, ("running", "queued"), state):
            return announced  # another process was quicker, with the same values
        ids = []
        for number, (document, text) in enumerate(zip(documents, written, strict=True)):
            ids.append(new_id())
            connection.execute(
                results.insert().values(
                    id=ids[-1], job=job.id, number=number, table_name=job.table_name, owner=job.owner,
                    kind=document.kind, title=document.title, feature=document.feature,
                    reservation=document.receipt.entry.reservation, entry=document.receipt.entry.sequence,
                    announced=announced, document=text,
                )
            )  # fmt: skip
        said = json.dumps({**outcome, "results": ids})
        # the last lease would tell how long it took
        values = {"outcome": said, "announced": announced, "body": "", "worker": None, "lease": 0.0}
        connection.execute(jobs.update().where(jobs.c.id == job.id).values(values))
    return announced


def find(store: Store, job: str) -> Any:
    """The row of a job, or None."""
    with store.read() as connection:
        return connection.execute(sa.select(jobs).where(jobs.c.id == job)).first()


def listed(store: Store, owner: str | None, tables: list[str]) -> list[Any]:
    """The latest jobs of one person, or of everybody, about these tables."""
    asked = sa.select(jobs).where(jobs.c.table_name.in_(tables))
    asked = asked if owner is None else asked.where(jobs.c.owner == owner)
    with store.read() as connection:
        return list(connection.execute(asked.order_by(jobs.c.asked.desc()).limit(MAX_LISTED)).all())


def shown(row: Any, clock: float) -> JsonObject:
    """A job as far as it is announced: until then it runs, whatever has come of it."""
    announced = row.announced is not None and row.announced <= clock
    state = row.state if announced or row.state not in ENDED or row.announced is None else "running"
    outcome = json.loads(row.outcome) if announced and row.outcome is not None else {}
    return {
        "id": row.id,
        "table": row.table_name,
        "analyst": row.owner,
        "key": row.key,
        "label": row.label,
        "price": row.price,
        "state": state,
        "results": outcome.get("results", []),
        "parts": outcome.get("parts", []),
        "replayed": outcome.get("replayed"),
        "error": outcome.get("error"),
    }


def _move(store: Store, job: str, before: tuple[str, ...], after: str) -> bool:
    with store.write() as connection:
        return _moved(connection, job, before, after)


def _moved(connection: sa.Connection, job: str, before: tuple[str, ...], after: str) -> bool:
    where = sa.and_(jobs.c.id == job, jobs.c.state.in_(before))
    body = {"body": ""} if after in ("cancelled", "declined") else {}
    return bool(connection.execute(jobs.update().where(where).values(state=after, **body)).rowcount)
