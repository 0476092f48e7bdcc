"""The console over plain HTTP: what it refuses, the headers of every page, sessions that end, names that stay text."""

from __future__ import annotations

import http.client
import json
import logging
import re
import threading
import time
from concurrent.futures import ThreadPoolExecutor
from html import unescape
from html.parser import HTMLParser
from pathlib import Path
from urllib.parse import urlencode

import pandas as pd
import pytest
import sqlalchemy as sa

import services
from dpexplain.core.budget import Budget
from dpexplain.errors import InputError
from dpexplain.methods.registry import methods
from dpexplain.project.file import Project
from dpexplain.service.api import PLANS_AT_ONCE
from dpexplain.service.console import ask, auditor, curator, drawn, read, sessions
from dpexplain.service.console import routes as console_routes
from dpexplain.service.console.curator import _column, _reviewed
from dpexplain.service.console.forms import fields_of, record_from, request_from
from dpexplain.service.console.pages import POLICY, Sent
from dpexplain.service.console.warm import warm_up
from dpexplain.service.console.words import plain_error, plain_price
from dpexplain.service.server import config_of
from dpexplain.service.settings import Settings
from dpexplain.service.store import sessions as kept
from dpexplain.service.store import tokens

FORM = "application/x-www-form-urlencoded"


@pytest.fixture(scope="module")
def server(tmp_path_factory):
    with services.running(services.write_project(tmp_path_factory.mktemp("console"))) as found:
        found.member("ana", limit=2.0)
        found.member("vera", "viewer")
        found.released = found.explained(found.tokens["ana"])["results"][0]
        yield found


def call(server, method, path, form=None, *, cookie="", **headers):
    """Status, headers and text of a request of a browser."""
    said = {"Cookie": f"dpx_session={cookie}"} if cookie else {}
    said |= {"Content-Type": FORM} if form is not None else {}
    said |= {name.replace("_", "-"): value for name, value in headers.items()}
    connection = http.client.HTTPConnection("127.0.0.1", server.port, timeout=60)
    try:
        connection.request(method, f"/console{path}", None if form is None else urlencode(form, doseq=True), said)
        answer = connection.getresponse()
        return answer.status, dict(answer.getheaders()), answer.read().decode()
    finally:
        connection.close()


def enter(server, token) -> str:
    """The cookie of a new session."""
    status, headers, _ = call(server, "POST", "/sign-in", {"token": token})
    assert status == 303
    return re.search(r"dpx_session=([0-9a-f]+); HttpOnly", headers["set-cookie"])[1]


def csrf(server, cookie, path="/") -> str:
    return re.search(r'name="csrf" value="([0-9a-f]+)"', call(server, "GET", path, cookie=cookie)[2])[1]


@pytest.fixture(scope="module")
def ana(server) -> str:
    return enter(server, server.tokens["ana"])


def test_whoever_is_not_signed_in_is_sent_to_the_door(server):
    for path in ("/", "/tables/people", "/jobs", "/curator", f"/releases/{server.released}", "/no-such"):
        for cookie in ("", "0" * 64, "x; y"):
            status, headers, text = call(server, "GET", path, cookie=cookie)
            assert (status, headers.get("location")) == (303, "/console/sign-in") or path == "/no-such"
            assert "people" not in text


def test_every_page_has_the_headers_that_keep_it_safe(server, ana):
    paths = ["/sign-in", "/", "/tables/people", "/tables/people/ask", "/tables/people/ask/partial-dependence", "/jobs"]
    paths += [f"/releases/{server.released}", "/tables/people/verify", "/curator", "/tables/none", "/static/style.css"]
    for path in paths:
        status, headers, text = call(server, "GET", path, cookie=ana)
        assert status < 500, path
        assert headers["content-security-policy"] == POLICY, path
        assert headers["x-frame-options"] == "DENY", path
        assert headers["cache-control"] == "no-store", path
        assert headers["referrer-policy"] == "no-referrer", path
        if not path.startswith("/static"):
            assert inline(text) == [], path
    assert "unsafe" not in POLICY
    assert "frame-ancestors 'none'" in POLICY


