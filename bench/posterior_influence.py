"""Disparity and importance: sharpened by synthetic rows, beside what is released, and beside MST rows.

    python -m bench posterior_influence [--quick] [--tables adult,german]

Tables, accounts and neighbours are those of `bench posterior`, epsilon 0.1 and 1, two
of the models, three repetitions of each cell
(a table, a model, an account, an epsilon). One group for each table. Of tables with more than 4,000 rows so many are
drawn first, the same ones each time.

    disparity   what each column adds to the difference between the group and all others, in the rate of positive
                outcomes (bike: in the mean count). Error: root mean squared, against the exact influence with values of
                the exact histograms in the cells of the release.
    importance  increase of the squared error. Concordance: the share of pairs of columns that stand in the order of
                plain permutation importance, which three permutations of each column say.

    now         what is released, as it is (`raw`)
    zero        saying zero for every column
    mst         the same figures of MST rows for the whole price, target included, at most 4,000
    ours        values of the product, with no stand-in handed over. By these results importances are no longer
                sharpened then, and the interval of a ratio of rates comes from those of the rates: what is committed
                has importances sharpened by rows drawn evenly from the domain, and ratios from joint draws
    bought      a quarter of the price buys a stand-in (of rho, in a zCDP account), the rest the release
    marginals   (importance) a quarter of the price buys marginals, from which other values are then drawn

Coverage is that of 95 % intervals: of influences about values of the released histograms, as they promise; of
importances about the plain one. Sums of influences are exact and then get the noise of the product: every row meets
every value, so that no chance is in them. Rows are dealt to groups once for each cell.
"""

from __future__ import annotations

import itertools
import time
import warnings
from argparse import Namespace
from collections import defaultdict
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from fractions import Fraction
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

import dpexplain as dpx
from bench import report, synthetic
from bench.fast_models import agrees, copied
from bench.importance import concordance
from bench.performance_tables import TARGET
from bench.posterior_baselines import DELTAS
from bench.posterior_tables import TABLES, Case, SummedTable, key_of
from dpexplain.data.groups import Group
from dpexplain.methods.influence.spec import drawn_statistic

Floats = NDArray[np.float64]
Figures = dict[str, list[float]]

EPSILONS, REPETITIONS, SHARE = (0.1, 1.0), 3, Fraction(1, 4)
KINDS = ("boosting", "logistic")
MOST_ROWS, SYNTHETIC = 4_000, 4_000
GROUPS: dict[str, Any] = {
    "adult": "sex", "bike": "workingday", "framingham": "sex", "german": "sex", "diabetes": "race",
}  # fmt: skip
ORDER = ["german", "framingham", "bike", "adult", "diabetes"]
ALL_VALUES = 1_000  # samples: every feature is gone through point by point


# Tables with a target -------------------------------------------------------------------------------------------------


