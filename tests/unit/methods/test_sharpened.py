"""Influences and importances that are sharpened by synthetic rows: what they rest on, files, and what is refused."""

import json
from dataclasses import replace

import numpy as np
import pandas as pd
import pytest

import dpexplain as dpx
from dpexplain.core.noise import Law, Noise
from dpexplain.errors import VerificationError
from dpexplain.maths.combined import Combined
from dpexplain.maths.posterior import Prior, sharpen
from dpexplain.methods.influence.sharp import LEAN, SURE, SharpInfluences

DOMAIN = dpx.Domain(
    {
        "sex": dpx.Categorical(["F", "M"]),
        "hours": dpx.Numeric(0, 5, integer=True),
        "plan": dpx.Categorical(["a", "b"]),
        "paid": dpx.Categorical([0, 1]),
    }
)
WOMEN = {"sex": "F"}


def score(rows: pd.DataFrame) -> np.ndarray:
    return 0.1 + rows["hours"].to_numpy() / 7 + 0.1 * (rows["plan"] == "a").to_numpy()


def rows_of(n: int = 2_000) -> pd.DataFrame:
    """Columns that go together: men have more hours."""
    draw = np.random.default_rng(5)
    sex = draw.choice(["F", "M"], n)
    hours = np.clip(draw.integers(0, 4, n) + 2 * (sex == "M"), 0, 5)
    found = pd.DataFrame({"sex": sex, "hours": hours, "plan": draw.choice(["a", "b"], n)})
    return found.assign(paid=(draw.random(n) < score(found)).astype(int))


def model_of(function=score, **options) -> dpx.Model:
    about = {"output": (0, 1), "features": ["hours", "plan"], "name": "pay", "version": "1", **options}
    return dpx.Model(function, **about)


MODEL = model_of()


@pytest.fixture(scope="module")
def table():
    budget = dpx.Budget(100)
    return dpx.PrivateTable(
        rows_of(), domain=DOMAIN, budget=budget, relation="replace-one", ledger="sqlite:///:memory:", name="pay"
    )


@pytest.fixture(scope="module")
def stand_in(table):
    return dpx.stand_in(table, epsilon=1)


def disparity(table, **options):
    asked = {"quantity": "disparity", "group": WOMEN, "outcome": "class", "epsilon": 0.4}
    return dpx.influence(table, MODEL, **(asked | options))


def test_sums_of_means_are_those_of_the_posterior():
    """The posterior for one worth and no other errors, by hand: (C + S)^-1."""
    draw = np.random.default_rng(1)
    answers, mix = draw.normal(size=(3, 400)), np.array([[1.0, -1.0, 0.0], [0.0, 1.0, 1.0]])
    prior, released = Prior.of_answers(answers, 50.0), draw.normal(size=3)
    noise = Noise(Law.GAUSSIAN, 10_000, 3)
    posterior = sharpen(prior, released, np.full(3, 0.1**2), width=2.0)
    found = Combined(posterior, noise, np.eye(3) * 1e-3, mix, 0.5)
    np.testing.assert_allclose(found.values, mix @ posterior.values + 0.5)
    spread = np.sqrt(((mix @ posterior.root) ** 2).sum(axis=1))
    np.testing.assert_allclose(found.halfwidths(0.95), 1.96 * spread, rtol=0.02)


def test_groups_know_nothing_of_each_other():
    answers = [np.random.default_rng(k).normal(size=(2, 300)) for k in range(2)]
    prior = Prior.of_groups(answers, [0.5, 0.25], 40.0, 600)
    C = prior.covariance()
    assert not C[:2, 2:].any()
    for block, share in enumerate((0.5, 0.25)):
        place = slice(2 * block, 2 * block + 2)
        np.testing.assert_allclose(C[place, place], np.cov(answers[block]) / share, rtol=2e-2, atol=2e-2)
        np.testing.assert_allclose(prior.means[place], answers[block].mean(axis=1), rtol=1e-4)
    assert Prior.of_numbers(prior.numbers()) == prior


