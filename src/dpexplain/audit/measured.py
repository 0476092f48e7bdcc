"""Attacks that are fitted on shadow runs and measured on fresh ones: what membership and table reconstruction share.

Choice and measurement use different runs, so that the choice costs no confidence.
"""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Callable, Sequence
from dataclasses import dataclass, fields
from typing import Any

from dpexplain.audit.claims import in_words
from dpexplain.audit.report import Report
from dpexplain.audit.runs import LEAST_RUNS, Runs, Score, check_confidence, collect, whole_number
from dpexplain.core.budget import Cost
from dpexplain.core.canonical import JsonObject


@dataclass(frozen=True)
class Guess:
    """How often a guess between two equally likely sides is right, and the most that the claim allows."""

    success: float
    low: float
    high: float
    allowed: float
    chance: float = 0.5


@dataclass(frozen=True, kw_only=True)
class Measured(Report):
    """A report on such an attack, and the claim that it is compared with."""

    claim: Cost
    gaussian: bool  # whether a zCDP claim stands for the trade-off curve of Gaussian noise
    delta: float
    confidence: float
    trials: int  # fresh runs on each table
    shadows: int  # runs on each table that fitted the attacker
    failures: int
    constant: bool  # every run on all tables gave the same
    needed: int  # trials without which nothing can refute the claim

    @property
    def stated(self) -> str:
        """The claim in words."""
        return in_words(self.claim, self.gaussian, self.delta)

    @property
    @abstractmethod
    def advantage(self) -> float:
        """Success beyond chance."""

    @property
    @abstractmethod
    def violates(self) -> bool:
        """Whether the claim is refuted."""

    @property
    @abstractmethod
    def guess(self) -> Guess:
        """The attack as a guess."""

    @property
    def verdict(self) -> str:
        if self.violates:
            return f"The claim ({self.stated}) is REFUTED."
        if self.trials < self.needed:
            return (
                "These trials say nothing about the claim: even an attack that is always right could not refute it "
                f"with fewer than {self.needed} trials."
            )
        return f"The claim ({self.stated}) is not refuted. That is no proof of it."

    def content(self) -> JsonObject:
        plain = {field.name: getattr(self, field.name) for field in fields(Measured)}
        return {**plain, "claim": self.claim.to_json(), "violates": self.violates}


@dataclass(frozen=True)
class Shadowed:
    """Runs to fit an attacker with, and fresh ones to measure it on."""

    runs: Runs
    confidence: float
    shadows: int  # on each input

    @property
    def seen(self) -> Runs:
        return self.runs.part(slice(self.shadows))

    @property
    def fresh(self) -> Runs:
        return self.runs.part(slice(self.shadows, None))

    @property
    def about(self) -> dict[str, Any]:
        """What every report says about its runs."""
        trials = len(self.runs.scores[0]) - self.shadows
        outcome = {"failures": self.runs.failures, "constant": self.runs.constant}
        return {"confidence": self.confidence, "trials": trials, "shadows": self.shadows, **outcome}


def shadowed(
    release: Callable[[Any], Any],
    inputs: Sequence[Any],
    *,
    trials: int,
    shadows: int | None,
    confidence: float,
    workers: int,
    label: str,
    score: Score | None = None,
) -> Shadowed:
    """Shadow runs (by default as many as trials) and fresh runs on each input, their settings checked before."""
    check_confidence(confidence)
    whole_number(trials, "trials", LEAST_RUNS)
    fitted = trials if shadows is None else whole_number(shadows, "shadows", LEAST_RUNS)
    runs = collect(release, inputs, fitted + trials, label=label, score=score, workers=workers)
    return Shadowed(runs, confidence, fitted)
