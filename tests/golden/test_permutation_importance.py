"""With a sampler that adds nothing, the released importances are the plain ones."""

from __future__ import annotations

import itertools
import json
import math

import numpy as np
import pandas as pd
import pytest
from sklearn.compose import make_column_transformer
from sklearn.ensemble import RandomForestClassifier
from sklearn.inspection import permutation_importance as sklearn_importance
from sklearn.metrics import accuracy_score, brier_score_loss, log_loss, mean_absolute_error, mean_squared_error
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import OneHotEncoder
from sklearn.tree import DecisionTreeRegressor

import dpexplain as dpx
from dpexplain.core.budget import pure
from dpexplain.core.noise import Law, Noise
from dpexplain.core.release import Door
from dpexplain.data.donors import by_feature
from dpexplain.data.rows import Rows
from dpexplain.maths.laws import below
from dpexplain.methods.permutation_importance import release as pfi
from dpexplain.methods.permutation_importance.outlook import outlook
from dpexplain.methods.permutation_importance.release import PermutationImportance, permutation_importance
from dpexplain.methods.permutation_importance.result import Importance, gap_halfwidth
from dpexplain.methods.setting import Setting
from examples import DOMAIN, score
from stubs import FreeAccount

STEP = 2.0**-17  # rounding of each row's loss, in units of its bound
WIDE = dpx.Domain(
    {**DOMAIN, "spent": dpx.Numeric(0, 1), "rich": dpx.Categorical(["no", "yes"]), "one": dpx.Categorical(["a"])}
)
FEATURES = ["age", "sex", "income"]
PROTECTIONS = [
    {"relation": "replace-one"},
    {"relation": "add-remove"},
    {"relation": "replace-one", "unit": dpx.Unit("person", 3)},
    {"relation": "add-remove", "unit": dpx.Unit("person", 3)},
]
GROUPS = {"clip": math.inf, "method": "groups"}


@pytest.fixture(scope="module")
def people() -> pd.DataFrame:
    draw, n = np.random.default_rng(0), 3_000
    frame = pd.DataFrame(
        {
            "age": draw.integers(20, 30, n),
            "sex": draw.choice(["Female", "Male"], n),
            "income": draw.uniform(0, 100, n),
            "person": np.arange(n) // 3,
            "one": "a",
        }
    )
    spent = np.clip(score(frame) + draw.normal(0, 0.1, n), 0, 1)
    return frame.assign(spent=spent, rich=np.where(spent > 0.4, "yes", "no")).sample(frac=1, random_state=0)


@pytest.fixture(scope="module")
def tree(people):
    encoder = make_column_transformer((OneHotEncoder(), ["sex"]), remainder="passthrough")
    return make_pipeline(encoder, DecisionTreeRegressor(max_depth=5, random_state=0)).fit(
        people[FEATURES], people["spent"]
    )


@pytest.fixture(scope="module")
def forest(people):
    return RandomForestClassifier(10, max_depth=4, random_state=0).fit(people[["age", "income"]], people["rich"])


@pytest.fixture(scope="module")
def expected(people, tree):
    return sklearn_importance(
        tree, people[FEATURES], people["spent"], n_repeats=30, random_state=0, scoring="neg_mean_squared_error"
    )


def simple() -> dpx.Model:
    return dpx.Model(score, output=(0, 1), features=FEATURES, name="score", version="1")


@pytest.mark.parametrize("source", ["groups", "marginals"])
@pytest.mark.parametrize("protection", PROTECTIONS)
def test_agrees_with_scikit_learn(make_table, people, tree, expected, protection, source):
    table = make_table(people, exact=True, domain=WIDE, **protection)
    options = {"method": "groups"} if source == "groups" else {"marginals": dpx.marginals(table, FEATURES, epsilon=1)}
    model = dpx.Model(tree, output=(0, 1), features=FEATURES)
    found = permutation_importance(table, model, "spent", epsilon=9, clip=math.inf, repeats=3, **options)
    assert isinstance(found, Importance)
    assert found.candidates == tuple(FEATURES)
    assert found.base == pytest.approx(mean_squared_error(people["spent"], tree.predict(people[FEATURES])), abs=STEP)
    # seven standard deviations of one permutation, and one per cent because rows may be alone in their group
    spread = 7 * expected.importances_std + 0.01 * expected.importances_mean
    np.testing.assert_array_less(abs(found.scores - expected.importances_mean), spread)
    np.testing.assert_allclose(found.errors, found.base + found.scores)


