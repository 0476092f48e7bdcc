"""Mechanisms broken on purpose. Every one claims less than it costs, and `test_audit.py` must catch it.

Each entry names the mistake, the mechanism (one input -> one output), a pair of worst-case neighbours, the score that
tells them apart and the claim that is false. Scores stop where more tells no more: otherwise luck in a tail leads the
audit, once in a few hundred runs, to an event that proves nothing. Some go through the real door and lie to it; some
rebuild by hand what the door would have refused. docs/broken-on-purpose.md has a line for each of them. `ring` says
which command catches it (tests/rings.py): `make test` what a few hundred runs or cheap ones show, `make audit` all
others.

`counted_twice` and `half_the_noise` break every method of the registry, and `test_every_release.py` must catch them in
each one.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass, replace
from fractions import Fraction
from typing import Any, Literal

import numpy as np
import pytest

import dpexplain as dpx
from dpexplain.core import release as gates
from dpexplain.core.budget import Cost, pure, zcdp
from dpexplain.core.domain import PublicRange
from dpexplain.core.release import Door, Gate
from dpexplain.core.rng import below, bernoulli_exp
from dpexplain.core.samplers import cube
from dpexplain.core.sensitivity import Relation, ScoreRange, Sensitivity, Unit
from dpexplain.errors import BudgetError, ReleaseLost
from dpexplain.maths.surrogate import Local, Space, StepWeight
from dpexplain.methods.adaptive import release as adaptive
from dpexplain.methods.adaptive.request import AdaptiveExplanation
from stubs import FreeAccount, free_door, release, released

ONE = pure(1)
_float_noise = np.random.default_rng()  # not secret: these mechanisms are broken anyway


@dataclass(frozen=True)
class Broken:
    """A mechanism that costs more than `claim`."""

    mistake: str
    mechanism: Callable[[Any], Any]
    left: Any
    right: Any
    claim: Cost
    score: Callable[[Any], float] | None = None
    gaussian: bool = False
    trials: int = 4_000  # a factor of two at epsilon 1 is missed with probability below 1e-6
    ring: Literal["test", "audit"] = "test"

    def __str__(self) -> str:
        return self.mistake


def laplace(scale: Fraction) -> int:
    """Discrete Laplace noise is a cube with one side."""
    return cube(1, scale)[0]


# --- too little noise ---------------------------------------------------------------------------------------------


def scale_too_small(total: int) -> int:
    return total + laplace(Fraction(4, 5) * 10)  # one row adds 0..10; epsilon 1 needs scale 10


def gaussian_too_small(total: int) -> int:
    return total + round(_float_noise.normal(scale=0.8 * 10))  # rho = 1/2 needs scale 10


def no_clipping(rows: list[int]) -> int:
    """Contributions are declared to lie in 0..10, but nobody makes them."""
    door = free_door(keep=False)
    bound = Sensitivity.of_boxes([(0, 10)], door.account.neighbours)
    return released(door, ONE, lambda gate: gate.noisy_sum("sum", [sum(rows)], bound, ONE, mechanism="cube"))[0]


def between_totals(total: int) -> float:
    """The log likelihood ratio of 35 to 15, up to a factor."""
    return float(np.clip(total, 15, 35))


def noisy_group_size(group: list[int]) -> tuple[int, int]:
    """The mean of a group with noise for a group of the size that was released: often larger than the true one."""
    size = max(1, len(group) + laplace(Fraction(5)))  # epsilon 0.2
    mean = round(sum(group) / len(group)) + laplace(Fraction(10, size) * Fraction(5, 4))  # epsilon 0.8, were it so
    return size, mean


def in_units_of_its_noise(answer: tuple[int, int]) -> float:
    """The log likelihood ratio of a mean of 10 to one of 0, for the noise that was drawn."""
    size, mean = answer
    return (abs(mean) - abs(mean - 10)) * size * 0.08


def scaled_before_noise(rows: list[int]) -> int:
    """One row in four is used, and their sum is multiplied by four before it gets the noise of one row."""
    return 4 * sum(row for row in rows if below(4) == 0) + laplace(Fraction(10))


def between_one_and_four_rows(total: int) -> float:
    """The log likelihood ratio of a row that was used to one that was not, up to a factor."""
    return float(np.clip(total, 0, 40))


# --- the wrong constant -------------------------------------------------------------------------------------------


def add_remove_constant(counts: list[int]) -> list[int]:
    """A histogram in which a replaced row changes two cells, with the noise for one."""
    scale = Fraction(1) / 1  # l1 = 1 / epsilon
    return [count + laplace(scale) for count in counts]


def swapped(cells: list[int]) -> float:
    """The log likelihood ratio of (4, 3) to (3, 4)."""
    return abs(cells[0] - 3) - abs(cells[0] - 4) + abs(cells[1] - 4) - abs(cells[1] - 3)


def one_row_of_a_unit(counts: list[int]) -> list[int]:
    """A person has up to three rows; the bound is for one."""
    door = free_door(relation=Relation.ADD_REMOVE, unit=Unit("person", 3), keep=False)
    bound = Sensitivity(door.account.neighbours, 1, 1, 1)
    return released(door, ONE, lambda gate: gate.noisy_sum("count", counts, bound, ONE, mechanism="cube"))


def half_the_range(scores: list[int]) -> int:
    """Scores may rise or fall by one, but the range of changes is given as [0, 1]."""
    door = free_door(keep=False)
    change = ScoreRange(door.account.neighbours, 0, 1)
    return released(door, ONE, lambda gate: gate.select("best", scores, change, ONE))[0]


def flip_charged_as_gumbel(scores: list[int]) -> int:
    """Permute-and-flip with epsilon 1 costs up to epsilon^2/2 in zCDP; epsilon^2/8 is for Gumbel noise only."""
    first = below(2)
    best = max(scores)
    accepted = bernoulli_exp(best - scores[first], 1)
    return first if accepted else 1 - first


def content_hash(rows: list[int]) -> list[int]:
    """Rows are dealt to parts by their content, so replacing one changes two parts; the bound is for one."""
    door, box = free_door(keep=False), PublicRange(0.0, 1.0)
    parts = np.array([[1.0 if any(row % 4 == part for row in rows) else 0.0] for part in range(4)])
    outputs = parts * [[1], [1], [-1], [-1]] + [[0], [0], [1], [1]]

    def send(gate: Any) -> None:
        bound = Sensitivity.of_parts(gate.neighbours, 1, box.levels, 1)
        gate.noisy_sum("parts", box.quantize(outputs).sum(axis=0), bound, ONE, mechanism="cube")

    return released(door, ONE, send)


def between_parts(totals: list[int]) -> float:
    """The log likelihood ratio of three parts to one, up to a factor."""
    K = PublicRange(0.0, 1.0).levels
    return float(np.clip(totals[0], K, 3 * K))


# --- things that need noise and got none --------------------------------------------------------------------------


def exact_count_as_divisor(rows: list[int]) -> float:
    """Under add-remove the number of rows is private, and a fraction shows its denominator."""
    return (sum(rows) + laplace(Fraction(10))) / len(rows)


def quarters(value: float) -> float:
    return float((4 * value).is_integer())


def noise_used_twice(pair: tuple[int, int]) -> tuple[int, int]:
    z = laplace(Fraction(20))
    return pair[0] + z, pair[1] + z


def difference(pair: tuple[int, int]) -> float:
    return pair[0] - pair[1]


def grid_from_data(rows: list[int]) -> tuple[int, int]:
    """The last grid point is the largest observed value."""
    return max(rows), sum(rows) + laplace(Fraction(10))


def labels_from_data(labels: list[str]) -> list[int]:
    """A noisy count for each label that some row has."""
    return [labels.count(label) + laplace(Fraction(1)) for label in sorted(set(labels))]


PLANE = dpx.Domain({"x": dpx.Numeric(0, 1), "y": dpx.Numeric(0, 1)})
SPACE = Space(PLANE, ("x", "y"))
LOCAL = Local(SPACE, StepWeight.of("stable", SPACE.diameter), PublicRange(-1.0, 1.0), {"x": 0.5, "y": 0.5}, 0.0)


def beta_unprotected(beta: int) -> int:
    """Algorithm 2 as it is printed: the number of steps comes from the exact length of the gradient."""
    spec = adaptive.spec_of(AdaptiveExplanation(record=None, enhanced=True), LOCAL, 2, [np.zeros(2, dtype=np.int64)])
    steps, _ = adaptive.economy(spec, beta, scale=1.0, rows=2)
    return steps


LONG = 2**20  # a gradient that one row can make of none


def row_dependent_error(rows: list[int]) -> int:
    if any(row > 10 for row in rows):
        raise ValueError("a row is out of bounds")
    return sum(rows) + laplace(Fraction(10))


def row_dependent_nan(rows: list[float]) -> float:
    return sum(rows) + laplace(Fraction(10))  # one NaN among the rows and the sum says so


def float_laplace(total: float) -> float:
    """Inverse transform in floats (Mironov 2012): which bits can be set depends on the total."""
    u = _float_noise.random() - 0.5
    return total - math.copysign(math.log1p(-2 * abs(u)), u)


def fine_bits(value: float) -> float:
    """Whether the value is finer than the grid of floats around one."""
    return float(not (value * 2.0**53).is_integer())


# --- accounting ---------------------------------------------------------------------------------------------------


def two_for_the_price_of_one(total: int) -> list[int]:
    """Each answer alone costs epsilon; only one is charged."""
    return [total + laplace(Fraction(10)), total + laplace(Fraction(10))]


def clipped(answers: int | list[int]) -> float:
    """The log likelihood ratio of 10 to 0, up to a factor."""
    return float(np.clip(answers, 0, 10).sum())


def charge_tells(rows: list[int]) -> float:
    """A loop that goes on or stops because of rows, and is charged for what it used."""
    door = free_door(keep=False)
    bound = Sensitivity.of_boxes([(0, 10)], door.account.neighbours)

    def body(gate: Any) -> None:
        loop = gate.query_loop("question", ONE)
        loop.ask([sum(rows)], bound, pure(0.5), mechanism="cube")
        if sum(rows) > 20:
            loop.ask([sum(rows)], bound, pure(0.5), mechanism="cube")

    return float(release(door, ONE, body).entry.charged.amount)


class Refunding(FreeAccount):
    """Takes its price from a budget of 1 and gives it back when a release is lost."""

    spent = Fraction(0)

    def reserve(self, ask: Any) -> str:
        if self.spent + ask.cost.amount > 1:
            raise BudgetError("nothing is left.")
        self.spent += ask.cost.amount
        return super().reserve(ask)

    def lost(self, cost: Cost) -> None:
        self.spent -= cost.amount


def budget_given_back(total: int) -> list[int]:
    """What a release saw before it crashed is known to whoever made it crash; and the next try is free."""
    account = Refunding(keep=False)
    door, seen = Door(account), list[int]()
    bound = Sensitivity.of_boxes([(0, 10)], account.neighbours)

    def body(gate: Any) -> None:
        seen.extend(gate.noisy_sum("sum", [total], bound, ONE, mechanism="cube"))
        raise TimeoutError

    for _ in range(3):
        try:
            release(door, ONE, body)
        except ReleaseLost:
            account.lost(ONE)
        except BudgetError:
            break
    return seen


def wrong_definition(total: int) -> int:
    """Gaussian noise sold as pure epsilon: no finite epsilon holds in the tail."""
    return total + round(_float_noise.normal())


def near_tail(total: int) -> float:
    """Far enough out for a loss of 2.4, and not so far that there are hardly any runs."""
    return float(np.clip(total, -2, 3))


# --- in every method ----------------------------------------------------------------------------------------------


def counted_twice(patch: pytest.MonkeyPatch) -> None:
    """Whatever a method sends to the gate counts twice, at the price of once: each of its bounds is half of what it
    must be.
    """
    perturb, choose, combine = Gate._perturb, Gate._choose, Gate.select_combination

    def twice(values: Any) -> Any:
        return [2 * int(value) for value in values]

    patch.setattr(Gate, "_perturb", lambda gate, part, values, *rest: perturb(gate, part, twice(values), *rest))
    patch.setattr(Gate, "_choose", lambda gate, scores, *rest: choose(gate, [twice(one) for one in scores], *rest))
    patch.setattr(
        Gate,
        "select_combination",
        lambda gate, part, scores, *rest, **how: combine(gate, part, 2 * np.asarray(scores), *rest, **how),
    )


def half_the_noise(patch: pytest.MonkeyPatch) -> None:
    """The gate takes half the scale that a price allows, for noise and for choices."""
    best, selection, rate_for = gates.best, gates.selection, gates.rate_for

    def halved(law: Any) -> Any:
        return replace(law, scale=law.scale / 2)

    patch.setattr(gates, "best", lambda *asked: halved(best(*asked)))
    patch.setattr(gates, "selection", lambda *asked: halved(selection(*asked)))
    patch.setattr(gates, "rate_for", lambda *asked: 2 * rate_for(*asked))


ROWS = [5, 5, 5]

BROKEN = [
    Broken("noise 20 % too small", scale_too_small, 0, 10, ONE, score=clipped, trials=30_000, ring="audit"),
    Broken(
        "Gaussian noise 20 % too small", gaussian_too_small, 0, 10, zcdp(0.5), clipped, gaussian=True, trials=20_000
    ),
    Broken("noise for a noisy group size", noisy_group_size, [0], [10], ONE, score=in_units_of_its_noise, trials=6_000),
    Broken("a sample scaled up before its noise", scaled_before_noise, [0], [10], ONE, between_one_and_four_rows),
    Broken("rows not clipped", no_clipping, [*ROWS, 0], [*ROWS, 20], ONE, score=between_totals, ring="audit"),
    Broken("add-remove constant under replace-one", add_remove_constant, [3, 4], [4, 3], ONE, score=swapped),
    Broken("one row's bound for a unit of three", one_row_of_a_unit, [3], [6], ONE, ring="audit"),
    Broken("half the range of score changes", half_the_range, [1, 1], [2, 0], ONE, ring="audit"),
    Broken("permute-and-flip at the Gumbel price", flip_charged_as_gumbel, [0, 0], [0, 1], zcdp(0.125), trials=20_000),
    Broken("parts dealt by content", content_hash, [0], [2], ONE, score=between_parts, ring="audit"),
    Broken("exact count as divisor", exact_count_as_divisor, [0] * 4, [0] * 5, ONE, score=quarters, trials=300),
    Broken("the same noise in two releases", noise_used_twice, (0, 0), (10, 0), ONE, score=difference, trials=300),
    Broken("a grid from the data", grid_from_data, ROWS, [5, 5, 9], ONE, score=lambda v: v[0], trials=300),
    Broken("labels computed from the data", labels_from_data, ["a", "a"], ["a", "b"], ONE, score=len, trials=300),
    Broken("beta unprotected", beta_unprotected, 0, LONG, zcdp(0.5), trials=300),
    Broken("an error that depends on a row", row_dependent_error, ROWS, [5, 5, 11], ONE, trials=300),
    Broken("NaN that depends on a row", row_dependent_nan, [5.0, 5.0], [5.0, math.nan], ONE, trials=300),
    Broken("float Laplace", float_laplace, 0.0, 1.0, ONE, score=fine_bits),
    Broken(
        "two answers for the price of one",
        two_for_the_price_of_one,
        0,
        10,
        ONE,
        score=clipped,
        trials=6_000,
        ring="audit",
    ),
    Broken("a charge that depends on rows", charge_tells, [*ROWS, 0], [*ROWS, 10], ONE, trials=300),
    Broken("budget given back on a crash", budget_given_back, 0, 10, ONE, score=clipped, trials=4_000, ring="audit"),
    Broken("Gaussian noise sold as pure", wrong_definition, 0, 1, ONE, score=near_tail, trials=20_000),
]

__all__ = ["BROKEN", "Broken", "counted_twice"]
