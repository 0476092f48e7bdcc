"""Faults of machines: killed at random moments, a database that goes away, a full disk, many at once, a long time."""

from __future__ import annotations

import signal
import sqlite3
import threading
import time
from collections import Counter
from concurrent.futures import ThreadPoolExecutor

import pytest
from tests.e2e.service_driver import Driver
from tests.e2e.service_kills import CURVE, Elsewhere, patiently, run_kills

from dpexplain.ledger import RELEASED, Ledger, open_ledger
from dpexplain.service.service import Service
from services import PDP, SLOT, Running, free_port, running, write_project

pytestmark = pytest.mark.long
KILLS = 20
SETTINGS = f"slot = {SLOT}\nrate = 10000000\nlease = 0.4"


@pytest.fixture
def driver(tmp_path):
    started = Driver(write_project(tmp_path, service=SETTINGS, rows=150_000))
    yield started
    started.close()


def accounts(url: str) -> Ledger:
    ledger = open_ledger(url, create=False)
    ledger.verify()
    return ledger


def test_one_key_is_one_charge_however_often_the_server_is_killed(driver, tmp_path):
    found = run_kills(driver, f"sqlite:///{tmp_path}/budget.db", KILLS, seed=5)
    assert found["released"] == found["charged"] == KILLS, "each key is charged once, and answered"
    assert found["killed between reservation and commit"], "or no kill fell there"


def test_a_server_that_is_asked_to_stop_finishes_what_it_has_begun(driver, tmp_path):
    port = free_port()
    pid = driver.start(port)
    here = Elsewhere(port, driver.token)
    here.good("PUT", "/tables/people/analysts/curator", {"epsilon": 2.0})
    job = here.good("POST", "/tables/people/explanations", {"request": CURVE, "epsilon": 0.5}, key="k")
    url = f"sqlite:///{tmp_path}/budget.db"
    while not open_ledger(url, create=False).statement("people").rows:
        time.sleep(0.01)
    driver.kill(pid, signal.SIGTERM)
    until = time.monotonic() + 40
    while open_ledger(url, create=False).statement("people").rows[0].status != RELEASED:
        assert time.monotonic() < until
        time.sleep(0.05)
    driver.start(port)
    until = time.monotonic() + 30
    while patiently(here, "GET", f"/jobs/{job['id']}?wait=2")["state"] != "done":
        assert time.monotonic() < until
    assert len(accounts(url).statement("people").rows) == 1


def crowd(here: list[Running], analysts: int, each: int, price: float, limit: float) -> Counter:
    """So many analysts at once, over several servers; what became of their requests."""
    tokens = [here[0].member(f"analyst-{n}", limit=limit) for n in range(analysts)]
    start = threading.Barrier(analysts)

    def asks(number: int) -> list[str]:
        server, states = here[number % len(here)], []
        start.wait(60)
        for turn in range(each):
            request = {**PDP, "feature": ["age", "sex"][turn % 2], "smooth": False}
            epsilon = price + number / 1e4 + turn / 1e6
            found = server.explained(tokens[number], request, epsilon=epsilon, key=f"{number} {turn}")
            assert found["state"] == "done" or found["error"]["message"], found
            states.append(found["state"])
        return states

    with ThreadPoolExecutor(analysts) as pool:
        return Counter(state for states in pool.map(asks, range(analysts)) for state in states)


def no_overdraft(ledger: Ledger, released: int) -> None:
    """The ledger is whole, nobody has spent beyond a limit, and nothing that was released is lost."""
    ledger.verify()
    statement = ledger.statement("people")
    assert sum(line.limit.amount for line in statement.analysts) <= statement.total.amount
    for line in statement.analysts:
        assert line.spent <= line.limit
    assert statement.spent is not None
    assert statement.spent <= statement.total
    assert Counter(row.status for row in statement.rows) == {RELEASED: released}


def test_sixty_four_analysts_at_once(tmp_path):
    path = write_project(tmp_path, service=SETTINGS, budget="epsilon = 6.4", rows=500)
    with running(path) as here:
        states = crowd([here], 64, 3, 0.04, 0.1)
        assert states == {"done": 128, "refused": 64}, "two fit into each limit, and the third does not"
        no_overdraft(here.service.tables["people"].table.ledger, 128)


def test_two_server_processes_share_one_postgresql_ledger(tmp_path, server):
    url = server.new_database()
    path = write_project(tmp_path, service=SETTINGS, budget="epsilon = 6.4", rows=500)
    path.write_text(path.read_text().replace("sqlite:///budget.db", url))
    driver = Driver(path)
    try:
        ports = [free_port(), free_port()]
        driver.start(ports[0])
        driver.start(ports[1])
        states = crowd([Elsewhere2(port, driver.token) for port in ports], 64, 3, 0.04, 0.1)
        assert states == {"done": 128, "refused": 64}
        no_overdraft(open_ledger(url, create=False), 128)
    finally:
        driver.close()
        server.give_back(url)


