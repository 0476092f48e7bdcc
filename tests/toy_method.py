"""A method in one file, with one registration: how many rows lie above a threshold. Tests import a copy of it."""

from __future__ import annotations

from dataclasses import dataclass
from functools import partial
from typing import Annotated, ClassVar, Literal

import numpy as np
import pandas as pd
from pydantic import Field

from dpexplain.audit.cases import cases_of
from dpexplain.core.domain import Domain, Numeric
from dpexplain.core.mechanisms import best
from dpexplain.core.sensitivity import Sensitivity
from dpexplain.design import DataFlow
from dpexplain.maths.coded import Coded
from dpexplain.methods.registry import Method, register
from dpexplain.methods.request import Flag, Names, Request
from dpexplain.methods.result import Result
from dpexplain.methods.setting import LEVEL, Outlook, Setting


class RowsAbove(Request):
    """How many rows are above the threshold in each of some columns."""

    features: Annotated[Names, Field(description="The columns.")] = None
    threshold: Annotated[float, Field(description="Above it."), Flag("--over", "T")] = 25.0
    mode: Annotated[Literal["strict", "loose"], Field(description="strict, or loose for the threshold itself.")] = (
        "strict"
    )
    times: Annotated[int, Field(ge=1, le=9, description="Count every row so many times.")] = 1
    below: Annotated[bool, Field(description="Also count those below."), Flag(text="Count no row below.")] = True

    @property
    def label(self) -> str:
        return f"rows above {self.threshold:g}"


@dataclass(frozen=True)
class Spec(Coded):
    features: tuple[str, ...]
    threshold: float


def resolve(request, setting, _cost):
    return Spec(tuple(request.features or ["age"]), request.threshold)


def statistic(rows, spec):
    above = [int((rows[name] > spec.threshold).sum()) for name in spec.features]
    return np.array([count for many in above for count in (rows.size - many, many)], dtype=np.int64)


def forecast(spec, neighbours, cost):
    return best(Sensitivity.of_counts(neighbours, len(spec.features)), 2 * len(spec.features), cost)


def outlook(request, setting, cost):
    noise = forecast(resolve(request, setting, cost), setting.neighbours, cost)
    half = noise.halfwidth(LEVEL)
    return Outlook(law=noise.law.value, points=noise.size, std=noise.std, error=half, band=half)


def explain(table, _model, request, *, cost):
    spec = resolve(request, Setting.of(table), cost)

    def body(gate):
        kernel = partial(statistic, spec=spec)
        columns = list(spec.features)
        counts = table.sum_rows(gate, kernel, columns, size=2 * len(columns), label=request.label)
        gate.noisy_counts("counts", counts, cost, partitions=len(columns))

    public = ["the threshold"]
    return AboveCounts(*table.release("rows-above", request.label, spec.to_json(), cost, body, public=public))


def diagram():
    return DataFlow({"table": "rows", "counts": "counts"}, [("table", "counts")], name="Rows above", noised=["counts"])


@dataclass(frozen=True)
class AboveCounts(Result):
    kind: ClassVar[str] = "above-counts"
    spec_type: ClassVar = Spec

    @property
    def caveat(self):
        return "Rows at the threshold are not above it."

    @property
    def findings(self):
        return [f"About {count:.0f} rows: {name}." for name, count in zip(self.spec.features, self.values, strict=True)]

    @property
    def values(self):
        return self.part("counts")[0][1::2].astype(float)

    def interval(self, level=LEVEL):
        half = self.part("counts")[1].halfwidth(level)
        return self.values - half, self.values + half

    def to_frame(self):
        low, high = self.interval()
        return pd.DataFrame({"feature": self.spec.features, "above": self.values, "low": low, "high": high})

    def view(self):
        return {}

    @classmethod
    def rebuild(cls, receipt, released, view):
        return cls(receipt, released, **view)


def worst_cases():
    """The row moves from one side of the threshold to the other."""
    pairs = {"replace-one": ([(20.0,), (20.0,)], [(20.0,), (29.0,)]), "add-remove": ([(20.0,)], [(20.0,), (20.0,)])}
    domain = Domain({"age": Numeric(20, 29)})

    def run(table, cost):
        return explain(table, None, RowsAbove(), cost=cost)

    return cases_of("rows_above", "one column", run, domain, pairs, {"counts": 0.99})


register(
    Method(
        name="rows-above",
        request=RowsAbove,
        explain=explain,
        outlook=outlook,
        diagram=diagram,
        results=(AboveCounts,),
        command="above",
        title="Rows above",
        lead="how many rows lie above a threshold",
        worst_cases=worst_cases,
        home=__name__,
    )
)