@dataclass(frozen=True, eq=False)
class Aimed(Case):
    """A case whose rows have their target too."""

    @classmethod
    def of(cls, key: str, data: Path) -> Aimed:
        table = TABLES[key](data)
        frame = table.frame
        if len(frame) > MOST_ROWS:
            frame = frame.iloc[np.sort(np.random.default_rng(0).permutation(len(frame))[:MOST_ROWS])]
        frame = frame[[*table.features, TARGET]].astype(np.float64).reset_index(drop=True)
        output = (0.0, 1000.0) if key == "bike" else (0.0, 1.0)
        fast = {}
        for kind in KINDS:
            estimator = table.estimator(kind)
            fast[kind] = copied(estimator, table.features)
            if not agrees(fast[kind], estimator, frame[table.features]) / (output[1] - output[0]) < 1e-6:
                raise RuntimeError(f"the fast copy of {key}, {kind} is off")
        target = dpx.Numeric(0, 1000, integer=True) if key == "bike" else dpx.Categorical([0, 1])
        columns = {name: table.domain[name] for name in table.features}
        return cls(key, frame, dpx.Domain({**columns, TARGET: target}), output, fast)

    @property
    def features(self) -> list[str]:
        return [name for name in self.domain if name != TARGET]

    @cached_property
    def rows(self) -> Any:
        from dpexplain.data.encode import encode
        from dpexplain.data.rows import Rows
        from dpexplain.data.sources import open_source

        ((size, raw),) = open_source(self.frame).batches(list(self.domain), 2**30)
        return Rows(self.domain, {name: encode(self.domain[name], raw[name]) for name in self.domain}, size)

    @cached_property
    def group(self) -> dict[str, Any]:
        """The most frequent category of the column."""
        name = GROUPS[self.key]
        column = self.domain[name]
        return {name: column.categories[int(np.bincount(self.rows[name]).argmax())]}

    @cached_property
    def inside(self) -> NDArray[np.bool_]:
        """[block, row]."""
        member = Group.of(self.group, self.domain).member(self.rows)
        return np.stack([member, ~member])

    def outcomes(self, scores: Floats) -> Floats:
        """In parts of the range: classes, or (bike) the score."""
        low, high = self.output
        return np.clip((scores - low) / (high - low), 0, 1) if self.key == "bike" else (scores >= 0.5).astype(float)

    def means_at(self, kind: str, feature: str, points: Any) -> Floats:
        """[block, point]: mean outcomes with a feature at each of some points."""
        known = self.__dict__.setdefault("_means_at", {})
        place = kind, feature, np.asarray(points, dtype=np.float64).tobytes()
        if place not in known:
            matrix, at = self.matrix(self.rows), np.asarray(points, dtype=np.float64)
            lines = self.outcomes(self.fast[kind].lines(matrix, self.features.index(feature), at))
            known[place] = np.stack([lines[:, held].mean(axis=1) for held in self.inside])
        return known[place]

    def own_means(self, kind: str) -> Floats:
        """Mean outcomes as the rows are, of each block."""
        said = self.outcomes(self.model(kind).own._own_answers(self.model(kind).own.inputs(self.rows)))
        return np.array([said[held].mean() for held in self.inside])

    def disparity(self, kind: str, references: Mapping[str, Any], weights: Mapping[str, Floats]) -> Floats:
        """Of each feature, with values of these histograms."""
        before, found = self.own_means(kind), []
        for name in self.features:
            share = weights[name] / weights[name].sum()
            fall = before - self.means_at(kind, name, references[name].points) @ share
            found.append(fall[0] - fall[1])
        return np.array(found)

    def private(self, delta: float | None, name: str = "bench") -> AimedTable:
        budget = dpx.Budget(10**6) if delta is None else dpx.Budget(10**6, delta)
        table = AimedTable(
            self.frame, domain=self.domain, budget=budget, relation="replace-one", ledger="sqlite:///:memory:",
            name=name,
        )  # fmt: skip
        table.case = self
        return table


class AimedTable(SummedTable):
    """A table that adds up influences from mean outcomes at points, and knows what its groups gave before."""

    case: Aimed

    def sum_rows(self, gate: Any, kernel: Any, columns: Any, **options: Any) -> Any:
        if getattr(kernel, "func", None) is not drawn_statistic:
            return super().sum_rows(gate, kernel, columns, **options)
        self._reading(gate, columns, 256)  # refuses where the gate is shut
        spec, known = kernel.keywords["spec"], kernel.keywords["known"]
        kind, case = kernel.keywords["asker"].predictor.name, self.case
        before, parts = case.own_means(kind), []
        for block, held in enumerate(case.inside[: spec.blocks]):
            n, after = int(held.sum()), []
            for name in spec.names:
                weights = known[name].weights / known[name].weights.sum()
                after.append(float(case.means_at(kind, name, known[name].points)[block] @ weights))
            lines = [spec.base_weight * (before[block] - 0.5), *(0.5 - mean for mean in after)]
            parts.append(np.rint(np.array(lines) * n * spec.K))
        counts = [spec.count_weight * int(held.sum()) for held in case.inside[: spec.counts]]
        return np.concatenate([*parts, counts]).astype(np.int64)

    def sum_groups(self, gate: Any, kernel: Any, columns: Any, groups: int, **options: Any) -> Any:
        known, key = self.case.__dict__.setdefault("_groups", {}), (key_of(kernel), groups)
        if key[0] is None or key not in known:
            known[key] = super().sum_groups(gate, kernel, columns, groups, **options)
        return np.array(known[key])


