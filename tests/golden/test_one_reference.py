"""All local explanations of one record count from the same average person, and do not contradict each other.

Two tables with columns of correlation 0.95, a rare category and a model that is not additive. Sketch, moments, descent,
the adaptive explainer and the transparency report explain the same records; wherever two of them call the sign of a
feature sure, it is the same sign. Sure is what noise explains once in a million times: about 200 signs are looked at.
(At the usual 95 %, 2 of 2,400 signs contradicted another one, of a column whose line is flat.)
"""

from __future__ import annotations

import json
from dataclasses import replace

import matplotlib
import numpy as np
import pandas as pd
import pytest

import dpexplain as dpx
from dpexplain.render.text import plain, result_view

pytestmark = pytest.mark.usefixtures("sketched_pictures")

matplotlib.use("Agg")

N = 12_000


def credit():
    draw = np.random.default_rng(0)
    age = np.clip(draw.normal(42, 13, N), 18, 90)
    frame = pd.DataFrame(
        {
            "age": age,
            "years": np.clip(age - 20 + draw.normal(0, 4, N), 0, 60),  # of correlation 0.95; no effect
            "income": np.clip(draw.gamma(3, 12, N), 0, 150),
            "job": draw.choice(["clerk", "sales", "craft", "pilot"], N, p=[0.5, 0.3, 0.19, 0.01]),
            "sex": draw.choice(["f", "m"], N),
        }
    )
    domain = dpx.Domain(
        {
            "age": dpx.Numeric(18, 90),
            "years": dpx.Numeric(0, 60),
            "income": dpx.Numeric(0, 150),
            "job": dpx.Categorical(["clerk", "sales", "craft", "pilot"]),
            "sex": dpx.Categorical(["f", "m"]),
        }
    )

    def score(rows):
        income, job = rows["income"].to_numpy(), rows["job"].to_numpy()
        men = (rows["sex"] == "m").to_numpy()
        logit = -3 + 0.035 * rows["age"].to_numpy() + 0.03 * income + 0.02 * income * men
        return 1 / (1 + np.exp(-logit - 1.5 * (job == "pilot") + 0.8 * (job == "craft")))

    records = [
        {"age": 60, "years": 39, "income": 60, "job": "sales", "sex": "m"},
        {"age": 25, "years": 6, "income": 20, "job": "pilot", "sex": "f"},
    ]
    return frame, domain, dpx.Model(score, output=(0, 1), name="credit", version="1"), score, records, ["years"]


def wave():
    draw = np.random.default_rng(1)
    x = draw.normal(size=(N, 4))
    x[:, 1] = 0.95 * x[:, 0] + np.sqrt(1 - 0.95**2) * x[:, 1]
    names = [f"x{i}" for i in range(4)]
    frame = pd.DataFrame(np.clip(x, -3, 3), columns=names)
    frame["kind"] = draw.choice(["p", "q", "r"], N, p=[0.6, 0.38, 0.02])
    domain = dpx.Domain({name: dpx.Numeric(-3, 3) for name in names} | {"kind": dpx.Categorical(["p", "q", "r"])})

    def score(rows):
        a, c, d = (rows[name].to_numpy() for name in ("x0", "x2", "x3"))
        return 10 + 5 * np.tanh(0.8 * a - 0.5 * c + 0.2 * c * d) + 2 * (rows["kind"] == "r").to_numpy()

    records = [
        {"x0": 1.5, "x1": 1.2, "x2": -1, "x3": 0.5, "kind": "p"},
        {"x0": -1.0, "x1": -1.3, "x2": 0.8, "x3": -1, "kind": "r"},
    ]
    return frame, domain, dpx.Model(score, output=(4, 18), name="wave", version="1"), score, records, ["x1"]


