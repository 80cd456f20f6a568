"""Fixtures of the plugin's tests: the environment is made once for each worker."""

from pathlib import Path

import pytest

from support.stranger import make_environment


@pytest.fixture(scope="session")
def python(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The Python of an environment that has the wheel of this tree and hypothesis installed."""
    return make_environment(tmp_path_factory.mktemp("stranger"), ("hypothesis",))
