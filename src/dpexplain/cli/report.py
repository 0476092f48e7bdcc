"""What the command line prints: text for people on standard output, errors on standard error, or JSON for programs."""

from __future__ import annotations

import json
import sys
from typing import Any

from dpexplain.errors import DpexplainError


class Reporter:
    """Collects facts for `--json`, or shows text as it comes."""

    def __init__(self, *, as_json: bool) -> None:
        self.as_json = as_json
        self._console: Any = None

    def show(self, *parts: Any) -> None:
        """Text or tables for people; nothing under --json."""
        if self.as_json:
            return
        if self._console is None:
            from dpexplain.render.text import console

            self._console = console()
        for part in parts:
            self._console.print(part)

    def finish(self, facts: dict[str, Any]) -> None:
        """The one JSON object of a command that succeeded."""
        if self.as_json:
            print(json.dumps(facts, indent=1, allow_nan=False))


def text(value: Any) -> str:
    """A name from a user, safe to print between colours."""
    from rich.markup import escape

    return escape(str(value))


def show_error(error: DpexplainError, *, as_json: bool) -> int:
    """One line, a hint, what was spent; the exit code. `cli.app` has put it into the command line's words."""
    if as_json:
        print(json.dumps({"error": error.to_dict()}, indent=1))
    else:
        print(f"Error: {error}", file=sys.stderr)
    return error.exit_code
