"""What goes wrong on executors: the account tells the truth, a row counts once, and nobody is told why it failed."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from functools import partial
from pathlib import Path

import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import dpexplain as dpx
from dpexplain.core.budget import pure
from examples import DOMAIN

pytestmark = [
    pytest.mark.long,
    pytest.mark.filterwarnings("ignore::ResourceWarning", "ignore::DeprecationWarning", "ignore:PySpark does not yet"),
]
HERE = Path(__file__).parent


def lost(table, capfd):
    """The error of a release, and all that was printed: neither may show a row. Its price stays spent, once."""
    with pytest.raises(dpx.ReleaseLost) as error:
        dpx.marginals(table, ["age"], epsilon=0.1)
    assert error.value.__context__ is None
    (line,) = table.ledger.statement(table.name).rows
    assert float(line.cost.amount) == 0.1
    said = str(error.value) + "".join(capfd.readouterr())
    assert "27.125" not in said
    return said


@pytest.fixture
def folder(frame, tmp_path):
    """Two files of a table, in which one row has an age that nobody else has."""
    frame = frame.assign(age=frame["age"].astype(float))
    frame.loc[7, "age"] = 27.125
    for number, part in enumerate((frame.iloc[:200], frame.iloc[200:])):
        pq.write_table(pa.Table.from_pandas(part, preserve_index=False), tmp_path / f"{number}.parquet")
    return tmp_path


def test_a_partition_with_other_types_loses_the_release(spark, make_table, frame, folder, capfd):
    table = make_table(spark.read.parquet(str(folder)))
    other = pd.DataFrame({**frame.iloc[200:], "age": [f"about {age}" for age in frame["age"].iloc[200:]]})
    pq.write_table(pa.Table.from_pandas(other, preserve_index=False), folder / "1.parquet")
    assert "about" not in lost(table, capfd)


def test_a_partition_without_a_column_has_missing_values(spark, make_table, frame, folder):
    """As Spark reads it; what is missing takes the declared default."""
    table = make_table(spark.read.parquet(str(folder)), exact=True)
    pq.write_table(pa.Table.from_pandas(frame.iloc[200:][["person", "income", "sex"]]), folder / "1.parquet")
    counts = dpx.marginals(table, ["age"], epsilon=0.1).values
    assert counts.sum() == 400
    assert counts.max() >= 200


def test_a_file_that_is_corrupt_in_the_middle_loses_the_release(spark, make_table, folder, capfd):
    table = make_table(spark.read.parquet(str(folder)))
    path = folder / "1.parquet"
    content = bytearray(path.read_bytes())
    content[100 : len(content) // 2] = bytes(len(content) // 2 - 100)
    path.write_bytes(content)
    lost(table, capfd)


def test_a_file_that_is_gone_loses_the_release(spark, make_table, folder, capfd):
    table = make_table(spark.read.parquet(str(folder)), relation="add-remove")
    (folder / "1.parquet").unlink()
    lost(table, capfd)


# Executors that die --------------------------------------------------------------------------------------------------


def killed_once(piece, flag):
    """The process of an executor ends in the middle of its task, the first time."""
    rows = getattr(piece, "rows", piece)
    if rows.size and not Path(flag).exists():
        Path(flag).touch()
        os._exit(1)
    return np.array([rows.size, rows["age"].sum()], dtype=np.int64)


@pytest.mark.parametrize("verb", ["sum_rows", "sum_groups"])
def test_a_release_whose_executor_is_killed_counts_each_row_once_and_is_charged_once(
    spark, make_table, frame, tmp_path, verb, capfd
):
    source = spark.createDataFrame(pa.Table.from_pandas(frame, preserve_index=False)).repartition(3)
    table, flag, found = make_table(source, exact=True), tmp_path / "killed", []
    kernel = partial(killed_once, flag=str(flag))

    def body(gate):
        how = {"columns": list(DOMAIN), "size": 2, "label": ""}
        sums = table.sum_rows(gate, kernel, **how) if verb == "sum_rows" else table.sum_groups(
            gate, kernel, groups=9, **how
        )  # fmt: skip
        found.extend(sums.tolist())
        gate.noisy_counts("rows", sums[:1], pure(1), partitions=1)

    table.release("marginals", "killed once", {"verb": verb}, pure(1), body, public=[])
    assert flag.exists()
    assert found == [400, frame["age"].sum()]
    (line,) = table.ledger.statement(table.name).rows
    assert float(line.cost.amount) == 1


@pytest.mark.usefixtures("java")
def test_a_task_that_runs_twice_by_speculation_counts_once(tmp_path):
    """On a real cluster of two workers, for Spark runs no task twice on one machine: `speculating.py` is its driver."""
    if not hasattr(os, "fork"):
        pytest.skip("workers are started with a shell script")
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join(filter(None, sys.path))}
    done = subprocess.run(
        [sys.executable, str(HERE / "speculating.py"), str(tmp_path)], capture_output=True, text=True, env=environment,
        timeout=400, check=False,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr[-3000:]
    told = json.loads(done.stdout.splitlines()[-1])
    assert told["attempts"] > told["partitions"]  # one of them ran a second time beside the first
    assert told["sums"] == told["expected"]
    assert told["charges"] == [1.0]
