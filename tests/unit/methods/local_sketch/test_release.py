"""The local sketch as a product: what is refused before it is paid for, answers without a ledger, files, forecasts."""

from __future__ import annotations

import json
from functools import partial

import numpy as np
import pandas as pd
import pytest

import dpexplain as dpx
from dpexplain.core.budget import pure, zcdp
from dpexplain.core.domain import PublicRange
from dpexplain.core.sensitivity import Neighbours, Relation
from dpexplain.maths.surrogate.sketch import Histogram, spread_points
from dpexplain.methods.local_sketch import release as module
from dpexplain.methods.local_sketch.request import LocalSketchRequest
from dpexplain.methods.local_sketch.result import LocalSketch
from dpexplain.methods.marginals.release import marginals
from dpexplain.methods.result import from_json
from dpexplain.methods.setting import Setting
from examples import DOMAIN

local_sketch = partial(module.local_sketch, method="moments")
ZCDP = dpx.Budget(1000, 1e-6)
RECORD = {"age": 23, "sex": "Male", "income": 40.0}
OTHER = dpx.Domain({**DOMAIN, "income": dpx.Numeric(0, 200)})


@pytest.fixture
def sketch(make_table, frame, model):
    return local_sketch(make_table(frame, budget=ZCDP), model, epsilon=20, cells=3)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"centres": []}, "1 to 1024 centres"),
        ({"centres": [RECORD], "cells": 2}, "as many as cells"),
        ({"centres": [{"age": 23}]}, "no value for 'sex', 'income'"),
        ({"centres": [{**RECORD, "sex": "other"}]}, "not a declared category"),
        ({"centres": [{**RECORD, "income": 1e9}]}, "outside the declared range"),
        ({"marginals": "those"}, "what dpx.marginals returned"),
    ],
    ids=str,
)
def test_bad_requests_cost_nothing(make_table, frame, model, options, message):
    table = make_table(frame, budget=ZCDP)
    with pytest.raises(dpx.InputError, match=message):
        local_sketch(table, model, epsilon=1, **options)
    assert table.ledger.statement(table.name).spent.amount == 0


def test_a_pure_account_is_refused_with_a_hint(make_table, frame, model):
    table = make_table(frame)
    with pytest.raises(dpx.InputError, match=r"pure account(.|\n)*Budget\(epsilon=2.0, delta=1e-6\)"):
        local_sketch(table, model, epsilon=1)
    assert table.ledger.statement(table.name).spent.amount == 0
    with pytest.raises(dpx.InputError, match="pure account"):
        module.outlook(LocalSketchRequest(method="moments"), setting(), pure(1))


def test_a_failing_model_and_marginals_of_another_domain_are_refused(make_table, frame, model):
    table = make_table(frame, budget=ZCDP)

    def broken(rows):
        raise RuntimeError("no")

    with pytest.raises(dpx.errors.ModelError, match="fails on synthetic rows"):
        local_sketch(table, dpx.Model(broken, output=(0, 1)), epsilon=1)
    foreign = marginals(make_table(frame, budget=ZCDP, domain=OTHER), epsilon=1)
    with pytest.raises(dpx.InputError, match="another domain"):
        local_sketch(table, model, epsilon=1, marginals=foreign)
    some = marginals(make_table(frame, budget=ZCDP), ["age"], epsilon=1)
    with pytest.raises(dpx.InputError, match="do not have 'sex'"):
        local_sketch(table, model, epsilon=1, marginals=some)
    assert table.ledger.statement(table.name).spent.amount == 0


def test_too_many_numbers_are_refused(make_table, model):
    wide = dpx.Domain({"kind": dpx.Categorical(list(range(2_100)))})
    frame = pd.DataFrame({"kind": [0, 1, 2]})
    table = make_table(frame, budget=ZCDP, domain=wide)
    with pytest.raises(dpx.InputError, match="fewer cells or fewer features"):
        local_sketch(table, dpx.Model(lambda rows: np.zeros(len(rows)), output=(0, 1)), epsilon=1)


def test_the_whole_price_is_paid_once_and_a_second_time_is_free(make_table, frame, model):
    table = make_table(frame, budget=ZCDP)
    one = local_sketch(table, model, epsilon=1)
    two = local_sketch(table, model, epsilon=1)
    assert two.receipt.replayed
    assert two.released == one.released
    assert table.ledger.statement(table.name).spent == table.cost(epsilon=1) == one.receipt.cost
    assert set(one.released["parts"]) == module.diagram().noised == {"average", "marginals", "moments"}
    assert module.diagram().noised in module.diagram().privacy_enabling_sets()
    assert "how cells are drawn" in one.receipt.guarantee


