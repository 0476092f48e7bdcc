"""Tests that judge draws: one unlucky draw is forgiven, a defect is not, no stated chance is too large."""

from __future__ import annotations

from pathlib import Path

import pytest

from rings import LONG, SHORT

pytest_plugins = "pytester"

HOOKS = "from rings import pytest_runtest_protocol, pytest_terminal_summary"
EVERY_HOOK = f"{HOOKS}, pytest_configure, pytest_itemcollected"
SETTINGS = """
[pytest]
markers =
    long: l
    random_inputs: r
    drawn(p): d
"""
DRAWS = """
import itertools
from functools import cache

import pytest

calls = itertools.count()

@pytest.fixture
def draw():
    return next(calls)

@cache
def kept():
    return next(calls)

@pytest.mark.drawn({chance})
def test_fixtures_are_drawn_again(draw):
    assert draw {condition}

@pytest.mark.drawn({chance})
def test_what_a_file_keeps_is_drawn_again():
    assert kept() {condition}
"""


def outcomes(pytester: pytest.Pytester, text: str, *options: str) -> tuple[dict[str, int], str]:
    pytester.makeconftest(HOOKS)
    pytester.makeini(SETTINGS)
    pytester.makepyfile(text)
    result = pytester.runpytest_inprocess("-p", "no:cacheprovider", "-p", "no:xdist", *options)
    return result.parseoutcomes(), result.stdout.str()


def test_one_unlucky_draw_is_forgiven(pytester: pytest.Pytester) -> None:
    assert outcomes(pytester, DRAWS.format(chance=1e-6, condition="% 2 == 1"))[0] == {"passed": 2}


def test_two_draws_that_fail_are_a_failure(pytester: pytest.Pytester) -> None:
    assert outcomes(pytester, DRAWS.format(chance=1e-6, condition="< 0"))[0] == {"failed": 2}


def test_a_test_without_the_mark_gets_one_draw(pytester: pytest.Pytester) -> None:
    text = DRAWS.format(chance=1e-6, condition="% 2 == 1").replace("@pytest.mark.drawn(1e-06)", "")
    assert outcomes(pytester, text)[0]["failed"] >= 1


def test_a_chance_that_two_draws_do_not_make_small_is_refused(pytester: pytest.Pytester) -> None:
    _, said = outcomes(pytester, DRAWS.format(chance=1e-4, condition=">= 0"))
    assert "two draws may fail by chance with probability 1e-08" in said


def test_the_ring_is_named(pytester: pytest.Pytester) -> None:
    text = "import pytest\n@pytest.mark.long\ndef test_a(): pass\ndef test_b(): pass"
    rings = (([], "both"), (["-m", LONG], "make audit"), (["-m", SHORT], "make test"))
    for options, ring in rings:
        ran, said = outcomes(pytester, text, *options)
        assert ran["passed"] == (1 if options else 2)
        assert ring in said.split("ring: ")[1]


PROPERTY = """
from hypothesis import given, settings, strategies as st
from rings import examples
tried = []

@settings(max_examples=examples(30), database=None)
@given(st.integers())
def test_a(x):
    tried.append(x)

def test_b():
    assert (len(tried) <= 12) == {short}
"""


@pytest.mark.long
def test_random_inputs_are_fewer_in_the_short_ring_and_all_in_the_long_one(pytester: pytest.Pytester) -> None:
    """In processes of their own: what is set for them must not be set for this one."""
    pytester.makeconftest(f"import sys\nsys.path.insert(0, {str(Path(__file__).parents[1])!r})\n{EVERY_HOOK}")
    pytester.makeini(SETTINGS)
    pytester.makepyfile(PROPERTY.format(short=True))
    pytester.runpytest_subprocess("-p", "no:cacheprovider", "-m", SHORT).assert_outcomes(passed=2)
    pytester.makepyfile(PROPERTY.format(short=False))
    pytester.runpytest_subprocess("-p", "no:cacheprovider").assert_outcomes(passed=2)
    pytester.runpytest_subprocess("-p", "no:cacheprovider", "-m", LONG).assert_outcomes(passed=1, deselected=1)