# Exact figures --------------------------------------------------------------------------------------------------------


def plain_importance(fast: Any, matrix: Floats, target: Floats, output: tuple[float, float], times: int = 3) -> Floats:
    """The increase of the mean squared error, in parts of the squared range."""
    draw, (low, high) = np.random.default_rng(0), output

    def loss(rows: Floats) -> float:
        return float(np.mean(((np.clip(fast(rows), low, high) - target) / (high - low)) ** 2))

    base, found = loss(matrix), np.zeros(matrix.shape[1])
    for j, _ in itertools.product(range(matrix.shape[1]), range(times)):
        moved = matrix.copy()
        moved[:, j] = matrix[draw.permutation(len(matrix)), j]
        found[j] += (loss(moved) - base) / times
    return found


def plain_disparity(case: Aimed, kind: str, matrix: Floats, inside: NDArray[np.bool_], times: int = 2) -> Floats:
    """On synthetic rows: values of other rows."""
    draw, fast = np.random.default_rng(0), case.fast[kind]
    before, found = case.outcomes(fast(matrix)), np.zeros(matrix.shape[1])
    if not inside.any() or inside.all():
        return found
    for j, _ in itertools.product(range(matrix.shape[1]), range(times)):
        moved = matrix.copy()
        moved[:, j] = matrix[draw.permutation(len(matrix)), j]
        fall = before - case.outcomes(fast(moved))
        found[j] += (fall[inside].mean() - fall[~inside].mean()) / times
    return found


def exact_weights(case: Aimed, references: Mapping[str, Any]) -> dict[str, Floats]:
    """Of the points of each feature: the exact share of its cell, evenly."""
    found = {}
    for name, reference in references.items():
        rows = np.bincount(reference.partition.place(case.rows[name]), minlength=reference.partition.size)
        inside = np.bincount(reference.cells, minlength=reference.partition.size)
        found[name] = (rows / np.maximum(inside, 1))[reference.cells]
    return found


# Cells ----------------------------------------------------------------------------------------------------------------


def prices(table: Any, epsilon: float, share: Fraction) -> tuple[dict[str, Any], dict[str, Any]]:
    amount = table.cost(epsilon=epsilon).amount
    name = "epsilon" if table.budget.delta is None else "rho"
    first = amount * share
    return {name: first}, {name: amount - first}


def disparities(case: Aimed, kind: str, account: str, epsilon: float, times: int) -> Figures:
    figures: Figures = defaultdict(list)
    model = case.model(kind)
    ask: dict[str, Any] = {"quantity": "disparity", "group": case.group, "samples": ALL_VALUES}
    ask["outcome"] = "score" if case.key == "bike" else "class"
    for _ in range(times):
        table = case.private(DELTAS[account])
        found = dpx.influence(table, model, epsilon=epsilon, **ask)
        known = {name: found.marginals.histogram(name).reference(case.domain) for name in case.features}
        truth = case.disparity(kind, known, exact_weights(case, known))
        drawn = case.disparity(kind, known, {name: one.weights.astype(float) for name, one in known.items()})
        _judge(figures, "ours", found, truth, drawn, case.width)
        figures["now"].append(_squares(found.raw / case.width, truth))
        figures["zero"].append(_squares(np.zeros(len(truth)), truth))
        first, rest = prices(table, epsilon, SHARE)
        bought = dpx.stand_in(table, features=case.features, **first)
        more = dpx.influence(table, model, stand_in=bought, **rest, **ask)
        again = {name: more.marginals.histogram(name).reference(case.domain) for name in case.features}
        drawn = case.disparity(kind, again, {name: one.weights.astype(float) for name, one in again.items()})
        _judge(figures, "bought", more, truth, drawn, case.width)
        said = _rates_of(case, kind)
        for name, rates in (("likely", found.disparity), ("proven", found.released_disparity)):
            figures[f"difference {name}"].append((rates.difference / case.width - said[0] + said[1]) ** 2)
            ends = rates.ratio_interval()
            if ends is not None:
                figures[f"ratio held, {name}"].append(float(ends[0] <= said[0] / max(said[1], 1e-12) <= ends[1]))
    return dict(figures)


