"""One Spark session for all tests of this folder, on two threads, which runs a task up to three times."""

from __future__ import annotations

import os
import shutil
import sys
import warnings

import pytest


@pytest.fixture(scope="session")
def java():
    """What Spark needs. Where it is missing the suite says so, and where it is asked for, it fails."""
    if shutil.which("java") is None and "JAVA_HOME" not in os.environ:
        assert "DPEXPLAIN_NEEDS_JAVA" not in os.environ, "the Spark engine is to be tested here, and there is no Java"
        pytest.skip("the Spark engine needs Java 17 or newer: apt-get install openjdk-17-jre-headless")
    return pytest.importorskip("pyspark.sql", reason="the Spark engine needs pyspark: pip install dpexplain[spark]")


@pytest.fixture(scope="session")
def spark(java):
    os.environ["PYSPARK_PYTHON"] = sys.executable
    os.environ["PYTHONPATH"] = os.pathsep.join(filter(None, sys.path))  # executors find this package and these tests
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        builder = java.SparkSession.builder.master("local[2,3]").config("spark.ui.enabled", "false")
        for name, value in {
            "spark.sql.shuffle.partitions": "3", "spark.driver.host": "127.0.0.1", "spark.log.level": "OFF",
            "spark.driver.bindAddress": "127.0.0.1", "spark.sql.adaptive.enabled": "false",
        }.items():  # fmt: skip
            builder = builder.config(name, value)
        session = builder.getOrCreate()
    yield session
    session.stop()
