"""The service over HTTP: roles, jobs, releases, the account. One server for most tests: starting one takes a moment."""

from __future__ import annotations

import json

import pytest

import dpexplain as dpx
from dpexplain.service import jobs
from dpexplain.service.store import tokens as token_table
from services import PDP, Running, running, write_project


@pytest.fixture(scope="module")
def here(tmp_path_factory):
    with running(write_project(tmp_path_factory.mktemp("service"))) as found:
        found.member("ana", limit=3.0)
        found.member("ben", limit=1.0)
        found.member("vera", "viewer")
        yield found


def test_an_explanation_is_planned_asked_for_read_and_verified(here: Running):
    ana = here.tokens["ana"]
    planned = here.good("POST", "/tables/people/plan", {"request": PDP, "epsilon": 0.25}, token=ana)
    assert planned["forecast"]["options"][0]["error"] > 0
    before = here.good("GET", "/tables/people/budget", token=ana)["left_for_you_epsilon"]
    job = here.explained(ana)
    assert (job["state"], job["replayed"], len(job["results"])) == ("done", False, 1)
    document = here.good("GET", f"/releases/{job['results'][0]}", token=ana)
    result = dpx.from_json(json.dumps(document))
    dpx.verify(result, here.service.tables["people"].table.ledger)
    found = here.good("POST", "/tables/people/verify", {"document": json.dumps(document)}, token=ana)
    assert found["genuine"]
    assert found["guarantee"] == result.receipt.guarantee
    receipt = here.good("GET", f"/releases/{job['results'][0]}/receipt", token=ana)
    assert receipt["guarantee"] == result.receipt.guarantee
    after = here.good("GET", "/tables/people/budget", token=ana)["left_for_you_epsilon"]
    assert after < before


def test_the_same_key_is_the_same_job_and_the_same_request_is_free(here: Running):
    ana = here.tokens["ana"]
    first = here.explained(ana, epsilon=0.2, key="k-1")
    here.service.books.turn()
    left = here.good("GET", "/tables/people/budget", token=ana)["left_for_you"]
    again = here.explained(ana, epsilon=0.2, key="k-1")
    other = here.explained(ana, epsilon=0.2, key="k-2")
    assert again == {**first, "next_stroke_in": again["next_stroke_in"]}
    assert other["replayed"]
    here.service.books.turn()
    assert here.good("GET", "/tables/people/budget", token=ana)["left_for_you"] == left
    status, error = here.ask(
        "POST", "/tables/people/explanations", {"request": PDP, "epsilon": 0.3}, token=ana, key="k-1"
    )
    assert (status, error["error"]["kind"]) == (409, "KeyTaken")


def test_each_role_may_do_its_part_and_no_more(here: Running):
    ana, ben, vera = (here.tokens[name] for name in ("ana", "ben", "vera"))
    mine = here.explained(ana)["results"][0]
    assert here.ask("GET", f"/releases/{mine}", token=ben)[0] == 404
    assert here.ask("GET", "/releases/there-is-none", token=ben) == here.ask("GET", f"/releases/{mine}", token=ben)
    assert mine in [one["id"] for one in here.good("GET", "/releases", token=vera)["releases"]]
    assert mine not in [one["id"] for one in here.good("GET", "/releases", token=ben)["releases"]]
    for token in (ana, ben, vera):
        assert here.ask("POST", "/tokens", {"name": "x", "role": "viewer"}, token=token)[0] == 403
        assert here.ask("PUT", "/tables/people/analysts/ben", {"epsilon": 1}, token=token)[0] == 403
    assert here.ask("POST", "/tables/people/explanations", {"request": PDP, "epsilon": 0.1}, token=vera)[0] == 403
    assert here.ask("GET", "/tables/people/log", token=ana)[0] == 403
    assert here.good("GET", "/tables/people/log", token=vera)["events"][0]["kind"] == "account-opened"
    assert here.good("POST", "/tables/people/verification", {}, token=vera)["decisions"]["decisions"] >= 3


