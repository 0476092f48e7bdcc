"""Pictures of every kind of result with the longest names: no text leaves the figure or covers another name, legends
and axes say what is drawn. That every picture on a page is described in words is in test_pages.py.
"""

from __future__ import annotations

import itertools
import re
from dataclasses import replace
from pathlib import Path

import matplotlib
import numpy as np
import pytest
from matplotlib.figure import Figure
from matplotlib.text import Text

import pictures
from dpexplain.methods.curves import Curve
from dpexplain.methods.result import Result
from dpexplain.render.charts import chart_of, svg_text
from dpexplain.render.plots import figure_of, figure_of_all

matplotlib.use("Agg")
ROOT = Path(__file__).parents[3]


@pytest.fixture(scope="module")
def results() -> dict[str, Result]:
    return pictures.every_result()


@pytest.fixture(scope="module")
def figures(results) -> dict[str, Figure]:
    """Drawn once: fitting their texts takes nearly all the time of these tests."""
    return {name: figure_of(result) for name, result in results.items()}


def shown_texts(figure: Figure) -> list[Text]:
    """Every text that is drawn; tick labels outside of the view and those of hidden axes are not."""
    hidden: set[Text] = set()
    for ax in figure.axes:
        for axis, view in ((ax.xaxis, ax.get_xlim()), (ax.yaxis, ax.get_ylim())):
            for place, label in zip(axis.get_ticklocs(), axis.get_ticklabels(), strict=False):
                if not ax.axison or not min(view) <= place <= max(view):
                    hidden.add(label)
            if not ax.axison:
                hidden |= {axis.label}
    texts = [text for text in figure.findobj(Text) if text.get_visible() and text.get_text().strip()]
    return [text for text in texts if text not in hidden]


def outside(figure: Figure) -> list[str]:
    figure.draw_without_rendering()
    edge, found = figure.bbox, []
    for text in shown_texts(figure):
        box = text.get_window_extent()
        if box.x0 < -1 or box.y0 < -1 or box.x1 > edge.x1 + 1 or box.y1 > edge.y1 + 1:
            found.append(text.get_text())
    return found


def crossing_names(figure: Figure) -> list[str]:
    """Neighbouring names along a y axis that cover each other."""
    found = []
    for ax in figure.axes:
        shown = [t for t in shown_texts(figure) if t in ax.get_yticklabels()]
        boxes = sorted(((t.get_window_extent(), t.get_text()) for t in shown), key=lambda pair: pair[0].y0)
        found += [b for (one, _), (two, b) in itertools.pairwise(boxes) if one.y1 > two.y0 + 1]
    return found


def test_every_kind_of_result_is_here(results):
    drawn = {kind for kind, cls in Result.kinds.items() if not kind.startswith("test")}
    assert {result.kind for result in results.values()} >= drawn - {"made"}


def test_nothing_leaves_the_figure_and_no_name_covers_another(figures):
    for name, figure in figures.items():
        assert outside(figure) == [], name
        assert crossing_names(figure) == [], name
        plots = [ax.get_window_extent() for ax in figure.axes if ax.axison and ax.get_subplotspec() is not None]
        assert all(box.width > 150 and box.height > 80 for box in plots), name


def test_several_curves_side_by_side(results):
    curves = [result for result in results.values() if isinstance(result, Curve)][:2]
    assert outside(figure_of_all(curves)) == []


def test_a_plot_of_ones_own_is_fitted_when_it_is_saved(results, tmp_path):
    import matplotlib.pyplot as plt

    ax = results["surface"].plot()
    assert "\n" not in ax.get_title(loc="left")  # not yet
    ax.figure.savefig(tmp_path / "plot.png")
    assert outside(ax.figure) == []
    plt.close("all")


def test_the_check_sees_a_text_that_is_cut_off():
    figure = Figure(figsize=(3, 2))
    ax = figure.add_subplot()
    ax.set_axis_off()
    ax.set_title("a title that is much too long for such a small figure", loc="left")
    assert outside(figure) == ["a title that is much too long for such a small figure"]


def words(figure: Figure) -> str:
    return " ".join(" ".join(text.get_text() for text in shown_texts(figure)).split())


