"""What a row is depends on that row and the declaration alone.

Neighbouring tables are typed as texts and read by everything that people read tables with, which all infer the types of
columns from all rows together. Then: the codes of the rows that both tables share are the same, and the exact sums of
whole releases move at most as far as their bound says, under both relations, with units, and with models that fail.
"""

from __future__ import annotations

from functools import cache, partial
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pyarrow as pa
import pytest
from captured import calls
from hypothesis import given, settings
from hypothesis import strategies as st
from inferred import READERS, Columns

import dpexplain as dpx
from dpexplain.core.sensitivity import Assignment, Neighbours, Relation
from dpexplain.data.assignment import Secrets, secret_order
from dpexplain.data.encode import NO_ID, check_objects, check_type, encode, identifiers
from dpexplain.data.sources import open_source
from rings import examples
from stubs import Unshuffled

ENTRIES = [
    "0", "1", "2", "-1", "01", "1.0", "2.0", "2.50", "1e3", "inf", "True", "False", "TRUE", "false", "?", "abc", "",
    "NA", " 1", "0x10", "9007199254740993", "9007199254740992", "1e20", "yes", "1.5", "2020-01-01", "T", "-0", "#NA",
    "NaN", "null", "0xFFFFFFFFFFFFFFFF", "-0.0", "+1", "08:00", "12:30", "12:30:05.5", "2020-01-01 23:30", "20200101",
    "2020-01-01T23:30:00-05:00", "2020-02", "2020-02-30", "01/02/2020",
]  # fmt: skip
DECLARED = {
    "number": dpx.Numeric(-10, 10),
    "whole number": dpx.Numeric(-10, 10, integer=True, missing=7),
    "large number": dpx.Numeric(0, 1e16),
    "numbers": dpx.Categorical([9, 0, 1, 2]),
    "fractions": dpx.Categorical([9.0, 0.5, 1.5, 2.5, 1.0]),
    "truth": dpx.Categorical([False, True], missing=True),
    "truth as text": dpx.Categorical(["?", "True", "False"]),
    "truth in small letters": dpx.Categorical(["none of them", "true", "false"]),
    "texts": dpx.Categorical(["?", "abc", "yes", "T"]),
    "numbers as text": dpx.Categorical(["?", "0", "1", "2", "-1"]),
    "fractions as text": dpx.Categorical(["?", "1.0", "2.0", "2.50"]),
    "leading zeros": dpx.Categorical(["?", "01", "02", "00"]),
    "large": dpx.Categorical([0, 9007199254740992]),
    "mixed": dpx.Categorical(["abc", 1, 2.5]),
    "dates": dpx.Categorical(["?", "2020-01-01", "2020-01-02"]),
    "days": dpx.Date("2019-12-01", "2020-02-01"),
    "months": dpx.Date("2019-01", "2021-01", step="month"),
    "times of day": dpx.Categorical(["?", "08:00", "12:30"]),
    "a word for missing": dpx.Categorical(["1", "2", "NA", "abc"], missing="NA"),
}


def codes(source: Any, column: Any, name: str = "value") -> np.ndarray:
    opened = open_source(source)
    check_type(name, column, opened.types[name])
    batches = [raw[name] for _, raw in opened.batches([name], 3)]
    if opened.types[name] is None:  # as `PrivateTable` does when it is opened
        for raw in batches:
            check_objects(name, raw)
    return np.concatenate([encode(column, raw) for raw in batches])


