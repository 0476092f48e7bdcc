"""When an account may be renewed, and for whom: `renewal = {every = "year", people = "new-only"}` under [budget].

every    month, quarter or year: the least time from the opening of an account to that of its successor; or never
people   new-only: nobody is in two accounts of the line; overlapping: somebody may be, and is counted in each of them
"""

from __future__ import annotations

import calendar
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import UTC, date, datetime
from typing import Any

from dpexplain.errors import BudgetError, InputError

MONTHS = {"month": 1, "quarter": 3, "year": 12}
NEVER, NEW_ONLY, OVERLAPPING = "never", "new-only", "overlapping"
EXAMPLE = 'renewal = {every = "year", people = "new-only"}'


def today() -> date:
    """As the ledger stamps its events."""
    return datetime.now(UTC).date()


@dataclass(frozen=True)
class Renewal:
    """The policy of a project."""

    every: str
    people: str

    @classmethod
    def read(cls, written: Mapping[str, Any], where: str) -> Renewal:
        allowed = {"every": (*MONTHS, NEVER), "people": (NEW_ONLY, OVERLAPPING)}
        for key in [*allowed, *written]:
            if key not in allowed or key not in written or written[key] not in allowed[key]:
                choices = "; ".join(f"{name}: {', '.join(values)}" for name, values in allowed.items())
                raise InputError(f"{where} has no {key} that can be read.", hint=f"write {EXAMPLE}; {choices}")
        return cls(**written)

    @property
    def overlapping(self) -> bool:
        return self.people == OVERLAPPING

    def check(self, account: str, opened: str) -> None:
        """Refuse a renewal that comes too early, or that the policy does not know. `opened` is a date of the ledger."""
        if self.every == NEVER:
            raise BudgetError(
                f'account "{account}" is never renewed: so says the policy of the project.',
                hint="people were promised this budget; another policy is another promise, under [budget]",
            )
        start = date.fromisoformat(opened)
        months = start.year * 12 + start.month - 1 + MONTHS[self.every]
        year, month = months // 12, months % 12 + 1
        due = date(year, month, min(start.day, calendar.monthrange(year, month)[1]))
        if today() < due:
            raise BudgetError(
                f'account "{account}" was opened on {start} and is renewed every {self.every}: not before {due}.',
                hint="`dpexplain budget` shows what is left until then",
            )
