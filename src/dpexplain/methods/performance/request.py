"""What a caller decides about the performance of a model, checked as far as it can be without a table."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Annotated, Any

from pydantic import BeforeValidator, Field, model_validator

from dpexplain.errors import InputError
from dpexplain.methods.request import Flag, Mechanism, Must, Request

FEWEST_CELLS, MOST_CELLS = 2, 256


def as_groups(value: Any) -> Any:
    """Names, and several names for crossed groups as tuples: in one order, because the same groups are one question."""
    if isinstance(value, str) or not isinstance(value, list | tuple):
        raise ValueError
    entries = [(entry,) if isinstance(entry, str) else entry for entry in value]
    if not all(isinstance(entry, list | tuple) and entry for entry in entries):
        raise ValueError
    if not all(isinstance(name, str) for entry in entries for name in entry):
        raise ValueError
    if any(len(set(entry)) < len(entry) for entry in entries) or len({frozenset(e) for e in entries}) < len(entries):
        raise InputError("a column, or a crossing of columns, is named twice in groups.", hint='groups=["sex", "race"]')
    ordered = sorted((tuple(sorted(entry)) for entry in entries), key=lambda entry: (len(entry), entry))
    return tuple(entry[0] if len(entry) == 1 else entry for entry in ordered)


class PerformanceRequest(Request):
    """How good a model is, and for whom: rates, ROC, calibration and fairness figures, for everybody and by group."""

    target: Annotated[
        str,
        Field(description="The declared column that the model predicts."),
        Flag(text="The declared column that the model predicts. Default: the project's."),
    ]
    groups: Annotated[
        Sequence[str | Sequence[str]],
        Field(description="Columns whose values are compared; a tuple of names for crossed groups."),
        BeforeValidator(as_groups),
        Must('a list of names, or of tuples of names for crossed groups: ["sex", ("sex", "race")]'),
        Flag(""),  # the command has --group
    ] = ()
    score: Annotated[
        str | None,
        Field(description="A declared numeric column that holds the score, instead of a model."),
    ] = None
    threshold: Annotated[
        float | None,
        Field(description="From which score on a row counts as positive. By default the middle of the range."),
    ] = None
    positive: Annotated[
        str | int | float | bool | None,
        Field(description="The value of the target that counts as positive. Default: the model's label."),
        Must("a value of the target"),
    ] = None
    all_classes: Annotated[
        bool,
        Field(description="Each class of the model against the rest, and the confusion matrix of all classes."),
    ] = False
    largest_residual: Annotated[
        float | None,
        Field(
            gt=0,
            description="Regression: residuals beyond this count as this much, in either direction; a smaller one "
            "means less noise. By default the largest that the declared ranges allow.",
        ),
    ] = None
    cells: Annotated[
        int | None,
        Field(
            ge=FEWEST_CELLS,
            le=MOST_CELLS,
            description="About how many cells the scores are cut into. By default the forecast decides.",
        ),
    ] = None
    mechanism: Mechanism = None

    @model_validator(mode="after")
    def _check(self) -> PerformanceRequest:
        if self.all_classes and (self.score is not None or self.positive is not None):
            raise InputError(
                "all_classes is about all classes of a classifier: it has neither score= nor positive=.",
                hint="leave one of them out",
            )
        for name in self.columns:
            if name in (self.target, self.score):
                what = "target" if name == self.target else "score"
                raise InputError(
                    f"{name!r} is the {what}: rows cannot be grouped by it.", hint="group by another column"
                )
        if self.score == self.target:
            raise InputError("the score and the target are the same column.", hint="name the score that predicts it")
        return self

    @property
    def by(self) -> tuple[tuple[str, ...], ...]:
        """The columns of each entry of `groups`."""
        return tuple((entry,) if isinstance(entry, str) else tuple(entry) for entry in self.groups)

    @property
    def columns(self) -> list[str]:
        """The columns of all groups, each once."""
        return list(dict.fromkeys(name for entry in self.by for name in entry))

    @property
    def label(self) -> str:
        by = ", ".join(" x ".join(entry) for entry in self.by)
        return f"performance for {self.target}" + (f" by {by}" if by else "")
