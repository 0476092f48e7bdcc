"""What models said about public rows, kept once: free, sealed like every event, agreed on by all who ask."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor

import pytest

from dpexplain.errors import LedgerCorrupt
from dpexplain.ledger import Ledger, LedgerAccount, open_ledger
from dpexplain.ledger.chain import Chain
from dpexplain.ledger.events import ModelDeclared, from_body
from ledger_servers import open_adult


def test_the_first_answers_are_kept(ledger: Ledger, adult: LedgerAccount) -> None:
    before = ledger.verify().events
    assert adult.declare("a", [0.5, 1.0]) == [0.5, 1.0]
    assert adult.declare("a", [0.5, 2.0]) == [0.5, 1.0]
    assert adult.declare("b", [0.5, 2.0]) == [0.5, 2.0]
    assert ledger.verify().events == before + 2
    spent = ledger.statement("adult").spent
    assert spent is not None
    assert spent.amount == 0


def test_answers_that_only_look_like_the_identity_are_not_taken_for_it(ledger: Ledger, adult: LedgerAccount) -> None:
    adult.declare('x"identity":"y', [1.0])
    assert adult.declare("y", [2.0]) == [2.0]
    assert adult.declare("%", [3.0]) == [3.0]


def test_many_at_once_agree(url: str) -> None:
    open_adult(open_ledger(url))

    def declare(number: int) -> list[float]:
        return open_adult(open_ledger(url)).declare("a", [float(number)])

    with ThreadPoolExecutor(8) as pool:
        kept = list(pool.map(declare, range(8)))
    assert len({tuple(answers) for answers in kept}) == 1
    assert open_ledger(url).verify().events == 3


def test_a_second_declaration_is_a_contradiction(ledger: Ledger, adult: LedgerAccount) -> None:
    adult.declare("a", [1.0])
    with ledger.database.write() as connection:
        Chain(connection).append("adult", ModelDeclared("a", [1.0]))
    with pytest.raises(LedgerCorrupt, match="declares a model a second time"):
        ledger.verify()


@pytest.mark.parametrize("answers", ["7", "null", '["a"]', "[null]", '"text"', "{}"])
def test_answers_that_cannot_be_read(answers: str) -> None:
    with pytest.raises(LedgerCorrupt, match='an event "model-declared" cannot be read'):
        from_body("model-declared", 1, f'{{"answers":{answers},"identity":"a"}}')
