"""Defects planted in performance, which its worst cases must show: the exact loss is above the price, without a draw.

The sound form and rows that count twice are judged with all other methods, in `test_every_release.py`.
"""

from __future__ import annotations

from dataclasses import replace
from types import SimpleNamespace

import pytest

from dpexplain.audit.worst_cases.performance import of_performance
from dpexplain.core.release import Gate
from dpexplain.errors import InternalError, ReleaseLost
from dpexplain.methods.performance import release
from dpexplain.methods.performance.spec import Spec

CASES = {(c.form, c.part, c.relation, c.rows, c.definition.value): c for c in of_performance()}


def attained(form, relation="replace-one", rows=1, definition="pure", part=None):
    """The exact loss of the worst case, as a share of the price of its part."""
    return CASES[form, part or "counts", relation, rows, definition].captured().attained


@pytest.mark.parametrize("relation", ["replace-one", "add-remove"])
@pytest.mark.parametrize(("form", "least"), [("by group", 1.9), ("all classes", 2.9)])
def test_one_histograms_bound_where_a_row_is_in_several_is_caught(monkeypatch, form, least, relation):
    """Two entries of groups are two histograms; two classes are two, and one more for the confusion matrix."""
    assert attained(form, relation) <= 1 + 1e-9
    monkeypatch.setattr(Spec, "partitions", property(lambda _: 1))
    assert attained(form, relation) >= least


def test_a_bound_that_forgets_the_confusion_matrix_is_caught(monkeypatch):
    monkeypatch.setattr(Spec, "tables", property(lambda self: len(self.classes) or 1))
    assert attained("all classes") >= 1.4


def test_the_bound_of_one_group_of_public_size_used_for_groups_is_caught(monkeypatch):
    """A replaced row of a regression changes two groups, and with them the count of each."""
    real = release.sensitivity
    monkeypatch.setattr(release, "sensitivity", lambda asked, who: real(replace(asked, counted=False), who))
    assert attained("regression by group", part="sums") >= 1.4


@pytest.mark.parametrize("definition", ["pure", "zcdp"])
@pytest.mark.parametrize("relation", ["replace-one", "add-remove"])
def test_the_bound_of_one_entry_for_the_decisions_of_two_is_caught(monkeypatch, relation, definition):
    """A row is on one side of the threshold in each entry of groups."""
    assert attained("many cells", relation, definition=definition, part="decisions") <= 1 + 1e-9
    real = Gate.noisy_counts

    def one_entry(gate, part, counts, cost, *, partitions, mechanism):
        return real(gate, part, counts, cost, partitions=1 if part == "decisions" else partitions, mechanism=mechanism)

    monkeypatch.setattr(Gate, "noisy_counts", one_entry)
    assert attained("many cells", relation, definition=definition, part="decisions") >= 1.4
    assert attained("many cells", relation, definition=definition, part="counts") <= 1 + 1e-9


def test_decisions_on_top_of_the_price_are_refused(monkeypatch):
    """Both parts together may not cost more than was reserved."""
    real = Spec.prices
    monkeypatch.setattr(Spec, "prices", lambda spec, cost: {**real(spec, cost), "counts": cost})
    with pytest.raises(ReleaseLost):
        CASES["many cells", "counts", "replace-one", 1, "pure"].captured()


def test_cells_cut_by_the_scores_of_the_rows_are_caught(monkeypatch):
    """The broken sibling looks at the rows before it cuts cells: neighbouring tables have other cells."""
    real = release.Setting.of

    def looking(table, model):
        flags = [raw["flag"] for _, raw in table._source.batches(["flag"], 256)]
        all_ones = all(str(flag) == "1" for part in flags for flag in part)

        def from_rows(output, _cells, threshold):
            return (output.low, *([0.25] if all_ones else []), threshold, output.high)

        monkeypatch.setattr(release, "edges_of", from_rows)
        return real(table, model)

    monkeypatch.setattr(release, "Setting", SimpleNamespace(of=looking))
    with pytest.raises(InternalError, match="depends on rows"):
        CASES["everybody", "counts", "replace-one", 1, "pure"].captured()
