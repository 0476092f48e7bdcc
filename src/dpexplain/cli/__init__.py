"""The command `dpexplain`: parse, call `dpexplain.project`, print.

methods.py    the commands of methods, from their requests: pdp
start.py      demo, init                        clusters.py   clusters
plan.py       plan                              influence.py  influence, transparency
effects.py    ale                               books.py      budget, renew, verify
rankings.py   importance, interactions          audit.py      audit
local.py      sketch, local                     marginals.py  marginals

app.py        all commands, exit codes          options.py    options that several commands share
release.py    what is printed before and after a release
typed.py      records and groups as people type them         report.py     text or JSON, errors included
hints.py      errors in the command line's words             reference.py  docs/commands.md
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
