"""Generic designs without a figure so far: rankings by interaction, SHAP dependence, and resolutions of generic plots.

    interactions  all pairs and pairs with one feature (`against=`) of Bike Sharing, by epsilon: concordance with
                  Friedman's H over 250 rows, beside that of two such samples with each other, and the share of the
                  five strongest that are among the five first. epsilon 100 shows what is left without noise: the
                  difference between small parts and many rows
    shap          dependence plots of shap.TreeExplainer by `generic_plot`: the root mean squared error, in parts of the
                  range of the exact plot, for ours and for the published design (200 parts, 20 points, Laplace noise)
    resolution    10, 20, 50 and 100 points of generic plots ("pdp", "ale"), ours and the published design: mean
                  integrated squared error, as in `effects`; Heart Disease

SHAP dependence is measured on both. Pure account, replace-one. The first two explain boosted trees. Rows are dealt to
parts once for each number of parts, so that repetitions differ in their noise alone.
"""

from __future__ import annotations

from argparse import Namespace
from itertools import combinations
from typing import Any

import numpy as np
import pandas as pd
from matplotlib.figure import Figure
from rich.progress import track
from sklearn.ensemble import HistGradientBoostingRegressor

import dpexplain as dpx
from bench import effects, report
from bench.cached import NEIGHBOURS, BenchAccount, DealtOnce
from bench.importance import concordance
from bench.tables import CASES, Case
from dpexplain.core.release import Door
from dpexplain.data.dealing import Dealt
from dpexplain.data.encode import encode
from dpexplain.data.rows import Rows
from dpexplain.data.sources import open_source
from dpexplain.methods.generic_plot.release import on_grid
from dpexplain.methods.plain import Levels, pairwise_interaction

EPSILONS = (0.5, 3.0, 100.0)
PRICES = (1.0, 10.0)
REPETITIONS, POINTS, TOP = 4, 250, 5
AGAINST = {"bike": "hr", "heart": "age"}
SHOWN = {"bike": ("hr", "atemp"), "heart": ("age",)}
RESOLUTION, FEW = {"heart": ("age",)}, (1.0, 10.0)
PAPER: dict[str, Any] = {"method": "paper"}


class Trees:
    """One table with boosted trees that were fitted to it."""

    def __init__(self, case: Case) -> None:
        self.case, self.features = case, list(case.domain)
        self.trees = HistGradientBoostingRegressor(max_iter=40, max_depth=4, random_state=0)
        self.trees.fit(case.frame, case.target)
        low, high = case.output
        self.model = dpx.Model(self.trees, output=(low, high), name="trees", version="bench")
        budget = BenchAccount.budget
        self.table = dpx.PrivateTable(
            case.frame, domain=case.domain, budget=budget, relation="replace-one", ledger="sqlite:///:memory:",
            name="bench",
        )  # fmt: skip
        self.table.door = Door(BenchAccount(budget, NEIGHBOURS))
        self.table.sum_groups = DealtOnce(self.table)  # type: ignore[method-assign]

    def rows(self, seed: int) -> Dealt:
        """Rows in one part, in a drawn order."""
        frame = self.case.frame.sample(POINTS, random_state=seed)
        ((size, raw),) = open_source(frame).batches(self.features, 2**30)
        columns = {name: encode(column, raw[name]) for name, column in self.case.domain.items()}
        return Dealt.of(Rows(self.case.domain, columns, size), np.zeros(size, dtype=np.int64), 1)


# Interactions ---------------------------------------------------------------------------------------------------------


def interactions(key: str, case: Case, repetitions: int) -> dict[str, Any]:
    """Concordance of each kind of ranking, by epsilon."""
    bench, against = Trees(case), AGAINST[key]
    levels = Levels(bench.table.predictor(bench.model), bench.model.output)
    others = [(against, name) for name in bench.features if name != against]
    asked: dict[str, tuple[dict[str, Any], list[np.ndarray]]] = {}
    samples = [bench.rows(seed) for seed in (1, 2)]
    pairs = list(combinations(bench.features, 2))
    of_pairs = {"all pairs": ({}, pairs), f"pairs with {against}": ({"against": against}, others)}
    for name, (options, views) in of_pairs.items():
        asked[name] = options, [pairwise_interaction(rows, levels, views, POINTS)[0] for rows in samples]
    found = {}
    for name, (options, (truth, again)) in asked.items():
        lines: dict[str, Any] = {"items": len(truth), "two samples with each other": _short(concordance(truth, again))}
        strongest = set(np.argsort(-truth)[:TOP].tolist())
        for epsilon in track(EPSILONS, description=f"{key}, {name}"):
            votes = [
                dpx.interaction_ranking(bench.table, bench.model, epsilon=epsilon, **options)
                for _ in range(repetitions)
            ]
            first = [len(strongest & set(np.argsort(-vote.scores)[:TOP].tolist())) / TOP for vote in votes]
            lines[f"epsilon {epsilon:g}"] = {
                "concordance": _short(np.mean([concordance(vote.scores, truth) for vote in votes])),
                f"of the {TOP} strongest": _short(np.mean(first)),
                "parts": votes[0].parts,
            }
        found[name] = lines
    return found


# SHAP dependence ------------------------------------------------------------------------------------------------------


