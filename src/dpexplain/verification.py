"""Does a published explanation agree with the ledger? For auditors, who see the ledger and never the data.

A sharpened curve rests on a prior: what the public model said about synthetic rows. The ledger keeps it since it was
first learned, and an auditor without the model can see that a file holds what was kept. Whoever has the model can learn
it again from public things and from what was released: that shows that the prior is the one that the file claims.
"""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

from dpexplain.core.account import Stored
from dpexplain.core.canonical import JsonObject, digest
from dpexplain.core.domain import Domain
from dpexplain.errors import DpexplainError, InputError, VerificationError
from dpexplain.ledger import Ledger, open_ledger
from dpexplain.ledger.account import entry_of, load_payload
from dpexplain.ledger.chain import records
from dpexplain.ledger.database import events
from dpexplain.ledger.events import Committed, ModelDeclared, Reserved, damaged
from dpexplain.methods.curves import Curve
from dpexplain.methods.marginals.result import Marginals
from dpexplain.methods.result import DAMAGED, Result
from dpexplain.methods.sharpening import STAND_IN, Sharpening, agrees
from dpexplain.methods.stand_in.result import StandIn
from dpexplain.receipts import Receipt

if TYPE_CHECKING:
    from dpexplain.models import Model

UNCHECKED = (
    "prior unchecked: the ledger keeps the prior of this file, but whether the model truly said this about synthetic "
    "rows can be seen only with the model. The released values and the proven interval do not depend on it."
)


def verify(result: Result, ledger: str | Path | Ledger, model: Model | None = None) -> list[str]:
    """Raise VerificationError unless this ledger released this result, for this request and with this guarantee.

    The answer lists, in words, what could not be checked. A sharpened curve has a prior, which must be the one that the
    ledger keeps; with the `model` it is also learned again and compared, and without it the answer says so.

    That the drawn values follow from the released integers and the prior is checked when a result is read
    (`from_json`); that the ledger itself is whole, by `Ledger.verify`.
    """
    books = open_ledger(ledger, create=False) if isinstance(ledger, str | Path) else ledger
    receipt, notes = result.receipt, list[str]()
    for other in result.relies_on:
        if other.receipt.request["table"] != receipt.request["table"]:
            raise VerificationError(f"the {other.kind} in this result are of another table.")
        notes += verify(other, books, model)
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
    if isinstance(result, Curve) and result.sharpening is not None:
        _check_kept(result.sharpening, receipt, books)
        notes += [UNCHECKED] if model is None else []
        if model is not None:
            _check_learned(result, result.sharpening, books, model)
    return list(dict.fromkeys(notes))


# Priors ---------------------------------------------------------------------------------------------------------------


def _check_kept(sharpening: Sharpening, receipt: Receipt, books: Ledger) -> None:
    """Raise unless the ledger keeps exactly this prior, for this release and for synthetic rows from this source."""
    identity = sharpening.known_as(receipt)
    with books.database.read() as connection:
        here = events.c.account == receipt.entry.account, books.database.body_has("identity", identity)
        record = next(records(connection, *here), None)
    if record is not None and record.true_hash() != record.hash:
        raise damaged(f"event {record.seq} does not have the hash it carries")
    kept = None if record is None else record.event()
    if not isinstance(kept, ModelDeclared):
        raise VerificationError(
            "the ledger keeps no prior for this release from these synthetic rows.",
            hint="the file was altered, or made by somebody who could only read the ledger",
        )
    if kept.answers != sharpening.prior.numbers():
        raise VerificationError("the prior in this file is not the one that the ledger keeps.")


def _check_learned(curve: Curve, sharpening: Sharpening, books: Ledger, model: Model) -> None:
    """Raise unless the model says about these synthetic rows what the prior says it did."""
    receipt, origin = curve.receipt, sharpening.origin
    if model.identity != receipt.request["model"]:
        raise InputError(
            "this is not the model that the file explains: its name, version, range, label or columns are others.",
            hint="leave the model out to check everything but the prior",
            spent="",
        )
    if receipt.domain is None:
        raise VerificationError("this file does not say what was declared, so its prior cannot be learned again.")
    try:
        stand_in = _stand_in(origin, receipt, books) if origin["from"] == STAND_IN else None
        again = curve.learned_again(model.checked(Domain.from_json(receipt.domain)), stand_in)
    except DpexplainError:
        raise
    except DAMAGED:
        raise VerificationError("the prior in this file does not follow from what it claims to be made of.") from None
    if again.origin != origin or not agrees(again.prior, sharpening.prior):
        raise VerificationError(
            "the prior in this file is not what this model says about these synthetic rows.",
            hint="another model has this name and version, or the ledger was given a prior of somebody's own",
        )


def _stand_in(origin: JsonObject, receipt: Receipt, books: Ledger) -> StandIn:
    """The stand-in that a prior came from, as the ledger stored it."""
    request, stored = _stored(origin["entry"], receipt, books)
    earlier = [_stored(one["entry"], receipt, books) for one in request.get("builds_on", [])]
    marginals = [Marginals(_receipt(receipt, *one), one[1].payload) for one in earlier]
    found = StandIn(_receipt(receipt, request, stored), stored.payload, *marginals)
    return StandIn.rebuild(found.receipt, found.released, found.view())


def _stored(sequence: int, receipt: Receipt, books: Ledger) -> tuple[JsonObject, Stored]:
    """What was asked for and released as this entry of the account, for the table of a receipt."""
    here, database = events.c.account == receipt.entry.account, books.database
    with database.read() as connection:
        record = next(records(connection, here, events.c.seq == sequence), None)
        event = None if record is None else record.event()
        if record is not None and isinstance(event, Committed):
            about = records(connection, here, database.body_has("reservation", event.reservation))
            asked = next(one for r in about if isinstance(one := r.event(), Reserved))
            if asked.request["table"] == receipt.request["table"]:
                return asked.request, Stored(asked.label, entry_of(record, event), load_payload(connection, event))
    raise VerificationError(f"entry {sequence} of this ledger holds no release from the table of this file.")


def _receipt(receipt: Receipt, request: JsonObject, stored: Stored) -> Receipt:
    """The receipt of another release from the same table."""
    about = receipt.budget, receipt.neighbours, stored.entry, receipt.software
    return Receipt(stored.label, request, *about, domain=receipt.domain)
