"""Nothing that rows make somebody say is heard: on executors, in the logs of Spark, or from pyspark on the driver."""

from __future__ import annotations

import json
import logging
import os
import subprocess
import sys
import warnings
from pathlib import Path

import pyarrow as pa
import pytest

from dpexplain.engines.silence import QUERY_LOGGERS, unheard, unlogged
from loud import SECRET, SHOWN, WAYS, loud_step

PROGRAM = Path(__file__).parents[2] / "loud.py"
pytestmark = pytest.mark.filterwarnings("ignore::ResourceWarning", "ignore::DeprecationWarning")


@pytest.fixture
def heard(capfd, monkeypatch, tmp_path):
    """What a step lets out that sees one row."""
    monkeypatch.setenv("LOUD_FOLDER", str(tmp_path))
    monkeypatch.setenv("SPARK_HIDE_TRACEBACK", "")

    def heard(step):
        batch = pa.record_batch({"income": [SECRET]})
        with warnings.catch_warnings(record=True), pytest.raises((RuntimeError, ValueError)) as error:
            list(step(iter([batch])))
        assert error.value.__context__ is None
        assert list(tmp_path.glob("said-*"))
        os.write(1, b"still open ")
        os.write(2, b"still open")
        return "".join(capfd.readouterr()) + str(error.value)

    return heard


@pytest.mark.posix
def test_a_step_is_not_heard(heard):
    before = logging.root.manager.disable
    assert heard(unheard(loud_step)) == "still open still opena task failed; why is not told"
    assert logging.root.manager.disable == before
    assert os.environ["SPARK_HIDE_TRACEBACK"] == "1"


@pytest.mark.posix
def test_without_silence_it_is_heard(heard):
    """So the test above can fail."""
    said = heard(loud_step)
    for way in ("printed", "written", "raised"):
        assert f"{way} {SECRET}" in said


def test_a_step_gives_what_it_gives_and_may_be_left_early():
    batches = [1, 2, 3]
    assert list(unheard(iter)(batches)) == batches
    some = unheard(iter)(batches)
    assert next(some) == 1
    some.close()
    print("heard again", file=sys.stderr)


def test_pyspark_logs_nothing_of_our_calls(caplog):
    pyspark = pytest.importorskip("pyspark.logger")
    for name in QUERY_LOGGERS:
        logger, said = pyspark.PySparkLogger.getLogger(name), []
        handler = logging.Handler()
        handler.emit = lambda record, said=said: said.append(record.getMessage())
        logger.addHandler(handler)
        with unlogged(), unlogged():
            logger.error("Anna37")
        logger.error("Berta38")
        logger.removeHandler(handler)
        assert said == ["Berta38"]


@pytest.mark.long
@pytest.mark.usefixtures("java")
def test_a_program_whose_models_say_all_they_see_shows_nothing(tmp_path):
    """At the log level of Spark itself: all that driver, Java and executors print. The program is `tests/loud.py`."""
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join(filter(None, sys.path))}
    done = subprocess.run(
        [sys.executable, str(PROGRAM), str(tmp_path)], capture_output=True, text=True, env=environment,
        timeout=400, check=False,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr[-3000:]
    told = json.loads(done.stdout.splitlines()[-1])
    for name, (outcome, said) in told.items():
        assert said > 0 or name == "cast", name  # a model or step was there, and said what it could
        released = name.startswith(("curve", "influence"))
        assert outcome == "released" if released else outcome.startswith(("ReleaseLost", "PythonException")), name
    everything = done.stdout + done.stderr
    assert f"{SECRET}" not in everything
    assert "Anna37" not in everything
    assert "ERROR TaskSetManager" in everything  # Spark's logs are there
    for way in WAYS:  # and so is all that is said without silence
        assert f"{way} {SHOWN}" in everything
    assert "Berta38" in everything
