"""The times in which a process of clients could not run: one line of `client-stalls.jsonl` each.

A starved or stopped client sends and reads nothing, so an answer that it took late may have been there in time.
"""

import json
from collections.abc import Callable, Mapping
from dataclasses import asdict, dataclass
from typing import Final

from upheaval.records import jsonfields
from upheaval.records.jsonfields import FieldError, Json
from upheaval_node.types import MS, Now

STALLS_NAME: Final = "client-stalls.jsonl"
_LEAST_NS: Final = 50 * MS


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


class StallLog:
    """Records the stalls of the clients of one process. Clients stall together, so a moment is recorded once."""

    def __init__(self, add: Callable[[ClientStall], None]) -> None:
        self._add = add
        self._recorded_ns = 0

    def note(self, now: Now, stall_ns: int) -> None:
        """Take a stall that ends now. Less than 50 ms that are not recorded yet are left out."""
        begin_ns = max(now.ns - stall_ns, self._recorded_ns)
        if now.ns - begin_ns >= _LEAST_NS:
            self._recorded_ns = now.ns
            self._add(ClientStall(begin_ns, now.ns))
