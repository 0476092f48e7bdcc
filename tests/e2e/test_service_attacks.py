"""Attacks on a service: tokens, names, shapes, sizes, and what a refusal looks at."""

from __future__ import annotations

import http.client
import json
import logging
import re
import socket
import time

import pytest
import sqlalchemy as sa
import yaml

from dpexplain.errors import DomainError
from dpexplain.project.file import Project
from dpexplain.service import jobs, server, tokens
from dpexplain.service.store import jobs as job_table
from dpexplain.service.store import results
from dpexplain.service.store import tokens as token_table
from services import PDP, SLOT, Running, running, write_project

HTML = "<script>alert(1)</script>"
OUTSIDE = [
    "../people",
    "..%2f..%2fetc%2fpasswd",
    "%2e%2e/%2e%2e/budget.db",
    "a/../people",
    "/etc/passwd",
    "people%00",
    HTML,
]


@pytest.fixture(scope="module")
def here(tmp_path_factory):
    folder = tmp_path_factory.mktemp("attacks")
    (folder / "models").mkdir()
    (folder / "models" / "evil.pkl").write_bytes(b"\x80\x04.")
    (folder / "secret.onnx").write_bytes(b"not for you")
    (folder / "models" / "link.onnx").symlink_to(folder / "secret.onnx")
    settings = f'slot = {SLOT}\nrate = 1000000\nlargest_body = 100000\npatience = 0.5\nmodels = "models"'
    with running(write_project(folder, service=settings)) as found:
        found.member("ana", limit=2.0)
        found.member("ben", limit=1.0)
        found.member("vera", "viewer")
        yield found


class TestTokens:
    def test_forged_expired_and_revoked_tokens_are_refused_alike(self, here: Running):
        ana = here.tokens["ana"]
        known, secret = ana.split("_")[1:]
        revoked = here.member("gone", limit=None)
        here.good("DELETE", f"/tokens/{revoked.split('_')[1]}")
        expired = here.member("old", limit=None)
        with here.service.store.write() as connection:
            row = token_table.c.id == expired.split("_")[1]
            connection.execute(token_table.update().where(row).values(expires=time.time() - 1))
        forged = [
            f"dpx_{known}_{'0' * 64}",
            f"dpx_{known}_{secret[:-1]}",
            f"dpx_{'0' * 24}_{secret}",
            f"other_{known}_{secret}",
        ]
        forged += [f"dpx_{known}_", "dpx__", "dpx", "dpx_" + "a" * 5000, f"dpx_' OR 1=1 --_{secret}", secret, HTML]
        answers = [here.ask("GET", "/me", token=one) for one in (revoked, expired, *forged)]
        assert {status for status, _ in answers} == {401}
        assert len({json.dumps(said) for _, said in answers}) == 1
        assert here.ask("GET", "/me", token=ana)[0] == 200, "or nobody gets in"

    def test_a_token_is_kept_as_a_hash_and_never_shown_again(self, here: Running):
        secret = here.tokens["ana"].split("_")[2]
        kept = b"".join(
            path.read_bytes() for path in sorted(here.service.tables["people"].project.folder.glob("*.db*"))
        )
        assert secret.encode() not in kept
        assert secret not in json.dumps(here.good("GET", "/tokens"))
        assert secret not in json.dumps(here.good("GET", "/decisions"))

    def test_the_secret_is_compared_in_constant_time_and_looked_up_by_its_public_half(self, here: Running, monkeypatch):
        compared = []
        monkeypatch.setattr(tokens.hmac, "compare_digest", lambda a, b: compared.append((len(a), len(b))) or a == b)
        for one in (here.tokens["ana"], "dpx_0_0", "nonsense"):
            tokens.check(here.service.store, one)
        assert compared == [(64, 64)] * 3

    def test_a_token_never_outlives_what_the_operator_allows(self, here: Running):
        made = here.good("POST", "/tokens", {"name": "long", "role": "viewer", "days": 3000})["id"]
        found = next(one for one in tokens.listed(here.service.store) if one["id"] == made)
        kept = here.service.settings.token_days
        assert time.strptime(str(found["expires"])[:10], "%Y-%m-%d") <= time.gmtime(time.time() + (kept + 1) * 86400)

    @pytest.mark.parametrize("some", [[], ["people"]])
    def test_a_curator_is_never_limited_to_some_tables(self, here: Running, some):
        """One who was could make a token without the limit, and would read all tokens and decisions."""
        status, said = here.ask("POST", "/tokens", {"name": "cora", "role": "curator", "tables": some})
        assert (status, said["error"]["kind"]) == (422, "InputError")
        shown = here.good("POST", "/tokens", {"name": "cora", "role": "curator"})["token"]
        with here.service.store.write() as connection:  # as an earlier version would have made it
            mine = token_table.c.id == shown.split("_")[1]
            connection.execute(token_table.update().where(mine).values(tables=json.dumps(some)))
        assert here.ask("GET", "/tokens", token=shown)[0] == 401
        assert here.ask("GET", "/decisions", token=shown)[0] == 401
        assert here.ask("POST", "/tokens", {"name": "free", "role": "curator"}, token=shown)[0] == 401
        assert tokens.by_id(here.service.store, shown.split("_")[1]) is None, "nor by a session"


