"""One Spark session for all tests of the pipeline."""

from collections.abc import Iterator
from typing import Any

import pytest

from upheaval_pipeline.session import session


@pytest.fixture(scope="session")
def spark() -> Iterator[Any]:
    with session("local[2]") as started:
        yield started
