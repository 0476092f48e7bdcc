"""Bodies take turns: one runs at a time, in order, and what they ask for at the same time is answered together."""

from __future__ import annotations

import threading

import pytest

from dpexplain.methods.batches.turns import BodyFailed, Stopped, take_turns


def asking(name, times, heard):
    def body(meet):
        for number in range(times):
            heard.append((name, number, meet(f"{name}{number}")))
        heard.append((name, "end"))

    return body


def test_what_is_asked_at_the_same_time_is_answered_together():
    heard, rounds = [], []

    def answer(asked):
        rounds.append(asked)
        return [one.upper() for one in asked]

    take_turns([asking("a", 1, heard), asking("b", 3, heard), asking("c", 0, heard), asking("d", 2, heard)], answer)
    assert rounds == [["a0", "b0", "d0"], ["b1", "d1"], ["b2"]]
    assert heard == [
        ("c", "end"), ("a", 0, "A0"), ("a", "end"), ("b", 0, "B0"), ("d", 0, "D0"),
        ("b", 1, "B1"), ("d", 1, "D1"), ("d", "end"), ("b", 2, "B2"), ("b", "end"),
    ]  # fmt: skip


def test_when_one_body_fails_the_others_end_where_they_wait():
    ended = []

    def waits(meet):
        try:
            meet("rows")
        except Stopped:
            ended.append("stopped")
            raise

    def fails(_meet):
        raise ValueError("a secret row")

    before = threading.active_count()
    with pytest.raises(BodyFailed) as heard:
        take_turns([waits, fails, waits], lambda asked: asked)
    assert "secret" not in str(heard.value) + str(heard.value.__context__) + str(heard.value.__cause__)
    assert ended == ["stopped"]  # the third one never began
    assert threading.active_count() == before


@pytest.mark.parametrize("error", [KeyboardInterrupt, RuntimeError])
def test_what_goes_wrong_in_a_pass_ends_all_bodies(error):
    def interrupted(_asked):
        raise error

    before = threading.active_count()
    with pytest.raises(error):
        take_turns([asking("a", 1, []), asking("b", 1, [])], interrupted)
    assert threading.active_count() == before
