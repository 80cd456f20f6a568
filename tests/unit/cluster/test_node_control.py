"""The node control toggle: what an operator can ask of one member alone."""

import pytest

from support.cluster_world import ClusterWorld, Member
from unit.cluster.test_snapshots import keeping, restart, snapshots, started, take_snapshot
from upheaval_node.cluster.module_state import NodeToggle
from upheaval_node.counters import NODE_CONTROL_TOGGLE, Counter, cluster_key


def node_toggle(member: Member) -> Counter:
    found = member.counters.find(NODE_CONTROL_TOGGLE, cluster_key(0))
    assert found is not None
    return found


def validate(world: ClusterWorld, member: Member) -> int:
    """Ask for a validation; how many entries it made invalid."""
    before = len(member.trace.named("recording_log_validated"))
    node_toggle(member).set(NodeToggle.VALIDATE_RECORDING_LOG)
    world.until(lambda: len(member.trace.named("recording_log_validated")) == before + 1)
    assert node_toggle(member).get() == NodeToggle.NEUTRAL
    return int(str(member.trace.named("recording_log_validated")[-1]["invalid"]))


def lose_newest_snapshot(world: ClusterWorld, member: Member) -> None:
    for entry in snapshots(member)[-2:]:
        call = member.module._context.archive.purge_recording(entry.recording_id)
        world.until(lambda call=call: call.done)  # type: ignore[misc]  # bound now
        assert call.error is None


def test_every_member_is_neutral_once_it_has_a_leader() -> None:
    world = ClusterWorld(3)
    world.start_all()
    assert [node_toggle(member).get() for member in world.members.values()] == [NodeToggle.INACTIVE] * 3
    world.await_all()
    assert [node_toggle(member).get() for member in world.members.values()] == [NodeToggle.NEUTRAL] * 3


@pytest.mark.parametrize("is_leader", [True, False])
def test_snapshots_that_the_archive_does_not_have_become_invalid(is_leader: bool) -> None:
    world, leader = started(3)
    member = leader if is_leader else world.followers()[0]
    world.echo(world.client(), [b"a", b"b"])
    take_snapshot(world)
    take_snapshot(world)
    assert validate(world, member) == 0
    lose_newest_snapshot(world, member)
    assert validate(world, member) == 2
    assert [entry.is_valid for entry in snapshots(member)] == [True, True, False, False]
    assert all(each.is_valid for m in world.members.values() if m is not member for each in snapshots(m))
    assert validate(world, member) == 0
    lost = snapshots(member)[-1].log_position
    restart(world)
    again = world.members[member.id]
    assert keeping(again).started_with == 2
    # The entry that asked for the lost one is after the other snapshot: the lost one is taken again.
    assert keeping(again).snapshots == [lost]
    assert all(entry.is_valid for entry in snapshots(again))


def test_an_archive_that_does_not_answer_makes_nothing_invalid() -> None:
    world, member = started()
    take_snapshot(world)
    member.agents.remove(member.archive)
    node_toggle(member).set(NodeToggle.VALIDATE_RECORDING_LOG)
    world.until(lambda: any("not validated" in text for text in member.errors.texts) or member.ended is not None)
    assert all(entry.is_valid for entry in snapshots(member))


def test_a_member_in_an_election_takes_no_order() -> None:
    world, leader = started(3)
    for follower in world.followers():
        world.kill(follower.id)
    world.until(lambda: leader.module.election is not None)
    node_toggle(leader).set(NodeToggle.VALIDATE_RECORDING_LOG)
    world.advance(300)
    assert node_toggle(leader).get() == NodeToggle.VALIDATE_RECORDING_LOG
    world.start_all()
    world.until(lambda: leader.id in world.members)
