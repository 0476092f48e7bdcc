"""Pages to ask: forms, forecasts before anything is spent, sets of questions, jobs, a typed-in person."""

from __future__ import annotations

from typing import Any

from fastapi import APIRouter, Request, Response
from starlette.concurrency import run_in_threadpool

from dpexplain.core.canonical import JsonObject
from dpexplain.errors import DpexplainError, InputError
from dpexplain.methods.registry import Method
from dpexplain.service import jobs
from dpexplain.service.api import Here, computed
from dpexplain.service.asked import Batch, Explain, Plan, Record, takes_model
from dpexplain.service.asked import served as methods_served
from dpexplain.service.console.drawn import drawn
from dpexplain.service.console.forms import Field, fields_of, first, record_fields, record_from, request_from
from dpexplain.service.console.pages import Filled, Pages, Sent, onward, shown
from dpexplain.service.console.read import account, kinds
from dpexplain.service.console.sessions import Asker, Member, Session
from dpexplain.service.console.words import plain_error
from dpexplain.service.service import Refused, Service
from dpexplain.service.store import new_id, now
from dpexplain.service.tables import Served
from dpexplain.service.work import document_of

router = APIRouter(prefix="/console", route_class=Pages, include_in_schema=False)
NOT_TYPED = {"compare", "generic-plot", "rank-aggregation"}  # they need what no form has: files, functions
USUAL = 0.25  # of what is left: where the slider begins
LOWEST = 0.001  # epsilon at the lower end of the slider


def offered(here: Service, served: Served) -> list[tuple[str, str, str]]:
    """What can be asked of a table by a form."""
    possible = served.public(here.store, methods_served())["methods"]
    return [one for one in kinds() if one[0] in possible and one[0] not in NOT_TYPED]


def method_named(here: Service, served: Served, name: str) -> Method:
    """A method that can be asked by a form."""
    if name not in [one[0] for one in offered(here, served)]:
        raise Refused(404, "there is no such question for this table.")
    return methods_served()[name]


def model_features(here: Service, served: Served) -> list[str] | None:
    """The columns that the model reads, where there is one."""
    return served.model(None, here.store).features(served.opened.domain) if served.has_model else None


def fields(here: Service, served: Served, method: Method) -> list[Field]:
    """The fields of a method's form."""
    return fields_of(method, served.opened.domain, model_features(here, served))


@router.get("/tables/{table}/ask")
def questions_offered(here: Here, session: Asker, table: str) -> Response:
    """What can be asked."""
    served = here.served(table, session.who)
    _ = served.opened
    return shown(
        "choose.html", session, title=f"Ask about {table}", table=table, offered=offered(here, served),
        books=account(here, table, session),
    )  # fmt: skip


@router.get("/tables/{table}/ask/{method}")
def form(here: Here, session: Asker, table: str, method: str) -> Response:
    """The form of a question."""
    return _form(here, session, here.served(table, session.who), method)


def _form(
    here: Service, session: Session, served: Served, name: str, sent: Sent | None = None, **more: Any
) -> Response:
    method, books = method_named(here, served, name), account(here, served.name, session)
    every = fields(here, served, method)
    return shown(
        "ask.html", session, status=more.pop("status", 200), title=method.title, table=served.name, method=method,
        first=[one for one in every if first(one)], more=[one for one in every if not first(one)],
        sent=sent or Sent({}), books=books, epsilon=_epsilon(sent, books), lowest=LOWEST, key=new_id(),
        **{"forecast": None, "error": None, **more},
    )  # fmt: skip


def _epsilon(sent: Sent | None, books: JsonObject) -> str:
    return sent.one("epsilon") if sent is not None else f"{USUAL * books['left']:.2g}"


def _asked(here: Service, served: Served, name: str, sent: Sent) -> tuple[JsonObject, float]:
    """The request and its epsilon."""
    method = method_named(here, served, name)
    return request_from(method, fields(here, served, method), sent, served.opened.domain), price_of(sent)


def price_of(sent: Sent) -> float:
    """The epsilon of a form."""
    epsilon = sent.number("epsilon", "Epsilon")
    if not 0 < epsilon <= 1e6:
        raise InputError("epsilon must be above 0.", spent="")
    return epsilon


def _model(here: Service, served: Served, method: str) -> JsonObject:
    """What a body says of the model: nothing but its version, where the method may also do without one."""
    del here
    takes = served.has_model and takes_model(methods_served()[method])
    return {"model": served.usual_version} if takes else {}


@router.post("/tables/{table}/ask/{method}/forecast")
async def forecast(request: Request, here: Here, session: Asker, table: str, method: str, sent: Filled) -> Response:
    """What the answer would be worth for this epsilon. Nothing is spent, no row is read."""
    return await computed(request, _forecast, here, session, table, method, sent, _is_part(request))


def _is_part(request: Request) -> bool:
    """Whether a script asks, which wants the part of the page that changes."""
    return request.headers.get("accept") == "text/x-part"


