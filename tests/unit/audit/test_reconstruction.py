"""From explanations to explained records: a clear advantage on exact explanations, none on noise, and bad input.

The exact explanations are local linear models of a made-up black box, solved without noise, as a service would send
them. Their attacks are deterministic (public seeds), so nothing here can fail by chance.
"""

from __future__ import annotations

import json
from functools import cache

import numpy as np
import pandas as pd
import pytest

import dpexplain as dpx
from dpexplain.audit import NOT_PRIVATE, reconstruction
from dpexplain.audit.attack_models import Ridge
from dpexplain.audit.guesses import densest, offsets_of
from dpexplain.audit.reconstruction import UNCOVERED
from dpexplain.data.public_random import PublicRandom
from dpexplain.errors import InputError

DOMAIN = dpx.Domain(
    {
        "age": dpx.Numeric(0, 100),
        "hours": dpx.Numeric(0, 50),
        "job": dpx.Categorical(["none", "desk", "field"]),
        "smokes": dpx.Categorical([0, 1]),
    }
)
N = 400


@cache
def made_up(rows: int = N) -> tuple[pd.DataFrame, np.ndarray]:
    """Records and their coordinates in 0..1."""
    draw = np.random.default_rng(1)
    frame = pd.DataFrame(
        {
            "age": draw.uniform(0, 100, rows),
            "hours": draw.exponential(10, rows).clip(0, 50),
            "job": draw.choice(["none", "desk", "field"], rows, p=[0.6, 0.3, 0.1]),
            "smokes": (draw.random(rows) < 0.2).astype(int),
        }
    )
    points = np.column_stack(
        [frame["age"] / 100, frame["hours"] / 50, frame["job"] == "desk", frame["job"] == "field", frame["smokes"]]
    )
    return frame, points.astype(float)


@cache
def exact_explanations() -> np.ndarray:
    """The weighted least-squares fit around each record: moments without noise, and the exact solution."""
    _, z = made_up()
    output = np.tanh(2 * z[:, 0] ** 2 - z[:, 1] + z[:, 2] * z[:, 0] - 0.5 * z[:, 3] + z[:, 4] * (1 - z[:, 0]))
    found = []
    for point in z:
        steps = z - point
        weights = np.exp(-((steps**2).sum(axis=1)))[:, None]
        A = (weights * steps).T @ steps + 1e-3 * np.eye(z.shape[1])
        found.append(np.linalg.solve(A, (weights * steps).T @ output))
    return np.array(found)


@pytest.mark.parametrize("attack", ["linear", "forest", "mlp"])
def test_exact_explanations_give_records_away(attack):
    found = reconstruction(exact_explanations(), made_up()[0], DOMAIN, attack=attack)
    assert found.interval[0] > 0.1, found
    assert found.advantage == found.success - found.guess
    assert found.area > 0.9
    assert found.mse < 0.7 * np.mean([f.guess_mse for f in found.features if f.guess_mse is not None])
    assert "The explanations give records away" in str(found)
    assert UNCOVERED in str(found)


@pytest.mark.parametrize("attack", ["linear", "forest", "mlp"])
def test_noise_gives_nothing(attack):
    rows = N if attack == "linear" else N // 2  # the others take their time
    noise = np.random.default_rng(2).normal(size=(rows, 5))
    found = reconstruction(noise, made_up()[0][:rows], DOMAIN, attack=attack)
    low, high = found.interval
    assert low <= 0 <= high
    assert abs(found.advantage) < 0.02
    assert abs(found.area - 0.5) < 0.2


def test_noise_seldom_looks_like_an_advantage():
    """60 attacks on pure noise, at confidence 0.99: none should find an advantage more than by accident."""
    draw, records = np.random.default_rng(7), made_up()[0]
    found = [reconstruction(draw.normal(size=(N, 3)), records, DOMAIN, seed=seed) for seed in range(60)]
    assert sum(report.interval[0] > 0 for report in found) <= 3
    assert abs(np.mean([report.advantage for report in found])) < 0.005


