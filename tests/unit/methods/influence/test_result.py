"""Influences as results: intervals that keep their word, small groups, words, pictures, files and back."""

from __future__ import annotations

import itertools
import json
import re
from dataclasses import replace
from fractions import Fraction

import numpy as np
import pandas as pd
import pytest
from matplotlib.figure import Figure
from scipy.stats import binom

import dpexplain as dpx
from dpexplain.core.noise import Law, Noise
from dpexplain.core.release import Door
from dpexplain.core.samplers import ExactSampler
from dpexplain.maths.tails import combined_halfwidth
from dpexplain.methods import histogram as histograms
from dpexplain.methods.influence import forecast as forecasts
from dpexplain.methods.influence.release import influence
from dpexplain.methods.influence.result import SOURCE, TableInfluence, rounded_up
from dpexplain.methods.result import from_json
from dpexplain.render.charts import chart_of
from dpexplain.render.plots import figure_of
from examples import score
from stubs import FreeAccount

pytestmark = pytest.mark.usefixtures("sketched_pictures")

FEMALE = {"sex": "Female"}
PEOPLE = {
    "average": {},
    "group": {"quantity": "group", "group": FEMALE},
    "disparity": {"quantity": "disparity", "group": FEMALE},
}


@pytest.fixture
def many(frame) -> pd.DataFrame:
    return pd.concat([frame] * 10, ignore_index=True)


@pytest.fixture
def ask(make_table, many, model):
    def make(quantity="average", *, epsilon=5, table=None, **options):
        found = make_table(many, budget=dpx.Budget(100)) if table is None else table
        return influence(found, model, **{"epsilon": epsilon, "samples": 1, **PEOPLE[quantity], **options})

    return make


# Intervals ------------------------------------------------------------------------------------------------------------


def noise_of(law: Law, size: int, terms: int, trials: int, draw: np.random.Generator):
    if law is Law.LAPLACE:
        return draw.laplace(0, 1_000, (trials, terms))
    if law is Law.GAUSSIAN:
        return draw.normal(0, 1_000, (trials, terms))
    return draw.uniform(-1, 1, (trials, terms)) * draw.gamma(size + 1, 1_000, trials)[:, None]


@pytest.mark.parametrize("law", list(Law))
@pytest.mark.parametrize(("coefficients", "drawn"), [([1.0], 0.0), ([1.0, 1.0], 0.0), ([1.0, 0.5, 0.2], 700.0)])
def test_halfwidths_of_sums(law, coefficients, drawn):
    """100,000 draws each, from a fixed seed; five standard errors allow for 0.4 %."""
    noise, trials, draw = Noise(law, 6, Fraction(1_000)), 100_000, np.random.default_rng(7)
    sums = noise_of(law, 6, len(coefficients), trials, draw) @ coefficients + drawn * draw.standard_normal(trials)
    for level in (0.5, 0.95, 0.99):
        half = combined_halfwidth([(noise, coefficients)], drawn, level)
        assert (np.abs(sums) <= half).mean() == pytest.approx(level, abs=0.009 if level == 0.5 else 0.004)
    assert combined_halfwidth([(noise, [0.0])], 0.0, 0.95) == 0


class Tap(ExactSampler):
    """The real sampler, which also remembers the exact values."""

    def perturb(self, values, noise, sensitivity, cost):
        self.exact = list(values)
        return super().perturb(values, noise, sensitivity, cost)


def with_values(found: TableInfluence, values) -> TableInfluence:
    """The same release with other sums, from so many draws that Monte Carlo error plays no part."""
    part = {**found.released["parts"]["influences"], "values": [int(v) for v in values]}
    spec = {**found.spec.to_json(), "draws": 10**9}
    receipt = replace(found.receipt, request={**found.receipt.request, "spec": spec})
    return TableInfluence(receipt, {"parts": {**found.released["parts"], "influences": part}})


# in the short ring one of each relation, quantity and definition
COVER = [("replace-one", "average", "pure"), ("add-remove", "group", "zcdp"), ("replace-one", "disparity", "zcdp")]
OTHERS = [
    case for case in itertools.product(("replace-one", "add-remove"), PEOPLE, ("pure", "zcdp")) if case not in COVER
]