class TestNames:
    @pytest.mark.parametrize("name", OUTSIDE)
    def test_a_path_in_a_name_leads_nowhere(self, here: Running, name):
        for path in (f"/tables/{name}", f"/tables/{name}/budget", f"/releases/{name}", f"/jobs/{name}"):
            status, said = here.ask("GET", path.replace("<", "%3C").replace(">", "%3E"), token=here.tokens["vera"])
            assert status in (403, 404, 405), (path, status, said)

    @pytest.mark.parametrize(
        "name", ["../secret.onnx", "/etc/passwd", "link.onnx", ".", "..", "evil.pkl", "a\\b.onnx", "no.onnx"]
    )
    def test_a_model_is_a_bare_name_in_the_folder_of_models(self, here: Running, name):
        status, said = here.ask("POST", "/tables/people/models", {"version": "9", "file": name})
        assert (status, said["error"]["kind"]) == (422, "InputError"), said
        assert "not for you" not in json.dumps(said)

    def test_html_in_names_stays_text(self, here: Running):
        token = here.member(HTML, limit=None)
        assert here.good("GET", "/me", token=token)["name"] == HTML
        connection = http.client.HTTPConnection("127.0.0.1", here.port)
        connection.request("GET", "/v1/me", headers={"Authorization": f"Bearer {token}"})
        answer = connection.getresponse()
        assert answer.getheader("content-type") == "application/json"
        assert answer.getheader("x-content-type-options") == "nosniff"
        answer.read()
        connection.close()
        body = {"request": {"request": "partial-dependence", "feature": HTML}, "epsilon": 0.1}
        status, said = here.ask("POST", "/tables/people/plan", body, token=here.tokens["ana"])
        assert status == 422, said


