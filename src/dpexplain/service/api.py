"""The application: routes under /v1, who may use them, and the one shape of errors.

Everything is refused before anything is looked at: the token, then the role, then the table. What is refused later is
refused by the library, from public things.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from typing import Annotated, Any, TypeVar

import anyio
from fastapi import APIRouter, Depends, FastAPI, Header, Query, Request, Response
from fastapi.exceptions import RequestValidationError
from fastapi.responses import JSONResponse, PlainTextResponse
from fastapi.security import HTTPAuthorizationCredentials, HTTPBearer
from pydantic import Field
from starlette.concurrency import run_in_threadpool
from starlette.exceptions import HTTPException

from dpexplain import errors
from dpexplain.core.canonical import JsonObject
from dpexplain.errors import DpexplainError
from dpexplain.methods.result import from_json
from dpexplain.receipts import package_version
from dpexplain.service import asked as bodies
from dpexplain.service import jobs
from dpexplain.service.asked import Batch, Body, Explain, Plan, Reading, Record
from dpexplain.service.limits import Whole
from dpexplain.service.oidc import IssuerAway, Unmapped
from dpexplain.service.schema import schemas, with_requests
from dpexplain.service.service import Refused, Service
from dpexplain.service.store import new_id, now
from dpexplain.service.tokens import Principal, Role
from dpexplain.service.work import numbers_of
from dpexplain.verification import verify as verify_result

STATUS: dict[type[DpexplainError], int] = {
    jobs.KeyTaken: 409,
    jobs.TooMany: 429,
    Unmapped: 403,
    IssuerAway: 503,
    errors.InputError: 422,
    errors.BudgetError: 402,
    errors.VerificationError: 409,
    errors.LedgerUnavailable: 503,
    errors.LedgerError: 503,
    errors.ReleaseLost: 409,
    errors.InternalError: 500,
}
LONGEST_WAIT = 60.0  # seconds that a request may wait for a stroke of the clock
PLANS_AT_ONCE = 2  # they compute
Found = TypeVar("Found")

bearer = HTTPBearer(auto_error=False, description="A token that the curator gave, or of the house's issuer.")
router = APIRouter(prefix="/v1")


async def service_of(request: Request) -> Service:
    """The service behind the application."""
    found: Service = request.app.state.service
    return found


Here = Annotated[Service, Depends(service_of)]


def who_asks(here: Here, shown: Annotated[HTTPAuthorizationCredentials | None, Depends(bearer)]) -> Principal:
    """Whoever shows a valid token."""
    return here.principal(None if shown is None else shown.credentials)


def of(*roles: Role) -> Callable[[Principal], Awaitable[Principal]]:
    """Whoever has one of these roles."""

    async def allowed(who: Annotated[Principal, Depends(who_asks)]) -> Principal:
        return require(who, *roles)

    return allowed


def require(who: Principal, *roles: Role) -> Principal:
    """Refuse everybody else."""
    if who.role not in roles:
        raise Refused(403, f"this is for a {' or '.join(roles)}; you are a {who.role}.")
    return who


Anyone = Annotated[Principal, Depends(who_asks)]
Member = Annotated[Principal, Depends(of(Role.CURATOR, Role.ANALYST, Role.VIEWER))]
Asker = Annotated[Principal, Depends(of(Role.CURATOR, Role.ANALYST))]
Reader = Annotated[Principal, Depends(of(Role.CURATOR, Role.VIEWER))]
Key = Annotated[
    str | None,
    Header(alias="Idempotency-Key", min_length=1, max_length=200, description="The same key is charged once."),
]


# Public parts ---------------------------------------------------------------------------------------------------------


@router.get("/me")
def me(who: Anyone) -> JsonObject:
    """Who you are here."""
    tables = None if who.tables is None else sorted(who.tables)
    return {"name": who.name, "role": who.role, "tables": tables, "agent": who.agent, "release": who.release}


@router.get("/methods")
def methods(who: Member) -> JsonObject:  # noqa: ARG001
    """What can be asked for: each request with its schema."""
    every = schemas()
    return {
        "methods": [
            {
                "request": name,
                "title": one.title,
                "lead": one.lead,
                "command": one.command,
                "takes": list(one.takes),
                "takes_clustering": one.takes_clustering,
                "needs_delta": one.needs_delta,
                "schema": every[name],
            }
            for name, one in bodies.served().items()
        ]
    }


@router.get("/tables")
def tables(here: Here, who: Member) -> JsonObject:
    """The tables that you may ask about: their public parts."""
    known = bodies.served()
    return {"tables": [here.tables[name].public(here.store, known) for name in here.visible(who)]}


@router.get("/tables/{table}")
def table_of(here: Here, who: Member, table: str) -> JsonObject:
    """The public parts of one table, its domain included."""
    return here.served(table, who).public(here.store, bodies.served())


@router.get("/tables/{table}/budget")
def budget(here: Here, who: Member, table: str) -> JsonObject:
    """The account as it stood when the clock last struck."""
    served = here.served(table, who)
    _ = served.opened
    return here.books.budget(table, who)


@router.get("/tables/{table}/log")
def log(here: Here, who: Reader, table: str, after: Annotated[int, Query(ge=0, le=2**31)] = 0) -> JsonObject:
    """The events of the account's ledger, up to the last stroke."""
    _ = here.served(table, who).opened
    return here.books.log(table, after)


