"""Membership attacks and reconstruction of table rows catch exact releases and half the noise, and accuse no sound one.

Sound releases are attacked with confidence 1 - 1e-6, so they are accused with probability at most 1e-6. With half the
noise the lower limit of the true positives lies 0.22 above what the claim allows for the curve (4,000 trials; 14
standard deviations over 15 repetitions) and 0.23 for the moments (1,200 trials; 11 standard deviations).
"""

from __future__ import annotations

import json
import math
from fractions import Fraction
from functools import cache

import numpy as np
import pandas as pd
import pytest
from captured import Shrunk, calls, drawn

import dpexplain as dpx
from dpexplain.audit import NOT_PRIVATE, likelihood, membership, table_reconstruction
from dpexplain.audit.runs import _require_fresh, vector_of
from dpexplain.core.budget import pure, zcdp
from dpexplain.core.rng import geometric
from dpexplain.core.samplers import ExactSampler
from dpexplain.errors import InputError
from dpexplain.methods.local_explanation import release as local_explanation
from dpexplain.methods.local_explanation.request import LocalExplanation
from dpexplain.methods.partial_dependence import release as partial_dependence
from dpexplain.requests import PartialDependence
from stubs import FreeAccount

pytestmark = pytest.mark.drawn(1e-5)

SURE = 1 - 1e-6
DOMAIN = dpx.Domain({"a": dpx.Numeric(0, 1), "g": dpx.Categorical(["x", "y", "z"])})
WEIGHT = {"x": 0.0, "y": 0.5, "z": 1.0}


def weight(rows: pd.DataFrame) -> np.ndarray:
    return rows["g"].map(WEIGHT).to_numpy(dtype=float)


MODEL = dpx.Model(weight, output=(0, 1), name="weight", version="1")


@cache
def captured(kind: str, value: str):
    """What one real release about a table of six rows, the last with this value, hands to the sampler."""
    frame = pd.DataFrame({"a": [0.5] * 6, "g": ["x"] * 5 + [value]})
    budget = dpx.Budget(10) if kind == "curve" else dpx.Budget(50, 1e-6)
    table = dpx.PrivateTable(
        frame, domain=DOMAIN, budget=budget, relation="replace-one", ledger="sqlite:///:memory:", name="t"
    )
    if kind == "curve":
        request = PartialDependence(feature="a", grid=3, rug=False)
        (call,) = calls(table, lambda t: partial_dependence.explain(t, MODEL, request, cost=pure(1)))
    else:
        request = LocalExplanation(record=[0, "y"], method="moments", anchor="middle")
        cost = zcdp(2) * Fraction(20, 19)  # the average person comes first, for a twentieth
        _, call = calls(table, lambda t: local_explanation.explain(t, MODEL, request, cost=cost))
    table.ledger.close()
    return call


def release(kind, sampler):
    return lambda value: drawn(captured(kind, value), sampler)


def attacked(kind, sampler, **settings):
    gaussian = kind == "moments"
    return membership(
        release(kind, sampler),
        "x",
        "z",
        claim=zcdp(2) if gaussian else pure(1),
        gaussian=gaussian,
        centres=(captured(kind, "x")[0], captured(kind, "z")[0]),
        **settings,
    )


@pytest.mark.parametrize(("kind", "trials"), [("curve", 2_000), ("moments", 500)])
def test_a_sound_release_stays_below_its_claim(kind, trials):
    found = attacked(kind, ExactSampler(), trials=trials, shadows=500, confidence=SURE)
    assert not found.violates, found
    assert found.trials >= found.needed
    assert 0.1 < found.advantage < found.allowed + 0.15
    assert "not refuted. That is no proof" in found.describe()


