"""The end that a leader announces to its followers, and their acknowledgements, by their traces.

The leader ends last: when all others have acknowledged, or after the termination time-out. A follower acknowledges
once, before it ends. Knows no files.
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Final

from upheaval.checkers.evidence.troubles import MARGIN_NS, Trouble
from upheaval.checkers.verdict import Broken, Verdict
from upheaval.records import TraceEvent
from upheaval_node.trace_kinds import TraceKind

_POSITION: Final = "TerminationPosition"
_ACK: Final = "TerminationAck"
_TERM: Final = "leadership_term_id"


@dataclass(slots=True)
class EndingAcks:
    """The messages of one start of a member. `announced` is the last end position that it sent, in `term`; -1
    if none.
    """

    announced: int = -1
    announced_ns: int = -1
    term: int = -1
    acknowledged_by: set[int] = field(default_factory=set)
    """The members whose acknowledgement it received in that term."""
    has_acknowledged: bool = False
    """Whether it sent an acknowledgement."""

    def look_at(self, event: TraceEvent) -> None:
        """Note a message of the trace."""
        fields = event.fields
        message = fields.get("message")
        if message == _POSITION and event.event == TraceKind.SEND:
            if fields.get(_TERM) != self.term:
                self.acknowledged_by.clear()
                self.announced_ns = event.ns
            self.announced, self.term = event.number("log_position"), event.number(_TERM)
        elif message == _ACK and event.event == TraceKind.SEND:
            self.has_acknowledged = True
        elif message == _ACK and event.event == TraceKind.RECEIVE and fields.get(_TERM) == self.term:
            self.acknowledged_by.add(event.number("member_id"))


@dataclass(slots=True)
class Life:
    """One start of a member, as its trace shows it. `position` is -1 if it did not come to an orderly end.

    `term_id` is the term of the member, `requested_term_id` that of the leader that ordered the end. `services` is the
    number of services that had to end; `ends` maps a service id to the positions at which it was ordered to end.
    `ended_ns` is the time of the end, `next_ns` that of the next start, and `next_append` the append position then.
    """

    member_id: int
    position: int = -1
    term_id: int = -1
    requested_term_id: int = -1
    services: int = 0
    ends: dict[int, list[int]] = field(default_factory=dict)
    statuses: dict[str, int] = field(default_factory=dict)
    """The exit status of each process."""
    module: str = ""
    """The process that holds the consensus module."""
    ended_ns: int = -1
    next_ns: int | None = None
    next_append: int | None = None
    acks: EndingAcks = field(default_factory=EndingAcks)

    @property
    def has_ended(self) -> bool:
        """Whether the member came to an orderly end."""
        return self.position >= 0

    def broken(self, what: str, verdict: Verdict = Verdict.INVALID) -> Broken:
        """Make a `Broken` about the end of this life."""
        detail = f"member {self.member_id}, which ended at {self.position}, {what}"
        return Broken(verdict, detail, members=(self.member_id,), position=self.position)


def problems(
    ended: Mapping[int, Life], members: int, timeout_ns: int, faults: Sequence[Trouble]
) -> Iterator[tuple[int, str]]:
    """Yield each member that did not follow the rules, and what it did wrong. All of `ended` followed one leader's
    order.

    `members` is the size of the cluster. An acknowledgement may be lost in a fault of either side.
    """
    leader = next((end for end in ended.values() if end.acks.term == end.requested_term_id >= 0), None)
    if leader is None:
        return
    acks = leader.acks
    if acks.announced != leader.position:
        yield leader.member_id, f"announced the end at {acks.announced}"
    missing = sorted(set(range(members)) - {leader.member_id} - acks.acknowledged_by)
    if missing and leader.ended_ns < acks.announced_ns + timeout_ns:
        yield leader.member_id, f"did not wait for the acknowledgement of member {missing[0]}"
        return
    # A member that ended late may have had no leader left to send its acknowledgement to.
    early_ns = acks.announced_ns + timeout_ns // 2
    for member_id in missing:
        follower = ended.get(member_id)
        if follower is None or follower.ended_ns >= early_ns or follower.term_id != leader.term_id:
            continue
        # What happens after its end cannot have kept it from acknowledging.
        both = (leader.member_id, member_id)
        if any(fault.hits(one, acks.announced_ns - MARGIN_NS, follower.ended_ns) for fault in faults for one in both):
            continue
        if not follower.acks.has_acknowledged:
            yield member_id, "did not acknowledge that to its leader"
