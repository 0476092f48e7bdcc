"""What a caller decides about accumulated effects."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Annotated, Literal

from pydantic import Field, model_validator

from dpexplain.errors import InputError
from dpexplain.methods.request import Flag, Mechanism, Must, Request

MOST_BINS = 100


class AccumulatedEffects(Request):
    """Curves of one feature or of several, for one cost."""

    feature: Annotated[
        str | Sequence[str],
        Field(description="A name, or a list of names for several curves."),
        Must("a name, or a list of names: accumulated effects are of single features, not of pairs"),
    ]
    bins: Annotated[
        int | None,
        Field(ge=1, le=MOST_BINS, description="The most bins of a numeric feature; by default the forecast decides."),
    ] = None
    clip: Annotated[
        float | None,
        Field(
            gt=0,
            allow_inf_nan=False,
            description="The largest effect of one row in one bin that counts in full, in units of the output. By "
            "default the whole output range: nothing is cut off, and intervals leave nothing out.",
        ),
        Must("a number above 0, in units of the output"),
    ] = None
    method: Annotated[
        Literal["default", "paper"],
        Field(description='"paper" is the published design: 20 private quantiles, equal mass, Laplace, no shrinking.'),
    ] = "default"
    smooth: Annotated[
        bool,
        Field(
            description="Combine the released values with what the model says about synthetic rows (free). False shows "
            "them as they were released."
        ),
        Flag(text="Show the released values as they are."),
    ] = True
    mechanism: Mechanism = None

    @model_validator(mode="after")
    def _check(self) -> AccumulatedEffects:
        if not self.features:
            raise InputError("name at least one feature.")
        if len(set(self.features)) < len(self.features):
            raise InputError("a feature is named twice.")
        return self

    @property
    def single(self) -> bool:
        """Whether one curve was asked for, and not a list of them."""
        return isinstance(self.feature, str)

    @property
    def features(self) -> list[str]:
        return [self.feature] if isinstance(self.feature, str) else list(self.feature)

    @property
    def label(self) -> str:
        return "accumulated effects of " + ", ".join(self.features)
