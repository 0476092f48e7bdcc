"""The audit catches every broken mechanism, passes what goes honestly through the door, and states its power rightly.

A healthy mechanism is refuted with probability at most 1e-6 (its audit's confidence is 1 - 1e-6). A broken one escapes
with probability below about 1e-6 at its number of trials (measured: the mean bound lies 5 or more standard deviations
above the claim). Healthy pairs are worst cases, and each test also asks that the bound comes close to the claim, so an
audit that looks at the wrong thing fails too.
"""

from __future__ import annotations

import ast
import math
import re
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import replace
from fractions import Fraction
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from broken import BROKEN, Broken

from dpexplain.audit import LowerBound, bounds, epsilon_lower_bound, runs
from dpexplain.audit.lower_bound import from_scores, power_on
from dpexplain.core.budget import Cost, pure, zcdp
from dpexplain.core.domain import PublicRange
from dpexplain.core.release import Gate
from dpexplain.core.sensitivity import Relation, ScoreRange, Sensitivity, Unit
from dpexplain.errors import InputError
from stubs import PURE, ZCDP, free_door, release, released

pytestmark = pytest.mark.drawn(1e-6)

ONE = pure(1)
HALF_RHO = zcdp(0.5)  # mu = 1
SURE = 1 - 1e-6


RINGED = [pytest.param(case, marks=pytest.mark.long) if case.ring == "audit" else case for case in BROKEN]


@pytest.mark.parametrize("case", RINGED, ids=str)
def test_broken_mechanisms_are_caught(case: Broken) -> None:
    bound = epsilon_lower_bound(
        case.mechanism,
        case.left,
        case.right,
        trials=case.trials,
        score=case.score,
        claim=case.claim,
        gaussian=case.gaussian,
    )
    assert bound.violates, str(bound)
    assert "REFUTED" in str(bound)


ROOT = Path(__file__).parents[2]
PAGE = (ROOT / "docs" / "broken-on-purpose.md").read_text(encoding="utf-8")


def ring_of(file: str, name: str) -> str:
    """Which ring runs a test: "audit" if any of its cases is marked `long`, by itself, by its class, by its file or by
    a list of cases."""
    tree = ast.parse((ROOT / file).read_text(encoding="utf-8"))
    lists = {ast.unparse(node.targets[0]): node.value for node in tree.body if isinstance(node, ast.Assign)}
    scopes = [tree, *(node for node in tree.body if isinstance(node, ast.ClassDef))]
    (scope, test), *_ = [
        (scope, node)
        for scope in scopes
        for node in scope.body
        if isinstance(node, ast.FunctionDef) and node.name == name
    ]
    marks = [*test.decorator_list, *getattr(scope, "decorator_list", [])]
    marks += [value for name, value in lists.items() if name == "pytestmark"]
    named = [lists[n.id] for m in marks for n in ast.walk(m) if isinstance(n, ast.Name) and n.id in lists]
    return "audit" if any("mark.long" in ast.unparse(mark) for mark in [*marks, *named]) else "test"


def test_every_broken_mechanism_is_on_the_page_with_its_ring() -> None:
    first, _ = PAGE.split("## Defects planted")
    mistakes = re.findall(r"^\| ([^|]+) \| (\w+) \| [^|]+ \| `tests/", first, re.MULTILINE)
    assert sorted(mistakes) == sorted((case.mistake, case.ring) for case in BROKEN)
    assert {case.ring for case in BROKEN} == {"test", "audit"}


def test_every_planted_defect_is_on_the_page_with_its_ring() -> None:
    _, second = PAGE.split("## Defects planted")
    planted = re.findall(r"^\| [^|]+ \| (\w+) \| [^|]+ \| `(tests/[\w/]+\.py)::(test_\w+)`", second, re.MULTILINE)
    assert len(planted) > 10
    assert planted == [(ring_of(file, name), file, name) for _, file, name in planted]


