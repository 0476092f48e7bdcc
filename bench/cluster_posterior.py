"""The choice from released counts of all clusters and attributes, beside one stage, two stages and the domain alone.

Replace-one; a zCDP account (delta 1e-6) and a pure one. Epsilon is the whole price of an explanation, histograms
included: one and two stages divide it as the product does. A choice is judged by its score on the exact table, with all
terms of the paper's definition, as a share of the best score of all combinations.

posterior     the product's own path: counts through the gate, operating-system entropy, a repetition differs
one stage     the exact mean of its law, no noise
two stages    the product's own path
domain alone  rows drawn evenly from the declared domain, labelled by the public rule: nothing is released
auto          what the default takes, posterior or one stage: it follows from public things, so its figures are those
              of the form that it takes. `--kept` measures nothing and asks for these choices again
"""

from __future__ import annotations

import json
from argparse import Namespace
from collections.abc import Callable
from typing import Any

import numpy as np
from matplotlib.figure import Figure
from rich.progress import track
from sklearn.cluster import AgglomerativeClustering, KMeans
from sklearn.mixture import GaussianMixture

import dpexplain as dpx
from bench import report
from bench.cached import BenchAccount
from bench.cluster_laws import REACHED, mean_quality
from bench.clusterings import SAMPLE, SURVEYS, Survey
from dpexplain.core.domain import PublicRange
from dpexplain.core.mechanisms import selection_epsilon
from dpexplain.core.release import Door, Gate
from dpexplain.core.sensitivity import Neighbours, Relation
from dpexplain.maths.cluster_tables import Labelled, Sharp, Tables
from dpexplain.maths.posterior import EVEN
from dpexplain.maths.trees import Joint
from dpexplain.methods.clusters.best import Scores
from dpexplain.methods.clusters.release import choose, resolve
from dpexplain.methods.clusters.request import Clusters
from dpexplain.methods.clusters.sharp import ROWS
from dpexplain.methods.clusters.spec import Chosen, tables_of
from dpexplain.methods.clusters.tables import TablesSpec, forecast
from dpexplain.methods.setting import Setting

NEIGHBOURS = Neighbours(Relation.REPLACE_ONE)
ACCOUNTS = {"zCDP, delta 1e-6": dpx.Budget(10**6, 1e-6), "pure": dpx.Budget(10**6)}
EPSILONS = (0.001, 0.003, 0.01, 0.03, 0.1, 0.3, 1.0)
CASES = (("k-means", 5), ("k-means", 9), ("agglomerative", 9), ("GMM", 5))
SEEDS = 10
POSTERIOR, ONE, TWO, DOMAIN, AUTO = "posterior", "one stage", "two stages", "domain alone", "auto"
SLICE = {ONE: "one-stage", TWO: "two-stage", AUTO: "auto"}
BETTER = 0.01  # of the best score: by so much a form is better than another
TARGET = 0.2
Rule = Callable[[np.ndarray], np.ndarray]  # codes of rows to their clusters


def rule_of(survey: Survey, method: str, clusters: int) -> Rule:
    """A clustering of `bench.clusterings` as a rule, which labels any rows."""
    if method == "k-means":
        fitted: Any = KMeans(clusters, n_init=2, random_state=0).fit(survey.numbers)
        return lambda codes: np.asarray(fitted.predict(codes.astype(np.float32)), dtype=np.int64)
    if method == "agglomerative":
        some = _some(survey, method)
        labels = AgglomerativeClustering(clusters).fit_predict(some)
        centres = np.array([some[labels == c].mean(axis=0) for c in range(clusters)], dtype=np.float32)
        middle = (centres * centres).sum(axis=1)
        return lambda codes: (middle - 2 * codes.astype(np.float32) @ centres.T).argmin(axis=1)
    mixed = GaussianMixture(clusters, covariance_type="diag", reg_covar=1e-2, random_state=0, max_iter=60, tol=1e-2)
    mixed.fit(_some(survey, "GMM"))
    return lambda codes: np.asarray(mixed.predict(codes.astype(np.float32)), dtype=np.int64)


