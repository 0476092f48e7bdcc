"""Renewal as people meet it: tables and results in Python, and the command line with the policy of a project."""

from __future__ import annotations

import json
import warnings
from dataclasses import replace
from datetime import date

import pytest

import dpexplain as dpx
from commands import answer, edit, refusal
from dpexplain.cli.app import run
from dpexplain.project import renewal
from examples import DOMAIN

SIGNED = {"people": "admissions of 2027", "signed_by": "Ada", "reason": "a new year"}
COUNTED = "a person in N of these 2 accounts is counted N times, once in each"


@pytest.fixture
def ledger():
    return dpx.open_ledger("sqlite:///:memory:")


def open_table(source, ledger, name, **options):
    settings = {"domain": DOMAIN, "budget": dpx.Budget(10, 1e-6), "relation": "replace-one", "ledger": ledger}
    return dpx.PrivateTable(source, name=name, **settings | options)


class TestResults:
    @pytest.mark.parametrize("overlapping", [False, True])
    def test_say_what_a_person_pays_who_is_in_several_accounts(self, frame, ledger, model, overlapping):
        before = dpx.partial_dependence(open_table(frame, ledger, "2026"), model, "age", epsilon=1)
        ledger.renew("2026", "2027", overlapping=overlapping, **SIGNED)
        after = dpx.partial_dependence(open_table(frame, ledger, "2027"), model, "age", epsilon=1)
        how = 'may also be in "2026": ' if overlapping else 'are declared to be in none of "2026"; otherwise, '
        said = f" The people of this account (admissions of 2027) {how}{COUNTED}."
        assert after.receipt.guarantee.endswith(said)
        assert "people of this account" not in before.receipt.guarantee
        assert ("N times" in after.receipt.short_guarantee) is overlapping
        assert said.strip() in " ".join(str(after).split())
        for result in (before, after):
            dpx.verify(dpx.from_json(result.to_json()), ledger)

    def test_are_paid_for_again(self, frame, ledger, model):
        """The same request about the same rows, but from another account: for other people, as was said."""
        before = dpx.marginals(open_table(frame, ledger, "2026"), epsilon=1)
        ledger.renew("2026", "2027", overlapping=False, **SIGNED)
        table = open_table(frame, ledger, "2027")
        assert not dpx.marginals(table, epsilon=1).receipt.replayed
        assert dpx.marginals(table, epsilon=1).receipt.replayed
        again = dpx.marginals(open_table(frame, ledger, "2026"), epsilon=1)
        assert again.receipt.replayed
        assert again.released == before.released
        with pytest.raises(dpx.BudgetError, match='account "2026" is closed, signed by Ada: a new year'):
            dpx.marginals(open_table(frame, ledger, "2026"), epsilon=0.5)

    def test_of_the_old_account_are_no_earlier_releases_of_the_new_table(self, frame, ledger, model):
        old = dpx.marginals(open_table(frame, ledger, "2026"), epsilon=1)
        ledger.renew("2026", "2027", overlapping=True, **SIGNED)
        table = open_table(frame, ledger, "2027")
        spent = ledger.statement("2027").spent
        for ask in (
            lambda: dpx.partial_dependence(table, model, "age", epsilon=1, rug=old),
            lambda: dpx.permutation_importance(table, model, "income", epsilon=1, marginals=old),
            lambda: dpx.influence(table, model, epsilon=1, marginals=old),
        ):
            with pytest.raises(dpx.InputError, match="released from another table"):
                ask()
        assert ledger.statement("2027").spent == spent

    def test_with_an_altered_line_are_refused(self, frame, ledger):
        open_table(frame, ledger, "2026")
        ledger.renew("2026", "2027", overlapping=True, **SIGNED)
        result = dpx.marginals(open_table(frame, ledger, "2027"), epsilon=1)
        document = json.loads(result.to_json())
        del document["receipt"]["request"]["table"]["line"]
        with pytest.raises(dpx.errors.VerificationError, match="guarantee written in this file"):
            dpx.from_json(json.dumps(document))
        request = json.loads(json.dumps(result.receipt.request))
        request["table"]["line"]["overlapping"] = False
        altered = replace(result, receipt=replace(result.receipt, request=request))
        with pytest.raises(dpx.errors.VerificationError, match="another request"):
            dpx.verify(altered, ledger)

    def test_whose_request_left_the_line_out_are_refused(self, frame, ledger):
        """As a program would write that reads the guarantee of the account wrongly: the ledger knows better."""
        open_table(frame, ledger, "2026")
        ledger.renew("2026", "2027", overlapping=True, **SIGNED)
        table = open_table(frame, ledger, "2027")
        table.line = {}
        with pytest.raises(dpx.errors.VerificationError, match="is not that of the account") as caught:
            dpx.verify(dpx.marginals(table, epsilon=1), ledger)
        assert "line of accounts" in caught.value.hint


