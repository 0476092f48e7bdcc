"""The ledger: what was spent, on whose behalf, and what was released for it. Trusted, small, append-only.

database.py   SQLite and PostgreSQL: schema, transactions, errors in our words
events.py     the facts that are remembered
chain.py      their order, sealed by hashes
state.py      what they add up to
account.py    reserve, commit, find
store.py      a ledger: accounts, statements, limits, verification
"""

from dpexplain.ledger.account import LedgerAccount
from dpexplain.ledger.state import FAILED, LOST, RELEASED, AnalystLine, Row, Statement
from dpexplain.ledger.store import Ledger, Verification, open_ledger

__all__ = [
    "FAILED",
    "LOST",
    "RELEASED",
    "AnalystLine",
    "Ledger",
    "LedgerAccount",
    "Row",
    "Statement",
    "Verification",
    "open_ledger",
]
