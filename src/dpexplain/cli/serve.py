"""`dpexplain serve`: explanations over HTTP, for people who may not see the data."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from dpexplain.cli.options import DEFAULT_PROJECT, option
from dpexplain.errors import InputError
from dpexplain.project.file import Project


def serve(
    *,
    project: Annotated[
        list[Path] | None,
        option("--project", "FILE", "A project file: one table. May be repeated. Default: dpexplain.toml."),
    ] = None,
    host: Annotated[str, option("--host", "NAME", "Where to listen.")] = "127.0.0.1",
    port: Annotated[int, typer.Option("--port", metavar="N", min=1, max=65535, help="The port.")] = 8000,
    processes: Annotated[
        int, typer.Option("--processes", metavar="N", min=1, max=64, help="How many share the work, each a process.")
    ] = 1,
    new_token: Annotated[
        bool, option("--new-token", None, "Print another curator's token, if the first one is lost.")
    ] = False,
) -> None:
    """Serve explanations of a project's table to people who may not see it.

    The first start prints a curator's token, once. With it the curator makes tokens and limits for analysts, who then
    plan, ask and read from anywhere with dpx.Client(url, token). Releases begin and are announced at public times
    (slot, under [service] in the project file), so that how long they take tells nothing about rows.

    The server speaks plain HTTP: put a proxy with TLS in front of it (docs/service.md).

        dpexplain demo --out demo-output

        dpexplain serve --project demo-output/dpexplain.toml
    """
    projects = [Project.load(path) for path in project or [DEFAULT_PROJECT]]
    try:
        from dpexplain.service import server
    except ImportError as error:
        raise InputError(
            f"the server needs a package that is not installed: {error.name}.", hint="pip install dpexplain[server]"
        ) from None
    server.serve(projects, host=host, port=port, new_token=new_token, processes=processes)
