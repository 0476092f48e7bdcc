"""Attributions for tests of tables, pictures and files: chosen coefficients, released through a real door."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

import dpexplain as dpx
from dpexplain.core.domain import PublicRange
from dpexplain.core.release import Door, Gate
from dpexplain.core.sensitivity import Sensitivity
from dpexplain.maths.coded import Coded
from dpexplain.maths.surrogate import Fit, Space
from dpexplain.maths.surrogate.fit import Asked, Released
from dpexplain.methods.attributions import SPECS, Attribution
from dpexplain.receipts import receipt_for
from stubs import ZCDP, exact_door

UNITS = 1_000_000  # released integers are millionths of a coefficient


@dataclass(frozen=True)
class Made(Coded):
    """The spec of the made explainer: coefficients as released, each with its own noise."""

    space: Space
    output: PublicRange

    def read(self, released: Released, asked: Asked) -> Fit:
        values, noise = released.part("coefficients", self.space.size)
        std, coefficients = noise.std / UNITS, np.array(values, dtype=np.float64) / UNITS
        assert asked.value is not None
        return Fit(
            coefficients,
            asked.value,
            lambda lines: std * np.linalg.norm(lines, axis=-1),
            self.space.middle,
            asked.notes,
        )


def made(
    columns: dict[str, Any],
    record: dict[str, Any],
    coefficients: Any,
    *,
    value: float = 0.5,
    std: float = 0.01,
    door: Door | None = None,
    notes: tuple[str, ...] = (),
) -> Attribution:
    """The attribution of `record` with these coefficients (exact, with the noise law of `std` written on them)."""
    SPECS["made"] = Made.from_json
    door = exact_door(ZCDP) if door is None else door
    space = Space(dpx.Domain(columns), tuple(columns))
    cost = door.account.budget.cost(rho=0.1)
    bound = Sensitivity.of_distance(door.account.neighbours, space.size, max(1, round(std * UNITS * np.sqrt(0.2))))

    def body(gate: Gate) -> None:
        gate.noisy_sum("coefficients", np.rint(np.asarray(coefficients) * UNITS).astype(np.int64), bound, cost)

    identity = {
        "explainer": "made",
        "table": {"name": "people", "domain": space.domain.digest},
        "model": {"name": "risk"},
        "spec": {"space": space.to_json(), "output": {"low": 0.0, "high": 1.0, "levels": 2**20}},
        "public": ["the record", "the model", "the declared domain"],
    }
    released = door.release("a made explanation", identity, cost, body)
    receipt = receipt_for(door.account.budget, door.account.neighbours, released, space.domain)
    return Attribution(receipt, released.payload, Asked(space.read(record), notes=notes, value=value))


def adult(std: float = 0.02, **options: Any) -> Attribution:
    """A person, 13 columns of both kinds."""
    columns = {
        "age": dpx.Numeric(17, 90, integer=True),
        "workclass": dpx.Categorical(["Private", "Government", "Self-employed", "None"]),
        "education_years": dpx.Numeric(1, 16, integer=True),
        "marital_status": dpx.Categorical(["Married", "Never married", "Divorced", "Widowed"]),
        "occupation": dpx.Categorical(["Clerical", "Craft", "Managerial", "Sales", "Service"]),
        "relationship": dpx.Categorical(["Husband", "Wife", "Own child", "Unmarried"]),
        "race": dpx.Categorical(["White", "Black", "Asian", "Other"]),
        "sex": dpx.Categorical(["Female", "Male"]),
        "capital_gain": dpx.Numeric(0, 99_999),
        "capital_loss": dpx.Numeric(0, 4_356),
        "hours_per_week": dpx.Numeric(1, 99, integer=True),
        "native_country": dpx.Categorical(["United States", "Mexico", "Other"]),
        "weight_in_survey": dpx.Numeric(0, 1_500_000),
        "area": dpx.Numeric(0, 100),
        "children": dpx.Numeric(0, 10, integer=True),
    }
    record = {
        "age": 39,
        "workclass": "Government",
        "education_years": 13,
        "marital_status": "Never married",
        "occupation": "Clerical",
        "relationship": "Unmarried",
        "race": "White",
        "sex": "Male",
        "capital_gain": 2174.0,
        "capital_loss": 0.0,
        "hours_per_week": 40,
        "native_country": "United States",
        "weight_in_survey": 77_516.0,
        "area": 61.5,
        "children": 0,
    }
    size = Space(dpx.Domain(columns), tuple(columns)).size
    coefficients = 0.35 * np.sin(np.arange(size) * 1.7 + 0.4) * np.linspace(1, 0.2, size)
    coefficients[0], coefficients[5] = 0.9, 0.8
    return made(columns, record, coefficients, value=0.281, std=std, **options)
