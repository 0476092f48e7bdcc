"""Release a batch and die in its middle, or just release it: a process that a test starts and looks at.

    python batch_driver.py LEDGER ROWS.parquet WHEN

WHEN says where the process kills itself with SIGKILL: "reserved" after the price was taken, "sent" after noise was
added and before anything is committed, "never". It prints the values of the first result.
"""

from __future__ import annotations

import os
import signal
import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[1]))

import dpexplain as dpx
from dpexplain.core.canonical import canonical_json
from dpexplain.ledger.account import LedgerAccount
from dpexplain.methods.batches import release
from examples import DOMAIN

REQUESTS = dpx.requests


def risk(rows):
    return (rows["age"].to_numpy() - 20) / 20 + 0.25 * (rows["sex"] == "Male").to_numpy()


def wanted():
    return [REQUESTS.PartialDependence(feature="age"), REQUESTS.PartialDependence(feature="sex", rug=False)]


def table_of(ledger: str, rows: str) -> dpx.PrivateTable:
    return dpx.PrivateTable(
        [rows], domain=DOMAIN, budget=dpx.Budget(2), relation="replace-one", ledger=ledger, name="people"
    )


def model() -> dpx.Model:
    return dpx.Model(risk, output=(0.0, 1.0), name="risk", version="1", features=["age", "sex"])


def die(*_: object, **__: object) -> None:
    os.kill(os.getpid(), signal.SIGKILL)


def main(ledger: str, rows: str, when: str) -> None:
    if when == "reserved":
        release.answer = die  # the first pass over the rows
    if when == "sent":
        LedgerAccount.commit = die
    found = dpx.batch(table_of(ledger, rows), model(), wanted(), epsilon=1)
    print(canonical_json(found[0].released))


if __name__ == "__main__":
    main(*sys.argv[1:])
