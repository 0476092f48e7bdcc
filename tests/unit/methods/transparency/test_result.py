"""What a transparency report says, draws and writes."""

from __future__ import annotations

import json
import re
from html import unescape

import matplotlib
import numpy as np
import pandas as pd
import pytest

import dpexplain as dpx
from dpexplain.core.domain import PublicRange
from dpexplain.methods.influence.person import Words, shown_value, span
from dpexplain.methods.transparency.release import transparency_report
from dpexplain.methods.transparency.result import Estimate

pytestmark = pytest.mark.usefixtures("sketched_pictures")

matplotlib.use("Agg")

DOMAIN = dpx.Domain(
    {
        "job": dpx.Categorical(["clerk", "chief", "<b>odd</b>"]),
        "gain": dpx.Numeric(0, 9_999, integer=True),
        "years": dpx.Numeric(0, 9, integer=True),
        "sex": dpx.Categorical(["Female", "Male"]),  # goes along with the job, and the model never sees it
    }
)
ROW = {"job": "chief", "gain": 5_000, "years": 4, "sex": "Male"}


def rich(rows: pd.DataFrame) -> np.ndarray:
    """A chief gets it, a clerk only with a gain; a chief with a gain does not."""
    chief, gain = (rows["job"] == "chief").to_numpy(), rows["gain"].to_numpy() > 3_000
    return np.where(chief, np.where(gain, 0.2, 0.9), np.where(gain, 0.8, 0.1))


@pytest.fixture
def table(make_table):
    draw = np.random.default_rng(0)
    n = 4_000
    male = draw.random(n) < 0.5
    job = np.where(draw.random(n) < np.where(male, 0.8, 0.1), "chief", "clerk")
    gain = np.where(draw.random(n) < np.where(job == "clerk", 0.9, 0.05), draw.integers(3_001, 9_999, n), 0)
    gain = np.where((job == "clerk") & male, 0, gain)
    columns = {"job": job, "gain": gain, "years": draw.integers(0, 10, n), "sex": np.where(male, "Male", "Female")}
    return make_table(pd.DataFrame(columns), domain=DOMAIN, budget=dpx.Budget(10**5))


@pytest.fixture
def model():
    return dpx.Model(rich, output=(0, 1), features=["job", "gain", "years"], name="rich", version="1")


@pytest.fixture
def report(table, model):
    return transparency_report(table, model, ROW, epsilon=20, features=list(DOMAIN), outcome="class", samples=400)


def test_the_outcome_and_what_counted_are_said_in_words(report):
    assert (
        report.headline == "The model decides against a positive decision: its score is 0.2, and it takes 0.5 or more."
    )
    said = report.sentences()
    assert said[0].startswith("gain = 5000 lowers the chance of a positive decision by ")
    assert said[0].endswith(" points of 100.")
    assert said[-1] == "The other 2 features: at most 1.5 points of 100 each."  # 200 draws may miss what years do
    low, high = report.interval()
    assert low[3] == high[3] == 0  # that the model does not look at the sex is sure


def test_associated_but_not_a_cause(report):
    """Men are chiefs; the model does not look at their sex."""
    (finding,) = [words for words in report.only_associated if "sex" in words]
    assert re.fullmatch(
        r"Where sex is Male, [\d.]+ to [\d.]+ of 100 people are decided for; "
        r"elsewhere, [\d.]+ to [\d.]+ of 100 people are decided for. Yet the model takes no account of it.",
        finding,
    ), finding
    assert not any("years" in words for words in report.only_associated)  # not even associated


def test_not_as_one_would_think(report):
    """Most people with a gain are clerks, whom it helps; it costs this chief the decision."""
    (finding,) = [words for words in report.unlike_others if "gain is at least" in words]
    assert finding.endswith("Yet for this person it lowers the chance of a positive decision.")


def test_cuts_are_those_of_public_cells(report):
    conditions = {a.feature: a.condition for a in report.associations}
    assert conditions["job"] == "job is chief"
    assert conditions["years"] == "years is at most 4"  # more people are above
    cut = int(re.fullmatch(r"gain is at least ([\d,]+)", conditions["gain"])[1].replace(",", ""))
    assert cut - 0.5 in report.marginals.histogram("gain").partition.edges
    assert cut <= 5_000


def test_the_lowest_cell_is_cut_above_and_the_highest_below(table, model):
    people = pd.DataFrame([{**ROW, "gain": 0, "years": 0}, {**ROW, "years": 9}])
    low, high = (
        {a.feature: a.condition for a in report.associations}
        for report in transparency_report(table, model, people, epsilon=200, aggregate="unary")
    )
    assert low["gain"] == "gain is at most 0"
    assert low["years"] == "years is at most 0"
    assert high["years"] == "years is at least 9"