def inline(page: str) -> list[str]:
    """What the policy would refuse: scripts and styles in the page, handlers."""
    seen: list[str] = []

    class Reader(HTMLParser):
        def handle_starttag(self, tag, attrs):
            names = dict(attrs)
            seen.extend([tag] if tag == "style" or (tag == "script" and "src" not in names) else [])
            seen.extend(name for name in names if name.startswith("on") or name == "style")

    Reader().feed(page)
    return seen


def test_the_check_sees_what_stands_inline():
    assert inline('<script>1</script><p onclick="x" style="y"><style>') == ["script", "onclick", "style", "style"]
    assert inline('<script src="a.js"></script>') == []


def test_a_form_of_another_session_or_site_changes_nothing(server, ana):
    other = enter(server, server.tokens["ana"])
    form = {"feature": "sex", "epsilon": "0.01", "key": "k1"}
    path = "/tables/people/ask/partial-dependence"
    before = server.good("GET", "/jobs")["jobs"]
    for mark, site in (("", None), (csrf(server, other), None), (csrf(server, ana), "cross-site")):
        how = {"Sec_Fetch_Site": site} if site else {}
        status, _, text = call(server, "POST", path, {**form, "csrf": mark}, cookie=ana, **how)
        assert status == 403
        assert "not" in text
    right = {**form, "csrf": csrf(server, ana)}
    assert call(server, "POST", path, right, cookie=ana, Origin="http://evil.example")[0] == 403
    assert call(server, "POST", "/sign-in", {"token": server.tokens["ana"]}, Sec_Fetch_Site="cross-site")[0] == 403
    assert call(server, "GET", path, cookie=ana)[0] == 200
    assert server.good("GET", "/jobs")["jobs"] == before


@pytest.fixture(scope="module")
def behind(tmp_path_factory):
    """A service behind a proxy with TLS, which says another Host."""
    settings = f'slot = {services.SLOT}\npublic_url = "https://Explain.example.org:443/"'
    with services.running(
        services.write_project(tmp_path_factory.mktemp("behind"), service=settings, rows=50)
    ) as found:
        yield found


def test_the_cookie_is_secure_where_browsers_use_https(server, behind):
    for each, secure in ((server, False), (behind, True)):
        _, headers, _ = call(each, "POST", "/sign-in", {"token": each.curator})
        assert ("Secure" in headers["set-cookie"].split("; ")) is secure


def test_forms_come_from_the_public_address(behind):
    cookie = enter(behind, behind.curator)
    form = {"expert": "1", "csrf": csrf(behind, cookie)}
    ours, other = "https://explain.example.org", f"http://127.0.0.1:{behind.port}"
    for origin, site, status in (
        (ours, None, 303), (other, None, 403), ("http://explain.example.org", None, 403), ("null", None, 403),
        (ours, "same-origin", 303), ("null", "same-origin", 303), (None, "same-origin", 303),
        (ours, "cross-site", 403), ("https://evil.example", "same-origin", 403),
    ):  # fmt: skip
        how = {name: value for name, value in (("Origin", origin), ("Sec_Fetch_Site", site)) if value}
        assert call(behind, "POST", "/view", form, cookie=cookie, **how)[0] == status, (origin, site)


@pytest.mark.parametrize(
    "wrong", ["explain.example.org", "ftp://a.example", "https://a.example/app", "https://u:p@a.example", "https://a:b"]
)
def test_a_public_url_is_an_origin(tmp_path, wrong):
    project = Project.load(services.write_project(tmp_path, service=f'public_url = "{wrong}"', rows=10))
    with pytest.raises(InputError, match="public_url"):
        Settings.of(project)


