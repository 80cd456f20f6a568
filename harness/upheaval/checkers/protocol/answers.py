"""The promise that answers are of committed entries: the leader of the entry's term answers, and only after the commit.

Judged by the monotonic clock that clients and members of a host share. A leader traces a CommitPosition before it sends
it, and its services read only up to its own commit position, which rises afterwards. Without connected members a leader
sends none; then the reports of a quorum count. A client reads the clock before it offers a request and after it has the
answer. So no margin is needed. This module knows no files.
"""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import chain
from typing import Final, NamedTuple

from upheaval.checkers.checker import Source, by_log
from upheaval.checkers.evidence.logs import WitnessLog
from upheaval.checkers.evidence.losses import losses_of
from upheaval.checkers.evidence.protocol_events import KILLS, OF_MODULE, quorum_of
from upheaval.checkers.evidence.run_evidence import Evidence
from upheaval.checkers.evidence.term_facts import Lead, Moment, TermFacts
from upheaval.checkers.evidence.trace_facts import TraceFacts
from upheaval.checkers.history.attribution import ADVICE
from upheaval.checkers.history.columns import IS_OK
from upheaval.checkers.promises import Promise
from upheaval.checkers.verdict import Broken, Finding, NotApplicable, Result, Verdict, trace_missing
from upheaval.records import OWN_SYSTEM
from upheaval_chaos.record import FaultRecord
from upheaval_node.types import MS

_PROMISE: Final = Promise.ANSWERED_WHEN_COMMITTED


class Answer(NamedTuple):
    """An answered operation: its log entry, and the times of its invocation and completion."""

    id: int
    position: int
    term: int
    invoke_ns: int
    complete_ns: int
    is_first_message: bool = False
    """Whether only its order identifies the answer: it is the first message of its session after the request."""
    is_of_call: bool = False
    """Whether a custom service answered, which may do so at a later entry of the log, in a later term."""


@dataclass(frozen=True, slots=True)
class _Leader:
    """The leader of a term. `lead` ends no later than the certain death of its process."""

    member_id: int
    lead: Lead
    facts: TermFacts


@dataclass(frozen=True, slots=True)
class _Commit:
    """What shows first that positions of a term were committed: the same for all from `begin` to `end`."""

    term: int
    begin: int
    end: int
    moment: Moment
    member_id: int
    """Whose trace has it."""

    def covers(self, answer: Answer) -> bool:
        """Whether the answer is of one of these positions."""
        return self.term == answer.term and self.begin <= answer.position <= self.end


def judge_answers(
    answers: Iterable[Answer],
    traces: Sequence[TraceFacts],
    deaths: Mapping[int, Sequence[tuple[int, int]]],
    incomplete: Mapping[int, str],
) -> Result:
    """Report the first of `answers` that breaks the promise. `traces` has all members.

    `deaths` maps members to the start and end of each fault that killed the consensus module and was seen to do so.
    `incomplete` maps members whose traces may lack lines to the reason.
    """
    judge = _Judge(traces, deaths)
    count = 0
    for answer in answers:
        count += 1
        try:
            judge.take(answer)
        except Broken as broken:
            finding = broken.finding(_PROMISE)
            why = next((incomplete[member] for member in finding.members if member in incomplete), "")
            detail = f"{finding.detail}; {why}" if why else finding.detail
            return replace(finding, verdict=Verdict.UNKNOWN if why else finding.verdict, detail=detail)
    if not count:
        return NotApplicable(_PROMISE, "no operation that the log shows was answered")
    if not judge.judged:
        return NotApplicable(_PROMISE, "no trace shows who led the terms of the operations that were answered")
    return Finding(_PROMISE, Verdict.VALID, judge.shown())


