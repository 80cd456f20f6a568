"""Fixtures of the process runtime's tests: a loop, and a network on it, closed at the end."""

from collections.abc import Iterator

import pytest

from upheaval_node.runtime.loop import Loop
from upheaval_node.runtime.network import SelectorNetwork


@pytest.fixture
def loop() -> Iterator[Loop]:
    loop = Loop()
    yield loop
    loop.close()


@pytest.fixture
def network(loop: Loop) -> Iterator[SelectorNetwork]:
    network = SelectorNetwork(loop)
    yield network
    network.close()
