"""The members of a cluster: their endpoints, what this node knows of each, and the arithmetic of quorums.

Knows nothing of messages, channels or time-outs, except for the time-out after which a silent member is inactive.
Source of the rules: Aeron Cluster, member activity, candidate eligibility and quorum position.
"""

from collections.abc import Container, Iterable
from dataclasses import dataclass, field
from typing import Final

from upheaval_node.errors import UsageError
from upheaval_node.types import LOG_START, NULL_POSITION, NULL_TERM_ID, NULL_VALUE, MemberId, Now, Ns, Position, TermId


@dataclass(frozen=True, slots=True)
class Endpoints:
    """The endpoints of a member, each `host:port`."""

    ingress: str
    consensus: str
    log: str
    catchup: str
    archive: str


@dataclass(slots=True)
class ClusterMember:
    """One member as this node sees it, with the positions and votes of its last messages."""

    id: MemberId
    endpoints: Endpoints
    leadership_term_id: TermId = NULL_TERM_ID
    log_position: Position = NULL_POSITION
    time_of_last_append_position_ns: Ns | None = None
    candidate_term_id: TermId = NULL_TERM_ID
    vote: bool | None = None
    is_ballot_sent: bool = False
    is_leader: bool = False
    has_terminated: bool = False
    catchup_replay_session_id: int = NULL_VALUE
    extra_endpoints: tuple[str, ...] = field(default=())

    def reset(self) -> None:
        """Forget the state of an election. The time of last activity and the catch-up replay id are kept."""
        self.is_ballot_sent = False
        self.is_leader = False
        self.has_terminated = False
        self.vote = None
        self.candidate_term_id = NULL_TERM_ID
        self.leadership_term_id = NULL_TERM_ID
        self.log_position = NULL_POSITION

    def record(self, leadership_term_id: TermId, log_position: Position, now_ns: Ns) -> None:
        """Note a position that this member has just reported."""
        self.leadership_term_id = leadership_term_id
        self.log_position = log_position
        self.time_of_last_append_position_ns = now_ns

    def is_active(self, now_ns: Ns, timeout_ns: int) -> bool:
        """Whether the member was heard from within `timeout_ns`."""
        last = self.time_of_last_append_position_ns
        return last is not None and last + timeout_ns > now_ns

    def encode(self) -> str:
        """This member's part of a members string."""
        e = self.endpoints
        return ",".join((str(self.id), e.ingress, e.consensus, e.log, e.catchup, e.archive, *self.extra_endpoints))


def parse_members(text: str) -> dict[int, ClusterMember]:
    """Parse `id,ingress,consensus,log,catchup,archive[,archiveResponse[,egressResponse]]|...` into members by id.

    Raises `UsageError` for a wrong number of attributes, or an id that is not a number or occurs twice.
    """
    members: dict[int, ClusterMember] = {}
    for part in text.split("|"):
        attributes = part.split(",")
        if not 6 <= len(attributes) <= 8 or not all(attributes):
            raise UsageError(f"member {part!r} needs id and five to seven endpoints, separated by commas")
        try:
            member_id = MemberId(int(attributes[0]))
        except ValueError:
            raise UsageError(f"member id {attributes[0]!r} is not a number") from None
        if member_id in members:
            raise UsageError(f"duplicate member id {member_id}")
        members[member_id] = ClusterMember(
            member_id, Endpoints(*attributes[1:6]), extra_endpoints=tuple(attributes[6:])
        )
    return members


def encode_members(members: Iterable[ClusterMember]) -> str:
    """The members string: `id,ingress,consensus,log,catchup,archive|...`."""
    return "|".join(member.encode() for member in members)


def ingress_endpoints(members: Iterable[ClusterMember]) -> str:
    """`id=host:port,...` in member order, as clients get it with a redirect or a new leader."""
    return ",".join(f"{member.id}={member.endpoints.ingress}" for member in members)


def quorum_threshold(member_count: int) -> int:
    """The size of a majority of `member_count` members."""
    return member_count // 2 + 1


def quorum_position(
    members: Iterable[ClusterMember], now_ns: Ns, timeout_ns: int, log_terms: Container[int] | None = None
) -> Position:
    """The highest position that a quorum of members has reported. Inactive members count as position 0.

    With `log_terms`, so do members that reported another term: their log may be longer and still differ from some
    position on.
    """
    positions = sorted(
        (
            max(m.log_position, LOG_START)
            if m.is_active(now_ns, timeout_ns) and (log_terms is None or m.leadership_term_id in log_terms)
            else LOG_START
            for m in members
        ),
        reverse=True,
    )
    return positions[quorum_threshold(len(positions)) - 1]


