"""What is seen of links by datagrams: `ping` sends some and says whether one was answered, `volley` many, and says
which.
"""

import contextlib
import socket
import time
from collections.abc import Callable, Sequence
from typing import Final

from upheaval_chaos.pings import PingText
from upheaval_chaos.target import Answer, Ping
from upheaval_node.types import S

_AGAIN_S: Final = 0.1
"""A datagram may get lost: so long after the last one, another is sent."""
_MARK: Final = slice(8, 12)
_BURST: Final = 16
_PAUSE_S: Final = 0.001


def ping(address: str, text: Callable[[], PingText], timeout_s: float) -> Ping:
    """Send a new `text` until one is answered; the time is that of the one, from its first byte.

    Only the first brings its padding, and what is sent after that has the time from its beginning.
    """
    host, _, port = address.rpartition(":")
    asked: dict[bytes, int] = {}
    first = text()
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as asker:
        asker.connect((host, int(port)))
        begin_ns = time.monotonic_ns()
        deadline_ns = begin_ns + int(timeout_s * S)
        for number in range(first.repeats):
            if number % _BURST == _BURST - 1:
                # No more at once than buffers hold.
                time.sleep(_PAUSE_S)
            asker.send(first.padding)
        now_ns = time.monotonic_ns()
        while now_ns < deadline_ns:
            said = text()
            asked[said.mark] = begin_ns if first.repeats else now_ns
            asker.send(said.hello)
            until_ns = min(now_ns + int(_AGAIN_S * S), deadline_ns)
            mark = _answer(asker, asked, until_ns)
            now_ns = time.monotonic_ns()
            if mark is not None:
                return Ping(Answer.ANSWERED, now_ns - asked[mark])
    return Ping(Answer.SILENT, now_ns - begin_ns)


def volley(address: str, probes: Sequence[bytes], quiet_s: float) -> list[int]:
    """Send all of them; the numbers of those that were answered, in that order, until none has come for so long."""
    host, _, port = address.rpartition(":")
    came: list[int] = []
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as asker:
        asker.connect((host, int(port)))
        for number, probe in enumerate(probes):
            if number % _BURST == _BURST - 1:
                came += _numbers(asker, _PAUSE_S)
            asker.send(probe)
        while more := _numbers(asker, quiet_s):
            came += more
    return came


def _numbers(asker: socket.socket, wait_s: float) -> list[int]:
    """Of the probes that come, until none has come for so long."""
    asker.settimeout(wait_s)
    found = []
    with contextlib.suppress(TimeoutError):
        while True:
            found.append(int.from_bytes(asker.recv(2048)[_MARK], "little"))
    return found


def _answer(asker: socket.socket, asked: dict[bytes, int], until_ns: int) -> bytes | None:
    """The mark of the first answer to anything that was asked; None when there is none in time."""
    while (left_ns := until_ns - time.monotonic_ns()) > 0:
        asker.settimeout(left_ns / S)
        try:
            mark = asker.recv(2048)[_MARK]
        except TimeoutError:
            return None
        if mark in asked:
            return mark
    return None