class _Judge:
    def __init__(self, traces: Sequence[TraceFacts], deaths: Mapping[int, Sequence[tuple[int, int]]]) -> None:
        self.judged = 0
        self._traces = traces
        self._unled = 0
        self._commit: _Commit | None = None
        """That of the previous answer. In the order of the log, most answers share it."""
        self._leaders = {
            term: _Leader(facts.member_id, _lead(facts.terms[term].leads, deaths.get(facts.member_id, ())), known)
            for facts in traces
            for term, known in facts.terms.items()
            if known.leads
        }

    def take(self, answer: Answer) -> None:
        """Judge the next answer. Raises `Broken`."""
        leader = self._leaders.get(answer.term)
        if leader is None:
            self._unled += 1
            return
        self.judged += 1
        who, lead = f"member {leader.member_id}", leader.lead
        where = f"member-{leader.member_id}/trace.jsonl:{lead.line}"
        if answer.complete_ns < lead.begin_ns:
            early = _ms(lead.begin_ns - answer.complete_ns)
            what = f"was complete {early} before {who} began to lead term {answer.term} ({where})"
            raise _broken(answer, leader, answer.complete_ns, what)
        if answer.invoke_ns > lead.end_ns:
            late = _ms(answer.invoke_ns - lead.end_ns)
            what = (
                f"was invoked {late} after {who} had ceased to lead term {answer.term} ({where}), of which its entry is"
            )
            raise _broken(answer, leader, answer.invoke_ns, what)
        if len(self._traces) > 1:
            self._require_committed(answer, leader)

    def _require_committed(self, answer: Answer, leader: _Leader) -> None:
        commit = self._commit
        if commit is None or not commit.covers(answer):
            commit = self._commit = self._first_commit(answer, leader)
        if commit is None:
            if answer.is_of_call and self._is_committed_later(answer):
                return
            what = f"was answered, and no trace shows that its position was committed in term {answer.term}"
            raise _broken(answer, leader, answer.complete_ns, what, Verdict.UNKNOWN)
        if answer.complete_ns < commit.moment.ns:
            early = _ms(commit.moment.ns - answer.complete_ns)
            where = f"member-{commit.member_id}/trace.jsonl:{commit.moment.line}"
            what = f"was complete {early} before any trace shows that its position was committed ({where})"
            raise _broken(answer, leader, answer.complete_ns, what)

    def _first_commit(self, answer: Answer, leader: _Leader) -> _Commit | None:
        """The first moment that shows that the position was committed; None without one."""
        of_traces = [
            (moment, facts.member_id)
            for facts in self._traces
            if (known := facts.terms.get(answer.term)) is not None
            for steps in (known.sent, known.heard)
            if (moment := steps.first_from(answer.position)) is not None
        ]
        reports = (steps.first_from(answer.position) for steps in leader.facts.reports.values())
        reported = sorted((moment for moment in reports if moment is not None), key=lambda moment: moment.ns)
        needed = quorum_of(len(self._traces)) - 1
        moments = list(of_traces)
        if len(reported) >= needed:
            moments.append((reported[needed - 1], leader.member_id))
        if not moments:
            return None
        first, member_id = min(moments, key=lambda pair: pair[0].ns)
        # Up to the first of these positions, the same lines are the first ones for any position.
        end = min(moment.position for moment in (*(moment for moment, _ in of_traces), *reported))
        return _Commit(answer.term, answer.position, end, first, member_id)

    def _is_committed_later(self, answer: Answer) -> bool:
        """Whether a trace shows, before the answer was complete, that a later term had committed its position."""
        moments = (
            steps.first_from(answer.position)
            for facts in self._traces
            for term, known in facts.terms.items()
            if term > answer.term
            for steps in (known.sent, known.heard)
        )
        return any(moment is not None and moment.ns <= answer.complete_ns for moment in moments)

    def shown(self) -> str:
        """Summarise what the verdict rests on."""
        of_many = "after its position was committed, " if len(self._traces) > 1 else ""
        detail = f"{self.judged} answers, each {of_many}while a member led the term of its entry or later"
        return f"{detail}; {self._unled} of terms that no trace shows a leader of" if self._unled else detail


def _lead(leads: Sequence[Lead], deaths: Iterable[tuple[int, int]]) -> Lead:
    """The time from the first to the last lead of a member in a term, cut at its death."""
    begin_ns = leads[0].begin_ns
    ends = (end_ns for death_ns, end_ns in deaths if death_ns >= begin_ns)
    return Lead(begin_ns, leads[0].line, min([leads[-1].end_ns, *ends]))


def _ms(ns: int) -> str:
    return f"{ns / MS:.3f} ms"


def _broken(answer: Answer, leader: _Leader, ns: int, what: str, verdict: Verdict = Verdict.INVALID) -> Broken:
    detail = f"operation id={answer.id} at position {answer.position} {what}"
    if answer.is_first_message:
        detail += f". No rule names its answer, so the first message after the request counts; {ADVICE}"
    member, position = (leader.member_id,), answer.position
    return Broken(verdict, detail, members=member, position=position, operation=answer.id, when_ns=(ns, ns))


def _answers(evidence: Evidence) -> Iterator[Answer]:
    placed = evidence.placed
    history, entries = placed.history, placed.entries
    for row, position, term in zip(placed.rows, entries.positions, entries.terms, strict=True):
        if row >= 0 and IS_OK[history.kinds[row]]:
            yield Answer(history.ids[row], position, term, history.invoked[row], history.completed[row])


def _answers_to_calls(evidence: Evidence, log: WitnessLog) -> Iterator[Answer]:
    """The answered calls whose position in the log is known."""
    for entry in log.calls:
        call = evidence.placed_calls.by_position.get(entry.position)
        if call is not None and call.complete_ns is not None:
            is_first = call.matched is None
            yield Answer(
                call.id, entry.position, entry.term, call.invoke_ns, call.complete_ns, is_first, is_of_call=True
            )


def _deaths(faults: Iterable[FaultRecord]) -> dict[int, list[tuple[int, int]]]:
    """The faults that killed a consensus module and were seen to do so, by member."""
    deaths: dict[int, list[tuple[int, int]]] = {}
    for fault in faults:
        is_gone = fault.inject_proof is not None and fault.inject_proof.holds
        if is_gone and fault.what in KILLS and fault.component in (None, *OF_MODULE):
            for member_id in fault.members:
                deaths.setdefault(member_id, []).append((fault.inject_begin_ns, fault.inject_end_ns))
    return deaths


def _check(evidence: Evidence, log: WitnessLog) -> list[Result]:
    manifest, traces = evidence.manifest, evidence.traces
    if manifest.system != OWN_SYSTEM:
        return [NotApplicable(_PROMISE, f"members of {manifest.system} do not trace when they commit")]
    absent = next((facts.member_id for facts in traces if not facts.is_there), None)
    if absent is not None:
        return [trace_missing(_PROMISE, absent)]
    incomplete = dict.fromkeys(losses_of(evidence.run, manifest).replaced, "its files were replaced")
    incomplete |= {facts.member_id: f"{facts.name} lost lines" for facts in traces if facts.lost is not None}
    answers = chain(_answers(evidence), _answers_to_calls(evidence, log))
    return [judge_answers(answers, traces, _deaths(evidence.faults), incomplete)]


ANSWERS: Final = by_log("answers", (_PROMISE,), _check, {Source.HISTORY})
