"""One Spark session for all tests of the pipeline, with what suits tables of a few hundred rows."""

import os
from collections.abc import Iterator
from typing import Any

import pytest

from support.spark_settings import FOR_SMALL_TABLES
from upheaval_pipeline.session import session

# Compiling well takes longer than these tables.
os.environ.setdefault("SPARK_SUBMIT_OPTS", "-XX:TieredStopAtLevel=1")


@pytest.fixture(scope="session")
def spark() -> Iterator[Any]:
    with session("local[2]", FOR_SMALL_TABLES) as started:
        yield started