def _rates_of(case: Aimed, kind: str) -> Floats:
    return case.own_means(kind)


def _squares(values: Any, truth: Floats) -> float:
    return float(np.mean((np.asarray(values) - truth) ** 2))


def _judge(figures: Figures, name: str, found: Any, truth: Floats, aim: Floats, width: float) -> None:
    """Values against the truth, intervals against what they are about; both in parts of the range."""
    figures[name].append(_squares(found.values / width, truth))
    for kind, ends in (("posterior", found.interval()), ("proven", found.proven_interval())):
        low, high = (np.asarray(end) / width for end in ends)
        figures[f"{name} {kind}"].append(float(np.mean((low - 1e-6 <= aim) & (aim <= high + 1e-6))))
        figures[f"{name} {kind} width"].append(float(np.mean(high - low)))
    figures[f"{name} contradicts"].append(float(found.contradicts))


def importances(case: Aimed, kind: str, account: str, epsilon: float, times: int, truth: Floats) -> Figures:
    figures: Figures = defaultdict(list)
    model, square = case.model(kind), case.width**2
    label = {} if case.key == "bike" else {"positive": 1}

    def judge(name: str, found: Any) -> None:
        place = [case.features.index(item) for item in found.items]
        _judge(figures, name, found, truth[place], truth[place], square)
        figures[f"{name} concordance"].append(concordance(found.scores, truth))
        figures[f"{name} raw concordance"].append(concordance(found.released_scores, truth))
        figures[f"{name} raw"].append(_squares(found.released_scores / square, truth))

    for _ in range(times):
        table = case.private(DELTAS[account])
        judge("ours", dpx.permutation_importance(table, model, TARGET, epsilon=epsilon, **label))
        first, rest = prices(table, epsilon, SHARE)
        bought = dpx.stand_in(table, **first)
        judge("bought", dpx.permutation_importance(table, model, TARGET, stand_in=bought, **rest, **label))
        figures["zero"].append(_squares(np.zeros(len(truth)), truth))
    return dict(figures)


def of_mst(case: Aimed, kinds: Sequence[str], account: str, epsilon: float, times: int) -> dict[str, Any]:
    """For each model the figures of MST rows: disparities, and importances."""
    coding = synthetic.Coding.of(case.domain, synthetic.cells_at(epsilon))
    codes = coding.codes(case.frame)
    found: dict[str, Any] = {kind: {"disparity": [], "importance": []} for kind in kinds}
    for seed in range(times):
        drawn = synthetic.mst_rows(
            codes, coding.sizes, epsilon, DELTAS[account], seed, rows=min(SYNTHETIC, max(case.size, 3_000))
        )
        frame = coding.frame(drawn, seed)
        matrix = frame[case.features].to_numpy(dtype=np.float64)
        ((name, wanted),) = case.group.items()
        inside = frame[name].to_numpy() == wanted
        for kind in kinds:
            found[kind]["disparity"].append(plain_disparity(case, kind, matrix, inside))
            target = frame[TARGET].to_numpy(dtype=np.float64)
            found[kind]["importance"].append(plain_importance(case.fast[kind], matrix, target, case.output, 1))
    return found


