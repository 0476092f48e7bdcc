"""A report: what it asks for, what it says before and after, and what it refuses."""

from __future__ import annotations

import math
import re
from types import SimpleNamespace

import numpy as np
import pandas as pd
import pytest

import dpexplain as dpx
from dpexplain.maths.estimates import Estimate
from dpexplain.methods.reports import words
from dpexplain.methods.reports.request import ReportRequest
from dpexplain.methods.reports.result import Report
from dpexplain.methods.reports.sampling import of_area, wilson
from dpexplain.methods.stand_in.result import StandIn
from dpexplain.render import reports
from dpexplain.render.charts import Chart
from dpexplain.render.html import environment
from examples import score

DOMAIN = dpx.Domain(
    {
        "age": dpx.Numeric(20, 29, integer=True),
        "sex": dpx.Categorical(["Female", "Male"]),
        "income": dpx.Numeric(0, 100),
        "good": dpx.Categorical(["no", "yes"]),
    },
    names={"income": {"title": "Income <script>alert(1)</script>", "unit": "$", "description": "a <b>year</b>"}},
    units="customers",
)
MODEL = dpx.Model(score, output=(0, 1), name="score", version="1", features=["age", "sex", "income"])


def rows(size: int) -> pd.DataFrame:
    i = np.arange(size)
    frame = pd.DataFrame(
        {"age": i % 10 + 20, "sex": np.where(i % 3 == 0, "Female", "Male"), "income": i * 37 % 101 / 1.0}
    )
    return frame.assign(good=np.where(score(frame) + ((i * 13) % 17) / 40 > 0.55, "yes", "no"))


def table(size: int = 3000, domain: dpx.Domain = DOMAIN, **options) -> dpx.PrivateTable:
    about = {
        "budget": dpx.Budget(20.0, 1e-6),
        "relation": "replace-one",
        "ledger": "sqlite:///:memory:",
        "name": "shop",
    }
    return dpx.PrivateTable(rows(size), domain=domain, **{**about, **options})


ASKED = {"target": "good", "positive": "yes", "groups": ["sex"], "persons": 2}


@pytest.fixture(scope="module")
def found() -> Report:
    return dpx.report(table(), MODEL, **ASKED, epsilon=6.0)


@pytest.fixture(scope="module")
def page(found) -> str:
    """With drawings that have nothing in them: what charts look like is tested with the renderer."""

    def drawn(*about) -> Chart:
        return Chart("a title", '<svg role="img" aria-label="a drawing of nothing"></svg>')

    environment.cache_clear()  # templates keep what they were loaded with
    with pytest.MonkeyPatch.context() as patch:
        patch.setitem(environment().globals, "chart", drawn)
        patch.setattr(reports, "chart_from", drawn)
        patch.setattr(reports, "_chart_of_summary", drawn)
        page = found.to_html()
    environment.cache_clear()
    return page


@pytest.mark.long
def test_the_page_with_its_drawings(found):
    page = found.to_html()
    assert page.count("data-marks=") >= 6
    assert "<script>alert" not in page
    assert " style=" not in page


# What it is -----------------------------------------------------------------------------------------------------------


def test_one_price_pays_for_every_section(found):
    names = [section.name for section in found.sections]
    assert names == ["performance", "importance", "effects", "interactions", "groups", "persons", "rows"]
    assert found.epsilon == pytest.approx(6.0, rel=1e-6)
    assert len({receipt.entry.sequence for receipt in found.receipts}) == 1
    assert not found.replayed
    assert len(found.persons) == 2


def test_what_was_planned_is_what_is_released():
    mine, asked = table(), {**ASKED, "sections": ["performance", "effects"]}
    plan = dpx.plan(dpx.requests.Report(**asked), table=mine, model=MODEL, epsilon=6.0)
    assert mine.ledger.statement("shop").spent.amount == 0
    assert not plan.doubts
    assert "useful" in str(plan)
    assert set(plan.to_json()["told"]) == {"synthetic rows", "performance", "effects"}
    released = dpx.report(mine, MODEL, **asked, epsilon=6.0)
    assert [one.receipt.label for one in released.results[:2]] == [line.label for line in plan.batch.lines[:2]]
    again = dpx.report(mine, MODEL, **asked, epsilon=6.0)
    assert again.replayed
    assert mine.ledger.statement("shop").spent.amount == released.results[0].receipt.batch.charged.amount


