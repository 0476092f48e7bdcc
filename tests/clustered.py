"""A small table with clusters in it, a clustering that reads them off a column, and the paper's scores by pandas."""

from __future__ import annotations

import itertools
from functools import cache

import numpy as np
import pandas as pd

import dpexplain as dpx
from dpexplain.core.domain import PublicRange
from dpexplain.methods.setting import Setting
from dpexplain.models.clustering import Clustering

LABELS = ("young", "middle", "odd")
DOMAIN = dpx.Domain(
    {
        "age": dpx.Numeric(0, 99, integer=True),
        "sex": dpx.Categorical(["F", "M"]),
        "kind": dpx.Categorical(["a", "b", "c", "d"]),
        "income": dpx.Numeric(0, 100),
        "group": dpx.Categorical([*LABELS, "nobody"]),
    }
)
ATTRIBUTES = ["age", "sex", "kind", "income"]


CLUSTERING = Clustering.of(
    lambda rows: rows["group"], labels=LABELS, domain=DOMAIN, features=["group"], name="group", version="1"
)


def people(n: int = 3000, seed: int = 0) -> pd.DataFrame:
    """Young ones and odd ones differ from the others; one in ten is in no cluster."""
    draw = np.random.default_rng(seed)
    code = draw.choice(4, n, p=[0.3, 0.4, 0.2, 0.1])
    return pd.DataFrame(
        {
            "age": np.clip(draw.normal(np.array([18, 45, 50, 60])[code], 8, n), 0, 99).astype(int),
            "sex": draw.choice(["F", "M"], n),
            "kind": np.where(code == 2, draw.choice(["a", "b"], n), draw.choice(["b", "c", "d"], n)),
            "income": np.clip(draw.normal(30, 10, n) + 20 * (code == 1), 0, 100),
            "group": np.array([*LABELS, "nobody"])[code],
            "person": draw.integers(0, n // 2, n),
        }
    )


def binned(frame: pd.DataFrame) -> pd.DataFrame:
    """Numbers by the tenths of their bounds in which they lie, as the product cuts them, by pandas alone."""
    return frame.assign(age=frame["age"] // 10, income=(frame["income"] // 10).clip(upper=9))


class Printed:
    """The scores as the paper prints them, by pandas, one definition at a time. Nothing is computed twice."""

    def __init__(self, frame: pd.DataFrame, labels=LABELS) -> None:
        self.frame, self.labels = frame, labels
        for name in ("interest", "sufficiency", "pair_diversity"):
            setattr(self, name, cache(getattr(self, name)))

    def rows(self, label):
        return self.frame[self.frame["group"] == label]

    def interest(self, label, attribute):
        """Definition 4.3."""
        inside, everyone = self.rows(label)[attribute].value_counts(), self.frame[attribute].value_counts()
        share = len(self.rows(label)) / len(self.frame)
        return 0.5 * (inside.reindex(everyone.index, fill_value=0) - share * everyone).abs().sum()

    def sufficiency(self, label, attribute):
        """Definition 4.6."""
        everyone = self.frame[attribute].value_counts()
        inside = self.rows(label)[attribute].value_counts()
        return sum(count**2 / everyone[value] for value, count in inside.items())

    def pair_diversity(self, one, two, first, second):
        """Definition 4.8."""
        left, right = self.rows(one), self.rows(two)
        smaller = min(len(left), len(right))
        if first != second:
            return smaller
        values = self.frame[first].unique()
        shares = [
            part[first].value_counts().reindex(values, fill_value=0) / max(len(part), 1) for part in (left, right)
        ]
        return smaller * 0.5 * (shares[0] - shares[1]).abs().sum()

    def total(self, combination, weights):
        """Definition 4.13, and appendix B for several attributes: `combination` gives each cluster its attributes."""
        explained = [(label, a) for label, mine in zip(self.labels, combination, strict=True) for a in mine]
        pairs = list(itertools.combinations(explained, 2))
        return (
            weights[0] * np.mean([self.interest(*e) for e in explained])
            + weights[1] * np.mean([self.sufficiency(*e) for e in explained])
            + weights[2] * np.mean([self.pair_diversity(one, two, a, b) for (one, a), (two, b) in pairs])
        )


def all_combinations(attributes, clusters, uses):
    return list(itertools.product(itertools.combinations(attributes, uses), repeat=clusters))


def setting(domain, neighbours, rows=None):
    """All that is public about a table of about so many rows, or of an unknown number."""
    return Setting(domain, PublicRange(0, 1), neighbours, rows or 1000, rows)
