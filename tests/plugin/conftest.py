"""What the plugin's tests share: an environment with the wheel, and the interpreters that judge services."""

import os
from collections.abc import Generator, Iterator
from pathlib import Path

import pytest

from support.stranger import make_environment
from upheaval.checkers.own.interpreters import shared_interpreters

CURRENT_TEST = "PYTEST_CURRENT_TEST"


@pytest.fixture(scope="session")
def python(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The Python of an environment that has the wheel of this tree and hypothesis installed."""
    return make_environment(tmp_path_factory.mktemp("stranger"), ("hypothesis",))


@pytest.fixture(scope="module")
def shared() -> Iterator[None]:
    """All judgements of a module ask the same interpreters, which fork a child for every question.

    Not for services whose state depends on addresses: a child of an interpreter that answered more often has others.
    """
    with shared_interpreters():
        yield


@pytest.hookimpl(tryfirst=True)
def pytest_itemcollected(item: pytest.Item) -> None:
    """Tests that start another pytest, or members as processes, are heavy."""
    if isinstance(item, pytest.Function):
        parameters = item.callspec.params.values() if hasattr(item, "callspec") else ()
        if "python" in item.fixturenames or "process" in parameters:
            item.add_marker(pytest.mark.heavy)


@pytest.hookimpl(wrapper=True)
def pytest_pyfunc_call() -> Generator[None, object, object]:
    """Hide the name of the test from the environment: an interpreter answers for one environment only."""
    name = os.environ.pop(CURRENT_TEST)
    try:
        return (yield)
    finally:
        os.environ[CURRENT_TEST] = name
