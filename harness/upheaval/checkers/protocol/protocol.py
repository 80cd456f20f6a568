"""The promises about votes, terms and commit positions, judged by the traces and node states of a run folder.

The rules are in `ballots` and `commits`; a simulation applies them while it runs. If members trace no messages, the
messages that forwarders saw are judged by the rules of `seen_protocol`. Knows no cluster.
"""

from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field, replace
from typing import Final

from upheaval.checkers.checker import Checker, Source
from upheaval.checkers.evidence.losses import Losses, losses_of
from upheaval.checkers.evidence.node_states import candidate_term
from upheaval.checkers.evidence.protocol_events import OF_LOOP, BrokenIfWhole, MemberEvent, Place, Rules
from upheaval.checkers.evidence.troubles import timeouts_of
from upheaval.checkers.promises import AnyPromise, Promise
from upheaval.checkers.protocol.ballots import BallotRules, require_stored
from upheaval.checkers.protocol.commits import CommitRules
from upheaval.checkers.protocol.seen_protocol import COMMITS_NOT_SEEN, VOTES_NOT_SEEN, SeenBallots, SeenCommits
from upheaval.checkers.verdict import Broken, Finding, NotApplicable, Result, Verdict, trace_missing
from upheaval.records import (
    LOST_EVENTS,
    OWN_SYSTEM,
    Manifest,
    MemberFolder,
    RunFolder,
    TraceEvent,
    messages_of,
    watches_of,
)
from upheaval.records.jsonfields import FieldError
from upheaval_node.files import layout
from upheaval_node.trace_kinds import TraceKind

_PROMISES: Final = (Promise.VOTES_KEPT, Promise.COMMITS_KEPT)


def check_protocol(run: RunFolder, manifest: Manifest) -> list[Result]:
    """Judge both promises."""
    if manifest.system != OWN_SYSTEM:
        return _check_foreign(run, manifest)
    losses = losses_of(run, manifest)
    forgetful = losses.members
    folders = [run.member(member_id) for member_id in range(manifest.members)]
    ballots = BallotRules(manifest.members, forgetful)
    silence_ns = timeouts_of(manifest).leader_heartbeat_ns
    commits = CommitRules(
        manifest.members,
        silence_ns,
        bool(forgetful),
        copies_commit=manifest.copies_commit,
    )
    rules: tuple[Rules, ...] = (ballots, commits)
    hearing = _Hearing(rules)
    unheard: list[int] = []
    for folder in folders:
        has_spoken = False
        for event in folder.traced():
            has_spoken |= event.event in OF_LOOP
            hearing.on_event(member_event(folder.member_id, event))
        if not has_spoken:
            unheard.append(folder.member_id)
    if not unheard:
        is_sealed = manifest.sealed is not None
        if not is_sealed and any(any(rule.at_end()) for rule in (ballots, commits)):
            _add_later_sends(folders, ballots, commits)
        hearing.conclude(is_sealed=is_sealed)
    for forgotten in _compare_node_states(ballots, folders, losses):
        hearing.note(forgotten)
    return [_finding(rule, hearing.worst.get(rule.promise), unheard, run) for rule in rules]


def _add_later_sends(folders: Sequence[MemberFolder], ballots: BallotRules, commits: CommitRules) -> None:
    """Read again what members sent. Members of a running cluster go on while traces are read one after the other: what
    the last one had received, an earlier one may have sent after its trace was read. A line is written before its
    message leaves.
    """
    for folder in folders:
        for event in folder.read_trace_now():
            if event.event == TraceKind.SEND:
                # Lines without a field are the matter of the first reading.
                with suppress(FieldError):
                    ballots.note_sent(member_event(folder.member_id, event))
                    commits.note_sent(member_event(folder.member_id, event))