def test_a_person_reads_one_report_and_nothing_else(here: Running):
    ana = here.tokens["ana"]
    about = {"request": "transparency-report", "row": {"age": 25, "sex": "Male"}}
    job = here.explained(ana, about, epsilon=0.4)
    token = here.good("POST", "/tokens", {"name": "p", "role": "person", "release": job["results"][0]})["token"]
    assert here.good("GET", "/report", token=token)["kind"] == "transparency-report"
    other = here.explained(ana)["results"][0]
    for path in ("/tables", "/releases", f"/releases/{other}", "/jobs", "/tables/people/budget", "/methods"):
        assert here.ask("GET", path, token=token)[0] == 403, path


def test_who_has_no_limit_spends_nothing_and_limits_never_exceed_the_budget(here: Running):
    token = here.member("new", limit=None)
    status, error = here.ask("POST", "/tables/people/explanations", {"request": PDP, "epsilon": 0.1}, token=token)
    assert (status, error["error"]["kind"]) == (402, "BudgetError")
    status, error = here.ask("PUT", "/tables/people/analysts/new", {"epsilon": 7.9})
    assert status == 402
    assert "does not fit" in error["error"]["message"]
    spent = here.service.tables["people"].statement
    limits = sum(line.limit.amount for line in spent.analysts if line.limit is not None)
    assert limits <= spent.total.amount


def test_more_than_the_limit_is_refused_and_nothing_is_spent(here: Running):
    ben = here.tokens["ben"]
    job = here.explained(ben, {**PDP, "feature": "age"}, epsilon=2.0)
    assert job["state"] == "refused"
    assert job["error"]["kind"] == "BudgetError"
    mine = here.good("GET", "/tables/people/budget", token=ben)
    assert mine["entries"] == []


def test_a_sketch_explains_records_free(here: Running):
    ana = here.tokens["ana"]
    job = here.explained(ana, {"request": "local-sketch", "method": "moments"}, epsilon=0.5)
    sketch, left = job["results"][0], here.good("GET", "/tables/people/budget", token=ana)["left_for_you"]
    record = {"age": 25, "sex": "Male"}
    found = here.good("POST", f"/releases/{sketch}/explain", {"record": record}, token=ana)
    own = dpx.from_json(json.dumps(here.good("GET", f"/releases/{sketch}", token=ana))).explain(record)
    assert found["values"] == own.values.tolist()
    assert found["features"] == ["age", "sex"]
    whole = here.good("POST", f"/releases/{sketch}/explain", {"record": record, "whole": True}, token=ana)
    assert dpx.from_json(json.dumps(whole)).values.tolist() == found["values"]
    assert here.good("GET", "/tables/people/budget", token=ana)["left_for_you"] == left
    assert here.ask("POST", f"/releases/{sketch}/explain", {"record": {"age": "x"}}, token=ana)[0] == 422


def test_a_batch_has_one_price_and_readings_are_free(here: Running):
    ana = here.tokens["ana"]
    requests = [{"request": "stand-in"}, PDP]
    body = {"requests": requests, "epsilon": 0.5}
    planned = here.good("POST", "/tables/people/plan", body, token=ana)
    assert len(planned["forecast"]["parts"]) == 2
    job = here.done(here.good("POST", "/tables/people/batches", body, token=ana)["id"], token=ana)
    assert job["state"] == "done", job
    assert len(job["parts"]) == 2
    known = {one["id"]: one for one in here.good("GET", "/releases", token=ana)["releases"]}
    reservation = known[job["results"][0]]["reservation"]
    asked = {"stand_in": reservation, "results": [reservation], "request": PDP}
    found = here.good("POST", "/tables/people/readings", asked, token=ana)["readings"][0]
    assert found["feature"] == "sex"
    assert len(found["values"]) == 2
    alone = {"stand_in": reservation, "record": {"age": 25, "sex": "Male"}}
    assert here.good("POST", "/tables/people/readings", alone, token=ana)["features"] == ["age", "sex"]
    used = here.explained(ana, {**PDP, "feature": "age"}, epsilon=0.1, uses={"stand_in": reservation})
    assert used["state"] == "done", used


