"""Snapshots of running clusters: what a start makes of them, and of those that are missing or made invalid."""

import pytest

from support.system_world import System, numbered
from upheaval_node.cluster.module_state import ControlToggle
from upheaval_node.files.recording_log import RecordingLog


def invalidate_latest(log: RecordingLog) -> None:
    assert log.invalidate_latest_snapshot()


def loaded(system: System) -> dict[int, int]:
    return {member_id: system.service(member_id).loaded for member_id in system.live}


@pytest.mark.parity("CT-04")
def test_every_member_starts_from_the_snapshot() -> None:
    system = System()
    system.echo(system.client(), numbered("a", 10))
    system.snapshot()
    system.stop()
    system.start()
    leader = system.leader()
    assert len(system.followers()) == 2
    assert loaded(system) == dict.fromkeys(range(3), 10)
    assert [system.status(each).role for each in system.live].count("LEADER") == 1
    assert system.status(leader).leadership_term_id == 1


@pytest.mark.parity("CT-23")
def test_a_member_that_was_away_takes_the_snapshot_when_it_reads_of_it() -> None:
    system = System()
    system.leader()
    absent = system.followers()[0]
    client = system.client()
    system.echo(client, numbered("a", 10))
    system.stop(absent)
    system.snapshot()
    system.echo(client, numbered("b", 10))
    system.start(absent)
    system.leader()
    system.await_messages(20)
    assert system.service(absent).snapshots == 1
    assert [service_id for _, service_id, _ in system.snapshot_entries(absent)] == [0, -1]


@pytest.mark.parity("CT-40")
def test_a_wiped_member_replays_everything_and_does_not_lead() -> None:
    system = System()
    system.echo(system.client(), numbered("a", 10))
    system.await_messages(10)
    system.end(ControlToggle.SHUTDOWN)
    system.wipe(1)
    system.start()
    assert system.leader() != 1
    system.await_messages(10)
    assert loaded(system) == {0: 10, 1: 0, 2: 10}


@pytest.mark.parity("CT-42")
def test_a_wiped_member_replays_the_places_of_several_snapshots() -> None:
    system = System()
    client = system.client()
    for prefix in ("a", "b", "c"):
        system.echo(client, numbered(prefix, 10))
        system.snapshot()
    system.stop()
    system.wipe(0)
    system.start()
    assert system.leader() != 0
    system.await_messages(30)
    assert loaded(system) == {0: 0, 1: 30, 2: 30}
    system.until(lambda: len(system.snapshot_entries(0)) == 6, "snapshots on the way")
    assert system.service(0).snapshots == 3


@pytest.mark.parity("CT-50")
def test_without_the_latest_snapshot_a_start_uses_the_one_before() -> None:
    system = System()
    client = system.client()
    for prefix in ("a", "b", "c"):
        system.echo(client, numbered(prefix, 10))
        if prefix != "c":
            system.snapshot()
    system.stop()
    for member_id in range(3):
        system.change_recording_log(member_id, invalidate_latest)
    system.start()
    system.leader()
    system.await_messages(30)
    assert loaded(system) == dict.fromkeys(range(3), 10)


@pytest.mark.parity("CT-51", "NX-10")
def test_a_lone_member_without_the_snapshot_of_its_end_replays_and_takes_it_again() -> None:
    system = System(members=1)
    system.leader()
    system.echo(system.client(), numbered("a", 10))
    system.end(ControlToggle.SHUTDOWN)
    system.change_recording_log(0, invalidate_latest)
    system.start()
    system.leader()
    system.await_messages(10)
    assert loaded(system) == {0: 0}
    assert system.service(0).snapshots == 1
    system.echo(system.client(), numbered("b", 10))
    system.await_messages(20)


@pytest.mark.parity("CT-53")
def test_a_snapshot_between_two_elections_may_be_missing() -> None:
    system = System()
    client = system.client()
    system.echo(client, numbered("a", 10))
    first = system.leader()
    system.kill(first)
    system.leader()
    system.start(first)
    system.follow(client)
    system.echo(client, numbered("b", 10))
    system.snapshot()
    second = system.leader()
    system.kill(second)
    system.leader()
    system.start(second)
    system.follow(client)
    system.echo(client, numbered("c", 10))
    system.await_messages(30)
    system.stop()
    for member_id in range(3):
        system.change_recording_log(member_id, invalidate_latest)
    system.start()
    system.leader()
    system.await_messages(30)
    assert loaded(system) == dict.fromkeys(range(3), 0)


