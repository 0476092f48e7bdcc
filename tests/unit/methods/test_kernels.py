"""Every pass of every method can run elsewhere: what an engine gets can be pickled, and holds no table or secret."""

from __future__ import annotations

import ast
import io
import pickle
from pathlib import Path

import numpy as np
import pytest

import dpexplain as dpx
from dpexplain.audit.capture import recorded
from dpexplain.audit.cases import PRICES
from dpexplain.core.release import Door, Gate
from dpexplain.data.assignment import Secrets
from dpexplain.engines import LocalEngine
from dpexplain.ledger import Ledger
from dpexplain.methods.registry import methods

SOURCES = Path(dpx.__file__).parent
NEVER = (dpx.PrivateTable, Door, Gate, Ledger, Secrets, np.random.Generator)


class Watching(pickle.Pickler):
    """Refuses what must not leave the machine of the door."""

    def persistent_id(self, thing):
        assert not isinstance(thing, NEVER), type(thing)
        assert not (hasattr(thing, "reserve") and hasattr(thing, "commit")), type(thing)  # an account


def shipped(thing):
    file = io.BytesIO()
    Watching(file).dump(thing)
    return pickle.loads(file.getvalue())


class Elsewhere(LocalEngine):
    """Runs what comes out of a pickle."""

    def __init__(self):
        self.passes = []

    def sum_rows(self, reading, kernel, secrets, **how):
        self.passes.append("rows")
        return super().sum_rows(shipped(reading), shipped(kernel), secrets, **how)

    def sum_groups(self, reading, kernel, deal, secrets, **how):
        self.passes.append("groups")
        return super().sum_groups(shipped(reading), shipped(kernel), shipped(deal), secrets, **how)


METHODS = sorted(method.name for method in methods().values())


@pytest.mark.parametrize("name", METHODS)
def test_every_kernel_can_be_pickled(name):
    """On all its worst cases, which every registered method must have; the two published forms gather rows."""
    method = methods()[name]
    cases = {(case.release, case.form, case.relation, case.rows): case for case in method.load(method.worst_cases)()}
    for case in cases.values():
        table = case.table(0)
        table.engine = engine = Elsewhere()
        recorded(table, lambda table, case=case: case.run(table, PRICES[case.definition] * 100), case.answers)
        gathers = case.form == "paper" and name in ("permutation-importance", "influence")
        assert bool(engine.passes) != gathers, case


@pytest.mark.parametrize(
    "thing", [lambda table: table, lambda table: table.door, lambda table: table.door.account, lambda _: Secrets()]
)
def test_what_must_stay_is_noticed(make_table, frame, thing):
    """The broken sibling: a kernel that closes over the table, its door, its account or secret numbers."""
    with pytest.raises(AssertionError):
        shipped({"kernel": [thing(make_table(frame))]})


def test_sources_can_be_pickled(make_table, frame, tmp_path):
    import pyarrow as pa

    frame.to_parquet(tmp_path / "rows.parquet")
    frame.to_csv(tmp_path / "rows.csv", index=False)
    sources = [frame, pa.Table.from_pandas(frame), tmp_path / "rows.parquet", tmp_path / "rows.csv"]
    told = []
    for source in sources:
        table = make_table(source)
        table.engine = Elsewhere()
        told.append(table.sum_rows(Gate(table.door, table.cost(epsilon=1)), total_age, ["age"], size=1, label=""))
    assert [int(sums[0]) for sums in told] == [int(frame["age"].sum())] * 4


def total_age(rows):
    return np.array([rows["age"].sum()], dtype=np.int64)


def test_two_published_forms_gather_rows_and_nobody_else():
    users = set()
    for path in SOURCES.rglob("*.py"):
        for node in ast.walk(ast.parse(path.read_text())):
            if isinstance(node, ast.Attribute) and node.attr == "gathered":
                users.add(path.relative_to(SOURCES).as_posix())
    users.remove("methods/batches/part.py")  # which hands on what a part of a batch asks for
    assert users == {"methods/permutation_importance/release.py", "methods/influence/release.py"}
