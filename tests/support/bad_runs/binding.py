"""Runs whose files do not belong together. They are sealed anew, so that it is not the seal that finds them."""

import json
import re
import shutil
import struct
import zlib
from collections.abc import Callable
from pathlib import Path

from support.bad_runs.bad_run import BadRun
from upheaval.checkers.evidence.recordings import RecordedLog
from upheaval.checkers.promises import Promise
from upheaval.records import RunFolder, seal

_SCENARIO = "snapshot-and-restart"
FIRST_SNAPSHOT, SECOND_TERM, LAST_SNAPSHOT = 10208, 26432, 31936
"""Where they are in the log of that run; another execution of its seed puts them elsewhere."""
_RECORD = 64
_TERM, _SNAPSHOT = 0, 1
_DESCRIPTOR_HEADER = 32
_CATALOG_HEADER = 32


def _put(path: Path, offset: int, kind: str, value: int) -> None:
    with path.open("r+b") as stream:
        stream.seek(offset)
        stream.write(struct.pack(f"<{kind}", value))


def _recording_log(run: Path, member: int = 1) -> Path:
    return run / f"member-{member}" / "cluster" / "recording.log"


def _records(path: Path, kind: int) -> list[int]:
    content = path.read_bytes()
    starts = range(0, len(content), _RECORD)
    return [start for start in starts if struct.unpack_from("<i", content, start + 44) == (kind,)]


def _catalog(run: Path, member: int = 1) -> Path:
    return run / f"member-{member}" / "archive" / "archive.catalog"


def _descriptor(catalog: Path, recording_id: int) -> int:
    """Where the fields of a recording begin in a catalog."""
    content = catalog.read_bytes()
    offset = _CATALOG_HEADER
    while struct.unpack_from("<q", content, offset + _DESCRIPTOR_HEADER + 16) != (recording_id,):
        offset += _DESCRIPTOR_HEADER + int(struct.unpack_from("<i", content, offset)[0])
    return offset + _DESCRIPTOR_HEADER


def _resnapshot(path: Path, at: int) -> None:
    """Give a snapshot record the checksum of what it says now."""
    content = path.read_bytes()
    _put(path, at + 60, "I", zlib.crc32(content[at : at + 44] + content[at + 48 : at + 56]))


# --- whose files they are ---


def a_members_folder_is_a_copy_of_anothers(run: Path) -> None:
    shutil.rmtree(run / "member-2")
    shutil.copytree(run / "member-0", run / "member-2")


def a_trace_is_of_another_run(run: Path) -> None:
    path = run / "member-1" / "trace.jsonl"
    path.write_text(path.read_text().replace('"event":"process-start"', '"event":"process-start","run":"other"'))


def a_process_never_started(run: Path) -> None:
    path = run / "member-1" / "trace.jsonl"
    path.write_text(re.sub(r'\{[^\n]*"pid":2,"event":"process-start"[^\n]*\n', "", path.read_text()))


def a_module_mark_is_of_another_member(run: Path) -> None:
    shutil.copy(run / "member-0" / "cluster" / "cluster-mark.dat", run / "member-1" / "cluster" / "cluster-mark.dat")


def a_member_never_came_to_its_identity(run: Path) -> None:
    """Killed while it started, it leaves mark files without version and ids; no bad run."""
    member = run / "member-1"
    for mark in (member / "archive" / "archive-mark.dat", *member.glob("cluster/cluster-mark*.dat")):
        _put(mark, 8, "i", 0)
    for mark in member.glob("cluster/cluster-mark*.dat"):
        _put(mark, 64, "i", 0)


def a_service_mark_is_of_another_service(run: Path) -> None:
    _put(run / "member-1" / "cluster" / "cluster-mark-service-0.dat", 68, "i", 3)


def an_archive_mark_is_of_another_member(run: Path) -> None:
    shutil.copy(run / "member-0" / "archive" / "archive-mark.dat", run / "member-1" / "archive" / "archive-mark.dat")


