"""Attackers whom the guarantee bounds: membership of a row, and the hidden value of a row, for seven releases.

Each release runs on worst-case neighbours of the audit (`dpexplain.audit.releases`): membership on a pair where one
table has a row more (add-remove), the hidden value on a pair that differs in one row (replace-one). What both tables
hand to the sampler is captured once, all noisy parts after one history; every shadow run and every trial is then a
fresh draw of the exact noise. The attacker knows both tables and the law of the noise, sees all of these parts at once,
and judges them by their exact log likelihood ratio (Neyman, Pearson: no test is better) and, beside it, by what shadow
runs teach.
"""

from __future__ import annotations

from argparse import Namespace
from collections.abc import Iterator, Sequence
from dataclasses import replace
from fractions import Fraction
from typing import Any

import numpy as np
from rich.progress import track

import dpexplain as dpx
from dpexplain.audit import Membership, TableReconstruction, membership, table_reconstruction
from dpexplain.audit.calls import Sum
from dpexplain.audit.capture import Part
from dpexplain.audit.cases import Case
from dpexplain.audit.releases import releases
from dpexplain.core.budget import Cost, Definition, pure
from dpexplain.core.noise import Law, Noise
from dpexplain.core.samplers import ExactSampler

EPSILONS = (Fraction(1, 10), Fraction(1), Fraction(5))
DELTA = Fraction(1, 10**6)  # of the releases that need one
TARGETS = {  # the release, its form, and a part that names the pair of tables
    "partial dependence": ("partial_dependence", "default", "curve"),
    "accumulated effects": ("accumulated_effects", "of g", "effects"),
    "permutation importance": ("permutation_importance", "groups", "changes"),
    "cluster histograms": ("clusters", "one stage", "histograms"),
    "influence": ("influence", "group", "influences"),
    "local explanation": ("local_explanation", "moments", "moments"),
    "local sketch": ("local_sketch", "given centres", "moments"),
}
BLOCK = 500  # runs drawn at once


def case_of(target: str, relation: str) -> Case:
    """The pair of tables; in a pure account where the release can be paid for by one."""
    release, form, part = TARGETS[target]
    found = [c for c in releases()[release]() if (c.form, c.part, c.relation, c.rows) == (form, part, relation, 1)]
    return min(found, key=lambda case: case.definition is not Definition.PURE)


class Captured:
    """The noisy parts of one release on two tables, at a price that is `epsilon` for all of them together."""

    def __init__(self, case: Case, epsilon: Fraction) -> None:
        price = pure(epsilon) if case.definition is Definition.PURE else dpx.Budget(epsilon, DELTA).total
        paid = _paid(_noisy(case.parts(price)))
        self.parts = _noisy(case.parts(price * (price.amount / paid.amount)))
        self.claim = _paid(self.parts)
        self.gaussian = all(part.gaussian for part in self.parts)
        self._waiting: dict[int, Iterator[np.ndarray]] = {}

    @property
    def loss(self) -> float:
        """What the laws of all parts lose on this pair, as a share of the claim."""
        return sum(part.loss for part in self.parts) / float(self.claim.amount)

    def centre(self, side: int) -> list[int]:
        return [value for part in self.parts for value in _sum(part, side).values]

    def release(self, side: int) -> np.ndarray:
        """A fresh draw; blocks of them are drawn at once."""
        line = next(self._waiting.get(side, iter(())), None)
        if line is None:
            self._waiting[side] = iter(np.hstack([_drawn(_sum(part, side), BLOCK) for part in self.parts]))
            line = next(self._waiting[side])
        return line

    def ratio(self, line: np.ndarray) -> float:
        """The log likelihood ratio of right to left."""
        total, place = 0.0, 0
        for part in self.parts:
            left, right = _sum(part, 0), _sum(part, 1)
            values = line[place : place + len(left.values)].astype(np.float64)
            total += _energy(values - left.values, left.noise) - _energy(values - right.values, left.noise)
            place += len(left.values)
        return total

    def guess(self, side: int) -> list[float]:
        """A fresh draw as the attacker sees it who knows the law: its log likelihood ratio."""
        return [self.ratio(self.release(side))]


def _noisy(parts: Sequence[Part]) -> list[Part]:
    return [part for part in parts if isinstance(part.left[0], Sum)]


def _paid(parts: Sequence[Part]) -> Cost:
    return Cost(parts[0].cost.definition, sum((part.cost.amount for part in parts), Fraction(0)))


def _sum(part: Part, side: int) -> Sum:
    call = (part.left, part.right)[side][0]
    assert isinstance(call, Sum)
    return call


