"""Costs in the words of the plain view: epsilon at the account's delta, as a chance. Experts read them as they are."""

from __future__ import annotations

import re
from fractions import Fraction
from typing import Any

from dpexplain.core.budget import Budget, Cost, digits
from dpexplain.core.canonical import JsonObject
from dpexplain.render.text import receipt_facts

NUMBER = r"\d[\d.]*(?:e[+-]?\d+)?"
PRICE = re.compile(rf"(?:rho = {NUMBER} \(zCDP\), i\.e\. )?epsilon = ({NUMBER}) at delta = ({NUMBER})")
ALONE = rf"costs rho={NUMBER} \(epsilon=({NUMBER}) on its own\)"
TOO_DEAR = re.compile(rf"{ALONE} but only {NUMBER} of ({NUMBER}) is left")
MOST = re.compile(rf"epsilon=({NUMBER}) \(rho={NUMBER}\)")


def plain_price(text: str, expert: bool) -> str:
    """The costs in a text: `epsilon 0.5 at a delta of one in 1,000,000`."""
    return text if expert else PRICE.sub(lambda found: f"epsilon {found[1]} at a delta of {chance(found[2])}", text)


def chance(delta: str) -> str:
    """A delta in words, never less than it is."""
    return f"one in {int(1 / Fraction(delta)):,}"


def plain_facts(receipt: Any, expert: bool) -> list[tuple[str, str]]:
    """What a receipt says, for a table of facts."""
    return [(name, plain_price(words, expert)) for name, words in receipt_facts(receipt)]


def plain_error(error: JsonObject, expert: bool, budget: Budget) -> JsonObject:
    """A refusal whose amounts are epsilons. What is left is what its hint says, which is rounded down."""
    if expert or budget.delta is None:
        return error
    hint = str(error["hint"])
    most = MOST.search(hint)

    def said(found: re.Match[str]) -> str:
        whole = digits(Fraction(budget.epsilon_of(Cost(budget.definition, Fraction(found[2])))))
        return f"costs epsilon {found[1]} but only epsilon {most[1] if most else 0} of {whole} is left"

    return {**error, "message": TOO_DEAR.sub(said, str(error["message"])), "hint": MOST.sub(r"epsilon \1", hint)}
