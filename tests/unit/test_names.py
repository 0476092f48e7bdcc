"""Names for people: a round trip through files, checked, in pictures, and outside of everything that is promised."""

from __future__ import annotations

import numpy as np
import pandas as pd
import pytest

import dpexplain as dpx
from dpexplain.columns import Names
from dpexplain.core.domain import Domain as CoreDomain
from dpexplain.data.domain_file import domain_text, parse_domain
from dpexplain.errors import DomainError
from dpexplain.ledger import open_ledger
from dpexplain.verification import NAMES_UNCHECKED
from examples import score

COLUMNS = {
    "age": dpx.Numeric(20, 29, integer=True),
    "sex": dpx.Categorical(["Female", "Male"]),
    "income": dpx.Numeric(0, 100),
}
NAMES = {
    "age": {"title": "Age at admission", "unit": "years", "description": "on the first day: in full years"},
    "sex": {"titles": ["women", None]},
    "income": {"title": "Income & <b>more</b>", "unit": "1,000 $"},
}
ROWS = pd.DataFrame({"age": np.arange(200) % 10 + 20, "sex": ["Female", "Male"] * 100, "income": np.arange(200) / 2.0})


def named(**options):
    return dpx.Domain(COLUMNS, names=NAMES, units="patients", **options)


def table(domain, ledger="sqlite:///:memory:"):
    return dpx.PrivateTable(
        ROWS, domain=domain, budget=dpx.Budget(3.0, 1e-6), relation="replace-one", ledger=ledger, name="people"
    )


MODEL = dpx.Model(score, output=(0, 1), name="score")


def test_a_file_keeps_them():
    again = parse_domain(domain_text(named()))
    assert again.names == named().names
    assert again.names.units == "patients"
    assert domain_text(again) == domain_text(named())
    assert parse_domain(domain_text(dpx.Domain(COLUMNS))).names == Names()


def test_nothing_that_is_promised_depends_on_them(tmp_path):
    assert named().digest == CoreDomain(COLUMNS).digest
    ledger = f"sqlite:///{tmp_path}/budget.db"
    first = dpx.partial_dependence(table(dpx.Domain(COLUMNS), ledger), MODEL, "age", epsilon=0.5)
    again = dpx.partial_dependence(table(named(), ledger), MODEL, "age", epsilon=0.5)
    assert again.receipt.replayed
    assert again.receipt.guarantee == first.receipt.guarantee
    assert again.receipt.entry == first.receipt.entry
    assert (first.title, again.title) == ("Partial dependence of age", "Partial dependence of Age at admission")


def test_results_keep_them_in_files_and_verify_says_who_vouches(tmp_path):
    ledger = f"sqlite:///{tmp_path}/budget.db"
    curve = dpx.partial_dependence(table(named(), ledger), MODEL, "sex", epsilon=0.5)
    again = dpx.from_json(curve.to_json())
    assert again.receipt.names == named().names
    assert again.receipt.called("age x income") == "Age at admission x Income & <b>more</b>"
    assert again.receipt.called("something else") == "something else"
    assert NAMES_UNCHECKED in dpx.verify(again, open_ledger(ledger), MODEL)
    plain = dpx.partial_dependence(table(dpx.Domain(COLUMNS), ledger), MODEL, "sex", epsilon=0.5)
    assert NAMES_UNCHECKED not in dpx.verify(plain, open_ledger(ledger), MODEL)


def test_pictures_and_pages_use_them_as_text():
    curves = dpx.partial_dependence(table(named()), MODEL, ["age", "sex", "income"], epsilon=2.0)
    labels = [curve.plot().get_xlabel() or curve.plot().get_ylabel() for curve in curves]
    assert labels[0] == "Age at admission (years)"
    ax = curves[1].plot()
    assert [tick.get_text().split("  (")[0] for tick in ax.get_yticklabels()] == ["women", "Male"]
    page = curves[2]._repr_html_()
    assert "Income &amp; &lt;b&gt;more&lt;/b&gt;" in page
    assert "<b>more" not in page
    import matplotlib.pyplot as plt

    plt.close("all")


def test_groups_of_a_performance_have_them():
    told = dpx.performance(table(named()), MODEL, target="income", groups=["sex"], epsilon=2.0)
    assert [told.group_title(group) for group in told.cells_of("sex")] == ["sex: women", "sex: Male"]
    assert [told.group_name(group) for group in told.cells_of("sex")] == ["Female", "Male"]


@pytest.mark.parametrize(
    ("names", "said"),
    [
        ({"height": {"title": "x"}}, "not declared"),
        ({"age": {"name": "x"}}, "may be title, unit, description, titles"),
        ({"age": {"title": ""}}, "text in one line"),
        ({"age": {"title": "two\nlines"}}, "text in one line"),
        ({"age": {"title": "x" * 301}}, "at most 300"),
        ({"age": {"title": 7}}, "text in one line"),
        ({"age": {"titles": ["young", "old"]}}, "one for each declared value"),
        ({"sex": {"titles": ["women"]}}, "one for each declared value"),
        ({"sex": {"titles": ["Male", None]}}, "one title"),
        ({"age": {"title": "income"}}, "taken by another column"),
        ({"age": {"title": "Same"}, "sex": {"title": "same"}}, "taken by another column"),
        ("age", "names are"),
    ],
)
def test_what_does_not_fit_is_refused(names, said):
    with pytest.raises(DomainError, match=said):
        dpx.Domain(COLUMNS, names=names)


def test_a_file_with_wrong_names_says_where():
    text = domain_text(named()).replace("titles: [women, null]", "titles: [women]")
    with pytest.raises(DomainError, match=r"people\.yaml: titles of column 'sex'"):
        parse_domain(text, "people.yaml")
