"""What rules over members' events share: an event with its member, and what lost files mean.

An event is a line of a member's trace. A rule compares the events of one member in their order. Between members it
compares only values, because hosts' clocks differ and traces are read one after the other. This module knows no rule.
"""

from collections.abc import Iterator, Mapping, Set
from typing import Final, Protocol

from upheaval.checkers.promises import Promise
from upheaval.checkers.signature import Signature
from upheaval.checkers.verdict import Broken, Verdict
from upheaval.records import Json
from upheaval.records.jsonfields import integer
from upheaval_chaos.host_faults import HostFaultKind, ended_for_memory
from upheaval_chaos.record import FaultRecord
from upheaval_node.trace_kinds import TraceKind
from upheaval_node.types import NEVER_NS

OF_MODULE: Final = ("all", "consensus")
"""The processes of a member that hold its consensus module."""
OF_LOOP: Final = (
    TraceKind.SEND,
    TraceKind.RECEIVE,
    TraceKind.ROLE,
    TraceKind.ELECTION_STATE,
    TraceKind.LEADERSHIP_TERM,
)
"""The events of a consensus module that its loop stamps with its duty cycle, after the start event of its process."""
OF_LEADER: Final = frozenset({"CommitPosition", "NewLeadershipTerm"})
"""The messages by which a leader shows that it is there."""
DEADLY: Final = frozenset(
    {"kill", "power-cut", "die-in-change", "power-lost-in-change", "wrong-bytes", "damage", "purge", "wipe"}
)
"""The kinds of faults that end processes at once, so that no process traces its end."""
ENDING: Final = frozenset({*DEADLY, "stop", "restart"})
"""The kinds that end processes, at their injection or later."""
KILLS: Final = frozenset({"kill", "power-cut"})
"""Those that have killed the process by the end of their injection. Others end it later, or not at all."""


class Place:
    """A line of a member's trace, or of another `file` about the member."""

    __slots__ = ("file", "line", "member_id")

    def __init__(self, member_id: int, line: int, file: str = "") -> None:
        self.member_id = member_id
        self.line = line
        self.file = file

    def __str__(self) -> str:
        return f"{self.file or f'member-{self.member_id}/trace.jsonl'}:{self.line}"


class MemberEvent:
    """One event of a member; `ns` is the member's monotonic clock."""

    __slots__ = ("fields", "kind", "ns", "place")

    def __init__(self, place: Place, ns: int, kind: str, fields: Mapping[str, Json]) -> None:
        self.place = place
        self.ns = ns
        self.kind = kind
        self.fields = fields

    @property
    def member_id(self) -> int:
        """The member's id."""
        return self.place.member_id

    def integer(self, name: str) -> int:
        """An integer field. Raises `FieldError` when it is missing or is no integer."""
        return integer(self.fields, name)

    def invalid(
        self,
        detail: str,
        *others: int,
        position: int | None = None,
        signature: Signature | None = None,
        since: int | None = None,
    ) -> "BrokenIfWhole":
        """The finding that this event breaks a rule. `others` are further members that it concerns."""
        members = tuple(dict.fromkeys((self.member_id, *others)))
        text = f"{detail} ({self.place})"
        when_ns = (self.ns, self.ns)
        return BrokenIfWhole(
            Verdict.INVALID,
            text,
            members=members,
            position=position,
            signature=signature,
            since=since,
            when_ns=when_ns,
        )


class BrokenIfWhole(Broken):
    """A broken rule. It proves nothing if the trace lost a line."""


class Rules(Protocol):
    """The rules of one promise about the protocol."""

    promise: Promise

    def on_event(self, event: MemberEvent) -> None:
        """Take the next event of a member. Raises `Broken`. After an unknown result the rules take further events."""

    def at_end(self) -> Iterator[tuple[int, Broken]]:
        """Check what needs all events of all members, such as messages that were received but not traced by their
        sender.
        """

    def summary(self) -> str:
        """The evidence for the promise if no event broke it."""


def is_deadly(fault: FaultRecord, member_id: int, kinds: Set[str] = DEADLY) -> bool:
    """Whether the fault ended processes of the member: by its kind, or by a limit of memory, as the kernel counted."""
    return (fault.what in kinds and member_id in fault.members) or member_id in ended_for_memory(fault)


def deadly_until_ns(fault: FaultRecord) -> int:
    """When such a fault has ended its last process at the latest: a limit of memory does until it is lifted."""
    if fault.what != HostFaultKind.MEMORY_LIMIT:
        return fault.inject_begin_ns
    return NEVER_NS if fault.heal_begin_ns is None else fault.heal_begin_ns


def quorum_of(members: int) -> int:
    """The size of a majority."""
    return members // 2 + 1
