"""Commit positions: a leader commits what a quorum reported to it, no member goes back or cuts what it has committed,
and later leaders have it.

Judged by the events of members: positions that followers reported, positions that leaders announced as committed, and
the positions at which elections and terms began. A leader counts reports under its own term. Until it has opened that
term, it also counts reports of the log that it was elected with. It always counts itself. This module knows no files
and no votes.
"""

from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Final

from upheaval.checkers.evidence.protocol_events import OF_MODULE, MemberEvent, Place, quorum_of
from upheaval.checkers.promises import Promise
from upheaval.checkers.protocol.completeness import Mark, TermLogs
from upheaval.checkers.protocol.sent_positions import SentPositions
from upheaval.checkers.verdict import Broken, Verdict
from upheaval_node.trace_kinds import TraceKind

_NONE: Final = -1
_CATCHUP_FLAG: Final = 1
_LONG_AGO_NS: Final = -(1 << 62)
_OF_OLD_LOG: Final = ("LEADER_LOG_REPLICATION", "LEADER_REPLAY", "LEADER_INIT")
"""Election states of a leader that has not opened its term: it still commits and replays the log it was
elected with.
"""

_NAMES_COMMIT: Final = "FOLLOWER_READY"
"""The election state of a follower that joins. It reports its commit position and may have recorded more."""


@dataclass(slots=True)
class _Report:
    term_id: int
    position: int
    ns: int


@dataclass(slots=True)
class _Member:
    state: str = ""
    commit: Mark | None = None
    """The commit position in this start, as far as events show it."""
    led_term_id: int = _NONE
    log_term_id: int = _NONE
    base: int = _NONE
    committed_before: int = _NONE
    sent: Mark | None = None
    """The highest position that it announced as committed in the term that it leads."""
    highest: dict[int, dict[int, int]] = field(default_factory=dict)
    """The highest position that each follower reported since the canvass, by follower and term."""
    latest: dict[int, _Report] = field(default_factory=dict)
    heard: dict[tuple[int, int], Mark] = field(default_factory=dict)
    """The highest commit position that it received, by leader and term."""
    reported: dict[int, Mark] = field(default_factory=dict)
    """The highest position that it reported in this start, by term."""


