"""Silence that overlapping passes share."""

from __future__ import annotations

import threading
import warnings

import pytest

from dpexplain.core.quiet import quiet


def heard() -> bool:
    """Whether a warning gets through."""
    try:
        warnings.warn("row 17", RuntimeWarning, stacklevel=1)  # an error in these tests unless it is silenced
    except RuntimeWarning:
        return True
    return False


def test_silence_lasts_until_the_last_one_is_out() -> None:
    with quiet():
        with quiet():
            assert not heard()
        assert not heard()
    assert heard()


def test_silence_ends_after_an_error() -> None:
    with pytest.raises(KeyError), quiet():
        raise KeyError
    assert heard()


def test_passes_of_two_threads_may_overlap_in_any_order() -> None:
    """The first one in ends first; the other one stays silent, and the filters are what they were."""
    before, entered, leave = list(warnings.filters), threading.Event(), threading.Event()

    def second() -> None:
        with quiet():
            entered.set()
            leave.wait(60)

    thread = threading.Thread(target=second)
    with quiet():
        thread.start()
        assert entered.wait(60)
    assert not heard()
    leave.set()
    thread.join()
    assert list(warnings.filters) == before
    assert heard()


def test_a_library_that_resets_the_filters_is_not_heard_either() -> None:
    """scikit-learn does so for each tree of a forest, in every thread."""
    with warnings.catch_warnings(record=True) as shown:
        with quiet():
            warnings.resetwarnings()
            warnings.warn("row 17", RuntimeWarning, stacklevel=1)
        assert shown == []
    assert heard()
