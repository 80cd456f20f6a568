"""How far the news of a snapshot has come to one member, and the moves between these states.

Knows neither messages nor members.
"""

from enum import Enum, auto
from typing import Final


class NoticeState(Enum):
    """Of one member."""

    IDLE = auto()
    """There is nothing to tell."""

    PROBING = auto()
    """It is asked whether it takes requests: one that elects does not, and says nothing of what it leaves out."""

    TOLD = auto()
    """It was sent the notice, and is asked again: an answer says that it took what came before."""


N = NoticeState

LEGAL_MOVES: Final = {
    N.IDLE: frozenset({N.PROBING}),
    N.PROBING: frozenset({N.TOLD, N.IDLE}),
    N.TOLD: frozenset({N.PROBING, N.IDLE}),
}
