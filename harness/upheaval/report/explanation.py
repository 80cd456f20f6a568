"""How a run came to break a promise: the moment, the operation in each log, what members knew, and the messages that
led there.

From what the run recorded: a protocol trace, where it has one, else what members traced. What happens before the moment
is what its member did until then, and what others did before they sent what was received. Without a protocol trace,
which alone dates messages exactly, it is what all members did until then, and only states. Nothing here judges.
"""

import heapq
import json
from collections import deque
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, field, replace
from typing import Final

from upheaval.checkers.evidence.logs import NO_FRAME, entry_at
from upheaval.checkers.evidence.protocol_events import OF_MODULE
from upheaval.checkers.evidence.recordings import LogMissing, RecordedLog, frame_end
from upheaval.checkers.promises import Promise
from upheaval.checkers.verdict import Finding
from upheaval.errors import HarnessError
from upheaval.records import (
    Entry,
    Json,
    Operation,
    Outcome,
    RunFolder,
    TraceEvent,
    how_to_trace,
    messages_of,
    read_entries,
)
from upheaval.report.elections import Step
from upheaval.report.figures import has_killed, kills_of
from upheaval.report.moments import Moment, Moments
from upheaval_node.protocol.describe import camel_case
from upheaval_node.trace_kinds import TraceKind

STEPS_MAX: Final = 40
_CONSENSUS: Final = "consensus"
_LEADER: Final = "LEADER"
_CLOSED: Final = "CLOSED"
_PROCESS: Final = (TraceKind.PROCESS_START, TraceKind.PROCESS_END)
_FIRST_ROLE: Final = "FOLLOWER"
"""Of each process: a trace has changes of the role alone."""
_TERMS: Final = ("leadershipTermId", "candidateTermId")
_LOG_TERM: Final = "logLeadershipTermId"
_POSITION: Final = "logPosition"
_STEADY: Final = frozenset({"CommitPosition", "AppendPosition", "CanvassPosition"})
"""Sent all the time: of some in a row the last one is shown."""
_LOG: Final = "log"
"""The stream on which a leader appends."""


@dataclass(slots=True)
class Knowledge:
    """What a member knew by the moment; None, -1 and empty for what it had not reported."""

    member_id: int
    runs: bool | None = None
    role: str = ""
    state: str = ""
    term_id: int = -1
    leader_id: int = -1
    commit_position: int = -1
    """The last one that it sent or heard."""
    append_position: int = -1
    """The last one that it reported; of a leader, the last one that it sent on the log."""


@dataclass(frozen=True, slots=True)
class Explanation:
    """Times are nanoseconds of the run's clock. `moment_ns` is None where the run does not show it."""

    finding: Finding
    start_ns: int
    good_ns: int
    """The last answer before the moment, or the start."""
    moment_ns: int | None
    member_id: int | None
    operation: Operation | None = None
    position: int | None = None
    """That of the finding, else of its operation."""
    entries: Mapping[int, str] = field(default_factory=dict)
    """What each member's log has at the position at the end of the run, by its id."""
    members: Sequence[Knowledge] = ()
    steps: Sequence[Step] = ()
    """States and messages that happen before the moment, since the last answer."""
    without_messages: str = ""
    """Why the steps are states alone; empty for a run with a protocol trace."""

    @property
    def lack(self) -> str:
        """What to say of a moment without steps; empty where there are some."""
        if self.steps or self.moment_ns is None:
            return ""
        messages = "" if self.without_messages else " and no message between members"
        return f"since the last answer no change of state{messages} led there"

    def to_fields(self) -> dict[str, Json]:
        """As `--json` prints it, with times since the start of the run."""
        operation = self.operation
        return {
            "finding": self.finding.to_fields(),
            "moment_ns": None if self.moment_ns is None else self.moment_ns - self.start_ns,
            "last_good_ns": self.good_ns - self.start_ns,
            "member": self.member_id,
            "operation": None if operation is None else json.loads(operation.to_json()),
            "position": self.position,
            "entries": {str(member_id): entry for member_id, entry in self.entries.items()},
            "members": [asdict(known) for known in self.members],
            "steps": [{**asdict(step), "ns": step.ns - self.start_ns} for step in self.steps],
        }