def test_a_person_takes_no_values_from_their_own_rows(make_table, people, model):
    """Age is one number for each person: were it taken from the same person, it would seem less important."""
    by_person = people.assign(age=20 + people["person"] % 10)
    by_person["spent"] = score(by_person)
    table = make_table(by_person, exact=True, domain=WIDE, relation="add-remove", unit=dpx.Unit("person", 3))
    options = {"clip": math.inf, "features": ["age"], "repeats": 8, "method": "groups"}
    found = permutation_importance(table, simple(), "spent", epsilon=1, **options)
    ages = 0.04 * by_person["age"].to_numpy()
    assert found.scores[0] == pytest.approx(2 * ages.var(), rel=0.2)  # E(a - a')^2; one third less from own rows
    assert found.base == pytest.approx(0, abs=STEP)


def by_hand(people, frame_of, metric, seed=0):
    """Errors with each feature permuted as the published form does it, and the base."""
    generator = dpx.data.PublicRandom(seed).generator
    names = list(frame_of.columns)
    errors = []
    for name in names:
        shuffled = frame_of[name].to_numpy()[generator.permutation(len(people))]
        errors.append(metric(frame_of.assign(**{name: shuffled})))
    return errors, metric(frame_of)


@pytest.mark.parametrize(
    ("loss", "measure", "bound"),
    [
        ("squared", lambda y, p: brier_score_loss(y, p), 1),
        ("squared", lambda y, p: mean_squared_error(y, p), 1),
        ("absolute", lambda y, p: mean_absolute_error(y, p), 1),
        ("log", lambda y, p: log_loss(y, np.clip(p, 0.01, 0.99)), -math.log(0.01)),
        ("accuracy", lambda y, p: 1 - accuracy_score(y, p >= 0.5), 1),
    ],
)
def test_the_faithful_form_is_the_plain_computation_with_the_same_permutation(
    make_table, people, forest, loss, measure, bound
):
    outcome = (people["rich"] == "yes").astype(int)
    errors, base = by_hand(
        people, people[["age", "income"]], lambda frame: measure(outcome, forest.predict_proba(frame)[:, 1]), seed=5
    )
    model = dpx.Model(forest, output=(0, 1), label="yes")
    table = make_table(people, exact=True, domain=WIDE)
    found = permutation_importance(table, model, "rich", epsilon=1, method="paper", loss=loss, seed=5)
    assert found.candidates == ("age", "income")  # all that the model uses
    np.testing.assert_allclose(found.errors, errors, atol=STEP * bound)
    assert found.base == pytest.approx(base, abs=STEP * bound)
    np.testing.assert_allclose(found.scores, np.array(errors) - base, atol=2 * STEP * bound)
    noise = found.part("errors")[1]
    assert noise.law == "discrete-laplace"
    # 2 B for each of two errors and B for the base, over n epsilon
    assert float(noise.scale) / (found.losses.levels * len(people)) == pytest.approx(5 / len(people))


@pytest.mark.parametrize("method", ["groups", "marginals"])
@pytest.mark.parametrize("protection", PROTECTIONS)
def test_what_changes_nothing_has_no_importance(make_table, people, forest, protection, method):
    """A feature that the model ignores, a constant one, and one with a single category."""
    constant = people.assign(age=25)
    table = make_table(constant, exact=True, domain=WIDE, **protection)
    model = dpx.Model(forest, output=(0, 1), label="yes")
    features = ["sex", "one", "age", "income"]
    known = dpx.marginals(table, features, epsilon=1) if method == "marginals" else None
    options = {"features": features, "loss": "log", "method": method, "marginals": known, "smooth": False}
    found = permutation_importance(table, model, "rich", epsilon=1, **options)
    assert found.scores[:3].tolist() == [0, 0, 0]
    assert found.scores[3] > 0.001
    assert found.items[0] == "income"
    assert found.quantity == "increase of the log loss"


