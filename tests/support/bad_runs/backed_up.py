"""Runs whose backup has more than was committed when it had it, or less than it must have.

In `backup-left-behind` the backup is stopped while the cluster goes on.
"""

import json
import shutil
from collections.abc import Callable
from pathlib import Path

from support.bad_runs.bad_run import STANDBY_RUN, BadRun
from support.bad_runs.files import (
    SNAPSHOT,
    TERM,
    edit_lines,
    keep_records,
    kind_of,
    position_of,
    put_in_records,
    records,
    service_of,
)
from upheaval.checkers.promises import Promise
from upheaval.checkers.verdict import Verdict

_LEFT_BEHIND, _LOSES = "backup-left-behind", "backup-loses-its-source"


def the_backup_has_what_was_committed_after_its_end(run: Path) -> None:
    """All that a member has in the end, byte for byte."""
    shutil.copy(run / "member-0" / "archive" / "0-0.rec", _log_of_backup(run))


def _log_of_backup(run: Path) -> Path:
    (path,) = (each for each in (run / "backup-0" / "archive").glob("*.rec") if _is_log(each))
    return path


def _is_log(path: Path) -> bool:
    return path.read_bytes()[16:20] == (100).to_bytes(4, "little")


def the_backup_was_ended_earlier(run: Path) -> None:
    def move(fields: dict[str, object]) -> bool:
        if fields["what"] == "backup stop":
            fields["end_ns"] = 1_330_000_000
        return True

    edit_lines(run / "controls.jsonl", move)


def a_term_of_the_backup_was_named_before_there_was_any(run: Path) -> None:
    def move(fields: dict[str, object]) -> bool:
        if fields["event"] == "backup_term":
            fields["ts"] = 1
        return True

    edit_lines(run / "backup-0" / "trace.jsonl", move)


def a_standby_applied_what_was_not_committed_yet(run: Path) -> None:
    def move(fields: dict[str, object]) -> bool:
        position = fields.get("log_position")
        if fields["event"] == "service-ack" and isinstance(position, int) and position > 0:
            fields["ts"] = 1_500_000_000
        return True

    edit_lines(run / "standby-0" / "trace.jsonl", move)


def the_backup_left_the_snapshot_of_the_service_out(run: Path) -> None:
    log = run / "backup-0" / "cluster" / "recording.log"
    keep_records(log, lambda record: kind_of(record) != SNAPSHOT or service_of(record) < 0)


def the_members_have_a_service_more_than_the_backup(run: Path) -> None:
    path = run / "manifest.json"
    path.write_text(json.dumps({**json.loads(path.read_text()), "more_services": ["tally"]}))


def the_backup_is_gone(run: Path) -> None:
    shutil.rmtree(run / "backup-0")
    (run / "companions.json").unlink()


def the_backup_named_a_term_that_it_does_not_have(run: Path) -> None:
    def rename(fields: dict[str, object]) -> bool:
        if fields["event"] == "backup_term":
            fields["leadership_term_id"] = 9
        return True

    edit_lines(run / "backup-0" / "trace.jsonl", rename)


def the_backup_named_a_term_at_another_position(run: Path) -> None:
    def move(fields: dict[str, object]) -> bool:
        if fields["event"] == "backup_term":
            fields["term_base_log_position"] = 64
        return True

    edit_lines(run / "backup-0" / "trace.jsonl", move)


def the_backup_has_no_snapshot_any_more(run: Path) -> None:
    keep_records(run / "backup-0" / "cluster" / "recording.log", lambda record: kind_of(record) != SNAPSHOT)


def the_backup_does_not_name_a_term_of_its_log(run: Path) -> None:
    log = run / "backup-0" / "cluster" / "recording.log"
    terms = [record for record in records(log) if kind_of(record) == TERM]
    assert len(terms) > 1
    keep_records(log, lambda record: record != terms[0])


def a_snapshot_of_the_backup_is_a_frame_early(run: Path) -> None:
    log = run / "backup-0" / "cluster" / "recording.log"
    (position,) = {position_of(record) for record in records(log) if kind_of(record) == SNAPSHOT}
    put_in_records(log, SNAPSHOT, 24, "q", position - 32)


def the_backup_was_offered_no_snapshot(run: Path) -> None:
    def empty(fields: dict[str, object]) -> bool:
        if fields["event"] == "backup_response":
            fields["snapshots"] = 0
        return True

    edit_lines(run / "backup-0" / "trace.jsonl", empty)


def the_backup_left_no_trace(run: Path) -> None:
    (run / "backup-0" / "trace.jsonl").unlink()


def no_file_lists_the_backup(run: Path) -> None:
    (run / "companions.json").unlink()


def _bad(
    damage: Callable[[Path], None], *says: str, scenario: str = _LEFT_BEHIND, verdict: Verdict = Verdict.INVALID
) -> BadRun:
    return BadRun(scenario, damage, Promise.BACKED_UP, says, verdict)


BACKED_UP = (
    _bad(the_backup_named_a_term_that_it_does_not_have, "does not have term 9", "backup-0/trace.jsonl:"),
    _bad(the_backup_named_a_term_at_another_position, "from position 64", "backup-0/trace.jsonl:"),
    _bad(the_backup_has_no_snapshot_any_more, "has no snapshot", "backup-0/trace.jsonl:", scenario=_LOSES),
    _bad(the_backup_does_not_name_a_term_of_its_log, "does not have term 0, which begins in its log", scenario=_LOSES),
    _bad(a_snapshot_of_the_backup_is_a_frame_early, "where no member has one", scenario=_LOSES),
    _bad(the_backup_was_offered_no_snapshot, "backup-0 was offered no snapshot at", "which had one", scenario=_LOSES),
    _bad(the_backup_left_no_trace, "backup-0/trace.jsonl is missing", verdict=Verdict.UNKNOWN),
    _bad(no_file_lists_the_backup, "companions.json does not have backup-0", verdict=Verdict.UNKNOWN),
    _bad(the_backup_has_what_was_committed_after_its_end, "backup-0 had the log up to", "(controls.jsonl:3)"),
    _bad(the_backup_was_ended_earlier, "backup-0 had the log up to", "at 1330 ms (controls.jsonl:3)"),
    _bad(a_term_of_the_backup_was_named_before_there_was_any, "up to position 0 at 0 ms (backup-0/trace.jsonl:"),
    _bad(
        a_standby_applied_what_was_not_committed_yet,
        "standby-0 had the log up to position",
        "at 1500 ms (standby-0/trace.jsonl:",
        scenario=STANDBY_RUN,
    ),
    _bad(the_backup_left_the_snapshot_of_the_service_out, "backup-0/cluster/recording.log", "none of service 0 there"),
    _bad(the_members_have_a_service_more_than_the_backup, "backup-0/cluster/recording.log", "none of service 1 there"),
    _bad(the_backup_is_gone, "backup-0 has no log", verdict=Verdict.UNKNOWN),
)