def test_what_waits_can_be_cancelled_and_what_ended_cannot(here: Running, monkeypatch):
    ana = here.tokens["ana"]
    monkeypatch.setattr("dpexplain.service.jobs.claim", lambda *_: [])
    job = here.good("POST", "/tables/people/explanations", {"request": PDP, "epsilon": 0.11}, token=ana)["id"]
    assert here.good("DELETE", f"/jobs/{job}", token=ana)["state"] == "cancelled"
    monkeypatch.undo()
    assert here.ask("DELETE", f"/jobs/{job}", token=ana)[0] == 409
    ended = here.explained(ana)["id"]
    assert here.ask("DELETE", f"/jobs/{ended}", token=ana)[0] == 409
    assert here.ask("DELETE", f"/jobs/{ended}", token=here.tokens["ben"])[0] == 404
    assert all(row.label != "x" for row in here.service.tables["people"].statement.rows)


def asked_and_held(here: Running, monkeypatch, token: str, epsilon: float) -> str:
    """A job that no worker takes before `monkeypatch.undo`."""
    monkeypatch.setattr("dpexplain.service.jobs.claim", lambda *_: [])
    body = {"request": {**PDP, "feature": "age"}, "epsilon": epsilon}
    return str(here.good("POST", "/tables/people/explanations", body, token=token)["id"])


@pytest.mark.parametrize("how", ["revoked", "expired"])
def test_what_a_token_asked_for_that_has_ended_does_not_begin(here: Running, monkeypatch, how):
    name = f"late-{how}"
    token = here.member(name, limit=0.3)
    job = asked_and_held(here, monkeypatch, token, 0.12)
    if how == "revoked":
        here.good("DELETE", f"/tokens/{token.split('_')[1]}")
    else:
        with here.service.store.write() as connection:
            mine = token_table.c.id == token.split("_")[1]
            connection.execute(token_table.update().where(mine).values(expires=0.0))
    monkeypatch.undo()
    found = here.done(job)
    assert (found["state"], found["error"]["spent"]) == ("refused", "Nothing was spent.")
    assert "revoked or ran out" in found["error"]["message"]
    rows = here.service.tables["people"].statement.rows
    assert not [row for row in rows if row.analyst == name]
    listed = here.good("GET", "/jobs")["jobs"]
    assert next(one for one in listed if one["id"] == job)["state"] == "refused"


def test_what_was_reserved_before_its_token_ended_goes_on(here: Running, monkeypatch):
    """A process died after the reservation: the price is paid, so its answer is not thrown away."""
    token = here.member("lou", limit=0.4)
    job = asked_and_held(here, monkeypatch, token, 0.13)

    def dies(*_):
        raise SystemExit

    with monkeypatch.context() as crash:
        crash.setattr("dpexplain.ledger.account.LedgerAccount.commit", dies)
        with pytest.raises(SystemExit):
            here.service.run(jobs.find(here.service.store, job))
    here.good("DELETE", f"/tokens/{token.split('_')[1]}")
    monkeypatch.undo()
    assert here.done(job)["state"] == "done"
    (row,) = [row for row in here.service.tables["people"].statement.rows if row.analyst == "lou"]
    assert row.status == "released"


def test_every_decision_is_chained_and_kept_in_the_ledger(here: Running):
    listed = here.good("GET", "/decisions")
    assert listed["checked"]["not_yet_in_the_ledger"] == 0
    assert {"token", "limit"} <= {one["what"] for one in listed["decisions"]}
    here.service.tables["people"].table.ledger.verify()


def test_health_says_what_is_there_without_a_token(here: Running):
    assert here.good("GET", "/health", token=None)["alive"]
    assert here.good("GET", "/ready", token=None)["ready"]
    text = here.good("GET", "/metrics", token=None)
    assert 'dpexplain_jobs{state="done"}' in text
    assert not any(name in text for name in ("people", '"ana"', "sex"))
    assert here.ask("GET", "/tables", token=None)[0] == 401