def test_a_limit_set_in_the_console_turns_no_page(server, monkeypatch):
    """What was committed since the last stroke is not announced by a form of the curator."""
    cookie = enter(server, server.curator)
    turned = []
    form = {"table": "people", "analyst": "lou", "epsilon": "0.125", "csrf": csrf(server, cookie)}
    monkeypatch.setattr(server.service.books, "_turn", lambda *_: None)
    monkeypatch.setattr(server.service.books, "turn", lambda: turned.append(1))
    assert call(server, "POST", "/curator/limits", form, cookie=cookie)[0] == 303
    assert turned == []
    text = call(server, "GET", "/curator", cookie=cookie)[2]
    assert re.search(r"lou</td>.*?0\.125", text, re.DOTALL)


def test_a_form_that_is_sent_twice_is_one_job(server, ana):
    form = {"feature": "sex", "epsilon": "0.05", "key": "twice", "csrf": csrf(server, ana)}
    places = {
        call(server, "POST", "/tables/people/ask/partial-dependence", form, cookie=ana)[1]["location"] for _ in "ab"
    }
    assert len(places) == 1
    (place,) = places
    assert server.done(place.rpartition("/")[2])["state"] == "done"


def test_no_form_is_taken_without_the_secret_of_its_session(server, ana):
    """Every route of the console that changes or computes something, but the door, which has no session yet."""
    posts = {
        route.path.removeprefix("/console")
        for part in (console_routes, read, ask, curator, auditor)
        for route in part.router.routes
        if "POST" in route.methods
    }
    assert len(posts) > 12
    boss = enter(server, server.curator)
    for path in sorted(posts - {"/sign-in"}):
        known = {"table": "people", "method": "partial-dependence", "release": server.released, "job": "none"}
        for cookie in (ana, boss):
            for form in ({"expert": "1"}, {"expert": "1", "csrf": ""}, {"expert": "1", "csrf": "0" * 48}):
                status, _, text = call(server, "POST", path.format(**known), form, cookie=cookie)
                assert status == 403, path
                assert "not of this session" in text or "this page is for" in text, path
        assert "not of this session" in text, f"a curator may send {path}"


class Kept(logging.Handler):
    """What is logged, with what a log line was made of."""

    def __init__(self):
        super().__init__(logging.DEBUG)
        self.lines: list[str] = []

    def emit(self, record):
        self.lines.append(f"{record.getMessage()} {record.args} {record.exc_text or record.exc_info or ''}")


def test_no_secret_in_an_address_a_page_or_a_log(server, monkeypatch):
    """Signing in, asking, being refused: nothing of token, cookie and form secret is written down."""
    kept = Kept()
    loggers = [logging.getLogger(name) for name in ("", "uvicorn", "uvicorn.error", "uvicorn.access", "dpexplain")]
    for logger in loggers:
        monkeypatch.setattr(logger, "level", logging.DEBUG)
        logger.addHandler(kept)
    logging.getLogger("dpexplain.service").info("the check sees what is logged")
    try:
        token = server.member("sam", limit=0.5)
        status, headers, text = call(server, "POST", "/sign-in", {"token": token})
        cookie = re.search(r"dpx_session=([0-9a-f]+)", headers["set-cookie"])[1]
        secrets = {"token": token, "cookie": cookie, "csrf": csrf(server, cookie)}
        wrong = token[:-1] + ("0" if token[-1] != "0" else "1")
        seen = [headers["location"], text]
        for method, path, form in (
            ("POST", "/sign-in", {"token": wrong}), ("GET", f"/sign-in?token={token}", None), ("GET", "/", None),
            ("POST", f"/sign-in?token={token}", {}), ("GET", "/tables/people", None), ("GET", "/jobs/none", None),
            ("POST", "/view", {"expert": "1", "csrf": secrets["csrf"], "address": "/console/jobs"}),
            ("POST", "/tables/people/ask/partial-dependence", {"feature": "no", "csrf": secrets["csrf"]}),
            ("POST", "/view", {"expert": "1", "csrf": "wrong"}), ("POST", "/sign-out", {"csrf": secrets["csrf"]}),
        ):  # fmt: skip
            status, headers, text = call(server, method, path, form, cookie="" if "sign-in" in path else cookie)
            if "sign-in" in path:
                assert status in (200, 401, 422), path
                assert "set-cookie" not in headers, path
            seen += [headers.get("location", ""), *re.findall(r'(?:href|action|src|data-\w+)="([^"]*)"', text)]
            assert token not in text, path
            assert cookie not in text, path
    finally:
        for logger in loggers:
            logger.removeHandler(kept)
    assert any("the check sees" in line for line in kept.lines)
    assert server.service is not None
    for name, secret in secrets.items():
        assert not any(secret in place for place in seen), f"{name} in an address"
        assert not any(secret in line for line in kept.lines), f"{name} in a log"
    assert not config_of(server.service, "127.0.0.1", 1).access_log, "uvicorn's log of requests quotes addresses"


