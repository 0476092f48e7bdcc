"""The releases that can be attacked on a user's own rows: every method that has a command,
but for comparisons.

Each is asked as its command would ask it, for the first columns of the model (more of them would take longer and show
nothing new), the project's target and a record that is made up, and public. `Method.attacked` has what else is asked.
"""

from __future__ import annotations

from collections.abc import Sequence
from fractions import Fraction
from typing import Any, get_origin

from dpexplain.audit.subject import Subject, record_of
from dpexplain.core.budget import Cost
from dpexplain.core.domain import Categorical, Domain, Numeric
from dpexplain.data.public_random import PublicRandom
from dpexplain.data.table import PrivateTable
from dpexplain.methods.kmeans.release import explain as kmeans
from dpexplain.methods.kmeans.request import KMeans
from dpexplain.methods.registry import Method, methods
from dpexplain.methods.request import members

MAX_COLUMNS = 8  # of one release that is attacked
MAX_COMBINATIONS = 5_000  # of columns for clusters: the probability of each is computed


def explainers() -> dict[str, Method]:
    """What can be attacked, by command: not a comparison, because a project has one model."""
    known = [method for method in methods().values() if "request" not in method.request.model_fields]
    by_command = {method.command: method for method in known if method.command}
    return dict(sorted(by_command.items()))


def takes_columns(method: Method) -> bool:
    """Whether the release is attacked for the first columns alone."""
    return any(name in method.request.model_fields and name not in method.attacked for name in ("feature", "features"))


def release(method: Method, subject: Subject, table: PrivateTable, cost: Cost) -> Any:
    """Run a method on a table of the subject's rows. Clusters that k-means has to find take half of the cost."""
    explained: Any = subject.model
    columns, offered = subject.features[:MAX_COLUMNS], dict[str, Any]()
    if method.takes_clustering:
        explained = subject.clustering
        if isinstance(explained, int):
            cost = cost * Fraction(1, 2)
            explained = kmeans(table, None, KMeans(k=explained), cost=cost).as_clustering()
        offered["attributes"] = attributes(table.domain, len(explained.labels))
    record = record_of(PublicRandom(0).rows(subject.domain, 1), 0, subject.features)
    offered |= {"feature": columns, "features": columns, "target": subject.target, "record": record, "row": record}
    asked = {name: value for name, value in offered.items() if name in method.request.model_fields}
    if "feature" in asked and not _takes_several(method):  # one column: a number, if there is one
        asked["feature"] = next((name for name in columns if isinstance(subject.domain[name], Numeric)), columns[0])
    return method.load(method.explain)(table, explained, method.request(**{**asked, **method.attacked}), cost=cost)


def _takes_several(method: Method) -> bool:
    """Whether the field `feature` takes a list of columns."""
    kinds = members(method.request.model_fields["feature"].annotation)
    return any((get_origin(kind) or kind) in (list, tuple, Sequence) for kind in kinds)


def attributes(domain: Domain, groups: int) -> list[str] | None:
    """The first columns that can tell clusters apart: as many as give no more combinations than can be listed."""
    most = next((n for n in range(MAX_COLUMNS, 1, -1) if n**groups <= MAX_COMBINATIONS), 1)
    several = [name for name, c in domain.items() if not isinstance(c, Categorical) or len(c.categories) > 1]
    return several[:most] or None
