"""The state machines of a service container, as data.

Theory of operation. A container first waits for two counters of its consensus module: the commit position, which limits
what may be delivered, and the recovery state, which names the starting point. The container reads the snapshot named
there, runs `on_start`, acknowledges with number 0 and is ACTIVE. From then on the module names each log to read
(JoinLog): first replays of its own recording, then the live log, and again at every election. A log is read up to the
commit position and up to the position at which the next log joins. The module ends the container with
ServiceTerminationPosition.

The codes are ours: Aeron's clustered service agent waits in loops where this container has states.
"""

from collections.abc import Mapping
from enum import IntEnum
from types import MappingProxyType
from typing import Final


class ContainerState(IntEnum):
    """The states of a container. Their codes do not follow the order in which they occur."""

    AWAIT_COMMIT_COUNTER = 0
    AWAIT_RECOVERY_STATE = 1
    AWAIT_START_ACK = 2
    ACTIVE = 3
    TERMINATING = 4
    CLOSED = 5
    AWAIT_SNAPSHOT = 6


class LogState(IntEnum):
    """The states of the container's log."""

    NONE = 0
    AWAIT_IMAGE = 1
    AWAIT_JOIN_ACK = 2
    READING = 3


LEGAL_MOVES: Final[Mapping[ContainerState, frozenset[ContainerState]]] = MappingProxyType(
    {
        ContainerState.AWAIT_COMMIT_COUNTER: frozenset({ContainerState.AWAIT_RECOVERY_STATE, ContainerState.CLOSED}),
        ContainerState.AWAIT_RECOVERY_STATE: frozenset(
            {ContainerState.AWAIT_SNAPSHOT, ContainerState.AWAIT_START_ACK, ContainerState.CLOSED}
        ),
        ContainerState.AWAIT_SNAPSHOT: frozenset({ContainerState.AWAIT_START_ACK, ContainerState.CLOSED}),
        ContainerState.AWAIT_START_ACK: frozenset({ContainerState.ACTIVE, ContainerState.CLOSED}),
        ContainerState.ACTIVE: frozenset({ContainerState.TERMINATING, ContainerState.CLOSED}),
        ContainerState.TERMINATING: frozenset({ContainerState.CLOSED}),
        ContainerState.CLOSED: frozenset(),
    }
)

LEGAL_LOG_MOVES: Final[Mapping[LogState, frozenset[LogState]]] = MappingProxyType(
    {
        LogState.NONE: frozenset({LogState.AWAIT_IMAGE}),
        LogState.AWAIT_IMAGE: frozenset({LogState.AWAIT_JOIN_ACK, LogState.NONE}),
        LogState.AWAIT_JOIN_ACK: frozenset({LogState.READING, LogState.NONE}),
        LogState.READING: frozenset({LogState.NONE}),
    }
)
