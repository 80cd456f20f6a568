"""Votes and terms: a member votes once a term, and leads only a term in which a quorum voted for it.

Judged by the events of members: votes requested, given and received, elections won, terms entered. The moves of
elections are in `election_moves`. A candidate votes for itself. This module knows no files, and of logs only the
positions that messages report.
"""

from collections.abc import Collection, Iterator
from dataclasses import dataclass, field

from upheaval.checkers.evidence.protocol_events import OF_LEADER, OF_MODULE, MemberEvent, Place, quorum_of
from upheaval.checkers.promises import Promise
from upheaval.checkers.protocol.election_moves import ElectionMoves
from upheaval.checkers.protocol.sent_positions import SentPositions
from upheaval.checkers.verdict import Broken, Verdict
from upheaval_node.trace_kinds import TraceKind


@dataclass(frozen=True, slots=True)
class Ballot:
    """A vote that a member gave. `start` counts the member's starts until then."""

    term_id: int
    candidate_id: int
    start: int
    place: Place
    ns: int


@dataclass(slots=True)
class _Voter:
    start: int = 0
    ballot: Ballot | None = None
    granted: Ballot | None = None
    """The last vote for another member. The member must not follow the leader of an earlier term."""
    stood: dict[int, Ballot] = field(default_factory=dict)
    asked: dict[tuple[int, int], tuple[int, int]] = field(default_factory=dict)
    """The last log term and log position of the candidate, by candidate term and candidate."""
    granted_by: dict[int, set[int]] = field(default_factory=dict)
    """The members that voted for it since its start, by term."""
    refused_by: dict[int, set[int]] = field(default_factory=dict)
    """The members that refused their vote to it since its start, by term."""
    won: dict[int, Ballot] = field(default_factory=dict)
    entered: Ballot | None = None


def require_stored(member_id: int, ballot: Ballot, candidate_term_id: int, where: str) -> None:
    """Check that the node state of a member holds a term no lower than that of its last vote. Raises `Broken`."""
    if candidate_term_id < ballot.term_id:
        detail = (
            f"member {member_id} voted in term {ballot.term_id} ({ballot.place}), its node state ({where}) holds "
            f"term {candidate_term_id}"
        )
        raise Broken(Verdict.INVALID, detail, members=(member_id,))


