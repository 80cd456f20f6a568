"""The times in which a process of clients could not run: one line of `client-stalls.jsonl` each.

A starved or stopped client sends and reads nothing, so an answer that it took late may have been there in time.
"""

import json
from collections.abc import Mapping
from dataclasses import asdict, dataclass
from typing import Final

from upheaval.records import jsonfields
from upheaval.records.jsonfields import FieldError, Json

STALLS_NAME: Final = "client-stalls.jsonl"


@dataclass(frozen=True, slots=True)
class ClientStall:
    """From `begin_ns` to `end_ns`, on the host's monotonic clock, a process of clients could not run."""

    begin_ns: int
    end_ns: int

    def to_json(self) -> str:
        """A line of `client-stalls.jsonl`."""
        return json.dumps(asdict(self), separators=(",", ":"))


def parse_client_stall(fields: Mapping[str, Json]) -> ClientStall:
    """Build a stall from a decoded line. Raises `FieldError` with the reason."""
    stall = jsonfields.decode(ClientStall, fields)
    if stall.end_ns < stall.begin_ns:
        raise FieldError("'end_ns' is before 'begin_ns'")
    return stall
