"""Tokens of a house's own issuer: one of ours, whose keys and documents stand on a port of this process."""

from __future__ import annotations

import base64
import hashlib
import hmac
import json
import threading
import time
import urllib.error
import urllib.parse
import urllib.request
from http.server import BaseHTTPRequestHandler, HTTPServer

import pytest

import dpexplain as dpx
from dpexplain.errors import InputError
from dpexplain.project.file import Project
from dpexplain.service import oidc
from dpexplain.service.settings import Settings
from services import SLOT, Running, free_port, running, write_project

pytest.importorskip("joserfc")
from joserfc import jwt
from joserfc.jwk import ECKey, RSAKey

PEOPLE = '{"ana@example.org" = "analyst", "boss@example.org" = "curator"}'
GROUPS = '{"auditors" = "viewer", "science" = "analyst"}'


class House:
    """An issuer: its keys, and a server that may be stopped."""

    def __init__(self) -> None:
        self.port = free_port()
        self.url = f"http://127.0.0.1:{self.port}"
        self.says = self.url  # what its discovery document says that it is
        self.key = RSAKey.generate_key(2048, {"kid": "one", "use": "sig"})
        self.others = [ECKey.generate_key("P-256", {"kid": "curve"})]
        self.asked = 0

    def open(self) -> None:
        house = self

        class Answer(BaseHTTPRequestHandler):
            def do_GET(self) -> None:
                house.asked += 1
                if self.path == oidc.DISCOVERY:
                    said = {"issuer": house.says, "jwks_uri": f"{house.url}/keys"}
                else:
                    said = {"keys": [key.as_dict(private=False) for key in (house.key, *house.others)]}
                self.send_response(200)
                self.end_headers()
                self.wfile.write(json.dumps(said).encode())

            def log_message(self, *_args: object) -> None:
                """Silence."""

        self.server = HTTPServer(("127.0.0.1", self.port), Answer)
        self.thread = threading.Thread(target=self.server.serve_forever, args=(0.01,), daemon=True)
        self.thread.start()

    def close(self) -> None:
        self.server.shutdown()
        self.server.server_close()
        self.thread.join(10)

    def claims(self, **more: object) -> dict[str, object]:
        at = int(time.time())
        usual = {"iss": self.url, "aud": "dpexplain", "sub": "1", "email": "ana@example.org", "email_verified": True}
        said = {**usual, "iat": at, "nbf": at, "exp": at + 300, **more}
        return {name: value for name, value in said.items() if value is not None}

    def token(self, *, key: RSAKey | ECKey | None = None, head: dict[str, str] | None = None, **more: object) -> str:
        key = key or self.key
        header = {"alg": "ES256" if isinstance(key, ECKey) else "RS256", "kid": key.kid, **(head or {})}
        return jwt.encode(header, self.claims(**more), key, algorithms=["RS256", "RS512", "ES256"])

    def forged(self, algorithm: str, secret: bytes) -> str:
        """A token that is signed with HMAC, or not at all."""
        parts = [{"alg": algorithm, "kid": "one", "typ": "JWT"}, self.claims(email="boss@example.org")]
        text = ".".join(_base64(json.dumps(part).encode()) for part in parts)
        sign = hmac.new(secret, text.encode(), hashlib.sha256).digest() if secret else b""
        return f"{text}.{_base64(sign)}"


def _base64(content: bytes) -> str:
    return base64.urlsafe_b64encode(content).decode().rstrip("=")


def section(house: House, more: str = "") -> str:
    return (
        f'slot = {SLOT}\nrate = 1000000\n[service.oidc]\nissuer = "{house.url}"\naudience = "dpexplain"\n'
        f"people = {PEOPLE}\ngroups = {GROUPS}\n{more}\n"
    )


@pytest.fixture(scope="module")
def house():
    found = House()
    found.open()
    yield found
    found.close()


@pytest.fixture(scope="module")
def here(tmp_path_factory, house):
    with running(write_project(tmp_path_factory.mktemp("oidc"), service=section(house))) as found:
        yield found


@pytest.fixture
def known(here: Running, house: House, monkeypatch):
    """The service as if it had just fetched the keys, and time to do it again."""
    monkeypatch.setattr(oidc, "RETRY", 0.0)
    here.service.issuer.refresh()
    return here


def status(here: Running, token: str, path: str = "/me") -> int:
    return here.ask("GET", path, token=token)[0]