def cells(case: Aimed, kinds: Sequence[str], epsilons: Sequence[float], times: int) -> list[dict[str, Any]]:
    made = []
    truths = {
        kind: plain_importance(
            case.fast[kind], case.matrix(case.rows), case.frame[TARGET].to_numpy(dtype=np.float64), case.output
        )
        for kind in kinds
    }
    for account, epsilon in itertools.product(DELTAS, epsilons):
        baseline = of_mst(case, kinds, account, epsilon, times)
        for kind in kinds:
            start, where = time.perf_counter(), {"table": case.key, "rows": case.size, "model": kind}
            where |= {"account": account, "epsilon": epsilon}
            first = disparities(case, kind, account, epsilon, times)
            known = _references(case, account)
            truth = case.disparity(kind, known, exact_weights(case, known))
            first["mst"] = [_squares(values, truth) for values in baseline[kind]["disparity"]]
            second = importances(case, kind, account, epsilon, times, truths[kind])
            second["mst"] = [_squares(values, truths[kind]) for values in baseline[kind]["importance"]]
            second["mst concordance"] = [concordance(v, truths[kind]) for v in baseline[kind]["importance"]]
            made.append({**where, "disparity": first, "importance": second})
            print(*where.values(), f"{time.perf_counter() - start:.1f} s", _line(made[-1]), flush=True)
    case.__dict__.pop("_means_at", None)
    case.__dict__.pop("_groups", None)
    case.forget()
    return made


def _references(case: Aimed, account: str) -> dict[str, Any]:
    """Fine cells, for what MST rows are compared with."""
    table = case.private(DELTAS[account])
    found = dpx.marginals(table, case.features, cells=50, epsilon=1000)
    return {name: found.histogram(name).reference(case.domain) for name in case.features}


# Summary --------------------------------------------------------------------------------------------------------------


def root(squares: Sequence[float]) -> float:
    return float(np.sqrt(np.mean(squares)))


def geometric(values: Sequence[float]) -> float:
    return float(np.exp(np.mean(np.log(np.maximum(values, 1e-12)))))


def _line(cell: Mapping[str, Any]) -> str:
    d, i = cell["disparity"], cell["importance"]
    errors = " ".join(f"{name} {100 * root(d[name]):.3f}" for name in ("ours", "bought", "now", "mst", "zero"))
    order = " ".join(
        f"{name} {np.mean(i[f'{name} concordance']):.3f}"
        for name in ("ours", "ours raw", "bought", "bought raw", "mst")
    )
    held = f"held {np.mean(d['ours posterior']):.3f}, {np.mean(i['ours posterior']):.3f}"
    held += f" bought {np.mean(d['bought posterior']):.3f}, {np.mean(i['bought posterior']):.3f}"
    return f"| disparity x 100: {errors} | importance: {order} | {held}"


def summary(made: Sequence[Mapping[str, Any]]) -> dict[str, Any]:
    def of(keys: Sequence[str], value: Callable[[Any], float]) -> dict[str, float]:
        places = dict.fromkeys(tuple(cell[key] for key in keys) for cell in made)
        return {
            ", ".join(map(str, p)): round(value([c for c in made if tuple(c[key] for key in keys) == p]), 4)
            for p in places
        }

    def ratio(form: str) -> Callable[[Any], float]:
        return lambda some: geometric(
            [root(c["disparity"][form]) / min(root(c["disparity"][b]) for b in ("now", "mst")) for c in some]
        )

    def mean(part: str, name: str) -> Callable[[Any], float]:
        return lambda some: float(np.mean([np.mean(c[part][name]) for c in some]))

    forms = ("ours", "bought")
    by = ("table",), ("account", "epsilon")
    told: dict[str, Any] = {"disparity": {}, "importance": {}}
    for form in forms:
        d = [c["disparity"] for c in made]
        told["disparity"][form] = {
            "error / the better of (now, MST rows), geometric mean": round(ratio(form)(made), 4),
            "error / now, geometric mean": round(geometric([root(c[form]) / root(c["now"]) for c in d]), 4),
            "cells above 1": sum(ratio(form)([c]) > 1 for c in made),
            "cells above saying zero": [
                _name(c) for c in made if root(c["disparity"][form]) > root(c["disparity"]["zero"])
            ],
            **{" and ".join(keys): of(keys, ratio(form)) for keys in by},
            "coverage": _coverage(made, "disparity", f"{form} posterior"),
            "width, posterior over proven": round(
                geometric([np.mean(c[f"{form} posterior width"]) / np.mean(c[f"{form} proven width"]) for c in d]), 4
            ),
        }
        i = "importance"
        told[i][form] = {
            "concordance": round(mean(i, f"{form} concordance")(made), 4),
            "concordance of what is released": round(mean(i, f"{form} raw concordance")(made), 4),
            "error / released today, geometric mean": round(
                geometric([root(c[i][form]) / root(c[i]["ours raw"]) for c in made]), 4
            ),
            "cells below today": [
                f"{_name(c)}: {np.mean(c[i][f'{form} concordance']):.3f} < {np.mean(c[i]['ours raw concordance']):.3f}"
                for c in made
                if np.mean(c[i][f"{form} concordance"]) < np.mean(c[i]["ours raw concordance"])
            ],
            **{" and ".join(keys): of(keys, mean(i, f"{form} concordance")) for keys in by},
            "today, by account and epsilon": of(by[1], mean(i, "ours raw concordance")),
            "MST rows, by account and epsilon": of(by[1], mean(i, "mst concordance")),
            "coverage": _coverage(made, i, f"{form} posterior"),
            "coverage of proven intervals": _coverage(made, i, f"{form} proven"),
            "width, posterior over proven": round(
                geometric(
                    [np.mean(c[i][f"{form} posterior width"]) / np.mean(c[i][f"{form} proven width"]) for c in made]
                ),
                4,
            ),
        }
    held = {k: [v for c in made for v in c["disparity"].get(f"ratio held, {k}", [])] for k in ("likely", "proven")}
    told["ratio of rates, coverage"] = {k: round(float(np.mean(v)), 4) for k, v in held.items() if v}
    return told