@pytest.mark.parametrize("reader", READERS)
@settings(max_examples=examples(60))
@given(data=st.data())
def test_no_entry_changes_the_code_of_another_one(reader: str, tmp_path_factory: Any, data: Any) -> None:
    """Whatever one person's entry is, the others are read alike. A column of dates or times is refused by its type."""
    folder = tmp_path_factory.getbasetemp()
    kinds = [ENTRIES, ["0", "1", "2"], ["1.0", "2.0"], ["True", "False"], ["01", "02"], ["abc", "yes"], ["", "1"]]
    kinds += [["08:00", "12:30"], ["2020-01-01"], ["2020-01-01", "2020-01-01 23:30", ""]]
    kinds += [["2020-01-01T23:30:00-05:00", "2020-01-15T00:00:00Z"]]
    entries = data.draw(
        st.sampled_from(kinds).flatmap(lambda few: st.lists(st.sampled_from(few), min_size=2, max_size=8))
    )
    place = data.draw(st.integers(0, len(entries) - 1))
    other = [*entries[:place], data.draw(st.sampled_from(ENTRIES)), *entries[place + 1 :]]
    sources = {}
    for name, side in (("left", entries), ("right", other)):
        (folder / name).mkdir(exist_ok=True)
        sources[name] = READERS[reader]({"value": side}, folder / name)
    for column in DECLARED.values():
        try:
            left, right = (codes(source, column) for source in sources.values())
        except dpx.errors.TableError as refused:
            stored = ("stores it as date32", "stores it as timestamp", "stores it as time32")
            words = ("is declared date", *stored, "Python objects of type")
            assert any(word in refused.message for word in words)  # noqa: PT017
            continue
        left, right = np.delete(left, place), np.delete(right, place)
        np.testing.assert_array_equal(left, right)
        np.testing.assert_array_equal(np.signbit(left), np.signbit(right))


@cache
def typed(name: str, entries: tuple[str, ...]) -> list[float]:
    """The codes of entries that no reader touched."""
    return [encode(DECLARED[name], pd.Series([entry], dtype=object))[0] for entry in entries]


@pytest.mark.parametrize("reader", READERS)
def test_every_reader_gives_an_entry_the_same_code(reader: str, tmp_path: Path) -> None:
    """So neither does it matter which reader somebody uses."""
    unclear = (
        "2020-01-01",
        "2020-01-01 23:30",
        "2020-01-01T23:30:00-05:00",
        "08:00",
        "12:30",
        "12:30:05.5",
        "NA",
        "",
        "#NA",
        "NaN",
        "null",
    )
    clear = [entry for entry in ENTRIES if entry not in unclear]
    of_all, of_each = READERS[reader]({"value": clear}, tmp_path), []
    for number, entry in enumerate(clear):
        folder = tmp_path / f"{number}"
        folder.mkdir()
        of_each.append(READERS[reader]({"value": [entry, entry]}, folder))
    for name, column in DECLARED.items():
        if isinstance(column, dpx.Date):  # refused where all entries are numbers: tests/unit/data/test_dates.py
            continue
        together = codes(of_all, column)
        alone = [codes(source, column)[0] for source in of_each]
        assert together.tolist() == alone == typed(name, tuple(clear))


def test_the_finding_one_missing_value_no_longer_moves_everybody() -> None:
    """2,000 rows, categories declared as texts, stored as integers; one of them missing makes the column float."""
    numbers = np.random.default_rng(0).choice([1, 2], 2000, p=[0.2, 0.8])
    column = dpx.Categorical(["1", "2"])
    whole, holed = pd.DataFrame({"value": numbers}), pd.DataFrame({"value": numbers.astype(float)})
    holed.loc[7, "value"] = np.nan
    change = np.bincount(codes(whole, column)) - np.bincount(codes(holed, column))
    assert np.abs(change).sum() <= 2


# Ids ------------------------------------------------------------------------------------------------------------------

IDS = [
    "1",
    "2",
    "7",
    "+7",
    "0x7",
    "12",
    "X17",
    "",
    "#NA",
    "1.#IND",
    "p",
    "P",
    " 7",
    "1100000000000000001",
    "-3",
    "NULL",
]


def ids_of(source: Any) -> list[str]:
    opened = open_source(source)
    spelled = []
    for _, raw in opened.batches(["id"], 3):
        numbers, distinct = identifiers(raw["id"])
        spelled += [distinct[number] for number in numbers]
    return spelled


