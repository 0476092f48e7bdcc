"""The Spark engine: the same integers as the local one, nothing but sums on the driver, tasks that run twice."""

from __future__ import annotations

import os
import threading
from functools import partial
from pathlib import Path

import numpy as np
import pandas as pd
import pyarrow as pa
import pytest

import dpexplain as dpx
from dpexplain.core.budget import pure
from dpexplain.core.release import Gate
from dpexplain.data.assignment import Secrets
from dpexplain.engines.spark import SparkEngine
from examples import DOMAIN, score

pytestmark = pytest.mark.filterwarnings(
    "ignore::ResourceWarning", "ignore::DeprecationWarning", "ignore:PySpark does not yet fully support pandas"
)
PROTECTIONS = [
    {"relation": "replace-one"},
    {"relation": "add-remove"},
    {"relation": "add-remove", "row_id": "person"},
    {"relation": "add-remove", "unit": dpx.Unit("person", 2)},
    {"relation": "replace-one", "unit": dpx.Unit("person", 1)},
]
MODEL = dpx.Model(score, output=(0.0, 1.0), name="score", version="1")
RICH = dpx.Model(
    lambda rows: rows["income"] / 100, output=(0.0, 1.0), features=["age", "income"], name="rich", version="1"
)


class Known(Secrets):
    """One key for all passes."""

    def key(self) -> bytes:
        return b"known to the test"


def moments(rows):
    income = np.rint(rows["income"] * 1000).astype(np.int64)
    return np.array([rows.size, rows["age"].sum(), income.sum(), (income % 1009 * rows["sex"]).sum()], dtype=np.int64)


def of_groups(dealt):
    """Numbers that tell which rows are together, and how many groups there are."""
    ages = dealt.sums(np.rint(dealt.rows["age"]).astype(np.int64))
    numbers = 0 if dealt.numbers is None else int((dealt.numbers * 2**20).astype(np.int64).sum())
    sizes = dealt.sizes
    return np.array([dealt.size, sizes.sum(), (sizes == 0).sum(), (sizes**2).sum(), (ages**2).sum(), numbers])


@pytest.fixture
def opened(spark, make_table):
    def opened(frame, partitions=3, **protection):
        shared = spark.createDataFrame(pa.Table.from_pandas(frame, preserve_index=False)).repartition(partitions)
        table = make_table(shared, **protection)
        assert isinstance(table.engine, SparkEngine)
        return table

    return opened


def gate_of(table):
    return Gate(table.door, pure(1))


@pytest.mark.parametrize("protection", [PROTECTIONS[0], pytest.param(PROTECTIONS[3], marks=pytest.mark.long)])
def test_sums_over_rows_are_those_of_the_local_engine(opened, make_table, frame, protection):
    """Under a unit, the same rows of it are chosen."""
    frame = frame.assign(person=frame["person"].where(frame.index % 10 > 0).astype("Int64"))  # some have no id
    found = [
        table.sum_rows(gate_of(table), moments, list(DOMAIN), size=4, label="").tolist()
        for table in (make_table(frame, **protection), opened(frame, **protection))
    ]
    assert found[0] == found[1]