def test_targets_of_every_kind_mean_the_same(make_table, people, forest):
    coded = people.assign(spent=(people["rich"] == "yes").astype(float))
    settings = {"epsilon": 1, "method": "paper"}
    classifier = dpx.Model(forest, output=(0, 1), label="yes", name="f", version="1")
    plain = dpx.Model(lambda rows: forest.predict_proba(rows)[:, 1], output=(0, 1), features=["age", "income"])
    first = permutation_importance(make_table(coded, exact=True, domain=WIDE), classifier, "rich", **settings)
    second = permutation_importance(make_table(coded, exact=True, domain=WIDE), plain, "spent", **settings)
    third = permutation_importance(
        make_table(coded, exact=True, domain=WIDE), plain, "rich", positive="yes", **settings
    )
    fourth = permutation_importance(make_table(coded, exact=True, domain=WIDE), plain, "spent", positive=1, **settings)
    numbers = dpx.Domain({**WIDE, "spent": dpx.Categorical([0, 1])})
    fifth = permutation_importance(
        make_table(coded.assign(spent=coded["spent"].astype(int)), exact=True, domain=numbers),
        plain,
        "spent",
        **settings,
    )
    for other in (second, third, fourth, fifth):
        np.testing.assert_array_equal(first.errors, other.errors)


def test_the_limit_shrinks_about_as_many_groups_as_wanted(make_table, people):
    """Without noise the chosen limit is the one with the wanted number above it, and nothing is above the next."""
    table = make_table(people, exact=True, domain=WIDE, budget=dpx.Budget(1000))
    whole = permutation_importance(table, simple(), "spent", epsilon=200, clip=math.inf, method="groups")
    limited = permutation_importance(table, simple(), "spent", epsilon=200, method="groups")
    np.testing.assert_allclose(limited.scores, whole.scores, rtol=0.02)
    assert limited.limit < whole.limit / 8  # the largest limit would waste noise
    tight = permutation_importance(table, simple(), "spent", epsilon=0.05)
    assert tight.limit < limited.limit
    assert tight.items[:2] == limited.items[:2]
    half = permutation_importance(table, simple(), "spent", epsilon=1, clip=0.05)
    assert half.limit == pytest.approx(0.05, abs=STEP)
    assert "limit" not in half.released["parts"]
    for found in (limited, tight, half):  # without noise: what was cut off bounds what each feature lost
        lost = float(found.part("lost")[0][0]) / (2**18 * len(people))
        assert (abs(found.scores - whole.scores) <= lost + 0.02 * abs(whole.scores)).all()
    assert "lost" not in whole.released["parts"]
    assert whole.part("squares")[0].min() > 0


def test_failing_predictions_count_as_the_middle_and_stop_nothing(make_table, people):
    def odd(rows: pd.DataFrame) -> np.ndarray:
        income = rows["income"].to_numpy()
        if (income == 99).any():
            raise ValueError("99")
        return np.where(income == 98, np.nan, 0.0)

    broken = people.head(60).assign(income=[99.0] * 20 + [98.0] * 20 + [1.0] * 20, spent=0.0)
    model = dpx.Model(odd, output=(0, 1), features=["income", "age"])
    for method in ("groups", "marginals", "paper"):
        table = make_table(broken, exact=True, domain=WIDE)
        known = dpx.marginals(table, ["income", "age"], epsilon=1) if method == "marginals" else None
        found = permutation_importance(table, model, "spent", epsilon=1, method=method, marginals=known)
        assert found.base == pytest.approx(1 / 3, abs=STEP)
        assert found.scores[1] == pytest.approx(0, abs=STEP)


