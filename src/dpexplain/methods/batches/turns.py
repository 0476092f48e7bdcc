"""Bodies that take turns, so that what they ask of the rows is asked together.

A body reads rows somewhere in its middle. Each one runs in a thread of its own, but only one runs at a time, and the
order is that of the batch: a body runs until it asks for a pass or ends, then the next one. When all that are left are
waiting, one pass answers all of them.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Sequence
from queue import SimpleQueue
from typing import Any

Meet = Callable[[Any], Any]  # asks for something, and waits until everybody else has asked or ended
ASKED, ENDED, FAILED = "asked", "ended", "failed"


class Stopped(BaseException):
    """Raised in a body that waits when another one has failed or somebody has interrupted."""


class BodyFailed(RuntimeError):
    """A body raised an error, which may speak of rows: it is not attached."""


class Turn:
    """One body, and the thread in which it runs while it has its turn."""

    def __init__(self, body: Callable[[Meet], None]) -> None:
        self.asked: Any = None
        self._body, self._said, self._answers = body, SimpleQueue[tuple[str, Any]](), SimpleQueue[Any]()
        self._thread = threading.Thread(target=self._run, daemon=True)

    def start(self) -> None:
        self._thread.start()
        self._until_it_waits()

    def go_on(self, answer: Any) -> None:
        """Give it what it asked for, and let it run until it asks again or ends."""
        self._answers.put(answer)
        self._until_it_waits()

    def stop(self) -> None:
        """Let it end where it waits. One that never began has nothing to end."""
        if self._thread.ident is not None:
            self._answers.put(Stopped)
            self._thread.join()

    def _until_it_waits(self) -> None:
        what, self.asked = self._said.get()
        if what == FAILED:
            raise BodyFailed

    def _run(self) -> None:
        try:
            self._body(self._meet)
        except BaseException:  # whatever it says may quote a row
            self._said.put((FAILED, None))
        else:
            self._said.put((ENDED, None))

    def _meet(self, wanted: Any) -> Any:
        self._said.put((ASKED, wanted))
        answer = self._answers.get()
        if answer is Stopped:
            raise Stopped
        return answer


def take_turns(bodies: Sequence[Callable[[Meet], None]], answer: Callable[[list[Any]], list[Any]]) -> None:
    """Run all bodies to their end; `answer` answers, in order, all that wait. BodyFailed when one of them fails."""
    turns = [Turn(body) for body in bodies]
    try:
        for turn in turns:
            turn.start()
        while waiting := [turn for turn in turns if turn.asked is not None]:
            for turn, found in zip(waiting, answer([turn.asked for turn in waiting]), strict=True):
                turn.go_on(found)
    finally:
        for turn in turns:
            turn.stop()
