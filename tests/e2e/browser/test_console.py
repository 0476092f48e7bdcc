"""The console in a browser, from signing in to verification, with markup in every name that people give."""

from __future__ import annotations

import json
import re
from contextlib import contextmanager
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
import yaml

import services

pytestmark = pytest.mark.long
ODD = "<script>alert(1)</script>\"'><img src=x onerror=alert(2)>"
AGE, SEX, TABLE = f"age {ODD}", f"sex {ODD}", "people <img src=x onerror=alert(3)> & more"
KINDS = [f"Female {ODD}", "Male"]
MODEL = f"""\
def score(rows):
    return (rows[{AGE!r}] - 20) / 20 + 0.25 * (rows[{SEX!r}] == "Male").to_numpy()
"""


def odd_project(folder: Path, *, signed: bool = True) -> Path:
    """A project whose table, columns, categories and model have names with markup."""
    path = services.write_project(folder, name="odd", service="slot = 0.2\nrate = 1000000")
    rows = pd.read_parquet(folder / "people.parquet")
    rows = pd.DataFrame({AGE: rows["age"], SEX: np.where(rows["sex"] == "Male", "Male", KINDS[0])})
    rows.to_parquet(folder / "people.parquet")
    age = {"type": "numeric", "low": 20, "high": 29 if signed else "???", "integer": True}
    columns = {AGE: age, SEX: {"type": "categorical", "values": KINDS}}
    document = {"dpexplain_domain": 1, "reviewed_by": "Ada" if signed else None, "peeked": False, "columns": columns}
    (folder / "domain.yaml").write_text(yaml.safe_dump(document))
    (folder / "model_of_odd.py").write_text(MODEL)
    text = path.read_text().replace('name = "odd"', f"name = {json.dumps(TABLE)}")
    path.write_text(text.replace('name = "score"', f"name = {json.dumps('score ' + ODD)}"))
    return path


@pytest.fixture(scope="module")
def server(tmp_path_factory):
    with services.running(odd_project(tmp_path_factory.mktemp("odd"))) as found:
        found.member("ana", limit=4.0)
        found.member("vera", "viewer")
        yield found


@pytest.fixture
def signed_in(opened, server):
    """A function that opens the console for somebody."""

    def opens(token, **how):
        page = opened(f"{server.url}/", **how)
        page.set_default_timeout(60_000)
        page.get_by_label("Token").fill(token)
        page.get_by_role("button", name="sign in").click()
        page.locator("nav.top").wait_for()
        return page

    return opens


@pytest.fixture(scope="module")
def sketch(server) -> str:
    """A released sketch, for pages of persons."""
    job = server.explained(server.tokens["ana"], {"request": "local-sketch"}, epsilon=1.0, table=quoted(TABLE))
    return job["results"][0]


def quoted(name: str) -> str:
    from urllib.parse import quote

    return quote(name, safe="")


def asks(page, server, title="Partial dependence"):
    """Go to a form from the first page."""
    page.goto(f"{server.url}/console/")
    page.get_by_role("link", name=TABLE).click()
    page.get_by_role("link", name="ask a question").click()
    page.get_by_role("link", name=title, exact=True).click()


def filled(area):
    """Wait until a file was read into a field."""
    for _ in range(100):
        if len(area.input_value()) > 10:
            return
        area.page.wait_for_timeout(50)
    raise AssertionError("the file was not read")


def left(page) -> float:
    return float(re.search(r"epsilon ([\d.]+)", page.locator("p", has_text="Left").first.inner_text())[1])


@contextmanager
def refused(opened, *texts):
    """What a browser says in its console of answers that are refusals is expected here."""
    yield
    assert opened.wrong != []
    assert all(any(text in said for text in texts) for said in opened.wrong), opened.wrong
    opened.wrong.clear()


def test_sign_in_and_out(opened, signed_in, server):
    page = opened(f"{server.url}/")
    assert page.url.endswith("/console/sign-in")
    with refused(opened, "401"):
        page.get_by_label("Token").fill("dpx_no_such")
        page.get_by_role("button", name="sign in").click()
        assert "not valid" in page.get_by_role("alert").inner_text()
    page = signed_in(server.tokens["ana"])
    (cookie,) = page.context.cookies()
    assert cookie["httpOnly"]
    assert cookie["sameSite"] == "Strict"
    assert server.tokens["ana"] not in json.dumps(page.context.cookies()) + page.url + page.content()
    page.get_by_role("button", name="sign out").click()
    assert page.url.endswith("/console/sign-in")
    page.goto(f"{server.url}/console/jobs")
    assert page.url.endswith("/console/sign-in")


