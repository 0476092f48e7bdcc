"""Groups of rows: the same integers in memory and through files, every row once, and no file left behind."""

from __future__ import annotations

import stat
from collections import Counter
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import dpexplain as dpx
from chosen import chosen
from dpexplain.core.budget import pure
from dpexplain.core.release import Gate
from dpexplain.core.sensitivity import Assignment
from dpexplain.data import dealing
from dpexplain.data.assignment import Secrets
from dpexplain.data.encode import NO_ID
from rings import examples

DOMAIN = dpx.Domain({"x": dpx.Numeric(0, 1000, integer=True), "c": dpx.Categorical(["a", "b"])})
PROTECTIONS = [
    {"relation": "replace-one"},
    {"relation": "add-remove"},
    {"relation": "add-remove", "row_id": "id"},
    {"relation": "replace-one", "unit": dpx.Unit("id", 2)},
    {"relation": "add-remove", "unit": dpx.Unit("id", 3)},
]


def opened(rows, **protection):
    frame = pd.DataFrame(rows, columns=["x", "id"]).astype({"x": np.int64, "id": np.int64})
    frame["c"] = np.where(frame["x"] % 2 == 0, "a", "b")
    settings = {"budget": dpx.Budget(1), "ledger": "sqlite:///:memory:", "name": "t"}
    return dpx.PrivateTable(frame, domain=DOMAIN, **settings, **protection)


class Seeded(Secrets):
    """Known numbers: a tag of each id, or of each place in the source, and a number that goes with the row."""

    def __init__(self, seed):
        self._seed = seed

    def order(self, size):
        return np.arange(size)

    def uniform(self, size):
        return np.zeros(size)

    def tags(self, rule, rows):
        draw = np.random.default_rng(self._seed)
        by_place = draw.permutation(rows) if rule is Assignment.POSITION else draw.integers(2**62, size=500)
        place = 0

        def deal(size, ids):
            nonlocal place
            place += size
            if ids is None:
                return by_place[place - size : place]
            known = [499 if one == NO_ID else int(one.removeprefix("id:")) for one in ids[1]]
            return by_place[np.array(known, dtype=np.int64)][ids[0]]

        return deal


def fingerprint(dealt):
    """Integers that tell groups, the rows in each, and their order, of which sums over pieces still add up."""
    answers, place = [], np.arange(dealt.rows.size) - dealt.starts[dealt.group]
    for values in (dealt.rows["x"], dealt.rows["c"], dealt.tags % 1009):
        mixed = (values.astype(np.int64) + 1) * (place + 1)
        answers += [dealt.sums(mixed).sum(), (dealt.sums(mixed) ** 2).sum()]
    return np.array([*answers, dealt.size, (dealt.sizes == 0).sum()], dtype=np.int64)


@settings(max_examples=examples(60), deadline=None)
@given(
    st.lists(st.tuples(st.integers(0, 1000), st.integers(0, 12)), min_size=3, max_size=60),
    st.sampled_from(PROTECTIONS),
    st.integers(1, 20),
    st.integers(1, 7),
    st.sampled_from([0, 300]),
    st.booleans(),
    st.integers(0, 99),
)
def test_the_same_integers_in_memory_and_through_files(rows, protection, groups, ranges, at_once, secret, seed):
    rows = [*rows, (1, 100), (2, 101)]  # replace-one needs two units
    found = []
    for memory in (2**28, 100):
        table = opened(rows, **protection)
        table.secrets = lambda: Seeded(seed)
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(dealing, "MEMORY", memory)
            patch.setattr(dealing, "FILES", 2)
            patch.setattr(dealing, "RANGES", ranges)
            patch.setattr("dpexplain.data.table.PrivateTable._batch_size", lambda _self, most, _columns: min(most, 5))
            how = {"size": 8, "label": "", "at_once": at_once, "secret": secret}
            found.append(table.sum_groups(Gate(table.door, pure(1)), fingerprint, ["x", "c"], groups, **how))
        table.ledger.close()
    assert found[0].tolist() == found[1].tolist()
    assert found[0][6] == groups


@pytest.mark.parametrize("protection", PROTECTIONS)
@pytest.mark.parametrize("secret", [False, True])
def test_every_row_comes_once_and_units_stand_together(protection, secret, monkeypatch):
    """With the secret numbers of the product, through files."""
    monkeypatch.setattr(dealing, "MEMORY", 1000)
    monkeypatch.setattr("dpexplain.data.table.BATCH_ROWS", 256)
    rows = [(i, i // 4 if i % 9 else 7) for i in range(700)]
    table, seen = opened(rows, **protection), []
    most = protection["unit"].max_rows if "unit" in protection else len(rows)
    kept = [rows[i][0] for i in chosen([(float(x), x % 2) for x, _ in rows], [one for _, one in rows], most)]

    def kernel(dealt):
        assert (dealt.numbers is not None) == secret
        for part in np.split(dealt.tags, dealt.starts[1:]):
            if secret or table.assignment is Assignment.POSITION:
                assert (np.diff(part) >= 0).all()  # rows of one unit together
        seen.extend(dealt.rows["x"].astype(int).tolist())
        return np.array([dealt.size])

    gate = Gate(table.door, pure(1))
    assert table.sum_groups(gate, kernel, ["x"], 31, size=1, label="", secret=secret, parallel=False).tolist() == [31]
    assert Counter(seen) == Counter(kept)


# Files ----------------------------------------------------------------------------------------------------------------


@pytest.fixture
def spilling(monkeypatch, tmp_path):
    """A table whose rows go through files below a folder of the test."""
    monkeypatch.setattr(dealing, "MEMORY", 1000)
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path))
    monkeypatch.setattr("dpexplain.data.table.BATCH_ROWS", 256)
    return opened([(i, i) for i in range(1000)], relation="add-remove")


