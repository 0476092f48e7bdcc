"""What the curator does: tokens, limits, models, approvals, signing domains. Each is a decision in the chain."""

from __future__ import annotations

from fractions import Fraction
from typing import Annotated, Any

from fastapi import APIRouter, Depends
from pydantic import Field

from dpexplain.core.budget import Cost
from dpexplain.core.canonical import JsonObject
from dpexplain.errors import BudgetError, InputError
from dpexplain.service import jobs, tokens
from dpexplain.service.api import Here, of
from dpexplain.service.asked import Body, Name
from dpexplain.service.service import Refused, Service
from dpexplain.service.store import models
from dpexplain.service.tables import digest_of
from dpexplain.service.tokens import Principal, Role

router = APIRouter(prefix="/v1")
Curator = Annotated[Principal, Depends(of(Role.CURATOR))]


class NewToken(Body):
    """A token to be made; it is shown once."""

    name: Annotated[str, Field(min_length=1, max_length=100)]
    role: Annotated[str, Field(pattern="^(curator|analyst|viewer|person)$")]
    tables: Annotated[list[Name] | None, Field(max_length=1000, description="By default, and of curators, all.")] = None
    release: Annotated[str | None, Field(max_length=64, description="Of a person: the report.")] = None
    agent: Annotated[bool, Field(description="A program asks: it plans first, and waits above a cost.")] = False
    days: Annotated[float | None, Field(gt=0, le=3660)] = None


@router.post("/tokens", status_code=201)
def make_token(here: Here, who: Curator, asked: NewToken) -> JsonObject:
    """Make a token. It is shown in this answer, and never again."""
    most = here.settings.token_days
    wanted = tokens.Wanted(
        asked.name, Role(asked.role), asked.tables, asked.release, asked.agent, min(asked.days or most, most)
    )
    if unknown := [name for name in asked.tables or [] if name not in here.tables]:
        raise InputError(f"there is no table {unknown[0]!r}."[:200], spent="")
    if asked.release is not None:
        here.release(asked.release, who)
    with here.store.write() as connection:
        shown, known = tokens.issue(connection, wanted)
        said = {"id": known, **asked.model_dump(mode="json"), "days": wanted.days}
        here.decisions.add(connection, who.name, "token", said)
    here.decisions.anchor()
    return {"token": shown, "id": known, "name": asked.name, "role": asked.role}


@router.get("/tokens")
def list_tokens(here: Here, who: Curator) -> JsonObject:  # noqa: ARG001
    """All tokens, without what would let somebody use them."""
    return {"tokens": tokens.listed(here.store)}


@router.delete("/tokens/{token}")
def revoke_token(here: Here, who: Curator, token: str) -> JsonObject:
    """End a token at once."""
    with here.store.write() as connection:
        if not tokens.revoke(connection, token):
            raise Refused(404, "there is no such token.", hint="GET /v1/tokens lists them")
        here.decisions.add(connection, who.name, "revoked", {"id": token})
    here.decisions.anchor()
    return {"revoked": token}


class Limit(Body):
    """The most that an analyst may spend of a table, what was spent before included."""

    epsilon: Annotated[float, Field(gt=0, le=1e6)]


@router.put("/tables/{table}/analysts/{analyst}")
def limit(here: Here, who: Curator, table: str, analyst: str, asked: Limit) -> JsonObject:
    """Set a limit. Those of all analysts together never exceed the table's budget."""
    served = here.served(table, who)
    with here.store.write() as connection:  # one curator at a time, in all processes
        statement = served.statement
        wanted = statement.budget.cost(epsilon=asked.epsilon)
        taken = wanted * 0
        for line in statement.analysts:
            if line.analyst != analyst:
                # a limit may be lowered below what was spent
                taken = taken + (line.spent if line.limit is None or line.limit <= line.spent else line.limit)
        unnamed = (row.charged for row in statement.rows if row.analyst is None)
        free = statement.total.amount - sum((cost.amount for cost in unnamed), taken.amount)
        if wanted.amount > free:
            rest = statement.budget.epsilon_of(Cost(wanted.definition, max(free, Fraction(0))))
            raise BudgetError(
                f'a limit of epsilon={asked.epsilon:g} for "{analyst}" does not fit: limits of others and what was '
                f"spent without or above one leave epsilon={rest:.4g}.",
                hint="lower another limit first",
            )
        served.opened.ledger.set_limit(table, analyst, wanted)
        said = {"table": table, "analyst": analyst, "limit": wanted.to_json()}
        here.decisions.add(connection, who.name, "limit", said, table)
    here.decisions.anchor()
    return said


