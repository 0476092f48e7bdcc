"""`dpexplain marginals`: where the rows are; paid once, and used again by other commands with --marginals."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

from dpexplain.cli.options import Call, Features, Guess, Mechanism, Price, once, option
from dpexplain.cli.release import release
from dpexplain.errors import InputError
from dpexplain.project.run import Task

if TYPE_CHECKING:
    from dpexplain.core.domain import Domain
    from dpexplain.methods.marginals.result import Marginals
    from dpexplain.models import Model

CELLS = 64  # as in Python; a test compares


def marginals(
    *,
    feature: Features = None,
    cells: Annotated[int, option("--cells", "N", "Of a column with many values.")] = CELLS,
    mechanism: Mechanism = None,
    price: Price,
    n: Guess = None,
    call: Call,
) -> None:
    """Release how many rows have each value: one noisy histogram for each column, all for one price.

    Paid once, it is used again with --marginals: `importance`, `influence` and `transparency` then take other people's
    values from it and spend their whole price on their own question. Influences on a person become free.

        dpexplain marginals --epsilon 0.5

        dpexplain importance --target income --epsilon 0.5 --marginals explanations/marginals.json
    """
    from dpexplain.methods.marginals import release as histograms

    def ask(_domain: Domain, _model: Model) -> Task:
        options: dict[str, Any] = {"features": once(feature) or None, "cells": cells, "mechanism": mechanism}
        request = histograms.MarginalsRequest(**options)
        return Task(request, histograms.explain, "Marginals", "how many rows have each value of each column")

    release(call, price, ask, n=n)


def marginals_of(path: Path | None) -> Marginals | None:
    """The marginals in a file that a command wrote which releases some, or `to_json`; None without a file."""
    if path is None:
        return None
    from dpexplain.methods.result import from_json

    known = from_json(path).marginals
    if known is None:
        raise InputError(
            f"{path} has no marginals.",
            hint="give a file of `dpexplain marginals`, or of a command that bought some",
        )
    return known