def test_the_ring_of_a_test_is_read_from_its_marks() -> None:
    assert ring_of("tests/privacy/test_audit.py", "test_cube_of_a_unit_is_healthy") == "audit"  # by itself
    assert ring_of("tests/privacy/test_audit.py", "test_broken_mechanisms_are_caught") == "audit"  # by a list of cases
    assert ring_of("tests/privacy/test_importance_coverage.py", "test_histograms") == "audit"  # by its file
    assert ring_of("tests/unit/ledger/test_ledger_postgresql.py", "test_before") == "audit"  # by its class
    assert ring_of("tests/privacy/test_audit.py", "test_delta_lowers_the_bound") == "test"


def test_every_test_on_the_page_exists() -> None:
    named = re.findall(r"`(tests/[\w/]+\.py)::(test_\w+)`", PAGE)
    assert len(named) >= len(BROKEN)
    for file, name in named:
        tree = ast.parse((ROOT / file).read_text(encoding="utf-8"))
        assert name in {node.name for node in ast.walk(tree) if isinstance(node, ast.FunctionDef)}, f"{file}::{name}"


# --- healthy siblings, through the real door ----------------------------------------------------------------------


def through_the_door(
    budget: Any, relation: str, cost: Cost, send: Callable[[Gate, Any], Any], unit: Unit | None = None
) -> Callable[[Any], Any]:
    """A mechanism: a fresh release of whatever `send` lets out for a data set."""
    door = free_door(budget, relation, unit=unit, keep=False)
    return lambda data: released(door, cost, lambda gate: send(gate, data))


def assert_healthy(bound: LowerBound, *, near: float, factor: float = 2.0) -> None:
    """Not refuted, close to the claim, and powerful enough to have caught a wrong constant."""
    assert not bound.violates, str(bound)
    assert bound.power_against(factor - 1) > 0.99
    assert (bound.mu if bound.gaussian else bound.epsilon) > near, str(bound)


def sum_of(boxes: int, **settings: Any) -> Callable[[Gate, Any], Any]:
    def send(gate: Gate, data: Any) -> Any:
        bound = Sensitivity.of_boxes([(0, 10)] * boxes, gate.neighbours)
        return gate.noisy_sum("sum", data, bound, gate.cost, **settings)

    return send


@pytest.mark.long
@pytest.mark.parametrize("relation", list(Relation))
def test_cube_is_healthy(relation: str) -> None:
    """All coordinates move by 10; max + min orders outputs by likelihood ratio, which grows from 0 to 20 only."""
    mechanism = through_the_door(PURE, relation, ONE, sum_of(3))
    bound = epsilon_lower_bound(
        mechanism,
        [0] * 3,
        [10] * 3,
        trials=6_000,
        confidence=SURE,
        claim=ONE,
        score=lambda z: min(max(max(z) + min(z), 0), 20),
    )
    assert_healthy(bound, near=0.4)


@pytest.mark.long
def test_cube_of_a_unit_is_healthy() -> None:
    """Replace-one with up to two rows each: the sums may move by 20."""
    mechanism = through_the_door(PURE, "replace-one", ONE, sum_of(2, mechanism="cube"), Unit("person", 2))
    bound = epsilon_lower_bound(
        mechanism,
        [0, 0],
        [20, 20],
        trials=6_000,
        confidence=SURE,
        claim=ONE,
        score=lambda z: min(max(max(z) + min(z), 0), 40),
    )
    assert_healthy(bound, near=0.4)


@pytest.mark.long
def test_laplace_is_healthy() -> None:
    mechanism = through_the_door(PURE, "add-remove", ONE, sum_of(1, mechanism="discrete-laplace"))
    bound = epsilon_lower_bound(mechanism, [0], [10], trials=5_000, confidence=SURE, claim=ONE)
    assert_healthy(bound, near=0.3)


