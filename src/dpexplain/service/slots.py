"""The public clock, and workers that begin releases and announce their ends only when it strikes.

How long a release takes depends on rows. A worker begins at a stroke, and what came of it is announced at a later
stroke; then the worker may begin the next one. Whatever is shorter than three quarters of a slot cannot be told apart
by its time, and of what is longer only the number of slots. The ledger hears of it in the middle half of a slot alone,
so that a process whose clock or stroke is a quarter of a slot off tells the same.
"""

from __future__ import annotations

import logging
import math
import threading
import time
from collections.abc import Callable
from concurrent.futures import Future, ThreadPoolExecutor, wait
from dataclasses import dataclass, field
from typing import Any

from dpexplain.core.canonical import JsonObject
from dpexplain.errors import DpexplainError, InternalError, LedgerUnavailable, ReleaseLost
from dpexplain.service import jobs
from dpexplain.service.store import Store, new_id, now
from dpexplain.service.work import Answer

RETRY_FOR = 600.0  # seconds that a job waits for a ledger that is away
RESERVED = "If its release had begun, its cost was reserved first and stays spent: the budget shows it."
log = logging.getLogger("dpexplain.service")


@dataclass(frozen=True)
class Clock:
    """Strokes at public times: the multiples of `slot`."""

    slot: float

    def next(self, at: float) -> float:
        """The first stroke after this moment."""
        return (math.floor(at / self.slot) + 1) * self.slot

    def announces(self, at: float) -> float:
        """The stroke that tells what ended at this moment; the last quarter of a slot is for writing it down."""
        return self.next(at + self.slot / 4)

    def settle(self) -> None:
        """Wait for the middle half of a slot, in which releases are committed.

        At a stroke every process reads the ledger, some of them late or early by their clock or their load. None of
        them then sees what began at this stroke, and each of them sees what is announced at it.
        """
        into = now() % self.slot
        if into < self.slot / 4:
            time.sleep(self.slot / 4 - into)
        elif into > self.slot * 3 / 4:
            time.sleep(self.slot * 5 / 4 - into)


@dataclass
class Runner:
    """The workers of one process.

    run      from a job to its answer
    lease    seconds until another process goes on with what this one has left behind
    strokes  called at every stroke, before jobs are claimed
    """

    store: Store
    clock: Clock
    most: int
    run: Callable[[Any], Answer]
    lease: float
    strokes: list[Callable[[], None]] = field(default_factory=list)
    name: str = field(default_factory=new_id)

    def __post_init__(self) -> None:
        self._stop = threading.Event()
        self._busy: dict[str, float] = {}  # job -> when it is announced; infinite while it runs
        self._lock = threading.Lock()
        self._pool = ThreadPoolExecutor(self.most, thread_name_prefix="release")
        self._futures: set[Future[None]] = set()
        self._thread = threading.Thread(target=self._tick, name="clock", daemon=True)
        self._leases = threading.Thread(target=self._renew, name="leases", daemon=True)

    @property
    def beats(self) -> bool:
        """Whether the clock strikes."""
        return self._thread.is_alive() and not self._stop.is_set()

    def start(self) -> None:
        self._thread.start()
        self._leases.start()

    def stop(self, grace: float) -> None:
        """Begin nothing more; let what runs finish, and leave the rest to whoever starts next, at no new cost."""
        self._stop.set()
        if self._thread.is_alive():
            self._thread.join(5)
        wait(self._futures, timeout=grace)
        self._pool.shutdown(wait=False, cancel_futures=True)
        try:
            jobs.give_back(self.store, self.name)
        except DpexplainError:
            log.warning("jobs could not be given back; their leases run out")

    def _tick(self) -> None:
        while True:
            at = now()
            if self._stop.wait(max(self.clock.next(at) - at, 0.001)):
                break
            try:
                self.stroke()
            except DpexplainError as error:  # the store or a ledger is away: the next stroke tries again
                log.warning("a stroke was missed: %s", type(error).__name__)
            except Exception as error:
                log.error("a stroke failed: %s", type(error).__name__)

    def stroke(self) -> None:
        """What happens when the clock strikes."""
        for each in self.strokes:
            each()
        with self._lock:
            at = now()
            self._busy = {job: until for job, until in self._busy.items() if until > at}
            self._futures = {one for one in self._futures if not one.done()}
            free = self.most - len(self._busy)
        for row in jobs.claim(self.store, self.name, free, self.lease):
            with self._lock:
                self._busy[row.id] = math.inf
            self._futures.add(self._pool.submit(self._work, row))

    def _renew(self) -> None:
        while not self._stop.wait(self.lease / 3):
            with self._lock:
                mine = [job for job, until in self._busy.items() if until == math.inf]
            try:
                if mine:
                    jobs.renew(self.store, self.name, mine, self.lease)
            except DpexplainError:
                log.warning("leases could not be renewed")

    def _work(self, row: Any) -> None:
        """One job to its end. No error leaves with a text of somebody else: it may quote a row."""
        state, outcome, documents = "lost", dict[str, Any](), list[Any]()
        try:
            answer = self.run(row)
            state, documents = "done", answer.documents
            outcome = {"parts": answer.parts, "replayed": answer.replayed}
        except LedgerUnavailable as error:
            if now() - row.asked < RETRY_FOR:
                self._later(row)
                return
            state, outcome = "refused", _said(error)
        except DpexplainError as error:
            lost = isinstance(error, ReleaseLost | InternalError)
            state, outcome = "lost" if lost else "refused", _said(error)
        except BaseException as error:
            unexpected = InternalError(f"internal error ({type(error).__name__}).")
            unexpected.spent = RESERVED
            outcome = _said(unexpected)
        try:
            announced = jobs.finish(self.store, row, state, outcome, documents, self.clock.announces)
        except BaseException as error:  # begun again when its lease runs out
            log.warning("what came of a job could not be written down: %s", type(error).__name__)
            self._later(row)
            return
        with self._lock:
            self._busy[row.id] = announced

    def _later(self, row: Any) -> None:
        """Leave a job to be begun again when its lease has run out. What was released is then answered from the ledger,
        free; a release that was lost is begun, and charged, again.
        """
        with self._lock:
            self._busy[row.id] = self.clock.next(now())


def _said(error: DpexplainError) -> JsonObject:
    return {"error": error.to_dict()}