# Asking ---------------------------------------------------------------------------------------------------------------


async def computed(request: Request, function: Callable[..., Found], *given: Any) -> Found:
    """What a function computes, when it is its turn; whoever waits holds no thread of those that answer everybody."""
    async with request.app.state.plans:
        return await run_in_threadpool(function, *given)


@router.post("/tables/{table}/plan")
async def plan(request: Request, here: Here, who: Asker, table: str, asked: Plan) -> JsonObject:
    """The error to expect at an epsilon, or the epsilon for an error. Free: no row is read."""
    served = here.served(table, who)
    found = await computed(request, here.work.plan, served, asked, who)
    if asked.max_error is None:
        found["plan"] = await run_in_threadpool(here.keep_plan, served, asked, who)
    return found


@router.post("/tables/{table}/explanations", status_code=202)
def explain(here: Here, who: Asker, table: str, asked: Explain, key: Key = None) -> JsonObject:
    """Ask for one explanation: a job, whose end is announced when the public clock strikes."""
    row = here.submit(here.served(table, who), asked, who, new_id() if key is None else key)
    return _job(here, row)


@router.post("/tables/{table}/batches", status_code=202)
async def batch(request: Request, here: Here, who: Asker, table: str, asked: Batch, key: Key = None) -> JsonObject:
    """Ask for several explanations for one cost."""
    given = here.served(table, who), asked, who, new_id() if key is None else key
    row = await (computed(request, here.submit, *given) if asked.max_error else run_in_threadpool(here.submit, *given))
    return _job(here, row)


@router.get("/jobs")
def list_jobs(here: Here, who: Asker) -> JsonObject:
    """Your jobs, the latest first; the curator sees everybody's."""
    at = now()
    rows = jobs.listed(here.store, None if who.role is Role.CURATOR else who.name, here.visible(who))
    return {"jobs": [jobs.shown(row, at) for row in rows]}


@router.get("/jobs/{job}")
async def get_job(
    here: Here, who: Asker, job: str, wait: Annotated[float, Query(ge=0, le=LONGEST_WAIT)] = 0
) -> JsonObject:
    """A job; with `wait`, when its end was announced or so many seconds have passed."""
    until = now() + wait
    while True:
        shown = _job(here, await run_in_threadpool(here.job, job, who))
        at = now()
        if shown["state"] not in jobs.OPEN or at >= until:
            return shown
        await anyio.sleep(min(here.clock.next(at), until) - at + 0.001)


@router.delete("/jobs/{job}")
def cancel_job(here: Here, who: Asker, job: str) -> JsonObject:
    """Cancel a job that has not begun; what has begun may have been paid for, and goes on."""
    here.job(job, who)
    if not jobs.cancel(here.store, job):
        raise Refused(409, "this job has begun or ended, so it is not cancelled.")
    return _job(here, here.job(job, who))


def _job(here: Service, row: Any) -> JsonObject:
    at = now()
    return {**jobs.shown(row, at), "next_stroke_in": max(here.clock.next(at) - at, 0.0), "slot": here.clock.slot}


# Reading --------------------------------------------------------------------------------------------------------------


