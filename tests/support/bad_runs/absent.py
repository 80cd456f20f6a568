"""Runs that did not leave all that they should have, and runs in which something ended or failed for no known reason.

In `leader-killed` member 0 is killed and started again, nothing else ends. In `snapshot-and-restart` member 1 is
killed, snapshots are taken, and all members end by an admin command. In `backup-loses-its-source` snapshots are taken,
and two members are never started again.
"""

import json
import shutil
import struct
from collections.abc import Callable
from pathlib import Path

from support.bad_runs.bad_run import BadRun
from support.bad_runs.binding import FIRST_SNAPSHOT
from upheaval.checkers.promises import Promise
from upheaval.checkers.verdict import Verdict

KILLED, ORDERED, BACKED_UP = "leader-killed", "snapshot-and-restart", "backup-loses-its-source"
_ENTRY = 64


def _lines(path: Path) -> list[str]:
    return path.read_text(encoding="utf-8").splitlines(keepends=True)


def _trace(run: Path, member: int) -> Path:
    return run / f"member-{member}" / "trace.jsonl"


def _keep(path: Path, is_kept: Callable[[int, str], bool]) -> None:
    path.write_text(
        "".join(line for number, line in enumerate(_lines(path)) if is_kept(number, line)), encoding="utf-8"
    )


def _add(run: Path, member: int, before: str, **fields: object) -> None:
    """An event before the first one with that text, or at the end."""
    lines = _lines(_trace(run, member))
    at = next((number for number, line in enumerate(lines) if before in line), len(lines))
    near = json.loads(lines[at - 1])
    head = {name: near[name] for name in ("ts", "epoch_ms", "member", "component", "pid")}
    lines.insert(at, json.dumps({**head, **fields}, separators=(",", ":")) + "\n")
    _trace(run, member).write_text("".join(lines))


# --- what is not there ---


def a_trace_is_gone(run: Path) -> None:
    _trace(run, 1).unlink()


def a_trace_is_empty(run: Path) -> None:
    _trace(run, 1).write_text("")


def a_trace_lost_its_beginning(run: Path) -> None:
    _keep(_trace(run, 2), lambda number, _: number > 100)


def a_full_disk_tore_a_line_of_a_trace(run: Path) -> None:
    lines = _lines(_trace(run, 1))
    torn = lines[200][:70] + "\n"
    _trace(run, 1).write_text("".join([*lines[:200], torn, *lines[201:]]))


def a_trace_lost_its_end(run: Path) -> None:
    lines = len(_lines(_trace(run, 2)))
    _keep(_trace(run, 2), lambda number, _: number < lines - 300)


def a_trace_does_not_say_that_the_last_term_was_entered(run: Path) -> None:
    _leave_term_out(run, 1, 1)


def nobody_entered_the_first_term(run: Path) -> None:
    for member in range(3):
        _keep(
            _trace(run, member), lambda _, line: not ('"leadership_term"' in line and '"leadership_term_id":0' in line)
        )


def _leave_term_out(run: Path, member: int, term: int) -> None:
    told = f'"event":"leadership_term","leadership_term_id":{term}'
    _keep(_trace(run, member), lambda _, line: told not in line)


def a_member_is_gone(run: Path) -> None:
    shutil.rmtree(run / "member-2")


def there_is_one_member_more(run: Path) -> None:
    shutil.copytree(run / "member-2", run / "member-3")


def nobody_wrote_down_the_faults(run: Path) -> None:
    (run / "faults.jsonl").write_text("")


def nobody_wrote_down_the_commands(run: Path) -> None:
    (run / "controls.jsonl").write_text("")


def a_command_is_not_written_down(run: Path) -> None:
    _keep(run / "controls.jsonl", lambda _, line: '"what":"resume"' not in line)


def a_member_has_no_snapshots(run: Path) -> None:
    """Neither the recordings nor the entries that name them."""
    without_snapshots(run, 2)


def nobody_has_snapshots_and_nobody_ordered_any(run: Path) -> None:
    for member in range(3):
        without_snapshots(run, member)
    (run / "controls.jsonl").write_text("")
    _plan(run, [])


def only_the_commands_tell_of_snapshots(run: Path) -> None:
    without_snapshots(run, 0)
    _keep(_trace(run, 0), lambda _, line: '"SNAPSHOT"' not in line)


def only_the_log_asks_for_snapshots(run: Path) -> None:
    for member in range(3):
        without_snapshots(run, member)
        _keep(_trace(run, member), lambda _, line: '"SNAPSHOT"' not in line)
    (run / "controls.jsonl").write_text("")
    _plan(run, [])