def person(entry: str) -> str:
    """Who an entry means: numbers by their value, texts as they are, nobody for a missing value."""
    if entry in ("", "#NA", "1.#IND", "NULL"):
        return NO_ID
    return {"+7": "7", "0x7": "7", " 7": "7"}.get(entry, entry)


@pytest.mark.parametrize("reader", READERS)
@settings(max_examples=examples(40))
@given(data=st.data())
def test_one_id_is_one_unit_and_two_ids_are_two(reader: str, tmp_path_factory: Any, data: Any) -> None:
    """Readers turn some ids into floats, some into texts, some into whole numbers; a column of floats is refused."""
    entries = data.draw(st.lists(st.sampled_from(IDS), min_size=2, max_size=9))
    source = READERS[reader]({"id": entries, "value": ["1"] * len(entries)}, tmp_path_factory.getbasetemp())
    domain = dpx.Domain({"value": dpx.Numeric(0, 2)})
    try:
        dpx.PrivateTable(
            source, domain=domain, budget=dpx.Budget(1), relation="add-remove", unit=dpx.Unit("id", 1),
            ledger=dpx.open_ledger("sqlite:///:memory:"), name="t",
        )  # fmt: skip
    except dpx.errors.TableError as refused:
        assert "floating-point" in refused.message  # noqa: PT017
        return
    found = ids_of(source)
    assert [one == NO_ID for one in found] == [person(entry) == NO_ID for entry in entries]
    for first, one in zip(entries, found, strict=True):
        for second, other in zip(entries, found, strict=True):
            assert (one == other) == (person(first) == person(second)), (first, second)


@pytest.mark.parametrize("kind", ["uuid", "tuple"])
def test_ids_that_are_objects_work(kind: str) -> None:
    import uuid

    made = {
        "uuid": [uuid.UUID(int=i) for i in range(5)],
        "tuple": [("a", i) for i in range(5)],
    }[kind]
    numbers, distinct = identifiers(pd.Series([*made, *made], dtype=object))
    assert numbers.tolist() == [0, 1, 2, 3, 4] * 2
    assert NO_ID not in {distinct[number] for number in numbers}


@pytest.mark.parametrize(
    "odd",
    [
        pd.Timestamp("2020-01-01"), pd.Timestamp("2020-01-01").date(), pd.Timestamp("08:00").time(), pd.Timedelta(1),
        np.datetime64("2020-01-01"), ("a", pd.Timestamp("2020-01-01")), pd.Period("2020-01"),
    ],
)  # fmt: skip
def test_ids_with_two_spellings_are_refused(odd: Any) -> None:
    """A reader makes a Timestamp of "1950-01-01" or leaves the text, as the other entries of its file are: one person
    would be two units.
    """
    rows = pd.DataFrame({"id": pd.Series(["a", odd], dtype=object), "value": 1})
    settings = {"budget": dpx.Budget(1), "relation": "add-remove", "ledger": "sqlite:///:memory:", "name": "t"}
    with pytest.raises(dpx.errors.TableError, match=r"Python objects of"):
        dpx.PrivateTable(rows, domain=dpx.Domain({"value": dpx.Numeric(0, 2)}), unit=dpx.Unit("id", 1), **settings)
    if not isinstance(odd, tuple):
        declared = dpx.Domain({"id": dpx.Categorical(["a", "b"])})
        with pytest.raises(dpx.errors.TableError, match="Python objects of type"):
            dpx.PrivateTable(rows, domain=declared, **settings)


def test_an_object_and_its_text_are_one_id_but_a_tuple_is_no_text() -> None:
    import uuid

    one = uuid.UUID(int=3)
    spelled = ids_of(
        pd.DataFrame({"id": pd.Series([one, str(one), ("a",), "tuple:['id:a']", "1", "2", 1], dtype=object)})
    )
    assert spelled[0] == spelled[1]
    assert spelled[2] != spelled[3]
    assert spelled[4] == spelled[6] != spelled[5]


