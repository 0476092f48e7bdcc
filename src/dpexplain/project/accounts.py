"""Which account to open: pure epsilon, or zCDP with a delta. It is chosen once, so the choice is made before opening.

The error of a pure account divided by that of a zCDP account, from forecasts for 20,000 rows of 12 columns, a total of
epsilon 2 (delta 1e-6) shared by that many equal releases:

    releases   pdp   ale   importance   influence   performance   clusters   interactions   marginals   transparency
           1   1.1   0.9          0.4         0.5           0.6        0.8            1.5         1.6            1.8
           3   1.0   0.9          0.5         0.9           0.8        1.8            2.6         2.8            3.2
           6   1.0   1.2          0.8         1.2           1.0        2.5            3.6         4.0            4.5
          10   0.8   1.3          1.0         1.6           1.2        3.3            4.7         5.1            5.8

Local explanations, and sketches of moments, have Gaussian noise, which has no cost in a pure account.
"""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass

from dpexplain.errors import InputError
from dpexplain.methods.registry import commands

FEW = 3  # kinds of short answers, up to which a pure account has the smaller error
DELTA = "1e-6"


@dataclass(frozen=True)
class Advice:
    """The account that suits what is wanted."""

    delta: str | None
    why: str

    @property
    def account(self) -> str:
        return "a pure account (no delta)" if self.delta is None else f"a zCDP account (delta = {self.delta})"


def wanted(typed: str) -> list[str]:
    """The explanations that a person named, with commas between them."""
    names = list(dict.fromkeys(name.strip() for name in typed.split(",") if name.strip()))
    for name in names:
        if name not in commands():
            raise InputError(f"--wants does not know {name!r}.", hint=f"--wants takes {', '.join(commands())}")
    return names


def recommend(wants: Collection[str]) -> Advice:
    """The account for one or more explanations that are wanted."""
    needy = needing_delta(wants)
    if needy:
        return Advice(DELTA, f"{' and '.join(needy)} cannot be paid from a pure account: the noise is Gaussian")
    long = [name for name in wants if commands()[name].long]
    if long:
        return Advice(DELTA, f"the many numbers of {', '.join(long)} have less error with zCDP")
    if len(wants) > FEW:
        return Advice(DELTA, f"each of {len(wants)} kinds of releases has less error where costs add up in zCDP")
    never = " and ".join(needing_delta(commands()))
    return Advice(None, f"a few short answers have less error in a pure account; {never} are impossible in it")


def needing_delta(wants: Collection[str]) -> list[str]:
    """Those that a pure account cannot pay for."""
    return [name for name in wants if commands()[name].needs_delta]


def check_account(wants: Collection[str], delta: object) -> None:
    """Refuse a pure account that cannot pay for what the project wants, before it is opened."""
    needy = needing_delta(wants)
    if needy and delta is None:
        raise InputError(
            f"[budget] wants {' and '.join(needy)}, which a pure account cannot pay for: it has no delta.",
            hint=f"write delta = {DELTA} in [budget] before the account is opened, or take it out of wants; "
            "`dpexplain plan` compares both accounts",
        )