class TestSizes:
    def test_ten_megabytes_are_refused_unread(self, here: Running):
        connection = http.client.HTTPConnection("127.0.0.1", here.port, timeout=20)
        connection.putrequest("POST", "/v1/tables/people/plan")
        connection.putheader("Content-Length", str(10 * 2**20))
        connection.endheaders(b"{")
        assert connection.getresponse().status == 413
        connection.close()

    def test_a_body_that_lies_about_its_size_is_cut_off(self, here: Running):
        connection = http.client.HTTPConnection("127.0.0.1", here.port, timeout=20)
        parts = (b" " * 10_000 for _ in range(1_000))
        try:
            connection.request(
                "POST", "/v1/tables/people/plan", parts, encode_chunked=True, headers={"Transfer-Encoding": "chunked"}
            )
            assert connection.getresponse().status == 413
        except OSError:  # it was cut off before all of it was sent
            pass
        connection.close()
        assert here.good("GET", "/health", token=None)["alive"]

    def test_a_slow_client_is_told_off_and_keeps_nobody_waiting(self, here: Running):
        slow = socket.create_connection(("127.0.0.1", here.port))
        slow.sendall(b"POST /v1/tables/people/plan HTTP/1.1\r\nHost: x\r\nContent-Length: 1000\r\n\r\n{")
        assert here.good("GET", "/health", token=None)["alive"]
        slow.settimeout(10)
        assert b" 408 " in slow.recv(200)
        slow.close()

    def test_connections_that_say_nothing_are_closed(self, here: Running, monkeypatch):
        monkeypatch.setattr(server, "IDLE", 0.5)
        silent = [socket.create_connection(("127.0.0.1", here.port)) for _ in range(50)]
        silent[0].sendall(b"GET /v1/he")  # and one that never comes to the end of its head
        assert here.good("GET", "/health", token=None)["alive"]
        for one in silent:
            one.settimeout(10)
            assert one.recv(10) == b""
            one.close()

    @pytest.mark.parametrize("before", [1, 3])
    def test_a_later_head_that_never_ends_is_closed_too(self, here: Running, monkeypatch, before):
        """After whole requests on the same connection, a byte now and then does not keep it open."""
        monkeypatch.setattr(server, "IDLE", 1.0)
        slow = socket.create_connection(("127.0.0.1", here.port))
        slow.settimeout(10)
        for _ in range(before):
            slow.sendall(b"GET /v1/health HTTP/1.1\r\nHost: x\r\n\r\n")
            told = b""
            while b'"alive"' not in told:
                told += slow.recv(2000)
        begun = time.monotonic()
        slow.sendall(b"GET /v1/health HTTP/1.1\r\nX-Slow: ")
        slow.settimeout(0.1)
        while time.monotonic() - begun < 8:
            try:
                if slow.recv(10) == b"":
                    break
            except TimeoutError:
                slow.sendall(b"a")
            except OSError:
                break
        assert 0.5 < time.monotonic() - begun < 4
        slow.close()

    def test_a_request_that_takes_longer_than_a_head_may_is_answered(self, here: Running, monkeypatch):
        monkeypatch.setattr(server, "IDLE", 0.2)
        monkeypatch.setattr("dpexplain.service.jobs.claim", lambda *_: [])
        body = {"request": PDP, "epsilon": 0.011}
        job = here.good("POST", "/tables/people/explanations", body, token=here.tokens["ana"])["id"]
        assert here.good("GET", f"/jobs/{job}?wait=1", token=here.tokens["ana"])["state"] == "queued"
        here.good("DELETE", f"/jobs/{job}", token=here.tokens["ana"])

    def test_numbers_and_nests_that_nobody_can_compute_with_are_refused(self, here: Running):
        """Before anything is spent, with 4xx; within the limits of JSON the library refuses them itself."""
        ana = here.tokens["ana"]
        sketch = here.explained(ana, {"request": "local-sketch", "method": "moments"}, epsilon=0.1)["results"][0]
        spent = here.service.tables["people"].statement.spent
        nest = "x"
        for _ in range(500):
            nest = [nest]
        asks = {f"/releases/{sketch}/explain": [], "/tables/people/explanations": [], "/tables/people/plan": []}
        for digits in (4000, 400, 59, 30):
            for name in ("age", "sex"):
                record = {"age": 25, "sex": "Male", name: 10**digits}
                asks[f"/releases/{sketch}/explain"].append({"record": record})
                request = {"request": "local-explanation", "record": record}
                asks["/tables/people/explanations"].append({"request": request, "epsilon": 0.1})
                asks["/tables/people/plan"].append({"request": request, "epsilon": 0.1, "rows": 10**digits})
        for path in ("/tables/people/explanations", "/tables/people/plan"):
            asks[path].append({"request": {**PDP, "feature": nest}, "epsilon": 0.1})
            asks[path].append({"request": {**PDP, "grid": {"points": [10**400]}}, "epsilon": 0.1})
        for path, bodies in asks.items():
            for body in bodies:
                status, said = here.ask("POST", path, body, token=ana)
                if status == 202:  # of a shape that can be asked: the job is refused before its reservation
                    ended = here.done(said["id"], token=ana)
                    assert (ended["state"], ended["error"]["kind"]) == ("refused", "InputError"), ended
                    continue
                assert 400 <= status < 500, (path, str(body)[:80], said)
                assert "Error" in said["error"]["kind"] or said["error"]["kind"] == "Refused"
                assert len(said["error"]["message"]) < 500
        other = json.dumps({"record": {"age": 10**400}}).encode("utf-16")
        assert raw(here, f"/releases/{sketch}/explain", other, ana) == 422
        assert here.service.tables["people"].statement.spent == spent

    def test_methods_that_a_client_makes_up_are_counted_as_one(self, here: Running):
        for number in range(20):
            connection = http.client.HTTPConnection("127.0.0.1", here.port, timeout=20)
            connection.request(f"MADE{number}", "/v1/health")
            assert connection.getresponse().read() is not None
            connection.close()
        text = here.good("GET", "/metrics", token=None)
        assert "MADE" not in text
        assert re.search(r'method="other",route="[^"]*",status="405"} 20', text), text

    def test_more_requests_than_the_rate_allows_wait(self, here: Running):
        from dpexplain.service.limits import Rate

        rate = Rate(per_minute=100)
        waits = [rate.wait("ana") for _ in range(12)]
        assert waits[:10] == [0.0] * 10
        assert 0 < waits[-1] <= 0.6
        assert rate.wait("ben") == 0.0

    def test_who_asks_too_often_is_refused_and_nobody_else(self, here: Running, monkeypatch):
        from dpexplain.service.limits import Rate

        monkeypatch.setattr(here.service, "rate", Rate(per_minute=6))
        told = [here.ask("GET", "/me", token=here.tokens["ana"]) for _ in range(15)]
        assert [status for status, _ in told[:10]] == [200] * 10
        assert 429 in {status for status, _ in told[10:]}
        assert told[-1][1]["error"]["message"] == "too many requests."
        assert here.good("GET", "/me", token=here.tokens["ben"])["name"] == "ben"