def test_sessions_end(server):
    token = server.member("bob", limit=None)
    store = server.service.store

    def aged(**values):
        cookie = enter(server, token)
        with store.write() as connection:
            connection.execute(sa.update(kept).where(kept.c.id == sessions._hash(cookie)).values(**values))
        return call(server, "GET", "/", cookie=cookie)[0]

    at = time.time()
    assert aged(used=at) == 200
    assert aged(used=at - sessions.IDLE - 1) == 303
    assert aged(begun=at - sessions.LONGEST - 1) == 303
    cookie = enter(server, token)
    assert call(server, "POST", "/sign-out", {"csrf": csrf(server, cookie)}, cookie=cookie)[0] == 303
    assert call(server, "GET", "/", cookie=cookie)[0] == 303
    short = server.member("eve", limit=None)
    cookie = enter(server, short)
    assert call(server, "GET", "/", cookie=cookie)[0] == 200
    with store.write() as connection:
        mine = sa.update(tokens).where(tokens.c.id == short.split("_")[1])
        connection.execute(mine.values(expires=at - 1))
    assert call(server, "GET", "/", cookie=cookie)[0] == 303
    cookie = enter(server, token)
    server.good("DELETE", f"/tokens/{token.split('_')[1]}")
    assert call(server, "GET", "/", cookie=cookie)[0] == 303
    with store.read() as connection:  # neither the cookie nor the token is kept
        rows = str(connection.execute(sa.select(kept)).all())
    assert cookie not in rows
    assert token not in rows


def test_names_stay_text(server):
    """Of people, here; those of tables, columns, categories and models are tried in a browser (browser/)."""
    odd = "</td><script>alert(1)</script>\"'><img src=x onerror=alert(2)>"
    cookie = enter(server, server.good("POST", "/tokens", {"name": odd, "role": "viewer"})["token"])
    boss = enter(server, server.curator)
    form = {"name": odd, "role": "viewer", "csrf": csrf(server, boss)}
    shown = [call(server, "POST", "/curator/tokens", form, cookie=boss)[2], call(server, "GET", "/", cookie=cookie)[2]]
    form = {"document": odd, "csrf": csrf(server, cookie)}
    shown.append(call(server, "POST", "/tables/people/verify/result", form, cookie=cookie)[2])
    form = {"table": odd, "analyst": odd, "epsilon": odd, "csrf": csrf(server, boss)}
    shown.append(call(server, "POST", "/curator/limits", form, cookie=boss)[2])
    for text in shown:
        assert inline(text) == []
        assert "<img" not in text
    assert "&lt;script&gt;alert(1)" in shown[0]
    assert "&lt;script&gt;alert(1)" in shown[1]


def test_a_program_does_not_sign_in(server):
    token = server.member("robot", limit=0.1, agent=True)
    status, headers, text = call(server, "POST", "/sign-in", {"token": token})
    assert status == 403
    assert "set-cookie" not in headers
    assert "for a program" in text


