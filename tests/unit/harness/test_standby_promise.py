"""A standby's snapshots are judged like those of members, and its log like that of a backup."""

import shutil
from collections.abc import Callable
from pathlib import Path

import pytest

from support.built_events import EventLog, ledger_log, timers_log, workbench_log
from upheaval.checkers.judge import verify_run
from upheaval.checkers.promises import Promise
from upheaval.checkers.verdict import Verdict
from upheaval_node.protocol import cluster_messages as cm

STANDBY = "standby-0"
SNAPSHOT = (1).to_bytes(4, "little")
"""The type of a snapshot's record in a recording log."""


def with_standby(
    tmp_path: Path, make: Callable[[], EventLog], damage: Callable[[EventLog], object] = lambda log: None
) -> Path:
    """A good run, and beside it a standby that has what a member of a second run has, which may be damaged."""
    make().write(tmp_path / "run")
    other = make()
    damage(other)
    other.write(tmp_path / "other")
    shutil.copytree(tmp_path / "other" / "member-2", tmp_path / "run" / STANDBY)
    return tmp_path / "run"


@pytest.mark.parametrize("make", [ledger_log, timers_log, workbench_log])
def test_a_good_standby_keeps_every_promise(make: Callable[[], EventLog], tmp_path: Path) -> None:
    report = verify_run(with_standby(tmp_path, make))
    for promise in (Promise.STATES_AGREE, Promise.SNAPSHOT_IS_REPLAY, Promise.BACKED_UP, Promise.STANDBYS_KNOWN):
        assert report.finding(promise).verdict is Verdict.VALID, report.finding(promise)
    assert "of 4 members each" in report.finding(Promise.STATES_AGREE).detail
    assert f"{STANDBY} has" in report.finding(Promise.BACKED_UP).detail


def loses_state(log: EventLog) -> object:
    return log.snapshots[2][0].service.pop()


def loses_a_timer(log: EventLog) -> None:
    snapshot = log.snapshots[2][0]
    snapshot.module = [one for one in snapshot.module if not isinstance(cm.SCHEMA.decode(one), cm.Timer)]


@pytest.mark.parametrize(
    ("damage", "promise", "detail"),
    [
        (loses_state, Promise.STATES_AGREE, f"{STANDBY} has"),
        (loses_state, Promise.SNAPSHOT_IS_REPLAY, f"service 0 of {STANDBY} at position"),
        (loses_a_timer, Promise.SNAPSHOT_IS_REPLAY, f"the consensus module of {STANDBY} at position"),
        (loses_state, Promise.BACKED_UP, f"in {STANDBY} is that of no member"),
    ],
)
def test_a_standby_whose_snapshot_is_another_is_found(
    damage: Callable[[EventLog], object], promise: str, detail: str, tmp_path: Path
) -> None:
    finding = verify_run(with_standby(tmp_path, timers_log, damage)).finding(promise)
    assert finding.verdict is Verdict.INVALID
    assert detail in finding.detail


def test_snapshots_of_a_standby_alone_are_judged(tmp_path: Path) -> None:
    """As when members left one to it: the log asks with a flag, and no member has it."""
    run = with_standby(tmp_path, timers_log, loses_state)
    for member_id in range(3):
        file = run / f"member-{member_id}" / "cluster" / "recording.log"
        records = [file.read_bytes()[at : at + 64] for at in range(0, file.stat().st_size, 64)]
        file.write_bytes(b"".join(record for record in records if record[44:48] != SNAPSHOT))
    finding = verify_run(run).finding(Promise.SNAPSHOT_IS_REPLAY)
    assert finding.verdict is Verdict.INVALID
    assert STANDBY in finding.detail