def test_neither_logs_nor_answers_quote_what_an_error_says(here: Running, monkeypatch, capsys):
    """Messages of errors that nobody expected may quote a row: of a route, of a release, of the clock."""
    for name in ("dpexplain.service", "uvicorn.error"):
        logger = logging.getLogger(name)
        for what in ("handlers", "propagate", "level"):
            monkeypatch.setattr(logger, what, getattr(logger, what))
    server.set_up_logs()
    ana = here.tokens["ana"]

    def fails(*_):
        raise ValueError("the row of Bob")

    with monkeypatch.context() as broken:
        broken.setattr(here.service.books, "budget", fails)
        status, said = here.ask("GET", "/tables/people/budget", token=ana)
    assert (status, said["error"]["kind"]) == (500, "InternalError")
    with monkeypatch.context() as broken:
        broken.setattr(here.service.runner, "run", fails)
        job = here.explained(ana, {**PDP, "feature": "age"}, epsilon=0.015)
    assert job["state"] == "lost"
    told = ""
    with monkeypatch.context() as broken:
        broken.setattr(here.service.runner, "strokes", [fails])
        while "a stroke failed: ValueError" not in told:
            time.sleep(0.02)
            told += capsys.readouterr().err
    lines = [json.loads(line) for line in told.splitlines()]
    assert {"uvicorn.error", "dpexplain.service"} <= {line["logger"] for line in lines}
    assert not any(word in json.dumps([lines, said, job]) for word in ("Bob", "Traceback"))
    assert not any(word in told for word in ("people", "/v1/", ana.split("_")[2]))