def has_active_quorum(members: Iterable[ClusterMember], now_ns: Ns, timeout_ns: int) -> bool:
    """Whether a majority was heard from within the time-out."""
    active = [m.is_active(now_ns, timeout_ns) for m in members]
    return sum(active) >= quorum_threshold(len(active))


def has_quorum_at_position(
    members: Iterable[ClusterMember], leadership_term_id: TermId, position: Position, now_ns: Ns, timeout_ns: int
) -> bool:
    """Whether a quorum of active members is in this term and has recorded up to `position`."""
    there = [
        m.is_active(now_ns, timeout_ns) and m.leadership_term_id == leadership_term_id and m.log_position >= position
        for m in members
    ]
    return sum(there) >= quorum_threshold(len(there))


class Membership:
    """All members, as one of them sees them. A member that was silent for the time-out is inactive and does
    not count.
    """

    def __init__(self, members: dict[int, ClusterMember], member_id: MemberId, timeout_ns: int) -> None:
        self.by_id: Final = members
        self.own: Final = members[member_id]
        self._timeout_ns = timeout_ns

    @property
    def all(self) -> Iterable[ClusterMember]:
        """All configured members, this one included."""
        return self.by_id.values()

    @property
    def others(self) -> list[ClusterMember]:
        """All members except this one."""
        return [member for member in self.by_id.values() if member is not self.own]

    def quorum_position(self, now: Now, log_terms: Container[int] | None) -> Position:
        """The position up to which a quorum of active members has recorded the log of these terms; None: of any."""
        return quorum_position(self.all, now.ns, self._timeout_ns, log_terms)

    def has_quorum_at(self, now: Now, leadership_term_id: TermId, position: Position) -> bool:
        """Whether a quorum of active members is in this term and has recorded up to `position`."""
        return has_quorum_at_position(self.all, leadership_term_id, position, now.ns, self._timeout_ns)

    def has_active_quorum(self, now: Now) -> bool:
        """Whether a quorum was heard from within the time-out."""
        return has_active_quorum(self.all, now.ns, self._timeout_ns)


def compare_logs(term_a: int, position_a: int, term_b: int, position_b: int) -> int:
    """Negative, zero or positive if log A is behind, equal to or ahead of log B. The term counts before the
    position.
    """
    a, b = (term_a, position_a), (term_b, position_b)
    return (a > b) - (a < b)


def _would_vote_for(member: ClusterMember, candidate: ClusterMember) -> bool:
    if member.log_position == NULL_POSITION:
        return False
    return (
        compare_logs(
            member.leadership_term_id, member.log_position, candidate.leadership_term_id, candidate.log_position
        )
        <= 0
    )


def earlier_in_turn(members: Iterable[ClusterMember], candidate: ClusterMember, absent_leader_id: MemberId) -> int:
    """The number of other members with a lower id whose log is at least as good as the candidate's."""
    asked = [m for m in members if m.id not in (candidate.id, absent_leader_id)]
    return sum(m.id < candidate.id and _would_vote_for(candidate, m) for m in asked)


def is_unanimous_candidate(
    members: Iterable[ClusterMember], candidate: ClusterMember, absent_leader_id: MemberId
) -> bool:
    """Whether all members but a leader that has left would vote for the candidate, and are a quorum of all members."""
    everyone = list(members)
    asked = [m for m in everyone if m.id != absent_leader_id]
    return all(_would_vote_for(m, candidate) for m in asked) and len(asked) >= quorum_threshold(len(everyone))


def is_quorum_candidate(members: Iterable[ClusterMember], candidate: ClusterMember) -> bool:
    """Whether a majority is known to vote for the candidate's log."""
    votes = [_would_vote_for(m, candidate) for m in members]
    return sum(votes) >= quorum_threshold(len(votes))


def is_unanimous_leader(
    members: Iterable[ClusterMember], candidate_term_id: TermId, absent_leader_id: MemberId
) -> bool:
    """Whether all members but a leader that has left granted their vote, and are a majority of all members."""
    everyone = list(members)
    asked = [m for m in everyone if m.id != absent_leader_id]
    granted = [m.candidate_term_id == candidate_term_id and m.vote is True for m in asked]
    return all(granted) and len(granted) >= quorum_threshold(len(everyone))


def is_quorum_leader(members: Iterable[ClusterMember], candidate_term_id: TermId) -> bool:
    """Whether a quorum granted its vote and no member refused it."""
    everyone = list(members)
    votes = [m.vote for m in everyone if m.candidate_term_id == candidate_term_id]
    return False not in votes and votes.count(True) >= quorum_threshold(len(everyone))
