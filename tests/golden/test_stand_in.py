"""A stand-in against plain computations: the fit against all tables of the domain, counts and scores against pandas,
rows against the distribution they are drawn from."""

from __future__ import annotations

import itertools

import numpy as np
import pandas as pd
import pytest
from scipy.optimize import minimize

import dpexplain as dpx
from dpexplain.maths.trees import Joint, Noisy, Problem, fit, loss_of, walk
from examples import DOMAIN, score

SIZES = (3, 2, 4, 2)
FORESTS = {
    "a chain": [(0, 1), (1, 2), (2, 3)],
    "a star, turned": [(1, 0), (1, 2), (3, 1)],
    "two trees": [(0, 2), (1, 3)],
    "one edge": [(2, 0)],
    "no edge": [],
}


def noisy_of(edges, seed: int, total: float = 200.0) -> Noisy:
    draw = np.random.default_rng(seed)
    exact = total * draw.dirichlet(np.full(np.prod(SIZES), 0.2)).reshape(SIZES)
    columns, noise, pairs = [], [], {}
    for j in range(4):
        one = exact.sum(axis=tuple(k for k in range(4) if k != j))
        noise.append(draw.uniform(3, 15, len(one)))
        columns.append(one + noise[-1] * draw.normal(size=len(one)))
    for a, b in edges:
        pair = exact.sum(axis=tuple(k for k in range(4) if k not in (a, b)))
        pairs[a, b] = (pair if a < b else pair.T) + 10 * draw.normal(size=(SIZES[a], SIZES[b]))
    return Noisy(total, columns, noise, pairs, 10.0)


def enumerated(noisy: Noisy) -> tuple[float, np.ndarray]:
    """The same objective over all cells of the whole table, by scipy: the least loss, and the table."""
    cells = np.indices(SIZES).reshape(4, -1)
    lines, aims, weights = [], [], []
    for j, (counts, noise) in enumerate(zip(noisy.columns, noisy.column_noise, strict=True)):
        for value in range(SIZES[j]):
            lines.append(cells[j] == value)
            aims.append(counts[value])
            weights.append(noise[value] ** -2)
    for (a, b), pair in noisy.pairs.items():
        for i, k in itertools.product(range(SIZES[a]), range(SIZES[b])):
            lines.append((cells[a] == i) & (cells[b] == k))
            aims.append(pair[i, k])
            weights.append(noisy.pair_noise**-2)
    matrix, aim, weight = np.array(lines, dtype=float), np.array(aims), np.array(weights)

    def loss(table):
        away = matrix @ table - aim
        return float((weight * away**2).sum()) / 2, matrix.T @ (weight * away)

    size = cells.shape[1]
    found = minimize(
        loss, np.full(size, noisy.total / size), jac=True, bounds=[(0, None)] * size, method="SLSQP",
        constraints=[{"type": "eq", "fun": lambda t: t.sum() - noisy.total, "jac": lambda t: np.ones(size)}],
        options={"maxiter": 2_000, "ftol": 1e-12},
    )  # fmt: skip
    return found.fun, found.x.reshape(SIZES)


@pytest.mark.parametrize("name", FORESTS)
def test_the_fit_is_the_best_of_all_tables_of_the_domain(name):
    edges = FORESTS[name]
    for seed in range(3):
        noisy = noisy_of(edges, seed)
        tree, (least, table) = fit(noisy), enumerated(noisy)
        assert loss_of(noisy, tree) == pytest.approx(least, rel=1e-3, abs=1e-4)
        for j in range(4):
            exact = table.sum(axis=tuple(k for k in range(4) if k != j))
            np.testing.assert_allclose(tree.columns[j], exact, atol=0.02 * noisy.total)
        for (a, b), pair in tree.pairs.items():
            np.testing.assert_allclose(pair.sum(axis=1), tree.columns[a], atol=1e-6)
            np.testing.assert_allclose(pair.sum(axis=0), tree.columns[b], atol=1e-6)
            assert pair.sum() == pytest.approx(noisy.total)


def test_expected_counts_are_those_of_the_product_of_all_potentials():
    """Belief propagation against a sum over every cell."""
    for edges in FORESTS.values():
        problem, draw = Problem(noisy_of(edges, 0)), np.random.default_rng(1)
        potentials = [draw.normal(size=aim.shape) for aim in problem.aims]
        log = np.zeros(SIZES)
        for cell in itertools.product(*map(range, SIZES)):
            log[cell] = sum(potentials[j][cell[j]] for j in range(4))
            log[cell] += sum(potentials[4 + k][cell[a], cell[b]] for k, (a, b) in enumerate(problem.edges))
        table = np.exp(log) * problem.total / np.exp(log).sum()
        expected = problem.expected(potentials)
        for j in range(4):
            plain = table.sum(axis=tuple(k for k in range(4) if k != j))
            np.testing.assert_allclose(expected[j], plain)
        for k, (a, b) in enumerate(problem.edges):
            pair = table.sum(axis=tuple(j for j in range(4) if j not in (a, b)))
            np.testing.assert_allclose(expected[4 + k], pair if a < b else pair.T)


def test_a_walk_visits_every_column_after_its_parent():
    for edges in FORESTS.values():
        seen = []
        for parent, child in walk(4, edges):
            assert parent < 0 or parent in seen
            seen.append(child)
        assert sorted(seen) == [0, 1, 2, 3]


