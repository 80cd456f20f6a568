"""The rules in which this node differs from Aeron, as one value: the node's own, or Aeron's.

A member chooses its rules once, when it starts. A field is a row of `docs/protocol.md`: True has the node's own rule,
False Aeron's. With Aeron's rules a cluster loses what members of Aeron lose, so that simulation can find it.
"""

from collections.abc import Container, Mapping
from dataclasses import dataclass, replace
from typing import Final

from upheaval_node.cluster.election_states import AWAITING_QUORUM, ElectionState
from upheaval_node.errors import UsageError
from upheaval_node.suggestions import did_you_mean
from upheaval_node.types import Position, TermId

OWN: Final = "upheaval"
AERON: Final = "aeron"
_FIRST_ENTRY: Final = Position(1)
_MERGED_TRANSPORTS: Final = 2
_READY: Final = frozenset({ElectionState.LEADER_READY})
_NO_STATE: Final[frozenset[ElectionState]] = frozenset()


@dataclass(frozen=True, slots=True)
class Rules:
    """Where the node has its own rule."""

    votes_bind: bool = True
    """E3: a member follows no leader of an earlier term than one that it voted in or followed."""
    leaders_make_way: bool = True
    """E4: a leader that waits for a quorum leaves on a message of a later term."""
    leaders_give_up: bool = True
    """E5: a leader without a quorum gives up when it saw a candidate of a later term."""
    commits_stay: bool = True
    """E6: a member ends rather than cut its log below its commit position."""
    terms_count: bool = True
    """E7: a position counts for the quorum only under a term of the leader's log."""
    names_first: bool = True
    """E8, E9, E10, E11: a quorum names the new term before the old log is committed and replayed, and votes compare
    the last term that is named."""
    replay_wait_ends: bool = True
    """E12: a follower in FOLLOWER_REPLAY gives up a leader that sends no commit position."""
    lost_terms_go: bool = True
    """E13: a start drops terms that begin past the end of the log."""
    catchups_end: bool = True
    """E15: a follower ends its catch-up when it has the live log."""
    empty_terms_move: bool = True
    """E19: a term that a log names has no entries where the log still lacks some of an earlier term."""
    terms_return: bool = True
    """E23: a module that leaves a term of which its log keeps no entry has the term of its last entry again."""
    snapshots_give_way: bool = True
    """E24: a leader without a quorum gives up, too, while the entry that requests a snapshot is not committed."""

    def may_follow(self, leadership_term_id: TermId, promised_term_id: TermId) -> bool:
        """Whether a member in CANVASS may follow that term, after a vote in or a leader of the promised one."""
        return leadership_term_id >= promised_term_id or not self.votes_bind

    @property
    def passed_by_term(self) -> frozenset[ElectionState]:
        """The states that a leader leaves on a NewLeadershipTerm of a later term."""
        return AWAITING_QUORUM if self.leaders_make_way else _NO_STATE

    @property
    def passed_by_commit(self) -> frozenset[ElectionState]:
        """The states that a leader leaves on a CommitPosition of a later term."""
        return AWAITING_QUORUM if self.leaders_make_way else _READY

    def is_passed(self, leadership_term_id: TermId, candidate_term_id: TermId) -> bool:
        """Whether a leader that waits for a quorum gives up its term for that of a candidate."""
        return self.leaders_give_up and candidate_term_id > leadership_term_id

    def may_cut(self, position: Position, commit_position: Position) -> bool:
        """Whether a follower may cut its log at that position."""
        return position >= commit_position or not self.commits_stay

    def quorum_terms(self, *terms: TermId) -> Container[TermId] | None:
        """The terms under which a reported position counts for the quorum. None: any."""
        return terms if self.terms_count else None

    def log_term(self, joined_term_id: TermId, named_term_id: TermId) -> TermId:
        """The term of a log in votes and canvasses."""
        return max(joined_term_id, named_term_id) if self.names_first else joined_term_id

    def replayed_from(self, term_base: Position) -> Position:
        """The least commit position of the leader with which a follower replays its log."""
        return max(term_base, _FIRST_ENTRY) if self.names_first else _FIRST_ENTRY

    def reports_before_replay(self, *, is_leader_waiting: bool, has_rest: bool) -> bool:
        """Whether a follower in FOLLOWER_REPLAY reports its position. `has_rest`: it has something to replay."""
        return is_leader_waiting or has_rest if self.names_first else is_leader_waiting and has_rest

    def has_caught_up(self, active_transports: int) -> bool:
        """Whether a follower ends its catch-up by itself, with that many transports on the image of the log."""
        return self.catchups_end and active_transports >= _MERGED_TRANSPORTS

    def last_term_of(self, named_term_id: TermId, held_term_id: TermId) -> TermId:
        """The last term with entries in a log that names one term and ends within another one here."""
        return min(named_term_id, held_term_id) if self.empty_terms_move else named_term_id


ROWS: Final[Mapping[str, str]] = {
    "E3": "votes_bind",
    "E4": "leaders_make_way",
    "E5": "leaders_give_up",
    "E6": "commits_stay",
    "E7": "terms_count",
    "E8": "names_first",
    "E12": "replay_wait_ends",
    "E13": "lost_terms_go",
    "E15": "catchups_end",
    "E19": "empty_terms_move",
    "E23": "terms_return",
    "E24": "snapshots_give_way",
}
"""The field of each row that has a rule of its own; E9, E10 and E11 go with E8."""

OWN_RULES: Final = Rules()


def rules_named(compatibility: str) -> Rules:
    """The rules by the value of the setting `compatibility`: `upheaval`, `aeron`, or rows whose rule is Aeron's, as
    `E3,E7`. Raises `UsageError` for another value.
    """
    if compatibility == OWN:
        return OWN_RULES
    rows = list(ROWS) if compatibility == AERON else compatibility.split(",")
    unknown = [row for row in rows if row not in ROWS]
    if unknown:
        if set(unknown) <= {OWN, AERON}:
            raise UsageError(f"compatibility {compatibility!r}: {unknown[0]} is no row, so write it alone")
        hint = did_you_mean(unknown[0], (OWN, AERON, *ROWS))
        raise UsageError(f"unknown compatibility {unknown[0]!r}: use {OWN}, {AERON}, or rows of {','.join(ROWS)}{hint}")
    return replace(OWN_RULES, **dict.fromkeys((ROWS[row] for row in rows), False))