SHAPES = [
    None, [], "text", 1, {"request": None}, {"request": []}, {"request": {}}, {"request": {"request": 1}},
    {"request": {"request": "partial-dependence", "feature": float("nan")}}, {"request": PDP, "epsilon": -1},
    {"request": PDP, "epsilon": 1e999}, {"request": PDP, "epsilon": "1"}, {"request": PDP, "epsilon": 1, "rho": 1},
    {"request": PDP, "epsilon": 0.1, "more": 1}, {"request": PDP, "epsilon": 0.1, "uses": {"marginals": "../x"}},
    {"request": PDP, "epsilon": 0.1, "uses": {"marginals": "00"}}, {"request": PDP, "epsilon": 0.1, "model": "none"},
    {"request": {"request": "adaptive-explanation", "record": {}}, "epsilon": 0.1},
    {"request": {"request": "clusters"}, "epsilon": 0.1}, {"request": {"request": "compare", "more": 1}, "epsilon": 1},
    {"request": {"request": "partial-dependence", "feature": [[[[]]]]}, "epsilon": 0.1},
]  # fmt: skip


def refusals(here: Running):
    """Requests that are refused, each for another reason, with who asks."""
    ana, ben, vera = (here.tokens[name] for name in ("ana", "ben", "vera"))
    yield from ((ana, shape) for shape in SHAPES)
    yield vera, {"request": PDP, "epsilon": 0.1}
    yield "dpx_0_0", {"request": PDP, "epsilon": 0.1}
    yield ben, {"request": {**PDP, "feature": "weight"}, "epsilon": 0.1}


def test_a_refusal_opens_no_data(here: Running, monkeypatch):
    """Nothing of the source is touched: neither by what is refused at once nor by what the ledger refuses."""
    served = here.service.tables["people"]
    touched = []

    class Sealed:
        """The source of the table, which tells when somebody reads."""

        def __init__(self, source):
            self._source = source

        def __getattr__(self, name):
            if name != "types":
                touched.append(name)
            return getattr(self._source, name)

    monkeypatch.setattr(served.table, "_source", Sealed(served.table._source))
    for token, body in refusals(here):
        for what in ("plan", "explanations"):
            text = json.dumps(body)
            status = raw(here, f"/tables/people/{what}", text, token)
            assert 400 <= status < 500 or (what, status) == ("plan", 200) or status == 202, (what, text, status)
    dear = here.explained(here.tokens["ben"], {**PDP, "feature": "age"}, epsilon=5.0)
    wrong = here.explained(here.tokens["ben"], {**PDP, "feature": "weight"}, epsilon=0.1)
    assert [dear["state"], wrong["state"]] == ["refused", "refused"]
    assert dear["error"]["kind"] == "BudgetError"
    assert touched == []
    done = here.explained(here.tokens["ana"], {**PDP, "feature": "age"}, epsilon=0.1)
    assert done["state"] == "done"
    assert touched, "or the seal is blind"


def raw(here: Running, path: str, text: str | bytes, token: str) -> int:
    connection = http.client.HTTPConnection("127.0.0.1", here.port, timeout=60)
    headers = {"Authorization": f"Bearer {token}", "Content-Type": "application/json"}
    connection.request("POST", f"/v1{path}", text, headers)
    answer = connection.getresponse()
    answer.read()
    connection.close()
    return answer.status


