"""Backups of whole clusters in virtual time: real members, real backups, and members that start from what they keep."""

from dataclasses import replace
from itertools import pairwise

import pytest

from support.backup_world import CHALLENGE_ANSWER, CREDENTIALS, Backup, Says
from support.fault_cases import drive, isolation
from support.system_world import System, numbered
from upheaval.runtimes.simulated.errors import ProcessFailed
from upheaval_node.backup.config import BackupEndpoints
from upheaval_node.backup.states import BackupState
from upheaval_node.cluster.module_state import ControlToggle
from upheaval_node.counters import BACKUP_LIVE_LOG_POSITION, BACKUP_QUERY_DEADLINE, cluster_key
from upheaval_node.files import layout
from upheaval_node.settings import MemberSettings, profile_settings

TEN = numbered("ten", 10)
SEVEN = numbered("seven", 7)


def guarded(authorisation: str = "") -> MemberSettings:
    """Members that let in who `OneBackup` lets in."""
    settings = profile_settings("test")
    cluster = replace(settings.cluster, authenticator="support.backup_world:OneBackup", authorisation=authorisation)
    return replace(settings, cluster=cluster)


# --- what is copied ------------------------------------------------------------------------------------------------


@pytest.mark.parity("BK-01")
def test_of_an_empty_cluster_an_empty_member_is_restored() -> None:
    system = System()
    system.leader()
    backup = Backup(system)
    backup.follow()
    restored = backup.restored()
    assert (backup.state, backup.snapshots_retrieved) == ("BACKING_UP", 0)
    assert (restored.service(0).messages, restored.snapshot_entries(0)) == ([], [])


@pytest.mark.parity("BK-02")
@pytest.mark.parametrize("source", ["ANY", "LEADER", "FOLLOWER"])
def test_the_log_is_copied_from_a_member_of_the_kind_that_is_asked_for(source: str) -> None:
    system = System()
    system.echo(system.client(), TEN)
    backup = Backup(system, source=source)
    backup.follow()
    leader = system.leader()
    assert source == "ANY" or (backup.supplier == leader) == (source == "LEADER")
    assert backup.restored_messages() == TEN


@pytest.mark.parity("BK-03")
def test_a_backup_that_was_first_follows_the_log() -> None:
    system = System()
    backup = Backup(system)
    system.echo(system.client(), TEN)
    backup.follow()
    assert backup.restored_messages() == TEN


@pytest.mark.parity("BK-04")
def test_a_snapshot_is_copied_and_a_member_starts_from_it() -> None:
    system = System()
    system.echo(system.client(), TEN)
    system.snapshot()
    backup = Backup(system)
    backup.follow()
    restored = backup.restored()
    assert backup.snapshots_retrieved == 1
    assert (restored.service(0).loaded, restored.service(0).messages) == (10, TEN)


@pytest.mark.parity("BK-05")
def test_a_cluster_that_was_shut_down_and_started_again_is_backed_up() -> None:
    system = System()
    system.echo(system.client(), TEN)
    system.end(ControlToggle.SHUTDOWN)
    system.start()
    system.leader()
    backup = Backup(system)
    backup.follow()
    restored = backup.restored()
    assert backup.snapshots_retrieved == 1
    assert (restored.service(0).loaded, restored.service(0).messages) == (10, TEN)


@pytest.mark.parity("BK-06")
def test_a_snapshot_and_what_came_after_it_make_the_whole() -> None:
    system = System()
    client = system.client()
    system.echo(client, TEN)
    system.snapshot()
    system.echo(client, SEVEN)
    backup = Backup(system)
    backup.follow()
    restored = backup.restored()
    assert (restored.service(0).loaded, restored.service(0).messages) == (10, TEN + SEVEN)


@pytest.mark.parity("BK-11")
def test_messages_after_a_snapshot_reach_a_backup_that_has_it() -> None:
    system = System()
    client = system.client()
    system.echo(client, TEN)
    system.snapshot()
    backup = Backup(system)
    backup.follow()
    system.echo(client, SEVEN)
    backup.follow()
    assert (backup.snapshots_retrieved, backup.restored_messages()) == (1, TEN + SEVEN)


@pytest.mark.parity("BK-12")
def test_a_copy_can_begin_at_the_latest_snapshot() -> None:
    system = System()
    client = system.client()
    system.echo(client, TEN)
    system.snapshot()
    system.echo(client, SEVEN)
    backup = Backup(system, replay_start="LATEST_SNAPSHOT")
    backup.follow()
    log = backup.agent.live_log
    assert log is not None
    assert log.start_position == backup.companion.status().snapshot_position > 0
    assert backup.restored_messages() == TEN + SEVEN


