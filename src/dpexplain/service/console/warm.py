"""What the first request of each page would have to do first, done at the start: modules, templates, charts.

Each page is made once, for nobody: nothing is stored and nothing is sent.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterator
from functools import partial
from typing import Any

import sqlalchemy as sa

from dpexplain.service.console import ask, auditor, curator, read
from dpexplain.service.console.pages import shown, templates
from dpexplain.service.console.sessions import Session
from dpexplain.service.service import Service
from dpexplain.service.store import results
from dpexplain.service.tokens import Principal, Role

FORM = "partial-dependence"  # whose form is made; the others differ in a field or two
log = logging.getLogger("dpexplain.service")


def warm_up(here: Service) -> int:
    """Make every page once; how many could not be made, which their first visitor will see as well."""
    failed = 0
    for page in _pages(here):
        try:
            page()
        except Exception as error:
            failed += 1
            log.warning("a page could not be made at the start: %s", type(error).__name__)
    return failed


def _pages(here: Service) -> Iterator[Callable[[], Any]]:
    nobody = Session("", Principal("", "", Role.CURATOR, None, None, False, 0.0), "", {})

    def of(page: Callable[..., Any], *about: Any) -> Callable[[], Any]:
        return partial(page, here, nobody, *about)

    yield from (partial(templates().get_template, name) for name in templates().list_templates(["html"]))
    yield from (of(page) for page in (read.home, ask.job_list, curator.page))
    for name, served in here.tables.items():
        yield from (of(page, name) for page in (curator.domain, read.table_page))
        if served.table is None:
            continue
        pages: list[Callable[..., Any]] = [read.burn_down_page, ask.questions_offered, ask.questions, auditor.page]
        yield from (of(page, name) for page in pages)
        if served.has_model:
            yield of(ask.form, name, FORM)
    for release in _one_of_each_kind(here):
        yield of(read.release_shown, release)
        yield partial(_card, here, nobody, release)


def _card(here: Service, session: Session, release: str) -> None:
    found = read.release_of(here, session, release)
    shown("card.html", session, **found)
    if found["explains"]:
        ask.person(here, session, release)


def _one_of_each_kind(here: Service) -> list[str]:
    """The latest announced release of each kind, of the tables that are served."""
    with here.store.read() as connection:
        kinds = list(connection.scalars(sa.select(results.c.kind).distinct()))
        found = []
        for kind in kinds:
            mine = sa.select(results.c.id).where(results.c.kind == kind, results.c.table_name.in_(list(here.tables)))
            found.append(connection.scalar(mine.order_by(results.c.announced.desc()).limit(1)))
    return [one for one in found if one is not None]
