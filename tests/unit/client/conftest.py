"""Fixtures of the tests of clients."""

from collections.abc import Iterator

import pytest

from unit.client.answering_member import Member


@pytest.fixture
def member() -> Iterator[Member]:
    member = Member()
    member.thread.start()
    yield member
    member.stop()