def test_explanations_need_no_ledger_no_table_and_no_model(make_table, frame, model):
    table = make_table(frame, budget=ZCDP)
    found = local_sketch(table, model, epsilon=20, cells=3)
    spent = table.ledger.statement(table.name).spent
    table.ledger.close()
    table.door = None
    answers = [found.explain({**RECORD, "age": age}) for age in range(20, 30)]
    assert all(np.isfinite(a.values).all() for a in answers)
    assert spent == found.receipt.cost


def test_many_records_at_once_are_explained_as_one_by_one(sketch, frame):
    rows = frame[["age", "sex", "income"]].head(8)
    known = [0.1 * i for i in range(8)]
    for options in ({}, {"weight": "gaussian", "width": 0.5}, {"weight": lambda u: 1 / (1 + u)}):
        single = [sketch.explain(row, p, **options) for (_, row), p in zip(rows.iterrows(), known, strict=True)]
        many = sketch.explain_many(rows, known, **options)
        assert [list(a.values) for a in many] == [list(a.values) for a in single]
        assert [a.settings.record for a in many] == [a.settings.record for a in single]
    listed = sketch.explain_many([tuple(row) for row in rows.itertuples(index=False)], anchor="middle")
    assert listed.to_frame().columns.tolist() == ["base", "age", "sex", "income"]
    ends = [a.prediction - a.remainder.value for a in listed]
    assert listed.to_frame().sum(axis=1).to_numpy() == pytest.approx(ends)
    assert sketch.explain_many([]) == []
    assert sketch.explain_many([]).to_frame().empty
    with pytest.raises(dpx.InputError, match="8 records and 1 predictions"):
        sketch.explain_many(rows, [0.5])


@pytest.mark.parametrize(
    ("record", "options", "message"),
    [
        ([23, "Male"], {}, "2 values; 3 are needed"),
        ({"age": 23}, {}, "no value for"),
        ({**RECORD, "age": float("inf")}, {}, "not a finite number"),
        ({**RECORD, "age": 99}, {}, "outside the declared range"),
        ({**RECORD, "sex": "x"}, {}, "not a declared category"),
        (RECORD, {"weight": "square"}, "unknown weight"),
        (RECORD, {"width": 0}, "width of a weight"),
        (RECORD, {"weight": lambda u: -1.0}, "between 0 and 1"),
        (RECORD, {"prediction": float("inf")}, "finite number"),
        (RECORD, {"anchor": "top"}, "finite number"),
    ],
)
def test_bad_questions(sketch, record, options, message):
    with pytest.raises(dpx.InputError, match=message):
        sketch.explain(record, **options)


def test_a_sketch_in_a_file_answers_the_same(sketch, tmp_path):
    path = tmp_path / "sketch.json"
    sketch.save(path)
    loaded = LocalSketch.load(path, domain=DOMAIN)
    assert loaded == sketch
    mine, theirs = sketch.explain(RECORD, 0.4), loaded.explain(RECORD, 0.4)
    assert mine.values.tolist() == theirs.values.tolist()
    assert [end.tolist() for end in mine.interval()] == [end.tolist() for end in theirs.interval()]


def test_an_attribution_in_a_file_is_computed_again_from_the_sketch(sketch):
    for options in ({}, {"anchor": "middle"}, {"weight": lambda u: np.exp(-3 * u)}):
        answer = sketch.explain(RECORD, **options)
        again = from_json(answer.to_json())
        assert again.values == pytest.approx(answer.values, abs=1e-12)
        assert again.interval()[0] == pytest.approx(answer.interval()[0], abs=1e-12)