def _forecast(here: Service, session: Session, table: str, method: str, sent: Sent, part: bool) -> Response:
    served = here.served(table, session.who)
    try:
        asked, epsilon = _asked(here, served, method, sent)
        about = _model(here, served, method)
        found = here.work.plan(served, Plan(request=asked, epsilon=epsilon, **about), session.who)
        values: JsonObject = {"forecast": found, "error": None}
    except DpexplainError as error:
        values = {"forecast": None, "error": error.to_dict()}
    books = account(here, table, session)
    if part:
        return shown("forecast.html", session, books=books, epsilon=sent.one("epsilon"), **values)
    return _form(here, session, served, method, sent, **values)


@router.post("/tables/{table}/ask/{method}")
async def submit(request: Request, here: Here, session: Asker, table: str, method: str, sent: Filled) -> Response:
    """Ask: a job, under the key of the form, so that sending it twice is charged once."""
    given = here, session, table, method, sent
    plans = sent.one("do") == "add"
    return await (computed(request, _submit, *given) if plans else run_in_threadpool(_submit, *given))


def _submit(here: Service, session: Session, table: str, method: str, sent: Sent) -> Response:
    served = here.served(table, session.who)
    try:
        asked, epsilon = _asked(here, served, method, sent)
        if sent.one("do") == "add":
            here.work.plan(served, Plan(request=asked, epsilon=epsilon, **_model(here, served, method)), session.who)
            return _added(here, session, table, asked)
        body = Explain(request=asked, epsilon=epsilon, **_model(here, served, method))
        row = here.submit(served, body, session.who, f"console {sent.one('key')}")
    except DpexplainError as error:
        status = 402 if type(error).__name__.startswith("Budget") else 422
        return _form(here, session, served, method, sent, error=error.to_dict(), status=status)
    return onward(f"/jobs/{row.id}")


# Sets of questions ----------------------------------------------------------------------------------------------------


def _set(session: Session, table: str) -> list[JsonObject]:
    found: list[JsonObject] = session.memory.get("sets", {}).get(table, [])
    return found


def _keep(here: Service, session: Session, table: str, asked: list[JsonObject]) -> None:
    session.remember(here.store, sets={**session.memory.get("sets", {}), table: asked})


def _added(here: Service, session: Session, table: str, asked: JsonObject) -> Response:
    _keep(here, session, table, [*_set(session, table), asked])
    return onward("/tables/{}/set", table)


@router.get("/tables/{table}/set")
def questions(here: Here, session: Asker, table: str) -> Response:
    """The set of questions that shall be asked for one epsilon."""
    return _questions(here, session, here.served(table, session.who), None)


def _questions(here: Service, session: Session, served: Served, sent: Sent | None, **more: Any) -> Response:
    books, known = account(here, served.name, session), methods_served()
    asked = _set(session, served.name)
    said = [
        (
            known[one["request"]].title,
            ", ".join(f"{name}: {_told(value)}" for name, value in one.items() if name != "request"),
        )
        for one in asked
    ]
    return shown(
        "set.html", session, status=more.pop("status", 200), title=f"A set of questions about {served.name}",
        table=served.name, questions=said, books=books, epsilon=_epsilon(sent, books), lowest=LOWEST, key=new_id(),
        **{"forecast": None, "error": None, **more},
    )  # fmt: skip


def _told(value: Any) -> str:
    return ", ".join(map(str, value)) if isinstance(value, list) else str(value)


@router.post("/tables/{table}/set/forecast")
async def set_forecast(request: Request, here: Here, session: Asker, table: str, sent: Filled) -> Response:
    """How one epsilon would be divided over the questions, and the error of each."""
    return await computed(request, _set_forecast, here, session, table, sent, _is_part(request))


def _set_forecast(here: Service, session: Session, table: str, sent: Sent, part: bool) -> Response:
    served = here.served(table, session.who)
    try:
        body = Plan(requests=_set(session, table), epsilon=price_of(sent))
        values: JsonObject = {"forecast": here.work.plan(served, body, session.who), "error": None}
    except DpexplainError as error:
        values = {"forecast": None, "error": error.to_dict()}
    if part:
        books = account(here, table, session)
        return shown("forecast.html", session, books=books, epsilon=sent.one("epsilon"), **values)
    return _questions(here, session, served, sent, **values)


@router.post("/tables/{table}/set")
def set_submit(here: Here, session: Asker, table: str, sent: Filled) -> Response:
    """Ask all of them, or take one out."""
    served, asked = here.served(table, session.who), _set(session, table)
    if sent.one("remove"):
        left = [one for number, one in enumerate(asked) if str(number) != sent.one("remove")]
        _keep(here, session, table, left)
        return onward("/tables/{}/set", table)
    try:
        if not asked:
            raise InputError("there is no question in the set.", spent="")
        body = Batch(requests=asked, epsilon=price_of(sent))
        row = here.submit(served, body, session.who, f"console {sent.one('key')}")
    except DpexplainError as error:
        return _questions(here, session, served, sent, error=error.to_dict(), status=422)
    _keep(here, session, table, [])
    return onward(f"/jobs/{row.id}")


