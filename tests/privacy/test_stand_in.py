"""Defects planted in stand-ins, which their worst cases must show: the exact loss is above the price, without a draw.

The sound form and rows that count twice are judged with all other methods, in `test_every_release.py`.
"""

from __future__ import annotations

from dataclasses import replace
from types import SimpleNamespace

import numpy as np
import pytest

import dpexplain as dpx
from dpexplain.audit.worst_cases import asks
from dpexplain.audit.worst_cases.stand_in import of_stand_in
from dpexplain.core.release import Gate
from dpexplain.core.sensitivity import ScoreRange
from dpexplain.errors import InternalError, ReleaseLost
from dpexplain.methods.stand_in import release
from dpexplain.methods.stand_in.request import StandInRequest
from dpexplain.methods.stand_in.spec import Columns, Spec

CASES = {(c.form, c.part, c.relation, c.rows, c.definition.value): c for c in of_stand_in()}
TREE = asks(StandInRequest(grade="tree"))


def attained(part, relation="replace-one", rows=1, definition="pure", form="tree"):
    """The exact loss of the worst case, as a share of the price of its part."""
    return CASES[form, part, relation, rows, definition].captured().attained


@pytest.mark.parametrize(("relation", "rows"), [("replace-one", 1), ("add-remove", 1), ("replace-one", 2)])
def test_scores_against_the_tables_own_counts_are_caught(monkeypatch, relation, rows):
    """The broken sibling compares a pair with the product of the table's own columns, which a row moves too: one more
    row with two rare values that always come together moves the score of these two columns by four.
    """
    base = ["aaaa"] * 400 + ["bbaa"] * 12 + ["aabb"] * 3
    pairs = {"replace-one": ([*base, "aabb"], [*base, "bbaa"]), "add-remove": (base, [*base, "bbaa"])}
    case = replace(
        CASES["tree", "edge-1", relation, rows, "pure"],
        domain=dpx.Domain({name: dpx.Categorical(["a", "b"]) for name in "wxyz"}),
        pair=tuple([tuple(row) for row in side] for side in pairs[relation]),
        answers={0: [800] * 8},
    )
    assert case.captured().attained <= 1 + 1e-9

    def own(tables, _columns):
        products = [np.rint(np.outer(t.sum(axis=1), t.sum(axis=0)) / max(t.sum(), 1)) for t in tables]
        return np.array([int(np.abs(t - p).sum()) for t, p in zip(tables, products, strict=True)], dtype=np.int64)

    monkeypatch.setattr(release, "edge_scores", own)
    assert case.captured().attained > 1.4


@pytest.mark.parametrize("definition", ["pure", "zcdp"])
@pytest.mark.parametrize(("part", "form"), [("pairs", "tree"), ("scores", "scores")])
def test_the_bound_of_one_table_for_several_is_caught(monkeypatch, part, form, definition):
    """A row is in a cell of every pair, and of every table by scores."""
    assert attained(part, definition=definition, form=form) <= 1 + 1e-9
    real = Gate.noisy_counts

    def one_table(gate, name, counts, cost, *, partitions, mechanism=None):
        return real(gate, name, counts, cost, partitions=1 if name == part else partitions, mechanism=mechanism)

    monkeypatch.setattr(Gate, "noisy_counts", one_table)
    assert attained(part, definition=definition, form=form) >= 1.4


def test_half_of_the_range_of_scores_is_caught(monkeypatch):
    """The bound of add-remove where a row is replaced."""
    assert attained("edge-1") <= 1 + 1e-9
    monkeypatch.setattr(
        release, "edge_range", lambda who: ScoreRange(who, -who.changed_rows // 2, who.changed_rows // 2)
    )
    monkeypatch.setattr("dpexplain.methods.stand_in.spec.edge_range", release.edge_range)
    assert attained("edge-1") >= 1.9


def test_choices_on_top_of_the_price_are_refused(monkeypatch):
    real = Spec.prices
    monkeypatch.setattr(Spec, "prices", lambda spec, cost: {**real(spec, cost), "edges": cost})
    with pytest.raises(ReleaseLost):
        CASES["tree", "edge-1", "replace-one", 1, "pure"].captured()


def test_groups_of_cells_by_exact_counts_are_caught(monkeypatch):
    """The broken sibling takes rare cells together by the rows: neighbouring tables have other groups."""
    case = CASES["tree", "pairs", "replace-one", 1, "pure"]
    seen = {}
    real = release.histogram.send

    def looking(table, gate, part, partitions, cost, label):
        batches = [raw["x"] for _, raw in table._source.batches(["x"], 256)]
        seen["b"] = any(str(value) == "b" for batch in batches for value in batch)
        return real(table, gate, part, partitions, cost, label)

    def by_rows(columns):
        groupings = Columns.__dict__["groupings"].func(columns)
        if seen["b"]:
            return groupings
        return [replace(g, place=np.zeros_like(g.place)) for g in groupings]

    shown = SimpleNamespace(**{**vars(release.histogram), "send": looking})
    monkeypatch.setattr(release, "histogram", shown)
    broken = type("Broken", (Columns,), {"groupings": property(by_rows)})
    monkeypatch.setattr(Spec, "columns", lambda spec, *rest: broken(spec, *rest))
    with pytest.raises(InternalError, match="depends on rows"):
        case.captured()


def test_score_cells_are_those_of_public_rows(make_table, frame, model):
    """Two tables with other rows, one domain and one model have the same cells of scores."""
    spec = [
        dpx.stand_in(make_table(rows, exact=True), model, epsilon=1).spec
        for rows in (frame, frame.assign(age=20, income=0.0))
    ]
    assert spec[0] == spec[1]
    assert len(spec[0].score_edges) > 3
