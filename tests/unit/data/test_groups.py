"""Groups: who belongs, at the edges too, and what is refused before any row is read."""

from __future__ import annotations

import math

import numpy as np
import pandas as pd
import pytest

import dpexplain as dpx
from dpexplain.data.groups import Group
from dpexplain.data.rows import Rows
from dpexplain.errors import InputError
from dpexplain.methods.influence.request import InfluenceRequest
from stubs import rows_of

DOMAIN = dpx.Domain(
    {
        "age": dpx.Numeric(17, 90, integer=True),
        "gain": dpx.Numeric(-1.0, 5.0),
        "sex": dpx.Categorical(["Female", "Male"]),
        "race": dpx.Categorical(["White", "Black", "Other"]),
        "class": dpx.Categorical([1, 2, 3]),
    }
)
ROWS = Rows(
    DOMAIN,
    {
        "age": np.array([17.0, 18.0, 29.0, 30.0, 31.0, 90.0]),
        "gain": np.array([-1.0, 0.0, np.nextafter(2.0, 0), 2.0, np.nextafter(2.0, 3), 5.0]),
        "sex": np.array([0, 0, 0, 1, 1, 1], dtype=np.int32),
        "race": np.array([0, 1, 2, 0, 1, 2], dtype=np.int32),
        "class": np.array([0, 1, 2, 0, 1, 2], dtype=np.int32),
    },
    6,
)


@pytest.mark.parametrize(
    ("group", "members", "words"),
    [
        ({"sex": "Female"}, [0, 1, 2], "sex is Female"),
        ({"race": ["Black", "Other"]}, [1, 2, 4, 5], "race is Black or Other"),
        ({"race": ("Black", "Other")}, [1, 2, 4, 5], "race is Black or Other"),
        ({"race": np.array(["Black"])}, [1, 4], "race is Black"),
        ({"race": np.array("Black")}, [1, 4], "race is Black"),
        ({"age": (18, 30)}, [1, 2, 3], "age is 18 to 30"),
        ({"age": (17.5, 30.5)}, [1, 2, 3], "age is 17.5 to 30.5"),
        ({"age": (None, 29)}, [0, 1, 2], "age is at most 29"),
        ({"age": (30, None)}, [3, 4, 5], "age is at least 30"),
        ({"age": (90, 10**400)}, [5], "age is 90 to 90"),
        ({"age": (-math.inf, 17)}, [0], "age is 17 to 17"),
        ({"age": (np.int64(18), np.float32(30))}, [1, 2, 3], "age is 18 to 30"),
        ({"age": 30}, [3], "age is 30"),
        ({"age": [17, np.int64(90)]}, [0, 5], "age is 17 or 90"),
        ({"gain": (2.0, None)}, [3, 4, 5], "gain is at least 2"),
        ({"gain": (None, 2.0)}, [0, 1, 2, 3], "gain is at most 2"),
        ({"gain": (2.0, 2.0)}, [3], "gain is 2 to 2"),
        ({"gain": [0, 5]}, [1, 5], "gain is 0 or 5"),
        ({"class": 1}, [0, 3], "class is 1"),
        ({"class": 1.0}, [0, 3], "class is 1"),
        ({"class": np.int64(3)}, [2, 5], "class is 3"),
        ({"sex": "Female", "age": (18, 90)}, [1, 2], "sex is Female and age is 18 to 90"),
        ({"sex": ["Female", "Male"], "age": (18, 90)}, [1, 2, 3, 4, 5], "sex is Female or Male and age is 18 to 90"),
    ],
)
def test_who_belongs(group, members, words):
    found = Group.of(group, DOMAIN)
    assert np.flatnonzero(found.member(ROWS)).tolist() == members
    assert found.describe() == words
    assert found.columns == list(group)


def test_nobody_is_asked_where_there_are_no_rows():
    none = ROWS.take(np.zeros(6, dtype=bool))
    assert Group.of({"sex": "Female", "age": (18, 90)}, DOMAIN).member(none).tolist() == []


def test_every_row_belongs_or_does_not_whatever_was_in_it():
    """Rows come clean: what was outside or missing was made a declared value before."""
    frame = pd.DataFrame({"age": [None, 1e9, -4.0], "gain": [0.0] * 3, "sex": ["?", None, "Male"], "race": "White"})
    frame["class"] = 1
    table = dpx.PrivateTable(
        frame, domain=DOMAIN, budget=dpx.Budget(1), relation="add-remove", ledger="sqlite:///:memory:", name="t"
    )
    from dpexplain.core.budget import pure
    from dpexplain.core.release import Gate

    (rows,) = rows_of(table, Gate(table.door, pure(1)), list(DOMAIN))
    assert Group.of({"sex": "Female"}, DOMAIN).member(rows).tolist() == [True, True, False]
    assert Group.of({"age": (90, None)}, DOMAIN).member(rows).tolist() == [False, True, False]
    assert Group.of({"age": (53, 54)}, DOMAIN).member(rows).tolist() == [True, False, False]
    table.ledger.close()


