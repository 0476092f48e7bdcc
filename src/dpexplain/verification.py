"""Does a published explanation agree with the ledger? For auditors, who see the ledger and never the data.

A sharpened result rests on a prior: what the public model said about synthetic rows. The ledger keeps it since it was
first learned, and an auditor without the model can see that a file holds what was kept. Whoever has the model can learn
it again from public things and from what was released: that shows that the prior is the one that the file claims. Local
explanations from a stand-in rest on what the model said about its synthetic rows, which is checked likewise. What drawn
orders add to the intervals of influences is in no ledger, but the model tells it again; what the model said about one
person is in no ledger either, and a file of it says so.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from dpexplain.columns import domain_from_json
from dpexplain.core.account import Stored
from dpexplain.core.budget import Cost
from dpexplain.core.canonical import JsonObject, digest
from dpexplain.errors import DpexplainError, InputError, VerificationError
from dpexplain.ledger import Ledger, open_ledger
from dpexplain.ledger.account import entry_of, load_payload
from dpexplain.ledger.chain import records
from dpexplain.ledger.database import events
from dpexplain.ledger.events import Committed, ModelDeclared, Reserved, damaged
from dpexplain.methods.clusters.sharp import SharpClusters
from dpexplain.methods.compare.spec import pair_of
from dpexplain.methods.histogram import references
from dpexplain.methods.influence.forecast import sampling_error
from dpexplain.methods.influence.person import PersonInfluence
from dpexplain.methods.influence.result import TableInfluence
from dpexplain.methods.local_readings import Kept, RowAttribution
from dpexplain.methods.local_sketch.rows import RowSketch
from dpexplain.methods.marginals.result import Marginals
from dpexplain.methods.posterior import local_rows
from dpexplain.methods.result import DAMAGED, Result
from dpexplain.methods.sharpened import SharpenedResult
from dpexplain.methods.sharpening import STAND_IN, Sharpening, agrees
from dpexplain.methods.stand_in.result import StandIn
from dpexplain.methods.transparency.result import TransparencyReport
from dpexplain.models.classes import checked_whole
from dpexplain.models.outcomes import Asker
from dpexplain.receipts import Receipt, Whole

if TYPE_CHECKING:
    from dpexplain.models import Model, ModelPair
    from dpexplain.models.clustering import Clustering

UNCHECKED = (
    "prior unchecked: the ledger keeps the prior of this file, but whether the model truly said this about synthetic "
    "rows can be seen only with the model. The released values and the proven interval do not depend on it."
)
UNLABELLED = (
    "prior unchecked: the ledger keeps how the synthetic rows of this file were labelled, but whether the clustering "
    "labels them so can be seen only with the clustering. The released counts and the proven interval do not depend "
    "on it."
)

NAMES_UNCHECKED = (
    "names unchecked: titles and descriptions of columns in this file are words that the ledger does not have."
)
ANSWERS_UNCHECKED = (
    "answers unchecked: whether the model truly said this about the stand-in's synthetic rows can be seen only with "
    "the model. The stand-in's released values do not depend on it."
)
CHANCE_UNCHECKED = (
    "chance unchecked: how much drawn orders or sets add to the intervals of this file can be seen only with the "
    "model. The released values do not depend on it."
)
PERSON_UNCHECKED = (
    "person unchecked: what this file says about one person, and what the model says about that person with other "
    "values, is in no ledger. The released histograms do not depend on it."
)
BY_MODEL = {UNCHECKED, ANSWERS_UNCHECKED, CHANCE_UNCHECKED}  # what is checked where the model is at hand
CHANCE_OFF = 0.01  # of the largest that orders add, by which another machine may say something else
WEIGHTS_OFF = 1e-3  # sum of the differences of weights likewise
FINE = 10  # levels of a prediction, by which another machine may say something else


def verify(
    result: Result,
    ledger: str | Path | Ledger,
    model: Model | Sequence[Model] | ModelPair | Clustering | None = None,
) -> list[str]:
    """Raise VerificationError unless this ledger released this result, for this request and with this guarantee.

    The answer lists, in words, what could not be checked. A sharpened result has a prior, which must be the one that
    the ledger keeps; with the `model` it is also learned again and compared, and without it the answer says so. So it
    is with what a model said about the rows of a stand-in, in a local sketch or an explanation from it, and with the
    labels of synthetic rows behind an explanation of clusters, with the clustering as `model`.

    That the drawn values follow from the released integers and the prior is checked when a result is read
    (`from_json`); that the ledger itself is whole, by `Ledger.verify`.
    """
    books = open_ledger(ledger, create=False) if isinstance(ledger, str | Path) else ledger
    known = pair_of(model) if isinstance(model, Sequence) else model
    receipt, notes = result.receipt, list[str]()
    for other in result.relies_on:
        if not result.may_rely_on(other):
            raise VerificationError(f"the {other.kind} in this result are of another table, or of something else.")
        notes += verify(other, books, known)
    released = result.released if receipt.batch is None else _whole_batch(result, books)
    books.check_entry(receipt.ledger_entry, released, request_id=receipt.ledger_request_id)
    statement = books.statement(receipt.entry.account)
    label = next(row.label for row in statement.rows if row.reservation == receipt.entry.reservation)
    label = label if receipt.batch is None else receipt.batch.label
    said = receipt.budget, receipt.neighbours, receipt.label, receipt.line
    true = statement.budget, statement.neighbours, label, statement.opening.line
    if said != true:
        raise VerificationError(
            "the published guarantee is not that of the account.",
            hint="its budget, relation, unit, label or line of accounts was altered",
        )
    if isinstance(result, SharpClusters):
        notes += _check_labels(result, books, known)
    asked: Any = known if hasattr(known, "checked") else None  # a model, and no clustering
    if isinstance(result, SharpenedResult) and result.sharpening is not None:
        _check_kept(result.sharpening, receipt, books)
        notes += [UNCHECKED] if asked is None else []
        if asked is not None:
            _check_learned(result, result.sharpening, books, asked)
    if isinstance(result, TableInfluence) and result.sampling:
        notes += [CHANCE_UNCHECKED] if asked is None else []
        if asked is not None:
            _check_sampling(result, books, asked)
    if isinstance(result, PersonInfluence | TransparencyReport):
        notes.append(PERSON_UNCHECKED)
    if isinstance(result, RowSketch | RowAttribution):
        stand_in, kept = (result.stand_in, result.kept) if isinstance(result, RowSketch) else result.for_file
        _check_answers(stand_in, kept, books, needed=isinstance(result, RowSketch))
        notes += [ANSWERS_UNCHECKED] if asked is None else []
        if asked is not None:
            _check_asked_again(stand_in, kept, asked)
    notes += [NAMES_UNCHECKED] if receipt.names else []
    return list(dict.fromkeys(notes))


def _whole_batch(result: Result, books: Ledger) -> JsonObject:
    """What the ledger holds for all parts of a batch; this result is one of them, or an error is raised."""
    receipt, whole = result.receipt, result.receipt.batch
    assert whole is not None
    with books.database.read() as connection:
        here = events.c.account == receipt.entry.account, events.c.seq == receipt.entry.sequence
        event = next((record.event() for record in records(connection, *here)), None)
        if not isinstance(event, Committed):
            raise VerificationError(
                f'entry {receipt.entry.sequence} of account "{receipt.entry.account}" is not in this ledger like this.',
                hint="check that this is the ledger that the explanation was made with",
            )
        payload = load_payload(connection, event)
    mine = receipt.part_of(Stored("", receipt.ledger_entry, payload))
    if mine is None:
        raise VerificationError("the request in this file is not the one that the batch in the ledger has for it.")
    if (mine.payload, mine.entry) != (result.released, receipt.entry):
        raise VerificationError("the published values are not those that the ledger recorded for this part of a batch.")
    return payload


# Answers --------------------------------------------------------------------------------------------------------------


def _check_answers(stand_in: StandIn, kept: Kept, books: Ledger, *, needed: bool) -> None:
    """Raise where the ledger keeps other answers of this model. Of what was read off a stand-in alone it keeps none."""
    event = _declared(kept.known_as(stand_in), stand_in.receipt, books)
    if event is None and needed:
        raise VerificationError("the ledger keeps no answers of this model about these synthetic rows.")
    if event is not None and event.answers != kept.numbers:
        raise VerificationError("what the model says in this file is not what the ledger keeps.")


def _check_asked_again(stand_in: StandIn, kept: Kept, model: Model) -> None:
    """Raise unless the model says about these synthetic rows what the file says it did."""
    _require_model(model, kept.model)
    again = local_rows(stand_in, model, kept.features).kept
    if again is None or len(again.numbers) != len(kept.numbers) or again.output != kept.output:
        away, off = [FINE + 1], 1.0
    else:
        away = [abs(a - b) for a, b in zip(again.answers, kept.answers, strict=True)]
        off = float(np.abs(again.shares - kept.shares).sum())
    if max(away, default=0) > FINE or off > WEIGHTS_OFF:
        raise VerificationError(
            "what the model says in this file is not what this model says about these synthetic rows.",
            hint="another model has this name and version, or the file was altered",
        )


def _require_model(model: Model | ModelPair, identity: JsonObject) -> None:
    if model.identity != identity:
        raise InputError(
            "this is not the model that the file explains: its name, version, range, label or columns are others.",
            hint="leave the model out to check everything else",
            spent="",
        )


# Priors ---------------------------------------------------------------------------------------------------------------


def _check_kept(sharpening: Sharpening, receipt: Receipt, books: Ledger) -> None:
    """Raise unless the ledger keeps exactly this prior, for this release and for synthetic rows from this source."""
    if _kept(sharpening.known_as(receipt), receipt, books) != sharpening.prior.numbers():
        raise VerificationError("the prior in this file is not the one that the ledger keeps.")


def _kept(identity: str, receipt: Receipt, books: Ledger) -> list[float]:
    """What the ledger keeps of answers about synthetic rows."""
    kept = _declared(identity, receipt, books)
    if kept is None:
        raise VerificationError(
            "the ledger keeps no prior for this release from these synthetic rows.",
            hint="the file was altered, or made by somebody who could only read the ledger",
        )
    return kept.answers


def _check_labels(result: SharpClusters, books: Ledger, clustering: Any) -> list[str]:
    """Raise unless the labels of the synthetic rows are those that the ledger keeps, and those of the clustering where
    it is at hand; else say that this was not checked.
    """
    if _kept(result.known_as, result.receipt, books) != [float(label) for label in result.given]:
        raise VerificationError("the labels of synthetic rows in this file are not those that the ledger keeps.")
    if not hasattr(clustering, "assign") or clustering.identity != result.receipt.request["clustering"]:
        return [UNLABELLED]
    if clustering.assign(result.synthetic).tolist() != list(result.given):
        raise VerificationError(
            "the labels of synthetic rows in this file are not those of this clustering.",
            hint="another clustering has this name and version, or the ledger was given labels of somebody's own",
        )
    return []


def _declared(identity: str, receipt: Receipt, books: Ledger) -> ModelDeclared | None:
    """What the account keeps under this identity."""
    with books.database.read() as connection:
        here = events.c.account == receipt.entry.account, books.database.body_has("identity", identity)
        record = next(records(connection, *here), None)
    if record is not None and record.true_hash() != record.hash:
        raise damaged(f"event {record.seq} does not have the hash it carries")
    kept = None if record is None else record.event()
    return kept if isinstance(kept, ModelDeclared) else None


def _check_sampling(result: TableInfluence, books: Ledger, model: Model) -> None:
    """Raise unless drawn orders or sets add as much to each influence as the file says, by what the model says now."""
    receipt, spec = result.receipt, result.spec
    _require_model(model, receipt.request["model"])
    if receipt.domain is None:
        raise VerificationError("this file does not say what was declared, so what chance adds cannot be found again.")
    domain, used = domain_from_json(receipt.domain), result.marginals
    if used is None and spec.marginals is not None:
        used = _marginals(spec.marginals, receipt, books)
    known = {} if used is None else references(spec.names, used, domain)
    again = sampling_error(spec, Asker(checked_whole(model, domain), spec.outcome), known)
    if not np.allclose(again, result.sampling, rtol=0, atol=CHANCE_OFF * max(again)):
        raise VerificationError(
            "what drawn orders add to the intervals in this file is not what this model says.",
            hint="another model has this name and version, or the file was altered",
        )


def _check_learned(result: SharpenedResult, sharpening: Sharpening, books: Ledger, model: Model | ModelPair) -> None:
    """Raise unless the model says about these synthetic rows what the prior says it did."""
    receipt, origin = result.receipt, sharpening.origin
    _require_model(model, receipt.request["model"])
    if receipt.domain is None:
        raise VerificationError("this file does not say what was declared, so its prior cannot be learned again.")

    try:
        stand_in = _stand_in(origin, receipt, books) if origin["from"] == STAND_IN else None
        if result.earlier_marginals is not None and result.marginals is None:
            result = result.with_marginals(_marginals(result.earlier_marginals, receipt, books))
        again = result.learned_again(checked_whole(model, domain_from_json(receipt.domain)), stand_in)
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
    own, payload = _stored(origin, receipt, books)
    earlier = [_stored(one, receipt, books) for one in own.request.get("builds_on", [])]
    found = StandIn(own, payload, *[Marginals(*one) for one in earlier])
    return StandIn.rebuild(found.receipt, found.released, found.view())


def _marginals(payload: str, receipt: Receipt, books: Ledger) -> Marginals:
    """Marginals that a release was computed from, as the ledger stored them."""
    for one in receipt.request.get("builds_on", []):
        own, released = _stored(one, receipt, books)
        if own.entry.payload_hash == payload:
            return Marginals(own, released)
    raise VerificationError("the ledger does not hold the marginals that this release was computed from.")


def _stored(said: JsonObject, receipt: Receipt, books: Ledger) -> tuple[Receipt, JsonObject]:
    """The receipt and the values of an earlier release from the table of a receipt; of a batch, the part with the
    values that are said.
    """
    sequence = said["entry"]
    here, database = events.c.account == receipt.entry.account, books.database
    with database.read() as connection:
        record = next(records(connection, here, events.c.seq == sequence), None)
        event = None if record is None else record.event()
        if record is not None and isinstance(event, Committed):
            about = records(connection, here, database.body_has("reservation", event.reservation))
            asked = next(one for r in about if isinstance(one := r.event(), Reserved))
            if asked.request["table"] == receipt.request["table"]:
                stored = Stored(asked.label, entry_of(record, event), load_payload(connection, event))
                for number in range(len(asked.request.get("requests", []))):
                    whole = Whole(number, asked.request, stored.entry.payload_hash, stored.entry.charged)
                    if digest(whole.part(stored.payload)) == said["payload"]:
                        return _part(receipt, stored, whole)
                return _receipt(receipt, asked.request, stored), stored.payload
    raise VerificationError(f"entry {sequence} of this ledger holds no release from the table of this file.")


def _part(receipt: Receipt, stored: Stored, whole: Whole) -> tuple[Receipt, JsonObject]:
    """The receipt and the values of one part of a batch from the same table."""
    request, mine = whole.bound(stored.entry, stored.payload), whole.part(stored.payload)
    entry = replace(stored.entry, payload_hash=digest(mine), charged=Cost.from_json(request["cost"]))
    return replace(_receipt(receipt, request, Stored(whole.label, entry, mine)), batch=whole), mine


def _receipt(receipt: Receipt, request: JsonObject, stored: Stored) -> Receipt:
    """The receipt of another release from the same table."""
    about = receipt.budget, receipt.neighbours, stored.entry, receipt.software
    return Receipt(stored.label, request, *about, domain=receipt.domain, names=receipt.names)