def in_order(findings: Sequence[Finding], moments: Mapping[Finding, Moment]) -> list[Finding]:
    """The worst verdict first, then the earliest moment: what broke first may be the cause of the rest.

    At one moment the invariants come last, as they are the least specific.
    """
    return sorted(findings, key=lambda finding: _rank(finding, moments.get(finding)))


def _rank(finding: Finding, moment: Moment | None) -> tuple[int, bool, int, bool, bool]:
    ns, is_exact = (0, False) if moment is None else (moment.ns, moment.is_exact)
    return -finding.verdict, moment is None, ns, finding.promise is Promise.INVARIANTS, not is_exact


def explain(run: RunFolder, finding: Finding) -> Explanation:
    """Of a finding on that run."""
    operations, moments = run.known_operations(), Moments(run)
    entries = _entries(run)
    begins = [operation.invoke_ns for operation in operations[:1]] + [entry.ns for entry in entries[:1]]
    start_ns = min(begins, default=0) if moments.start_ns is None else moments.start_ns
    moment_ns, member_id = _moment(finding, moments)
    good = [o.complete_ns for o in operations if o.outcome is Outcome.OK and o.complete_ns is not None]
    good_ns = max((ns for ns in good if moment_ns is not None and ns < moment_ns), default=start_ns)
    operation = next((o for o in operations if o.id == finding.operation), None)
    position = finding.position if operation is None or finding.position is not None else operation.position
    count = run.read_manifest().members
    explanation = Explanation(
        finding, start_ns, good_ns, moment_ns, member_id, operation, position, _logged(run, count, position)
    )
    if moment_ns is None:
        return explanation
    is_traced = _has_protocol_trace(run)
    until = [entry for entry in entries if entry.ns <= moment_ns]
    members = knowledge_of(until, count)
    for fault in run.read_faults():
        if fault.inject_begin_ns <= moment_ns < fault.inject_end_ns:
            for known in members:
                # Nothing dates a kill within its injection.
                known.runs = None if has_killed(fault, known.member_id) else known.runs
    past = until if is_traced else [entry for entry in until if not entry.message]
    ends = {member_id: moment_ns} if is_traced and member_id is not None else dict.fromkeys(range(count), moment_ns)
    return replace(
        explanation,
        members=members,
        steps=last_of(steps_of(pair for pair in before(past, ends) if pair[0].ns >= good_ns)),
        without_messages="" if is_traced else f"messages are not shown without a protocol trace: {how_to_trace(run)}",
    )


def _has_protocol_trace(run: RunFolder) -> bool:
    return any(run.member(member_id).protocol_files() for member_id in range(run.read_manifest().members))


def _entries(run: RunFolder) -> list[Entry]:
    """Those of the consensus modules and of their processes, of their traces where there is no protocol trace; none of
    a run that cannot be read, on which there are findings of their own.
    """
    try:
        if _has_protocol_trace(run):
            entries = [entry for entry in read_entries(run) if entry.component == _CONSENSUS]
        else:
            entries = sorted(_traced(run), key=lambda entry: entry.ns)
        return list(heapq.merge(_of_processes(run), entries, key=lambda entry: entry.ns))
    except (HarnessError, OSError):
        return []


def _traced(run: RunFolder) -> Iterator[Entry]:
    """What each member traced, and what forwarders saw between members of Aeron, which trace no messages."""
    for member_id in range(run.read_manifest().members):
        for event in _of_module(run, member_id):
            if event.event not in _PROCESS:
                yield _as_entry(member_id, event)
    for member_id, event in messages_of(run):
        yield _as_entry(member_id, event)


def _of_module(run: RunFolder, member_id: int) -> list[TraceEvent]:
    """What the processes of a member's consensus module traced."""
    return [event for event in run.member(member_id).traced() if event.fields.get("component") in OF_MODULE]