def test_one_form_for_what_means_the_same():
    forms = [{"class": 2}, {"class": 2.0}, {"class": [np.int32(2)]}]
    assert len({str(Group.of(form, DOMAIN).to_json()) for form in forms}) == 1
    forms = [{"age": (30, 90)}, {"age": (30.0, 200)}, {"age": (30, math.inf)}]
    assert len({str(Group.of(form, DOMAIN).to_json()) for form in forms}) == 1


def test_json():
    group = Group.of({"race": ["Other"], "age": (None, 30), "gain": [1]}, DOMAIN)
    assert group.to_json()["conditions"] == [
        {"column": "race", "values": ["Other"]},
        {"column": "age", "low": None, "high": 30.0},
        {"column": "gain", "values": [1.0]},
    ]
    assert group.to_json()["words"] == "race is Other and age is at most 30 and gain is 1"
    assert Group.from_json(group.to_json()) == group
    with pytest.raises(ValueError, match="words"):
        Group.from_json({**group.to_json(), "words": "everybody"})


def test_an_interval_in_json():
    """JSON has no tuples, and a list names values."""
    for group in ({"age": (None, 30)}, {"age": (18, 30)}, {"age": [18, 30], "gain": (1, None)}):
        request = InfluenceRequest(quantity="group", group=group)
        again = InfluenceRequest.of_json({k: v for k, v in request.to_json().items() if k != "request"})
        assert Group.of(again.group, DOMAIN) == Group.of(group, DOMAIN)


@pytest.mark.parametrize(
    ("group", "words"),
    [
        (None, "says which values"),
        ({}, "says which values"),
        ("sex", "says which values"),
        ([("sex", "Female")], "says which values"),
        (lambda rows: rows["sex"] == "Female", "not of a function or of what the model answers"),
        ({"income": ">50K"}, "not a declared column"),
        ({"outcome": 1}, "not a declared column"),
        ({3: "Female"}, "not a declared column"),
        ({"sex": []}, "names no value"),
        ({"sex": np.array([])}, "names no value"),
        ({"sex": "female"}, "cannot be 'female'"),
        ({"sex": ["Female", "X"]}, "cannot be 'X'"),
        ({"sex": None}, "cannot be None"),
        ({"sex": {"Female"}}, "cannot be"),
        ({"sex": np.array([["Female"]])}, "cannot be"),
        ({"sex": ["Female", "Female"]}, "twice"),
        ({"class": [1, 1.0]}, "twice"),
        ({"age": [30, 30.0]}, "twice"),
        ({"age": 16}, "cannot be 16"),
        ({"age": 30.5}, "cannot be 30.5"),
        ({"age": True}, "cannot be True"),
        ({"age": "thirty"}, "cannot be 'thirty'"),
        ({"age": float("nan")}, "cannot be nan"),
        ({"age": 10**400}, "cannot be 1000"),
        ({"age": (30, 18)}, "nobody has 'age' from 30 to 18"),
        ({"age": (0, 16)}, "nobody has 'age'"),
        ({"age": (91, None)}, "nobody has 'age'"),
        ({"age": (90.5, 95)}, "nobody has 'age'"),
        ({"age": (30.2, 30.8)}, "nobody has 'age'"),
        ({"age": (float("nan"), 30)}, "nobody has 'age'"),
        ({"age": (30, float("nan"))}, "nobody has 'age'"),
        ({"age": (10**400, None)}, "nobody has 'age'"),
        ({"age": (18,)}, "two ends"),
        ({"age": (18, 20, 22)}, "two ends"),
        ({"age": ("18", 30)}, "two ends"),
        ({"age": (True, 30)}, "two ends"),
        ({"age": (17, 90)}, "everybody"),
        ({"age": (None, None)}, "everybody"),
        ({"age": (0, 1000)}, "everybody"),
        ({"age": list(range(17, 91))}, "everybody"),
        ({"sex": ["Male", "Female"]}, "everybody"),
        ({"sex": ["Male", "Female"], "gain": (-1, 5)}, "everybody"),
    ],
)
def test_refusals(group, words):
    with pytest.raises(InputError, match=words) as refused:
        Group.of(group, DOMAIN)
    assert len(str(refused.value)) < 700


def test_a_refusal_says_what_there_is():
    with pytest.raises(InputError) as refused:
        Group.of({"income": 1}, DOMAIN)
    assert "age, gain, sex, race, class" in refused.value.hint
    assert "outcome of the model is none of them" in refused.value.hint
    with pytest.raises(InputError) as refused:
        Group.of({"sex": "X"}, DOMAIN)
    assert refused.value.hint == "its values: Female, Male"
    with pytest.raises(InputError) as refused:
        Group.of({"age": (1, 2)}, DOMAIN)
    assert refused.value.hint == "it goes from 17 to 90"
