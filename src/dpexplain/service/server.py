"""`dpexplain serve`: uvicorn around the application, with the limits of a server that anybody may connect to."""

from __future__ import annotations

import asyncio
import contextlib
import errno
import json
import logging
import os
import signal
import socket
import sys
import time
from collections.abc import Sequence
from datetime import UTC, datetime
from typing import Any

import h11
import uvicorn
from uvicorn.protocols.http.h11_impl import H11Protocol

from dpexplain.core.quiet import quiet
from dpexplain.engines.progress import progress
from dpexplain.errors import InputError
from dpexplain.project.file import Project
from dpexplain.service.service import Service

CONNECTIONS = 4_000  # at a time; more are answered 503
BACKLOG = 2_048  # connections that wait to be taken
ENDING = 3.0  # seconds that a server before this one may still need to leave the port
IDLE = 15.0  # seconds in which the head of each request must have arrived


class Patient(H11Protocol):
    """Closes connections on which the head of a request does not arrive in time, the first one or a later one, so that
    nobody keeps the others out by connecting. The time of a body is limited by `Whole`.
    """

    _waits: asyncio.TimerHandle | None = None

    def connection_made(self, transport: Any) -> None:
        super().connection_made(transport)
        self._watch()

    def data_received(self, data: bytes) -> None:
        super().data_received(data)
        self._watch()

    def on_response_complete(self) -> None:
        super().on_response_complete()
        self._watch()

    def connection_lost(self, exc: Exception | None) -> None:
        self._calm()
        super().connection_lost(exc)

    def _watch(self) -> None:
        """Run the clock while a head is awaited. What arrives of it does not set the clock back."""
        if self.conn.their_state is not h11.IDLE or self.transport.is_closing():
            self._calm()
        elif self._waits is None:
            self._waits = self.loop.call_later(IDLE, self.transport.close)

    def _calm(self) -> None:
        if self._waits is not None:
            self._waits.cancel()
            self._waits = None


class Lines(logging.Formatter):
    """One JSON object for each line of the log: public things alone, and no text of a client."""

    def format(self, record: logging.LogRecord) -> str:
        said = {"at": datetime.now(UTC).isoformat(timespec="seconds"), "level": record.levelname.lower()}
        return json.dumps({**said, "logger": record.name, "message": record.getMessage()})


def set_up_logs() -> None:
    """Lines of JSON on standard error. uvicorn's own access log, which quotes paths, is off."""
    handler = logging.StreamHandler(sys.stderr)
    handler.setFormatter(Lines())
    for name in ("dpexplain.service", "uvicorn.error"):
        logger = logging.getLogger(name)
        logger.handlers, logger.propagate = [handler], False
        logger.setLevel(logging.INFO)


def more_files() -> None:
    """Let the process open as many connections as the system allows it."""
    with contextlib.suppress(ImportError, ValueError, OSError):
        import resource

        soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
        if soft < hard:
            resource.setrlimit(resource.RLIMIT_NOFILE, (hard, hard))


def serve(projects: Sequence[Project], *, host: str, port: int, new_token: bool, processes: int = 1) -> None:
    """Serve until a signal comes; then let running releases finish."""
    set_up_logs()
    more_files()
    check_free(host, port)
    service = Service(projects)
    progress(False)  # lines about passes would say in the log how far a release is
    if token := service.first_token(again=new_token):
        print(f"Curator's token, shown once (it is kept as a hash):\n  {token}", flush=True)
    if processes == 1:
        warm_up(service)
    print(f"Serving {', '.join(service.tables)} on http://{host}:{port}/v1", flush=True)
    if processes == 1:
        answer(service, host, port)
        return
    service.store.close()
    _serve_together(projects, host, port, processes)


def family_of(host: str) -> socket.AddressFamily:
    return socket.AF_INET6 if ":" in host else socket.AF_INET


def check_free(host: str, port: int) -> None:
    """Refuse to begin where somebody listens: with several processes, both would have a part of the requests."""
    until = time.monotonic() + ENDING
    while True:
        try:
            socket.create_server((host, port), family=family_of(host)).close()
            return
        except OSError as error:
            if error.errno != errno.EADDRINUSE or time.monotonic() > until:
                raise InputError(
                    f"cannot listen on {host}:{port}: {error.strerror or type(error).__name__}.",
                    hint="another server may have it; --port takes another one",
                    spent="",
                ) from None
        time.sleep(0.05)


def own_socket(host: str, port: int) -> socket.socket:
    """A socket of one of several processes. Its connections send at once, as those of asyncio's own sockets do:
    otherwise the end of each answer waits 40 ms for the client to acknowledge the beginning.
    """
    found = socket.create_server((host, port), family=family_of(host), backlog=BACKLOG, reuse_port=True)
    found.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
    return found


def _serve_together(projects: Sequence[Project], host: str, port: int, processes: int) -> None:
    """Several processes, each with a service and a socket of its own. One that dies is replaced.

    The system divides connections among their sockets. Of one socket that all listen on, whichever process woke first
    took every connection that waited, and the others had nothing to do.
    """
    children, stopped = set[int](), False

    def begin() -> None:
        child = os.fork()
        if child:
            children.add(child)
            return
        try:
            service = Service(projects)
            warm_up(service)
            answer(service, host, port, [own_socket(host, port)])
        finally:
            os._exit(0)

    def stop(number: int, _frame: Any) -> None:
        nonlocal stopped
        stopped = True
        for child in children:
            with contextlib.suppress(ProcessLookupError):
                os.kill(child, number)

    for _ in range(processes):
        begin()
    for number in (signal.SIGTERM, signal.SIGINT):
        signal.signal(number, stop)
    while children:
        child, _ = os.wait()
        children.discard(child)
        if not stopped:
            time.sleep(1)
            begin()


def answer(service: Service, host: str, port: int, sockets: list[socket.socket] | None = None) -> None:
    """Answer until a signal comes. No warning is shown all the while, because filters of warnings belong to the whole
    process: a drawing that sets them back in one thread would let out what is said about rows in another.
    """
    with quiet():
        uvicorn.Server(config_of(service, host, port)).run(sockets=sockets)


def warm_up(service: Service) -> None:
    """Let the first visitor of a page wait no longer than the next one."""
    from dpexplain.service.console.warm import warm_up as make_every_page

    make_every_page(service)


def config_of(service: Service, host: str, port: int) -> uvicorn.Config:
    """How uvicorn runs the application."""
    from dpexplain.service.api import create_app

    return uvicorn.Config(
        create_app(service), host=host, port=port, http=Patient, ws="none", lifespan="on", access_log=False,
        log_config=None, server_header=False, proxy_headers=False, limit_concurrency=CONNECTIONS,
        timeout_keep_alive=5, timeout_graceful_shutdown=int(service.settings.grace),
    )  # fmt: skip
