"""The auditor's page: the chain of the ledger against an anchor, and a published result against the ledger."""

from __future__ import annotations

from typing import Any

from fastapi import APIRouter, Response

from dpexplain.errors import DpexplainError
from dpexplain.service import api
from dpexplain.service.api import Here
from dpexplain.service.console.pages import Filled, Pages, shown
from dpexplain.service.console.sessions import Member, Reader, Session
from dpexplain.service.service import Service
from dpexplain.service.tokens import Role

router = APIRouter(prefix="/console", route_class=Pages, include_in_schema=False)


@router.get("/tables/{table}/verify")
def page(here: Here, session: Member, table: str) -> Response:
    """What can be checked."""
    return _page(here, session, table)


def _page(here: Service, session: Session, table: str, **more: Any) -> Response:
    served = here.served(table, session.who)
    _ = served.opened
    reads = session.who.role in (Role.CURATOR, Role.VIEWER)
    head = here.books.page(table)
    return shown(
        "verify.html", session, status=more.pop("status", 200), title=f"Verify: {table}", table=table, reads=reads,
        anchor=f"{head.seq}:{head.hash}",
        **{"chain": None, "genuine": None, "error": None, "what": "", "compared": False, **more},
    )  # fmt: skip


@router.post("/tables/{table}/verify/chain")
def chain(here: Here, session: Reader, table: str, sent: Filled) -> Response:
    """Recompute the whole chain, and hold it against an anchor that was kept outside."""
    try:
        found = api.verification(here, session.who, table, api.Anchor(anchor=sent.one("anchor") or None))
    except DpexplainError as error:
        return _page(here, session, table, error=error.to_dict(), what="chain", status=409)
    return _page(here, session, table, chain=found, compared=bool(sent.one("anchor")))


@router.post("/tables/{table}/verify/result")
def result(here: Here, session: Member, table: str, sent: Filled) -> Response:
    """Whether the ledger released exactly what a file says."""
    try:
        found = api.verify(here, session.who, table, api.Published(document=sent.one("document") or "{}"))
    except DpexplainError as error:
        return _page(here, session, table, error=error.to_dict(), what="result", status=409)
    return _page(here, session, table, genuine=found)
