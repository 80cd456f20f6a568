"""A member that lost its files is judged by what it wrote afterwards, and by its trace, which it keeps."""

from collections.abc import Callable
from pathlib import Path

import pytest

from support.bad_runs import backed_up, committed, converged, copy_of_good_run, snapshots_taken
from support.bad_runs.bad_run import STANDBY_RUN
from support.bad_runs.files import SNAPSHOT, keep_records, kind_of
from upheaval.checkers.judge import verify_run
from upheaval.checkers.promises import Promise
from upheaval.checkers.verdict import Finding, Verdict
from upheaval.records import RunFolder
from upheaval.tamper.run_copy import RunCopy
from upheaval.tamper.snapshot_edits import a_backup_has_another_state
from upheaval_chaos.record import FaultRecord, Proof
from upheaval_node.types import S

EARLY, LATE = 1, 3600 * S
Damage = Callable[[Path], None]
_LEFT_BEHIND, _LOSES = "backup-left-behind", "backup-loses-its-source"


def judged(scenario: str, damage: Damage, lost_ns: int, promise: Promise, path: Path, *lossy: int) -> Finding:
    """The finding on the damaged run of a scenario in which these members lost their files at that time."""
    copy_of_good_run(scenario, path)
    run = RunFolder(path)
    run.unseal()
    damage(path)
    proof = Proof(True, "gone")
    for member in lossy:
        run.add_fault(
            FaultRecord("wipe", f"member-{member}", lost_ns, lost_ns, lost_ns, lost_ns, proof, proof, members=(member,))
        )
    return verify_run(path).finding(promise)


def nothing(_: Path) -> None:
    """The good run."""


# --- references to snapshots of standbys ---


@pytest.mark.parametrize(
    ("damage", "lost_ns", "verdict"),
    [
        (snapshots_taken.a_notice_names_another_recording, EARLY, Verdict.INVALID),
        (snapshots_taken.a_notice_names_another_recording, LATE, Verdict.INVALID),
        (snapshots_taken.a_notice_that_was_written_down_is_gone, EARLY, Verdict.INVALID),
        (snapshots_taken.a_notice_that_was_written_down_is_gone, LATE, Verdict.VALID),
        (nothing, EARLY, Verdict.VALID),
        (nothing, LATE, Verdict.VALID),
    ],
)
def test_a_reference_that_a_member_has_is_right(damage: Damage, lost_ns: int, verdict: Verdict, tmp_path: Path) -> None:
    """Member 0 and member 1 are those that the damage is done to."""
    finding = judged(STANDBY_RUN, damage, lost_ns, Promise.STANDBYS_KNOWN, tmp_path, 0, 1)
    assert finding.verdict is verdict, finding.detail


def the_standby_lived_on(run: Path) -> None:
    """For half a minute."""
    path = run / "standby-0" / "trace.jsonl"
    last = path.read_text().splitlines()[-1]
    path.write_text(path.read_text() + last.replace('"ts":', '"ts":30') + "\n")


@pytest.mark.parametrize(
    ("damage", "lost_ns", "verdict"),
    [
        (the_standby_lived_on, EARLY, Verdict.VALID),
        (snapshots_taken.all_notices_are_gone_from_a_standby_that_lived_on, EARLY, Verdict.INVALID),
        (snapshots_taken.all_notices_are_gone_from_a_standby_that_lived_on, LATE, Verdict.VALID),
    ],
)
def test_members_that_all_lost_files_may_know_of_a_standbys_snapshot(
    damage: Damage, lost_ns: int, verdict: Verdict, tmp_path: Path
) -> None:
    finding = judged(STANDBY_RUN, damage, lost_ns, Promise.STANDBYS_KNOWN, tmp_path, 0, 1, 2)
    assert finding.verdict is verdict, finding.detail


# --- snapshots and backups ---