def test_whole_names_and_titles_are_there(figures):
    for name, wanted in (("curve", pictures.AGE), ("dots", pictures.KIND), ("surface", pictures.AGE)):
        assert wanted in words(figures[name]).replace(r"\$", "$"), name


def test_the_legend_names_what_is_drawn(figures, results):
    for name, legend in (
        ("curve", ["likely values, 95%", "released, proven 95%"]),
        ("dots", ["likely values, 95%", "released, proven 95%"]),
        ("rough curve", ["95% noise interval of each point", "released"]),
    ):
        assert legend_of(figures[name]) == legend, name
    drawn = {line.get_label(): line.get_xdata() for line in figures["dots"].axes[0].get_lines()}
    assert np.array_equal(drawn["likely value"], results["dots"].values)
    assert np.array_equal(drawn["released, proven 95%"], results["dots"].raw)
    assert "(likely value)" in words(figures["surface"])
    assert "likely: at most ±" in words(figures["surface"])
    assert "proven: at most ±" in words(figures["surface"])


def test_both_intervals_are_drawn_where_they_are(figures, results):
    wide, thin = (
        [(path.vertices[0, 0], path.vertices[1, 0]) for path in lines.get_paths()]
        for lines in figures["dots"].axes[0].collections[:2]
    )
    np.testing.assert_allclose(np.array(wide).T, results["dots"].interval())
    np.testing.assert_allclose(np.array(thin).T, results["dots"].proven_interval())


def test_what_a_file_of_an_earlier_version_holds_is_drawn_as_before(results):
    for name in ("curve", "dots"):
        figure = figure_of(replace(results[name], sharpening=None))
        assert legend_of(figure) == ["95% noise interval of each point", "smoothed", "released values"]
        drawn = {line.get_label(): line.get_xydata() for line in figure.axes[0].get_lines()}
        which = 0 if name == "dots" else 1
        assert np.array_equal(drawn["released values"][:, which], results[name].raw[: len(drawn["released values"])])
        assert "synthetic" not in words(figure)
    surface = figure_of(replace(results["surface"], sharpening=None))
    assert "(smoothed)" in words(surface)
    assert "noise interval of each cell: at most ±" in words(surface)


def legend_of(figure: Figure) -> list[str]:
    return [text.get_text() for text in figure.axes[0].get_legend().get_texts()]


def test_a_map_among_curves_leaves_room_for_all_of_them(results):
    figure = figure_of_all([results["curve"], results["dots"], results["rough curve"], results["surface"]])
    figure.draw_without_rendering()
    plots = [ax for ax in figure.axes if ax.get_subplotspec() is not None]
    slot = figure.bbox.width / 2
    assert len(plots) == 4
    assert all(ax.get_window_extent().width > 0.3 * slot for ax in plots)


def test_shares_carry_their_error(figures, results):
    said = words(figures["dots"]).replace("\xa0", " ")
    assert len(re.findall(r"\(\d+% ± \d+%\)", said)) == len(pictures.KINDS)
    rug = results["dots"].rug[0]
    half = float(re.search(r"± (\d+)%", said)[1]) / 100 * rug.counts.sum()
    assert half >= 1.9 * rug.std  # no less than a 95 % interval of any law
    assert words(figures["marginals"]).count("highest bar:") == len(pictures.DOMAIN)


def test_marginals_show_values(figures):
    said = words(figures["marginals"])
    for value in ("110", "55", "500,000", "1,000,000", "Some college", "No"):
        assert value in said
    assert "cell" not in said.split("95% noise")[0]


def test_descriptions_are_escaped_and_fall_back_to_titles(figures, results):
    figure = figures["rough curve"]
    assert 'aria-label="a &lt;b&gt; &quot;c&quot;"' in svg_text(figure, 'a <b> "c"')
    assert 'aria-label="Partial dependence of Insurance plan with $0-$500' in svg_text(figure)
    with pictures.sketched():
        assert "$0-$500" in chart_of(results["rough curve"]).svg.split(">")[0]


def test_every_picture_of_the_documents_is_described():
    pages = [ROOT / "README.md", *sorted((ROOT / "docs").rglob("*.md"))]
    found = [(path.name, *match) for path in pages for match in re.findall(r"!\[(.*?)\]\((.*?)\)", path.read_text())]
    assert len(found) > 20
    assert [image for image in found if len(image[1]) < 4] == []
