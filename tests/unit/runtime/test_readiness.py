"""Both ways in which a loop waits, held to the same."""

import os
import select
import socket
import time
from collections.abc import Iterator

import pytest

from upheaval_node.runtime.readiness import (
    READABLE,
    WRITABLE,
    EpollReadiness,
    Readiness,
    SelectorReadiness,
    best_readiness,
)

BOTH = READABLE | WRITABLE


@pytest.fixture(params=[EpollReadiness, SelectorReadiness])
def readiness(request: pytest.FixtureRequest) -> Iterator[Readiness]:
    found: Readiness = request.param()
    yield found
    found.close()


@pytest.fixture
def pair() -> Iterator[tuple[socket.socket, socket.socket]]:
    near, far = socket.socketpair()
    yield near, far
    near.close()
    far.close()


def test_only_the_events_that_are_waited_for_are_told(
    readiness: Readiness, pair: tuple[socket.socket, socket.socket]
) -> None:
    near, far = pair
    readiness.register(near.fileno(), READABLE)
    assert readiness.wait(0) == []
    far.send(b"x")
    assert readiness.wait(None) == [(near.fileno(), READABLE)]
    readiness.modify(near.fileno(), WRITABLE)
    assert readiness.wait(None) == [(near.fileno(), WRITABLE)]
    readiness.modify(near.fileno(), BOTH)
    assert readiness.wait(None) == [(near.fileno(), BOTH)]
    readiness.unregister(near.fileno())
    assert readiness.wait(0) == []


def test_the_end_of_the_other_side_can_be_read(readiness: Readiness, pair: tuple[socket.socket, socket.socket]) -> None:
    near, far = pair
    readiness.register(near.fileno(), READABLE)
    far.close()
    ((fd, events),) = readiness.wait(None)
    assert fd == near.fileno()
    assert events & READABLE


def test_a_refused_connection_is_told_to_who_waits_to_write(readiness: Readiness) -> None:
    with socket.socket() as listener:
        listener.bind(("127.0.0.1", 0))
        address = listener.getsockname()
    with socket.socket() as dialling:
        dialling.setblocking(False)
        dialling.connect_ex(address)
        readiness.register(dialling.fileno(), WRITABLE)
        ((fd, events),) = readiness.wait(60)
        assert (fd, events & WRITABLE) == (dialling.fileno(), WRITABLE)


def test_a_wait_is_not_shorter_than_asked(readiness: Readiness) -> None:
    begin = time.monotonic()
    assert readiness.wait(0.0105) == []
    assert time.monotonic() - begin >= 0.0105


def test_several_are_told_at_once(readiness: Readiness) -> None:
    pairs = [socket.socketpair() for _ in range(5)]
    for near, far in pairs:
        readiness.register(near.fileno(), READABLE)
        far.send(b"x")
    assert sorted(readiness.wait(None)) == sorted((near.fileno(), READABLE) for near, _ in pairs)
    for near, far in pairs:
        near.close()
        far.close()


def test_a_descriptor_that_is_closed_already_can_be_given_up(readiness: Readiness) -> None:
    near, far = socket.socketpair()
    readiness.register(near.fileno(), READABLE)
    fd = near.detach()
    os.close(fd)
    far.close()
    readiness.unregister(fd)
    assert readiness.wait(0) == []


def test_who_takes_epoll_away_gets_the_selectors_choice(monkeypatch: pytest.MonkeyPatch) -> None:
    assert isinstance(best_readiness(), EpollReadiness)
    monkeypatch.delattr(select, "epoll")
    assert isinstance(best_readiness(), SelectorReadiness)
