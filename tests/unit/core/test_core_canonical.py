"""One spelling for one value."""

from __future__ import annotations

import json
import math
from fractions import Fraction

import numpy as np
import pytest

from dpexplain.core.canonical import canonical_json, digest, fraction_text, freeze, parse_fraction


def test_order_of_keys_and_blanks_do_not_matter() -> None:
    assert canonical_json({"b": 1, "a": [1, 2]}) == '{"a":[1,2],"b":1}'
    assert digest({"b": 1, "a": 2}) == digest({"a": 2, "b": 1})


def test_different_values_have_different_digests() -> None:
    values = [{}, {"a": 1}, {"a": "1"}, {"a": 1.5}, {"a": [1]}, {"a": None}, {"a": True}, {"b": 1}, {"a": "é"}]
    assert len({digest(value) for value in values}) == len(values)
    assert all(len(digest(value)) == 64 for value in values)


def test_text_is_ascii_and_reversible() -> None:
    value = {"naïve": "日本\ud800", "n": 10**40}
    text = canonical_json(value)
    assert text.isascii()
    assert json.loads(text) == value


def test_fractions() -> None:
    assert fraction_text(Fraction(-3, 6)) == "-1/2"
    assert fraction_text(Fraction(4)) == "4/1"
    longest = Fraction(10**4300 - 1, 10**4299)  # Python writes no longer number
    assert parse_fraction(fraction_text(longest)) == longest
    for wrong in ("1" * 4301 + "/1", "1/" + "1" * 4301, "1", "1/0", "0.5", "1 /2", 7):
        with pytest.raises(ValueError, match="not a fraction"):
            parse_fraction(wrong)


def test_freeze_is_a_deep_copy() -> None:
    inner = [1, 2]
    frozen = freeze({"a": inner, "t": (3,)})
    inner.append(3)
    assert frozen == {"a": [1, 2], "t": [3]}


@pytest.mark.parametrize("value", [math.nan, math.inf, object(), {1, 2}, np.int64(3), b"x"])
def test_what_json_cannot_spell_is_refused(value: object) -> None:
    with pytest.raises((TypeError, ValueError)):
        freeze({"a": value})
