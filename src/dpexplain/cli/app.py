"""The command line, put together: the commands with their one-line help, and what becomes of errors.

Commands of registered methods follow from their requests (`methods.py`); every other one stands with its options and
its help in the file of its group.
"""

from __future__ import annotations

import sys
import warnings
from collections.abc import Callable, Sequence
from functools import cache, partial
from inspect import signature
from typing import Annotated, Any

import typer

from dpexplain.cli import audit, batch, books, mcp, methods, page, plan, serve, start
from dpexplain.cli.hints import spoken
from dpexplain.cli.options import option
from dpexplain.cli.report import show_error
from dpexplain.errors import BudgetWarning, DpexplainError, InputError, InternalError
from dpexplain.methods import registry
from dpexplain.methods.registry import Method

UsageError: Any = typer.BadParameter.__mro__[1]  # typer names its exceptions' parents in another place in every version
RESERVED = "If a release had begun, its cost was reserved first and stays spent: `dpexplain budget` shows it."

HELP = """Explain machine-learning models with differential privacy.

You see the privacy cost and the expected error before you run anything. A ledger keeps the total and cannot be
overdrawn.

Start with `dpexplain demo`. For your own table: `init` drafts what has to be declared, and `plan` forecasts the error
before anything is spent. `report` writes one page that answers most questions. Then there is one command for each kind
of explanation, and `batch` for several at once. `budget` shows what is left, `renew` opens an account for new people,
`verify` checks a published result, `audit` attacks your own releases.

Exit codes: 0 done, 2 bad input, 3 budget, 4 verification failed or a claim refuted, 70 internal error.
"""

Commands = dict[Callable[..., None], str]

FIRST: Commands = {
    start.demo: "Explain a model on a public table, and write a page.",
    start.init: "Draft what has to be declared about a table.",
    plan.plan: "Forecast the error for an epsilon, or the epsilon for an error. Costs no budget.",
    batch.batch: "Release several explanations for one epsilon, divided by forecast.",
    page.report: "Write one page for people about a model and a table.",
}
LAST: Commands = {
    serve.serve: "Serve explanations over HTTP to people who may not see the data.",
    mcp.mcp: "Give an AI assistant the analyst's verbs, against such a service.",
    books.budget: "Show what was spent and left; verify the ledger.",
    books.renew: "Close an account, and open one for new people by the project's policy.",
    books.verify: "Check a published explanation against the ledger.",
    audit.audit: "Attack your own releases. For the data holder: not private.",
}


def commands() -> dict[str, tuple[Callable[..., None], str]]:
    """All commands by name, with their one-line help: those of methods in the middle, in the order of the alphabet."""
    first, last = ({command.__name__: (command, line) for command, line in group.items()} for group in (FIRST, LAST))
    of_methods = registry.commands().items()
    return first | {name: (methods.command_of(one), methods.summary_of(one)) for name, one in of_methods} | last


def application() -> typer.Typer:
    """The command line of all methods that are registered now."""
    return _application(tuple(registry.methods().values()))


@cache
def _application(_of: tuple[Method, ...]) -> typer.Typer:
    app = typer.Typer(name="dpexplain", add_completion=False, pretty_exceptions_enable=False, rich_markup_mode=None)
    app.callback(invoke_without_command=True, help=HELP)(dpexplain)
    for name, (command, line) in commands().items():
        settings = {"ignore_unknown_options": "rest" in signature(command).parameters}
        app.command(name=name, short_help=line, context_settings=settings)(command)
    return app


def dpexplain(version: Annotated[bool, option("--version", None, "Print the version.")] = False) -> None:
    if version:
        from dpexplain.receipts import package_version

        print(f"dpexplain {package_version()}")
        raise typer.Exit(0)


def option_names() -> dict[str, set[str]]:
    """The options of each command, as Python spells them."""
    return _option_names(application())


@cache
def _option_names(app: typer.Typer) -> dict[str, set[str]]:
    commands = typer.main.get_group(app).commands.items()
    return {name: {o[2:].replace("-", "_") for p in command.params for o in p.opts} for name, command in commands}


def in_words(text: str, command: str = "") -> str:
    """What an error says, in the language of this command."""
    names = option_names()
    known = set().union(*names.values()) - {"anchor"}  # the option of `budget` is not the argument of local models
    return spoken(text, known, names.get(command, set()))


def run(arguments: Sequence[str]) -> int:
    """Run one command and return its exit code. No error leaves as a traceback, which could show rows."""
    arguments = list(arguments) or ["--help"]
    as_json = "--json" in arguments
    with warnings.catch_warnings():
        warnings.showwarning = partial(_warn, warnings.showwarning)
        return _run(arguments, as_json)


def _warn(others: Callable[..., None], message: Warning | str, category: type[Warning], *where: Any) -> None:
    """Our own warning in one line, without a place in our code."""
    if issubclass(category, BudgetWarning):
        print(f"Warning: {in_words(str(message))}", file=sys.stderr)
    else:
        others(message, category, *where)


def _run(arguments: list[str], as_json: bool) -> int:
    try:
        code = application()(args=arguments, prog_name="dpexplain", standalone_mode=False)
        if code == 130:
            print(f"Interrupted. {RESERVED}", file=sys.stderr)
        return code if isinstance(code, int) else 0
    except DpexplainError as error:
        error.message, error.hint = (in_words(text, arguments[0]) for text in (error.message, error.hint))
        return show_error(error, as_json=as_json)
    except UsageError as error:
        name = getattr(getattr(error, "ctx", None), "info_name", None)
        command = f" {name}" if name and name != "dpexplain" else ""
        wrong = InputError(error.format_message(), hint=f"`dpexplain{command} --help` lists what there is")
        return show_error(wrong, as_json=as_json)
    except (KeyboardInterrupt, typer.Abort):
        print(f"Interrupted. {RESERVED}", file=sys.stderr)
        return 130
    except Exception as error:
        # its message and its traceback may quote a row
        unexpected = InternalError(f"internal error ({type(error).__name__}).")
        unexpected.spent = RESERVED
        return show_error(unexpected, as_json=as_json)