@pytest.mark.parametrize(
    ("made", "relation"),
    [
        (credit, "replace-one"),
        pytest.param(credit, "add-remove", marks=pytest.mark.long),
        pytest.param(wave, "replace-one", marks=pytest.mark.long),
        (wave, "add-remove"),
    ],
)
@pytest.mark.long
def test_no_two_explanations_of_a_record_contradict_each_other(make_table, made, relation):
    frame, domain, model, score, records, idle = made()
    table = make_table(frame, exact=True, domain=domain, budget=dpx.Budget(60, 1e-6), relation=relation, rows_hint=N)
    sketch = dpx.local_sketch(table, model, epsilon=3, method="moments")
    stream = dpx.AdaptiveExplainer(table, model, epsilon=6, per_query=3, iterations=20, reuse_distance=0)
    mean, agreed = float(score(frame).mean()), 0
    for record in records:
        own = float(score(pd.DataFrame([record]))[0])
        found = {
            "sketch": sketch.explain(record, own),
            "moments": dpx.local_explanation(table, model, record, epsilon=3, method="moments"),
            "gradient": dpx.local_explanation(table, model, record, epsilon=3, method="gradient", iterations=20),
            "adaptive": stream.explain(record),
        }
        for attribution in found.values():
            assert attribution.base == pytest.approx(mean, abs=0.02 * attribution.output.width)
            assert attribution.prediction == pytest.approx(own)
            assert "Compared with an average person of the table" in attribution.caveat
        report = dpx.transparency_report(table, model, record, epsilon=3, outcome="score")
        assert "Compared with an average person" in report.text()
        signs = {name: sure_signs(a.space.features, a, a.fit.settled) for name, a in found.items()}
        signs["report"] = sure_signs(report.features, report)
        assert not signs["gradient"]  # a path may end anywhere on its way, and says so
        assert not signs["adaptive"]
        for feature in record:
            seen = {sign[feature] for sign in signs.values() if feature in sign}
            agreed += sum(feature in sign for sign in signs.values()) > 1
            assert len(seen) <= 1, (feature, signs)
        assert not set(idle) & signs["report"].keys()
    assert agreed >= 2  # so there was something to agree about


def test_counted_from_the_middle_of_the_domain_they_would_contradict(make_table):
    """The assertion above can fail: at 50 one is older than the average person, and younger than half of 18 to 90."""
    frame, domain, model, _, (record, _), _ = credit()
    table = make_table(
        frame.drop(columns="years"), exact=True, domain=without_years(domain), budget=dpx.Budget(20, 1e-6)
    )
    asked = {name: value for name, value in record.items() if name != "years"} | {"age": 50}
    found = dpx.local_explanation(table, model, asked, epsilon=3, method="moments")
    report = dpx.transparency_report(table, model, asked, epsilon=3, outcome="score")
    middle = replace(found, ready=replace(found.fit, average=None, reference=found.space.middle))
    signs = [sure_signs(a.space.features, a)["age"] for a in (found, middle)]
    assert signs == [True, False]
    assert sure_signs(report.features, report)["age"]


def without_years(domain):
    return dpx.Domain({name: column for name, column in domain.items() if name != "years"})


def sure_signs(features, result, settled=True):
    low, high = result.interval(1 - 1e-6)
    sure = settled & ((low > 0) | (high < 0))
    return {name: bool(low[i] > 0) for i, name in enumerate(features) if sure[i]}


# What made signs differ besides ---------------------------------------------------------------------------------------


@pytest.mark.parametrize("made", [credit, wave])
def test_a_steep_column_hands_nothing_to_one_that_moves_with_it_nor_does_a_rare_category_grow(make_table, made):
    """Without noise: in the ball that coefficients were held in before, the idle column gets a part of the effect."""
    frame, domain, model, _, records, (idle,) = made()
    table = make_table(frame, exact=True, domain=domain, budget=dpx.Budget(10**6, 1e-6))
    sketch = dpx.local_sketch(table, model, epsilon=10**5, cells=4)
    place = list(domain).index(idle)
    for record in records:
        near = dpx.local_explanation(table, model, record, epsilon=10**5, method="moments")
        for found in (near, sketch.explain(record)):
            assert abs(found.values[place]) < 0.02 * model.output.width
            assert abs(found.values[-2:] - near.values[-2:]).max() < 0.02 * model.output.width  # the categories
    near = dpx.local_explanation(table, model, records[0], epsilon=10**5, method="moments")
    held = replace(near.spec, average=None).fit(near.released["parts"]["moments"]["values"], 1e-3)  # as older files
    contributions = near.space.by_feature((near.space.locate(near.record) - near.fit.reference) * held.coefficients)
    assert abs(contributions[place]) > 0.02 * model.output.width


