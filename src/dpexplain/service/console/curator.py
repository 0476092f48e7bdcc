"""The curator's pages: who may ask and how much, models, what waits for approval, domains to be signed."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import yaml
from fastapi import APIRouter, Response
from pydantic import ValidationError

from dpexplain.core.canonical import JsonObject
from dpexplain.errors import DpexplainError, InputError
from dpexplain.service import curate, jobs, tokens
from dpexplain.service.api import Here
from dpexplain.service.console.forms import LONGEST_NUMBER
from dpexplain.service.console.pages import Filled, Pages, Sent, onward, shown
from dpexplain.service.console.sessions import Curator, Session
from dpexplain.service.service import Service
from dpexplain.service.store import now

router = APIRouter(prefix="/console", route_class=Pages, include_in_schema=False)
OPEN = "???"  # what a draft leaves to its reviewer
SHOWN = ("type", "low", "high", "integer", "values", "keep_missing", "missing")


@router.get("/curator")
def page(here: Here, session: Curator) -> Response:
    """Everything that a curator decides."""
    return _page(here, session)


def _page(here: Service, session: Session, **more: Any) -> Response:
    at, names = now(), here.visible(session.who)
    waiting = [jobs.shown(row, at) for row in jobs.listed(here.store, None, names) if row.state == "waiting"]
    return shown(
        "curator.html", session, status=more.pop("status", 200), title="Curator", tokens=tokens.listed(here.store),
        tables=[_table(here, name) for name in names], waiting=waiting, days=here.settings.token_days,
        decisions=here.decisions.every()[-50:][::-1], **{"made": None, "error": None, **more},
    )  # fmt: skip


def _table(here: Service, name: str) -> JsonObject:
    served = here.tables[name]
    if served.table is None:
        return {"name": name, "open": False, "analysts": [], "models": []}
    statement = here.books.statement(name)
    of = statement.budget.epsilon_of
    analysts = [
        (line.analyst, of(line.spent), None if line.limit is None else of(line.limit)) for line in statement.analysts
    ]
    return {
        "name": name, "open": True, "analysts": analysts, "left": of(statement.left),
        "models": [served.usual_version, *(row.version for row in served.registered(here.store))]
        if served.has_model else [], "folder": served.folder is not None,
    }  # fmt: skip


def _did(here: Service, session: Session, what: Any) -> Response:
    """Carry something out, and show the page; a refusal stands above it."""
    try:
        what()
    except DpexplainError as error:
        return _page(here, session, error=error.to_dict(), status=422)
    except ValidationError:
        return _page(here, session, error=InputError("a field of the form is not right.").to_dict(), status=422)
    return onward("/curator")


@router.post("/curator/tokens")
def make_token(here: Here, session: Curator, sent: Filled) -> Response:
    """Make a token. It is shown on this page, and never again."""
    try:
        asked = curate.NewToken(
            name=sent.one("name"), role=sent.one("role"), tables=sent.all("tables") or None,
            release=sent.one("release") or None, agent=sent.one("agent") == "1",
            days=sent.number("days", "Days") if sent.one("days") else None,
        )  # fmt: skip
        made = curate.make_token(here, session.who, asked)
    except ValidationError:
        return _page(here, session, error=InputError("a field of the form is not right.").to_dict(), status=422)
    except DpexplainError as error:
        return _page(here, session, error=error.to_dict(), status=422)
    return _page(here, session, made=made)


@router.post("/curator/revoke")
def revoke(here: Here, session: Curator, sent: Filled) -> Response:
    """End a token, and the sessions that stand for it."""
    return _did(here, session, lambda: curate.revoke_token(here, session.who, sent.one("token")))


@router.post("/curator/limits")
def limit(here: Here, session: Curator, sent: Filled) -> Response:
    """The most that somebody may spend of a table."""

    def done() -> None:
        name = sent.one("analyst")
        if not name:
            raise InputError("whose limit is it?", spent="")
        asked = curate.Limit(epsilon=sent.number("epsilon", "The limit"))
        curate.limit(here, session.who, sent.one("table"), name, asked)

    return _did(here, session, done)


@router.post("/curator/models")
def model(here: Here, session: Curator, sent: Filled) -> Response:
    """Register a model."""
    return _did(
        here,
        session,
        lambda: curate.register_model(
            here, session.who, sent.one("table"), curate.NewModel(version=sent.one("version"), file=sent.one("file"))
        ),
    )


@router.post("/curator/approvals")
def approve(here: Here, session: Curator, sent: Filled) -> Response:
    """Let what a program asked for go on, or not."""
    said = curate.Said(approved=sent.one("do") == "approve")
    return _did(here, session, lambda: curate.approve(here, session.who, sent.one("job"), said))


# Domains --------------------------------------------------------------------------------------------------------------


@router.get("/tables/{table}/domain")
def domain(here: Here, session: Curator, table: str) -> Response:
    """The domain of a table, column by column, for whoever reviews it."""
    return _domain(here, session, table, Sent({}))


def _domain(here: Service, session: Session, table: str, sent: Sent, **more: Any) -> Response:
    served = here.served(table, session.who)
    draft = served.draft()
    columns = [_column(name, said, sent) for name, said in draft.get("columns", {}).items()]
    return shown(
        "domain.html", session, status=more.pop("status", 200), title=f"Domain of {table}", table=table,
        columns=columns, signed=served.table is not None, sent=sent, by=draft.get("reviewed_by"),
        **{"error": None, **more},
    )  # fmt: skip


def _column(name: str, said: Mapping[str, Any], sent: Sent) -> JsonObject:
    """A column as a form shows it: what the draft says, or what the reviewer has typed."""
    fields = [(key, _text(said[key]), isinstance(said[key], list)) for key in SHOWN if key in said]
    other = {key: value for key, value in said.items() if key not in SHOWN}
    values = [(key, sent.one(f"{name}.{key}", text), several, OPEN in text) for key, text, several in fields]
    return {
        "name": name, "fields": values, "other": yaml.safe_dump(other).strip() if other else "",
        "open": any(left for _, _, _, left in values), "checked": bool(sent.one(f"{name}.checked")),
    }  # fmt: skip


def _text(value: Any) -> str:
    if isinstance(value, bool):
        return "yes" if value else "no"
    return "\n".join(map(str, value)) if isinstance(value, list) else str(value)


@router.post("/tables/{table}/domain")
def sign(here: Here, session: Curator, table: str, sent: Filled) -> Response:
    """Sign a reviewed domain: every column was looked at, and somebody answers for it."""
    try:
        draft = here.served(table, session.who).draft()
        columns = {name: _reviewed(name, said, sent) for name, said in draft.get("columns", {}).items()}
        asked = curate.Signed(columns=columns, reviewed_by=sent.one("reviewed_by") or "?")
        if not sent.one("reviewed_by"):
            raise InputError("somebody has to answer for the domain: give a name.", spent="")
        curate.sign(here, session.who, table, asked)
    except DpexplainError as error:
        return _domain(here, session, table, sent, error=error.to_dict(), status=422)
    return onward("/tables/{}", table)


def _reviewed(name: str, said: Mapping[str, Any], sent: Sent) -> JsonObject:
    """A column as its reviewer leaves it."""
    if not sent.one(f"{name}.checked"):
        raise InputError(f"column {name!r} was not reviewed."[:200], hint="look at it, and tick it", spent="")
    found = dict(said)
    for key in SHOWN:
        if key not in said:
            continue
        text = sent.one(f"{name}.{key}")
        if OPEN in text:
            raise InputError(f"{key} of column {name!r} is still open."[:200], spent="")
        if isinstance(said[key], list):
            lines = [line.strip() for line in text.splitlines() if line.strip()]
            found[key] = [_like(said[key], line) for line in lines]
        else:
            found[key] = _value(text)
    return found


def _like(before: list[Any], line: str) -> Any:
    """A value of a list, of the kind that the draft has."""
    named = {str(value): value for value in before}
    return named.get(line, _value(line) if before and not any(isinstance(v, str) for v in before) else line)


def _value(text: str) -> Any:
    if text in ("yes", "no"):
        return text == "yes"
    for kind in (int, float) if len(text) <= LONGEST_NUMBER else ():
        try:
            return kind(text)
        except ValueError:
            continue
    return text