def test_a_signed_token_is_taken_beside_our_own_and_has_a_personal_limit(here: Running, house: House):
    ana = house.token()
    said = here.good("GET", "/me", token=ana)
    assert (said["name"], said["role"]) == ("ana@example.org", "analyst")
    assert status(here, house.token(key=house.others[0])) == 200, "ES256"
    assert status(here, house.token(aud=["other", "dpexplain"])) == 200
    asked = {"request": {"request": "partial-dependence", "feature": "sex"}, "epsilon": 0.25}
    assert here.ask("POST", "/tables/people/explanations", asked, token=ana)[0] == 402, "no limit yet"
    here.good("PUT", "/tables/people/analysts/ana@example.org", {"epsilon": 0.3})
    assert here.explained(ana)["state"] == "done"
    again = dpx.Client(here.url, house.token())  # a new token of the same person has the same limit
    assert again.budget(again.table("people"))["left_for_you_epsilon"] < 0.2
    assert here.explained(ana, epsilon=0.2)["state"] == "refused"
    assert status(here, ana, "/tokens") == 403, "an analyst does not do what a curator does"


@pytest.mark.parametrize(
    "more",
    [
        {"exp": 1_000_000_000},
        {"exp": None},
        {"exp": "never"},
        {"nbf": int(time.time()) + 10_000},
        {"aud": "other"},
        {"aud": None},
        {"iss": "https://other.example.org"},
        {"iss": None},
    ],
    ids=str,
)
def test_what_is_not_for_us_or_not_now_is_refused(here: Running, house: House, more):
    assert status(here, house.token()) == 200
    assert status(here, house.token(**more)) == 401


def test_clocks_may_differ_by_a_minute(here: Running, house: House):
    at = int(time.time())
    assert status(here, house.token(exp=at - 20)) == 200
    assert status(here, house.token(exp=at - 90)) == 401


def test_forged_tokens_are_refused(known: Running, house: House):
    public = house.key.as_pem(private=False)
    assert status(known, house.forged("none", b"")) == 401
    assert status(known, house.forged("HS256", public)) == 401
    assert status(known, house.token(head={"alg": "RS512"})) == 401, "an algorithm that is not on the list"
    stranger = RSAKey.generate_key(2048, {"kid": "one"})
    assert status(known, house.token(key=stranger)) == 401, "another key under a known id"
    assert status(known, house.token(key=RSAKey.generate_key(2048, {"kid": "two"}))) == 401, "an unknown id"
    head, body, sign = house.token().split(".")
    other = _base64(json.dumps(house.claims(email="boss@example.org")).encode())
    assert status(known, f"{head}.{other}.{sign}") == 401
    for text in ("a.b.c", "..", f"{head}.{body}.", f"{_base64(b'[]')}.{body}.{sign}"):
        assert status(known, text) == 401, text


def test_unknown_keys_do_not_make_us_ask_the_issuer_again_and_again(here: Running, house: House):
    here.service.issuer._tried = -1e9
    stranger = house.token(key=RSAKey.generate_key(2048, {"kid": "elsewhere"}))
    before = house.asked
    assert {status(here, stranger) for _ in range(5)} == {401}
    assert house.asked - before == 2, "one discovery document, and one set of keys"


def test_a_rotated_key_is_found(known: Running, house: House):
    old, house.key = house.key, RSAKey.generate_key(2048, {"kid": "next"})
    try:
        assert status(known, house.token()) == 200
        assert status(known, house.token(key=old)) == 401, "what was taken back no longer counts"
    finally:
        house.key = old
    assert status(known, house.token()) == 200


def test_an_issuer_that_is_away_is_said_and_our_own_tokens_go_on(known: Running, house: House, monkeypatch):
    rotated = house.token(key=RSAKey.generate_key(2048, {"kid": "later"}))
    own = known.member("own", limit=None)
    house.close()
    monkeypatch.setattr(oidc, "CURRENT", 0.0)
    try:
        assert status(known, house.token()) == 200, "keys that were fetched before last for a while"
        answer = known.ask("GET", "/me", token=rotated)
        assert answer[0] == 503
        assert "cannot be reached" in answer[1]["error"]["message"]
        monkeypatch.setattr(oidc, "KEYS_LAST", 0.0)
        assert status(known, house.token()) == 503
        assert status(known, own) == 200
    finally:
        house.open()
    monkeypatch.setattr(oidc, "KEYS_LAST", 3600.0)
    assert status(known, house.token()) == 200


