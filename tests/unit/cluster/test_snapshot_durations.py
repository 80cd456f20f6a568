"""How long snapshots take, as the module of a leader and every service count it."""

from dataclasses import replace

import pytest

from support.cluster_world import ClusterWorld, KeepingService, Member
from unit.cluster.test_snapshots import snapshot_count, take_snapshot, toggle
from upheaval_node import counters as counter_types
from upheaval_node.cluster.module_state import ControlToggle, ModuleState
from upheaval_node.counters import cluster_key
from upheaval_node.settings import profile_settings
from upheaval_node.snapshot_durations import duration_text
from upheaval_node.types import MS

TOTAL = (counter_types.TOTAL_SNAPSHOT_DURATION, counter_types.TOTAL_SNAPSHOT_DURATION_EXCEEDED)
SERVICE = (counter_types.SERVICE_SNAPSHOT_DURATION, counter_types.SERVICE_SNAPSHOT_DURATION_EXCEEDED)


def durations(member: Member, service_id: int | None = None) -> tuple[int, int]:
    """The longest snapshot in milliseconds, and how many took too long."""
    key = cluster_key(0, service_id)
    longest, exceeded = (member.counters.find(each, key) for each in (TOTAL if service_id is None else SERVICE))
    assert longest is not None
    assert exceeded is not None
    return longest.get() // MS, exceeded.get()


def started() -> ClusterWorld:
    chosen = profile_settings("test")
    cluster = replace(chosen.cluster, snapshot_duration_threshold_ns=100 * MS)
    world = ClusterWorld(
        3, settings=replace(chosen, cluster=cluster), services=lambda: [KeepingService(), KeepingService()]
    )
    world.start_all()
    world.await_all()
    return world


def take_slowly(world: ClusterWorld, slow: Member, ms: int) -> None:
    """A snapshot for which one member's archive does no work for a while."""
    counts = {member.id: snapshot_count(member) for member in world.members.values()}
    services = [each for each in slow.services if isinstance(each, KeepingService)]
    taken = len(services[0].snapshots)
    toggle(world.await_leader(), ControlToggle.SNAPSHOT)
    while any(len(each.snapshots) == taken for each in services):
        world.ns += MS
        world.turn()
    at = slow.agents.index(slow.archive)
    slow.agents.remove(slow.archive)
    world.advance(ms)
    slow.agents.insert(at, slow.archive)
    world.until(lambda: all(snapshot_count(m) == counts[m.id] + 1 and m.is_active for m in world.members.values()))


@pytest.mark.parity("CT-62")
def test_a_slow_snapshot_of_the_leader_counts_in_its_module_and_its_services() -> None:
    world = started()
    leader = world.await_leader()
    take_snapshot(world)
    assert all(durations(m, s)[0] < 100 for m in world.members.values() for s in (None, 0, 1))
    take_slowly(world, leader, 300)
    assert durations(leader)[0] >= 300
    assert [durations(leader, s)[1] for s in (None, 0, 1)] == [1, 1, 1]
    longest = durations(leader)[0]
    take_snapshot(world)
    assert durations(leader) == (longest, 1)


@pytest.mark.parity("CT-62")
def test_a_slow_snapshot_of_a_follower_counts_in_its_services_only() -> None:
    world = started()
    slow, other = world.followers()
    take_slowly(world, slow, 300)
    assert durations(slow) == durations(other) == (0, 0)
    assert [durations(slow, s)[1] for s in (0, 1)] == [1, 1]
    assert [durations(other, s)[1] for s in (0, 1)] == [0, 0]
    assert durations(world.await_leader())[1] == 0


def test_labels_name_the_threshold_in_whole_units() -> None:
    texts = [duration_text(ns) for ns in (1, 1_500, 2_000, 100 * MS, 1_000 * MS, 1_500 * MS)]
    assert texts == ["1ns", "1500ns", "2us", "100ms", "1s", "1500ms"]
    world = started()
    labels: list[str] = []
    world.members[0].counters.for_each(lambda _counter, _type, _key, label: labels.append(label))
    assert "Total max snapshot duration exceeded count: threshold=100ms - clusterId=0" in labels
    assert "Clustered service max snapshot duration in ns - clusterId=0 serviceId=1" in labels


def test_a_snapshot_that_was_undone_is_not_timed_any_more() -> None:
    world = started()
    leader = world.await_leader()
    leader.network.cut_off()
    toggle(leader, ControlToggle.SNAPSHOT)
    world.until(lambda: leader.module.state is ModuleState.SNAPSHOT)
    world.until(lambda: world.leader() not in (None, leader))
    leader.network.rejoin()
    world.until(lambda: leader.is_follower)
    take_snapshot(world)
    assert snapshot_count(leader) == 1
    assert durations(leader) == (0, 0)
