"""The digest of every kind of request, as it stood before the methods moved into their folders.

A digest is what the ledger knows a request by: where one changes, the same question is paid for again. So a digest may
change only on purpose, with a line in the changelog. `python tests/golden/test_digests.py` writes them anew.
"""

from __future__ import annotations

import json
import warnings
from pathlib import Path
from unittest.mock import patch

import numpy as np
import pandas as pd
import pytest

import dpexplain as dpx
from dpexplain.core.canonical import digest, freeze
from dpexplain.core.release import Door

PINNED = Path(__file__).with_suffix(".json")
DOMAIN = dpx.Domain(
    {
        "age": dpx.Numeric(20, 69, integer=True),
        "sex": dpx.Categorical(["Female", "Male"]),
        "income": dpx.Numeric(0, 100),
        "kept": dpx.Numeric(0, 1, missing="nan"),
        "y": dpx.Categorical(["no", "yes"]),
    }
)
PERSON = {"age": 30, "sex": "Male", "income": 50.0}
FEATURES = ["age", "sex", "income"]


class Asked(Exception):
    """The digest of a request that reached the door."""


def score(rows):
    age, income = rows["age"].to_numpy(), rows["income"].to_numpy()
    return 0.1 + 0.008 * (age - 20) + 0.3 * (rows["sex"] == "Male").to_numpy() * income / 100


class Scorer:
    """A classifier, as scikit-learn has them."""

    classes_ = np.array(["no", "yes"])
    feature_names_in_ = np.array(FEATURES)

    def predict(self, rows):
        return self.classes_[(score(rows) > 0.5).astype(int)]

    def predict_proba(self, rows):
        return np.stack([1 - score(rows), score(rows)], axis=1)


OLDER = dpx.Model(lambda rows: 0.9 * score(rows), output=(0.0, 1.0), features=FEATURES, name="score", version="0")
MODEL = dpx.Model(score, output=(0.0, 1.0), features=FEATURES, name="score", version="1")
CLASSIFIER = dpx.Model(Scorer(), output=(0.0, 1.0), features=FEATURES, name="class", version="1", label="yes")


def by_age(rows):
    return np.where(np.asarray(rows["age"]) < 40, "young", "old")


def ranks(rows, model):
    return ["age", "sex"]


def plotted(rows, model):
    return [20.0, 69.0], [0.0, 1.0]


CLUSTERS = dpx.Clustering.of(by_age, domain=DOMAIN, labels=["young", "old"], features=["age"], name="age", version="1")

