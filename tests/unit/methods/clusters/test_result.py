"""The result: consistent histograms, intervals that hold, words, files that were altered, pictures."""

from __future__ import annotations

import json
from dataclasses import replace
from fractions import Fraction

import numpy as np
import pandas as pd
import pytest
from matplotlib.backends.backend_agg import FigureCanvasAgg
from matplotlib.figure import Figure

import dpexplain as dpx
from clustered import ATTRIBUTES, CLUSTERING, DOMAIN, LABELS, people
from dpexplain.core.noise import Law, Noise
from dpexplain.errors import InputError, VerificationError
from dpexplain.maths.grids import Partition
from dpexplain.methods.clusters import result as clusters
from dpexplain.methods.clusters.release import explain_clusters
from dpexplain.methods.clusters.result import Explanation, reach_of_sum
from dpexplain.methods.clusters.spec import Cells, nth_combination
from dpexplain.methods.result import from_json

pytestmark = pytest.mark.usefixtures("sketched_pictures")

FORMS = [
    {"method": "one-stage"},
    {"method": "one-stage", "per_cluster": 2},
    {"method": "posterior"},
    {"method": "two-stage"},
    {"method": "two-stage", "bounds": "paper", "per_cluster": 2},
]


@pytest.fixture(params=["replace-one", "add-remove"])
def table(request, make_table):
    return make_table(people(), domain=DOMAIN, relation=request.param, rows_hint=3000)


@pytest.fixture
def result(make_table):
    table = make_table(people(), domain=DOMAIN, relation="add-remove", rows_hint=3000)
    return explain_clusters(table, CLUSTERING, attributes=ATTRIBUTES, epsilon=0.3)


@pytest.mark.parametrize("options", FORMS)
def test_histograms_are_consistent_and_never_negative(table, options):
    result = explain_clusters(table, CLUSTERING, attributes=ATTRIBUTES, epsilon=0.05, **options)
    total = result.sizes.sum()
    if table.size is not None:
        assert total == pytest.approx(3000)
    assert (result.sizes >= 0).all()
    assert (result.values >= 0).all()
    by_cluster = {}
    for e in result.explanations:
        assert e.counts.sum() + e.rest.sum() == pytest.approx(total)
        by_cluster.setdefault(e.cluster, []).append(e.counts.sum())
    for sums in by_cluster.values():  # the same number of rows in every histogram of a cluster
        assert np.ptp(sums) < 1e-6
    for name in ATTRIBUTES:  # all rows by value: the same, whichever cluster is looked at
        sums = [e.counts + e.rest for e in result.explanations if e.attribute == name]
        assert all(np.allclose(one, sums[0]) for one in sums)


@pytest.mark.parametrize("options", FORMS)
def test_there_and_back(table, options, tmp_path):
    result = explain_clusters(table, CLUSTERING, attributes=ATTRIBUTES, epsilon=0.5, **options)
    result.to_json(tmp_path / "r.json")
    back = from_json(tmp_path / "r.json")
    assert back.values.tolist() == result.values.tolist()
    assert back.describe() == result.describe()
    assert back.chosen == result.chosen


def test_an_explanation_by_diversity_alone_there_and_back(table):
    """A single attribute of a cluster has no score then."""
    result = explain_clusters(table, CLUSTERING, attributes=ATTRIBUTES, epsilon=1, weights=(0, 0, 1))
    assert from_json(result.to_json()).describe() == result.describe()


def altered(result, change):
    document = json.loads(result.to_json())
    change(document)
    return json.dumps(document)


def other_choice(document):
    values = document["released"]["parts"]["combination"]["values"]
    values[0] = [1 - values[0][0] if values[0][0] < 2 else 0]


def more_rows(document):
    document["released"]["parts"]["histograms"]["values"][0] += 10_000


@pytest.mark.parametrize("change", [other_choice, more_rows])
def test_altered_values_are_refused(result, change):
    with pytest.raises((VerificationError, InputError)):
        from_json(altered(result, change))