# What a reader is told ------------------------------------------------------------------------------------------------


def test_text_picture_and_page_say_what_is_compared_with_what(make_table):
    frame, domain, model, score, (record, _), _ = credit()
    table = make_table(
        frame, exact=True, domain=domain, budget=dpx.Budget(20, 1e-6), relation="add-remove", rows_hint=N
    )
    found = dpx.local_explanation(table, model, record, epsilon=1, method="moments")
    own = float(score(pd.DataFrame([record]))[0])
    words = f"Compared with an average person of the table (mean prediction {found.base:.3g}); this record: {own:.3g}."
    assert found.undetermined == ["age", "years"]
    doubt = "Not determined with this epsilon (few such rows, or columns that move together): age, years."
    ax = found.plot()
    drawn = " ".join(text.get_text() for text in ax.texts).replace("\n", " ")
    page = found._repr_html_()
    printed = " ".join(plain(result_view(found)).split())
    for shown in (drawn, page, printed):
        assert words in shown
        assert doubt in shown
    assert ax.get_yticklabels()[0].get_text() == "an average person"
    again = dpx.from_json(found.to_json())
    assert (again.own, again.base, again.caveat) == (found.own, found.base, found.caveat)


def test_a_line_that_misses_the_models_own_answer_says_so_first(make_table):
    """A step: no line leads from the mean to its height."""
    frame = pd.DataFrame({"a": np.random.default_rng(0).random(N)})
    table = make_table(frame, exact=True, domain=dpx.Domain({"a": dpx.Numeric(0, 1)}), budget=dpx.Budget(20, 1e-6))
    step = dpx.Model(lambda rows: (rows["a"].to_numpy() > 0.9).astype(float), output=(0, 1), name="step", version="1")
    found = dpx.local_explanation(table, step, {"a": 0.95}, epsilon=1, method="moments")
    assert found.prediction == 1.0
    assert found.caveat.startswith("A straight line does not explain this prediction: it leads to 0.")
    assert found.left_out is not None
    assert found.base + found.values.sum() + found.remainder.value == pytest.approx(1.0)
    assert "what a line leaves out" in plain(result_view(found))


def test_a_prediction_outside_of_the_range_in_a_file_is_refused(make_table):
    frame = pd.DataFrame({"a": np.random.default_rng(0).random(500)})
    table = make_table(frame, exact=True, domain=dpx.Domain({"a": dpx.Numeric(0, 1)}), budget=dpx.Budget(20, 1e-6))
    flat = dpx.Model(lambda rows: rows["a"].to_numpy(), output=(0, 1), name="flat", version="1")
    text = json.loads(dpx.local_explanation(table, flat, {"a": 0.5}, epsilon=1).to_json())
    text["view"]["prediction"] = 1.5
    with pytest.raises(dpx.InputError):
        dpx.from_json(json.dumps(text))


def test_no_rows_have_no_average_person(make_table):
    """Nothing stands above the noise then: counted from the middle of the domain, and the notes say so."""
    domain = dpx.Domain({"a": dpx.Numeric(0, 1), "c": dpx.Categorical(["x", "y"])})
    empty = pd.DataFrame({"a": np.empty(0), "c": np.empty(0, dtype=str)})
    table = make_table(
        empty, exact=True, domain=domain, budget=dpx.Budget(20, 1e-6), relation="add-remove", rows_hint=100
    )
    flat = dpx.Model(lambda rows: rows["a"].to_numpy(), output=(0, 1), name="flat", version="1")
    found = dpx.local_explanation(table, flat, {"a": 0.9, "c": "y"}, epsilon=1, method="moments")
    assert not found.fit.average.known
    assert "The rows do not stand above the noise: counted from the middle of the domain." in found.caveat
    assert not found.sure.any()
    assert dpx.from_json(found.to_json()).caveat == found.caveat
