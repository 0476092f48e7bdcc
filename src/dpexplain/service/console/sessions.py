"""Sessions: whoever shows a token gets a cookie that names a session and nothing else. It ends by itself.

The store keeps the hash of the cookie, and which token it stands for: a token that is revoked ends its sessions. What
changes something must come from a form of the same session (`csrf`), from the same site.
"""

from __future__ import annotations

import hashlib
import hmac
import json
from dataclasses import dataclass
from typing import Annotated, Any
from urllib.parse import urlsplit

import sqlalchemy as sa
from fastapi import Depends, Request

from dpexplain.core.rng import secret_bytes
from dpexplain.service import tokens
from dpexplain.service.api import Here
from dpexplain.service.service import Refused
from dpexplain.service.store import Store, now, sessions
from dpexplain.service.tokens import Principal, Role

COOKIE = "dpx_session"
IDLE, LONGEST = 1_800.0, 43_200.0  # seconds without a request, and in all
NOTED = 30.0  # seconds after which it is noted again that a session is used


class SignedOut(Refused):
    """Nobody is signed in here."""

    def __init__(self) -> None:
        super().__init__(401, "nobody is signed in.", hint="sign in with your token")


@dataclass(frozen=True)
class Session:
    """Somebody who is signed in."""

    id: str
    who: Principal
    csrf: str
    memory: dict[str, Any]  # what the pages keep for this person: the set of questions, the view

    @property
    def expert(self) -> bool:
        """Whether this person wants the expert's view."""
        return bool(self.memory.get("expert"))

    def remember(self, store: Store, **what: Any) -> None:
        """Keep something until the session ends."""
        self.memory.update(what)
        with store.write() as connection:
            mine = sessions.update().where(sessions.c.id == self.id)
            connection.execute(mine.values(memory=json.dumps(self.memory)))


def begin(store: Store, who: Principal) -> str:
    """A new session; the text of its cookie."""
    cookie = secret_bytes(32).hex()
    at = now()
    with store.write() as connection:
        connection.execute(sessions.delete().where((sessions.c.used < at - IDLE) | (sessions.c.begun < at - LONGEST)))
        connection.execute(
            sessions.insert().values(
                id=_hash(cookie), token=who.id, csrf=secret_bytes(24).hex(), begun=at, used=at, memory="{}"
            )
        )
    return cookie


def end(store: Store, session: Session) -> None:
    """Forget a session."""
    with store.write() as connection:
        connection.execute(sessions.delete().where(sessions.c.id == session.id))


def find(store: Store, cookie: str) -> Session | None:
    """The session that a cookie names, while it and its token last."""
    at = now()
    with store.read() as connection:
        row = connection.execute(sa.select(sessions).where(sessions.c.id == _hash(cookie))).first()
    if row is None or row.used < at - IDLE or row.begun < at - LONGEST:
        return None
    who = tokens.by_id(store, row.token)
    if who is None:
        return None
    if row.used < at - NOTED:
        with store.write() as connection:
            connection.execute(sessions.update().where(sessions.c.id == row.id).values(used=at))
    return Session(row.id, who, row.csrf, json.loads(row.memory))


def of_request(request: Request, here: Here) -> Session:
    """Whoever is signed in."""
    found = find(here.store, request.cookies.get(COOKIE, ""))
    if found is None:
        raise SignedOut
    if wait := here.rate.wait(found.who.id):
        refused = Refused(429, "too many requests.", hint="wait, and ask again")
        refused.wait = wait
        raise refused
    return found


In = Annotated[Session, Depends(of_request)]


def of(*roles: Role) -> Any:
    """Whoever is signed in with one of these roles."""

    def allowed(session: In) -> Session:
        if session.who.role not in roles:
            raise Refused(403, f"this page is for a {' or '.join(roles)}; you are a {session.who.role}.")
        return session

    return allowed


Member = Annotated[Session, Depends(of(Role.CURATOR, Role.ANALYST, Role.VIEWER))]
Asker = Annotated[Session, Depends(of(Role.CURATOR, Role.ANALYST))]
Reader = Annotated[Session, Depends(of(Role.CURATOR, Role.VIEWER))]
Curator = Annotated[Session, Depends(of(Role.CURATOR))]


def same_site(request: Request) -> None:
    """Refuse a form that another site sent. Browsers say where it came from; our pages tell them to hide the rest.

    Behind a proxy `Host` may be whatever the proxy says, so an origin is compared with the `public_url` where one is
    set. `null` is what browsers say in forms of our own, which counts only beside `Sec-Fetch-Site`.
    """
    said, origin = request.headers.get("sec-fetch-site"), request.headers.get("origin")
    public: str | None = request.app.state.service.settings.public_url
    ours = origin == public if public else urlsplit(origin or "").netloc == request.headers.get("host")
    if said is None:
        refused = origin is not None and not ours
    else:
        refused = said not in ("same-origin", "none") or (public is not None and origin not in (None, "null", public))
    if refused:
        raise Refused(403, "this form was not sent from here.")


def check_form(request: Request, session: Session, shown: str) -> None:
    """Refuse a form that does not come from a page of this session."""
    same_site(request)
    if not hmac.compare_digest(session.csrf.encode(), shown.encode("utf-8", "replace")):
        raise Refused(403, "this form is not of this session.", hint="open the page again")


def _hash(cookie: str) -> str:
    return hashlib.sha256(cookie.encode("utf-8", "replace")).hexdigest()
