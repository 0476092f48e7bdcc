"""The report of an audit of a user's project: what each attack found, beside chance and what the claim allows."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar

from dpexplain.audit.measured import Guess, Measured
from dpexplain.audit.reconstruction import Reconstruction
from dpexplain.audit.report import Report
from dpexplain.core.budget import Budget
from dpexplain.core.canonical import JsonObject
from dpexplain.core.sensitivity import Neighbours

if TYPE_CHECKING:
    from matplotlib.axes import Axes

UNSPENT = "The rows were read without the ledger: nothing was reserved, nothing was spent, nothing was recorded."
_SLACK = 1e-9  # of exact losses, which are computed in floats


@dataclass(frozen=True)
class Outcome:
    """One attack on one release at one cost."""

    explainer: str
    epsilon: float
    about: str  # what the attacker wants to know
    attained: float  # the exact loss on this pair of tables, as a share of what the claim allows
    report: Measured

    @property
    def violates(self) -> bool:
        return self.report.violates or self.attained > 1 + _SLACK

    @property
    def guess(self) -> Guess:
        return self.report.guess

    def content(self) -> JsonObject:
        return {
            "explainer": self.explainer,
            "epsilon": self.epsilon,
            "about": self.about,
            "exact_loss": self.attained,
            "violates": self.violates,
            "guess": vars(self.guess),
            "report": self.report.content(),
        }


@dataclass(frozen=True)
class Explained:
    """One way to explain records, and what an attacker found out about them."""

    method: str  # "exact", "sketch" or "moments"
    epsilon: float | None  # None: without noise
    report: Reconstruction


@dataclass(frozen=True)
class ProjectAudit(Report):
    """What all attacks on a project found."""

    spent: ClassVar[str] = UNSPENT

    name: str
    model: str
    rows: int  # of the table
    read: int  # of them
    attacked: int  # rows beside a target
    neighbours: Neighbours
    budget: Budget
    epsilons: tuple[float, ...]
    trials: int
    confidence: float  # with which all statements hold together
    membership: tuple[Outcome, ...]
    table: tuple[Outcome, ...]
    explained: tuple[Explained, ...]
    bounds: tuple[Mapping[str, Any], ...]  # lines of `releases.audit_all`
    left_out: tuple[str, ...]

    @property
    def outcomes(self) -> list[tuple[str, Outcome]]:
        return [("membership", o) for o in self.membership] + [("table", o) for o in self.table]

    @property
    def refuted(self) -> list[str]:
        """Claims that were refuted, in words."""
        claims = [f"{o.explainer} at epsilon {o.epsilon:g} ({kind})" for kind, o in self.outcomes if o.violates]
        return claims + [
            f"{line['release']} ({line['form']}), {line['part']} (lower bound)"
            for line in self.bounds
            if line["attained"] > 1 + _SLACK or line.get("refuted")
        ]

    @property
    def verdict(self) -> str:
        if self.refuted:
            return f"REFUTED: {'; '.join(self.refuted)}. This is a bug in dpexplain: please report it."
        if not (self.outcomes or self.bounds):
            return "No claim was attacked."
        return "No claim is refuted. That is no proof of any."

    @property
    def headline(self) -> str:
        return f"Audit of {self.name}, model {self.model}: {self.read} of {self.rows} rows. {self.spent}"

    def lines(self) -> list[str]:
        lines = [self.headline]
        for kind, o in self.outcomes:
            what = "in the table?" if kind == "membership" else "which of two values?"
            lines.append(
                f"{o.explainer} at epsilon {o.epsilon:g}, {what} Guessed with success {o.guess.success:.3f}; chance "
                f"0.5, allowed {o.guess.allowed:.3f}. Exact loss: {o.attained:.2g} of the claim."
            )
        for e in self.explained:
            price = "without noise" if e.epsilon is None else f"at epsilon {e.epsilon:g}"
            lines.append(
                f"Explained records, {e.method} {price}: success {e.report.success:.3f}, without the explanation "
                f"{e.report.guess:.3f}."
            )
        return [*lines, *self.closing]

    @property
    def closing(self) -> list[str]:
        """What stands below the numbers."""
        lines = [Reconstruction.uncovered] if self.explained else []
        if self.bounds:
            drawn = [line for line in self.bounds if "bound" in line]
            lines.append(
                f"Lower bounds on made-up worst cases: {len(self.bounds)} parts of releases, the noise of {len(drawn)} "
                f"drawn; noise made 20 % too small on purpose was caught in {sum(x['defect caught'] for x in drawn)}."
            )
        return [*lines, *(f"Left out: {what}" for what in self.left_out), self.verdict]

    def content(self) -> JsonObject:
        return {
            "audit": "project",
            "name": self.name,
            "model": self.model,
            "spent": self.spent,
            "rows": self.rows,
            "rows_read": self.read,
            "neighbours": self.neighbours.to_json(),
            "budget": self.budget.to_json(),
            "epsilons": list(self.epsilons),
            "trials": self.trials,
            "confidence": self.confidence,
            "verdict": self.verdict,
            "refuted": self.refuted,
            "left_out": list(self.left_out),
            "membership": [o.content() for o in self.membership],
            "table": [o.content() for o in self.table],
            "reconstruction": [
                {"method": e.method, "epsilon": e.epsilon, **e.report.content()} for e in self.explained
            ],
            "bounds": [dict(line) for line in self.bounds],
        }

    def lists(self) -> list[dict[str, Any]]:
        lines: list[dict[str, Any]] = [
            {"attack": kind, "what": o.explainer, "epsilon": o.epsilon, **vars(o.guess), "refuted": o.violates}
            for kind, o in self.outcomes
        ]
        for e in self.explained:
            low, high = (e.report.guess + end for end in e.report.interval)
            success = {"success": e.report.success, "low": low, "high": high, "chance": e.report.guess}
            lines.append({"attack": "reconstruction", "what": e.method, "epsilon": e.epsilon, **success})
        return lines

    def plot(self, ax: Axes | None = None) -> Axes:
        """Success against epsilon, for every attack that a claim bounds."""
        from dpexplain.render.audit_page import plot_guesses

        return plot_guesses(self.outcomes, "Guesses about rows of the table", ax)

    def write(self, folder: Path) -> list[Path]:
        """The page, the pictures and everything as JSON; each of them says that it is not private."""
        from dpexplain.render.audit_page import audit_page, pictures

        figures = pictures(self)
        (folder / "index.html").write_text(audit_page(self, figures), encoding="utf-8")
        self.to_json(folder / "audit.json")
        paths = [folder / "index.html", folder / "audit.json"]
        for name, figure in figures.items():
            paths.append(folder / f"{name}.png")
            figure.savefig(paths[-1], dpi=150)
        return paths
