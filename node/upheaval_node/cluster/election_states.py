"""The states of an election and the moves between them.

Theory of operation. A member that has no leader *canvasses*: it sends the others the end of its log and learns the ends
of theirs. Once its log is known to be at least as good as the logs of all others (or, after a time-out, of a quorum),
it *nominates* itself after a random delay and asks for votes under a new term. The winner leads: it waits until a
quorum has recorded its whole log, replays what its services have not seen, opens the term's log and, when a quorum has
joined, appends the term's first entry. The others follow: they copy the terms that they miss from the leader's archive,
replay what is committed, catch up with the live log and join it. An error in any state leads back to INIT.

Codes are Aeron's: they are published in the election-state counter (type 207). This module knows no messages.
"""

from enum import IntEnum
from typing import Final

from upheaval_node.types import ClusterRole


class ElectionState(IntEnum):
    """The states of an election, with the codes of Aeron's ElectionState."""

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


Role = ClusterRole
S = ElectionState

MOVES: Final[dict[ElectionState, dict[ElectionState, str]]] = {
    S.INIT: {S.CANVASS: "several members", S.LEADER_LOG_REPLICATION: "the only member"},
    S.CANVASS: {
        S.NOMINATE: "all would vote for it; after the canvass time-out a quorum would; or bound by a later vote",
        S.FOLLOWER_BALLOT: "vote granted",
        S.FOLLOWER_LOG_REPLICATION: "a leader, terms are missing",
        S.FOLLOWER_REPLAY: "a leader, no terms are missing",
    },
    S.NOMINATE: {S.CANDIDATE_BALLOT: "random delay is over", S.FOLLOWER_BALLOT: "vote granted"},
    S.CANDIDATE_BALLOT: {
        S.CANVASS: "no quorum in the election time-out; or a leader of this term with another log term",
        S.FOLLOWER_BALLOT: "vote granted in a later term",
        S.LEADER_LOG_REPLICATION: "all votes; after the election time-out those of a quorum",
        S.FOLLOWER_LOG_REPLICATION: "a leader of this term, terms are missing",
        S.FOLLOWER_REPLAY: "a leader of this term, no terms are missing",
    },
    S.FOLLOWER_BALLOT: {
        S.CANVASS: "no leader in the election time-out; or the leader with another log term",
        S.FOLLOWER_LOG_REPLICATION: "the leader, terms are missing",
        S.FOLLOWER_REPLAY: "the leader, no terms are missing",
    },
    S.LEADER_LOG_REPLICATION: {S.LEADER_REPLAY: "a quorum has the whole log"},
    S.LEADER_REPLAY: {S.LEADER_INIT: "log replayed, or nothing to replay"},
    S.LEADER_INIT: {S.LEADER_READY: "log recorded and joined by the services"},
    S.LEADER_READY: {S.CLOSED: "a quorum is in the term, its first entry is appended"},
    S.FOLLOWER_LOG_REPLICATION: {S.CANVASS: "term replicated and committed"},
    S.FOLLOWER_REPLAY: {
        S.CANVASS: "nothing committed to replay, or not all of it",
        S.FOLLOWER_CATCHUP_INIT: "replayed, the leader is ahead",
        S.FOLLOWER_LOG_INIT: "replayed, the leader is not ahead",
    },
    S.FOLLOWER_CATCHUP_INIT: {S.FOLLOWER_CATCHUP_AWAIT: "replay asked for"},
    S.FOLLOWER_CATCHUP_AWAIT: {S.FOLLOWER_CATCHUP: "log joined"},
    S.FOLLOWER_CATCHUP: {S.FOLLOWER_LOG_INIT: "caught up, the replay has ended"},
    S.FOLLOWER_LOG_INIT: {S.FOLLOWER_LOG_AWAIT: "log subscribed", S.FOLLOWER_READY: "log joined while catching up"},
    S.FOLLOWER_LOG_AWAIT: {S.FOLLOWER_READY: "log joined"},
    S.FOLLOWER_READY: {S.CLOSED: "position reported"},
    S.CLOSED: {},
}
"""The next states of each state, and why. A failure leads from every state but INIT and CLOSED to INIT."""

LEGAL_MOVES: Final[dict[ElectionState, frozenset[ElectionState]]] = {
    old: frozenset(targets) | (frozenset() if old in (S.INIT, S.CLOSED) else {S.INIT}) for old, targets in MOVES.items()
}
"""The next states of each state as sets, with the move to INIT after a failure."""

ROLE_ON_ENTRY: Final[dict[ElectionState, Role]] = {
    S.CANVASS: Role.FOLLOWER,
    S.CANDIDATE_BALLOT: Role.CANDIDATE,
    S.LEADER_LOG_REPLICATION: Role.LEADER,
    S.FOLLOWER_LOG_REPLICATION: Role.FOLLOWER,
    S.FOLLOWER_REPLAY: Role.FOLLOWER,
}
"""The role on entry of a state. A state that is not listed keeps the role."""

AWAITING_QUORUM: Final = frozenset({S.LEADER_LOG_REPLICATION, S.LEADER_READY})
"""The states in which a leader awaits a quorum without a time-out. It gives up when a leader of a later term
appears.
"""

VOTING_STATES: Final = frozenset({S.CANVASS, S.NOMINATE, S.CANDIDATE_BALLOT, S.FOLLOWER_BALLOT})
"""The states in which a vote can be granted. In later states a request with an equal or better log gets no answer."""
