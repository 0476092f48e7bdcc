"""What a caller decides about partial dependence."""

from __future__ import annotations

import itertools
from collections.abc import Mapping, Sequence
from typing import Annotated, Any, Literal

from pydantic import Field, field_validator, model_validator

from dpexplain.errors import InputError
from dpexplain.methods.request import Flag, Mechanism, Must, Request, Smooth

Feature = str | tuple[str, str]


class PartialDependence(Request):
    """Curves of one feature, of several, or of pairs of features, for one cost."""

    feature: Annotated[
        Feature | list[Feature],
        Field(description="A name; a list of names (or pairs) for several curves; a pair of names for a surface."),
        Must("a name, a pair of two different names, or a list of these"),
    ]
    grid: Annotated[
        int | Mapping[str, int | Sequence[float | str]] | None,
        Field(
            description="Points of numeric columns: a number, or {feature: points}. By default the domain and the "
            "forecast decide. Where missing values are kept, one more point is that of a missing value."
        ),
        Must("a number of points, or {feature: points}"),
        Flag(metavar="POINTS", text="Grid points of numeric columns. Default: by forecast."),
    ] = None
    rug: Annotated[
        bool,
        Field(description="Also release where the rows are."),
        Flag(text="Do not release where the rows are; the curve gets it all."),
    ] = True
    method: Annotated[
        Literal["default", "paper"],
        Field(description='"paper" is the published design: 20 equidistant points, Laplace noise, nothing after it.'),
    ] = "default"
    smooth: Smooth = True
    mechanism: Mechanism = None

    @field_validator("feature", mode="before")
    @classmethod
    def _pairs(cls, value: Any) -> Any:
        """In JSON a pair is a list inside the list of features."""
        return [tuple(v) if isinstance(v, list) else v for v in value] if isinstance(value, list) else value

    @model_validator(mode="after")
    def _check(self) -> PartialDependence:
        if not self.views:
            raise InputError("name at least one feature.")
        if isinstance(self.grid, Mapping) and (unknown := set(self.grid) - set(self.features)):
            raise InputError(f"the grid names {', '.join(map(repr, sorted(unknown)))}, which is not asked for.")
        if any(len(set(view)) < len(view) for view in self.views):
            raise InputError("a feature is a name, or a pair of two different names.")
        if len(set(self.views)) < len(self.views):
            raise InputError("a feature is named twice.")
        return self

    @property
    def single(self) -> bool:
        """Whether one curve was asked for, and not a list of them."""
        return not isinstance(self.feature, list)

    @property
    def views(self) -> list[tuple[str, ...]]:
        asked = self.feature if isinstance(self.feature, list) else [self.feature]
        return [view if isinstance(view, tuple) else (view,) for view in asked]

    @property
    def features(self) -> list[str]:
        """Every feature once, in the order asked."""
        return list(dict.fromkeys(itertools.chain.from_iterable(self.views)))

    @property
    def label(self) -> str:
        return "partial dependence of " + ", ".join(" x ".join(view) for view in self.views)
