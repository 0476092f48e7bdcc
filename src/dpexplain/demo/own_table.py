"""The demo for a table of one's own: asks for what has to be declared, trains a model, and writes the report.

What a person declares is public knowledge, and is not read from the rows: names and types of columns are all that is
looked at before. The model is trained on the rows in the usual way. It is not private, and the demo says so.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
from rich.markup import escape as literal

from dpexplain.core.canonical import digest
from dpexplain.core.domain import Categorical, Column, Numeric
from dpexplain.data.domain_file import Domain
from dpexplain.data.encode import encode
from dpexplain.data.rows import Rows
from dpexplain.data.sources import Source, open_source
from dpexplain.demo.experiment import MODULE
from dpexplain.demo.steps import Progress, Show
from dpexplain.demo.threads import one_thread
from dpexplain.errors import DpexplainError, InputError
from dpexplain.methods.reports.request import ReportRequest
from dpexplain.models.predictor import frame_of
from dpexplain.project.file import Project
from dpexplain.project.report import opened_report
from dpexplain.render import text as words
from dpexplain.render.reports import report_forecast_view

Ask = Callable[[str, str], str]  # (question, what is taken without an answer) -> the answer

ASKED_COLUMNS = 40  # a table with more is for `dpexplain init`
ASKED_VALUES = 255  # of a column; the model that is trained here takes no more
TRIES = 3  # for one answer
STEPS = 4
PROJECT = """\
[table]
path = {table}
domain = "domain.yaml"
name = {name}
version = "1"
relation = {relation}
{hint}
[budget]
epsilon = {budget}
delta = 1e-6
ledger = "sqlite:///budget.db"