@pytest.mark.drawn(1e-5)
@pytest.mark.parametrize(
    ("relation", "quantity", "definition"), [*COVER, *(pytest.param(*case, marks=pytest.mark.long) for case in OTHERS)]
)
@pytest.mark.long
def test_intervals_cover(make_table, many, model, quantity, relation, definition):
    """The influences of the exact sums, in 600 releases of them: fewer hits have a probability below 1e-6 if 90 of 100
    are covered, and more of them too. So neither the base nor a count can be forgotten, nor counted twice.
    """
    budget = dpx.Budget(100) if definition == "pure" else dpx.Budget(100, 1e-6)
    table, tap = make_table(many, relation=relation, budget=budget), Tap()
    table.door = Door(FreeAccount(budget, table.neighbours), sampler=tap)
    found = influence(table, model, features=["age", "income"], epsilon=2, samples=4, **PEOPLE[quantity])
    _, noise = found.part("influences")
    draw = noise_of(noise.law, noise.size, noise.size, 600, np.random.default_rng(7)) * float(noise.scale) / 1_000
    exact = with_values(found, tap.exact)
    hits = 0
    for shift in draw:
        low, high = with_values(found, np.rint(tap.exact + shift)).interval(0.9)
        hits += int(low[0] <= exact.values[0] <= high[0])
    most = binom.ppf(1 - 1e-6, 600, 0.9) + 12  # a little wide for small groups
    assert binom.ppf(1e-6, 600, 0.9) <= hits <= most < 600


RARE = dpx.Domain(
    {"a": dpx.Categorical([0, 1]), "b": dpx.Categorical(["usual", "some", "rare"]), "c": dpx.Categorical([0, 1])}
)


def tangled(rows: pd.DataFrame) -> np.ndarray:
    """Not additive: a and c matter where they differ, the rare value of b where a is one."""
    a, b, c = (rows[name].to_numpy() for name in "abc")
    return 0.5 * (a != c) + 0.4 * ((b == "rare") & (a == 1)) + 0.1 * (b == "some")


@pytest.fixture(scope="module")
def correlated() -> pd.DataFrame:
    """c is nearly a, and one row in a hundred has the rare value."""
    draw, n = np.random.default_rng(5), 6_000
    a = draw.integers(0, 2, n)
    b = draw.choice(["usual", "some", "rare"], n, p=[0.79, 0.2, 0.01])
    return pd.DataFrame({"a": a, "b": b, "c": np.where(draw.random(n) < 0.95, a, 1 - a)})


def expected(frame, marginals, quantity, aggregate):
    """The influences of all rows with the released distributions, by going through everything."""
    shares = dict(zip("abc", (marginals.shares(name) for name in "abc"), strict=True))
    places = {"a": [0, 1], "b": ["usual", "some", "rare"], "c": [0, 1]}
    before = tangled(frame)

    def value(S):
        found = np.zeros(len(frame))
        for others in itertools.product(*(range(len(places[name])) for name in S)):
            weight = np.prod([shares[name][k] for name, k in zip(S, others, strict=True)])
            changed = frame.assign(**{name: places[name][k] for name, k in zip(S, others, strict=True)})
            change = before - tangled(changed)
            found += weight * (np.abs(change) if quantity == "average" else change)
        inside = (frame["b"] == "usual").to_numpy()
        return found.mean() if quantity == "average" else found[inside].mean() - found[~inside].mean()

    if aggregate == "unary":
        return [value((name,)) for name in "abc"]
    orders = list(itertools.permutations("abc"))
    return [
        sum(value(o[: o.index(n) + 1]) - (value(o[: o.index(n)]) if o.index(n) else 0) for o in orders) / len(orders)
        for n in "abc"
    ]


