"""One registration is enough: whoever asks which methods there are finds one that stands in a file of its own."""

from __future__ import annotations

import ast
import shutil
import sys
import typing
from collections.abc import Callable, Mapping, Sequence
from fractions import Fraction
from importlib import import_module
from inspect import Parameter, isfunction, signature
from pathlib import Path
from typing import Annotated, Any, ClassVar, Literal

import numpy as np
import pandas as pd
import pytest
from pydantic import Field

import dpexplain as dpx
from commands import DOMAIN, MODEL, PROJECT, answer, refusal
from dpexplain import requests
from dpexplain.audit import project as audits
from dpexplain.audit.releases import audit_all, every_case, releases
from dpexplain.cli.app import run
from dpexplain.cli.methods import options_of
from dpexplain.errors import InternalError
from dpexplain.methods import registry
from dpexplain.methods.registry import Method, method_of, methods, register, request_from_json
from dpexplain.methods.request import Names, Request, members
from dpexplain.methods.result import Result
from dpexplain.render.files import write_results
from dpexplain.render.html import results_page
from dpexplain.render.plots import figure_of

pytestmark = pytest.mark.usefixtures("sketched_pictures")

TOY = Path(__file__).parents[2] / "toy_method.py"


@pytest.fixture
def toy(tmp_path, monkeypatch):
    """The toy method, in a module that nobody else knows."""
    folder = tmp_path / "modules"
    folder.mkdir()
    shutil.copy(TOY, folder / "toy_of_a_test.py")
    monkeypatch.syspath_prepend(folder)
    monkeypatch.setattr(registry, "_methods", dict(registry.methods()))
    monkeypatch.setattr(Result, "kinds", dict(Result.kinds))
    yield import_module("toy_of_a_test")
    del sys.modules["toy_of_a_test"]


@pytest.fixture
def project(tmp_path, monkeypatch):
    draw = np.random.default_rng(0)
    rows = pd.DataFrame({"age": draw.integers(20, 30, 3000), "sex": draw.choice(["Female", "Male"], 3000)})
    rows.to_parquet(tmp_path / "people.parquet")
    for name, text in (("domain.yaml", DOMAIN), ("dpexplain.toml", PROJECT), ("cli_test_model.py", MODEL)):
        (tmp_path / name).write_text(text)
    monkeypatch.chdir(tmp_path)
    monkeypatch.delenv("DPEXPLAIN_LEDGER", raising=False)
    monkeypatch.setattr(sys, "path", list(sys.path))
    monkeypatch.delitem(sys.modules, "cli_test_model", raising=False)
    return tmp_path


def draw_own(_result, ax):
    ax.set_title("of my own")
    return ax


def say_own(_result):
    return "in my own words"


