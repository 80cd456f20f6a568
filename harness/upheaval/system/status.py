"""The status that members report, and its meaning for a cluster. This module knows no runtime."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field

COMPONENTS = ("archive", "consensus", "service")

ROLES = ("FOLLOWER", "CANDIDATE", "LEADER")
LEADER = "LEADER"
ELECTION_CLOSED = "CLOSED"


@dataclass(frozen=True, slots=True)
class MemberStatus:
    """The status that one member publishes. Everything but `member_id` and `alive` is None or -1 when it is down.

    `leader_member_id` is the live member that leads the same term, -1 without one.
    """

    member_id: int
    alive: bool
    role: str | None = None
    leadership_term_id: int = -1
    leader_member_id: int = -1
    election_state: str | None = None
    append_position: int = -1
    commit_position: int = -1
    pids: Mapping[str, int] = field(default_factory=dict)

    @property
    def serves_as_leader(self) -> bool:
        """Whether it is the leader and its election is over, so that clients get answers."""
        return self.alive and self.role == LEADER and self.election_state == ELECTION_CLOSED

    def __str__(self) -> str:
        if not self.alive:
            return f"member {self.member_id} is down"
        if self.role is None:
            return f"member {self.member_id} runs and has not shown itself"
        return (
            f"member {self.member_id} {self.role} {self.election_state} term {self.leadership_term_id} "
            f"recorded {self.append_position} committed {self.commit_position}"
        )


def shown(statuses: Iterable[MemberStatus]) -> str:
    """A line with the last look at each member, to explain a time-out."""
    return "; ".join(map(str, statuses))


def serving_leader(statuses: Sequence[MemberStatus]) -> int | None:
    """The member id of the serving leader of the highest term."""
    serving = [status for status in statuses if status.serves_as_leader]
    return max(serving, key=lambda status: status.leadership_term_id).member_id if serving else None


def is_caught_up(statuses: Sequence[MemberStatus], member_id: int) -> bool:
    """Whether the member leads, or follows the serving leader, and its election is over.

    `statuses` is one look at all members. While any of them knows a later term than the serving leader, no member is
    caught up: that leader may be deposed without knowing its successor yet.
    """
    leader = serving_leader(statuses)
    if leader is None:
        return False
    status, term = statuses[member_id], statuses[leader].leadership_term_id
    is_latest = all(other.leadership_term_id <= term for other in statuses if other.alive)
    is_settled = status.alive and status.election_state == ELECTION_CLOSED
    return is_latest and is_settled and leader in (member_id, status.leader_member_id)
