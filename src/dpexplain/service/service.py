"""A service put together: settings, store, tables, clock. Who asks, and what they may see, is decided here."""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from typing import Any

import sqlalchemy as sa

from dpexplain.core.canonical import JsonObject
from dpexplain.errors import BudgetError, DpexplainError, InputError
from dpexplain.project.file import Project
from dpexplain.service import asked as bodies
from dpexplain.service import jobs, oidc, tokens
from dpexplain.service.asked import Batch, Explain, Plan
from dpexplain.service.books import Books
from dpexplain.service.decisions import Decisions
from dpexplain.service.limits import Rate
from dpexplain.service.metrics import Metrics
from dpexplain.service.oidc import Issuer, looks_signed
from dpexplain.service.settings import Settings
from dpexplain.service.slots import Clock, Runner
from dpexplain.service.store import Store, new_id, now, plans, results
from dpexplain.service.store import jobs as jobs_table
from dpexplain.service.tables import Served, Tables
from dpexplain.service.tokens import Principal, Role
from dpexplain.service.work import Answer, Work

PLAN_LASTS = 3600.0  # seconds
KEPT_ROWS = 10_000
FIRST = "curator"  # the name of who gets the first token
ISSUER = "issuer"  # the decision whose tokens are taken, and who is what by them


class Refused(DpexplainError):
    """A request that is refused before anything is looked at; `status` is that of the answer."""

    def __init__(self, status: int, message: str, *, hint: str = "") -> None:
        super().__init__(message, hint=hint)
        self.status = status
        self.wait = 0.0


