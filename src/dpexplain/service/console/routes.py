"""All routes of the console: the door, the files that pages need, and the pages."""

from __future__ import annotations

from typing import Any

from fastapi import APIRouter, FastAPI, Request, Response

from dpexplain.errors import DpexplainError
from dpexplain.render.html import STATIC, static
from dpexplain.service.api import Here
from dpexplain.service.console import ask, auditor, curator, read, sessions
from dpexplain.service.console.pages import PREFIX, Filled, Pages, Sent, fields_of, onward, own_static, shown
from dpexplain.service.console.sessions import COOKIE, LONGEST, In, same_site
from dpexplain.service.service import Refused

router = APIRouter(prefix=PREFIX, route_class=Pages, include_in_schema=False)
KINDS = {"css": "text/css", "js": "text/javascript"}


@router.get("/sign-in")
def door(request: Request, here: Here) -> Response:
    """The door."""
    if sessions.find(here.store, request.cookies.get(COOKIE, "")) is not None:
        return onward("/")
    return shown("sign-in.html", None, title="Sign in", error=None)


@router.post("/sign-in")
async def enter(request: Request, here: Here) -> Response:
    """A token becomes a session. It came in the body of a form and is kept nowhere."""
    from starlette.concurrency import run_in_threadpool

    same_site(request)
    sent = Sent(await fields_of(request))
    try:
        who = await run_in_threadpool(here.principal, sent.one("token"))
    except DpexplainError as error:
        status = error.status if isinstance(error, Refused) else 401
        return shown("sign-in.html", None, status=status, title="Sign in", error="This token is not valid here.")
    if who.agent:
        return shown("sign-in.html", None, status=403, title="Sign in", error="This token is for a program.")
    if who.by_issuer:
        why = "Sign in here with a token made by the curator."
        return shown("sign-in.html", None, status=403, title="Sign in", error=why)
    cookie = await run_in_threadpool(sessions.begin, here.store, who)
    answer = onward("/")
    answer.set_cookie(
        COOKIE, cookie, path=PREFIX, httponly=True, samesite="strict", secure=here.settings.secure,
        max_age=int(LONGEST),
    )  # fmt: skip
    return answer


@router.post("/sign-out")
def leave(here: Here, session: In, sent: Filled) -> Response:
    """The session ends."""
    del sent
    sessions.end(here.store, session)
    answer = onward("/sign-in")
    answer.delete_cookie(COOKIE, path=PREFIX)
    return answer


@router.get("/static/{name}")
def file(name: str) -> Response:
    """A style or a script of ours."""
    if name in STATIC:
        text = static(name)
    elif name == "console.js":
        text = own_static(name)
    else:
        raise Refused(404, "there is no such file.")
    return Response(text, media_type=KINDS[name.rpartition(".")[2]])


def include_console(app: FastAPI) -> None:
    """Put the console into an application; whoever opens its root gets there."""
    for part in (router, read.router, ask.router, curator.router, auditor.router):
        app.include_router(part)

    @app.get("/", include_in_schema=False)
    def root() -> Any:
        return onward("/")