def test_long_ids_with_one_missing_are_refused_and_not_merged() -> None:
    """19-digit ids and one person without an id: as floats, 2,000 people became 21."""
    frame = pd.DataFrame({"id": [1_100_000_000_000_000_000 + i for i in range(20)] + [None], "value": 1})
    domain = dpx.Domain({"value": dpx.Numeric(0, 2)})
    settings_ = {"domain": domain, "budget": dpx.Budget(1), "relation": "add-remove", "name": "t"}
    for column in (frame, frame.astype({"id": "category"}), pa.Table.from_pandas(frame)):
        with pytest.raises(dpx.errors.TableError, match="floating-point numbers") as refused:
            dpx.PrivateTable(column, unit=dpx.Unit("id", 1), ledger="sqlite:///:memory:", **settings_)
        assert "dtype={'id': 'string'}" in refused.value.hint


def test_a_float_among_other_objects_is_refused() -> None:
    """One chunk with a missing id has floats: each may be any of many people, and to drop them removes other rows."""
    domain = dpx.Domain({"value": dpx.Numeric(0, 2)})
    mixed = pd.Series([1.1e18, 1_100_000_000_000_000_000, "x"], dtype=object)
    with pytest.raises(dpx.errors.TableError, match="floating-point"):
        dpx.PrivateTable(
            pd.DataFrame({"id": mixed, "value": 1}), domain=domain, budget=dpx.Budget(1), relation="add-remove",
            unit=dpx.Unit("id", 1), ledger=dpx.open_ledger("sqlite:///:memory:"), name="t",
        )  # fmt: skip


# Whole releases -------------------------------------------------------------------------------------------------------

DOMAIN = dpx.Domain(
    {
        "age": dpx.Numeric(0, 100_000, integer=True, missing=40),
        "x": dpx.Numeric(-1, 1),
        "sex": dpx.Categorical(["f", "m", "1"], missing="m"),
        "sick": dpx.Categorical([0, 1]),
        "truth": dpx.Categorical([False, True]),
    }
)
COLUMNS = list(DOMAIN)
FIELDS = {
    "age": ["20", "33", "34", "66", "7", "", "20.0", "?", "1e2"],
    "x": ["0.5", "-1", "1", "", "abc", "inf", "0"],
    "sex": ["f", "m", "1", "1.0", "M", ""],
    "sick": ["0", "1", "True", "?", "", "1.0"],
    "truth": ["True", "False", "true", "0", "1", ""],
}


def failing(rows: pd.DataFrame) -> Any:
    """Raises on one age, answers NaN and infinity on others."""
    if (rows["age"] == 66).any():
        raise ValueError("row 66")
    age, x, sick = (rows[name].to_numpy() for name in ("age", "x", "sick"))
    value = age / 100_000 * (rows["sex"] == "m").to_numpy() + x * sick
    return np.where(rows["age"] == 33, np.nan, np.where(rows["age"] == 34, np.inf, 3 * value))


FAILING = dpx.Model(failing, output=(-1, 1), name="failing")  # tried once for all tables


def explained(table: dpx.PrivateTable) -> None:
    dpx.partial_dependence(table, FAILING, ["x", "sex"], epsilon=1, grid=3)
    dpx.accumulated_effects(table, FAILING, "x", epsilon=1, clip=0.01)
    dpx.marginals(table, epsilon=1)


row = st.fixed_dictionaries({name: st.sampled_from(entries) for name, entries in FIELDS.items()})


