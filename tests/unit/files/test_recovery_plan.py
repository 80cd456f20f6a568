"""Recovery plans: from which snapshots and up to where of the log a member starts."""

import pytest

from unit.files.test_recording_log import append_set, append_standby_set, new_log
from upheaval_node.errors import UsageError
from upheaval_node.files.recording_log import RecordingExtent
from upheaval_node.types import NULL_VALUE

EXTENT = RecordingExtent(1, 0, 5000, 3, 65536, 1408, -77)


def test_plan_of_an_empty_log_is_empty_unless_a_recording_was_replicated() -> None:
    _, log = new_log()
    plan = log.create_recovery_plan(1)
    assert (plan.last_leadership_term_id, plan.last_term_base_log_position) == (NULL_VALUE, 0)
    assert (plan.appended_log_position, plan.committed_log_position, plan.snapshots, plan.log) == (0, 0, (), None)
    replicated = log.create_recovery_plan(1, EXTENT)
    assert replicated.log is not None
    assert (replicated.log.leadership_term_id, replicated.log.log_position) == (NULL_VALUE, 0)
    assert (replicated.appended_log_position, replicated.committed_log_position) == (5000, 0)


@pytest.mark.parity("RL-08")
def test_plan_starts_from_the_latest_snapshot_with_the_module_first() -> None:
    _, log = new_log()
    log.append_term(1, 0, 0, 1)
    append_set(log, 2, 0, 640, services=3)
    log.append_term(1, 1, 1000, 1)
    plan = log.create_recovery_plan(3, EXTENT)
    assert [entry.service_id for entry in plan.snapshots] == [-1, 0, 1, 2]
    assert (plan.last_leadership_term_id, plan.last_term_base_log_position) == (1, 1000)
    assert (plan.appended_log_position, plan.committed_log_position) == (5000, 640)
    assert plan.log is not None
    assert (plan.log.start_position, plan.log.stop_position, plan.log.session_id) == (640, 5000, -77)


def test_plan_without_a_snapshot_starts_where_the_recording_does_and_ends_with_the_term() -> None:
    _, log = new_log()
    log.append_term(1, 0, 0, 1)
    log.commit_log_position(0, 4000)
    plan = log.create_recovery_plan(1, EXTENT)
    assert plan.log is not None
    assert (plan.log.start_position, plan.committed_log_position, plan.appended_log_position) == (0, 4000, 5000)


def test_plan_of_a_seeded_log_has_a_snapshot_and_no_log() -> None:
    _, log = new_log()
    append_set(log, 2, 5, 0)
    plan = log.create_recovery_plan(1)
    assert (plan.last_leadership_term_id, plan.log, len(plan.snapshots)) == (5, None, 2)


@pytest.mark.parity("RL-03", "RL-04", "RL-33")
def test_plan_ignores_incomplete_invalid_and_standby_snapshots_and_invalid_terms() -> None:
    _, log = new_log()
    log.append_term(1, 0, 0, 1)
    append_set(log, 2, 0, 640)
    append_set(log, 3, 0, 1280)
    log.append_snapshot(4, 0, 0, 1920, 1, 0)
    append_standby_set(log, 2560, "h:1")
    later = log.append_term(1, 1, 4000, 1)
    log.invalidate_entry(later.entry_index)
    module = log.get_latest_snapshot()
    assert module is not None
    log.invalidate_entry(module.entry_index)
    plan = log.create_recovery_plan(1, EXTENT)
    assert [entry.log_position for entry in plan.snapshots] == [640, 640]
    assert plan.last_leadership_term_id == 0


def test_plan_skips_a_service_whose_snapshot_is_another_and_refuses_a_missing_slot() -> None:
    _, log = new_log()
    log.append_snapshot(2, 0, 0, 640, 1, -1)
    with pytest.raises(UsageError):
        log.create_recovery_plan(1)
    _, log = new_log()
    log.append_snapshot(3, 0, 0, 600, 1, 0)
    log.append_snapshot(2, 0, 0, 640, 1, -1)
    assert [entry.service_id for entry in log.create_recovery_plan(1).snapshots] == [-1]


@pytest.mark.parametrize("extent", [None, RecordingExtent(9, 0, 0, 0, 65536, 1408, 0)])
def test_plan_needs_the_extent_of_the_recording_of_the_log(extent: RecordingExtent | None) -> None:
    _, log = new_log()
    log.append_term(1, 0, 0, 1)
    with pytest.raises(UsageError):
        log.create_recovery_plan(1, extent)