@pytest.mark.parity("CT-54")
def test_members_whose_snapshots_differ_in_number_come_to_one_state() -> None:
    system = System()
    client = system.client()
    system.echo(client, numbered("a", 10))
    system.snapshot()
    absent = system.followers()[0]
    system.stop(absent)
    system.snapshot()
    system.start(absent)
    system.leader()
    system.echo(client, numbered("b", 10))
    system.kill(system.leader())
    system.leader()
    system.start()
    system.leader()
    system.snapshot()
    system.stop()
    for member_id in range(3):

        def twice(log: RecordingLog) -> None:
            invalidate_latest(log)
            invalidate_latest(log)

        system.change_recording_log(member_id, invalidate_latest if member_id == absent else twice)
    system.start()
    system.leader()
    system.await_messages(20)
    assert loaded(system) == dict.fromkeys(range(3), 10)
    system.echo(system.client(), numbered("c", 10))
    system.await_messages(30)


def keep_last_term_and_latest_snapshot(log: RecordingLog) -> None:
    last = log.find_last_term()
    assert last is not None
    kept = {entry.entry_index for entry in log.latest_snapshot_set()}
    for entry in list(log.entries):
        if entry.entry_index not in kept and entry.entry_index != last.entry_index:
            log.remove_entry(entry.leadership_term_id, entry.entry_index)


@pytest.mark.parity("TR-01")
def test_a_recording_log_of_the_last_term_and_the_latest_snapshot_is_enough() -> None:
    system = System()
    for number in range(3):
        system.leader()
        system.echo(system.client(), numbered(f"round-{number}", 10))
        system.snapshot()
        system.await_messages(10 * (number + 1))
        system.stop()
        for member_id in range(3):
            system.change_recording_log(member_id, keep_last_term_and_latest_snapshot)
        system.start()
        system.leader()
        assert loaded(system) == dict.fromkeys(range(3), 10 * (number + 1))
    system.echo(system.client(), numbered("end", 10))
    system.await_messages(40)


def begin_a_new_log_with_the_latest_snapshot(log: RecordingLog) -> None:
    """As Aeron's tool seeds a recording log: the snapshot alone, at position 0."""
    kept = log.latest_snapshot_set()
    for entry in list(log.entries):
        log.remove_entry(entry.leadership_term_id, entry.entry_index)
    for entry in reversed(kept):
        log.append_snapshot(entry.recording_id, entry.leadership_term_id, 0, 0, entry.timestamp, entry.service_id)


def test_a_new_log_begins_with_the_state_of_a_snapshot_of_another() -> None:
    system = System()
    system.leader()
    system.echo(system.client(), numbered("a", 10))
    system.snapshot()
    system.echo(system.client(), numbered("b", 10))
    system.await_messages(20)
    system.stop()
    for member_id in range(3):
        system.change_recording_log(member_id, begin_a_new_log_with_the_latest_snapshot)
    system.start()
    leader = system.leader()
    assert loaded(system) == dict.fromkeys(range(3), 10)
    assert system.status(leader).commit_position < 1000
    system.echo(system.client(), numbered("c", 10))
    system.await_messages(20)
    system.stop()
    system.start()
    system.leader()
    system.await_messages(20)
    assert loaded(system) == dict.fromkeys(range(3), 10)


@pytest.mark.parity("CT-65")
def test_the_id_of_a_timer_may_be_used_again_after_a_snapshot() -> None:
    system = System()
    system.leader()
    client = system.client()
    for count in (1, 2):
        system.echo(client, [b"t 5 300"])
        system.until(lambda n=count: all(len(system.service(e).fired) == n for e in system.live), "timer")  # type: ignore[misc]
        system.snapshot()
    system.stop()
    system.start()
    system.leader()
    system.echo(system.client(), [b"t 5 300"])
    system.until(lambda: all(len(system.service(each).fired) == 3 for each in system.live), "timer")
    assert [system.service(each).fired for each in system.live] == [[5, 5, 5]] * 3


@pytest.mark.parity("TI-01", "NX-07")
def test_a_timer_of_before_a_snapshot_fires_after_two_starts() -> None:
    system = System(members=1)
    system.leader()
    system.echo(system.client(), [b"t 1 9000", b"t 2 100"])
    system.until(lambda: system.service(0).fired == [2], "first timer")
    system.snapshot()
    system.echo(system.client(), [b"t 3 8000"])
    for _ in range(2):
        system.stop()
        system.start()
        system.leader()
        assert system.service(0).loaded == 2
    system.until(lambda: len(system.service(0).fired) == 3, "timers")
    system.run_for(1)
    assert sorted(system.service(0).fired) == [1, 2, 3]