def test_a_section_matters_as_much_as_its_weight_says():
    mine, about = table(), {**ASKED, "sections": ["performance", "effects"]}
    even = dpx.plan(dpx.requests.Report(**about), table=mine, model=MODEL, epsilon=2.0)
    more = dpx.plan(dpx.requests.Report(**about), table=mine, model=MODEL, epsilon=2.0, weights={"effects": 8.0})
    assert even.question.weights == (1.0, 1.0)
    assert more.question.weights == (1.0, 8.0)
    with pytest.raises(dpx.InputError, match="weights names the section 'clusters'"):
        dpx.plan(dpx.requests.Report(**about), table=mine, model=MODEL, epsilon=2.0, weights={"clusters": 1.0})


def test_files_make_the_same_report_without_the_table(found, tmp_path):
    files = found.to_json(tmp_path)
    again = Report.of_results([dpx.from_json(path) for path in files])
    assert [one.name for one in again.sections] == [one.name for one in found.sections]
    needed = found.forecast.needed("importance")  # files hold no forecast
    assert again.in_short == [said.replace(f" {needed}", "") if needed else said for said in found.in_short]
    assert again.price == found.price
    assert any("not at hand" in words for words in again.left_out)
    assert not again.shapes
    whole = Report.of_results([dpx.from_json(path) for path in files], model=MODEL)
    assert whole.shapes.keys() == found.shapes.keys()
    assert whole.posterior.basis == found.posterior.basis  # from as many released numbers: influences are evidence too


def test_what_is_said_in_short_is_what_was_released(found):
    short = " ".join(found.in_short)
    (perf,) = found.section("performance").results
    assert f"{100 * perf.figure('accuracy').value:.0f}" in short
    (ranking,) = found.section("importance").results
    assert words.most_important(ranking) in short
    assert "epsilon = 6" in short
    assert "mean score" not in short


@pytest.mark.parametrize(
    ("value", "low", "high", "said"),
    [
        (0.05, -0.2, 0.3, "With this epsilon we cannot tell whether the model beats predicting the mean."),
        (-0.2, -0.3, -0.1, "would be as good or better"),
        (0.2, 0.1, 0.3, "Squared errors are 20 % (10 to 30) smaller"),
        (math.nan, -math.inf, 1.0, "cannot tell whether the model beats"),
    ],
)
def test_whether_a_model_is_better_than_the_mean_is_said_in_plain_words(value, low, high, said):
    known = Estimate(value, low, high)
    perf = SimpleNamespace(figure=lambda name: {"r2": known}[name])
    assert said in words.than_the_mean(perf)


class Ranked:
    """Columns a, b, c, ... with intervals and probabilities of their places."""

    receipt = SimpleNamespace(called=str)

    def __init__(self, low, first=(), among=()):
        self.items = list("abcde"[: len(low)])
        self._low, self._first, self._among = np.array(low), np.array(first), np.array(among)

    def interval(self):
        return self._low, self._low + 1

    def top_probability(self, top):
        return self._first if top == 1 else self._among


@pytest.mark.parametrize(
    ("ranked", "said"),
    [
        (
            Ranked([-1.2, -1.5, -1.7]),
            "With this epsilon we cannot tell which column the model needs most: the intervals of all columns contain "
            "0. About 5 rows.",
        ),
        (
            Ranked([0.2, 0.1, -1], [0.49, 0.4, 0.11]),
            "The model needs a and b; with this epsilon we cannot tell which column it needs most. About 5 rows.",
        ),
        (Ranked([0.1] * 5, [0.3] * 5), "The model needs a, b, c and 2 more columns; with this epsilon we cannot"),
        (Ranked([0.2, -0.1, -1], [0.97, 0.02, 0.01], [1, 0.9, 0.4]), "The model needs a most (probability 97 %). With"),
        (Ranked([-0.2, 0.1, -1], [0.97, 0.02, 0.01], [1, 0.9, 0.4]), "The model needs b; with this epsilon we cannot"),
        (Ranked([0.2, 0.1, 0.1, 0], [0.9] * 4, [1, 0.9, 0.4, 0]), "The model needs a most (probability 90 %), then b."),
        (Ranked([0.2, 0.1, 0.1, 0], [1.0] * 4, [1, 0.9, 0.5, 0]), "a most (probability 99 %), then b and c."),
        (Ranked([0.2]), "The model needs a."),
        (Ranked([-0.2]), "With this epsilon we cannot tell"),
    ],
)
def test_an_order_is_said_only_where_intervals_and_probabilities_show_it(ranked, said):
    assert said in words.most_important(ranked, "About 5 rows.")