[model]
import = {module}
output = {output}
name = "demo model"
version = "1"
target = {target}
features = {features}
{label}
"""


@dataclass(frozen=True)
class Declared:
    """What a person said about the table."""

    domain: Domain
    target: str
    relation: str
    epsilon: float
    hint: int | None = None

    @property
    def features(self) -> list[str]:
        return [name for name in self.domain if name != self.target]


def run_on(table: Path, out: Path, ask: Ask, show: Show) -> dict[str, Any]:
    """Ask, train, plan, release and write; the folder is a project to go on with."""
    try:
        out.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise InputError(f"{out} cannot be written to: {error.strerror}.", hint="--out names another folder") from None
    with one_thread():
        return _run_on(table, out, ask, show)


def _run_on(table: Path, out: Path, ask: Ask, show: Show) -> dict[str, Any]:
    source, progress = open_source(table), Progress(show, STEPS)
    if (out / "dpexplain.toml").exists():
        show(f"{literal(str(out))} has a project already: it is used as it is.")
    else:
        progress.begin("what everybody may know about the table; no row is read for it")
        declared = declare(source, ask, show)
        progress.begin("a model is trained on the rows. It is not private: keep it to yourself")
        _write(table, out, declared, source)
    known = Project.load(out / "dpexplain.toml")
    budget = float(known.budget().epsilon)
    progress.begin("the plan: what will it cost, how good will it be? The plan itself costs nothing")
    request = ReportRequest(target=known.target, positive=known.label, groups=_groups(known))
    about: dict[str, Any] = {"clusters": False, "analyst": None, "rows": None, "planned": False}
    opened = opened_report(known, request, {"epsilon": budget / 2}, out=out, **about)
    show(report_forecast_view(opened.forecast))
    progress.begin("the release, and one page")
    found = opened.release()
    files = opened.publish(found)
    for sentence in found.in_short:
        show(f"- {literal(sentence)}")
    how = "before; this time nothing" if found.replayed else "now"
    show(
        f"\nDone in {progress.seconds} s. Open {literal(str(files.page))}\n"
        f"Spent {how}: epsilon = {found.epsilon:.2g} of {budget:g}.\n"
        f"Try next:\n  cd {literal(str(out))}\n  dpexplain report --epsilon {budget / 4:g} --plan\n"
        "  dpexplain report --from . --title 'My own title'\n  dpexplain budget"
    )
    return {
        "page": str(files.page),
        "results": [str(path) for path in files.results],
        "project": str(out / "dpexplain.toml"),
        "spent_now": not found.replayed,
        "forecast": opened.forecast.to_json(),
        "seconds": progress.seconds,
        "in_short": found.in_short,
        "statement": words.statement_json(opened.statement),
    }


def _groups(known: Project) -> list[str]:
    """The first column of two values, if there is one: whose groups are compared."""
    columns = known.domain().items()
    two = [n for n, c in columns if n != known.target and isinstance(c, Categorical) and len(c.categories) == 2]
    return two[:1]


# Questions ------------------------------------------------------------------------------------------------------------


def declare(source: Source, ask: Ask, show: Show) -> Declared:
    """Ask for everything that has to be declared."""
    columns: dict[str, Column] = {}
    if len(source.types) > ASKED_COLUMNS:
        raise InputError(
            f"the table has {len(source.types)} columns, too many to ask about one by one.",
            hint="`dpexplain init TABLE` drafts a file for them, and `dpexplain report` goes on from there",
        )
    show("For each column say what is possible, from public knowledge, not what the rows show. Enter leaves one out.")
    for name, kind in source.types.items():
        column = _column(name, kind, ask, show)
        if column is not None:
            columns[name] = column
    if len(columns) < 2:
        raise InputError("fewer than two columns are declared.", hint="a target, and a column that predicts it")
    names = ", ".join(columns)

    def target_of(answer: str) -> str:
        if answer not in columns:
            raise InputError(f"it is one of {names}.")
        if isinstance(columns[answer], Categorical) and len(columns[answer].categories) < 2:  # type: ignore[union-attr]
            raise InputError("a column with one value cannot be predicted.")
        return answer

    target = _asked(ask, show, f"Which column shall a model predict? ({names})", list(columns)[-1], target_of)
    public = _asked(ask, show, "Is the number of rows public? (yes or no)", "yes", _yes)
    hint = None if public else _asked(ask, show, "About how many rows are there? A public guess", "10000", _whole)
    epsilon = _asked(ask, show, "The most that may ever be spent on these rows (epsilon)", "2", _positive)
    who = _asked(ask, show, "Your name, who declares this", "", _name)
    domain = Domain(columns, reviewed_by=who)
    return Declared(domain, target, "replace-one" if public else "add-remove", epsilon, hint)


def _column(name: str, kind: pa.DataType | None, ask: Ask, show: Show) -> Column | None:
    """What a person says about one column; None to leave it out."""
    found: Column | None
    if kind is not None and pa.types.is_boolean(kind):
        kept = _asked(ask, show, f"{name} (true or false): use it? (yes or no)", "yes", _yes)
        return Categorical([False, True]) if kept else None
    numbers = (pa.types.is_integer, pa.types.is_floating, pa.types.is_decimal)
    if kind is not None and any(is_one(kind) for is_one in numbers):
        whole = bool(pa.types.is_integer(kind))
        said = f"{name} ({'whole numbers' if whole else 'numbers'}): the smallest and the largest possible"
        found = _asked(ask, show, said, "", partial(_range, whole=whole))
    else:
        found = _asked(ask, show, f"{name}: two numbers, or all possible values with commas between them", "", _either)
    return found


def _range(answer: str, *, whole: bool = False) -> Column | None:
    if not answer.strip():
        return None
    parts = answer.replace(",", " ").replace(" to ", " ").split()
    try:
        low, high = map(float, parts)
    except ValueError:
        raise InputError("two numbers, such as 0 120.") from None
    return Numeric(low, high, integer=whole and low.is_integer() and high.is_integer())


def _either(answer: str) -> Column | None:
    if not answer.strip():
        return None
    if "," not in answer:
        return _range(answer)
    values = [part.strip() for part in answer.split(",") if part.strip()]
    if len(values) > ASKED_VALUES:
        raise InputError(f"at most {ASKED_VALUES} values; Enter leaves the column out.")
    return Categorical(values)


def _yes(answer: str) -> bool:
    if answer.strip().lower() not in ("yes", "y", "no", "n"):
        raise InputError("yes or no.")
    return answer.strip().lower().startswith("y")


def _whole(answer: str) -> int:
    if not answer.strip().isdigit() or int(answer) < 1:
        raise InputError("a whole number.")
    return int(answer)


def _positive(answer: str) -> float:
    try:
        value = float(answer)
    except ValueError:
        value = 0.0
    if not 0 < value <= 100:
        raise InputError("a number above 0, such as 2.")
    return value


def _name(answer: str) -> str:
    if not answer.strip() or not answer.isprintable():
        raise InputError("nothing runs before a person has signed what is declared.")
    return answer.strip()


def _asked(ask: Ask, show: Show, question: str, default: str, read: Callable[[str], Any]) -> Any:
    """An answer that can be read; asked again where it cannot."""
    for _ in range(TRIES):
        try:
            return read(ask(question, default))
        except DpexplainError as error:
            show(f"  {literal(error.message)}")
    raise InputError(f"no answer to “{question}” could be used.", hint="run the demo again")


# The project ----------------------------------------------------------------------------------------------------------


def _write(table: Path, out: Path, declared: Declared, source: Source) -> None:
    """The domain, the model and the project file."""
    try:
        import joblib
        from sklearn.ensemble import HistGradientBoostingClassifier, HistGradientBoostingRegressor
    except ImportError as error:
        raise InputError(f"the demo needs the package {error.name!r}.", hint="pip install dpexplain[demo]") from None
    column = declared.domain[declared.target]
    classes = isinstance(column, Categorical)
    rows = _rows(source, declared)
    inputs, answers = frame_of(declared.domain, declared.features, rows), rows[declared.target]
    about = {"max_iter": 100, "max_leaf_nodes": 8, "categorical_features": "from_dtype", "random_state": 0}
    about["early_stopping"] = False  # its split of the rows fails where a class has one row alone
    estimator = (HistGradientBoostingClassifier if classes else HistGradientBoostingRegressor)(**about)
    label = ""
    if isinstance(column, Categorical):
        names = np.array(column.categories)[answers.astype(np.int64)]
        estimator.fit(inputs, names)
        label = f"label = {json.dumps(column.categories[-1])}"
    else:
        estimator.fit(inputs, answers)
    module = f"demo_model_{digest(str(out.absolute()))[:8]}"  # a process may import several of them
    joblib.dump(estimator, out / f"{module}.joblib")
    (out / f"{module}.py").write_text(MODULE.replace("visits_model", module), encoding="utf-8")
    declared.domain.save(out / "domain.yaml")
    output = [0.0, 1.0] if isinstance(column, Categorical) else [column.low, column.high]
    spelled = {
        "table": str(table.absolute()), "name": table.stem or "table", "relation": declared.relation,
        "budget": declared.epsilon, "output": output, "target": declared.target, "features": declared.features,
        "module": f"{module}:estimator",
    }  # fmt: skip
    said = {key: json.dumps(value, ensure_ascii=False) for key, value in spelled.items()}
    hint = "" if declared.hint is None else f"rows_hint = {declared.hint}\n"
    (out / "dpexplain.toml").write_text(PROJECT.format(**said, label=label, hint=hint), encoding="utf-8")


def _rows(source: Source, declared: Declared) -> Rows:
    """The table as the model will see it, after made-up rows: for training alone, which is not private."""
    domain = declared.domain
    names: Sequence[str] = list(domain)
    batches = [
        Rows(domain, {name: encode(domain[name], raw[name]) for name in names}, size)
        for size, raw in source.batches(list(names), 2**16)
    ]
    return _made_up(declared).before(batches)


def _made_up(declared: Declared) -> Rows:
    """A row of public values for each declared class of the target, or one. So training fails on no table, which would
    tell what its rows are like, and the model knows every class that is declared.
    """
    domain, target = declared.domain, declared.domain[declared.target]
    size = len(target.categories) if isinstance(target, Categorical) else 1
    columns: dict[str, Any] = {
        name: np.zeros(size, dtype=np.int32) if isinstance(column, Categorical) else np.full(size, column.low)
        for name, column in domain.items()
    }
    if isinstance(target, Categorical):
        columns[declared.target] = np.arange(size, dtype=np.int32)
    else:
        columns[declared.target] = np.full(size, target.low / 2 + target.high / 2)
    return Rows(domain, columns, size)