def _drawn(call: Sum, runs: int) -> np.ndarray:
    """Independent noise for many runs is one long vector; noise of the cube is drawn run by run."""
    sampler, size = ExactSampler(), len(call.values)
    if call.noise.law is Law.CUBE:
        return np.array([sampler.perturb(call.values, call.noise, call.bound, call.cost) for _ in range(runs)])
    noise = replace(call.noise, size=size * runs)
    return np.array(sampler.perturb(call.values * runs, noise, call.bound, call.cost)).reshape(runs, size)


def _energy(away: np.ndarray, noise: Noise) -> float:
    """Minus the logarithm of the probability of this noise, up to a constant."""
    scaled = np.abs(away) / float(noise.scale)
    if noise.law is Law.GAUSSIAN:
        return float((scaled**2).sum() / 2)
    return float(scaled.max() if noise.law is Law.CUBE else scaled.sum())


def study(options: Namespace) -> tuple[list[dict[str, Any]], dict[tuple[str, Fraction], Membership]]:
    """A line for each release and epsilon, and the reports of the membership attacks."""
    trials, shadows = (1_000, 500) if options.quick else (20_000, 5_000)
    epsilons = EPSILONS[1:2] if options.quick else EPSILONS
    lines, reports = [], {}
    for target, epsilon in track([(t, e) for t in TARGETS for e in epsilons], description="attacks on table rows"):
        joined, replaced = (Captured(case_of(target, r), epsilon) for r in ("add-remove", "replace-one"))
        member = membership(
            joined.release, 0, 1, claim=joined.claim, gaussian=joined.gaussian, trials=trials, shadows=shadows,
            score=joined.ratio, centres=(joined.centre(0), joined.centre(1)),
        )  # fmt: skip
        hidden = table_reconstruction(
            replaced.guess, {"one": 0, "other": 1}, claim=replaced.claim, relation="replace-one",
            gaussian=replaced.gaussian, trials=trials, shadows=shadows,
        )  # fmt: skip
        reports[target, epsilon] = member
        lines.append(_line(target, epsilon, joined, replaced, member, hidden))
    return lines, reports


def _line(
    target: str,
    epsilon: Fraction,
    joined: Captured,
    replaced: Captured,
    member: Membership,
    hidden: TableReconstruction,
) -> dict[str, Any]:
    return {
        "release": target,
        "epsilon": float(epsilon),
        "delta": float(DELTA) if joined.gaussian else 0.0,
        "claim": str(joined.claim),
        "laws": sorted({part.law for part in joined.parts}),
        "trials": member.trials,
        "membership": {
            "exact loss / claim": round(joined.loss, 4),
            "advantage": member.advantage,
            "interval": list(member.best.interval),
            "attack": member.best.name,
            "allowed": member.allowed,
            "area": member.best.area,
            "at low rates": [
                {
                    "attack": attack.name,
                    "false positives": [p.false_positives, p.false_low, p.false_high],
                    "true positives": [p.true_positives, p.true_low, p.true_high],
                    "allowed": p.allowed,
                }
                for attack in member.attacks
                for p in attack.points
                if p.says == "right" and p.rate is not None
            ],
            "refuted": member.violates,
        },
        "hidden value": {
            "exact loss / claim": round(replaced.loss, 4),
            "success": hidden.success,
            "interval": [hidden.low, hidden.high],
            "chance": hidden.chance,
            "allowed": hidden.allowed,
            "refuted": hidden.violates,
        },
    }


def summary(lines: Sequence[dict[str, Any]]) -> dict[str, Any]:
    """Each release: measured against allowed, for both attacks; and what was refuted."""
    found: dict[str, Any] = {}
    for line in lines:
        member, hidden = line["membership"], line["hidden value"]
        low, high = member["interval"]
        found.setdefault(line["release"], {})[f"epsilon {line['epsilon']:g}"] = (
            f"membership advantage {member['advantage']:.3f} ({low:.3f} to {high:.3f}), "
            f"allowed {member['allowed']:.3f}; hidden value guessed {hidden['success']:.3f} "
            f"({hidden['interval'][0]:.3f} to {hidden['interval'][1]:.3f}), allowed {hidden['allowed']:.3f}"
        )
    refuted = [ln for ln in lines if ln["membership"]["refuted"] or ln["hidden value"]["refuted"]]
    above = [ln for ln in lines if ln["membership"]["interval"][0] > ln["membership"]["allowed"]]
    return {"refuted": len(refuted), "advantage surely above the allowed one": len(above), **found}