def dependence(case: Case, features: tuple[str, ...], repetitions: int) -> dict[str, Any]:
    """The error of private SHAP dependence plots."""
    import shap

    bench = Trees(case)

    def values(rows: pd.DataFrame) -> np.ndarray:
        return np.asarray(shap.TreeExplainer(bench.trees).shap_values(rows[bench.features]))

    exact, found = values(case.frame), dict[str, Any]()
    box = (case.output[1] - case.output[0]) / 2  # public: half of the output range
    for feature in features:
        place = bench.features.index(feature)

        def plot(rows: pd.DataFrame, _model: Any, place: int = place, feature: str = feature) -> Any:
            return rows[feature], values(rows)[:, place]

        lines: dict[str, Any] = {}
        for epsilon in track(PRICES, description=f"{case.name}, SHAP of {feature}"):
            line: dict[str, Any] = {}
            for form, options in (("ours", {}), ("paper", PAPER)):
                errors = []
                for _ in range(repetitions):
                    curve = dpx.generic_plot(
                        bench.table, plot, feature, model=bench.trees, output=(-box, box), epsilon=epsilon,
                        columns=bench.features, name="shap", version="1", **options,
                    )  # fmt: skip
                    truth = on_grid((case.frame[feature], exact[:, place]), curve.axes[0])
                    errors.append(np.sqrt(np.mean((curve.values - truth) ** 2)) / np.ptp(truth))
                    line[f"{form}, parts"] = curve.spec.parts.number
                line[form] = _short(np.mean(errors))
            lines[f"epsilon {epsilon:g}"] = line
        found[feature] = lines
    return found


# Resolutions ----------------------------------------------------------------------------------------------------------


def resolution(key: str, bench: effects.Bench, repetitions: int) -> list[dict[str, Any]]:
    """The paper's Experiment 2 for generic designs."""
    lines = []
    for kind in ("generic-pdp", "generic-ale"):
        for feature in track(RESOLUTION[key], description=f"{key}, {kind}"):
            for points in effects.RESOLUTIONS:
                for epsilon in FEW:
                    line: dict[str, Any] = {"dataset": bench.case.name, "kind": kind, "feature": feature}
                    line |= {"points": points, "epsilon": epsilon}
                    for form, options in effects.KINDS[kind].forms:
                        asked = {**options, "grid": points}
                        curves = [bench.release(kind, feature, epsilon, asked) for _ in range(repetitions)]
                        line[form] = float(np.mean([bench.mise(kind, curve) for curve in curves]))
                    lines.append(line)
            bench.model.remembered.forget(feature)
    return lines


def _best(lines: list[dict[str, Any]]) -> dict[str, Any]:
    """For each kind and feature: the error by points, geometric mean over epsilons."""
    found: dict[str, Any] = {}
    for kind, feature in dict.fromkeys((line["kind"], line["feature"]) for line in lines):
        mine = [line for line in lines if (line["kind"], line["feature"]) == (kind, feature)]
        found[f"{kind} of {feature}"] = {
            form: {
                str(points): float(
                    f"{np.exp(np.mean([np.log(one[form]) for one in mine if one['points'] == points])):.3g}"
                )
                for points in effects.RESOLUTIONS
            }
            for form in ("ours", "paper")
        }
    return found


def _short(value: Any) -> float:
    return round(float(value), 4)


def run(options: Namespace) -> None:
    """What is measured is written down after each part: the whole takes long."""
    repetitions = 1 if options.quick else REPETITIONS
    cases = {key: CASES[key](options.data) for key in ("bike", "heart")}
    summary: dict[str, Any] = {}
    content: dict[str, Any] = {"summary": summary, "repetitions": repetitions}
    name = cases["bike"].name
    ranked = summary["interactions"] = {name: interactions("bike", cases["bike"], repetitions)}
    report.write("generic", options, content)
    plots = {case.name: dependence(case, SHOWN[key], repetitions) for key, case in cases.items()}
    summary["SHAP dependence, error / range"] = plots
    report.write("generic", options, content, None if options.quick else _figure(ranked, plots))
    effects._remember_parts()  # what follows has its own parts
    lines = resolution("heart", effects.Bench(cases["heart"]), repetitions)
    summary["generic plots by number of points, geometric mean of MISE over epsilons"] = _best(lines)
    content["resolution"] = lines
    report.write("generic", options, content, None if options.quick else _figure(ranked, plots))


def _figure(ranked: dict[str, Any], plots: dict[str, Any]) -> Figure:
    """Concordance of rankings, and errors of SHAP dependence for each table."""
    figure = Figure(figsize=(13, 4.2), layout="constrained")
    axes = [figure.subplots(1, 1 + len(plots))]
    for ax, (table, found) in zip(axes[0][:1], ranked.items(), strict=True):
        for i, (name, lines) in enumerate(found.items()):
            y = [lines[f"epsilon {e:g}"]["concordance"] for e in EPSILONS]
            ax.plot(EPSILONS, y, "-o", color=f"C{i}", label=f"{name} ({lines['items']})", markersize=4)
            ax.axhline(lines["two samples with each other"], linestyle=":", color=f"C{i}", linewidth=0.9)
        ax.axhline(0.5, color="0.6", linewidth=0.8)
        ax.set(title=f"{table}: rankings by interaction", xscale="log", ylim=(0.4, 1.01), xlabel="epsilon")
        ax.legend(fontsize=7)
    for ax, (table, found) in zip(axes[0][1:], plots.items(), strict=True):
        for i, (feature, lines) in enumerate(found.items()):
            for form, dash in (("ours", "-o"), ("paper", "--s")):
                y = [lines[f"epsilon {e:g}"][form] for e in PRICES]
                ax.plot(PRICES, y, dash, color=f"C{i}", label=f"{feature}, {form}", markersize=4)
        ax.set(title=f"{table}: SHAP dependence", xscale="log", yscale="log", xlabel="epsilon")
        ax.legend(fontsize=7)
    axes[0][0].set_ylabel("concordance (dotted: of two samples of rows)")
    axes[0][1].set_ylabel("error / range of the plot")
    return figure