def test_a_file_brings_everything_back(report, tmp_path):
    path = tmp_path / "report.json"
    report.to_json(path)
    back = dpx.from_json(path)
    pd.testing.assert_frame_equal(back.to_frame(), report.to_frame())
    assert back.text() == report.text()
    assert back.associations == report.associations
    assert back.start == report.start


def test_a_file_with_earlier_marginals_brings_both_back(table, model):
    known = dpx.marginals(table, epsilon=50)
    report = transparency_report(table, model, ROW, epsilon=50, marginals=known, aggregate="unary")
    back = dpx.from_json(report.to_json())
    assert back.marginals.receipt.entry == known.receipt.entry
    assert back.associations == report.associations
    assert "Spent before" in report.text()
    dpx.verify(back, table.ledger)
    other = dpx.marginals(table, epsilon=51)
    document = json.loads(report.to_json())
    document["view"]["marginals"] = {"receipt": other.receipt.to_json(), "released": other.released}
    with pytest.raises(dpx.InputError, match="not a result"):
        dpx.from_json(json.dumps(document))


@pytest.mark.parametrize(
    "damage",
    [
        lambda d: d["view"]["person"]["lines"].pop(),
        lambda d: d["view"]["person"]["lines"][0].update(error=-1.0),
        lambda d: d["view"]["person"]["lines"][0]["slopes"].update(nobody=[[3, 0.1]]),
        lambda d: d["view"]["person"]["lines"][0]["slopes"].update(job=[[2, 0.1]]),
        lambda d: d["view"]["person"]["record"].pop("job"),
        lambda d: d["view"]["person"]["record"].update(job="nobody"),
        lambda d: d["view"]["person"]["question"].update(quantity="all"),
        lambda d: d["view"]["person"]["question"].update(aggregate="all"),
        lambda d: d["view"]["person"]["question"].update(items=[]),
        lambda d: d["view"].update(person={}),
        lambda d: d["view"].pop("marginals"),
        lambda d: d["released"]["parts"]["outcomes"]["values"].pop(),
        lambda d: d["released"]["parts"].pop("counts"),
    ],
)
def test_damaged_files_are_refused(report, damage):
    document = json.loads(report.to_json())
    damage(document)
    with pytest.raises(dpx.InputError, match="damaged"):
        dpx.from_json(json.dumps(document))


def test_altered_values_are_refused(report):
    document = json.loads(report.to_json())
    document["released"]["parts"]["counts"]["values"][0] += 500
    with pytest.raises(dpx.errors.VerificationError, match="released integers"):
        dpx.from_json(json.dumps(document))


def test_the_page_stands_alone_and_escapes_what_it_shows(table, model, tmp_path):
    report = transparency_report(table, model, {**ROW, "job": "<b>odd</b>"}, epsilon=5, aggregate="unary")
    page = report.to_html(tmp_path / "report.html")
    assert (tmp_path / "report.html").read_text(encoding="utf-8") == page
    assert "&lt;b&gt;odd&lt;/b&gt;" in page
    assert "<b>odd" not in page
    assert page.count("<script") == 1  # our own
    assert not re.search(r"(src|href)=\"http", page)
    for words in ("What counted", "How others fare", "Not protected", "epsilon = 5", "<svg"):
        assert words in page
    assert report.headline in unescape(page)


def test_a_card_a_letter_and_a_picture(report):
    import matplotlib.pyplot as plt

    assert "<svg" in report._repr_html_()
    text = report.text()
    assert max(map(len, text.splitlines())) <= 100
    for words in ("What counted", "Associated, but not a cause", "Not protected", "Outside"):
        assert words in text
    ax = report.plot()
    assert ax.get_yticklabels()[0].get_text() == "gain = 5000"
    plt.close("all")


def test_reports_on_several_people(table, model, tmp_path):
    people = pd.DataFrame([ROW, {**ROW, "gain": 0}, {**ROW, "job": "clerk"}])
    reports = transparency_report(table, model, people, epsilon=5, aggregate="unary")
    assert repr(reports) == "TransparencyReports(3 persons)"
    assert len(reports[1:]) == 2
    assert reports.to_frame()["person"].tolist() == [0] * 3 + [1] * 3 + [2] * 3
    paths = reports.to_json(tmp_path)
    assert len(paths) == 3
    assert dpx.from_json(paths[2]).record["job"] == "clerk"
    assert reports._repr_html_().count('role="img"') == 3


