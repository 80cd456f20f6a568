"""One Spark session for all tests of the pipeline, with what suits tables of a few hundred rows; and one job for all
runs that tests only want to be judged.
"""

import os
from collections.abc import Iterator
from typing import Any

import pytest

from support.judged_runs import Build, JudgedRun, judged_together
from support.spark_settings import FOR_SMALL_TABLES, SMALL_JVM
from upheaval_pipeline.session import session

os.environ.setdefault("SPARK_SUBMIT_OPTS", SMALL_JVM)


@pytest.fixture(scope="session")
def spark() -> Iterator[Any]:
    with session("local[2]", FOR_SMALL_TABLES) as started:
        yield started


@pytest.fixture(scope="session")
def all_judged(request: pytest.FixtureRequest, spark: Any) -> dict[Build, JudgedRun | Exception]:
    """The runs of all tests that were selected."""
    calls = (getattr(item, "callspec", None) for item in request.session.items)
    builds = list(
        dict.fromkeys(call.params["judged"] for call in calls if call is not None and "judged" in call.params)
    )
    return dict(zip(builds, judged_together(spark, builds), strict=True))


@pytest.fixture
def judged(request: pytest.FixtureRequest, all_judged: dict[Build, JudgedRun | Exception]) -> JudgedRun:
    """What came of the run that the `Build` in the parameter makes."""
    found = all_judged[request.param]
    if isinstance(found, Exception):
        raise found
    return found