class Service:
    """All that one process serves."""

    def __init__(self, projects: Sequence[Project], settings: Settings | None = None) -> None:
        self.settings = Settings.of(projects[0]) if settings is None else settings
        self.store = Store(self.settings.store)
        self.tables = Tables(list(projects), self.settings.models)
        self.decisions = Decisions(self.store, self.tables.accounts())
        self.books, self.work, self.metrics = Books(self.tables), Work(self.store), Metrics()
        self.clock = Clock(float(self.settings.slot))
        self.rate = Rate(self.settings.rate)
        self.issuer = None if self.settings.oidc is None else Issuer(self.settings.oidc)
        self._rows = dict[str, Any]()  # of announced releases, which never change
        lease, strokes = float(self.settings.lease), [self.books.turn, self.metrics.stroke]
        self.runner = Runner(self.store, self.clock, self.settings.jobs, self.run, lease, strokes)

    def start(self) -> None:
        """Begin to work: the clock strikes from now on."""
        self.books.turn()
        self._grant_by_issuer()
        self.decisions.anchor()
        self.runner.start()

    def stop(self) -> None:
        """Let what runs finish, and go."""
        self.runner.stop(self.settings.grace)
        self.store.close()

    def readiness(self) -> JsonObject:
        """Whether store, ledgers and clock are there."""
        found = {"store": _works(self.store.ping), "clock": self.runner.beats}
        for name, served in self.tables.items():
            found[f"table {name}"] = served.table is not None and _works(served.table.ledger.anchor)
        return {"ready": all(found.values()), "parts": list(found.values()).count(True), "of": len(found)}

    # Who asks ---------------------------------------------------------------------------------------------------------

    def first_token(self, *, again: bool = False) -> str | None:
        """A token for a curator, when there never was one, or when whoever runs the service asks for another."""
        with self.store.write() as connection:
            if tokens.any_of(connection, Role.CURATOR) and not again:
                return None
            wanted = tokens.Wanted(FIRST, Role.CURATOR, days=self.settings.token_days)
            shown, known = tokens.issue(connection, wanted)
            self.decisions.add(connection, "operator", "token", {"id": known, "name": FIRST, "role": "curator"})
        return shown

    def _grant_by_issuer(self) -> None:
        """Fetch the issuer's keys, and write down who is what by its word, when that has changed."""
        if self.issuer is not None:
            self.issuer.refresh()
        said = {} if self.settings.oidc is None else self.settings.oidc.to_json()
        with self.store.write() as connection:
            if said != self.decisions.latest(connection, ISSUER):
                self.decisions.add(connection, "operator", ISSUER, said)

    def principal(self, shown: str | None) -> Principal:
        """Whose token this is; or a refusal, the same for all that is wrong with it."""
        if self.issuer is not None and shown is not None and looks_signed(shown):
            who = self.issuer.principal(shown)
        else:
            who = None if shown is None else tokens.check(self.store, shown)
        if who is None:
            raise Refused(
                401, "this needs a valid token.", hint="Authorization: Bearer dpx_...; ask the curator for one"
            )
        if wait := self.rate.wait(who.id):
            refused = Refused(429, "too many requests.", hint="wait, and ask again")
            refused.wait = wait
            raise refused
        return who

    def served(self, name: str, who: Principal) -> Served:
        """A table that somebody may ask about; one that they may not see is as absent as one that is not there."""
        found = self.tables.get(name)
        if found is None or not who.may_see(name):
            raise Refused(404, "there is no such table.", hint="GET /v1/tables lists yours")
        return found

    def visible(self, who: Principal) -> list[str]:
        """The names of the tables that somebody may ask about."""
        return [name for name in self.tables if who.may_see(name)]

    # Jobs -------------------------------------------------------------------------------------------------------------

    def submit(self, served: Served, asked: Explain | Batch, who: Principal, key: str) -> Any:
        """A job for what is asked; the same key again is the same job."""
        stands_for = bodies.body_digest(served.name, asked)
        label, cost = self.work.check(served, asked, who)
        budget = served.opened.budget
        epsilon = budget.epsilon_of(cost)
        if not self.books.has_limit(served.name, who.name):
            raise BudgetError(
                f'"{who.name}" has no limit for table "{served.name}", so nothing may be spent.',
                hint="the curator sets one",
            )
        waits = who.agent and epsilon > self.settings.approve_above
        if (who.agent and cost.amount) or asked.plan is not None:
            self._require_plan(asked.plan, stands_for, who, key)
        kept = json.dumps({"role": who.role, "token": who.id, "body": bodies.written(asked)})
        ask = jobs.Ask(
            table=served.name, owner=who.name, key=key, body=kept,
            body_digest=stands_for, label=label, price=budget.describe(cost), state="waiting" if waits else "queued",
        )  # fmt: skip
        return jobs.submit(self.store, ask)[0]

    def keep_plan(self, served: Served, asked: Plan, who: Principal) -> str:
        """Remember that this was planned: an agent asks for what it has planned alone."""
        known, stands_for = new_id(), bodies.body_digest(served.name, asked)
        values = {"id": known, "owner": who.name, "asked_digest": stands_for, "expires": now() + PLAN_LASTS}
        with self.store.write() as connection:
            connection.execute(plans.delete().where(plans.c.expires < now()))
            connection.execute(plans.insert().values(values))
        return known

    def _require_plan(self, plan: str | None, stands_for: str, who: Principal, key: str) -> None:
        with self.store.read() as connection:
            mine = sa.select(plans).where(plans.c.id == (plan or ""), plans.c.owner == who.name)
            row = connection.execute(mine).first()
            again = connection.scalar(
                sa.select(jobs_table.c.id).where(jobs_table.c.owner == who.name, jobs_table.c.key == key)
            )
        if again is None and (row is None or row.asked_digest != stands_for or row.expires < now()):
            raise InputError(
                "no plan of yours is for exactly this request at this cost; an agent plans first.",
                hint="POST .../plan with the same body, then send its plan along",
            )

    def run(self, row: Any) -> Answer:
        """A job to its answer. Nothing is reserved for it when the token that asked has ended."""
        document = json.loads(row.body)
        role, asked = Role(document["role"]), bodies.read(document["body"])
        who = Principal("", row.owner, role, None, None, False, 0.0)

        def allow() -> None:
            if not self._lasts(document.get("token"), who):
                raise Refused(
                    403,
                    "the token that asked for this was revoked or ran out before the release began.",
                    hint="ask again with another token",
                )

        return self.work.release(self.tables[row.table_name], asked, who, allow=allow, settle=self.clock.settle)

    def _lasts(self, token: str | None, who: Principal) -> bool:
        """Whether a token still counts. One of an issuer is not kept here: its holder must still have the role."""
        if token is None:  # of a job that an earlier version took
            return True
        if token.startswith(oidc.MARK):
            return self.settings.oidc is not None and self.settings.oidc.may_be(who.name, who.role)
        return tokens.by_id(self.store, token) is not None

    def job(self, job: str, who: Principal) -> Any:
        """A job that somebody may look at."""
        row = jobs.find(self.store, job)
        if row is None or not who.may_see(row.table_name) or (who.role is not Role.CURATOR and row.owner != who.name):
            raise Refused(404, "there is no such job.", hint="GET /v1/jobs lists yours")
        return row

    # Releases ---------------------------------------------------------------------------------------------------------

    def releases(self, who: Principal, table: str | None = None) -> list[JsonObject]:
        """What somebody may read: analysts what they asked for, viewers and curators everything of their tables."""
        with self.store.read() as connection:
            rows = connection.execute(self._readable(who, table)).all()
        return [{**row._asdict(), "table": row.table_name, "analyst": row.owner} for row in rows]

    def some_releases(self, who: Principal, table: str, first: int, most: int) -> tuple[list[Any], int]:
        """Some rows of the releases of a table, the latest first, and how many there are."""
        asked = self._readable(who, table)
        with self.store.read() as connection:
            number = connection.scalar(sa.select(sa.func.count()).select_from(asked.subquery()))
            return list(connection.execute(asked.offset(first).limit(most)).all()), int(number or 0)

    def _readable(self, who: Principal, table: str | None) -> sa.Select[Any]:
        names = [name for name in self.visible(who) if table in (None, name)]
        columns = [column for column in results.c if column.name != "document"]
        where = [results.c.table_name.in_(names), results.c.announced <= now()]
        if who.role is Role.ANALYST:
            where.append(results.c.owner == who.name)
        return sa.select(*columns).where(*where).order_by(results.c.entry.desc(), results.c.number)

    def release(self, release: str, who: Principal) -> Any:
        """The row of a release that somebody may read, without its document."""
        row = self._rows.get(release) or self._announced(release)
        hidden = row is None or row.announced > now() or (who.role is Role.ANALYST and row.owner != who.name)
        if who.role is Role.PERSON:
            hidden = hidden or release != who.release
        elif not hidden:
            hidden = not who.may_see(row.table_name)
        if hidden:
            raise Refused(404, "there is no such release.", hint="GET /v1/releases lists yours")
        return row

    def _announced(self, release: str) -> Any:
        columns = [column for column in results.c if column.name != "document"]
        with self.store.read() as connection:
            row = connection.execute(sa.select(*columns).where(results.c.id == release)).first()
        if row is not None and row.announced <= now():
            if len(self._rows) >= KEPT_ROWS:
                self._rows.clear()
            self._rows[release] = row
        return row

    def document(self, release: str) -> str:
        """The file of a release, as `to_json` wrote it."""
        with self.store.read() as connection:
            return str(connection.scalar(sa.select(results.c.document).where(results.c.id == release)))


def _works(part: Callable[[], object]) -> bool:
    try:
        part()
    except DpexplainError:
        return False
    return True
