"""Runs in which not everyone has a snapshot who must have it, or knows of one that is not as it is said."""

from collections.abc import Callable
from pathlib import Path

from support.bad_runs.bad_run import STANDBY_RUN, BadRun
from support.bad_runs.files import (
    SNAPSHOT,
    STANDBY_SNAPSHOT,
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

_BACKED_UP = "backup-loses-its-source"


def _log(run: Path, node: str) -> Path:
    return run / node / "cluster" / "recording.log"


def first_snapshot(run: Path, node: str = "member-1") -> int:
    """Where the first one of a node is."""
    return min(position_of(record) for record in records(_log(run, node)) if kind_of(record) == SNAPSHOT)


def _forget_snapshots(run: Path, node: str) -> None:
    """Neither recording log nor trace of a member tell of the first snapshot."""
    position = first_snapshot(run, node)
    keep_records(_log(run, node), lambda record: kind_of(record) != SNAPSHOT or position_of(record) != position)
    edit_lines(
        run / node / "trace.jsonl",
        lambda fields: not (fields["event"] == "service-ack" and fields.get("log_position") == position),
    )


def only_one_member_took_the_snapshot(run: Path) -> None:
    for node in ("member-0", "member-2"):
        _forget_snapshots(run, node)
    _see_only(run, "snapshot", "1")


def one_member_took_no_snapshot_and_was_not_looked_at(run: Path) -> None:
    _forget_snapshots(run, "member-2")

    def see(fields: dict[str, object]) -> bool:
        members = fields["members"]
        if fields["what"] == "snapshot" and isinstance(members, dict):
            del members["2"]
        return True

    edit_lines(run / "controls.jsonl", see)


def members_took_the_snapshot_at_different_positions(run: Path) -> None:
    def see(fields: dict[str, object]) -> bool:
        members = fields["members"]
        if fields["what"] == "snapshot" and isinstance(members, dict):
            members["1"] = {"snapshot_position": 4096}
        return True

    edit_lines(run / "controls.jsonl", see)


def nobody_was_seen_to_take_the_snapshot(run: Path) -> None:
    def see(fields: dict[str, object]) -> bool:
        if fields["what"] == "snapshot":
            fields["members"] = {}
        return True

    edit_lines(run / "controls.jsonl", see)


def a_snapshot_has_no_service(run: Path) -> None:
    position = first_snapshot(run)
    keep_records(
        _log(run, "member-1"),
        lambda record: kind_of(record) != SNAPSHOT or position_of(record) != position or service_of(record) < 0,
    )


def a_standby_has_a_snapshot_without_its_service(run: Path) -> None:
    keep_records(_log(run, "standby-0"), lambda record: kind_of(record) != SNAPSHOT or service_of(record) < 0)


def _see_only(run: Path, what: str, member: str) -> None:
    def see(fields: dict[str, object]) -> bool:
        members = fields["members"]
        if fields["what"] == what and isinstance(members, dict):
            fields["members"] = {member: members[member]}
        return True

    edit_lines(run / "controls.jsonl", see)


# --- what members know of a standby's ---


def a_notice_names_another_position(run: Path) -> None:
    put_in_records(_log(run, "member-1"), STANDBY_SNAPSHOT, 24, "q", 4096)
    _trace_of_notice(run, "member-1", lambda fields: fields.update(log_position=4096))


def a_notice_names_another_recording(run: Path) -> None:
    put_in_records(_log(run, "member-0"), STANDBY_SNAPSHOT, 0, "q", 9)


def a_notice_names_another_term(run: Path) -> None:
    put_in_records(_log(run, "member-2"), STANDBY_SNAPSHOT, 8, "q", 7)


def a_notice_names_another_time(run: Path) -> None:
    put_in_records(_log(run, "member-2"), STANDBY_SNAPSHOT, 32, "q", 5)


def a_notice_that_was_written_down_is_gone(run: Path) -> None:
    keep_records(_log(run, "member-1"), lambda record: kind_of(record) != STANDBY_SNAPSHOT)


def all_notices_are_gone_but_for_the_command(run: Path) -> None:
    for member in range(3):
        node = f"member-{member}"
        keep_records(_log(run, node), lambda record: kind_of(record) != STANDBY_SNAPSHOT)
        edit_lines(run / node / "trace.jsonl", lambda fields: fields["event"] != "standby_snapshot")


def all_notices_are_gone_from_a_standby_that_lived_on(run: Path) -> None:
    """The command is gone, too; the standby goes on for half a minute."""
    all_notices_are_gone_but_for_the_command(run)
    edit_lines(run / "controls.jsonl", lambda fields: fields["what"] != "standby-snapshot")
    path = run / "standby-0" / "trace.jsonl"
    last = path.read_text().splitlines()[-1]
    path.write_text(path.read_text() + last + "\n")
    lines = path.read_text().splitlines()
    lines[-1] = lines[-1].replace('"ts":', '"ts":30')
    path.write_text("".join(f"{line}\n" for line in lines))


def the_snapshot_of_the_standby_is_gone(run: Path) -> None:
    keep_records(_log(run, "standby-0"), lambda record: kind_of(record) != SNAPSHOT)


def _trace_of_notice(run: Path, node: str, change: Callable[[dict[str, object]], None]) -> None:
    def edit(fields: dict[str, object]) -> bool:
        if fields["event"] == "standby_snapshot":
            change(fields)
        return True

    edit_lines(run / node / "trace.jsonl", edit)


def _taken(damage: Callable[[Path], None], *says: str, verdict: Verdict = Verdict.INVALID) -> BadRun:
    return BadRun(_BACKED_UP, damage, Promise.SNAPSHOTS_TAKEN, says, verdict)


def _known(damage: Callable[[Path], None], *says: str, verdict: Verdict = Verdict.INVALID) -> BadRun:
    return BadRun(STANDBY_RUN, damage, Promise.STANDBYS_KNOWN, says, verdict)


SNAPSHOTS_TAKEN = (
    _taken(only_one_member_took_the_snapshot, "member 0 does not have the snapshot of controls.jsonl:1", "position"),
    _taken(
        one_member_took_no_snapshot_and_was_not_looked_at, "member 2 does not have the snapshot", " ms, and its trace"
    ),
    _taken(members_took_the_snapshot_at_different_positions, "controls.jsonl:1 was seen at positions 4096, "),
    _taken(nobody_was_seen_to_take_the_snapshot, "controls.jsonl:1 took effect, but names", verdict=Verdict.UNKNOWN),
    _taken(a_snapshot_has_no_service, "member-1/cluster/recording.log has the snapshot", "none of service 0 there"),
    BadRun(
        STANDBY_RUN,
        a_standby_has_a_snapshot_without_its_service,
        Promise.SNAPSHOTS_TAKEN,
        ("standby-0/cluster/recording.log has the snapshot", "none of service 0 there"),
    ),
    _known(a_notice_names_another_position, "member-1/cluster/recording.log names", "with position 4096"),
    _known(a_notice_names_another_recording, "member-0/cluster/recording.log names recording 9", "no standby has"),
    _known(a_notice_names_another_term, "member-2/cluster/recording.log names", "with term id 7: the standby has 0"),
    _known(a_notice_names_another_time, "member-2/cluster/recording.log names", "with timestamp 5"),
    _known(a_notice_that_was_written_down_is_gone, "member-1/cluster/recording.log does not have", "written down by"),
    _known(all_notices_are_gone_but_for_the_command, "member 0 does not have the standby-snapshot of controls.jsonl:2"),
    _known(all_notices_are_gone_from_a_standby_that_lived_on, "no member knows of the snapshot that standby-0 took"),
    _known(the_snapshot_of_the_standby_is_gone, "no standby left its recording log", verdict=Verdict.UNKNOWN),
)
