"""The results of attempts to connect that the log does not show: one line of `attempts.jsonl` each.

The log has principals only. If the cluster admits a known principal with a wrong secret, the log looks right. It has
nothing of a client that was not answered either.
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
    """One attempt. `begin_ns` and `ended_ns` are on the host's monotonic clock; `shown` is None for the right
    credentials. `member` is the only member whose endpoint the client knew, None if it knew all.
    """

    shown: WrongCredentials | None
    answer: ConnectAnswer
    ended_ns: int
    begin_ns: int | None = None
    member: int | None = None

    def to_json(self) -> str:
        """A line of `attempts.jsonl`."""
        fields = {name: value for name, value in asdict(self).items() if name == "shown" or value is not None}
        return json.dumps(fields, separators=(",", ":"))


def parse_connect_attempt(fields: Mapping[str, Json]) -> ConnectAttempt:
    """Build an attempt from a decoded line. Raises `FieldError` with the reason."""
    return jsonfields.decode(ConnectAttempt, fields)
