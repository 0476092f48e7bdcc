"""What a caller decides about a report, checked as far as it can be without a table."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Annotated, Any, Literal

from pydantic import BeforeValidator, Field, model_validator

from dpexplain.errors import InputError
from dpexplain.methods.performance.request import as_groups
from dpexplain.methods.request import Must, Names, Request

SectionName = Literal["performance", "importance", "effects", "interactions", "groups", "clusters", "persons"]
SECTIONS: tuple[SectionName, ...] = (
    "performance", "importance", "effects", "interactions", "groups", "clusters", "persons",
)  # fmt: skip
MOST_TITLE = 150  # letters


def _sections(value: Any) -> Any:
    """Names of sections in the order of the page."""
    if value is None:
        return None
    names = [value] if isinstance(value, str) else list(value)
    unknown = [name for name in names if name not in SECTIONS]
    if unknown or not names:
        raise InputError(
            f"there is no section {str(unknown[0])[:60]!r}." if unknown else "a report has at least one section.",
            hint="there is: " + ", ".join(SECTIONS),
        )
    return tuple(name for name in SECTIONS if name in names)


class ReportRequest(Request):
    """A report: which questions it answers, for whom, and about which columns."""

    target: Annotated[
        str | None,
        Field(description="The declared column that the model predicts. Without it, nobody asks how good it is."),
    ] = None
    positive: Annotated[
        str | int | float | bool | None,
        Field(description="The value of the target that counts as positive. Default: the model's label."),
        Must("a value of the target"),
    ] = None
    groups: Annotated[
        Sequence[str | Sequence[str]],
        Field(description="Columns whose values are compared; a tuple of names for crossed groups."),
        BeforeValidator(as_groups),
        Must('a list of names, or of tuples of names for crossed groups: ["sex", ("sex", "race")]'),
    ] = ()
    compared: Annotated[
        Mapping[str, Any] | None,
        Field(
            description="The group whose difference to all others is explained: {column: value}. By default the last "
            "value of the first column of groups that has two."
        ),
        Must('a group: {"sex": "Female"}'),
    ] = None
    features: Annotated[
        Names,
        Field(
            description="Columns whose effects are shown. By default those that move the model most over its declared "
            "domain, which is public."
        ),
    ] = None
    most_features: Annotated[
        int, Field(ge=1, le=40, description="How many columns are chosen, where none are named.")
    ] = 8
    sections: Annotated[
        Sequence[str] | None,
        Field(description="Which sections it has. By default every one that can be answered."),
        BeforeValidator(_sections),
    ] = None
    persons: Annotated[int, Field(ge=0, le=8, description="How many synthetic persons are explained.")] = 3
    title: Annotated[
        str | None, Field(max_length=MOST_TITLE, description="Of the page. By default from model and table.")
    ] = None

    @model_validator(mode="after")
    def _check(self) -> ReportRequest:
        if self.title is not None and (not self.title.strip() or not self.title.isprintable()):
            raise InputError("the title is a text in one line.", hint='title="Doctor visits in 2026"')
        for name, needed in (("performance", self.target), ("groups", self.groups or self.compared)):
            if self.sections is not None and name in self.sections and not needed:
                raise InputError(
                    f"the section {name} needs {'a target' if name == 'performance' else 'groups'}.",
                    hint='target="income"' if name == "performance" else 'groups=["sex"]',
                )
        return self

    @property
    def label(self) -> str:
        return "report" if self.target is None else f"report for {self.target}"
