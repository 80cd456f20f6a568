"""When and why clients' sessions ended, as the clients know it: one line of `sessions.jsonl` each.

The log says when the cluster closed a session; only these records say when its client was gone.
"""

import json
from collections.abc import Mapping
from dataclasses import asdict, dataclass
from enum import StrEnum

from upheaval.records import jsonfields
from upheaval.records.jsonfields import Json


class SessionCause(StrEnum):
    """What ended a session for its client."""

    CLIENT = "client"
    """The client closed it."""
    CLUSTER = "cluster"
    """The cluster reported that it closed the session, or took no more messages in it."""
    LOST = "lost"
    """No leader could be found any more."""
    SILENT = "silent"
    """The client stopped without closing the session, and left its connection open."""
    OPEN = "open"
    """Nothing: the session was still open when the run was recorded."""


@dataclass(frozen=True, slots=True)
class SessionEnd:
    """The client of a session sent nothing in it after `ended_ns`, on the host's monotonic clock.

    `leadership_term_id` is the term in which the session opened: in a later term, another session may get the same id
    if the opening was not committed. `followed_term_id` is the latest term whose leader the client knew, and
    `followed_member_id` the member that was named to it as that leader. A silent client kept its connection open until
    `held_ns`. `sent_ns` is the last time at which the client's connection took something from it: a message, a
    keep-alive, or at `ended_ns` the request to close the session.
    """

    session: int
    leadership_term_id: int
    ended_ns: int
    cause: SessionCause
    followed_term_id: int | None = None
    held_ns: int | None = None
    sent_ns: int | None = None
    followed_member_id: int | None = None

    def to_json(self) -> str:
        """A line of `sessions.jsonl`."""
        fields = {name: value for name, value in asdict(self).items() if value is not None}
        return json.dumps(fields, separators=(",", ":"))


def parse_session_end(fields: Mapping[str, Json]) -> SessionEnd:
    """Build a session end from a decoded line. Raises `FieldError` with the reason."""
    return jsonfields.decode(SessionEnd, fields)
