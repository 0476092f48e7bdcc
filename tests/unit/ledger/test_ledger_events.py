"""Events: exact in both directions, strict when read."""

from __future__ import annotations

import json
from fractions import Fraction
from typing import Any

import pytest

from dpexplain.core.budget import Budget, Cost, Definition, pure, zcdp
from dpexplain.core.sensitivity import Neighbours, Relation, Unit
from dpexplain.errors import LedgerCorrupt
from dpexplain.ledger.events import (
    KINDS,
    AccountClosed,
    AccountOpened,
    AnalystLimited,
    Committed,
    ModelDeclared,
    NonPrivate,
    Reserved,
    SourceDeclared,
    TableDeclared,
    Unknown,
    from_body,
    to_body,
)

THIRD = Cost(Definition.PURE, Fraction(1, 3))
UNIT = Neighbours(Relation.ADD_REMOVE, Unit("id", 4))
EVENTS: list[Any] = [
    AccountOpened(Budget(0.1), Neighbours(Relation.REPLACE_ONE), pure(0.1)),
    AccountOpened(Budget(1, 1e-6), UNIT, zcdp(Fraction(24345678901234, 10**15)), ("a", "é"), "people", True),
    AccountClosed("Ada", "a new year", "é"),
    TableDeclared("2026-11", "d0"),
    SourceDeclared("2026-11", (), "c0", ()),
    SourceDeclared("2026-11", ("f0", "f1"), "c0", ("a", "é")),
    ModelDeclared("m0", [0.1, -2.0]),
    AnalystLimited("ann", THIRD),
    Reserved("r", "q", "é", {"a": [1, None, {"b": 0.1}]}, THIRD, None, "1"),
    Reserved("r", "q", "label", {}, Cost(Definition.ZCDP, Fraction(0)), "ann", "1"),
    Reserved("r", "q", "label", {}, THIRD, "ann", "1", ((None, "1/2"), ("ann", "1/3"))),
    Committed("r", "q", "0" * 64, THIRD),
    Committed("r", "q", "0" * 64, THIRD, (("ann", "1/3"),)),
    NonPrivate("mailed"),
]


@pytest.mark.parametrize("event", EVENTS)
def test_round_trip_is_exact(event: Any) -> None:
    body = to_body(event)
    assert body.isascii()
    assert from_body(event.kind, event.version, body) == event
    assert to_body(from_body(event.kind, event.version, body)) == body  # type: ignore[arg-type]


def test_the_spelling_is_fixed_for_ever() -> None:
    """If this fails, old ledgers cannot be read any more: write a new version of the event instead."""
    spelled = {(event.kind, event.version): to_body(event) for event in EVENTS}
    assert set(spelled) == {(cls.kind, cls.version) for cls in KINDS.values()}
    assert spelled["account-opened", 2] == (
        '{"budget":{"delta":"1/1000000","epsilon":"1/1"},'
        '"neighbours":{"relation":"add-remove","unit":{"column":"id","max_rows":4}},'
        '"overlapping":true,"people":"people","predecessors":["a","\\u00e9"],'
        '"total":{"amount":"12172839450617/500000000000000","definition":"zcdp"}}'
    )
    assert spelled["account-closed", 1] == '{"reason":"a new year","signed_by":"Ada","successor":"\\u00e9"}'
    assert spelled["table-declared", 1] == '{"domain_digest":"d0","table_version":"2026-11"}'
    assert spelled["source-declared", 1] == (
        '{"columns":"c0","origin":["f0","f1"],"separate_from":["a","\\u00e9"],"table_version":"2026-11"}'
    )
    assert spelled["model-declared", 1] == '{"answers":[0.1,-2.0],"identity":"m0"}'
    assert spelled["analyst-limited", 1] == ('{"analyst":"ann","limit":{"amount":"1/3","definition":"pure"}}')
    assert spelled["reserved", 2] == (
        '{"analyst":"ann","cost":{"amount":"1/3","definition":"pure"},"label":"label","request":{},'
        '"request_id":"q","reservation":"r","spent":[[null,"1/2"],["ann","1/3"]],"table_version":"1"}'
    )
    assert spelled["committed", 2] == (
        '{"charged":{"amount":"1/3","definition":"pure"},"payload_hash":"' + "0" * 64 + '",'
        '"request_id":"q","reservation":"r","spent":[["ann","1/3"]]}'
    )
    assert spelled["non-private", 1] == '{"note":"mailed"}'


