"""`dpx.Client`: the guide's own code against a server, and errors as the library raises them."""

from __future__ import annotations

import re
import sys
from contextlib import ExitStack
from itertools import count
from pathlib import Path
from types import ModuleType, SimpleNamespace

import matplotlib
import pytest

import dpexplain as dpx
from dpexplain.errors import BudgetError, InputError, LedgerUnavailable
from dpexplain.methods.result import Result
from services import SLOT, Running, running, write_project

matplotlib.use("Agg")
GUIDE = Path(__file__).parents[2] / "docs" / "guide.md"
BLOCKS = re.findall(r"```python\n(.*?)```", GUIDE.read_text(encoding="utf-8"), re.DOTALL)
TABLES = [one for one in BLOCKS if "dpx.PrivateTable(" in one and "dpx.report(" not in one]  # a server makes no reports
NUMBER = count()
PROJECT = """\
[table]
path = "rows.parquet"
domain = "domain.yaml"
name = "{name}"
version = "{version}"
relation = "{relation}"
[budget]
epsilon = {epsilon}
{delta}
ledger = "sqlite:///{ledger}"
{model}
[service]
slot = {slot}
"""


class Behind:
    """The table or the model of the guide, which is behind the server when a verb is called."""

    def __init__(self, of: Elsewhere, kind: str) -> None:
        self.of, self.kind = of, kind

    @property
    def ledger(self):
        return dpx.open_ledger(self.of.ledger)


class Elsewhere:
    """`dpx` for a program whose table and model are behind a server: what is not declared is a verb of the client."""

    def __init__(self, folder: Path, stack: ExitStack) -> None:
        self.folder, self.stack, self.client = folder, stack, None
        self.table, self.model, self.ledger = None, None, folder / "books.db"

    def PrivateTable(self, rows, **options):  # noqa: N802 - the name in the guide
        rows.to_parquet(self.folder / "rows.parquet")
        dpx.Domain(options["domain"], reviewed_by="Ada").save(self.folder / "domain.yaml")
        self.table = SimpleNamespace(**{"version": "1", "relation": None} | options)
        if isinstance(options["ledger"], Path):
            self.ledger = options["ledger"]
        return Behind(self, "table")

    def Model(self, source, **options):  # noqa: N802
        name = f"model_of_guide_{next(NUMBER)}"
        sys.modules[name] = ModuleType(name)
        sys.modules[name].source = source
        lines = [f'import = "{name}:source"', *(f"{key} = {toml(value)}" for key, value in options.items())]
        self.model = "\n".join(["[model]", *lines])
        return Behind(self, "model")

    def __getattr__(self, name):
        if name in ("Budget", "Domain", "Numeric", "Categorical", "open_ledger", "verify", "requests", "from_json"):
            return getattr(dpx, name)
        return lambda *given, **named: self.call(name, given, named)

    def call(self, verb, given, named):
        """What the guide asks for, of the server, which starts when it is asked for the first time."""
        self.client = self.client or self.start()
        known = {"table": lambda: self.client.table(self.table.name), "model": self.client.model}

        def there(one):
            return known[one.kind]() if isinstance(one, Behind) else one

        return getattr(self.client, verb)(*map(there, given), **{key: there(one) for key, one in named.items()})

    def start(self):
        table = self.table
        delta = "" if table.budget.delta is None else f"delta = {float(table.budget.delta)!r}"
        text = PROJECT.format(
            name=table.name, version=table.version, relation=table.relation, epsilon=float(table.budget.epsilon),
            delta=delta, ledger=self.ledger, model=self.model or "", slot=SLOT,
        )  # fmt: skip
        (self.folder / "dpexplain.toml").write_text(text)
        here = self.stack.enter_context(running(self.folder / "dpexplain.toml"))
        token = here.member("ana", limit=float(table.budget.epsilon))
        return dpx.Client(here.url, token)


def toml(value):
    return str(list(value)) if isinstance(value, tuple) else str(value).lower() if value is True else repr(value)