@pytest.mark.drawn(1e-6)
@pytest.mark.long
@pytest.mark.parametrize(
    ("relation", "quantity", "aggregate", "predictions"),
    [
        ("replace-one", "average", "unary", 18_000),
        ("add-remove", "average", "unary", 9_000),
        ("replace-one", "disparity", "unary", 9_000),
        ("add-remove", "average", "shapley", 30_000),
        ("replace-one", "disparity", "shapley", 9_000),
    ],
)
def test_intervals_cover_chance(make_table, correlated, monkeypatch, relation, quantity, aggregate, predictions):
    """Releases with next to no noise but much chance: draws and orders of each row's own, and (9,000 predictions) rows
    chosen at random. In 60 releases fewer hits have a probability below 1e-10 if 95 of 100 are covered. Intervals
    without the chance have fewer.
    """
    monkeypatch.setattr(forecasts, "LEAST_ROWS", 100)
    budget = dpx.Budget(10**4)
    table = make_table(correlated, domain=RARE, relation=relation, budget=budget, rows_hint=6_000)
    model = dpx.Model(tangled, output=(0, 1), name="tangled", version="1")
    known = dpx.marginals(table, epsilon=10)
    truth = expected(correlated, known, quantity, aggregate)
    table.door = Door(FreeAccount(budget, table.neighbours, keep=False))
    monkeypatch.setattr(histograms, "known_marginals", lambda *_: None)  # which were released by another door
    asked = {"aggregate": aggregate, "most_predictions": predictions, "outcome": "score", "marginals": known}
    if aggregate == "shapley":
        asked["exact"] = False
    group = {"b": "usual"} if quantity == "disparity" else None
    hits, broken = np.zeros(3), np.zeros(3)
    for _ in range(60):
        found = influence(table, model, quantity, group=group, epsilon=1_000, **asked)
        low, high = found.interval()
        hits += (low <= truth) & (truth <= high)
        with monkeypatch.context() as patched:
            patched.setattr(TableInfluence, "_drawn", lambda *_: 0.0)
            low, high = replace(found).interval()  # a copy has computed nothing yet
        broken += (low <= truth) & (truth <= high)
    assert (found.spec.one_in > 1) == (predictions == 9_000)
    assert broken.min() < binom.ppf(1e-10, 60, 0.95) <= hits.min()


def test_draws_and_orders_widen_intervals(ask):
    found = ask("group", features=["age", "income"])
    widths = [float(np.diff(found.interval(level), axis=0)[0, 0]) for level in (0.5, 0.95)]
    assert widths[0] < widths[1]
    few = replace(found, receipt=with_values(found, found.part("influences")[0]).receipt)
    assert np.diff(few.interval(), axis=0)[0, 0] < widths[1]
    drawn = replace(found, sampling=(0.0, 0.1))
    assert np.diff(drawn.interval(), axis=0)[0, 1] > 0.3 > np.diff(drawn.interval(), axis=0)[0, 0]
    for level in (0, 1, 2, "much"):
        with pytest.raises(dpx.InputError, match="confidence level"):
            found.interval(level)


# The disparity itself -------------------------------------------------------------------------------------------------

FORMS = {"features": {}, "given": {"features": ["age"], "given": ["income"]}, "shapley": {"aggregate": "shapley"}}


