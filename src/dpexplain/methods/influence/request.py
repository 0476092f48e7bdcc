"""What a caller decides about influences, checked as far as it can be without a table."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from fractions import Fraction
from typing import Annotated, Any, Literal

from pydantic import BeforeValidator, Field, model_validator

from dpexplain.core.canonical import JsonObject
from dpexplain.errors import InputError
from dpexplain.methods.request import Flag, Mechanism, Must, Request, Seed, Smooth

Item = str | Sequence[str]

PERSON = ("individual", "actual")
LEADS = {
    "average": "how often the outcome of a row changes when a column is replaced by other people's values",
    "group": "how the outcomes of a group change when a column is replaced by other people's values",
    "disparity": "what each column adds to the difference between a group and the others",
    "individual": "what each column adds to the outcome of one person",
    "actual": "how often the outcome of one person changes when a column is replaced by other people's values",
}
MARGINALS_SHARE = Fraction(1, 5)
MOST_SAMPLES, MOST_CELLS = 10_000, 101
MOST_PREDICTIONS = 2**60  # that a caller may name
PREDICTIONS = 2**25  # taken at most without a name: minutes for most models


def _share(value: Any) -> Fraction:
    try:
        share = Fraction(value).limit_denominator(10**6)
    except (TypeError, ValueError, ArithmeticError):
        share = Fraction(0)
    if not 0 < share < 1:  # also True, which is 1
        raise ValueError
    return share


def _named(value: Any) -> tuple[str, ...]:
    """One name or several different ones."""
    names = (value,) if isinstance(value, str) else tuple(value) if isinstance(value, list | tuple) else (None,)
    if not all(isinstance(name, str) for name in names):
        raise ValueError
    if len(set(names)) < len(names):
        raise InputError(f"{', '.join(names)} has a name twice."[:200])
    return names


def _items(value: Any) -> Any:
    """Names, and sets of names as tuples."""
    if value is None:
        return None
    if not isinstance(value, list | tuple) or not value:
        raise ValueError
    items = [item if isinstance(item, str) else _named(item) for item in value]
    if not all(items):
        raise InputError("a set of features has at least one.")
    if len({frozenset(set_of(item)) for item in items}) < len(items):
        raise InputError("a feature or a set of features is asked for twice.")
    return tuple(items)


def set_of(item: Item) -> tuple[str, ...]:
    return (item,) if isinstance(item, str) else tuple(item)


def records_of(row: Any) -> list[Mapping[Any, Any]]:
    """The persons in a mapping, a pandas Series, a DataFrame with a line for each, or a list of mappings."""
    if hasattr(row, "to_dict"):
        row = row.to_dict("records") if hasattr(row, "columns") else row.to_dict()
    records = [row] if isinstance(row, Mapping) else row
    if not isinstance(records, list) or not records or not all(isinstance(record, Mapping) for record in records):
        raise InputError(
            "row says who is explained: a mapping, a pandas Series, or a DataFrame with a line for each person.",
            hint='row={"age": 39, "sex": "Female"}',
        )
    return records


def _persons(row: Any) -> Any:
    records = None if row is None else records_of(row)
    return records[0] if records and len(records) == 1 else records


# Options that reports on persons have too
Outcomes = Annotated[
    Literal["class", "score"] | None,
    Field(description="What is explained. By default a class if the model has a label."),
]
Threshold = Annotated[
    float | None, Field(description="From which score on a class is positive. By default the middle of the range.")
]
Exact = Annotated[
    bool | None,
    Field(
        description="Whether Shapley and Banzhaf values take all sets of inputs, or some that are drawn (by default, "
        "what has the smaller forecast error)."
    ),
]
Row = Annotated[Any, BeforeValidator(_persons)]


class InfluenceRequest(Request):
    """What inputs do to outcomes: those of everybody, of a group, or of one person."""

    quantity: Annotated[
        Literal["average", "group", "disparity", "individual", "actual"],
        Field(
            description='"average": how often (class) or how much (score) outcomes change; "group": what inputs do to '
            'the mean outcome of a group; "disparity": to the difference between a group and all others; "individual" '
            'and "actual": the same for one person, from released marginals alone.'
        ),
    ] = "average"
    features: Annotated[
        Sequence[Item] | None,
        Field(
            description="Names, or tuples of names for sets; by default all that the model uses. One that the model "
            "does not use has no influence, and is released like the others."
        ),
        BeforeValidator(_items),
        Must("a list of names, or of tuples of names for sets"),
    ] = None
    aggregate: Annotated[
        Literal["unary", "shapley", "banzhaf"],
        Field(description='"unary": each item by itself; "shapley" or "banzhaf": shared out among single features.'),
    ] = "unary"
    given: Annotated[
        Sequence[str],
        Field(description="Features that are replaced in any case: the influence of an item beside them."),
        BeforeValidator(_named),
        Must("a name or a list of names"),
    ] = ()
    group: Annotated[Any, Field(description="{column: value, values or (low, high)}.")] = None
    outcome: Outcomes = None
    threshold: Threshold = None
    samples: Annotated[
        int | None,
        Field(
            ge=1,
            le=MOST_SAMPLES,
            description="Draws of other values for each row; of Shapley (Banzhaf) values, how many orders (sets) are "
            "drawn and then used for all rows alike.",
        ),
    ] = None
    most_predictions: Annotated[
        int | None,
        Field(
            ge=1,
            le=MOST_PREDICTIONS,
            description="How many predictions may be taken, all rows together; 33 million by default, which takes "
            "minutes with most models. Where these are too few to ask about every row once, some rows are chosen at "
            "random (4,096 at least). What chance adds is in the intervals, and where it is more than the noise, the "
            "result says so. No effect where `samples` are given.",
        ),
        Flag(text="For a table, at most. Default: 33 million, minutes for most models."),
    ] = None
    exact: Exact = None
    method: Annotated[
        Literal["default", "paper"],
        Field(
            description='"paper": values from other rows by public pairings, Laplace noise, replace-one only.',
        ),
    ] = "default"
    cells: Annotated[
        int | None,
        Field(
            ge=1,
            le=MOST_CELLS,
            description="About how many cells a column with many values has, narrow ones at its low end, where "
            "tables often have a spike. By default the forecast decides.",
        ),
    ] = None
    marginals_share: Annotated[
        float | Fraction,
        Field(description="The part of the cost that is paid for marginals."),
        BeforeValidator(_share),
        Must("a number between 0 and 1"),
    ] = MARGINALS_SHARE
    mechanism: Mechanism = None
    seed: Annotated[Seed, Field(description="The seed of public pairings, orders and sets.")] = 0
    smooth: Smooth = True
    row: Annotated[Row, Field(description='The person, for "individual" and "actual".')] = None

    @model_validator(mode="after")
    def _check(self) -> InfluenceRequest:
        items = [set_of(item) for item in self.features or ()]
        if self.aggregate != "unary" and (self.given or any(len(item) > 1 for item in items)):
            raise InputError(
                f"{self.aggregate} values share the outcome out among single features.",
                hint='name features one by one, without given=; or use aggregate="unary"',
            )
        if overlap := sorted({name for item in items for name in item} & set(self.given)):
            raise InputError(f"{overlap[0]!r} is given, so it cannot be asked for as well.")
        if self.exact and self.aggregate == "unary":
            raise InputError(
                "exact belongs to Shapley and Banzhaf values.", hint='aggregate="shapley", or leave it out'
            )
        grouped, person = self.quantity in ("group", "disparity"), self.quantity in PERSON
        if grouped != (self.group is not None):
            raise InputError(
                f"{self.quantity!r} needs a group." if grouped else f"{self.quantity!r} has no group.",
                hint='group={"sex": "Female"}' if grouped else 'leave it out, or use quantity="group" or "disparity"',
            )
        if person != (self.row is not None):
            raise InputError(
                f"{self.quantity!r} is about one person." if person else f"{self.quantity!r} has no row.",
                hint='row={"age": 39, ...}' if person else 'quantity="individual" explains one person',
            )
        if person and self.method == "paper":
            raise InputError('method="paper" is about tables.', hint="leave it out")
        if person and self.most_predictions is not None:
            raise InputError("most_predictions is about tables.", hint="use samples for a person")
        return self

    def to_json(self) -> JsonObject:
        """JSON has no tuples: an interval is written as {"low": ..., "high": ...}."""
        written = super().to_json()
        for name, wanted in (self.group or {}).items():
            if isinstance(wanted, tuple) and len(wanted) == 2:
                written["group"][name] = {"low": wanted[0], "high": wanted[1]}
        return written

    @property
    def label(self) -> str:
        names = "all features" if self.features is None else ", ".join(" + ".join(set_of(i)) for i in self.features)
        about = {"average": "", "group": " in a group", "disparity": " on a disparity"}
        return f"influence of {names}{about.get(self.quantity, ' on a person')}"

    @property
    def lead(self) -> str:
        return LEADS[self.quantity]

    @property
    def free_with_marginals(self) -> bool:
        return self.quantity in PERSON
