"""The results of attempts to connect with wrong credentials: one line of `attempts.jsonl` each.

The log has principals only. If the cluster admits a known principal with a wrong secret, the log looks right.
"""

import json
from collections.abc import Mapping
from dataclasses import asdict, dataclass
from enum import StrEnum
from typing import Final

from upheaval.records import jsonfields
from upheaval.records.jsonfields import Json

ATTEMPTS_NAME: Final = "attempts.jsonl"


class WrongCredentials(StrEnum):
    """The credentials that the client presented."""

    SECRET = "wrong-secret"
    """A known principal with a wrong secret."""
    NAME = "unknown-name"
    """A name that has no credentials."""
    NOTHING = "nothing"
    """No credentials at all."""


class ConnectAnswer(StrEnum):
    """How the cluster answered."""

    REFUSED = "refused"
    ADMITTED = "admitted"
    NONE = "none"
    """No member answered in time."""


@dataclass(frozen=True, slots=True)
class ConnectAttempt:
    """One attempt. `ended_ns` is on the host's monotonic clock."""

    shown: WrongCredentials
    answer: ConnectAnswer
    ended_ns: int

    def to_json(self) -> str:
        """A line of `attempts.jsonl`."""
        return json.dumps(asdict(self), separators=(",", ":"))


def parse_connect_attempt(fields: Mapping[str, Json]) -> ConnectAttempt:
    """Build an attempt from a decoded line. Raises `FieldError` with the reason."""
    return jsonfields.decode(ConnectAttempt, fields)