@pytest.mark.parametrize("rows", [0, 1, 2])
def test_tables_with_hardly_any_rows(make_table, people, rows):
    for protection, method in itertools.product(PROTECTIONS, ["groups", "marginals"]):
        if protection["relation"] == "add-remove":
            table = make_table(people.head(rows), domain=WIDE, **protection)
            known = dpx.marginals(table, FEATURES, epsilon=1) if method == "marginals" else None
            found = permutation_importance(table, simple(), "spent", epsilon=1, method=method, marginals=known)
            low, high = found.interval()
            assert np.isfinite([*low, *high, found.base]).all()
            assert (low <= high).all()


@pytest.mark.drawn(1e-5)
@pytest.mark.parametrize(
    ("protection", "options"),
    [
        (PROTECTIONS[1], GROUPS),
        *(pytest.param(PROTECTIONS[i], GROUPS, marks=pytest.mark.long) for i in (0, 2, 3)),
        (PROTECTIONS[0], {"method": "paper"}),
    ],
)
def test_intervals_cover_the_exact_statistic(make_table, people, protection, options):
    """400 releases at level 0.8: fewer than 270 covered has a probability below 1e-6."""
    table, cost = make_table(people.head(600), exact=True, domain=WIDE, **protection), pure(1)
    exact = permutation_importance(table, simple(), "spent", epsilon=1, **options)
    sums = {part: exact.part(part) for part in exact.released["parts"]}
    request = PermutationImportance(target="spent", **options)
    spec = pfi.resolve(request, Setting.of(table, simple()), cost)

    def body(gate):
        if spec.paper:
            bound = pfi.paper_sensitivity(spec, gate.neighbours)
            gate.noisy_sum("errors", sums["errors"][0], bound, cost, mechanism=spec.mechanism)
        else:
            price = spec.shares(cost)
            gate.noisy_sum("base", sums["base"][0], pfi.base_sensitivity(spec, gate.neighbours), price["base"])
            line = np.concatenate([sums["changes"][0], sums["squares"][0], [0, 0]])
            pfi.send_changes(gate, spec, cost, line, 1)

    door = Door(FreeAccount(table.budget, table.neighbours, keep=False))
    covered = np.zeros(3, dtype=int)
    for number in range(400):
        released = door.release("again", {"number": number}, cost, body)
        found = Importance(exact.receipt, released.payload)
        assert {part: found.part(part)[1] for part in sums} == {part: noise for part, (_, noise) in sums.items()}
        low, high = found.score_interval(0.8)
        covered[0] += low[0] <= exact.scores[0] <= high[0]
        low, high = found.base_interval(0.8)
        covered[1] += low <= exact.base <= high
        low, high = found.errors_interval(0.8)
        covered[2] += low[0] <= exact.errors[0] <= high[0]
    assert covered.min() >= 270


def test_the_interval_of_a_difference_allows_for_both_noises():
    for law in Law:
        noise = Noise(law, 5, 1000)
        for level in (0.5, 0.95, 0.999):
            assert (1 + level) / 2 <= below(noise, gap_halfwidth(noise, level)) <= (1 + level) / 2 + 0.002


def test_a_result_goes_to_a_file_and_back(make_table, people, tmp_path):
    table = make_table(people, domain=WIDE)
    for options in ({}, {"clip": 1.0}, {"method": "paper"}):
        found = permutation_importance(table, simple(), "spent", epsilon=1, **options)
        found.to_json(tmp_path / "file.json")
        again = dpx.from_json(tmp_path / "file.json")
        assert isinstance(again, Importance)
        pd.testing.assert_frame_equal(again.to_frame(), found.to_frame())
        assert (again.base, again.limit, again.title) == (found.base, found.limit, found.title)
        np.testing.assert_array_equal(again.errors_interval(), found.errors_interval())
        assert (again.limit is None) == ("method" in options)
        dpx.verify(again, table.ledger)
    replayed = permutation_importance(table, simple(), "spent", epsilon=1)
    assert replayed.receipt.replayed


