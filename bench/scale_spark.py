"""The Spark side of `python -m bench scale`: one session on two threads in this process, measured after its start.

A first release on a small table starts the Python workers of the executors, which import what they need; Spark keeps
them for what follows.
"""

from __future__ import annotations

import os
import statistics
import sys
import time
import warnings
from collections.abc import Iterator
from typing import Any

import numpy as np
import pyarrow as pa

import dpexplain as dpx
from bench import scale_tables
from bench.scale_child import forest, linear, opened, timed
from bench.scale_tables import NUMBERS
from dpexplain.core.budget import pure
from dpexplain.core.release import Gate


def session() -> Any:
    from pyspark.sql import SparkSession

    os.environ["PYSPARK_PYTHON"] = sys.executable
    os.environ["PYTHONPATH"] = os.pathsep.join(filter(None, sys.path))
    builder = SparkSession.builder.master("local[2]").config("spark.ui.enabled", "false")
    for name, value in {
        "spark.log.level": "OFF", "spark.driver.host": "127.0.0.1", "spark.driver.bindAddress": "127.0.0.1",
        "spark.driver.memory": "2g",
    }.items():  # fmt: skip
        builder = builder.config(name, value)
    return builder.getOrCreate()


def trivial(rows: Any) -> np.ndarray:
    """A kernel that does next to nothing: how many rows, and how many of them are in the upper half of a column."""
    return np.array([rows.size, np.count_nonzero(rows["x0"] > 0.5)], dtype=np.int64)


def bare(batches: Iterator[Any]) -> Iterator[Any]:
    """The same without us."""
    total = np.zeros(2, dtype=np.int64)
    for batch in batches:
        columns = {name: batch.column(i).to_numpy(zero_copy_only=False) for i, name in enumerate(batch.schema.names)}
        total += np.array([batch.num_rows, np.count_nonzero(columns["x0"] > 0.5)])
    yield pa.RecordBatch.from_arrays([pa.array([total.tobytes()], pa.binary())], ["sums"])


def measured(job: dict[str, Any]) -> dict[str, Any]:
    warnings.simplefilter("ignore")
    start = time.perf_counter()
    spark, domain = (None if job["what"].endswith("local") else session()), scale_tables.narrow_domain()

    def source(path: str) -> Any:
        return path if spark is None else spark.read.parquet(path)

    found: dict[str, Any] = {}
    if job["what"].startswith("spark-forest"):
        model = dpx.Model(forest(job["trees"], job["depth"]), output=(0, 1), features=NUMBERS, name="forest")

        def curve(path: str) -> None:
            dpx.partial_dependence(
                opened(source(path), domain), model, "x2", epsilon=1, grid={"x2": job["points"]}, smooth=False
            )

        curve(job["warm"])
        found["start"] = time.perf_counter() - start
        found |= timed(lambda: curve(job["source"]))
    elif job["what"].startswith("spark-kernel"):
        for path in (job["warm"], job["source"]):
            table = opened(source(path), domain)
            gate = Gate(table.door, pure(1))
            sums = [np.zeros(0)]

            def ours(table: Any = table, gate: Any = gate, sums: list[Any] = sums) -> None:
                sums[0] = table.sum_rows(gate, trivial, NUMBERS, size=2, label="")

            found["ours"] = timed(ours)
            if spark is not None:
                frame = source(path).select(*NUMBERS)
                lines: list[Any] = []
                found["bare"] = timed(
                    lambda frame=frame, lines=lines: lines.extend(  # type: ignore[misc]
                        frame.mapInArrow(bare, "sums binary").collect()
                    )
                )
                assert (sum(np.frombuffer(line["sums"], dtype=np.int64) for line in lines) == sums[0]).all()
        again = timed(ours)
        found["ours"]["seconds"] = min(found["ours"]["seconds"], again["seconds"])
        if spark is not None:
            again = timed(lambda: frame.mapInArrow(bare, "sums binary").collect())
            found["bare"]["seconds"] = min(found["bare"]["seconds"], again["seconds"])
    else:  # one explanation of a small table
        table, rounds = opened(source(job["warm"]), domain), []
        for _ in range(7):
            model = linear()
            rounds.append(
                timed(lambda model=model: dpx.partial_dependence(table, model, "x2", epsilon=1))  # type: ignore[misc]
            )
        found["first"] = rounds[0]["seconds"]
        found["seconds"] = statistics.median(one["seconds"] for one in rounds[2:])
    if spark is not None:
        spark.stop()
    return found
