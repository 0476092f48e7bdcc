"""Charts of the console, drawn once: drawing takes longer than a page may."""

from __future__ import annotations

import threading
from collections import OrderedDict
from collections.abc import Callable, Hashable, Sequence
from typing import Any

from fastapi import Request, Response
from matplotlib.backends.backend_agg import FigureCanvasAgg
from matplotlib.figure import Figure
from matplotlib.ticker import MaxNLocator
from starlette.concurrency import run_in_threadpool

from dpexplain.render.charts import Chart, chart_of, svg_text
from dpexplain.render.marks import mark
from dpexplain.render.picture import BAND, INK, NOTE, finish
from dpexplain.service.store import Store
from dpexplain.service.work import document_of

KEPT = 256  # charts
Step = tuple[str, str, float]  # the day, what was released, the epsilon that was left
_burned: OrderedDict[Hashable, Chart | None] = OrderedDict()
_charts: OrderedDict[tuple[str, Store], Chart] = OrderedDict()
_pen = threading.Lock()  # matplotlib draws one picture at a time; routes take turns before they take a thread


async def with_charts(request: Request, page: Callable[[], Response], *releases: str) -> Response:
    """A page with the charts of these releases. What has to be drawn waits for its turn without a thread."""
    store = request.app.state.service.store
    if releases and all((one, store) in _charts for one in releases):
        return await run_in_threadpool(page)
    async with request.app.state.pens:
        return await run_in_threadpool(page)


def chart_of_release(release: str, store: Store) -> Chart:
    """The chart of a release."""
    known = _charts.get((release, store))
    if known is None:
        known = _charts[release, store] = drawn(document_of(release, store))
        while len(_charts) > KEPT:
            _charts.popitem(last=False)
    return known


def drawn(result: Any) -> Chart:
    """The chart of something that is not kept, such as the explanation of a typed-in person."""
    with _pen:
        return chart_of(result)


def burn_down(state: Hashable, epsilon: float, steps: Callable[[], Sequence[Step]]) -> Chart | None:
    """What is left after each release, drawn once for each state of an account; None where nothing was spent."""
    with _pen:
        if state not in _burned:
            found = steps()
            _burned[state] = _burned_chart(epsilon, found) if found else None
            while len(_burned) > KEPT:
                _burned.popitem(last=False)
        return _burned[state]


def _burned_chart(epsilon: float, steps: Sequence[Step]) -> Chart:
    words = f"What is left of epsilon {epsilon:.4g} after each of {len(steps)} releases: {steps[-1][2]:.4g} now."
    return Chart("What is left, release after release", svg_text(_burn_down(epsilon, steps), words))


def _burn_down(epsilon: float, steps: Sequence[Step]) -> Figure:
    figure = Figure(figsize=(4.8, 1.9), layout="constrained")  # its words are short: none has to be fitted
    FigureCanvasAgg(figure)
    ax = figure.add_subplot()
    left = [epsilon, *(left for _, _, left in steps)]
    places, end = list(range(len(left))), len(left) - 0.5
    ax.fill_between([*places, end], 0, [*left, left[-1]], step="post", color=BAND, alpha=0.5, linewidth=0)
    ax.step([*places, end], [*left, left[-1]], where="post", color=INK, linewidth=1.6)
    mark(ax, places[1:], left[1:], [[what, day, f"left: epsilon {rest:.4g}"] for day, what, rest in steps])
    ax.axhline(0, color=NOTE, linewidth=0.8)
    ax.set_ylim(0, 1.05 * epsilon)
    ax.set_xlim(0, end)
    ax.xaxis.set_major_locator(MaxNLocator(integer=True))
    finish(ax, "", x="releases", y="epsilon left", legend="")
    return figure