@router.get("/releases")
def list_releases(here: Here, who: Member, table: str | None = None) -> JsonObject:
    """What was released: of analysts what they asked for, for viewers everything of their tables."""
    return {"releases": here.releases(who, table)}


@router.get("/releases/{release}")
def get_release(here: Here, who: Member, release: str) -> Response:
    """A release as a file that `dpx.from_json` reads and `dpexplain verify` checks."""
    here.release(release, who)
    return Response(here.document(release), media_type="application/json")


@router.get("/releases/{release}/receipt")
def receipt(here: Here, who: Member, release: str) -> JsonObject:
    """What was paid for a release, what it protects, and where it stands in the ledger."""
    row = here.release(release, who)
    found = from_json(here.document(release)).receipt
    return {"title": row.title, "guarantee": found.guarantee, "cleaning": found.cleaning(), **found.to_json()}


@router.post("/releases/{release}/explain")
async def explain_record(request: Request, here: Here, who: Member, release: str, asked: Record) -> Response:
    """What moves the prediction for a record, from a released sketch: free."""

    def answer() -> Response:
        here.release(release, who)
        found = here.work.explain(release, asked)
        if asked.whole:
            return Response(found.to_json(), media_type="application/json")
        return JSONResponse(numbers_of(found))

    async with request.app.state.turns:
        return await run_in_threadpool(answer)


@router.post("/tables/{table}/readings")
async def read_off(request: Request, here: Here, who: Member, table: str, asked: Reading) -> Response:
    """Curves or a local explanation, read off a stand-in and other releases: free."""
    served = here.served(table, who)
    return JSONResponse(await computed(request, lambda: numbers_of(here.work.read_off(served, asked, who))))


@router.get("/report")
def report(here: Here, who: Annotated[Principal, Depends(of(Role.PERSON))]) -> Response:
    """The one report that a person's token is for."""
    here.release(who.release or "", who)
    return Response(here.document(who.release or ""), media_type="application/json")


class Published(Body):
    """A result file, as somebody published it."""

    document: Annotated[str, Field(min_length=2)]


@router.post("/tables/{table}/verify")
def verify(here: Here, who: Member, table: str, asked: Published) -> JsonObject:
    """Whether the ledger of this table released exactly this, as far as it is announced.

    The file is the caller's, and may name any entry: one that was committed since the last stroke is none yet, or the
    answer would tell the moment of a commit.
    """
    _ = here.served(table, who).opened
    if not asked.document.lstrip().startswith("{"):  # from_json would take it for the path of a file
        raise errors.InputError("this is not a result written by dpexplain.", spent="")
    result = from_json(asked.document)
    notes = verify_result(result, here.books.ledger(table))
    found = result.receipt
    return {"genuine": True, "label": found.label, "guarantee": found.guarantee, "notes": notes}


class Anchor(Body):
    """An anchor that was kept outside, if there is one."""

    anchor: Annotated[str | None, Field(max_length=200)] = None


@router.post("/tables/{table}/verification")
def verification(here: Here, who: Reader, table: str, asked: Anchor) -> JsonObject:
    """Recompute the whole chain of the ledger and that of the decisions, against an anchor if you have one.

    What is told of the ledger is what it was at the last stroke: how long it is by now tells the moment of a commit.
    """
    served, page = here.served(table, who), here.books.page(table)
    number = (asked.anchor or "").strip().partition(":")[0]
    if number.isdecimal() and (len(number) > 18 or int(number) > page.seq):
        raise errors.VerificationError(
            f"the ledger ended at event {page.seq} when the clock last struck, before the event of the anchor.",
            hint="ask again when it has struck; if it says so still, the end was cut off or an old backup was restored",
        )
    notes = list(served.opened.ledger.verify(asked.anchor).notes)
    said = {"events": page.seq, "anchor": f"{page.seq}:{page.hash}", "notes": notes}
    return {**said, "decisions": here.decisions.verify()}


# Health ---------------------------------------------------------------------------------------------------------------

open_router = APIRouter(prefix="/v1")


@open_router.get("/health")
async def health() -> JsonObject:
    """Whether the process answers; it waits for no thread."""
    return {"alive": True, "version": package_version()}


