"""What a prediction is measured against: a declared column as numbers, or whether it has one value."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from dpexplain.columns import Date
from dpexplain.core.domain import Categorical, Domain, Numeric, PublicRange
from dpexplain.data.public_random import Generator
from dpexplain.data.rows import Rows
from dpexplain.errors import InputError
from dpexplain.maths.coded import Coded
from dpexplain.models import Predictor


@dataclass(frozen=True)
class Target(Coded):
    """How the target column becomes numbers: as it is, or 1 for one value and 0 for all others."""

    numbers: tuple[float, ...] | None  # what each category stands for; None for a numeric column
    one: float | None  # the value of a numeric column that counts as one; None: the number itself

    def __call__(self, values: NDArray[Any]) -> NDArray[np.float64]:
        """The numbers of the (clean) values of the column."""
        if self.numbers is not None:
            return np.asarray(self.numbers, dtype=np.float64).take(values)
        return np.asarray(values if self.one is None else values == self.one, dtype=np.float64)

    @property
    def binary(self) -> bool:
        """Whether it is about something that happened or did not."""
        return self.one is not None or (self.numbers is not None and set(self.numbers) <= {0.0, 1.0})


def target_of(name: str, domain: Domain, label: Any) -> Target:
    """What is measured against predictions: the column's own numbers; or, with a label, whether it has that value."""
    column = domain.column(name)
    label = label.item() if isinstance(label, np.generic) else label
    if isinstance(column, Date):
        raise InputError(f"the target {name!r} is a date, which no prediction is compared with.")
    if isinstance(column, Categorical):
        if label is not None and label not in column.categories:
            raise InputError(
                f"the target {name!r} has no category {label!r}.",
                hint="declared are: " + ", ".join(map(repr, column.categories)),
            )
        if label is not None:
            return Target(tuple(float(c == label) for c in column.categories), None)
        if any(isinstance(c, str) for c in column.categories):
            raise InputError(
                f"the target {name!r} is categorical: say which of its values counts as one.",
                hint=f"Model(..., label={column.categories[-1]!r}), or positive=... for permutation importance",
            )
        return Target(tuple(float(c) for c in column.categories), None)
    assert isinstance(column, Numeric)
    if column.keeps_missing:
        raise InputError(
            f"the target {name!r} keeps missing values, and no prediction can be measured against them.",
            hint="declare the number that a missing one becomes: missing=0",
        )
    if label is None:
        return Target(None, None)
    if not isinstance(label, int | float) or not column.low <= label <= column.high:
        raise InputError(
            f"the target {name!r} is a number from {column.low:g} to {column.high:g}, and never {label!r}.",
            hint="declare it as dpx.Categorical with the classes of the model",
        )
    return Target(None, float(label))


def own_class(name: str, domain: Domain, classes: Sequence[Any]) -> Target:
    """What is measured where all classes are explained together: that a row has the class it has, which always holds,
    against the probability of that class (`models.classes.OwnClass`).
    """
    column = domain.column(name)
    if not isinstance(column, Categorical) or not set(column.categories) & set(classes):
        raise InputError(
            f"the target {name!r} has none of the model's classes: {', '.join(map(repr, classes))}."[:400],
            hint="declare it as dpx.Categorical with these classes",
        )
    return Target((1.0,) * len(column.categories), None)


def with_likely_target(
    rows: Rows,
    name: str,
    target: Target,
    predictor: Predictor,
    output: PublicRange,
    draw: Generator,
    spread: float = 0.0,
) -> Rows:
    """Synthetic rows with the target that the model expects: a class by its probability, or the number that it says.

    spread  standard deviation of a number around what the model says
    """
    column = rows.domain[name]
    said = np.nan_to_num(predictor.predict_at(predictor.inputs(rows), {}), nan=output.middle)
    if target.binary:
        likely = (said - output.low) / output.width
        said = (draw.random(rows.size) < likely).astype(np.float64)
    elif spread:
        said = said + spread * draw.normal(size=rows.size)
    if isinstance(column, Numeric):
        if target.one is not None:  # any other number counts as zero
            said = np.where(said == 1, target.one, column.low if target.one == column.high else column.high)
        values = column.clean(said)
    else:
        numbers = np.asarray(target.numbers, dtype=np.float64)
        values = np.abs(said[:, None] - numbers).argmin(axis=1).astype(np.int32)
    return Rows(rows.domain, {**rows.columns, name: values}, rows.size)