def test_plan_slider_request_finish_and_a_chart_to_point_at(signed_in, server):
    page = signed_in(server.tokens["ana"])
    asks(page, server)
    before = left(page)
    page.get_by_role("checkbox", name=AGE).check()
    error = page.locator(".forecast .error")
    first = float(error.inner_text())
    slider = page.get_by_role("slider", name="Epsilon")
    slider.fill("300")  # to the left: cheaper
    error.filter(has_not_text=str(first)).wait_for()
    assert float(error.inner_text()) > first
    assert float(page.get_by_role("spinbutton", name="Epsilon").input_value()) < before / 4
    page.get_by_role("spinbutton", name="Epsilon").fill("0.5")
    page.locator(".forecast", has_text="For epsilon 0.5 ").wait_for()
    page.goto(page.url)
    assert left(page) == before  # a forecast spends nothing
    page.get_by_role("checkbox", name=AGE).check()
    page.get_by_role("spinbutton", name="Epsilon").fill("0.5")
    page.get_by_role("button", name="ask, and spend this").click()
    chart = page.locator("svg[data-marks]")
    chart.wait_for()
    assert "It is answered" in page.content()
    mark = json.loads(chart.get_attribute("data-marks"))[2]
    box, view = chart.bounding_box(), [float(v) for v in chart.get_attribute("viewBox").split()]
    page.mouse.move(box["x"] + mark[0] * box["width"] / view[2], box["y"] + mark[1] * box["width"] / view[2])
    assert page.locator(".tip b").inner_text() == mark[6] == f"{AGE} 22"
    page.get_by_role("link", name="to the table").click()
    assert left(page) < before
    page.locator(".low svg[data-marks]").wait_for()  # the burn-down
    page.locator(".later h3", has_text="Partial dependence of age").first.wait_for()


NAMED = """() => { const it = document.activeElement;
  const label = it.labels && it.labels.length ? it.labels[0].innerText : "";
  return it.getAttribute("aria-label") || label || it.innerText || ""; }"""


def tab_to(page, name: str, kind: str = "") -> None:
    """Press Tab until something of this name has the focus, which has to be seen."""
    for _ in range(80):
        page.keyboard.press("Tab")
        at = page.locator(":focus")
        if at.count() and name in page.evaluate(NAMED) and at.evaluate("it => it.tagName") == (kind or "A"):
            assert at.evaluate("it => getComputedStyle(it).outlineStyle") == "solid", f"{name}: the focus is not seen"
            return
    raise AssertionError(f"{name} is not reached by Tab")


def test_from_the_door_to_an_answer_by_keyboard_alone(opened, server):
    page = opened(f"{server.url}/")
    page.set_default_timeout(60_000)
    tab_to(page, "Token", "INPUT")
    page.keyboard.type(server.tokens["ana"])
    page.keyboard.press("Enter")
    page.locator("nav.top").wait_for()
    for link in (TABLE, "ask a question", "Partial dependence"):
        tab_to(page, link)
        page.keyboard.press("Enter")
        page.wait_for_load_state()
    tab_to(page, SEX, "INPUT")
    page.keyboard.press("Space")
    error = page.locator(".forecast .error")
    first = error.inner_text()
    tab_to(page, "Epsilon, from", "INPUT")
    page.keyboard.press("Home")  # the least that can be spent
    for _ in range(5):
        page.keyboard.press("PageUp")
    error.filter(has_not_text=first).wait_for()
    tab_to(page, "ask, and spend this", "BUTTON")
    page.keyboard.press("Enter")
    page.locator("svg[data-marks]").wait_for()
    tab_to(page, "Partial dependence of", "svg")
    page.keyboard.press("ArrowRight")
    assert page.locator(".tip:visible b").inner_text() == f"{SEX} Male"
    tab_to(page, "sign out", "BUTTON")
    page.keyboard.press("Enter")
    page.get_by_label("Token").wait_for()


def test_no_page_of_another_site_shows_the_console_in_a_frame(opened, server):
    other = "data:text/html,other"
    page = opened(f"data:text/html,<iframe src='{server.url}/console/sign-in'></iframe><iframe src='{other}'></iframe>")
    page.wait_for_load_state("networkidle")
    assert [frame.url for frame in page.frames[1:]] == ["chrome-error://chromewebdata/", other]


def test_a_table_on_paper(signed_in, server, sketch):
    page = signed_in(server.tokens["ana"], scheme="dark")
    page.goto(f"{server.url}/console/tables/{quoted(TABLE)}", wait_until="networkidle")
    page.emulate_media(media="print")
    assert page.evaluate("getComputedStyle(document.body).backgroundColor") == "rgb(255, 255, 255)"
    assert page.locator("nav:visible, button:visible, .pick:visible").count() == 0
    assert page.locator("svg[data-marks]:visible").count() > 0


