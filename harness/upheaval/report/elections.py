"""The elections of a run, from its members' traces: who stood for which term, who voted how and why, what came of it.

An election is one member's candidacy for one term. Members' moments are compared, so all clocks are taken for those of
one host. Knows nothing of how elections are shown.
"""

import heapq
from collections.abc import Iterable, Iterator
from dataclasses import asdict, dataclass, field
from enum import StrEnum
from itertools import repeat
from operator import itemgetter
from typing import Final

from upheaval.checkers.evidence.protocol_events import OF_MODULE
from upheaval.records import Json, RunFolder, TraceEvent, messages_of
from upheaval_node.trace_kinds import TraceKind

INIT, CANVASS, BALLOT, ELECTED, CLOSED = "INIT", "CANVASS", "CANDIDATE_BALLOT", "LEADER_LOG_REPLICATION", "CLOSED"
_BEGINNINGS: Final = (INIT, CANVASS, "NOMINATE")
"""The states that an election begins with, in order; the first that is recorded is its beginning."""
REQUEST, VOTE, TERM = "RequestVote", "Vote", "NewLeadershipTerm"
_DECIDED: Final = ("LEADER_REPLAY", "LEADER_INIT", "LEADER_READY", ELECTED)


class Answer(StrEnum):
    """What a member did about a candidacy, and why."""

    OWN = "own"
    GRANTED = "granted"
    HAD_VOTED = "already voted"
    LATER_TERM = "term"
    BETTER_LOG = "log position"
    SILENT = "no answer"
    UNREACHED = "not reached"


REFUSALS: Final = (Answer.HAD_VOTED, Answer.LATER_TERM, Answer.BETTER_LOG)


class Outcome(StrEnum):
    """What came of a candidacy."""

    LEADS = "leads"
    ELECTED = "elected, did not serve"
    LOST = "lost"
    OPEN = "open at the end"


@dataclass(slots=True)
class Ballot:
    """One member's part in an election; `is_counted`: the candidate got the vote."""

    member_id: int
    answer: Answer
    detail: str
    ns: int | None = None
    is_counted: bool = False


@dataclass(slots=True)
class Step:
    """A state that a member entered, or (with `to`) a message to another one. The last three fields are of messages."""

    ns: int
    member_id: int
    what: str
    detail: str = ""
    to: int | None = None
    has_arrived: bool = False
    is_refusal: bool = False
    """A vote against a candidate."""
    times: int = 1
    """How many in a row the step is the last one of."""


@dataclass(slots=True)
class Election:
    """Times are nanoseconds since the first event of the run's members. `end_ns` is None of one that is open."""

    term_id: int
    candidate_id: int
    begin_ns: int
    cause: str
    log_term_id: int
    log_position: int
    ballots: dict[int, Ballot]
    outcome: Outcome = Outcome.OPEN
    why: str = ""
    end_ns: int | None = None
    number: int = 0
    steps: list[Step] = field(default_factory=list)

    @property
    def voters(self) -> list[int]:
        """Whose votes the candidate had, its own too."""
        ballots = self.ballots.values()
        return [
            ballot.member_id
            for ballot in ballots
            if ballot.answer is Answer.OWN or (ballot.is_counted and ballot.answer is Answer.GRANTED)
        ]

    def to_fields(self, *, with_steps: bool = False) -> dict[str, Json]:
        """As `--json` prints it."""
        fields: dict[str, Json] = asdict(self)
        fields["ballots"] = [asdict(ballot) for ballot in self.ballots.values()]
        if not with_steps:
            del fields["steps"]
        return fields


def elections_of(run: RunFolder) -> list[Election]:
    """All of them in the order of their numbers, from 1 on: that in which they began. Raises `UsageError`."""
    members = run.read_manifest().members
    folders = [run.member(member_id) for member_id in range(members)]
    traced = [zip(repeat(folder.member_id), folder.traced()) for folder in folders]
    seen = ((member_id, event) for member_id, event in messages_of(run) if member_id in range(members))
    reader = _Reader(members)
    for _, member_id, event in heapq.merge(*map(_in_order, (*traced, seen)), key=itemgetter(0)):
        reader.take(member_id, event)
    return reader.finish()


@dataclass(frozen=True, slots=True, order=True)
class _Key:
    ns: int
    member_id: int
    line: int


