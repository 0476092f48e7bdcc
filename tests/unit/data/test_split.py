"""Parts of a table: which rows lie in them, what they may spend, what the table pays, what is refused."""

from __future__ import annotations

import numpy as np
import pandas as pd
import pytest

import dpexplain as dpx
from dpexplain.core.budget import Definition
from dpexplain.core.release import Gate
from dpexplain.core.sensitivity import Relation
from dpexplain.data.split import FACTOR, SIZES_SHARE
from stubs import rows_of

PARTS = {"young": {"age": (20, 24)}, "women": {"sex": "Female"}, "old": {"age": (27, 30)}}


def used(table, columns=("age", "sex", "income")):
    gate = Gate(table.door, table.cost(epsilon=0.01))
    batches = list(rows_of(table, gate, list(columns), 64))
    return pd.DataFrame({name: np.concatenate([rows[name] for rows in batches]) for name in columns})


@pytest.mark.parametrize("column", ["sex", "age"])
def test_a_column_makes_a_part_of_each_declared_value(make_table, frame, column):
    table = make_table(frame, relation="add-remove")
    parts = table.split(column, epsilon=1)
    values = table.domain[column].categories if column == "sex" else range(20, 30)
    assert list(parts) == [str(value) for value in values]
    sizes = [len(used(part)) for part in parts.values()]
    assert sizes == [int((frame[column] == value).sum()) for value in values]
    assert all(abs(parts.sizes[label] - size) < 300 for label, size in zip(parts, sizes, strict=True))
    assert sum(parts.sizes.values()) != len(frame)  # with noise


def test_a_row_lies_in_the_first_part_whose_conditions_hold(make_table, frame):
    parts = make_table(frame, relation="add-remove").split(PARTS, epsilon=1)
    young = frame["age"] <= 24
    women = (frame["sex"] == "Female") & ~young
    old = (frame["age"] >= 27) & ~young & ~women
    for label, rows in (("young", frame[young]), ("women", frame[women]), ("old", frame[old])):
        assert used(parts[label])["income"].tolist() == rows["income"].tolist()
        assert used(parts[label], ["income"])["income"].tolist() == rows["income"].tolist()


def test_of_a_unit_only_the_rows_of_its_first_part_are_used(make_table, frame):
    unit = dpx.Unit("person", 2)
    parts = make_table(frame, relation="add-remove", unit=unit).split(PARTS, epsilon=1)
    number = np.select([frame["age"] <= 24, frame["sex"] == "Female", frame["age"] >= 27], [0, 1, 2], 3)
    home = pd.Series(number).groupby(frame["person"]).transform("min")
    for place, part in enumerate(parts.values()):
        mine = frame[(home == place) & (number == place)]
        kept = mine.groupby("person").size().clip(upper=2).sum()
        found = used(part)
        assert len(found) == kept
        assert set(found["income"]) <= set(mine["income"])


@pytest.mark.parametrize("kind", ["csv", "polars"])
def test_the_column_of_units_may_make_the_parts(make_table, frame, tmp_path, kind):
    """Each site as one unit. Readers that are asked for a column twice fail, and each release of a part was lost."""
    frame.to_csv(tmp_path / "people.csv", index=False)
    rows = tmp_path / "people.csv" if kind == "csv" else pytest.importorskip("polars").from_pandas(frame).lazy()
    parts = make_table(rows, relation="add-remove", unit=dpx.Unit("sex", 7)).split("sex", epsilon=1)
    for value, part in parts.items():
        assert len(used(part)) == min(7, int((frame["sex"] == value).sum()))


@pytest.mark.parametrize("relation", ["add-remove", "replace-one"])
@pytest.mark.parametrize("budget", [dpx.Budget(2), dpx.Budget(2, 1e-6)])
def test_the_account_pays_once_for_all_parts(make_table, frame, relation, budget):
    table = make_table(frame, relation=relation, budget=budget)
    cost = table.cost(epsilon=1)
    parts = table.split("sex", epsilon=1)
    left = table.ledger.statement(table.name).left
    assert left.amount == budget.total.amount - cost.amount
    factor = FACTOR[Relation(relation), cost.definition]
    for part in parts.values():
        assert part.neighbours.relation is Relation.ADD_REMOVE
        assert part.size is None
        total = part.budget.total.amount * factor + cost.amount * SIZES_SHARE
        assert 0.9999 * cost.amount < total <= cost.amount
        curve = dpx.partial_dependence(part, dpx.Model(lambda rows: rows["income"] / 100, output=(0, 1)), "age",
                                       epsilon=float(part.budget.epsilon) * 0.999)  # fmt: skip
        assert "the rule of the part (sex is" in curve.receipt.guarantee
        with pytest.raises(dpx.BudgetError):
            dpx.marginals(part, ["age"], epsilon=0.1)
    assert table.ledger.statement(table.name).left == left
    table.ledger.verify()


