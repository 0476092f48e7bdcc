"""Pictures and words of attributions: the guarantee on each of them, doubt drawn faint, nothing by colour alone."""

from __future__ import annotations

import re
from html import unescape

import matplotlib
import numpy as np
import pytest
from matplotlib.backends.backend_agg import FigureCanvasAgg
from matplotlib.figure import Figure
from rich.console import Console

import dpexplain as dpx
from dpexplain.methods.attributions import ABOUT
from dpexplain.render.attributions import DIVERGING, FAINT, LOWERS, RAISES, _apart
from dpexplain.render.html import result_html, results_page
from dpexplain.render.text import plain, result_view
from made_attributions import adult, made
from pictures import sketched

matplotlib.use("Agg")


def axes():
    figure = Figure(figsize=(6.4, 4.6), layout="constrained")
    FigureCanvasAgg(figure)
    return figure.add_subplot()


def drawn(ax):
    ax.figure.canvas.draw()
    legend = ax.get_legend().get_texts() if ax.get_legend() else []
    texts = [t.get_text() for t in [*ax.texts, *legend, ax.title, *ax.get_yticklabels()]]
    return " ".join(" ".join([*texts, ax.get_title(loc="left")]).split())


def face(size=6, std=0.01):
    names = [f"p{i}" for i in range(size * size)]
    coefficients = np.linspace(-0.2, 0.2, size * size)
    return made({n: dpx.Numeric(0, 1) for n in names}, dict.fromkeys(names, 1.0), coefficients, std=std)


PICTURES = {
    "waterfall": lambda ax: adult().plot(ax),
    "force": lambda ax: adult().plot_force(ax),
    "heat map": lambda ax: face().heatmap((6, 6), ax=ax),
    "heat map over an image": lambda ax: face().heatmap((6, 6), image=np.eye(12), ax=ax),
}


@pytest.mark.parametrize("draw", PICTURES.values(), ids=PICTURES)
def test_every_picture_carries_its_guarantee_its_interval_and_what_it_leaves_out(draw):
    ax = axes()
    assert draw(ax) is ax
    text = drawn(ax)
    assert adult().receipt.guarantee in text
    assert ABOUT in text
    assert "the record itself is not protected by the guarantee" in text
    assert "95% noise interval of each" in text
    assert "Local explanation of one record" in text


def test_notes_of_the_fit_are_on_the_picture():
    assert "Few rows are near." in drawn(adult(notes=("Few rows are near.",)).plot(axes()))


def test_a_waterfall_has_twelve_bars_and_the_rest_as_one():
    found, ax = adult(), axes()
    found.plot(ax)
    assert len(ax.patches) == 13
    names = [label.get_text() for label in ax.get_yticklabels()]
    assert names[0] == "the middle of the domain"
    assert names[1] == "education_years = 13"
    assert names[-2:] == ["other 3 features", "this record, by the local model"]
    starts = [bar.get_x() for bar in ax.patches]  # each begins where the last one ended
    ends = [bar.get_x() + bar.get_width() for bar in ax.patches]
    np.testing.assert_allclose(starts, [found.base, *ends[:-1]], atol=1e-12)
    assert ends[-1] == pytest.approx(found.prediction)


def test_an_error_of_rounding_is_shown_as_zero():
    ax = axes()
    made({n: dpx.Numeric(0, 1) for n in "ab"}, {"a": 1.0, "b": 1.0}, np.array([0.2, 2e-16])).plot(ax)
    shown = [text.get_text() for text in ax.texts]
    assert "0" in shown
    assert not any("e-1" in text for text in shown)


@pytest.mark.parametrize("picture", ["plot", "plot_force"])
def test_what_noise_could_explain_is_faint_and_sign_gives_the_colour(picture):
    found, ax = adult(std=0.1), axes()
    getattr(found, picture)(ax)
    pushes = found.pushes() if picture == "plot" else found.pushes(8)
    if picture == "plot_force":  # what raises first, then what lowers
        pushes = [p for p in pushes if p.value > 0] + [p for p in pushes if p.value < 0]
    assert {p.sure for p in pushes} == {True, False}
    for push, bar in zip(pushes, ax.patches, strict=True):
        assert bar.get_alpha() == (1 if push.sure else FAINT)
        colour = matplotlib.colors.to_rgb(RAISES if push.value > 0 else LOWERS)
        assert bar.get_facecolor()[:3] == pytest.approx(colour)
    assert "faint: the noise could explain it" in drawn(ax)
    assert f"{pushes[0].value:+.2g}" in drawn(ax)  # and the sign is written out
    ax = axes()
    getattr(adult(std=0.0001), picture)(ax)
    assert "faint" not in drawn(ax)


def test_pushes_of_a_force_line_meet_at_the_record():
    found, ax = adult(), axes()
    found.plot_force(ax)
    tips = [polygon.get_xy()[2, 0] for polygon in ax.patches]
    tails = [polygon.get_xy()[0, 0] for polygon in ax.patches]
    up = [i for i, push in enumerate(sorted(found.pushes(8), key=lambda p: p.value < 0)) if push.value > 0]
    assert tips[0] == pytest.approx(found.prediction)
    assert tips[len(up)] == pytest.approx(found.prediction)
    moved = sum(tip - tail for tip, tail in zip(tips, tails, strict=True))
    assert moved == pytest.approx(found.prediction - found.base)


def test_labels_keep_apart_and_in_order():
    spots = _apart(np.array([0.0, 0.01, 0.02, 5.0]), 1.0)
    np.testing.assert_allclose(spots, [-0.99, 0.01, 1.01, 5.0])
    assert _apart(np.empty(0), 1.0).size == 0


