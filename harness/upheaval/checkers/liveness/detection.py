"""Lapses: silences after which a member should have given up its leader, or a leader its quorum, and did not.

A member judges others by its own clock and by the messages that reached it, so its trace alone decides. A fault of a
link is no excuse: the member must notice it. A member whose module is not active does not check. This module knows no
faults.
"""

from dataclasses import dataclass, field
from typing import Final

from upheaval.checkers.evidence.protocol_events import OF_LEADER
from upheaval.records import Json, TraceEvent
from upheaval_node.trace_kinds import TraceKind

_OF_FOLLOWER: Final = "AppendPosition"
_OF_END: Final = "TerminationPosition"


@dataclass(frozen=True, slots=True)
class Lapse:
    """A silence in which a member stayed in its term, and the trace line that ends it."""

    member_id: int
    is_leader: bool
    begin_ns: int
    end_ns: int
    line: int
    allowed_ns: int


@dataclass(slots=True)
class Contact:
    """The trace of one member. `needed` is the number of followers that make a quorum with their leader.

    Silences longer than `allowed_ns` are lapses. A follower that was asked to end may wait `patience_ns` longer, since
    a leader that ends the cluster may be gone first (docs/protocol.md, E17).
    """

    member_id: int
    needed: int
    allowed_ns: int
    patience_ns: int
    lapses: list[Lapse] = field(default_factory=list)
    stalls: list[tuple[int, int]] = field(default_factory=list)
    """The stalls of its loop: begin and end."""
    _since_ns: int | None = None
    """Since when it is in a term with an active module; None for not."""
    _is_in_term: bool = False
    _is_active: bool = True
    _leads: bool = False
    _term: Json = None
    _is_to_end: bool = False
    """Whether its leader in this term asked it to end."""
    _heard_ns: dict[Json, int] = field(default_factory=dict)
    """When it last heard from each other member of the term."""
    _component: Json = None
    """The process that holds the consensus module."""
    _last: TraceEvent | None = None
    """The last trace line of that process, without those about stalls: it had no time to look after them."""

    def add(self, event: TraceEvent) -> None:
        """Take the next trace line."""
        match event.event:
            case TraceKind.PROCESS_START:
                self.end()
                self._is_in_term, self._is_active, self._since_ns = False, True, None
            case TraceKind.LEADERSHIP_TERM if event.fields.get("source") == "election":
                self._is_in_term, self._leads = True, event.fields.get("leader_member_id") == self.member_id
                self._term, self._is_to_end = event.fields.get("leadership_term_id"), False
                self._component = event.fields.get("component")
                self._begin(event.ns)
            case TraceKind.ELECTION_STATE if event.fields.get("state") == "CLOSED":
                pass
            case TraceKind.ELECTION_STATE | TraceKind.CLUSTER_END:
                self._leave(event)
            case TraceKind.PROCESS_END if event.fields.get("component") == self._component:
                self._leave(event)
            case TraceKind.MODULE_STATE:
                self._look(event)
                self._is_active = event.fields.get("new") == "ACTIVE"
                self._begin(event.ns)
            case TraceKind.RECEIVE if self._is_other(event):
                self._look(event)
                who = "follower_member_id" if self._leads else "leader_member_id"
                self._heard_ns[event.fields.get(who)] = event.ns
            case TraceKind.RECEIVE if self._is_asked_to_end(event):
                self._look(event)
                self._is_to_end = True
            case TraceKind.LOOP_STALL:
                stall_ns = event.fields.get("stall_ns")
                self.stalls.append((event.ns - (stall_ns if isinstance(stall_ns, int) else 0), event.ns))
        if event.event != TraceKind.LOOP_STALL and event.fields.get("component") == self._component:
            self._last = event

    def end(self) -> None:
        """End the trace of a process. A killed process may have been silent up to its last line."""
        if self._last is not None:
            self._look(self._last)
            self._last = None

    def _leave(self, event: TraceEvent) -> None:
        self._look(event)
        self._is_in_term, self._since_ns = False, None

    def _begin(self, ns: int) -> None:
        self._since_ns = ns if self._is_in_term and self._is_active else None
        self._heard_ns.clear()

    def _is_other(self, event: TraceEvent) -> bool:
        """Whether it shows that the leader, or a follower of this leader, is there. Terms do not count here."""
        message = event.fields.get("message")
        return message == _OF_FOLLOWER if self._leads else message in OF_LEADER

    def _is_asked_to_end(self, event: TraceEvent) -> bool:
        """Whether it is the request to end of the leader that this member follows: the node ignores any other."""
        is_request = event.fields.get("message") == _OF_END and event.fields.get("leadership_term_id") == self._term
        return is_request and self._is_in_term and not self._leads

    def _look(self, event: TraceEvent) -> None:
        if self._since_ns is None:
            return
        needed = self.needed if self._leads else 1
        heard_ns = sorted(self._heard_ns.values(), reverse=True)
        begin_ns = heard_ns[needed - 1] if len(heard_ns) >= needed else self._since_ns
        allowed_ns = self.allowed_ns + (self.patience_ns if self._is_to_end else 0)
        if event.ns - begin_ns > allowed_ns:
            self.lapses.append(Lapse(self.member_id, self._leads, begin_ns, event.ns, event.line, allowed_ns))