def test_what_is_refused_is_a_page_that_says_so(server, ana):
    status, _, text = call(server, "GET", "/tables/none", cookie=ana)
    assert status == 404
    assert "there is no such table" in text
    form = {"feature": "sex", "epsilon": "no number", "csrf": csrf(server, ana)}
    status, _, text = call(server, "POST", "/tables/people/ask/partial-dependence", form, cookie=ana)
    assert status == 422
    assert "Epsilon must be a number" in text
    assert 'value="sex" checked' in text.replace("  ", " ")  # what was chosen stays
    viewer = enter(server, server.tokens["vera"])
    form["csrf"] = csrf(server, viewer)
    assert call(server, "POST", "/tables/people/ask/partial-dependence", form, cookie=viewer)[0] == 403
    assert call(server, "POST", "/view", {"expert": "1"}, cookie=viewer, Content_Type="text/plain")[0] in (403, 415)


def test_numbers_that_nobody_can_compute_with_are_refused_by_forms(server, ana):
    mark, long = csrf(server, ana), "9" * 4000
    for path, form in (
        ("partial-dependence", {"feature": "sex", "epsilon": "0.1", "grid": "[" * 500 + "]" * 500}),
        ("partial-dependence", {"feature": "sex", "epsilon": long}),
        ("local-explanation", {"record.age": long, "record.sex": "Male", "epsilon": "0.1"}),
        ("performance", {"target": "sex", "positive": long, "threshold": long, "epsilon": "0.1"}),
    ):
        for what in ("", "/forecast"):
            where = f"/tables/people/ask/{path}{what}"
            status, _, text = call(server, "POST", where, {**form, "csrf": mark, "key": "long"}, cookie=ana)
            assert status in (200, 422), (where, status)
            assert 'role="alert"' in text, where
    for place in ("²", long, "-1", "x"):
        assert call(server, "POST", "/tables/people/set", {"remove": place, "csrf": mark}, cookie=ana)[0] == 303


@pytest.mark.parametrize("what", ["forecasts", "drawings"])
@pytest.mark.long
def test_whoever_waits_for_a_forecast_or_a_drawing_holds_no_thread(server, ana, monkeypatch, what):
    """Eighty that do not end leave the others their answers: there are forty threads."""
    gate, begun, counted, at_once, most = threading.Event(), threading.Event(), threading.Lock(), [0], [0]

    def held(real):
        def waits(*given):
            with counted:
                at_once[0] += 1
                most[0] = max(most[0], at_once[0])
            begun.set()
            try:
                assert gate.wait(60)
                return real(*given)
            finally:
                with counted:
                    at_once[0] -= 1

        return waits

    works = server.service.work.__class__
    monkeypatch.setattr(works, "plan", held(works.plan))
    monkeypatch.setattr(drawn, "chart_of", held(drawn.chart_of))
    drawn._charts.clear()
    monkeypatch.setattr(drawn, "KEPT", 0)
    form = {"feature": "sex", "epsilon": "0.05", "csrf": csrf(server, ana)}
    asks = [
        ("POST", "/tables/people/ask/partial-dependence/forecast", form)
        if what == "forecasts"
        else ("GET", f"/releases/{server.released}/card", None)
    ] * 80
    with ThreadPoolExecutor(80) as pool:
        waiting = [pool.submit(call, server, *ask, cookie=ana) for ask in asks]
        try:
            assert begun.wait(60)
            time.sleep(0.5)  # so that the others of the eighty wait as well
            for path in ("/health", "/me", "/tables"):
                server.good("GET", path)
            assert not any(one.done() for one in waiting)
        finally:
            gate.set()
        assert {one.result()[0] for one in waiting} == {200}
    assert most[0] <= PLANS_AT_ONCE


def test_every_page_is_made_at_the_start_and_nothing_is_kept_of_it(server, caplog):
    store = server.service.store
    with store.read() as connection:
        before = len(connection.execute(sa.select(kept)).all())
    assert warm_up(server.service) == 0, caplog.text
    with store.read() as connection:
        assert len(connection.execute(sa.select(kept)).all()) == before
    assert "" not in {job["analyst"] for job in server.good("GET", "/jobs")["jobs"]}