def _as_entry(member_id: int, event: TraceEvent) -> Entry:
    """With the names that a protocol trace has for the fields of messages."""
    message, to = str(event.fields.get("message") or ""), event.fields.get("to")
    fields = {camel_case(name): value for name, value in event.fields.items()} if message else event.fields
    to = to if isinstance(to, int) else None
    return Entry(member_id, event.ns, _CONSENSUS, event.event, message, to, "", fields, event.fields)


def _of_processes(run: RunFolder) -> list[Entry]:
    """Begins and ends of the processes that consensus modules are in; one that is killed traces no end."""
    happened: list[tuple[int, int, str]] = []
    faults = list(run.read_faults())
    for member_id in range(run.read_manifest().members):
        events = _of_module(run, member_id)
        happened += [(event.ns, member_id, event.event) for event in events if event.event in _PROCESS]
        happened += [(ns, member_id, TraceKind.PROCESS_END) for ns in kills_of(member_id, faults, events)]
    return [Entry(member_id, ns, _CONSENSUS, event, "", None, "", {}, {}) for ns, member_id, event in sorted(happened)]


def _moment(finding: Finding, moments: Moments) -> tuple[int | None, int | None]:
    """When, and whose step it was: as its runner saw it, else that of the operation or the position."""
    rule = moments.rule_of(finding)
    if rule is not None:
        return rule.ns, rule.member
    moment = moments.of(finding)
    member_id = finding.members[0] if len(finding.members) == 1 else None
    if moment is None or moments.start_ns is None:
        return None, member_id
    return moments.start_ns + moment.ns, member_id


def _logged(run: RunFolder, count: int, position: int | None) -> dict[int, str]:
    if position is None:
        return {}
    return {member_id: _entry(run, member_id, position) for member_id in range(count)}


def _entry(run: RunFolder, member_id: int, position: int) -> str:
    """What a log has where a frame ends or begins at that position."""
    try:
        log = RecordedLog(run.member(member_id))
        for segment in log.segments():
            for offset in segment.offsets:
                if position in (segment.base + offset, segment.base + frame_end(segment, offset)):
                    return entry_at(segment, offset)
    except LogMissing as error:
        return str(error)
    return NO_FRAME if log.end_position >= position else f"its log ends at {log.end_position}"


def knowledge_of(entries: Iterable[Entry], count: int) -> list[Knowledge]:
    """What each of so many members knew after those entries, by what it did itself."""
    members = [Knowledge(member_id) for member_id in range(count)]
    is_log_traced = False
    for entry in entries:
        known = members[entry.member_id]
        match entry.event:
            case TraceKind.PROCESS_START:
                members[entry.member_id] = Knowledge(entry.member_id, runs=True, role=_FIRST_ROLE)
            case TraceKind.PROCESS_END:
                known.runs = False
            case TraceKind.ELECTION_STATE:
                known.runs, known.state = True, str(entry.fields.get("state"))
                known.term_id = _number(entry, "leadership_term_id")
                known.leader_id = _number(entry, "leader_member_id")
                known.append_position = max(_number(entry, "append_position"), -1)
            case TraceKind.LEADERSHIP_TERM if known.state in ("", _CLOSED):
                # Members of Aeron name no leader in an election.
                known.term_id = _number(entry, "leadership_term_id")
                known.leader_id = _number(entry, "leader_member_id")
            case TraceKind.ROLE:
                known.role = str(entry.fields.get("new"))
        if entry.message == "CommitPosition":
            known.commit_position = _number(entry, "logPosition")
        elif entry.message == "AppendPosition" and entry.event == TraceKind.SEND:
            known.append_position = _number(entry, "logPosition")
        elif entry.event == TraceKind.SEND and entry.record.get("stream") == _LOG:
            appended = entry.record.get("position")
            known.append_position = appended if type(appended) is int else known.append_position
            is_log_traced = True
    for known in members:
        if known.role == _LEADER and not is_log_traced:
            known.append_position = -1
    return members


