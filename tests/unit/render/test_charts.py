"""Charts of pages: what their markup holds, that names stay text in it, and that a page allows only what is its own."""

from __future__ import annotations

import base64
import hashlib
import itertools
import json
import re
import warnings
from html import unescape
from xml.etree import ElementTree as Xml

import matplotlib
import numpy as np
import pytest

import dpexplain as dpx
from dpexplain.render.charts import Chart, chart_of, svg_text
from dpexplain.render.html import page_policy, results_page, static
from dpexplain.render.marks import NOISE, NOTHING, in_words, mark, marks_of
from dpexplain.render.picture import new_picture

matplotlib.use("Agg")
ODD = "<script>alert(1)</script>\"'><img src=x onerror=alert(2)> $x$"


@pytest.fixture(scope="module")
def curves(make_few):
    return make_few("age"), make_few("town" + ODD)


@pytest.fixture(scope="module")
def make_few():
    """A curve of a small table, by its feature."""
    import pandas as pd

    town = "town" + ODD
    domain = dpx.Domain({"age": dpx.Numeric(20, 30, integer=True), town: dpx.Categorical(["a" + ODD, "b"])})
    rows = pd.DataFrame({"age": np.arange(200) % 11 + 20, town: ["b"] * 200})

    def made(feature):
        table = dpx.PrivateTable(
            rows,
            domain=domain,
            budget=dpx.Budget(10.0),
            relation="replace-one",
            ledger="sqlite:///:memory:",
            name="few",
        )
        model = dpx.Model(lambda some: some["age"].to_numpy() / 30, output=(0, 1), name="m")
        return dpx.partial_dependence(table, model, feature, epsilon=5, rug=False)

    return made


@pytest.fixture(scope="module")
def charts(curves) -> list[Chart]:
    return [chart_of(curve) for curve in curves]


def marks_in(chart: Chart) -> list[list]:
    return json.loads(unescape(re.search(r'data-marks="([^"]*)"', chart.svg)[1]))


def test_each_point_has_its_place_its_value_and_its_interval(charts, curves):
    for chart, curve in zip(charts, curves, strict=True):
        marks, (low, high) = marks_in(chart), curve.interval()
        assert len(marks) == len(curve.values)
        _, _, width, height = map(float, re.search(r'viewBox="([^"]*)"', chart.svg)[1].split())
        for words, value, a, b in zip(marks, curve.values, low, high, strict=True):
            assert all(0 <= at <= size for at, size in zip(words[:6], (width, height) * 3, strict=True))
            assert f"{value:.4g}" in words[7]
            assert f"{a:.4g} to {b:.4g}" in words[8]
    age = marks_in(charts[0])
    assert [words[6] for words in age] == [f"age {year}" for year in range(20, 31)]
    assert all(a[0] < b[0] for a, b in itertools.pairwise(age))  # from left to right
    assert all(words[5] <= words[1] <= words[3] for words in age)  # the high end above, where y is smaller


def test_marks_stand_where_the_points_are_drawn():
    figure = new_picture((4, 3))
    ax = figure.add_subplot()
    ax.plot([1, 2], [10, 30], "o", gid="is-value")
    mark(ax, [1, 2], [10, 30], [["one"], ["two"]])
    svg = Xml.fromstring(svg_text(figure))
    drawn = [(float(e.get("x")), float(e.get("y"))) for e in svg.iterfind(".//*[@class='value']//{*}use")]
    placed = [tuple(words[:2]) for words in json.loads(svg.get("data-marks"))]
    assert len(drawn) == 2
    np.testing.assert_allclose(drawn, placed, atol=0.06)


def test_marks_without_a_place_are_left_out_and_too_few_words_are_an_error():
    ax = new_picture((3, 2)).add_subplot()
    mark(ax, [1, np.nan], [1, 1], [["seen"], ["nowhere"]])
    assert [words for marks in marks_of(ax.figure) for words in marks.words] == [["seen"]]
    with pytest.raises(ValueError, match="1 texts for 2 points"):
        mark(ax, [1, 2], [1, 2], [["one"]])


def test_what_is_not_determined_has_no_value():
    said = in_words(["a", "b"], [0.5, 0.5], ([0.4, 0.0], [0.6, 1.0]), known=[True, False])
    assert said == [["a", "value 0.5", f"{NOISE}: 0.4 to 0.6"], ["b", NOTHING]]


