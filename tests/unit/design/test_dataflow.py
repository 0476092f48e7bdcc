"""Privacy-enabling sets: against enumeration, against the paper, and for every explainer of ours."""

from __future__ import annotations

import itertools

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import dpexplain as dpx
from dpexplain.core.budget import pure
from dpexplain.core.sensitivity import Neighbours, Relation, Sensitivity
from dpexplain.design import DataFlow
from dpexplain.methods.accumulated_effects import release as accumulated_effects
from dpexplain.methods.adaptive import release as adaptive
from dpexplain.methods.clusters import release as clusters
from dpexplain.methods.generic_plot import release as generic_plot
from dpexplain.methods.influence import persons
from dpexplain.methods.influence import release as influence
from dpexplain.methods.interaction_ranking import release as interaction_ranking
from dpexplain.methods.kmeans import release as kmeans
from dpexplain.methods.local_explanation import descent
from dpexplain.methods.local_explanation import release as local_explanation
from dpexplain.methods.local_sketch import release as local_sketch
from dpexplain.methods.marginals import release as marginals
from dpexplain.methods.partial_dependence import release as partial_dependence
from dpexplain.methods.permutation_importance import release as permutation_importance
from dpexplain.methods.quantiles import release as quantiles
from dpexplain.methods.rank_aggregation import release as rank_aggregation
from dpexplain.methods.transparency import release as transparency
from rings import examples

PAPER_PDP = DataFlow(
    {"a": "explanation data", "(1)": "x values", "(2)": "y values", "b": "plot"},
    [("a", "(1)"), ("a", "(2)"), ("(1)", "(2)"), ("(1)", "b"), ("(2)", "b")],
    name="PDP",
)


def test_the_papers_answer_for_partial_dependence():
    sets = [set(s) for s in PAPER_PDP.privacy_enabling_sets()]
    assert sets == [{"a"}, {"b"}, {"(1)", "(2)"}]


@st.composite
def diagrams(draw):
    """A random diagram with one input and one output: edges go from lower to higher numbers."""
    size = draw(st.integers(2, 7))
    pairs = list(itertools.combinations(range(size), 2))
    edges = {pair for pair in pairs if draw(st.booleans())}
    for stage in range(1, size):  # every stage is reached, and leads on
        if not any(b == stage for _, b in edges):
            edges.add((draw(st.integers(0, stage - 1)), stage))
    for stage in range(size - 1):
        if not any(a == stage for a, _ in edges):
            edges.add((stage, draw(st.integers(stage + 1, size - 1))))
    return DataFlow({str(i): "" for i in range(size)}, [(str(a), str(b)) for a, b in edges])


@settings(max_examples=examples(150), deadline=None)
@given(diagrams())
def test_all_minimal_separators_and_no_others(flow):
    """Against the definition, by trying every set of stages."""
    every = [frozenset(c) for k in range(len(flow.stages) + 1) for c in itertools.combinations(flow.stages, k)]
    separating = [s for s in every if flow.separates(s)]
    minimal = {s for s in separating if not any(other < s for other in separating)}
    assert set(flow.privacy_enabling_sets()) == minimal


def paths(flow, stage):
    if stage == flow.output:
        return [[stage]]
    return [[stage, *rest] for a, b in flow.edges if a == stage for rest in paths(flow, b)]


@settings(max_examples=examples(80), deadline=None)
@given(diagrams(), st.data())
def test_separating_means_that_every_path_passes(flow, data):
    chosen = {stage for stage in flow.stages if data.draw(st.booleans())}
    assert flow.separates(chosen) == all(chosen & set(path) for path in paths(flow, flow.input))


EXPLAINERS = (
    *(partial_dependence, accumulated_effects, generic_plot, permutation_importance, rank_aggregation),
    *(interaction_ranking, quantiles, marginals, local_explanation, local_sketch, influence, transparency),
    *(descent, adaptive, persons, clusters, kmeans),
)


@pytest.mark.parametrize("explainer", EXPLAINERS, ids=lambda module: module.__name__)
def test_what_an_explainer_noises_is_a_privacy_enabling_set(explainer):
    flow = explainer.diagram()
    assert flow.noised in flow.privacy_enabling_sets()


