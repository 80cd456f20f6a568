"""Messages of peers that this member ignores, because no member in its right mind sends them: counted, and told once.

Whoever can reach the consensus stream can send anything on it. Each such message adds one to a counter; the first of
each peer and kind is reported, so that a flood fills no log. A peer is a host here: its ports change with each of its
connections. Knows nothing of what makes a message one of these.
"""

from collections.abc import Callable
from typing import Final

from upheaval_node.counters import Counter
from upheaval_node.types import Now

MAX_REPORTS: Final = 256
"""How many peers and kinds are told apart; what is new after that is only counted."""


class IgnoredMessages:
    def __init__(self, counter: Counter, report: Callable[[Now, str, str], None]) -> None:
        self._counter = counter
        self._report = report
        self._reported: set[tuple[str, str]] = set()

    def note(self, now: Now, peer: str, kind: str, text: str) -> None:
        """One message of `peer`; `text` says what was in it."""
        self._counter.increment()
        host = peer.rpartition(":")[0] or peer
        key = (host, kind)
        if key in self._reported or len(self._reported) >= MAX_REPORTS:
            return
        self._reported.add(key)
        self._report(now, "peer", f"{kind} from {host or 'nowhere'} ignored, and any more of it: {text}")
