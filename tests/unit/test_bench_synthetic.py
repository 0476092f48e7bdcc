"""The baseline of the benchmarks: MST rows cost what is said, and with much budget they are the table's pairs."""

from __future__ import annotations

import numpy as np
import pandas as pd
import pytest
from bench.synthetic import Coding, Measured, _Price, fit, measure, mst_rows, scores, walk
from scipy.optimize import nnls

import dpexplain as dpx

SIZES = [4, 3, 5, 2]


def _codes(rows: int = 4_000) -> np.ndarray:
    """A chain: each column follows the one before it half of the time."""
    draw = np.random.default_rng(5)
    columns = [draw.integers(SIZES[0], size=rows)]
    for size in SIZES[1:]:
        columns.append(np.where(draw.random(rows) < 0.5, columns[-1] % size, draw.integers(size, size=rows)))
    return np.stack(columns, axis=1)


def _farthest(codes: np.ndarray, rows: np.ndarray, edges: list[tuple[int, int]]) -> float:
    """The largest total variation distance of a pair."""

    def pair(found: np.ndarray, a: int, b: int) -> np.ndarray:
        flat = np.bincount(found[:, a] * SIZES[b] + found[:, b], minlength=SIZES[a] * SIZES[b])
        return flat / len(found)

    return max(float(np.abs(pair(codes, a, b) - pair(rows, a, b)).sum()) / 2 for a, b in edges)


@pytest.mark.parametrize("delta", [1e-6, None])
def test_with_much_budget_the_pairs_are_those_of_the_table_and_with_little_they_are_not(delta: float | None) -> None:
    codes, chain = _codes(), [(0, 1), (1, 2), (2, 3)]
    assert _farthest(codes, mst_rows(codes, SIZES, 1_000.0, delta, 0), chain) < 0.005
    assert _farthest(codes, mst_rows(codes, SIZES, 0.01, delta, 0), chain) > 0.05


def test_the_strongest_pairs_are_selected_and_they_are_a_tree() -> None:
    measured = measure(_codes(), SIZES, 1_000.0, None, np.random.default_rng(0))
    assert sorted(map(sorted, measured.edges)) == [[0, 1], [1, 2], [2, 3]]
    assert sorted(child for _, child in walk(4, measured.edges)) == [0, 1, 2, 3]


def test_a_third_of_the_price_buys_each_step() -> None:
    draw = np.random.default_rng(0)
    rho = float(dpx.Budget(1.0, 1e-6).cost(epsilon=1.0).amount)
    zcdp, pure = _Price.of(1.0, 1e-6), _Price.of(1.0, None)
    std, _ = zcdp.histograms(7, draw)
    assert 7 * 2 / (2 * std**2) == pytest.approx(rho / 3)  # each of 7 moves by sqrt(2)
    assert 6 * (4 * zcdp.selection(6)) ** 2 / 8 == pytest.approx(rho / 3)
    std, noise = pure.histograms(7, draw)
    assert 7 * 2 / (std / np.sqrt(2)) == pytest.approx(1 / 3)
    assert 6 * 4 * pure.selection(6) == pytest.approx(1 / 3)
    assert np.std(noise(10_000)) == pytest.approx(std, rel=0.1)  # seeded


def test_a_replaced_row_moves_a_score_by_two_at_most_and_can() -> None:
    """The range behind the selection: scores are against released histograms, which the row no longer moves."""
    draw, seen = np.random.default_rng(1), []
    for _ in range(300):
        codes = draw.integers(2, size=(6, 2))
        other = codes.copy()
        other[0] = draw.integers(2, size=2)
        columns = [draw.random(2) * 6, draw.random(2) * 6]
        seen.append(scores(other, columns)[0, 1] - scores(codes, columns)[0, 1])
    assert max(map(abs, seen)) <= 2 + 1e-12
    assert max(seen) > 1.99


def test_the_fit_is_the_least_squares_one_over_all_tables_of_the_domain() -> None:
    """Against least squares over every cell of the full table, which a tree's pairs can always be made of."""
    draw, sizes, edges, total = np.random.default_rng(3), (2, 3, 2), ((0, 1), (2, 1)), 500
    exact = draw.multinomial(total, draw.dirichlet(np.full(12, 0.3))).reshape(sizes).astype(float)
    columns = tuple(
        exact.sum(axis=tuple(k for k in range(3) if k != j)) + draw.normal(0, 20, sizes[j]) for j in range(3)
    )
    pairs = (exact.sum(axis=2) + draw.normal(0, 20, (2, 3)), exact.sum(axis=0).T + draw.normal(0, 20, (2, 3)))
    places = tuple(np.arange(size) for size in sizes)
    noise = tuple(np.full(size, 20.0) for size in sizes)
    tree = fit(Measured(total, sizes, places, columns, noise, edges, pairs, 20.0))

    cells = np.indices(sizes).reshape(3, -1)
    lines = [(cells[j] == value) for j in range(3) for value in range(sizes[j])]
    lines += [(cells[a] == i) & (cells[b] == k) for a, b in edges for i in range(sizes[a]) for k in range(sizes[b])]
    lines += [np.full(12, 1e4)]  # the total is public
    aims = np.concatenate([*columns, *(pair.ravel() for pair in pairs), [1e4 * total]])
    best, _ = nnls(np.array(lines, dtype=float), aims)
    table = best.reshape(sizes)
    np.testing.assert_allclose(tree.pairs[0, 1], table.sum(axis=2), atol=1.0)
    np.testing.assert_allclose(tree.pairs[2, 1], table.sum(axis=0).T, atol=1.0)


def test_codes_and_back() -> None:
    domain = dpx.Domain(
        {"age": dpx.Numeric(17, 90, integer=True), "gain": dpx.Numeric(0, 99_999), "sex": dpx.Categorical(["f", "m"])}
    )
    frame = pd.DataFrame({"age": [17, 40, 90], "gain": [0.0, 12.5, 99_999.0], "sex": ["m", "f", "m"]})
    coding = Coding.of(domain, 12)
    codes = coding.codes(frame)
    again = coding.frame(codes, 0)
    assert coding.codes(again).tolist() == codes.tolist()
    assert again["sex"].tolist() == ["m", "f", "m"]
    assert again["gain"][0] < 10  # the low end has a cell of its own