# in the short ring every form with each outcome and each relation
@pytest.mark.parametrize("form", FORMS)
@pytest.mark.parametrize(
    ("outcome", "relation"),
    [
        ("class", "replace-one"),
        ("score", "add-remove"),
        pytest.param("class", "add-remove", marks=pytest.mark.long),
        pytest.param("score", "replace-one", marks=pytest.mark.long),
    ],
)
def test_the_rates_are_those_of_the_table(make_table, many, model, relation, outcome, form):
    table = make_table(many, exact=True, relation=relation, budget=dpx.Budget(100))
    options = {"outcome": outcome, "samples": 2, "exact": True if form == "shapley" else None, "smooth": False}
    found = influence(table, model, "disparity", group=FEMALE, epsilon=5, **FORMS[form], **options)
    answers = score(many) if outcome == "score" else score(many) >= 0.5
    inside = (many["sex"] == "Female").to_numpy()
    rates = [answers[inside].mean(), answers[~inside].mean()]
    rated = found.disparity
    np.testing.assert_allclose(rated.rates, rates, atol=2e-6)
    assert rated.difference == pytest.approx(rates[0] - rates[1], abs=4e-6)
    assert rated.ratio == pytest.approx(rates[0] / rates[1], abs=2e-5)
    frame = rated.to_frame()
    assert list(frame["what"]) == ["where sex is Female", "all others", "difference", "ratio"]
    assert (frame["low"] <= frame["value"]).all()
    assert (frame["value"] < frame["high"]).all()
    assert bool(found.spec.outcome_weight) == (form != "features")
    positive = "Positive: the output of model score, between 0 and 1, is at least 0.5."
    meaning = positive if outcome == "class" else "The score is the output of model score, between 0 and 1."
    assert rated.meaning == rated.sentences[-1] == meaning
    assert "Ratio: " in rated.sentences[1]
    again = from_json(found.to_json()).disparity
    assert again.sentences == rated.sentences
    drawn = " ".join(above.get_xlabel() for above in found.plot(Figure().add_subplot()).child_axes)
    shown = [str(found), found._repr_html_(), drawn]
    assert all(f"{rates[0] / rates[1]:.3g}" in " ".join(text.split()) for text in shown)
    assert all("at least 0.5" in " ".join(text.split()) for text in shown) == (outcome == "class")


@pytest.mark.parametrize("quantity", ["average", "group"])
def test_no_disparity_where_none_was_asked_for(ask, quantity):
    assert ask(quantity).disparity is None


@pytest.mark.drawn(1e-5)
@pytest.mark.parametrize(
    ("relation", "form", "definition"),
    [
        pytest.param("replace-one", "features", "pure", marks=pytest.mark.long),
        ("replace-one", "features", "zcdp"),
        pytest.param("add-remove", "shapley", "pure", marks=pytest.mark.long),
        ("add-remove", "shapley", "zcdp"),
    ],
)
def test_intervals_of_rates_cover(make_table, many, model, relation, form, definition):
    """Rates near the end of their range, where the noise of a size counts most, in 120 releases of the same sums.
    Of 90 % intervals fewer hits have a probability below 1e-6. A sibling that counts on a third of the noise has fewer.
    """
    budget = dpx.Budget(100) if definition == "pure" else dpx.Budget(100, 1e-6)
    table, tap = make_table(many, relation=relation, budget=budget), Tap()
    table.door = Door(FreeAccount(budget, table.neighbours), sampler=tap)
    high = dpx.Model(lambda r: 0.97 - 0.5 * (r["age"] > 28).to_numpy(), output=(0, 1), name="high", version="1")
    options = {"epsilon": 2, "samples": 4, "outcome": "class", **FORMS[form]}
    found = influence(table, high, "disparity", group=FEMALE, exact=True if form == "shapley" else None, **options)
    _, noise = found.part("influences")
    draw = noise_of(noise.law, noise.size, noise.size, 120, np.random.default_rng(7)) * float(noise.scale) / 1_000
    exact = with_values(found, tap.exact).disparity
    hits = np.zeros(5)
    for shift in draw:
        rated = with_values(found, np.rint(tap.exact + shift)).disparity
        low, up = rated.interval(0.9)
        less, more = rated.difference_interval(0.9)
        ratio = rated.ratio_interval(0.9)
        careless = replace(rated, noise=replace(noise, scale=noise.scale / 3)).interval(0.9)
        hits += [
            *((low <= exact.rates) & (exact.rates <= up)),
            less <= exact.difference <= more,
            ratio[0] <= exact.ratio <= ratio[1],
            careless[0][0] <= exact.rates[0] <= careless[1][0],
        ]
    least = binom.ppf(1e-6, 120, 0.9)
    assert (hits[:4] >= least).all()
    assert hits[4] < least