def linked(rows: int = 600) -> pd.DataFrame:
    draw = np.random.default_rng(3)
    age = draw.integers(20, 30, rows)
    sex = np.where(draw.random(rows) < (age - 20) / 10, "Male", "Female")
    income = np.clip(10.0 * (age - 20) + draw.normal(0, 8, rows), 0, 100)
    return pd.DataFrame({"age": age, "sex": sex, "income": income})


def test_without_noise_counts_edges_and_pairs_are_those_of_the_table(make_table):
    frame = linked()
    released = dpx.stand_in(make_table(frame, exact=True), epsilon=9, grade="tree")
    table = released.to_frame()
    for name in ("age", "sex"):
        mine = table[table["feature"] == name].set_index("cell")["count"]
        np.testing.assert_allclose(mine, frame[name].value_counts().reindex(mine.index, fill_value=0))
    places = [
        grouping.place[cells.place(_coded(frame, cells.feature))]
        for cells, grouping in zip(released.partitions, released._columns.groupings, strict=True)
    ]
    scores = {}
    for a, b in itertools.combinations(range(3), 2):
        pair = pd.crosstab(places[a], places[b]).to_numpy()
        product = np.rint(np.outer(pair.sum(axis=1), pair.sum(axis=0)) / len(frame))
        scores[a, b] = np.abs(pair - product).sum()
        if (a, b) in released._pair_tables:
            np.testing.assert_array_equal(released._pair_tables[a, b], pair)
    best = sorted(scores, key=scores.get, reverse=True)[:2]  # of three pairs, any two are a tree
    assert released._edges == best


def _coded(frame, name):
    if name == "sex":
        return (frame["sex"] == "Male").to_numpy().astype(np.int32)
    return frame[name].to_numpy().astype(float)


def test_rows_of_a_tree_have_the_ties_of_the_table_and_rows_of_marginals_have_none(make_table):
    frame = linked(4_000)
    table = make_table(frame, exact=True)
    true = frame["age"].corr(frame["income"])
    tree = dpx.stand_in(table, epsilon=4, grade="tree").rows(4_000)
    assert tree["age"].corr(tree["income"]) == pytest.approx(true, abs=0.05)
    columns = dpx.stand_in(table, epsilon=4, grade="marginals").rows(4_000)
    assert abs(columns["age"].corr(columns["income"])) < 0.1


def test_drawn_rows_are_spread_over_the_distribution():
    """Shares of a product and of a tree come out to one row in a cell and given cell; numbers fill their cells."""
    rows = 5_000
    cells = [dpx.Categorical(list(range(size))) for size in SIZES]
    domain = dpx.Domain(dict(zip("abcd", cells, strict=True)))
    tree = fit(noisy_of(FORESTS["a chain"], 2))
    joint = Joint(
        domain,
        Joint.even(domain, list("abcd")).partitions,
        tuple(column / tree.total for column in tree.columns),
        {edge: pair / tree.total for edge, pair in tree.pairs.items()},
    )
    drawn = joint.draw(rows, 7)
    for (a, b), pair in joint.pairs.items():
        codes = drawn["abcd"[a]] * SIZES[b] + drawn["abcd"[b]]
        shares = np.bincount(codes, minlength=pair.size).reshape(pair.shape) / rows
        assert np.abs(shares - pair).max() <= 4 / rows
    numbers = dpx.Domain({"x": dpx.Numeric(0, 9, integer=True), "y": dpx.Numeric(-1, 1, missing="nan")})
    even = Joint.even(numbers, ["x", "y"]).draw(rows, 1)
    assert np.abs(np.bincount(even["x"].astype(int), minlength=10) / rows - 0.1).max() <= 1 / rows
    assert np.isnan(even["y"]).mean() == pytest.approx(1 / 8, abs=1 / rows)
    assert np.abs(np.nanquantile(even["y"], [0.25, 0.5, 0.75]) - [-0.5, 0, 0.5]).max() < 0.01
    half = joint.draw(rows, 7, even=0.5)
    kept = [np.mean(half[name] == drawn[name]) for name in "abcd"]
    for share, size in zip(kept, SIZES, strict=True):
        assert 0.5 <= share < 0.5 + 0.5 / size + 0.1
    assert all(values.dtype == np.int32 for values in half.values())
    assert {name: values.tolist() for name, values in joint.draw(50, 7).items()} == {
        name: values.tolist() for name, values in joint.draw(50, 7).items()
    }


def test_without_noise_tables_by_score_are_those_of_the_rows(make_table, model):
    frame = linked()
    released = dpx.stand_in(make_table(frame, exact=True), model, epsilon=9, grade="marginals", target="income")
    tables = released.score_tables
    low, *inner, high = tables.edges
    assert (low, high) == (0, 1)
    cell = sum((np.clip(score(frame), 0, 1) >= edge).astype(int) for edge in inner)
    assert tables.model == model.identity
    for partition in released.partitions:
        group = tables.places[partition.feature][partition.place(_coded(frame, partition.feature))]
        for i, j in itertools.product(range(len(inner) + 1), range(group.max() + 1)):
            assert tables.counts[partition.feature][i, j] == np.sum((cell == i) & (group == j))


def test_worth_is_the_number_of_rows_whose_sampling_error_is_that_of_the_noise(make_table):
    frame = linked(1_000)
    released = dpx.stand_in(make_table(frame, exact=True), epsilon=1, grade="marginals", features=["sex"])
    share, std = float(released.joint.shares[0][0]), released.part("counts")[1].std
    assert released.worth == pytest.approx(2 * share * (1 - share) / (2 * (std / 1_000) ** 2))
    assert list(released.domain) == list(DOMAIN)
