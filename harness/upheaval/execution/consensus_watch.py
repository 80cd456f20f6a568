"""Records in the run folder what proxies see of the consensus stream, because members of Aeron trace no messages.

It is an observer, independent of the link faults: it reads what each proxy received and what it sent. Members report
append and commit positions all the time. For each link, one line per 100 ms is written, and every position that does
not continue the one before. The reports to a member, and the commit positions that it sends, are written in the order
in which they passed.
"""

import struct
import time
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path
from typing import Final, NamedTuple

from upheaval.records import LATE, ConsensusWriter, LinkSeen
from upheaval_chaos.stream_tap import StreamTap
from upheaval_chaos.toxic_links import CONSENSUS, ProxyPlace
from upheaval_node.errors import DecodeError
from upheaval_node.protocol import cluster_messages as cm
from upheaval_node.protocol.constants import CONSENSUS_STREAM_ID
from upheaval_node.protocol.describe import trace_fields
from upheaval_node.trace_kinds import TraceKind
from upheaval_node.types import MS

_INTERVAL_NS: Final = 100 * MS
_TEMPLATE: Final = struct.Struct("<HH")
_POSITION: Final = struct.Struct("<qq")
_HEADER_LENGTH: Final = 8
_APPEND, _COMMIT = 54, 55
"""Templates of the positions that are reported all the time: term, position, and then the reporting member."""


class ConsensusWatch:
    """The watch of one cluster. Proxies call its link watches in their thread; times are monotonic."""

    def __init__(self, path: Path, places: Iterable[ProxyPlace]) -> None:
        """Raises `EnvironmentFault` when the file cannot be opened."""
        self._writer = ConsensusWriter(path, time.monotonic_ns())
        self._order = 0
        self._links = {place.name: LinkWatch(self, place) for place in places if place.channel == CONSENSUS}

    def watch_of(self, name: str) -> "LinkWatch | None":
        """See `datagram_ways.WatchOf`."""
        return self._links.get(name)

    def close(self, carried: Mapping[str, tuple[int, int]]) -> None:
        """Write what was kept back and close the file. `carried` are the bytes that each proxy reports as received and
        sent.
        """
        self.write_all()
        self._writer.close(time.monotonic_ns(), self._link_counts(carried))

    def _link_counts(self, carried: Mapping[str, tuple[int, int]]) -> Iterator[LinkSeen]:
        """The counts of the links in `carried`. A proxy without a report has none."""
        for name, (received, sent) in carried.items():
            link = self._links.get(name)
            if link is None:
                continue
            garbage = link.received.tap.garbage + link.received.garbage + link.sent.garbage
            yield LinkSeen(
                link.place.source,
                link.place.target,
                received,
                link.received.tap.bytes_seen,
                sent,
                link.sent.tap.bytes_seen,
                link.received.tap.missing + link.sent.tap.given_up,
                garbage,
            )

    # --- for the links ---

    def write(self, ns: int, member_id: int, event: str, peer: int, payload: bytes, *, is_late: bool) -> bool:
        """Write a message. Returns whether it is a message of the cluster."""
        try:
            message = cm.SCHEMA.decode(payload)
        except DecodeError:
            return False
        if message is not None:
            fields = trace_fields(message)
            self._writer.add(ns, member_id, event, peer, {**fields, LATE: True} if is_late else fields)
        return message is not None

    def write_all(self) -> None:
        """Write the positions that were kept back, of all links."""
        for link in self._links.values():
            link.received.write_held_back()
            link.sent.write_held_back()

    def reports_to(self, member_id: int) -> "list[_Report]":
        """The last reports of a member's followers to it, as far as they are kept back."""
        sides = (link.sent for link in self._links.values() if link.place.target == member_id)
        return [(side, report) for side in sides if (report := side.held_back(_APPEND)) is not None]

    def write_commits_of(self, member_id: int, order: int) -> None:
        """Write the commit positions that a member sent before the message `order`, if they are kept back."""
        for link in self._links.values():
            commit = link.received.held_back(_COMMIT) if link.place.source == member_id else None
            if commit is not None and commit.order < order:
                link.received.write_held_back(_COMMIT)

    def next_order(self) -> int:
        """The order of the next message that passes."""
        self._order += 1
        return self._order


