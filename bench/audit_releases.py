"""Every release of the product on its worst-case neighbours: the claim, the lower bound, and what a defect would show.

Each part of each release, under each protection and definition, is audited as it is and with noise of 80 % of its scale
(`dpexplain.audit.releases.audit_all`). Trials are doubled until the defect is found with the wanted power. Where a
choice hides its loss in outcomes that hardly ever come up, no draws can show it, and the exact loss is checked alone.
Then three laws at prices from 0.5 to 2, which is where pure releases can be audited.
"""

from __future__ import annotations

from argparse import Namespace
from collections.abc import Callable
from fractions import Fraction
from typing import Any

import numpy as np
import pandas as pd
from rich.progress import track

from dpexplain.audit.capture import Part, draws
from dpexplain.audit.cases import Case
from dpexplain.audit.lower_bound import from_scores, power_on
from dpexplain.audit.releases import audit_all, every_case, releases
from dpexplain.core.budget import Definition, pure

CONFIDENCE, DEFECT = 0.999, 0.2
POWER = 0.97  # aimed at
ENOUGH = 0.95  # asked for
MOST = 640_000
PRICES = (Fraction(1, 2), Fraction(1), Fraction(2))
LAWS = {
    "Laplace noise": ("marginals", "one feature", "counts"),
    "cube noise": ("partial_dependence", "default", "curve"),
    "permute-and-flip": ("rank_aggregation", "best", "top"),
}


def study(options: Namespace) -> pd.DataFrame:
    """A line for each case."""
    settings: dict[str, Any] = {"confidence": CONFIDENCE, "defect": DEFECT, "progress": True}
    if options.quick:
        few = [case for name in ("partial_dependence", "local_sketch") for case in releases()[name]()]
        return audit_all(few, trials=4_000, most=4_000, power=POWER, **settings)
    return audit_all(every_case(), trials=20_000, most=MOST, power=POWER, workers=2, **settings)


def prices(options: Namespace) -> list[dict[str, Any]]:
    """Three laws at several prices, under add-remove: trials for the power, bounds, and the planted defect."""
    work = [(law, price) for law in LAWS for price in (PRICES[-1:] if options.quick else PRICES)]
    return [at_price(law, price, options.quick) for law, price in track(work, description="prices")]


def at_price(law: str, price: Fraction, quick: bool) -> dict[str, Any]:
    part = _pair(*LAWS[law]).captured(pure(price))
    settings: dict[str, Any] = {"claim": part.claim, "confidence": CONFIDENCE, "gaussian": False}
    trials, planted = _enough(part, quick, lambda scores, n: power_on(scores, trials=n, **settings))
    return {
        "law": law,
        "price": float(price),
        "claim": float(part.claim.amount),
        "trials": trials,
        "power": power_on(planted, trials=trials, **settings),
        "bound": from_scores(draws(part, trials), **settings).epsilon,
        "bound with defect": from_scores(planted, **settings).epsilon,
    }


def _pair(release: str, form: str, part: str) -> Case:
    wanted = (form, part, "add-remove", Definition.PURE)
    return next(c for c in releases()[release]() if (c.form, c.part, c.relation, c.definition) == wanted)


def _enough(part: Part, quick: bool, power: Callable[[np.ndarray, int], float]) -> tuple[int, np.ndarray]:
    """Trials that find the planted defect with the power aimed at, and the scores of that many runs with it."""
    trials = 2_000 if quick else 20_000
    planted = draws(part, trials, defect=DEFECT)
    while power(planted, trials) < POWER and 2 * trials <= (trials if quick else MOST):
        planted, trials = np.concatenate([planted, draws(part, trials, defect=DEFECT)], axis=1), 2 * trials
    return trials, planted


def summary(frame: pd.DataFrame) -> dict[str, Any]:
    drawn = frame[frame["bound"].notna()]
    weak = drawn[drawn["power"] < ENOUGH]
    missed = drawn[~drawn["defect caught"].astype(bool)]
    return {
        "releases": int(frame["release"].nunique()),
        "cases": len(frame),
        "exact loss above its price": int((frame["attained"] > 1 + 1e-9).sum()),
        "audited by draws": len(drawn),
        "lower bounds above their claim": int(drawn["refuted"].sum()),
        "planted defects caught": int(drawn["defect caught"].sum()),
        "planted defects missed": [_name(line) for line in missed.to_dict("records")],
        "power below 0.95": [_name(line) for line in weak.to_dict("records")],
        "smallest power": float(drawn["power"].min()),
        "trials, from and to": [int(drawn["trials"].min()), int(drawn["trials"].max())],
        "bound / claim, median": round(float((drawn["bound"] / drawn["claim"]).median()), 3),
        "by release": {
            str(name): {
                "cases": len(lines),
                "by draws": int(lines["bound"].notna().sum()),
                "largest bound / claim": _share(lines["bound"] / lines["claim"]),
                "smallest bound / claim with defect": _least(lines["bound with defect"] / lines["claim"]),
                "smallest power": _least(lines["power"]),
            }
            for name, lines in frame.groupby("release", sort=False)
        },
    }


def _share(values: pd.Series) -> float | None:
    return None if values.isna().all() else round(float(values.max()), 3)


def _least(values: pd.Series) -> float | None:
    return None if values.isna().all() else round(float(values.min()), 4)


def _name(line: dict[str, Any]) -> str:
    unit = "" if line["unit rows"] == 1 else f", units of {line['unit rows']}"
    where = f"{line['relation']}{unit}, {line['definition']}"
    return f"{line['release']} ({line['form']}), {line['part']}, {where}: power {line['power']:.3f}"


def lists(frame: pd.DataFrame) -> list[dict[str, Any]]:
    """Plain numbers and texts for a file."""
    return [
        {key: value for key, value in line.items() if not (isinstance(value, float) and np.isnan(value))}
        for line in frame.to_dict("records")
    ]
