"""What a caller decides about a stand-in."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Annotated, Any, ClassVar, Literal

from pydantic import Field

from dpexplain.methods.request import Names, Request


class StandInRequest(Request):
    """A distribution over the declared columns, released once; synthetic rows are drawn from it, free."""

    free_options: ClassVar[Mapping[str, Any]] = {"grade": "domain"}

    features: Annotated[Names, Field(description="Which columns it has; by default all declared ones.")] = None
    target: Annotated[
        str | None,
        Field(description="The column that a model predicts: it is one of the columns, and named in the result."),
    ] = None
    grade: Annotated[
        Literal["auto", "domain", "marginals", "tree"],
        Field(
            description="domain: every declared value is as likely as any other, free, and the table is not read; "
            "marginals: columns by themselves; tree: also the pairs of columns that belong together most; "
            "auto: of the last two the one that the forecast prefers, by public things.",
        ),
    ] = "auto"

    @property
    def label(self) -> str:
        named = "all columns" if self.features is None else ", ".join(self.features)
        return f"stand-in for {named}" + (", the domain alone" if self.free else "")
