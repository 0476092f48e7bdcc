"""Pages: a template, who looks at it, the headers that go with it. A refusal is a page too."""

from __future__ import annotations

from collections.abc import Callable, Coroutine
from contextvars import ContextVar
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Annotated, Any
from urllib.parse import parse_qs, quote

from fastapi import Depends, Request, Response
from fastapi.exceptions import RequestValidationError
from fastapi.responses import HTMLResponse, JSONResponse, RedirectResponse
from fastapi.routing import APIRoute

from dpexplain.errors import DpexplainError, InputError
from dpexplain.render.html import environment
from dpexplain.service.api import STATUS
from dpexplain.service.console.sessions import COOKIE, In, Session, SignedOut, check_form
from dpexplain.service.console.words import plain_facts, plain_price
from dpexplain.service.service import Refused

PREFIX = "/console"
POLICY = (
    "default-src 'none'; style-src 'self'; script-src 'self'; img-src 'self' data:; connect-src 'self'; "
    "form-action 'self'; base-uri 'none'; frame-ancestors 'none'"
)
HEADERS = {
    "Content-Security-Policy": POLICY,
    "X-Frame-Options": "DENY",
    "Cross-Origin-Opener-Policy": "same-origin",
    "Cross-Origin-Resource-Policy": "same-origin",
}
MOST_FIELDS = 5_000
_open: ContextVar[str] = ContextVar("open", default="")  # the address of the page that is being made


class Pages(APIRoute):
    """A route whose refusals are pages. Whoever is not signed in is sent to the door."""

    def get_route_handler(self) -> Callable[[Request], Coroutine[Any, Any, Response]]:
        handle = super().get_route_handler()

        async def answered(request: Request) -> Response:
            _open.set(address_of(request))
            try:
                answer = await handle(request)
            except SignedOut:
                answer = RedirectResponse(f"{PREFIX}/sign-in", status_code=303)
                answer.delete_cookie(COOKIE, path=PREFIX)
            except DpexplainError as error:
                answer = refusal(request, error)
            except RequestValidationError:
                answer = refusal(request, InputError("the address of this page is not right."))
            answer.headers.update(HEADERS)
            return answer

        return answered


def address_of(request: Request) -> str:
    """Where the page that is asked for can be found again; nothing for what a form has sent."""
    if request.method != "GET":
        return ""
    path: str = request.scope.get("raw_path", b"").decode("ascii", "replace")
    return f"{path}?{request.url.query}" if request.url.query else path


def refusal(request: Request, error: DpexplainError) -> Response:
    """An error as a page, or as JSON where a script asked."""
    status = getattr(error, "status", 0) or next((s for kind, s in STATUS.items() if isinstance(error, kind)), 500)
    if request.headers.get("accept") == "application/json":
        return JSONResponse({"error": error.to_dict()}, status_code=status)
    said = error.to_dict()
    return HTMLResponse(page("refused.html", None, title="This did not go through", said=said), status_code=status)


def page(template: str, session: Session | None, **values: Any) -> str:
    """A page of the console. It says itself who is signed in."""
    about = {"session": session, "guarantees": [], "lead": "", "prefix": PREFIX, "address": _open.get(), **values}
    return str(templates().get_template(template).render(about))


@cache
def templates() -> Any:
    """The templates of the console, and what says costs in plain words."""
    found = environment("dpexplain.service.console")
    found.filters["plainly"] = plain_price
    found.filters["sentence"] = sentence
    found.globals["plain_facts"] = plain_facts
    return found


def sentence(words: str) -> str:
    """Words as a sentence: a capital at the start, a full stop at the end."""
    return f"{words[:1].upper()}{words[1:]}{'' if words.endswith('.') else '.'}"


@cache
def own_static(name: str) -> str:
    """The text of a file of the console's own."""
    return (Path(__file__).parent / "templates" / name).read_text(encoding="utf-8")


def shown(template: str, session: Session | None, status: int = 200, **values: Any) -> HTMLResponse:
    """A page as an answer."""
    return HTMLResponse(page(template, session, **values), status_code=status)


def onward(path: str, *names: str) -> RedirectResponse:
    """After something was done: look at it there. `names` of people's own fill the gaps of the path."""
    return RedirectResponse(f"{PREFIX}{path.format(*(quote(name, safe='') for name in names))}", status_code=303)


def back(address: str) -> RedirectResponse:
    """Back to a page of the console, and to no other."""
    ours = address.isascii() and address.isprintable() and address.startswith(f"{PREFIX}/") and "\\" not in address
    return RedirectResponse(address if ours else f"{PREFIX}/", status_code=303)


# Forms ----------------------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Sent:
    """What a form of this session holds."""

    fields: dict[str, list[str]]

    def one(self, name: str, otherwise: str = "") -> str:
        """The value of a field, without blanks around it."""
        return self.fields.get(name, [otherwise])[0].strip()

    def all(self, name: str) -> list[str]:
        """All values of a field that may be chosen several times."""
        return [value for value in self.fields.get(name, []) if value]

    def number(self, name: str, called: str) -> float:
        """A number, or a refusal that names the field."""
        try:
            return float(self.one(name))
        except ValueError:
            raise InputError(f"{called} must be a number.", spent="") from None


async def fields_of(request: Request) -> dict[str, list[str]]:
    """The fields of a form that was sent."""
    if not request.headers.get("content-type", "").startswith("application/x-www-form-urlencoded"):
        raise Refused(415, "this is not a form.")
    try:
        text = (await request.body()).decode("utf-8")
        return parse_qs(text, keep_blank_values=True, strict_parsing=bool(text), max_num_fields=MOST_FIELDS)
    except ValueError:
        raise InputError("the form cannot be read.", spent="") from None


async def _sent(request: Request, session: In) -> Sent:
    found = await fields_of(request)
    check_form(request, session, found.get("csrf", [""])[0])
    return Sent(found)


Filled = Annotated[Sent, Depends(_sent)]
