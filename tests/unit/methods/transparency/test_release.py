"""Transparency reports: one price for any number of persons, and refusals before it is paid."""

from __future__ import annotations

from fractions import Fraction

import numpy as np
import pandas as pd
import pytest

import dpexplain as dpx
from dpexplain.core.budget import pure, zcdp
from dpexplain.methods.setting import Setting
from dpexplain.methods.transparency import release as transparency
from dpexplain.methods.transparency.release import TransparencyRequest, transparency_report
from dpexplain.methods.transparency.result import TransparencyReport, TransparencyReports
from stubs import ADD_REMOVE, REPLACE_ONE

ROW = {"age": 25, "sex": "Male", "income": 50.0}
FAST = {"aggregate": "unary"}


def spent(table):
    return table.ledger.statement(table.name).spent.amount


def test_several_persons_have_one_price_and_later_ones_none(make_table, frame, model):
    table = make_table(frame)
    people = frame.drop(columns="person").head(7)
    reports = transparency_report(table, model, people, epsilon=1, **FAST)
    assert isinstance(reports, TransparencyReports)
    assert len(reports) == 7
    assert spent(table) == 1
    assert not reports.receipt.replayed
    later = transparency_report(table, model, ROW, epsilon=1, **FAST)
    assert isinstance(later, TransparencyReport)
    assert later.receipt.replayed
    assert later.released == reports[0].released
    assert spent(table) == 1
    other = transparency_report(table, model, ROW, epsilon=1)  # what is done with the numbers is no new request
    assert other.receipt.replayed
    named = transparency_report(table, model, ROW, epsilon=1, features=["age", "sex", "income"], **FAST)
    assert named.receipt.replayed
    dpx.verify(named, table.ledger)
    assert set(later.released["parts"]) == transparency.diagram().noised == {"counts", "outcomes"}
    assert transparency.diagram().noised in transparency.diagram().privacy_enabling_sets()
    dpx.verify(later, table.ledger)


def test_pages_of_other_persons_are_not_written_over(make_table, frame, model, tmp_path):
    table, people = make_table(frame), frame.drop(columns="person")
    first, second = (transparency_report(table, model, people[i : i + 2], epsilon=1, **FAST) for i in (0, 2))
    paths = first.to_html(tmp_path / "pages")
    assert [path.name for path in paths] == ["transparency-person-1.html", "transparency-person-2.html"]
    before = [path.read_text() for path in paths]
    others = second.to_html(tmp_path / "pages")
    assert [path.name for path in others] == ["transparency-person-1-2.html", "transparency-person-2-2.html"]
    assert [path.read_text() for path in paths] == before
    assert first.to_html(tmp_path / "pages") == paths  # the same reports again: the same files
    assert len(list((tmp_path / "pages").iterdir())) == 4


def test_a_frame_of_one_line_is_one_person(make_table, frame, model):
    found = transparency_report(make_table(frame), model, pd.DataFrame([ROW]), epsilon=1, **FAST)
    assert isinstance(found, TransparencyReport)
    assert found.record == ROW


def test_persons_together_get_what_they_get_alone(make_table, frame, model):
    table = make_table(frame)
    people = frame.drop(columns="person").head(3)
    together = transparency_report(table, model, people, epsilon=1, samples=50)
    for i, report in enumerate(together):
        alone = transparency_report(table, model, people.iloc[i], epsilon=1, samples=50)
        np.testing.assert_allclose(alone.values, report.values)
        np.testing.assert_allclose(alone.interval(), report.interval())


def test_marginals_of_before_leave_the_whole_price_to_the_outcomes(make_table, frame, model):
    table = make_table(frame)
    known = dpx.marginals(table, epsilon=1)
    report = transparency_report(table, model, ROW, epsilon=1, marginals=known, **FAST)
    assert set(report.released["parts"]) == {"outcomes"}
    assert report.marginals is known
    whole = report.part("outcomes")[1].scale
    both = transparency_report(table, model, ROW, epsilon=1, **FAST)
    assert whole < both.part("outcomes")[1].scale
    assert len(report.associations) == 3
    free = transparency_report(table, model, ROW, marginals=known, **FAST)
    assert spent(table) == 3
    assert free.associations == []
    assert free.receipt == known.receipt
    np.testing.assert_allclose(free.values, report.values)
    again = transparency_report(table, model, ROW, marginals=both.marginals, **FAST)
    np.testing.assert_allclose(again.values, both.values)


