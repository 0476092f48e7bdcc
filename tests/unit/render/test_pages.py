"""Every kind of page, with markup in every name that people give: it stays text. Headings in order, colours that can be
read in the light and in the dark, templates in the package, and no tag in the Python files.
"""

from __future__ import annotations

import ast
import re
import tomllib
from html.parser import HTMLParser
from pathlib import Path

import matplotlib
import pytest
from jinja2 import UndefinedError
from markupsafe import Markup

import dpexplain as dpx
import pictures
from dpexplain.audit.membership import Attack, Membership, Point
from dpexplain.audit.project_report import Explained, Outcome, ProjectAudit
from dpexplain.audit.reconstruction import FeatureAttack, Gain, Reconstruction
from dpexplain.audit.table_reconstruction import TableReconstruction
from dpexplain.core.sensitivity import Neighbours, Relation
from dpexplain.methods.reports.result import Report
from dpexplain.render import html
from dpexplain.render.attributions import Highlight
from dpexplain.render.audit_page import audit_page
from dpexplain.render.audit_page import pictures as audit_pictures
from dpexplain.render.charts import chart_of, described
from dpexplain.render.html import fill, results_page

matplotlib.use("Agg")
PACKAGE = Path(dpx.__file__).parent
ODD = "<script>alert(1)</script>\"'><img src=x onerror=alert(2)>"


class Reader(HTMLParser):
    """Tags, attributes and text as a browser sees them."""

    def __init__(self, page: str) -> None:
        super().__init__()
        self.tags: list[str] = []
        self.attributes: list[str] = []
        self.text = ""
        self.feed(page)

    def handle_starttag(self, tag, attrs):
        self.tags.append(tag)
        self.attributes += [name for name, _ in attrs]

    def handle_data(self, data):
        self.text += data


def intruders(page: str) -> list[str]:
    """What no page of ours has: tags that run or load something, but our own script, and handlers and styles."""
    seen = Reader(page.replace(f"<script>{html.static('charts.js')}</script>", "", 1))
    return [tag for tag in seen.tags if tag in ("script", "img", "iframe", "link", "object")] + [
        name for name in seen.attributes if name.startswith("on") or name == "src"
    ]


def misplaced_headings(page: str) -> list[str]:
    """Headings that skip a level, and a second h1."""
    levels = [int(tag[1]) for tag in Reader(page).tags if re.fullmatch("h[1-6]", tag)]
    steps = zip([0, *levels], levels, strict=False)
    return [f"h{b} after h{a}" for a, b in steps if b > a + 1] + ["h1"] * (levels.count(1) - 1)


@pytest.fixture(scope="module")
def results():
    return pictures.every_result(ODD)


@pytest.fixture(scope="module")
def pages(results) -> dict[str, str]:
    """Each kind of page by its name; every picture is drawn once."""
    with pytest.MonkeyPatch.context() as patch, pictures.sketched():
        drawn = {id(result): chart_of(result) for result in results.values()}
        patch.setattr(html, "chart_of", lambda result: drawn[id(result)])
        return pages_of(results)


def pages_of(results) -> dict[str, str]:
    every = list(results.values())
    made = {"results": results_page(ODD, ODD, every), "transparency": results["report"].to_html()}
    made |= {f"notebook: {name}": result._repr_html_() for name, result in results.items() if name in NOTEBOOK}
    attribution = results["attribution"]
    made["highlight"] = Highlight(attribution, ((ODD, attribution.pushes()[0]), (ODD, None)), ODD).html
    made["whole report"] = report_of(results)
    audited = audit()
    made["audit"] = audit_page(audited, audit_pictures(audited))
    return made


NOTEBOOK = ("dots", "marginals", "influence", "report", "attribution", "clusters")


def report_of(results) -> str:
    """A report of results with odd names."""
    kinds = "performance", "importance", "curve", "dots", "interactions", "influence", "clusters", "stand-in"
    left_out, statement = (ODD,), {"facts": [(ODD, ODD)]}
    return Report(ODD, tuple(results[name] for name in kinds), left_out, 0, statement=statement).to_html()


