"""The releases that can be attacked on a user's own rows: how each is run, and what it needs of a project.

Each is asked as its command would ask it, for the first columns of the model: more of them would take longer and show
nothing new.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from fractions import Fraction
from typing import Any

from dpexplain.audit.subject import Subject, record_of
from dpexplain.core.budget import Cost
from dpexplain.core.domain import Categorical, Domain
from dpexplain.data.public_random import PublicRandom
from dpexplain.data.table import PrivateTable
from dpexplain.methods.accumulated_effects import release as accumulated_effects
from dpexplain.methods.accumulated_effects.request import AccumulatedEffects
from dpexplain.methods.clusters import release as clusters
from dpexplain.methods.clusters.request import Clusters
from dpexplain.methods.influence import release as influence
from dpexplain.methods.interaction_ranking import release as interaction_ranking
from dpexplain.methods.kmeans import release as kmeans
from dpexplain.methods.kmeans.request import KMeans
from dpexplain.methods.local_explanation import release as local_explanation
from dpexplain.methods.local_explanation.request import LocalExplanation
from dpexplain.methods.local_sketch import release as local_sketch
from dpexplain.methods.local_sketch.request import LocalSketchRequest
from dpexplain.methods.marginals import release as marginals
from dpexplain.methods.partial_dependence import release as partial_dependence
from dpexplain.methods.partial_dependence.request import PartialDependence
from dpexplain.methods.permutation_importance import release as permutation_importance

MOST_COLUMNS = 8  # of one release that is attacked
SAMPLES = 2  # other values of a row: no bound depends on how many there are
MOST_COMBINATIONS = 5_000  # of columns for clusters: the probability of each is computed


@dataclass(frozen=True)
class Explainer:
    """One that can be attacked: how it is run, its name among the releases, and what it needs of a project."""

    run: Callable[[Subject, PrivateTable, Cost], Any]
    release: str
    needs_delta: bool = False
    needs_target: bool = False
    needs_clustering: bool = False


def _columns(subject: Subject) -> list[str]:
    return subject.features[:MOST_COLUMNS]


def _pdp(subject: Subject, table: PrivateTable, cost: Cost) -> Any:
    request = PartialDependence(feature=list(_columns(subject)))
    return partial_dependence.explain(table, subject.model, request, cost=cost)


def _ale(subject: Subject, table: PrivateTable, cost: Cost) -> Any:
    request = AccumulatedEffects(feature=_columns(subject))
    return accumulated_effects.explain(table, subject.model, request, cost=cost)


def _importance(subject: Subject, table: PrivateTable, cost: Cost) -> Any:
    assert subject.target is not None
    request = permutation_importance.PermutationImportance(target=subject.target, features=_columns(subject))
    return permutation_importance.explain(table, subject.model, request, cost=cost)


def _interactions(subject: Subject, table: PrivateTable, cost: Cost) -> Any:
    request = interaction_ranking.InteractionRanking(features=_columns(subject), kind="total")
    return interaction_ranking.explain(table, subject.model, request, cost=cost)


def _influence(subject: Subject, table: PrivateTable, cost: Cost) -> Any:
    request = influence.InfluenceRequest(features=_columns(subject), samples=SAMPLES)
    return influence.explain(table, subject.model, request, cost=cost)


def _marginals(subject: Subject, table: PrivateTable, cost: Cost) -> Any:
    return marginals.explain(table, None, marginals.MarginalsRequest(features=_columns(subject)), cost=cost)


def _local(subject: Subject, table: PrivateTable, cost: Cost) -> Any:
    """Of a record that is made up, and public."""
    record = record_of(PublicRandom(0).rows(subject.domain, 1), 0, subject.features)
    request = LocalExplanation(record=record, method="moments")
    return local_explanation.explain(table, subject.model, request, cost=cost)


def _sketch(subject: Subject, table: PrivateTable, cost: Cost) -> Any:
    return local_sketch.explain(table, subject.model, LocalSketchRequest(), cost=cost)


def _clusters(subject: Subject, table: PrivateTable, cost: Cost) -> Any:
    """Of the project's clustering; or of clusters that are found first, for half of the price."""
    rule = subject.clustering
    assert rule is not None
    if isinstance(rule, int):
        cost = cost * Fraction(1, 2)
        rule = kmeans.explain(table, None, KMeans(k=rule), cost=cost).as_clustering()
    request = Clusters(attributes=attributes(table.domain, len(rule.labels)))
    return clusters.explain(table, rule, request, cost=cost)


def attributes(domain: Domain, groups: int) -> list[str] | None:
    """The first columns that can tell clusters apart: as many as give no more combinations than can be listed."""
    most = next((n for n in range(MOST_COLUMNS, 1, -1) if n**groups <= MOST_COMBINATIONS), 1)
    several = [name for name, c in domain.items() if not isinstance(c, Categorical) or len(c.categories) > 1]
    return several[:most] or None


EXPLAINERS: Mapping[str, Explainer] = {
    "pdp": Explainer(_pdp, "partial_dependence"),
    "ale": Explainer(_ale, "accumulated_effects"),
    "importance": Explainer(_importance, "permutation_importance", needs_target=True),
    "interactions": Explainer(_interactions, "interaction_ranking"),
    "influence": Explainer(_influence, "influence"),
    "clusters": Explainer(_clusters, "clusters", needs_clustering=True),
    "marginals": Explainer(_marginals, "marginals"),
    "local": Explainer(_local, "local_explanation", needs_delta=True),
    "sketch": Explainer(_sketch, "local_sketch", needs_delta=True),
}
USUAL_EXPLAINERS = ("pdp", "ale", "importance", "influence", "sketch")  # and clusters, where there is a clustering