def a_module_mark_is_of_another_process(run: Path) -> None:
    _put(run / "member-1" / "cluster" / "cluster-mark.dat", 32, "q", 77)


def an_archive_mark_is_of_another_process(run: Path) -> None:
    _put(run / "member-1" / "archive" / "archive-mark.dat", 32, "q", 78)


def a_mark_is_none(run: Path) -> None:
    (run / "member-1" / "cluster" / "cluster-mark.dat").write_bytes(b"no mark" * 100)


def a_vote_is_for_a_term_that_nobody_knows(run: Path) -> None:
    _put(run / "member-0" / "cluster" / "node-state.dat", 24, "q", 9)


def a_configuration_is_of_another_member(run: Path) -> None:
    (run / "member-1" / "config.json").write_text(json.dumps({"member_id": 2}))


def a_configuration_is_of_another_run(run: Path) -> None:
    (run / "member-1" / "config.json").write_text(json.dumps({"member_id": 1, "run_id": "other"}))


def the_cluster_is_of_another_run(run: Path) -> None:
    (run / "cluster.json").write_text(json.dumps({"run_id": "other"}))


# --- the recording log ---


def a_term_begins_elsewhere(run: Path) -> None:
    path = _recording_log(run)
    first, second = _records(path, _TERM)
    _put(path, first + 24, "q", FIRST_SNAPSHOT)
    _put(path, second + 16, "q", FIRST_SNAPSHOT)


def a_term_ends_elsewhere(run: Path) -> None:
    path = _recording_log(run)
    _put(path, _records(path, _TERM)[0] + 24, "q", FIRST_SNAPSHOT)


def a_term_has_no_end(run: Path) -> None:
    path = _recording_log(run)
    _put(path, _records(path, _TERM)[0] + 24, "q", -1)


def a_term_has_another_id(run: Path) -> None:
    path = _recording_log(run)
    _put(path, _records(path, _TERM)[1] + 8, "q", 4)


def a_term_is_there_twice(run: Path) -> None:
    path = _recording_log(run)
    content = path.read_bytes()
    last = _records(path, _TERM)[-1]
    path.write_bytes(content + content[last : last + _RECORD])


def the_last_term_is_gone(run: Path) -> None:
    path = _recording_log(run)
    _put(path, _records(path, _TERM)[1] + 44, "I", 0xFFFFFFFF)


def the_first_term_is_gone(run: Path) -> None:
    path = _recording_log(run)
    _put(path, _records(path, _TERM)[0] + 44, "I", 0xFFFFFFFF)


def a_term_is_in_another_recording(run: Path) -> None:
    path = _recording_log(run)
    _put(path, _records(path, _TERM)[1], "q", 1)


def a_snapshot_is_not_in_its_term(run: Path) -> None:
    path = _recording_log(run)
    at = _records(path, _SNAPSHOT)[-1]
    _put(path, at + 16, "q", 0)
    _resnapshot(path, at)


def a_snapshot_is_after_its_term(run: Path) -> None:
    path = _recording_log(run)
    at = _records(path, _SNAPSHOT)[0]
    _put(path, at + 24, "q", LAST_SNAPSHOT)
    _resnapshot(path, at)


def the_log_has_another_base_of_a_term(run: Path) -> None:
    # After the headers of frame and message: term id, position, time, base.
    _put(run / "member-1" / "archive" / "0-0.rec", SECOND_TERM + 32 + 8 + 24, "q", 64)


def a_snapshot_is_where_no_entry_ends(run: Path) -> None:
    path = _recording_log(run)
    at = _records(path, _SNAPSHOT)[0]
    _put(path, at + 24, "q", FIRST_SNAPSHOT - 32)
    _resnapshot(path, at)


def a_snapshot_was_changed(run: Path) -> None:
    path = _recording_log(run)
    _put(path, _records(path, _SNAPSHOT)[0] + 32, "q", 5)


