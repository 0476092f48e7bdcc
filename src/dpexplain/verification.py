"""Does a published explanation agree with the ledger? For auditors, who see the ledger and never the data."""

from __future__ import annotations

from pathlib import Path

from dpexplain.core.canonical import digest
from dpexplain.errors import VerificationError
from dpexplain.ledger import Ledger, open_ledger
from dpexplain.methods.curves import Curve
from dpexplain.methods.result import Result
from dpexplain.methods.transparency.result import TransparencyReport


def verify(result: Result, ledger: str | Path | Ledger) -> None:
    """Raise VerificationError unless this ledger released this result, for this request and with this guarantee.

    That the drawn values follow from the released integers is checked when a result is read (`from_json`); that the
    ledger itself is whole, by `Ledger.verify`.
    """
    books = open_ledger(ledger, create=False) if isinstance(ledger, str | Path) else ledger
    receipt = result.receipt
    if isinstance(result, Curve) and result.marginals is not None:  # its rug is a release of its own
        if result.marginals.receipt.request["table"] != receipt.request["table"]:
            raise VerificationError("the rug of this curve is of another table.")
        verify(result.marginals, books)
    if isinstance(result, TransparencyReport) and result.earlier is not None:  # and so may be its histograms
        verify(result.earlier, books)
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