class TestTheSameFiles:
    @pytest.fixture
    def path(self, frame, tmp_path):
        frame.to_parquet(tmp_path / "people.parquet")
        return tmp_path / "people.parquet"

    def test_are_the_same_people(self, path, ledger):
        open_table(path, ledger, "2026")
        ledger.renew("2026", "2027", overlapping=False, **SIGNED)
        before = ledger.anchor()
        with pytest.raises(dpx.InputError, match='opened for other people, but these are the files of account "2026"'):
            open_table(path, ledger, "2027")
        assert ledger.anchor() == before
        with warnings.catch_warnings():
            warnings.simplefilter("error")
            open_table(path, ledger, "2027", separate_from=["2026"])

    def test_may_be_used_where_people_overlap(self, path, ledger):
        open_table(path, ledger, "2026")
        ledger.renew("2026", "2027", overlapping=True, **SIGNED)
        open_table(path, ledger, "2027")
        with pytest.raises(dpx.InputError, match='a second budget for the files of account "202[67]"'):
            open_table(path, ledger, "2028")

    def test_other_files_with_the_same_columns_are_no_accident_in_a_line(self, frame, path, ledger):
        open_table(path, ledger, "2026")
        ledger.renew("2026", "2027", overlapping=False, **SIGNED)
        with warnings.catch_warnings():
            warnings.simplefilter("error")
            open_table(frame, ledger, "2027")
        with pytest.warns(dpx.errors.BudgetWarning, match='same columns as "2026", "2027"'):
            open_table(frame, ledger, "others")


RENEW = ("renew", "people-2", "--people", "people of next year", "--signed-by", "Ada", "--reason", "a new year")


