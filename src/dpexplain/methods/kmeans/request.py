"""What a caller decides about private k-means."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Annotated, Any, Literal

from pydantic import Field, model_validator

from dpexplain.errors import InputError
from dpexplain.methods.request import Must, Names, Request, Seed


class KMeans(Request):
    """k clusters of the rows: each row belongs to the nearest of k released centres."""

    k: Annotated[int, Field(ge=2, le=100, description="How many clusters.")]
    features: Annotated[
        Names,
        Field(description="Those in which distances are measured. Default: the numeric columns, or all if none is."),
    ] = None
    rounds: Annotated[
        int | None,
        Field(ge=1, le=50, description="Rounds of Lloyd's algorithm, after the survey. Default: by forecast."),
    ] = None
    start: Annotated[
        Literal["marginals", "domain"] | list[Any] | tuple[Any, ...],
        Field(
            description='"marginals": where the rows are, by histograms that a tenth of the cost is for. "domain": '
            "cells spread evenly over the declared domain. Or k records, public ones: then rounds alone, no survey."
        ),
        Must('"marginals", "domain", or a list of k records'),
    ] = "marginals"
    labels: Annotated[
        Sequence[str] | None,
        Field(description="Names of the clusters, in the order in which they are found. Other names cost nothing."),
        Must("a list of names, one for each cluster"),
    ] = None
    seed: Annotated[Seed, Field(description="The seed: another one gives other cells.")] = 0

    @model_validator(mode="after")
    def _check(self) -> KMeans:
        if not isinstance(self.start, str) and len(self.start) != self.k:
            raise InputError(f"{len(self.start)} records to start from were given for {self.k} clusters.")
        if self.labels is not None and len(self.labels) != self.k:
            raise InputError(f"{len(self.labels)} labels were given for {self.k} clusters.")
        return self

    @property
    def label(self) -> str:
        return f"k-means, {self.k} clusters" + ("" if self.features is None else " of " + ", ".join(self.features))
