"""One Spark session for all tests of the pipeline, with what suits tables of a few hundred rows."""

import os
from collections.abc import Iterator
from typing import Any

import pytest

from upheaval_pipeline.session import session

# Compiling well takes longer than these tables.
os.environ.setdefault("SPARK_SUBMIT_OPTS", "-XX:TieredStopAtLevel=1")
SETTINGS = {
    "spark.sql.shuffle.partitions": "2",
    "spark.sql.codegen.wholeStage": "false",
    "spark.sql.codegen.factoryMode": "NO_CODEGEN",
}


@pytest.fixture(scope="session")
def spark() -> Iterator[Any]:
    with session("local[2]", SETTINGS) as started:
        yield started
