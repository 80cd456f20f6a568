"""Answers that no operation of their client waited for: a line of `strays.jsonl` each.

Most are late: the client had given the operation up. A second answer is a stray, too, and one to another client. What a
service of a user's own sends besides its answers is one with its text.
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
    """A session received at `received_ns`, of the host's monotonic clock, the answer to an operation.

    `position` is where the service says that the operation is in the log. Both are None of a message that is no
    answer of a shipped service. `text` is a message of a service of a user's own, as `answer_text` writes it; None
    where the session asks a shipped one. `refusal` is why a shipped service refused a request of a test.
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
    """From a decoded line. Raises `FieldError` with the reason."""
    return jsonfields.decode(Stray, fields)
