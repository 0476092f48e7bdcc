"""Every release of the product, audited on worst-case neighbouring tables.

A registered method without worst cases stops the audit, so that none is forgotten. `audit_release` audits one case,
`audit_all` every one of them: the exact loss of each law on its pair (`Part.loss`), and what draws of its noise prove.
The tables are made up: nothing here is about anybody's rows.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING, Any

import numpy as np

from dpexplain.audit.calls import Sum
from dpexplain.audit.capture import Part, draws
from dpexplain.audit.cases import Case
from dpexplain.audit.lower_bound import LowerBound, from_scores, power_on
from dpexplain.audit.runs import mapped, shared_out, whole_number
from dpexplain.errors import InputError
from dpexplain.methods.registry import methods

if TYPE_CHECKING:
    import pandas as pd

NOTE = "Of made-up tables: nothing here is about anybody's rows."


def releases() -> dict[str, Callable[[], list[Case]]]:
    """What makes the worst cases of each registered method, by the name of its folder."""
    return {method.home.rpartition(".")[2]: method.load(method.worst_cases) for method in methods().values()}


def every_case() -> tuple[Case, ...]:
    """The worst cases of every method."""
    return tuple(case for make in releases().values() for case in make())


def audit_release(
    case: Case,
    *,
    trials: int = 20_000,
    confidence: float = 0.999,
    workers: int = 1,
    progress: bool = False,
    defect: float = 0.0,
) -> LowerBound:
    """A lower bound from fresh draws of a case, held against the exact loss of its law on this pair (`Part.claim`).

    defect   0.2 plants noise of 80 % of the right scale, to see that the audit can win
    """
    part = case.captured()
    if part.silent or not case.drawn:
        raise InputError(f"no draws can tell the tables of this case apart: {case}.", hint="look at its exact loss")
    drawn = shared_out(partial(draws, part, defect=defect), trials, workers, str(case) if progress else None)
    scores = np.concatenate(drawn, axis=1)
    return from_scores(scores, claim=part.claim, confidence=confidence, gaussian=part.gaussian)


@dataclass(frozen=True)
class Audited:
    """What the draws of one part said, as it is and with the planted defect."""

    sound: LowerBound
    planted: LowerBound
    power: float  # of the audit against this defect, on this pair


def audit_all(
    cases: Iterable[Case] | None = None,
    *,
    trials: int = 20_000,
    most: int = 320_000,
    power: float = 0.95,
    confidence: float = 0.999,
    defect: float = 0.2,
    choices: bool = True,
    workers: int = 1,
    progress: bool = False,
) -> pd.DataFrame:
    """Every case, its exact loss, and what draws prove about it; a line for each.

    Parts whose scores have the same law (`Part.signature`) are drawn once for all of them. Where `trials` on each side
    have less than the wanted power against the planted defect, they are doubled, up to `most`. Without `choices`, only
    noise is drawn.
    """
    import pandas as pd

    whole_number(workers, "workers", 1)
    captured = [(case, case.captured()) for case in (every_case() if cases is None else cases)]
    drawn = [case.drawn and (choices or isinstance(part.left[0], Sum)) for case, part in captured]
    audible = {
        part.signature: part for (_, part), heard in zip(captured, drawn, strict=True) if heard and not part.silent
    }
    work = partial(_audited, trials=trials, most=most, wanted=power, confidence=confidence, defect=defect)
    done = mapped(work, list(audible.values()), workers, "audit of every release" if progress else None)
    by_signature = dict(zip(audible, done, strict=True))
    frame = pd.DataFrame(
        [
            _line(case, part, by_signature.get(part.signature) if heard else None)
            for (case, part), heard in zip(captured, drawn, strict=True)
        ]
    )
    frame.attrs["note"] = NOTE
    return frame


def _audited(part: Part, *, trials: int, most: int, wanted: float, confidence: float, defect: float) -> Audited:
    settings: dict[str, Any] = {"claim": part.claim, "confidence": confidence, "gaussian": part.gaussian}
    planted = draws(part, trials, defect=defect)
    while (reached := power_on(planted, trials=trials, **settings)) < wanted and 2 * trials <= most:
        planted, trials = np.concatenate([planted, draws(part, trials, defect=defect)], axis=1), 2 * trials
    return Audited(from_scores(draws(part, trials), **settings), from_scores(planted, **settings), reached)


def _line(case: Case, part: Part, audited: Audited | None) -> dict[str, Any]:
    line = {
        "release": case.release,
        "form": case.form,
        "part": case.part,
        "relation": case.relation,
        "unit rows": case.rows,
        "definition": case.definition.value,
        "law": part.law,
        "price": float(part.cost.amount),
        "exact loss": part.loss,
        "attained": part.attained,
    }
    if audited is None:
        return line
    metric = "mu" if part.gaussian else "epsilon"
    claimed = math.sqrt(2 * float(part.claim.amount)) if part.gaussian else float(part.claim.amount)
    return line | {
        "measure": metric,
        "claim": claimed,
        "bound": getattr(audited.sound, metric),
        "refuted": audited.sound.violates,
        "bound with defect": getattr(audited.planted, metric),
        "defect caught": audited.planted.violates,
        "power": audited.power,
        "trials": audited.sound.trials,
    }
