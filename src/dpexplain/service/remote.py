"""What stands on the client's side for what is behind a service: tables, models, batches, readings."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import TYPE_CHECKING, Any

from dpexplain.columns import domain_from_json
from dpexplain.core.budget import Budget, Cost
from dpexplain.core.canonical import JsonObject
from dpexplain.core.domain import Domain
from dpexplain.core.sensitivity import Neighbours
from dpexplain.errors import InputError
from dpexplain.methods.batches.release import FIRST
from dpexplain.methods.batches.result import Batch
from dpexplain.methods.request import Request
from dpexplain.methods.result import Result

if TYPE_CHECKING:
    import pandas as pd

    from dpexplain.methods.stand_in.result import StandIn


@dataclass(frozen=True)
class RemoteTable:
    """What is public about a table behind a service."""

    name: str
    public: JsonObject = field(repr=False)

    @cached_property
    def domain(self) -> Domain:
        return domain_from_json(self.public["domain"])

    @property
    def version(self) -> str:
        return str(self.public["version"])

    @property
    def size(self) -> int | None:
        found: int | None = self.public["rows"]
        return found

    @property
    def budget(self) -> Budget:
        return Budget.from_json(self.public["budget"])

    @property
    def neighbours(self) -> Neighbours:
        return Neighbours.from_json(self.public["neighbours"])

    def cost(self, *, epsilon: Any = None, rho: Any = None) -> Cost:
        """The cost of one release in this account's definition."""
        return self.budget.cost(epsilon=epsilon, rho=rho)


@dataclass(frozen=True)
class RemoteModel:
    """A model behind a service, by its version; the project's own without one."""

    version: str | None = None


@dataclass(frozen=True)
class RemoteClustering:
    """The clustering of the project behind a service."""


@dataclass(frozen=True)
class RemoteForecast:
    """The forecast of a batch, as the service tells it."""

    text: str = field(repr=False)
    price: str
    facts: JsonObject = field(repr=False)

    def to_frame(self) -> pd.DataFrame:
        """A line for each part."""
        import pandas as pd

        return pd.DataFrame(self.facts["parts"])

    def to_json(self) -> JsonObject:
        return self.facts

    def __str__(self) -> str:
        return self.text


class ServedBatch(Batch):
    """The results of a batch behind a service; its forecast is what `client.plan` says, so there is none here.

    read_off  (stand-in, model, results) -> what they say together
    """

    def __init__(
        self, requests: Sequence[Request], given: Sequence[Any], found: Sequence[Result],
        read_off: Callable[..., RemotePosterior], model: Any,
    ) -> None:  # fmt: skip
        shared = [one for one in found if one.kind in FIRST]
        forecast: Any = None
        super().__init__(requests, given, shared, found[0].receipt, forecast, model, self._none)
        self._read_off = read_off

    @staticmethod
    def _none() -> StandIn:
        raise InputError(
            "this batch has no stand-in to read from.", hint='client.stand_in(table, grade="domain") is free', spent=""
        )

    @cached_property
    def posterior(self) -> Any:
        """What all results say together with the stand-in of the batch: free."""
        return self._read_off(self.stand_in or self._domain(), self._model, self.results)


@dataclass(frozen=True)
class ServedReading:
    """Numbers that were read off behind a service, with 95 % intervals that nothing proves; `basis` says on what."""

    title: str
    feature: str
    points: list[list[Any]]
    values: Any
    low: Any
    high: Any
    determined: Any
    basis: str
    doubt: str

    def interval(self) -> tuple[Any, Any]:
        """(low, high), for 95 %."""
        return self.low, self.high

    def to_frame(self) -> pd.DataFrame:
        """A table for people: where, estimate, interval."""
        import pandas as pd

        where = pd.DataFrame(list(itertools.product(*self.points)), columns=self.feature.split(" x "))
        numbers = {"value": self.values, "low": self.low, "high": self.high, "determined": self.determined}
        return pd.concat([where, pd.DataFrame(numbers)], axis=1)


@dataclass(frozen=True)
class RemotePosterior:
    """What a stand-in and released results say together, asked behind a service. Free.

    ask  from what is read off to the answer of the service
    """

    ask: Callable[[JsonObject], Any] = field(repr=False)

    def partial_dependence(self, features: Any, grid: Any = None) -> list[ServedReading]:
        """The mean prediction at every point of a public grid."""
        return self._curves("partial-dependence", {"feature": features, "grid": grid})

    def accumulated_effects(self, features: Any, bins: int | None = None) -> list[ServedReading]:
        """How the prediction changes along a column, for the rows that have about that value."""
        return self._curves("accumulated-effects", {"feature": features, "bins": bins})

    def explain(self, record: Any, prediction: float | None = None) -> JsonObject:
        """What moves the prediction for one record: features, contributions and their intervals."""
        found: JsonObject = self.ask({"record": plain(record), "prediction": prediction})
        return found

    def expect(self, function: Any) -> None:  # noqa: ARG002
        """Means of any function of a row are read off in Python alone."""
        raise InputError("a function cannot be sent to a service.", hint="dpx.posterior, where the model is", spent="")

    def _curves(self, name: str, options: JsonObject) -> list[ServedReading]:
        given = {key: plain(value) for key, value in options.items() if value is not None}
        return [ServedReading(**one) for one in self.ask({"request": {"request": name, **given}})["readings"]]


def plain(value: Any) -> Any:
    """Frames and series as records: a request is JSON."""
    if hasattr(value, "to_dict"):
        return value.to_dict("records") if getattr(value, "ndim", 1) == 2 else value.to_dict()
    return value
