"""Fetching snapshots of standbys: by an order, at a start, from the best archive that gives one."""

import pytest

from support.asking_party import ArchivedParty
from support.cluster_world import ClusterWorld, KeepingService, Member
from unit.cluster.test_node_control import node_toggle
from unit.cluster.test_snapshots import keeping, restart, snapshot_count, started, take_snapshot
from upheaval_node.archive.reader import read_recordings
from upheaval_node.cluster.module_state import NodeToggle
from upheaval_node.cluster.standby_replicator import standby_candidates
from upheaval_node.files.recording_log import Entry, EntryType


def own_snapshots(member: Member) -> list[Entry]:
    return [e for e in member.module.recording_log.entries if e.type is EntryType.SNAPSHOT and e.is_valid]


def forget_own(member: Member) -> None:
    """The member's own newest snapshot counts no more, as if only a standby had taken one there."""
    log = member.module.recording_log
    for entry in log.latest_snapshot_set():
        log.invalidate_entry(entry.entry_index)


def standby_with(world: ClusterWorld, member: Member, name: str = "standby") -> ArchivedParty:
    """A standby that has the same snapshots as the member has now, and has notified the member."""
    standby = ArchivedParty(world, name)
    entries = member.module.recording_log.latest_snapshot_set()
    recordings = standby.fetch(member, entries)
    count = member.module.counters.standby_snapshots.get()
    standby.send(member, standby.notice_of(entries, recordings))
    world.until(lambda: member.module.counters.standby_snapshots.get() == count + 1)
    return standby


def order(world: ClusterWorld, member: Member) -> str:
    """Have the newest one fetched; where it came from, or why it did not."""
    done, reports = len(fetches(member)), len(refusals(member))
    node_toggle(member).set(NodeToggle.REPLICATE_STANDBY_SNAPSHOT)
    world.until(lambda: len(fetches(member)) > done or len(refusals(member)) > reports, ms=200_000)
    assert node_toggle(member).get() == NodeToggle.NEUTRAL
    return refusals(member)[-1] if len(refusals(member)) > reports else fetches(member)[-1]


def fetches(member: Member) -> list[str]:
    return [str(each["endpoint"]) for each in member.trace.named("standby_snapshot_replicated")]


def refusals(member: Member) -> list[str]:
    return [text for text in member.errors.texts if text.startswith("node control")]


def prepared(count: int = 1) -> tuple[ClusterWorld, Member]:
    """A cluster with a snapshot after two messages."""
    world, leader = started(count)
    world.echo(world.client(), [b"a", b"b"])
    take_snapshot(world)
    return world, leader


def gone(world: ClusterWorld, standby: ArchivedParty) -> None:
    """The host of the standby is dead."""
    world.parties.remove(standby)
    world.network.listeners.pop(standby.endpoint).close()


@pytest.mark.parity("SB-01", "SB-02")
def test_the_newest_snapshot_of_a_standby_becomes_one_of_the_member() -> None:
    world, leader = prepared()
    taken = own_snapshots(leader)
    standby_with(world, leader)
    forget_own(leader)
    assert own_snapshots(leader) == []
    count = snapshot_count(leader)
    assert order(world, leader) == "standby:5"
    fetched = own_snapshots(leader)
    assert [(e.service_id, e.log_position, e.leadership_term_id, e.timestamp) for e in fetched] == [
        (e.service_id, e.log_position, e.leadership_term_id, e.timestamp) for e in taken
    ]
    assert not {e.recording_id for e in fetched} & {e.recording_id for e in taken}
    assert [e.recorded_length for e in fetched] == [e.recorded_length for e in taken]
    assert snapshot_count(leader) == count + 1
    assert keeping(restart(world)).started_with == 2


def test_a_follower_fetches_too_and_only_for_itself() -> None:
    world, _ = prepared(3)
    follower, other = world.followers()
    standby_with(world, follower)
    forget_own(follower)
    before = own_snapshots(other)
    assert order(world, follower) == "standby:5"
    assert len(own_snapshots(follower)) == 2
    assert own_snapshots(other) == before


def test_a_start_fetches_it_before_anything_else() -> None:
    world, leader = prepared()
    standby_with(world, leader)
    forget_own(leader)
    again = restart(world)
    assert keeping(again).started_with == 2
    # The entry of the log that asked for it is before it: it is not taken again.
    assert keeping(again).snapshots == []
    assert len(own_snapshots(again)) == 2