class TestCommandLine:
    @pytest.fixture
    def policy(self, project, capsys, monkeypatch):
        """Write the policy, release something, and wait until the given day."""

        def set_policy(written, *, opened="2026-02-28", day="2027-02-28"):
            edit(project / "dpexplain.toml", "epsilon = 2.0", f"epsilon = 2.0\nrenewal = {written}")
            released = answer(capsys, "pdp", "--feature", "age", "--epsilon", "0.5")
            monkeypatch.setattr(renewal, "today", lambda: date.fromisoformat(day))
            monkeypatch.setattr("dpexplain.ledger.Ledger.statement", _opened_on(opened))
            return released

        whole = dpx.open_ledger("sqlite:///:memory:").__class__.statement

        def _opened_on(opened):
            def statement(ledger, account):
                found = whole(ledger, account)
                return replace(found, dates=(opened, *found.dates[1:]))

            return statement

        return set_policy

    @pytest.mark.parametrize(
        ("every", "opened", "day"),
        [
            ("year", "2026-02-28", "2027-02-28"),
            ("year", "2024-02-29", "2025-02-28"),
            ("quarter", "2026-11-30", "2027-02-28"),
            ("month", "2026-12-31", "2027-01-31"),
        ],
    )
    def test_when_it_is_due(self, every, opened, day, monkeypatch):
        policy = renewal.Renewal(every, "new-only")
        monkeypatch.setattr(renewal, "today", lambda: date.fromisoformat(day))
        policy.check("people", opened)
        monkeypatch.setattr(renewal, "today", lambda: date.fromordinal(date.fromisoformat(day).toordinal() - 1))
        with pytest.raises(dpx.BudgetError, match=f"is renewed every {every}: not before {day}"):
            policy.check("people", opened)

    def test_the_whole_way(self, project, policy, capsys, monkeypatch):
        policy('{every = "year", people = "overlapping"}')
        old = next((project / "explanations").glob("*.json"))
        renewed = answer(capsys, *RENEW)
        assert (renewed["closed"], renewed["opened"]) == ("people", "people-2")
        monkeypatch.undo()
        monkeypatch.chdir(project)
        error = refusal(capsys, 3, "pdp", "--feature", "sex", "--epsilon", "0.5")
        assert error["message"] == 'account "people" is closed, signed by Ada: a new year.'
        assert "people-2" in error["hint"]
        assert "Already released" in text(capsys, "pdp", "--feature", "age", "--epsilon", "0.5")
        checked = answer(capsys, "verify", str(old))
        assert checked["account"]["closed"] == {"signed_by": "Ada", "reason": "a new year", "successor": "people-2"}
        assert 'Paid by account "people": closed on ' in text(capsys, "verify", str(old))

        edit(project / "dpexplain.toml", 'name = "people"\nversion = "1"', 'name = "people-2"\nversion = "2"')
        after = answer(capsys, "pdp", "--feature", "age", "--epsilon", "1", "--out", "next")
        assert f'may also be in "people": {COUNTED}' in after["guarantee"]
        new = next((project / "next").glob("*.json"))
        assert answer(capsys, "verify", str(new))["account"]["line"]["after"] == ["people"]
        assert 'Paid by account "people-2": it is open.' in text(capsys, "verify", str(new))

        (line,) = answer(capsys, "budget")["lines"]
        assert [one["account"] for one in line["accounts"]] == ["people", "people-2"]
        assert (line["total"]["amount"], line["spent"]["amount"]) == ("4/1", "3/2")
        assert (line["total_epsilon"], line["spent_epsilon"]) == (4, 1.5)
        shown = text(capsys, "budget")
        assert "a person who is in all" in shown
        assert 'people of next year; may also be in "people"' in shown
        statement = answer(capsys, "budget", "--account", "people")["accounts"][0]
        assert statement["left"]["amount"] == "0/1"
        assert statement["closed"]["successor"] == "people-2"
        assert "signed by Ada (a new year); its successor is" in text(capsys, "budget", "--account", "people")

    def test_too_early(self, policy, capsys):
        policy('{every = "year", people = "new-only"}', day="2027-02-27")
        error = refusal(capsys, 3, *RENEW)
        assert error["message"].endswith("is renewed every year: not before 2027-02-28.")

    def test_never(self, policy, capsys):
        policy('{every = "never", people = "new-only"}')
        assert "is never renewed" in refusal(capsys, 3, *RENEW)["message"]

    def test_the_same_people(self, policy, capsys):
        policy('{every = "year", people = "new-only"}')
        same = [*RENEW[:3], "People", *RENEW[4:]]
        assert "the same people get no fresh one" in refusal(capsys, 2, *same)["message"]
        assert answer(capsys, "budget")["lines"] == []

    def test_no_policy_no_renewal(self, project, capsys):
        error = refusal(capsys, 2, *RENEW)
        assert error["message"] == "dpexplain.toml: [budget] has no renewal."
        assert error["hint"].startswith('write renewal = {every = "year", people = "new-only"}')

    @pytest.mark.parametrize(
        "written",
        [
            "{}",
            '{every = "year"}',
            '{every = "yearly", people = "new-only"}',
            '{every = "year", people = ["new-only"]}',
            '{every = 1, people = "new-only"}',
            '{every = "year", people = "new-only", budget = 2}',
            '"year"',
        ],
    )
    def test_a_policy_is_read_strictly(self, project, capsys, written):
        edit(project / "dpexplain.toml", "epsilon = 2.0", f"epsilon = 2.0\nrenewal = {written}")
        assert 'every = "year", people = "new-only"' in refusal(capsys, 2, *RENEW)["hint"]

    @pytest.mark.parametrize("left_out", [2, 4, 6])
    def test_who_why_and_for_whom_must_be_said(self, project, capsys, left_out):
        assert RENEW[left_out] in refusal(capsys, 2, *RENEW[:left_out], *RENEW[left_out + 2 :])["message"]


def text(capsys, *arguments):
    """What a command prints for people, in one line."""
    assert run(list(arguments)) == 0
    return " ".join(capsys.readouterr().out.split())
