"""Two rings of tests, and tests that judge draws of noise.

`make test` runs what is not marked `long`, `make audit` what is. Without a choice pytest runs both, and says so. Tests
over random inputs run in both: a fifth of their examples in the short ring, all of them in the long one.

Tests that draw noise and judge it by statistics are marked `drawn(p)`: by chance one draw fails, because it accuses a
sound product or misses a planted defect, with probability at most p. It fails if two independent draws fail, so by
chance with probability p^2. The mark is for statistics alone: what fails for another reason fails both times.
"""

from __future__ import annotations

import importlib.util
import os
from typing import Any

import pytest
from _pytest.runner import runtestprotocol
from hypothesis import settings

SHORT = "not long"
_ring = {"short": False}


def pytest_configure(config: pytest.Config) -> None:
    _ring["short"] = config.getoption("markexpr") == SHORT
    if _ring["short"]:  # for properties that do not say how many examples they want
        settings.register_profile("short ring", parent=settings(), max_examples=examples(100))
        settings.load_profile("short ring")


def examples(number: int) -> int:
    """How many random inputs a property is tried on."""
    return max(6, number // 5) if _ring["short"] else number


def pytest_itemcollected(item: pytest.Item) -> None:
    if getattr(getattr(item, "obj", None), "is_hypothesis_test", False):
        item.add_marker("random_inputs")


# Files with the most work, in the short ring, first: workers take whole files in this order (`make test`), so that none
# of them has a long one left when the others are done. The rest is in the order of its names.
LONGEST = [
    "privacy/test_every_release.py",
    "e2e/test_cli.py",
    "privacy/test_samplers.py",
    "privacy/test_what_a_row_is.py",
    "golden/test_permutation_importance.py",
    "property/test_parts.py",
    "unit/methods/influence/test_result.py",
    "golden/test_influence.py",
    "unit/render/test_pictures.py",
    "unit/ledger/test_ledger_contract.py",
    "unit/audit/test_membership.py",
    "unit/audit/test_project.py",
    "unit/methods/influence/test_release.py",
    "unit/test_docs.py",
    "golden/test_quantiles.py",
    "e2e/test_audit_command.py",
    "unit/render/test_pages.py",
    "unit/maths/test_means.py",
    "property/test_blocks.py",
    "golden/test_parts.py",
    "golden/test_one_reference.py",
    "golden/test_tails.py",
    "unit/methods/test_result.py",
    "unit/methods/local_sketch/test_release.py",
]


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    places = {name: place for place, name in enumerate(LONGEST)}
    items.sort(key=lambda item: places.get(item.nodeid.partition("::")[0].removeprefix("tests/"), len(places)))


FALSE_ALARM = 1e-9  # the most that chance may do in two draws


def pytest_runtest_setup(item: pytest.Item) -> None:
    if os.name != "posix" and item.get_closest_marker("posix"):
        pytest.skip("it forks or kills processes, or makes links, as POSIX systems do")


@pytest.hookimpl(tryfirst=True)
def pytest_runtest_protocol(item: pytest.Item, nextitem: pytest.Item | None) -> bool | None:
    """Judge a test that is marked `drawn` twice if need be, each time with its own fixtures and its own draws."""
    mark = item.get_closest_marker("drawn")
    if mark is None:
        return None
    (chance,) = mark.args
    assert 0 < chance**2 <= FALSE_ALARM, f"{item.nodeid}: two draws may fail by chance with probability {chance**2:.1g}"
    item.ihook.pytest_runtest_logstart(nodeid=item.nodeid, location=item.location)
    reports = runtestprotocol(item, nextitem=nextitem, log=False)
    if any(report.when == "call" and report.failed for report in reports):
        for known in vars(item.module).values():  # type: ignore[attr-defined]
            if hasattr(known, "cache_clear"):
                known.cache_clear()  # draws that tests of this file share
        item._initrequest()  # type: ignore[attr-defined]
        reports = runtestprotocol(item, nextitem=nextitem, log=False)
    for report in reports:
        item.ihook.pytest_runtest_logreport(report=report)
    item.ihook.pytest_runtest_logfinish(nodeid=item.nodeid, location=item.location)
    return True


KINDS_OF_MODELS = ("onnxruntime", "xgboost", "lightgbm", "catboost", "torch", "mlflow", "skops")  # too large for all
LONG = "long or random_inputs"
RINGS = {SHORT: "the short one (make test)", LONG: "the long one (make audit)"}


def pytest_terminal_summary(terminalreporter: Any, config: pytest.Config) -> None:
    chosen = config.getoption("markexpr") or ""
    terminalreporter.write_line(f"ring: {RINGS.get(chosen, f'-m {chosen!r}') if chosen else 'both'}")
    if absent := [name for name in KINDS_OF_MODELS if importlib.util.find_spec(name) is None]:
        terminalreporter.write_line(
            f"models of these kinds were not tried, their packages are missing: {', '.join(absent)}"
        )