def test_a_page_that_fails_does_not_keep_the_server_from_starting(server, monkeypatch):
    monkeypatch.setattr(server.service.decisions, "every", lambda: 1 / 0)
    assert warm_up(server.service) == 1


def test_plain_words_and_the_experts_view(server):
    cookie = enter(server, server.tokens["ana"])
    page = f"/releases/{server.released}"
    assert "request and noise" not in call(server, "GET", page, cookie=cookie)[2]
    assert call(server, "POST", "/view", {"expert": "1", "csrf": csrf(server, cookie)}, cookie=cookie)[0] == 303
    assert "request and noise" in call(server, "GET", page, cookie=cookie)[2]


def test_the_switch_of_the_view_stays_on_the_page_and_leads_to_no_other_site(server):
    cookie = enter(server, server.tokens["ana"])
    for path in ("/tables/people", "/jobs?x=1&y=%2F", f"/compare?release={server.released}&release={server.released}"):
        text = call(server, "GET", path, cookie=cookie)[2]
        address = unescape(re.search(r'name="address" value="([^"]*)"', text)[1])
        assert address == f"/console{path}"
        form = {"expert": "0", "csrf": csrf(server, cookie), "address": address}
        assert call(server, "POST", "/view", form, cookie=cookie)[1]["location"] == address
    odd = ("/console/\\evil.example", "/console/\r\nx: y", "/v1/tables", "")
    for wrong in ("https://evil.example/", "//evil.example/", *odd):
        form["address"] = wrong
        assert call(server, "POST", "/view", form, cookie=cookie)[1]["location"] == "/console/", wrong


def test_a_person_who_need_not_be_typed_in_need_not_be_typed_in(server, ana):
    path = "/tables/people/ask/influence"
    text = call(server, "GET", path, cookie=ana)[2]
    assert 'name="row.age"' in text
    person = text.partition('name="row.age"')[2].partition('name="epsilon"')[0]
    assert " required" not in person
    mark = csrf(server, ana)
    for typed, said in (({}, "For epsilon 0.4"), ({"row.age": "25"}, "sex is needed")):
        form = {"epsilon": "0.4", "csrf": mark, **typed}
        assert said in call(server, "POST", f"{path}/forecast", form, cookie=ana, Accept="text/x-part")[2]


@pytest.fixture(scope="module")
def desk(tmp_path_factory):
    """A service with a folder of models, whose programs wait for the curator above an epsilon of 0.1."""
    skops, linear = pytest.importorskip("skops.io"), pytest.importorskip("sklearn.linear_model")
    folder = tmp_path_factory.mktemp("desk")
    settings = f'slot = {services.SLOT}\nrate = 1000000\nmodels = "models"\napprove_above = 0.1'
    path = services.write_project(folder, service=settings, name="desk", rows=200)
    (folder / "models").mkdir()
    ages = pd.DataFrame({"age": range(20, 30)})
    skops.dump(linear.LinearRegression().fit(ages, ages["age"] / 40), folder / "models" / "two.skops")
    text = path.read_text()
    model = '[model]\nname = "m"\npath = "models/two.skops"\noutput = [0.0, 1.0]\nfeatures = ["age"]\nversion = "1"\n'
    path.write_text(text[: text.index("[model]")] + model + text[text.index("\n[service]") :])
    with services.running(path) as found:
        found.member("bot", agent=True, limit=2.0)
        yield found


@pytest.mark.long
def test_the_curator_registers_a_model_by_a_form(desk):
    cookie = enter(desk, desk.curator)
    form = {"table": "desk", "file": "two.skops", "version": "2", "csrf": csrf(desk, cookie)}
    assert call(desk, "POST", "/curator/models", form, cookie=cookie)[0] == 303
    page = call(desk, "GET", "/curator", cookie=cookie)[2]
    assert "Versions: 1, 2." in page
    assert "File in the folder of models" in page
    for wrong in ("2", "3"):
        sent = {**form, "version": wrong, "file": "two.skops" if wrong == "2" else "../dpexplain.toml"}
        status, _, text = call(desk, "POST", "/curator/models", sent, cookie=cookie)
        assert status == 422
        assert 'role="alert"' in text
    assert "Versions: 1, 2." in call(desk, "GET", "/curator", cookie=cookie)[2]