def test_damaged_files_are_refused(make_table, people):
    found = permutation_importance(make_table(people, domain=WIDE), simple(), "spent", epsilon=1, smooth=False)
    text = found.to_json()
    assert '"kind": "permutation-importance"' in text
    with pytest.raises(dpx.InputError):
        dpx.from_json(text.replace('"view": {}', '"view": {"a": 1}'))
    for other in (99, -1):
        document = json.loads(text)
        document["released"]["parts"]["limit"]["values"] = [other]
        with pytest.raises(dpx.InputError):
            dpx.from_json(json.dumps(document))


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"target": "nothing"}, "unknown feature"),
        ({"target": "age"}, "which is the target"),
        ({"features": ["spent"]}, "is the target"),
        ({"method": "paper", "clip": 1.0}, "neither clip nor repeats"),
        ({"method": "paper", "limit": "interval"}, "no limit"),
        ({"method": "marginals"}, "marginals that were released before"),
        ({"target": "rich"}, "counts as one"),
        ({"target": "rich", "positive": "maybe"}, "no category"),
        ({"positive": 7}, "never 7"),
        ({"epsilon": 1e-9}, "larger epsilon"),
    ],
)
def test_what_makes_no_sense_is_refused_before_anything_is_paid(make_table, people, options, message):
    table = make_table(people, domain=WIDE)
    settings = {"target": "spent", "epsilon": 1, **options}
    with pytest.raises(dpx.InputError, match=message) as caught:
        permutation_importance(table, simple(), **settings)
    assert "Nothing was spent" in str(caught.value) or message == "larger epsilon"
    assert table.ledger.statement(table.name).spent.amount == 0


def test_losses_of_probabilities_need_a_probability(make_table, people):
    model = dpx.Model(score, output=(-1, 1), features=FEATURES)
    for loss in ("log", "accuracy"):
        with pytest.raises(dpx.InputError, match="inside"):
            permutation_importance(make_table(people, domain=WIDE), model, "spent", epsilon=1, loss=loss)


@pytest.mark.parametrize("protection", PROTECTIONS[1:])
def test_the_faithful_form_knows_replace_one_only(make_table, people, protection):
    with pytest.raises(dpx.InputError, match="number of rows is public"):
        permutation_importance(
            make_table(people, domain=WIDE, **protection), simple(), "spent", epsilon=1, method="paper"
        )


def test_marginals_must_fit(make_table, people):
    table, other = make_table(people, domain=WIDE), make_table(people, domain=WIDE)
    marginals = dpx.marginals(table, ["age"], epsilon=1)
    with pytest.raises(dpx.InputError, match="another table"):
        permutation_importance(other, simple(), "spent", epsilon=1, marginals=marginals)
    with pytest.raises(dpx.InputError, match="do not have 'sex'"):
        permutation_importance(table, simple(), "spent", epsilon=1, marginals=marginals)
    with pytest.raises(dpx.InputError, match="no use for marginals"):
        permutation_importance(table, simple(), "spent", epsilon=1, marginals=marginals, method="paper")
    with pytest.raises(dpx.InputError, match="result of dpx.marginals"):
        permutation_importance(table, simple(), "spent", epsilon=1, marginals={"age": [1]})
    found = permutation_importance(table, simple(), "spent", epsilon=1, marginals=marginals, features=["age"])
    assert found.spec.marginals == marginals.receipt.entry.payload_hash


@pytest.mark.parametrize(
    "change",
    [{"sequence": 4711}, {"payload_hash": "00" * 32}, {"reservation": "other"}, {"committed_at": "1970-01-01"}],
)
def test_marginals_with_another_entry_than_the_ledger_has_are_refused(make_table, people, change):
    """Else a guarantee would name an entry that is not theirs, and the same question would be paid twice."""
    table = make_table(people, domain=WIDE)
    document = json.loads(dpx.marginals(table, ["age"], epsilon=1).to_json())
    document["receipt"]["entry"].update(change)
    forged = dpx.from_json(json.dumps(document))
    with pytest.raises(dpx.InputError, match="has not released these marginals"):
        permutation_importance(table, simple(), "spent", epsilon=1, marginals=forged, features=["age"])


