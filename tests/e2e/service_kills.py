"""A server that is killed at random moments while it answers, and clients that ask again with the same key."""

from __future__ import annotations

import random
import signal
import time
from collections import Counter

from tests.e2e.service_driver import Driver

from dpexplain.ledger import LOST, RELEASED, open_ledger
from services import Running, free_port

CURVE = {"request": "partial-dependence", "feature": ["age", "sex"]}
PRICE = 5.0  # of all requests together, about
PHASES = {
    None: "killed before the reservation",
    LOST: "killed between reservation and commit",
    RELEASED: "killed later",
}


class Elsewhere(Running):
    """A server in another process."""

    def __init__(self, port: int, curator: str) -> None:
        super().__init__(None, f"http://127.0.0.1:{port}", port, curator)

    def ask(self, *what, **how):
        try:
            return super().ask(*what, **how)
        except OSError:
            return 503, {"error": {"kind": "away", "message": "", "hint": "", "spent": ""}}


def patiently(here: Running, *what, **how):
    """An answer, once somebody is there to give it."""
    until = time.monotonic() + 60
    while True:
        status, found = here.ask(*what, **how)
        if status != 503:
            assert status < 300, found
            return found
        assert time.monotonic() < until, found
        time.sleep(0.05)


def run_kills(driver: Driver, url: str, kills: int, seed: int) -> dict[str, int]:
    """Ask, kill the server, start it, ask again with the same key, and wait for the answer: so many times.

    The phase of a kill is what the ledger says before the server is started again. At the end the ledger is verified
    and says how often it was charged.
    """
    draw, port = random.Random(seed), free_port()
    pid = driver.start(port)
    here, phases = Elsewhere(port, driver.token), Counter[str]()
    here.good("PUT", "/tables/people/analysts/curator", {"epsilon": 7.9})
    for number in range(kills):
        body = {"request": CURVE, "epsilon": PRICE / kills + number / 1e5}
        job = patiently(here, "POST", "/tables/people/explanations", body, key=f"kill {number}")
        time.sleep(draw.uniform(0.0, 0.5))
        driver.kill(pid, signal.SIGKILL)
        rows = open_ledger(url, create=False).statement("people").rows[number:]
        phases[PHASES[rows[0].status if rows else None]] += 1
        pid = driver.start(port)
        found = patiently(here, "POST", "/tables/people/explanations", body, key=f"kill {number}")
        assert found["id"] == job["id"]
        until = time.monotonic() + 60
        while found["state"] in ("queued", "running"):
            found = patiently(here, "GET", f"/jobs/{job['id']}?wait=2")
            assert time.monotonic() < until, found
        assert found["state"] == "done", found
    ledger = open_ledger(url, create=False)
    ledger.verify()
    rows = ledger.statement("people").rows
    released = sum(row.status == RELEASED for row in rows)
    counts = {phase: phases[phase] for phase in PHASES.values()}
    return {"kills": kills, **counts, "charged": len(rows), "released": released}
