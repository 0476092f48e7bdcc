"""Every registered method on both engines: the same exact numbers go to the sampler where no secret one is drawn."""

from __future__ import annotations

from dataclasses import replace

import pyarrow as pa
import pytest

from dpexplain.audit.calls import Sum
from dpexplain.audit.capture import recorded
from dpexplain.audit.cases import PRICES
from dpexplain.data.queries import SparkSource
from dpexplain.engines import LocalEngine
from dpexplain.engines.spark import SparkEngine
from dpexplain.errors import InputError
from dpexplain.methods.registry import methods

pytestmark = [
    pytest.mark.long,
    pytest.mark.filterwarnings("ignore::ResourceWarning", "ignore::DeprecationWarning", "ignore:PySpark does not yet"),
]
METHODS = sorted(method.name for method in methods().values())
GATHERING = {("permutation-importance", "paper"), ("influence", "paper")}


class Watched(LocalEngine):
    """Notes whether a pass took secret numbers: then engines draw different ones."""

    def __init__(self):
        self.secret = False

    def sum_rows(self, reading, *what, **how):
        self.secret |= how["secret"] or reading.one_in > 1
        return super().sum_rows(reading, *what, **how)

    def sum_groups(self, *what, **how):
        self.secret = True
        return super().sum_groups(*what, **how)


class OnSpark(SparkEngine):
    """Reads what a table holds on this machine, spread over executors."""

    def __init__(self, spark):
        self._spark, self.passes = spark, 0

    def _spread(self, reading):
        self.passes += 1
        frame = self._spark.createDataFrame(pa.Table.from_pandas(reading.source._frame, preserve_index=False))
        return replace(reading, source=SparkSource(frame.repartition(2)))

    def sum_rows(self, reading, *what, **how):
        return super().sum_rows(self._spread(reading), *what, **how)

    def sum_groups(self, reading, *what, **how):
        return super().sum_groups(self._spread(reading), *what, **how)


def released(case, engine):
    """The calls of the sampler, which adds nothing."""
    table = case.table(0)
    table.engine = engine
    return recorded(table, lambda table: case.run(table, PRICES[case.definition]), case.answers).calls


@pytest.mark.parametrize("name", METHODS)
def test_every_method_hands_the_same_numbers_to_the_sampler(spark, name):
    method = methods()[name]
    cases = {}
    for case in method.load(method.worst_cases)():
        cases.setdefault((case.release, case.form), case)
    for (_, form), case in cases.items():
        if (name, form) in GATHERING:
            with pytest.raises(InputError, match="does not run on Spark"):
                released(case, OnSpark(spark))
            continue
        here, there = Watched(), OnSpark(spark)
        mine, theirs = released(case, here), released(case, there)
        assert there.passes, case
        assert [type(call) for call in mine] == [type(call) for call in theirs], case
        if not here.secret:
            assert mine == theirs, case
        for ours, other in zip(mine, theirs, strict=True):
            if isinstance(ours, Sum):
                assert len(ours.values) == len(other.values), case