def test_factors_are_those_of_the_proof():
    one, two = Relation.ADD_REMOVE, Relation.REPLACE_ONE
    assert [FACTOR[one, kind] for kind in Definition] == [1, 1]
    assert [FACTOR[two, kind] for kind in Definition] == [2, 4]


def test_the_same_split_again_opens_the_same_accounts(make_table, frame):
    table = make_table(frame, relation="add-remove")
    first = table.split("sex", epsilon=1)
    released = dpx.marginals(first["Female"], ["age"], epsilon=0.5)
    again = table.split("sex", epsilon=1)
    assert again.receipt.replayed
    assert again.sizes == first.sizes
    assert table.ledger.statement(table.name).left.amount == 9
    replay = dpx.marginals(again["Female"], ["age"], epsilon=0.5)
    assert replay.receipt.replayed
    assert replay.values.tolist() == released.values.tolist()
    assert str(again) == str(first)
    assert "2 parts, each with epsilon = 0.95 (pure) to spend" in str(first)


def test_another_split_another_version_and_another_analyst_pay_anew(make_table, frame):
    about = {"relation": "add-remove", "name": "people"}
    table = make_table(frame, **about)
    first = table.split("sex", epsilon=1)["Female"].name
    names = {
        table.split({"Female": {"sex": "Female"}, "Male": {"sex": "Male"}}, epsilon=0.5)["Female"].name,
        make_table(frame, version="2", **about).split("sex", epsilon=1)["Female"].name,
        make_table(frame, analyst="Ada", **about).split("sex", epsilon=1)["Female"].name,
    }
    assert len(names | {first}) == 4
    assert table.ledger.statement(table.name).left.amount == 10 - 3.5


def test_too_small_an_account_opens_nothing(make_table, frame):
    table = make_table(frame, relation="add-remove", budget=dpx.Budget(1))
    dpx.marginals(table, ["age"], epsilon=0.5)
    with pytest.raises(dpx.BudgetError, match="2 parts: Female, Male"):
        table.split("sex", epsilon=0.75)
    assert table.ledger.accounts() == [table.name]


@pytest.mark.parametrize(
    ("parts", "message"),
    [
        ("income", "'income' has no short list of declared values"),
        ("nothing", "nothing"),
        ({}, "1 to 1000 names"),
        (["sex"], "1 to 1000 names"),
        ({"": {"sex": "Female"}}, "a text of up to 100 characters"),
        ({1: {"sex": "Female"}}, "a text of up to 100 characters"),
        ({"all": {"sex": ["Female", "Male"]}}, "holds everybody"),
        ({"none": {"sex": "Other"}}, "nobody is in such a group"),
        ({"rich": lambda rows: rows["income"] > 3}, "made of conditions"),
    ],
)
def test_parts_that_are_refused_cost_nothing(make_table, frame, parts, message):
    table = make_table(frame, relation="add-remove")
    with pytest.raises(dpx.InputError, match=message):
        table.split(parts, epsilon=1)
    assert table.ledger.statement(table.name).left.amount == 10


@pytest.mark.parametrize("label", ["north\neast", "n" * 100])
def test_parts_that_no_account_can_be_named_after_are_refused_before_anything_is_paid(make_table, frame, label):
    table = make_table(frame, relation="add-remove", name="people" * 20)
    with pytest.raises(dpx.errors.InputError, match="no account can be named") as refused:
        table.split({label: {"age": (20, 24)}, "rest": {"age": (25, 30)}}, epsilon=1)
    assert "Nothing was spent" in str(refused.value)
    assert table.ledger.statement(table.name).spent.amount == 0


def test_a_part_is_not_split_again_and_has_no_published_importance(make_table, frame):
    part = make_table(frame).split("sex", epsilon=1)["Male"]
    with pytest.raises(dpx.InputError, match="not split again"):
        part.split("age", epsilon=0.1)
    with pytest.raises(dpx.InputError, match="small to be expressed"):
        make_table(frame, budget=dpx.Budget(1, 1e-6), name="z").split("sex", epsilon=1e-9)


def test_a_table_on_spark_is_not_split(make_table, frame):
    table = make_table(frame, relation="add-remove")
    table.engine = type("Executors", (), {"gathers": False})()
    with pytest.raises(dpx.InputError, match="tables on Spark are not split"):
        table.split("sex", epsilon=1)


def test_the_account_of_a_part_is_for_no_other_rows(make_table, frame):
    part = make_table(frame, relation="add-remove").split("sex", epsilon=1)["Male"]
    with pytest.raises(dpx.InputError, match="is the name of the account of a part"):
        make_table(frame, name=part.name, relation="add-remove", budget=part.budget)
