"""Does a published explanation agree with the ledger? For auditors, who see the ledger and never the data."""

from __future__ import annotations

from pathlib import Path

from dpexplain.core.canonical import digest
from dpexplain.errors import VerificationError
from dpexplain.ledger import Ledger, open_ledger
from dpexplain.methods.result import Result


def verify(result: Result, ledger: str | Path | Ledger) -> None:
    """Raise VerificationError unless this ledger released this result, for this request and with this guarantee.

    That the drawn values follow from the released integers is checked when a result is read (`from_json`); that the
    ledger itself is whole, by `Ledger.verify`.
    """
    books = open_ledger(ledger, create=False) if isinstance(ledger, str | Path) else ledger
    receipt = result.receipt
    for other in result.relies_on:
        if other.receipt.request["table"] != receipt.request["table"]:
            raise VerificationError(f"the {other.kind} in this result are of another table.")
        verify(other, books)
    books.check_entry(receipt.entry, result.released, request_id=digest(receipt.request))
    statement = books.statement(receipt.entry.account)
    label = next(row.label for row in statement.rows if row.reservation == receipt.entry.reservation)
    said = receipt.budget, receipt.neighbours, receipt.label, receipt.line
    true = statement.budget, statement.neighbours, label, statement.opening.line
    if said != true:
        raise VerificationError(
            "the published guarantee is not that of the account.",
            hint="its budget, relation, unit, label or line of accounts was altered",
        )
