"""The engine on Apache Spark: rows stay on executors, and only sums of integers come to the driver.

`sum_rows` is one `mapInArrow`: each partition gives one line, its sums. Under a unit, rows are first brought together
by unit, to choose which are used. `sum_groups` brings rows together by ranges of groups. Steps (`data/shipping.py`) are
plain functions from batches to batches; whatever is secret in them is a function of a key that the driver draws for
this pass and of what a task is given again when it runs again, so a task that is repeated or runs twice gives the same
line, of which Spark takes one. docs/decisions/0037-spark.md has the argument.

Noise is added once, on the driver, by the door.
"""

from __future__ import annotations

import sys
from collections.abc import Callable
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from dpexplain.engines.progress import track
from dpexplain.engines.silence import unheard, unlogged

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

    Integers = NDArray[np.int64]

TAG_RANGES = 256  # of secret tags, when rows are dealt by their places in a shuffle


class SparkEngine:
    """Runs both passes on the executors of the session that the table's DataFrame belongs to."""

    gathers, elsewhere = False, "Spark's executors"

    def ships(self, thing: Any) -> bool:
        """Whether executors can be given this."""
        from pyspark import cloudpickle

        try:
            cloudpickle.loads(cloudpickle.dumps(thing))  # type: ignore[no-untyped-call]
        except KeyboardInterrupt:
            raise
        except BaseException:  # what it says may show what is inside
            return False
        return True

    def sum_rows(
        self, reading: Any, kernel: Callable[..., Integers], secrets: Any, *, size: int, label: str,
        parallel: bool,  # noqa: ARG002 - every executor has a model of its own
        secret: bool,
    ) -> Integers:  # fmt: skip
        """One line of sums for each partition."""
        from dpexplain.data.shipping import Bounded, Cleaned, Summed

        frame, shipped, key = _raw(reading), replace(reading, source=None), secrets.key()
        if reading.unit is not None:
            frame = _bounded(frame, Cleaned(shipped, key), Bounded(shipped, key))
        with track(label, None):
            return _collected(frame, Summed(shipped, key, kernel, size, secret), size, reading.size)[0]

    def sum_groups(
        self, reading: Any, kernel: Callable[..., Integers], deal: Any, secrets: Any, *, size: int, label: str,
        parallel: bool,  # noqa: ARG002
        total: int | None,  # noqa: ARG002 - progress is that of Spark
    ) -> Integers:  # fmt: skip
        """Rows get their tags, come together by ranges of groups, and each range is summed in one task."""
        import numpy as np
        from pyspark.sql import functions as f

        from dpexplain.core.sensitivity import Assignment
        from dpexplain.data.dealing import ranges_of
        from dpexplain.data.shipping import Bounded, Cleaned, Grouped, Numbered

        shipped, key = replace(reading, source=None), secrets.key()
        clean = Cleaned(shipped, key)
        with track(label, None):
            if reading.unit is not None:
                frame = _bounded(_raw(reading), clean, Bounded(shipped, key))
            else:
                frame = _sorted(_mapped(_raw(reading), clean, clean.schema), ["hash"], clean.columns)
                frame = _mapped(frame, Numbered(shipped, key), clean.schema)
            if deal.rule is Assignment.POSITION:
                frame = _ranked(frame, clean)
            ranges = len(ranges_of(deal.groups))
            part = f.expr(f"(pmod(tag, {deal.groups}L) * {ranges}L) div {deal.groups}L")
            frame = _sorted(frame.withColumn("part", part), ["part"], ["tag", "hash", *clean.columns])
            step = Grouped(shipped, key, kernel, size, deal)
            sums, seen = _collected(frame, step, size, reading.size)
            for number in sorted(set(range(ranges)) - seen):  # ranges without rows have groups all the same
                answer = step.answer(number, []).to_pylist()[0]
                if not answer["ok"]:
                    raise _failed()
                sums = sums + np.frombuffer(answer["sums"], dtype=np.int64)
        return sums


def session_frame(name: str) -> Any:
    """A table of the running Spark session by its name; None where there is no session, or no such table."""
    if "pyspark" not in sys.modules:
        return None
    from pyspark.sql import SparkSession

    session = SparkSession.getActiveSession()
    try:
        return session.table(name) if session is not None and session.catalog.tableExists(name) else None
    except Exception:  # a name that cannot be one
        return None


def _raw(reading: Any) -> Any:
    from pyspark.sql import functions as f

    return reading.source.frame.select(*(f.col("`" + name.replace("`", "``") + "`") for name in reading.raw_columns))


def _sorted(frame: Any, together: list[str], then: list[str]) -> Any:
    """Rows with the same values of `together` in one partition, sorted: in the same order whenever it is made."""
    return frame.repartition(*together).sortWithinPartitions(*together, *then)


def _bounded(frame: Any, clean: Any, bound: Any) -> Any:
    together = _sorted(_mapped(frame, clean, clean.schema), ["unit"], ["hash", *clean.columns])
    return _mapped(together, bound, clean.schema)


def _mapped(frame: Any, step: Any, schema: str) -> Any:
    """A step on each partition."""
    return frame.mapInArrow(unheard(step), schema)


def _lines(frame: Any) -> Any:
    """What comes to the driver, which is sums and counts."""
    with unlogged():
        return frame.collect()


def _ranked(frame: Any, clean: Any) -> Any:
    """Tags become places in the order of tags: counted by ranges of tags first, then from each range's start."""
    from pyspark.sql import functions as f

    from dpexplain.data.assignment import TAGS
    from dpexplain.data.shipping import Ranked

    width = TAGS // TAG_RANGES
    numbered = frame.withColumn("range", f.expr(f"tag div {width}L"))
    counts = {line["range"]: line["count"] for line in _lines(numbered.groupBy("range").count())}
    starts = [0]
    for number in range(TAG_RANGES - 1):
        starts.append(starts[-1] + counts.get(number, 0))
    ordered = _sorted(numbered, ["range"], ["tag", "hash", *clean.columns]).drop("range")
    return _mapped(ordered, Ranked(clean.reading, clean.key, tuple(starts)), clean.schema)


def _collected(frame: Any, step: Any, size: int, expected: int | None) -> tuple[Integers, set[int]]:
    """The sums of all partitions, and the numbers of the parts that had rows. Nothing else reaches the driver."""
    import numpy as np

    from dpexplain.data.shipping import SUMS

    sums, seen, rows = np.zeros(size, dtype=np.int64), set[int](), 0
    for line in _lines(_mapped(frame, step, SUMS)):
        if not line["ok"]:
            raise _failed()
        sums += np.frombuffer(line["sums"], dtype=np.int64)
        seen.add(line["part"])
        rows += line["rows"]
    if expected is not None and rows != expected:
        raise RuntimeError("the source no longer has the number of rows that it had when the table was opened")
    return sums, seen


def _failed() -> RuntimeError:
    return RuntimeError("a task failed; why is not told")
