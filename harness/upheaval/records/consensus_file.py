"""`consensus.jsonl`: the messages between members, as forwarders saw them, and how whole that is.

It has the events `send` and `receive` as the trace of a member has them, but the harness wrote them: `send` is what
came in at a forwarder from the member, `receive` what went out to it. Knows the form of the file, and no forwarder.
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
"""A field: a later message of the same publication had come in before this one."""
MESSAGES: Final = (TraceKind.SEND, TraceKind.RECEIVE)


@dataclass(frozen=True, slots=True)
class LinkSeen:
    """Of one forwarder: bytes that it carried and bytes that were looked at, of what came in and of what went out.

    `missing` are bytes of the stream that never came in, `garbage` datagrams and messages that could not be read.
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
        """Whether everything that passed was seen and understood."""
        seen_all = (self.received, self.sent) == (self.received_seen, self.sent_seen)
        return seen_all and not self.missing and not self.garbage


class ConsensusWriter:
    """Appends to the file, a line at once. What cannot be written is counted: `unwritten`."""

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
        """A message of a member: whom it was sent to, or by whom it was."""
        place = "to" if event == TraceKind.SEND else "from"
        self._add(ns, {"member": member_id, "event": event, place: peer, **fields})

    def close(self, now_ns: int, links: Iterable[LinkSeen]) -> None:
        """The watch is over."""
        told: dict[str, Json] = {"event": WATCH_END, "unwritten": self.unwritten}
        self._add(now_ns, {**told, "links": [asdict(each) for each in links]})
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
    """One harness's time at the forwarders. `end_ns` is None of one that wrote no end."""

    begin_ns: int
    end_ns: int | None = None
    unwritten: int = 0
    links: Sequence[LinkSeen] = ()


def watches_of(events: Iterable[TraceEvent]) -> list[Watch]:
    """In order. Raises `FieldError` for an end that is malformed."""
    found: list[Watch] = []
    for event in events:
        if event.event == WATCH_BEGIN:
            found.append(Watch(event.ns))
        elif event.event == WATCH_END and found:
            unwritten = jsonfields.integer(event.fields, "unwritten")
            links = event.fields.get("links")
            told = links if isinstance(links, list) else []
            seen = tuple(jsonfields.decode(LinkSeen, each) for each in told if isinstance(each, dict))
            found[-1] = Watch(found[-1].begin_ns, event.ns, unwritten, seen)
    return found


def messages_of(run: RunFolder) -> Iterator[tuple[int, TraceEvent]]:
    """Each message with the member whose event it is, in the order in which they were seen. Raises `UsageError`."""
    for event in run.read_consensus():
        member_id = event.fields.get("member")
        if event.event in MESSAGES and type(member_id) is int:
            yield member_id, event
