"""Who led each term, while members say it: all claims name one leader. This module knows no files."""

from collections.abc import Iterable, Iterator
from typing import Final

from upheaval.checkers.leaders import LeaderClaim, one_leader_a_term
from upheaval.checkers.verdict import Finding
from upheaval.records import TraceEvent
from upheaval_node.trace_kinds import TraceKind

_LEADER: Final = "LEADER"
_NAMES_LEADER: Final = ("NewLeadershipTerm", "CommitPosition")
"""Messages that only a leader sends to the other members, with its own member id in them."""


class LiveLeaders:
    """The first claim on each term, and the others that were reported."""

    def __init__(self) -> None:
        self._first: dict[int, LeaderClaim] = {}
        self._reported: set[tuple[int, int]] = set()

    def claimed(self, claims: Iterable[LeaderClaim]) -> Iterator[Finding]:
        """Take what members say; a second leader of a term is a finding, once."""
        for claim in claims:
            first = self._first.setdefault(claim.leadership_term_id, claim)
            other = claim.leadership_term_id, claim.leader_member_id
            if first.leader_member_id != claim.leader_member_id and other not in self._reported:
                self._reported.add(other)
                yield one_leader_a_term([first, claim])


def may_claim(line: bytes) -> bool:
    """Whether a line of a trace can name a leader: most cannot, and decoding them costs more than all else."""
    return b'"leader_member_id"' in line or b'"LEADER"' in line


def traced_claims(member_id: int, event: TraceEvent) -> Iterator[LeaderClaim]:
    """A member that says that it leads a term, whatever the event is, or a leader's message that names its sender."""
    fields = event.fields
    term, leader = fields.get("leadership_term_id"), fields.get("leader_member_id")
    source = f"member-{member_id}/trace.jsonl:{event.line}"
    if type(term) is int:
        if fields.get("role") == _LEADER:
            yield LeaderClaim(term, member_id, source)
        is_announced = event.event == TraceKind.LEADERSHIP_TERM or fields.get("message") in _NAMES_LEADER
        if is_announced and type(leader) is int:
            yield LeaderClaim(term, leader, source)
