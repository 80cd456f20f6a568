"""What proxies of the consensus stream let see, written into the run folder: members of Aeron trace no messages.

An observer, apart from what breaks links: it looks at what came in at each proxy and at what went out. Of the
positions that members report all the time, append and commit positions, a line each 100 ms is written for each link,
and each that does not go on from the one before. Reports to a member and the commit positions that it sends are written
in the order in which they passed.
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
"""Templates of the positions that are reported all the time: term, position, and then who says it."""


class ConsensusWatch:
    """Of one cluster, for one harness. What it gives to proxies is called in their thread; times are monotonic."""

    def __init__(self, path: Path, places: Iterable[ProxyPlace]) -> None:
        """Raises `EnvironmentFault` when the file cannot be opened."""
        self._writer = ConsensusWriter(path, time.monotonic_ns())
        self._order = 0
        self._links = {place.name: LinkWatch(self, place) for place in places if place.channel == CONSENSUS}

    def watch_of(self, name: str) -> "LinkWatch | None":
        """See `datagram_ways.WatchOf`."""
        return self._links.get(name)

    def close(self, carried: Mapping[str, tuple[int, int]]) -> None:
        """Nothing passes any more. `carried` are the bytes that each proxy received and sent, as it says."""
        self.write_all()
        self._writer.close(time.monotonic_ns(), self._told(carried))

    def _told(self, carried: Mapping[str, tuple[int, int]]) -> Iterator[LinkSeen]:
        """Nothing of those that say nothing."""
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

    # --- what the links ask for ---

    def write(self, ns: int, member_id: int, event: str, peer: int, payload: bytes, *, is_late: bool) -> bool:
        """Whether it is a message of the cluster's."""
        try:
            message = cm.SCHEMA.decode(payload)
        except DecodeError:
            return False
        if message is not None:
            fields = trace_fields(message)
            self._writer.add(ns, member_id, event, peer, {**fields, LATE: True} if is_late else fields)
        return message is not None

    def write_all(self) -> None:
        """Of all links what was kept back."""
        for link in self._links.values():
            link.received.write_kept()
            link.sent.write_kept()

    def reports_to(self, member_id: int) -> "list[_Report]":
        """What the followers of a member have reported to it last, as far as it is kept back."""
        sides = (link.sent for link in self._links.values() if link.place.target == member_id)
        return [(side, report) for side in sides if (report := side.held_back(_APPEND)) is not None]

    def write_commits_of(self, member_id: int, order: int) -> None:
        """What a member has sent before a message, and is kept back."""
        for link in self._links.values():
            commit = link.received.held_back(_COMMIT) if link.place.source == member_id else None
            if commit is not None and commit.order < order:
                link.received.write_kept(_COMMIT)

    def next_order(self) -> int:
        """Of the next message that passes."""
        self._order += 1
        return self._order


class LinkWatch:
    """One forwarder. Implements `datagram_ways.Watch`."""

    def __init__(self, watch: ConsensusWatch, place: ProxyPlace) -> None:
        self.place = place
        self.received = _Side(watch, place.source, TraceKind.SEND, place.target)
        self.sent = _Side(watch, place.target, TraceKind.RECEIVE, place.source)

    def on_received(self, datagram: bytes, ns: int) -> None:
        """Its source has sent it."""
        self.received.add(datagram, ns)

    def on_sent(self, datagram: bytes, ns: int) -> None:
        """It is on its way to the target."""
        self.sent.add(datagram, ns)


class _Side:
    """What came in, or what went out."""

    def __init__(self, watch: ConsensusWatch, member_id: int, event: str, peer: int) -> None:
        self.tap = StreamTap(CONSENSUS_STREAM_ID, self._take)
        self.garbage = 0
        self._ns = 0
        self._watch = watch
        self._place = member_id, event, peer
        self._is_of_leader = event == TraceKind.SEND
        self._kept: dict[int, _Passed] = {}
        """By template, the position that was heard last and is not written."""
        self._written: dict[int, _Passed] = {}
        self._reports: list[_Report] = []
        """Those that were kept back when the commit position passed that is."""

    def add(self, datagram: bytes, ns: int) -> None:
        """The next one, which passed at that time."""
        self._ns = ns
        self.tap.add(datagram)

    def held_back(self, template: int) -> "_Passed | None":
        """The position that is kept back."""
        return self._kept.get(template)

    def write_kept(self, *templates: int) -> None:
        """What was kept back, of all templates when none is named."""
        for template in templates or tuple(self._kept):
            held = self._kept.pop(template, None)
            if held is not None:
                self._write(template, held, self._reports if template == _COMMIT else ())

    def write_report(self, report: "_Passed") -> None:
        """A position that was kept back, unless it or a later one is written."""
        if self._kept.get(_APPEND) is report:
            del self._kept[_APPEND]
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
        held, written = self._kept.get(template), self._written.get(template)
        if held is not None and not _goes_on(held.payload, payload):
            self.write_kept(template)
        elif written is not None and passed.ns < written.ns + _INTERVAL_NS and _goes_on(written.payload, payload):
            self._kept[template] = passed
            if is_commit:
                self._reports = reports
            return
        self._kept.pop(template, None)
        self._write(template, passed, reports)

    def _write(
        self, template: int, passed: "_Passed", reports: "Iterable[_Report]" = (), *, is_late: bool = False
    ) -> None:
        """After what passed before it: the `reports` that a commit position counts, or what a member had committed."""
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
    """A message; `order` is the how-manyth of its cluster."""

    order: int
    ns: int
    payload: bytes


_Report = tuple[_Side, _Passed]
"""Of a follower, and where it passed."""


def _goes_on(before: bytes, after: bytes) -> bool:
    """The same member in the same term, not further back."""
    (term, position), (next_term, next_position) = (
        _POSITION.unpack_from(payload, _HEADER_LENGTH) for payload in (before, after)
    )
    rest = _HEADER_LENGTH + _POSITION.size
    return term == next_term and position <= next_position and before[rest:] == after[rest:]