@pytest.mark.parametrize(("kind", "version"), [("os.system", 1), ("reserved", 3), ("reserved", 0), ("", 1)])
def test_what_we_do_not_know_is_not_guessed(kind: str, version: int) -> None:
    assert from_body(kind, version, "not even JSON") == Unknown(kind, version)


def test_version_1_said_nothing_about_renewals() -> None:
    opened = (
        '{"budget":{"delta":null,"epsilon":"1/10"},"neighbours":{"relation":"replace-one","unit":null},'
        '"total":{"amount":"1/10","definition":"pure"}}'
    )
    assert from_body("account-opened", 1, opened) == EVENTS[0]
    assert EVENTS[0].line == {}
    for version, body in ((2, opened), (1, opened.replace('"total"', '"people":"","total"'))):
        with pytest.raises(LedgerCorrupt):
            from_body("account-opened", version, body)
    for key, wrong in (("overlapping", 1), ("people", None), ("predecessors", "adult")):
        with pytest.raises(LedgerCorrupt):
            from_body("account-opened", 2, json.dumps({**json.loads(to_body(EVENTS[1])), key: wrong}))


def test_version_1_said_nothing_about_totals() -> None:
    """As they were spelled before; they are read for ever, and never written again."""
    reserved = (
        '{"analyst":"ann","cost":{"amount":"0/1","definition":"zcdp"},"label":"label","request":{},'
        '"request_id":"q","reservation":"r","table_version":"1"}'
    )
    committed = (
        '{"charged":{"amount":"1/3","definition":"pure"},"payload_hash":"' + "0" * 64 + '",'
        '"request_id":"q","reservation":"r"}'
    )
    assert from_body("reserved", 1, reserved) == EVENTS[9]
    assert from_body("committed", 1, committed) == Committed("r", "q", "0" * 64, THIRD)
    for kind, body in (("reserved", reserved), ("committed", committed)):
        with pytest.raises(LedgerCorrupt):
            from_body(kind, 2, body)
        with pytest.raises(LedgerCorrupt):
            from_body(kind, 1, body.replace('"reservation"', '"spent":null,"reservation"'))


GOOD = json.loads(to_body(EVENTS[8]))


@pytest.mark.parametrize(
    "body",
    [
        "not JSON",
        "[]",
        "7",
        "null",
        json.dumps({**GOOD, "more": 1}),
        json.dumps({key: GOOD[key] for key in list(GOOD)[1:]}),
        json.dumps({**GOOD, "cost": None}),
        json.dumps({**GOOD, "cost": {"amount": "1/0", "definition": "pure"}}),
        json.dumps({**GOOD, "cost": {"amount": "-1/2", "definition": "pure"}}),
        json.dumps({**GOOD, "cost": {"amount": "1/2", "definition": "magic"}}),
        json.dumps({**GOOD, "request": "text"}),
        json.dumps({**GOOD, "analyst": 7}),
        json.dumps({**GOOD, "label": None}),
        *(json.dumps({**GOOD, "spent": spent}) for spent in ("1/2", [["ann"]], [[7, "1/2"]], [["ann", "x"]])),
    ],
)
def test_a_known_event_that_cannot_be_read(body: str) -> None:
    with pytest.raises(LedgerCorrupt, match='an event "reserved" cannot be read'):
        from_body("reserved", 2, body)


@pytest.mark.parametrize("wrong", ['"a"', "[7]", "null", '{"a":1}'])
def test_names_of_separate_accounts_are_a_list(wrong: str) -> None:
    body = '{"columns":"c0","origin":[],"separate_from":%s,"table_version":"1"}'
    assert isinstance(from_body("source-declared", 1, body % "[]"), SourceDeclared)
    with pytest.raises(LedgerCorrupt, match='"source-declared" cannot be read'):
        from_body("source-declared", 1, body % wrong)
