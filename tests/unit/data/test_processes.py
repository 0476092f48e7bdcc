"""Kernels in processes of their own: the same sums, models that cannot be sent, processes that fail or die."""

from __future__ import annotations

import os
import threading
from concurrent.futures import ThreadPoolExecutor
from functools import partial

import numpy as np
import pytest

import dpexplain as dpx
from dpexplain.core.budget import pure
from dpexplain.core.release import Gate
from dpexplain.data import processes
from examples import score

PAIR = dpx.Numeric(0, 100)


def moments(rows):
    return np.array([rows.size, rows["age"].sum(), rows["sex"].sum()], dtype=np.int64)


def drawn(rows, uniform):
    numbers = uniform(rows.size)
    return np.array([rows.size, ((numbers >= 0) & (numbers < 1)).sum(), os.getpid()], dtype=np.int64)


def sizes(dealt):
    return np.array([dealt.size, dealt.rows.size, (dealt.sizes == 0).sum()], dtype=np.int64)


def interrupting(rows):
    raise KeyboardInterrupt(f"the age is {rows['age'][0]}")


def dying(rows, flag):
    os._exit(int(rows.size > 0))


def ask(table, kernel, **how):
    return table.sum_rows(Gate(table.door, pure(1)), kernel, ["age", "sex"], size=3, label="", **how)


class Locked:
    def __init__(self):
        self.lock = threading.Lock()

    def __call__(self, rows):
        return score(rows)


@pytest.fixture
def in_threads(monkeypatch):
    """Threads stand for processes: nothing has to be started, and everything goes through pickles all the same."""

    def pool(workers, _context, initializer, initargs):
        monkeypatch.setattr(processes, "_here", {})
        initializer(*initargs)
        return ThreadPoolExecutor(workers)

    monkeypatch.setattr(processes, "ProcessPoolExecutor", pool)
    monkeypatch.setattr("signal.signal", lambda *_: None)


def test_sums_are_those_of_threads(make_table, frame, in_threads):
    local, table = make_table(frame), make_table(frame, processes=2)
    assert ask(table, moments).tolist() == ask(local, moments).tolist()
    gate = Gate(table.door, pure(1))
    assert table.sum_groups(gate, sizes, ["age"], 41, size=3, label="").tolist()[:2] == [41, 400]


def test_a_model_that_cannot_be_sent_is_refused_before_anything_is_spent(make_table, frame, in_threads):
    table = make_table(frame, processes=2)
    for model in (Locked(), lambda rows: score(rows)):
        with pytest.raises(dpx.errors.ModelError, match="cannot be pickled") as refused:
            dpx.partial_dependence(table, dpx.Model(model, output=(0, 1), name="locked"), "age", epsilon=1)
        assert "other processes" in str(refused.value)
        assert "Nothing was spent" in str(refused.value)
    assert table.ledger.statement(table.name).rows == ()


@pytest.mark.parametrize("number", [0, -1, True, 1.5, "2"])
def test_what_is_no_number_of_processes_is_refused(make_table, frame, number):
    with pytest.raises(dpx.errors.InputError, match="whole number"):
        make_table(frame, processes=number)


@pytest.mark.long
def test_a_curve_in_real_processes_is_that_of_threads(make_table, frame):
    model = dpx.Model(score, output=(0.0, 1.0), name="score", version="1")
    tables = make_table(frame, exact=True), make_table(frame, exact=True, processes=2)
    found = [dpx.partial_dependence(table, model, "age", epsilon=1).raw.tolist() for table in tables]
    assert found[0] == found[1]
    table = make_table(frame, processes=2)
    told = ask(table, drawn, secret=True)
    assert told[:2].tolist() == [400, 400]
    assert told[2] != os.getpid()


@pytest.mark.long
@pytest.mark.parametrize("kernel", [interrupting, partial(dying, flag="x")])
def test_a_process_that_fails_or_dies_tells_nothing_and_leaves_the_price_spent(make_table, frame, kernel, capfd):
    """Killed by the system, or by a model that raises what a user's interrupt is."""
    table = make_table(frame, processes=2)

    def body(gate):
        table.sum_rows(gate, kernel, ["age", "sex"], size=3, label="")

    with pytest.raises(dpx.ReleaseLost) as lost:
        table.release("marginals", "a kernel", {}, pure(1), body, public=[])
    assert lost.value.__context__ is None
    assert "the age is" not in "".join(capfd.readouterr()) + str(lost.value)
    (line,) = table.ledger.statement(table.name).rows
    assert line.cost.amount == 1
    assert ask(table, moments)[0] == 400  # the next pass has other processes