def a_snapshot_has_another_length(run: Path) -> None:
    path = _recording_log(run)
    at = _records(path, _SNAPSHOT)[0]
    _put(path, at + 48, "q", 64)
    _resnapshot(path, at)


def a_snapshot_is_of_another_service(run: Path) -> None:
    path = _recording_log(run)
    at = _records(path, _SNAPSHOT)[0]
    _put(path, at, "q", 2)
    _resnapshot(path, at)


# --- the catalog ---


def a_recording_stops_too_early(run: Path) -> None:
    catalog = _catalog(run)
    _put(catalog, _descriptor(catalog, 0) + 48, "q", FIRST_SNAPSHOT)


def a_recording_stops_too_late(run: Path) -> None:
    catalog = _catalog(run)
    _put(catalog, _descriptor(catalog, 0) + 48, "q", 64000)


def a_recording_has_a_wrong_checksum(run: Path) -> None:
    catalog = _catalog(run)
    _put(catalog, _descriptor(catalog, 0) - _DESCRIPTOR_HEADER + 8, "i", 12345)


def a_descriptor_has_a_wrong_length(run: Path) -> None:
    """Too short to hold what it says; its checksum is that of nothing."""
    a_recording_has_a_wrong_checksum(run)
    catalog = _catalog(run)
    _put(catalog, _descriptor(catalog, 0) - _DESCRIPTOR_HEADER, "i", 40)


def a_recording_is_of_another_stream(run: Path) -> None:
    catalog = _catalog(run)
    _put(catalog, _descriptor(catalog, 0) + 76, "i", 106)


def a_recording_is_of_another_session(run: Path) -> None:
    catalog = _catalog(run)
    _put(catalog, _descriptor(catalog, 0) + 72, "i", 5)


def the_last_term_ends_where_it_begins(run: Path) -> None:
    """The member lost the log there and found the same leader again; no bad run."""
    path = _recording_log(run)
    last = max(_records(path, _TERM))
    (base,) = struct.unpack_from("<q", path.read_bytes(), last + 16)
    _put(path, last + 24, "q", base)


def the_next_term_has_no_frame_yet(run: Path) -> None:
    """The recording log names it; no bad run by itself."""
    path = _recording_log(run)
    last = max(_records(path, _TERM))
    recording, term = struct.unpack_from("<qq", path.read_bytes(), last)
    end = RecordedLog(RunFolder(run).member(1)).read_to_end()
    _put(path, last + 24, "q", end)
    with path.open("ab") as stream:
        stream.write(struct.pack("<qqqqqii16x", recording, term + 1, end, -1, 1, -1, _TERM))


def a_recording_is_there_twice(run: Path) -> None:
    catalog = _catalog(run)
    _put(catalog, _descriptor(catalog, 2) + 16, "q", 1)


def the_recording_of_a_snapshot_is_gone_from_the_catalog(run: Path) -> None:
    catalog = _catalog(run)
    _put(catalog, _descriptor(catalog, 2) - _DESCRIPTOR_HEADER + 4, "i", 0)


def _bad(damage: Callable[[Path], None], *says: str) -> BadRun:
    def sealed_anew(run: Path) -> None:
        RunFolder(run).unseal()
        damage(run)
        seal(RunFolder(run))

    sealed_anew.__name__ = damage.__name__
    return BadRun(_SCENARIO, sealed_anew, Promise.EVIDENCE_BOUND, says)


_LOG = "member-1/cluster/recording.log"
_CATALOG = "member-1/archive/archive.catalog"