def test_files_that_are_no_sketch_any_more(sketch, make_table, frame, tmp_path):
    path = tmp_path / "sketch.json"
    text = sketch.to_json()

    def refused(content: str, error: type[Exception], message: str, **options):
        path.write_text(content, encoding="utf-8")
        with pytest.raises(error, match=message):
            LocalSketch.load(path, **options)

    refused(text[: len(text) // 2], dpx.InputError, "damaged(.|\n)*fetch the file again")
    refused(text, dpx.InputError, "another domain: 'income'", domain=OTHER)
    refused(text, dpx.InputError, "another domain: 'sex'", domain=dpx.Domain({"age": DOMAIN["age"]}))
    refused(marginals(make_table(frame), epsilon=1).to_json(), dpx.InputError, "kind 'marginals', not a local sketch")
    document = json.loads(text)
    document["released"]["parts"]["moments"]["values"][7] += 1
    refused(json.dumps(document), dpx.errors.VerificationError, "not those that were written(.|\n)*fetch it again")
    for place, value in (("weights", [1, 2, 3, 4, 5]), ("seed", 5), ("cells", 2)):
        document = json.loads(text)
        document["receipt"]["request"]["spec"][place] = value
        refused(json.dumps(document), dpx.errors.VerificationError, "not those that were written")
    with pytest.raises(dpx.InputError, match="cannot be read"):
        LocalSketch.load(tmp_path / "nowhere.json")


def test_cells_with_their_counts_and_mean_predictions(sketch, make_table, frame, model, tmp_path):
    exact = local_sketch(make_table(frame, budget=ZCDP, exact=True), model, epsilon=20, cells=3, radius=9).to_frame()
    assert exact["count"].sum() == len(frame)
    table = sketch.to_frame()
    assert (table["low"] <= table["prediction"]).all()
    assert (table["prediction"] <= table["high"]).all()
    assert ((table["count_low"] <= table["count"]) & (table["count"] <= table["count_high"])).all()
    ax = sketch.plot()
    assert "mean prediction" in ax.get_ylabel()
    ax.figure.savefig(tmp_path / "sketch.png")


def test_no_rows_at_all_is_an_answer_too(make_table, frame, model):
    """An empty table under add-remove: nothing stands out of the noise; the reader is told."""
    table = make_table(frame.head(0), budget=ZCDP, relation="add-remove", rows_hint=400)
    found = local_sketch(table, model, epsilon=0.1)
    answer = found.explain(RECORD)
    assert np.isfinite(answer.values).all()
    assert np.isfinite(answer.interval()[1]).all()
    nothing = local_sketch(make_table(frame.head(0), budget=ZCDP, relation="add-remove", exact=True), model, epsilon=1)
    blind = nothing.explain(RECORD)
    assert not nothing.cells.kept.any()
    assert blind.fit.notes[0].startswith("few rows are near this record")
    assert blind.fit.value == 0.5
    assert not blind.values.any()
    assert (blind.interval()[1] > 0.09).all()  # anything in the ball is possible
    assert nothing.interval()[0].tolist() == [0.0] * 4
    assert "0 of 4 cells" in nothing.plot().get_xlabel()


def test_few_rows_nearby_are_named(make_table, frame, model):
    far = make_table(frame.assign(age=20, sex="Female", income=0.0), budget=ZCDP, exact=True)
    found = local_sketch(far, model, epsilon=900, cells=2)
    near, away = {"age": 20, "sex": "Female", "income": 0}, {"age": 29, "sex": "Male", "income": 100}
    assert len(found.explain(near, weight="gaussian", width=0.4).fit.notes) == 1  # how coarse the sketch is
    note, _ = found.explain(away, weight="gaussian", width=0.4).fit.notes
    assert note.startswith("few rows are near this record")
    blind = found.explain(away, weight=lambda u: float(u < 0.1))
    assert blind.fit.notes
    assert (blind.interval()[1] - blind.values > 0.1).all()
    lonely = found.explain(away, weight="gaussian", width=0.07)  # weights of about 1e-270
    assert np.isfinite(lonely.values).all()
    assert np.isfinite(lonely.interval()[1]).all()


def setting(rows: int = 1_000, hint: int | None = 1_000) -> Setting:
    return Setting(DOMAIN, PublicRange(0, 1), Neighbours(Relation.REPLACE_ONE), rows, hint)


def test_the_outlook_and_the_number_of_cells():
    few, many = (
        module.outlook(LocalSketchRequest(method="moments"), setting(n, n), zcdp(0.01)) for n in (1_000, 10**6)
    )
    assert few.points == 1
    assert many.points == 64
    assert many.error < few.error
    assert module.outlook(LocalSketchRequest(method="moments"), setting(hint=None), zcdp(0.01)).points == 4
    one, two = (module.outlook(LocalSketchRequest(cells=4), setting(), zcdp(rho)) for rho in (0.01, 0.04))
    assert two.error < one.error
    assert one.std < one.error < one.interval < one.band


@pytest.mark.parametrize(("relation", "rows"), [(Relation.ADD_REMOVE, 2_100), (Relation.REPLACE_ONE, 3_250)])
def test_below_some_thousand_rows_one_cell_is_left(relation, rows):
    """13 columns, epsilon 1 at delta 1e-6: the numbers of docs/methods/local-sketch.md."""
    domain = dpx.Domain({f"x{i}": dpx.Numeric(0, 1) for i in range(13)})

    def cells(n):
        asked = Setting(domain, PublicRange(0, 1), Neighbours(relation), n, n)
        return module.outlook(LocalSketchRequest(method="moments"), asked, dpx.Budget(1, 1e-6).total).points

    assert (cells(rows), cells(rows + 100)) == (1, 2)


def test_points_fill_a_histogram_by_its_counts():
    places = np.array([[0], [1], [2], [3]])
    for counts in ([1, 0, 3, 4], [2**40, 0, 3 * 2**40, 4 * 2**40], [0, 0, 0, 0]):
        points = spread_points([Histogram("a", places, np.array(counts))] * 2, 1_000, seed=3)
        shares = np.array(counts) / sum(counts) if sum(counts) else np.full(4, 0.25)
        for column in points.T:
            assert np.bincount(column, minlength=4) / 1_000 == pytest.approx(shares, abs=0.01)
        assert abs(np.corrcoef(points.T)[0, 1]) < 0.05
