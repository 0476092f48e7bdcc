"""A batch that was interrupted is charged once and goes on; one that failed does not."""

from __future__ import annotations

import signal
import subprocess
import sys
from fractions import Fraction
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from tests.e2e import batch_driver

import dpexplain as dpx
from dpexplain.errors import ReleaseLost
from dpexplain.ledger import LOST, RELEASED, open_ledger

DRIVER = Path(batch_driver.__file__)


@pytest.fixture
def rows(tmp_path) -> Path:
    draw = np.random.default_rng(0)
    sex = draw.choice(["Female", "Male"], 500)
    frame = pd.DataFrame({"age": draw.integers(20, 30, 500), "sex": sex, "income": draw.uniform(0, 100, 500)})
    frame.to_parquet(tmp_path / "people.parquet")
    return tmp_path / "people.parquet"


@pytest.fixture
def ledger(tmp_path) -> str:
    return f"sqlite:///{tmp_path}/budget.db"


def started(ledger: str, rows: Path, when: str) -> subprocess.Popen[str]:
    command = [sys.executable, str(DRIVER), ledger, str(rows), when]
    return subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)


@pytest.mark.posix
@pytest.mark.parametrize("when", ["reserved", "sent"])
def test_a_killed_batch_is_charged_once_and_resumes_free(ledger, rows, when):
    killed = started(ledger, rows, when)
    out, _ = killed.communicate(timeout=120)
    assert (killed.returncode, out) == (-signal.SIGKILL, "")
    (row,) = open_ledger(ledger).statement("people").rows
    assert (row.status, row.charged.amount) == (LOST, 1)  # and it stays spent until somebody goes on with it
    table = batch_driver.table_of(ledger, str(rows))
    found = dpx.batch(table, batch_driver.model(), batch_driver.wanted(), epsilon=1)
    statement = table.ledger.statement("people")
    assert [(one.status, one.reservation) for one in statement.rows] == [(RELEASED, row.reservation)]
    assert statement.spent.amount == 1
    table.ledger.verify()
    for result in found.results:
        dpx.verify(dpx.from_json(result.to_json()), table.ledger, batch_driver.model())
    again = dpx.batch(table, batch_driver.model(), batch_driver.wanted(), epsilon=1)
    assert again.receipt.replayed
    assert again[0].released == found[0].released
    other = dpx.batch(table, batch_driver.model(), batch_driver.wanted()[:1], epsilon=1)  # another batch: paid
    assert not other.receipt.replayed
    assert table.ledger.statement("people").spent.amount == 2


@pytest.mark.long
def test_two_processes_at_once_release_one_thing(ledger, rows):
    """Both may compute, and whoever commits first decides what both say. The price is taken once."""
    both = [started(ledger, rows, "never") for _ in range(2)]
    said = [process.communicate(timeout=300) for process in both]
    assert [process.returncode for process in both] == [0, 0], said
    (one, _), (two, _) = said
    assert one == two != ""
    (row,) = open_ledger(ledger).statement("people").rows
    assert (row.status, row.charged.amount) == (RELEASED, 1)


def test_a_batch_whose_body_fails_is_not_gone_on_with(ledger, rows, monkeypatch):
    """That it failed may depend on rows or on noise: one outcome for one price."""
    from dpexplain.methods.batches import release

    table = batch_driver.table_of(ledger, str(rows))
    answered = release.answer
    monkeypatch.setattr(release, "answer", lambda *_: 1 / 0)
    with pytest.raises(ReleaseLost, match="failed") as lost:
        dpx.batch(table, batch_driver.model(), batch_driver.wanted(), epsilon=Fraction(1, 2))
    assert lost.value.__cause__ is None
    assert lost.value.__context__ is None
    monkeypatch.setattr(release, "answer", answered)
    (row,) = table.ledger.statement("people").rows
    assert row.status == "failed, nothing released"
    found = dpx.batch(table, batch_driver.model(), batch_driver.wanted(), epsilon=Fraction(1, 2))
    assert not found.receipt.replayed
    statement = table.ledger.statement("people")
    assert statement.spent.amount == 1
    assert [one.status for one in statement.rows] == ["failed, nothing released", RELEASED]
    table.ledger.verify()


def test_a_person_who_interrupts_can_go_on(ledger, rows, monkeypatch):
    from dpexplain.methods.batches import release

    table, answered = batch_driver.table_of(ledger, str(rows)), release.answer

    def interrupt(*_):
        raise KeyboardInterrupt

    monkeypatch.setattr(release, "answer", interrupt)
    with pytest.raises(KeyboardInterrupt):
        dpx.batch(table, batch_driver.model(), batch_driver.wanted(), epsilon=2)
    monkeypatch.setattr(release, "answer", answered)
    found = dpx.batch(table, batch_driver.model(), batch_driver.wanted(), epsilon=2)  # nothing else would fit
    assert table.ledger.statement("people").spent.amount == 2
    assert not found.receipt.replayed
