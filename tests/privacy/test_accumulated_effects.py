"""Audits of accumulated effects on worst-case neighbours, and the coverage of their intervals.

6,000 draws on each side at epsilon 2 for the sums of differences, confidence 1 - 1e-6; half the noise is missed with a
probability below 1e-6. Coverage: the points of one release err together, so over 120 releases the mean coverage has a
standard deviation of at most sqrt(0.05 * 0.95 / 120) = 0.02; the tests allow for five of them.
"""

from __future__ import annotations

import itertools
from functools import partial

import numpy as np
import pandas as pd
import pytest
from captured import Shrunk, calls, drawn

import dpexplain as dpx
from dpexplain.core.budget import pure
from dpexplain.core.domain import PublicRange
from dpexplain.core.mechanisms import best
from dpexplain.core.noise import Law
from dpexplain.core.release import Door
from dpexplain.core.samplers import ExactSampler
from dpexplain.core.sensitivity import Neighbours, Relation
from dpexplain.maths.accumulation import Accumulation
from dpexplain.methods.accumulated_effects import release as ale
from dpexplain.methods.accumulated_effects.request import AccumulatedEffects
from dpexplain.methods.accumulated_effects.spec import Spec
from dpexplain.methods.setting import Setting
from stubs import FreeAccount

pytestmark = pytest.mark.drawn(1e-6)

DOMAIN = dpx.Domain(
    {"g": dpx.Categorical(["a", "b"]), "two": dpx.Numeric(0, 1, integer=True), "up": dpx.Categorical([0, 1])}
)
HIGH, LOW = ("a", 0, 1), {"g": ("b", 0, 0), "two": ("a", 1, 0)}
TRIALS, PRICE = 6_000, pure(2.5)  # of which four fifths are for the sums


def twisted(rows: pd.DataFrame) -> np.ndarray:
    """Rises over the whole range with `g` and with `two`, or falls: as `up` says."""
    up = rows["up"].to_numpy(dtype=float)
    return np.where((rows["g"] == "b") != (rows["two"] == 1), up, 1 - up)


MODEL = dpx.Model(twisted, output=(0, 1), name="twisted", version="1")


def captured(rows, relation, feature):
    frame = pd.DataFrame(rows, columns=list(DOMAIN))
    table = dpx.PrivateTable(
        frame, domain=DOMAIN, budget=dpx.Budget(10), relation=relation, ledger="sqlite:///:memory:", name="t"
    )
    request = AccumulatedEffects(feature=feature, clip=1)
    counts, sums = calls(table, lambda table: ale.explain(table, MODEL, request, cost=PRICE))
    assert counts[3].amount + sums[3].amount == PRICE.amount
    return counts, sums


def audit(relation, feature, sampler):
    pair = ([HIGH, HIGH], [HIGH, LOW[feature]]) if relation == "replace-one" else ([HIGH], [HIGH, HIGH])
    left, right = (captured(rows, relation, feature)[1] for rows in pair)
    assert abs(left[0][0] - right[0][0]) == left[2].linf == left[2].l1  # the worst case there is
    ends = sorted((left[0][0], right[0][0]))  # beyond them the likelihood ratio does not grow
    return dpx.audit.epsilon_lower_bound(
        partial(drawn, sampler=sampler),
        left,
        right,
        trials=TRIALS,
        confidence=1 - 1e-6,
        score=lambda values: float(np.clip(values[0], *ends)),
        claim=left[3],
    )


CASES = [("replace-one", "g"), ("replace-one", "two"), ("add-remove", "g")]


@pytest.mark.long
@pytest.mark.parametrize(("relation", "feature"), CASES)
def test_no_lower_bound_above_the_claim(relation, feature):
    bound = audit(relation, feature, ExactSampler())
    assert not bound.violates, bound


@pytest.mark.long
@pytest.mark.parametrize(("relation", "feature"), CASES)
def test_half_the_noise_is_caught(relation, feature):
    bound = audit(relation, feature, Shrunk())
    assert bound.violates, bound


# Coverage on correlated columns -----------------------------------------------------------------------------------