def test_draws_from_marginals_are_made_when_they_are_asked_for(make_table, people):
    """So that any number of them fits into memory."""
    table = make_table(people, domain=WIDE)
    known = {"age": dpx.marginals(table, ["age"], epsilon=1).reference("age", table.domain)}
    asked = []

    def uniform(size):
        asked.append(size)
        return table.secrets().uniform(size)

    rows = Rows(table.domain, {"age": np.full(7, 20.0)}, 7)
    batch = by_feature(rows, known, 100, uniform)
    assert asked == []
    next(iter(batch.values["age"]))
    assert asked == [7, 7]


def test_the_noised_stages_are_what_is_released(make_table, people):
    diagram = pfi.diagram()
    assert diagram.noised in diagram.privacy_enabling_sets()
    found = permutation_importance(make_table(people, domain=WIDE), simple(), "spent", epsilon=5)
    assert set(found.released["parts"]) == diagram.noised
    assert found.receipt.cost.amount == 5


@pytest.mark.parametrize("budget", [dpx.Budget(10), dpx.Budget(10, 1e-6)])
@pytest.mark.parametrize("mechanism", [None, "cube", "discrete-laplace"])
def test_the_forecast_is_the_noise_of_the_release(make_table, people, budget, mechanism):
    table = make_table(people, domain=WIDE, budget=budget)
    found = permutation_importance(table, simple(), "spent", epsilon=1, clip=1.0, mechanism=mechanism)
    request = PermutationImportance(target="spent", clip=1.0, mechanism=mechanism)
    cost = table.cost(epsilon=1)
    spec = pfi.resolve(request, Setting.of(table, simple()), cost)
    noises = pfi.forecast(spec, table.neighbours, cost)
    assert {part: found.part(part)[1] for part in found.released["parts"]} == noises


@pytest.mark.parametrize("protection", PROTECTIONS)
@pytest.mark.parametrize("epsilon", [0.3, 3])
def test_the_outlook_is_about_the_width_of_the_interval(make_table, people, protection, epsilon):
    """What the limit will be, what it will cut off, and how much is chance, is not known before."""
    neighbours = make_table(people, domain=WIDE, **protection).neighbours
    setting = Setting(WIDE, simple().output, neighbours, len(people), len(people), features=FEATURES)
    for options in ({"clip": 1.0}, {"clip": math.inf}, {}, {"limit": "interval"}, {"method": "paper"}):
        if "method" in options and protection != PROTECTIONS[0]:
            continue
        table = make_table(people, exact=True, domain=WIDE, **protection, rows_hint=len(people))
        found = permutation_importance(table, simple(), "spent", epsilon=epsilon, **options)
        told = outlook(PermutationImportance(target="spent", **options), setting, pure(epsilon))
        low, high = found.proven_score_interval(0.95)
        assert told.points == 3
        assert told.law == "discrete-laplace"
        half = float(np.median(high - low)) / 2
        width = told.error if told.interval is None else told.interval
        if "method" in options:
            assert half == pytest.approx(width)
        often = 4 if options.get("limit") else 2  # for narrow intervals chance counts most, and it is small here
        assert half / often <= width <= half * often
        assert told.std <= told.error <= told.band


@pytest.mark.parametrize("loss", ["squared", "absolute", "log", "accuracy"])
def test_what_happened_is_not_clipped_to_what_the_model_can_say(loss):
    """A class target is 0 or 1, also for a model whose probabilities never exceed 0.4."""
    from dpexplain.core.domain import PublicRange
    from dpexplain.maths.losses import Loss

    narrow = Loss.of(loss, PublicRange(0.0, 0.4), binary=True)
    y, f = np.array([1.0, 1.0, 0.0, 0.0]), np.array([0.4, 0.1, 0.4, 0.1])
    expected = {
        "squared": (y - f) ** 2,
        "absolute": abs(y - f),
        "log": -(y * np.log(f) + (1 - y) * np.log(1 - f)),
        "accuracy": np.array([1.0, 1.0, 0.0, 0.0]),
    }
    np.testing.assert_allclose(narrow(y, f), expected[loss])
    assert narrow(y, f).max() <= narrow.range.high