def without_snapshots(run: Path, member: int) -> None:
    """Its recording log names none."""
    path = run / f"member-{member}" / "cluster" / "recording.log"
    content = path.read_bytes()
    entries = [content[at : at + _ENTRY] for at in range(0, len(content), _ENTRY)]
    path.write_bytes(b"".join(each for each in entries if struct.unpack_from("<i", each, 44)[0] == 0))


def _plan(run: Path, commands: list[str]) -> None:
    path = run / "manifest.json"
    path.write_text(json.dumps({**json.loads(path.read_text()), "planned_commands": commands}))


def the_history_lacks_operations_in_the_middle(run: Path) -> None:
    _keep(run / "history.jsonl", lambda number, _: not 100 <= number < 103)


def the_history_lacks_its_beginning(run: Path) -> None:
    _keep(run / "history.jsonl", lambda _, line: json.loads(line)["id"] >= 8)


def the_history_lacks_what_was_not_answered(run: Path) -> None:
    assert '"outcome":"unknown"' in (run / "history.jsonl").read_text()
    _keep(run / "history.jsonl", lambda _, line: '"outcome":"unknown"' not in line)


# --- what nothing explains ---


def a_member_crashed_and_was_started_again(run: Path) -> None:
    _add(run, 1, "@end", event="process-start", version="0")


def a_process_ended_with_a_signal(run: Path) -> None:
    _add(run, 1, "@end", event="process-end", status=139, reason="")


def a_process_ended_by_a_defect_long_before_the_fault(run: Path) -> None:
    _add(run, 0, '"leadership_term"', event="process-end", status=1, reason="")
    _add(run, 0, '"leadership_term"', event="process-start", version="0")


def the_kill_was_of_another_member(run: Path) -> None:
    path = run / "faults.jsonl"
    path.write_text("".join(json.dumps({**json.loads(line), "members": [2]}) + "\n" for line in _lines(path)))


def a_member_crashed_before_it_was_killed(run: Path) -> None:
    _add(run, 0, '"leadership_term"', event="process-start", version="0")


def a_killed_member_died_of_a_signal_when_it_was_back(run: Path) -> None:
    _add(run, 0, "@end", event="process-end", status=139, reason="")


def _end(run: Path, member: int, status: int) -> None:
    """In its first term, and a new process goes on."""
    _add(run, member, '"leadership_term_id":0,"log_position":6', event="process-start", version="0")
    _add(run, member, '"event":"process-start","version":"0"', event="process-end", status=status, reason="")


def a_follower_ended_in_order_and_went_on(run: Path) -> None:
    _end(run, 1, 0)


def a_leader_ended_slowly_and_went_on(run: Path) -> None:
    _end(run, 0, 8)


def a_member_ended_in_order_before_the_run_did(run: Path) -> None:
    _add(run, 2, '"leadership_term_id":1,"log_position":', event="process-end", status=0, reason="")


def the_order_was_given_to_another_member(run: Path) -> None:
    the_kill_was_of_another_member(run)


def an_isolated_member_failed(run: Path) -> None:
    """Links that are cut explain no end of a process."""
    _add(run, 0, "@end", event="process-end", status=1, reason="")


def a_member_printed_a_traceback(run: Path) -> None:
    text = "member 1: begins\nTraceback (most recent call last):\n  File ...\nKeyError: 5\n"
    (run / "member-1" / "member.log").write_text(text)


def a_service_raised_and_left_no_traceback(run: Path) -> None:
    _add(run, 2, "@end", event="error", kind="service-0-service", text="entry ending at 96: KeyError")


def _add_raised(run: Path, folder: str, count: int, position: int, where: str) -> None:
    told = {"service_id": 0, "callback": "on_session_message", "error": "KeyError: 5", "where": where}
    text = "Traceback ...\nKeyError: 5\n" if count == 1 else None
    line = {"event": "service-raised", **told, "log_position": position, "count": count, "traceback": text}
    trace = run / folder / "trace.jsonl"
    near = json.loads(_lines(trace)[-1])
    head = {name: near[name] for name in ("ts", "epoch_ms", "member", "component", "pid")}
    with trace.open("a") as stream:
        stream.write(json.dumps({**head, **line}, separators=(",", ":")) + "\n")


def services_raised_at_two_places(run: Path) -> None:
    for member in range(3):
        _add_raised(run, f"member-{member}", 1, 960 + 32 * member, "locks.py:30 in lock")
        _add_raised(run, f"member-{member}", 1, 640, "locks.py:17 in free")
        _add_raised(run, f"member-{member}", 2, 704, "locks.py:17 in free")
        _add_raised(run, f"member-{member}", 4, 800, "locks.py:17 in free")


def a_service_of_one_member_raised(run: Path) -> None:
    _add_raised(run, "member-1", 1, 640, "locks.py:17 in free")


def a_member_found_its_catalog_damaged(run: Path) -> None:
    """No fault ever hit member 2."""
    _add(run, 2, "@end", event="error", kind="catalog", text="descriptor 3 makes no sense")


