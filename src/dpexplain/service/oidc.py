"""Sign-in by a house's own issuer (OpenID Connect): its signed tokens, beside those that the curator gives.

    [service.oidc]
    issuer = "https://login.example.org"
    audience = "dpexplain"
    people = {"ana@example.org" = "analyst"}
    groups = {"auditors" = "viewer"}

A token counts when a key of the issuer signed it with RS256 or ES256, and issuer, audience and times are right. What
somebody may do stands under `people` and `groups` alone: whoever is in neither is refused, and nobody becomes a curator
who is not written down as one. Keys are found through the issuer's discovery document, and kept for a while.
"""

from __future__ import annotations

import base64
import http.client
import json
import logging
import ssl
import threading
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field
from time import monotonic
from typing import Any
from urllib.parse import urlsplit

from dpexplain.core.canonical import JsonObject
from dpexplain.errors import DpexplainError, InputError
from dpexplain.service.tokens import PREFIX, Principal, Role

MARK = "oidc:"  # the beginning of the id of whoever comes with such a token
DISCOVERY = "/.well-known/openid-configuration"
ALGORITHMS = {"RSA": "RS256", "EC": "ES256"}  # of the kinds of keys; no other is ever tried
TIMEOUT = 5.0  # seconds for one step of a fetch
LARGEST = 1_000_000  # bytes of what an issuer says, and
LONGEST = 16_000  # characters of a token
REFRESH = 600.0  # seconds until keys are fetched again
KEYS_LAST = 3600.0  # seconds until they no longer count, when that fails
RETRY = 10.0  # least seconds between two fetches, whatever is asked
CURRENT = 10.0  # seconds in which an issuer is taken to have no other keys than it said
MAPPED = (Role.CURATOR, Role.ANALYST, Role.VIEWER)  # a person's token names one release, so the curator makes it
EXAMPLE = '[service.oidc]: issuer = "https://login.example.org", audience = "dpexplain", people = {"ana@example.org" = "analyst"}'  # noqa: E501 (one line of help)
logger = logging.getLogger("dpexplain.service")


class Unmapped(DpexplainError):
    """The issuer knows who asks, and this service gives them no role."""


class IssuerAway(DpexplainError):
    """The issuer's keys cannot be fetched, so its tokens cannot be checked."""


@dataclass(frozen=True, kw_only=True)
class Oidc:
    """Whose tokens are taken, and who is what.

    issuer        as its tokens spell it; https, or http on this machine
    audience      what tokens for this service name
    client_id     the one client whose tokens are taken (`azp`); by default those of all
    claim         the claim that is the name here: email, which must be verified, sub, or one that people cannot choose
    groups_claim  the claim that lists groups
    people        roles by name; they come before
    groups        roles by group: somebody whose groups have different roles is refused
    skew          seconds by which clocks may differ
    """

    issuer: str
    audience: str
    client_id: str | None = None
    claim: str = "email"
    groups_claim: str = "groups"
    people: Mapping[str, str] = field(default_factory=dict)
    groups: Mapping[str, str] = field(default_factory=dict)
    skew: float = 60.0

    @classmethod
    def read(cls, written: Mapping[str, Any], where: str) -> Oidc:
        """The section of a project file."""
        kinds: dict[str, Any] = {
            **dict.fromkeys(("issuer", "audience", "client_id", "claim", "groups_claim"), str),
            **dict.fromkeys(("people", "groups"), dict),
            "skew": (int, float),
        }
        for key, value in written.items():
            if key not in kinds or not isinstance(value, kinds[key]) or isinstance(value, bool) or value == "":
                raise InputError(f"{where} has no {key} that can be read.", hint=EXAMPLE)
        if missing := [key for key in ("issuer", "audience") if key not in written]:
            raise InputError(f"{where} has no {missing[0]}.", hint=EXAMPLE)
        found = cls(**written)
        if not _safe(found.issuer):
            raise InputError(f"{where}: issuer must be an address with https.", hint=EXAMPLE)
        if not 0 <= found.skew <= 600:
            raise InputError(f"{where}: skew must be 0 to 600 seconds.", hint="skew = 60")
        for role in [*found.people.values(), *found.groups.values()]:
            if role not in MAPPED:
                raise InputError(f"{where}: unknown role {role!r}.", hint="curator, analyst or viewer")
        return found

    def to_json(self) -> JsonObject:
        return {**asdict(self), "skew": str(self.skew)}

    def role(self, name: str, groups: list[str]) -> Role | None:
        """What somebody is, if that is said, and said once."""
        if name in self.people:
            return Role(self.people[name])
        found = {self.groups[group] for group in groups if group in self.groups}
        return Role(found.pop()) if len(found) == 1 else None

    def may_be(self, name: str, role: Role) -> bool:
        """Whether somebody may still have a role, as far as that can be said without their groups."""
        return role == self.people[name] if name in self.people else role in self.groups.values()


def looks_signed(shown: str) -> bool:
    """Whether a token has the form of an issuer's, so that it is none of ours."""
    return shown.count(".") == 2 and not shown.startswith(f"{PREFIX}_") and len(shown) <= LONGEST