def influenced(values, half, items=("sex", "income"), group=None):
    """Influences on how a group of women differs, with intervals of this half-width."""
    from dpexplain.data.groups import Group
    from dpexplain.models.outcomes import Outcome

    values = np.array(values)
    return SimpleNamespace(
        note=None, values=values, items=list(items), order=list(np.argsort(-np.abs(values))),
        interval=lambda: (values - half, values + half), sure=np.abs(values) > half,
        receipt=SimpleNamespace(called=lambda name: name.title()),
        spec=SimpleNamespace(
            group=Group.of(group or {"sex": "Female"}, DOMAIN),
            outcome=Outcome.of(MODEL.output, "score"),
        ),
    )  # fmt: skip


@pytest.mark.parametrize(
    ("influence", "said"),
    [
        (
            influenced([0.1, -0.3], 0.02),
            "The largest part of that difference: Income makes the mean prediction of this group 0.3 lower "
            "(95 % interval: 0.28 to 0.32).",
        ),
        (influenced([0.25, 0.3], 0.04), "Perhaps the largest part of that difference: Income makes"),
        (
            influenced([0.4, 0.1], 0.02),
            "The largest part of that difference: Sex (the column that defines the groups) makes the mean prediction "
            "of this group 0.4 higher",
        ),
        (influenced([0.1, 0.05], 0.2), "With this epsilon we cannot tell which column drives it."),
    ],
)
def test_what_drives_a_difference_is_said_without_repeating_the_group(influence, said):
    told = words.drives(influence)
    assert told.startswith(said)
    assert "Female" not in told


def test_a_plan_tells_of_importance_what_the_release_will():
    """At a small epsilon no interval leaves out 0: the plan, the page and what would be needed say so."""
    mine, asked = table(), {**ASKED, "sections": ["importance"]}
    plan = dpx.plan(dpx.requests.Report(**asked), table=mine, model=MODEL, epsilon=0.5)
    (outlook,) = [one for one in plan.outlooks if one.section == "importance"]
    assert outlook.told is False
    assert outlook.line.interval > outlook.signal
    (doubt,) = plan.doubts
    assert "may not show which column matters most. About" in doubt
    needed = int(re.search(r"About ([\d,]+) rows", doubt)[1].replace(",", ""))
    assert needed > 3000
    more = dpx.plan(dpx.requests.Report(**asked), table=table(needed), model=MODEL, epsilon=0.5)
    assert not more.doubts
    assert more.needed("importance") == ""
    with pytest.raises(dpx.InputError, match="would show noise"):
        dpx.report(mine, MODEL, **asked, epsilon=0.5)
    both = dpx.report(mine, MODEL, **{**ASKED, "sections": ["performance", "importance"]}, epsilon=0.5)
    assert "we cannot tell which column" in " ".join(both.in_short)
    assert both.forecast.needed("importance") in " ".join(both.in_short)
    assert plan.to_json()["told"]["importance"] is False


def test_numbers_of_the_page_need_no_powers_of_ten(page, found):
    assert [reports._short(error) for error in (234.0, 0.0512, 36.2)] == ["230", "0.051", "36"]
    (stand_in,) = (one for one in found.results if isinstance(one, StandIn))
    assert reports._rounded(stand_in, "income", 8.956e-06) == 0
    assert reports._rounded(stand_in, "income", 47.123456) == 47.1
    assert reports._rounded(stand_in, "sex", "Male") == "Male"
    assert "except with a probability of 1 in 1,000,000" in page


# The page -------------------------------------------------------------------------------------------------------------