@pytest.mark.parametrize(
    "change",
    [
        lambda d: d["released"]["parts"]["combination"]["values"].pop(),
        lambda d: d["released"]["parts"]["combination"]["values"].__setitem__(0, [9]),
        lambda d: d["released"]["parts"]["combination"]["values"].__setitem__(0, [0, 0]),
        lambda d: d["released"]["parts"]["combination"].pop("rate"),
        lambda d: d["released"]["parts"]["combination"].update(rate="0"),
        lambda d: d["released"]["parts"]["histograms"]["values"].pop(),
        lambda d: d["released"]["parts"]["histograms"]["noise"].update(law="cube"),
        lambda d: d["receipt"]["request"]["spec"]["labels"].append("more"),
        lambda d: d["receipt"]["request"]["spec"]["partitions"].pop(),
        lambda d: d["receipt"]["request"]["spec"]["whole"].pop(),
        lambda d: d["receipt"]["request"]["spec"].update(unit=0),
        lambda d: d["receipt"]["request"]["spec"].update(method="two-stage"),
        lambda d: d["view"].update(more=1),
    ],
)
def test_damaged_files_are_refused_in_words(result, change):
    with pytest.raises(InputError, match="not a result|damaged"):
        from_json(altered(result, change))


def test_the_frame_stands_in_the_order_of_the_values(result):
    frame = result.to_frame()
    assert len(frame) == len(result.values)
    assert frame["rows"].tolist() == result.values.tolist()
    first = frame[(frame["cluster"] == "young") & (frame["group"] == "cluster")]
    assert first["value"].tolist() == list(result.explanations[0].names)
    assert first["share"].sum() == pytest.approx(1)
    low, high = result.interval(0.9)
    wide_low, wide_high = result.interval(0.99)
    assert (wide_high - wide_low >= high - low).all()


# Intervals ----------------------------------------------------------------------------------------------------------


def with_values(result, part, values):
    """The same release with other noise."""
    parts = result.released["parts"]
    return replace(result, released={"parts": {**parts, part: {**parts[part], "values": values.tolist()}}})


@pytest.mark.parametrize("law", [Law.LAPLACE, Law.GAUSSIAN])
@pytest.mark.parametrize(("own", "owned", "rest"), [(1, 1, 0), (3, 1, 1), (2, 4, 1), (3, 0, 5), (4, 30, 10), (2, 9, 0)])
def test_the_reach_of_a_sum_covers_it_and_not_much_more(law, own, owned, rest):
    """100,000 sums of discrete noise; 5 % of them may lie outside (at 5 sigma 5.35 %), and 4 % at least should."""
    draw, shape, b = np.random.default_rng(0), (100_000, owned + rest), 40
    if law is Law.LAPLACE:
        z = draw.geometric(1 - np.exp(-1 / b), shape) - draw.geometric(1 - np.exp(-1 / b), shape)
    else:
        z = np.rint(draw.normal(0, b, shape))
    sums = abs((z / np.array([own] * owned + [1] * rest)).sum(axis=1))
    noise = Noise(law, owned + rest, Fraction(b))
    reach = reach_of_sum([(noise, 1 / own)] * owned + [(noise, 1.0)] * rest, 1, 0.95)
    assert 0.04 < (sums > reach).mean() < 0.0535


