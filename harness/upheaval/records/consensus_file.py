"""`consensus.jsonl`: the messages between members, as forwarders saw them, and how complete that view is.

It has the events `send` and `receive` as in a member's trace, but the harness writes them: `send` is a message that
arrived at a forwarder from the member, `receive` one that left for it. Knows the file format, and no forwarder.
"""

import json
import os
import time
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Final

from upheaval.errors import EnvironmentFault
from upheaval.records import jsonfields
from upheaval.records.jsonfields import Json
from upheaval.records.run_folder import RunFolder
from upheaval.records.trace_events import TraceEvent
from upheaval_node.trace_kinds import TraceKind
from upheaval_node.types import MS

COMPONENT: Final = "forwarder"
WATCH_BEGIN: Final = "watch-begin"
WATCH_END: Final = "watch-end"
LATE: Final = "is_late"
"""A field: a later message of the same publication had arrived before this one."""
MESSAGES: Final = (TraceKind.SEND, TraceKind.RECEIVE)


@dataclass(frozen=True, slots=True)
class LinkSeen:
    """The counters of one forwarder: bytes carried (`received`, `sent`) and, of these, bytes examined (`.._seen`).

    `missing` counts bytes of the stream that never arrived, `garbage` datagrams and messages that could not be parsed.
    """

    source: int
    target: int
    received: int
    received_seen: int
    sent: int
    sent_seen: int
    missing: int
    garbage: int

    @property
    def is_whole(self) -> bool:
        """Whether all traffic was seen and understood."""
        seen_all = (self.received, self.sent) == (self.received_seen, self.sent_seen)
        return seen_all and not self.missing and not self.garbage


class ConsensusWriter:
    """Appends to the file, one line per write. `unwritten` counts the lines that could not be written."""

    def __init__(self, path: Path, now_ns: int) -> None:
        """Raises `EnvironmentFault` when the file cannot be opened."""
        self.unwritten = 0
        try:
            self._file = path.open("ab", buffering=0)
        except OSError as error:
            raise EnvironmentFault(f"cannot write {path}: {error.strerror}") from error
        self._origin = {"component": COMPONENT, "pid": os.getpid()}
        self._add(now_ns, {"event": WATCH_BEGIN})

    def add(self, ns: int, member_id: int, event: str, peer: int, fields: Mapping[str, Json]) -> None:
        """Write a message of a member; `peer` is the receiver of a `send`, and the sender of a `receive`."""
        place = "to" if event == TraceKind.SEND else "from"
        self._add(ns, {"member": member_id, "event": event, place: peer, **fields})

    def close(self, now_ns: int, links: Iterable[LinkSeen]) -> None:
        """Write the end of the watch and close the file."""
        end: dict[str, Json] = {"event": WATCH_END, "unwritten": self.unwritten}
        self._add(now_ns, {**end, "links": [asdict(link) for link in links]})
        self._file.close()

    def _add(self, ns: int, fields: Mapping[str, Json]) -> None:
        epoch_ms = (time.time_ns() - time.monotonic_ns() + ns) // MS
        line = json.dumps({"ts": ns, "epoch_ms": epoch_ms, **self._origin, **fields}, separators=(",", ":")) + "\n"
        try:
            self.unwritten += self._file.write(line.encode()) != len(line)
        except OSError:
            self.unwritten += 1


@dataclass(frozen=True, slots=True)
class Watch:
    """The time that one harness watched the forwarders. `end_ns` is None if it wrote no end."""

    begin_ns: int
    end_ns: int | None = None
    unwritten: int = 0
    links: Sequence[LinkSeen] = ()


def watches_of(events: Iterable[TraceEvent]) -> list[Watch]:
    """The watches in order. Raises `FieldError` for a malformed end."""
    watches: list[Watch] = []
    for event in events:
        if event.event == WATCH_BEGIN:
            watches.append(Watch(event.ns))
        elif event.event == WATCH_END and watches:
            unwritten = jsonfields.integer(event.fields, "unwritten")
            links = event.fields.get("links")
            objects = links if isinstance(links, list) else []
            seen = tuple(jsonfields.decode(LinkSeen, link) for link in objects if isinstance(link, dict))
            watches[-1] = Watch(watches[-1].begin_ns, event.ns, unwritten, seen)
    return watches


def messages_of(run: RunFolder) -> Iterator[tuple[int, TraceEvent]]:
    """Each message with the id of the member that sent or received it, in the order seen. Raises `UsageError`."""
    for event in run.read_consensus():
        member_id = event.fields.get("member")
        if event.event in MESSAGES and type(member_id) is int:
            yield member_id, event
