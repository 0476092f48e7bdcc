"""How sure the places of a ranking are, and what is said where the order would be chance."""

from __future__ import annotations

import itertools
import json
from fractions import Fraction
from types import SimpleNamespace

import numpy as np
import pandas as pd
import pytest

import dpexplain as dpx
from dpexplain.core.noise import Law, Noise
from dpexplain.maths.laws import below
from dpexplain.methods.rank_aggregation.result import Votes
from dpexplain.render.text import percent, plain, ranking_view

UNIT, PARTS = 2**11, 100


def votes(means, noise, *, k=None, chosen=None):
    """Votes with these released mean points; nothing else about the release matters here."""
    items = [f"item {i}" for i in range(len(means) if chosen is None else k[1])]
    spec = {
        "items": items,
        "parts": {"number": PARTS, "assignment": "position", "changed": 1},
        "k": k and k[0],
        "unit": UNIT,
        "mechanism": None,
        "ranker": {"title": "t"},
    }
    sums = np.rint(np.asarray(means) * UNIT * PARTS).astype(int).tolist()
    parts = {"votes": {"values": sums, "noise": noise.to_json()}}
    if chosen is not None:
        parts["top"] = {"values": chosen}
    return Votes(SimpleNamespace(request={"spec": spec}, replayed=False), {"parts": parts})


def noise_of(std, size, law=Law.GAUSSIAN):
    """Of this standard deviation in mean points."""
    factor = {Law.CUBE: np.sqrt((size + 1) * (size + 2) / 3), Law.LAPLACE: np.sqrt(2), Law.GAUSSIAN: 1.0}[law]
    return Noise(law, size, Fraction(int(std * UNIT * PARTS / factor)))


def drawn(noise, draw):
    scale, size = float(noise.scale), noise.size
    if noise.law is Law.CUBE:
        radius = draw.gamma(size + 1, scale)
        return draw.uniform(-radius, radius, size)
    return draw.laplace(0, scale, size) if noise.law is Law.LAPLACE else draw.normal(0, scale, size)


def test_the_top_probability_is_the_one_of_the_posterior():
    """Against 400,000 draws of true scores: standard error below 0.001, six of them allowed."""
    found = votes([4.2, 0.5, 3.0, 2.9, 4.0, 1.0], noise_of(0.8, 6))
    draw, size = np.random.default_rng(0), 400_000
    _, weights, means, deviations = found._posterior
    which = draw.choice(len(weights), size, p=weights)
    scores = means[which] + deviations[which] * draw.normal(size=(size, 6))
    places = np.argsort(np.argsort(-scores, axis=1), axis=1)
    for top in (1, 2, 5):
        np.testing.assert_allclose(found.top_probability(top), (places < top).mean(axis=0), atol=0.006)
    assert found.top == 2
    assert found.top_probability(6) == pytest.approx(1.0)
    assert found.top_probability().sum() == pytest.approx(2.0, abs=1e-3)
    np.testing.assert_allclose(found.to_frame(top=3)["in_top_3"], found.top_probability(3))


@pytest.mark.parametrize("top", [0, 7, True, 1.5])
def test_a_top_that_is_none_is_refused(top):
    with pytest.raises(dpx.InputError, match="top is a whole number from 1 to 6"):
        votes([4.2, 0.5, 3.0, 2.9, 4.0, 1.0], noise_of(0.8, 6)).top_probability(top)