@st.composite
def neighbours(draw: Any) -> tuple[str, int | None, list[dict[str, str]], list[dict[str, str]]]:
    """Two lists of rows with their ids, and the protection under which they are neighbours."""
    relation, most = draw(st.sampled_from(["replace-one", "add-remove"])), draw(st.sampled_from([None, 1, 2]))
    people = st.sampled_from([f"{i}" for i in range(6)] if most is None else ["7", "8", "9", "X17"])
    left = [{**draw(row), "id": draw(people)} for _ in range(draw(st.integers(4, 14)))]
    if most is None:
        place = draw(st.integers(0, len(left) - 1))
        comes = [{**draw(row), "id": left[place]["id"]}] if relation == "replace-one" else []
        return relation, most, left, [*left[:place], *comes, *left[place + 1 :]]
    gone = draw(people)
    right = [line for line in left if line["id"] != gone]
    if relation == "replace-one":
        newcomer = draw(st.sampled_from([gone, "10", "Y"]))
        for _ in range(draw(st.integers(1, 4))):
            right.insert(draw(st.integers(0, len(right))), {**draw(row), "id": newcomer})
    return relation, most, left, right


def columns_of(rows: list[dict[str, str]]) -> Columns:
    return {name: [line[name] for line in rows] for name in [*COLUMNS, "id"]}


@pytest.mark.parametrize("reader", READERS)
@settings(max_examples=examples(12))
@given(case=neighbours())
def test_whole_releases_of_raw_neighbours_stay_within_their_bounds(
    reader: str, tmp_path_factory: Any, case: Any
) -> None:
    relation, most, left, right = case
    if min(len({line["id"] for line in side}) if most else len(side) for side in (left, right)) < 2:
        return  # replace-one needs two units
    unit = None if most is None else dpx.Unit("id", most)
    made = []
    for side in (left, right):
        source = READERS[reader](columns_of(side), tmp_path_factory.mktemp("side"))
        table = dpx.PrivateTable(
            source, domain=DOMAIN, budget=dpx.Budget(100), relation=relation, unit=unit,
            ledger=dpx.open_ledger("sqlite:///:memory:"), name="t",
        )  # fmt: skip
        made.append(calls(table, explained))
    assert len(made[0]) == len(made[1]) > 3
    for (a, _, bound, _), (b, _, _, _) in zip(*made, strict=True):
        moved = np.abs(np.array(a, dtype=object) - np.array(b, dtype=object))
        assert moved.sum() <= bound.l1
        assert (moved**2).sum() <= bound.l2_squared
        assert moved.max() <= bound.linf


# The order of rows ----------------------------------------------------------------------------------------------------


def odd_share(rows: pd.DataFrame, _: Any) -> tuple[list[int], list[float]]:
    """A function of a part that any row can turn over."""
    return [0, 1000], [float(rows["sick"].sum() % 2)] * 2


def change_of_sorted_tables(coupled: bool) -> tuple[float, float]:
    """How far the sum over 100 parts moves when the poorest of 300 people becomes the richest, and the bound. The table
    is sorted by income. `coupled`: rows that both tables share get the same places, as in the proof; otherwise it is
    positions in the source that are dealt, by one fixed order.
    """
    draw = np.random.default_rng(3)
    people = pd.DataFrame({"income": draw.permutation(900)[:300] + 1, "sick": draw.integers(0, 2, 300)})
    poorest = people["income"].idxmin()
    other = people.copy()
    other.loc[poorest, "income"] = 950
    places, found = draw.permutation(300), []
    for table in (people, other):
        order = table.sort_values("income").index.to_numpy()
        opened = dpx.PrivateTable(
            table.loc[order].reset_index(drop=True), budget=dpx.Budget(9), relation="replace-one", name="t",
            domain=dpx.Domain({"income": dpx.Numeric(0, 1000), "sick": dpx.Numeric(0, 1, integer=True)}),
            ledger=dpx.open_ledger("sqlite:///:memory:"),
        )  # fmt: skip
        assert opened.assignment is Assignment.POSITION
        shuffled = np.argsort(places[order]) if coupled else places
        opened.secrets = partial(Ordered, shuffled)
        plot = {"output": (0, 1), "epsilon": 1, "parts": 100, "grid": 2, "rug": False, "smooth": False}
        ((values, _, bound, _),) = calls(opened, lambda t, plot=plot: dpx.generic_plot(t, odd_share, "income", **plot))
        found.append(np.array(values))
    return float(np.abs(found[0] - found[1]).max()), float(bound.linf)