def test_heat_maps_are_centred_and_faint_where_noise_could_do_it():
    found, ax = face(std=0.05), axes()
    found.heatmap((6, 6), ax=ax)
    image = ax.images[0]
    assert 0 < (~found.sure).sum() < 36
    np.testing.assert_array_equal(image.get_alpha(), np.where(found.sure, 1.0, FAINT).reshape(6, 6))
    colours = image.get_array()
    assert colours[0, 0, 2] > colours[0, 0, 0]  # the lowest is blue
    assert colours[-1, -1, 0] > colours[-1, -1, 2]  # the highest orange
    middle = DIVERGING(0.5)
    assert max(middle[:3]) - min(middle[:3]) < 0.01  # zero has no colour
    assert f"{(~found.sure).sum()} of 36 pixels are faint" in drawn(ax)
    turned = axes()
    found.heatmap((6, 6), order=[f"p{i}" for i in range(36)][::-1], ax=turned)
    np.testing.assert_array_equal(turned.images[0].get_array(), colours[::-1, ::-1])
    over = axes()
    found.heatmap((6, 6), image=np.zeros((60, 60)), ax=over)
    assert len(over.images) == 2
    assert over.images[0].get_extent() == over.images[1].get_extent()


def test_a_record_that_nothing_moves_can_be_drawn():
    flat = made({"a": dpx.Numeric(0, 1), "b": dpx.Numeric(0, 1)}, {"a": 0.5, "b": 0.5}, [0.0, 0.0])
    for picture in (flat.plot, flat.plot_force, lambda ax: flat.heatmap((1, 2), ax=ax)):
        assert ABOUT in drawn(picture(axes()))


def test_new_axes_are_made_when_none_are_given():
    import matplotlib.pyplot as plt

    assert adult().plot() is not adult().plot_force()
    plt.close("all")


ODD = ["$_$", "[/red]", "<script>alert(1)</script>", "x" * 300, "w_\"quote'"]


def test_features_may_have_any_name():
    columns = {name: dpx.Categorical(["$0-$10k", "<b>"]) for name in ODD}
    found = made(columns, dict.fromkeys(ODD, "<b>"), np.linspace(-1, 1, 10))
    for picture in (found.plot, found.plot_force):
        assert "alert(1)" in drawn(picture(axes()))
    with sketched():
        assert "<script" not in result_html(found)
    assert "[/red] = <b>" in plain(result_view(found))


# Pages and terminals ------------------------------------------------------------------------------------------------


def test_cards_hold_picture_numbers_and_the_warning():
    found = adult()
    with sketched():
        html, card = results_page("Local", "lead", [found]), found._repr_html_()
    assert html.count('role="img"') == 1
    assert ABOUT in html
    assert "<td>Never married</td>" in html
    assert "NA" not in re.sub(r"<svg.*?</svg>", "", html, flags=re.DOTALL)  # a category has no slope: an empty cell
    assert card.count('role="img"') == 1
    assert html[html.index("<svg") : html.index("</svg>")] == card[card.index("<svg") : card.index("</svg>")]


def test_the_terminal_says_the_same():
    text = plain(result_view(adult(std=0.1)))
    assert re.search(r"^the middle of the domain +0\.6435$", text, re.MULTILINE)
    assert re.search(r"^education_years = 13 +\+0\.24 +\+0\.\d+ to \+0\.\d+$", text, re.MULTILINE)
    assert re.search(r"^race = White .*the noise could explain it$", text, re.MULTILINE)
    assert re.search(r"^other 3 features", text, re.MULTILINE)
    assert re.search(r"^this record, by the local model +0\.281$", text, re.MULTILINE)
    assert ABOUT in text


def review(std=0.02):
    words = {"bad": -0.5, "superb": 0.4, "plot": 0.01}
    columns = {f"w_{word}": dpx.Numeric(0, 1) for word in words}
    return made(columns, dict.fromkeys(columns, 1), list(words.values()), std=std)


def test_words_are_escaped_coloured_and_marked():
    text = 'A <script>alert("bad")</script> plot & a superb "end".\nUnknown.'
    shown = review().highlight(text, "w_")
    html = shown.html
    assert shown._repr_html_() == html
    assert "<script" not in html
    assert "&lt;script&gt;alert(" in html
    stripped = unescape(re.sub(r"<[^>]*>", "", html))
    for piece in ('superb "end".\nUnknown.', ABOUT, shown.attribution.receipt.guarantee):
        assert piece in stripped
    spans = dict(re.findall(r'<span style="([^"]*)" title="(\w+): ', html))
    styles = {word: style for style, word in spans.items()}
    assert "border-bottom:2px solid" in styles["bad"]
    assert "border-top:2px solid" in styles["superb"]
    assert "dotted" in styles["plot"]
    depth = {word: float(re.search(r"rgba\(\d+,\d+,\d+,([\d.]+)\)", style)[1]) for word, style in styles.items()}
    assert depth["bad"] > depth["superb"] > 4 * depth["plot"]
    assert "95% noise interval" in html


def test_words_in_a_terminal_have_colours_and_marks():
    shown = review().highlight("bad plot, superb end", "w_")
    assert str(shown).splitlines()[0] == "▼bad △plot, ▲superb end"
    assert ABOUT in str(shown)
    assert str(shown).splitlines()[-1] == shown.attribution.receipt.short_guarantee
    assert "\x1b[1;38;2;" in shown.ansi
    assert "\x1b[2;38;2;" in shown.ansi
    with (console := Console(width=80, color_system=None)).capture() as captured:
        console.print(shown)
    assert captured.get().startswith("▼bad △plot, ▲superb end")