@pytest.mark.long
def test_gaussian_is_healthy() -> None:
    mechanism = through_the_door(ZCDP, "add-remove", HALF_RHO, sum_of(2))
    bound = epsilon_lower_bound(
        mechanism, [0, 0], [10, 10], trials=8_000, confidence=SURE, claim=HALF_RHO, gaussian=True
    )
    assert_healthy(bound, near=0.5)
    assert bound.rho < 0.5


def counts(gate: Gate, cells: Any) -> Any:
    return gate.noisy_counts("counts", cells, gate.cost)


@pytest.mark.long
def test_counts_under_add_remove_are_healthy() -> None:
    mechanism = through_the_door(PURE, "add-remove", ONE, counts)
    bound = epsilon_lower_bound(
        mechanism, [3, 4], [4, 4], trials=4_000, confidence=SURE, claim=ONE, score=lambda z: z[0]
    )
    assert_healthy(bound, near=0.3)


@pytest.mark.long
def test_counts_under_replace_one_are_healthy() -> None:
    """The sibling with the add-remove constant is in `broken.py`; same neighbours, same score."""

    def swapped(cells: list[int]) -> float:
        return abs(cells[0] - 3) - abs(cells[0] - 4) + abs(cells[1] - 4) - abs(cells[1] - 3)

    mechanism = through_the_door(PURE, "replace-one", ONE, counts)
    bound = epsilon_lower_bound(mechanism, [3, 4], [4, 3], trials=8_000, confidence=SURE, claim=ONE, score=swapped)
    assert_healthy(bound, near=0.2)


@pytest.mark.long
def test_counts_in_a_zcdp_account_are_healthy() -> None:
    mechanism = through_the_door(ZCDP, "replace-one", HALF_RHO, counts)
    bound = epsilon_lower_bound(
        mechanism,
        [3, 4],
        [4, 3],
        trials=6_000,
        confidence=SURE,
        claim=HALF_RHO,
        gaussian=True,
        score=lambda z: z[0] - z[1],
    )
    assert_healthy(bound, near=0.4)


def choice(gate: Gate, scores: Any) -> Any:
    return gate.select("best", scores, ScoreRange(gate.neighbours, -1, 1), gate.cost)


@pytest.mark.long
def test_selection_is_healthy() -> None:
    mechanism = through_the_door(PURE, "replace-one", ONE, choice)
    bound = epsilon_lower_bound(mechanism, [1, 1], [2, 0], trials=4_000, confidence=SURE, claim=ONE)
    assert_healthy(bound, near=0.3)


@pytest.mark.long
def test_selection_in_a_zcdp_account_is_healthy() -> None:
    """At rho = 1/8 the odds of the two candidates move from e^-1/2 to e^1/2, which is nearly all that rho allows."""
    rho = zcdp(0.125)
    mechanism = through_the_door(ZCDP, "replace-one", rho, choice)
    bound = epsilon_lower_bound(mechanism, [0, 1], [1, 0], trials=4_000, confidence=SURE, claim=rho)
    assert not bound.violates, str(bound)
    assert bound.mu > 0  # truly 0.62


@pytest.mark.long
def test_parts_are_healthy() -> None:
    """Two parts change, as with rows dealt by a hash of their id under replace-one."""
    box = PublicRange(-1.0, 1.0)

    def send(gate: Gate, outputs: Any) -> Any:
        bound = Sensitivity.of_parts(gate.neighbours, 1, box.levels, 2)
        return gate.noisy_sum("parts", box.quantize(np.array(outputs)).sum(axis=0), bound, gate.cost, mechanism="cube")

    mechanism = through_the_door(PURE, "replace-one", ONE, send)
    left, right = [[-9.0], [-1.0], [0.5]], [[1.0], [math.inf], [0.5]]  # outside the box: clipped
    low, high = (int(box.quantize(np.array(side)).sum()) for side in (left, right))
    bound = epsilon_lower_bound(
        mechanism, left, right, trials=6_000, confidence=SURE, claim=ONE, score=lambda v: min(max(v[0], low), high)
    )
    assert_healthy(bound, near=0.4)


