"""The claims to leadership of a term in a run folder, from traces and logs."""

from collections.abc import Iterator
from typing import Final

from upheaval.checkers.checker import OF_LOG, Checker
from upheaval.checkers.evidence.logs import ComparedLogs
from upheaval.checkers.evidence.run_evidence import Evidence
from upheaval.checkers.promises import Promise
from upheaval.checkers.protocol.leaders import LeaderClaim, one_leader_a_term
from upheaval.checkers.verdict import Finding, Verdict, trace_missing
from upheaval.records import Manifest, RunFolder, TraceEvent
from upheaval_node.trace_kinds import TraceKind

ROLE_LEADER = "LEADER"
# Messages that only a leader sends to other members, with its own member id.
LEADER_MESSAGES = ("NewLeadershipTerm", "CommitPosition")


def _check(evidence: Evidence) -> list[Finding]:
    run, manifest, logs = evidence.run, evidence.manifest, evidence.logs
    for member_id in range(manifest.members):
        if not run.member(member_id).trace.exists():
            finding = one_leader_a_term(_claims(run, manifest, logs))
            if finding.verdict is Verdict.INVALID:
                return [finding]
            return [trace_missing(Promise.ONE_LEADER_A_TERM, member_id)]
    return [one_leader_a_term(_claims(run, manifest, logs))]


def _claims(run: RunFolder, manifest: Manifest, logs: ComparedLogs) -> Iterator[LeaderClaim]:
    for member_id, terms in logs.members_terms.items():
        for term in terms:
            source = f"log of member {member_id} at position {term.position}"
            yield LeaderClaim(term.leadership_term_id, term.leader_member_id, source)
    for member_id in range(manifest.members):
        for event in run.member(member_id).traced():
            yield from traced_claims(member_id, event)


def traced_claims(member_id: int, event: TraceEvent) -> Iterator[LeaderClaim]:
    """Yield the claims in a trace line: a member's role of leader in a term, or the leader that an event or message
    names.
    """
    fields = event.fields
    term = fields.get("leadership_term_id")
    if type(term) is not int:
        return
    if fields.get("role") == ROLE_LEADER:
        yield LeaderClaim(term, member_id, _source(member_id, event), event.ns)
    leader = fields.get("leader_member_id")
    is_announced = event.event == TraceKind.LEADERSHIP_TERM or fields.get("message") in LEADER_MESSAGES
    if is_announced and type(leader) is int:
        yield LeaderClaim(term, leader, _source(member_id, event), event.ns)


def _source(member_id: int, event: TraceEvent) -> str:
    return f"member-{member_id}/trace.jsonl:{event.line}"


LEADERS: Final = Checker("leaders", (Promise.ONE_LEADER_A_TERM,), OF_LOG, _check)