def a_peer_sent_nonsense_before_anything_happened(run: Path) -> None:
    lines = _lines(_trace(run, 2))
    at = next(number for number, line in enumerate(lines) if '"leadership_term"' in line)
    _add(run, 2, lines[at + 3], event="error", kind="media-peer-1", text="member-1: frame of type 9")


def _absent(damage: Callable[[Path], None], *says: str, scenario: str = KILLED) -> BadRun:
    return BadRun(scenario, damage, Promise.EVIDENCE_COMPLETE, says, Verdict.UNKNOWN)


def _unexplained(
    damage: Callable[[Path], None], *says: str, verdict: Verdict = Verdict.INVALID, scenario: str = KILLED
) -> BadRun:
    return BadRun(scenario, damage, Promise.NO_UNEXPLAINED_END, says, verdict)


def _raised(damage: Callable[[Path], None], *says: str) -> BadRun:
    return BadRun(KILLED, damage, Promise.SERVICES_RAISED_NOTHING, says)


def a_member_has_no_mark_file_of_its_module(run: Path) -> None:
    (run / "member-1" / "cluster" / "cluster-mark.dat").unlink()


def a_member_has_no_mark_file_of_its_service(run: Path) -> None:
    (run / "member-2" / "cluster" / "cluster-mark-service-0.dat").unlink()


def a_member_has_no_mark_file_of_its_archive(run: Path) -> None:
    (run / "member-0" / "archive" / "archive-mark.dat").unlink()


def _move(run: Path, member: int, share: float, seconds: int) -> None:
    """The lines of a trace from some place on."""
    lines = [json.loads(line) for line in _lines(_trace(run, member))]
    for line in lines[int(len(lines) * share) :]:
        line["ts"] += seconds * 1_000_000_000
    _trace(run, member).write_text("".join(json.dumps(line, separators=(",", ":")) + "\n" for line in lines))


def the_end_of_a_trace_is_from_before(run: Path) -> None:
    _move(run, 1, 0.9, -1)


def half_of_a_trace_is_from_before(run: Path) -> None:
    _move(run, 2, 0.5, -2)


def the_last_line_of_a_trace_is_from_before(run: Path) -> None:
    _move(run, 1, 0.999, -1)


def a_member_is_silent_for_eight_seconds(run: Path) -> None:
    _move(run, 1, 0.8, 8)


def a_member_is_silent_for_a_minute(run: Path) -> None:
    _move(run, 2, 0.9, 60)


def a_member_is_silent_at_its_end(run: Path) -> None:
    _move(run, 1, 0.99, 6)


def _invalidate(run: Path, members: tuple[int, ...]) -> None:
    for member in members:
        path = run / f"member-{member}" / "cluster" / "recording.log"
        content = bytearray(path.read_bytes())
        for at in range(0, len(content), _ENTRY):
            if struct.unpack_from("<i", content, at + 44)[0] == 1:
                struct.pack_into("<I", content, at + 44, 1 | 1 << 31)
        path.write_bytes(content)


def a_member_made_its_snapshots_invalid(run: Path) -> None:
    _invalidate(run, (2,))


def the_members_made_their_snapshots_invalid(run: Path) -> None:
    _invalidate(run, (0, 1, 2))


def another_member_made_its_snapshots_invalid(run: Path) -> None:
    _invalidate(run, (0,))


