"""What a caller decides about a ranking by interaction."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Annotated, Any, Literal

from pydantic import Field, field_validator, model_validator

from dpexplain.errors import InputError
from dpexplain.methods.rank_aggregation.request import Vote
from dpexplain.methods.request import Must, Names


class InteractionRanking(Vote):
    """Features, or pairs of them, by how strongly they interact in a model (Friedman's H)."""

    kind: Annotated[
        Literal["pairwise", "total"],
        Field(description="pairwise: pairs of features; total: each feature against all others."),
    ] = "pairwise"
    features: Annotated[Names, Field(description="Which features. Default: all of the model.")] = None
    pairs: Annotated[
        Sequence[tuple[str, str]] | None,
        Field(description="Which pairs, instead of all pairs of the features."),
        Must("a list of pairs of two different names"),
    ] = None
    against: Annotated[
        str | None, Field(description="One feature: only pairs of it with the other features are ranked.")
    ] = None
    points: Annotated[
        int,
        Field(
            ge=2,
            le=500,
            description="How many rows of a part its partial dependences are taken over and evaluated at.",
        ),
    ] = 24

    @field_validator("pairs", mode="before")
    @classmethod
    def _tuples(cls, value: Any) -> Any:
        """In JSON a pair is a list."""
        return [tuple(v) if isinstance(v, list) else v for v in value] if isinstance(value, list | tuple) else value

    @model_validator(mode="after")
    def _check(self) -> InteractionRanking:
        if self.kind == "total" and self.points == 2:
            raise InputError(
                'with two points, H of kind "total" is zero whatever the model does.', hint="use at least 3 points"
            )
        if self.pairs is not None and (self.features is not None or self.kind == "total"):
            raise InputError('pairs stand for themselves: they go without features, and with kind "pairwise" only.')
        if self.against is not None and (self.pairs is not None or self.kind == "total"):
            raise InputError('against= makes pairs: it goes without pairs=, and with kind "pairwise" only.')
        if any(one == other for one, other in self.pairs or ()):
            raise InputError("a pair has two different names.", hint='pairs=[("age", "sex"), ("age", "income")]')
        return self

    @property
    def label(self) -> str:
        return "ranking of pairs by interaction" if self.kind == "pairwise" else "ranking by total interaction"
