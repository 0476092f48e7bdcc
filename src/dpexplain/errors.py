"""Everything dpexplain raises on purpose.

    DpexplainError
    ├── InputError            a public input is wrong; nothing was read, nothing was spent      (exit code 2)
    │   ├── DomainError       the declared domain: bounds, categories, review
    │   ├── TableError        the source of rows: columns, format, size
    │   └── ModelError        the model: shape, range, row-wise behaviour on synthetic rows
    ├── BudgetError           the account does not allow it                                      (exit code 3)
    ├── LedgerError           the ledger cannot be used as asked                                 (exit code 2)
    │   ├── LedgerUnavailable gone, locked, read-only
    │   ├── LedgerCorrupt     the file or the hash chain is damaged
    │   └── LedgerTooNew      written by a later version of dpexplain
    ├── VerificationError     a published explanation does not agree with the ledger             (exit code 4)
    ├── ReleaseLost           the budget was reserved, but nothing was released: it stays spent  (exit code 3)
    └── InternalError         a contradiction inside dpexplain: please report it                 (exit code 70)

    BudgetWarning             a second budget may be counted for the same people, or an answer be mostly chance
    ModelWarning              a model whose last digits force small blocks or single rows, which is slow

An error is an output. Its text holds public things only: names, declared bounds, costs. It never holds a row,
an observed value or the message of somebody else's exception that may quote one.
"""

from __future__ import annotations

import sys
import warnings
from typing import ClassVar

NOTHING_SPENT = "Nothing was spent."


class BudgetWarning(UserWarning):
    """What is asked for is possible, but may spend on the same people from two budgets that do not know each other; or
    on an answer that would be mostly chance.
    """


class DpexplainError(Exception):
    """Base class: what is wrong, what to do next, and whether budget was spent."""

    exit_code: ClassVar[int] = 2

    def __init__(self, message: str, *, hint: str = "", spent: str = NOTHING_SPENT) -> None:
        self.message, self.hint, self.spent = message, hint, spent
        super().__init__(message)

    def __str__(self) -> str:
        hint = f"\nHint: {self.hint}" if self.hint else ""
        return f"{self.message}{hint}\n{self.spent}" if self.spent else f"{self.message}{hint}"

    def to_dict(self) -> dict[str, str]:
        """The one JSON shape of errors, shared by the command line and the service."""
        return {"kind": type(self).__name__, "message": self.message, "hint": self.hint, "spent": self.spent}


class InputError(DpexplainError, ValueError):
    """A public input is wrong."""


class DomainError(InputError):
    """The declared domain is incomplete, contradictory or not reviewed."""


class TableError(InputError):
    """The source of rows cannot be used as declared."""


class ModelError(InputError):
    """The model fails a check on synthetic rows, or is described wrongly."""


class BudgetError(DpexplainError):
    """The account does not allow this spending."""

    exit_code: ClassVar[int] = 3


class LedgerError(DpexplainError):
    """The ledger cannot be used as asked."""


class LedgerUnavailable(LedgerError):
    """The ledger is gone, locked or read-only."""

    read_only = False  # whether it can be read all the same


class LedgerCorrupt(LedgerError):
    """The ledger's file or its hash chain is damaged."""


class LedgerTooNew(LedgerError):
    """The ledger was written by a later version of dpexplain."""


class VerificationError(DpexplainError):
    """A published explanation does not agree with the ledger."""

    exit_code: ClassVar[int] = 4

    def __init__(self, message: str, *, hint: str = "") -> None:
        super().__init__(message, hint=hint, spent="")


class ReleaseLost(DpexplainError):
    """The budget was reserved and stays spent, but no value was released."""

    exit_code: ClassVar[int] = 3


class ModelWarning(UserWarning):
    """The model can be used, but not in the way that is fast."""


class InternalError(DpexplainError):
    """dpexplain contradicts itself."""

    exit_code: ClassVar[int] = 70

    def __init__(self, message: str) -> None:
        super().__init__(message, hint="this is a bug in dpexplain: please report it", spent="")


def warn(kind: type[UserWarning], text: str) -> None:
    """Warn at the line of the caller's program, however many of our functions are in between."""
    frame, level = sys._getframe(), 1
    while frame.f_back is not None and str(frame.f_globals.get("__name__")).startswith("dpexplain."):
        frame, level = frame.f_back, level + 1
    warnings.warn(text, kind, stacklevel=level)
