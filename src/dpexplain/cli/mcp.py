"""`dpexplain mcp`: the analyst's verbs as tools for AI assistants."""

from __future__ import annotations

import os
from typing import Annotated

import typer

from dpexplain.cli.options import option
from dpexplain.errors import InputError

TOKEN = "DPEXPLAIN_TOKEN"


def mcp(
    *,
    url: Annotated[str, option("--url", "URL", "The service that is asked.")] = "http://127.0.0.1:8000",
    http: Annotated[
        int | None,
        typer.Option("--http", metavar="PORT", min=1, max=65535, help="Serve over HTTP on this port, not over stdio."),
    ] = None,
    host: Annotated[str, option("--host", "NAME", "Where to listen with --http.")] = "127.0.0.1",
) -> None:
    """Give an AI assistant the analyst's verbs, by the Model Context Protocol: plan, ask, read.

    Over stdio the token is taken from the variable DPEXPLAIN_TOKEN; with --http every call carries its own. It must be
    an agent's token: the service takes from it only what was planned before, lets the curator approve what costs more
    than approve_above, and keeps to the analyst's limit, whatever the assistant does.

        DPEXPLAIN_TOKEN=dpx_... dpexplain mcp --url https://explain.example.org
    """
    try:
        from dpexplain.service import tools
    except ImportError as error:
        raise InputError(
            f"this needs a package that is not installed: {error.name}.", hint="pip install dpexplain[mcp]"
        ) from None
    if http is not None:
        tools.over_http(url, host, http)
        return
    token = os.environ.get(TOKEN)
    if not token:
        raise InputError(f"the variable {TOKEN} is not set.", hint="the curator makes an agent's token", spent="")
    tools.over_stdio(url, token)
