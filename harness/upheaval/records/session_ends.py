"""When and why clients' sessions ended, as their clients know it: a line of `sessions.jsonl` each.

The log says when the cluster closed a session; that its client is gone is recorded only here.
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
    """The cluster reported that it has closed it, or took no more of it."""
    LOST = "lost"
    """No leader was found any more."""
    SILENT = "silent"
    """The client went without a word, and let its connection be."""
    OPEN = "open"
    """Nothing: it was open when the run was written down."""


@dataclass(frozen=True, slots=True)
class SessionEnd:
    """The client of a session sent nothing in it after `ended_ns`, of the host's monotonic clock.

    `leadership_term_id` is the term in which it opened: in a later one another session may get the id of one whose
    opening was not committed. `followed_term_id` is the latest term whose leader its client knew. `held_ns` is until
    when a silent client had its connection.
    """

    session: int
    leadership_term_id: int
    ended_ns: int
    cause: SessionCause
    followed_term_id: int | None = None
    held_ns: int | None = None

    def to_json(self) -> str:
        """A line of `sessions.jsonl`."""
        fields = {name: value for name, value in asdict(self).items() if value is not None}
        return json.dumps(fields, separators=(",", ":"))


def parse_session_end(fields: Mapping[str, Json]) -> SessionEnd:
    """From a decoded line. Raises `FieldError` with the reason."""
    return jsonfields.decode(SessionEnd, fields)