def test_refusal_when_the_budget_is_exhausted(signed_in, server):
    token = server.member("poor", limit=0.1)
    page = signed_in(token)
    asks(page, server)
    page.get_by_role("checkbox", name=SEX).check()
    page.locator("form.ask").evaluate("form => { form.noValidate = true; }")
    page.get_by_role("spinbutton", name="Epsilon").fill("3")
    page.get_by_role("button", name="ask, and spend this").click()
    alert = page.get_by_role("alert")
    alert.wait_for()
    assert "Nothing was spent" in alert.inner_text()
    page.goto(f"{server.url}/console/tables/{quoted(TABLE)}")
    assert left(page) == pytest.approx(0.1, rel=0.01)
    assert "Nothing to you yet" in page.content()


def test_a_set_of_questions_for_one_epsilon_with_its_division(signed_in, server):
    page = signed_in(server.tokens["ana"])
    for name in (AGE, SEX):
        asks(page, server)
        page.get_by_role("checkbox", name=name).check()
        page.get_by_role("button", name="add to a set of questions").click()
    assert page.locator("ol > li").count() == 2
    page.locator(".forecast tbody tr").nth(1).wait_for()
    shares = page.locator(".forecast tbody tr td:nth-child(2)").all_inner_texts()
    assert sum(float(share.split()[0]) for share in shares) == pytest.approx(100, abs=1.5)
    page.get_by_role("spinbutton", name="Epsilon").fill("0.6")
    page.locator(".forecast", has_text="For epsilon 0.6 ").wait_for()
    page.get_by_role("button", name="ask all, and spend this").click()
    page.locator("svg[data-marks]").nth(1).wait_for()


def test_releases_side_by_side(signed_in, server, sketch):
    page = signed_in(server.tokens["ana"])
    page.goto(f"{server.url}/console/tables/{quoted(TABLE)}")
    boxes = page.get_by_role("checkbox", name="side by side")
    boxes.nth(0).check()
    boxes.nth(1).check()
    page.get_by_role("button", name="put the chosen ones side by side").click()
    page.get_by_role("heading", name="Side by side").wait_for()
    assert page.locator("svg[data-marks]").count() == 2


def test_a_typed_in_person_is_explained_free(signed_in, server, sketch):
    page = signed_in(server.tokens["ana"])
    page.goto(f"{server.url}/console/tables/{quoted(TABLE)}")
    before = left(page)
    page.goto(f"{server.url}/console/releases/{sketch}")
    page.get_by_role("link", name="explain a person from it, free").click()
    page.get_by_label(AGE).fill("25")
    page.get_by_label(SEX).select_option("Male")
    page.get_by_role("button", name="explain, free").click()
    assert float(page.locator(".prediction").inner_text()) == pytest.approx(0.5)
    assert page.locator("svg[data-marks]").count() == 1
    assert page.url.endswith("/person"), "nothing typed in stands in the address"
    page.get_by_label("What would have to be different").fill("0.7")
    page.get_by_role("button", name="explain, free").click()
    page.locator(".others li", has_text="the model would say").first.wait_for()
    page.goto(f"{server.url}/console/tables/{quoted(TABLE)}")
    assert left(page) == before


def test_limits_of_roles(opened, signed_in, server, sketch):
    page = signed_in(server.tokens["vera"])
    page.goto(f"{server.url}/console/tables/{quoted(TABLE)}")
    assert page.get_by_role("link", name="ask a question").count() == 0
    with refused(opened, "403"):
        page.goto(f"{server.url}/console/tables/{quoted(TABLE)}/ask/partial-dependence")
        assert "this page is for a curator or analyst" in page.get_by_role("alert").inner_text()
        page.goto(f"{server.url}/console/curator")
        assert "this page is for a curator" in page.get_by_role("alert").inner_text()
    other = signed_in(server.member("otto", limit=1.0))
    with refused(opened, "404"):
        other.goto(f"{server.url}/console/releases/{sketch}")  # of somebody else
        assert "there is no such release" in other.get_by_role("alert").inner_text()
    person = signed_in(server.member("pia", "person", release=sketch))
    assert person.url.endswith("/console/report")
    assert person.locator("svg[data-marks]").count() == 1
    with refused(opened, "403"):
        person.goto(f"{server.url}/console/tables/{quoted(TABLE)}")


