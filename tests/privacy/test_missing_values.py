"""A missing value that is kept has a cell of its own, and no other: what a row in two cells would give away is caught.

The worst case itself, a row that goes missing, is audited with all others in `test_every_release`.
"""

from __future__ import annotations

import numpy as np
import pytest

from dpexplain.audit.releases import every_case
from dpexplain.maths.grids import Partition

CASES = [case for case in every_case() if (case.release, case.form) == ("marginals", "missing values")]


def test_a_missing_value_in_two_cells_is_caught(monkeypatch):
    """Exact, so there is no chance in it: counted as missing and, as a sorted search puts NaN, as the largest number,
    a row costs half as much again (replace-one, L1 3 where 2 is paid for), or twice as much (add-remove).
    """
    right = Partition.counts

    def twice(self, values):
        found = right(self, values)
        found[-2] += np.isnan(values).sum()
        return found

    monkeypatch.setattr(Partition, "counts", twice)
    attained = {(case.relation, case.definition.value, case.rows): case.captured().attained for case in CASES}
    assert attained["replace-one", "pure", 1] > 1.2
    assert attained["add-remove", "pure", 1] == pytest.approx(2)
    assert min(attained.values()) > 1.1


def test_the_cases_are_there():
    assert len(CASES) == 6