class Elsewhere2(Elsewhere):
    """A server in another process, whose tables are known."""

    def member(self, name, role="analyst", *, limit=1.0, **more):
        made = self.good("POST", "/tokens", {"name": name, "role": role, **more})["token"]
        self.good("PUT", f"/tables/people/analysts/{name}", {"epsilon": limit})
        return made


def test_postgresql_restarts_under_load(tmp_path, server):
    url = server.new_database()
    path = write_project(tmp_path, service=SETTINGS, rows=500)
    path.write_text(path.read_text().replace("sqlite:///budget.db", url))
    with running(path) as here:
        token = here.member("ana", limit=4.0)
        ids, broken = {}, threading.Thread(target=lambda: (time.sleep(0.3), server.stop(), server.start()))
        broken.start()
        for number in range(30):
            body = {"request": {**PDP, "smooth": False}, "epsilon": 0.2 + number / 1000}
            found = patiently(here, "POST", "/tables/people/explanations", body, token=token, key=f"k{number}")
            ids[found["id"]] = found["label"]
        broken.join()
        until = time.monotonic() + 60
        left = set(ids)
        while left:
            assert time.monotonic() < until, left
            known = {one["id"]: one["state"] for one in patiently(here, "GET", "/jobs", token=token)["jobs"]}
            left = {job for job in left if known[job] in ("queued", "running")}
            time.sleep(0.1)
        assert Counter(known[job] for job in ids) == {"done": 30}
        rows = accounts(url).statement("people").rows
        assert Counter(row.status for row in rows) == {RELEASED: 30}
    server.give_back(url)


def test_a_full_disk_is_a_refusal_and_no_loss(tmp_path, monkeypatch):
    connect, full = sqlite3.connect, []

    def connected(file, *what, **how):
        found = connect(file, *what, **how)
        if full:
            pages = found.execute("PRAGMA page_count").fetchone()[0]
            found.execute(f"PRAGMA max_page_count = {pages}")
        return found

    with running(write_project(tmp_path, service=SETTINGS, rows=500)) as here:
        token = here.member("ana", limit=4.0)
        body = {"request": {**PDP, "smooth": False}, "epsilon": 0.3}
        assert here.explained(token, **body)["state"] == "done"
        monkeypatch.setattr(sqlite3, "connect", connected)
        here.service.store._engine.dispose()
        full.append(True)
        answers = [
            here.ask(
                "POST", "/tables/people/explanations", {**body, "epsilon": 0.3 + n / 1000}, token=token, key=f"f{n}"
            )
            for n in range(60)
        ]
        assert 503 in {status for status, _ in answers}, "or the disk was never full"
        assert all(status in (202, 503) for status, _ in answers)
        assert here.good("GET", "/releases", token=token)["releases"], "what is there can be read"
        full.clear()
        here.service.store._engine.dispose()
        for number in range(60):
            again = {**body, "epsilon": 0.3 + number / 1000}
            found = here.good("POST", "/tables/people/explanations", again, token=token, key=f"f{number}")
            assert here.done(found["id"], token=token)["state"] == "done"
        ledger = here.service.tables["people"].table.ledger
        ledger.verify()
        statuses = Counter(row.status for row in ledger.statement("people").rows)
        assert statuses == {RELEASED: 60}, "61 requests, of which two are the same"


def test_a_thousand_idle_connections_keep_nobody_out(tmp_path):
    import socket

    from dpexplain.service.server import more_files

    more_files()
    with running(write_project(tmp_path, service=SETTINGS, rows=500)) as here:
        idle = [socket.create_connection(("127.0.0.1", here.port)) for _ in range(1000)]
        token = here.member("ana")
        assert here.explained(token)["state"] == "done"
        for one in idle:
            one.close()


def test_a_long_time_at_half_load(tmp_path):
    """Two minutes: memory flat, no error. `python -m bench service --part soak` does it for half an hour."""
    from bench.service import soak

    found = soak(tmp_path, seconds=120)
    assert found["summary"]["reached"], found
    assert found["requests"] > 1000


def test_a_full_queue_is_refused(tmp_path, monkeypatch):
    monkeypatch.setattr("dpexplain.service.jobs.MAX_OPEN", 3)
    with running(write_project(tmp_path, service="slot = 60", rows=200)) as here:
        token = here.member("ana")
        body = {"request": PDP, "epsilon": 0.1}
        answers = [here.ask("POST", "/tables/people/explanations", body, token=token)[0] for _ in range(5)]
        assert answers == [202, 202, 202, 429, 429]


def test_a_job_whose_worker_died_is_begun_again_at_no_new_price(tmp_path):
    """Two processes that share a store: one claims a job and is never heard of again."""
    path = write_project(tmp_path, service=SETTINGS, rows=500)
    with running(path) as here:
        token = here.member("ana")
        service: Service = here.service
        from dpexplain.service import jobs

        job = here.good("POST", "/tables/people/explanations", {"request": PDP, "epsilon": 0.2}, token=token)["id"]
        claimed = jobs.claim(service.store, "somebody who dies", 1, 0.3)
        begun = {one.id for one in claimed}
        assert here.done(job, token=token)["state"] == "done"
        rows = service.tables["people"].statement.rows
        assert [row.status for row in rows] == [RELEASED]
        assert begun <= {job}