# Jobs -----------------------------------------------------------------------------------------------------------------


@router.get("/jobs")
def job_list(here: Here, session: Asker) -> Response:
    """The latest jobs."""
    at = now()
    everybody = session.who.role == "curator"
    rows = jobs.listed(here.store, None if everybody else session.who.name, here.visible(session.who))[:100]
    return shown("jobs.html", session, title="Jobs", jobs=[jobs.shown(row, at) for row in rows])


@router.get("/jobs/{job}")
def job_page(request: Request, here: Here, session: Asker, job: str) -> Response:
    """A job, as far as it is announced."""
    found = jobs.shown(here.job(job, session.who), now())
    if request.headers.get("accept") == "application/json":
        from fastapi.responses import JSONResponse

        return JSONResponse({"state": found["state"]})
    wait = max(here.clock.next(now()) - now(), 0.0)
    titles = [(one, document_of(one, here.store).title) for one in found["results"]]
    served = here.tables.get(found["table"])
    if found["error"] and served is not None and served.table is not None:
        found["error"] = plain_error(found["error"], session.expert, served.opened.budget)
    title = found["label"][:1].upper() + found["label"][1:]
    return shown("job.html", session, title=title, job=found, wait=wait, slot=here.clock.slot, results=titles)


@router.post("/jobs/{job}/cancel")
def cancel(here: Here, session: Asker, job: str, sent: Filled) -> Response:
    """Cancel a job that has not begun."""
    del sent
    here.job(job, session.who)
    if not jobs.cancel(here.store, job):
        raise Refused(409, "this job has begun or ended, so it is not cancelled.")
    return onward(f"/jobs/{job}")


# A typed-in person ----------------------------------------------------------------------------------------------------


@router.get("/releases/{release}/person")
def person(here: Here, session: Member, release: str) -> Response:
    """A form for a person who is typed in: free."""
    return _person(here, session, release, Sent({}))


def _person(here: Service, session: Session, release: str, sent: Sent, **more: Any) -> Response:
    row = here.release(release, session.who)
    served, sketch = here.served(row.table_name, session.who), document_of(release, here.store)
    if not hasattr(sketch, "explain"):
        raise Refused(409, "persons are explained from a local sketch; this release is none.")
    every = record_fields(served.opened.domain, model_features(here, served))
    return shown(
        "person.html", session, status=more.pop("status", 200), title="A person, typed in", row=row, fields=every,
        sent=sent, output=served.model(None, here.store).output if served.has_model else None,
        **{"answer": None, "chart": None, "prediction": None, "others": None, "error": None, **more},
    )  # fmt: skip


@router.post("/releases/{release}/person")
async def explain_person(request: Request, here: Here, session: Member, release: str, sent: Filled) -> Response:
    """Prediction and reasons, from what was released and the public model: no row is read, nothing is kept."""
    return await computed(request, _explain_person, here, session, release, sent)


def _explain_person(here: Service, session: Session, release: str, sent: Sent) -> Response:
    row = here.release(release, session.who)
    served = here.served(row.table_name, session.who)
    domain = served.opened.domain
    try:
        every = record_fields(domain, model_features(here, served))
        record = record_from(every, sent, domain)
        if missing := [one.label for one in every if one.name not in record]:
            raise InputError(f"{missing[0]} is needed.", spent="")
        prediction = predicted(here, served, record)
        answer = here.work.explain(release, Record(record=record, prediction=prediction))
        others = otherwise(here, served, document_of(release, here.store), record, prediction, sent)
    except DpexplainError as error:
        return _person(here, session, release, sent, error=error.to_dict(), status=422)
    return _person(
        here, session, release, sent, answer=answer, chart=drawn(answer), prediction=prediction, others=others
    )


def otherwise(
    here: Service, served: Served, sketch: Any, record: JsonObject, prediction: float | None, sent: Sent
) -> Any:
    """What would have to be different for another prediction: off the stand-in of a sketch, by the public model."""
    if prediction is None or not hasattr(sketch, "stand_in"):
        return None
    from dpexplain.methods.posterior import posterior

    model = served.model(None, here.store)
    middle = (model.output.low + model.output.high) / 2
    wanted: tuple[float | None, float | None] = (middle, None) if prediction < middle else (None, middle)
    if sent.one("wanted"):
        line = sent.number("wanted", "The other prediction")
        wanted = (line, None) if line > prediction else (None, line)
    return posterior(sketch.stand_in, model).counterfactuals(record, wanted)


def predicted(here: Service, served: Served, record: JsonObject) -> float | None:
    """What the public model says about a typed-in person."""
    if not served.has_model:
        return None
    from dpexplain.methods.local_explanation.release import prediction_of

    model, domain = served.model(None, here.store), served.opened.domain
    return prediction_of(record, model.features(domain), model.checked(domain), model.output)
