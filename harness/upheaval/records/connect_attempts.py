"""What came of attempts to connect with wrong credentials: a line of `attempts.jsonl` each.

The log has principals only, so that a wrong secret of somebody known who was let in looks right in it.
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
    """What was shown."""

    SECRET = "wrong-secret"
    """A wrong secret of somebody known."""
    NAME = "unknown-name"
    """The name of nobody."""
    NOTHING = "nothing"
    """No credentials at all."""


class ConnectAnswer(StrEnum):
    """What the cluster did."""

    REFUSED = "refused"
    ADMITTED = "admitted"
    NONE = "none"
    """Nobody answered in time."""


@dataclass(frozen=True, slots=True)
class ConnectAttempt:
    """One attempt; when it ended, by the host's monotonic clock."""

    shown: WrongCredentials
    answer: ConnectAnswer
    ended_ns: int

    def to_json(self) -> str:
        """As it stands in the file."""
        return json.dumps(asdict(self), separators=(",", ":"))


def parse_connect_attempt(fields: Mapping[str, Json]) -> ConnectAttempt:
    """From a decoded line. Raises `FieldError` with the reason."""
    return jsonfields.decode(ConnectAttempt, fields)
