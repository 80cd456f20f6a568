"""Messages on the consensus stream that this member ignores: counted, and reported once for each peer and kind.

Any process that reaches the stream can send anything on it. What no healthy member sends is reported at once. What a
healthy one sends late, as around an election, is reported only when there is more of it than that explains. So a flood
of either kind adds to a counter and fills no log. A peer is a host here: its ports change with each of its connections.
Knows nothing of what makes a message one of these.
"""

from collections.abc import Callable
from typing import Final

from upheaval_node.counters import Counter
from upheaval_node.peer_faults import host_of
from upheaval_node.types import Now

MAX_TOLD_APART: Final = 256
"""How many peers and kinds are reported separately; what is new after that is only counted."""

MAX_LATE: Final = 100
"""So many messages of a healthy peer may be late: those of a leader that does not know yet that it is none."""


class IgnoredMessages:
    """The count of ignored messages, and which of them were reported."""

    def __init__(self, counter: Counter, report: Callable[[Now, str, str], None]) -> None:
        self._counter = counter
        self._report = report
        self._counts: dict[tuple[str, str], int] = {}

    def note(self, now: Now, peer: str, kind: str, text: object, *, may_be_late: bool = False) -> None:
        """One message of `peer`; `text` says what was in it."""
        self._counter.increment()
        host = host_of(peer)
        key = (host, kind)
        count = self._counts.get(key, 0) + 1
        if count == 1 and len(self._counts) >= MAX_TOLD_APART:
            return
        self._counts[key] = count
        if count == (MAX_LATE + 1 if may_be_late else 1):
            shown = str(text)[:400]
            self._report(now, "peer", f"{kind} from {host or 'nowhere'} not believed, nor any more of it: {shown}")