def test_the_page_stands_alone_and_every_text_is_escaped(page):
    assert "<script>alert" not in page
    assert "Income &lt;script&gt;" in page
    assert "a &lt;b&gt;year" in page
    outside = [url for url in re.findall(r"https?://[^\s\"'<>)]+", page) if not url.startswith("http://www.w3.org/")]
    assert outside == []
    assert not re.search(r"<(link|img|iframe)\b", page)
    assert " style=" not in page
    assert re.findall(r"<svg (?!role=\"img\" aria-label=\"[^\"]{12,}\"|class=\"(?:swatch|bar|both))", page) == []


def test_the_page_has_navigation_promise_price_and_words(page, found):
    targets = re.findall(r'<a href="#([\w-]+)"', page)
    assert [name for name in targets if f'<section id="{name}"' not in page] == []
    assert {"short", "performance", "effects", "promise", "cost", "words"} <= set(targets)
    assert "any one of the customers" in page
    assert "Against anybody" in page
    assert f"at most a factor of {np.exp(6.0):.3g}" in page
    assert "nobody&#39;s data" in page or "nobody's data" in page


def test_noise_and_sampling_are_two_words_and_two_looks(page, found):
    assert page.count('<g class="noise">') == page.count('class="both"') == len(found.doubts)
    assert 0 < page.count('<g class="left-out">') <= len(found.doubts)
    assert page.count("<dt>sampling</dt>") == page.count("<dt>privacy noise</dt>") == 1


def test_greek_letters_are_not_needed(page):
    assert re.findall("[α-ωΑ-Ω]", page) == []


def test_a_notebook_shows_what_came_out(found):
    card = found._repr_html_()
    assert all(words.split("<")[0][:20] in card.replace("&lt;", "<") for words in found.in_short[:1])


# Two kinds of doubt ---------------------------------------------------------------------------------------------------


def test_sampling_intervals_hold_the_population(found):
    """Of shares by Wilson's formula: in 2,000 samples of 400 rows, with a false alarm of 1e-6 (4.9 deviations)."""
    random, share, rows, times = np.random.default_rng(3), 0.2, 400, 2000
    held = [low <= share <= high for low, high in (wilson(k / rows, rows) for k in random.binomial(rows, share, times))]
    assert abs(np.mean(held) - 0.95) < 4.9 * np.sqrt(0.95 * 0.05 / times) + 0.01
    narrow = [
        abs(k / rows - share) < 0.6 * 1.96 * np.sqrt(share * (1 - share) / rows)
        for k in random.binomial(rows, share, times)
    ]
    assert np.mean(narrow) < 0.9  # one that is too narrow is seen
    low, high = of_area(0.8, 100, 300)
    assert low < 0.8 < high
    assert of_area(0.8, 0, 300) is None
    assert wilson(0.5, 0) is None
    whole = [one for one in found.doubts if one.who == "everybody" and one.what == "right decisions"]
    assert len(whole) == 1
    assert whole[0].larger in ("privacy noise", "sampling")


def test_results_of_several_tables_or_models_are_no_report(found):
    other = dpx.Model(score, output=(0, 1), name="other", version="1", features=["age", "sex", "income"])
    mine = table()
    curves = [dpx.partial_dependence(mine, model, "sex", epsilon=0.5) for model in (MODEL, other)]
    with pytest.raises(dpx.InputError, match="about several models"):
        Report.of_results(curves)
    elsewhere = dpx.marginals(table(name="elsewhere"), epsilon=0.5)
    with pytest.raises(dpx.InputError, match="about several tables"):
        Report.of_results([curves[0], elsewhere])
    with pytest.raises(dpx.InputError, match="made of released results"):
        Report.of_results([])


def test_the_total_counts_what_results_were_computed_from_though_its_file_is_not_there():
    mine = table()
    histograms = dpx.marginals(mine, epsilon=1.0)
    rows_of = dpx.stand_in(mine, epsilon=0.5, marginals=histograms)
    curve = dpx.partial_dependence(mine, MODEL, "age", epsilon=0.5, stand_in=rows_of)
    alone, whole = Report.of_results([curve]), Report.of_results([histograms, rows_of, curve])
    assert whole.price == alone.price
    assert alone.epsilon == whole.epsilon > 1.1  # of the histograms and the two others, in zCDP
    assert not whole.earlier
    assert [line[0] for line in reports._costs(alone)] == [
        curve.receipt.label,
        *(
            f"entry {one.receipt.entry.sequence}, which results here were computed from"
            for one in (rows_of, histograms)
        ),
    ]
    assert f"epsilon = {whole.epsilon:.3g} means" in reports.promise(alone)[0]
    assert f"epsilon = {whole.epsilon:.3g};" in alone.in_short[-1]


