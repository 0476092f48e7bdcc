"""A ledger as far as it was announced: whoever reads through it sees no event after the last stroke of the clock.

What a caller may probe, such as the ledger's answer to a file of their own, is answered from here: what has been
committed since the stroke is answered as what does not exist.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator
from contextlib import contextmanager
from typing import Any

import sqlalchemy as sa

from dpexplain.ledger import Ledger
from dpexplain.ledger.database import Database, events


def announced(ledger: Ledger, last: int, accounts: Collection[str]) -> Ledger:
    """The events of these accounts, up to number `last`. Nothing can be written through it."""
    return Ledger(_Announced(ledger.database, last, accounts))


class _Announced(Database):
    """A database whose every query of events carries the same two conditions."""

    def __init__(self, whole: Database, last: int, accounts: Collection[str]) -> None:
        vars(self).update(vars(whole))
        self._seen = events.c.seq <= last, events.c.account.in_(sorted(accounts))

    @contextmanager
    def read(self) -> Iterator[sa.Connection]:
        with super().read() as connection:
            sa.event.listen(connection, "before_execute", self._limited, retval=True)
            yield connection

    @contextmanager
    def write(self) -> Iterator[sa.Connection]:
        raise TypeError("an announced ledger is read")
        yield  # pragma: no cover - makes this a context manager

    def _limited(self, _on: Any, query: Any, several: Any, values: Any, _how: Any) -> tuple[Any, Any, Any]:
        if isinstance(query, sa.Select) and events in query.get_final_froms():
            query = query.where(*self._seen)
        return query, several, values
