"""What a caller decides about a comparison: what is compared, and how far two models may differ."""

from __future__ import annotations

from typing import Annotated, Any

from pydantic import BeforeValidator, Field, PlainSerializer, model_validator

from dpexplain.errors import InputError
from dpexplain.methods.partial_dependence.request import PartialDependence
from dpexplain.methods.performance.request import PerformanceRequest
from dpexplain.methods.permutation_importance.request import PermutationImportance
from dpexplain.methods.registry import request_from_json
from dpexplain.methods.request import Must, Request

COMPARED = (PartialDependence, PermutationImportance, PerformanceRequest)


def _request(value: Any) -> Any:
    """In files a request is a mapping, with its name."""
    found = request_from_json(value) if isinstance(value, dict) else value
    if not isinstance(found, COMPARED):
        raise ValueError
    return found


class Compare(Request):
    """The difference of two models, or of two versions of a table: of curves, importances, or rates by group."""

    request: Annotated[
        Any,
        Field(description="What is compared: requests.PartialDependence, PermutationImportance or Performance."),
        BeforeValidator(_request),
        PlainSerializer(lambda request: request.to_json()),
        Must(
            "dpx.requests.PartialDependence, dpx.requests.PermutationImportance or dpx.requests.Performance, with "
            "its options"
        ),
    ]
    limit: Annotated[
        float | None,
        Field(
            gt=0,
            description="Curves of two models: by how much predictions for one row may differ; larger differences "
            "count as this much. A smaller limit means less noise. By default as far as the output ranges allow.",
        ),
    ] = None

    @model_validator(mode="after")
    def _check(self) -> Compare:
        if self.limit is not None and not isinstance(self.request, PartialDependence):
            raise InputError("a limit belongs to the curves of two models.", hint="leave limit= out")
        if getattr(self.request, "method", "default") == "paper":
            raise InputError(
                'a comparison has no published form: method="paper" is of single models.', hint="leave it out"
            )
        if isinstance(self.request, PermutationImportance) and self.request.method == "marginals":
            raise InputError("a comparison takes other values from other rows.", hint="leave the method out")
        if isinstance(self.request, PerformanceRequest):
            left = ("score", "all_classes", "largest_residual", "cells", "mechanism")
            default = {name: type(self.request).model_fields[name].default for name in left}
            if given := [name for name, value in default.items() if getattr(self.request, name) != value]:
                raise InputError(
                    f"{given[0]} has no meaning for differences of rates.",
                    hint="target, groups, threshold and positive are what they need",
                )
        return self

    @property
    def label(self) -> str:
        return f"difference of {self.request.label}"
