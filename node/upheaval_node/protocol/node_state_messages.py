"""Messages of schema 112, version 10. Generated: do not edit.

Made from cluster-node-state-codecs.json by tools/generate_messages.py.

A fixed field that the writer's version lacks, or that was left out, holds the SBE
null of its type (a NULL_ constant, or the number given); a null boolean reads as False. Enum fields hold the
member, or the plain number of a value that is unknown or null.
"""

from dataclasses import dataclass
from typing import Final

from upheaval_node.protocol.codec import NULL_INT32, NULL_INT64, MessageSchema
from upheaval_node.protocol.message import Message
from upheaval_node.protocol.schema import load_schema
from upheaval_node.types import MemberId, Position, TermId


@dataclass(frozen=True, slots=True, eq=False, repr=False)
class NodeStateHeader(Message):
    """Template 300 of schema 112."""

    version: int = NULL_INT32
    padding: int = NULL_INT32


@dataclass(frozen=True, slots=True, eq=False, repr=False)
class CandidateTerm(Message):
    """Template 301 of schema 112."""

    candidate_term_id: TermId = TermId(NULL_INT64)
    timestamp: int = NULL_INT64
    log_position: Position = Position(NULL_INT64)


@dataclass(frozen=True, slots=True, eq=False, repr=False)
class ClusterMembers(Message):
    """Template 303 of schema 112."""

    leadership_term_id: TermId = TermId(NULL_INT64)
    member_id: MemberId = MemberId(NULL_INT32)
    high_member_id: MemberId = MemberId(NULL_INT32)
    cluster_members: str = ""


@dataclass(frozen=True, slots=True, eq=False, repr=False)
class NodeStateFooter(Message):
    """Template 304 of schema 112."""


SCHEMA: Final[MessageSchema] = MessageSchema(load_schema("cluster-node-state-codecs"), globals())