BINDING = (
    _bad(a_members_folder_is_a_copy_of_anothers, "member-2/trace.jsonl is of member 0 in line 1"),
    _bad(a_trace_is_of_another_run, "member-1/trace.jsonl is of run other in line 1"),
    _bad(
        the_recording_of_a_snapshot_is_gone_from_the_catalog,
        "member-1/archive/archive.catalog does not have recording 2, of the snapshot at",
    ),
    _bad(a_process_never_started, "member-1/trace.jsonl has process 2 in line"),
    _bad(a_module_mark_is_of_another_member, "member-1/cluster/cluster-mark.dat is of member 0"),
    _bad(a_service_mark_is_of_another_service, "member-1/cluster/cluster-mark-service-0.dat is of service 3"),
    _bad(an_archive_mark_is_of_another_member, "member-1/archive/archive-mark.dat is of archive 0"),
    _bad(a_module_mark_is_of_another_process, "member-1/cluster/cluster-mark.dat is of process 77"),
    _bad(an_archive_mark_is_of_another_process, "member-1/archive/archive-mark.dat is of process 78"),
    _bad(a_mark_is_none, "member-1/cluster/cluster-mark.dat is no mark file"),
    _bad(a_vote_is_for_a_term_that_nobody_knows, "member-0/cluster/node-state.dat has candidate term 9"),
    _bad(a_configuration_is_of_another_member, "member-1/config.json is of member 2"),
    _bad(a_configuration_is_of_another_run, "member-1/config.json is of run other"),
    _bad(the_cluster_is_of_another_run, "cluster.json has run_id other"),
    _bad(a_term_begins_elsewhere, _LOG, f"term 1 begins at {FIRST_SNAPSHOT}, where the log has none"),
    _bad(a_term_ends_elsewhere, _LOG, f"term 0 ends at {FIRST_SNAPSHOT}, and term 1 begins at {SECOND_TERM}"),
    _bad(a_term_has_no_end, _LOG, "term 0 has no end"),
    _bad(a_term_has_another_id, _LOG, f"term 4 begins at {SECOND_TERM}, where the log has term 1 from {SECOND_TERM}"),
    _bad(a_term_is_there_twice, _LOG, "has term 1 twice"),
    _bad(the_last_term_is_gone, _LOG, "ends with term 0, and the log goes on with term 1"),
    _bad(the_first_term_is_gone, _LOG, f"begins with term 1 at {SECOND_TERM}, the log at 0"),
    _bad(a_term_is_in_another_recording, _LOG, "has the log in recording 0 and in 1"),
    _bad(a_snapshot_is_not_in_its_term, _LOG, f"snapshot at {LAST_SNAPSHOT} that is not in term 1"),
    _bad(a_snapshot_is_after_its_term, _LOG, f"snapshot at {LAST_SNAPSHOT} that is not in term 0"),
    _bad(the_log_has_another_base_of_a_term, _LOG, f"term 1 begins at {SECOND_TERM}, where the log has term 1 from 64"),
    _bad(a_snapshot_is_where_no_entry_ends, _LOG, f"snapshot at {FIRST_SNAPSHOT - 32}, where no entry of the log ends"),
    _bad(a_snapshot_was_changed, _LOG, f"checksum for the snapshot at {FIRST_SNAPSHOT}"),
    _bad(a_snapshot_has_another_length, _LOG, "recording 1 has 64 bytes, the catalog 832"),
    _bad(a_snapshot_is_of_another_service, _CATALOG, "has stream 107 for recording 2, which is one of stream 106"),
    _bad(a_recording_stops_too_early, _CATALOG, f"recording 0 stops at {FIRST_SNAPSHOT}"),
    _bad(a_recording_stops_too_late, _CATALOG, "recording 0 stops at 64000"),
    _bad(a_recording_has_a_wrong_checksum, _CATALOG, "checksum for recording 0"),
    _bad(a_descriptor_has_a_wrong_length, _CATALOG, "checksum for recording 0"),
    _bad(a_recording_is_of_another_stream, _CATALOG, "has stream 106 for recording 0, which is one of stream 100"),
    _bad(a_recording_is_of_another_session, _CATALOG, "has session 5 for recording 0"),
    _bad(a_recording_is_there_twice, _CATALOG, "has two recordings of one id"),
)