@pytest.mark.long
def test_query_loop_is_healthy() -> None:
    """Two adaptive questions at half the price each; the log likelihood ratio is the sum of the clipped answers."""
    half = pure(Fraction(1, 2))
    door = free_door(keep=False)

    def mechanism(total: int) -> list[int]:
        answers: list[int] = []

        def body(gate: Gate) -> None:
            loop = gate.query_loop("question", ONE)
            bound = Sensitivity.of_boxes([(0, 10)], gate.neighbours)
            while loop.affords(half):
                answers.extend(loop.ask([total], bound, half, mechanism="cube"))

        release(door, ONE, body)
        return answers

    bound = epsilon_lower_bound(
        mechanism, 0, 10, trials=8_000, confidence=SURE, claim=ONE, score=lambda v: sum(min(max(x, 0), 10) for x in v)
    )
    assert_healthy(bound, near=0.3)


# --- is the statement itself right? -------------------------------------------------------------------------------


def simulated(true: float, claim: Cost, trials: int, repetitions: int, **settings: Any) -> float:
    """How often the audit refutes `claim` for Laplace noise of epsilon `true` (gaussian: normal noise of mu `true`)."""
    random = np.random.default_rng()
    refuted = 0
    for _ in range(repetitions):
        draw = random.normal if settings.get("gaussian") else random.laplace
        noise = iter((draw(size=2 * trials) / true).tolist())
        bound = epsilon_lower_bound(
            lambda data, noise=noise: data + next(noise), 0.0, 1.0, trials=trials, claim=claim, score=float, **settings
        )
        refuted += bound.violates
    return refuted / repetitions


def stated(claim: Cost, trials: int, confidence: float = 0.999, gaussian: bool = False) -> LowerBound:
    return LowerBound(0, 0, 0, 0.0, confidence, trials, claim, gaussian, "", 0)


@pytest.mark.long
@pytest.mark.parametrize(("defect", "trials"), [(0.5, 2_000), (0.3, 3_000)])
def test_power_agrees_with_simulation(defect: float, trials: int) -> None:
    """320 audits: the standard deviation is at most 0.028; 6 of them, and 0.1 for having to find the event."""
    power = stated(ONE, trials).power_against(defect)
    assert 0.3 < power < 0.95
    assert power - 0.28 < simulated(1 + defect, ONE, trials, 320) < power + 0.18


@pytest.mark.long
def test_power_of_a_gaussian_audit_agrees_with_simulation() -> None:
    power = stated(HALF_RHO, 1_000, gaussian=True).power_against(0.5)
    assert 0.6 < power < 0.95
    assert power - 0.33 < simulated(1.5, HALF_RHO, 1_000, 200, gaussian=True) < power + 0.18


@pytest.mark.long
def test_false_alarms_stay_below_the_stated_probability() -> None:
    """400 audits of a tight mechanism at confidence 0.9: at most 40 are expected; 78 has probability below 1e-8."""
    assert simulated(1.0, ONE, 400, 400, confidence=0.9) < 78 / 400


def test_power_figures_of_the_documents() -> None:
    """20,000 trials, a defect of 20 %. The figures in METHODS hold at confidence 0.99; 0.999 costs power."""
    powers = {
        (confidence, epsilon): stated(pure(epsilon), 20_000, confidence).power
        for confidence in (0.99, 0.999)
        for epsilon in (1, 0.5, 0.25, 0.1)
    }
    assert powers[0.99, 0.5] == pytest.approx(0.957, abs=0.005)
    assert powers[0.99, 0.25] == pytest.approx(0.280, abs=0.005)
    assert powers[0.99, 0.1] < 0.02
    assert powers[0.999, 1] > 0.999
    assert powers[0.999, 0.5] == pytest.approx(0.766, abs=0.005)
    assert powers[0.999, 0.25] == pytest.approx(0.056, abs=0.005)