@pytest.mark.long
def test_what_a_program_asks_waits_for_a_form_of_the_curator(desk):
    cookie, bot = enter(desk, desk.curator), desk.tokens["bot"]
    for said, state in (("approve", "done"), ("decline", "declined")):
        asked = {"request": {"request": "partial-dependence", "feature": "age", "smooth": said == "decline"}}
        asked |= {"epsilon": 0.3, "model": "1"}
        plan = desk.good("POST", "/tables/desk/plan", asked, token=bot)["plan"]
        job = desk.good("POST", "/tables/desk/explanations", {**asked, "plan": plan}, token=bot)
        assert job["state"] == "waiting"
        page = call(desk, "GET", "/curator", cookie=cookie)[2]
        assert "Waiting for you" in page
        assert "asked by the program of bot, table desk; cost: epsilon 0.3 at a delta" in page
        form = {"job": job["id"], "do": said, "csrf": csrf(desk, cookie)}
        assert call(desk, "POST", "/curator/approvals", form, cookie=cookie)[0] == 303
        assert desk.done(job["id"])["state"] == state
        assert "Waiting for you" not in call(desk, "GET", "/curator", cookie=cookie)[2]


PRICES = re.compile(r"\brho\b|zCDP|delta =|epsilon =")


def test_prices_are_epsilons_in_the_plain_view_and_rho_in_the_experts(server):
    name = "paul"
    cookie = enter(server, server.member(name, limit=0.3))
    done = server.explained(server.tokens[name], epsilon=0.2)
    dear = server.explained(server.tokens[name], {"request": "partial-dependence", "feature": "age"}, epsilon=0.9)
    assert dear["state"] == "refused"
    release = f"/releases/{done['results'][0]}"
    paths = [release, f"{release}/card", f"/jobs/{done['id']}", f"/jobs/{dear['id']}", "/jobs", "/tables/people"]
    plain = [call(server, "GET", path, cookie=cookie)[2] for path in paths]
    for path, text in zip(paths, plain, strict=True):
        assert not PRICES.search(text), path
    for text in plain[:3]:
        assert "epsilon 0.2 at a delta of one in 1,000,000" in text
    said = " ".join(plain[3].split())
    found = re.search(r"costs epsilon 0.9 but only epsilon ([\d.]+) of 0.3 is left for analyst", said)
    assert 0.1 < float(found[1]) < 0.3
    assert f"use at most epsilon {found[1]}, or ask for fewer things" in said
    document = server.good("GET", release)
    form = {"document": json.dumps(document), "csrf": csrf(server, cookie)}
    genuine = call(server, "POST", "/tables/people/verify/result", form, cookie=cookie)[2]
    assert "Genuine" in genuine
    assert not PRICES.search(genuine.partition("<textarea")[0])
    call(server, "POST", "/view", {"expert": "1", "csrf": csrf(server, cookie)}, cookie=cookie)
    for path in paths[:5]:
        assert re.search(r"\brho ?= ?\d", call(server, "GET", path, cookie=cookie)[2]), path


def test_a_price_in_words_is_never_less_than_it_is():
    budget = Budget(epsilon=1, delta=3e-7)
    said = plain_price(budget.describe(budget.cost(epsilon=0.25)), False)
    assert said == "epsilon 0.25 at a delta of one in 3,333,333"
    pure = Budget(epsilon=1)
    assert plain_price(pure.describe(pure.cost(epsilon=1)), False) == "epsilon = 1 (pure)"
    dear = '"rho = 5" costs rho=0.1 (epsilon=2 on its own) but only 0 of 1e-05 is left'
    error = {"message": dear, "hint": "nothing is left to spend", "spent": "Nothing was spent."}
    said = plain_error(error, False, budget)["message"]
    assert said.startswith('"rho = 5" costs epsilon 2 but only epsilon 0 of 0.0')
    assert plain_error(error, True, budget) == error
    none = {**error, "message": dear.replace("1e-05", "0")}
    assert "but only epsilon 0 of 0 is left" in plain_error(none, False, budget)["message"]


