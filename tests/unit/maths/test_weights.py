"""The posterior of rows against dense algebra, component by component; positive weights; quantiles of mixtures."""

from __future__ import annotations

import numpy as np
import pytest
from scipy.special import ndtr, ndtri

from dpexplain.maths import weights
from dpexplain.maths.posterior import LEAST_WORTH, OFF, OFF_WEIGHTS, WORTHS
from dpexplain.maths.weights import LOW_WORTH, TIES, Known, Mixture, Numbers, RowPosterior

ROWS, MOST = 40, 30.0


def made(size: int, seed: int, judging: int | None = None, rows: int = ROWS) -> tuple[np.ndarray, Numbers]:
    """Functions of rows with little to do with each other, their noisy means, and noise that goes together."""
    draw = np.random.default_rng(seed)
    answers = draw.normal(size=(rows, size)) @ draw.normal(size=(size, size))
    root = 0.3 * draw.normal(size=(size, size)) + np.eye(size)
    released = answers.mean(axis=0) + draw.normal(size=size)
    judges = np.arange(size) < (size if judging is None else judging)
    return draw.normal(size=(rows, 3)) + answers[:, :3], Numbers(answers, released, root @ root.T, judges)


def components(numbers: list[Numbers], functions: np.ndarray, known: np.ndarray | None, most: float = MOST):
    """(weight, means, variances) of each component by dense algebra, with one whole covariance."""
    answers = np.hstack([one.answers for one in numbers])
    rows, m = answers.shape
    S = np.zeros((m, m))
    start = 0
    for one in numbers:
        S[start : start + one.size, start : start + one.size] = one.covariance
        start += one.size
    a, judges = np.concatenate([one.released for one in numbers]), np.concatenate([one.judges for one in numbers])
    u, r = answers.mean(axis=0), functions.mean(axis=0)
    Q, R = answers - u, functions - r
    shares = TIES if known is not None else TIES[:1]
    for share in shares:
        M = np.eye(rows)
        if known is not None:
            D = known - known.mean(axis=0)
            H = D @ np.linalg.pinv(D)
            M = H + (np.eye(rows) - H) / share
        C, RQ, RR = Q.T @ M @ Q / (rows - 1), R.T @ M @ Q / (rows - 1), R.T @ M @ R / (rows - 1)
        if judges.any():
            Cj, Sj = C[np.ix_(judges, judges)], S[np.ix_(judges, judges)]
            off = OFF * min(1.0, np.trace(np.linalg.solve(Sj, Cj)) / judges.sum())
        else:
            off = 0 * OFF
        for worth in np.geomspace(LEAST_WORTH, min(most, rows), WORTHS):
            for t, before in zip(off, OFF_WEIGHTS, strict=True):
                likely = np.log(before) + LOW_WORTH * np.log(min(worth, 1.0))
                if judges.any():
                    V = Cj / worth + (1 + t) * Sj
                    away = (a - u)[judges]
                    likely -= 0.5 * (away @ np.linalg.solve(V, away) + np.linalg.slogdet(V)[1])
                B = RQ @ np.linalg.inv(C + S)
                cross, V = RQ / worth + t * B @ S, C / worth + (1 + t) * S
                G = cross @ np.linalg.inv(V)
                variance = np.diag(RR) / worth + t * np.diag(B @ S @ B.T) - np.diag(G @ V @ G.T)
                yield likely, r + G @ (a - u), variance


@pytest.mark.parametrize(("sizes", "judging", "ties"), [((5, 4), None, False), ((5, 4), 3, True), ((4,), 0, True)])
def test_means_and_variances_are_those_of_dense_algebra(sizes, judging, ties):
    numbers = [made(size, 10 + size, judging)[1] for size in sizes]
    functions = made(sizes[0], 10 + sizes[0])[0]
    known = np.random.default_rng(5).integers(0, 2, size=(ROWS, 4)).astype(float) if ties else None
    parts = list(components(numbers, functions, known))
    likely = np.array([part[0] for part in parts])
    weight = np.exp(likely - likely.max())
    weight /= weight.sum()
    means, variances = np.array([part[1] for part in parts]), np.array([part[2] for part in parts])
    mean = weight @ means
    std = np.sqrt(weight @ (variances + (means - mean) ** 2))
    posterior = RowPosterior(ROWS, MOST, numbers, None if known is None else Known(known))
    mixture = posterior.mixture(functions)
    np.testing.assert_allclose(mixture.mean, mean, rtol=1e-6, atol=1e-6)
    np.testing.assert_allclose(mixture.std, std, rtol=1e-6, atol=1e-6)
    np.testing.assert_allclose(posterior.linear @ functions, mean, rtol=1e-6, atol=1e-6)
    assert posterior.linear.sum() == pytest.approx(1.0)


def test_more_numbers_than_rows_are_the_same_algebra():
    functions, numbers = made(25, 3, rows=12)
    parts = list(components([numbers], functions, None))
    likely = np.array([part[0] for part in parts])
    weight = np.exp(likely - likely.max()) / np.exp(likely - likely.max()).sum()
    mixture = RowPosterior(12, MOST, [numbers]).mixture(functions)
    np.testing.assert_allclose(mixture.mean, weight @ np.array([part[1] for part in parts]), rtol=1e-6)