def ask(table, kernel):
    return table.sum_groups(Gate(table.door, pure(1)), kernel, ["x"], 9, size=1, label="")


def test_files_are_private_and_gone_at_the_end(spilling, tmp_path):
    modes = []

    def kernel(dealt):
        (folder,) = Path(tmp_path).iterdir()
        modes.append(stat.S_IMODE(folder.stat().st_mode))
        assert not list(folder.iterdir())  # they are open, and have no names any more
        return np.array([dealt.rows.size])

    assert ask(spilling, kernel).tolist() == [1000]
    assert set(modes) == {0o700}
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize("error", [ValueError, KeyboardInterrupt, SystemExit])
def test_files_are_gone_after_an_error_or_an_interrupt(spilling, tmp_path, error):
    begun = []

    def kernel(dealt):
        begun.extend(tmp_path.iterdir())
        raise error

    with pytest.raises(error):
        ask(spilling, kernel)
    assert begun
    assert list(tmp_path.iterdir()) == []


def test_files_are_gone_after_an_interrupt_while_they_are_written(spilling, tmp_path, monkeypatch):
    begun, honest = [], spilling._source.batches

    def interrupted(columns, rows):
        for number, batch in enumerate(honest(columns, rows)):
            yield batch
            if number == 2:
                begun.extend(tmp_path.iterdir())
                raise KeyboardInterrupt

    monkeypatch.setattr(spilling._source, "batches", interrupted)
    with pytest.raises(KeyboardInterrupt):
        ask(spilling, lambda dealt: np.array([dealt.size]))
    assert begun
    assert list(tmp_path.iterdir()) == []


def test_there_are_never_too_many_open_files(spilling, monkeypatch):
    """Files become larger, up to four times, well before there are 256, which is all that macOS allows at first."""
    assert 4 * dealing.FILES <= 256
    monkeypatch.setattr(dealing, "FILES", 1)
    monkeypatch.setattr("dpexplain.data.table.PrivateTable._batch_size", lambda *_: 10)
    honest, sizes = dealing._Run.__init__, []

    def noted(run, path, columns, groups):
        sizes.append(len(columns[-1]))
        honest(run, path, columns, groups)

    monkeypatch.setattr(dealing._Run, "__init__", noted)
    assert ask(spilling, lambda dealt: np.array([dealt.rows.size])).tolist() == [1000]
    assert sizes[:4] == [70, 130, 250, 250]  # of 16 bytes each, beyond 1,000, 2,000 and 4,000 bytes
    assert sum(sizes) == 1000


def test_small_tables_stay_in_memory(make_table, frame, tmp_path, monkeypatch):
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path / "nowhere"))
    table = make_table(frame)
    told = table.sum_groups(Gate(table.door, pure(1)), lambda d: np.array([d.rows.size]), ["age"], 9, size=1, label="")
    assert told.tolist() == [len(frame)]


def test_a_full_disk_loses_the_release_and_leaves_nothing(make_table, frame, monkeypatch, tmp_path):
    """The second file of rows goes to a device that is always full."""
    if not Path("/dev/full").exists():
        pytest.skip("this system has no device that is always full")
    monkeypatch.setattr(dealing, "MEMORY", 1000)
    monkeypatch.setattr("dpexplain.data.table.BATCH_ROWS", 64)
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path))
    table, folders = make_table(frame, relation="add-remove"), []
    honest = dealing._Run.__init__

    def full(run, path, *rest):
        folders.append(path.parent)
        if path.name == "1":
            path.symlink_to("/dev/full")
        honest(run, path, *rest)

    monkeypatch.setattr(dealing._Run, "__init__", full)

    def body(gate):
        sums = table.sum_groups(gate, lambda dealt: np.array([dealt.size]), ["age"], 9, size=1, label="")
        gate.noisy_counts("rows", sums, pure(1), partitions=1)

    with pytest.raises(dpx.ReleaseLost) as lost:
        table.release("marginals", "groups", {}, pure(1), body, public=[])
    assert lost.value.__context__ is None
    assert len(folders) == 2
    assert list(tmp_path.iterdir()) == []
    (line,) = table.ledger.statement(table.name).rows
    assert float(line.cost.amount) == 1
    monkeypatch.setattr(dealing._Run, "__init__", honest)
    table.release("marginals", "groups again", {}, pure(1), body, public=[])  # there is room again