def _name(cell: Mapping[str, Any]) -> str:
    return f"{cell['table']}, {cell['model']}, {cell['account']}, epsilon {cell['epsilon']:g}"


def _coverage(made: Sequence[Mapping[str, Any]], part: str, name: str) -> dict[str, Any]:
    each = [float(np.mean(c[part][name])) for c in made]
    return {
        "mean": round(float(np.mean(each)), 4),
        "lowest cell": round(min(each), 4),
        "cells below 0.93": [f"{_name(c)}: {held:.3f}" for c, held in zip(made, each, strict=True) if held < 0.93],
        "cells above 0.99": sum(held > 0.99 for held in each),
    }


def figure(made: Sequence[Mapping[str, Any]]) -> Any:
    """For each cell the error of a disparity over the better of both, and the concordance beside today's."""
    from matplotlib.figure import Figure

    drawn = Figure(figsize=(9, 4.2), layout="constrained")
    left, right = drawn.subplots(1, 2)
    for form, colour in (("ours", "C0"), ("bought", "C1")):
        ratios = [root(c["disparity"][form]) / min(root(c["disparity"][b]) for b in ("now", "mst")) for c in made]
        left.plot(np.sort(ratios), np.linspace(0, 1, len(made)), color=colour, label=form)
        before = [np.mean(c["importance"]["ours raw concordance"]) for c in made]
        right.plot(before, [np.mean(c["importance"][f"{form} concordance"]) for c in made], "o", color=colour, ms=4)
    left.axvline(0.8, color="0.6", lw=0.8)
    left.set(xscale="log", xlabel="disparity: error / the better of both", ylabel="share of the cells")
    left.legend(frameon=False)
    right.plot([0.4, 1], [0.4, 1], color="0.6", lw=0.8)
    right.set(xlabel="concordance of what is released", ylabel="concordance of what is shown")
    return drawn


def run(options: Namespace) -> None:
    warnings.simplefilter("ignore")
    chosen = getattr(options, "tables", None)
    names = chosen.split(",") if chosen else ORDER[:2] if options.quick else ORDER
    kinds = KINDS[:1] if options.quick else KINDS
    made = []
    for key in names:
        case = Aimed.of(key, options.data)
        made += cells(case, kinds, EPSILONS, 2 if options.quick else REPETITIONS)
        if not chosen:  # after each table: what is measured is kept
            content = {"share of the price for a stand-in": float(SHARE), "summary": summary(made), "cells": made}
            report.write("posterior-influence", options, content, figure(made))