def test_accounts_of_one_name_in_several_ledgers_are_not_taken_for_one():
    one, other = (dpx.partial_dependence(table(), MODEL, name, epsilon=0.5) for name in ("age", "sex"))
    assert one.receipt.place == other.receipt.place
    with pytest.raises(dpx.InputError, match="several ledgers"):
        Report.of_results([one, other])
    late = table(relation="add-remove", rows_hint=3000)
    dpx.marginals(late, epsilon=0.5)
    with pytest.raises(dpx.InputError, match="several ledgers"):
        Report.of_results([one, dpx.partial_dependence(late, MODEL, "sex", epsilon=0.5)])


def test_a_private_number_of_rows_that_nobody_has_guessed_refuses_nothing():
    hidden = table(relation="add-remove", name="hidden")
    plan = dpx.plan(dpx.requests.Report(sections=["effects"]), table=hidden, model=MODEL, epsilon=0.01)
    assert plan.hopeless
    plan.require_hope()
    guessed = dpx.plan(dpx.requests.Report(sections=["effects"]), table=hidden, model=MODEL, epsilon=0.01, n=50)
    with pytest.raises(dpx.InputError, match="would show noise"):
        guessed.require_hope()


# What it leaves out and refuses ---------------------------------------------------------------------------------------


def many(columns: int) -> tuple[dpx.PrivateTable, dpx.Model]:
    names = [f"c{i}" for i in range(columns)]
    domain = dpx.Domain({name: dpx.Numeric(0, 1) for name in names})
    frame = pd.DataFrame(np.random.default_rng(0).random((4000, columns)), columns=names)
    model = dpx.Model(
        lambda r: 0.2 + 0.6 * r["c7"].to_numpy() * r["c3"].to_numpy(), output=(0, 1), name="wide", version="1"
    )
    about = {"budget": dpx.Budget(20.0, 1e-6), "relation": "replace-one", "ledger": "sqlite:///:memory:"}
    return dpx.PrivateTable(frame, domain=domain, **about, name="wide"), model


@pytest.mark.long
def test_a_model_with_500_columns_is_explained_by_those_that_move_it():
    wide, model = many(500)
    plan = dpx.plan(
        dpx.requests.Report(most_features=4, sections=["effects", "importance"]), table=wide, model=model, epsilon=4.0
    )
    effects, importance = plan.wanted.by_section["effects"], plan.wanted.by_section["importance"]
    assert {"c3", "c7"} <= set(effects.features)
    assert len(effects.features) == 4
    assert len(importance.features) == 30
    said = " ".join(plan.left_out)
    assert "491 more columns" in said
    assert "Synthetic rows come from the declared domain" in said
    found = dpx.report(wide, model, most_features=4, sections=["effects", "importance"], epsilon=4.0)
    assert "491 more columns" in found.to_html()


def test_columns_are_chosen_by_public_rows_and_the_rest_is_named():
    wide, model = many(12)
    plan = dpx.plan(dpx.requests.Report(most_features=2, sections=["effects"]), table=wide, model=model, epsilon=2.0)
    assert plan.wanted.by_section["effects"].features == ["c3", "c7"]
    assert any("5 more columns" in words for words in plan.left_out)
    assert wide.ledger.statement("wide").spent.amount == 0