def crowd(n=1500):
    """Two columns of correlation 0.95, hours that follow them, and kinds of which some have a handful of rows."""
    draw = np.random.default_rng(1)
    x = np.clip(draw.normal(size=n), -3, 3)
    kinds, shares = list("abcdef"), np.array([0.45, 0.01, 0.3, 0.004, 0.006, 0.23])
    mixed = np.clip(0.7 * draw.random(n) + 0.3 * (x + 3) / 6, 0, 0.999)
    frame = pd.DataFrame(
        {
            "x": x,
            "w": np.clip(0.95 * x + 0.3 * draw.normal(size=n), -3, 3),
            "hour": np.clip(np.round(2 * (x + 3) + draw.normal(size=n)), 0, 12),
            "kind": np.array(kinds)[np.searchsorted(np.cumsum(shares), mixed)],
        }
    )
    lift = dict(zip(kinds, [0, 0.9, 0.1, 0.7, 0.2, 0.6], strict=True))

    def function(rows):  # nothing is additive here
        up, x = rows["kind"].map(lift).to_numpy(dtype=float), rows["x"].to_numpy(dtype=float)
        hours = 0.1 * rows["hour"].to_numpy(dtype=float)
        return 1 / (1 + np.exp(1 + hours - 1.5 * x * (up - 0.3) - 2 * up * (1 + (rows["w"].to_numpy() > 0.2))))

    columns = {"x": dpx.Numeric(-3, 3), "w": dpx.Numeric(-3, 3), "hour": dpx.Numeric(0, 12, integer=True)}
    return frame, dpx.Domain({**columns, "kind": dpx.Categorical(kinds)}), function


def ladder(n=1500):
    """Categories that each add a quarter, so that counts decide the error; and amounts of which nine in ten are zero.

    There the noise of empty cells is most of the noise of the centre.
    """
    draw = np.random.default_rng(2)
    amount = np.minimum(draw.exponential(0.1, n), 1) * (draw.random(n) < 0.1)
    names = list("pqrs")
    step = np.clip(np.round(1.5 + draw.normal(size=n) + (amount > 0.05)), 0, 3).astype(int)
    frame = pd.DataFrame({"amount": amount, "step": np.array(names)[step]})

    def function(rows):
        up = rows["step"].map({name: 0.25 * i for i, name in enumerate(names)}).to_numpy(dtype=float)
        return up * (0.8 + 0.2 * rows["amount"].to_numpy(dtype=float))

    return frame, dpx.Domain({"amount": dpx.Numeric(0, 1), "step": dpx.Categorical(names)}), function


class Independent(Accumulation):
    """Broken on purpose: a count that several steps and the centre share is taken as a new one each time."""

    @property
    def _factors(self):
        bins, cells = self.bins, self.bins.members.sum(axis=1).astype(int)
        by_bin = np.repeat(self._lifted * self._effects / bins.rows, cells, axis=1)
        centre = bins.at_cells(self._lifted @ self._effects) / bins.total
        return super()._factors[0], np.hstack([by_bin, np.tile(centre, (len(by_bin), 1))])


class Releases:
    """Releases of one table with noise of the right law, and everything after the door as it is: no door, no model."""

    def __init__(self, table, relation, epsilon, clip=1.0, kind=Accumulation, features=None):
        self.frame, self.domain, self.function = table
        self.kind, self.neighbours = kind, Neighbours(Relation.parse(relation))
        self.cost, self.rows = pure(epsilon), len(self.frame) if relation == "replace-one" else None
        names = features or [name for name in self.domain if name != "w"]
        request = AccumulatedEffects(feature=names, clip=clip)
        rows = len(self.frame)
        setting = Setting(self.domain, PublicRange(0.0, 1.0), self.neighbours, rows, rows)
        self.spec = ale.resolve(request, setting, self.cost)
        self.counts_law = ale.forecast(self.spec, self.neighbours, self.cost)["counts"]
        self.values = [
            self.frame[s.feature].map({c: i for i, c in enumerate(s.points)}).to_numpy()
            if not s.ordered
            else self.frame[s.feature].to_numpy()
            for s in self.spec.steps
        ]
        self.counts = [s.cells.counts(v) for s, v in zip(self.spec.steps, self.values, strict=True)]
        self.known = {}

    def _sum(self, number, a, b, inside):
        if (number, a, b) not in self.known:
            rows, name = self.frame[inside], self.spec.steps[number].feature
            gap = self.function(rows.assign(**{name: b})) - self.function(rows.assign(**{name: a}))
            self.known[number, a, b] = float(np.clip(gap, -self.spec.clip, self.spec.clip).sum()), len(rows)
        return self.known[number, a, b]

    def draw(self, draw):
        """(curve, exact curve) for each feature, of one release."""
        noisy = np.concatenate(self.counts) + drawn_from(self.counts_law, draw)
        found = self.spec.bins_of(noisy.astype(int).tolist(), self.rows)
        size, unit = sum(bins.size for bins in found), 2 * self.spec.clip / self.spec.levels
        law = best(ale.sensitivity(self.spec, self.neighbours), size, self.spec.costs(self.cost)[2])
        noise, start = drawn_from(law, draw) * unit, 0
        for number, (steps, bins) in enumerate(zip(self.spec.steps, found, strict=True)):
            values = self.values[number]
            place = bins.place(values) if steps.ordered else None
            exact = np.array(
                [
                    self._sum(number, a, b, (values == k) | (values == k + 1) if place is None else place == k)
                    for k, (a, b) in enumerate(itertools.pairwise(bins.points))
                ]
            )
            curve = np.concatenate([[0.0], np.cumsum(exact[:, 0] / np.maximum(exact[:, 1], 1))])
            centre = bins.at_cells(curve) @ self.counts[number] / len(self.frame)
            sums = exact[:, 0] + noise[start : start + bins.size]
            laws, sharing = (law, self.counts_law), 0 if self.rows else len(self.spec.steps)
            yield self.kind(bins, sums, unit, *laws, self.spec.clip, 1.0, sharing), curve - centre
            start += bins.size