class BallotRules:
    """Implements `Rules`. Members in `forgetful` may have lost files that they wrote before a start."""

    promise = Promise.VOTES_KEPT

    def __init__(self, members: int, forgetful: Collection[int] = ()) -> None:
        self._members = members
        self._forgetful = forgetful
        self._voters = [_Voter() for _ in range(members)]
        self._moves = ElectionMoves(members)
        self._positions = SentPositions(members, ("RequestVote",))
        self._given: set[tuple[int, int, int]] = set()
        self._counted: dict[tuple[int, int, int], MemberEvent] = {}
        """By voter, term and candidate."""

    def on_event(self, event: MemberEvent) -> None:
        """Check the next event of a member."""
        voter = self._voters[event.member_id]
        match event.kind:
            case TraceKind.SEND:
                self._on_send(voter, event)
            case TraceKind.RECEIVE:
                self._on_receive(voter, event)
            case TraceKind.ELECTION_STATE if event.fields.get("state") == "LEADER_LOG_REPLICATION":
                self._on_won(voter, event)
            case TraceKind.LEADERSHIP_TERM if event.fields.get("source") == "election":
                self._on_entered(voter, event)
            case TraceKind.PROCESS_START if event.fields.get("component") in OF_MODULE:
                voter.start += 1
                voter.granted_by.clear()
                voter.refused_by.clear()
        self._moves.on_event(event)

    def last_ballot(self, member_id: int) -> Ballot | None:
        """The latest vote of a member, which is also the one with its highest term."""
        return self._voters[member_id].ballot

    def note_sent(self, event: MemberEvent) -> None:
        """Note what a member sent of a ballot, out of order: it judges nothing, and only `at_end` uses it."""
        self._positions.note_sent(event)
        if event.fields.get("message") == "Vote" and event.fields.get("vote") is True:
            term, candidate = event.integer("candidate_term_id"), event.integer("candidate_member_id")
            self._given.add((event.member_id, term, candidate))

    def at_end(self) -> Iterator[tuple[int, Broken]]:
        """After the last event of all members: yield the votes that a member counted and no member gave, and the
        candidates' logs that no candidate sent.
        """
        for (voter_id, term, candidate_id), event in self._counted.items():
            if (voter_id, term, candidate_id) not in self._given:
                yield (
                    voter_id,
                    event.invalid(
                        f"member {event.member_id} counts a vote of member {voter_id} in term {term} "
                        f"that member-{voter_id}/trace.jsonl does not have",
                        voter_id,
                    ),
                )
        yield from self._positions.unsent()

    def summary(self) -> str:
        """Summarise what the promise rests on if it was kept."""
        won = sorted(term for voter in self._voters for term in voter.won)
        return f"{len(self._given)} votes of {self._members} members, {len(won)} terms won by a quorum"

    # --- messages ---

    def _on_send(self, voter: _Voter, event: MemberEvent) -> None:
        match event.fields.get("message"):
            case "RequestVote":
                self._positions.note_sent(event)
                self._on_candidacy(voter, event)
            case "Vote" if event.fields.get("vote") is True:
                self._on_vote(voter, event)
            case "AppendPosition" if event.integer("flags") == 0:
                self._require_bound(voter, event, event.integer("leadership_term_id"))
            case message if message in OF_LEADER and event.integer("leader_member_id") == event.member_id:
                self._require_won(voter, event, event.integer("leadership_term_id"))

    def _on_receive(self, voter: _Voter, event: MemberEvent) -> None:
        message = event.fields.get("message")
        if message == "RequestVote":
            self._positions.note_received(event)
            voter.asked[event.integer("candidate_term_id"), event.integer("candidate_member_id")] = _log_of(event)
        elif message == "Vote" and event.integer("candidate_member_id") == event.member_id:
            term, voter_id = event.integer("candidate_term_id"), event.integer("follower_member_id")
            if voter_id not in range(self._members):
                # The candidate ignores it, too.
                return
            if event.fields.get("vote") is not True:
                voter.refused_by.setdefault(term, set()).add(voter_id)
            else:
                voter.granted_by.setdefault(term, set()).add(voter_id)
                self._counted.setdefault((voter_id, term, event.member_id), event)

    # --- votes ---

    def _on_candidacy(self, voter: _Voter, event: MemberEvent) -> None:
        term = event.integer("candidate_term_id")
        ballot = Ballot(term, event.member_id, voter.start, event.place, event.ns)
        known = voter.stood.get(term, ballot)
        voter.stood[term] = ballot
        self._cast(voter, event, ballot)
        if known.start != voter.start:
            self._raise_forgotten(
                f"member {event.member_id} stood for term {term} ({known.place}), and again after a restart "
                f"({event.place})",
                event.member_id,
                event.integer("log_position"),
            )

    def _on_vote(self, voter: _Voter, event: MemberEvent) -> None:
        term, candidate = event.integer("candidate_term_id"), event.integer("candidate_member_id")
        asked, own = voter.asked.get((term, candidate)), _log_of(event)
        name, (_, position) = f"member {event.member_id}", own
        if asked is None:
            detail = f"{name} voted for member {candidate} in term {term}, which had not asked for it"
            raise event.invalid(detail, candidate, position=position)
        if asked < own:
            theirs, ours = (f"term {log_term} at {at}" for log_term, at in (asked, own))
            detail = f"{name} with a log of {ours} voted for member {candidate} with one of {theirs}"
            raise event.invalid(detail, candidate, position=position)
        ballot = Ballot(term, candidate, voter.start, event.place, event.ns)
        voter.granted = ballot
        self._cast(voter, event, ballot)

    def _cast(self, voter: _Voter, event: MemberEvent, ballot: Ballot) -> None:
        known, name = voter.ballot, f"member {event.member_id}"
        voter.ballot = ballot
        self._given.add((event.member_id, ballot.term_id, ballot.candidate_id))
        if known is not None and ballot.term_id < known.term_id:
            self._raise_forgotten(
                f"{name} voted in term {ballot.term_id} ({ballot.place}), after it had voted in term {known.term_id} "
                f"({known.place})",
                event.member_id,
                event.integer("log_position"),
                is_of_one_start=known.start == ballot.start,
            )
        if known is not None and ballot.term_id == known.term_id and ballot.candidate_id != known.candidate_id:
            self._raise_forgotten(
                f"{name} voted for member {known.candidate_id} ({known.place}) and for member {ballot.candidate_id} "
                f"({ballot.place}) in term {ballot.term_id}",
                event.member_id,
                event.integer("log_position"),
                is_of_one_start=known.start == ballot.start,
            )

    # --- terms ---

    def _on_won(self, voter: _Voter, event: MemberEvent) -> None:
        term, position = event.integer("candidate_term_id"), event.integer("append_position")
        voters = voter.granted_by.get(term, set()) | {event.member_id}
        needed = quorum_of(self._members)
        if len(voters) < needed:
            detail = (
                f"member {event.member_id} took term {term} at {position} with the votes of members "
                f"{', '.join(map(str, sorted(voters)))}: {needed} of {self._members} are needed"
            )
            raise event.invalid(detail, position=position)
        # The vote of a leader that has left does not matter.
        left = None if voter.entered is None else voter.entered.candidate_id
        refusing = voter.refused_by.get(term, set()) - {left}
        if refusing:
            detail = (
                f"member {event.member_id} took term {term} at {position}, for which member {min(refusing)} had "
                "refused its vote"
            )
            raise event.invalid(detail, *sorted(refusing), position=position)
        known = voter.won.get(term)
        voter.won[term] = Ballot(term, event.member_id, voter.start, event.place, event.ns)
        if known is not None:
            self._raise_forgotten(
                f"member {event.member_id} took term {term} ({known.place}), and again at {position} ({event.place})",
                event.member_id,
                position,
                is_of_one_start=known.start == voter.start,
            )

    def _require_won(self, voter: _Voter, event: MemberEvent, term: int) -> None:
        won = voter.won.get(term)
        if won is None or won.start != voter.start:
            position = event.integer("log_position")
            detail = f"member {event.member_id} leads term {term} at {position}, to which no member elected it"
            raise event.invalid(detail, position=position)

    def _on_entered(self, voter: _Voter, event: MemberEvent) -> None:
        term, position = event.integer("leadership_term_id"), event.integer("log_position")
        leader, entered = event.integer("leader_member_id"), voter.entered
        voter.entered = Ballot(term, leader, voter.start, event.place, event.ns)
        if entered is not None and term < entered.term_id:
            self._raise_forgotten(
                f"member {event.member_id} entered term {term} at {position} ({event.place}), after term "
                f"{entered.term_id} ({entered.place})",
                event.member_id,
                position,
                is_of_one_start=entered.start == voter.start,
            )
        if leader == event.member_id:
            self._require_won(voter, event, term)
        else:
            self._require_bound(voter, event, term)

    def _require_bound(self, voter: _Voter, event: MemberEvent, term: int) -> None:
        granted = voter.granted
        if granted is not None and term < granted.term_id:
            position = event.integer("log_position")
            self._raise_forgotten(
                f"member {event.member_id} follows the leader of term {term} at {position} ({event.place}), after it "
                f"had voted in term {granted.term_id} ({granted.place})",
                event.member_id,
                position,
                is_of_one_start=granted.start == voter.start,
            )

    def _raise_forgotten(
        self, detail: str, member_id: int, position: int | None, *, is_of_one_start: bool = False
    ) -> None:
        """Raise a contradiction. If it is to an earlier start of a member that has lost its files since, it proves
        nothing.
        """
        is_excused = member_id in self._forgetful and not is_of_one_start
        verdict = Verdict.UNKNOWN if is_excused else Verdict.INVALID
        text = f"{detail}; its files were lost" if is_excused else detail
        raise Broken(verdict, text, members=(member_id,), position=position)


def _log_of(event: MemberEvent) -> tuple[int, int]:
    return event.integer("log_leadership_term_id"), event.integer("log_position")
