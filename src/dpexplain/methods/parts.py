"""What releases over parts of the rows have in common (sample and aggregate; Nissim, Raskhodnikova, Smith 2007).

Rows are dealt to a public number of parts, a black box looks at each part by itself, and its answers are clipped to a
public box and added up. One unit changes one part, or two (`Assignment.changed_parts`), whatever the black box does.

A black box that fails on a part must not say so. It is tried on synthetic parts before anything is paid for; there it
may be quoted. On real parts it runs in another thread than the main one, where whatever it raises is only a failed
part.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import pandas as pd

from dpexplain.core.canonical import JsonObject
from dpexplain.core.sensitivity import Assignment, Neighbours
from dpexplain.data.dealing import Dealt
from dpexplain.data.public_random import PublicRandom
from dpexplain.data.rows import Rows
from dpexplain.data.table import PrivateTable
from dpexplain.errors import InputError
from dpexplain.maths.coded import Coded
from dpexplain.methods.black_box import MOST_PARTS, PAPER_PARTS, unversioned
from dpexplain.methods.plain.grouped import Floats
from dpexplain.models import Model, frame_of

Function = Callable[..., Any]  # (rows: pd.DataFrame, model) -> an answer

UNKNOWN_ROWS_PARTS = PAPER_PARTS  # where nothing is known about the number of rows
MOST_CALLS = 1_000  # of a user's function, unless asked for more
MOST_SYNTHETIC_ROWS = 500
ONE_AT_A_TIME: dict[str, Any] = {"parallel": False, "at_once": 0}  # parts, for a function that nothing is known about


@dataclass(frozen=True)
class Dealing(Coded):
    """How rows are dealt: to how many parts, by which rule, and how many of them one unit changes."""

    number: int
    assignment: Assignment
    changed: int

    def __post_init__(self) -> None:
        if not 0 < self.number < 2**31:
            raise ValueError("no number of parts")


def answers(
    dealt: Dealt, function: Function, model: Any, columns: Sequence[str], understood: Callable[[Any], Floats]
) -> Floats:
    """What `function` says about each part, in the order of their numbers, as `understood` reads it.

    It gets a new DataFrame of these columns each time, which it may write into. `understood(None)` stands for a part
    without rows, one on which the function fails, or says what cannot be read. Engines call this in another thread than
    the main one, whose KeyboardInterrupt would be a real one.
    """
    return np.array([_answer(frame_of(rows.domain, columns, rows), function, model, understood) for rows in dealt])


def _answer(frame: pd.DataFrame, function: Function, model: Any, understood: Callable[[Any], Floats]) -> Floats:
    try:
        if len(frame):
            return understood(function(frame, model))
    except BaseException:  # whatever it raises may quote a row; some libraries raise what is no Exception
        return understood(None)
    return understood(None)


def original(model: Any) -> Any:
    """What a user's function gets as its model: what the user made the `dpx.Model` of, or any other object."""
    return model.original if isinstance(model, Model) else model


def identified(table: PrivateTable, model: Any) -> JsonObject | None:
    """What identifies a model that is handed to a function. One without a version never comes again: the function may
    look at anything in it, so nothing tells whether it is still the same.
    """
    if model is None:
        return None
    if not isinstance(model, Model):
        return {"name": type(model).__name__, "version": unversioned()}
    if not model.versioned:
        return {**model.identity, "version": unversioned()}
    table.predictor(model)
    return model.identity


def required_model(model: Any, what: str) -> Model:
    if not isinstance(model, Model):
        raise InputError(f"{what} needs a dpx.Model.", hint="model=dpx.Model(estimator, output=(0, 1))")
    return model


def try_out(
    function: Function,
    model: Any,
    columns: Sequence[str],
    problem: Callable[[Any], str],
    table: PrivateTable,
    parts: int,
    feature: str | None = None,
) -> None:
    """Refuse a function that fails on synthetic parts, one of them with a constant `feature`; these are public, so it
    may be quoted.
    """
    for where, rows in _synthetic_parts(table, parts, feature):
        try:
            wrong = problem(function(frame_of(rows.domain, columns, rows), model))
        except KeyboardInterrupt:
            raise
        except BaseException as error:  # some libraries raise what is no Exception
            wrong = f"it raises {type(error).__name__}: {error}"
        if wrong:
            raise InputError(
                f"the function cannot be used: on a part of {where}, {wrong}.",
                hint="it must answer for every part of rows of the declared domain; try it on synthetic rows, or use "
                "fewer parts with more rows each",
            )


def _synthetic_parts(table: PrivateTable, parts: int, feature: str | None) -> Iterator[tuple[str, Rows]]:
    """Public rows of the declared domain: about as many as a part will have, once fewer and once more."""
    public, domain = PublicRandom(0), table.domain
    rows = 100 * parts if table.rows_hint is None else table.rows_hint
    expected = max(2, min(rows // parts, MOST_SYNTHETIC_ROWS))
    most = min(2 * expected, MOST_SYNTHETIC_ROWS)
    for size in (max(2, expected // 2), expected, most):
        yield f"{size} synthetic rows", public.rows(domain, size)
    if feature is not None:
        drawn = public.rows(domain, most)
        columns = {**drawn.columns, feature: np.full_like(drawn[feature], drawn[feature][0])}
        yield f"{most} synthetic rows with one value of {feature!r}", Rows(domain, columns, most)


def checked_parts(parts: Any, size: int | None) -> None:
    """A number of parts that the caller asks for; `size` is the number of rows where that is public."""
    if parts is None:
        return
    if isinstance(parts, bool) or not isinstance(parts, int) or not 1 <= parts <= MOST_PARTS:
        raise InputError(f"parts must be a whole number from 1 to {MOST_PARTS}; got {parts!r}.")
    if size is not None and parts > size:
        raise InputError(f"{parts} parts are more than the {size} rows of the table.", hint="use fewer parts")


def ladder(most: int) -> list[int]:
    """Numbers of parts to choose from: 2, and on in steps of about a tenth, to `most`."""
    most = max(2, most)
    steps = {min(most, round(2 * 1.1**i)) for i in range(1 + math.ceil(math.log(most / 2, 1.1)))}
    return sorted(steps | {2, most})


def empty_share(parts: int, rows: int, neighbours: Neighbours, assignment: Assignment) -> float:
    """The share of parts that are expected to have no rows; by position there are none."""
    if assignment is Assignment.POSITION:
        return 0.0
    return math.exp(-rows / neighbours.rows / parts)