def test_each_person_has_a_page_with_nobody_else_on_it(table, model, tmp_path):
    people = pd.DataFrame([ROW, {**ROW, "gain": 123}, {**ROW, "job": "clerk"}])
    pages = [p.read_text(encoding="utf-8") for p in asked(table, model, people).to_html(tmp_path / "pages")]
    assert [page.count("What counted") for page in pages] == [1, 1, 1]
    assert ["<b>123</b>" in page for page in pages] == [False, True, False]  # "123" alone may be a part of any number
    assert ["<b>clerk</b>" in page for page in pages] == [False, False, True]
    assert all("whom it protects" in page for page in pages)


def test_a_missing_value_takes_the_declared_default_and_the_page_says_so(table, model):
    missing = asked(table, model, pd.DataFrame([{**ROW, "gain": None, "job": None}, ROW]))[0]
    column = table.domain
    assert missing.record["gain"] == column["gain"].missing
    assert missing.record["job"] == column["job"].missing
    told = asked(table, model, {**ROW, "gain": column["gain"].missing, "job": column["job"].missing})
    np.testing.assert_allclose(missing.values, told.values, rtol=1e-12)
    words = f"missing, taken as {shown_value(missing.record['gain'])}"
    assert words in " ".join(missing.text().split())
    assert words in missing.to_html()
    assert "missing" not in told.to_html().replace("missing values", "")
    assert dpx.from_json(missing.to_json()).text() == missing.text()


def asked(table, model, row):
    return transparency_report(table, model, row, epsilon=5, aggregate="unary")


def test_actual_influences_are_changes_without_a_direction(table, model):
    found = transparency_report(table, model, ROW, epsilon=50, quantity="actual", aggregate="unary", outcome="class")
    assert (found.values >= 0).all()
    assert found.start is None
    assert found.unlike_others == []
    assert "change the outcome by" in found.sentences()[0]


def test_words_of_a_score_and_of_a_label():
    score = Words(PublicRange(10, 30), None, None)
    assert score.headline(12.0, 12.0) == "The model gives this person a score of 12, on a scale from 10 to 30."
    assert score.change(2.0, 4.0) == "2 to 4"
    assert score.people((0.0, 0.5)) == "the mean score is 10 to 20"
    assert score.at_most(0.013) == "0.02"
    label = Words(PublicRange(0, 1), 0.5, ">50K")
    assert label.headline(1.0, 0.7) == "The model decides for “>50K”: its score is 0.7, and it takes 0.5 or more."
    assert label.goal == "the chance of “>50K”"
    assert label.people((0.101, 0.149)) == "10 to 15 of 100 people get “>50K”"


@pytest.mark.parametrize(
    ("low", "high", "words"),
    [
        (21.3, 28.9, "20 to 30"),
        (20.2, 22.9, "20 to 23"),
        (25.01, 25.02, "about 25"),
        (-5, 40, "-10 to 40"),
        (0, 0, "about 0"),
    ],
)
def test_numbers_are_rounded_to_what_their_interval_allows(low, high, words):
    assert span(low, high, 0.1) == words


def test_an_interval_in_words_stays_inside_what_is_possible():
    assert span(0.3, 11.9, 0.012) == "0 to 20"
    assert span(0.3, 11.9, 0.012, (0, 12)) == "0 to 12"
    assert span(60, 99.9, 0.1, (0, 100)) == "60 to 100"


def test_a_change_that_is_sure_is_not_rounded_to_none():
    assert span(0.3, 1.1, 0.012) == "0.0 to 1.5"
    assert span(0.3, 1.1, 0.012, signed=True) == "0.3 to 1.1"
    assert span(-1.1, -0.3, 0.012, signed=True) == "-1.1 to -0.3"
    assert span(21.3, 28.9, 0.1, signed=True) == "20 to 30"
    assert span(0.004, 1.1, 0.012, signed=True) == "0.00 to 1.12"  # the step is never below `least`


def test_values_are_shown_as_people_write_them():
    assert [shown_value(v) for v in (12_345, 0.25, 39, "x", 5013)] == ["12,345", "0.25", "39", "x", "5013"]


def test_sure_means_that_zero_is_outside():
    assert Estimate(1, 0.5, 2).sure
    assert not Estimate(1, -0.5, 2).sure


def test_sentences_want_a_number(report):
    with pytest.raises(dpx.InputError, match="top is a whole number"):
        report.sentences(0)
