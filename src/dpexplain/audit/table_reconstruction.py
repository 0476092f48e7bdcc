"""Reconstruction of a table row: guess the hidden value of one row from what was released about the table.

Attacker    knows every row but one, and of that one everything but the hidden value; knows the release and its settings
            and can run it as often as they like. They see one output, and guess by maximum likelihood as shadow runs
            taught them (audit/likelihood.py). This is the attacker whom the guarantee bounds.
Statement   success with a Clopper-Pearson interval over all fresh runs. The candidates may be guessed with different
            success; a sum of unequal coins is less spread than the binomial of their mean (Hoeffding 1956), so the
            interval holds. Compared with chance, 1/k, and with the most that the claim allows (`most_success`).
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from dpexplain.audit import bounds, likelihood
from dpexplain.audit.claims import Claim, checked_claim, claim_of_replacing, most_success
from dpexplain.audit.measured import Guess, Measured, shadowed
from dpexplain.audit.runs import least_trials
from dpexplain.core.canonical import JsonObject
from dpexplain.core.sensitivity import Relation
from dpexplain.errors import InputError

if TYPE_CHECKING:
    from matplotlib.axes import Axes


@dataclass(frozen=True, kw_only=True)
class TableReconstruction(Measured):
    """How often the hidden value of one row was guessed, against chance and against what the claim allows."""

    relation: Relation
    values: tuple[str, ...]  # the candidates
    guesses: tuple[tuple[int, ...], ...]  # how often each (second) was guessed when the first was true
    low: float
    high: float
    allowed: float  # the most success that the claim allows
    how: str

    @property
    def success(self) -> float:
        """The share of fresh runs in which the guess was right."""
        return float(np.trace(np.array(self.guesses)) / (self.trials * len(self.values)))

    @property
    def chance(self) -> float:
        return 1 / len(self.values)

    @property
    def advantage(self) -> float:
        """Success beyond chance."""
        return self.success - self.chance

    @property
    def guess(self) -> Guess:
        return Guess(self.success, self.low, self.high, self.allowed, self.chance)

    @property
    def violates(self) -> bool:
        """Whether the claim is refuted."""
        return self.low > self.allowed

    def lines(self) -> list[str]:
        lines = [
            f"Reconstruction of one table row: {len(self.values)} candidate values, {self.trials} fresh runs for each, "
            f"after {self.shadows} shadow runs for each.",
            f"Success {self.success:.3g} (between {self.low:.3g} and {self.high:.3g}, confidence {self.confidence:g}); "
            f"chance {self.chance:.3g}; the claim ({self.stated}) allows {self.allowed:.3g}.",
        ]
        if self.constant:
            lines.append("Every run gave the same output: the advantage is zero.")
        else:
            lines.append(f"The guess was made as for {self.how}.")
        if self.failures:
            lines.append(f"{self.failures} runs raised an error; an error is an output too.")
        return [*lines, self.verdict]

    @property
    def stated(self) -> str:
        """The claim in words."""
        steps = ", two steps apart" if self.relation is Relation.ADD_REMOVE else ""
        return f"{super().stated}, {self.relation.value}{steps}"

    def content(self) -> JsonObject:
        return {
            "audit": "table-reconstruction",
            **super().content(),
            "relation": self.relation.value,
            "values": list(self.values),
            "guesses": [list(line) for line in self.guesses],
            "success": self.success,
            "interval": [self.low, self.high],
            "chance": self.chance,
            "allowed": self.allowed,
            "how": self.how,
        }

    def lists(self) -> list[dict[str, Any]]:
        return [
            {"value": value, "success": line[i] / self.trials}
            | {f"guessed {other}": count for other, count in zip(self.values, line, strict=True)}
            for i, (value, line) in enumerate(zip(self.values, self.guesses, strict=True))
        ]

    def plot(self, ax: Axes | None = None) -> Axes:
        """The success for each value, with chance and the most that the claim allows."""
        from dpexplain.render.audits import plot_table_reconstruction

        return plot_table_reconstruction(self, ax)


def table_reconstruction(
    release: Callable[[Any], Any],
    tables: Mapping[Any, Any] | Sequence[Any],
    *,
    claim: Claim,
    relation: str | Relation,
    trials: int = 1000,
    shadows: int | None = None,
    gaussian: bool = False,
    delta: float = 0.0,
    confidence: float = 0.999,
    centres: Sequence[Any] | None = None,
    workers: int = 1,
) -> TableReconstruction:
    """Attack `release`: guess which of `tables`, equal but for one value of one row, an output came from.

    tables    {value: table}, or a list of tables
    claim     what one release says it costs, for neighbours of this `relation`: `Cost`, or a number for pure epsilon.
              Two values of a row are one step apart under replace-one, two under add-remove
    trials    fresh runs for each table; `shadows` (as many) fit the attacker
    centres   the exact statistic of each table, for an attacker who can compute it; needed for long vectors
    Everything else is as in `membership`.
    """
    named = dict(tables) if isinstance(tables, Mapping) else dict(enumerate(tables))
    if len(named) < 2:
        raise InputError(
            "one candidate value is nothing to guess.",
            hint="tables={value: table, ...}, at least two of them",
            spent="",
        )
    stated, relation = checked_claim(claim, gaussian, delta), Relation.parse(relation)
    replaced, slack = claim_of_replacing(stated, relation, delta)
    allowed = most_success(replaced, len(named), gaussian=gaussian, delta=slack)
    settings: dict[str, Any] = {"trials": trials, "shadows": shadows, "confidence": confidence, "workers": workers}
    made = shadowed(release, list(named.values()), label="table reconstruction", **settings)
    attacker = likelihood.fit(made.seen.vectors, centres)
    guesses = [_guesses(attacker(lines), len(named)) for lines in made.fresh.vectors]
    hits, n = np.array([sum(line[i] for i, line in enumerate(guesses))]), trials * len(named)
    error = (1 - confidence) / 2

    def refutable(trials: int) -> bool:
        every = trials * len(named)
        return bool(bounds.lower(np.array([every]), every, error)[0] > allowed)

    return TableReconstruction(
        claim=stated,
        relation=relation,
        gaussian=gaussian,
        delta=float(delta),
        values=tuple(str(value) for value in named),
        guesses=tuple(guesses),
        low=float(bounds.lower(hits, n, error)[0]),
        high=float(bounds.upper(hits, n, error)[0]),
        allowed=allowed,
        how=attacker.family,
        needed=least_trials(refutable),
        **made.about,
    )


def _guesses(likelihoods: NDArray[np.float64], candidates: int) -> tuple[int, ...]:
    """How often each candidate was guessed. Lines without any preference are shared out in turns."""
    level = likelihoods.max(axis=1, keepdims=True) == likelihoods.min(axis=1, keepdims=True)
    turns = np.arange(len(likelihoods)) % candidates
    counts = np.bincount(np.where(level[:, 0], turns, likelihoods.argmax(axis=1)), minlength=candidates)
    return tuple(int(count) for count in counts)