def _check_foreign(run: RunFolder, manifest: Manifest) -> list[Result]:
    """Judge a system whose members trace no messages."""
    if manifest.members < 2:
        return [NotApplicable(promise, "a single member sends no messages to others") for promise in _PROMISES]
    if not run.has_consensus:
        why = f"members of {manifest.system} trace no messages, and no forwarder wrote {run.consensus_file.name}"
        return [NotApplicable(promise, why) for promise in _PROMISES]
    return [*_check_seen(run, manifest)]


def _check_seen(run: RunFolder, manifest: Manifest) -> list[Finding]:
    """Judge by the messages that forwarders saw. If they may have missed some, a kept promise is unknown."""
    losses = losses_of(run, manifest)
    forgetful = losses.members
    members = range(manifest.members)
    ballots = SeenBallots(manifest.members, forgetful)
    rules: Mapping[Rules, str] = {
        ballots: VOTES_NOT_SEEN,
        SeenCommits(manifest.members, bool(forgetful)): COMMITS_NOT_SEEN,
    }
    why = _why_not_whole(run, manifest.members)
    hearing = _Hearing(tuple(rules), lost=dict.fromkeys(members, why) if why else {})
    for member_id, event in messages_of(run):
        if member_id in members:
            place = Place(member_id, event.line, run.consensus_file.name)
            hearing.on_event(MemberEvent(place, event.ns, event.event, event.fields))
    folders = [run.member(member_id) for member_id in members]
    for folder in folders:
        for event in folder.traced():
            if event.event == TraceKind.ELECTION_STATE:
                hearing.on_event(member_event(folder.member_id, event))
    for forgotten in _compare_node_states(ballots, folders, losses):
        hearing.note(forgotten)
    findings = []
    for rule, not_seen in rules.items():
        detail = f"{rule.summary()}, as forwarders saw them; {not_seen}"
        good = Finding(rule.promise, Verdict.VALID, detail)
        if why:
            good = Finding(rule.promise, Verdict.UNKNOWN, why)
        findings.append(hearing.worst.get(rule.promise, good))
    return findings


def _why_not_whole(run: RunFolder, members: int) -> str:
    """Why the file may lack messages; empty if it has all."""
    name = run.consensus_file.name
    try:
        watches = watches_of(run.read_consensus())
    except FieldError as error:
        return f"{name}: {error}"
    senders = {member_id for member_id, event in messages_of(run) if event.event == TraceKind.SEND}
    silent = next((member_id for member_id in range(members) if member_id not in senders), None)
    for watch in watches:
        if watch.end_ns is None:
            return f"{name} has no end: its writer was killed"
        if watch.unwritten:
            return f"{name} lacks {watch.unwritten} lines that could not be written"
        if len(watch.links) < members * (members - 1):
            return f"{name} has {len(watch.links)} links between {members} members"
        for link in watch.links:
            if not link.is_whole:
                return f"{name} lacks messages that passed from member {link.source} to member {link.target}"
    for member_id in range(members):
        for start in _starts(run.member(member_id)):
            if not any(watch.begin_ns <= start.ns <= (watch.end_ns or 0) for watch in watches):
                return f"{name} does not cover the process that member-{member_id}/trace.jsonl:{start.line} begins"
    return "" if silent is None else f"{name} has no message of member {silent}"


def _starts(folder: MemberFolder) -> Iterator[TraceEvent]:
    return (event for event in folder.traced() if event.event == TraceKind.PROCESS_START)


def member_event(member_id: int, event: TraceEvent) -> MemberEvent:
    """Convert a trace line to an event for rules."""
    return MemberEvent(Place(member_id, event.line), event.ns, event.event, event.fields)


