"""Judges who led a term, while members say it: all claims name one leader. This module knows no files and no Spark."""

import json
from collections.abc import Iterable
from dataclasses import asdict, dataclass, field

from upheaval.checkers.protocol.leaders import LeaderClaim, one_leader_a_term
from upheaval_pipeline.facts import CLAIM, Fact, Told


@dataclass
class Term:
    """The first claim, and the other leaders of whom it was told."""

    leader: int | None = None
    source: str = ""
    others: list[int] = field(default_factory=list)

    def to_json(self) -> str:
        """As it is kept between batches."""
        return json.dumps(asdict(self))

    def judge(self, term: int, facts: Iterable[Fact]) -> Told:
        """What more is known of the term with that id. Of several claims in a batch logs come first, then members."""
        told = Told()
        claims = [fact for fact in facts if fact.what == CLAIM]
        for fact in sorted(claims, key=lambda claim: (claim.digest, claim.member, claim.begin)):
            if self.leader is None:
                self.leader, self.source = fact.id, str(fact.value)
            elif fact.id != self.leader and fact.id not in self.others:
                self.others.append(fact.id)
                first = LeaderClaim(term, self.leader, self.source)
                told.findings.append(one_leader_a_term([first, LeaderClaim(term, fact.id, str(fact.value))]))
        return told


def term_of(text: str | None) -> Term:
    """As `to_json` wrote it; a new one of None."""
    return Term() if text is None else Term(**json.loads(text))