def test_what_is_not_announced_is_seen_by_nobody(here: Running, monkeypatch):
    """A release that is in the ledger already: job, account, log and lists show it when the clock strikes."""
    ana, store = here.tokens["ana"], here.service.store
    here.service.books.turn()
    before = here.good("GET", "/tables/people/budget", token=ana)
    log = here.good("GET", "/tables/people/log", token=here.tokens["vera"])["events"]
    whole = here.good("POST", "/tables/people/verification", {}, token=here.tokens["vera"])
    beyond = {"anchor": f"{whole['events'] + 9}:{'0' * 64}"}
    cut = here.ask("POST", "/tables/people/verification", beyond, token=here.tokens["vera"])
    known = here.good("GET", "/releases", token=ana)["releases"]
    monkeypatch.setattr(here.service.books, "_turn", lambda *_: None)  # no page is turned before the next stroke
    monkeypatch.setattr(here.service.clock.__class__, "announces", lambda *_: time.time() + 3600)
    body = {"request": {**PDP, "feature": ["age", "sex"]}, "epsilon": 0.13}
    job = here.good("POST", "/tables/people/explanations", body, token=ana)["id"]
    until = time.time() + 60
    while jobs.find(store, job).state != "done":
        assert time.time() < until
        time.sleep(0.02)
    assert any(row.label.endswith("age, sex") for row in here.service.tables["people"].statement.rows)
    assert here.good("GET", f"/jobs/{job}", token=ana)["state"] == "running"
    assert here.ask("DELETE", f"/jobs/{job}", token=ana)[0] == 409
    assert here.good("GET", "/tables/people/budget", token=ana)["left"] == before["left"]
    assert here.good("GET", "/tables/people/log", token=here.tokens["vera"])["events"] == log
    assert here.good("POST", "/tables/people/verification", {}, token=here.tokens["vera"]) == whole
    assert here.ask("POST", "/tables/people/verification", beyond, token=here.tokens["vera"]) == cut
    assert cut[0] == 409
    monkeypatch.setattr(jobs, "MAX_OPEN", 1)  # that it has ended makes no room yet
    assert here.ask("POST", "/tables/people/explanations", {**body, "epsilon": 0.14}, token=ana)[0] == 429
    assert here.good("GET", "/releases", token=ana)["releases"] == known
    with store.read() as connection:
        hidden = connection.scalar(sa.select(results.c.id).where(results.c.job == job))
    assert here.ask("GET", f"/releases/{hidden}", token=ana)[0] == 404
    with store.write() as connection:  # the stroke
        connection.execute(job_table.update().where(job_table.c.id == job).values(announced=time.time()))
        connection.execute(results.update().where(results.c.job == job).values(announced=time.time()))
    monkeypatch.undo()
    here.service.books.turn()
    assert here.good("GET", f"/jobs/{job}", token=ana)["state"] == "done"
    assert here.good("GET", "/tables/people/budget", token=ana)["left"] != before["left"]
    assert len(here.good("GET", "/releases", token=ana)["releases"]) == len(known) + 2


def released_unannounced(here: Running, monkeypatch, body) -> int:
    """Let a release be committed, and its account not be announced; the number of its event."""
    monkeypatch.setattr(here.service.books, "_turn", lambda *_: None)
    monkeypatch.setattr(here.service.clock.__class__, "announces", lambda *_: time.time() + 3600)
    here.service.runner._busy.clear()  # workers that wait for such an hour in an earlier test
    job = here.good("POST", "/tables/people/explanations", body, token=here.tokens["ben"])["id"]
    until = time.time() + 60
    while jobs.find(here.service.store, job).state != "done":
        assert time.time() < until
        time.sleep(0.02)
    return int(here.service.tables["people"].opened.ledger.anchor().partition(":")[0])


def moved(document, sequence: int):
    """The file of a release, and what it relies on, as if the ledger had them at this number."""
    if isinstance(document, dict):
        found = {name: moved(value, sequence) for name, value in document.items()}
        return found | ({"sequence": sequence} if "event_hash" in found else {})
    return [moved(one, sequence) for one in document] if isinstance(document, list) else document


