"""Counts for Prometheus: requests by route and status, jobs as far as they are announced. No name and no duration."""

from __future__ import annotations

import threading
from collections import Counter

import sqlalchemy as sa

from dpexplain.service.jobs import ENDED
from dpexplain.service.store import Store, jobs, now

METHODS = frozenset({"GET", "HEAD", "POST", "PUT", "PATCH", "DELETE", "OPTIONS"})
OTHER = "other"  # what a client made up: counted together, or whoever asks could fill the memory


class Metrics:
    """What one process has counted."""

    def __init__(self) -> None:
        self._requests: Counter[tuple[str, str, int]] = Counter()
        self._lock = threading.Lock()
        self.strokes = 0

    def request(self, method: str, route: str, status: int) -> None:
        with self._lock:
            self._requests[method if method in METHODS else OTHER, route, status] += 1

    def stroke(self) -> None:
        self.strokes += 1

    def text(self, store: Store) -> str:
        """All counts, as Prometheus reads them."""
        lines = [
            "# HELP dpexplain_requests_total Requests that were answered.",
            "# TYPE dpexplain_requests_total counter",
        ]
        with self._lock:
            counted = sorted(self._requests.items())
        for (method, route, status), number in counted:
            lines.append(f'dpexplain_requests_total{{method="{method}",route="{route}",status="{status}"}} {number}')
        lines += ["# HELP dpexplain_jobs Jobs by state, as announced.", "# TYPE dpexplain_jobs gauge"]
        lines += [f'dpexplain_jobs{{state="{state}"}} {number}' for state, number in sorted(states(store).items())]
        lines += [
            "# HELP dpexplain_strokes_total Strokes of the public clock.",
            "# TYPE dpexplain_strokes_total counter",
            f"dpexplain_strokes_total {self.strokes}",
        ]
        return "\n".join(lines) + "\n"


def states(store: Store) -> dict[str, int]:
    """How many jobs are in each announced state."""
    hidden = sa.and_(jobs.c.state.in_(ENDED), jobs.c.announced.is_not(None), jobs.c.announced > now())
    state = sa.case((hidden, "running"), else_=jobs.c.state)
    with store.read() as connection:
        rows = connection.execute(sa.select(state, sa.func.count()).group_by(state)).all()
    return {str(name): int(number) for name, number in rows}
