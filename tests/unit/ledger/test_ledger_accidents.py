"""Accidents that would give the same people a second budget: refused, or warned about with what to do instead."""

from __future__ import annotations

import os
import re
import warnings
from pathlib import Path
from typing import Any

import pandas as pd
import pytest

import dpexplain as dpx
from dpexplain import accidents
from dpexplain.core.budget import pure
from dpexplain.core.sensitivity import Neighbours, Relation
from dpexplain.errors import BudgetError, BudgetWarning, InputError
from dpexplain.ledger import Ledger, LedgerAccount, open_ledger
from dpexplain.ledger.events import AccountOpened, AnalystLimited, Reserved
from ledger_servers import append, make_ask, open_adult

ONE_ROW = Neighbours(Relation.REPLACE_ONE)
FRAME = pd.DataFrame({"age": [1, 2, 3], "city": ["a", "b", "c"]})
DOMAIN = dpx.Domain({"age": dpx.Numeric(0, 100, integer=True)})


@pytest.fixture(autouse=True)
def forgotten(monkeypatch: pytest.MonkeyPatch) -> None:
    """Each test is a process of its own."""
    monkeypatch.setattr(accidents, "_relative", {})
    monkeypatch.setattr(accidents, "_in_memory", {})


def table(ledger: Any, name: str = "people", source: Any = FRAME, **options: Any) -> dpx.PrivateTable:
    settings = {"domain": DOMAIN, "budget": dpx.Budget(1), "relation": "add-remove"}
    return dpx.PrivateTable(source, ledger=ledger, name=name, **settings | options)


class TestInMemory:
    def test_the_same_name_in_two_of_them(self) -> None:
        table("sqlite:///:memory:")
        expected = r'account "{}", or one .*, was opened before in another in-memory ledger .* dpx.open_ledger\("sqlite'
        with pytest.warns(BudgetWarning, match=expected.format("People ")) as caught:
            table("sqlite:///:memory:", name="People ", source=FRAME.assign(more=1))
        assert caught[0].filename == __file__  # it points at the caller
        with pytest.warns(BudgetWarning, match=expected.format("others")):
            table("sqlite:///:memory:", name="others")

    @pytest.mark.skipif(not hasattr(os, "fork"), reason="processes are not forked here")
    def test_a_copy_in_a_forked_process_is_refused(self) -> None:
        """Each child would spend the whole budget from its own copy of the memory."""
        opened = table("sqlite:///:memory:")
        child = os.fork()
        if child == 0:
            try:
                dpx.marginals(opened, epsilon=1)
            except dpx.errors.LedgerError as error:
                os._exit(42 if "belongs to the process that opened it" in error.message else 1)
            os._exit(0)
        assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 42
        dpx.marginals(opened, epsilon=1)

    def test_one_handed_to_both_is_no_accident(self) -> None:
        ledger = open_ledger("sqlite:///:memory:")
        with warnings.catch_warnings():
            warnings.simplefilter("error")
            first = table(ledger)
            assert first.ledger is table(ledger).ledger
            table(ledger, "other people", separate_from=[first.name])