def _some(survey: Survey, method: str) -> np.ndarray:
    chosen = np.random.default_rng(0).choice(survey.rows, min(survey.rows, SAMPLE[method]), replace=False)
    return survey.numbers[chosen]


class Case:
    """One clustering of one table: its exact counts and scores, and the choices of every form."""

    def __init__(self, survey: Survey, method: str, clusters: int) -> None:
        self.survey, self.clusters, self.rule = survey, clusters, rule_of(survey, method, clusters)
        self.counts = survey.counts(self.rule(survey.codes), clusters)
        self.scoring = resolved(survey, clusters, ONE, 1.0, ACCOUNTS["pure"]).scoring
        self.scores = Scores.of([table.astype(np.float64) for table in self.counts], self.scoring)
        sizes = self.counts[0][:-1].sum(axis=1)
        smaller = np.minimum(sizes, sizes[:, None])[np.triu_indices(clusters, 1)].sum()
        self.constant = float(smaller) * self.scoring.factors[2] / self.scoring.whole
        self.best = self.of(self.scores.best(1))

    def of(self, chosen: Chosen) -> float:
        return self.scores.total(chosen) + self.constant

    def share(self, chosen: Chosen) -> float:
        return self.of(chosen) / self.best

    def labelled(self, joint: Joint, even: float) -> Labelled:
        drawn = joint.draw(ROWS, 0, even=even)
        codes = np.column_stack([drawn[name] for name in self.survey.columns]).astype(np.int64)
        return Labelled(self.rule(codes), codes, False, ROWS)

    def domain_alone(self) -> float:
        said = self.labelled(Joint.even(self.survey.domain, list(self.survey.columns)), 0.0)
        tables = [said.table(a, *table.shape) for a, table in enumerate(self.counts)]
        return self.share(Scores.of(tables, self.scoring).best(1))

    def posterior(self, account: dpx.Budget, epsilon: float) -> float:
        cost, partitions = account.cost(epsilon=epsilon), self.survey.partitions
        gate = Gate(Door(BenchAccount(account, NEIGHBOURS)), cost)
        flat = np.concatenate([table.ravel() for table in self.counts])
        spec = resolved(self.survey, self.clusters, POSTERIOR, epsilon, account)
        noise = forecast(spec, NEIGHBOURS, cost)
        sent = gate.noisy_counts("tables", flat, cost, partitions=len(partitions), mechanism=noise.law.value)
        noisy = tables_of(np.array(sent, dtype=np.int64), partitions, self.clusters)
        tables = Tables([table.astype(np.float64) for table in noisy], noise.std, float(self.survey.rows))
        shares = [tables.shares_of(a) for a in range(len(partitions))]
        said = self.labelled(Joint.product(self.survey.domain, partitions, shares), EVEN)
        return self.share(Scores.of(Sharp(tables, said).means, self.scoring).best(1))

    def one_stage(self, account: dpx.Budget, epsilon: float) -> float:
        spec = resolved(self.survey, self.clusters, ONE, epsilon, account)
        choice = spec.costs(account.cost(epsilon=epsilon))[0][-1]
        table = _by_sets(self.scores)
        length = self.scoring.combination_range(NEIGHBOURS, "tight").length / self.scoring.unit
        mean = mean_quality(table * (float(selection_epsilon(choice)) / length), table)
        return (float(mean) + self.constant) / self.best

    def two_stages(self, account: dpx.Budget, epsilon: float) -> float:
        cost = account.cost(epsilon=epsilon)
        gate = Gate(Door(BenchAccount(account, NEIGHBOURS)), cost)
        return self.share(choose(gate, self.counts, resolved(self.survey, self.clusters, TWO, epsilon, account), cost))


def resolved(survey: Survey, clusters: int, form: str, epsilon: float, account: dpx.Budget) -> Any:
    request = Clusters(labels=list(range(clusters)), method=SLICE.get(form, "posterior"))
    setting = Setting(survey.domain, PublicRange(0.0, 1.0), NEIGHBOURS, survey.rows, survey.rows)
    return resolve(request, setting, account.cost(epsilon=epsilon))


