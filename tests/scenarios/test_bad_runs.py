"""Every bad run is found, by the promise that it breaks and with a message that says where."""

import shutil
from collections import Counter
from dataclasses import replace
from pathlib import Path

import pytest

from support.bad_runs import BAD_RUNS, BadRun, copy_of_good_run
from support.bad_runs.binding import (
    SECOND_TERM,
    a_member_never_came_to_its_identity,
    a_recording_is_of_another_session,
    a_vote_is_for_a_term_that_nobody_knows,
    the_first_term_is_gone,
    the_last_term_ends_where_it_begins,
    the_next_term_has_no_frame_yet,
)
from support.bad_runs.converged import configurations_are_those_of_the_manifest
from upheaval.checkers.judge import verify_run
from upheaval.checkers.promises import Promise
from upheaval.checkers.verdict import Verdict
from upheaval.records import Origin, RunFolder, write_origin

FROM_FOLDERS_ALONE = (
    Promise.RUN_CONVERGED,
    Promise.ENDS_AT_ONE_POSITION,
    Promise.SNAPSHOTS_TAKEN,
    Promise.STANDBYS_KNOWN,
    Promise.BACKED_UP,
    Promise.VOTES_KEPT,
    Promise.COMMITS_KEPT,
    Promise.FINAL_POSITIONS,
    Promise.ANSWERED_WHEN_COMMITTED,
    Promise.ENTRIES_KNOWN,
    Promise.SUSPENDED_TAKES_NOTHING,
    Promise.TIMERS_KEPT,
    Promise.SERVICE_MESSAGES_ONCE,
    Promise.ENTRIES_IN_TERM,
    Promise.CLIENTS_IN_ORDER,
    Promise.ANSWERS_IN_ORDER,
    Promise.ANSWERED_ONCE,
    Promise.CLIENTS_IN_TIME,
    Promise.SESSIONS_OUTLIVE_LEADERS,
    Promise.TIME_KEPT,
    Promise.BOUNDS_KEPT,
    Promise.LEADER_FOUND,
    Promise.MEMBERS_JOIN,
    Promise.PROGRESS,
    Promise.SNAPSHOT_IS_REPLAY,
    Promise.EVIDENCE_COMPLETE,
    Promise.EVIDENCE_BOUND,
    Promise.EVIDENCE_SEALED,
    Promise.NO_UNEXPLAINED_END,
    Promise.SERVICES_RAISED_NOTHING,
    Promise.FAULTS_IN_TIME,
)


def test_every_promise_that_is_tried_here_has_three_bad_runs() -> None:
    counts = Counter(bad.promise for bad in BAD_RUNS)
    assert [promise for promise in FROM_FOLDERS_ALONE if counts[promise] < 3] == []


@pytest.mark.parametrize("bad", BAD_RUNS, ids=lambda bad: bad.name)
def test_it_is_found(bad: BadRun, tmp_path: Path) -> None:
    copy_of_good_run(bad.scenario, tmp_path)
    bad.damage(tmp_path)
    report = verify_run(tmp_path)
    finding = report.finding(bad.promise)
    assert finding.verdict is bad.verdict, report.findings
    assert [word for word in bad.says if word not in finding.detail] == [], finding.detail


@pytest.mark.parametrize("scenario", ["leader-killed", "snapshot-and-restart"])
def test_configurations_of_the_run_that_the_manifest_describes_are_good(scenario: str, tmp_path: Path) -> None:
    copy_of_good_run(scenario, tmp_path)
    RunFolder(tmp_path).unseal()
    configurations_are_those_of_the_manifest(tmp_path)
    finding = verify_run(tmp_path).finding(Promise.EVIDENCE_BOUND)
    assert finding.verdict is Verdict.VALID, finding.detail


def test_a_member_that_was_killed_while_it_started_has_files_without_identity(tmp_path: Path) -> None:
    copy_of_good_run("leader-killed", tmp_path)
    RunFolder(tmp_path).unseal()
    a_member_never_came_to_its_identity(tmp_path)
    finding = verify_run(tmp_path).finding(Promise.EVIDENCE_BOUND)
    assert finding.verdict is Verdict.VALID, finding.detail


