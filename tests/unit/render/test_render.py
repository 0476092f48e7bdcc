"""Pictures and pages: drawn for every kind of result, with the guarantee on them, loading nothing from outside."""

from __future__ import annotations

import re

import matplotlib
import numpy as np
import pandas as pd
import pytest

import dpexplain as dpx
from dpexplain.render.charts import chart_of
from dpexplain.render.html import results_page
from dpexplain.render.performance import readable
from dpexplain.render.plots import figure_of, save_png

matplotlib.use("Agg")
pytestmark = pytest.mark.usefixtures("sketched_pictures")  # where texts stand is looked at in test_pictures.py


@pytest.fixture
def results(make_table, frame, model):
    table = make_table(frame)
    curves = dpx.partial_dependence(table, model, ["age", "sex", ("age", "sex"), ("age", "income")], epsilon=1)
    rough = dpx.partial_dependence(table, model, "income", epsilon=1, smooth=False, rug=False)
    return [*curves, rough, dpx.marginals(table, epsilon=1)]


def test_every_plot_carries_its_guarantee_and_its_interval(results, tmp_path):
    for result in results:
        texts = " ".join(t.get_text() for ax in figure_of(result).axes for t in [*ax.texts, *_legend(ax)])
        texts = " ".join(texts.split())
        assert result.receipt.guarantee in texts
        likely = bool(result.basis)
        assert ("95% noise interval" in texts) is not likely
        assert ("proven interval" in texts and "synthetic rows" in texts) is likely
        assert all(words in texts for words in (("likely", "proven") if likely else ()))
    save_png(results[0], tmp_path / "plot.png")
    assert (tmp_path / "plot.png").read_bytes().startswith(b"\x89PNG")


def _legend(ax):
    return ax.get_legend().get_texts() if ax.get_legend() else []


def test_plot_draws_on_given_axes_and_on_new_ones(results):
    import matplotlib.pyplot as plt

    _, ax = plt.subplots()
    assert results[0].plot(ax) is ax
    new = results[0].plot()
    assert new is not ax
    plt.close("all")


def test_pages_are_self_contained_and_escape_names(results):
    html = results_page("A <title>", "lead & text", results)
    assert html.count("A &lt;title&gt;</") == 2  # in the head and above the page
    assert "lead &amp; text" in html
    assert html.count('role="img"') == len(results)
    outside = [u for u in re.findall(r'(?:href|src)="([^"#][^"]*)"', html) if not u.startswith("data:")]
    assert outside == []
    assert html.count("<script>") == 1
    card = results[0]._repr_html_()
    assert card.count('role="img"') == 1
    assert "<script" not in card


def test_a_printed_result_says_what_was_found_paid_and_promised(results):
    for result in results:
        words = " ".join(str(result).split())
        if result.basis:
            assert "95 %, likely" in words
            assert "95 %, proven" in words
            assert result.basis in words
        else:
            assert "95 % noise interval" in words or all(name in words for name in result.to_frame().columns)
        assert result.receipt.label in words
        assert result.receipt.budget.describe(result.receipt.cost) in words
        assert result.receipt.guarantee in words


def test_svg_is_the_same_every_time(results):
    assert chart_of(results[0]) == chart_of(results[0])


def test_many_categories_get_a_tall_figure(make_table, frame):
    domain = dpx.Domain({"town": dpx.Categorical([f"town {i}" for i in range(30)]), "age": dpx.Numeric(20, 30)})
    table = make_table(frame.assign(town="town 3"), domain=domain)
    model = dpx.Model(lambda rows: rows["age"].to_numpy() / 30, output=(0, 1))
    assert figure_of(dpx.partial_dependence(table, model, "town", epsilon=1)).get_size_inches()[1] > 8


def test_a_calibration_is_drawn_without_cells_that_say_nothing():
    def cells(*widths):
        return pd.DataFrame({"low": 0.2, "high": [0.2 + width for width in widths]})

    assert readable(cells(0.1, 0.9, 0.2, 0.5, 0.3))["high"].tolist() == pytest.approx([0.3, 0.4, 0.5])
    assert len(readable(cells(0.1, 0.9, 0.2, 0.5))) == 4  # two cells are no curve


def test_a_cell_with_one_value_does_not_hide_all_other_rows():
    from dpexplain.render.plots import RUG_CELLS, _at_sight

    edges, counts = _at_sight(np.array([0.0, 1e-6, 30.0, 60.0]), np.array([500.0, 400.0, 100.0]))
    density = counts / np.diff(edges)
    assert len(counts) == RUG_CELLS
    assert counts.sum() == pytest.approx(1000.0)
    assert density[1] / density[0] > 0.02  # with a cell of 1e-6 it would be 3e-8
    wide = np.array([0.0, 20.0, 60.0]), np.array([3.0, 4.0])
    assert _at_sight(*wide) == wide
