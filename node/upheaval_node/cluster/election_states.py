"""The states of an election and the moves between them.

Theory of operation. A member that has no leader *canvasses*: it tells the others how far its log goes and hears the
same from them. Once it knows that its log is at least as good as that of all others (or, after a time-out, of a
quorum) it *nominates* itself after a random delay and asks for votes under a new term. The winner leads: it waits
until a quorum has recorded its whole log, replays what its services have not seen, opens the term's log and, when a
quorum has joined, appends the term's first entry. The others follow: they copy the terms that they miss from the
leader's archive, replay what is committed, catch up with the live log and join it. An error in any state goes back
to INIT.

Codes are Aeron's: they are published in the election-state counter (type 207). This module knows no messages.
"""

from enum import IntEnum
from typing import Final


class ElectionState(IntEnum):
    INIT = 0
    CANVASS = 1
    NOMINATE = 2
    CANDIDATE_BALLOT = 3
    FOLLOWER_BALLOT = 4
    LEADER_LOG_REPLICATION = 5
    LEADER_REPLAY = 6
    LEADER_INIT = 7
    LEADER_READY = 8
    FOLLOWER_LOG_REPLICATION = 9
    FOLLOWER_REPLAY = 10
    FOLLOWER_CATCHUP_INIT = 11
    FOLLOWER_CATCHUP_AWAIT = 12
    FOLLOWER_CATCHUP = 13
    FOLLOWER_LOG_INIT = 14
    FOLLOWER_LOG_AWAIT = 15
    FOLLOWER_READY = 16
    CLOSED = 17


class Role(IntEnum):
    """A member's role, published in counter type 201."""

    FOLLOWER = 0
    CANDIDATE = 1
    LEADER = 2


S = ElectionState

LEGAL_MOVES: Final[dict[ElectionState, frozenset[ElectionState]]] = {
    S.INIT: frozenset({S.CANVASS, S.LEADER_LOG_REPLICATION}),
    S.CANVASS: frozenset({S.INIT, S.NOMINATE, S.FOLLOWER_BALLOT, S.FOLLOWER_LOG_REPLICATION, S.FOLLOWER_REPLAY}),
    S.NOMINATE: frozenset({S.INIT, S.CANDIDATE_BALLOT, S.FOLLOWER_BALLOT}),
    S.CANDIDATE_BALLOT: frozenset(
        {
            S.INIT,
            S.CANVASS,
            S.FOLLOWER_BALLOT,
            S.LEADER_LOG_REPLICATION,
            S.FOLLOWER_LOG_REPLICATION,
            S.FOLLOWER_REPLAY,
        }
    ),
    S.FOLLOWER_BALLOT: frozenset({S.INIT, S.CANVASS, S.FOLLOWER_LOG_REPLICATION, S.FOLLOWER_REPLAY}),
    S.LEADER_LOG_REPLICATION: frozenset({S.INIT, S.LEADER_REPLAY}),
    S.LEADER_REPLAY: frozenset({S.INIT, S.LEADER_INIT}),
    S.LEADER_INIT: frozenset({S.INIT, S.LEADER_READY}),
    S.LEADER_READY: frozenset({S.INIT, S.CLOSED}),
    S.FOLLOWER_LOG_REPLICATION: frozenset({S.INIT, S.CANVASS}),
    S.FOLLOWER_REPLAY: frozenset({S.INIT, S.CANVASS, S.FOLLOWER_CATCHUP_INIT, S.FOLLOWER_LOG_INIT}),
    S.FOLLOWER_CATCHUP_INIT: frozenset({S.INIT, S.FOLLOWER_CATCHUP_AWAIT}),
    S.FOLLOWER_CATCHUP_AWAIT: frozenset({S.INIT, S.FOLLOWER_CATCHUP}),
    S.FOLLOWER_CATCHUP: frozenset({S.INIT, S.FOLLOWER_LOG_INIT}),
    S.FOLLOWER_LOG_INIT: frozenset({S.INIT, S.FOLLOWER_LOG_AWAIT, S.FOLLOWER_READY}),
    S.FOLLOWER_LOG_AWAIT: frozenset({S.INIT, S.FOLLOWER_READY}),
    S.FOLLOWER_READY: frozenset({S.INIT, S.CLOSED}),
    S.CLOSED: frozenset(),
}
"""Where each state may go. INIT is reached from everywhere by an error."""

ROLE_ON_ENTRY: Final[dict[ElectionState, Role]] = {
    S.CANVASS: Role.FOLLOWER,
    S.CANDIDATE_BALLOT: Role.CANDIDATE,
    S.LEADER_LOG_REPLICATION: Role.LEADER,
    S.FOLLOWER_LOG_REPLICATION: Role.FOLLOWER,
    S.FOLLOWER_REPLAY: Role.FOLLOWER,
}
"""The role that a state brings; a state that is not listed leaves the role as it is."""

VOTING_STATES: Final = frozenset({S.CANVASS, S.NOMINATE, S.CANDIDATE_BALLOT, S.FOLLOWER_BALLOT})
"""Where a vote can be granted; in all later states a request with an equal or better log stays unanswered."""