@pytest.mark.parametrize("histograms", ["disjoint", "paper"])
@pytest.mark.parametrize("budget", [dpx.Budget(10), dpx.Budget(10, 1e-6)])
def test_intervals_cover_the_exact_histograms(make_table, budget, histograms):
    """300 draws of the noise of one release; counts that all moved together would be missed in 11 % at 5 sigma."""
    table = make_table(people(500), domain=DOMAIN, relation="add-remove", budget=budget, exact=True)
    result = explain_clusters(table, CLUSTERING, attributes=ATTRIBUTES, epsilon=0.5, histograms=histograms)
    exact, draw, inside, shares = result.values, np.random.default_rng(1), [], []
    cells = clusters.telling_cells(result.explanations[0])
    share = {rest: float(_of(result, rest)[cells].sum()) for rest in (False, True)}
    for _ in range(300):
        drawn = result
        for part in {"histograms", "everyone"} & set(result.released["parts"]):
            values, noise = result.part(part)
            b = float(noise.scale)
            z = draw.laplace(0, b, len(values)) if noise.law is Law.LAPLACE else draw.normal(0, b, len(values))
            drawn = with_values(drawn, part, np.rint(values + z).astype(int))
        low, high = drawn.interval()
        inside.append((low <= exact + 1e-9) & (exact - 1e-9 <= high))
        for rest, true in share.items():
            a, b = drawn.share_interval(0, cells, rest=rest)
            shares.append(a - 1e-9 <= true <= b + 1e-9)
    assert np.mean(inside) > 0.95 - 5 * np.sqrt(0.05 * 0.95 / 300)
    assert np.mean(shares) > 0.95 - 5 * np.sqrt(0.05 * 0.95 / 600)


def _of(result, rest):
    e = result.explanations[0]
    return e.rest_shares if rest else e.shares


def test_estimates_are_better_than_the_noisy_counts(make_table):
    """Totals and signs that are known make the histograms better: squared error over 200 draws of the noise."""
    table = make_table(people(500), domain=DOMAIN, exact=True)
    result = explain_clusters(table, CLUSTERING, attributes=ATTRIBUTES, epsilon=0.1, method="one-stage")
    values, noise = result.part("histograms")
    draw, errors = np.random.default_rng(2), []
    for _ in range(200):
        noisy = np.rint(values + draw.laplace(0, float(noise.scale), len(values))).astype(int)
        drawn = with_values(result, "histograms", noisy)
        raw = np.concatenate(
            [
                sum(drawn._noisy[a, g] for g in side)
                for c, (a,) in enumerate(result._numbers)
                for side in drawn._sides(c, a)
            ]
        )
        errors.append([((drawn.values - result.values) ** 2).sum(), ((raw - result.values) ** 2).sum()])
    ours, plain = np.mean(errors, axis=0)
    assert ours < 0.8 * plain


# Words --------------------------------------------------------------------------------------------------------------


def explanation(counts, rest, edges=None, names=None):
    names = tuple(names or [f"v{i}" for i in range(len(counts))])
    labels = names if edges is None else tuple(range(len(counts)))
    partition = Partition("x", labels, None if edges is None else tuple(edges))
    return Explanation("c", "x", partition, names, np.array(counts, dtype=float), np.array(rest, dtype=float))


def test_the_telling_cells_are_a_run_or_a_few_categories():
    run = explanation([0, 30, 5, 30, 0], [20, 20, 20, 20, 20], edges=[0, 1, 2, 3, 4, 5])
    assert clusters.telling_cells(run) == [1, 2, 3]
    some = explanation([40, 0, 40, 20, 2], [10, 70, 10, 10, 1])
    assert clusters.telling_cells(some) == [0, 2, 3]
    assert clusters.values_named(some, [0, 2, 3]) == "v0, v2 or v3"
    same = explanation([10, 10], [20, 20])
    assert clusters.telling_cells(same) == [0]


def test_cells_are_called_by_their_values():
    whole = Partition("x", (1.5, 3.5, 5.0), (0.5, 2.5, 4.5, 5.5))
    assert clusters.cell_names(whole, whole=True) == ("1 to 2", "3 to 4", "5")
    assert clusters.cell_names(whole, whole=False) == ("0.5 to 2.5", "2.5 to 4.5", "4.5 to 5.5")
    named = explanation([1, 1, 1], [1, 1, 1], edges=whole.edges, names=clusters.cell_names(whole, whole=True))
    assert clusters.values_named(named, [1, 2]) == "3 to 5"