ABSENT = (
    _absent(a_member_has_no_mark_file_of_its_module, "member-1/cluster/cluster-mark.dat is missing"),
    _absent(a_member_has_no_mark_file_of_its_service, "member-2/cluster/cluster-mark-service-0.dat is missing"),
    _absent(a_member_has_no_mark_file_of_its_archive, "member-0/archive/archive-mark.dat is missing"),
    _absent(the_end_of_a_trace_is_from_before, "member-1/trace.jsonl", "is earlier than a line before it"),
    _absent(half_of_a_trace_is_from_before, "member-2/trace.jsonl", "is earlier than a line before it"),
    _absent(the_last_line_of_a_trace_is_from_before, "member-1/trace.jsonl", "is earlier than a line before it"),
    _absent(a_member_is_silent_for_eight_seconds, "member-1/trace.jsonl", "for 8.0 s", "explains it"),
    _absent(a_member_is_silent_for_a_minute, "member-2/trace.jsonl", "for 60.0 s", "explains it"),
    _absent(a_member_is_silent_at_its_end, "member-1/trace.jsonl", "for 6.0 s", "explains it"),
    _absent(
        a_member_made_its_snapshots_invalid,
        "member-2",
        f"invalid snapshot at position {FIRST_SNAPSHOT}",
        scenario=ORDERED,
    ),
    _absent(
        the_members_made_their_snapshots_invalid, "member-0", f"snapshot at position {FIRST_SNAPSHOT}", scenario=ORDERED
    ),
    _absent(another_member_made_its_snapshots_invalid, "member-0", "invalid snapshot at position", scenario=ORDERED),
    _absent(the_history_lacks_operations_in_the_middle, "history.jsonl does not have operation id=", "and 2 after it"),
    _absent(the_history_lacks_its_beginning, "history.jsonl does not have operation id=0 and 7 after it"),
    _absent(the_history_lacks_what_was_not_answered, "history.jsonl does not have operation id="),
    _absent(a_trace_is_gone, "member-1/trace.jsonl is missing"),
    _absent(a_trace_is_empty, "member-1/trace.jsonl", "start of 'all'"),
    _absent(a_trace_lost_its_beginning, "member-2/trace.jsonl:1"),
    _absent(a_full_disk_tore_a_line_of_a_trace, "member-1/trace.jsonl:202 says that 1 events before it were lost"),
    _absent(a_trace_lost_its_end, "member-2/trace.jsonl ends at position"),
    _absent(a_trace_does_not_say_that_the_last_term_was_entered, "member-1/trace.jsonl", "term 1"),
    _absent(nobody_entered_the_first_term, "no trace has term 0"),
    _absent(a_member_is_gone, "member-2 is missing", "3 members"),
    _absent(there_is_one_member_more, "member-3", "3 members"),
    _absent(nobody_wrote_down_the_faults, "faults.jsonl", "'dead'"),
    _absent(nobody_wrote_down_the_commands, "controls.jsonl", "planned", scenario=ORDERED),
    _absent(a_command_is_not_written_down, "controls.jsonl", "'resume'", scenario=ORDERED),
    _absent(a_member_has_no_snapshots, "member-2/cluster/recording.log", "position", scenario=ORDERED),
    _absent(
        nobody_has_snapshots_and_nobody_ordered_any,
        "member-0/cluster/recording.log",
        "trace.jsonl:",
        scenario=ORDERED,
    ),
    _absent(only_the_log_asks_for_snapshots, "no cluster/recording.log", "the log asks for one", scenario=BACKED_UP),
    _absent(
        only_the_log_asks_for_snapshots,
        "no cluster/recording.log",
        "the log asks for one",
        scenario="snapshot-and-restart",  # every member was started again
    ),
    _absent(only_the_commands_tell_of_snapshots, "member-0/cluster/recording.log", "controls.jsonl", scenario=ORDERED),
)
UNEXPLAINED = (
    _unexplained(
        a_follower_ended_in_order_and_went_on, "member-1/trace.jsonl:", "with status 0, and nothing ordered it"
    ),
    _unexplained(a_leader_ended_slowly_and_went_on, "member-0/trace.jsonl:", "with status 8, and nothing ordered"),
    _unexplained(a_member_ended_in_order_before_the_run_did, "member-2/trace.jsonl:", "and nothing ordered it to"),
    _unexplained(the_order_was_given_to_another_member, "of member 0 ended with status 0", scenario="leader-stopped"),
    _unexplained(a_member_crashed_and_was_started_again, "member-1/trace.jsonl:1", "member 1", "started again"),
    _unexplained(a_process_ended_with_a_signal, "member-1/trace.jsonl:", "status 139"),
    _unexplained(a_process_ended_by_a_defect_long_before_the_fault, "member-0/trace.jsonl:", "status 1"),
    _unexplained(a_member_crashed_before_it_was_killed, "member-0/trace.jsonl:1", "started again"),
    _unexplained(a_killed_member_died_of_a_signal_when_it_was_back, "member-0/trace.jsonl:", "status 139"),
    _unexplained(an_isolated_member_failed, "member-0/trace.jsonl:", "status 1", scenario="leader-isolated-reset"),
    _unexplained(the_kill_was_of_another_member, "member-0/trace.jsonl:1", "started again"),
    _unexplained(a_member_printed_a_traceback, "member-1/member.log:2", "traceback"),
    _unexplained(a_member_found_its_catalog_damaged, "member-2/trace.jsonl:", "'catalog'", verdict=Verdict.UNKNOWN),
    _unexplained(a_peer_sent_nonsense_before_anything_happened, "'media-peer-1'", verdict=Verdict.UNKNOWN),
)
RAISED = (
    _raised(a_service_raised_and_left_no_traceback, "member-2/trace.jsonl:", "member 2"),
    _raised(
        services_raised_at_two_places,
        "KeyError: 5",
        "locks.py:17 in free",
        "position 640",
        "at least 4 times",
        "member-0, member-1, member-2",
        "1 other place",
    ),
    _raised(a_service_of_one_member_raised, "locks.py:17 in free", "on member-1 (member-1/trace.jsonl:"),
)