def test_a_copy_that_begins_at_a_snapshot_with_nothing_after_it_is_gone_on_with() -> None:
    system = System()
    client = system.client()
    system.echo(client, TEN)
    system.snapshot()
    backup = Backup(system, replay_start="LATEST_SNAPSHOT")
    backup.follow()
    assert backup.restored_messages() == TEN
    backup.companion.kill()
    backup.companion.start()
    backup.follow()
    system.echo(client, SEVEN)
    backup.follow()
    assert backup.restored_messages() == TEN + SEVEN
    assert len(backup.recording_log().entries) == 3


@pytest.mark.parity("BK-18")
def test_messages_before_and_during_a_backup_are_all_there() -> None:
    system = System()
    client = system.client()
    before, during = numbered("before", 100), numbered("during", 100)
    system.echo(client, before)
    backup = Backup(system)
    system.echo(client, during)
    backup.follow()
    assert backup.restored_messages() == before + during


def test_a_snapshot_that_is_taken_later_is_fetched_with_the_next_query() -> None:
    system = System()
    client = system.client()
    backup = Backup(system)
    system.echo(client, TEN)
    backup.follow()
    system.snapshot()
    log = backup.agent.live_log
    system.until(lambda: backup.snapshots_retrieved == 1, "snapshot of the next round")
    system.echo(client, SEVEN)
    backup.follow()
    assert backup.agent.live_log is log
    assert backup.restored().service(0).loaded == 10
    assert backup.restored_messages() == TEN + SEVEN


# --- queries -------------------------------------------------------------------------------------------------------


@pytest.mark.parity("BK-13")
def test_the_next_query_is_due_in_the_future() -> None:
    system = System()
    system.leader()
    backup = Backup(system)
    backup.follow()
    now_ms = system.cluster.world.epoch_ms
    assert now_ms < backup.companion.status().next_query_deadline_ms <= now_ms + 2000


@pytest.mark.parity("BK-14")
def test_a_query_that_is_made_due_asks_again_and_keeps_the_log() -> None:
    system = System()
    client = system.client()
    backup = Backup(system)
    backup.follow()
    log, deadline = backup.agent.live_log, backup.companion.status().next_query_deadline_ms
    found = backup.companion.counters.find(BACKUP_QUERY_DEADLINE, cluster_key(0))
    assert found is not None
    found.set(0)
    system.until(lambda: backup.state == "BACKING_UP" and found.get() > 0, "another round")
    system.echo(client, TEN)
    backup.follow()
    assert backup.companion.status().next_query_deadline_ms >= deadline
    assert backup.agent.live_log is log
    assert backup.restored_messages() == TEN


# --- members that come and go --------------------------------------------------------------------------------------


@pytest.mark.parity("BK-15")
def test_a_log_of_two_terms_is_copied() -> None:
    system = System()
    client = system.client()
    system.echo(client, TEN)
    system.kill(system.leader())
    system.follow(client)
    system.echo(client, SEVEN)
    backup = Backup(system)
    backup.follow()
    entries = backup.recording_log().entries
    member = system.modules[system.leader()].recording_log.entries
    assert len(entries) > 1
    assert [(each.leadership_term_id, each.term_base_log_position) for each in entries] == [
        (each.leadership_term_id, each.term_base_log_position) for each in member
    ]
    assert backup.restored_messages() == TEN + SEVEN


@pytest.mark.parity("BK-16")
def test_a_backup_of_a_leader_that_fails_goes_on_with_another_member() -> None:
    system = System()
    client = system.client()
    backup = Backup(system, source="LEADER")
    system.echo(client, TEN)
    backup.follow()
    leader = system.leader()
    system.kill(leader)
    system.follow(client)
    system.echo(client, SEVEN)
    backup.follow()
    assert backup.supplier == system.leader() != leader
    assert backup.restored_messages() == TEN + SEVEN


def test_a_leader_that_fails_during_the_copy_costs_nothing() -> None:
    system = System()
    client = system.client()
    many = numbered("many", 2000, 200)
    system.echo(client, many)
    backup = Backup(system, source="LEADER")
    system.until(lambda: 0 < backup.position < 200_000, "copy that has begun")
    system.kill(system.leader())
    system.follow(client)
    system.echo(client, SEVEN)
    backup.follow()
    assert backup.restored_messages() == many + SEVEN


