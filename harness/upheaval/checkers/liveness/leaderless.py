"""The promise that a quorum finds a leader: a quorum that is well is not without one for long.

Judged by the members' traces and the faults of the run. The processes of a host share a monotonic clock. Followers miss
a dead leader after the leader heartbeat time-out. A leader that shuts down in order ends its log, and the next one is
elected without that time-out. This module reads no log and no messages.
"""

from collections.abc import Iterator, Mapping, Sequence
from typing import Final

from upheaval.checkers.checker import Checker, Source
from upheaval.checkers.evidence.protocol_events import KILLS, OF_MODULE, quorum_of
from upheaval.checkers.evidence.spans import MemberSpans, Span
from upheaval.checkers.evidence.stalls import explained
from upheaval.checkers.evidence.trace_facts import TraceFacts
from upheaval.checkers.evidence.troubles import Trouble, calm_times, failover_ns, timeouts_of, troubles
from upheaval.checkers.promises import Promise
from upheaval.checkers.verdict import Finding, NotApplicable, Result, Verdict
from upheaval.records import Manifest, RunFolder
from upheaval_node.types import MS, NEVER_NS

_PAUSE: Final = "pause"


def check_leaderless(
    run: RunFolder, manifest: Manifest, traces: Sequence[TraceFacts], members: Sequence[MemberSpans]
) -> list[Result]:
    """Judge the times without a leader."""
    if manifest.members < 2:
        return [NotApplicable(Promise.LEADER_FOUND, "a single member elects itself")]
    if not any(member.led for member in members):
        return [NotApplicable(Promise.LEADER_FOUND, "no trace shows a member that led")]
    silences = _silences(run)
    there = [
        (span.member_id, *part) for member in members for span in member.there for part in _without(span, silences)
    ]
    judge = _Judge(manifest, there, list(troubles(run, traces)), {facts.member_id: facts.stalls for facts in traces})
    seen = _silences(run, is_seen=True)
    leads = sorted(part for member in members for span in member.led for part in _without(span, seen))
    until_ns = max(member.last_ns for member in members)
    deaths = [judge.longest(since_ns, to_ns, None) for since_ns, to_ns in _between(leads, until_ns)]
    ends = [
        judge.longest(span.end_ns, next((begin for begin, _ in leads if begin > span.begin_ns), until_ns), span)
        for member in members
        for span in member.led
        if span.is_in_order
    ]
    if judge.missed:
        return [max(judge.missed, key=lambda finding: (finding.verdict, finding.late_ms))]
    detail = (
        f"a healthy quorum had no leader for {max(deaths, default=0) // MS} ms at most (allowed: "
        f"{judge.failover_ns // MS} ms)"
    )
    if ends:
        allowed_ms = judge.succession_ns // MS
        detail += f", after orderly ends of leaders for {max(ends) // MS} ms at most (allowed: {allowed_ms} ms)"
    return [Finding(Promise.LEADER_FOUND, Verdict.VALID, detail)]


def _silences(run: RunFolder, *, is_seen: bool = False) -> list[Trouble]:
    """When members may have been dead or stopped without a trace line. `is_seen` selects the faults."""
    silences = []
    for fault in run.read_faults():
        is_proved = fault.inject_proof is not None and fault.inject_proof.holds
        if fault.component in (None, *OF_MODULE) and fault.what in (*KILLS, _PAUSE) and (is_proved or not is_seen):
            end_ns = fault.heal_end_ns if fault.what == _PAUSE else None
            silences.append(Trouble(fault.inject_begin_ns, NEVER_NS if end_ns is None else end_ns, fault.members))
    return sorted(silences, key=lambda trouble: trouble.begin_ns)


def _without(span: Span, silences: Sequence[Trouble]) -> Iterator[tuple[int, int]]:
    """The parts of a member's interval that none of these cover."""
    begin_ns = span.begin_ns
    for silence in silences:
        if silence.begin_ns >= span.begin_ns and silence.hits(span.member_id, begin_ns, span.end_ns):
            yield begin_ns, max(begin_ns, silence.begin_ns)
            begin_ns = max(begin_ns, silence.end_ns)
    if begin_ns < span.end_ns:
        yield begin_ns, span.end_ns


def _between(leads: Sequence[tuple[int, int]], until_ns: int) -> Iterator[tuple[int, int]]:
    """The times without a leader after the first one was elected."""
    covered_ns = leads[0][1]
    for begin_ns, end_ns in [*leads[1:], (until_ns, NEVER_NS)]:
        if begin_ns > covered_ns:
            yield covered_ns, begin_ns
        covered_ns = max(covered_ns, end_ns)


class _Judge:
    def __init__(
        self,
        manifest: Manifest,
        there: Sequence[tuple[int, int, int]],
        troubles: Sequence[Trouble],
        stalls: Mapping[int, Sequence[tuple[int, int]]],
    ) -> None:
        self.missed: list[Finding] = []
        timeouts = timeouts_of(manifest)
        self.failover_ns = failover_ns(timeouts)
        self.succession_ns = self.failover_ns - timeouts.leader_heartbeat_ns
        self._quorum = quorum_of(manifest.members)
        self._stalls = stalls
        self._well = [
            (member_id, *times)
            for member_id, begin_ns, end_ns in there
            for times in calm_times(troubles, member_id, begin_ns, end_ns, self.failover_ns)
        ]

    def longest(self, begin_ns: int, end_ns: int, last: Span | None) -> int:
        """The longest stretch in which one quorum was well without a leader, or after the orderly end of one.

        A stretch that is longer than allowed and that nothing explains is kept as a miss and not counted here.
        """
        allowed_ns = self.failover_ns if last is None else self.succession_ns
        longest_ns = 0
        # A member that recovered later did not hear the end of that leader's log.
        later = () if last else (since for _, since, _ in self._well if begin_ns < since < end_ns)
        for since_ns in {begin_ns, *later}:
            well = sorted(
                (
                    (min(until, end_ns), member_id)
                    for member_id, since, until in self._well
                    if since <= since_ns < until
                ),
                reverse=True,
            )[: self._quorum]
            if len(well) < self._quorum:
                continue
            took_ns = well[-1][0] - since_ns
            if took_ns > allowed_ns:
                self._miss(since_ns, took_ns, allowed_ns, sorted(member_id for _, member_id in well), last)
            else:
                longest_ns = max(longest_ns, took_ns)
        return longest_ns

    def _miss(self, since_ns: int, took_ns: int, allowed_ns: int, well: Sequence[int], last: Span | None) -> None:
        after = "" if last is None else f" after the orderly end of member {last.member_id}, the leader before,"
        detail = (
            f"no member led for {took_ns // MS} ms{after} while members {', '.join(map(str, well))} were healthy "
            f"(allowed: {allowed_ns // MS} ms)"
        )
        late_ms = -(-(took_ns - allowed_ns) // MS)
        finding = Finding(Promise.LEADER_FOUND, Verdict.INVALID, detail, tuple(well), late_ms=late_ms)
        stalls = [stall for member_id in well for stall in self._stalls.get(member_id, ())]
        self.missed.append(explained(finding, stalls, since_ns, since_ns + took_ns))


LEADERLESS: Final = Checker(
    "leaderless",
    (Promise.LEADER_FOUND,),
    frozenset({Source.TRACES, Source.FAULTS, Source.CONTROLS}),
    lambda evidence: check_leaderless(evidence.run, evidence.manifest, evidence.traces, evidence.spans),
)