def test_members_of_a_system_that_traces_no_votes_may_have_voted_in_any_term(tmp_path: Path) -> None:
    copy_of_good_run("snapshot-and-restart", tmp_path)
    a_vote_is_for_a_term_that_nobody_knows(tmp_path)
    assert verify_run(tmp_path).finding(Promise.EVIDENCE_BOUND).verdict is Verdict.INVALID
    run = RunFolder(tmp_path)
    run.write_manifest(replace(run.read_manifest(), system="aeron:1.51.0"))
    finding = verify_run(tmp_path).finding(Promise.EVIDENCE_BOUND)
    assert finding.verdict is Verdict.VALID, finding.detail


def test_aeron_gives_a_recording_the_session_of_a_term_before_that_has_a_frame(tmp_path: Path) -> None:
    copy_of_good_run("snapshot-and-restart", tmp_path)
    run = RunFolder(tmp_path)
    run.write_manifest(replace(run.read_manifest(), system="aeron:1.51.0"))
    a_recording_is_of_another_session(tmp_path)
    assert "has session 5" in verify_run(tmp_path).finding(Promise.EVIDENCE_BOUND).detail
    the_next_term_has_no_frame_yet(tmp_path)
    finding = verify_run(tmp_path).finding(Promise.EVIDENCE_BOUND)
    assert finding.verdict is Verdict.VALID, finding.detail


def test_aeron_gives_a_recording_the_session_of_a_term_before_it_is_named(tmp_path: Path) -> None:
    """So it does in a member that begins to lead while the others are being stopped."""
    copy_of_good_run("snapshot-and-restart", tmp_path)
    run = RunFolder(tmp_path)
    run.unseal()
    a_recording_is_of_another_session(tmp_path)
    with run.member(1).trace.open("a") as trace:
        trace.write('{"ts":1,"member":1,"event":"election_state","state":"LEADER_INIT"}\n')
    assert "has session 5" in verify_run(tmp_path).finding(Promise.EVIDENCE_BOUND).detail
    run.write_manifest(replace(run.read_manifest(), system="aeron:1.51.0"))
    finding = verify_run(tmp_path).finding(Promise.EVIDENCE_BOUND)
    assert finding.verdict is Verdict.VALID, finding.detail


def test_a_member_may_lose_the_log_where_its_last_term_begins_and_find_the_same_leader_again(tmp_path: Path) -> None:
    copy_of_good_run("snapshot-and-restart", tmp_path)
    RunFolder(tmp_path).unseal()
    the_last_term_ends_where_it_begins(tmp_path)
    finding = verify_run(tmp_path).finding(Promise.EVIDENCE_BOUND)
    assert finding.verdict is Verdict.VALID, finding.detail


def test_a_backup_of_aeron_names_no_terms_before_it_asked(tmp_path: Path) -> None:
    path = tmp_path / "run"
    for each in (path, tmp_path / "other"):
        copy_of_good_run("snapshot-and-restart", each)
    the_first_term_is_gone(tmp_path / "other")
    backup = Path(shutil.move(tmp_path / "other" / "member-1", path / "backup-0"))
    for file in (backup / "trace.jsonl", *backup.glob("*/*-mark*.dat")):
        file.unlink()
    run = RunFolder(path)
    found = verify_run(path).finding(Promise.EVIDENCE_BOUND)
    assert found.detail == f"backup-0/cluster/recording.log begins with term 1 at {SECOND_TERM}, the log at 0"
    run.write_manifest(replace(run.read_manifest(), system="aeron:1.51.0"))
    assert verify_run(path).finding(Promise.EVIDENCE_BOUND).verdict is Verdict.VALID
    # Neither do members that were restored from it.
    the_first_term_is_gone(path)
    found = verify_run(path).finding(Promise.EVIDENCE_BOUND)
    assert found.detail == f"member-1/cluster/recording.log begins with term 1 at {SECOND_TERM}, the log at 0"
    write_origin(path, Origin(str(backup), "", 0, SECOND_TERM, "", (), 0))
    assert verify_run(path).finding(Promise.EVIDENCE_BOUND).verdict is Verdict.VALID
