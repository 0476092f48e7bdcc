"""What a caller decides about influences, checked as far as it can be without a table."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from fractions import Fraction
from typing import Any

from dpexplain.data.public_random import PublicRandom
from dpexplain.errors import InputError
from dpexplain.maths.grids import WHOLE_NUMBERS
from dpexplain.methods.marginals.release import share_of

Item = str | Sequence[str]

TABLE, PERSON = ("average", "group", "disparity"), ("individual", "actual")
AGGREGATES = ("unary", "shapley", "banzhaf")
MARGINALS_SHARE = Fraction(1, 5)
MOST_SAMPLES = 10_000
MOST_PREDICTIONS = 2**60  # that a caller may name
PREDICTIONS = 2**25  # taken at most without a name: minutes for most models


@dataclass(frozen=True, kw_only=True)
class InfluenceRequest:
    """The request: everything about the release that a caller decides.

    quantity   "average": how often (class) or how much (score) outcomes change; "group": what inputs do to the mean
               outcome of a group; "disparity": to the difference between a group and all others; "individual" and
               "actual": the same for one person, `row`, from released marginals alone
    features   names, or tuples of names for sets (default: all that the model uses). One that the model does not use
               has no influence, and is released like the others
    aggregate  "unary": each item by itself; "shapley" or "banzhaf": shared out among single features
    given      features that are replaced in any case: the influence of an item beside them
    group      {column: value, values or (low, high)}
    outcome    "class" or "score" (default: a class if the model has a label), with the `threshold` of a class
    samples    draws of other values for each row; of Shapley (Banzhaf) values, how many orders (sets) are drawn and
               then used for all rows alike
    most_predictions  how many predictions may be taken, all rows together; 33 million by default (2^25), which takes
               minutes with most models. Where these are too few to ask about every row once, some rows are chosen at
               random (4,096 at least). What chance adds is in the intervals, and where it is more than the noise, the
               result says so. No effect where `samples` are given
    exact      whether Shapley and Banzhaf values take all sets of inputs, or orders (sets) that each row draws for
               itself (default: what has the smaller forecast error; drawn ones for more than 8 inputs)
    method     "default", or "paper": values from other rows by public pairings, Laplace noise, replace-one only
    cells      about how many for a column with many values; narrow ones at its low end, where many tables have a spike
               (default: for a table by forecast, for a person 24)
    marginals_share  the part of the price that is paid for marginals
    mechanism  "cube", "discrete-laplace" or "discrete-gaussian" instead of the one with the smallest forecast error
    seed       of public pairings, orders and sets
    row        the person, for "individual" and "actual"
    """

    quantity: str = "average"
    features: Sequence[Item] | None = None
    aggregate: str = "unary"
    given: Sequence[str] = ()
    group: Any = None
    outcome: str | None = None
    threshold: float | None = None
    samples: int | None = None
    most_predictions: int | None = None
    exact: bool | None = None
    method: str = "default"
    cells: int | None = None
    marginals_share: Any = MARGINALS_SHARE
    mechanism: str | None = None
    seed: int = 0
    row: Any = None

    def __post_init__(self) -> None:
        _one_of(self.quantity, (*TABLE, *PERSON), "quantity")
        _one_of(self.aggregate, AGGREGATES, "aggregate")
        _one_of(self.method, ("default", "paper"), "method")
        if self.outcome is not None:
            _one_of(self.outcome, ("class", "score"), "outcome")
        object.__setattr__(self, "given", _names(self.given, "given"))
        if self.features is not None:
            object.__setattr__(self, "features", _items(self.features))
        self._check_items()
        self._check_people()
        _whole(self.samples, "samples", MOST_SAMPLES)
        _whole(self.cells, "cells", WHOLE_NUMBERS)
        _whole(self.most_predictions, "most_predictions", MOST_PREDICTIONS)
        if self.exact not in (None, True, False):
            raise InputError("exact is true, false or left out.")
        if self.exact and self.aggregate == "unary":
            raise InputError(
                "exact belongs to Shapley and Banzhaf values.", hint='aggregate="shapley", or leave it out'
            )
        object.__setattr__(self, "marginals_share", share_of(self.marginals_share))
        PublicRandom(self.seed)

    def _check_items(self) -> None:
        items = [] if self.features is None else [set_of(item) for item in self.features]
        if self.aggregate != "unary" and (self.given or any(len(item) > 1 for item in items)):
            raise InputError(
                f"{self.aggregate} values share the outcome out among single features.",
                hint='name features one by one, without given=; or use aggregate="unary"',
            )
        if overlap := sorted({name for item in items for name in item} & set(self.given)):
            raise InputError(f"{overlap[0]!r} is given, so it cannot be asked for as well.")

    def _check_people(self) -> None:
        grouped = self.quantity in ("group", "disparity")
        if grouped != (self.group is not None):
            raise InputError(
                f"{self.quantity!r} needs a group." if grouped else f"{self.quantity!r} has no group.",
                hint='group={"sex": "Female"}' if grouped else 'leave it out, or use quantity="group" or "disparity"',
            )
        if (self.quantity in PERSON) != (self.row is not None):
            raise InputError(
                f"{self.quantity!r} is about one person." if self.row is None else f"{self.quantity!r} has no row.",
                hint='row={"age": 39, ...}' if self.row is None else 'quantity="individual" explains one person',
            )
        if self.quantity in PERSON and self.method == "paper":
            raise InputError('method="paper" is about tables.', hint="leave it out")
        if self.quantity in PERSON and self.most_predictions is not None:
            raise InputError("most_predictions is about tables.", hint="use samples for a person")

    @property
    def label(self) -> str:
        names = "all features" if self.features is None else ", ".join(" + ".join(set_of(i)) for i in self.features)
        about = {"average": "", "group": " in a group", "disparity": " on a disparity"}.get(
            self.quantity, " on a person"
        )
        return f"influence of {names}{about}"


def _one_of(value: Any, known: Sequence[str], what: str) -> None:
    if value not in known:
        raise InputError(f"unknown {what} {value!r}."[:200], hint="use " + ", ".join(f'"{name}"' for name in known))


def _whole(value: Any, what: str, most: int) -> None:
    number = isinstance(value, int) and not isinstance(value, bool)
    if value is not None and not (number and 1 <= value <= most):
        raise InputError(f"{what} must be a whole number from 1 to {most}; got {value!r}."[:200])


def set_of(item: Item) -> tuple[str, ...]:
    return (item,) if isinstance(item, str) else tuple(item)


def _names(value: Any, what: str) -> tuple[str, ...]:
    """One name or several different ones."""
    listed = isinstance(value, str | Sequence) and not isinstance(value, bytes)
    names = set_of(value) if listed else ()
    if not listed or not all(isinstance(name, str) for name in names):
        raise InputError(f"{what} is a name or a list of names; got {value!r}."[:200])
    if len(set(names)) < len(names):
        raise InputError(f"{what} has a name twice.")
    return names


def _items(value: Any) -> tuple[Item, ...]:
    """Names, and sets of names as tuples."""
    if isinstance(value, str) or not isinstance(value, Sequence) or not len(value):
        raise InputError(
            "features must be a list of names, or of tuples of names for sets.",
            hint='features=["age", ("sex", "race")], or leave it out for all',
        )
    items = [item if isinstance(item, str) else _names(item, "a set of features") for item in value]
    if any(not item for item in items):
        raise InputError("a set of features has at least one.")
    if len({frozenset(set_of(item)) for item in items}) < len(items):
        raise InputError("a feature or a set of features is asked for twice.")
    return tuple(items)
