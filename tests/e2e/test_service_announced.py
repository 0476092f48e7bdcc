"""A ledger as far as it was announced, on both databases: what came later is answered as what is not there."""

from __future__ import annotations

from dataclasses import replace

import pytest

import dpexplain as dpx
from dpexplain.core.budget import pure
from dpexplain.errors import VerificationError
from dpexplain.service.announced import announced
from ledger_servers import make_ask, new_url, open_adult


@pytest.fixture(params=["sqlite", pytest.param("postgresql", marks=pytest.mark.long)])
def url(request, tmp_path):
    return new_url(request, tmp_path)


def released(account, label: str, value: int):
    ask = make_ask(0.1, label)
    payload = {"parts": {"p": {"values": [value]}}}
    return account.commit(account.reserve(ask), payload, pure(0.1)), payload


def test_what_is_committed_later_is_as_absent_as_what_never_was(url):
    ledger = dpx.open_ledger(url)
    account = open_adult(ledger)
    first, told = released(account, "first", 1)
    seen = announced(ledger, first.sequence, ["adult"])
    second, later = released(account, "second", 2)
    ledger.check_entry(second, later)
    seen.check_entry(first, told)
    with pytest.raises(VerificationError) as unannounced:
        seen.check_entry(second, later)
    with pytest.raises(VerificationError) as absent:
        seen.check_entry(replace(second, sequence=second.sequence + 50), later)
    assert str(unannounced.value).replace(f"entry {second.sequence} ", "entry ") == str(absent.value).replace(
        f"entry {second.sequence + 50} ", "entry "
    )
    assert [row.label for row in seen.statement("adult").rows] == ["first"]
    assert len(ledger.statement("adult").rows) == 2
    assert announced(ledger, second.sequence, ["adult"]).statement("adult") == ledger.statement("adult")


def test_other_accounts_are_not_seen_and_nothing_is_written(url):
    ledger = dpx.open_ledger(url)
    first, told = released(open_adult(ledger), "first", 1)
    with pytest.raises(VerificationError):
        announced(ledger, first.sequence, ["other"]).check_entry(first, told)
    assert announced(ledger, first.sequence, ["other"]).accounts() == []
    with pytest.raises(TypeError):
        announced(ledger, first.sequence, ["adult"]).record_non_private("adult", "a note")