def audit() -> ProjectAudit:
    claim = dpx.Budget(1.0).cost(epsilon=1)
    attack = Attack(ODD, ODD, 0.5, ((0, 0), (1, 1)), (Point("right", 0.1, 0.2, 0.1, 0.3, 0.3, 0.2, 0.4, 0.9),))
    runs = {"confidence": 0.95, "trials": 100, "shadows": 100, "failures": 0, "constant": False, "needed": 9}
    settings = {"claim": claim, "gaussian": False, "delta": 0.0, **runs}
    member = Membership(attacks=(attack,), frozen=False, **settings)
    guesses = {"values": (ODD, "b"), "guesses": ((50, 50), (50, 50)), "low": 0.4, "high": 0.6, "allowed": 0.7}
    hidden = TableReconstruction(relation=Relation.REPLACE_ONE, how=ODD, **guesses, **settings)
    gain = Gain(50, 0.7, 0.5, 0.1, 0.3)
    feature = FeatureAttack(ODD, "number", gain, True, 0.1, 0.2, None, None)
    exact = Reconstruction(ODD, 0.1, 0.95, 0, 50, (feature,), (gain,), None, None, False)
    texts = dict.fromkeys(("release", "form", "part", "law", "measure"), ODD)
    found = {"bound": 0.5, "refuted": False, "bound with defect": 1.1, "defect caught": True, "power": 0.9}
    return ProjectAudit(
        ODD, ODD, 100, 50, 20, Neighbours(Relation.REPLACE_ONE), dpx.Budget(1.0), (1.0,), 100, 0.95,
        (Outcome(ODD, 1.0, ODD, 0.5, member),), (Outcome(ODD, 1.0, ODD, 0.5, hidden),),
        (Explained("exact", None, exact),), ({**texts, "price": 1.0, "attained": 0.5, "claim": 1.0, **found},), (ODD,),
    )  # fmt: skip


def test_markup_in_a_name_stays_text_on_every_kind_of_page(pages):
    for name, page in pages.items():
        assert intruders(page) == [], name
        assert "<script>alert(1)</script>" in Reader(page).text, f"{name} does not show the name"


def test_the_check_sees_a_name_that_was_not_escaped():
    assert intruders(f"<p>{ODD}</p>") == ["script", "img", "src", "onerror"]
    assert intruders(f'<p title="{ODD}">') == ["img", "src", "onerror"]
    words = {"words": [(Markup(ODD), "", "")], "between": "", "note": "", "colour": ""}
    assert intruders(fill("highlight.html", **words)) == ["script", "img", "src", "onerror"]


def test_headings_are_in_order(pages):
    for name, page in pages.items():
        assert misplaced_headings(page) == [], name
    assert misplaced_headings("<h1>a</h1><h3>b</h3><h1>c</h1>") == ["h3 after h1", "h1"]


def test_pages_have_a_language_a_viewport_and_a_guarantee_at_the_end(pages, results):
    for name in ("results", "transparency", "whole report", "audit"):
        page = pages[name]
        assert page.startswith('<!doctype html>\n<html lang="en">'), name
        assert '<meta name="viewport" content="width=device-width' in page, name
        foot = Reader(page[page.index("<footer>") :]).text
        assert ("Not private" if name == "audit" else "DP: ") in foot, name
    assert Reader(pages["results"]).text.count(results["curve"].receipt.short_guarantee) >= 1


IMAGE = re.compile(r"<(?:svg|img)\b(?![^>]*aria-hidden)[^>]*>")


def undescribed(page: str) -> list[str]:
    return [tag for tag in IMAGE.findall(page) if not re.search(r'(?:aria-label|alt)="[^"]{12,}"', tag)]


def test_every_picture_on_a_page_is_described(pages, results):
    assert len(IMAGE.findall(pages["results"])) == len(results)
    for name, page in pages.items():
        assert undescribed(page) == [], name
        assert IMAGE.search(page) or name == "highlight"
    for result in results.values():
        assert "95% interval" in described(result)
    assert undescribed('<p><svg width="3">') == ['<svg width="3">']


