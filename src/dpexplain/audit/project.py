"""The audit of a user's own table, domain and model: what `dpexplain audit` runs.

For        the data holder. Exact rows are read without the ledger, and nothing that comes out is private.
Attacks    membership and table   the most exposed unit, and one of its values (audit/subject.py), by every release that
                                  the project can make (audit/own_releases.py), beside few other rows: the attacker
                                  knows all of them, so more would hardly matter
           reconstruction         explained records, which no claim covers (audit/explained.py), beside more rows
           bounds                 the same releases on made-up worst cases, as in `audit_all`
Attacker   knows every other row, the exact statistic of both tables and the law of the noise, and scores an output by
           its log likelihood ratio. No attacker does better (Neyman, Pearson 1933).
Runs       a release is captured once (audit/capture.py) and its noise drawn again for every run, each part after the
           history of exact answers. Every part is worth its share after every history, so the claim holds for these
           runs.
Confidence all statements of an audit hold together; each gets the same share of what may go wrong.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property, partial
from typing import Any

import numpy as np
from numpy.typing import NDArray

from dpexplain.audit import own_releases
from dpexplain.audit.calls import Sum
from dpexplain.audit.capture import CONTINUOUS, FINE_SCALE, Part, capture, draws
from dpexplain.audit.cases import UNIT_ROWS, Case
from dpexplain.audit.claims import claim_of_replacing, most_true_positives
from dpexplain.audit.explained import attacked_explanations
from dpexplain.audit.measured import Measured
from dpexplain.audit.membership import membership, refutable
from dpexplain.audit.project_report import Outcome, ProjectAudit
from dpexplain.audit.reconstruction import LEAST_AUXILIARY, LEAST_TESTED
from dpexplain.audit.releases import audit_all
from dpexplain.audit.runs import LEAST_RUNS, least_trials, mapped, whole_number
from dpexplain.audit.subject import (
    ATTACKED_ROWS,
    Explain,
    Subject,
    hidden_pair,
    membership_pair,
    most_exposed,
    priced,
    read,
)
from dpexplain.audit.table_reconstruction import table_reconstruction
from dpexplain.core.budget import Budget, Cost, Definition, exact
from dpexplain.core.sensitivity import Neighbours, Relation
from dpexplain.errors import InputError
from dpexplain.methods.registry import Method

__all__ = ["ATTACKS", "Plan", "read", "run"]

Floats = NDArray[np.float64]
Say = Callable[[str], None]

ATTACKS = ("membership", "table", "reconstruction", "bounds")
ON_ROWS = ATTACKS[:2]
USUAL_EPSILONS = (0.1, 1.0, 5.0)
USUAL_TRIALS, BOUND_TRIALS = 1_000, 10_000
CONFIDENCE = 0.999
RATES = (0.01, 0.1)  # of false positives
LITTLE = 0.01  # of the loss of a release


# The plan -------------------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Plan:
    """What is asked of an audit. What is wrong with it is found out before any row is read."""

    attacks: tuple[str, ...]
    explainers: tuple[str, ...]
    epsilons: tuple[float, ...]
    trials: int
    workers: int
    cases: tuple[Case, ...]  # for the attack "bounds"
    confidence: float  # of each statement
    usual: bool  # the attacks were not chosen by the caller: what is impossible is left out
    left_out: tuple[str, ...]

    @classmethod
    def of(
        cls,
        budget: Budget,
        neighbours: Neighbours,
        target: str | None = None,
        *,
        clustering: bool = False,
        attacks: Sequence[str] = (),
        explainers: Sequence[str] = (),
        epsilons: Sequence[float] = (),
        trials: int | None = None,
        workers: int = 1,
        keep_missing: Sequence[str] = (),
    ) -> Plan:
        """Empty lists stand for what is usual; of that, what the account or the project cannot do is left out.
        `keep_missing` are the inputs of the model without which there is no distance between rows.
        """
        methods, chosen = own_releases.explainers(), _known("attack", attacks, ATTACKS) or ATTACKS
        usual = [
            name for name, one in methods.items() if one.attack_by_default and (clustering or not one.takes_clustering)
        ]
        named = _known("explainer", explainers, methods) or usual
        whole_number(workers, "workers", 1)
        possible, left_out = list[str](), list[str]()
        for what, asked, reasons in (
            *((name, explainers, _lacking(methods[name], budget, target, clustering, keep_missing)) for name in named),
            *((name, attacks, _unattackable(name, budget, keep_missing)) for name in chosen),
        ):
            if reasons is None:
                possible.append(what)
            elif asked:
                raise InputError(f"{what} {reasons[0]}", hint=reasons[1])
            else:
                left_out.append(f"{what} {reasons[0]}")
        named, chosen = (tuple(name for name in names if name in possible) for names in (named, chosen))
        prices = sorted({float(exact(e, "epsilon")) for e in epsilons or USUAL_EPSILONS})
        costs = [budget.cost(epsilon=e) for e in prices]
        cases = _cases([methods[name] for name in named], budget, neighbours) if "bounds" in chosen else ()
        statements = len(named) * len(costs) * len(set(chosen) & set(ON_ROWS)) + len(cases)
        confidence = 1 - (1 - CONFIDENCE) / max(statements, 1)
        needed = max(_needed(cost, confidence) for cost in costs)
        enough = max(USUAL_TRIALS, needed) if trials is None else whole_number(trials, "trials", 1)
        if set(chosen) & set(ON_ROWS) and enough < needed:
            raise InputError(
                f"{enough} trials are too few for any statement about epsilon = {prices[-1]:g}.",
                hint=f"at least {needed} are needed, and more to have any power",
            )
        return cls(
            *(chosen, named, tuple(prices), enough, workers),
            *(cases, confidence, not attacks, tuple(left_out)),
        )


def _known(what: str, names: Sequence[str], known: Sequence[str] | Mapping[str, Any]) -> tuple[str, ...]:
    for name in names:
        if name not in known:
            raise InputError(f"unknown {what} {name!r}.", hint=f"one of {', '.join(known)}")
    return tuple(dict.fromkeys(names))


def _lacking(
    method: Method, budget: Budget, target: str | None, clustering: bool, keep_missing: Sequence[str]
) -> tuple[str, str] | None:
    """What a project lacks for this method, and how to give it."""
    needy = method.needs_delta or method.attacked.get("method") == "moments"  # as it is attacked: Gaussian noise
    if needy and budget.definition is Definition.PURE:
        return "needs an account with a delta.", "write delta = 1e-6 in [budget] of the project"
    if method.no_missing and keep_missing:
        return f"needs numbers, and {', '.join(keep_missing)} may be missing.", "declare what a missing one becomes"
    if target is None and any(k == "target" and f.is_required() for k, f in method.request.model_fields.items()):
        return "needs the column that the model predicts.", 'write target = "NAME" in [model] of the project'
    if method.takes_clustering and not clustering:
        return "needs a clustering.", "write [clustering] in the project, or let private k-means find one: --kmeans 3"
    return None


def _unattackable(attack: str, budget: Budget, keep_missing: Sequence[str]) -> tuple[str, str] | None:
    if attack == "reconstruction" and keep_missing:
        return f"needs numbers, and {', '.join(keep_missing)} may be missing.", "declare what a missing one becomes"
    if attack == "reconstruction" and budget.definition is Definition.PURE:
        return "is about local explanations: it needs an account with a delta.", "write delta = 1e-6 in [budget]"
    return None


def _cases(methods: Sequence[Method], budget: Budget, neighbours: Neighbours) -> tuple[Case, ...]:
    """The worst cases of these methods under this protection and definition."""
    protection = (neighbours.relation.value, 1 if neighbours.unit is None else UNIT_ROWS)
    cases = [case for method in methods for case in method.load(method.worst_cases)()]
    return tuple(c for c in cases if (c.relation, c.rows) == protection and c.definition is budget.definition)


def _needed(cost: Cost, confidence: float) -> int:
    """Trials without which not even an attack that is always right refutes the claim; see `membership`."""
    error = (1 - confidence) / (2 * (1 + 2 * len(RATES)))
    return max(
        LEAST_RUNS, least_trials(lambda n: refutable(n, error, lambda rate: float(most_true_positives(cost, rate))))
    )


# Runs -----------------------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Captured:
    """A release on a pair of tables, to be drawn many times."""

    attack: str
    explainer: str
    epsilon: float
    cost: Cost
    about: str
    values: tuple[str, str]
    parts: tuple[Part, ...]

    @cached_property
    def loss(self) -> float:
        """What the whole release loses on this pair, exactly, in units of the cost."""
        return sum(part.loss for part in self.parts)

    @cached_property
    def telling(self) -> list[Part]:
        """What is drawn: an attacker who leaves out what hardly tells anything is as good, and much faster."""
        return [part for part in self.parts if not part.silent and part.loss >= LITTLE * self.loss]

    @property
    def gaussian(self) -> bool:
        """Whether all that can tell the tables apart is Gaussian noise on a fine grid, in a zCDP account."""
        return self.cost.definition is Definition.ZCDP and all(_scale(part) >= FINE_SCALE for part in self.telling)

    def scores(self, runs: int) -> Floats:
        """Log likelihood ratios of right to left, a line for each side."""
        total = np.zeros((2, runs))
        for part in self.telling:
            total -= draws(narrowed(part), runs)
        return total


def _scale(part: Part) -> float:
    """The scale of Gaussian noise; 0 for any other law."""
    call = part.left[0]
    return float(call.noise.scale) if isinstance(call, Sum) and part.gaussian else 0.0


def narrowed(part: Part) -> Part:
    """One number in the place of a vector, where only the distance that it moved counts: as easy to tell apart."""
    call = part.left[0]
    if not isinstance(call, Sum) or _scale(part) < CONTINUOUS:
        return part
    moved = round(float(np.linalg.norm(part.change.astype(np.float64))))
    if moved < CONTINUOUS:  # rounding would be felt
        return part
    noise = replace(call.noise, size=1)
    return replace(
        part, left=(replace(call, values=(0,), noise=noise),), right=(replace(call, values=(moved,), noise=noise),)
    )


def captured(subject: Subject, plan: Plan, say: Say) -> tuple[list[Captured], list[str]]:
    """Every release to be attacked at every cost, on its pairs of tables; and what is refused at its cost."""
    kinds = [attack for attack in ON_ROWS if attack in plan.attacks]
    costs = {epsilon: subject.budget.cost(epsilon=epsilon) for epsilon in plan.epsilons}
    works, refused, methods = list[Captured](), dict[str, None](), own_releases.explainers()
    for name in plan.explainers if kinds else ():
        explain = partial(own_releases.release, methods[name], subject)
        try:
            unit, other = _exposed(subject, explain, list(costs.values()))
        except InputError as error:
            refused[f"{name}: {error.message}"] = None
            continue
        for attack in kinds:
            pair = membership_pair(subject, unit, other) if attack == "membership" else hidden_pair(subject, unit)
            say(f"{name}, {attack}: {pair.about}")
            for epsilon, cost in costs.items():
                try:
                    left, right = (subject.opened(table) for table in (pair.left, pair.right))
                    parts = capture(left, right, partial(priced, explain, cost))
                except InputError as error:
                    refused[f"{name} at epsilon {epsilon:g}: {error.message}"] = None
                else:
                    works.append(Captured(attack, name, epsilon, cost, pair.about, pair.values, tuple(parts)))
    return works, list(refused)


def _exposed(subject: Subject, explain: Explain, costs: Sequence[Cost]) -> tuple[int, int | None]:
    """Whom to attack: by the middle cost, or by the highest where that one buys nothing."""
    try:
        return most_exposed(subject, explain, costs[len(costs) // 2])
    except InputError:
        return most_exposed(subject, explain, costs[-1])


def attacked(work: Captured, scores: Floats, plan: Plan, relation: Relation) -> Outcome:
    """The report on a release whose noise was drawn: half of the runs fit the attacker, the others measure."""
    lines = [iter(line.tolist()) for line in scores]
    settings: dict[str, Any] = {"trials": plan.trials, "gaussian": work.gaussian, "confidence": plan.confidence}
    report: Measured
    limit = work.cost
    if work.attack == "membership":
        settings |= {"attack": "threshold", "score": float, "false_positives": RATES}
        report = membership(lambda side: next(lines[side]), 0, 1, claim=work.cost, **settings)
    else:
        tables = dict(zip(work.values, (0, 1), strict=True))
        settings |= {"claim": work.cost, "relation": relation}
        report = table_reconstruction(lambda side: next(lines[side]), tables, **settings)
        limit, _ = claim_of_replacing(work.cost, relation)
    return Outcome(work.explainer, work.epsilon, work.about, work.loss / float(limit.amount), report)


def lower_bounds(plan: Plan, say: Say) -> list[dict[str, Any]]:
    """Lines of `audit_all`. Noise is drawn; a choice is judged by its exact loss: enough draws would take minutes."""
    if not plan.cases:
        return []
    say(f"lower bounds: {len(plan.cases)} parts of releases on made-up worst cases")
    runs = {"trials": BOUND_TRIALS, "most": BOUND_TRIALS, "workers": plan.workers}
    frame = audit_all(plan.cases, **runs, confidence=plan.confidence, choices=False, progress=True)
    return [{str(key): value for key, value in line.items() if _tells(value)} for line in frame.to_dict("records")]


def _tells(value: Any) -> bool:
    return not isinstance(value, float) or math.isfinite(value)


def run(subject: Subject, plan: Plan, *, say: Say = lambda _: None) -> ProjectAudit:
    """All attacks of a plan, one after the other."""
    attacks, left_out = _attacks(subject, plan)
    works, refused = captured(subject, plan, say)
    if works:
        say(f"the noise of {len(works)} captured releases, drawn again {4 * plan.trials} times each")
    outcomes: dict[str, list[Outcome]] = {attack: [] for attack in ON_ROWS}
    drawn = mapped(partial(Captured.scores, runs=2 * plan.trials), works, plan.workers, "drawing the noise again")
    for work, scores in zip(works, drawn, strict=True):
        outcomes[work.attack].append(attacked(work, scores, plan, subject.neighbours.relation))
    explained, skipped = attacked_explanations(subject, plan.epsilons, say) if "reconstruction" in attacks else ([], [])
    return ProjectAudit(
        name=subject.name,
        model=subject.model.name,
        rows=subject.size,
        read=len(subject.frame),
        attacked=min(ATTACKED_ROWS, len(subject.frame)),
        neighbours=subject.neighbours,
        budget=subject.budget,
        epsilons=plan.epsilons,
        trials=plan.trials,
        confidence=CONFIDENCE,
        membership=tuple(outcomes["membership"]),
        table=tuple(outcomes["table"]),
        explained=tuple(explained),
        bounds=tuple(lower_bounds(plan, say)) if "bounds" in attacks else (),
        left_out=(*plan.left_out, *left_out, *refused, *skipped),
    )


def _attacks(subject: Subject, plan: Plan) -> tuple[tuple[str, ...], list[str]]:
    """Those for which there are rows enough, and what is left out."""
    least, few = LEAST_AUXILIARY + LEAST_TESTED, list[str]()
    if len(subject.features) > own_releases.MAX_COLUMNS and set(plan.attacks) & set(ON_ROWS):
        methods = own_releases.explainers()
        narrow = [name for name in plan.explainers if own_releases.takes_columns(methods[name])]
        few.append(f"columns after the first {own_releases.MAX_COLUMNS}, of {', '.join(narrow)}.")
    if "reconstruction" not in plan.attacks or len(subject.frame) >= least:
        return plan.attacks, few
    if not plan.usual:
        raise InputError(f"the attack reconstruction needs at least {least} rows.", hint="leave it out: --attack ...")
    few.append(f"the attack reconstruction needs at least {least} rows.")
    return tuple(attack for attack in plan.attacks if attack != "reconstruction"), few
