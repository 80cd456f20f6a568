"""Clusters that count in milliseconds, microseconds or nanoseconds."""

from dataclasses import replace

import pytest

from support.cluster_world import EPOCH_MS, ClusterWorld
from unit.cluster.test_service_requests import Asking, all_fired, ask, asking
from unit.cluster.test_snapshots import restart, snapshots, take_snapshot
from upheaval_node.cluster.cluster_time import ClusterTime
from upheaval_node.errors import TerminationError, UsageError
from upheaval_node.protocol.cluster_messages import ClusterTimeUnit
from upheaval_node.protocol.codec import NULL_INT32
from upheaval_node.settings import MemberSettings, profile_settings
from upheaval_node.types import Now

PER_SECOND = {"MILLIS": 10**3, "MICROS": 10**6, "NANOS": 10**9}


def settings(unit: str) -> MemberSettings:
    chosen = profile_settings("test")
    return replace(chosen, cluster=replace(chosen.cluster, time_unit=unit))


def started(unit: str, count: int = 3) -> ClusterWorld:
    world = ClusterWorld(count, settings=settings(unit), services=lambda: [Asking()])
    world.start_all()
    world.await_all()
    return world


@pytest.mark.parametrize(("unit", "expected"), [("MILLIS", 5), ("MICROS", 5_123), ("NANOS", 5_123_456)])
def test_the_time_is_the_wall_clock_in_the_unit(unit: str, expected: int) -> None:
    time = ClusterTime(unit)
    assert time.at(Now(99, 5, 123_456)) == expected
    assert time.in_ns(PER_SECOND[unit]) == 10**9
    assert time.unit is ClusterTimeUnit[unit]


def test_a_log_without_a_unit_counts_in_milliseconds() -> None:
    assert ClusterTime("MILLIS").difference(NULL_INT32) is None
    assert ClusterTime("NANOS").difference(NULL_INT32) == "time unit MILLIS, ours is NANOS"
    assert ClusterTime("NANOS").difference(ClusterTimeUnit.MICROS) == "time unit MICROS, ours is NANOS"


def test_an_unknown_unit_is_refused() -> None:
    with pytest.raises(UsageError, match="time_unit must be one of MILLIS, MICROS, NANOS, not 'SECONDS'"):
        ClusterTime("SECONDS")


@pytest.mark.parametrize("unit", PER_SECOND)
def test_entries_timers_and_files_count_in_the_unit(unit: str) -> None:
    world = started(unit)
    per_second = PER_SECOND[unit]
    begin = (EPOCH_MS * 10**6 + world.ns) * per_second // 10**9
    ask(world, b"t 1 %d" % (per_second // 2), b"t 2 %d" % (3 * per_second))
    world.until(lambda: all_fired(world, 1))
    take_snapshot(world)
    end = (EPOCH_MS * 10**6 + world.ns) * per_second // 10**9
    for member in world.members.values():
        ((_, fired_at),) = asking(member).fired
        assert begin + per_second // 2 <= fired_at <= end
        assert fired_at - begin < per_second
        assert member.container.view.time_unit is ClusterTimeUnit[unit]
        assert begin < member.container.view.time <= end
        assert all(begin < entry.timestamp <= end for entry in snapshots(member))
        terms = [entry for entry in member.module.recording_log.entries if not entry.is_snapshot]
        assert all(begin - 5 * per_second < entry.timestamp <= end for entry in terms)
    restart(world)
    world.until(lambda: all_fired(world, 1, 2))
    assert all(m.container.view.time_unit is ClusterTimeUnit[unit] for m in world.members.values())


@pytest.mark.parametrize("has_snapshot", [False, True])
def test_a_member_of_another_unit_does_not_start_on_the_log(has_snapshot: bool) -> None:
    world = started("MILLIS", 1)
    ask(world, b"t 1 1")
    if has_snapshot:
        take_snapshot(world)
    world.kill(0)
    world.settings = settings("MICROS")
    member = world.start(0)
    world.until(lambda: member.ended is not None)
    assert isinstance(member.ended, TerminationError)
    where = "snapshot" if has_snapshot else "log"
    assert str(member.ended) == f"the {where} has time unit MILLIS, ours is MICROS"