def test_a_start_goes_on_without_a_standby_that_is_gone() -> None:
    world, leader = prepared()
    standby = standby_with(world, leader)
    forget_own(leader)
    gone(world, standby)
    again = restart(world)
    [text] = [text for text in again.errors.texts if text.startswith("standby snapshot")]
    assert "failed to replicate any standby snapshots, errors: standby:5: " in text
    assert keeping(again).started_with == 0
    assert [payload for _, payload in keeping(again).messages] == [b"a", b"b"]


@pytest.mark.parity("SB-03")
def test_without_a_notice_there_is_nothing_to_fetch() -> None:
    world, leader = prepared()
    count = snapshot_count(leader)
    assert order(world, leader) == ""
    assert snapshot_count(leader) == count


@pytest.mark.parity("SB-08")
def test_what_the_member_has_itself_is_not_fetched() -> None:
    world, leader = prepared()
    standby_with(world, leader)
    recordings = len(list(read_recordings(leader.storage)))
    assert order(world, leader) == ""
    take_snapshot(world)
    assert order(world, leader) == ""
    assert len(list(read_recordings(leader.storage))) == recordings + 2


@pytest.mark.parity("SB-04", "SB-05")
@pytest.mark.parametrize("is_dead", [True, False], ids=["dead", "without the recordings"])
def test_when_the_best_archive_fails_the_next_one_is_asked(is_dead: bool) -> None:
    world, leader = prepared()
    second = standby_with(world, leader, "z")
    forget_own(leader)
    world.echo(world.client(), [b"c"])
    take_snapshot(world)
    first = standby_with(world, leader, "b")
    forget_own(leader)
    assert [each[0] for each in standby_candidates(leader.module.recording_log, 1)] == ["b:5", "z:5"]
    if is_dead:
        gone(world, first)
    else:
        for recording_id in range(2):
            first.call(first.client.purge_recording(recording_id))
    assert order(world, leader) == second.endpoint
    assert len(own_snapshots(leader)) == 2
    assert keeping(restart(world)).started_with == 2


@pytest.mark.parity("SB-06", "SB-07")
@pytest.mark.parametrize("is_dead", [True, False], ids=["dead", "without the recordings"])
def test_when_all_archives_fail_all_of_them_are_named_and_nothing_is_left_over(is_dead: bool) -> None:
    world, leader = prepared()
    standbys = [standby_with(world, leader, name) for name in ("s1", "s2")]
    forget_own(leader)
    recordings = {each.recording_id for each in read_recordings(leader.storage)}
    for standby in standbys:
        if is_dead:
            gone(world, standby)
        else:
            # The second of two: the first one is copied before.
            standby.call(standby.client.purge_recording(1))
    text = order(world, leader)
    assert "failed to replicate any standby snapshots, errors: s1:5: " in text
    assert "; s2:5: " in text
    assert own_snapshots(leader) == []
    assert {each.recording_id for each in read_recordings(leader.storage)} == recordings
    assert leader.is_leader
    world.echo(world.client(), [b"c"])


def test_a_lost_part_of_a_set_is_all_that_is_fetched() -> None:
    world, leader = prepared()
    standby_with(world, leader)
    [service] = [entry for entry in own_snapshots(leader) if entry.service_id == 0]
    leader.module.recording_log.invalidate_entry(service.entry_index)
    [(endpoint, entries)] = standby_candidates(leader.module.recording_log, 1)
    assert endpoint == "standby:5"
    assert [entry.service_id for entry in entries] == [0]
    assert order(world, leader) == endpoint
    assert keeping(restart(world)).started_with == 2


def test_a_member_that_ends_while_it_fetches_ends_in_good_order() -> None:
    world, leader = prepared()
    standby = standby_with(world, leader)
    forget_own(leader)
    world.parties.remove(standby)
    node_toggle(leader).set(NodeToggle.REPLICATE_STANDBY_SNAPSHOT)
    world.advance(50)
    assert leader.module._node_control.needs_ticks
    world.close(leader.id)
    world.clients.clear()
    world.parties.append(standby)
    again = world.start(leader.id)
    world.await_all()
    assert isinstance(again.service, KeepingService)
    assert again.service.started_with == 2
