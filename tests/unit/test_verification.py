"""`verify` and the priors of curves: kept in the ledger, and learned again with the model."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
import sqlalchemy as sa

import dpexplain as dpx
from dpexplain.errors import LedgerCorrupt, VerificationError
from dpexplain.ledger.database import events
from dpexplain.verification import CHANCE_UNCHECKED, PERSON_UNCHECKED, UNCHECKED


@pytest.fixture
def table(make_table, frame):
    return make_table(frame, budget=dpx.Budget(20))


@pytest.fixture(autouse=True)
def _two_features_are_several(monkeypatch):
    monkeypatch.setattr("dpexplain.methods.accumulated_effects.release.SEVERAL", 2)


def sharpened(table, model, kind, **options):
    if kind == "pdp":
        return dpx.partial_dependence(table, model, ["age", "sex"], epsilon=1, **options)[0]
    return dpx.accumulated_effects(table, model, ["age", "sex"], epsilon=1, **options)[0]


def every_source(table):
    """What synthetic rows may come from, as options of a curve."""
    known = dpx.marginals(table, epsilon=1)
    yield {}
    yield {"rug": False}
    yield {"rug": known}
    yield {"marginals": known}
    yield {"stand_in": dpx.stand_in(table, epsilon=1)}
    yield {"stand_in": dpx.stand_in(table, epsilon=1, marginals=known, grade="tree")}


@pytest.mark.parametrize("kind", ["pdp", "ale"])
def test_priors_are_those_of_the_ledger_and_of_the_model(table, model, kind):
    other = {"pdp": "marginals", "ale": "rug"}[kind]
    sources = [options for options in every_source(table) if other not in options]
    origins = []
    for options in sources:
        curve = dpx.from_json(sharpened(table, model, kind, **options).to_json())
        assert dpx.verify(curve, table.ledger) == [UNCHECKED]
        assert dpx.verify(curve, table.ledger, model) == []
        origins.append(curve.sharpening.origin["from"])
    assert set(origins) == {"histograms", "stand-in", *(["domain"] if kind == "pdp" else [])}


def test_without_a_prior_everything_is_as_before(table, model):
    curve = sharpened(table, model, "pdp")
    for other in (dpx.from_json(curve.to_json(prior=False)), replace(curve, sharpening=None)):
        assert dpx.verify(dpx.from_json(other.to_json()), table.ledger) == []
        assert dpx.verify(other, table.ledger, model) == []
    assert dpx.verify(dpx.marginals(table, epsilon=1), table.ledger) == []


def forged(curve, *, origin=None, **changes):
    """A file that agrees with itself, with another prior."""
    known = curve.sharpening
    other = replace(known, prior=replace(known.prior, **changes), origin=origin or known.origin)
    return dpx.from_json(replace(curve, sharpening=other).to_json())


@pytest.mark.parametrize("kind", ["pdp", "ale"])
def test_a_forged_prior_is_noticed(table, model, kind):
    one, two = dpx.stand_in(table, epsilon=1), dpx.stand_in(table, epsilon=2)
    curve = sharpened(table, model, kind, stand_in=one)
    prior, origin = curve.sharpening.prior, curve.sharpening.origin
    entry = two.receipt.entry
    for changes in (
        {"means": prior.means + 0.1},
        {"factor": 2 * prior.factor},
        {"rest": prior.rest + 0.01},
        {"most": prior.most / 2},
    ):
        with pytest.raises(VerificationError, match="not the one that the ledger keeps"):
            dpx.verify(forged(curve, **changes), table.ledger)
    for changes in (
        {"rows": prior.rows + 1},
        {"origin": origin | {"entry": entry.sequence}},
        {"origin": origin | {"entry": entry.sequence, "payload": entry.payload_hash}},
        {"origin": origin | {"cost": {**origin["cost"], "amount": "1/1000"}}},
        {"origin": {"from": "domain"}},
    ):
        with pytest.raises(VerificationError, match="keeps no prior"):
            dpx.verify(forged(curve, **changes), table.ledger)


@pytest.mark.parametrize("kind", ["pdp", "ale"])
def test_whoever_wrote_a_prior_of_their_own_into_the_ledger_is_found_out_by_the_model(table, model, kind):
    """The owner of a ledger can have it keep anything: then only the model tells."""
    receipt, curve = dpx.marginals(table, epsilon=1).receipt, sharpened(table, model, kind)
    some = {"from": "stand-in", "payload": "", "cost": receipt.cost.to_json(), "builds_on": []}
    origins = [
        {"from": "domain"},
        {"from": "histograms", "payload": "0" * 64},
        *({**some, "entry": sequence} for sequence in (receipt.entry.sequence, 1, 10**6)),
    ]
    for origin in origins:
        own = forged(curve, origin=origin, means=curve.sharpening.prior.means + 0.05)
        table.door.account.declare(own.sharpening.known_as(own.receipt), own.sharpening.prior.numbers())
        assert dpx.verify(own, table.ledger) == [UNCHECKED]
        with pytest.raises(VerificationError, match="the prior in this file|holds no release"):
            dpx.verify(own, table.ledger, model)


def test_another_model_is_noticed(table, model):
    curve = sharpened(table, model, "pdp")
    flat = dpx.Model(lambda rows: np.full(len(rows), 0.5), output=(0.0, 1.0), name="score", version="1")
    with pytest.raises(VerificationError, match="not what this model says"):
        dpx.verify(curve, table.ledger, flat)
    newer = dpx.Model(flat.original, output=(0.0, 1.0), name="score", version="2")
    with pytest.raises(dpx.InputError, match="not the model that the file explains"):
        dpx.verify(curve, table.ledger, newer)


def test_a_file_without_its_domain_cannot_be_learned_again(table, model):
    curve = sharpened(table, model, "pdp")
    bare = replace(curve, receipt=replace(curve.receipt, domain=None))
    assert dpx.verify(bare, table.ledger) == [UNCHECKED]
    with pytest.raises(VerificationError, match="does not say what was declared"):
        dpx.verify(bare, table.ledger, model)


def test_a_prior_that_was_changed_in_the_ledger_is_noticed(table, model):
    curve = sharpened(table, model, "pdp")
    with table.ledger.database.write() as connection:
        mine = table.ledger.database.body_has("identity", curve.sharpening.known_as(curve.receipt))
        body = connection.scalar(sa.select(events.c.body).where(mine))
        connection.exec_driver_sql("DROP TRIGGER IF EXISTS events_no_update")
        connection.execute(events.update().where(mine).values(body=body.replace("500.0", "501.0", 1)))
    with pytest.raises(LedgerCorrupt, match="does not have the hash it carries"):
        dpx.verify(curve, table.ledger)


def test_the_prior_of_one_curve_is_not_that_of_another(table, model):
    """Where curves are too long to be sharpened together, each has a prior of its own, and says which."""
    curve = sharpened(table, model, "pdp")
    moved = replace(curve, sharpening=replace(curve.sharpening, part=1))
    with pytest.raises(ValueError, match="other numbers"):
        _ = moved.values
    text = curve.to_json().replace('"part": null', '"part": 1')
    with pytest.raises(dpx.InputError, match="damaged"):
        dpx.from_json(text)


@pytest.mark.parametrize("handed_over", [False, True])
def test_what_drawn_orders_add_to_intervals_is_found_again_with_the_model(table, model, handed_over):
    """No ledger holds it, so whoever publishes a file could make its intervals narrower."""
    options = {"marginals": dpx.marginals(table, epsilon=1)} if handed_over else {}
    found = dpx.influence(table, model, aggregate="shapley", samples=4, epsilon=5, **options)
    assert min(found.sampling) >= 0
    assert max(found.sampling) > 0
    again = dpx.from_json(found.to_json())
    assert dpx.verify(again, table.ledger) == [CHANCE_UNCHECKED]
    assert dpx.verify(again, table.ledger, model) == []
    surer = dpx.from_json(replace(found, sampling=tuple(each / 2 for each in found.sampling)).to_json())
    assert np.diff(surer.interval(), axis=0).sum() < np.diff(found.interval(), axis=0).sum()
    with pytest.raises(VerificationError, match="what drawn orders add"):
        dpx.verify(surer, table.ledger, model)


def test_what_a_file_says_about_a_person_is_said_to_be_unchecked(table, model):
    row, known = {"age": 24, "sex": "Male", "income": 30.0}, dpx.marginals(table, epsilon=1)
    for found in (
        dpx.influence(table, model, "actual", row=row, marginals=known),
        dpx.transparency_report(table, model, row, epsilon=1),
    ):
        assert dpx.verify(dpx.from_json(found.to_json()), table.ledger, model) == [PERSON_UNCHECKED]