class TestOneRegistration:
    def test_requests_and_plan(self, toy, make_table, frame):
        asked = dpx.requests.RowsAbove(threshold=22)
        assert method_of(asked).title == "Rows above"
        assert request_from_json(asked.to_json()) == asked
        table = make_table(frame)
        found = dpx.plan(asked, table=table, epsilon=1)
        result = toy.explain(table, None, asked, cost=table.cost(epsilon=1))
        assert found.options[0].error == pytest.approx(result.interval()[1][0] - result.values[0])
        assert "RowsAbove" in dir(requests)

    def test_the_command_line_verify_and_pages(self, toy, project, capsys):
        assert run(["--help"]) == 0
        assert "above" in capsys.readouterr().out
        assert run(["above", "--help"]) == 0
        told = " ".join(capsys.readouterr().out.split())
        for words in ("--feature NAME The columns. May be repeated.", "--over T", "--times N", "--no-below Count no"):
            assert words in told
        planned = answer(capsys, "plan", "--explainer", "above", "--feature", "age", "--epsilon", "0.5", "--n", "3000")
        typed = ["--feature", "age", "--over", "24", "--times", "2", "--no-below"]
        found = answer(capsys, "above", *typed, "--epsilon", "0.5")
        assert found["label"] == "rows above 24"
        assert found["forecasts"][0]["options"][0]["error"] == planned["forecasts"][0]["options"][0]["error"]
        written = found["results"][0]["json"]
        assert answer(capsys, "verify", written)["genuine"]
        page = Path(found["page"]).read_text()
        assert "Rows above, people" in page
        assert "how many rows lie above a threshold" in page
        card = dpx.from_json(written)
        assert type(card) is toy.AboveCounts
        assert "<svg" in card._repr_html_()
        assert "rows above 24" in results_page("t", "l", [card])
        assert run(["above", "--epsilon", "0.5"]) == 0
        assert "rows above 25" in capsys.readouterr().out

    def test_its_result_is_shown_everywhere(self, toy, make_table, frame, tmp_path):
        table = make_table(frame)
        result = toy.explain(table, None, toy.RowsAbove(features=["age", "income"]), cost=table.cost(epsilon=1))
        dpx.verify(result, table.ledger)
        said = " ".join(str(result).split())
        page, card = (" ".join(html.split()) for html in (results_page("t", "l", [result]), result._repr_html_()))
        picture = figure_of(result).axes[0]
        drawn = " ".join(" ".join(text.get_text() for text in picture.texts).split())
        for shown in (said, page, card, drawn):
            assert result.caveat in shown
            assert result.receipt.neighbours.describe() in shown
        assert f"{result.findings[0]} {result.findings[1]} {result.caveat} feature above low high" in said
        assert [name.get_text() for name in picture.get_yticklabels()] == ["age", "income"]
        assert (picture.get_lines()[0].get_xdata() == result.values).all()
        assert [path.name for path in write_results([result], tmp_path)] == ["above-counts.json"]
        assert (tmp_path / "above-counts.png").exists()

    def test_a_result_says_how_it_is_drawn_and_what_else_to_verify(self, toy, make_table, frame):
        table, other = make_table(frame), make_table(frame, name="other", version="2")
        result, foreign = (toy.explain(t, None, toy.RowsAbove(), cost=t.cost(epsilon=1)) for t in (table, other))

        class Own(toy.AboveCounts):
            picture, text_view = f"{__name__}:draw_own", f"{__name__}:say_own"
            has_missing, lines_shown, picture_size = True, 0, (3.0, 2.0)
            relies_on: ClassVar = [result]

        own = Own(result.receipt, result.released)
        assert figure_of(own).axes[0].get_title() == "of my own"
        assert str(own).startswith("in my own words")
        dpx.verify(own, table.ledger)
        Own.relies_on = [foreign]
        with pytest.raises(dpx.errors.VerificationError, match="above-counts in this result are of another table"):
            dpx.verify(own, table.ledger)

    def test_what_is_typed_wrong(self, toy, project, capsys):
        error = refusal(capsys, 2, "above", "--times", "10", "--epsilon", "1")
        assert error["message"] == "times must be a whole number from 1 to 9; got 10."
        error = refusal(capsys, 2, "above", "--mode", "lax", "--epsilon", "1")
        assert error["message"] == "unknown mode 'lax'."
        error = refusal(capsys, 2, "plan", "--explainer", "above", "--pair", "age,sex", "--epsilon", "1")
        assert "such option: --pair" in error["message"]

    def test_the_audit(self, toy):
        assert "toy_of_a_test" in releases()
        cases = [case for case in every_case() if case.release == "rows_above"]
        assert {case.relation for case in cases} == {"replace-one", "add-remove"}
        found = audit_all(cases, choices=False, trials=1000, most=1000)
        assert (found["exact loss"] <= found["price"] * 1.000001).all()
        assert (found["exact loss"] >= found["price"] * 0.99).all()

    @pytest.mark.long
    def test_the_audit_of_a_project(self, toy, project, capsys, monkeypatch):
        """Attacked on the project's rows, and on its worst cases; a sound one is accused with probability 1e-9."""
        monkeypatch.setattr(audits, "CONFIDENCE", 1 - 1e-9)
        told = answer(capsys, "audit", "--explainer", "above", "--epsilon", "1", "--workers", "1")
        assert {line["explainer"] for kind in ("membership", "table") for line in told[kind]} == {"above"}
        assert all(0 < line["exact_loss"] <= 1 + 1e-9 for line in told["membership"])
        assert {(line["release"], line["relation"]) for line in told["bounds"]} == {("rows_above", "replace-one")}
        assert all(line["attained"] <= 1 + 1e-9 for line in told["bounds"])
        assert "above" in refusal(capsys, 2, "audit", "--explainer", "below")["hint"]

    def test_it_is_gone_afterwards(self):
        assert "rows-above" not in methods()
        assert not hasattr(requests, "RowsAbove")


def test_a_name_belongs_to_one_method(toy):
    with pytest.raises(InternalError, match="another method"):
        register(Method(**{**vars(methods()["rows-above"]), "home": "elsewhere"}))
    with pytest.raises(InternalError, match="another command"):
        register(Method(**{**vars(methods()["rows-above"]), "name": "new", "home": "elsewhere"}))


