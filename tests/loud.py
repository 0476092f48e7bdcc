"""A Spark program at Spark's own log level whose models and steps say all that they see; as a script.

`python loud.py FOLDER`: 27.125 and "Anna37" are in tables that the product reads, 61.375 in rows that the same step
gets without the product's silence, and "Berta38" in a frame that is read without the product. The last line is JSON:
what became of each call, and how often anything was said while it ran.
"""

from __future__ import annotations

import json
import os
import sys
from functools import partial
from pathlib import Path

import numpy as np
import pandas as pd

SECRET, SHOWN = 27.125, 61.375
WAYS = ("printed", "shown", "written", "put", "warned", "logged", "handled", "raised")


def shout(value):
    """Every way in which Python, or a library underneath it, can say something."""
    import ctypes
    import logging
    import os
    import sys
    import uuid
    import warnings
    from pathlib import Path

    (Path(os.environ["LOUD_FOLDER"]) / f"said-{uuid.uuid4()}").touch()
    print(f"printed {value}", end=" ")  # stays in the buffer
    print(f"shown {value}", file=sys.__stderr__)
    os.write(2, f"written {value}\n".encode())
    ctypes.CDLL(None).puts(f"put {value}".encode())  # stays in the buffer of the C library
    warnings.resetwarnings()
    warnings.simplefilter("always")
    warnings.warn(f"warned {value} is odd", stacklevel=1)
    logging.getLogger("model").error("logged %s", value)
    handler = logging.StreamHandler(sys.__stderr__)
    handler.emit(logging.LogRecord("model", logging.ERROR, "", 0, f"handled {value}", None, None))
    raise ValueError(f"raised {value}")


def loud_model(rows):
    for value in rows["income"][rows["income"] == 27.125]:
        shout(value)
    return rows["income"] / 100


def loud_kernel(piece):
    for value in getattr(piece, "rows", piece)["income"][:1]:
        shout(value)
    return np.zeros(1, dtype=np.int64)


def loud_step(batches):
    for batch in batches:
        shout(batch.column(0)[0].as_py())
        yield batch


def main(folder: Path) -> None:
    from pyspark.sql import SparkSession

    import dpexplain as dpx
    from dpexplain.core.budget import pure
    from dpexplain.engines.spark import _mapped

    os.environ["PYSPARK_PYTHON"], os.environ["LOUD_FOLDER"] = sys.executable, str(folder)
    builder = SparkSession.builder.master("local[1]")
    for name, value in {
        "spark.ui.enabled": "false", "spark.driver.host": "127.0.0.1", "spark.driver.bindAddress": "127.0.0.1",
        "spark.sql.shuffle.partitions": "2",
    }.items():  # fmt: skip
        builder = builder.config(name, value)
    spark = builder.getOrCreate()

    def stored(name, values):
        persons = [f"p{i}" for i in range(len(values))]
        rows = pd.DataFrame({"person": persons, "age": range(len(values)), "income": values})
        rows.to_parquet(folder / f"{name}.parquet")
        return spark.read.parquet(str(folder / f"{name}.parquet"))

    told = {}

    def attempt(name, ask):
        before = len(list(folder.glob("said-*")))
        try:
            ask()
            outcome = "released"
        except Exception as error:
            outcome = f"{type(error).__name__}: {error}"
        told[name] = outcome, len(list(folder.glob("said-*"))) - before

    source = stored("secret", [SECRET] * 4)
    settings = {"budget": dpx.Budget(100), "ledger": dpx.open_ledger("sqlite:///:memory:"), "separate_from": []}
    domain = dpx.Domain({"age": dpx.Numeric(0, 9, integer=True), "income": dpx.Numeric(0, 100)})
    tables = [
        dpx.PrivateTable(source, domain=domain, relation="add-remove", name="rows", **settings),
        dpx.PrivateTable(
            source, domain=domain, relation="replace-one", unit=dpx.Unit("person", 1), name="persons",
            **{**settings, "separate_from": ["rows"]},
        ),
    ]  # fmt: skip
    model = dpx.Model(loud_model, output=(0, 1), name="loud", version="1")
    for table in tables:
        attempt(f"curve of {table.name}", partial(dpx.partial_dependence, table, model, "age", epsilon=1))
        attempt(f"influence on {table.name}", partial(dpx.influence, table, model, epsilon=1))
        for verb, how in (("sum_rows", {}), ("sum_groups", {"groups": 3})):

            def body(gate, table=table, verb=verb, how=how):
                getattr(table, verb)(gate, loud_kernel, ["income"], size=1, label="", **how)

            attempt(f"{verb} of {table.name}", partial(table.release, "marginals", verb, {"verb": verb}, pure(1), body,
                                                   public=[]))  # fmt: skip
    attempt("step", _mapped(source.select("income"), loud_step, "income double").collect)

    def cast(value):
        frame = spark.createDataFrame(pd.DataFrame({"income": ["1", value]}))
        return frame.selectExpr("1 as age", "cast(income as int) as income")

    last = dpx.PrivateTable(
        cast("Anna37"), domain=domain, relation="add-remove", name="cast",
        **{**settings, "separate_from": ["rows", "persons"]},
    )  # fmt: skip
    attempt("cast", partial(dpx.marginals, last, ["income"], epsilon=1))

    bare = stored("shown", [SHOWN] * 4).select("income")
    for ask in (bare.mapInArrow(lambda batches: loud_step(batches), "income double").collect, cast("Berta38").collect):
        try:
            ask()
        except Exception:
            pass
        else:
            raise AssertionError("what is loud has to fail")
    spark.stop()
    print("\n" + json.dumps(told))


if __name__ == "__main__":
    main(Path(sys.argv[1]))