pdp, ale, pfi = dpx.partial_dependence, dpx.accumulated_effects, dpx.permutation_importance
infl, rank, plot = dpx.influence, dpx.rank_aggregation, dpx.generic_plot
REQUESTS = {
    "marginals": lambda t, p: dpx.marginals(t, **p),
    "marginals of two": lambda t, p: dpx.marginals(t, ["age", "sex"], cells=7, **p),
    "quantiles": lambda t, p: dpx.quantiles(t, "income", [0.25, 0.5], **p),
    "pdp": lambda t, p: pdp(t, MODEL, "age", **p),
    "pdp of several": lambda t, p: pdp(t, MODEL, ["age", ("age", "sex"), "kept"], rug=False, grid=5, **p),
    "pdp, paper": lambda t, p: pdp(t, MODEL, "income", method="paper", **p),
    "ale": lambda t, p: ale(t, MODEL, ["age", "sex"], **p),
    "ale, bins": lambda t, p: ale(t, MODEL, "income", bins=6, clip=0.5, mechanism="cube", **p),
    "ale, paper": lambda t, p: ale(t, MODEL, "age", method="paper", bins=4, **p),
    "plot": lambda t, p: plot(t, plotted, "age", model=MODEL, output=(0, 1), name="mine", version="1", **p),
    "plot, pdp": lambda t, p: plot(t, "pdp", "age", model=MODEL, output=(0, 1), parts=9, **p),
    "importance": lambda t, p: pfi(t, MODEL, "y", positive="yes", **p),
    "importance, groups": lambda t, p: pfi(
        t, MODEL, "y", positive="yes", features=["age", "sex"], repeats=3, loss="log", clip=2.0, **p
    ),
    "importance, interval": lambda t, p: pfi(t, MODEL, "y", positive="yes", limit="interval", **p),
    "importance, paper": lambda t, p: pfi(t, MODEL, "y", positive="yes", method="paper", seed=3, **p),
    "ranking": lambda t, p: rank(t, ranks, ["age", "sex"], model=MODEL, name="mine", version="1", parts=5, **p),
    "ranking by importance": lambda t, p: rank(t, "importance", model=CLASSIFIER, target="y", k=2, **p),
    "interactions": lambda t, p: dpx.interaction_ranking(t, MODEL, **p),
    "interactions, total": lambda t, p: dpx.interaction_ranking(t, MODEL, kind="total", points=5, k=1, **p),
    "local": lambda t, p: dpx.local_explanation(t, MODEL, PERSON, **p),
    "local, moments": lambda t, p: dpx.local_explanation(t, MODEL, PERSON, method="moments", anchor="prediction", **p),
    "local, gradient": lambda t, p: dpx.local_explanation(t, MODEL, PERSON, method="gradient", iterations=9, **p),
    "local, auto at a number": lambda t, p: dpx.local_explanation(t, MODEL, PERSON, anchor=0.3, radius=2, **p),
    "local, auto in a wide ball": lambda t, p: dpx.local_explanation(t, MODEL, PERSON, radius=2, **p),
    "local, category": lambda t, p: dpx.local_explanation(t, MODEL, PERSON, features=["sex"], anchor=1, **p),
    "local, gradient at a number": lambda t, p: dpx.local_explanation(
        t, MODEL, PERSON, method="gradient", anchor=0, **p
    ),
    "sketch": lambda t, p: dpx.local_sketch(t, MODEL, method="moments", **p),
    "sketch, domain": lambda t, p: dpx.local_sketch(t, MODEL, features=["age"], centres="domain", cells=3, seed=2, **p),
    "adaptive": lambda t, p: dpx.AdaptiveExplainer(
        t, MODEL, rho=4, per_query=1, iterations=6, reuse_distance=0.1
    ).explain(PERSON),
    "influence": lambda t, p: infl(t, MODEL, "average", **p),
    "influence, sets": lambda t, p: infl(t, MODEL, "average", features=["age", ["age", "sex"]], outcome="score", **p),
    "influence on a group": lambda t, p: infl(
        t, MODEL, "group", group={"sex": "Female"}, aggregate="shapley", outcome="score", **p
    ),
    "disparity": lambda t, p: infl(t, CLASSIFIER, "disparity", group={"sex": "Female"}, threshold=0.4, **p),
    "influence, banzhaf": lambda t, p: infl(t, MODEL, "average", aggregate="banzhaf", samples=4, **p),
    "influence, paper": lambda t, p: infl(t, MODEL, "average", method="paper", **p),
    "one person": lambda t, p: infl(t, MODEL, "individual", row=PERSON, **p),
    "one person, actual": lambda t, p: infl(t, MODEL, "actual", row=PERSON, aggregate="shapley", seed=4, **p),
    "report": lambda t, p: dpx.transparency_report(t, MODEL, PERSON, **p),
    "clusters": lambda t, p: dpx.explain_clusters(t, CLUSTERS, method="one-stage", **p),
    "clusters, posterior": lambda t, p: dpx.explain_clusters(t, CLUSTERS, method="posterior", **p),
    "clusters, two": lambda t, p: dpx.explain_clusters(
        t, CLUSTERS, attributes=["age", "sex", "income"], method="two-stage", candidates=2, selection_share=0.5, **p
    ),
    "compare": lambda t, p: dpx.compare(t, [OLDER, MODEL], dpx.requests.PartialDependence(feature="age"), **p),
    "compare, limit": lambda t, p: dpx.compare(
        t, [OLDER, MODEL], dpx.requests.PartialDependence(feature=["age", "sex"], rug=False), limit=0.2, **p
    ),
    "compare, importance": lambda t, p: dpx.compare(
        t, [OLDER, MODEL], dpx.requests.PermutationImportance(target="y", positive="yes"), **p
    ),
    "compare, rates": lambda t, p: dpx.compare(
        t, [OLDER, MODEL], dpx.requests.Performance(target="y", positive="yes", groups=["sex"]), **p
    ),
    "k-means": lambda t, p: dpx.dp_kmeans(t, 3, features=["age", "income"], **p),
    "k-means, domain": lambda t, p: dpx.dp_kmeans(t, 2, features=["age", "sex"], start="domain", rounds=2, **p),
}
PROTECTIONS = {
    "pure": {"relation": "replace-one", "budget": dpx.Budget(1000)},
    "zcdp": {"relation": "replace-one", "budget": dpx.Budget(1000, 1e-6)},
    "private size": {"relation": "add-remove", "budget": dpx.Budget(1000, 1e-6), "rows_hint": 400},
    "units": {"relation": "add-remove", "budget": dpx.Budget(1000), "unit": dpx.Unit("id", 2)},
}


def table_of(protection):
    draw, n = np.random.default_rng(0), 400
    frame = pd.DataFrame(
        {
            "age": draw.integers(20, 70, n),
            "sex": draw.choice(["Female", "Male"], n),
            "income": draw.uniform(0, 100, n),
            "kept": draw.random(n),
            "y": draw.choice(["no", "yes"], n),
            "id": np.arange(n) // 2,
        }
    )
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", dpx.errors.BudgetWarning)  # every table has a ledger of its own
        return dpx.PrivateTable(
            frame, domain=DOMAIN, ledger="sqlite:///:memory:", name="pinned", **PROTECTIONS[protection]
        )


def asked(name, protection):
    """The digest of a request, or the first words of its refusal."""

    def release(door, label, request, cost, body):
        raise Asked(digest(freeze({**request, "cost": cost.to_json()})))

    with patch.object(Door, "release", release):
        try:
            REQUESTS[name](table_of(protection), {"epsilon": 2.0})
        except Asked as found:
            return str(found)
        except dpx.DpexplainError as refusal:
            return f"refused: {type(refusal).__name__}"
    raise AssertionError("nothing was asked for")


@pytest.mark.filterwarnings("ignore::dpexplain.errors.BudgetWarning")
@pytest.mark.parametrize("protection", PROTECTIONS)
@pytest.mark.parametrize("name", REQUESTS)
def test_a_digest_changes_only_on_purpose(name, protection):
    assert asked(name, protection) == json.loads(PINNED.read_text(encoding="utf-8"))[name][protection]


def test_every_request_is_pinned():
    pinned = json.loads(PINNED.read_text(encoding="utf-8"))
    assert list(pinned) == list(REQUESTS)
    asked_for = [value for kinds in pinned.values() for value in kinds.values() if not value.startswith("refused")]
    assert len(set(asked_for)) > 100


if __name__ == "__main__":
    found = {name: {protection: asked(name, protection) for protection in PROTECTIONS} for name in REQUESTS}
    PINNED.write_text(json.dumps(found, indent=1) + "\n", encoding="utf-8")
