"""HTTP to a service, for `dpx.Client`: one request, its JSON, its error in one of our own classes."""

from __future__ import annotations

import json
import time
import urllib.error
import urllib.request
from dataclasses import dataclass
from http.client import HTTPException
from typing import Any
from urllib.parse import urlsplit

from dpexplain import errors
from dpexplain.core.canonical import JsonObject
from dpexplain.errors import DpexplainError, InputError, LedgerUnavailable

LOCAL = ("127.0.0.1", "localhost", "::1")
TIMEOUT = 90.0  # seconds for one answer; the longest wait of the service is shorter
PAUSES = (0.2, 0.5, 1.0, 2.0, 4.0, 8.0)  # seconds between tries while the service is away


class _NoRedirect(urllib.request.HTTPRedirectHandler):
    """A token goes where it was meant to go, and nowhere else."""

    def redirect_request(self, *_: Any) -> None:
        return None


@dataclass(frozen=True)
class Wire:
    """The way to one service."""

    url: str
    token: str

    @classmethod
    def to(cls, url: str, token: str) -> Wire:
        """Refuse what would send a token in the clear, or nowhere."""
        parts = urlsplit(url)
        if parts.scheme not in ("http", "https") or not parts.hostname:
            raise InputError("the address of a service begins with https://.", spent="")
        if parts.scheme == "http" and parts.hostname not in LOCAL:
            raise InputError(
                f"a token would go to {parts.hostname} in the clear.",
                hint="use https://, as docs/service.md says",
                spent="",
            )
        if not token.isascii() or not token.isprintable() or not token.strip():
            raise InputError("a token is a text that begins with dpx_.", spent="")
        return cls(url.rstrip("/"), token.strip())

    def __repr__(self) -> str:
        return f"Wire({self.url!r})"  # never the token

    def ask(self, method: str, path: str, body: JsonObject | None = None, *, key: str | None = None) -> Any:
        """The JSON of an answer. What may be asked twice is asked again while the service is away."""
        again = method in ("GET", "PUT") or key is not None
        for pause in (*PAUSES, None) if again else (None,):
            try:
                return json.loads(self.text(method, path, body, key=key))
            except LedgerUnavailable:
                if pause is None:
                    raise
                time.sleep(pause)
        raise errors.InternalError("no answer and no error")

    def text(self, method: str, path: str, body: JsonObject | None = None, *, key: str | None = None) -> str:
        """The text of an answer, or the error that it says."""
        headers = {"Authorization": f"Bearer {self.token}", "Accept": "application/json"}
        data = None
        if body is not None:
            data, headers["Content-Type"] = _spelled(body), "application/json"
        if key is not None:
            headers["Idempotency-Key"] = key
        asked = urllib.request.Request(f"{self.url}/v1{path}", data, headers, method=method)
        try:
            with urllib.request.build_opener(_NoRedirect).open(asked, timeout=TIMEOUT) as answer:
                return str(answer.read().decode("utf-8"))
        except urllib.error.HTTPError as error:
            with error:
                found = error_of(error.code, error.read())
            wait = error.headers.get("Retry-After", "")
            if error.code == 429 and wait.isdigit() and method == "GET":
                time.sleep(min(int(wait), 10))
                raise _away(self.url) from None
            raise found from None
        except (OSError, HTTPException):
            raise _away(self.url) from None


def _spelled(body: JsonObject) -> bytes:
    try:
        return json.dumps(body, allow_nan=False).encode()
    except (TypeError, ValueError):
        raise InputError(
            "what is asked cannot be sent: it holds what JSON has no spelling for.", hint="functions run in Python only"
        ) from None


def _away(url: str) -> LedgerUnavailable:
    return LedgerUnavailable(
        f"the service at {url} does not answer.", hint="ask again with the same key: it is charged once", spent=""
    )


def error_of(status: int, text: bytes) -> DpexplainError:
    """The error that an answer says, in the class that the library would have raised."""
    try:
        said = json.loads(text)["error"]
        kind, words = str(said["kind"]), {name: str(said[name]) for name in ("message", "hint", "spent")}
    except (ValueError, LookupError, TypeError):
        kind, words = "", {"message": f"the service answered with status {status}.", "hint": "", "spent": ""}
    return error_from(kind, **words)


def error_from(kind: str, *, message: str, hint: str, spent: str) -> DpexplainError:
    """An error of one of our classes; of a class that is not ours, an InputError."""
    known = getattr(errors, kind, None)
    found = known if isinstance(known, type) and issubclass(known, DpexplainError) else InputError
    error = found.__new__(found)
    DpexplainError.__init__(error, message, hint=hint, spent=spent)
    return error