def test_the_curator_gives_tokens_and_limits_and_takes_them_back(opened, signed_in, server):
    page = signed_in(server.curator)
    page.goto(f"{server.url}/console/curator")
    page.get_by_text("a new token").click()
    page.get_by_label("Name", exact=True).fill(f"eva {ODD}")
    page.get_by_role("button", name="make the token").click()
    token = page.locator("code.token").inner_text()
    page.get_by_role("textbox", name="Analyst").fill(f"eva {ODD}")
    page.get_by_label("Limit, epsilon").fill("0.5")
    page.get_by_role("button", name="set the limit").click()
    row = page.locator("tr", has_text=f"eva {ODD}").filter(has_text="0.5")
    assert row.count() == 1
    eva = signed_in(token)
    eva.goto(f"{server.url}/console/tables/{quoted(TABLE)}")
    assert left(eva) == pytest.approx(0.5, rel=0.01)
    page.get_by_role("button", name=f"end the token of eva {ODD}").click()
    page.get_by_text("ended").first.wait_for()
    eva.goto(f"{server.url}/console/")
    assert eva.url.endswith("/console/sign-in")
    page.get_by_role("textbox", name="Analyst").fill("ana")
    page.get_by_label("Limit, epsilon").fill("1000")
    with refused(opened, "422"):
        page.get_by_role("button", name="set the limit").click()
        assert "does not fit" in page.get_by_role("alert").inner_text()


def test_domain_review_column_by_column_and_signing(opened, tmp_path, browser):
    with services.running(odd_project(tmp_path, signed=False)) as server:
        page = opened(f"{server.url}/")
        page.get_by_label("Token").fill(server.curator)
        page.get_by_role("button", name="sign in").click()
        page.get_by_role("link", name=TABLE).click()
        page.get_by_role("link", name="review the domain").click()
        assert "something is still open" in page.locator("legend").first.inner_text()
        page.get_by_label("Reviewed by").fill("Ada")
        for box in page.get_by_role("checkbox").all():
            box.check()
        with refused(opened, "422"):
            page.get_by_role("button", name="sign the domain").click()
            assert "still open" in page.get_by_role("alert").inner_text()
        page.get_by_label("highest value").fill("29")
        page.get_by_role("button", name="sign the domain").click()
        page.get_by_role("heading", name="The budget").wait_for()
        signed = yaml.safe_load((tmp_path / "domain.yaml").read_text())
        assert signed["columns"][AGE]["high"] == 29
        assert signed["columns"][SEX]["values"] == KINDS
        assert signed["reviewed_by"] == "Ada"


def test_verification_of_the_chain_and_of_a_published_result(opened, signed_in, server, sketch, tmp_path):
    page = signed_in(server.tokens["vera"])
    page.goto(f"{server.url}/console/tables/{quoted(TABLE)}/verify")
    anchor = page.locator("code.anchor").inner_text()
    page.get_by_label("An anchor that was kept").fill(anchor)
    page.get_by_role("button", name="verify the chain").click()
    assert "The chain is whole" in page.get_by_role("status").inner_text()
    seq, _, digest = anchor.partition(":")
    page.get_by_label("An anchor that was kept").fill(f"{seq}:{'0' * len(digest)}")
    with refused(opened, "409"):
        page.get_by_role("button", name="verify the chain").click()
        page.get_by_role("alert").wait_for()
    document = server.good("GET", f"/releases/{sketch}")
    for name, change in (("good", {}), ("bad", {"guarantee": "none"})):
        (tmp_path / f"{name}.json").write_text(json.dumps({**document, **change}))
    page.get_by_label("The file").set_input_files(tmp_path / "good.json")
    filled(page.locator("textarea"))
    page.get_by_role("button", name="verify this result").click()
    assert "Genuine" in page.get_by_role("status").inner_text()
    page.get_by_label("The file").set_input_files(tmp_path / "bad.json")
    filled(page.locator("textarea"))
    with refused(opened, "409"):
        page.get_by_role("button", name="verify this result").click()
        page.get_by_role("alert").wait_for()


@pytest.fixture(scope="module")
def asked(server) -> dict[str, dict]:
    """A job that was answered, and one that was refused."""
    curve = {"request": "partial-dependence", "feature": AGE}
    found = {
        name: server.explained(server.tokens["ana"], curve, epsilon=epsilon, table=quoted(TABLE))
        for name, epsilon in (("done", 0.1), ("refused", 6.0))
    }
    assert all(job["state"] == name for name, job in found.items())
    return found