@pytest.mark.parametrize("kind", ["curve", "moments"])
def test_half_the_noise_is_caught(kind):
    trials = 4_000 if kind == "curve" else 1_200
    found = attacked(kind, Shrunk(), trials=trials, shadows=trials // 2, attack="likelihood-ratio")
    assert found.violates, found
    assert "REFUTED" in str(found)


def test_an_exact_release_is_told_apart_always():
    found = membership(lambda rows: [sum(rows), len(rows)], [1, 2], [1, 2, 3], claim=1, trials=300)
    assert found.advantage == 1
    assert found.best.interval[0] > 0.9
    assert found.violates
    assert "no noise at all, or an answer from a ledger" in str(found)


def test_an_error_and_a_nan_are_outputs():
    def fails(rows):
        if rows:
            raise ValueError("secret row")
        return [geometric(Fraction(1)), 1]

    found = membership(fails, [], [1], claim=1, trials=100)
    assert found.advantage == 1
    assert found.failures == 200
    assert "200 runs raised" in str(found)
    assert "secret" not in found.to_json()
    assert membership(lambda rows: [1.0, math.nan if rows else 2.0], [], [1], claim=1, trials=100).advantage == 1
    assert membership(lambda rows: [1.0] * (1 + len(rows)), [], [1], claim=1, trials=100).advantage == 1
    assert membership(lambda rows: math.inf if rows else 2.0, [], [1], claim=1, trials=100).violates


def test_noise_used_twice_is_found_by_the_likelihood_ratio():
    def twice(pair):
        z = geometric(Fraction(1, 20)) - geometric(Fraction(1, 20))
        return pair[0] + z, pair[1] + z

    found = membership(twice, (0, 0), (10, 0), claim=1, trials=300)
    by_name = {attack.name: attack for attack in found.attacks}
    assert by_name["likelihood-ratio"].advantage > 0.95 > 0.5 > by_name["threshold"].advantage


def test_pure_noise_gives_no_advantage():
    """400 runs on each side: the standard deviation is at most 0.036, and 5 of them are allowed."""
    draw = np.random.default_rng()
    found = membership(lambda _: draw.normal(size=4), 0, 1, claim=0.5, trials=400)
    assert abs(found.advantage) < 0.18
    assert not found.violates
    assert abs(found.best.area - 0.5) < 0.15


def test_a_release_that_never_changes():
    found = membership(lambda _: 7, 0, 1, claim=1, trials=50)
    assert found.constant
    assert found.advantage == 0
    assert not found.violates
    assert "the advantage is zero" in str(found)


@pytest.mark.parametrize(
    ("noise", "family"),
    [("laplace", "Laplace"), ("normal", "Gaussian"), ("cube", "cube"), ("scale", "histogram")],
)
def test_the_attacker_finds_the_law(noise, family):
    """4,000 shadow runs on each side; 8 coordinates (one for a scale that depends on the row)."""
    draw = np.random.default_rng(5)

    def sample(side):
        if noise == "cube":
            radius = draw.gamma(9, 1, size=(4_000, 1))
            return 4 * side + radius * draw.uniform(-1, 1, size=(4_000, 8))
        if noise == "scale":
            return draw.normal(0, 1 + side, size=(4_000, 1))
        return side + getattr(draw, noise)(size=(4_000, 8))

    assert family in likelihood.fit([sample(0), sample(1)]).family


def test_threshold_uses_the_score_and_finds_its_direction():
    noisy = lambda d: [geometric(Fraction(1)) - d, 99]  # noqa: E731
    found = membership(noisy, 0, 50, claim=1, trials=50, attack="threshold", score=lambda v: v[0])
    assert found.advantage == 1
    assert found.attacks[0].how == "a low score speaks for right"


def test_true_and_false_positives_are_what_was_counted():
    """Two coins: the points, intervals and the curve against a direct count."""
    outputs = iter([0, 0, 0, 1] * 25 + [0, 1] * 50 + [0, 1] * 200)
    found = membership(lambda side: next(outputs) if side else 0, 0, 1, claim=1, trials=200, shadows=200)
    attack = found.attacks[1]
    assert attack.name == "threshold"
    assert attack.points[0].true_positives == 0.5
    assert attack.points[0].false_positives == 0
    assert attack.area == 0.75
    assert attack.roc == ((0.0, 0.0), (0.0, 0.5), (1.0, 1.0))
    assert attack.points[0].true_low < 0.5 < attack.points[0].true_high
    assert attack.points[0].allowed == pytest.approx(math.e * attack.points[0].false_high)


def test_too_few_trials_say_so():
    found = membership(lambda d: d, 0, 1, claim=5, trials=100)
    assert not found.violates
    assert found.advantage == 1
    assert f"fewer than {found.needed} trials" in str(found)
    assert "Nothing is said about a false-positive rate of 0.001: that needs 3000 trials." in str(found)
    enough = membership(lambda d: d, 0, 1, claim=5, trials=found.needed, shadows=20)
    assert enough.violates
    short = membership(lambda d: d, 0, 1, claim=5, trials=found.needed - 1, shadows=20)
    assert not short.violates


def test_words_table_file_and_picture_say_that_they_are_not_private(tmp_path):
    import matplotlib.pyplot as plt

    found = attacked("curve", ExactSampler(), trials=100)
    assert str(found).endswith(NOT_PRIVATE)
    frame = found.to_frame()
    assert frame.attrs["note"] == NOT_PRIVATE
    assert set(frame["says"]) == {"left", "right"}
    written = json.loads(found.to_json(tmp_path / "found.json"))
    assert written == json.loads((tmp_path / "found.json").read_text())
    assert written["note"] == NOT_PRIVATE
    assert written["advantage"] == found.advantage
    for report in (found, rebuilt("curve", ExactSampler(), trials=50)):
        ax = report.plot()
        assert NOT_PRIVATE in [text.get_text() for text in ax.texts]
        ax.figure.canvas.draw()
        plt.close("all")


def test_results_of_the_product_are_attacked_as_they_are():
    tables = {}
    for value in ("x", "z"):
        frame = pd.DataFrame({"a": [0.5] * 3, "g": ["x", "x", value]})
        tables[value] = dpx.PrivateTable(
            frame, domain=DOMAIN, budget=dpx.Budget(10), relation="replace-one", ledger="sqlite:///:memory:", name="t"
        )
        tables[value].door.account = FreeAccount(tables[value].budget, tables[value].neighbours, keep=False)
    found = membership(lambda value: dpx.marginals(tables[value], ["g"], epsilon=2), "x", "z", claim=2, trials=20)
    assert not found.constant
    assert not found.violates
    curves = dpx.partial_dependence(tables["x"], MODEL, ["a", "g"], epsilon=2, grid={"a": 2}, rug=False)
    assert len(curves) == 2
    assert len(vector_of(curves)) == len(vector_of(curves[0])) == 2 + 3  # one payload, counted once
    for table in tables.values():
        table.ledger.close()


@pytest.mark.long
def test_processes_draw_their_own_noise():
    found = membership(geometric, Fraction(1), Fraction(1, 20), claim=0.5, trials=500, workers=2)
    assert found.violates
    with pytest.raises(InputError, match="another process"):
        membership(lambda d: d, 0, 1, claim=1, workers=2)


def test_noise_from_a_seed_that_was_sent_to_two_processes_is_refused():
    runs = [run for _ in range(2) for run in (np.random.default_rng(0).normal(size=(30, 2, 3)), np.ones((30, 2, 3)))]
    chunks = [[[(vector, vector.sum()) for vector in line] for line in vectors] for vectors in runs]
    _require_fresh([chunks[0], chunks[1], chunks[3]])  # exact releases may agree
    with pytest.raises(InputError, match="gave the same runs"):
        _require_fresh(chunks)


# --- the hidden value of a table row ------------------------------------------------------------------------------


def rebuilt(kind, sampler, relation="replace-one", **settings):
    return table_reconstruction(
        release(kind, sampler),
        {value: value for value in WEIGHT},
        claim=zcdp(2) if kind == "moments" else pure(1),
        gaussian=kind == "moments",
        relation=relation,
        centres=[captured(kind, value)[0] for value in WEIGHT],
        **settings,
    )


@pytest.mark.parametrize("kind", ["curve", "moments"])
def test_a_sound_release_hides_a_value_as_claimed(kind):
    found = rebuilt(kind, ExactSampler(), trials=700 if kind == "curve" else 300, shadows=300, confidence=SURE)
    assert not found.violates, found
    assert found.advantage > 0.03  # there is something to find
    assert found.trials >= found.needed


def test_randomised_response_attains_the_bound_and_with_a_larger_epsilon_breaks_it():
    """At epsilon 2 instead of 1 success is 0.71 against 0.475 allowed."""

    def response(epsilon):
        draw = np.random.default_rng()
        keep = math.exp(epsilon) / (math.exp(epsilon) + 3)
        return lambda value: value if draw.random() < keep else (value + draw.integers(1, 4)) % 4

    sound = table_reconstruction(response(1), range(4), claim=1, relation="replace-one", trials=500, confidence=SURE)
    assert not sound.violates
    assert sound.success == pytest.approx(sound.allowed, abs=0.08)  # 7 standard deviations
    broken = table_reconstruction(response(2), range(4), claim=1, relation="replace-one", trials=500)
    assert broken.violates
    assert "REFUTED" in str(broken)
    assert broken.chance == 0.25
    two_steps = table_reconstruction(response(2), range(4), claim=1, relation="add-remove", trials=500, confidence=SURE)
    assert not two_steps.violates
    assert "two steps apart" in str(two_steps)


def test_an_exact_release_tells_the_value():
    found = table_reconstruction(lambda v: [v, 1], {"a": 1, "b": 2, "c": 3}, claim=1, relation="replace-one", trials=60)
    assert found.success == 1
    assert found.violates
    frame = found.to_frame()
    assert list(frame["success"]) == [1, 1, 1]
    assert frame.attrs["note"] == NOT_PRIVATE
    assert json.loads(found.to_json())["guesses"] == [[60, 0, 0], [0, 60, 0], [0, 0, 60]]


def test_a_release_that_never_changes_tells_nothing():
    found = table_reconstruction(lambda _: 1, [1, 2, 3], claim=1, relation="replace-one", trials=60)
    assert found.constant
    assert found.advantage == pytest.approx(0)
    assert "the advantage is zero" in str(found)


def test_too_few_trials_for_the_value_say_so():
    found = table_reconstruction(lambda v: v, [1, 2], claim=8, relation="replace-one", trials=60)
    assert not found.violates
    assert f"fewer than {found.needed} trials" in str(found)


def test_errors_are_counted():
    def fails(value):
        if value == 2:
            raise ValueError
        return value

    found = table_reconstruction(fails, [1, 2, 3], claim=1, relation="replace-one", trials=60)
    assert found.success == 1
    assert "120 runs raised" in str(found)


@pytest.mark.parametrize(
    ("settings", "words"),
    [
        ({"claim": None}, "none was given"),
        ({"claim": 1, "attack": "magic"}, "unknown attack"),
        ({"claim": 1, "trials": 5}, "at least 20"),
        ({"claim": 1, "shadows": 5}, "at least 20"),
        ({"claim": 1, "shadows": True}, "whole number"),
        ({"claim": 1, "workers": 0}, "workers"),
        ({"claim": 1, "confidence": 1.5}, "confidence"),
        ({"claim": 1, "false_positives": (0.0,)}, "rates"),
        ({"claim": 1, "false_positives": "low"}, "rates"),
        ({"claim": 1, "gaussian": True}, "zCDP"),
        ({"claim": 1, "centres": ([1, 2], [3, 4])}, "centres"),
        ({"claim": 1, "centres": ["a", "b"]}, "centres"),
        ({"claim": 1, "score": lambda _: "high"}, "score"),
    ],
)
def test_refusals(settings, words):
    with pytest.raises(InputError, match=words):
        membership(lambda d: d + geometric(Fraction(1)), 0, 1, **{"trials": 20, **settings})


def test_more_refusals():
    with pytest.raises(InputError, match="every run raised ZeroDivisionError"):
        membership(lambda _: 1 / 0, 0, 1, claim=1, trials=20)
    with pytest.raises(InputError, match="neither results of dpexplain nor numbers"):
        membership(lambda _: "text", 0, 1, claim=1, trials=20)
    with pytest.raises(InputError, match="nothing to guess"):
        table_reconstruction(float, [1], claim=1, relation="replace-one")
    with pytest.raises(InputError, match="relation"):
        table_reconstruction(float, [1, 2], claim=1, relation="none")
