"""Messages on the consensus stream that this member ignores: counted, and reported once per peer and kind.

Any process that reaches the stream can send anything on it. A message that no healthy member sends is reported at once.
A message that a healthy member may send late, as around an election, is reported only when there are too many to be
explained that way. So a flood of either kind raises a counter and fills no log. A peer is a host here, because its
ports change with each connection. Does not know why a message is ignored.
"""

from collections.abc import Callable
from typing import Final

from upheaval_node.counters import Counter
from upheaval_node.peer_faults import host_of
from upheaval_node.types import Now

MAX_PAIRS: Final = 256
"""The most pairs of peer and kind that are reported separately. Beyond that, new pairs are only counted."""

MAX_LATE: Final = 100
"""The most late messages of a healthy peer, such as a leader that does not know yet that it was replaced."""


class IgnoredMessages:
    """Counts the ignored messages, and reports each peer and kind once."""

    def __init__(self, counter: Counter, report: Callable[[Now, str, str], None]) -> None:
        self._counter = counter
        self._report = report
        self._counts: dict[tuple[str, str], int] = {}

    def note(self, now: Now, peer: str, kind: str, text: object, *, may_be_late: bool = False) -> None:
        """Note one message of `peer`; `text` describes it."""
        self._counter.increment()
        host = host_of(peer)
        key = (host, kind)
        count = self._counts.get(key, 0) + 1
        if count == 1 and len(self._counts) >= MAX_PAIRS:
            return
        self._counts[key] = count
        if count == (MAX_LATE + 1 if may_be_late else 1):
            shown = str(text)[:400]
            self._report(now, "peer", f"{kind} from {host or 'nowhere'} not believed, nor any more of it: {shown}")