class Ordered(Secrets):
    """A given order in the place of a secret one."""

    def __init__(self, given: Any) -> None:
        self._given = given

    def order(self, _size: int) -> Any:
        return self._given


def test_a_source_that_is_sorted_by_a_private_column_moves_one_part() -> None:
    moved, bound = change_of_sorted_tables(coupled=True)
    assert moved <= bound
    assert Assignment.POSITION.changed_parts(Neighbours(Relation.REPLACE_ONE)) == 1


def test_dealing_by_the_order_of_the_source_is_caught() -> None:
    """The broken sibling: with the same shuffle of positions for both tables many parts change."""
    moved, bound = change_of_sorted_tables(coupled=False)
    assert moved > 5 * bound


@pytest.mark.parametrize("options", [{}, {"unit": dpx.Unit("id", 1)}, {"row_id": "id"}])
def test_rows_of_a_part_stand_in_a_secret_order(options: Any) -> None:
    """A black box sees its part in an order: were it that of the source, one person who decides which household comes
    first would move all 50 parts. Of 50 parts that begin with either household by chance, fewer than 5 or more than 45
    begin with one of them in 1 of 4e9 tries.
    """
    homes = pd.DataFrame({"home": np.repeat([0, 1], 1000), "income": 1.0, "id": [f"p{i}" for i in range(2000)]})
    domain = dpx.Domain({"home": dpx.Categorical([0, 1]), "income": dpx.Numeric(0, 1000)})

    def first_home(rows: pd.DataFrame, _model: Any) -> Any:
        return [0, 1], [float(rows["home"].iloc[0])] * 2

    def begin_with_the_second(shuffled: bool) -> int:
        table = dpx.PrivateTable(
            homes, domain=domain, budget=dpx.Budget(10), relation="add-remove", name="homes",
            ledger="sqlite:///:memory:", **options,
        )  # fmt: skip
        if not shuffled:
            table.secrets = Unshuffled

        def ask(table: dpx.PrivateTable) -> Any:
            return dpx.generic_plot(table, first_home, "income", output=(0, 1), epsilon=1, parts=50, grid=2, rug=False)

        (sums, *_), *_ = calls(table, ask)
        return round(sums[0] / 2**20 + 50 / 2)  # a part adds -1/2 or 1/2, and none is empty

    assert 5 <= begin_with_the_second(shuffled=True) <= 45
    assert begin_with_the_second(shuffled=False) == 0  # the broken sibling


def test_the_secret_order_is_uniform_and_new_each_time() -> None:
    """24,000 orders of four places; 23 degrees of freedom: a statistic of 90 has a chance of 1e-9."""
    drawn = ["".join(map(str, secret_order(4))) for _ in range(24_000)]
    orders, counts = np.unique(drawn, return_counts=True)
    assert len(orders) == 24
    assert ((counts - 1000) ** 2 / 1000).sum() < 90
    assert secret_order(0).tolist() == []


# Files ----------------------------------------------------------------------------------------------------------------


@pytest.mark.posix
def test_a_file_cannot_be_named_twice(tmp_path: Path) -> None:
    folder = tmp_path / "data"
    folder.mkdir()
    pd.DataFrame({"value": [1, 2]}).to_parquet(folder / "jan.parquet")
    (tmp_path / "link.parquet").symlink_to(folder / "jan.parquet")
    (tmp_path / "hard.parquet").hardlink_to(folder / "jan.parquet")
    (tmp_path / "table.csv").write_text("value\n1\n")
    assert open_source(folder).count() == 2
    for twice in (
        [folder, folder / "jan.parquet"],
        [folder / "jan.parquet", folder / ".." / "data" / "jan.parquet"],
        [folder / "jan.parquet", tmp_path / "link.parquet"],
        [folder, tmp_path / "hard.parquet"],
        [tmp_path / "table.csv", tmp_path / "table.csv"],
    ):
        with pytest.raises(dpx.errors.TableError, match="named twice"):
            open_source(twice)
