"""What a caller says about a black box that is run on parts of the rows: its name, its version, how many parts."""

from __future__ import annotations

import uuid
from typing import Annotated, Any

from pydantic import Field

from dpexplain.errors import InputError
from dpexplain.methods.request import Must

BUILT_IN = "built-in"  # the version of our own plain explainers
CHANGED = {"ale": "built-in, 2"}  # those whose definition is another one than the paper's, and than in version 0.1
MOST_PARTS = 2**15
PAPER_PARTS = 200  # the published number

NumberOfParts = Annotated[
    int | None, Field(ge=1, le=MOST_PARTS, description="How many parts. By default the forecast decides.")
]
FunctionName = Annotated[
    str | None,
    Field(min_length=1, description="What the ledger calls the function."),
    Must("a text that is not empty"),
]
FunctionVersion = Annotated[
    str | int | None,
    Field(
        description="With a version, the same request is answered again for free. Without one every call of the "
        "function counts as a new one, and so does every call with a model without a version."
    ),
    Must("a text"),
]


def identity_of(function: Any, name: str | None, version: str | int | None) -> tuple[str, str]:
    """Name and version of a black box in the ledger; of a function without a version, one that never comes again."""
    if isinstance(function, str):
        if name not in (None, function) or version not in (None, BUILT_IN):
            raise InputError(f"{function!r} has its own name and version.", hint="give these to functions of your own")
        return function, CHANGED.get(function, BUILT_IN)
    known_as = str(getattr(function, "__name__", "function")).strip("<>") if name is None else name
    return known_as, unversioned() if version is None else str(version)


def unversioned() -> str:
    return f"unversioned-{uuid.uuid4()}"
