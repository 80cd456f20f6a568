"""Faults of peers. Each is counted; only the first of a peer and kind is reported.

Any process that reaches a port can send anything to it. A peer is a host, or the name in its certificate: its port
changes with each connection. The kind of a fault is its text without numbers, which a peer may choose. Knows no
protocol.
"""

import re
from typing import Final

from upheaval_node.ports import ErrorSink
from upheaval_node.types import Now

MAX_PAIRS: Final = 200
"""The most pairs of peer and kind that are reported separately. All further pairs are reported as one."""

_NUMBER: Final = re.compile(r"-?\d+")
_OTHERS: Final = "others"


def host_of(peer: str) -> str:
    """Who is at the other end of a connection, without the port."""
    return peer.rpartition(":")[0] or peer


class PeerFaults:
    """`name` begins the kind under which errors are reported."""

    def __init__(self, errors: ErrorSink, name: str) -> None:
        self._errors = errors
        self._name = name
        self._known: set[tuple[str, str]] = set()
        self.count = 0

    def note(self, now: Now, peer: str, text: str) -> None:
        """One fault of `peer`, which is `host:port` or `name@host:port`."""
        self.count += 1
        key = (host_of(peer), _NUMBER.sub("N", text))
        if key in self._known:
            return
        if len(self._known) >= MAX_PAIRS:
            key = (_OTHERS, "")
            if key in self._known:
                return
        self._known.add(key)
        kind = f"{self._name}-{len(self._known)}"
        self._errors.report(now, kind, f"{key[0]}: {text} (the first of its kind from there)")
