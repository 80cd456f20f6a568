"""The progress of a snapshot's notice to one member, and the moves between these states.

The module knows neither messages nor members.
"""

from enum import Enum, auto
from typing import Final


class NoticeState(Enum):
    """The progress of the notice to one member."""

    IDLE = auto()
    """No notice is due."""

    PROBING = auto()
    """A heartbeat is requested: a member in an election takes no requests, and drops them without an answer."""

    SENT = auto()
    """The notice was sent, and another heartbeat requested: its answer shows that the member took what came before."""


N = NoticeState

LEGAL_MOVES: Final = {
    N.IDLE: frozenset({N.PROBING}),
    N.PROBING: frozenset({N.SENT, N.IDLE}),
    N.SENT: frozenset({N.PROBING, N.IDLE}),
}
