"""Planted bugs of the archive: where recordings end, and what replays send."""

from collections.abc import Callable
from dataclasses import replace
from typing import Final

from upheaval_chaos.planted.bug import INVARIANTS, Area
from upheaval_chaos.planted.changes import replace_method, replacing
from upheaval_node.archive.archive import Archive
from upheaval_node.archive.catalog import RecordingEntry
from upheaval_node.archive.replayer import ReplayParams
from upheaval_node.archive.responses import Requester
from upheaval_node.types import FRAME_ALIGNMENT, NULL_VALUE

AREA: Final[Area] = Area("archive")


@AREA.bug("backed-up")
def bounded_replay_sends_everything(archive: Archive) -> None:
    """A replay that a commit position bounds sends what is not committed too."""
    replayer = archive._replayer
    start = replayer.start

    @replacing(replayer, "start")
    def start_unbounded(requester: Requester, params: ReplayParams) -> int:
        return start(requester, replace(params, limit_counter_id=NULL_VALUE))


@AREA.bug(INVARIANTS, "commits-kept", "no-unexplained-end", "logs-complete", "acknowledged-not-lost")
def recording_stops_a_frame_early(archive: Archive) -> None:
    """The catalog says that a stopped recording ends 32 bytes before its end."""
    catalog = archive._context.catalog

    def recording_less(record: Callable[[RecordingEntry, int, int], None]) -> Callable[..., None]:
        def record_less(entry: RecordingEntry, position: int, timestamp: int) -> None:
            record(entry, max(position - FRAME_ALIGNMENT, entry.start_position), timestamp)

        return record_less

    replace_method(catalog, "record_stopped", recording_less(catalog.record_stopped))
    replace_method(catalog, "record_end", recording_less(catalog.record_end))


@AREA.bug("no-unexplained-end", "logs-equal", "states-agree", INVARIANTS, is_rare=True)
def checksums_not_compared(archive: Archive) -> None:
    """A replay sends bytes that do not match their checksum."""
    archive._replayer._checksum = None
