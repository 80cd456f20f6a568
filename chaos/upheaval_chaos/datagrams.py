"""What is seen of links by datagrams: `ping` sends some until one is answered, `volley` sends many and returns which
were answered.

Also run as a program, in the network of a member: its first argument is one of these two, its output JSON.
"""

import contextlib
import json
import socket
import sys
import time
from collections.abc import Callable, Sequence
from dataclasses import astuple
from functools import partial
from typing import Final

from upheaval_chaos.pings import PingText, datagram_ping_text
from upheaval_chaos.probes import is_omitted, probe
from upheaval_chaos.target import FRAMES, MESSAGES, Answer, DatagramEffect, Ping
from upheaval_node.protocol.frames import TYPE_DATA
from upheaval_node.types import S

_AGAIN_S: Final = 0.1
"""A datagram may get lost: so long after the last one, another is sent."""
_MARK: Final = slice(8, 12)
_BURST: Final = 16
_PAUSE_S: Final = 0.001
_BUFFER_LENGTH: Final = 1 << 20
_QUIET_S: Final = 1.0
"""A probe that has not come when none came for so long is lost."""


def ping(address: str, text: Callable[[], PingText], timeout_s: float) -> Ping:
    """Send a new `text` until one is answered; the time is that of the one, from its first byte.

    Only the first brings its padding, and what is sent after that has the time from its beginning.
    """
    target = _target(address)
    asked: dict[bytes, int] = {}
    first = text()
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as asker:
        # Not connected, so that a target without a listener raises no error at the next send.
        begin_ns = time.monotonic_ns()
        deadline_ns = begin_ns + int(timeout_s * S)
        for number in range(first.repeats):
            if number % _BURST == _BURST - 1:
                # No more at once than buffers hold.
                time.sleep(_PAUSE_S)
            asker.sendto(first.padding, target)
        now_ns = time.monotonic_ns()
        while now_ns < deadline_ns:
            message = text()
            asked[message.mark] = begin_ns if first.repeats else now_ns
            asker.sendto(message.hello, target)
            until_ns = min(now_ns + int(_AGAIN_S * S), deadline_ns)
            mark = _answer(asker, asked, until_ns)
            now_ns = time.monotonic_ns()
            if mark is not None:
                return Ping(Answer.ANSWERED, now_ns - asked[mark])
    return Ping(Answer.SILENT, now_ns - begin_ns)


def volley_of(count: int, effect: DatagramEffect) -> tuple[int, int, int, int, float]:
    """The arguments of `volley` for `count` probes that are like the frames of the effect."""
    frame_type = FRAMES.get(effect.frames, TYPE_DATA)
    template_id = MESSAGES[effect.message].TEMPLATE_ID if effect.message else 0
    return count, frame_type, effect.stream_id, template_id, _QUIET_S + effect.jitter_ms / 1000


def volley(address: str, count: int, frame_type: int, stream_id: int, template_id: int, quiet_s: float) -> list[int]:
    """Send so many probes; the numbers of those that were answered, in that order, until none has come for so long."""
    target = _target(address)
    came: list[int] = []
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as asker:
        # After a stall all answers come at once.
        asker.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, _BUFFER_LENGTH)
        for number in range(count):
            if number % _BURST == _BURST - 1:
                came += _numbers(asker, _PAUSE_S)
            asker.sendto(probe(number, frame_type, stream_id, template_id), target)
        while more := _numbers(asker, quiet_s):
            came += more
    return came


def _target(address: str) -> tuple[str, int]:
    host, _, port = address.rpartition(":")
    return host, int(port)


def _numbers(asker: socket.socket, wait_s: float) -> list[int]:
    """The numbers of the probes that come, until none has come for `wait_s`. Padding is not a probe."""
    asker.settimeout(wait_s)
    numbers = []
    with contextlib.suppress(TimeoutError):
        while True:
            data = asker.recv(2048)
            if not is_omitted(data):
                numbers.append(int.from_bytes(data[_MARK], "little"))
    return numbers


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


def _main(arguments: Sequence[str]) -> object:
    what, address, *others = arguments
    if what == "volley":
        *numbers, quiet_s = others
        count, frame_type, stream_id, template_id = map(int, numbers)
        return volley(address, count, frame_type, stream_id, template_id, float(quiet_s))
    channel, extra_length, timeout_s = others
    return astuple(ping(address, partial(datagram_ping_text, channel, int(extra_length)), float(timeout_s)))


if __name__ == "__main__":
    print(json.dumps(_main(sys.argv[1:])))
