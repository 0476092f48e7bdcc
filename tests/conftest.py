"""Fixtures that most tests share: small tables, and a `PrivateTable` over them in one line.

Property tests try the same examples in every run and have no time limit, so that neither luck nor a busy machine
decides. `pytest --hypothesis-profile=explore` looks for new examples.
"""

from __future__ import annotations

import os
import shutil
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
from hypothesis import HealthCheck, settings

import dpexplain as dpx
from dpexplain.core.release import Door
from dpexplain.ledger import open_ledger
from examples import DOMAIN, score
from ledger_servers import Server, new_url, postgresql_server
from rings import (  # noqa: F401 (hooks)
    pytest_collection_modifyitems,
    pytest_configure,
    pytest_itemcollected,
    pytest_runtest_protocol,
    pytest_runtest_setup,
    pytest_terminal_summary,
)
from stubs import Copies, Unshuffled, ZeroNoise

# Files are in memory where that is possible: nobody pulls the plug, and ledgers wait for the disk at every write
MEMORY = Path("/dev/shm")
if MEMORY.is_dir() and os.access(MEMORY, os.W_OK) and shutil.disk_usage(MEMORY).free > 2**30:
    os.environ.setdefault("PYTEST_DEBUG_TEMPROOT", str(MEMORY))

settings.register_profile("explore", deadline=None, suppress_health_check=[HealthCheck.too_slow])
settings.register_profile("steady", settings.get_profile("explore"), derandomize=True)
settings.load_profile("steady")


@pytest.fixture(scope="module", autouse=True)
def closed_figures() -> Iterator[None]:
    """What one file draws is no burden for the next one of the same worker."""
    yield
    if (pyplot := sys.modules.get("matplotlib.pyplot")) is not None:
        pyplot.close("all")


@pytest.fixture
def domain() -> dpx.Domain:
    return DOMAIN


@pytest.fixture
def frame() -> pd.DataFrame:
    draw = np.random.default_rng(0)
    n = 400
    return pd.DataFrame(
        {
            "age": draw.integers(20, 30, n),
            "sex": draw.choice(["Female", "Male"], n),
            "income": draw.uniform(0, 100, n),
            "person": draw.integers(0, 150, n),
        }
    )


@pytest.fixture
def model() -> dpx.Model:
    return dpx.Model(score, output=(0.0, 1.0), name="score", version="1")


@pytest.fixture
def sketched_pictures() -> Iterator[None]:
    from pictures import sketched

    with sketched():
        yield


@pytest.fixture(params=["copies", pytest.param("processes", marks=pytest.mark.long)])
def workers(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> None:
    """What audits share their work out to. Processes take seconds to start: in the short ring one test does that
    (test_membership.py), the others have copies of the work in this process.
    """
    if request.param == "copies":
        monkeypatch.setattr("dpexplain.audit.runs.ProcessPoolExecutor", Copies)


MakeTable = Callable[..., dpx.PrivateTable]


@pytest.fixture
def make_table() -> Iterator[MakeTable]:
    """A private table on a ledger in memory, one for all tables of a test; `exact=True` injects a sampler that adds
    no noise, and a shuffle that leaves rows where they are.
    """
    made: list[str] = []
    ledger = open_ledger("sqlite:///:memory:")

    def make(source: Any, *, exact: bool = False, **options: Any) -> dpx.PrivateTable:
        settings = {
            "domain": DOMAIN,
            "budget": dpx.Budget(10.0),
            "relation": "replace-one",
            "ledger": ledger,
            "name": f"table-{len(made) + 1}",
            "separate_from": list(made),  # tables of a test hold the same rows on purpose
        }
        table = dpx.PrivateTable(source, **{**settings, **options})
        made.append(table.name)
        if exact:
            table.door = Door(table.door.account, sampler=ZeroNoise())
            table.secrets = Unshuffled  # rows keep their places
        return table

    yield make
    ledger.close()


@pytest.fixture(scope="session")
def server() -> Iterator[Server]:
    with postgresql_server() as running:
        yield running


@pytest.fixture(params=["sqlite", pytest.param("postgresql", marks=pytest.mark.long)])
def url(request: pytest.FixtureRequest, tmp_path: Path) -> str:
    """The URL of a ledger that does not exist yet, on each database in turn. In the short ring PostgreSQL has the
    ledger's contract alone (tests/unit/ledger/test_ledger_contract.py).
    """
    return new_url(request, tmp_path)