def test_names_for_type_checkers_are_those_of_the_registry():
    tree = ast.parse(Path(requests.__file__).read_text(encoding="utf-8"))
    block = next(node for node in tree.body if isinstance(node, ast.If))
    *imports, listed = block.body
    typed = {alias.asname or alias.name: (node.module, alias.name) for node in imports for alias in node.names}
    assert sorted(typed) == ast.literal_eval(listed.value) == requests.__all__
    for name, (module, kind) in typed.items():
        assert getattr(requests, name) is getattr(import_module(module), kind)
    with pytest.raises(AttributeError, match="there is no request 'PartialDependance'"):
        _ = requests.PartialDependance


REGISTERED = [method for method in methods().values() if method.home.startswith("dpexplain.")]


@pytest.mark.parametrize("method", REGISTERED, ids=lambda method: method.name)
def test_what_a_registration_names_is_there(method):
    for what in (method.explain, method.outlook, method.diagram, method.worst_cases, *method.results):
        assert callable(method.load(what))
    assert method.typed is None or callable(method.load(method.typed))
    assert issubclass(method.request, Request)
    assert [name for name, field in method.request.model_fields.items() if not field.description] == []


class Typed(Request):
    """Options of all kinds."""

    names: Names = None
    pairs: Sequence[tuple[str, str]] | None = None
    anchor: float | Literal["middle"] | None = None
    share: Annotated[float, Field(gt=0)] = 0.5
    exact: bool | None = None
    quick: bool = False
    many: int | Mapping[str, int] | None = None
    record: Any = None
    function: Callable[..., Any] | None = None
    weights: Sequence[float] = (0.5, 0.5)


def test_options_follow_from_types():
    options = {one.name: one for one in options_of(Typed)}
    assert {name: (one.flag, one.metavar) for name, one in options.items()} == {
        "names": ("--name", "NAME"),
        "pairs": ("--pair", "NAME,NAME"),
        "anchor": ("--anchor", "X"),
        "share": ("--share", "X"),
        "exact": ("--exact/--no-exact", None),
        "quick": ("--quick", None),
        "many": ("--many", "N"),
    }
    assert options["names"].read(["a", "b", "a"]) == ["a", "b"]
    assert options["names"].read([]) is None
    assert options["pairs"].read(["a, b"]) == [("a", "b")]
    assert [options["anchor"].read(typed) for typed in ("1", "0.5", "middle", None)] == [1, 0.5, "middle", None]
    with pytest.raises(dpx.InputError, match="--pair takes two names; got 'a'"):
        options["pairs"].read(["a"])


# Signatures -----------------------------------------------------------------------------------------------------------

# no part of a request
OF_A_CALL = {"table", "model", "clustering", "epsilon", "rho", "marginals", "performance", "stand_in"}
# {what the clustering says: name} too; and a report is about somebody, where a request for a plan is about nobody yet
WIDER = {("explain_clusters", "labels"), ("transparency_report", "row")}


def differences(function, request: type[Request]) -> list[str]:
    """Where a public function and its request do not say the same."""
    hints, found = typing.get_type_hints(function), []
    options = {name: one for name, one in signature(function).parameters.items() if name not in OF_A_CALL}
    found += [f"{name} is missing" for name in request.model_fields if name not in options]
    found += [f"{name} is no option" for name in options if name not in request.model_fields]
    for name, field in request.model_fields.items():
        if name not in options:
            continue
        default = Parameter.empty if field.is_required() else field.get_default(call_default_factory=True)
        if options[name].default != default and (function.__name__, name) not in WIDER:
            found.append(f"{name} has another default")
        ours, own = set(members(hints[name])), set(members(field.annotation))
        more = ours - own - ({float, int} if Fraction in own else set())  # numbers are made exact on the way
        more = {kind for kind in more if not (isinstance(kind, type) and issubclass(kind, Result))}  # earlier releases
        if (more or own - ours) and (function.__name__, name) not in WIDER:
            found.append(f"{name} has another type")
    return found


def public_functions(method: Method) -> list:
    named = [getattr(dpx, name) for name in dpx.__all__]
    return [one for one in named if isfunction(one) and one.__module__.startswith(f"{method.home}.")]


FUNCTIONS = [pytest.param(method, one, id=one.__name__) for method in REGISTERED for one in public_functions(method)]


@pytest.mark.parametrize(("method", "function"), FUNCTIONS)
def test_a_public_function_has_the_options_of_its_request(method, function):
    assert differences(function, method.request) == []


def test_differences_are_seen():
    pdp = methods()["partial-dependence"].request

    def another(table, model, feature: str, *, grid: int | None = None, rug: bool = False, smoth: bool = True): ...

    assert set(differences(another, pdp)) == {
        *("method is missing", "smooth is missing", "mechanism is missing", "smoth is no option"),
        *("feature has another type", "grid has another type", "rug has another default"),
    }