def test_power_by_brute_force() -> None:
    """Against the plain double sum over both counts."""
    n, p, q, error, claimed = 40, 0.7, 0.1, 0.01, 0.8
    k = np.arange(n + 1)
    pmf = [[math.comb(n, int(i)) * x**i * (1 - x) ** (n - i) for i in k] for x in (p, q)]
    refuted = bounds.epsilon(bounds.lower(k, n, error)[:, None], bounds.upper(k, n, error)[None, :], 0.0) > claimed
    brute = float((np.outer(*pmf) * refuted).sum())
    assert 0.1 < brute < 0.9
    assert bounds.power(p, q, n, error, lambda a, b: bounds.epsilon(a, b, 0.0) > claimed) == pytest.approx(brute)


def test_clopper_pearson_agrees_with_scipy() -> None:
    from scipy.stats import binomtest

    for hits, n in ((0, 7), (1, 7), (5, 12), (12, 12), (300, 1000)):
        interval = binomtest(hits, n).proportion_ci(0.98, method="exact")
        assert bounds.lower(np.array([hits]), n, 0.01)[0] == pytest.approx(interval.low)
        assert bounds.upper(np.array([hits]), n, 0.01)[0] == pytest.approx(interval.high)


def test_rho_bound_is_the_renyi_divergence_of_a_coin() -> None:
    """A coin with two sides p and q: the largest D_alpha / alpha over a fine grid of orders."""
    p, q = 0.6, 0.2
    orders = np.linspace(1.001, 30, 3000)
    fine = max(math.log(p**a * q ** (1 - a) + (1 - p) ** a * (1 - q) ** (1 - a)) / (a - 1) / a for a in orders)
    assert bounds.rho(np.array([p]), np.array([q]))[0] == pytest.approx(fine, rel=0.01)
    assert bounds.rho(np.array([p]), np.array([q]))[0] <= fine * (1 + 1e-5)
    assert bounds.rho(np.array([q]), np.array([p]))[0] == 0


def test_gaussian_trade_off() -> None:
    from scipy.special import ndtr

    for cut in (-1.0, 0.3, 2.0):
        assert bounds.mu(np.array([ndtr(1.5 - cut)]), np.array([ndtr(-cut)]))[0] == pytest.approx(1.5)


# --- statements and refusals --------------------------------------------------------------------------------------


def noisy(data: float) -> float:
    return data + float(np.random.default_rng().laplace())


def test_delta_lowers_the_bound() -> None:
    """A mechanism that tells all with probability 0.1 and nothing otherwise is (0, 0.1)-DP.

    83 hits in half of 4,000 runs prove an epsilon above 2; there are fewer with a probability below 1e-20.
    """

    def tells(data: int) -> int:
        return data if np.random.default_rng().random() < 0.1 else 0

    claim_free = epsilon_lower_bound(tells, 0, 1, trials=4_000)
    assert claim_free.epsilon > 2
    with_delta = epsilon_lower_bound(tells, 0, 1, trials=2_000, delta=0.2)
    assert with_delta.epsilon <= 0
    assert "at delta = 0.2" in str(with_delta)


def test_words_of_a_passing_audit() -> None:
    bound = epsilon_lower_bound(noisy, 0.0, 1.0, trials=2_000, claim=2)
    text = bound.describe()
    assert text == str(bound)
    assert "Lower bound: epsilon is at least" in text
    assert "confidence 0.999" in text
    assert "2000 runs" in text
    assert "not refuted. That is no proof" in text
    assert "20% above it would be caught with probability" in text


def test_words_for_zcdp() -> None:
    assert "mu is at least" in str(replace(stated(HALF_RHO, 2_000, gaussian=True), mu=0.7))
    assert "rho is at least 0.2" in str(replace(stated(HALF_RHO, 2_000), rho=0.2))
    assert stated(HALF_RHO, 2_000).power is not None


