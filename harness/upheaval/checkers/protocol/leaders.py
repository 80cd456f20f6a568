"""The promise of one leader per term, from what members traced and what their logs announce.

This module knows nothing of files; it gets claims.
"""

from collections.abc import Iterable
from dataclasses import dataclass

from upheaval.checkers.promises import Promise
from upheaval.checkers.verdict import Finding, Verdict


@dataclass(frozen=True, slots=True)
class LeaderClaim:
    """A record that a member led a term. `source` is its place; `ns` dates it, where the record has a time."""

    leadership_term_id: int
    leader_member_id: int
    source: str
    ns: int | None = None


def one_leader_a_term(claims: Iterable[LeaderClaim]) -> Finding:
    """Check that no two claims name different leaders of one term. Unknown without claims."""
    first: dict[int, LeaderClaim] = {}
    for claim in claims:
        known = first.setdefault(claim.leadership_term_id, claim)
        if known.leader_member_id != claim.leader_member_id:
            detail = (
                f"term {claim.leadership_term_id} has leader {known.leader_member_id} ({known.source}) "
                f"and leader {claim.leader_member_id} ({claim.source})"
            )
            both = (known.leader_member_id, claim.leader_member_id)
            return Finding(
                Promise.ONE_LEADER_A_TERM, Verdict.INVALID, detail, members=both, when_ns=_later(known, claim)
            )
    if not first:
        return Finding(Promise.ONE_LEADER_A_TERM, Verdict.UNKNOWN, "no leader was traced and no log announces one")
    leaders = ", ".join(f"{term}: {claim.leader_member_id}" for term, claim in sorted(first.items())[:8])
    more = ", ..." if len(first) > 8 else ""
    return Finding(Promise.ONE_LEADER_A_TERM, Verdict.VALID, f"{len(first)} terms ({leaders}{more})")


def _later(one: LeaderClaim, other: LeaderClaim) -> tuple[int, int] | None:
    """When a term had two leaders: at the later of both claims."""
    if one.ns is None or other.ns is None:
        return None
    return (max(one.ns, other.ns),) * 2
