"""Every release of the product, audited on worst-case neighbouring tables.

`RELEASES` names the modules that release something; a test holds it against the package, so that none is forgotten.
`audit_release` audits one case, `audit_all` every one of them: the exact loss of each law on its pair (`Part.loss`),
and what draws of its noise prove. The tables are made up: nothing here is about anybody's rows.
"""

from __future__ import annotations

import math
import multiprocessing
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import ProcessPoolExecutor
from contextlib import nullcontext
from dataclasses import dataclass
from functools import cache, partial
from typing import TYPE_CHECKING, Any

import numpy as np

from dpexplain.audit import worst_cases
from dpexplain.audit.capture import Part, draws
from dpexplain.audit.cases import Case
from dpexplain.audit.lower_bound import LowerBound, Runs, checked_workers, from_scores, power_on, shared_out
from dpexplain.engine import track
from dpexplain.errors import InputError

if TYPE_CHECKING:
    import pandas as pd

NOTE = "Of made-up tables: nothing here is about anybody's rows."

RELEASES: dict[str, Callable[[], list[Case]]] = {
    "partial_dependence": worst_cases.of_partial_dependence,
    "accumulated_effects": worst_cases.of_accumulated_effects,
    "generic_plot": worst_cases.of_generic_plot,
    "permutation_importance": worst_cases.of_permutation_importance,
    "rank_aggregation": worst_cases.of_rank_aggregation,
    "interaction_ranking": worst_cases.of_interaction_ranking,
    "quantiles": worst_cases.of_quantiles,
    "marginals": worst_cases.of_marginals,
    "local_explanation": worst_cases.of_local_explanation,
    "local_sketch": worst_cases.of_local_sketch,
    "adaptive": worst_cases.of_adaptive,
    "influence": worst_cases.of_influence,
    "persons": worst_cases.of_persons,
    "transparency": worst_cases.of_transparency,
    "clusters": worst_cases.of_clusters,
    "kmeans": worst_cases.of_kmeans,
}


@cache
def every_case() -> tuple[Case, ...]:
    """Of every release there is."""
    return tuple(case for make in RELEASES.values() for case in make())


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
    scores, _ = shared_out(
        partial(_drawn, part, defect), trials, workers=workers, label=str(case) if progress else None
    )
    return from_scores(scores, claim=part.claim, confidence=confidence, gaussian=part.gaussian)


def _drawn(part: Part, defect: float, trials: int) -> Runs:
    return draws(part, trials, defect=defect), []


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
    workers: int = 1,
    progress: bool = False,
) -> pd.DataFrame:
    """Every case, its exact loss, and what draws prove about it; a line for each.

    Parts whose scores have the same law (`Part.signature`) are drawn once for all of them. Where `trials` on each side
    have less than the wanted power against the planted defect, they are doubled, up to `most`.
    """
    import pandas as pd

    captured = [(case, case.captured()) for case in (every_case() if cases is None else cases)]
    audible = {part.signature: part for case, part in captured if case.drawn and not part.silent}
    work = partial(_audited, trials=trials, most=most, wanted=power, confidence=confidence, defect=defect)
    found: dict[Any, Audited] = {}
    with track("audit of every release", len(audible)) if progress else nullcontext(lambda _: None) as advance:
        for signature, audited in zip(audible, _mapped(work, list(audible.values()), workers), strict=True):
            found[signature] = audited
            advance(1)
    frame = pd.DataFrame(
        [_line(case, part, found.get(part.signature) if case.drawn else None) for case, part in captured]
    )
    frame.attrs["note"] = NOTE
    return frame


def _mapped(work: Callable[[Part], Audited], parts: list[Part], workers: int) -> Iterator[Audited]:
    if checked_workers(workers) == 1:
        yield from map(work, parts)
        return
    with ProcessPoolExecutor(workers, mp_context=multiprocessing.get_context("spawn")) as pool:
        yield from pool.map(work, parts)


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
