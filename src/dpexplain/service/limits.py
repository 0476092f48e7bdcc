"""What one request, one client and one token may take up: bytes, seconds, requests in a minute."""

from __future__ import annotations

import asyncio
import json
import re
import threading
from collections import OrderedDict
from collections.abc import Awaitable, Callable, MutableMapping
from time import monotonic
from typing import Any

Scope = MutableMapping[str, Any]
Message = MutableMapping[str, Any]
Receive = Callable[[], Awaitable[Message]]
Send = Callable[[Message], Awaitable[None]]
App = Callable[[Scope, Receive, Send], Awaitable[None]]

MAX_DEPTH, MAX_DIGITS = 32, 60  # of JSON; what is asked needs less than half of either
NO_BRACKETS = bytes(set(range(256)) - set(b"[]{}"))
PAIRS = bytes.maketrans(b"{}", b"[]")
KNOWN = 10_000  # tokens whose requests are counted
FORM = b"application/x-www-form-urlencoded"
HEADERS = [
    (b"x-content-type-options", b"nosniff"),
    (b"cache-control", b"no-store"),
    (b"referrer-policy", b"no-referrer"),
]


TEXT = re.compile(rb'"(?:[^"\\]|\\(?:.|\Z))*+(?:"|\Z)', re.DOTALL)  # of JSON; it always matches, so one pass is enough
DIGITS = re.compile(rb"[0-9]{%d}" % (MAX_DIGITS + 1))


def too_much(document: bytes) -> str:
    """What of a JSON document no reader should be asked to read: how deep it is nested, how long its numbers are."""
    if b"\0" in document:  # of another encoding than UTF-8, which would hide what is looked for
        return "it is not UTF-8"
    bare = TEXT.sub(b"", document)
    if DIGITS.search(bare):
        return f"a number in it has more than {MAX_DIGITS} digits"
    left = bare.translate(PAIRS, NO_BRACKETS)
    for _ in range(MAX_DEPTH):  # from the inside out
        before, left = len(left), left.replace(b"[]", b"")
        if len(left) in (0, before):
            break
    return f"it is nested more than {MAX_DEPTH} deep" if left else ""


class Whole:
    """Hands a request on when all of it is there: none that is too large, and none whose sender is too slow."""

    def __init__(self, app: App, *, largest: int, patience: float, counted: Callable[[str, str, int], None]) -> None:
        self._app, self._largest, self._patience, self._counted = app, largest, patience, counted

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return
        said = dict(scope["headers"]).get(b"content-length", b"0")
        if not said.isdigit() or len(said) > 12 or int(said) > self._largest:
            await _refuse(send, 413, "the request is too large.", f"at most {self._largest} bytes")
            return
        try:
            async with asyncio.timeout(self._patience):
                body = await self._read(receive)
        except TimeoutError:
            await _refuse(send, 408, "the request did not arrive in time.", f"within {self._patience:g} seconds")
            return
        if body is None:
            await _refuse(send, 413, "the request is too large.", f"at most {self._largest} bytes")
            return
        kind = dict(scope["headers"]).get(b"content-type", b"").partition(b";")[0].strip().lower()
        if body and kind != FORM and (why := too_much(body)):
            await _refuse(send, 422, f"the request cannot be read: {why}.", "GET /v1/methods has what can be asked")
            return
        given = False

        async def once() -> Message:
            nonlocal given
            if given:
                return await receive()
            given = True
            return {"type": "http.request", "body": body, "more_body": False}

        async def sealed(message: Message) -> None:
            if message["type"] == "http.response.start":
                route = getattr(scope.get("route"), "path", "(none)")
                self._counted(scope["method"], route, message["status"])
                message["headers"] = [*message.get("headers", []), *HEADERS]
            await send(message)

        await self._app(scope, once, sealed)

    async def _read(self, receive: Receive) -> bytes | None:
        """The whole body; None when it is too large, whatever its header said."""
        parts, size = [], 0
        while True:
            message = await receive()
            if message["type"] != "http.request":
                return b""
            part = message.get("body", b"")
            size += len(part)
            if size > self._largest:
                return None
            parts.append(part)
            if not message.get("more_body", False):
                return b"".join(parts)


async def _refuse(send: Send, status: int, message: str, hint: str) -> None:
    said = {"error": {"kind": "Refused", "message": message, "hint": hint, "spent": "Nothing was spent."}}
    body = json.dumps(said).encode()
    headers = [(b"content-type", b"application/json"), (b"content-length", str(len(body)).encode())]
    close = [*headers, (b"connection", b"close"), *HEADERS]
    await send({"type": "http.response.start", "status": status, "headers": close})
    await send({"type": "http.response.body", "body": body})


class Rate:
    """So many requests in a minute for each token; a burst of a tenth of it at once, and at least ten."""

    def __init__(self, per_minute: int) -> None:
        self._each, self._burst = per_minute / 60.0, max(per_minute / 10.0, 10.0)
        self._known: OrderedDict[str, tuple[float, float]] = OrderedDict()
        self._lock = threading.Lock()

    def wait(self, who: str) -> float:
        """Seconds until this one may ask again; zero lets the request through and counts it."""
        at = monotonic()
        with self._lock:
            left, last = self._known.pop(who, (self._burst, at))
            left = min(self._burst, left + (at - last) * self._each)
            allowed = left >= 1
            self._known[who] = (left - 1 if allowed else left, at)
            while len(self._known) > KNOWN:
                self._known.popitem(last=False)
        return 0.0 if allowed else (1 - left) / self._each