@pytest.mark.long
@pytest.mark.parametrize("protection", PROTECTIONS)
def test_groups_are_a_function_of_the_key_and_the_rows(opened, frame, protection):
    """However rows are spread and ordered: so a task that runs again deals no row otherwise. Rows that are alike are
    dealt by which of them they are.
    """
    frame = pd.concat([frame, frame.iloc[:50], frame.iloc[:50]])
    found = []
    for rows, partitions in ((frame, 3), (frame.sample(frac=1, random_state=1), 1)):
        table = opened(rows, partitions, **protection)
        table.secrets = Known
        found.append(table.sum_groups(gate_of(table), of_groups, ["age"], 41, size=6, label="", secret=True).tolist())
    assert found[0] == found[1]
    assert found[0][0] == 41
    table = opened(frame, **protection)
    other = table.sum_groups(gate_of(table), of_groups, ["age"], 41, size=6, label="", secret=True).tolist()
    assert other[:2] == found[0][:2]
    assert other[4:] != found[0][4:]  # another key
    if protection == {"relation": "replace-one"}:
        assert found[0][3] == sum((500 // 41 + (i < 500 % 41)) ** 2 for i in range(41))


@pytest.mark.long
@pytest.mark.parametrize("protection", PROTECTIONS[2:])
def test_rows_with_ids_are_dealt_as_on_the_local_engine(opened, make_table, frame, protection):
    """By the same key: the same groups, to the last row. Secret numbers of single rows are others."""
    found = []
    for make in (make_table, opened):
        table = make(frame, **protection)
        table.secrets = Known
        found.append(table.sum_groups(gate_of(table), of_groups, ["age"], 41, size=6, label="", secret=True)[:5])
    assert found[0].tolist() == found[1].tolist()


@pytest.mark.long
def test_all_groups_come_even_where_there_are_few_rows(opened, frame):
    table = opened(frame.iloc[:5], relation="add-remove")
    found = table.sum_groups(gate_of(table), of_groups, ["age"], 500, size=6, label="", at_once=0).tolist()
    assert found[:2] == [500, 5]
    assert found[2] >= 495


def test_methods_release_the_same_on_both_engines(opened, make_table, frame):
    """Without noise, and for methods that draw nothing."""
    values = []
    for table in (make_table(frame, exact=True), opened(frame, exact=True)):
        curve = dpx.partial_dependence(table, MODEL, "age", epsilon=1, rug=True)
        values.append([curve.raw.tolist(), dpx.marginals(table, epsilon=1).values.tolist()])
    assert values[0] == values[1]


@pytest.mark.long
def test_all_methods_run_on_spark(opened, make_table, frame):
    budget = dpx.Budget(10**4, 1e-6)

    def old(rows):
        return np.where(rows["age"] > 24, "old", "young")

    asked = {
        "effects": lambda t: dpx.accumulated_effects(t, MODEL, "income", epsilon=50),
        "quantiles": lambda t: dpx.quantiles(t, "income", [0.25, 0.5], epsilon=50),
        "performance": lambda t: dpx.performance(t, RICH, "sex", positive="Male", epsilon=50),
        "clusters": lambda t: dpx.explain_clusters(t, old, labels=["young", "old"], epsilon=50),
        "sketch": lambda t: dpx.local_sketch(t, MODEL, epsilon=50),
        "local": lambda t: dpx.local_explanation(t, MODEL, {"age": 23, "sex": "Male", "income": 40}, epsilon=50),
        "stand-in": lambda t: dpx.stand_in(t, epsilon=50),
        "importance": lambda t: dpx.permutation_importance(t, RICH, target="sex", positive="Male", epsilon=50),
        "influence": lambda t: dpx.influence(t, MODEL, epsilon=50),
        "plot": lambda t: dpx.generic_plot(t, "pdp", "age", model=MODEL, output=(0, 1), epsilon=50),
        "groups": lambda t: dpx.permutation_importance(
            t, RICH, target="sex", positive="Male", method="groups", epsilon=50
        ),
        "centres": lambda t: dpx.dp_kmeans(t, 2, epsilon=50).result,
        "votes": lambda t: dpx.interaction_ranking(t, MODEL, epsilon=50),
    }
    exact = ("effects", "performance", "sketch", "local")
    for name, ask in asked.items():
        found = [ask(make(frame, exact=True, budget=budget)) for make in (make_table, opened)]
        assert len(found[0].values) == len(found[1].values), name
        if name in exact:
            np.testing.assert_allclose(found[0].values, found[1].values, rtol=1e-9, err_msg=name)


# What reaches the driver ----------------------------------------------------------------------------------------------


ACTIONS = ("collect", "count", "isEmpty", "take", "first", "head", "tail", "toPandas", "toArrow", "toLocalIterator")
ACTIONS += ("toJSON", "_show_string", "foreach", "foreachPartition", "checkpoint", "localCheckpoint", "rdd", "write")
SUMS = ("ok", "part", "rows", "sums")
RANGES = ("range", "count")  # how many secret tags lie in each 256th of all possible ones


@pytest.fixture
def reached(monkeypatch):
    """What every action brought to the driver: its name, its columns and bytes; and how often Spark sent rows."""
    from pyspark import util
    from pyspark.sql.classic.dataframe import DataFrame

    seen, sent, connect = [], [], util._create_local_socket

    def watched(name):
        action = getattr(DataFrame, name)
        if isinstance(action, property):
            return property(lambda frame: pytest.fail(f"{name} was asked for"))

        def run(frame, *what, **how):
            answer = action(frame, *what, **how)
            columns = tuple(frame.columns) if name == "collect" else ()
            lines = answer if name == "collect" else [[answer]]
            cells = [cell for line in lines for cell in line]
            assert {type(cell) for cell in cells} <= {bool, int, bytes, bytearray}, name
            size = sum(len(cell) if isinstance(cell, bytes | bytearray) else 8 for cell in cells)
            seen.append((name, columns, size))
            return answer

        return run

    def connected(info):
        sent.append(info)
        return connect(info)

    for name in ACTIONS:
        monkeypatch.setattr(DataFrame, name, watched(name))
    monkeypatch.setattr(util, "_create_local_socket", connected)
    return seen, sent


def at_most(seen, sent, size):
    """Only sums of so many bytes, counts and sizes came, and nothing by another way than the actions that are seen."""
    assert {(name, columns) for name, columns, _ in seen} <= {("collect", SUMS), ("collect", RANGES), ("count", ())}
    assert len(sent) == sum(name == "collect" for name, _, _ in seen) > 0
    for _, columns, many in seen:
        assert many <= (256 * 16 if columns == RANGES else size)


@pytest.mark.long
@pytest.mark.parametrize("protection", [PROTECTIONS[0], PROTECTIONS[1], PROTECTIONS[4]])
def test_only_sums_and_counts_of_a_whole_method_reach_the_driver(opened, frame, reached, protection):
    """From opening a table of 400 rows on: for each partition one sum for each point of the curve, one for each cell of
    the rug, and the number of rows where it is private.
    """
    table = opened(frame, **protection)
    curve = dpx.partial_dependence(table, MODEL, "age", epsilon=1, rug=True)
    dpx.marginals(table, ["sex"], epsilon=1)
    at_most(*reached, 3 * (3 * 8 + 8 * (2 * len(curve.values) + 1)))


@pytest.mark.long
@pytest.mark.parametrize("protection", [PROTECTIONS[0], PROTECTIONS[3]])
def test_only_sums_and_counts_of_groups_reach_the_driver(opened, frame, reached, protection):
    """By ranges of groups, of which there are at most 128."""
    table = opened(frame, **protection)
    table.sum_groups(gate_of(table), of_groups, ["age"], 41, size=6, label="")
    at_most(*reached, 41 * (3 * 8 + 6 * 8))
    names = [columns for _, columns, _ in reached[0]]
    assert names.count(RANGES) == (protection is PROTECTIONS[0])


@pytest.mark.long
@pytest.mark.parametrize("more", [lambda f: f.collect(), lambda f: f.toPandas(), lambda f: f.take(1), lambda f: f.rdd])
def test_rows_that_reach_the_driver_are_seen(opened, frame, reached, more):
    """So the tests above can fail."""
    source = opened(frame)._source.frame
    with pytest.raises((AssertionError, pytest.fail.Exception)):
        more(source)
        at_most(*reached, 1000)


def test_a_source_gives_no_rows_to_the_driver(opened, frame):
    with pytest.raises(dpx.errors.InternalError):
        opened(frame)._source.batches(["age"], 10)


# Faults ---------------------------------------------------------------------------------------------------------------


def killed_once(rows, flag):
    """The process of an executor ends in the middle of its task, the first time."""
    if not Path(flag).exists():
        Path(flag).touch()
        os._exit(1)
    return moments(rows)


@pytest.mark.long
def test_a_task_whose_executor_is_killed_counts_once(opened, frame, tmp_path, capfd):
    table = opened(frame)
    kernel = partial(killed_once, flag=str(tmp_path / "killed"))
    found = table.sum_rows(gate_of(table), kernel, list(DOMAIN), size=4, label="")
    assert (tmp_path / "killed").exists()
    assert found[:2].tolist() == [400, frame["age"].sum()]


def failing(rows):
    raise KeyboardInterrupt(f"the income is {rows['income'][0]}")


def test_a_kernel_that_fails_tells_nothing(opened, frame, capfd):
    table = opened(frame)
    with pytest.raises(RuntimeError, match="why is not told"):
        table.sum_rows(gate_of(table), failing, list(DOMAIN), size=4, label="")
    assert "the income is" not in "".join(capfd.readouterr())


class Locked:
    """A model that holds what no other process can have."""

    def __init__(self):
        self.lock = threading.Lock()

    def __call__(self, rows):
        return score(rows)


def test_a_model_that_cannot_be_sent_is_refused_before_anything_is_spent(opened, frame):
    table = opened(frame)
    model = dpx.Model(Locked(), output=(0, 1), name="locked")
    with pytest.raises(dpx.errors.ModelError, match="cannot be pickled") as refused:
        dpx.partial_dependence(table, model, "age", epsilon=1)
    assert "Nothing was spent" in str(refused.value)
    with pytest.raises(dpx.errors.ModelError, match="cannot be pickled"):
        lock = threading.Lock()
        dpx.generic_plot(
            table, lambda part, name: ([20, 29], [float(lock.locked())] * 2), "age", epsilon=1, output=(0, 1)
        )


def test_published_forms_that_permute_all_rows_are_refused_before_anything_is_spent(opened, frame):
    table = opened(frame)
    for ask in (
        lambda: dpx.permutation_importance(table, RICH, target="sex", positive="Male", epsilon=1, method="paper"),
        lambda: dpx.influence(table, MODEL, epsilon=1, method="paper"),
    ):
        with pytest.raises(dpx.errors.InputError, match="does not run on Spark"):
            ask()


@pytest.mark.long
def test_a_source_that_changes_is_noticed(opened, frame):
    table = opened(frame)
    table.size -= 1
    with pytest.raises(RuntimeError, match="number of rows"):
        table.sum_rows(gate_of(table), moments, list(DOMAIN), size=4, label="")


@pytest.mark.parametrize("drawn", ["rand()", "uuid()", "monotonically_increasing_id()"])
def test_a_frame_that_gives_other_rows_each_time_is_refused(spark, make_table, frame, drawn):
    shared = spark.createDataFrame(pa.Table.from_pandas(frame, preserve_index=False))
    with pytest.raises(dpx.errors.TableError, match="runs again") as error:
        make_table(shared.selectExpr("*", f"{drawn} AS drawn"))
    assert "Parquet" in error.value.hint
    with pytest.raises(dpx.errors.TableError, match="runs again"):
        make_table(shared.where("rand() < 0.5"))


def test_a_table_of_the_session_is_found_by_its_name(spark, make_table, frame):
    spark.createDataFrame(pa.Table.from_pandas(frame)).createOrReplaceTempView("patients")
    assert make_table("patients").size == 400
    with pytest.raises(dpx.errors.TableError, match="no file"):
        make_table("nobody")
