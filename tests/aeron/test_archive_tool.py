"""Aeron's ArchiveTool on what our members recorded: log and snapshots, of members killed and shut down."""

import re
import subprocess
import time
from pathlib import Path

import pytest

from support.aeron_tools import CHECKSUM, archive_properties, archive_tool, fields_of, java_command
from upheaval.waits import wait_until
from upheaval_node.archive.catalog import RecordingEntry
from upheaval_node.archive.reader import RecordedFrame, Recording, read_recordings
from upheaval_node.files.mark_file import LIVENESS_TIMEOUT_MS
from upheaval_node.types import FRAME_HEADER_LENGTH

from .conftest import CopyOf, Members

MEMBERS = ("killed", "stopped")
# Where a mark file has its activityTimestamp.
ACTIVITY = slice(16, 24)
# Aeron's names in a descriptor, and ours.
NAMES = {
    "recordingId": "recording_id",
    "startPosition": "start_position",
    "stopPosition": "stop_position",
    "startTimestamp": "start_timestamp",
    "stopTimestamp": "stop_timestamp",
    "initialTermId": "initial_term_id",
    "segmentFileLength": "segment_length",
    "termBufferLength": "term_length",
    "mtuLength": "mtu",
    "sessionId": "session_id",
    "streamId": "stream_id",
    "strippedChannel": "stripped_channel",
    "originalChannel": "original_channel",
    "sourceIdentity": "source_identity",
}


def _entries(member: Path) -> list[RecordingEntry]:
    return [recording.entry for recording in read_recordings(member / "archive")]


def _silent_for_ms(member: Path) -> int:
    mark = (member / "archive" / "archive-mark.dat").read_bytes()
    return time.time_ns() // 1_000_000 - int.from_bytes(mark[ACTIVITY], "little", signed=True)


def _contents(recordings: list[Recording]) -> list[list[tuple[int, bytes]]]:
    return [[(each.end_position, each.payload) for each in recording.messages()] for recording in recordings]


def _as_told(descriptor: dict[str, str]) -> dict[str, str]:
    return {ours: descriptor[theirs] for theirs, ours in NAMES.items()}


def _as_read(entry: RecordingEntry) -> dict[str, str]:
    return {name: str(getattr(entry, name)) for name in NAMES.values()}


@pytest.mark.parametrize("which", MEMBERS)
def test_describe_tells_what_our_reader_reads(copy_of: CopyOf, which: str) -> None:
    member = copy_of(which)
    told = archive_tool(member, "describe")
    assert told.status == 0, told.text
    descriptors = fields_of(told.text, "RecordingDescriptor")
    entries = _entries(member)
    assert [_as_told(each) for each in descriptors] == [_as_read(each) for each in entries]
    # The log, and two snapshots of module and service.
    assert len(entries) == 5


@pytest.mark.parametrize("which", MEMBERS)
def test_pid_and_errors_are_read_from_the_mark_file(copy_of: CopyOf, which: str) -> None:
    member = copy_of(which)
    pid = archive_tool(member, "pid")
    errors = archive_tool(member, "errors")
    assert (pid.status, errors.status) == (0, 0), errors.text
    assert int(pid.text) == int(fields_of(archive_tool(member, "describe").text, "MarkFileHeader")[0]["pid"])
    assert errors.text.count("O distinct errors observed") == 2


@pytest.mark.parametrize("which", MEMBERS)
def test_verify_finds_every_segment_of_every_recording_in_order(copy_of: CopyOf, which: str) -> None:
    member = copy_of(which)
    recordings = read_recordings(member / "archive")
    verified = archive_tool(member, "verify", "-a")
    assert verified.text.splitlines() == [f"(recordingId={each.recording_id}) OK" for each in recordings]
    # It writes where a recording ends that was never stopped.
    assert [entry.stop_position for entry in _entries(member)] == [each.end_position for each in recordings]


def test_a_killed_member_leaves_a_log_of_several_segments_that_nobody_stopped(members: Members) -> None:
    folder = members.folder(members.killed)
    entry = _entries(folder)[0]
    segments = sorted(path.stat().st_size for path in (folder / "archive").glob("0-*.rec"))
    assert entry.stop_position == -1
    # The last one holds the proof of its last blocks past its end.
    assert len(segments) > 1
    assert segments[0] == entry.segment_length < segments[-1]


@pytest.mark.parametrize("which", MEMBERS)
def test_dump_finds_the_frames_that_our_reader_finds(copy_of: CopyOf, which: str) -> None:
    member = copy_of(which)
    recordings = read_recordings(member / "archive")
    dumped = archive_tool(member, "dump", "1000000")
    assert dumped.status == 0, dumped.text[-1000:]
    found = re.findall(r"Frame at position \[(\d+)\] data at offset \[\d+\] with length = (\d+)", dumped.text)
    frames = [frame for recording in recordings if recording.is_stopped for frame in recording.frames()]
    expected = [(frame.position, _length(frame)) for frame in frames]
    # Of a log that was never stopped it shows what it takes for its frames; the others come after.
    assert [(int(at), int(length)) for at, length in found][-len(expected) :] == expected
    assert which == "killed" or len(found) == len(expected)
    lengths = [int(each) for each in re.findall(r"stream length: (-?\d+)", dumped.text)]
    assert lengths == [each.end_position - each.start_position if each.is_stopped else -1 for each in recordings]


def _length(frame: RecordedFrame) -> int:
    """Padding is as long as the room that it fills."""
    return frame.end_position - frame.position - FRAME_HEADER_LENGTH if frame.is_padding else len(frame.payload)


@pytest.mark.parametrize("which", MEMBERS)
def test_checksums_that_the_tool_wrote_are_right_for_it_and_leave_our_messages_as_they_were(
    copy_of: CopyOf, which: str
) -> None:
    member = copy_of(which)
    before = _contents(read_recordings(member / "archive"))
    written = archive_tool(member, "checksum", CHECKSUM, "-a")
    assert written.status == 0, written.text
    verified = archive_tool(member, "verify", "-a", "-checksum", CHECKSUM)
    assert verified.text.splitlines() == [f"(recordingId={each}) OK" for each in range(len(before))]
    assert _contents(read_recordings(member / "archive")) == before


def test_aerons_archive_starts_where_a_killed_member_ended(copy_of: CopyOf) -> None:
    member = copy_of("killed")
    ends = [recording.end_position for recording in read_recordings(member / "archive")]
    # Aeron takes an archive for running until its mark file has been left alone for a while.
    wait_until(
        lambda: _silent_for_ms(member) > LIVENESS_TIMEOUT_MS,
        timeout_s=240,
        describe=lambda: f"its archive showed itself {_silent_for_ms(member)} ms ago",
    )
    properties = {**archive_properties(member), "aeron.archive.segment.file.length": 1 << 20}
    command = java_command("io.aeron.archive.ArchivingMediaDriver", properties=properties)
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True) as archive:
        try:
            wait_until(
                lambda: archive.poll() is not None or [entry.stop_position for entry in _entries(member)] == ends,
                timeout_s=240,
                describe=lambda: f"stop positions {[entry.stop_position for entry in _entries(member)]}, not {ends}",
            )
        finally:
            archive.terminate()
            text, _ = archive.communicate(timeout=240)
    assert "Exception" not in text, text
    assert [entry.stop_position for entry in _entries(member)] == ends
    verified = archive_tool(member, "verify", "-a")
    assert verified.text.splitlines() == [f"(recordingId={each}) OK" for each in range(len(ends))]