class TestRelativePaths:
    @pytest.mark.parametrize("url", ["sqlite:///budget.db", "budget.db", Path("budget.db")])
    def test_a_new_file_is_named_once(self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, url: Any) -> None:
        monkeypatch.chdir(tmp_path)
        said = re.escape(f"a new ledger was made at {tmp_path / 'budget.db'}. Budgets spent in a ledger elsewhere")
        with pytest.warns(BudgetWarning, match=said) as caught:
            table(url)
        assert caught[0].filename == __file__
        table(url)
        open_ledger(url, create=False)

    def test_an_absolute_path_is_no_accident(self, tmp_path: Path) -> None:
        table(tmp_path / "budget.db")
        table(f"sqlite:///{tmp_path / 'other.db'}")

    def test_the_same_words_for_two_files(self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        one, two = tmp_path / "one", tmp_path / "two"
        one.mkdir()
        two.mkdir()
        monkeypatch.chdir(two)
        with pytest.raises(dpx.errors.LedgerUnavailable):
            open_ledger("budget.db", create=False)  # what does not exist is not remembered
        monkeypatch.chdir(one)
        with pytest.warns(BudgetWarning):
            open_ledger("budget.db")
        monkeypatch.chdir(two)
        with pytest.raises(InputError, match="means .*two/budget.db in this folder") as caught:
            open_ledger("sqlite:///./budget.db")
        assert str(one / "budget.db") in caught.value.message
        assert list(two.iterdir()) == []
        open_ledger(two / "budget.db")
        monkeypatch.chdir(one)
        open_ledger("budget.db")


class TestForms:
    NAMES = (
        "Pati\u00e9nts in Ulm",
        "patie\u0301nts in ulm",
        " Pati\u00e9nts  in Ulm ",
        "PATIÉNTS IN ULM",
        "Pati\u00e9nts in Ulm\u180f",
        "Pati\u00e9nts in\U00016fe4 Ulm",
    )

    def test_a_new_account_that_looks_like_another(self, ledger: Ledger) -> None:
        first, *others = self.NAMES
        table(ledger, first)
        for name in others:
            assert name != first
            with pytest.raises(InputError, match="only in blanks, case or the form") as caught:
                table(ledger, name, separate_from=[first])
            assert f'"{first}"' in caught.value.message
        assert ledger.accounts() == [first]
        table(ledger, "patients of Bonn", separate_from=[first])

    def test_a_ledger_that_has_both_opens_both(self, ledger: Ledger) -> None:
        for name in self.NAMES:
            append(ledger, name, AccountOpened(dpx.Budget(1), ONE_ROW, pure(1)))
        for name in self.NAMES:
            ledger.account(name, budget=dpx.Budget(1), neighbours=ONE_ROW, table_version="1", domain_digest="d")

    def test_an_analyst_does_not_escape_a_limit(self, ledger: Ledger) -> None:
        early = open_adult(ledger, analyst="anna ")  # opened before anybody knew of Anna
        ledger.set_limit("adult", "Anna", pure(0.1))
        for use in (
            lambda: early.reserve(make_ask(0.5)),
            lambda: open_adult(ledger, analyst="ANNA"),
            lambda: ledger.set_limit("adult", "anna", pure(1)),
        ):
            with pytest.raises(InputError, match='the analyst ".*" differs from "Anna" only in'):
                use()
        with pytest.raises(BudgetError, match="for analyst"):
            open_adult(ledger, analyst="Anna").reserve(make_ask(0.5))
        open_adult(ledger, analyst="bob").reserve(make_ask(0.5))
        with pytest.raises(InputError, match='differs from "bob"'):  # who has spent, without a limit
            ledger.set_limit("adult", "Bob", pure(1))
        open_adult(ledger).reserve(make_ask(0.5))

    def test_analysts_that_are_both_known_go_on(self, ledger: Ledger, adult: LedgerAccount) -> None:
        append(ledger, "adult", AnalystLimited("Anna", pure(0.1)))
        append(ledger, "adult", Reserved("r", "q", "earlier", {}, pure(0.1), "anna", "2026-11"))
        for name in ("Anna", "anna"):
            open_adult(ledger, analyst=name).reserve(make_ask(0.1))


class TestSources:
    @pytest.fixture
    def file(self, tmp_path: Path) -> Path:
        FRAME.to_parquet(tmp_path / "people.parquet")
        return tmp_path / "people.parquet"

    @pytest.mark.parametrize("again", [str, Path, lambda path: [path], lambda path: path.parent / "." / path.name])
    def test_a_renamed_account_over_the_same_file(self, ledger: Ledger, file: Path, again: Any) -> None:
        table(ledger, "patients", file)
        with pytest.raises(InputError, match='"patients 2" would be a second budget for the files') as caught:
            table(ledger, "patients 2", again(file))
        assert 'separate_from=["patients"]' in caught.value.hint
        assert ledger.accounts() == ["patients"]
        table(ledger, "patients 2", again(file), separate_from=["patients"])
        table(ledger, "patients 2", again(file))  # said once is enough
        with pytest.raises(InputError, match="of account"):
            table(ledger, "patients 3", file, separate_from=["patients"])

    @pytest.mark.posix
    def test_a_link_is_the_same_file(self, ledger: Ledger, file: Path) -> None:
        table(ledger, "patients", file)
        (file.parent / "link.parquet").symlink_to(file)
        with pytest.raises(InputError, match="second budget"):
            table(ledger, "others", file.parent / "link.parquet")

    def test_one_file_of_many_is_enough(self, ledger: Ledger, file: Path) -> None:
        FRAME.to_parquet(file.parent / "more.parquet")
        table(ledger, "patients", file.parent)
        with pytest.raises(InputError, match="second budget"):
            table(ledger, "some", [file.parent / "more.parquet"])

    def test_an_account_that_exists_over_the_file_of_another(self, ledger: Ledger, file: Path) -> None:
        FRAME.assign(more=1).to_parquet(file.parent / "more.parquet")
        table(ledger, "patients", file)
        table(ledger, "others", file.parent / "more.parquet")
        with pytest.raises(InputError, match='"others" would be a second budget for the files of account "patients"'):
            table(ledger, "others", file, version="2")
        table(ledger, "others", file, version="2", separate_from=["patients"])
        table(ledger, "patients", file, version="2")  # said by one is enough for both
        table(ledger, "others", file, version="3")
        table(ledger, "patients", file, version="3")  # once is enough for all later versions

    def test_accounts_of_an_earlier_version_over_one_file_both_open(self, ledger: Ledger, file: Path) -> None:
        """They declared no sources; what both have stored must stay within reach."""
        for name in ("a", "b"):
            ledger.account(
                name, budget=dpx.Budget(1), neighbours=table("sqlite:///:memory:").neighbours, table_version="1",
                domain_digest=DOMAIN.digest,
            )  # fmt: skip
        assert table(ledger, "a", file).name == "a"
        assert table(ledger, "b", file).name == "b"

    def test_the_same_columns(self, ledger: Ledger, file: Path) -> None:
        table(ledger, "patients", file)
        said = 'the new account "frame" has the same columns as "patients" .* separate_from=\\["patients"\\]'
        with pytest.warns(BudgetWarning, match=said) as caught:
            table(ledger, "frame", FRAME[["city", "age"]].astype({"age": float}))
        assert caught[0].filename == __file__
        with pytest.warns(BudgetWarning, match='same columns as "frame", "patients"'):
            table(ledger, "copy", _reader)
        table(ledger, "others", FRAME, separate_from=["patients", "frame", "copy"])
        table(ledger, "different", FRAME[["age"]])

    def test_it_is_asked_only_when_an_account_is_opened(self, ledger: Ledger, file: Path) -> None:
        table(ledger, "a", file)
        table(ledger, "b", FRAME, separate_from=["a"])
        table(ledger, "b", file)
        table(ledger, "b", FRAME, version="2")
        before = ledger.anchor()
        for name in "ab":
            table(ledger, name, file)
        table(ledger, "b", FRAME, version="2", separate_from=["somebody else"])
        assert ledger.anchor() == before  # what is declared is not declared again
        ledger.verify()

    def test_a_warning_that_is_an_error_opens_nothing(self, ledger: Ledger) -> None:
        table(ledger, "a")
        with pytest.raises(BudgetWarning):
            table(ledger, "b")
        assert ledger.accounts() == ["a"]

    def test_accounts_that_declared_nothing_are_left_alone(self, ledger: Ledger, adult: LedgerAccount) -> None:
        table(ledger, "people")
        assert ledger.accounts() == ["adult", "people"]

    def test_paths_are_kept_as_digests_only(self, ledger: Ledger, file: Path) -> None:
        table(ledger, "patients", file)
        with ledger.database.read() as connection:
            body = connection.exec_driver_sql("SELECT body FROM events WHERE kind = 'source-declared'").scalar_one()
        assert "people" not in body
        assert "age" not in body

    def test_only_looking_declares_nothing(self, tmp_path: Path) -> None:
        url = f"sqlite:///{tmp_path / 'budget.db'}"
        table(url)
        before = open_ledger(url).anchor()
        table(f"{url}?mode=ro", source=FRAME[["age"]])
        assert open_ledger(url).anchor() == before

    @pytest.mark.parametrize("wrong", ["people", [7]])
    def test_separate_from_is_a_list_of_names(self, ledger: Ledger, wrong: Any) -> None:
        with pytest.raises(InputError, match="separate_from must be a list of names"):
            table(ledger, separate_from=wrong)


def _reader() -> Any:
    import pyarrow as pa

    return pa.Table.from_pandas(FRAME).to_reader()