def test_success_is_what_is_counted():
    """A model that knows every record, and one that knows nothing: success by hand."""
    frame, _ = made_up()
    known = np.column_stack(
        [frame["age"] / 100, frame["hours"] / 50, *(frame["job"] == j for j in ("none", "desk", "field")),
         frame["smokes"] == 0, frame["smokes"] == 1]
    ).astype(float)  # fmt: skip

    class Copy:
        """Undoes the scaling of what it is given, which holds the answer."""

        def fit(self, x, y):
            self.slope = [np.polyfit(x[:, j], y[:, j], 1) for j in range(y.shape[1])]

        def predict(self, x):
            return np.column_stack([np.polyval(line, x[:, j]) for j, line in enumerate(self.slope)])

    found = reconstruction(known, frame, DOMAIN, attack=Copy, seed=3)
    assert found.success == 1
    assert found.attack == "of the caller"
    assert found.area == 1
    assert found.mse == pytest.approx(0)
    order = PublicRandom(3).generator.permutation(N)
    train, test = frame.iloc[order[: N // 2]], frame.iloc[order[N // 2 :]]
    assert found.tested == len(test)
    by_name = {f.feature: f for f in found.features}
    assert by_name["job"].gain.guess == (test["job"] == train["job"].mode()[0]).mean()
    middle = densest(train["age"].to_numpy() / 100, 0.1)
    assert by_name["age"].gain.guess == (abs(test["age"] / 100 - middle) <= 0.1).mean()
    spread = ((test["age"] - train["age"].mean()) ** 2).mean() / 100**2
    assert by_name["age"].guess_mse == pytest.approx(spread)


def test_the_densest_window_by_brute_force():
    draw = np.random.default_rng(4)
    for _ in range(20):
        values = draw.exponential(size=30)
        best = max(sum(abs(values - c) <= 0.3) for c in np.linspace(-1, 6, 701))
        assert sum(abs(values - densest(values, 0.3)) <= 0.3 + 1e-12) >= best


def test_offsets_by_brute_force():
    draw = np.random.default_rng(8)
    for _ in range(20):
        truth = draw.choice(2, 40, p=[0.8, 0.2])
        found = np.column_stack([0.7 - 0.2 * truth, 0.3 + 0.2 * truth]) + 0.1 * draw.normal(size=(40, 2))
        right = [np.mean((found[:, 1] + t > found[:, 0]) == truth) for t in np.linspace(-1, 1, 401)]
        assert np.mean((found + offsets_of(found, truth)).argmax(axis=1) == truth) >= max(right)
        three = draw.normal(size=(40, 3))
        more = np.mean((three + offsets_of(three, truth)).argmax(axis=1) == truth)
        assert more >= np.mean(three.argmax(axis=1) == truth)
    sure = np.eye(3)[[0, 1, 2, 0]]
    assert (offsets_of(sure, np.array([0, 1, 2, 0])) == 0).all()  # nothing to correct


def test_always_guessing_zero_is_no_advantage():
    """The trap of paper 004: on rare words a constant guess succeeds almost always, with or without explanations."""
    draw = np.random.default_rng(5)
    words = (draw.random((N, 30)) < 0.1).astype(int)
    domain = dpx.Domain({f"w{i}": dpx.Categorical([0, 1]) for i in range(30)})
    found = reconstruction(draw.normal(size=(N, 30)), words, domain)
    assert found.success > 0.85
    assert found.advantage < 0.002
    assert abs(found.area - 0.5) < 0.06
    telling = reconstruction(words + 0.3 * draw.normal(size=(N, 30)), words, domain)
    assert telling.advantage > 0.02
    assert telling.area > 0.9


def test_more_auxiliary_records_help(tmp_path):
    import matplotlib.pyplot as plt

    found = reconstruction(exact_explanations(), made_up()[0], DOMAIN, auxiliary=[200, 0.05, 60])
    assert [gain.auxiliary for gain in found.sizes] == [20, 60, 200]
    assert found.sizes[-1].advantage > found.sizes[0].advantage
    assert found.gain is found.sizes[-1]
    alone = reconstruction(exact_explanations(), made_up()[0], DOMAIN, auxiliary=200)
    assert alone.gain == found.gain
    frame = found.to_frame()
    assert frame.attrs["note"] == NOT_PRIVATE
    assert list(frame["feature"]) == list(DOMAIN)
    written = json.loads(found.to_json(tmp_path / "found.json"))
    assert written["note"] == NOT_PRIVATE
    assert written["advantage"] == found.advantage
    for ax in (found.plot(), found.plot_sizes()):
        assert NOT_PRIVATE in [text.get_text() for text in ax.texts]
        ax.figure.canvas.draw()
        plt.close("all")


def test_constant_explanations_say_nothing():
    found = reconstruction(np.ones((N, 3)), made_up()[0], DOMAIN, attack="forest")
    assert found.constant
    assert found.advantage == 0
    assert found.interval == (0, 0)
    assert found.area is None
    assert "All explanations are the same" in str(found)
    assert found.features[0].mse == found.features[0].guess_mse


def test_an_attacker_does_without_what_does_not_help():
    found = reconstruction(np.random.default_rng(2).normal(size=(N, 2)), made_up()[0], DOMAIN)
    assert not any(f.uses_explanation for f in found.features)
    assert "so the attacker did without it" in str(found)


def test_one_class_of_one_feature_is_no_obstacle():
    frame = made_up()[0].assign(smokes=0)
    found = reconstruction(exact_explanations(), frame, DOMAIN)
    last = found.features[-1]
    assert (last.gain.success, last.gain.guess, last.area) == (1, 1, None)
    assert found.area is None
    assert found.advantage > 0.05


def test_results_rows_and_lines_are_taken():
    frame, points = made_up()
    lines = frame[list(DOMAIN)].to_numpy(dtype=object)
    one = reconstruction(points[:, 0], frame, DOMAIN)
    assert one.features[0].gain.success == 1
    assert reconstruction(points[:, 0], lines, DOMAIN) == one
    assert reconstruction(pd.DataFrame(points[:, :1]), frame, DOMAIN) == one
    rows = PublicRandom(0).rows(DOMAIN, 100)
    assert reconstruction(rows["age"], rows, DOMAIN).features[0].gain.success == 1


def test_ridge_is_least_squares_when_there_is_no_noise():
    draw = np.random.default_rng(6)
    x, slopes = draw.normal(size=(200, 30)), draw.normal(size=(30, 2))
    slopes[5:, 1] = 0  # the second column goes with few
    model = Ridge()
    model.fit(x, x @ slopes + 3)
    new = draw.normal(size=(10, 30))
    assert model.predict(new) == pytest.approx(new @ slopes + 3, abs=0.05)


class Fails:
    def fit(self, x, y):
        raise ValueError(f"secret record {y[0]}")


class Silent:
    def fit(self, x, y): ...

    def predict(self, x):
        return np.full((len(x), 7), np.nan)


@pytest.mark.parametrize(
    ("settings", "words"),
    [
        ({"auxiliary": 0}, "no auxiliary data"),
        ({"auxiliary": 0.0}, "no auxiliary data"),
        ({"auxiliary": []}, "no auxiliary data"),
        ({"auxiliary": 1.5}, "number of records or a share"),
        ({"auxiliary": "half"}, "number of records or a share"),
        ({"auxiliary": True}, "number of records or a share"),
        ({"auxiliary": 5}, "too few for any statement"),
        ({"auxiliary": N}, "too few for any statement"),
        ({"attack": "magic"}, "unknown attack"),
        ({"attack": Fails}, "could not be trained"),
        ({"attack": Silent}, "could not be trained"),
        ({"threshold": 0.5}, "threshold"),
        ({"threshold": 1}, "threshold"),
        ({"confidence": 2.0}, "confidence"),
        ({"seed": -1}, "seed"),
    ],
)
def test_refusals(settings, words):
    with pytest.raises(InputError, match=words) as caught:
        reconstruction(exact_explanations(), made_up()[0], DOMAIN, **settings)
    assert "secret" not in str(caught.value)


def test_bad_explanations_and_records_are_refused():
    frame, points = made_up()
    broken = points.copy()
    broken[3, 1] = np.nan
    for explanations, records, words in [
        (broken, frame, "1 explanations are not made of finite numbers"),
        (points[:-1], frame, "399 explanations for 400 records"),
        ([["a"]] * N, frame, "lines of numbers"),
        (np.zeros((N, 2, 2)), frame, "lines of numbers"),
        (np.zeros((N, 0)), frame, "lines of numbers"),
        (points, frame.drop(columns="job"), "no column 'job'"),
        (points, points[:, :2], "columns of the domain"),
        (points, pd.concat([frame[:1]] * N), "one class only"),
    ]:
        with pytest.raises(InputError, match=words):
            reconstruction(explanations, records, DOMAIN)
    with pytest.raises(InputError, match="dpx.Domain"):
        reconstruction(points, frame, dict(DOMAIN))


def test_without_scikit_learn_only_the_linear_attack_is_left(monkeypatch):
    import sys

    monkeypatch.setitem(sys.modules, "sklearn.neural_network", None)
    with pytest.raises(InputError, match="needs the package scikit-learn"):
        reconstruction(exact_explanations(), made_up()[0], DOMAIN, attack="forest")
    assert reconstruction(exact_explanations(), made_up()[0], DOMAIN).advantage > 0.1