@pytest.mark.parametrize(
    ("options", "words"),
    [
        ({"threshold": 0.5}, "no threshold"),
        ({"outcome": "class", "threshold": 7}, "inside the output range"),
        ({"row": {**ROW, "age": 99}}, "outside the declared range"),
    ],
    ids=str,
)
def test_wrong_requests_are_refused_before_anything_is_paid(make_table, frame, model, options, words):
    table = make_table(frame)
    asked = {"row": ROW, "epsilon": 1, **options}
    with pytest.raises(dpx.InputError, match=words):
        transparency_report(table, model, asked.pop("row"), **asked)
    assert spent(table) == 0


def test_a_report_of_nothing_is_refused(make_table, frame, model):
    with pytest.raises(dpx.InputError, match="needs epsilon or rho"):
        transparency.explain(make_table(frame), model, TransparencyRequest(row=ROW), cost=None)


@pytest.mark.parametrize("neighbours", [REPLACE_ONE, ADD_REMOVE], ids=lambda n: n.relation.value)
@pytest.mark.parametrize("cost", [pure(1), zcdp(0.1)], ids=str)
def test_the_price_is_split_where_positives_are_forecast_best(domain, model, neighbours, cost):
    spec = transparency.resolve(TransparencyRequest(), Setting(domain, model.output, neighbours, 10_000, 10_000), cost)
    assert spec.share in transparency.SHARES

    def variance(share):
        noise = transparency.forecast(transparency.Spec(*(spec.partitions, spec.outcome, share, None, None)),
                                      neighbours, cost)  # fmt: skip
        return (noise["outcomes"].std / spec.outcome.range.levels) ** 2 + noise["counts"].std ** 2 / 4

    tenth = Fraction(1, 10)
    assert variance(spec.share) <= min(variance(spec.share - tenth), variance(spec.share + tenth))


def test_the_outlook_is_about_what_a_report_will_say(make_table, frame, model, domain):
    found = dpx.plan(TransparencyRequest(), domain=domain, n=400, relation="replace-one", epsilon=5)
    option = next(o for o in found.options if o.delta is None)
    report = transparency_report(make_table(frame), model, ROW, epsilon=5, **FAST)
    K, noise = 2**20, {name: report.part(name)[1] for name in ("outcomes", "counts")}
    expected = np.hypot(noise["outcomes"].std / K, noise["counts"].std / 2) / 40  # a tenth of the rows
    assert option.std == pytest.approx(expected, rel=0.01)
    assert option.error > 1.9 * option.std
    assert option.rug_error == pytest.approx(report.part("counts")[1].halfwidth(0.95), rel=0.01)


def test_every_relation_and_account(make_table, frame, model):
    for relation in ("replace-one", "add-remove"):
        for unit in (None, dpx.Unit("person", 3)):
            for budget in (dpx.Budget(10), dpx.Budget(10, 1e-6)):
                table = make_table(frame, relation=relation, unit=unit, budget=budget)
                report = transparency_report(table, model, ROW, epsilon=2, **FAST)
                assert np.isfinite(report.values).all()
                assert len(report.associations) == 3


def test_an_empty_table_is_a_table_like_any_other(make_table, frame, model):
    report = transparency_report(make_table(frame.head(0), relation="add-remove"), model, ROW, epsilon=1, **FAST)
    assert np.isfinite(report.values).all()
    assert "What counted" in report.text()


def test_nothing_is_known_about_rates_among_nobody(make_table, frame, model):
    """Without noise, which makes some people of nobody about once in ten thousand runs."""
    table = make_table(frame.head(0), relation="add-remove", exact=True)
    report = transparency_report(table, model, ROW, epsilon=1, **FAST)
    assert len(report.associations) == 3
    for association in report.associations:
        assert association.with_it.high - association.with_it.low > 0.5
    assert report.only_associated == report.unlike_others == []