def with_default(survey: Survey, cell: dict[str, Any]) -> dict[str, Any]:
    """The form that the default takes at each epsilon, and what is measured of that form."""
    lines = dict[str, Any]()
    for name, account in ACCOUNTS.items():
        specs = [resolved(survey, cell["clusters"], AUTO, epsilon, account) for epsilon in EPSILONS]
        taken = [POSTERIOR if isinstance(spec, TablesSpec) else ONE for spec in specs]
        lines[name] = {**cell[name], "auto takes": taken, "auto": default_of(cell[name], taken)}
    return {**cell, **lines}


def default_of(line: dict[str, Any], taken: list[str]) -> dict[str, Any]:
    """How good the forms that were taken are, and at how many epsilons the other one is better."""
    forms = line["share of the best score"]
    shares = [forms[form][i] for i, form in enumerate(taken)]
    better = [max(forms[POSTERIOR][i], forms[ONE][i]) > share + BETTER for i, share in enumerate(shares)]
    needs, one = reached_at(shares), line["epsilon for 98 %"][ONE]
    ratio = None if None in (needs, one) else float(f"{needs / one:.3g}")
    return {"share of the best score": shares, "epsilon for 98 % / one stage": ratio, "other is better": sum(better)}


def _by_sets(scores: Scores) -> np.ndarray:
    """[attribute, set of clusters]: what an attribute adds to a combination in which these clusters use it."""
    found = np.zeros((scores.alone.shape[1], 1))
    for c, alone in enumerate(scores.alone):
        lost = np.zeros((len(alone), 1))
        for d in range(c):
            lost = np.concatenate([lost, lost + scores.shared[c, d][:, None]], axis=1)
        found = np.concatenate([found, found + alone[:, None] - lost], axis=1)
    return found


def cell(survey: Survey, method: str, clusters: int, seeds: int) -> dict[str, Any]:
    case = Case(survey, method, clusters)
    free, lines = case.domain_alone(), dict[str, Any]()
    for name, account in ACCOUNTS.items():
        forms = {POSTERIOR: list[Any](), ONE: list[Any](), TWO: list[Any]()}
        spread = list[float]()
        for epsilon in EPSILONS:
            each = [case.posterior(account, epsilon) for _ in range(seeds)]
            forms[POSTERIOR].append(_short(np.mean(each)))
            spread.append(_short(np.std(each)))
            forms[ONE].append(_short(case.one_stage(account, epsilon)))
            forms[TWO].append(_short(np.mean([case.two_stages(account, epsilon) for _ in range(seeds)])))
        reached = {form: reached_at(shares) for form, shares in forms.items()}
        both = reached[POSTERIOR], reached[ONE]
        ratio = None if None in both else float(f"{both[0] / both[1]:.3g}")  # type: ignore[operator]
        lines[name] = {
            "share of the best score": forms,
            "standard deviation, posterior": spread,
            "epsilon for 98 %": reached,
            "posterior / one stage": ratio,
            "below the domain alone by": _short(max(0.0, max(free - share for share in forms[POSTERIOR]))),
        }
    return {
        "table": survey.name,
        "rows": survey.rows,
        "clustering": method,
        "clusters": clusters,
        DOMAIN: free,
        **lines,
    }


def reached_at(shares: list[float]) -> float | None:
    """The smallest epsilon from which on the mean share is at least 98 %, on a line in log epsilon."""
    if shares[-1] < REACHED:
        return None
    for i in range(len(shares) - 1, 0, -1):
        if shares[i - 1] < REACHED:
            part = (REACHED - shares[i - 1]) / max(shares[i] - shares[i - 1], 1e-12)
            return float(f"{EPSILONS[i - 1] * (EPSILONS[i] / EPSILONS[i - 1]) ** part:.3g}")
    return EPSILONS[0]


def _short(value: Any) -> float:
    return round(float(value), 4)


