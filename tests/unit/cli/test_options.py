"""Options that commands share, and what is typed."""

from __future__ import annotations

from typing import Annotated

import pytest
import typer

from dpexplain.cli import app
from dpexplain.cli.options import Call, keyword, number, once, option, with_options
from dpexplain.core.budget import Budget, pure
from dpexplain.errors import InputError


def test_a_command_of_options():
    seen = []

    def dig(**given):
        seen.append(given)

    depth = keyword("depth", Annotated[int, option("--depth", "N", "How deep.")], 1)
    app = typer.Typer()
    app.command()(with_options(dig, [depth, *Call.parameters()]))
    typer.main.get_command(app)(args=["--depth", "3", "--analyst", "ada"], standalone_mode=False)
    assert seen[0].pop("depth") == 3
    assert Call(**seen[0]) == Call(analyst="ada")


def test_every_command_has_a_line_of_help_and_is_registered():
    commands = app.commands()
    assert [command.name for command in app.application().registered_commands] == list(commands)
    assert all(line.endswith(".") for _, line in commands.values())


def test_a_price_is_one_of_two():
    assert Call("0.5").cost(Budget(1)) == pure(0.5)
    assert Call("0.5").paid
    assert not Call().paid
    for wrong in (Call(), Call("1", "1")):
        with pytest.raises(InputError, match="exactly one of --epsilon and --rho"):
            wrong.cost(Budget(1, 1e-6))
    with pytest.raises(InputError, match="--epsilon must be a number; got 'much'"):
        Call("much").cost(Budget(1))


def test_words_that_are_typed():
    assert once(["b", "a", "b"]) == ["b", "a"]
    assert once(None) == []
    assert number(None, "n") is None
    assert number("2.5", "n") == 2.5
