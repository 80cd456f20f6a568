"""Answers that no operation of their client waited for: one line of `strays.jsonl` each.

Most are late: the client had given up the operation. A second answer and an answer to another client are strays, too.
So is a message that a user's service sends besides its answers; it is recorded with its text.
"""

import json
from collections.abc import Mapping
from dataclasses import asdict, dataclass
from typing import Final

from upheaval.records import jsonfields
from upheaval.records.jsonfields import Json

STRAYS_NAME: Final = "strays.jsonl"


@dataclass(frozen=True, slots=True)
class Stray:
    """A session received the answer to an operation at `received_ns`, on the host's monotonic clock.

    `position` is the log position of the operation, as the service reports it. `operation` and `position` are None for
    a message that is not an answer of a shipped service. `text` is a message of a user's service, as `answer_text`
    writes it; None if the session uses a shipped service. `refusal` is why a shipped service refused a request of a
    test.
    """

    session: int
    received_ns: int
    operation: int | None = None
    position: int | None = None
    text: str | None = None
    refusal: str | None = None

    def to_json(self) -> str:
        """A line of `strays.jsonl`."""
        fields = asdict(self)
        for name in ("text", "refusal"):
            if fields[name] is None:
                del fields[name]
        return json.dumps(fields, separators=(",", ":"))


def parse_stray(fields: Mapping[str, Json]) -> Stray:
    """Build a stray from a decoded line. Raises `FieldError` with the reason."""
    return jsonfields.decode(Stray, fields)
