"""The command `dpexplain`: parse, call `dpexplain.project`, print.

methods.py    a command for every registered method, from its request
start.py      demo, init                        books.py      budget, renew, verify
plan.py       plan                              audit.py      audit

app.py        all commands, exit codes          options.py    options that several commands share
release.py    what is printed before and after a release
typed.py      what people type in another way: columns, records, groups      report.py     text or JSON, errors included
hints.py      errors in the command line's words                             reference.py  docs/commands.md
"""

from __future__ import annotations

import sys

__all__ = ["main"]


def main() -> None:
    """The entry point."""
    from dpexplain.cli.app import run
    from dpexplain.engines import progress

    progress(True)  # a bar on a terminal, lines in a pipe
    sys.exit(run(sys.argv[1:]))
