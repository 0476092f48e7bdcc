"""Which columns a report is about: by what the public model does on public rows, before anything is read or paid.

Rows are drawn evenly from the declared domain. A column moves the model by the mean absolute change of its prediction
when the column's values are drawn anew; two columns act together by what their joint change is more than the sum of
both. Nothing of the table is in it: a column may matter less where the rows truly are, which the report then shows.
"""

from __future__ import annotations

import itertools
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from dpexplain.core.domain import Domain
from dpexplain.data.public_random import PublicRandom
from dpexplain.data.rows import Rows
from dpexplain.maths.trees import Joint
from dpexplain.methods.evidence import Asked
from dpexplain.models import Model

PUBLIC_ROWS, SEED = 1024, 20
ASKED = 2**20  # predictions about all columns together: fewer rows where there are many columns
FEWEST_ROWS = 128
TABLES, LIKELY_ROWS = 7, 512  # likely tables, by which the largest importance is told, and their rows at most


@dataclass(frozen=True)
class Movement:
    """What public rows say about a model.

    by_column  how far its prediction moves when the values of a column are drawn anew
    spread     the standard deviation of its predictions
    """

    asked: Asked
    others: Mapping[str, NDArray[Any]]
    by_column: Mapping[str, float]
    spread: float

    @property
    def order(self) -> list[str]:
        """The columns, those that move it most first."""
        return sorted(self.by_column, key=lambda name: -self.by_column[name])

    def pairs(self, names: Sequence[str]) -> list[tuple[str, str]]:
        """Pairs of these columns, those that act together most first."""
        alone = {name: self.asked.at({name: self.others[name]}) for name in names}
        base, found = self.asked.at({}), dict[tuple[str, str], float]()
        for one, two in itertools.combinations(names, 2):
            both = self.asked.at({one: self.others[one], two: self.others[two]})
            found[one, two] = float(np.abs(both - alone[one] - alone[two] + base).mean())
        return sorted(found, key=lambda pair: -found[pair])


def movement(domain: Domain, model: Model) -> Movement:
    """Ask the model about public rows."""
    names = model.features(domain)
    size = int(min(PUBLIC_ROWS, max(FEWEST_ROWS, ASKED // (len(names) + 1))))
    even = Joint.even(domain, names)
    drawn, others = even.draw(size, SEED), even.draw(size, SEED + 1)
    asked = Asked(model, model.checked(domain), Rows(domain, drawn, size))
    base = asked.at({})
    moved = {name: float(np.abs(asked.at({name: others[name]}) - base).mean()) for name in names}
    return Movement(asked, others, moved, float(base.std()))


def largest_importance(domain: Domain, model: Model, features: Sequence[str] | None = None) -> float:
    """How large the largest importance may be: the middle over likely tables, if the model is right about them. Then
    other values of a column raise the squared error by the mean squared change of the prediction.
    """
    names = list(model.features(domain) if features is None else features)
    size = int(min(LIKELY_ROWS, max(FEWEST_ROWS, ASKED // (TABLES * (len(names) + 1)))))
    tables = [PublicRandom(seed).likely_rows(domain, size) for seed in range(TABLES)]
    order = PublicRandom(SEED).generator.permutation(size)
    rows = {name: np.concatenate([table[name] for table in tables]) for name in domain}
    asked = Asked(model, model.checked(domain), Rows(domain, rows, TABLES * size))
    base = asked.at({})
    moved = [asked.at({name: np.concatenate([table[name][order] for table in tables])}) - base for name in names]
    by_table = np.square(moved).reshape(len(names), TABLES, -1).mean(axis=2)
    return float(np.median(by_table.max(axis=0)))
