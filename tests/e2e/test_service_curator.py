"""What a curator does over HTTP: models of the folder of models, domains that wait for a signature, two tables."""

from __future__ import annotations

import pandas as pd
import pytest

import dpexplain as dpx
from dpexplain.data.domain_file import draft_domain
from dpexplain.errors import InputError, LedgerCorrupt
from dpexplain.service.decisions import Decisions
from dpexplain.service.store import decisions
from ledger_servers import execute
from services import PDP, SLOT, Running, running, write_project

pytestmark = pytest.mark.long
MODEL = """\
[model]
path = "models/one.skops"
output = [0.0, 1.0]
features = ["age"]
name = "score"
version = "1"
"""


@pytest.fixture(scope="module")
def here(tmp_path_factory):
    """A service with two tables: one whose models are files, and one whose domain is a draft."""
    skops, linear = pytest.importorskip("skops.io"), pytest.importorskip("sklearn.linear_model")
    folder = tmp_path_factory.mktemp("curator")
    first = write_project(folder / "a", service=f'slot = {SLOT}\nrate = 1000000\nmodels = "models"')
    (folder / "a" / "models").mkdir()
    for name, scale in (("one", 30), ("two", 40)):
        ages = pd.DataFrame({"age": range(20, 30)})
        model = linear.LinearRegression().fit(ages, ages["age"] / scale)
        skops.dump(model, folder / "a" / "models" / f"{name}.skops")
    text = first.read_text()
    first.write_text(text[: text.index("[model]")] + MODEL + text[text.index("\n[service]") :])
    second = write_project(folder / "b", name="drafted")
    draft = draft_domain(folder / "b" / "people.parquet")
    (folder / "b" / "domain.yaml").write_text(draft)
    with running(first, second) as found:
        yield found


def test_a_model_is_registered_and_compared(here: Running):
    asked = {"version": "2", "file": "two.skops"}
    assert here.ask("POST", "/tables/people/models", {**asked, "version": "1"})[0] == 422, "a version is taken once"
    here.good("POST", "/tables/people/models", asked)
    assert here.ask("POST", "/tables/people/models", asked)[0] == 422
    assert here.good("GET", "/tables/people")["models"] == ["1", "2"]
    here.good("PUT", "/tables/people/analysts/ana", {"epsilon": 2.0})
    ana = dpx.Client(here.url, here.good("POST", "/tokens", {"name": "ana", "role": "analyst"})["token"])
    table, request = ana.table("people"), dpx.requests.PartialDependence(feature="age")
    planned = ana.plan(
        dpx.requests.Compare(request=request), table=table, model=[ana.model("1"), ana.model("2")], epsilon=0.5
    )
    assert planned.best.error > 0
    found = ana.compare(table, [ana.model("1"), ana.model("2")], request, epsilon=0.5)
    assert found.receipt.request["model"]
    other = ana.partial_dependence(table, ana.model("2"), "age", epsilon=0.3)
    assert other.receipt.request["model"]["version"] == "2"
    with pytest.raises(InputError, match="no model of version"):
        ana.partial_dependence(table, ana.model("3"), "age", epsilon=0.3)


def test_a_registered_file_that_changed_is_refused(here: Running):
    folder = here.service.settings.models
    (folder / "three.skops").write_bytes((folder / "two.skops").read_bytes())
    here.good("POST", "/tables/people/models", {"version": "3", "file": "three.skops"})
    (folder / "three.skops").write_bytes((folder / "one.skops").read_bytes())
    here.good("PUT", "/tables/people/analysts/curator", {"epsilon": 1.0})
    job = here.ask(
        "POST", "/tables/people/explanations", {"request": {**PDP, "feature": "age"}, "epsilon": 0.1, "model": "3"}
    )
    assert job[0] == 422
    assert "another one than the curator registered" in job[1]["error"]["message"]


def test_a_domain_is_reviewed_and_signed_and_then_the_table_opens(here: Running):
    viewer = here.good("POST", "/tokens", {"name": "v", "role": "viewer"})["token"]
    assert not here.good("GET", "/tables/drafted")["open"]
    assert here.ask("GET", "/tables/drafted/budget")[0] == 422
    assert here.ask("GET", "/tables/drafted/domain", token=viewer)[0] == 403
    draft = here.good("GET", "/tables/drafted/domain")
    assert draft["columns"]["sex"]["values"] == "???"
    signed = {"columns": draft["columns"], "reviewed_by": "Ada"}
    status, error = here.ask("PUT", "/tables/drafted/domain", signed)
    assert (status, error["error"]["kind"]) == (422, "DomainError")
    signed["columns"] = {"age": {"type": "numeric", "low": 20, "high": 29, "integer": True}}
    signed["columns"]["sex"] = {"type": "categorical", "values": ["Female", "Male"]}
    here.good("PUT", "/tables/drafted/domain", signed)
    assert here.good("GET", "/tables/drafted")["domain"]["sex"]["values"] == ["Female", "Male"]
    assert here.ask("PUT", "/tables/drafted/domain", signed)[0] == 422, "it is signed once"
    here.good("PUT", "/tables/drafted/analysts/curator", {"epsilon": 1.0})
    assert here.explained(here.curator, table="drafted")["state"] == "done"
    listed = here.good("GET", "/decisions")
    assert "domain" in {one["what"] for one in listed["decisions"]}
    assert listed["checked"]["not_yet_in_the_ledger"] == 0


def test_a_token_for_one_table_does_not_know_the_other(here: Running):
    token = here.good("POST", "/tokens", {"name": "one", "role": "viewer", "tables": ["people"]})["token"]
    assert [one["name"] for one in here.good("GET", "/tables", token=token)["tables"]] == ["people"]
    assert here.ask("GET", "/tables/drafted", token=token) == here.ask("GET", "/tables/nothing", token=token)
    assert here.ask("POST", "/tokens", {"name": "one", "role": "viewer", "tables": ["nothing"]})[0] == 422


class TestDecisions:
    """A decision that was changed, cut off or forged behind the service's back is noticed."""

    @pytest.fixture
    def chain(self, tmp_path):
        with running(write_project(tmp_path, rows=100)) as found:
            for name in ("ana", "ben", "cleo"):
                found.member(name, limit=None)
            yield found.service.decisions, found.service.settings.store, found.service

    def test_what_is_whole_passes(self, chain: tuple[Decisions, str, object]):
        assert chain[0].verify()["decisions"] == 4

    @pytest.mark.parametrize(
        ("statement", "why"),
        [
            ("UPDATE service_decisions SET body = '{}' WHERE seq = 2", "its chain breaks at decision 2"),
            ("DELETE FROM service_decisions WHERE seq = 4", "its end was cut off"),
            ("DELETE FROM service_decisions WHERE seq = 2", "its chain breaks at decision 2"),
        ],
    )
    def test_a_change(self, chain, statement, why):
        execute(chain[1], statement)
        with pytest.raises(LedgerCorrupt, match=why):
            chain[0].verify()

    def test_another_history_with_good_hashes(self, chain):
        found, url, service = chain
        execute(url, "DELETE FROM service_decisions WHERE seq = 4")
        with service.store.write() as connection:
            found.add(connection, "mallory", "token", {"name": "mallory", "role": "curator"})
        with pytest.raises(LedgerCorrupt, match="the ledger knows another decision 4"):
            found.verify()
        with pytest.raises(LedgerCorrupt, match="the ledger knows another decision 4"):
            Decisions(service.store, service.tables.accounts()).anchor()
        with service.store.read() as connection:
            assert connection.scalar(decisions.select().with_only_columns(decisions.c.seq).where(decisions.c.seq == 4))