def test_a_file_of_ones_own_does_not_tell_when_somebody_elses_release_is_committed(here: Running, monkeypatch):
    """An analyst who moves their batch file to numbers that the ledger has not announced hears the same as before."""
    ana, url = here.tokens["ana"], "/tables/people/verify"
    body = {"requests": [{"request": "stand-in"}, PDP], "epsilon": 0.2}
    made = here.done(here.good("POST", "/tables/people/batches", body, token=ana)["id"], token=ana)
    used = here.good("GET", "/releases", token=ana)["releases"]
    reservation = next(one["reservation"] for one in used if one["id"] == made["results"][0])
    curve = here.explained(ana, {**PDP, "feature": "age"}, epsilon=0.05, uses={"stand_in": reservation})
    files = [here.good("GET", f"/releases/{one}", token=ana) for one in [*made["results"], *curve["results"]]]
    assert any(one["receipt"].get("batch") for one in files), "or the whole batch is never looked up"
    at = int(here.service.tables["people"].opened.ledger.anchor().partition(":")[0])
    future = range(at + 1, at + 6)

    def heard() -> list[object]:
        asked = [json.dumps(moved(one, number)) for number in future for one in files]
        return [here.ask("POST", url, {"document": document}, token=ana) for document in asked]

    before = heard()
    assert {status for status, _ in before} == {409}
    assert len({said["error"]["message"].partition(" of account")[2] for _, said in before}) == 1
    end = released_unannounced(here, monkeypatch, {"request": {**PDP, "feature": "age"}, "epsilon": 0.07})
    assert end in future
    assert heard() == before
    live = here.service.tables["people"].opened.ledger
    monkeypatch.setattr(here.service.books, "ledger", lambda _: live)
    assert heard() != before, "or the files are blind to a commit"
    monkeypatch.undo()
    here.service.books.turn()
    for one in files:
        assert here.good("POST", url, {"document": json.dumps(one)}, token=ana)["genuine"]


def test_a_limit_counts_at_once_and_announces_nothing_else(here: Running, monkeypatch):
    """Between two strokes: the analyst sees the new limit, and nobody a commit that is not announced."""
    here.member("lea", limit=0.4)
    here.service.books.turn()
    before = here.good("GET", "/tables/people/budget", token=here.tokens["vera"])
    end = released_unannounced(here, monkeypatch, {"request": {**PDP, "feature": "age"}, "epsilon": 0.06})
    here.good("PUT", "/tables/people/analysts/lea", {"epsilon": 0.3})
    here.good("PUT", "/tables/people/analysts/max", {"epsilon": 0.2})
    max_ = here.member("max", limit=None)
    for token, limit in ((here.tokens["lea"], 0.3), (max_, 0.2)):
        found = here.good("GET", "/tables/people/budget", token=token)
        assert found["left_for_you_epsilon"] == pytest.approx(limit, rel=1e-6)
    assert here.service.books.page("people").seq < end
    after = here.good("GET", "/tables/people/budget", token=here.tokens["vera"])
    assert (after["left"], after["entries"]) == (before["left"], before["entries"])
    assert here.service.books.has_limit("people", "max")


def test_what_is_wrong_with_a_drafted_domain_is_not_told_to_who_may_not_see_it(tmp_path):
    """A draft of `init --peek` holds what stands in the table, and the error about it quotes that."""
    path = write_project(tmp_path, rows=50)
    draft = {"age": {"type": "numeric", "low": 37, "high": 20, "integer": True}}
    text = yaml.safe_dump({"dpexplain_domain": 1, "peeked": True, "reviewed_by": None, "columns": draft})
    (tmp_path / "domain.yaml").write_text(text)
    with pytest.raises(DomainError, match="37 and 20"):
        Project.load(path).domain()
    with running(path) as here:
        viewer = here.good("POST", "/tokens", {"name": "v", "role": "viewer"})["token"]
        told = [here.ask("GET", url, token=viewer) for url in ("/tables", "/tables/people", "/tables/people/budget")]
        assert [status for status, _ in told] == [200, 200, 422]
        assert "37" not in json.dumps(told)
        assert here.good("GET", "/tables/people/domain")["columns"] == draft
