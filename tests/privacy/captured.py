"""What an explainer hands to the sampler, captured in one real release, so that an audit can draw the noise many times
without computing the same exact sums again."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import dpexplain as dpx
from dpexplain.core.budget import Cost
from dpexplain.core.noise import Noise
from dpexplain.core.release import Door
from dpexplain.core.samplers import ExactSampler, Sampler
from dpexplain.core.sensitivity import Sensitivity
from stubs import FreeAccount, ZeroNoise

Call = tuple[list[int], Noise, Sensitivity, Cost]


class Recorder(ZeroNoise):
    """Adds nothing, so that what is released next depends on the exact values; remembers what it was asked for."""

    def __init__(self) -> None:
        self.calls: list[Call] = []

    def perturb(self, values: Any, noise: Noise, sensitivity: Sensitivity, cost: Cost) -> list[int]:
        self.calls.append((list(values), noise, sensitivity, cost))
        return super().perturb(values, noise, sensitivity, cost)


def calls(table: dpx.PrivateTable, explain: Callable[[dpx.PrivateTable], Any]) -> list[Call]:
    """Every vector that `explain` releases from `table`, with the law, the bound and the price of its noise."""
    recorder = Recorder()
    table.door = Door(FreeAccount(table.budget, table.neighbours, keep=False), sampler=recorder)
    explain(table)
    return recorder.calls


class Shrunk(ExactSampler):
    """The defect: noise of half the scale, that is, twice the epsilon that is claimed (four times the rho)."""

    def perturb(self, values, noise, sensitivity, cost):
        return super().perturb(values, replace(noise, scale=noise.scale / 2), sensitivity, cost * 4)


def drawn(call: Call, sampler: Sampler) -> list[int]:
    """One more draw of a captured release."""
    return sampler.perturb(*call)