@dataclass(slots=True)
class _Hearing:
    """Feeds events to rules and keeps their worst findings. A rule whose promise is broken gets no more events."""

    rules: Sequence[Rules]
    worst: dict[AnyPromise, Finding] = field(default_factory=dict)
    lost: dict[int, str] = field(default_factory=dict)
    """Members with lost trace lines or other files, and the reason. Their traces may lack events."""

    def note(self, finding: Finding) -> None:
        """Keep a finding if it is worse than the one so far."""
        known = self.worst.get(finding.promise)
        if known is None or finding.verdict > known.verdict:
            self.worst[finding.promise] = finding

    def on_event(self, event: MemberEvent) -> None:
        """Feed the next event of a member."""
        if LOST_EVENTS in event.fields:
            self.lost.setdefault(event.member_id, f"{event.place} says that events were lost")
        lost = self.lost.get(event.member_id, "")
        for rule in self._unbroken():
            try:
                rule.on_event(event)
            except Broken as broken:
                finding = replace(broken.finding(rule.promise), when_ns=(event.ns, event.ns))
                finding = _excused(finding, lost if isinstance(broken, BrokenIfWhole) else "")
                self.note(finding)
                if finding.verdict is Verdict.UNKNOWN:
                    self.lost.setdefault(event.member_id, finding.detail)
            except FieldError as error:
                detail = f"{event.place}: {error}"
                self.note(Finding(rule.promise, Verdict.UNKNOWN, detail, members=(event.member_id,)))
                self.lost.setdefault(event.member_id, detail)

    def conclude(self, *, is_sealed: bool) -> None:
        """Judge what needs all traces. The traces of a running cluster may end at different moments, which excuses
        findings.
        """
        goes_on = "" if is_sealed else "the run is not sealed: traces may have been read up to different moments"
        for rule in self._unbroken():
            for member_id, broken in rule.at_end():
                self.note(_excused(broken.finding(rule.promise), self.lost.get(member_id, goes_on)))

    def _unbroken(self) -> list[Rules]:
        broken = {finding.promise for finding in self.worst.values() if finding.verdict is Verdict.INVALID}
        return [rule for rule in self.rules if rule.promise not in broken]


def _excused(finding: Finding, why: str) -> Finding:
    return replace(finding, verdict=Verdict.UNKNOWN, detail=f"{finding.detail}; {why}") if why else finding


def _compare_node_states(
    ballots: BallotRules | SeenBallots, folders: Sequence[MemberFolder], losses: Losses
) -> Iterator[Finding]:
    """Check that each node state covers the last vote, if the member lost no files since. One that forgot it could vote
    again.
    """
    for folder in folders:
        shown = f"member-{folder.member_id}/{layout.NODE_STATE}"
        ballot = ballots.last_ballot(folder.member_id)
        if ballot is not None and not losses.may_include(folder.member_id, ballot.ns):
            try:
                require_stored(folder.member_id, ballot, _stored_term(folder, shown), shown)
            except Broken as broken:
                yield broken.finding(Promise.VOTES_KEPT)


def _stored_term(folder: MemberFolder, shown: str) -> int:
    """The candidate term in a node state. Raises `Broken` (unknown) if the file is unreadable or has none."""
    try:
        term = candidate_term(folder.path / layout.NODE_STATE)
    except OSError:
        raise Broken(Verdict.UNKNOWN, f"{shown} cannot be read", members=(folder.member_id,)) from None
    if term is None:
        raise Broken(Verdict.UNKNOWN, f"{shown} has no candidate term", members=(folder.member_id,))
    return term


def _finding(rules: Rules, broken: Finding | None, unheard: Sequence[int], run: RunFolder) -> Finding:
    if broken is not None and (broken.verdict is Verdict.INVALID or not unheard):
        return broken
    for member_id in unheard:
        if not run.member(member_id).trace.exists():
            return trace_missing(rules.promise, member_id)
        detail = f"member-{member_id}/trace.jsonl has nothing about its consensus module"
        return Finding(rules.promise, Verdict.UNKNOWN, detail, members=(member_id,))
    return Finding(rules.promise, Verdict.VALID, rules.summary())


PROTOCOL: Final = Checker(
    "protocol",
    _PROMISES,
    frozenset({Source.TRACES, Source.CONSENSUS, Source.FAULTS, Source.CLUSTER}),
    lambda evidence: check_protocol(evidence.run, evidence.manifest),
)
