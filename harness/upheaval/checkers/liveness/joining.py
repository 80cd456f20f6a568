"""The promise that members join: a member that runs beside a leader does not stay in its election.

Judged by the members' traces and the faults of the run. The processes of a host share a monotonic clock. Each state of
an election of Aeron Cluster ends by a time-out or by a message of the leader. The exceptions copy or replay a log, and
take as long as the log is. This module reads no log.
"""

from collections.abc import Iterator, Sequence
from typing import Final

from upheaval.checkers.checker import Checker, Source
from upheaval.checkers.evidence.spans import MemberSpans, Span
from upheaval.checkers.evidence.stalls import explained
from upheaval.checkers.evidence.trace_facts import TraceFacts
from upheaval.checkers.evidence.troubles import Trouble, failover_ns, timeouts_of, troubles
from upheaval.checkers.promises import Promise
from upheaval.checkers.signature import COMMIT_FELL, MODULE_CLOSED, Rule, Signature
from upheaval.checkers.verdict import Finding, NotApplicable, Result, Verdict, with_all
from upheaval.records import Manifest, RunFolder
from upheaval_node.types import MS, S

ELECTIONS: Final = 3
"""How often an election may restart: it may begin with an outdated leader, and may have to truncate its log first."""

BYTES_A_SECOND: Final = 1 << 20
"""The least rate at which a member copies and replays its log, in bytes a second."""


def check_joining(
    run: RunFolder, manifest: Manifest, traces: Sequence[TraceFacts], members: Sequence[MemberSpans]
) -> list[Result]:
    """Judge how long members stayed in elections."""
    elections = [span for member in members for span in member.elections]
    led = [span for member in members for span in member.led]
    if manifest.members < 2:
        return [NotApplicable(Promise.MEMBERS_JOIN, "a single member has no leader to join")]
    if not led:
        return [NotApplicable(Promise.MEMBERS_JOIN, "no trace shows a member that led")]
    position = max(facts.position for facts in traces)
    allowed_ns = ELECTIONS * failover_ns(timeouts_of(manifest)) + position * S // BYTES_A_SECOND
    # A member whose trace ends stays in its election as long as other traces go on.
    until_ns = max(min(span.end_ns, members[span.member_id].last_ns) for span in led)
    done = list(troubles(run, traces))
    longest_ns = 0
    missed: list[Finding] = []
    stalls = {facts.member_id: facts.stalls for facts in traces}
    for election in elections:
        of_election: list[Finding] = []
        for leader in led:
            pair = (election.member_id, leader.member_id)
            begin_ns = max(election.begin_ns, leader.begin_ns)
            end_ns = min(election.end_ns, leader.end_ns, until_ns)
            if pair[0] == pair[1] or end_ns <= begin_ns:
                continue
            since_ns, to_ns = max(_quiet(done, pair, begin_ns, end_ns), key=lambda span: span[1] - span[0])
            longest_ns = max(longest_ns, to_ns - since_ns)
            if to_ns - since_ns > allowed_ns:
                finding = _missed(election, leader, (since_ns, to_ns), allowed_ns)
                of_pair = [stall for side in pair for stall in stalls[side]]
                of_election.append(explained(finding, of_pair, since_ns, to_ns))
        missed += _worst(of_election)
    if missed:
        # Another election that took too long may have another cause.
        return [with_all(sorted(missed, key=lambda finding: -finding.late_ms))]
    detail = (
        f"no member was in an election for more than {longest_ns // MS} ms while it and a leader were healthy "
        f"(allowed: {allowed_ns // MS} ms)"
    )
    return [Finding(Promise.MEMBERS_JOIN, Verdict.VALID, detail)]


def _worst(missed: Sequence[Finding]) -> list[Finding]:
    """What one election is reported by, whichever leader it did not join."""
    return sorted(missed, key=lambda finding: (finding.verdict, finding.late_ms))[-1:]


def _quiet(done: Sequence[Trouble], pair: tuple[int, int], begin_ns: int, end_ns: int) -> Iterator[tuple[int, int]]:
    """The intervals in which neither of the two had a fault; at least one."""
    since_ns = begin_ns
    for trouble in sorted(done, key=lambda trouble: trouble.begin_ns):
        if any(trouble.hits(member_id, begin_ns, end_ns) for member_id in pair):
            yield since_ns, max(since_ns, trouble.begin_ns)
            since_ns = max(since_ns, trouble.end_ns)
    yield since_ns, max(since_ns, end_ns)


def _missed(election: Span, leader: Span, when_ns: tuple[int, int], allowed_ns: int) -> Finding:
    took_ns = when_ns[1] - when_ns[0]
    detail = (
        f"member {election.member_id} was in an election for {took_ns // MS} ms, in state {election.state} at last "
        f"(member-{election.member_id}/trace.jsonl:{election.line}), while member {leader.member_id} led and both were "
        f"healthy (allowed: {allowed_ns // MS} ms)"
    )
    members = tuple(sorted((election.member_id, leader.member_id)))
    late_ms = -(-(took_ns - allowed_ns) // MS)
    is_closed = election.closed_ns <= when_ns[0]
    entry = MODULE_CLOSED if is_closed else COMMIT_FELL if election.has_commit_fallen else ""
    signature = Signature(Rule.NOT_JOINED, state=election.state, entry=entry)
    return Finding(
        Promise.MEMBERS_JOIN,
        Verdict.INVALID,
        detail,
        members,
        late_ms=late_ms,
        signature=signature,
        when_ns=when_ns,
    )


JOINING: Final = Checker(
    "joining",
    (Promise.MEMBERS_JOIN,),
    frozenset({Source.TRACES, Source.FAULTS, Source.CONTROLS}),
    lambda evidence: check_joining(evidence.run, evidence.manifest, evidence.traces, evidence.spans),
)