def test_what_is_released_is_what_the_diagram_says(make_table, frame, model):
    table = make_table(frame)
    assert (
        set(dpx.partial_dependence(table, model, "age", epsilon=1).released["parts"])
        == partial_dependence.diagram().noised
    )
    assert set(dpx.marginals(table, epsilon=1).released["parts"]) == marginals.diagram().noised
    curve = dpx.accumulated_effects(table, model, "age", epsilon=1)
    assert set(curve.released["parts"]) == accumulated_effects.diagram().noised
    parts = {"output": (0, 1), "parts": 5, "model": model, "epsilon": 1}
    plot = dpx.generic_plot(table, "pdp", "age", **parts)
    assert set(plot.released["parts"]) == generic_plot.diagram().noised
    top = dpx.interaction_ranking(table, model, epsilon=1, parts=5, points=5, k=2)
    assert set(top.released["parts"]) == interaction_ranking.diagram().noised == rank_aggregation.diagram().noised
    private = make_table(frame, relation="add-remove")
    found = dpx.quantiles(private, "age", [0.5], epsilon=1)
    assert {name.split("-")[0] for name in found.released["parts"]} == {"level", "count"}
    assert quantiles.diagram().noised == {"levels", "count"}
    short = dpx.Model(lambda rows: rows["age"].to_numpy() / 30, output=(0, 1), features=["age", "sex"])
    ranking = dpx.permutation_importance(table, short, "income", epsilon=1)
    assert set(ranking.released["parts"]) == permutation_importance.diagram().noised


def test_what_local_explanations_release_is_what_their_diagrams_say(make_table, frame, model):
    table = make_table(frame, budget=dpx.Budget(10, 1e-6))
    record = {name: column.missing for name, column in table.domain.items()}
    sketch = dpx.local_sketch(table, model, epsilon=1, method="moments")
    assert set(sketch.released["parts"]) == local_sketch.diagram().noised
    found = dpx.local_explanation(table, model, record, epsilon=1, method="moments")
    assert set(found.released["parts"]) == local_explanation.diagram().noised
    path = dpx.local_explanation(table, model, record, epsilon=1, method="gradient", iterations=4)
    assert {name.split("-")[0] for name in path.released["parts"]} <= descent.diagram().noised
    asked = dpx.AdaptiveExplainer(table, model, epsilon=3, per_query=1, iterations=4)
    asked.explain(record)
    other = {name: getattr(column, "low", column.missing) for name, column in table.domain.items()}
    again = asked.explain(other)
    assert {name.split("-")[0] for name in again.released["parts"]} <= adaptive.diagram().noised


def test_sets_are_ranked_by_forecast_noise():
    one = Neighbours(Relation.REPLACE_ONE)
    flow = DataFlow(
        {"a": "rows", "many": "a long vector", "few": "a short one", "b": "plot"},
        [("a", "many"), ("many", "few"), ("few", "b")],
        sensitivities={
            "many": (Sensitivity.of_boxes([(0, 1000)] * 100, one), 100),
            "few": (Sensitivity.of_boxes([(0, 1000)] * 3, one), 3),
        },
    )
    ranked = flow.rank(pure(1))
    assert [set(option.stages) for option in ranked] == [{"few"}, {"many"}]  # {a} and {b} carry no sensitivity
    assert ranked[0].worst < ranked[1].worst
    pair = DataFlow(
        {"a": "", "x": "", "y": "", "b": ""},
        [("a", "x"), ("a", "y"), ("x", "b"), ("y", "b")],
        sensitivities=dict.fromkeys("xy", (Sensitivity.of_counts(one), 5)),
    )
    (option,) = pair.rank(pure(1))
    half = dpx.core.mechanisms.best(Sensitivity.of_counts(one), 5, pure(0.5)).std
    assert option.noise == {"x": half, "y": half}


@pytest.mark.parametrize(
    ("stages", "edges", "message"),
    [
        ("ab", [("a", "b"), ("b", "a")], "cycle"),
        ("abc", [("a", "c"), ("b", "c")], "exactly one input; this one has: 'a', 'b'"),
        ("abc", [("a", "b"), ("a", "c")], "exactly one output"),
        ("a", [], "no path"),
        ("ab", [("a", "z")], "no stage 'z'"),
        ("abcd", [("a", "b"), ("c", "d")], "exactly one input"),
        ("", [], "exactly one input; this one has: none"),
    ],
)
def test_bad_diagrams(stages, edges, message):
    with pytest.raises(dpx.InputError, match=message):
        DataFlow(dict.fromkeys(stages, ""), edges)


def test_a_diagram_as_text_and_as_a_picture(tmp_path):
    from matplotlib.figure import Figure

    flow = partial_dependence.diagram()
    dot = flow.to_dot()
    assert dot.startswith("digraph {")
    assert '"table" -> "curve";' in dot
    assert dot.count("fillcolor") == 2
    assert '\\"odd\\"' in DataFlow({'"odd"': "", "b": ""}, [('"odd"', "b")]).to_dot()
    figure = Figure()
    ax = flow.plot(figure.add_subplot())
    assert sum("curve" in text.get_text() for text in ax.texts) >= 1
    figure.savefig(tmp_path / "flow.png")
