"""The end that a leader announces to its followers, and their acknowledgements, by their traces.

The leader ends last: when all others have acknowledged, or after the termination time-out. A follower acknowledges
once, before it ends. Knows no files.
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Final

from upheaval.checkers.evidence.troubles import MARGIN_NS, Trouble
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
            self.announced, self.term = _number(fields, "log_position"), _number(fields, _TERM)
        elif message == _ACK and event.event == TraceKind.SEND:
            self.has_acknowledged = True
        elif message == _ACK and event.event == TraceKind.RECEIVE and fields.get(_TERM) == self.term:
            self.acknowledged_by.add(_number(fields, "member_id"))


@dataclass(frozen=True, slots=True)
class Ended:
    """A member that ended with its cluster: position, time, its term, and the term of the leader that ordered
    the end.
    """

    member_id: int
    position: int
    ended_ns: int
    term_id: int
    requested_term_id: int
    acks: EndingAcks


def problems(
    ended: Mapping[int, Ended], members: int, timeout_ns: int, faults: Sequence[Trouble]
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


def _number(fields: Mapping[str, object], name: str) -> int:
    value = fields.get(name)
    return value if type(value) is int else -1