def test_a_ratio_to_what_may_be_nothing_is_not_determined(make_table, many):
    never = dpx.Model(lambda r: 1.0 * (r["sex"] == "Female").to_numpy(), output=(0, 1), name="never", version="1")
    found = influence(make_table(many, exact=True), never, "disparity", group=FEMALE, epsilon=1, outcome="class")
    rated = found.disparity
    assert rated.ratio is rated.ratio_interval() is None
    assert rated.difference > 0.9
    assert rated.to_frame().iloc[3, 1:].isna().all()
    assert "Ratio: not determined." in rated.sentences[1]
    assert "not determined" in found._repr_html_()
    signed = dpx.Model(lambda r: 1.0 * (r["sex"] == "Male").to_numpy(), output=(-1, 1), name="signed", version="1")
    assert influence(make_table(many, exact=True), signed, "disparity", group=FEMALE, epsilon=5).disparity.ratio is None


def test_rates_of_small_groups_are_not_determined(make_table, frame, model):
    few = frame.assign(sex=["Female"] * 3 + ["Male"] * 397)
    found = influence(make_table(few, exact=True), model, "disparity", group=FEMALE, epsilon=0.5, outcome="class")
    low, high = found.disparity.interval()
    assert (low.tolist(), high.tolist()) == ([0, 0], [1, 1])
    assert found.disparity.difference_interval() == (-1, 1)
    assert found.disparity.ratio is None
    assert "not determined with this epsilon" in found.disparity.sentences[0]


def test_files_of_earlier_versions_have_rates_where_they_were_released(ask):
    """Beside Shapley values there were none; for features by themselves they are the base."""
    document = json.loads(ask("disparity", aggregate="shapley", samples=4, smooth=False).to_json())
    spec, part = document["receipt"]["request"]["spec"], document["released"]["parts"]["influences"]
    del spec["outcome_weight"]
    kept = [i for i in range(len(part["values"])) if i not in (3, 7)]
    part["values"] = [part["values"][i] for i in kept]
    part["noise"]["size"] -= 2
    old = from_json(json.dumps(document))
    assert old.disparity is None
    assert len(old.values) == 3
    assert "rate" not in str(old).split("Influence on")[0]
    assert ask("disparity").disparity is not None


# Small groups ---------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("quantity", ["group", "disparity"])
@pytest.mark.parametrize("relation", ["replace-one", "add-remove"])
def test_a_group_that_is_too_small_says_so(make_table, frame, model, quantity, relation):
    few = frame.assign(sex=["Female"] * 3 + ["Male"] * 397)
    table = make_table(few, exact=True, relation=relation, budget=dpx.Budget(100))
    found = influence(table, model, quantity, group=FEMALE, epsilon=0.5, samples=1)
    assert not found.conclusive
    assert not found.values.any()
    low, high = found.interval()
    reach = 1.0 if quantity == "group" else 2.0
    assert (low == -reach).all()
    assert (high == reach).all()
    assert "too small for an answer with this epsilon" in found.note
    assert f"{int(np.ceil(found.needed)):,} are needed" in found.note
    assert found.sentences()[-1] == found.note
    assert not found.sure.any()
    assert from_json(found.to_json()) == found
    figure_of(found)


def test_a_group_of_which_nothing_is_left_says_so(make_table, frame, model):
    few = frame.assign(sex=["Male"] * 3 + ["Female"] * 397)
    table = make_table(few, exact=True, relation="add-remove", budget=dpx.Budget(100))
    found = influence(table, model, "disparity", group=FEMALE, epsilon=1, samples=1)
    assert "All others" in found.note
    assert not found.conclusive


def test_a_larger_epsilon_helps(make_table, frame, model):
    """The epsilon that a note names is about enough."""
    few = frame.assign(sex=["Female"] * 60 + ["Male"] * 340)
    table = make_table(few, budget=dpx.Budget(1_000), exact=True)
    found = influence(table, model, "group", group=FEMALE, epsilon=0.1, samples=1)
    assert not found.conclusive
    wanted = float(re.search(r"an epsilon of about ([\d.]+)\.$", found.note)[1])
    assert influence(table, model, "group", group=FEMALE, epsilon=1.1 * wanted, samples=1).conclusive
    assert not influence(table, model, "group", group=FEMALE, epsilon=0.8 * wanted, samples=1).conclusive


