"""What the trace of a member shows of each leadership term: when it led, and how positions moved.

Pure facts; this module knows no promise. Steps are kept as arrays: a long run has very many of them.
"""

from array import array
from bisect import bisect_left
from dataclasses import dataclass, field
from typing import Final

from upheaval.checkers.evidence.protocol_events import OF_MODULE
from upheaval.records import TraceEvent
from upheaval_node.trace_kinds import TraceKind
from upheaval_node.types import NEVER_NS

_OVER: Final = "CLOSED"
"""The state of an election that is over."""
_CATCHUP_FLAG: Final = 1
_NONE: Final = -1


@dataclass(frozen=True, slots=True)
class Moment:
    """When a line of a trace was written."""

    ns: int
    line: int


class Steps:
    """A position that rises: the lines that moved it further than any line before them."""

    __slots__ = ("_lines", "_ns", "_positions")

    def __init__(self) -> None:
        self._ns = array("q")
        self._lines = array("q")
        self._positions = array("q")

    def add(self, event: TraceEvent, position: int) -> None:
        """Take the next line that names a position."""
        if position > self.highest:
            self._ns.append(event.ns)
            self._lines.append(event.line)
            self._positions.append(position)

    @property
    def highest(self) -> int:
        """The highest position, -1 without any."""
        return self._positions[-1] if self._positions else _NONE

    def first_from(self, position: int) -> Moment | None:
        """When a position at or past that one was named first; None when none was."""
        index = bisect_left(self._positions, position)
        return Moment(self._ns[index], self._lines[index]) if index < len(self._ns) else None


@dataclass(slots=True)
class Lead:
    """From when to when a member led a term, as far as its trace shows; of one that was killed to its next start."""

    begin_ns: int
    line: int
    end_ns: int = NEVER_NS


@dataclass(slots=True)
class TermFacts:
    """Of one member and one leadership term."""

    leads: list[Lead] = field(default_factory=list)
    sent: Steps = field(default_factory=Steps)
    """What it called committed as the leader (CommitPosition)."""
    heard: Steps = field(default_factory=Steps)
    """What it heard to be committed (CommitPosition)."""
    announced: Steps = field(default_factory=Steps)
    """What it heard to be committed when it joined the term (NewLeadershipTerm)."""
    appended: Steps = field(default_factory=Steps)
    """What it reported to have recorded (AppendPosition); of a member that catches up in the term that it has read."""
    reports: dict[int, Steps] = field(default_factory=dict)
    """By follower, what that reported to it while it led (AppendPosition)."""


class TermReader:
    """Follows the lines of one member's trace."""

    def __init__(self) -> None:
        self.terms: dict[int, TermFacts] = {}
        self.has_caught_up = False
        """Whether the member reported anything of a log that it caught up with, under whatever term."""
        self._led: TermFacts | None = None

    def add(self, member_id: int, event: TraceEvent) -> None:
        """The next line."""
        match event.event:
            case TraceKind.SEND | TraceKind.RECEIVE:
                self._on_message(event)
            case TraceKind.LEADERSHIP_TERM if event.fields.get("source") == "election":
                term = event.fields.get("leadership_term_id")
                if event.fields.get("leader_member_id") == member_id and type(term) is int:
                    self._led = self._term(term)
                    self._led.leads.append(Lead(event.ns, event.line))
            case TraceKind.ELECTION_STATE if event.fields.get("state") != _OVER:
                self._end(event.ns)
            case TraceKind.PROCESS_START | TraceKind.PROCESS_END if event.fields.get("component") in OF_MODULE:
                self._end(event.ns)

    def _end(self, ns: int) -> None:
        if self._led is not None:
            self._led.leads[-1].end_ns, self._led = ns, None

    def _term(self, term: int) -> TermFacts:
        known = self.terms.get(term)
        if known is None:
            known = self.terms[term] = TermFacts()
        return known

    def _on_message(self, event: TraceEvent) -> None:
        fields = event.fields
        message, term, position = fields.get("message"), fields.get("leadership_term_id"), fields.get("log_position")
        if type(term) is not int or type(position) is not int:
            return
        is_sent = event.event == TraceKind.SEND
        if message == "CommitPosition":
            known = self._term(term)
            (known.sent if is_sent else known.heard).add(event, position)
        elif message == "AppendPosition":
            self._on_report(event, term, position, is_sent=is_sent)
        elif message == "NewLeadershipTerm" and not is_sent:
            commit_position = fields.get("commit_position")
            if type(commit_position) is int:
                self._term(term).announced.add(event, commit_position)

    def _on_report(self, event: TraceEvent, term: int, position: int, *, is_sent: bool) -> None:
        follower = event.fields.get("follower_member_id")
        if is_sent:
            self._term(term).appended.add(event, position)
            self.has_caught_up |= event.fields.get("flags") == _CATCHUP_FLAG
        elif self._led is not None and type(follower) is int:
            # Who catches up names the term that it has come to in this leader's log.
            self._led.reports.setdefault(follower, Steps()).add(event, position)