@pytest.mark.long
@pytest.mark.parametrize("block", TABLES, ids=range(len(TABLES)))
def test_the_code_of_the_guide_runs_against_a_server(block, tmp_path, monkeypatch, capsys):
    import matplotlib.pyplot as plt

    monkeypatch.chdir(tmp_path)
    code = block.replace("import dpexplain as dpx\n", "")
    assert code != block
    code = "".join(line for line in code.splitlines(True) if ".expect(" not in line)  # a function is not sent
    with ExitStack() as stack:
        elsewhere = Elsewhere(tmp_path, stack)
        space = {"__name__": "example", "dpx": elsewhere}
        exec(compile(code, "guide", "exec"), space)
        assert elsewhere.client is not None, "or nothing was asked"
        results = [one for one in space.values() if isinstance(one, Result)]
        for result in results:
            dpx.verify(result, elsewhere.ledger)
    assert capsys.readouterr().out
    plt.close("all")


@pytest.fixture(scope="module")
def here(tmp_path_factory):
    with running(write_project(tmp_path_factory.mktemp("client"))) as found:
        found.member("ana", limit=2.0)
        yield found


@pytest.fixture
def client(here: Running) -> dpx.Client:
    return dpx.Client(here.url, here.tokens["ana"])


def test_errors_are_those_of_the_library(client):
    table, model = client.table("people"), client.model()
    with pytest.raises(BudgetError, match="costs"):
        client.partial_dependence(table, model, "age", epsilon=5.0)
    with pytest.raises(InputError, match="unknown feature"):
        client.partial_dependence(table, model, "weight", epsilon=0.1)
    with pytest.raises(InputError, match="feature must be"):
        client.partial_dependence(table, model, 3, epsilon=0.1)
    with pytest.raises(InputError, match="unexpected keyword"):
        client.partial_dependence(table, model, "age", epsilom=0.1)
    with pytest.raises(InputError, match="one of the service"):
        client.partial_dependence(table, dpx.Model(lambda r: r["age"], output=(0, 1)), "age", epsilon=0.1)
    with pytest.raises(AttributeError, match="partial_dependence"):
        client.partial_dependance  # noqa: B018


def test_every_verb_of_the_library_is_a_verb_of_the_client(client):
    functions = {name for name in dpx.__all__ if name.islower() and callable(getattr(dpx, name))}
    elsewhere = {"open_ledger", "progress"}  # of whoever has the data
    assert functions - elsewhere <= set(dir(client))


def test_a_token_goes_nowhere_in_the_clear(here):
    with pytest.raises(InputError, match="in the clear"):
        dpx.Client("http://explain.example.org", here.curator)
    assert here.curator not in repr(dpx.Client(here.url, here.curator))
    with pytest.raises(InputError, match="valid token"):
        dpx.Client(here.url, "dpx_0_0").tables()


def test_a_service_that_is_away_says_so(monkeypatch):
    monkeypatch.setattr("dpexplain.service.wire.PAUSES", (0.01,))
    with pytest.raises(LedgerUnavailable, match="does not answer"):
        dpx.Client("http://127.0.0.1:9", "dpx_x_y").tables()


def test_the_same_key_is_charged_once(client, here):
    table, model = client.table("people"), client.model()
    client.key = "mine"
    first = client.partial_dependence(table, model, "sex", epsilon=0.12)
    client.key = "mine"
    again = client.partial_dependence(table, model, "sex", epsilon=0.12)
    assert again.receipt.entry == first.receipt.entry
    assert client.partial_dependence(table, model, "sex", epsilon=0.12).receipt.replayed
    rows = [row for row in here.service.tables["people"].statement.rows if row.label == first.receipt.label]
    assert len(rows) == 1


def test_clusters_and_a_curator(client, here):
    curator = dpx.Client(here.url, here.curator)
    token = curator.new_token("cleo")
    curator.set_limit("people", "cleo", epsilon=2.0)
    cleo = dpx.Client(here.url, token)
    table = cleo.table("people")
    found = cleo.dp_kmeans(table, 2, epsilon=0.5, labels=["A", "B"])
    told = cleo.explain_clusters(table, found, epsilon=0.5)
    assert told.kind.startswith("cluster")
    assert cleo.budget("people")["left_for_you_epsilon"] < 2.0
    assert [one.name for one in cleo.tables()] == ["people"]
    assert cleo.verify(told) == cleo.verify(told)
    planned = cleo.plan(cleo.requests.PartialDependence(feature="age"), table=table, model=cleo.model(), epsilon=0.2)
    assert planned.best.error > 0
    assert "age" in str(planned)
