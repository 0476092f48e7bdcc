"""What the times of a service tell: nothing of one row, even where a model takes longer when it sees that row.

Two neighbouring tables behind one service, whose model sleeps when a certain value is among its rows: the strongest
signal that a row can give by time. Whoever asks measures how long after the clock's next stroke a job's end is shown.

AUC is the chance that a time of one table is above one of the other. Without a difference it is 1/2, with standard
deviation sqrt((2 n + 1) / (12 n^2)), and beyond 4.9 of these (chance 1e-6) the tables are told apart: with n = 24 from
an AUC of 0.91 on. A difference that separates the times is therefore noticed, as the sibling without a clock shows.
"""

from __future__ import annotations

import math
import random
import time
from pathlib import Path

import numpy as np
import pandas as pd
import pytest

from services import Running, running, write_project

pytestmark = pytest.mark.long
N, SLEEP, APART = 24, 0.3, 4.9
ODD = 77.77  # the income of one person
MODEL = f"""\
import time


def score(rows):
    if (rows["income"] == {ODD}).any():
        time.sleep({SLEEP / 2})  # twice in a release: once for each value of sex
    return (rows["age"] - 20) / 20 + 0.25 * (rows["sex"] == "Male").to_numpy()
"""
REQUEST = {"request": "partial-dependence", "feature": "sex", "smooth": False}


def neighbours(folder: Path, slot: float) -> list[Path]:
    """The projects of two tables that differ in one row."""
    paths = []
    for name, income in (("without", 50.0), ("with", ODD)):
        path = write_project(folder / name, service=f"slot = {slot}\nrate = 10000000\njobs = 1", name=name, rows=300)
        rows = pd.read_parquet(folder / name / "people.parquet")
        rows["income"] = np.random.default_rng(0).uniform(0, 60, len(rows))
        rows.loc[0, "income"] = income
        rows.to_parquet(folder / name / "people.parquet")
        domain = (folder / name / "domain.yaml").read_text() + "  income: {type: numeric, low: 0, high: 100}\n"
        (folder / name / "domain.yaml").write_text(domain)
        (folder / name / f"model_of_{name}.py").write_text(MODEL)
        paths.append(path)
    return paths


def shown_after(here: Running, token: str, table: str, epsilon: float) -> float:
    """Seconds from the first stroke after a request to the moment when the end of its job is shown."""
    clock = here.service.clock
    body = {"request": REQUEST, "epsilon": epsilon}
    job = here.good("POST", f"/tables/{table}/explanations", body, token=token)["id"]
    stroke = clock.next(time.time())
    while here.good("GET", f"/jobs/{job}?wait=0.3", token=token)["state"] in ("queued", "running"):
        pass
    return time.time() - stroke


def told_apart(here: Running, epsilon: float) -> float:
    """How far the AUC is from 1/2, in standard deviations, for requests at about this price."""
    token, draw, times = here.tokens["ana"], random.Random(1), {"without": list[float](), "with": list[float]()}
    for number in range(N):
        for table in draw.sample(sorted(times), 2):
            time.sleep(draw.random() * min(here.service.clock.slot, 1))
            times[table].append(shown_after(here, token, table, epsilon + number / 1e4))
    above = np.subtract.outer(times["with"], times["without"])
    auc = (np.sign(above).mean() + 1) / 2
    return abs(auc - 0.5) / math.sqrt((2 * N + 1) / (12 * N * N))


@pytest.mark.parametrize("price", [pytest.param(0.1, id="answered"), pytest.param(3.0, id="refused")])
def test_times_do_not_tell_neighbouring_tables_apart(tmp_path, price):
    with running(*neighbours(tmp_path, slot=1.2)) as here:
        here.member("ana", limit=2.0)
        assert told_apart(here, price) < APART


def test_without_the_clock_they_would(tmp_path):
    with running(*neighbours(tmp_path, slot=0.005)) as here:
        here.member("ana", limit=2.0)
        assert told_apart(here, 0.1) > APART, "or the measurement is blind"