class LinkWatch:
    """The watch of one forwarder. Implements `datagram_ways.Watch`."""

    def __init__(self, watch: ConsensusWatch, place: ProxyPlace) -> None:
        self.place = place
        self.received = _Side(watch, place.source, TraceKind.SEND, place.target)
        self.sent = _Side(watch, place.target, TraceKind.RECEIVE, place.source)

    def on_received(self, datagram: bytes, ns: int) -> None:
        """The source has sent the datagram."""
        self.received.add(datagram, ns)

    def on_sent(self, datagram: bytes, ns: int) -> None:
        """The datagram is on its way to the target."""
        self.sent.add(datagram, ns)


class _Side:
    """One side of a forwarder: what it received, or what it sent."""

    def __init__(self, watch: ConsensusWatch, member_id: int, event: str, peer: int) -> None:
        self.tap = StreamTap(CONSENSUS_STREAM_ID, self._take)
        self.garbage = 0
        self._ns = 0
        self._watch = watch
        self._place = member_id, event, peer
        self._is_of_leader = event == TraceKind.SEND
        self._unwritten: dict[int, _Passed] = {}
        """By template, the position that was heard last and is not written."""
        self._written: dict[int, _Passed] = {}
        self._reports: list[_Report] = []
        """Those that were kept back when the commit position passed that is."""

    def add(self, datagram: bytes, ns: int) -> None:
        """Add the next datagram, which passed at `ns`."""
        self._ns = ns
        self.tap.add(datagram)

    def held_back(self, template: int) -> "_Passed | None":
        """The position of this template that is kept back."""
        return self._unwritten.get(template)

    def write_held_back(self, *templates: int) -> None:
        """Write the positions that were kept back, of all templates when none is named."""
        for template in templates or tuple(self._unwritten):
            held = self._unwritten.pop(template, None)
            if held is not None:
                self._write(template, held, self._reports if template == _COMMIT else ())

    def write_report(self, report: "_Passed") -> None:
        """Write a position that was kept back, unless it or a later one is written already."""
        if self._unwritten.get(_APPEND) is report:
            del self._unwritten[_APPEND]
        written = self._written.get(_APPEND)
        if written is None or written.order < report.order:
            self._write(_APPEND, report)

    def _take(self, payload: bytes, _session: int, _position: int, is_late: bool) -> None:
        passed = _Passed(self._watch.next_order(), self._ns, payload)
        template = _TEMPLATE.unpack_from(payload)[1] if len(payload) >= _HEADER_LENGTH + _POSITION.size else -1
        if is_late or template not in (_APPEND, _COMMIT):
            self._watch.write_all()
            self._write(template, passed, is_late=is_late)
            return
        is_commit = template == _COMMIT and self._is_of_leader
        reports = self._watch.reports_to(self._place[0]) if is_commit else []
        held, written = self._unwritten.get(template), self._written.get(template)
        if held is not None and not _goes_on(held.payload, payload):
            self.write_held_back(template)
        elif written is not None and passed.ns < written.ns + _INTERVAL_NS and _goes_on(written.payload, payload):
            self._unwritten[template] = passed
            if is_commit:
                self._reports = reports
            return
        self._unwritten.pop(template, None)
        self._write(template, passed, reports)

    def _write(
        self, template: int, passed: "_Passed", reports: "Iterable[_Report]" = (), *, is_late: bool = False
    ) -> None:
        """Write a message after its causes: the `reports` behind a commit position, or the commit positions that a
        member sent before.
        """
        member_id, event, peer = self._place
        for side, report in reports:
            side.write_report(report)
        if template == _APPEND and not self._is_of_leader:
            self._watch.write_commits_of(member_id, passed.order)
        if template in (_APPEND, _COMMIT):
            self._written[template] = passed
        if not self._watch.write(passed.ns, member_id, event, peer, passed.payload, is_late=is_late):
            self.garbage += 1


class _Passed(NamedTuple):
    """A message; `order` is its number in its cluster."""

    order: int
    ns: int
    payload: bytes


_Report = tuple[_Side, _Passed]
"""The report of a follower, and the side on which it passed."""


def _goes_on(before: bytes, after: bytes) -> bool:
    """Whether both are of the same member in the same term, and the position does not go back."""
    (term, position), (next_term, next_position) = (
        _POSITION.unpack_from(payload, _HEADER_LENGTH) for payload in (before, after)
    )
    rest = _HEADER_LENGTH + _POSITION.size
    return term == next_term and position <= next_position and before[rest:] == after[rest:]
