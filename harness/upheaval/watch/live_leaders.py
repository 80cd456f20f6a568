"""Who led each term, while members say it: all claims name one leader. This module knows no files."""

from collections.abc import Iterable, Iterator

from upheaval.checkers.protocol.leaders import LeaderClaim, one_leader_a_term
from upheaval.checkers.verdict import Finding


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