@pytest.mark.parametrize("aggregate", ["unary", "shapley"])
@pytest.mark.parametrize("quantity", ["average", "group", "disparity"])
def test_influences_with_a_stand_in(table, stand_in, quantity, aggregate):
    about = {"group": None} if quantity == "average" else {}
    found = disparity(table, quantity=quantity, aggregate=aggregate, stand_in=stand_in, samples=2, **about)
    assert found.sharpened
    (low, high), proven = found.interval(), found.proven_interval()
    assert (low <= found.values).all()
    assert (found.values <= high).all()
    near = ~found._sharp.far  # the others contain the proven interval
    assert ((high - low)[near] < (proven[1] - proven[0])[near]).all()
    assert f"entry {stand_in.entry}" in found.basis
    assert stand_in.receipt.entry.sequence in [one["entry"] for one in found.receipt.also]
    again = dpx.from_json(found.to_json())
    np.testing.assert_allclose(again.values, found.values)
    assert dpx.verify(again, table.ledger)[0].startswith("prior unchecked")
    assert dpx.verify(again, table.ledger, MODEL) == []


def test_a_disparity_is_sharpened_by_its_own_histograms_and_others_are_not(table):
    found = disparity(table)
    assert found.sharpened
    assert "released histograms" in found.basis
    assert isinstance(found._sharp, SharpInfluences)
    plain = dpx.from_json(found.to_json(prior=False))
    np.testing.assert_array_equal(plain.values, found.raw)
    np.testing.assert_array_equal(disparity(table, smooth=False).values, found.raw)
    assert not disparity(table, quantity="average", group=None).sharpened
    assert not dpx.permutation_importance(table, MODEL, "paid", positive=1, epsilon=0.5).sharpened


def test_an_influence_far_from_the_synthetic_rows_has_the_proven_interval_too(table):
    """Three standard deviations of the noise for hours, one for plan."""
    found = disparity(table)
    sharp, first = found._sharp, int(bool(found.spec.base_weight))
    noise = sharp.noise.std * np.sqrt(((sharp._mix @ sharp._moved(sharp._released)) ** 2).sum(axis=1))
    means = sharp._released.copy()
    means[first : first + 2] -= np.array([3, 1]) * noise
    vars(found)["_sharp"] = replace(sharp, prior=replace(sharp.prior, means=means))
    (low, high), proven = found.interval(), found.proven_interval()
    assert found._sharp.far.tolist() == [True, False]
    assert not found.contradicts
    assert low[0] <= proven[0][0]
    assert proven[1][0] <= high[0]
    assert high[1] - low[1] < proven[1][1] - proven[0][1]


def test_what_is_unsure_of_a_disparity_is_nearer_to_zero(table):
    found = disparity(table, epsilon=0.3)
    likely = found._sharp._differences(SURE, LEAN)
    unsure = likely.values**2 <= likely.variances
    assert unsure.any()
    assert (found._sharp.values[unsure] == 0).all()
    assert (np.abs(found._sharp.values) <= np.abs(likely.values)).all()
    low, high = found.interval()
    assert ((low <= found.values) & (found.values <= high)).all()
    clear = disparity(table, epsilon=30)
    assert clear.values == pytest.approx(clear.raw, abs=0.02)
    assert np.abs(clear.values).max() > 0.1


def test_rates_are_nearer_to_each_other_than_released_ones_are_unsure(table):
    found = disparity(table)
    likely, proven = found.disparity, found.released_disparity
    assert likely.difference_interval()[0] <= likely.difference <= likely.difference_interval()[1]
    width, before = (np.diff(one.difference_interval())[0] for one in (likely, proven))
    assert width < before
    low, high = likely.ratio_interval()
    assert low <= likely.ratio <= high
    assert likely.to_frame().shape == proven.to_frame().shape


@pytest.mark.parametrize("marginals", [False, True])
def test_importances_with_a_stand_in(table, stand_in, marginals):
    known = {"marginals": dpx.marginals(table, epsilon=0.5)} if marginals else {}
    options = {"positive": 1, "epsilon": 0.5, "stand_in": stand_in, **known}
    found = dpx.permutation_importance(table, MODEL, "paid", **options)
    assert found.sharpened
    assert found.items[0] == "hours"
    assert set(found.to_frame().columns) >= {"released", "proven low", "proven high"}
    again = dpx.from_json(found.to_json())
    np.testing.assert_allclose(again.values, found.values)
    assert dpx.verify(again, table.ledger, MODEL) == []


