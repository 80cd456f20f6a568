"""Runs whose logs, traces or manifest were cut so that less was committed than was acknowledged to clients."""

import json
import struct
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

from support.bad_runs.bad_run import BadRun
from upheaval.checkers.promises import Promise
from upheaval.checkers.verdict import Verdict

CUT = 4000
SCENARIO = "leader-killed"


def two_logs_cut_and_the_manifest_lowered(run: Path) -> None:
    lower_final_positions(run, min(cut_log(run, 0), cut_log(run, 1)))


def two_logs_cut_and_no_word_of_it(run: Path) -> None:
    """Nor of the converge phase: only the history knows of what is gone."""
    for member_id in (0, 1):
        cut_log(run, member_id)
    edit_manifest(run, lambda manifest: manifest.update(converge=None))
    for member_id in range(3):
        edit_trace(run, member_id, ("AppendPosition", "CommitPosition", "NewLeadershipTerm"), 0)


def logs_traces_and_manifest_cut(run: Path) -> None:
    """One log still has everything."""
    end = min(cut_log(run, 0), cut_log(run, 1))
    lower_final_positions(run, end)
    for member_id in range(3):
        edit_trace(run, member_id, ("AppendPosition", "CommitPosition", "NewLeadershipTerm"), end)


def manifest_lowered(run: Path) -> None:
    lower_final_positions(run, final_position(run) - CUT // 32 * 32)


def manifest_of_one_member_lowered(run: Path) -> None:
    def lower(manifest: Any) -> None:
        manifest["converge"]["members"][1]["append_position"] -= 4096
        manifest["converge"]["members"][1]["commit_position"] -= 4096

    edit_manifest(run, lower)


def appended_below_committed(run: Path) -> None:
    def lower(manifest: Any) -> None:
        manifest["converge"]["members"][2]["append_position"] -= 4096

    edit_manifest(run, lower)


def terms_that_differ(run: Path) -> None:
    def raise_term(manifest: Any) -> None:
        manifest["converge"]["members"][1]["leadership_term_id"] += 1

    edit_manifest(run, raise_term)


def a_member_twice(run: Path) -> None:
    edit_manifest(run, lambda manifest: manifest["converge"]["members"].append(manifest["converge"]["members"][0]))


def traces_without_the_end(run: Path) -> None:
    """The manifest alone says that the last entries were committed."""
    end = final_position(run) - 4096
    for member_id in range(3):
        edit_trace(run, member_id, ("CommitPosition", "NewLeadershipTerm"), end)


def committed_on_one_member(run: Path) -> None:
    """By the word of its leader, and no follower acknowledged it."""
    end = final_position(run)
    with (run / "member-2" / "trace.jsonl").open("a") as trace:
        fields = {"ts": 10**15, "event": "send", "message": "CommitPosition", "leadership_term_id": 1}
        trace.write(json.dumps({**fields, "leader_member_id": 2, "log_position": end + 96}) + "\n")


def cut_log(run: Path, member_id: int) -> int:
    """Take the last bytes of a member's log away; returns where it ends then."""
    path = log_file(run, member_id)
    data = bytearray(path.read_bytes())
    offsets = [0]
    while offsets[-1] + 4 <= len(data) and (length := struct.unpack_from("<i", data, offsets[-1])[0]) > 0:
        offsets.append(offsets[-1] + (length + 31 & -32))
    end = max(offset for offset in offsets if offset <= offsets[-1] - CUT)
    data[end:] = bytes(len(data) - end)
    path.write_bytes(data)
    return end


def log_file(run: Path, member_id: int) -> Path:
    """The recording that the recording log's first entry names: a term of the log."""
    entry = (run / f"member-{member_id}" / "cluster" / "recording.log").read_bytes()
    (recording_id,) = struct.unpack_from("<q", entry)
    return run / f"member-{member_id}" / "archive" / f"{recording_id}-0.rec"


def final_position(run: Path) -> int:
    manifest = json.loads((run / "manifest.json").read_text())
    return int(manifest["converge"]["members"][0]["commit_position"])


def lower_final_positions(run: Path, position: int) -> None:
    def lower(manifest: Any) -> None:
        for final in manifest["converge"]["members"]:
            final.update(append_position=position, commit_position=position)

    edit_manifest(run, lower)


def edit_manifest(run: Path, edit: Callable[[Any], None]) -> None:
    path = run / "manifest.json"
    manifest = json.loads(path.read_text())
    edit(manifest)
    path.write_text(json.dumps(manifest))


def edit_trace(run: Path, member_id: int, messages: tuple[str, ...], end: int) -> None:
    """Leave out what a trace has of such messages past a position."""
    path = run / f"member-{member_id}" / "trace.jsonl"
    lines = path.read_text().splitlines()
    path.write_text("".join(line + "\n" for line in lines if not _is_past(json.loads(line), messages, end)))


def _is_past(event: Any, messages: tuple[str, ...], end: int) -> bool:
    position = max(event.get("commit_position", -1), event.get("log_position", -1))
    return event.get("message") in messages and position > end


_bad = partial(BadRun, SCENARIO)

POSITIONS = (
    _bad(
        two_logs_cut_and_the_manifest_lowered,
        Promise.ACKNOWLEDGED_NOT_LOST,
        ("operation id=", "was acknowledged at position", "a quorum of recordings reaches position"),
    ),
    _bad(
        two_logs_cut_and_the_manifest_lowered,
        Promise.FINAL_POSITIONS,
        ("the recording of member 0 ends at position", "(member-0/trace.jsonl:"),
    ),
    _bad(two_logs_cut_and_no_word_of_it, Promise.ACKNOWLEDGED_NOT_LOST, ("operation id=", "commit position")),
    _bad(logs_traces_and_manifest_cut, Promise.ACKNOWLEDGED_NOT_LOST, ("operation id=", "past the commit position")),
    _bad(
        logs_traces_and_manifest_cut,
        Promise.FINAL_POSITIONS,
        ("manifest", "member 0", "operation id=", "acknowledged at position"),
        Verdict.UNKNOWN,
    ),
    _bad(
        manifest_lowered,
        Promise.FINAL_POSITIONS,
        ("manifest", "commit position", "of member 0", "was committed by then (member-", "/trace.jsonl:"),
        Verdict.UNKNOWN,
    ),
    _bad(manifest_of_one_member_lowered, Promise.FINAL_POSITIONS, ("manifest", "of member 1"), Verdict.UNKNOWN),
    _bad(appended_below_committed, Promise.FINAL_POSITIONS, ("manifest", "of member 2", "append position")),
    _bad(terms_that_differ, Promise.RUN_CONVERGED, ("leadership terms differ",), Verdict.UNKNOWN),
    _bad(a_member_twice, Promise.RUN_CONVERGED, ("expected one final position of each of 3",), Verdict.UNKNOWN),
    _bad(
        traces_without_the_end,
        Promise.FINAL_POSITIONS,
        ("manifest", "of member 0", "no trace shows more than", "/trace.jsonl:"),
        Verdict.UNKNOWN,
    ),
    _bad(
        committed_on_one_member,
        Promise.FINAL_POSITIONS,
        ("was committed (member-2/trace.jsonl:", "member 0 ends at", "a quorum of recordings reaches position"),
    ),
)
