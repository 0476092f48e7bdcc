"""Sums over batches: exact, in bounded memory, silent about private sizes."""

from __future__ import annotations

import re
import threading
import warnings
from dataclasses import dataclass

import numpy as np
import pytest

import dpexplain as dpx
from dpexplain.core.quiet import quiet
from dpexplain.engines import progress, summed
from dpexplain.engines.local import ahead
from dpexplain.ledger import LOST, RELEASED


@dataclass
class Batch:
    size: int
    value: int


def run(batches, kernel, **options):
    return summed(kernel, batches, **{"size": 2, "label": "test", "total": None, "parallel": True, **options})


@pytest.mark.parametrize("parallel", [True, False])
def test_sums_are_exact_and_empty_is_zero(parallel):
    big = 2**61
    batches = [Batch(1, big), Batch(1, -big), Batch(1, 5)]
    result = run(batches, lambda b: np.array([b.value, 1]), parallel=parallel)
    assert result.tolist() == [5, 3]
    assert run([], lambda b: np.array([1, 1]), parallel=parallel).tolist() == [0, 0]


def test_only_a_few_batches_are_alive_at_a_time(monkeypatch):
    monkeypatch.setattr("dpexplain.engines.local.cores", lambda: 2)
    alive, most, lock = 0, 0, threading.Lock()

    def batches():
        nonlocal alive, most
        for _ in range(50):
            with lock:
                alive += 1
                most = max(most, alive)
            yield Batch(1, 1)

    def kernel(batch):
        nonlocal alive
        with lock:
            alive -= 1
        return np.array([1, 1])

    assert run(batches(), kernel).tolist() == [50, 50]
    assert most <= 2 * 2 + 1


def test_warnings_stay_inside_and_errors_come_out():
    def loud(batch):
        warnings.warn("row 17 is strange", stacklevel=1)
        return np.array([1, 1]) + (np.array([1.0, 1.0]) / np.array([0.0, 1.0]) > 0)

    with quiet():  # as the door does; warnings are errors in this test run
        assert run([Batch(1, 1)], loud).tolist() == [2, 2]

    def broken(batch):
        raise ValueError("broken")

    with pytest.raises(ValueError, match="broken"):
        run([Batch(1, 1)], broken)


def test_the_bar_shows_a_share_only_when_the_number_of_rows_is_public(capsys, monkeypatch):
    monkeypatch.setenv("FORCE_COLOR", "1")  # rich draws bars only on something like a terminal
    monkeypatch.setenv("COLUMNS", "100")
    progress(True)
    try:
        run([Batch(3, 1)] * 4, lambda b: np.array([1, 1]), total=12)
        public = capsys.readouterr()
        run([Batch(3, 1)] * 4, lambda b: np.array([1, 1]), total=None)
        private = capsys.readouterr()
    finally:
        progress(None)
    assert public.out == private.out == ""
    assert "100%" in public.err
    assert "%" not in private.err
    clocks = [
        max(len(re.findall(r"[-\d]:[-\d]{2}:[-\d]{2}", line)) for line in re.split(r"[\r\n]", said.err))
        for said in (public, private)
    ]
    assert clocks == [2, 1]  # time that has passed, and time left
    assert "test" in private.err
    run([Batch(3, 1)], lambda b: np.array([1, 1]), total=3)
    assert capsys.readouterr().err == ""  # standard error is no terminal here


def test_a_pipe_gets_lines_with_public_numbers_only(capsys, monkeypatch):
    monkeypatch.delenv("FORCE_COLOR", raising=False)
    clock = iter(range(0, 1000, 3))
    monkeypatch.setattr("time.monotonic", lambda: float(next(clock)))
    progress(True)
    try:
        run([Batch(25, 1)] * 8, lambda b: np.array([1, 1]), total=200, label="curve of \x1b[31mage\r")
        public = capsys.readouterr().err
        shorter = []
        for batches in (1, 8, 80):
            run([Batch(25, 1)] * batches, lambda b: np.array([1, 1]), total=None)
            shorter.append(capsys.readouterr().err)
    finally:
        progress(None)
    lines = public.splitlines()
    assert lines[0] == "curve of  [31mage : 25% of 200 rows"  # not at every batch: the clock moves 3 seconds a look
    assert 1 < len(lines) < 8
    assert all(c.isprintable() or c == "\n" for c in public)
    assert shorter == ["test ...\n"] * 3  # the same for any number of rows


def test_rows_that_are_chosen_at_random_are_never_more_than_all(capsys, monkeypatch):
    """By chance more rows are used than expected, and the total is what was expected."""
    monkeypatch.delenv("FORCE_COLOR", raising=False)
    clock = iter(range(0, 1000, 6))
    monkeypatch.setattr("time.monotonic", lambda: float(next(clock)))
    progress(True)
    try:
        run([Batch(25, 1)] * 5, lambda b: np.array([1, 1]), total=90)
    finally:
        progress(None)
    shares = [int(line.split(": ")[1].split("%")[0]) for line in capsys.readouterr().err.splitlines()]
    assert shares == [28, 56, 83, 100, 100]


def test_overlapping_passes_share_one_silence_and_leave_the_filters_as_they_were():
    before = list(warnings.filters)
    started, finish = threading.Event(), threading.Event()

    def slow(batch):
        started.set()
        finish.wait(60)
        warnings.warn("row 17", stacklevel=1)
        return np.array([1, 1])

    def quietly(kernel):
        with quiet():
            run([Batch(1, 1)], kernel)

    thread = threading.Thread(target=lambda: quietly(slow))
    thread.start()
    started.wait(60)
    quietly(lambda b: np.array([1, 1]))  # begins and ends while the other one is under way
    finish.set()
    thread.join()
    assert warnings.filters == before


def test_a_map_works_ahead_and_gives_answers_in_order(monkeypatch):
    monkeypatch.setattr("dpexplain.engines.local.cores", lambda: 3)
    read = []

    def items():
        for number in range(40):
            read.append(number)
            yield number

    with ahead() as mapped:
        for place, square in enumerate(mapped(lambda x: x * x, items())):
            assert square == place**2
            assert place < len(read) <= place + 4  # never far ahead: batches are large
    assert read == list(range(40))


@pytest.mark.parametrize("error", [ValueError, KeyboardInterrupt])
def test_what_goes_wrong_ahead_comes_out(error):
    def failing(number):
        if number == 5:
            raise error
        return number

    with pytest.raises(error), ahead() as mapped:
        list(mapped(failing, range(10**9)))  # what follows is not read


def test_an_interrupt_of_a_release_leaves_a_ledger_that_tells_the_truth(make_table, frame, monkeypatch):
    """Ctrl-C comes to the thread that reads, while others clean and count."""
    table = make_table(frame)
    honest = table._source.batches

    def interrupted(columns, rows):
        yield from honest(columns, rows)
        raise KeyboardInterrupt

    monkeypatch.setattr(table._source, "batches", interrupted)
    with pytest.raises(KeyboardInterrupt):
        dpx.marginals(table, ["age"], epsilon=0.25)
    monkeypatch.setattr(table._source, "batches", honest)
    dpx.marginals(table, ["sex"], epsilon=0.5)
    first, second = table.ledger.statement(table.name).rows
    assert (first.status, float(first.cost.amount)) == (LOST, 0.25)
    assert (second.status, float(second.cost.amount)) == (RELEASED, 0.5)