class NewModel(Body):
    """A model that the operator has put into the folder of models."""

    version: Name
    file: Name


@router.post("/tables/{table}/models", status_code=201)
def register_model(here: Here, who: Curator, table: str, asked: NewModel) -> JsonObject:
    """Register a model under a version: a file of the folder of models, never code and never a pickle."""
    served = here.served(table, who)
    path = served.file(asked.file)
    if asked.version == served.usual_version or any(
        row.version == asked.version for row in served.registered(here.store)
    ):
        raise InputError(
            "this version is taken.", hint="a version is a promise that a model stays what it is", spent=""
        )
    served.project.other_model(str(path), asked.version).checked(served.opened.domain)
    found = {"table_name": table, "version": asked.version, "file": asked.file, "file_digest": digest_of(path)}
    with here.store.write() as connection:
        connection.execute(models.insert().values(found))
        here.decisions.add(connection, who.name, "model", found, table)
    here.decisions.anchor()
    return found


class Said(Body):
    """What the curator says to a job that waits."""

    approved: bool


@router.post("/jobs/{job}/approval")
def approve(here: Here, who: Curator, job: str, asked: Said) -> JsonObject:
    """Let a job that an agent asked for go on, or not."""
    row = here.job(job, who)
    with here.store.write() as connection:
        if not jobs.decide(connection, job, approved=asked.approved):
            raise Refused(409, "this job does not wait for anybody.")
        said = {"job": job, "analyst": row.owner, "price": row.price, "approved": asked.approved}
        here.decisions.add(connection, who.name, "approval", said, row.table_name)
    here.decisions.anchor()
    return said


@router.get("/decisions")
def list_decisions(here: Here, who: Curator) -> JsonObject:  # noqa: ARG001
    """Who granted what, oldest first, and whether the chain is whole."""
    return {"decisions": [one.to_json() for one in here.decisions.every()], "checked": here.decisions.verify()}


# Domains --------------------------------------------------------------------------------------------------------------


class Signed(Body):
    """A reviewed domain: every column as it stands in a domain file, and who answers for it."""

    columns: Annotated[dict[Name, dict[str, Any]], Field(min_length=1, max_length=10_000)]
    reviewed_by: Annotated[str, Field(min_length=1, max_length=200)]


@router.get("/tables/{table}/domain")
def domain(here: Here, who: Curator, table: str) -> JsonObject:
    """The domain file of a table, also one that nobody has signed. What is still open is spelled ???."""
    return here.served(table, who).draft()


@router.put("/tables/{table}/domain")
def sign(here: Here, who: Curator, table: str, asked: Signed) -> JsonObject:
    """Sign the domain of a table that is not open yet: it is written down, and the table opens."""
    served = here.served(table, who)
    found = served.sign(asked.columns, asked.reviewed_by)
    open_table(here, served.name)
    with here.store.write() as connection:
        said = {"table": table, "domain": found.digest, "reviewed_by": asked.reviewed_by}
        here.decisions.add(connection, who.name, "domain", said, table)
    here.decisions.anchor()
    return said


def open_table(here: Service, name: str) -> None:
    """Open a table whose domain was signed."""
    here.tables[name].open()
    here.decisions.learn(here.tables.accounts())
