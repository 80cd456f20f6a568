"""Messages of schema 112, version 10. Generated: do not edit.

Made from cluster-node-state-codecs.json by tools/generate_messages.py.

A fixed field that the writer's version lacks, or that was left out, holds the SBE
null of its type (a NULL_ constant, or the number given); a null boolean reads as False. Enum fields hold the
member, or the plain number of a value that is unknown or null.
"""

# A constructor fills them by `set_field`, which mypy does not take for the value of a final field.
# mypy: disable-error-code="misc"

from typing import Final

from upheaval_node.protocol.codec import NULL_INT32, NULL_INT64, MessageSchema
from upheaval_node.protocol.message import Message, set_field
from upheaval_node.protocol.schema import load_schema
from upheaval_node.types import MemberId, Position, TermId


class NodeStateHeader(Message):
    """Template 300 of schema 112."""

    version: Final[int]
    padding: Final[int]
    __match_args__ = (
        "version", "padding",
    )
    __slots__ = __match_args__

    def __init__(
        self, version: int = NULL_INT32, padding: int = NULL_INT32,
    ) -> None:
        set_field(self, "version", version)
        set_field(self, "padding", padding)


class CandidateTerm(Message):
    """Template 301 of schema 112."""

    candidate_term_id: Final[TermId]
    timestamp: Final[int]
    log_position: Final[Position]
    __match_args__ = (
        "candidate_term_id", "timestamp", "log_position",
    )
    __slots__ = __match_args__

    def __init__(
        self, candidate_term_id: TermId = TermId(NULL_INT64), timestamp: int = NULL_INT64,
        log_position: Position = Position(NULL_INT64),
    ) -> None:
        set_field(self, "candidate_term_id", candidate_term_id)
        set_field(self, "timestamp", timestamp)
        set_field(self, "log_position", log_position)


class ClusterMembers(Message):
    """Template 303 of schema 112."""

    leadership_term_id: Final[TermId]
    member_id: Final[MemberId]
    high_member_id: Final[MemberId]
    cluster_members: Final[str]
    __match_args__ = (
        "leadership_term_id", "member_id", "high_member_id", "cluster_members",
    )
    __slots__ = __match_args__

    def __init__(
        self, leadership_term_id: TermId = TermId(NULL_INT64), member_id: MemberId = MemberId(NULL_INT32),
        high_member_id: MemberId = MemberId(NULL_INT32), cluster_members: str = "",
    ) -> None:
        set_field(self, "leadership_term_id", leadership_term_id)
        set_field(self, "member_id", member_id)
        set_field(self, "high_member_id", high_member_id)
        set_field(self, "cluster_members", cluster_members)


class NodeStateFooter(Message):
    """Template 304 of schema 112."""

    __match_args__ = ()
    __slots__ = __match_args__


SCHEMA: Final[MessageSchema] = MessageSchema(load_schema("cluster-node-state-codecs"), globals())