def every_page(sketch, asked) -> dict[str, tuple[str, str]]:
    """(who, path) of each page by its name."""
    table, done = f"/tables/{quoted(TABLE)}", asked["done"]
    return {
        "sign in": ("nobody", "/sign-in"), "tables": ("ana", "/"), "table": ("ana", table),
        "choose": ("ana", f"{table}/ask"), "ask": ("ana", f"{table}/ask/partial-dependence"),
        "set": ("ana", f"{table}/set"), "jobs": ("ana", "/jobs"), "job": ("ana", f"/jobs/{done['id']}"),
        "refused job": ("ana", f"/jobs/{asked['refused']['id']}"), "release": ("ana", f"/releases/{sketch}"),
        "side by side": ("ana", f"/compare?release={sketch}&release={done['results'][0]}"),
        "person": ("ana", f"/releases/{sketch}/person"), "verify": ("vera", f"{table}/verify"),
        "curator": ("curator", "/curator"), "domain": ("curator", f"{table}/domain"), "refusal": ("ana", "/curator"),
        "report": ("pia", "/report"),
    }  # fmt: skip


EXPERT = ("table", "choose", "ask", "set", "job", "refused job", "release", "side by side", "person")


@pytest.fixture(scope="module")
def pia(server) -> str:
    """The token of a person, whose report was made."""
    about = {"request": "transparency-report", "row": {AGE: 25, SEX: "Male"}}
    made = server.explained(server.tokens["ana"], about, epsilon=0.4, table=quoted(TABLE))
    return server.member("pia of a report", "person", release=made["results"][0])


def sound(page, address, faults, name) -> str:
    """Open a page with everything on it unfolded, and look for faults; its heading."""
    page.goto(address, wait_until="networkidle")
    page.locator("details").evaluate_all("all => all.forEach(one => { one.open = true; })")
    assert faults(page) == [], name
    assert not page.evaluate("document.documentElement.scrollWidth > document.documentElement.clientWidth"), name
    assert page.locator("img").count() == 0, name
    return str(page.locator("h1").inner_text())


@pytest.mark.parametrize("scheme", ["light", "dark"])
@pytest.mark.parametrize("width", [1280, 390])
def test_no_serious_fault_on_any_page_and_nothing_to_move_sideways(
    opened, signed_in, server, sketch, asked, pia, faults, scheme, width
):
    how = {"size": {"width": width, "height": 900}, "scheme": scheme}
    pages = {"nobody": opened(f"{server.url}/console/sign-in", **how)}
    seen = {}
    tokens = {**server.tokens, "curator": server.curator, "pia": pia}
    for name, (who, path) in every_page(sketch, asked).items():
        if who not in pages:
            pages[who] = signed_in(tokens[who], **how)
        page = pages[who]
        seen[name] = sound(page, f"{server.url}/console{path}", faults, name)
        if name == "refused job":
            assert page.get_by_role("alert").count() == 1
    assert seen["refusal"] == "This did not go through"
    assert len(set(seen.values())) >= len(seen) - 2  # none is another: a release and its job may have one name
    with refused(opened, "403"):
        pass


@pytest.mark.parametrize("scheme", ["light", "dark"])
@pytest.mark.parametrize("width", [1280, 390])
def test_no_serious_fault_in_the_experts_view(opened, signed_in, server, sketch, asked, faults, scheme, width):
    page = signed_in(server.tokens["ana"], size={"width": width, "height": 900}, scheme=scheme)
    page.get_by_role("button", name="expert").click()
    page.get_by_role("button", name="plain").wait_for()
    pages = every_page(sketch, asked)
    for name in EXPERT:
        sound(page, f"{server.url}/console{pages[name][1]}", faults, name)
        if name == "release":
            assert "request and noise" in page.content()
        if name == "ask":
            page.get_by_role("checkbox", name=AGE).check()
            page.locator(".forecast tbody tr, .forecast p").first.wait_for()
            assert faults(page) == [], "a forecast"


@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_no_serious_fault_where_a_domain_waits_for_its_signature(opened, faults, tmp_path, scheme):
    with services.running(odd_project(tmp_path, signed=False)) as server:
        token = server.member("ana", limit=None)
        for size in ({"width": 1280, "height": 900}, {"width": 390, "height": 900}):
            for shown in (server.curator, token):
                page = opened(f"{server.url}/", size=size, scheme=scheme)
                page.get_by_label("Token").fill(shown)
                page.get_by_role("button", name="sign in").click()
                page.locator("nav.top").wait_for()
                assert sound(page, f"{server.url}/console/tables/{quoted(TABLE)}", faults, "waiting") == TABLE
                sound(page, f"{server.url}/console/", faults, "tables")
                if shown == server.curator:
                    sound(page, f"{server.url}/console/curator", faults, "curator")