@pytest.mark.parametrize(
    ("scenario", "damage", "promise"),
    [
        (_LOSES, snapshots_taken.a_snapshot_has_no_service, Promise.SNAPSHOTS_TAKEN),
        (_LEFT_BEHIND, backed_up.the_backup_was_ended_earlier, Promise.BACKED_UP),
        (_LEFT_BEHIND, backed_up.a_term_of_the_backup_was_named_before_there_was_any, Promise.BACKED_UP),
        (STANDBY_RUN, backed_up.a_standby_applied_what_was_not_committed_yet, Promise.BACKED_UP),
        (_LOSES, backed_up.the_backup_was_offered_no_snapshot, Promise.BACKED_UP),
        (_LOSES, backed_up.a_snapshot_of_the_backup_is_a_frame_early, Promise.SNAPSHOT_IS_REPLAY),
    ],
)
def test_an_early_loss_excuses_nothing_later(scenario: str, damage: Damage, promise: Promise, tmp_path: Path) -> None:
    finding = judged(scenario, damage, EARLY, promise, tmp_path, 0, 1, 2)
    assert finding.verdict is Verdict.INVALID, finding.detail


@pytest.mark.parametrize("scenario", [_LOSES, _LEFT_BEHIND, STANDBY_RUN])
@pytest.mark.parametrize("lost_ns", [EARLY, LATE])
@pytest.mark.parametrize("promise", [Promise.SNAPSHOTS_TAKEN, Promise.BACKED_UP, Promise.SNAPSHOT_IS_REPLAY])
def test_a_loss_breaks_none_of_these_promises(scenario: str, lost_ns: int, promise: Promise, tmp_path: Path) -> None:
    finding = judged(scenario, nothing, lost_ns, promise, tmp_path, 0, 1, 2)
    assert finding.verdict is Verdict.VALID, finding.detail


def members_lost_their_snapshots(run: Path) -> None:
    """Only the backup has one."""
    for member in range(3):
        keep_records(run / f"member-{member}" / "cluster" / "recording.log", lambda each: kind_of(each) != SNAPSHOT)


def the_copy_is_wrong(run: Path) -> None:
    members_lost_their_snapshots(run)
    a_backup_has_another_state(RunCopy(run))


@pytest.mark.parametrize(
    ("damage", "verdict"), [(members_lost_their_snapshots, Verdict.VALID), (the_copy_is_wrong, Verdict.INVALID)]
)
def test_a_backups_copy_of_what_members_lost_is_the_replay_of_the_log(
    damage: Damage, verdict: Verdict, tmp_path: Path
) -> None:
    finding = judged(_LOSES, damage, LATE, Promise.SNAPSHOT_IS_REPLAY, tmp_path, 0, 1, 2)
    assert finding.verdict is verdict, finding.detail
    if verdict is Verdict.INVALID:
        assert "of backup-0 at position" in finding.detail


# --- what traces show ---


@pytest.mark.parametrize(
    "damage",
    [
        committed.a_leader_sent_no_commit_position,
        committed.followers_of_the_first_term_reported_nothing,
    ],
)
def test_members_that_lost_files_show_what_they_sent(damage: Damage, tmp_path: Path) -> None:
    finding = judged("leader-killed", damage, EARLY, Promise.EVIDENCE_COMPLETE, tmp_path, 0, 1, 2)
    assert finding.verdict is Verdict.UNKNOWN, finding.detail
    assert "that was sent in term 0" in finding.detail


def test_a_run_with_a_loss_is_complete(tmp_path: Path) -> None:
    finding = judged("leader-killed", nothing, EARLY, Promise.EVIDENCE_COMPLETE, tmp_path, 0, 1, 2)
    assert finding.verdict is Verdict.VALID, finding.detail


# --- the end of the run ---


@pytest.mark.parametrize(
    "damage", [converged.it_converged_at_time_one, converged.it_converged_after_all_members_had_ended]
)
def test_members_that_lost_files_show_when_a_run_converged(damage: Damage, tmp_path: Path) -> None:
    finding = judged("leader-killed", damage, EARLY, Promise.RUN_CONVERGED, tmp_path, 0, 1, 2)
    assert finding.verdict is Verdict.UNKNOWN, finding.detail


def test_a_run_with_a_loss_converges(tmp_path: Path) -> None:
    finding = judged("leader-killed", nothing, EARLY, Promise.RUN_CONVERGED, tmp_path, 0, 1, 2)
    assert finding.verdict is Verdict.VALID, finding.detail
