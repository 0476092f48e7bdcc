"""Pages in a real browser: Debian's chromium, driven by Playwright, and what axe-core finds in them."""

from __future__ import annotations

import os
import shutil
from collections.abc import Iterator
from typing import Any

import pytest

DESKTOP = {"width": 1280, "height": 900}


@pytest.fixture(autouse=True, scope="module")
def quick_pictures():
    """Pictures as users see them, unlike in the tests of commands beside this folder."""


@pytest.fixture(scope="session")
def browser() -> Iterator[Any]:
    path, needed = shutil.which("chromium"), "DPEXPLAIN_NEEDS_CHROMIUM" in os.environ
    if path is None:
        assert not needed, "pages are to be tried in a browser here, and there is no chromium"
        pytest.skip("pages in a browser need chromium: apt-get install chromium")
    driver = pytest.importorskip("playwright.sync_api", reason="needs playwright: pip install dpexplain[test]")
    with driver.sync_playwright() as playwright:
        started = playwright.chromium.launch(executable_path=path, args=["--no-sandbox"])
        yield started
        started.close()


@pytest.fixture
def opened(browser):
    """A function that opens an address in a window of its own, and returns the page. What it must never do fails the
    test: dialogs, errors and refusals of the policy in its console, requests that leave this machine.
    """
    contexts, wrong = [], []

    def opens(address: str, *, size: dict[str, int] = DESKTOP, scheme: Any = "light") -> Any:
        context = browser.new_context(viewport=size, color_scheme=scheme)
        contexts.append(context)
        context.grant_permissions(["clipboard-read", "clipboard-write"])
        page = context.new_page()
        page.on("dialog", lambda dialog: (wrong.append(f"dialog {dialog.message}"), dialog.dismiss()))
        page.on("pageerror", lambda error: wrong.append(f"error {error}"))
        page.on("console", lambda said: wrong.append(said.text) if said.type == "error" else None)
        page.on("request", lambda asked: wrong.append(asked.url) if not is_local(asked.url) else None)
        page.goto(address)
        return page

    opens.wrong = wrong
    yield opens
    for context in contexts:
        context.close()
    assert wrong == []


def is_local(url: str) -> bool:
    return url.startswith(("file:", "data:", "http://127.0.0.1:", "http://localhost:"))


@pytest.fixture(scope="session")
def faults():
    """A function: what axe-core calls serious or critical in a page, as `rule: element`."""
    axe = pytest.importorskip("axe_playwright_python.sync_playwright", reason="needs axe-playwright-python").Axe()

    def found(page: Any) -> list[str]:
        violations = axe.run(page).response["violations"]
        serious = [rule for rule in violations if rule["impact"] in ("serious", "critical")]
        return [f"{rule['id']}: {node['html'][:200]}" for rule in serious for node in rule["nodes"]]

    return found