@open_router.get("/ready")
def ready(here: Here) -> JSONResponse:
    """Whether store, ledgers and clock are there."""
    found = here.readiness()
    return JSONResponse(found, status_code=200 if found["ready"] else 503)


@open_router.get("/metrics")
def metrics(here: Here) -> PlainTextResponse:
    """Counts for Prometheus; no names and no durations."""
    return PlainTextResponse(here.metrics.text(here.store), media_type="text/plain; version=0.0.4")


# The application ------------------------------------------------------------------------------------------------------


def create_app(service: Service) -> FastAPI:
    """The application of a service. Pages plug in by `app.include_router`, and ask `app.state.service`."""
    from dpexplain.service.console.routes import include_console
    from dpexplain.service.curate import router as curation

    @asynccontextmanager
    async def lifespan(app: FastAPI) -> AsyncIterator[None]:
        app.state.plans = anyio.CapacityLimiter(PLANS_AT_ONCE)
        app.state.turns = anyio.CapacityLimiter(1)  # records: threads of short computations slow each other down
        app.state.pens = anyio.CapacityLimiter(1)  # drawings; whoever waits for one holds no thread
        await run_in_threadpool(service.start)
        yield
        await run_in_threadpool(service.stop)

    app = FastAPI(
        title="dpexplain", version=package_version(), summary="Differentially private explanations of models.",
        lifespan=lifespan, docs_url=None, redoc_url=None, openapi_url="/v1/openapi.json",
    )  # fmt: skip
    app.state.service = service
    refused: dict[int | str, dict[str, Any]] = {
        status: {"description": text, "content": {"application/json": {}}}
        for status, text in {
            400: "not readable", 401: "no valid token", 402: "the budget does not allow it", 403: "another role",
            404: "not there, or not yours", 408: "too slow", 409: "in contradiction", 413: "too large",
            422: "a wrong input", 429: "too many", 503: "the ledger or the store is away",
        }.items()
    }  # fmt: skip
    app.include_router(router, responses=refused)
    app.include_router(curation, responses=refused)
    app.include_router(open_router, responses={503: refused[503]})
    include_console(app)
    app.add_exception_handler(DpexplainError, _on_error)
    app.add_exception_handler(RequestValidationError, _on_wrong_body)
    app.add_exception_handler(HTTPException, _on_http)
    app.add_exception_handler(OverflowError, _on_overflow)
    app.add_exception_handler(Exception, _on_bug)
    settings = service.settings
    app.add_middleware(
        Whole, largest=settings.largest_body, patience=float(settings.patience), counted=service.metrics.request
    )
    with_requests(app)
    return app


def _answer(status: int, error: DpexplainError, wait: float = 0.0) -> JSONResponse:
    headers = {"WWW-Authenticate": "Bearer"} if status == 401 else {}
    headers |= {"Retry-After": str(int(wait) + 1)} if wait or status in (429, 503) else {}
    return JSONResponse({"error": error.to_dict()}, status_code=status, headers=headers)


async def _on_error(_request: Request, error: Exception) -> JSONResponse:
    assert isinstance(error, DpexplainError)
    if isinstance(error, Refused):
        return _answer(error.status, error, error.wait)
    status = next(status for kind, status in STATUS.items() if isinstance(error, kind))
    return _answer(status, error)


async def _on_wrong_body(_request: Request, error: Exception) -> JSONResponse:
    """What is wrong with the shape of a request, without what was sent."""
    assert isinstance(error, RequestValidationError)
    first = error.errors()[0]
    where = ".".join(str(place) for place in first["loc"])[:200]
    return _answer(422, errors.InputError(f"{where}: {first['msg'][:200]}."))


async def _on_http(_request: Request, error: Exception) -> JSONResponse:
    assert isinstance(error, HTTPException)
    return _answer(error.status_code, Refused(error.status_code, f"{error.detail}."))


async def _on_overflow(_request: Request, _error: Exception) -> JSONResponse:
    """A request spends nothing itself, so whatever it could not compute with is only refused."""
    return _answer(422, errors.InputError("a number in the request is too large."))


async def _on_bug(_request: Request, error: Exception) -> JSONResponse:
    """A message of somebody else may quote anything, so only the kind of the error is told."""
    return _answer(500, errors.InternalError(f"internal error ({type(error).__name__})."))