def summary(cells: list[dict[str, Any]]) -> dict[str, Any]:
    found = dict[str, Any]()
    for name in ACCOUNTS:
        ratios = [c[name]["posterior / one stage"] for c in cells]
        known = [r for r in ratios if r is not None]
        means = {
            form: [
                _short(np.mean([c[name]["share of the best score"][form][i] for c in cells]))
                for i in range(len(EPSILONS))
            ]
            for form in (POSTERIOR, ONE, TWO)
        }
        found[name] = {
            "mean share": {**means, DOMAIN: _short(np.mean([c[DOMAIN] for c in cells]))},
            "posterior / one stage, epsilon for 98 %": {
                "geometric mean": round(float(np.exp(np.mean(np.log(known)))), 3) if known else None,
                "at most 0.2": sum(r <= TARGET for r in known),
                "cells": len(ratios),
            },
            "cells below the domain alone at some epsilon": sum(
                c[name]["below the domain alone by"] > 0 for c in cells
            ),
            "farthest below": max(c[name]["below the domain alone by"] for c in cells),
            AUTO: summary_of_default([c[name][AUTO] for c in cells]),
        }
    return found


def summary_of_default(lines: list[dict[str, Any]]) -> dict[str, Any]:
    ratios = [line["epsilon for 98 % / one stage"] for line in lines]
    known = [r for r in ratios if r is not None]
    return {
        "mean share": [_short(mean) for mean in np.mean([line["share of the best score"] for line in lines], axis=0)],
        "epsilon for 98 % / one stage": {
            "geometric mean": round(float(np.exp(np.mean(np.log(known)))), 3) if known else None,
            "at most 0.2": sum(r <= TARGET for r in known),
            "cells": len(ratios),
        },
        f"the other form is better by more than {BETTER}": sum(line["other is better"] for line in lines),
        "of": len(lines) * len(EPSILONS),
    }


def figure(cells: list[dict[str, Any]]) -> Figure:
    drawn = Figure(figsize=(9.5, 3.2 * 1.2), layout="constrained")
    for ax, name in zip(drawn.subplots(1, 2, sharey=True), ACCOUNTS, strict=True):
        for form, colour in ((POSTERIOR, "#1f4e79"), (ONE, "#c05020"), (TWO, "#888888")):
            shares = np.array([c[name]["share of the best score"][form] for c in cells])
            ax.plot(EPSILONS, shares.mean(axis=0), color=colour, marker="o", ms=3, label=form)
            ax.fill_between(EPSILONS, shares.min(axis=0), shares.max(axis=0), color=colour, alpha=0.12, linewidth=0)
        ax.axhline(np.mean([c[DOMAIN] for c in cells]), color="black", ls=":", lw=1, label=DOMAIN)
        ax.set_xscale("log")
        ax.set_xlabel("epsilon of the whole explanation")
        ax.set_title(name, fontsize=9)
        ax.grid(alpha=0.2)
    drawn.axes[0].set_ylabel("share of the best score: mean, smallest, largest")
    drawn.axes[0].legend(fontsize=7, frameon=False)
    return drawn


def run(options: Namespace) -> None:
    quick = options.quick
    if options.kept:
        write_defaults(options)
        return
    surveys = [load(options.data) for name, load in SURVEYS.items() if not quick or name == "Diabetes"]
    wanted = [(survey, *case) for survey in surveys for case in (CASES[:1] if quick else CASES)]
    cells = [
        with_default(one[0], cell(*one, 2 if quick else SEEDS)) for one in track(wanted, description="clusterings")
    ]
    content = {"summary": summary(cells), "epsilons": EPSILONS, "seeds": SEEDS, "cells": cells}
    report.write("clusters-posterior", options, content, None if quick else figure(cells))


def write_defaults(options: Namespace) -> None:
    """Into the committed results, of which nothing else changes: what the default of today takes in each cell."""
    file = report.RESULTS / "clusters-posterior.json"
    known = json.loads(file.read_text(encoding="utf-8"))
    surveys = {survey.name: survey for survey in (load(options.data) for load in SURVEYS.values())}
    cells = [with_default(surveys[cell["table"]], cell) for cell in known["cells"]]
    known |= {"summary": summary(cells), "what auto takes": f"of commit {report.commit()}", "cells": cells}
    file.write_text(json.dumps(known, indent=1) + "\n", encoding="utf-8")
    print(json.dumps(known["summary"], indent=1))
