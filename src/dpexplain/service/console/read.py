"""Pages to read: tables with what is left and what was released, a release with its receipt, two side by side."""

from __future__ import annotations

from fractions import Fraction
from typing import Annotated, Any

from fastapi import APIRouter, Query, Request, Response

from dpexplain.core.budget import Cost
from dpexplain.core.canonical import JsonObject
from dpexplain.errors import InputError
from dpexplain.service.api import Here
from dpexplain.service.asked import served as methods_served
from dpexplain.service.console.drawn import Step, burn_down, chart_of_release, with_charts
from dpexplain.service.console.pages import Filled, Pages, back, onward, shown
from dpexplain.service.console.sessions import In, Member, Session
from dpexplain.service.service import Refused
from dpexplain.service.tables import UNSIGNED
from dpexplain.service.tokens import Role
from dpexplain.service.work import document_of

router = APIRouter(prefix="/console", route_class=Pages, include_in_schema=False)
EACH = 12  # releases on a page
STEPS = 200  # of the burn-down; earlier ones are its start
Page = Annotated[int, Query(ge=1, le=100_000)]


@router.get("")
@router.get("/")
def home(here: Here, session: In) -> Response:
    """Tables, or the one report of a person."""
    if session.who.role is Role.PERSON:
        return onward("/report")
    tables = [_brief(here, name, session) for name in here.visible(session.who)]
    return shown("tables.html", session, title="Tables", tables=tables)


def _brief(here: Any, name: str, session: Session) -> JsonObject:
    served = here.tables[name]
    if served.table is None:
        return {"name": name, "open": False}
    return {"name": name, "open": True, "protects": served.table.neighbours.describe(), **account(here, name, session)}


def account(here: Any, name: str, session: Session) -> JsonObject:
    """What is left of a table for whoever looks at it, in epsilon, as of the last stroke of the clock."""
    found = here.books.budget(name, session.who)
    statement = here.books.statement(name)
    budget = statement.budget
    mine = session.who.role is Role.ANALYST
    line = next((one for one in statement.analysts if one.analyst == session.who.name), None) if mine else None
    total = float(budget.epsilon)
    if mine:
        total = budget.epsilon_of(line.limit) if line is not None and line.limit is not None else 0.0
    left = found["left_for_you_epsilon"] if mine else found["left_epsilon"]
    percent = 100 * (1 - left / total) if total else 100.0
    return {
        "mine": mine, "total": total, "left": left, "percent": min(max(percent, 0.0), 100.0), "delta": budget.delta,
        "entries": found["entries"], "closed": found["closed_at"], "notes": found["notes"],
    }  # fmt: skip


@router.get("/tables/{table}")
def table_page(here: Here, session: Member, table: str, page: Page = 1) -> Response:
    """A table: the budget as it burns down, and what was released."""
    served = here.served(table, session.who)
    if served.table is None:
        return shown("waiting.html", session, title=table, table=table, why=UNSIGNED)
    books = account(here, table, session)
    releases, number = here.some_releases(session.who, table, (page - 1) * EACH, EACH)
    return shown(
        "table.html", session, title=table, table=table, books=books,
        public=served.public(here.store, {}), releases=releases, number=number,
        page=page, pages=max(1, -(-number // EACH)),
    )  # fmt: skip


@router.get("/tables/{table}/burn-down")
async def burned(request: Request, here: Here, session: Member, table: str) -> Response:
    """What was left after each release, which a script puts into the page of the table."""
    return await with_charts(request, lambda: burn_down_page(here, session, table))


def burn_down_page(here: Any, session: Session, table: str) -> Response:
    """The part of a page that shows the burn-down."""
    _ = here.served(table, session.who).opened
    return shown("burn-down.html", session, chart=_burned(here, table, session, account(here, table, session)))


def _burned(here: Any, table: str, session: Session, books: JsonObject) -> Any:
    """The burn-down of what is told about an account: exact amounts add up, epsilons do not."""
    page = here.books.page(table)
    budget, total = page.statement.budget, page.statement.budget.cost(epsilon=books["total"] or 1)

    def steps() -> list[Step]:
        told, spent, found = {entry["sequence"] for entry in books["entries"]}, total * 0, []
        for row in page.statement.rows:
            if row.sequence in told and row.charged.amount > 0:
                spent = spent + row.charged
                found.append((row.at[:10], row.label, max(total.amount - spent.amount, Fraction(0))))
        return [(day, what, budget.epsilon_of(Cost(total.definition, rest))) for day, what, rest in found[-STEPS:]]

    who = session.who.name if books["mine"] else None
    return burn_down((id(here), table, page.seq, who, books["total"]), books["total"], steps)


# Releases -------------------------------------------------------------------------------------------------------------


def release_of(here: Any, session: Session, release: str) -> JsonObject:
    """A release with all that its card shows."""
    row = here.release(release, session.who)
    result = document_of(release, here.store)
    return {
        "row": row, "result": result, "chart": chart_of_release(release, here.store),
        "explains": hasattr(result, "explain") and session.who.role is not Role.PERSON,
    }  # fmt: skip


@router.get("/releases/{release}")
async def release_page(request: Request, here: Here, session: Member, release: str) -> Response:
    """One release: chart, numbers, receipt."""
    return await with_charts(request, lambda: release_shown(here, session, release), release)


def release_shown(here: Any, session: Session, release: str) -> Response:
    """The page of a release."""
    found = release_of(here, session, release)
    return shown("release.html", session, title=found["result"].title, **found)


@router.get("/releases/{release}/card")
async def release_card(request: Request, here: Here, session: Member, release: str) -> Response:
    """The card of a release, which a script puts into a list when somebody gets there."""
    return await with_charts(
        request, lambda: shown("card.html", session, **release_of(here, session, release)), release
    )


@router.get("/releases/{release}/file")
def release_file(here: Here, session: Member, release: str) -> Response:
    """The file of a release."""
    here.release(release, session.who)
    headers = {"Content-Disposition": f'attachment; filename="release-{release}.json"'}
    return Response(here.document(release), media_type="application/json", headers=headers)


@router.get("/report")
async def report(request: Request, here: Here, session: In) -> Response:
    """The one report that a person's token is for."""
    if session.who.role is not Role.PERSON:
        raise Refused(403, "this page is for the person whom a report is about.")
    release = session.who.release or ""
    return await with_charts(request, lambda: release_shown(here, session, release), release)


@router.get("/compare")
async def compare(
    request: Request, here: Here, session: Member, release: Annotated[list[str] | None, Query(max_length=8)] = None
) -> Response:
    """Releases side by side."""
    chosen = release or []
    if len(chosen) < 2:
        raise InputError("choose at least two releases to put side by side.", spent="")

    def page() -> Response:
        found = [release_of(here, session, one) for one in chosen]
        return shown("compare.html", session, title="Side by side", found=found)

    return await with_charts(request, page, *chosen)


@router.post("/view")
def view(here: Here, session: In, sent: Filled) -> Response:
    """The switch between plain words and the expert's view of the page that is open."""
    session.remember(here.store, expert=sent.one("expert") == "1")
    return back(sent.one("address"))


def kinds() -> list[tuple[str, str, str]]:
    """(name, title, lead) of everything that can be asked."""
    return [(name, method.title, method.lead) for name, method in methods_served().items()]
