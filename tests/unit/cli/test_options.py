"""Bundles of options: a command says `Price`, a person types --epsilon."""

from __future__ import annotations

from inspect import Parameter, signature
from typing import Annotated

import pytest

from dpexplain.cli import app
from dpexplain.cli.options import Call, Price, number, once, option, spread
from dpexplain.core.budget import Budget, pure
from dpexplain.errors import InputError

Depth = Annotated[int, option("--depth", "N", "How deep.")]


def test_a_bundle_stands_for_its_options_in_its_place():
    seen = []

    def dig(*, depth: Depth = 1, price: Price, name: Annotated[str, option("--name", "X", "Who.")] = "", call: Call):
        """Dig."""
        seen.append((depth, price, name, call))

    spread_out = spread(dig)
    options = signature(spread_out).parameters
    assert list(options) == ["depth", "epsilon", "rho", "name", "analyst", "out", "project", "json"]
    assert options["depth"].annotation == Depth
    assert options["epsilon"].default is None
    assert all(one.kind is Parameter.KEYWORD_ONLY for one in options.values())
    assert (spread_out.__name__, spread_out.__doc__) == ("dig", "Dig.")
    usual = {name: one.default for name, one in options.items()}
    spread_out(**{**usual, "epsilon": "1", "analyst": "ada"})
    assert seen == [(1, Price("1", None), "", Call(analyst="ada"))]


def test_every_command_has_a_line_of_help_and_is_registered():
    commands = app.commands()
    assert [command.name for command in app.application().registered_commands] == list(commands)
    assert all(line.endswith(".") for _, line in commands.values())


def test_a_price_is_one_of_two():
    assert Price("0.5").cost(Budget(1)) == pure(0.5)
    assert Price("0.5").given
    assert not Price().given
    for wrong in (Price(), Price("1", "1")):
        with pytest.raises(InputError, match="exactly one of --epsilon and --rho"):
            wrong.cost(Budget(1, 1e-6))
    with pytest.raises(InputError, match="--epsilon must be a number; got 'much'"):
        Price("much").cost(Budget(1))


def test_words_that_are_typed():
    assert once(["b", "a", "b"]) == ["b", "a"]
    assert once(None) == []
    assert number(None, "n") is None
    assert number("2.5", "n") == 2.5
