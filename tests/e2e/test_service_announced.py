"""A ledger as far as it was announced, on both databases: what came later is answered as what is not there."""

from __future__ import annotations

import sys
import threading
import time
import warnings
from dataclasses import replace

import pytest

import dpexplain as dpx
from dpexplain.core.budget import pure
from dpexplain.core.quiet import quiet
from dpexplain.engines.progress import track
from dpexplain.errors import VerificationError
from dpexplain.ledger.state import LOST, RELEASED
from dpexplain.project.file import Project
from dpexplain.service import jobs, server, slots
from dpexplain.service.announced import announced
from dpexplain.service.slots import Clock
from ledger_servers import make_ask, new_url, open_adult
from services import PDP, free_port, running, write_project


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


@pytest.mark.parametrize(
    ("into", "waits"), [(0.0, 0.25), (0.1, 0.15), (0.25, 0.0), (0.5, 0.0), (0.75, 0.0), (0.8, 0.45), (0.99, 0.26)]
)
def test_a_commit_waits_for_the_middle_half_of_a_slot(monkeypatch, into, waits):
    """Whatever ends in the same part of a slot is committed where no process reads, be its clock a quarter off."""
    clock, slept = Clock(4.0), []
    monkeypatch.setattr(slots, "now", lambda: 4000.0 + 4 * into)
    monkeypatch.setattr(time, "sleep", slept.append)
    clock.settle()
    assert sum(slept) == pytest.approx(4 * waits)
    assert abs((into + sum(slept) / 4) % 1 - 0.5) < 0.25 + 1e-9


def test_a_release_is_settled_before_it_is_committed_and_its_job_does_not_keep_how_long_it_took(tmp_path, monkeypatch):
    with running(write_project(tmp_path, rows=200)) as here:
        table, seen = here.service.tables["people"], []
        monkeypatch.setattr(Clock, "settle", lambda _: seen.append([row.status for row in table.statement.rows]))
        done = here.explained(here.member("ana"))
        assert (done["state"], seen) == ("done", [[LOST]])
        assert [row.status for row in table.statement.rows] == [RELEASED]
        row = jobs.find(here.service.store, done["id"])
        assert (row.lease, row.worker) == (0.0, None)


def test_what_a_stopped_server_leaves_behind_has_begun_and_is_not_cancelled(tmp_path):
    with running(write_project(tmp_path, service="slot = 60", rows=200)) as here:
        store, token = here.service.store, here.member("ana")
        body = {"request": PDP, "epsilon": 0.1}
        job = here.good("POST", "/tables/people/explanations", body, token=token)["id"]
        assert [row.id for row in jobs.claim(store, "stops", 1, 60)] == [job]
        jobs.give_back(store, "stops")
        assert here.ask("DELETE", f"/jobs/{job}", token=token)[0] == 409
        assert [row.id for row in jobs.claim(store, "goes on", 1, 60)] == [job], "or nobody goes on with it"


def test_a_drawing_lets_no_warning_of_a_release_out(monkeypatch):
    """matplotlib sets the filters of the whole process back when it ends, in the middle of somebody's release."""

    def both(_server: object, sockets: object = None) -> None:
        inside, released = threading.Event(), threading.Event()

        def draws() -> None:
            with warnings.catch_warnings(record=True):
                warnings.simplefilter("always")
                inside.set()
                released.wait(10)

        drawing = threading.Thread(target=draws)
        drawing.start()
        inside.wait(10)
        with quiet():
            released.set()
            drawing.join()
            warnings.warn("a row says 42", stacklevel=1)

    monkeypatch.setattr("uvicorn.Server.run", both)
    monkeypatch.setattr("uvicorn.Server.__init__", lambda *_: None)
    monkeypatch.setattr(server, "config_of", lambda *_: None)
    with warnings.catch_warnings(record=True) as told:
        warnings.simplefilter("always")
        server.answer(None, "127.0.0.1", 0)
        assert told == []
        both(None)
    assert [str(one.message) for one in told] == ["a row says 42"], "or the test sees no warnings"


def test_the_log_of_a_server_has_no_progress_of_releases(tmp_path, monkeypatch, capsys):
    """The command line shows progress; its lines, with the times that a collector of logs adds, tell durations."""

    def releases(*_: object) -> None:
        with track("a pass over rows", None):
            pass

    monkeypatch.setattr(sys.modules["dpexplain.engines.progress"], "_shown", True)
    releases()
    assert "a pass over rows" in capsys.readouterr().err
    for name in ("set_up_logs", "more_files", "warm_up"):
        monkeypatch.setattr(server, name, lambda *_: None)
    monkeypatch.setattr(server, "answer", releases)
    project = Project.load(write_project(tmp_path, rows=50))
    server.serve([project], host="127.0.0.1", port=free_port(), new_token=False)
    assert "a pass over rows" not in capsys.readouterr().err


def test_a_limit_that_was_lowered_below_what_was_spent_makes_no_room(tmp_path):
    with running(write_project(tmp_path, rows=200)) as here:
        here.explained(here.member("ana", limit=3.0), epsilon=3.0)
        here.good("PUT", "/tables/people/analysts/ana", {"epsilon": 0.1})
        status, said = here.ask("PUT", "/tables/people/analysts/ben", {"epsilon": 7.9})
        assert (status, said["error"]["kind"]) == (402, "BudgetError")
        here.good("PUT", "/tables/people/analysts/ben", {"epsilon": 7.0})
        account = here.service.tables["people"].statement
        left = next(line.limit for line in account.analysts if line.analyst == "ben")
        assert left <= account.left


@pytest.mark.parametrize("kind", ["application/json", "application/x-www-form-urlencoded+json"])
def test_json_is_looked_through_whatever_it_is_called(tmp_path, kind):
    import http.client

    with running(write_project(tmp_path, rows=50)) as here:
        connection = http.client.HTTPConnection("127.0.0.1", here.port, timeout=60)
        headers = {"Authorization": f"Bearer {here.curator}", "Content-Type": kind}
        body = '{"request": ' + "[" * 100 + "]" * 100 + ', "epsilon": 0.1}'
        connection.request("POST", "/v1/tables/people/explanations", body, headers)
        answer = connection.getresponse()
        assert (answer.status, b"nested more than 32 deep" in answer.read()) == (422, True)
        connection.close()
