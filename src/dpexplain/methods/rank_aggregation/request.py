"""What a caller decides about a ranking by votes."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import cached_property
from typing import Annotated, Any, Literal, Self

from pydantic import Field, model_validator

from dpexplain.errors import InputError
from dpexplain.methods.black_box import FunctionName, FunctionVersion, NumberOfParts, identity_of
from dpexplain.methods.request import Flag, Mechanism, Must, Names, Request


class Vote(Request):
    """What all rankings by votes have: each part of the rows is one vote."""

    parts: NumberOfParts = None
    k: Annotated[int | None, Field(ge=1, description="Release the best k only, more surely."), Flag("--top", "K")] = (
        None
    )
    mechanism: Mechanism = None
    method: Annotated[
        Literal["default", "paper"],
        Field(
            description='"paper" is the published form: its bound on one vote, Laplace noise, all items, and 200 '
            "parts where no other number is asked for and there are rows for so many."
        ),
    ] = "default"

    @model_validator(mode="after")
    def _check_published(self) -> Self:
        if self.method == "paper" and (self.k is not None or self.mechanism is not None):
            raise InputError(
                'method="paper" releases all items with Laplace noise.', hint="leave k= and mechanism= out"
            )
        return self


class RankAggregation(Vote):
    """A ranking of items by any ranker, a black box that is run on parts of the rows."""

    ranker: Annotated[
        Callable[..., Any] | Literal["importance"],
        Field(
            description="A function (rows, model) that returns all items, the best first, or a number for each (higher "
            "is better), or {item: number}; or importance, our own plain permutation importance."
        ),
        Must('a function (rows, model), or "importance"'),
    ]
    items: Annotated[
        Sequence[str] | None,
        Field(description="The names that are ranked, in a public order. For importance: features, by default all."),
        Must("a list of at least two names"),
    ] = None
    target: Annotated[str | None, Field(description="The column that the model predicts, for importance.")] = None
    columns: Annotated[Names, Field(description="The columns that the function sees. Default: all declared ones.")] = (
        None
    )
    name: FunctionName = None
    version: FunctionVersion = None

    @model_validator(mode="after")
    def _check(self) -> RankAggregation:
        if self.items is None and self.built_in is None:
            raise InputError("name the items that the function ranks.", hint='items=["age", "sex"]')
        if self.items is not None:
            checked_items(self.items)
        if (self.target is None) is (self.built_in is not None):
            raise InputError(
                'the target belongs to the ranker "importance", which cannot do without it.',
                hint='target="income": the declared column that the model predicts',
            )
        self.identity  # noqa: B018 - wrong ones are refused here
        return self

    @cached_property
    def identity(self) -> tuple[str, str]:
        """Name and version in the ledger."""
        return identity_of(self.ranker, self.name, self.version)

    @property
    def built_in(self) -> str | None:
        return self.ranker if isinstance(self.ranker, str) else None

    @property
    def label(self) -> str:
        return f"ranking by {self.identity[0]}"


def checked_items(items: Sequence[str]) -> tuple[str, ...]:
    """The items of a ranking: at least two, and different ones."""
    if len(items) < 2:
        raise InputError("items must be a list of at least two names.", hint="one item has nothing to be ranked with")
    if len(set(items)) < len(items):
        raise InputError("an item is named twice.")
    return tuple(items)