def drawn_from(law, draw):
    """Noise as fast as numpy draws it; only its law matters here."""
    if law.law is Law.CUBE:
        radius = draw.gamma(law.size + 1, float(law.scale))
        return np.rint(draw.uniform(-radius, radius, law.size))
    assert law.law is Law.LAPLACE
    share = 1 - np.exp(-1 / float(law.scale))
    return draw.geometric(share, law.size) - draw.geometric(share, law.size)


def coverage(releases, number, level=0.95):
    """The mean coverage of each feature over so many releases, and the mean half-width."""
    draw, inside, half = np.random.default_rng(7), [], []
    for _ in range(number):
        pairs = list(releases.draw(draw))
        ends = [curve.interval(level) for curve, _ in pairs]
        exact = [truth for _, truth in pairs]
        inside.append([((a <= e + 1e-4) & (e - 1e-4 <= b)).mean() for (a, b), e in zip(ends, exact, strict=True)])
        half.append([(high - low).mean() / 2 for low, high in ends])
    return np.mean(inside, axis=0), np.mean(half, axis=0)


RELEASES, SIGMA = 120, (0.05 * 0.95 / 120) ** 0.5  # five of them: a false alarm once in three million per feature


@pytest.mark.long
@pytest.mark.parametrize("relation", ["replace-one", "add-remove"])
@pytest.mark.parametrize(("table", "clip"), [(crowd, 1.0), (ladder, 0.3)])
@pytest.mark.parametrize("epsilon", [0.1, 1])
def test_intervals_cover_on_correlated_columns_and_rare_categories(relation, table, clip, epsilon):
    inside, half = coverage(Releases(table(), relation, epsilon, clip), RELEASES)
    assert (inside > 0.95 - 5 * SIGMA).all(), inside
    assert (half <= 1).all()  # a curve on a probability scale


def crowded_end():
    """Rows near the upper end, and so little budget that the noise may be all there is of their number."""
    rows = pd.DataFrame({"x": np.random.default_rng(3).beta(20, 1, 1_000)})
    return rows, dpx.Domain({"x": dpx.Numeric(0, 1)}), lambda rows: rows["x"].to_numpy() ** 2


@pytest.mark.long
@pytest.mark.parametrize("broken", [False, True])
def test_intervals_cover_where_the_number_of_rows_is_noise(broken, monkeypatch):
    """600 releases: five standard deviations are 0.044. Taken for sure, a total that is noise scales everything."""
    if broken:
        monkeypatch.setattr(Accumulation, "_sure", True)
    inside, _ = coverage(Releases(crowded_end(), "add-remove", 0.015), 600)
    assert (inside > 0.95 - 0.044).all() != broken, inside


@pytest.mark.long
def test_half_of_the_intervals_miss_half_of_the_time():
    """Not so wide that nothing could ever be outside, where counts are far above their noise."""
    inside, _ = coverage(Releases(ladder(), "add-remove", 3, 0.3, features=["step"]), RELEASES, 0.5)
    assert (inside < 0.85).all(), inside


@pytest.mark.long
def test_shared_counts_taken_as_independent_are_found_out():
    """Most of it is the total, which is noisy here and which the counts of both features share."""
    inside, _ = coverage(Releases(ladder(), "add-remove", 3, 0.3, Independent), RELEASES)
    assert inside[1] < 0.95 - 5 * SIGMA, inside