@pytest.mark.parametrize("ends", ["killed", "stopped"])
@pytest.mark.parametrize("catchup", ["backup-0:9003", "backup-0:0"])
@pytest.mark.parity("BK-19")
def test_a_backup_goes_on_where_it_ended(catchup: str, ends: str) -> None:
    system = System()
    client = system.client()
    system.echo(client, TEN)
    backup = Backup(system, endpoints=BackupEndpoints("backup-0:9001", catchup, "backup-0:9004"))
    backup.follow()
    if ends == "killed":
        backup.companion.kill()
    else:
        backup.companion.stop()
    system.echo(client, SEVEN)
    backup.companion.start()
    backup.follow()
    log = backup.agent.live_log
    assert log is not None
    assert (log.recording_id, log.start_position > 0) == (0, True)
    assert backup.restored_messages() == TEN + SEVEN


def test_a_backup_that_lost_its_recording_log_keeps_what_it_recorded() -> None:
    system = System()
    system.echo(system.client(), TEN)
    backup = Backup(system)
    backup.follow()
    backup.companion.stop()
    disk = backup.companion.disk
    disk.remove(layout.RECORDING_LOG)
    kept = {path: disk.read(path) for path in disk.paths if path.endswith(".rec")}
    backup.companion.start()
    with pytest.raises(ProcessFailed, match=r"the archive holds 1 recordings, but cluster/recording\.log is missing"):
        system.until(lambda: not backup.companion.alive, "end of the backup")
    assert kept
    assert {path: disk.read(path) for path in disk.paths if path.endswith(".rec")} == kept
    assert not disk.has(layout.RECORDING_LOG)


def test_a_backup_of_a_cluster_that_is_down_waits_for_it() -> None:
    system = System()
    system.echo(system.client(), TEN)
    system.kill()
    backup = Backup(system)
    system.until(lambda: backup.state == "RESET_BACKUP", "round that is given up")
    system.start()
    backup.follow()
    assert backup.restored_messages() == TEN


def test_a_backup_holds_nothing_that_is_not_committed() -> None:
    system = System()
    client = system.client()
    system.echo(client, TEN)
    backup = Backup(system, source="LEADER")
    backup.follow()
    leader = system.leader()
    committed = system.status(leader).commit_position
    drive(system.cluster).begin("cut-off", isolation(leader))
    system.say(client, SEVEN)
    system.until(lambda: system.status(leader).append_position > committed, "entries without a quorum")
    system.run_for(0.3)
    assert backup.position == committed


# --- who may -------------------------------------------------------------------------------------------------------


@pytest.mark.parity("BK-07")
def test_credentials_let_a_backup_in() -> None:
    system = System(settings=guarded("support.backup_world:OnlyAdmin"))
    system.echo(system.client(credentials=Says(b"-")), TEN)
    backup = Backup(system, credentials=Says(CREDENTIALS))
    backup.follow()
    assert backup.restored_messages() == TEN


@pytest.mark.parity("BK-08")
def test_the_answer_to_a_challenge_lets_a_backup_in() -> None:
    system = System(settings=guarded())
    system.echo(system.client(credentials=Says(b"-")), TEN)
    backup = Backup(system, credentials=Says(b"challenge me", CHALLENGE_ANSWER))
    backup.follow()
    assert backup.restored_messages() == TEN


@pytest.mark.parametrize(
    "credentials",
    [
        pytest.param(Says(b"admin:wrong"), marks=pytest.mark.parity("BK-09"), id="wrong-credentials"),
        pytest.param(Says(b"challenge me", b"wrong"), marks=pytest.mark.parity("BK-10"), id="wrong-answer"),
    ],
)
def test_a_backup_that_is_refused_says_so_once_a_round(credentials: Says) -> None:
    system = System(settings=guarded())
    system.leader()
    backup = Backup(system, credentials=credentials)
    system.until(lambda: backup.companion.status().errors == 3, "third refusal")
    texts = backup.companion.error_texts
    assert all("AUTHENTICATION_REJECTED: " in text for text in texts)
    times_ns = [int(text.partition(" ")[0]) for text in texts]
    assert len(times_ns) == 3
    assert all(later - earlier >= 500_000_000 for earlier, later in pairwise(times_ns))
    assert backup.agent.state is BackupState.RESET_BACKUP


def test_a_backup_that_was_refused_gets_in_when_the_cluster_lets_it() -> None:
    system = System(settings=guarded())
    client = system.client(credentials=Says(b"-"))
    system.echo(client, TEN)
    says = Says(b"admin:wrong")
    backup = Backup(system, credentials=says)
    system.until(lambda: backup.state == "RESET_BACKUP", "refusal")
    says.credentials = CREDENTIALS
    backup.follow()
    assert backup.companion.counters.find(BACKUP_LIVE_LOG_POSITION) is not None
    assert backup.restored_messages() == TEN