def test_a_card_leaves_the_notebook_around_it_as_it_is(pages):
    style = re.search("<style>(.*?)</style>", pages["notebook: dots"], re.DOTALL)[1]
    rules = re.sub(r"@media[^{]*\{", "", style)
    selectors = [one.strip() for rule in re.findall(r"([^{}]+)\{", rules) for one in rule.split(",")]
    assert len(selectors) > 40
    assert [one for one in selectors if not re.match(r"(body)?\.dpx\b", one)] == []


def test_a_value_that_a_page_needs_and_does_not_get_is_an_error():
    with pytest.raises(UndefinedError):
        fill("results.html", title="t", lead="l", results=[])


# Colours --------------------------------------------------------------------------------------------------------------

TEXT_ON = [("ink", "ground"), ("ink", "paper"), ("ink", "track"), ("soft", "ground"), ("soft", "paper")]
TEXT_ON += [("up", "paper"), ("accent", "paper")]


def contrast(one: str, two: str) -> float:
    """WCAG 2: between 1 and 21."""

    def luminance(colour: str) -> float:
        digits = colour[1:] if len(colour) == 7 else "".join(2 * c for c in colour[1:])
        parts = [int(digits[i : i + 2], 16) / 255 for i in (0, 2, 4)]
        linear = [p / 12.92 if p <= 0.04045 else ((p + 0.055) / 1.055) ** 2.4 for p in parts]
        return 0.2126 * linear[0] + 0.7152 * linear[1] + 0.0722 * linear[2]

    low, high = sorted((luminance(one), luminance(two)))
    return (high + 0.05) / (low + 0.05)


def test_text_can_be_read_in_the_light_in_the_dark_and_on_paper():
    style = (PACKAGE / "render/templates/style.css").read_text(encoding="utf-8")
    starts = [style.index("--ink", style.index(words)) for words in (".dpx", "dark)", "@media print")]
    light, dark, paper = (dict(re.findall(r"--(\w+): (#\w+)", style[at : style.index("}", at)])) for at in starts)
    for look in (light, light | dark, light | paper):
        assert {pair: contrast(look[pair[0]], look[pair[1]]) >= 4.5 for pair in TEXT_ON} == dict.fromkeys(TEXT_ON, True)
    assert contrast("#000", "#ffffff") == pytest.approx(21)
    assert contrast("#9aa7b2", "#fff") < 4.5


# Files ----------------------------------------------------------------------------------------------------------------


def test_every_file_of_the_package_is_shipped():
    settings = tomllib.loads((PACKAGE.parents[1] / "pyproject.toml").read_text(encoding="utf-8"))
    patterns = settings["tool"]["setuptools"]["package-data"]["dpexplain"]
    shipped = {path for pattern in patterns for path in PACKAGE.glob(pattern)}
    others = {p for p in PACKAGE.rglob("*") if p.is_file() and p.suffix != ".py" and "__pycache__" not in p.parts}
    assert others == shipped
    assert len(list(PACKAGE.glob("render/templates/*.html"))) >= 6


NAMES = "a|b|body|code|details|div|h[1-6]|head|html|i|img|li|p|small|span|style|summary|table|td|th|tr|ul"
TAG = re.compile(rf"</?(?:{NAMES})\b[^<]*>")


def tags_in(source: str) -> list[str]:
    return [n.value for n in ast.walk(ast.parse(source)) if isinstance(n, ast.Constant) and TAG.search(str(n.value))]


def test_python_files_write_no_tags():
    assert {p.name: tags for p in PACKAGE.rglob("*.py") if (tags := tags_in(p.read_text(encoding="utf-8")))} == {}
    assert tags_in("f'<td>{x}</td>'") != []
    files = [p for p in PACKAGE.rglob("*") if p.suffix in (".py", ".html")]
    marked = [p.name for p in files if re.search(r"Markup\(|\| *safe\b", p.read_text(encoding="utf-8"))]
    assert marked == ["html.py"]


def test_the_template_library_is_loaded_for_pages_only():
    """Inside functions; that starting loads none of it is in test_start.py."""
    at_once = [
        path.name
        for path in PACKAGE.rglob("*.py")
        for node in ast.parse(path.read_text(encoding="utf-8")).body
        if isinstance(node, ast.Import | ast.ImportFrom) and "jinja2" in ast.unparse(node)
    ]
    assert at_once == []
