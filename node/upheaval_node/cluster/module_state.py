"""The states of a consensus module, and the control toggles that operators set.

Theory of operation. A module starts in INIT, recovers, and is ACTIVE from its first election on: elections and states
are orthogonal. The log itself moves every member between ACTIVE, SUSPENDED and SNAPSHOT at the same entry. TERMINATING
waits for services (and on the leader for followers), CLOSED is the end. Codes are Aeron's: counter types 200, 202, 233.
"""

from enum import IntEnum
from typing import Final


class ModuleState(IntEnum):
    """The states of a consensus module, with the codes of Aeron's ConsensusModule.State."""

    INIT = 0
    ACTIVE = 1
    SUSPENDED = 2
    SNAPSHOT = 3
    QUITTING = 4
    TERMINATING = 5
    CLOSED = 6


M = ModuleState

LEGAL_MOVES: Final[dict[ModuleState, frozenset[ModuleState]]] = {
    M.INIT: frozenset({M.ACTIVE, M.CLOSED}),
    M.ACTIVE: frozenset({M.SUSPENDED, M.SNAPSHOT, M.TERMINATING, M.CLOSED}),
    M.SUSPENDED: frozenset({M.ACTIVE, M.TERMINATING, M.CLOSED}),
    M.SNAPSHOT: frozenset({M.ACTIVE, M.SUSPENDED, M.TERMINATING, M.CLOSED}),
    M.QUITTING: frozenset({M.CLOSED}),
    M.TERMINATING: frozenset({M.CLOSED}),
    M.CLOSED: frozenset(),
}
"""The next states of each state.

A roll-back at the start of an election returns to the state before the uncommitted changes: from SNAPSHOT to SUSPENDED
if not even the RESUME before the snapshot was committed.
"""

READS_LOG: Final = frozenset({M.ACTIVE, M.SUSPENDED})
"""The states in which entries are read. From SNAPSHOT on, entries wait until the services have finished with the
previous ones.
"""

TAKES_REQUESTS: Final = frozenset({M.ACTIVE, M.SUSPENDED, M.SNAPSHOT})
"""The states that take requests of backups and standbys. The answers come once the module is ACTIVE."""


class ControlToggle(IntEnum):
    """Values of the cluster control toggle (counter type 202)."""

    INACTIVE = 0
    NEUTRAL = 1
    SUSPEND = 2
    RESUME = 3
    SNAPSHOT = 4
    SHUTDOWN = 5
    ABORT = 6
    STANDBY_SNAPSHOT = 7


class NodeToggle(IntEnum):
    """Values of the node control toggle (counter type 233)."""

    INACTIVE = 0
    NEUTRAL = 1
    REPLICATE_STANDBY_SNAPSHOT = 2
    VALIDATE_RECORDING_LOG = 3