def test_words_without_a_claim() -> None:
    bound = epsilon_lower_bound(noisy, 0.0, 1.0, trials=200)
    assert "No claim" in str(bound)
    assert bound.power is None
    for ask in (lambda: bound.violates, lambda: bound.power_against(0.2)):
        with pytest.raises(InputError, match="without"):
            ask()


def test_failures_are_counted() -> None:
    def fails(data: int) -> int:
        if data:
            raise RuntimeError("secret row 17")
        return int(noisy(0))

    bound = epsilon_lower_bound(fails, 0, 1, trials=200, claim=1)
    assert bound.violates
    assert bound.failures == 200
    assert "200 runs raised" in str(bound)
    assert "secret" not in str(bound)


def test_vectors_and_truth_values_have_a_default_score() -> None:
    assert epsilon_lower_bound(lambda d: [noisy(d), noisy(d)], 0.0, 9.0, trials=200).epsilon > 1
    assert epsilon_lower_bound(lambda d: noisy(d) > 4, 0.0, 9.0, trials=200, score=lambda b: b).epsilon > 1


@pytest.mark.parametrize(
    ("settings", "words"),
    [
        ({"trials": 1}, "at least 2"),
        ({"trials": True}, "whole number"),
        ({"trials": 2.5}, "whole number"),
        ({"trials": "many"}, "whole number"),
        ({"confidence": 1.0}, "confidence"),
        ({"confidence": 0.2}, "confidence"),
        ({"confidence": math.nan}, "confidence"),
        ({"confidence": "0.9"}, "confidence"),
        ({"delta": 1}, "delta"),
        ({"delta": -0.1}, "delta"),
        ({"delta": math.nan}, "delta"),
        ({"delta": True}, "delta"),
        ({"delta": 0.1, "claim": HALF_RHO}, "without delta"),
        ({"gaussian": True}, "zCDP claim"),
        ({"gaussian": True, "claim": ONE}, "zCDP claim"),
        ({"claim": 0}, "positive"),
        ({"claim": "one"}, "positive"),
        ({"score": lambda _: "x"}, "must be a number"),
        ({"score": lambda _: None}, "must be a number"),
    ],
)
def test_bad_input(settings: dict[str, Any], words: str) -> None:
    with pytest.raises(InputError, match=words):
        epsilon_lower_bound(noisy, 0.0, 1.0, **{"trials": 100, **settings})


def test_outputs_without_an_order_need_a_score() -> None:
    with pytest.raises(InputError, match="score="):
        epsilon_lower_bound(lambda d: {"d": d}, 0.0, 1.0, trials=100)


def test_bad_defect() -> None:
    for defect in (0, -1, math.nan, math.inf):
        with pytest.raises(InputError, match="defect"):
            stated(ONE, 1_000).power_against(defect)


def test_too_few_trials_say_how_many_are_needed() -> None:
    with pytest.raises(InputError, match="too few") as caught:
        epsilon_lower_bound(noisy, 0.0, 1.0, trials=40, claim=1)
    assert "at least 50" in caught.value.hint
    epsilon_lower_bound(noisy, 0.0, 1.0, trials=50, claim=1)
    with pytest.raises(InputError, match="too few"):
        epsilon_lower_bound(noisy, 0.0, 1.0, trials=20)
    with pytest.raises(InputError, match="too few"):  # no number of trials is enough
        epsilon_lower_bound(noisy, 0.0, 1.0, trials=20, claim=900)


def test_replayed_releases_are_not_audited() -> None:
    """A ledger that answers the same request again gives the audit nothing to look at; it says so."""
    door = free_door()
    bound = Sensitivity.of_boxes([(0, 10)], door.account.neighbours)

    def replayed(total: int) -> list[int]:
        result = release(door, ONE, lambda gate: gate.noisy_sum("a", [total], bound, ONE), {"same": True})
        values: list[int] = result.payload["parts"]["a"]["values"]
        return values

    with pytest.raises(InputError, match="fresh release"):
        epsilon_lower_bound(replayed, 0, 10, trials=100)