def test_what_is_said_to_be_sure_is_true():
    """360 rankings of ten items whose means differ much, little or not at all, with noise of each law and size.

    Of the items that are said to be in the top three with 80 % or more, as many are as said; likewise for "above the
    next". Of n such statements the share that is true has a standard deviation of at most 0.4 / sqrt(n): five of them
    are allowed, so that a false alarm has a probability below 1e-6.
    """
    draw = np.random.default_rng(4)
    said = {"top": [], "next": [], "alone": []}
    for law, std, spread, _ in itertools.product(Law, (0.3, 1.0, 4.0, 12.0), (0.1, 0.4, 1.0), range(10)):
        noise = noise_of(std, 10, law)
        means = np.clip(4.5 + spread * 2.87 * draw.normal(size=10), 0, 9)
        dealt = np.clip(means + draw.normal(size=10) * 0.5 * 4.5 / np.sqrt(PARTS), 0, 9)  # as ballots vary
        found = votes(dealt + drawn(noise, draw) / (UNIT * PARTS), noise)
        truly = np.argsort(np.argsort(-means))[found.order] < found.top
        said["top"] += zip(found.top_probability(), truly, strict=True)
        above = -np.diff(means[found.order]) > 0
        said["next"] += zip(found.order_probability, above, strict=True)
        law_alone, unit = found.gap_noise
        gaps = [below(law_alone, gap / unit) for gap in -np.diff(found.values)]
        said["alone"] += zip(gaps, above, strict=True)
    honest = {}
    for kind, pairs in said.items():
        p, y = np.array(pairs, dtype=float).T
        sure = p >= 0.8
        assert sure.sum() > 100
        honest[kind] = y[sure].mean() > p[sure].mean() - 5 * 0.4 / np.sqrt(sure.sum())
    assert honest == {"top": True, "next": True, "alone": False}  # what was said before, by noise alone, is found out


def test_where_noise_is_larger_than_any_difference_everything_is_chance():
    draw = np.random.default_rng(0)
    noise = noise_of(40, 10, Law.LAPLACE)
    for _ in range(20):
        found = votes(4.5 + drawn(noise, draw) / (UNIT * PARTS), noise)
        assert found.top_probability().max() < 0.6
        assert found.order_probability.max() < 0.7
        assert not found.determined().all()
        assert "determined with this epsilon" in found.doubt
        low, high = found.interval()
        assert low.min() >= 0
        assert high.max() <= 9


def test_items_that_were_not_chosen_may_still_be_the_best():
    close = votes([6.0, 5.8, 5.0], noise_of(0.5, 3), k=(3, 10), chosen=[1, 4, 7])
    clear = votes([9.0, 6.0, 5.0], noise_of(0.05, 3), k=(3, 10), chosen=[1, 4, 7])
    assert close.unreleased == 7
    assert close.top_probability(3).sum() < 2.5
    assert clear.top_probability(1)[0] > close.top_probability(1)[0]


def test_words_never_say_certain():
    assert [percent(p) for p in (1.0, 0.994, 0.5, 0.0)] == ["over 99 %", "99 %", "50 %", "below 1 %"]
    text = plain(ranking_view(votes([9.0, 0.0, 4.0], noise_of(0.01, 3))))
    assert "100 %" not in text
    assert "the best" in text
    assert "Neither allows for small parts ranking items differently" in " ".join(text.split())


def pairs_of(make_table, rows, epsilon, **options):
    draw = np.random.default_rng(0)
    frame = pd.DataFrame(draw.uniform(size=(rows, 3)), columns=list("abc"))
    domain = dpx.Domain({name: dpx.Numeric(0, 1) for name in "abc"})
    model = dpx.Model(lambda rows: (rows["a"] * rows["b"]).to_numpy(), output=(0, 1), name="m", version="1")
    table = make_table(frame, domain=domain, budget=dpx.Budget(1000))
    return dpx.interaction_ranking(table, model, epsilon=epsilon, points=6, **options), domain


def test_an_order_that_would_be_chance_is_said_before_and_warned_of(make_table):
    request = dpx.requests.InteractionRanking(points=6)
    with pytest.warns(dpx.errors.BudgetWarning, match="the order would be near chance"):
        ranking, domain = pairs_of(make_table, 120, 0.1)
    options = {"domain": domain, "n": 120, "relation": "replace-one", "features": list("abc")}
    assert "near chance" in str(dpx.plan(request, epsilon=0.1, **options))
    assert "near chance" in json.dumps(dpx.plan(request, epsilon=0.1, **options).to_json())
    assert dpx.plan(request, epsilon=0.1, **options).options[0].error <= 2  # no mean of three items is further off
    assert "near chance" not in str(dpx.plan(request, epsilon=100, **options))
    assert ranking.top_probability().max() < 0.8


def test_two_points_say_nothing_about_total_interaction(make_table):
    with pytest.raises(dpx.InputError, match="zero whatever the model does"):
        dpx.requests.InteractionRanking(kind="total", points=2)
    dpx.requests.InteractionRanking(kind="total", points=3)