class Issuer:
    """An issuer and its keys, as they were last fetched."""

    def __init__(self, settings: Oidc) -> None:
        try:
            from joserfc import jwk, jwt
        except ImportError:
            raise InputError(
                "tokens of an issuer need the package joserfc.", hint="pip install dpexplain[oidc]"
            ) from None
        self.settings = settings
        self._import_key, self._jwt = jwk.import_key, jwt
        self._keys: dict[tuple[str, str], Any] = {}  # by their id and algorithm
        self._fetched = self._tried = -float("inf")
        self._fetching = threading.Lock()

    def principal(self, shown: str) -> Principal | None:
        """Whose token this is; None if it is not a valid one for this service."""
        claims = self._claims(shown)
        if claims is None:
            return None
        wanted = self.settings
        name, groups = claims.get(wanted.claim), claims.get(wanted.groups_claim)
        if wanted.claim == "email" and claims.get("email_verified") is not True:
            name = None
        listed = [one for one in groups if isinstance(one, str)] if isinstance(groups, list) else []
        usable = isinstance(name, str) and name.strip() and name.isprintable() and len(name) <= 100
        role = wanted.role(str(name), listed) if usable else None
        if role is None:
            raise Unmapped(
                "the issuer of your token knows you; this service has no role for you.",
                hint="whoever runs it names people and groups under [service.oidc]",
            )
        return Principal(f"{MARK}{name}", str(name), role, None, None, False, float(claims["exp"]), by_issuer=True)

    def refresh(self) -> None:
        """Fetch the keys, unless that was tried a moment ago or is going on. When it fails, those of before stay."""
        if monotonic() - self._tried < RETRY or not self._fetching.acquire(blocking=False):
            return
        try:
            self._tried = monotonic()
            self._keys = self._fetch()
            self._fetched = monotonic()
        except (OSError, http.client.HTTPException, ValueError, LookupError, TypeError, AttributeError):
            logger.warning("the keys of the issuer under [service.oidc] could not be fetched")
        finally:
            self._fetching.release()

    def _claims(self, shown: str) -> Mapping[str, Any] | None:
        """What a token says, when its signature, issuer, audience and times are right."""
        from joserfc.errors import JoseError

        wanted = self.settings
        try:
            head = shown.partition(".")[0]
            header = json.loads(base64.urlsafe_b64decode(head + "=" * (-len(head) % 4)))
            known, algorithm = header["kid"], header["alg"]
            if not isinstance(known, str) or algorithm not in ALGORITHMS.values():
                return None
        except (ValueError, LookupError, TypeError, RecursionError):
            return None
        key = self._key(known, algorithm)
        if key is None:
            return None
        try:
            claims = self._jwt.decode(shown, key, algorithms=[algorithm]).claims
            self._jwt.JWTClaimsRegistry(
                leeway=wanted.skew,  # type: ignore[arg-type]  # it is only added; annotated as int
                iss={"essential": True, "value": wanted.issuer},
                aud={"essential": True, "value": wanted.audience},
                exp={"essential": True},
            ).validate(claims)
        except (JoseError, ValueError, LookupError, TypeError, AttributeError, RecursionError):
            return None
        party = claims.get("azp", claims.get("client_id"))
        return None if wanted.client_id is not None and party != wanted.client_id else claims

    def _key(self, known: str, algorithm: str) -> Any:
        """A key of the issuer, or None when it is surely none of theirs. One that is new is found by fetching again."""
        key = self._keys.get((known, algorithm))
        if key is None or monotonic() - self._fetched > REFRESH:
            self.refresh()
            key = self._keys.get((known, algorithm))
        if monotonic() - self._fetched > (CURRENT if key is None else KEYS_LAST):
            raise IssuerAway(
                "the issuer of this token cannot be reached, so the token cannot be checked.",
                hint="wait, and ask again; tokens of the curator are not concerned",
            )
        return key

    def _fetch(self) -> dict[tuple[str, str], Any]:
        issuer = self.settings.issuer
        said = _get(issuer.rstrip("/") + DISCOVERY)
        if said["issuer"] != issuer:
            raise ValueError("another issuer")
        found = {}
        for one in _get(said["jwks_uri"])["keys"]:
            algorithm = ALGORITHMS.get(one.get("kty", ""))
            usable = one.get("use", "sig") == "sig" and one.get("alg", algorithm) == algorithm
            if algorithm and usable and isinstance(one.get("kid"), str) and one.get("crv", "P-256") == "P-256":
                found[one["kid"], algorithm] = self._import_key(one)
        return found


def _safe(url: str) -> bool:
    """Whether what an address says can be trusted on its way here."""
    parts = urlsplit(url)
    here = parts.hostname in ("127.0.0.1", "::1", "localhost")
    return bool(parts.hostname) and (parts.scheme == "https" or (parts.scheme == "http" and here))


def _get(url: str) -> Any:
    """The JSON at an address. No redirects are followed."""
    if not _safe(url):
        raise ValueError("not https")
    parts = urlsplit(url)
    connection: http.client.HTTPConnection
    if parts.scheme == "https":
        context = ssl.create_default_context()
        connection = http.client.HTTPSConnection(str(parts.hostname), parts.port, timeout=TIMEOUT, context=context)
    else:
        connection = http.client.HTTPConnection(str(parts.hostname), parts.port, timeout=TIMEOUT)
    try:
        query = f"?{parts.query}" if parts.query else ""
        connection.request("GET", (parts.path or "/") + query, headers={"Accept": "application/json"})
        answer = connection.getresponse()
        text = answer.read(LARGEST + 1)
        if answer.status != 200 or len(text) > LARGEST:
            raise ValueError("no document")
        return json.loads(text)
    finally:
        connection.close()