class CommitRules:
    """Implements `Rules`. A follower that was silent for `silence_ns` counts for no quorum.

    `is_forgetful`: some member may have lost what it had reported. `copies_commit`: by Aeron's rule a leader commits
    all of the old log when a quorum has copies.
    """

    promise = Promise.COMMITS_KEPT

    def __init__(
        self, members: int, silence_ns: int, is_forgetful: bool = False, *, copies_commit: bool = False
    ) -> None:
        self._count = members
        self._copies_commit = copies_commit
        self._silence_ns = silence_ns
        self._terms = TermLogs(is_forgetful)
        self._members = [_Member() for _ in range(members)]
        self._reported: dict[tuple[int, int], int] = {}
        self._heard_reports: dict[tuple[int, int], Mark] = {}
        self._announced: dict[tuple[int, int], int] = {}
        self._announced_again: dict[tuple[int, int], int] = {}
        """The same in the order of the second reading."""
        self._heard_commits: dict[tuple[int, int], Mark] = {}
        self._positions = SentPositions(members, ("CanvassPosition", "Vote", "NewLeadershipTerm"))
        self._went_back: set[tuple[int, int, int]] = set()
        self._heard_back: dict[tuple[int, int, int], tuple[Mark, MemberEvent]] = {}

    def on_event(self, event: MemberEvent) -> None:
        """Check the next event of a member."""
        member = self._members[event.member_id]
        match event.kind:
            case TraceKind.SEND:
                self._on_send(member, event)
            case TraceKind.RECEIVE:
                self._on_receive(member, event)
            case TraceKind.ELECTION_STATE:
                self._on_state(member, event)
            case TraceKind.LEADERSHIP_TERM:
                self._on_term(member, event)
            case TraceKind.PROCESS_START if event.fields.get("component") in OF_MODULE:
                self._members[event.member_id] = _Member()

    def note_sent(self, event: MemberEvent) -> None:
        """Note a position that a member sent, from a second reading of its whole trace: it judges nothing, and only
        `at_end` uses it.
        """
        self._positions.note_sent(event)
        message = event.fields.get("message")
        if message not in ("AppendPosition", "CommitPosition"):
            return
        key, position = (event.member_id, event.integer("leadership_term_id")), event.integer("log_position")
        if message == "AppendPosition":
            self._reported[key] = max(self._reported.get(key, _NONE), position)
            return
        self._announced[key] = max(self._announced.get(key, _NONE), position)
        highest = self._announced_again.get(key, _NONE)
        if position < highest:
            self._went_back.add((*key, position))
        else:
            self._announced_again[key] = position

    def at_end(self) -> Iterator[tuple[int, Broken]]:
        """After the last event of all members: yield the positions that a member received and no member sent."""
        heard = ((self._heard_reports, self._reported, "reported"), (self._heard_commits, self._announced, "committed"))
        for marks, sent, what in heard:
            for (sender, term), mark in marks.items():
                if sent.get((sender, term), _NONE) < mark.position:
                    detail = (
                        f"member {mark.place.member_id} heard from member {sender} of position {mark.position} in term "
                        f"{term} ({mark.place}), which member-{sender}/trace.jsonl does not have as {what}"
                    )
                    members = mark.place.member_id, sender
                    yield sender, Broken(Verdict.INVALID, detail, members=members, position=mark.position)
        yield from self._positions.unsent()
        for back, (known, event) in self._heard_back.items():
            leader, term, position = back
            if leader in range(self._count) and back not in self._went_back:
                detail = (
                    f"the commit position that member {event.member_id} heard from member {leader} in term {term} went "
                    f"back from {known.position} ({known.place}) to {position}, which that member did not send"
                )
                yield leader, event.invalid(detail, leader, position=position)

    def summary(self) -> str:
        """Summarise what the promise rests on if it was kept."""
        return self._terms.summary()

    # --- messages ---

    def _on_send(self, member: _Member, event: MemberEvent) -> None:
        match event.fields.get("message"):
            case "AppendPosition":
                self._on_reported(member, event, event.integer("leadership_term_id"), event.integer("log_position"))
            case "CommitPosition":
                self._on_commit_sent(member, event, event.integer("leadership_term_id"), event.integer("log_position"))
            case "NewLeadershipTerm":
                self._positions.note_sent(event)
                self._terms.begin(event, event.integer("leadership_term_id"), event.integer("term_base_log_position"))
                self._require_committed(member, event, event.integer("commit_position"))
            case "CanvassPosition" | "Vote":
                self._positions.note_sent(event)

    def _on_reported(self, member: _Member, event: MemberEvent, term: int, position: int) -> None:
        """A follower never reports less of a term's log than before in the same start."""
        key = event.member_id, term
        self._reported[key] = max(self._reported.get(key, _NONE), position)
        known = member.reported.get(term)
        if known is None or position > known.position:
            member.reported[term] = Mark(position, event.place)
        elif position < known.position and member.state != _NAMES_COMMIT:
            detail = (
                f"the position that member {event.member_id} reported in term {term} went back from {known.position} "
                f"({known.place}) to {position}"
            )
            raise event.invalid(detail, position=position)

    def _on_receive(self, member: _Member, event: MemberEvent) -> None:
        match event.fields.get("message"):
            case "AppendPosition":
                follower, term = event.integer("follower_member_id"), event.integer("leadership_term_id")
                position = event.integer("log_position")
                self._note(self._heard_reports, (follower, term), position, event.place)
                self._on_report(member, event, follower, _Report(term, position, event.ns))
                if event.integer("flags") == _CATCHUP_FLAG and term < member.led_term_id:
                    # A follower that catches up reads the leader's log and reports the term that it has reached in it.
                    self._raise_highest(member, follower, member.led_term_id, position)
            case "CanvassPosition" | "Vote":
                self._positions.note_received(event)
                follower, position = event.integer("follower_member_id"), event.integer("log_position")
                known = member.latest.get(follower)
                ns = event.ns
                if member.state == "CLOSED":
                    ns = _LONG_AGO_NS if known is None else known.ns
                self._on_report(member, event, follower, _Report(event.integer("log_leadership_term_id"), position, ns))
            case "CommitPosition":
                leader, term = event.integer("leader_member_id"), event.integer("leadership_term_id")
                self._on_commit_heard(member, event, (leader, term), event.integer("log_position"))
            case "NewLeadershipTerm":
                self._positions.note_received(event)
                self._terms.begin(event, event.integer("leadership_term_id"), event.integer("term_base_log_position"))

    def _on_commit_heard(self, member: _Member, event: MemberEvent, key: tuple[int, int], position: int) -> None:
        self._note(self._heard_commits, key, position, event.place)
        known = member.heard.get(key)
        if known is None or position > known.position:
            member.heard[key] = Mark(position, event.place)
        elif position < known.position:
            self._heard_back.setdefault((*key, position), (known, event))

    def _note(self, marks: dict[tuple[int, int], Mark], key: tuple[int, int], position: int, place: Place) -> None:
        known = marks.get(key)
        if key[0] in range(self._count) and (known is None or position > known.position):
            marks[key] = Mark(position, place)

    def _on_report(self, member: _Member, event: MemberEvent, follower: int, report: _Report) -> None:
        if follower in range(self._count) and follower != event.member_id:
            member.latest[follower] = report
            self._raise_highest(member, follower, report.term_id, report.position)

    def _raise_highest(self, member: _Member, follower: int, term: int, position: int) -> None:
        terms = member.highest.setdefault(follower, {})
        terms[term] = max(terms.get(term, _NONE), position)

    # --- commit positions of leaders ---

    def _on_commit_sent(self, member: _Member, event: MemberEvent, term: int, position: int) -> None:
        key = event.member_id, term
        highest = self._announced.get(key, _NONE)
        if position < highest:
            self._went_back.add((*key, position))
        else:
            self._announced[key] = position
        if term != member.led_term_id:
            return
        sent = member.sent
        if sent is not None and position < sent.position:
            self._require_silence(member, event, position, sent)
        if sent is not None and position <= sent.position:
            return
        self._require_covered(member, event, position)
        mark = member.sent = Mark(position, event.place)
        if member.state not in _OF_OLD_LOG:
            member.commit = mark
        self._terms.commit(term, mark)

    def _require_committed(self, member: _Member, event: MemberEvent, position: int) -> None:
        """Check the commit position of a new term: it was committed before, or a quorum has reported it."""
        known = max(member.committed_before, _NONE if member.sent is None else member.sent.position)
        if event.integer("leadership_term_id") == member.led_term_id and position > known:
            self._require_covered(member, event, position)

    def _require_covered(self, member: _Member, event: MemberEvent, position: int) -> None:
        if position <= 0:
            return
        terms = {member.led_term_id}
        is_whole = max(member.base - 1, member.committed_before) < position
        if member.state in _OF_OLD_LOG and (self._copies_commit or not is_whole):
            # Below its end, reports in the term of the old log count. All of it is committed only by reports in the new
            # term.
            terms.add(member.log_term_id)
        having = [
            follower
            for follower, reports in sorted(member.highest.items())
            if max((reports.get(term, _NONE) for term in terms), default=_NONE) >= position
        ]
        needed = quorum_of(self._count)
        if 1 + len(having) < needed:
            names = ", ".join(map(str, sorted((event.member_id, *having))))
            detail = (
                f"member {event.member_id} called position {position} committed in term {member.led_term_id}, but "
                f"only {1 + len(having)} of {self._count} members had it ({names}): {needed} are needed"
            )
            raise event.invalid(detail, position=position)

    def _require_silence(self, member: _Member, event: MemberEvent, position: int, sent: Mark) -> None:
        """A leader may lower its commit position only if followers fell silent or report less, and only after opening
        its term.
        """
        is_old_log = member.state in _OF_OLD_LOG
        confirming = sum(
            report.term_id == member.led_term_id
            and report.position >= sent.position
            and event.ns < report.ns + self._silence_ns
            for report in member.latest.values()
        )
        if is_old_log or 1 + confirming >= quorum_of(self._count):
            detail = (
                f"the commit position of member {event.member_id} in term {member.led_term_id} went back from "
                f"{sent.position} ({sent.place}) to {position}"
            )
            raise event.invalid(detail, position=position)

    # --- elections and terms ---

    def _on_state(self, member: _Member, event: MemberEvent) -> None:
        member.state = str(event.fields.get("state"))
        if member.state == "INIT":
            member.led_term_id = _NONE
            self._on_own_commit(member, event, event.integer("log_position"))
        elif member.state == "CANVASS":
            member.led_term_id = _NONE
            member.highest.clear()
            member.latest.clear()
            self._require_whole(event)
        elif member.state == "LEADER_LOG_REPLICATION":
            member.led_term_id = event.integer("leadership_term_id")
            member.log_term_id = event.integer("log_leadership_term_id")
            member.base = event.integer("append_position")
            member.committed_before = event.integer("log_position")
            member.sent = None
            self._terms.begin(event, member.led_term_id, member.base)

    def _require_whole(self, event: MemberEvent) -> None:
        """A member keeps what it has committed, also where it cuts its log. Members of Aeron do not name its end."""
        end, committed = event.integer("append_position"), event.integer("log_position")
        if _NONE < end < committed:
            detail = f"the log of member {event.member_id} ends at {end}, although it had committed up to {committed}"
            raise event.invalid(detail, position=end)

    def _on_term(self, member: _Member, event: MemberEvent) -> None:
        """Note a new term. In an election it begins for a member at its commit position; its base counts from the
        leader or log.
        """
        term, base = event.integer("leadership_term_id"), event.integer("term_base_log_position")
        is_elected = event.fields.get("source") == "election"
        if is_elected:
            self._on_own_commit(member, event, event.integer("log_position"))
        if not is_elected or event.integer("leader_member_id") == event.member_id:
            self._terms.begin(event, term, base)

    def _on_own_commit(self, member: _Member, event: MemberEvent, position: int) -> None:
        known = member.commit
        if known is not None and position < known.position:
            detail = (
                f"the commit position of member {event.member_id} went back from {known.position} ({known.place}) "
                f"to {position}"
            )
            raise event.invalid(detail, position=position)
        if known is None or position > known.position:
            member.commit = Mark(position, event.place)