def _in_order(events: Iterable[tuple[int, TraceEvent]]) -> Iterator[tuple[_Key, int, TraceEvent]]:
    """The clock of a machine that was started anew begins anew: within a file its lines are the order."""
    ns = 0
    for member_id, event in events:
        ns = max(ns, event.ns)
        yield _Key(ns, member_id, event.line), member_id, event


@dataclass(slots=True)
class _Member:
    state: str = ""
    begin_ns: int = 0
    cause: str = ""
    term_id: int = -1
    """The candidate term that it has stored."""
    voted: dict[int, int] = field(default_factory=dict)
    """Whom it voted for, by term; itself where it stood."""
    standing: Election | None = None


class _Reader:
    """Takes the events of all members in the order of their times."""

    def __init__(self, members: int) -> None:
        self._members = [_Member() for _ in range(members)]
        self._elections: dict[tuple[int, int], Election] = {}
        self._steps: list[Step] = []
        self._sent: dict[tuple[str, int, int, int], Step] = {}
        """Messages by name, term, source and target: of several that are equal the first."""
        self._start_ns: int | None = None

    def take(self, member_id: int, event: TraceEvent) -> None:
        """The next event."""
        if self._start_ns is None:
            self._start_ns = event.ns
        ns, member = event.ns - self._start_ns, self._members[member_id]
        match event.event:
            case TraceKind.ELECTION_STATE:
                self._on_state(member_id, member, ns, event)
            case TraceKind.SEND | TraceKind.RECEIVE if event.fields.get("message") in (REQUEST, VOTE, TERM):
                self._on_message(member_id, member, ns, event)
            case TraceKind.PROCESS_START | TraceKind.PROCESS_END if event.fields.get("component") in OF_MODULE:
                self._leave(member, ns, "its process ended")
                member.state = ""
                what = "starts" if event.event == TraceKind.PROCESS_START else "ends"
                self._steps.append(Step(ns, member_id, what))

    def finish(self) -> list[Election]:
        """All events were given."""
        elections = sorted(
            self._elections.values(), key=lambda election: (election.begin_ns, election.term_id, election.candidate_id)
        )
        for number, election in enumerate(elections, 1):
            election.number = number
            end_ns = election.end_ns
            election.steps = [
                step for step in self._steps if election.begin_ns <= step.ns and (end_ns is None or step.ns <= end_ns)
            ]
        return elections

    # --- states ---

    def _on_state(self, member_id: int, member: _Member, ns: int, event: TraceEvent) -> None:
        state, reason = str(event.fields.get("state")), str(event.fields.get("reason") or "")
        term_id = event.number("candidate_term_id")
        self._steps.append(Step(ns, member_id, state, reason))
        if state in _BEGINNINGS and member.state not in _BEGINNINGS[: _BEGINNINGS.index(state)]:
            self._leave(member, ns, reason)
            member.begin_ns, member.cause = ns, reason
        elif state in (BALLOT, ELECTED) and "candidate_term_id" in event.fields:
            self._stand(term_id, member_id, member, ns, event)
            if state == ELECTED:
                self._elect(member)
        elif state in _DECIDED:
            self._elect(member)
        elif state == CLOSED and member.standing is not None and member.standing.outcome is Outcome.ELECTED:
            member.standing.outcome = Outcome.LEADS
            self._leave(member, ns, "")
        elif state != BALLOT:
            self._leave(member, ns, reason)
        member.state, member.term_id = state, max(member.term_id, term_id)

    def _stand(self, term_id: int, member_id: int, member: _Member, ns: int, event: TraceEvent) -> None:
        member.standing, member.voted[term_id] = self._election(term_id, member_id, ns, event), member_id

    def _elect(self, member: _Member) -> None:
        """Its candidacy, if there is one, has the votes."""
        if member.standing is not None:
            member.standing.outcome = Outcome.ELECTED

    def _leave(self, member: _Member, ns: int, why: str) -> None:
        """A candidacy is over, if there is one."""
        election, member.standing = member.standing, None
        if election is not None:
            election.end_ns, election.why = ns, why
            if election.outcome is Outcome.OPEN:
                election.outcome = Outcome.LOST

    def _election(self, term_id: int, candidate_id: int, ns: int, event: TraceEvent) -> Election:
        """Made when the candidacy is first recorded; `event` says how far the candidate's log reaches."""
        known = self._elections.get((term_id, candidate_id))
        if known is not None:
            return known
        candidate = self._members[candidate_id]
        position = "append_position" if "append_position" in event.fields else "log_position"
        ballots = {
            member_id: Ballot(member_id, Answer.UNREACHED, "the request did not reach it")
            for member_id in range(len(self._members))
        }
        ballots[candidate_id] = Ballot(candidate_id, Answer.OWN, "stood itself", ns, is_counted=True)
        self._elections[term_id, candidate_id] = made = Election(
            term_id,
            candidate_id,
            candidate.begin_ns or ns,
            candidate.cause,
            event.number("log_leadership_term_id"),
            event.number(position),
            ballots,
        )
        return made

    # --- messages ---

    def _on_message(self, member_id: int, member: _Member, ns: int, event: TraceEvent) -> None:
        name = str(event.fields["message"])
        is_term = name == TERM
        term_id = event.number("leadership_term_id" if is_term else "candidate_term_id")
        candidate_id = event.number("leader_member_id" if is_term else "candidate_member_id")
        if candidate_id not in range(len(self._members)):
            return
        if event.event == TraceKind.SEND:
            detail, is_refusal = f"term {term_id}", False
            if name == REQUEST and member.standing is None:
                # States of other systems do not say for which term.
                self._stand(term_id, member_id, member, ns, event)
            if name == VOTE:
                ballot = self._on_vote(member_id, member, ns, event)
                is_refusal = ballot.answer is not Answer.GRANTED
                detail = f"refused: {ballot.answer}" if is_refusal else "granted"
            step = Step(ns, member_id, name, detail, to=event.number("to"), is_refusal=is_refusal)
            if self._sent.setdefault((name, term_id, member_id, event.number("to")), step) is step:
                self._steps.append(step)
            return
        source = event.number("follower_member_id") if name == VOTE else candidate_id
        sent = self._sent.get((name, term_id, source, member_id))
        if sent is not None:
            sent.has_arrived = True
        if name == REQUEST:
            ballot = self._election(term_id, candidate_id, ns, event).ballots[member_id]
            if ballot.answer is Answer.UNREACHED:
                ballot.answer, ballot.detail = Answer.SILENT, "it was asked and did not answer"
        elif name == VOTE and candidate_id == member_id and source in range(len(self._members)):
            self._election(term_id, candidate_id, ns, event).ballots[source].is_counted = True

    def _on_vote(self, member_id: int, member: _Member, ns: int, event: TraceEvent) -> Ballot:
        """The first answer of a member counts; the reason of a refusal is that of the rules for votes."""
        term_id, candidate_id = event.number("candidate_term_id"), event.number("candidate_member_id")
        election = self._election(term_id, candidate_id, ns, event)
        ballot = election.ballots[member_id]
        if ballot.answer not in (Answer.UNREACHED, Answer.SILENT):
            return ballot
        ballot.ns = ns
        other = member.voted.get(term_id)
        if event.fields.get("vote") is True:
            ballot.answer, ballot.detail = Answer.GRANTED, "granted"
            member.voted[term_id] = candidate_id
        elif other is not None and other != candidate_id:
            whom = "stood itself" if other == member_id else f"had voted for member {other}"
            ballot.answer, ballot.detail = Answer.HAD_VOTED, f"refused: it {whom} in term {term_id}"
        elif term_id <= member.term_id:
            ballot.answer, ballot.detail = Answer.LATER_TERM, f"refused: it was in term {member.term_id} already"
        else:
            own = _log(event.number("log_leadership_term_id"), event.number("log_position"))
            theirs = _log(election.log_term_id, election.log_position)
            ballot.answer, ballot.detail = Answer.BETTER_LOG, f"refused: its log has {own}, the candidate's {theirs}"
        member.term_id = max(member.term_id, term_id)
        return ballot


def _log(term_id: int, position: int) -> str:
    return f"term {term_id} at {position}"


def log_of(election: Election) -> str:
    """How far the candidate's log reached."""
    return _log(election.log_term_id, election.log_position)


def votes_of(election: Election) -> str:
    """Who voted for it, and of all others why not."""
    voters = election.voters
    votes = [f"{len(voters)} of {len(election.ballots)}: {', '.join(map(str, voters))}"]
    others = (ballot for ballot in election.ballots.values() if ballot.member_id not in voters)
    votes += [f"{ballot.member_id} {_short(ballot)}" for ballot in others]
    return "; ".join(votes)


def _short(ballot: Ballot) -> str:
    if ballot.answer in REFUSALS:
        return f"refused ({ballot.answer})"
    return f"{ballot.answer}, not received" if ballot.answer is Answer.GRANTED else str(ballot.answer)