@pytest.mark.parity("TI-02", "NX-08")
def test_timers_that_are_known_from_the_log_alone_fire() -> None:
    system = System(members=1)
    system.leader()
    system.echo(system.client(), [b"t 1 6000", b"t 2 100"])
    system.until(lambda: system.service(0).fired == [2], "first timer")
    for _ in range(2):
        system.stop()
        system.start()
        system.leader()
        assert system.service(0).loaded == 0
    system.until(lambda: len(system.service(0).fired) == 2, "timers")
    system.run_for(1)
    assert system.service(0).fired == [2, 1]


@pytest.mark.parity("TI-03")
def test_another_request_for_a_timer_replaces_its_deadline() -> None:
    system = System(members=1)
    system.leader()
    system.echo(system.client(), [b"t 1 500", b"t 1 3000"])
    system.run_for(2)
    assert system.service(0).fired == []
    system.run_for(2)
    assert system.service(0).fired == [1]


@pytest.mark.parity("NX-01", "NX-02", "SN-04")
def test_a_lone_member_replays_its_log_into_a_new_service() -> None:
    system = System(members=1)
    system.leader()
    system.echo(system.client(), numbered("a", 10))
    system.kill()
    system.start()
    system.leader()
    assert system.service(0).messages == numbered("a", 10)
    system.echo(system.client(), numbered("b", 1))
    assert system.service(0).messages == numbered("a", 10) + numbered("b", 1)


@pytest.mark.parity("NX-03", "NX-04", "NX-05", "NX-06")
@pytest.mark.parametrize(("before", "after", "times"), [(0, 0, 1), (3, 0, 1), (3, 2, 1), (3, 2, 3)])
def test_a_lone_member_starts_from_its_latest_snapshot(before: int, after: int, times: int) -> None:
    system = System(members=1)
    system.leader()
    client = system.client()
    for _ in range(times):
        system.echo(client, numbered("a", before))
        system.snapshot()
    system.echo(client, numbered("b", after))
    expected = system.service(0).messages
    system.stop()
    system.start()
    system.leader()
    assert system.service(0).loaded == before * times
    system.until(lambda: system.service(0).messages == expected, "state of before")
    assert len(expected) == before * times + after


@pytest.mark.parity("NX-09")
def test_a_lone_member_without_its_snapshot_replays_everything_twice() -> None:
    system = System(members=1)
    system.leader()
    system.echo(system.client(), numbered("a", 5))
    system.snapshot()
    system.stop()
    system.change_recording_log(0, invalidate_latest)
    system.start()
    system.leader()
    assert (system.service(0).loaded, system.service(0).messages) == (0, numbered("a", 5))
    system.echo(system.client(), numbered("b", 5))
    system.stop()
    system.change_recording_log(0, invalidate_latest)
    system.start()
    system.leader()
    assert (system.service(0).loaded, system.service(0).messages) == (0, numbered("a", 5) + numbered("b", 5))


@pytest.mark.parity("RV-01")
def test_a_snapshot_whose_recordings_nobody_has_is_made_invalid_and_terms_are_left() -> None:
    system = System(members=1)
    system.leader()
    system.echo(system.client(), numbered("a", 5))
    system.snapshot()
    system.echo(system.client(), numbered("b", 5))
    system.stop()

    def add_unknown(log: RecordingLog) -> None:
        position = max(entry.log_position for entry in log.entries if entry.is_snapshot) + 64
        for service_id in (0, -1):
            log.append_snapshot(4711 + service_id, 0, 0, position, 1, service_id)
        log.append_standby_snapshot(4720, 0, 0, position, 1, -1, "away:1")

    system.change_recording_log(0, add_unknown)
    system.start()
    system.leader()
    assert system.service(0).loaded == 5
    system.await_messages(10)
    entries = system.modules[0].recording_log.entries
    assert [entry.is_valid for entry in entries if entry.recording_id in (4710, 4711)] == [False, False]
    assert all(entry.is_valid for entry in entries if entry.recording_id not in (4710, 4711))
    assert any(entry.recording_id == 4720 for entry in entries)