def test_names_stay_text_in_the_drawing_and_in_its_words(charts, curves):
    chart = charts[1]
    tags = {element.tag.rpartition("}")[2] for element in Xml.fromstring(chart.svg).iter()}
    assert tags <= {"svg", "g", "path", "use", "text", "defs", "clipPath", "rect", "pattern", "image", "title"}
    assert "<script" not in chart.svg
    assert "<img" not in chart.svg
    assert any(ODD in words[6] for words in marks_in(chart))
    assert ODD in chart.title
    assert "<script>alert" not in curves[1]._repr_html_()


def test_letters_that_no_drawing_can_have_are_replaced():
    figure = new_picture((3, 2))
    figure.add_subplot().set_title("a\x01b\ufffe\tc", loc="left")
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # that the font lacks them
        drawn = svg_text(figure, "a\x01b")
    assert "a\N{REPLACEMENT CHARACTER}b" in "".join(Xml.fromstring(drawn).itertext())


def test_a_drawing_has_no_style_and_no_name_that_another_one_has(charts):
    for chart in charts:
        assert " style=" not in chart.svg
        assert "<style" not in chart.svg
        assert not re.search(r'(?:href|src)="(?!#|data:)', chart.svg)
    ids = [set(re.findall(r'id="([^"]+)"', chart.svg)) for chart in charts]
    assert ids[0]
    assert ids[0] & ids[1] == set()
    for chart, own in zip(charts, ids, strict=True):
        assert set(re.findall(r'(?:url\(|href=")#([^")]+)', chart.svg)) == own


def test_markers_have_their_colours_where_rules_of_a_page_reach_them(charts):
    for chart in charts:
        root = Xml.fromstring(chart.svg)
        assert [path.attrib for path in root.iterfind(".//{*}defs/{*}path") if "stroke" in path.attrib] == []
        assert all("stroke" in use.attrib or "fill" in use.attrib for use in root.iterfind(".//{*}use"))


def test_drawings_are_small_and_the_same_every_time(charts, curves):
    assert [chart_of(curve) for curve in curves] == charts
    assert all(len(chart.svg) < 25_000 for chart in charts)


def test_title_notes_and_guarantee_stand_outside_of_the_drawing(charts, curves):
    for chart, curve in zip(charts, curves, strict=True):
        drawn = " ".join("".join(Xml.fromstring(chart.svg).itertext()).split())
        assert chart.title == " ".join(curve.title.split())
        assert "Differentially private" not in drawn
        assert "likely values, 95%" in drawn
        assert 'role="img"' in chart.svg
        assert 'class="noise"' in chart.svg


def test_a_page_allows_its_own_style_and_script_and_no_other(curves):
    page = results_page("t", "l", curves)
    policy = unescape(re.search(r'http-equiv="Content-Security-Policy" content="([^"]*)"', page)[1])
    assert policy == page_policy()
    for tag, rule in (("style", "style-src"), ("script", "script-src")):
        (inside,) = re.findall(rf"<{tag}>(.*?)</{tag}>", page, re.DOTALL)
        digest = base64.b64encode(hashlib.sha256(inside.encode()).digest()).decode()
        assert f"{rule} 'sha256-{digest}'" in policy
    assert "default-src 'none'" in policy
    assert "unsafe" not in policy
    assert " style=" not in page


def test_the_script_can_stand_in_a_page_and_writes_no_markup():
    script = static("charts.js")
    assert "</" not in script
    assert not re.search(r"innerHTML|outerHTML|insertAdjacent|eval\(|\bfetch\(|https?://(?!www\.w3)", script)
    assert script.isascii()


def test_noise_and_what_it_leaves_out_are_told_apart_in_word_and_look(curves):
    page = results_page("t", "l", curves[:1])
    looks = page[page.index('<ul class="looks') :]
    looks = looks[: looks.index("</ul>")]
    assert "<b>privacy noise</b>: in the 95% interval" in looks
    assert "<b>sampling</b>: left out" in looks
    style = static("style.css")
    assert "stroke-dasharray" in re.search(r"\.left-out rect \{([^}]*)\}", style)[1]  # outlined, the other one filled
    assert "dash" not in re.search(r"\.noise rect \{([^}]*)\}", style)[1]


def test_numbers_of_a_table_carry_all_their_digits(curves):
    page = results_page("t", "l", curves[:1])
    value = float(curves[0].values[3])
    assert f'data-value="{value!r}">{value:.4g}<' in page
