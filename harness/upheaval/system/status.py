"""The handles of a running cluster: what tests, chaos and the command line hold in their hands.

A runtime (process, simulated, docker) fills these shapes; this module knows none of them.
"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Protocol

from upheaval.records import Converge, RunFolder

COMPONENTS = ("archive", "consensus", "service")

ROLES = ("FOLLOWER", "CANDIDATE", "LEADER")
LEADER = "LEADER"
ELECTION_CLOSED = "CLOSED"


@dataclass(frozen=True, slots=True)
class MemberStatus:
    """What one member publishes about itself. Everything but `member_id` and `alive` is None or -1 when it is down.

    `leader_member_id` is the live member that leads the same term, -1 when there is none.
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
    """What was seen of each member, in one line, for whoever reads why a wait came to nothing."""
    return "; ".join(map(str, statuses))


def serving_leader(statuses: Sequence[MemberStatus]) -> int | None:
    """The member id of the serving leader of the highest term."""
    serving = [status for status in statuses if status.serves_as_leader]
    return max(serving, key=lambda status: status.leadership_term_id).member_id if serving else None


def is_caught_up(statuses: Sequence[MemberStatus], member_id: int) -> bool:
    """Whether the member leads, or follows the member that does, with its election over.

    `statuses` is one look at all members. While any of them knows of a later term than that of the serving leader,
    nobody is caught up: that leader may be one of old that has yet to learn of its successor.
    """
    leader = serving_leader(statuses)
    if leader is None:
        return False
    status, term = statuses[member_id], statuses[leader].leadership_term_id
    is_latest = all(other.leadership_term_id <= term for other in statuses if other.alive)
    is_settled = status.alive and status.election_state == ELECTION_CLOSED
    return is_latest and is_settled and leader in (member_id, status.leader_member_id)


class Member(Protocol):
    """One member of a cluster."""

    @property
    def member_id(self) -> int:
        """The id of the member, from 0 on."""

    def kill(self, component: str | None = None) -> None:
        """End the member, or one component of it, without any notice. Returns when it is gone."""

    def start(self) -> None:
        """Start what is not running of this member. Returns at once; the member joins by itself."""

    def stop(self) -> None:
        """Ask the member to end in an orderly way, and wait until it has."""


class Cluster(Protocol):
    """A cluster of members with a run folder."""

    @property
    def run(self) -> RunFolder:
        """The run folder."""

    @property
    def members(self) -> Sequence[Member]:
        """The members in the order of their ids."""

    def status(self) -> list[MemberStatus]:
        """What each member says of itself now."""

    def leader(self) -> int | None:
        """The member id of the leader that serves, if there is one now."""

    def wait_until_leader(self, timeout_s: float) -> int:
        """The member id of a leader that serves. Raises `UnknownOutcome` when there is none in time."""

    def converge(self, timeout_s: float) -> Converge:
        """Wait until all members stand at one position, and write it to the manifest. There must be no load."""

    def down(self) -> None:
        """End everything; nothing is left but the run folder."""