def test_a_reviewed_column_is_what_was_typed():
    draft = {"type": "numeric", "low": 0, "high": "???", "integer": True, "unit": "years"}
    shown = {key: text for key, text, *_ in _column("a", draft, Sent({}))["fields"]}
    assert shown == {"type": "numeric", "low": "0", "high": "???", "integer": "yes"}
    typed = {f"a.{key}": [text] for key, text in {**shown, "high": "1"}.items()}
    assert _reviewed("a", draft, Sent({**typed, "a.checked": ["1"]})) == {**draft, "high": 1}
    with pytest.raises(InputError, match="not reviewed"):
        _reviewed("a", draft, Sent(typed))
    kinds = {"type": "categorical", "values": [1, 0]}
    sent = Sent({"b.type": ["categorical"], "b.values": ["1\n0\n2"], "b.checked": ["1"]})
    assert _reviewed("b", kinds, sent)["values"] == [1, 0, 2]


def test_the_docs_show_every_page_wide_on_a_phone_and_in_the_dark():
    docs = Path(__file__).parents[2] / "docs"
    shown = set(
        re.findall(
            r"\((pictures/console/[\w-]+\.png)\)", (docs / "console.md").read_text().partition("## Every page")[2]
        )
    )
    kept = {str(path.relative_to(docs)) for path in (docs / "pictures" / "console").glob("*.png")}
    assert shown == kept
    assert {name.rpartition("-")[2] for name in shown} == {"desktop.png", "phone.png", "dark.png"}


GREEK = re.compile("[\u0370-\u03ff]")


def test_no_greek_letter_is_needed(server, ana):
    pages = ["/tables/people", f"/releases/{server.released}", "/tables/people/ask"]
    pages += [f"/tables/people/ask/{name}" for name in ("partial-dependence", "performance", "influence")]
    for path in pages:
        text = call(server, "GET", path, cookie=ana)[2]
        assert not GREEK.search(text), path


def test_every_question_that_is_offered_has_a_form(server, ana):
    offered = re.findall(r"/ask/([\w-]+)", call(server, "GET", "/tables/people/ask", cookie=ana)[2])
    assert len(offered) > 10
    for name in offered:
        status, _, text = call(server, "GET", f"/tables/people/ask/{name}", cookie=ana)
        assert status == 200, name
        assert 'name="epsilon"' in text


def test_a_form_spells_the_request_that_was_meant(server):
    domain = server.service.tables["people"].opened.domain
    performance = methods()["performance"]
    fields = fields_of(performance, domain, None)
    assert fields[0].needed
    typed = {"target": ["sex"], "groups": ["age"], "positive": ["Male"], "threshold": ["0.5"], "all_classes": ["yes"]}
    found = request_from(performance, fields, Sent(typed), domain)
    assert found == {
        "request": "performance", "target": "sex", "groups": ["age"], "positive": "Male", "threshold": 0.5,
        "all_classes": True,
    }  # fmt: skip
    curves = methods()["partial-dependence"]
    asked = request_from(curves, fields_of(curves, domain, None), Sent({"feature": ["age", "sex"]}), domain)
    assert asked == {"request": "partial-dependence", "feature": ["age", "sex"]}
    local = methods()["local-explanation"]
    parts = next(one for one in fields_of(local, domain, ["age", "sex"]) if one.kind == "record").parts
    sent = Sent({"record.age": ["25"], "record.sex": ["Male"]})
    assert record_from(parts, sent, domain) == {"age": 25, "sex": "Male"}