def test_a_mechanism_that_always_fails_is_not_audited() -> None:
    with pytest.raises(InputError, match="every run raised TypeError"):
        epsilon_lower_bound(lambda a, _: a, 0, 1, trials=100)  # type: ignore[misc,arg-type]


# --- several processes, progress, scores that are there already ----------------------------------------------------


def fresh(data: float) -> float:
    """Fresh randomness in every process: the generator is made anew in each call."""
    return noisy(data)


def seeded(generator: np.random.Generator, data: float) -> float:
    """Carries its generator along, so every process draws the same noise."""
    return data + float(generator.laplace())


@pytest.mark.long
def test_two_processes_give_a_bound_like_one() -> None:
    """Laplace noise of epsilon 1: the bound of 8,000 runs is about 0.75, with a standard deviation of 0.04."""
    bound = epsilon_lower_bound(fresh, 0.0, 1.0, trials=8_000, claim=1, workers=2, confidence=SURE)
    assert bound.trials == 8_000
    assert not bound.violates
    assert bound.epsilon > 0.4


@pytest.mark.usefixtures("workers")
def test_processes_that_repeat_each_other_are_refused() -> None:
    mechanism = partial(seeded, np.random.default_rng(3))
    with pytest.raises(InputError, match="same runs"):
        epsilon_lower_bound(mechanism, 0.0, 1.0, trials=200, workers=2)


def test_what_cannot_be_sent_to_a_process_is_refused() -> None:
    with pytest.raises(InputError, match="other processes"):
        epsilon_lower_bound(lambda d: noisy(d), 0.0, 1.0, trials=200, workers=2)
    for workers in (0, True, 1.5):
        with pytest.raises(InputError, match="workers"):
            epsilon_lower_bound(noisy, 0.0, 1.0, trials=200, workers=workers)  # type: ignore[arg-type]


def test_progress_is_told_on_request(monkeypatch: pytest.MonkeyPatch) -> None:
    told: list[Any] = []

    @contextmanager
    def track(label: str, total: int) -> Iterator[Callable[[int], None]]:
        told.append((label, total))
        yield told.append

    monkeypatch.setattr(runs, "track", track)
    epsilon_lower_bound(noisy, 0.0, 1.0, trials=300)
    assert told == []
    assert epsilon_lower_bound(noisy, 0.0, 1.0, trials=300, progress=True).trials == 300
    assert told[0] == ("audit", 300)
    assert len(told) > 10
    assert sum(told[1:]) == 300


def test_scores_that_are_there_already() -> None:
    draw = np.random.default_rng(0)
    ends = np.array([[1.0], [0.0]])
    scores = draw.laplace(size=(2, 4_000)) + ends
    bound = from_scores(scores, claim=ONE)
    assert 0.5 < bound.epsilon < 1
    assert from_scores(draw.laplace(size=(2, 4_000)) / 2 + ends, claim=ONE).violates
    with pytest.raises(InputError, match="same score"):
        from_scores(np.zeros((2, 100)), claim=ONE)
    with pytest.raises(InputError, match="too few"):
        from_scores(scores[:, :30], claim=ONE)


def test_the_power_of_runs_is_that_of_their_law() -> None:
    """Laplace noise with epsilon 1.2: the power by frequencies of 40,000 runs is near the exact one, 0.9999."""
    scores = np.random.default_rng(1).laplace(size=(2, 40_000)) / 1.2 + [[1.0], [0.0]]
    exact = stated(ONE, 8_000).power
    assert exact is not None
    assert power_on(scores, claim=ONE, trials=8_000) == pytest.approx(exact, abs=0.2)
    assert power_on(scores, claim=ONE, trials=20_000) > 0.99
    assert power_on(scores, claim=pure(2), trials=20_000) < 0.01