def test_groups_may_be_those_of_a_column_that_the_model_does_not_use():
    """And a model of two columns has one pair, which has no rank."""
    model = dpx.Model(
        lambda r: r["age"].to_numpy() / 100, output=(0, 1), name="blind", version="1", features=["age", "income"]
    )
    mine = table(name="blind")
    found = dpx.report(mine, model, groups=["sex"], persons=0, epsilon=6.0)
    assert [one.name for one in found.sections] == ["importance", "effects", "groups", "rows"]
    assert any("that takes effects of three columns" in said for said in found.left_out)
    assert "the stand-in does not have 'sex'" in set(found.posterior.evidence["left out because"])
    more = dpx.posterior(found.posterior.stand_in, model, [dpx.marginals(mine, ["age", "sex"], epsilon=1.0)])
    assert list(more.evidence["left out because"]) == ["the stand-in does not have 'sex'"]
    assert list(found.shapes) == ["age", "income"]
    assert found.shapes["income"] == []


def test_few_rows_are_refused_with_what_would_be_needed():
    small = table(200)
    with pytest.raises(dpx.InputError, match="would show noise") as refused:
        dpx.report(small, MODEL, target="good", positive="yes", epsilon=0.02, sections=["performance", "effects"])
    rows_needed = int(re.search(r"About ([\d,]+) rows", refused.value.message)[1].replace(",", ""))
    assert rows_needed > 200
    assert refused.value.spent == "Nothing was spent."
    assert small.ledger.statement("shop").spent.amount == 0
    enough = dpx.plan(
        dpx.requests.Report(target="good", positive="yes", sections=["performance", "effects"]),
        table=table(rows_needed),
        model=MODEL,
        epsilon=0.02,
    )
    assert not enough.hopeless


def test_a_price_that_is_too_small_says_which_sections_fit():
    mine, asked = table(budget=dpx.Budget(20.0)), {**ASKED, "sections": ["importance", "interactions", "groups"]}
    with pytest.raises(dpx.InputError, match="too small for all sections") as refused:
        dpx.report(mine, MODEL, **asked, epsilon=1e-6)
    assert "these fit: importance, groups." in refused.value.hint
    assert mine.ledger.statement("shop").spent.amount == 0


def test_a_target_with_one_declared_class_is_refused():
    domain = dpx.Domain({**DOMAIN, "good": dpx.Categorical(["yes"])})
    with pytest.raises(dpx.InputError, match="one declared value"):
        dpx.report(table(domain=domain), MODEL, target="good", epsilon=1.0)


def test_a_table_with_one_class_and_a_group_without_rows():
    domain = dpx.Domain({**DOMAIN, "sex": dpx.Categorical(["Female", "Male", "other"])})
    frame = rows(2000).assign(good="yes")
    about = {"budget": dpx.Budget(20.0, 1e-6), "relation": "replace-one", "ledger": "sqlite:///:memory:", "name": "one"}
    one = dpx.PrivateTable(frame, domain=domain, **about)
    asked = {
        "target": "good",
        "positive": "yes",
        "groups": ["sex"],
        "compared": {"sex": "other"},
        "sections": ["performance", "groups"],
    }
    found = dpx.report(one, MODEL, **asked, epsilon=4.0)
    assert "not determined" in " ".join(found.in_short)
    assert all(value.who != "sex: other" or value.noise[0] <= value.value <= value.noise[1] for value in found.doubts)


@pytest.mark.parametrize(
    ("options", "said"),
    [
        ({"sections": ["charts"]}, "no section 'charts'"),
        ({"sections": []}, "at least one section"),
        ({"sections": ["performance"]}, "needs a target"),
        ({"sections": ["groups"], "target": "good"}, "needs groups"),
        ({"sections": ["persons"]}, "nothing to pay for"),
        ({"sections": ["clusters"]}, "cannot have the section clusters"),
        ({"title": "two\nlines"}, "one line"),
        ({"features": ["good"]}, "does not use 'good'"),
        ({"features": ["height"]}, "unknown feature 'height'"),
        ({"target": "height"}, "unknown feature 'height'"),
        ({"groups": "sex"}, "groups must be"),
        ({"persons": 9}, "persons must be"),
    ],
)
def test_wrong_options_are_refused_before_anything_is_spent(options, said):
    mine = table(500)
    with pytest.raises(dpx.InputError, match=said):
        dpx.report(mine, MODEL, epsilon=1.0, **options)
    assert mine.ledger.statement("shop").spent.amount == 0


def test_a_title_may_be_anything_in_one_line():
    assert ReportRequest(title="</title><script>").title == "</title><script>"
    assert ReportRequest(target="good").label == "report for good"
