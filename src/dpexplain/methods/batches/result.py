"""The results of a batch: those of its requests, what they share, and what follows from all of them together."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any, overload

from dpexplain.methods.request import Request
from dpexplain.methods.result import Result, Results
from dpexplain.receipts import Receipt

if TYPE_CHECKING:
    from dpexplain.methods.batches.forecast import BatchForecast
    from dpexplain.methods.marginals.result import Marginals
    from dpexplain.methods.posterior import Posterior
    from dpexplain.methods.stand_in.result import StandIn


class Batch(Sequence[Any]):
    """One result for each request, in their order: what the request alone would have returned.

    receipt   of the batch as a whole; each result has its own, which names its share of the cost
    forecast  what was expected, and how the total was divided
    shared    what was released first, for the requests that use it: histograms or a stand-in
    """

    def __init__(
        self,
        requests: Sequence[Request],
        results: Sequence[Any],
        shared: Sequence[Result],
        receipt: Receipt,
        forecast: BatchForecast,
        model: Any,
        domain: Callable[[], StandIn],
    ) -> None:
        self.requests, self._results, self.shared = tuple(requests), tuple(results), tuple(shared)
        self.receipt, self.forecast, self._model, self._domain = receipt, forecast, model, domain

    @overload
    def __getitem__(self, key: int | str | Request) -> Any: ...
    @overload
    def __getitem__(self, key: slice) -> Sequence[Any]: ...
    def __getitem__(self, key: int | str | Request | slice) -> Any:
        """By position, by the label of a request, or by the request."""
        if isinstance(key, int | slice):
            return self._results[key]
        for request, result in zip(self.requests, self._results, strict=True):
            if key in (request, request.label):
                return result
        raise KeyError(f"the batch has no request {str(key)[:100]!r}")

    def __len__(self) -> int:
        return len(self._results)

    @property
    def stand_in(self) -> StandIn | None:
        """The stand-in that was released with it, if there is one."""
        return next((one for one in self.shared if one.kind == "stand-in"), None)  # type: ignore[return-value]

    @property
    def marginals(self) -> Marginals | None:
        """The histograms that were released with it, if there are any."""
        return next((one.marginals for one in self.shared if one.marginals is not None), None)

    @cached_property
    def posterior(self) -> Posterior:
        """What all results say together with the stand-in: free, and made when it is asked for.

        Without a stand-in in the batch, the declared domain stands in: it has no cost either.
        """
        from dpexplain.methods.posterior import posterior

        return posterior(self.stand_in or self._domain(), self._model, self.results)

    @property
    def results(self) -> list[Result]:
        """Every single result, those of the shared parts first."""
        return list(self._each())

    def _each(self) -> Iterator[Result]:
        given = {id(one) for one in self._results}
        yield from (one for one in self.shared if id(one) not in given)
        for one in self._results:
            yield from one if isinstance(one, Results) else [one]

    def to_json(self, folder: str | Path) -> list[Path]:
        """One file for each result, which can be published and verified by itself."""
        from dpexplain.render.files import write_results

        return write_results(self.results, Path(folder), pictures=False)

    def __repr__(self) -> str:
        return f"Batch({', '.join(request.label for request in self.requests)})"