def test_altered_priors_are_noticed(table):
    found = disparity(table)
    document = json.loads(found.to_json())
    numbers = document["view"]["sharpening"]["prior"]
    numbers[3] += 0.25
    document["values"] = None
    altered = type(found).rebuild(found.receipt, found.released, document["view"])
    with pytest.raises(VerificationError, match="not the one that the ledger keeps"):
        dpx.verify(altered, table.ledger)
    document["view"]["sharpening"]["prior"] = numbers[:-1]
    with pytest.raises(dpx.InputError):
        dpx.from_json(json.dumps(document))


def test_another_model_of_this_name_is_noticed(table):
    found = disparity(table)
    other = model_of(lambda rows: 1 - score(rows))
    with pytest.raises(VerificationError, match="not what this model says"):
        dpx.verify(found, table.ledger, other)


@pytest.mark.long
@pytest.mark.drawn(1e-5)
@pytest.mark.parametrize("definition", ["pure", "zcdp"])
def test_likely_intervals_of_a_disparity_hold_on_columns_that_go_together(definition):
    """120 releases of two influences, one on a column that goes with the group: of a coverage of 0.95, fewer than 210
    of 240 would hold with a probability below 1e-5, if both were independent.
    """
    rows, held = rows_of(), 0
    budget = dpx.Budget(10**4) if definition == "pure" else dpx.Budget(10**4, 1e-6)
    many = dpx.PrivateTable(
        rows, domain=DOMAIN, budget=budget, relation="replace-one", ledger="sqlite:///:memory:", name=definition
    )
    inside, before = (rows["sex"] == "F").to_numpy(), (score(rows) >= 0.5).astype(float)
    for seed in range(120):
        found = disparity(many, seed=seed, samples=100)
        truth = []
        for name in found.items:
            reference = found.marginals.histogram(name).reference(DOMAIN)
            points = [DOMAIN[name].categories[p] for p in reference.points] if name == "plan" else reference.points
            falls = [before - (score(rows.assign(**{name: point})) >= 0.5) for point in points]
            fall = reference.weights / reference.weights.sum() @ np.array(falls)
            truth.append(fall[inside].mean() - fall[~inside].mean())
        low, high = found.interval()
        held += int(((low <= truth) & (truth <= high)).sum())
    assert held >= 210


def test_what_is_refused_costs_nothing(table, stand_in):
    spent = table.ledger.statement("pay").spent
    elsewhere = dpx.PrivateTable(
        rows_of(), domain=DOMAIN, budget=dpx.Budget(9), relation="replace-one", ledger="sqlite:///:memory:", name="b"
    )
    foreign = dpx.stand_in(elsewhere, epsilon=1)
    few = dpx.stand_in(table, features=["hours", "sex"], epsilon=0.1)
    spent = table.ledger.statement("pay").spent
    for bad, said in ((foreign, "another table"), (few, "lacks 'plan'"), ("a file", "must be a result")):
        with pytest.raises(dpx.InputError, match=said):
            disparity(table, stand_in=bad)
        with pytest.raises(dpx.InputError, match=said):
            dpx.permutation_importance(table, MODEL, "paid", positive=1, epsilon=0.5, stand_in=bad)
    for options in ({"smooth": False}, {"method": "paper"}):
        with pytest.raises(dpx.InputError, match="no use"):
            disparity(table, stand_in=stand_in, **options)
        with pytest.raises(dpx.InputError, match="no use"):
            dpx.permutation_importance(table, MODEL, "paid", positive=1, epsilon=1, stand_in=stand_in, **options)
    assert table.ledger.statement("pay").spent == spent


def test_influences_are_evidence_and_importances_are_named(table, stand_in):
    influences = disparity(table)
    importances = dpx.permutation_importance(table, MODEL, "paid", positive=1, epsilon=0.5)
    known = dpx.posterior(stand_in, MODEL, [influences, importances])
    evidence = known.evidence.set_index("entry")
    used = evidence.loc[influences.receipt.entry.sequence]
    assert used["numbers used"] == influences.spec.blocks * influences.spec.lines
    assert "limited changes" in evidence.loc[importances.receipt.entry.sequence]["left out because"]
    with pytest.raises(dpx.InputError, match="another model"):
        dpx.posterior(stand_in, model_of(version="2"), [influences])