def _number(entry: Entry, name: str) -> int:
    value = entry.fields.get(name)
    return value if type(value) is int else -1


def _sends(entries: Sequence[Entry]) -> dict[int, int]:
    """For each message that was received, by its place among the entries, the place of its send."""
    under_way: dict[tuple[str, str, int], deque[int]] = {}
    sends: dict[int, int] = {}
    for place, entry in enumerate(entries):
        if not entry.message:
            continue
        words = json.dumps(entry.fields, sort_keys=True)
        if entry.event == TraceKind.SEND and entry.to is not None:
            under_way.setdefault((entry.message, words, entry.to), deque()).append(place)
        elif entry.event == TraceKind.RECEIVE:
            places = under_way.get((entry.message, words, entry.member_id))
            if places:
                sends[place] = places.popleft()
    return sends


def before(entries: Sequence[Entry], ends: Mapping[int, int]) -> Iterator[tuple[Entry, bool]]:
    """What happens before those moments of those members, and of a message whether it arrived within that."""
    sends = _sends(entries)
    horizon = {member_id: len(entries) for member_id in ends}
    arrived: set[int] = set()
    past: list[int] = []
    for place in range(len(entries) - 1, -1, -1):
        entry = entries[place]
        if place > horizon.get(entry.member_id, -1) or entry.ns > ends.get(entry.member_id, entry.ns):
            continue
        past.append(place)
        if place in sends:
            arrived.add(sends[place])
            sender = entries[sends[place]].member_id
            horizon[sender] = max(horizon.get(sender, -1), sends[place])
    for place in reversed(past):
        yield entries[place], place in arrived


def steps_of(past: Iterable[tuple[Entry, bool]]) -> list[Step]:
    """Messages once, where they were sent; of the same steady ones in a row the last.

    A row ends with a change of its sender or its target.
    """
    steps: list[Step] = []
    steady: dict[tuple[int, int, str], Step] = {}
    for entry, has_arrived in past:
        if entry.event == TraceKind.ELECTION_STATE:
            state, reason = str(entry.fields.get("state")), str(entry.fields.get("reason"))
            steps.append(Step(entry.ns, entry.member_id, state, reason))
        elif entry.event in _PROCESS:
            what = "starts" if entry.event == TraceKind.PROCESS_START else "ends"
            steps.append(Step(entry.ns, entry.member_id, what))
        elif entry.message and entry.event == TraceKind.SEND and entry.to is not None:
            step, key = _sent(entry, entry.to, has_arrived), (entry.member_id, entry.to, entry.message)
            if entry.message in _STEADY and key in steady:
                step.times += steady[key].times
                steps.remove(steady[key])
            steady[key] = step
            steps.append(step)
            continue
        else:
            continue
        steady = {key: step for key, step in steady.items() if entry.member_id not in key[:2]}
    return steps


def _sent(entry: Entry, to: int, has_arrived: bool) -> Step:
    fields, vote = entry.fields, entry.fields.get("vote")
    words = [f"term {fields[name]}" for name in _TERMS if name in fields]
    if isinstance(vote, bool):
        words.append("granted" if vote else "refused")
    elif _LOG_TERM in fields:
        words.append(f"log term {fields[_LOG_TERM]} at {fields.get(_POSITION)}")
    elif _POSITION in fields:
        words = [" ".join([*words, f"at {fields[_POSITION]}"])]
    return Step(entry.ns, entry.member_id, entry.message, ", ".join(words), to, has_arrived, vote is False)


def last_of(steps: Sequence[Step]) -> list[Step]:
    """As many as are shown: the later half as it is, and before it the latest without steady messages.

    So the votes stay that a heartbeat a millisecond would push out, and the message that broke the promise, too.
    """
    if len(steps) <= STEPS_MAX:
        return list(steps)
    half = STEPS_MAX // 2
    earlier = [step for step in steps[:-half] if step.what not in _STEADY]
    return [*earlier[-half:], *steps[-half:]]
