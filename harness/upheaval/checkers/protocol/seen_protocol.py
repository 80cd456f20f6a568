"""Votes and commit positions of members that trace no messages, from the messages that forwarders saw between them.

`send` is a message that a member sent; the order holds only for each receiver. `receive` is a message that may have
arrived; no record says whether it was read. So the rules use no times and never assume that a member received a
message, only that it cannot have received one. The trace of a member adds only its commit position at the start and end
of elections. Knows nothing of files.
"""

from collections.abc import Collection, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Final

from upheaval.checkers.evidence.protocol_events import MemberEvent, quorum_of
from upheaval.checkers.promises import Promise
from upheaval.checkers.protocol.ballots import Ballot
from upheaval.checkers.protocol.completeness import Mark, TermLogs
from upheaval.checkers.signature import FOLLOWER, LEADER, Rule, Signature
from upheaval.checkers.verdict import Broken, Verdict
from upheaval.records import LATE
from upheaval_node.trace_kinds import TraceKind

_NONE: Final = -1
_CATCHUP_FLAG: Final = 1

VOTES_NOT_SEEN: Final = "not checked: whom a member follows after its vote"
COMMITS_NOT_SEEN: Final = (
    "not checked: whether a commit position goes back, and whether members hold to those they hear"
)


@dataclass(frozen=True, slots=True)
class _Log:
    """The end of a log. Ordered as votes compare logs."""

    term_id: int
    position: int

    def __str__(self) -> str:
        return f"term {self.term_id} at {self.position}"

    def is_behind(self, other: "_Log") -> bool:
        return (self.term_id, self.position) < (other.term_id, other.position)


def _log_of(event: MemberEvent) -> _Log:
    return _Log(event.integer("log_leadership_term_id"), event.integer("log_position"))


@dataclass(slots=True)
class _Voter:
    ballots: dict[int, Ballot] = field(default_factory=dict)
    """The first vote in each term, including votes for itself."""
    last: Ballot | None = None
    """The vote in the highest term."""
    sent: dict[int, Ballot] = field(default_factory=dict)
    """The last vote or vote request that was sent to each member."""
    asked: dict[tuple[int, int], tuple[_Log, Ballot | None]] = field(default_factory=dict)
    """By term and candidate: the candidate's log, and the value of `last` when the request may have arrived."""
    granted_by: dict[int, set[int]] = field(default_factory=dict)
    """The members whose vote may have reached it, by term."""


