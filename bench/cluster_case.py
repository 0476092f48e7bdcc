"""The case study of section 6.4 of paper 002 on our census table: three k-means clusters, epsilon 0.2 for the choice
and 0.1 for the histograms, by `dpx.explain_clusters` from rows to picture. TabEE's choice stands beside it.

Codes are divided by their range here: as they are, the column with the most values alone would make the clusters.
"""

from __future__ import annotations

from argparse import Namespace
from collections.abc import Callable
from fractions import Fraction
from typing import Any

import numpy as np
import pandas as pd
from matplotlib.figure import Figure
from sklearn.cluster import KMeans

import dpexplain as dpx
from bench import report
from bench.cluster_baselines import TabEE, mae
from bench.clusterings import Survey, census, diabetes

CLUSTERS, CHOICE, HISTOGRAMS = 3, 0.2, 0.1


def rule_of(survey: Survey, clusters: int) -> Callable[[pd.DataFrame], np.ndarray]:
    """k-means of the codes as shares of their range, as a function of rows."""
    ranges = np.array([len(values) - 1 for values in survey.values], dtype=np.float32)
    fitted = KMeans(clusters, n_init=2, random_state=0).fit(survey.numbers / ranges)

    def rule(rows: pd.DataFrame) -> np.ndarray:
        codes = [pd.Categorical(rows[c], v).codes for c, v in zip(survey.columns, survey.values, strict=True)]
        return np.asarray(fitted.predict(np.column_stack(codes).astype(np.float32) / ranges))

    return rule


def explained(survey: Survey) -> tuple[dict[str, Any], Any]:
    """What is chosen, its quality, the sentences; and the result."""
    rule = rule_of(survey, CLUSTERS)
    labels = rule(survey.frame())
    names = [str(c + 1) for c in range(CLUSTERS)]
    clustering = dpx.Clustering.of(
        rule, domain=survey.domain, labels=dict(enumerate(names)), name="k-means of the census", version="bench"
    )
    table = survey.private(dpx.Budget(10**6))
    share = Fraction(str(CHOICE)) / Fraction(str(round(CHOICE + HISTOGRAMS, 6)))
    result = dpx.explain_clusters(table, clustering, epsilon=CHOICE + HISTOGRAMS, selection_share=share)
    exact = TabEE.of(survey.counts(labels.astype(np.int64), CLUSTERS))
    chosen = [survey.columns.index(attribute) for (attribute,) in result.chosen.values()]
    truth = [TabEEHistogram(survey, exact, c, a) for c, a in enumerate(exact.best)]
    content = {
        "table": survey.name,
        "rows": survey.rows,
        "sizes": np.bincount(labels, minlength=CLUSTERS).tolist(),
        "epsilon": {"choice": CHOICE, "histograms": HISTOGRAMS},
        "one stage": {
            "chosen": {name: survey.columns[a] for name, a in zip(names, chosen, strict=True)},
            "quality": round(exact.of_choice(chosen), 5),
            "sentences": result.sentences,
            "utility": result.utility,
        },
        "TabEE": {
            "chosen": {name: survey.columns[a] for name, a in zip(names, exact.best, strict=True)},
            "quality": round(exact.of_choice(exact.best), 5),
            "most frequent values, without noise": {n: t.words for n, t in zip(names, truth, strict=True)},
        },
        "MAE": round(mae(chosen, exact.best), 4),
    }
    return content, result


class TabEEHistogram:
    """The values that a cluster has most, exactly: for comparison only."""

    def __init__(self, survey: Survey, exact: TabEE, cluster: int, attribute: int) -> None:
        inside = exact.shares[cluster, attribute]
        outside = exact.everyone[attribute] - exact.inside[cluster, attribute]
        outside = outside / max(outside.sum(), 1)
        top = np.argsort(-inside)[:2]
        values = survey.values[attribute]
        self.words = [f"{values[v]}: {inside[v]:.0%}, elsewhere {outside[v]:.0%}" for v in top]


def run(options: Namespace) -> None:
    survey = diabetes(options.data) if options.quick else census(options.data)
    content, result = explained(survey)
    figure = Figure(figsize=result.picture_size, layout="constrained")
    result.plot(figure.add_subplot())
    report.write("clusters-case", options, {"summary": content}, figure)
