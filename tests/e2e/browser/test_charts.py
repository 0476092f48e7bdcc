"""Charts of a page in one file, in a browser: pointing, keys, numbers to copy, the dark, a phone, paper."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

import pictures
from dpexplain.render.html import results_page

pytestmark = pytest.mark.long
ODD = "<script>alert(1)</script>\"'><img src=x onerror=alert(2)>"
SHOWN = ("curve", "dots", "surface", "importance", "attribution", "marginals", "performance")
PHONE = {"width": 390, "height": 800}


@pytest.fixture(scope="session")
def results():
    return pictures.every_result(ODD)


@pytest.fixture(scope="session")
def address(results, tmp_path_factory) -> str:
    path = tmp_path_factory.mktemp("page") / "index.html"
    shown = [results[name] for name in SHOWN]
    path.write_text(results_page(f"Charts {ODD}", "Every chart.", shown), encoding="utf-8")
    return path.as_uri()


def marks(chart):
    return json.loads(chart.get_attribute("data-marks"))


def point_at(page, chart, mark):
    """Move the pointer to a point of a chart."""
    chart.scroll_into_view_if_needed()
    box = chart.bounding_box()
    left, top, width, _ = map(float, chart.get_attribute("viewBox").split())
    scale = box["width"] / width
    page.mouse.move(box["x"] + (mark[0] - left) * scale, box["y"] + (mark[1] - top) * scale)


def test_pointing_at_a_point_shows_its_value_and_its_interval(opened, address, results):
    page = opened(address)
    for number, name in enumerate(SHOWN[:5]):
        chart = page.locator("svg[data-marks]").nth(number)
        known = marks(chart)
        for mark in (known[0], known[-1]):
            point_at(page, chart, mark)
            tip = page.locator(".tip:visible")
            assert tip.count() == 1, name
            assert tip.locator("b").inner_text() == mark[6], name
            assert tip.locator("span").all_inner_texts() == mark[7:], name
    value = results["attribution"].pushes()[0].value
    assert f"{value:.4g}" in " ".join(marks(page.locator("svg[data-marks]").nth(4))[0][6:])
    page.mouse.move(1, 1)
    assert page.locator(".tip:visible").count() == 0


def test_one_tab_stop_for_each_chart_and_arrow_keys_between_points(opened, address):
    page = opened(address)
    first = page.locator("svg[data-marks]").first
    known = marks(first)
    page.keyboard.press("Tab")
    assert first.evaluate("chart => chart === document.activeElement")
    for key, place in (
        ("", 0),
        ("ArrowRight", 1),
        ("ArrowRight", 2),
        ("ArrowLeft", 1),
        ("End", len(known) - 1),
        ("Home", 0),
    ):
        if key:
            page.keyboard.press(key)
        assert page.locator(".tip:visible b").inner_text() == known[place][6]
        assert first.get_attribute("aria-valuetext").startswith("; ".join(known[place][6:]))
        assert first.get_attribute("aria-valuenow") == str(place + 1)
    page.keyboard.press("Escape")
    assert page.locator(".tip:visible").count() == 0
    page.keyboard.press("Tab")
    assert page.evaluate("document.activeElement.tagName") == "SUMMARY"  # the receipt below it


def test_numbers_are_a_click_away_and_can_be_copied(opened, address, results):
    page = opened(address)
    card = page.locator(".card").first
    card.get_by_text("numbers", exact=True).click()
    card.get_by_role("button", name="copy as CSV").first.click()
    card.get_by_role("button", name="copied").wait_for()
    lines = page.evaluate("navigator.clipboard.readText()").splitlines()
    frame = results["curve"].to_frame()
    assert len(lines) == len(frame) + 1
    assert [float(line.split(",")[1]) for line in lines[1:]] == frame.iloc[:, 1].tolist()
    assert lines[0].startswith('"' + pictures.AGE) or pictures.AGE in lines[0]


def test_a_text_that_a_spreadsheet_would_run_is_quoted(opened, address):
    page = opened(address)
    page.evaluate("document.querySelector('.numbers td').removeAttribute('data-value')")
    page.evaluate("document.querySelector('.numbers td').textContent = '=1+1'")
    card = page.locator(".card").first
    card.get_by_text("numbers", exact=True).click()
    card.get_by_role("button", name="copy as CSV").first.click()
    card.get_by_role("button", name="copied").wait_for()
    assert page.evaluate("navigator.clipboard.readText()").splitlines()[1].startswith("'=1+1,")


def test_names_with_scripts_stay_text_and_the_policy_runs_no_other_script(opened, address):
    page = opened(address)
    assert page.locator("h1").inner_text() == f"Charts {ODD}"
    assert page.locator("img").count() == 0
    assert opened.wrong == []
    page.evaluate(
        "const s = document.createElement('script'); s.textContent = 'window.ran = 1'; document.body.append(s)"
    )
    assert page.evaluate("window.ran") is None
    assert "Content Security Policy" in opened.wrong.pop()  # the check sees what a browser refuses


@pytest.mark.parametrize("scheme", ["light", "dark"])
@pytest.mark.parametrize("width", [1280, 390])
def test_no_serious_fault_and_nothing_to_move_sideways(opened, address, faults, scheme, width):
    page = opened(address, size={"width": width, "height": 900}, scheme=scheme)
    page.locator("details").evaluate_all("all => all.forEach(one => { one.open = true; })")
    assert faults(page) == []
    assert not page.evaluate("document.documentElement.scrollWidth > document.documentElement.clientWidth")
    heights = "all => all.filter(one => one.textContent.trim()).map(one => "
    heights += "parseFloat(getComputedStyle(one).fontSize) * Math.hypot(one.getCTM().a, one.getCTM().b))"
    assert min(page.locator(".plot:not(.broad) svg text").evaluate_all(heights)) > 8


def test_the_check_of_faults_sees_one(opened, address, faults):
    page = opened(address)
    page.evaluate("document.querySelector('main').append(new Image())")
    assert [fault.partition(":")[0] for fault in faults(page)] == ["image-alt"]


def test_paper_has_charts_and_no_buttons(opened, address, tmp_path):
    page = opened(address, size=PHONE, scheme="dark")
    page.locator("details").evaluate_all("all => all.forEach(one => { one.open = true; })")
    page.emulate_media(media="print")
    assert page.locator(".copy:visible").count() == 0
    assert page.locator("svg[data-marks]").first.is_visible()
    assert page.evaluate("getComputedStyle(document.body).backgroundColor") == "rgb(255, 255, 255)"
    page.pdf(path=tmp_path / "page.pdf", format="A4")
    assert Path(tmp_path / "page.pdf").read_bytes().startswith(b"%PDF")


# The report -----------------------------------------------------------------------------------------------------------


@pytest.fixture(scope="session")
def report_address(tmp_path_factory) -> str:
    """The page of the small demo."""
    from dpexplain import demo

    out = tmp_path_factory.mktemp("report")
    return Path(demo.run(out, quick=True, show=lambda *_: None)["page"]).as_uri()


@pytest.mark.parametrize("scheme", ["light", "dark"])
@pytest.mark.parametrize("width", [1200, 390])
def test_a_report_has_no_serious_fault_and_nothing_to_move_sideways(opened, report_address, faults, scheme, width):
    page = opened(report_address, size={"width": width, "height": 900}, scheme=scheme)
    page.locator("details").evaluate_all("all => all.forEach(one => { one.open = true; })")
    assert faults(page) == []
    assert not page.evaluate("document.documentElement.scrollWidth > document.documentElement.clientWidth")
    for link in page.locator("nav.contents a").all():
        assert page.locator(link.get_attribute("href")).count() == 1
    assert opened.wrong == []


def test_a_report_can_be_printed_from_a_phone_in_the_dark(opened, report_address, tmp_path):
    page = opened(report_address, size=PHONE, scheme="dark")
    page.emulate_media(media="print")
    assert page.locator(".copy:visible").count() == 0
    assert page.evaluate("getComputedStyle(document.body).backgroundColor") == "rgb(255, 255, 255)"
    page.pdf(path=tmp_path / "report.pdf", format="A4")
    assert (tmp_path / "report.pdf").read_bytes().startswith(b"%PDF")