class SeenBallots:
    """Implements `Rules`. Members in `forgetful` may have lost files that they wrote before a start."""

    promise = Promise.VOTES_KEPT

    def __init__(self, members: int, forgetful: Collection[int] = ()) -> None:
        self._members = members
        self._forgetful = forgetful
        self._voters = [_Voter() for _ in range(members)]
        self._leaders: dict[int, MemberEvent] = {}

    def on_event(self, event: MemberEvent) -> None:
        """Check the next message."""
        voter = self._voters[event.member_id]
        match event.kind, event.fields.get("message"):
            case TraceKind.SEND, "RequestVote":
                term = event.integer("candidate_term_id")
                self._cast(voter, event, Ballot(term, event.member_id, 0, event.place, event.ns), None)
            case TraceKind.SEND, "Vote" if event.fields.get("vote") is True:
                self._on_vote(voter, event)
            case TraceKind.SEND, "NewLeadershipTerm":
                self._on_leader(voter, event)
            case TraceKind.RECEIVE, "RequestVote":
                key = event.integer("candidate_term_id"), event.integer("candidate_member_id")
                voter.asked.setdefault(key, (_log_of(event), voter.last))
            case TraceKind.RECEIVE, "Vote" if event.fields.get("vote") is True:
                by, term = event.integer("follower_member_id"), event.integer("candidate_term_id")
                if event.integer("candidate_member_id") == event.member_id and by in range(self._members):
                    voter.granted_by.setdefault(term, set()).add(by)

    def last_ballot(self, member_id: int) -> Ballot | None:
        """The vote of a member in its highest term."""
        return self._voters[member_id].last

    def at_end(self) -> Iterator[tuple[int, Broken]]:
        """Nothing: no rule needs the end of the messages."""
        return iter(())

    def summary(self) -> str:
        """Summarise what the promise rests on if it was kept."""
        votes = sum(len(voter.ballots) for voter in self._voters)
        return f"{votes} votes of {self._members} members, {len(self._leaders)} terms led by a quorum's votes"

    def _on_vote(self, voter: _Voter, event: MemberEvent) -> None:
        term, candidate = event.integer("candidate_term_id"), event.integer("candidate_member_id")
        own, asked = _log_of(event), voter.asked.get((term, candidate))
        name = f"member {event.member_id}"
        if asked is None:
            detail = f"{name} voted for member {candidate} in term {term}, whose request had not reached it"
            raise event.invalid(detail, candidate, position=own.position)
        theirs, before = asked
        if theirs.is_behind(own):
            detail = f"{name} with a log of {own} voted for member {candidate} with one of {theirs}"
            raise event.invalid(detail, candidate, position=own.position)
        self._cast(voter, event, Ballot(term, candidate, 0, event.place, event.ns), before)

    def _cast(self, voter: _Voter, event: MemberEvent, ballot: Ballot, before: Ballot | None) -> None:
        """Record a vote. `before` is a vote that was given before this one was requested."""
        to = event.integer("to")
        known, sent = voter.ballots.setdefault(ballot.term_id, ballot), voter.sent.get(to)
        if event.fields.get(LATE) is not True:
            voter.sent[to] = ballot
            before = max((vote for vote in (before, sent) if vote is not None), key=_term_of, default=None)
        if voter.last is None or voter.last.term_id < ballot.term_id:
            voter.last = ballot
        if known.candidate_id != ballot.candidate_id:
            self._raise(
                f"member {event.member_id} voted for member {known.candidate_id} ({known.place}) and for member "
                f"{ballot.candidate_id} ({ballot.place}) in term {ballot.term_id}",
                event,
            )
        if before is not None and ballot.term_id < before.term_id:
            self._raise(
                f"member {event.member_id} voted in term {ballot.term_id} ({ballot.place}), after it had voted in term "
                f"{before.term_id} ({before.place})",
                event,
            )

    def _on_leader(self, voter: _Voter, event: MemberEvent) -> None:
        term, position = event.integer("leadership_term_id"), event.integer("log_position")
        if event.integer("leader_member_id") != event.member_id:
            return
        known = self._leaders.setdefault(term, event)
        if known.member_id != event.member_id:
            raise event.invalid(
                f"member {event.member_id} leads term {term} at {position}, and so does member {known.member_id} "
                f"({known.place})",
                known.member_id,
                position=position,
            )
        voters = voter.granted_by.get(term, set()) | {event.member_id}
        needed = quorum_of(self._members)
        if known is event and len(voters) < needed:
            raise event.invalid(
                f"member {event.member_id} leads term {term} at {position} with the votes of members "
                f"{', '.join(map(str, sorted(voters)))}: {needed} of {self._members} are needed",
                position=position,
            )

    def _raise(self, detail: str, event: MemberEvent) -> None:
        """Raise a contradiction. It proves nothing if the member has lost its files."""
        is_excused = event.member_id in self._forgetful
        verdict = Verdict.UNKNOWN if is_excused else Verdict.INVALID
        text = f"{detail}; its files were lost" if is_excused else detail
        raise Broken(verdict, text, members=(event.member_id,), position=event.integer("log_position"))


def _term_of(ballot: Ballot) -> int:
    return ballot.term_id


