"""From a body to an answer, by the verbs of the library: plan, release, read off. Nothing is defined a second time."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import Any

import sqlalchemy as sa

from dpexplain.core.budget import Cost
from dpexplain.core.canonical import JsonObject
from dpexplain.data.table import PrivateTable
from dpexplain.errors import InputError
from dpexplain.methods.batches.release import plan_batch, release_batch
from dpexplain.methods.planning import plan as plan_one
from dpexplain.methods.registry import Method, keyword_of, method_of
from dpexplain.methods.request import Request
from dpexplain.methods.result import Result, from_json
from dpexplain.models import ModelPair
from dpexplain.project.run import Task
from dpexplain.service.asked import Batch, Explain, Plan, Reading, Record, cost_of, request_of, takes_model, takes_two
from dpexplain.service.store import Store, now, results
from dpexplain.service.tables import Served
from dpexplain.service.tokens import Principal, Role

KEPT = 64  # results in memory, read from their documents


@dataclass(frozen=True)
class Answer:
    """What a job released: documents in order, and which of them answer which request."""

    documents: list[Result]
    parts: list[list[int]]  # for each request the places of its results
    replayed: bool


@dataclass(frozen=True)
class Work:
    """What a service can do with a body."""

    store: Store

    def task(self, served: Served, asked: Explain, who: Principal) -> tuple[Task, Any, Cost | None]:
        """What is released, what it explains, and the cost; all that can be wrong with the body is found out here."""
        request, table = request_of(asked.request), served.opened
        method = method_of(request)
        known = self.known(method, served, asked.uses, who)
        free = request.free or (request.free_with_marginals and "marginals" in known)
        free = free and asked.epsilon is None and asked.rho is None
        cost = None if free else cost_of(table, asked)
        return Task(request, known), self.subject(method, request, served, asked, who), cost

    def subject(self, method: Method, request: Request, served: Served, asked: Any, who: Principal) -> Any:
        """What is explained: a model, two of them, or clusters."""
        if method.takes_clustering:
            return self.clustering(served, asked, who)
        if takes_two(method):
            if asked.models is None or len(asked.models) != 2:
                raise InputError("name the two models that are compared.", hint='"models": ["1", "2"]', spent="")
            return ModelPair.of([served.model(version, self.store) for version in asked.models])
        scored = getattr(request, "score", None) is not None
        if asked.model is None and (scored or not takes_model(method)):
            return None
        return served.model(asked.model, self.store)

    def clustering(self, served: Served, asked: Any, who: Principal) -> Any:
        """Clusters that were released before, or those of the project."""
        if asked.clustering is not None:
            found = self.result(served.name, "dp-kmeans", asked.clustering, who)
            return found.as_clustering(asked.labels)  # type: ignore[attr-defined]
        if served.clustering is None:
            raise InputError("there is no clustering to explain.", hint="release dp-kmeans first", spent="")
        return served.clustering

    def known(self, method: Method, served: Served, uses: Mapping[str, str], who: Principal) -> dict[str, Any]:
        """Earlier results that the method takes."""
        names = {keyword_of(name): name for name in method.takes}
        found = {}
        for keyword, reservation in uses.items():
            if keyword not in names:
                hint = f"it takes {', '.join(names)}" if names else "leave it out"
                raise InputError(f"{method.name} takes no {keyword!r}."[:200], hint=hint, spent="")
            found[keyword] = self.result(served.name, keyword, reservation, who)
        return found

    def result(self, table: str, kind: str, reservation: str, who: Principal) -> Result:
        """A released result that this person may read, by the reservation in its receipt."""
        for row in self.rows(table, reservation, who):
            whole = document_of(row.id, self.store)
            for one in (whole, *whole.relies_on, getattr(whole, kind, None)):
                if isinstance(one, Result) and one.kind.replace("-", "_") == kind.replace("-", "_"):
                    return one
        raise InputError(f"there is no release of {kind} under this reservation.", spent="")

    def rows(self, table: str, reservation: str, who: Principal) -> Sequence[Any]:
        """The announced results of a reservation, as far as somebody may read them."""
        columns = [column for column in results.c if column.name != "document"]
        asked = sa.select(*columns).where(
            results.c.table_name == table, results.c.reservation == reservation, results.c.announced <= now()
        )
        if who.role is Role.ANALYST:
            asked = asked.where(results.c.owner == who.name)
        with self.store.read() as connection:
            return connection.execute(asked.order_by(results.c.job, results.c.number)).all()

    # Verbs ------------------------------------------------------------------------------------------------------------

    def plan(self, served: Served, asked: Plan, who: Principal) -> JsonObject:
        """The error to expect at an epsilon, or the epsilon for an error. Reads no row, and spends nothing."""
        table = served.opened.for_analyst(who.name)
        if (asked.request is None) == (asked.requests is None):
            raise InputError("give either a request or several requests.", hint='{"request": {...}}', spent="")
        if asked.requests is not None:
            forecast = self._batch(served, table, asked, who)[1]
            return {"forecast": forecast.to_json(), "text": str(forecast), "price": forecast.price}
        if isinstance(asked.max_error, list) or asked.weights is not None:
            raise InputError("weights and lists of errors are for several requests.", spent="")
        request = request_of(asked.request or {})
        method = method_of(request)
        known = self.known(method, served, asked.uses, who)
        subject = self.subject(method, request, served, asked, who) if not method.takes_clustering else None
        price = asked.epsilon
        if asked.rho is not None:
            price = table.budget.epsilon_of(cost_of(table, asked))
        about: dict[str, Any] = {**known, "model": subject, "epsilon": price, "max_error": asked.max_error}
        found = plan_one(request, table=table, n=asked.rows, **about)
        return {"forecast": found.to_json(), "text": str(found), "price": None}

    def release(
        self, served: Served, asked: Explain | Batch, who: Principal, *, allow: Callable[[], None],
        settle: Callable[[], None],
    ) -> Answer:  # fmt: skip
        """Spend the cost, unless `allow` raises before it is reserved, and get the results, which are committed after
        `settle`.
        """
        table = served.opened.for_analyst(who.name, allow=allow, settle=settle)
        if isinstance(asked, Explain):
            task, subject, cost = self.task(served, asked, who)
            found = task.results(table, subject, cost)
            return Answer(found, [list(range(len(found)))], all(one.receipt.replayed for one in found))
        question, forecast = self._batch(served, table, asked, who)
        batch = release_batch(question, forecast, [request_of(one) for one in asked.requests])
        places = {id(one): place for place, one in enumerate(batch.results)}
        parts = [[places[id(one)] for one in ([part] if isinstance(part, Result) else part)] for part in batch]
        return Answer(batch.results, parts, batch.receipt.replayed)

    def _batch(self, served: Served, table: PrivateTable, asked: Batch | Plan, who: Principal) -> Any:
        requests = [request_of(one) for one in asked.requests or []]
        clustered = any(method_of(one).takes_clustering for one in requests)
        about: dict[str, Any] = {"max_error": asked.max_error, "rows": getattr(asked, "rows", None)}
        about |= {"epsilon": asked.epsilon, "rho": asked.rho, "weights": asked.weights}
        about["clustering"] = self.clustering(served, asked, who) if clustered else None
        return plan_batch(requests, table, served.model(asked.model, self.store), **about)

    def check(self, served: Served, asked: Explain | Batch, who: Principal) -> tuple[str, Cost]:
        """What the ledger will call it and the cost, after the body was read: public things alone."""
        table = served.opened
        if isinstance(asked, Explain):
            task, _, cost = self.task(served, asked, who)
            return task.request.label, cost if cost is not None else table.budget.cost(epsilon=1) * 0
        requests = [request_of(one) for one in asked.requests]
        if asked.max_error is None:
            return f"batch of {len(requests)}", cost_of(table, asked)
        found = self._batch(served, table.for_analyst(who.name), asked, who)[1]
        return f"batch of {len(requests)}", found.division.total

    # Free ------------------------------------------------------------------------------------------------------------

    def explain(self, release: str, asked: Record) -> Any:
        """What moves the prediction for a record, by a released sketch: no table, no model, nothing to pay."""
        sketch: Any = document_of(release, self.store)
        if not hasattr(sketch, "explain"):
            raise InputError(
                f"records are explained by a sketch; this is a release of kind {sketch.kind!r}.",
                hint="request local-sketch once, then explain records from it",
                spent="",
            )
        return sketch.explain(asked.record, prediction=asked.prediction, anchor=asked.anchor)

    def read_off(self, served: Served, asked: Reading, who: Principal) -> Any:
        """What a stand-in and other releases say together: readings, or a local explanation of a record."""
        from dpexplain.methods.posterior import posterior

        stand_in = self.result(served.name, "stand_in", asked.stand_in, who)
        used = [document_of(row.id, self.store) for one in asked.results for row in self.rows(served.name, one, who)]
        known = posterior(stand_in, served.model(asked.model, self.store), used)  # type: ignore[arg-type]
        if (asked.request is None) == (asked.record is None):
            raise InputError("give either a request or a record.", spent="")
        if asked.record is not None:
            return known.explain(asked.record, asked.prediction)
        request: Any = request_of(asked.request or {})
        if request.name_in_files == "partial-dependence":
            return known.partial_dependence(request.feature, request.grid)
        if request.name_in_files == "accumulated-effects":
            return known.accumulated_effects(request.feature, request.bins)
        raise InputError(
            f"{request.name_in_files} is not read off a posterior.",
            hint="partial-dependence, accumulated-effects, or a record",
            spent="",
        )


def document_of(release: str, store: Store) -> Result:
    """A released result, read from its document once."""
    return _parsed(release, store)


@lru_cache(KEPT)
def _parsed(release: str, store: Store) -> Result:
    with store.read() as connection:
        text = connection.scalar(sa.select(results.c.document).where(results.c.id == release))
    if text is None:
        raise InputError("there is no such release.", spent="")
    return from_json(text)


def numbers_of(answer: Any) -> JsonObject:
    """An attribution or readings as numbers for a program, with their words."""
    if isinstance(answer, Result):
        low, high = answer.interval()
        attribution: Any = answer
        facts = answer.more_facts()
        return {
            "title": answer.title,
            "features": list(attribution.space.features),
            "values": answer.values.tolist(),
            "low": low.tolist(),
            "high": high.tolist(),
            **facts,
            "caveat": answer.caveat,
            "guarantee": answer.receipt.guarantee,
        }
    return {
        "readings": [
            {
                "title": one.title,
                "feature": one.feature,
                "points": [list(map(plain, axis.points)) for axis in one.axes],
                "values": one.values.tolist(),
                "low": one.interval()[0].tolist(),
                "high": one.interval()[1].tolist(),
                "determined": one.determined().tolist(),
                "basis": one.basis,
                "doubt": one.doubt,
            }
            for one in answer
        ]
    }


def plain(value: Any) -> Any:
    """A point of an axis as JSON."""
    return value.item() if hasattr(value, "item") else value if isinstance(value, int | float | bool) else str(value)