@pytest.mark.long
@pytest.mark.parametrize("relation", ["replace-one", "add-remove"])
@pytest.mark.parametrize(("feature", "epsilon"), [("x", 0.3), ("x", 3), ("kind", 0.3), ("kind", 3), ("pair", 1)])
def test_a_forecast_stands_near_the_realised_error_of_a_usual_table(relation, feature, epsilon):
    """The 95 % quantile of errors over 60 releases, within a factor of 1.5 of the forecast. The points of a curve err
    together: the quantile of 60 has a standard deviation of about a tenth of itself.
    """
    draw, n, kinds = np.random.default_rng(5), 5000, list("abcdefgh")
    shares = np.array([0.4, 0.05, 0.17, 0.04, 0.1, 0.11, 0.06, 0.07])
    columns = {"x": np.clip(draw.normal(size=n), -3, 3), "kind": draw.choice(kinds, n, p=shares)}
    frame = pd.DataFrame({**columns, "pair": draw.choice([0, 1], n, p=[0.7, 0.3])})
    names = {"kind": dpx.Categorical(kinds), "pair": dpx.Categorical([0, 1])}
    domain = dpx.Domain({"x": dpx.Numeric(-3, 3), **names})

    def function(rows):
        kind = rows["kind"].map({k: 0.04 * (-1) ** i for i, k in enumerate(kinds)}).to_numpy(dtype=float)
        return 0.4 + 0.05 * rows["x"].to_numpy(dtype=float) + kind + 0.1 * rows["pair"].to_numpy(dtype=float)

    releases = Releases((frame, domain, function), relation, epsilon, None, features=[feature])
    errors = [np.abs(curve.raw - exact) for _ in range(60) for curve, exact in releases.draw(draw)]
    realised = np.quantile(np.concatenate(errors), 0.95)
    options = {"domain": domain, "n": n, "rows_hint": n, "relation": relation, "epsilon": epsilon}
    forecast = dpx.plan(dpx.requests.AccumulatedEffects(feature=feature), **options).options[0].error
    assert 1 / 1.5 < forecast / realised < 1.5, (forecast, realised)


def test_no_forecast_is_larger_than_what_is_possible():
    domain = dpx.Domain({"kind": dpx.Categorical([f"kind {i}" for i in range(40)])})
    request = dpx.requests.AccumulatedEffects(feature="kind")
    for epsilon, relation in itertools.product((0.001, 0.1, 1), ("replace-one", "add-remove")):
        for option in dpx.plan(request, domain=domain, n=500, relation=relation, epsilon=epsilon).options:
            assert 0 < option.error <= option.band <= 1


@pytest.mark.long
@pytest.mark.parametrize("broken", [False, True])
def test_intervals_cover_where_missing_rows_are_left_out(broken, monkeypatch):
    """A feature that keeps missing values has a total of its own, which is as noisy as its counts. 300 releases with
    one bin: of an interval that covers 95 %, fewer than 262 hold the truth with a probability below 1e-6; taken as
    moved to a public total, as the broken sibling does, 78 % do.
    """
    draw = np.random.default_rng(0)
    x = np.where(draw.random(1_000) < 0.3, np.nan, draw.random(1_000))
    domain = dpx.Domain({"x": dpx.Numeric(0, 1, missing="nan")})
    table = dpx.PrivateTable(
        pd.DataFrame({"x": x}), domain=domain, budget=dpx.Budget(1_000), relation="replace-one", name="missing",
        ledger="sqlite:///:memory:",
    )  # fmt: skip
    table.door = Door(FreeAccount(table.budget, table.neighbours, keep=False))
    model = dpx.Model(lambda rows: np.nan_to_num(np.asarray(rows["x"], float)), output=(0, 1), features=["x"])
    if broken:
        monkeypatch.setattr(Spec, "sharing", lambda spec, place, rows_public: (0, 0, False))
    held = 0
    for _ in range(300):
        curve = dpx.accumulated_effects(table, model, "x", bins=1, clip=1.0, epsilon=0.2)
        there, cells = x[~np.isnan(x)], curve.bins.cells
        climb = np.interp(np.asarray(cells.labels), curve.bins.points, [0.0, 1.0])  # the model is x itself
        low, _ = curve.interval(0.95)
        truth = -float(cells.counts(there) @ climb) / len(there)
        held += bool(low[0] <= truth <= curve.interval(0.95)[1][0])
    assert (held >= 262) != broken, held