def test_a_released_function_has_its_released_mean_where_noise_is_small():
    draw = np.random.default_rng(0)
    answers = draw.normal(size=(600, 6)) @ draw.normal(size=(6, 6))
    released, variance = answers.mean(axis=0) + 0.1 * draw.normal(size=6), 1e-4
    numbers = Numbers(answers, released, variance * np.eye(6), np.ones(6, dtype=bool))
    mixture = RowPosterior(600, 100.0, [numbers]).mixture(answers)
    np.testing.assert_allclose(mixture.mean, released, atol=0.5 * variance**0.5)
    assert (mixture.std < 1.1 * variance**0.5).all()


def test_without_evidence_weights_are_even_and_intervals_wide():
    functions = np.random.default_rng(0).normal(size=(200, 2))
    posterior = RowPosterior(200, 1e6)
    assert np.all(posterior.tilted == 1 / 200)
    assert np.allclose(posterior.linear, 1 / 200)
    mixture = posterior.mixture(functions)
    np.testing.assert_allclose(mixture.mean, functions.mean(axis=0), atol=1e-12)
    low, high = mixture.interval(0.95)
    assert np.all(high - low > 1.0)
    assert not posterior.contradicts
    assert posterior.doubt == 0


def test_positive_weights_have_the_posterior_means_of_what_was_released():
    draw = np.random.default_rng(1)
    answers = np.column_stack([draw.random((800, 3)) < 0.4, draw.random((800, 2))]).astype(float)
    released, std = answers.mean(axis=0) + np.array([0.1, -0.05, 0.0, 0.03, -0.02]), 1e-3
    numbers = Numbers(answers, released, std**2 * np.eye(5), np.ones(5, dtype=bool))
    posterior = RowPosterior(800, 50.0, [numbers])
    assert (posterior.tilted > 0).all()
    assert posterior.tilted.sum() == pytest.approx(1.0)
    np.testing.assert_allclose(posterior.tilted @ answers, posterior.mixture(answers).mean, atol=0.2 * std)
    assert 100 < posterior.effective_rows < 800


def test_impossible_means_do_not_leave_one_row():
    answers = (np.random.default_rng(1).random((300, 2)) < 0.5).astype(float)
    numbers = Numbers(answers, np.array([1.4, -0.3]), 1e-10 * np.eye(2), np.ones(2, dtype=bool))
    posterior = RowPosterior(300, 50.0, [numbers])
    assert (posterior.tilted >= 0).all()
    assert posterior.effective_rows >= weights.LEAST_EFFECTIVE * 300


def test_a_covariance_without_rank_is_no_obstacle():
    """One number twice, one that never changes, and noise that is the same for two numbers."""
    draw = np.random.default_rng(2)
    one = draw.random((100, 1))
    answers = np.hstack([one, one, np.ones((100, 1))])
    noise = np.array([[1.0, 1.0, 0.0], [1.0, 1.0, 0.0], [0.0, 0.0, 1.0]]) * 1e-4
    posterior = RowPosterior(100, 20.0, [Numbers(answers, np.array([0.6, 0.6, 1.0]), noise, np.ones(3, dtype=bool))])
    mixture = posterior.mixture(np.hstack([one, one**2]))
    assert np.isfinite(mixture.mean).all()
    assert np.isfinite(np.array(mixture.interval(0.95))).all()
    assert mixture.mean[0] == pytest.approx(0.6, abs=0.03)
    assert np.isfinite(posterior.tilted).all()


def test_a_noisy_number_of_rows_is_noise_that_means_share():
    """By simulation: means over n' = n + (sum of the noise of some sums) / 2 + other noise."""
    draw = np.random.default_rng(3)
    exact, n, stds, shared, other = np.array([0.2, -0.4, 0.5]), 1000.0, np.array([8.0, 5.0, 10.0]), 0.5, 6.0
    c = np.array([shared, 0.0, shared])
    answers = np.array([[-1.0, -1, -1], [1, 1, 1]])
    numbers = Numbers.counted(answers, exact * n, stds**2, n, c, other**2)
    z = stds * draw.normal(size=(200_000, 3))
    count = n + z @ c + other * draw.normal(size=200_000)
    np.testing.assert_allclose(np.cov(((exact * n + z) / count[:, None]).T), numbers.covariance, rtol=0.05, atol=3e-7)


def test_contradictions_show():
    answers = np.random.default_rng(4).random((300, 4))
    off = np.array([3.0, -4.0, 5.0, 2.0])
    far = Numbers(answers, answers.mean(axis=0) + off, 1e-4 * np.eye(4), np.ones(4, dtype=bool))
    near = Numbers(answers, answers.mean(axis=0) + 0.01, 1e-4 * np.eye(4), np.ones(4, dtype=bool))
    assert RowPosterior(300, 100.0, [far]).contradicts
    assert not RowPosterior(300, 100.0, [near]).contradicts


def test_quantiles_of_a_mixture():
    mixture = Mixture(np.array([0.3, 0.7]), np.array([[0.0, 5.0], [1.0, 5.0]]), np.array([[1.0, 2.0], [3.0, 2.0]]))
    for share in (0.025, 0.5, 0.975):
        value = mixture.quantile(share)
        assert 0.3 * ndtr(value[0]) + 0.7 * ndtr((value[0] - 1) / 3) == pytest.approx(share, abs=1e-9)
        assert value[1] == pytest.approx(5 + 2 * ndtri(share))
    moved = mixture.around(np.array([7.0, 7.0]))
    np.testing.assert_allclose(moved.mean, 7.0)
    assert (moved.wider(np.array([1.0, 1.0])).std > moved.std).all()