class SeenCommits:
    """Implements `Rules`. `is_forgetful`: some member may have lost what it had reported.

    It also receives elections, which members trace with the term of their log and their own commit position.
    """

    promise = Promise.COMMITS_KEPT

    def __init__(self, members: int, is_forgetful: bool = False) -> None:
        self._count = members
        self._terms = TermLogs(is_forgetful)
        self._reports: list[dict[int, dict[int, int]]] = [{} for _ in range(members)]
        """The highest reported position, by the member that the report may have reached, follower and term."""
        self._stood = [_NONE] * members
        """The last term in which each member was a candidate. A leader was a candidate in none since."""
        self._logs: dict[tuple[int, int], _Log] = {}
        """The log of each candidate, by term and candidate."""

    def on_event(self, event: MemberEvent) -> None:
        """Check the next message or election."""
        match event.kind, event.fields.get("message"):
            case TraceKind.SEND, "RequestVote":
                term = event.integer("candidate_term_id")
                self._logs[term, event.member_id] = _log_of(event)
                self._stood[event.member_id] = max(term, self._stood[event.member_id])
            case TraceKind.SEND, "NewLeadershipTerm" if event.integer("leader_member_id") == event.member_id:
                self._terms.begin(event, event.integer("leadership_term_id"), event.integer("term_base_log_position"))
            case TraceKind.SEND, "CommitPosition" if event.integer("leader_member_id") == event.member_id:
                # Until an Aeron leader has opened its term, it sends the term of its log.
                term = max(event.integer("leadership_term_id"), self._stood[event.member_id])
                self._on_commit(event, term, event.integer("log_position"))
            case TraceKind.RECEIVE, "AppendPosition":
                term, position = event.integer("leadership_term_id"), event.integer("log_position")
                self._on_report(event, term, position)
                if event.integer("flags") == _CATCHUP_FLAG:
                    # A follower that catches up reads the leader's log and reports the term that it has reached in it.
                    self._on_report(event, self._led_by(event.member_id), position)
            case TraceKind.ELECTION_STATE, _ if event.integer("leadership_term_id") != _NONE:
                term, mark = event.integer("leadership_term_id"), Mark(event.integer("log_position"), event.place)
                if not self._terms.has_committed_before_it(mark.position, term):
                    self._terms.commit(term, mark, FOLLOWER)
            case TraceKind.RECEIVE, "CanvassPosition" | "Vote":
                log = _log_of(event)
                self._on_report(event, log.term_id, log.position)

    def at_end(self) -> Iterator[tuple[int, Broken]]:
        """Nothing: no rule needs the end of the messages."""
        return iter(())

    def summary(self) -> str:
        """Summarise what the promise rests on if it was kept."""
        return self._terms.summary()

    def _led_by(self, member_id: int) -> int:
        led = (term for term, base in self._terms.bases.items() if base.place.member_id == member_id)
        return max(led, default=_NONE)

    def _on_report(self, event: MemberEvent, term: int, position: int) -> None:
        follower = event.integer("follower_member_id")
        if follower in range(self._count) and follower != event.member_id:
            terms = self._reports[event.member_id].setdefault(follower, {})
            terms[term] = max(terms.get(term, _NONE), position)

    def _on_commit(self, event: MemberEvent, term: int, position: int) -> None:
        self._require_covered(event, term, position)
        self._terms.commit(term, Mark(position, event.place))

    def _require_covered(self, event: MemberEvent, term: int, position: int) -> None:
        since = max((mark.position for led, mark in self._terms.committed.items() if led <= term), default=0)
        if position <= since:
            # The position had been committed before.
            return
        reports = self._reports[event.member_id]
        having = [
            follower
            for follower, terms in sorted(reports.items())
            if self._reaches(terms, (term, event.member_id), position)
        ]
        needed = quorum_of(self._count)
        if 1 + len(having) < needed:
            names = ", ".join(map(str, sorted((event.member_id, *having))))
            # Also count members that reached the position in an earlier term, and therefore in another log.
            reaching = [member for member, terms in reports.items() if max(terms.values(), default=_NONE) >= position]
            rule = Rule.EARLIER_TERM_COUNTED if 1 + len(reaching) >= needed else Rule.NO_QUORUM
            raise event.invalid(
                f"member {event.member_id} called position {position} committed in term {term}, but only "
                f"{1 + len(having)} of {self._count} members had it ({names}): {needed} are needed",
                position=position,
                signature=Signature(rule, role=LEADER),
                since=since,
            )

    def _reaches(self, reports: Mapping[int, int], led: tuple[int, int], position: int) -> bool:
        """Whether a follower has the leader's log up to `position`. Past the start of another term, its log is a
        different one. `led` is the term and its leader.
        """
        return any(
            position <= reached and (reported == led[0] or position <= self._end_of(reported, led))
            for reported, reached in reports.items()
            if reported <= led[0]
        )

    def _end_of(self, reported: int, led: tuple[int, int]) -> int:
        """The position up to which a log that ends in the term `reported` is known to equal the log of the leader of
        `led`.
        """
        terms, log = {led[0]}, self._logs.get(led)
        if log is not None and reported != log.term_id:
            terms.add(max(reported, log.term_id))
        return min((self._terms.bases[term].position for term in terms if term in self._terms.bases), default=1 << 62)