def test_documents_of_another_issuer_are_not_taken(known: Running, house: House, monkeypatch):
    rotated, old = RSAKey.generate_key(2048, {"kid": "evil"}), house.key
    monkeypatch.setattr(oidc, "CURRENT", 0.0)
    monkeypatch.setattr(house, "says", "https://other.example.org")
    monkeypatch.setattr(house, "key", rotated)
    assert status(known, house.token()) == 503
    assert status(known, house.token(key=old)) == 200, "the keys of before stay"


def test_whoever_is_not_mapped_is_refused(here: Running, house: House):
    def role(**more: object) -> object:
        code, said = here.ask("GET", "/me", token=house.token(**more))
        return said["role"] if code == 200 else code

    assert role(email="eve@example.org") == 403
    assert role(email="eve@example.org", groups=["curator", "admins"]) == 403, "no role by its name"
    assert role(email="eve@example.org", groups=["auditors"]) == "viewer"
    assert role(email="eve@example.org", groups="auditors") == 403, "a list, as declared"
    assert role(email="eve@example.org", groups=["auditors", "science"]) == 403, "two roles are none"
    assert role(groups=["auditors"]) == "analyst", "what is said of a person comes before"
    assert role(email="boss@example.org") == "curator", "written down as one"
    for more in ({"email_verified": False}, {"email_verified": None}, {"email": None}, {"email": ["ana@example.org"]}):
        assert role(**more) == 403, more


def test_whoever_lost_their_role_has_nothing_begun(here: Running):
    """What was asked with an issuer's token is begun while the section gives its holder the role."""
    section = here.service.settings.oidc
    assert section.may_be("ana@example.org", oidc.Role.ANALYST)
    assert not section.may_be("ana@example.org", oidc.Role.CURATOR)
    assert section.may_be("eve@example.org", oidc.Role.ANALYST), "by a group, which is not known here"
    assert not section.may_be("eve@example.org", oidc.Role.CURATOR)


def test_who_is_what_by_the_issuer_is_a_decision(here: Running, house: House):
    told = [one for one in here.good("GET", "/decisions")["decisions"] if one["what"] == "issuer"]
    assert [one["body"]["people"]["boss@example.org"] for one in told] == ["curator"]
    here.service._grant_by_issuer()
    again = here.good("GET", "/decisions")
    assert len([one for one in again["decisions"] if one["what"] == "issuer"]) == 1, "once, until it changes"


def test_the_console_takes_tokens_of_the_curator_alone(here: Running, house: House):
    from dpexplain.service.console.pages import PREFIX

    form = urllib.parse.urlencode({"token": house.token()}).encode()
    asked = urllib.request.Request(f"{here.url}{PREFIX}/sign-in", form, {"Origin": here.url})
    with pytest.raises(urllib.error.HTTPError) as refused:
        urllib.request.urlopen(asked, timeout=60)
    with refused.value as answer:
        assert answer.code == 403
        assert "by the curator" in answer.read().decode()
        assert "set-cookie" not in answer.headers


def test_a_client_and_the_name_of_a_claim_may_be_said(house: House):
    pick = oidc.Oidc(
        issuer=house.url, audience="dpexplain", client_id="desk", claim="sub", people={"1": "viewer"}, groups={}
    )
    issuer = oidc.Issuer(pick)
    assert issuer.principal(house.token(azp="desk", email=None)).role == "viewer"
    assert issuer.principal(house.token(azp="desk")).name == "1"
    assert issuer.principal(house.token(azp="other")) is None
    assert issuer.principal(house.token()) is None
    with pytest.raises(oidc.Unmapped, match="no role for you"):
        issuer.principal(house.token(azp="desk", sub="2"))


@pytest.mark.parametrize(
    ("wrong", "message"),
    [
        ('issuer = "http://login.example.org"\naudience = "a"', "address with https"),
        ('issuer = "https://login.example.org"', "no audience"),
        ('issuer = "https://a.example"\naudience = "a"\npeople = {"ana" = "person"}', "unknown role 'person'"),
        ('issuer = "https://a.example"\naudience = "a"\nskew = 10000', "skew"),
        ('issuer = "https://a.example"\naudience = "a"\nadmins = ["ana"]', "admins"),
    ],
)
def test_a_wrong_section_is_refused(tmp_path, wrong, message):
    project = Project.load(write_project(tmp_path, service=f"slot = 1\n[service.oidc]\n{wrong}", rows=10))
    with pytest.raises(InputError, match=message):
        Settings.of(project)
