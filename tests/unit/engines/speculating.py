"""A cluster of two workers under two addresses of this machine, which run a slow task a second time; as a script.

`python speculating.py FOLDER` prints one line of JSON: sums of a release with one slow task, how often tasks of its
pass were begun, and what the account was charged.
"""

from __future__ import annotations

import contextlib
import json
import os
import socket
import subprocess
import sys
import time
import uuid
import warnings
from collections.abc import Iterator
from functools import partial
from pathlib import Path

import numpy as np
import pandas as pd

PARTITIONS, SLOW = 4, 150.0
BEGUN = "begun-"


def slow_once(rows, folder):
    """The first attempt on the rows of age 0 is slow; a second one is not."""
    attempt = Path(folder) / f"{BEGUN}{uuid.uuid4()}"
    attempt.touch()
    if rows.size and rows["age"].min() == 0:
        with contextlib.suppress(FileExistsError):
            (Path(folder) / "slow").touch(exist_ok=False)
            time.sleep(SLOW)
    return np.array([rows.size, rows["age"].sum()], dtype=np.int64)


def free_port() -> int:
    with socket.socket() as one:
        one.bind(("127.0.0.1", 0))
        return int(one.getsockname()[1])


@contextlib.contextmanager
def cluster(folder: Path) -> Iterator[str]:
    """The address of a master with two workers, each with one core and an address of its own."""
    import pyspark

    home = Path(pyspark.__file__).parent
    place, port = "org.apache.spark.deploy", free_port()
    url = f"spark://127.0.0.1:{port}"
    commands = [["master.Master", "--host", "127.0.0.1", "--port", str(port), "--webui-port", str(free_port())]]
    for number in (1, 2):
        work = ["--work-dir", str(folder / f"worker-{number}"), "--webui-port", str(free_port())]
        host = ["--host", f"127.0.0.{number}", "--cores", "1", "--memory", "1g"]
        commands.append(["worker.Worker", *host, *work, url])
    environment = {**os.environ, "SPARK_HOME": str(home), "SPARK_DAEMON_MEMORY": "256m", "SPARK_LOCAL_IP": "127.0.0.1"}
    running = []
    try:
        for name, *options in commands:
            running.append(
                subprocess.Popen(
                    [str(home / "bin" / "spark-class"), f"{place}.{name}", *options],
                    env=environment,
                    stdout=subprocess.DEVNULL,
                    stderr=subprocess.DEVNULL,
                )
            )
            time.sleep(2)
        yield url
    finally:
        for process in running:
            process.terminate()
        for process in running:
            process.wait(30)


def main(folder: Path) -> None:
    warnings.simplefilter("ignore")
    from pyspark.sql import SparkSession

    import dpexplain as dpx
    from dpexplain.core.budget import pure

    os.environ["PYSPARK_PYTHON"] = sys.executable
    with cluster(folder) as url:
        builder = SparkSession.builder.master(url)
        for name, value in {
            "spark.ui.enabled": "false", "spark.log.level": "OFF", "spark.driver.host": "127.0.0.1",
            "spark.driver.bindAddress": "127.0.0.1", "spark.executor.memory": "512m", "spark.executor.cores": "1",
            "spark.executorEnv.PYTHONPATH": os.environ.get("PYTHONPATH", ""), "spark.speculation": "true",
            "spark.speculation.interval": "200ms", "spark.speculation.quantile": "0.5",
            "spark.speculation.multiplier": "1.5", "spark.speculation.minTaskRuntime": "500ms",
        }.items():  # fmt: skip
            builder = builder.config(name, value)
        spark = builder.getOrCreate()
        frame = pd.DataFrame({"age": np.arange(400) // 100 * 10})
        source = spark.createDataFrame(frame).repartitionByRange(PARTITIONS, "age")
        domain = dpx.Domain({"age": dpx.Numeric(0, 100, integer=True)})
        ledger = dpx.open_ledger("sqlite:///:memory:")
        table = dpx.PrivateTable(
            source, domain=domain, budget=dpx.Budget(2), relation="add-remove", ledger=ledger, name="speculating"
        )
        sums: list[int] = []

        def body(gate):
            kernel = partial(slow_once, folder=str(folder))
            found = table.sum_rows(gate, kernel, ["age"], size=2, label="")
            sums.extend(found.tolist())
            gate.noisy_counts("rows", found[:1], pure(1), partitions=1)

        start = time.monotonic()
        table.release("marginals", "a slow task", {}, pure(1), body, public=[])
        assert time.monotonic() - start < SLOW, "the slow attempt was waited for"
        told = {
            "sums": sums,
            "expected": [len(frame), int(frame["age"].sum())],
            "attempts": len(list(folder.glob(f"{BEGUN}*"))),
            "partitions": PARTITIONS,
            "charges": [float(line.cost.amount) for line in ledger.statement("speculating").rows],
        }
        spark.stop()
    print(json.dumps(told))


if __name__ == "__main__":
    main(Path(sys.argv[1]))