# Words and pictures ---------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("outcome", ["class", "score"])
@pytest.mark.parametrize("quantity", list(PEOPLE))
def test_words(ask, quantity, outcome):
    found = ask(quantity, outcome=outcome, samples=None)
    said = found.sentences(2)
    assert said.pop() == found.caveat == SOURCE  # what intervals leave out stands beside them
    assert len(said) == 2
    starts = {"average": ("For ", "The score"), "group": ("Where sex is Female, ",), "disparity": ("sex lowers the ",)}
    assert said[0].startswith(starts[quantity])
    assert re.search(r"\(95 % interval: [\d.]+( %)? to [\d.]+( %)?\)\.$", said[0])
    assert ("%" in said[0].replace("95 %", "")) == (outcome == "class")
    assert found.title
    assert found.unit_words
    assert found.items == ["age", "sex", "income"]
    assert (found.quantity, found.aggregate, found.is_class) == (quantity, "unary", outcome == "class")
    assert found.group == (None if quantity == "average" else "sex is Female")
    for top in (0, True, "all"):
        with pytest.raises(dpx.InputError, match="top is a whole number"):
            found.sentences(top)


def test_words_of_shared_and_marginal_influences(ask):
    shared = ask(aggregate="shapley")
    assert "Shapley values" in shared.title
    assert "has a part of" in shared.sentences(1)[0]
    beside = ask("group", features=["age"], given=["sex"])
    assert beside.spec.given == ("sex",)
    assert "age (beside sex) raises" in beside.sentences(1)[0] or "lowers" in beside.sentences(1)[0]


def test_what_may_be_nothing_is_said_to_be(ask, model):
    found = ask("group", epsilon=0.5, features=["income", "sex", "age"])
    unsure = [i for i in range(3) if not found.sure[i]]
    said = found.sentences(3)
    assert [("nothing at all" in said[found.order.index(i)]) for i in unsure] == [True] * len(unsure)


@pytest.mark.parametrize("quantity", list(PEOPLE))
def test_frames_and_pictures(ask, quantity):
    found = ask(quantity)
    frame = found.to_frame()
    beside = ["released", "proven low", "proven high"] if found.sharpened else []
    assert list(frame.columns) == ["item", "influence", "low", "high", *beside, "determined"]
    np.testing.assert_array_equal(frame["influence"], found.values)
    assert (frame["low"] <= frame["influence"]).all()
    picture = chart_of(found).svg
    for words in ("age", "income"):
        assert words in picture
    assert ("raises outcomes" in picture) == (quantity != "average")


def test_long_pictures_leave_small_influences_out(make_table):
    domain = dpx.Domain({f"f{i}": dpx.Categorical([0, 1]) for i in range(30)})
    frame = pd.DataFrame({name: np.arange(200) % (i + 2) % 2 for i, name in enumerate(domain)})
    model = dpx.Model(lambda rows: rows.to_numpy(dtype=float).mean(axis=1), output=(0, 1), name="m", version="1")
    found = influence(make_table(frame, domain=domain), model, epsilon=5, samples=1)
    assert "5 smaller influences are not shown" in chart_of(found).notes[0]


# Files ----------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("quantity", list(PEOPLE))
@pytest.mark.parametrize("options", [{}, {"aggregate": "shapley", "samples": 4}, {"given": ["sex"]}])
@pytest.mark.parametrize("relation", ["replace-one", "add-remove"])
def test_files_and_back(make_table, many, ask, quantity, options, relation):
    found = ask(quantity, table=make_table(many, relation=relation, budget=dpx.Budget(100)), **options)
    again = from_json(found.to_json())
    assert again == found
    np.testing.assert_array_equal(again.interval(), found.interval())
    np.testing.assert_array_equal(again.counts, found.counts)
    assert again.marginals.features == found.marginals.features
    assert again.sentences() == found.sentences()


def test_marginals_that_were_handed_over_are_not_in_the_file(make_table, many, ask):
    table = make_table(many, budget=dpx.Budget(100))
    known = dpx.marginals(table, epsilon=1)
    found = ask(table=table, marginals=known)
    assert found.marginals is known
    assert from_json(found.to_json()).marginals is None


