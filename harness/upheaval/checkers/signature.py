"""The signature of a finding: the values that broken promises with the same cause have in common."""

from collections.abc import Mapping
from dataclasses import asdict, dataclass
from enum import StrEnum
from typing import Any, Final

LEADER: Final = "LEADER"
FOLLOWER: Final = "FOLLOWER"
MARK_IN_ACTIVATION: Final = "mark file in activation"
"""The state of a mark file that stays in activation, as if its owner were still starting."""

MODULE_CLOSED: Final = "module closed"
"""A consensus module that is closed within an election, while its process goes on."""

ALL_DOWN: Final = "all members were down"
"""A leader that clients do not reach after no member had run for a while."""

CLIENTS_CUT: Final = "clients were cut off"
"""A leader that messages of clients did not reach for longer than an image lives without any."""

COMMIT_FELL: Final = "commit position went back"
"""A member whose own commit position had decreased before."""


class Rule(StrEnum):
    """The rule of a promise that was broken."""

    SILENT_LEADER = "silent-leader"
    """A leader that had answered clients stopped answering all of them."""
    IDLE_LEADER = "idle-leader"
    """The consensus module of a leader was not active."""
    LOST_CLIENTS = "lost-clients"
    """Requests of clients never reached the leader."""
    NO_QUORUM = "no-quorum"
    """A leader reported a commit position that no quorum had reached."""
    EARLIER_TERM_COUNTED = "earlier-term-counted"
    """As `NO_QUORUM`, but a quorum is complete if members count whose logs reached the position in an earlier term."""
    TERM_BELOW_COMMIT = "term-below-commit"
    """A term began below the commit position of an earlier term."""
    MODULES_DIFFER = "modules-differ"
    """The consensus module snapshots of two members differ at the same position."""
    MODULE_NOT_OF_LOG = "module-not-of-log"
    """A snapshot of the consensus module differs from a replay of the log."""
    SESSION_GAP = "session-gap"
    """A leader took a message of a session after one that its client had sent before, which the log does not have."""
    SESSION_UNKNOWN = "session-unknown"
    """A snapshot of a service lacks a session that is open in the log."""
    NOT_JOINED = "not-joined"
    """A member stayed in its election although there was a leader."""
    REFUSED_START = "refused-start"
    """A member that had all its files did not start."""
    UNEXPECTED_END = "unexpected-end"
    """A member ended by itself, without an order, after it had been in an election."""
    UNFORESEEN = "unforeseen"
    """A member reported an exception that is not one of Aeron's own."""
    BALLOT = "ballot"
    """A vote or candidacy that the logs or earlier votes forbid."""
    COMMIT = "commit"
    """A commit position that no quorum had reached, or that its term forbids."""
    TWO_LEADERS = "two-leaders"
    """Two members led the same term."""
    COMMIT_WENT_BACK = "commit-went-back"
    """The commit position of a running member decreased."""
    COMMITTED_DIFFERS = "committed-differs"
    """Two members committed different bytes at the same position."""
    COMMITTED_EARLY = "committed-early"
    """A member that does not lead committed more of the log than any leader had."""
    DAMAGE_MISSED = "damage-missed"
    """A member read wrong bytes of its log, and did not report it."""
    ACKNOWLEDGED_EARLY = "acknowledged-early"
    """A client received the answer to an operation that no member had committed."""


@dataclass(frozen=True, slots=True)
class Signature:
    """The rule, and where it was broken. An empty field is unknown or does not apply to the rule."""

    rule: Rule
    role: str = ""
    """`LEADER` or `FOLLOWER`: the role of the member that broke the rule."""
    state: str = ""
    """The election state of that member."""
    entry: str = ""
    """The kind of log entry, the message and field of a snapshot, the state of a file, a module, members or links, or
    the class of an exception.
    """
    fault: str = ""
    """The fault that members had meanwhile, with the component that it hit."""
    where: str = ""
    """The class and method in which an exception was raised."""

    def matches(self, other: "Signature") -> bool:
        """Whether `other` has every value that is set here."""
        mine, its = asdict(self), asdict(other)
        return all(not value or its[name] == value for name, value in mine.items())

    def to_fields(self) -> dict[str, Any]:
        """The fields for JSON, without empty ones."""
        return {name: value for name, value in asdict(self).items() if value}


def parse_signature(fields: Mapping[str, str]) -> Signature:
    """Make a signature from the values of its fields. Raises `ValueError` for an unknown rule."""
    places = {name: value for name, value in fields.items() if name != "rule"}
    return Signature(Rule(fields["rule"]), **places)
