"""The command `dpexplain`: parse, call, print.

    app.py       the commands, their options and their help
    project.py   dpexplain.toml: table, domain, budget, model
    explain.py   plan, pdp, ale, importance, interactions      start.py      init
    local.py     sketch, local                                 clusters.py   clusters
    influence.py influence, transparency                       books.py      budget, verify
    audit.py     audit                                         report.py     what is printed, errors included

Only `app.py` is loaded to print help; the rest is imported by the command that needs it.
"""

from __future__ import annotations

import sys

__all__ = ["main"]


def main() -> None:
    """The entry point."""
    from dpexplain.cli.app import run

    sys.exit(run(sys.argv[1:]))