def test_damaged_files_are_refused(ask):
    found = ask("disparity", aggregate="shapley", samples=4)
    text = found.to_json()
    document = json.loads(text)
    document["values"][0] += 0.01
    with pytest.raises(dpx.errors.VerificationError):
        from_json(json.dumps(document))

    def damaged(change):
        document = json.loads(text)
        change(document)
        return json.dumps(document)

    def spec(**damage):
        return lambda d: d["receipt"]["request"]["spec"].update(damage)

    changes = [
        lambda d: d["view"].update(sampling=[0.1]),
        lambda d: d["view"].update(sampling=[]),
        lambda d: d["view"].update(sampling=[-0.1, 0.1, 0.1]),
        lambda d: d["view"].update(sampling=["a", 0.1, 0.1]),
        lambda d: d["view"].update(more=1),
        lambda d: d.update(view={}),
        spec(items=[]),
        spec(items=[["age"]]),
        spec(draws=0),
        spec(count_weight=-1),
        spec(count_weight=0),
        spec(base_weight=1.5),
        spec(outcome_weight=0),
        spec(outcome_weight=-1),
        spec(one_in=0),
        spec(one_in=2.5),
        spec(own=1),
        spec(own=True),
        spec(counts=7),
        spec(quantity="median"),
        spec(aggregate="owen"),
        spec(group=None),
        lambda d: d["released"]["parts"]["influences"].update(values=[1, 2]),
    ]
    for change in changes:
        with pytest.raises((dpx.InputError, dpx.errors.VerificationError)):
            from_json(damaged(change))


@pytest.mark.parametrize(
    ("options", "asked"),
    [({"features": [("age", "sex"), "income"]}, 2), ({"aggregate": "shapley", "exact": False}, 5)],
)
def test_what_ended_the_draws_fits_them(ask, options, asked):
    """A forged file cannot make the words advise anything that the request and the number of rows rule out."""
    text = ask(epsilon=5, samples=None, most_predictions=1, outcome="score", **options).to_json()
    ended = json.loads(text)["receipt"]["request"]["spec"]["ended"]
    assert (ended["asked"], ended["each"]) == (asked, 4_000)
    assert "most_predictions=" in from_json(text).caveat

    def forged(**damage):
        document = json.loads(text)
        document["receipt"]["request"]["spec"].update(**damage)
        return json.dumps(document)

    old = json.loads(text)
    del old["receipt"]["request"]["spec"]["ended"]  # as files were before
    assert "samples would help" in from_json(json.dumps(old)).caveat
    wrong = [
        *({"asked": n} for n in (0, asked - 1, asked + 1, float(asked), True, "2", None)),
        *({"most": n} for n in (asked - 1, 2**18 + 1, 1e5, "9")),
        *({"each": n} for n in (0, -4_000, 3_999, 4_097, 10**30, 4_000.0)),
        *({"whole": n} for n in (None, 1, "yes", True)),
        {"more": 1},
    ]
    for damage in wrong:
        with pytest.raises((dpx.InputError, dpx.errors.VerificationError)):
            from_json(forged(ended={**ended, **damage}))
    for nothing in ([], {}, "end", 7, {"asked": asked}):
        with pytest.raises((dpx.InputError, dpx.errors.VerificationError)):
            from_json(forged(ended=nothing))
    with pytest.raises((dpx.InputError, dpx.errors.VerificationError)):
        from_json(forged(method="paper"))


def test_numbers_are_rounded_up_to_two_digits():
    numbers = {1: 1, 9.2: 10, 99: 99, 99.5: 100, 100: 100, 101: 110, 33_554_432: 34_000_000, 2**50: 12 * 10**14}
    assert {number: rounded_up(number) for number in numbers} == numbers


def test_no_sampling_error_where_no_orders_were_drawn(ask):
    document = json.loads(ask().to_json())
    document["view"].update(sampling=[0.3, 0.3, 0.3])
    with pytest.raises((dpx.InputError, dpx.errors.VerificationError)):
        from_json(json.dumps(document))