def test_words_tell_noise_from_news(make_table):
    """In 200 draws of the noise, from a fixed seed: one in more than a thousand would be told as news."""
    draw = np.random.default_rng(0)
    frame = pd.DataFrame({"x": draw.integers(0, 3, 2000), "group": draw.choice([*LABELS], 2000)})
    domain = dpx.Domain({"x": dpx.Categorical([0, 1, 2]), "group": DOMAIN["group"]})
    table = make_table(frame, domain=domain, exact=True)
    result = explain_clusters(table, CLUSTERING, attributes=["x"], epsilon=0.05, method="one-stage")
    values, noise = result.part("histograms")
    for _ in range(200):
        noisy = np.rint(values + draw.laplace(0, float(noise.scale), len(values))).astype(int)
        drawn = with_values(result, "histograms", noisy)
        assert all("within the noise" in s or "too few rows" in s for s in drawn.sentences)
    assert "95 %" in result.utility
    assert "of the largest possible score" in result.utility


def test_the_utility_of_two_stages_speaks_of_candidates(table):
    result = explain_clusters(table, CLUSTERING, attributes=ATTRIBUTES, epsilon=1, method="two-stage")
    assert "of 27 combinations of its candidates" in result.utility
    assert "each candidate of a cluster" in result.utility


def test_the_shortfall_is_that_of_the_exponential_mechanism(result):
    """range / epsilon * (log of the number of combinations + log 20), in rows."""
    epsilon = 0.3 * float(result.spec.selection_share)
    length = 4 / 3 / 3 + 1 / 3 + 2 / 3 / 2
    assert result.shortfall() == pytest.approx(length / epsilon * (3 * np.log(4) + np.log(20)), rel=1e-3)
    assert result.shortfall(0.99) > result.shortfall(0.9)


def test_combinations_are_numbered_as_they_are_listed():
    candidates = [[3, 1], [0, 2, 5]]
    assert [nth_combination(candidates, 1, i) for i in (0, 1, 5)] == [((3,), (0,)), ((3,), (2,)), ((1,), (5,))]
    assert nth_combination(candidates, 2, 2) == ((1, 3), (2, 5))
    with pytest.raises(ValueError, match="combination"):
        nth_combination(candidates, 1, 6)


def test_cells_of_a_combination():
    cells = Cells((2, 3, 4), ((0,), (2,), (0,)), gaussian=False)
    assert cells.attributes == (0, 2)
    assert cells.users(0) == (0, 2)
    assert cells.size == 3 * 2 + 2 * 4
    assert cells.slices[0, None] == slice(4, 6)


# Pictures -----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("options", [{}, {"per_cluster": 2}])
def test_a_page_has_a_panel_for_each_explanation_and_its_words(make_table, options):
    table = make_table(people(), domain=DOMAIN)
    result = explain_clusters(table, CLUSTERING, attributes=ATTRIBUTES, epsilon=0.5, **options)
    figure = Figure(figsize=result.picture_size, layout="constrained")
    FigureCanvasAgg(figure)
    result.plot(figure.add_subplot())
    figure.canvas.draw()
    panels = [ax for ax in figure.axes if ax.patches]
    assert len(panels) == len(result.explanations)
    for panel, e in zip(panels, result.explanations, strict=True):
        heights = [bar.get_height() for bar in panel.patches]
        np.testing.assert_allclose(heights, 100 * np.concatenate([e.shares, e.rest_shares]))
        assert e.attribute in panel.get_title(loc="left")
    words = " ".join(text.get_text() for ax in figure.axes for text in ax.texts).replace("\n", " ")
    assert "Differentially private with epsilon = 0.5" in words
    assert "largest possible score" in words


def test_a_figure_of_its_own(result):
    import matplotlib.pyplot as plt

    ax = result.plot()
    assert len(ax.figure.axes) > 3
    plt.close(ax.figure)
