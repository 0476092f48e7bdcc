"""The command `dpexplain`: parse, call, print. A command stands with its options and its help in the file of its group.

start.py      demo, init                        clusters.py   clusters
plan.py       plan                              influence.py  influence, transparency
effects.py    pdp, ale                          books.py      budget, verify
rankings.py   importance, interactions          audit.py      audit
local.py      sketch, local

app.py        the list of all commands, exit codes        options.py   options that several commands share
release.py    what all that release do: forecast, release, write, tell
project.py    dpexplain.toml: table, domain, budget, model, clustering
typed.py      records and groups as people type them      report.py    what is printed, errors included
hints.py      errors in the command line's words          reference.py docs/commands.md
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
