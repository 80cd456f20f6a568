"""What is seen of links by datagrams: `ping` sends some and says whether one was answered.

`python -m upheaval_chaos.datagrams ADDRESS CHANNEL EXTRA_LENGTH TIMEOUT_S` prints answer and round trip as JSON.
"""

import json
import socket
import sys
import time
from collections.abc import Callable, Sequence
from dataclasses import astuple
from functools import partial
from typing import Final

from upheaval_chaos.pings import PingText, datagram_ping_text
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


def _main(arguments: Sequence[str]) -> None:
    address, channel, extra_length, timeout_s = arguments
    text = partial(datagram_ping_text, channel, int(extra_length))
    print(json.dumps(astuple(ping(address, text, float(timeout_s)))))


if __name__ == "__main__":
    _main(sys.argv[1:])
