"""What a broken promise has in common with others of the same cause, as values: a finding's signature."""

from collections.abc import Mapping
from dataclasses import asdict, dataclass
from enum import StrEnum
from typing import Any, Final

LEADER: Final = "LEADER"
FOLLOWER: Final = "FOLLOWER"
MARK_IN_ACTIVATION: Final = "mark file in activation"
"""A file that says for ever that its owner is starting."""


class Rule(StrEnum):
    """Which rule of a promise was broken."""

    SILENT_LEADER = "silent-leader"
    """A leader that had answered clients answered none."""
    IDLE_LEADER = "idle-leader"
    """The module of a leader was not active."""
    LOST_CLIENTS = "lost-clients"
    """Clients that asked never came to the leader."""
    NO_QUORUM = "no-quorum"
    """A leader called a position committed that no quorum had."""
    EARLIER_TERM_COUNTED = "earlier-term-counted"
    """The same, where a quorum is complete only with members whose logs reach so far in an earlier term."""
    TERM_BELOW_COMMIT = "term-below-commit"
    """A term began below what was committed in an earlier one."""
    MODULES_DIFFER = "modules-differ"
    """Snapshots of the consensus modules of two members differ at one position."""
    MODULE_NOT_OF_LOG = "module-not-of-log"
    """A snapshot of the consensus module holds what the log does not give."""
    NOT_JOINED = "not-joined"
    """A member stayed in its election beside a leader."""
    REFUSED_START = "refused-start"
    """A member with all its files did not start."""
    BALLOT = "ballot"
    """A vote or a candidacy that the logs or earlier votes forbid."""
    COMMIT = "commit"
    """A commit position that no quorum carries, or that its term forbids."""
    TWO_LEADERS = "two-leaders"
    """Two members led one term."""
    COMMIT_WENT_BACK = "commit-went-back"
    """The commit position of a member that lives became lower."""
    COMMITTED_DIFFERS = "committed-differs"
    """Two members committed different bytes at one position."""
    ACKNOWLEDGED_EARLY = "acknowledged-early"
    """A client had the answer to an operation that no member had committed."""


@dataclass(frozen=True, slots=True)
class Signature:
    """The rule, and where it was broken; what is empty does not belong to the rule, or is not known."""

    rule: Rule
    role: str = ""
    """`LEADER` or `FOLLOWER`, of the member whose word broke it."""
    state: str = ""
    """Of that member's election."""
    entry: str = ""
    """The kind of entry, or kind and field of a message in a snapshot, or the state of a file."""
    fault: str = ""
    """What was done to members meanwhile, with the component."""

    def matches(self, other: "Signature") -> bool:
        """Whether the other one has all that this one says."""
        mine, its = asdict(self), asdict(other)
        return all(not value or its[name] == value for name, value in mine.items())

    def to_fields(self) -> dict[str, Any]:
        """As JSON shows it, without what is empty."""
        return {name: value for name, value in asdict(self).items() if value}


def parse_signature(fields: Mapping[str, str]) -> Signature:
    """Of the values of its fields. Raises `ValueError` for a rule that there is not."""
    places = {name: value for name, value in fields.items() if name != "rule"}
    return Signature(Rule(fields["rule"]), **places)
