"""The orderly end of a cluster: all members at one place, services first, the leader last, and a start from there."""

import pytest

from support.cluster_world import ClusterWorld, KeepingService, Member
from unit.cluster.test_snapshots import keeping, snapshots, toggle
from upheaval_node.cluster.module_state import ControlToggle, ModuleState
from upheaval_node.errors import TerminationError
from upheaval_node.protocol import cluster_messages as cm
from upheaval_node.service.api import Cluster


class Ending(KeepingService):
    def __init__(self) -> None:
        super().__init__()
        self.ends: list[int] = []

    def on_terminate(self, cluster: Cluster) -> None:
        self.ends.append(cluster.log_position)


def started(count: int = 3) -> tuple[ClusterWorld, Member]:
    world = ClusterWorld(count, services=lambda: [Ending()])
    world.start_all()
    return world, world.await_all()


def ends(member: Member) -> list[int]:
    assert isinstance(member.service, Ending)
    return member.service.ends


def has_ended_well(member: Member) -> bool:
    return isinstance(member.ended, TerminationError) and member.ended.expected


def await_end(world: ClusterWorld) -> int:
    """All members that run end well, at one position: which one."""
    members = list(world.members.values())
    world.until(lambda: all(member.ended is not None for member in members))
    assert all(has_ended_well(member) for member in members), world.describe()
    (position,) = {tuple(ends(member)) for member in members}
    last_terms = [member.module.recording_log.find_last_term() for member in members]
    assert {term.log_position for term in last_terms if term is not None} == set(position)
    assert all(member.module.state is ModuleState.CLOSED for member in members)
    return position[0]


def start_again(world: ClusterWorld) -> Member:
    for member_id in list(world.members):
        world.kill(member_id)
    world.clients.clear()
    world.start_all()
    return world.await_all()


@pytest.mark.parity("CT-09")
def test_a_shutdown_takes_a_snapshot_and_ends_every_member_after_it() -> None:
    world, leader = started()
    client = world.client()
    world.echo(client, [b"%d" % n for n in range(20)])
    toggle(leader, ControlToggle.SHUTDOWN)
    position = await_end(world)
    for member in world.members.values():
        assert {entry.log_position for entry in snapshots(member)} == {position}
    start_again(world)
    assert all(keeping(member).started_with == 20 for member in world.members.values())
    world.echo(world.client(), [b"again"])


@pytest.mark.parity("CT-10")
def test_an_abort_ends_every_member_without_a_snapshot() -> None:
    world, leader = started()
    world.echo(world.client(), [b"%d" % n for n in range(20)])
    toggle(leader, ControlToggle.ABORT)
    await_end(world)
    assert all(snapshots(member) == [] for member in world.members.values())
    start_again(world)
    world.until(lambda: all(len(member.service.messages) == 20 for member in world.members.values()))
    assert all(keeping(member).started_with == 0 for member in world.members.values())


@pytest.mark.parity("CM-06")
def test_a_single_member_ends_by_itself() -> None:
    world, leader = started(1)
    toggle(leader, ControlToggle.SHUTDOWN)
    await_end(world)
    assert len(snapshots(leader)) == 2


@pytest.mark.parity("CT-11")
def test_a_leader_waits_for_a_dead_follower_until_the_time_out() -> None:
    world, leader = started()
    dead = world.followers()[0]
    world.kill(dead.id)
    timeout_ns = world.settings.cluster.timeouts.termination_ns
    begin_ns = world.ns
    toggle(leader, ControlToggle.ABORT)
    world.until(lambda: leader.ended is not None)
    assert timeout_ns <= world.ns - begin_ns < 2 * timeout_ns
    await_end(world)


def test_a_follower_that_does_not_hear_of_it_goes_on() -> None:
    world, leader = started()
    deaf = world.followers()[0]
    deaf.network.cut_off()
    toggle(leader, ControlToggle.ABORT)
    world.until(lambda: leader.ended is not None)
    assert deaf.ended is None


def test_an_election_calls_a_termination_off() -> None:
    world, leader = started()
    followers = world.followers()
    for member in followers:
        member.network.cut_off()
    toggle(leader, ControlToggle.SHUTDOWN)
    world.until(lambda: leader.module.state is ModuleState.SNAPSHOT)
    leader.network.cut_off()
    for member in followers:
        member.network.rejoin()
    world.until(lambda: world.leader() not in (None, leader))
    leader.network.rejoin()
    world.until(lambda: leader.is_follower)
    world.echo(world.client(), [b"x"])
    assert all(member.ended is None and ends(member) == [] for member in world.members.values())


def test_what_nobody_asked_for_ends_nobody() -> None:
    world, leader = started()
    follower = world.followers()[0]
    ack = cm.TerminationAck(leader.module.leadership_term_id, 1 << 40, follower.id)
    leader.module._messages.on_termination_ack(world.now, ack)
    assert not leader.module.members[follower.id].has_terminated
    stale = cm.TerminationPosition(leader.module.leadership_term_id + 1, 64)
    follower.module._messages.on_termination_position(world.now, stale)
    world.advance(500)
    assert follower.ended is None


def test_a_member_whose_services_cannot_get_there_ends_too_but_not_well() -> None:
    world, leader = started()
    client = world.client()
    for follower in world.followers():
        world.kill(follower.id)
    world.send(client, [b"never committed"])
    toggle(leader, ControlToggle.ABORT)
    world.until(lambda: leader.ended is not None)
    assert not has_ended_well(leader)
    assert "did not end" in str(leader.ended)


@pytest.mark.parametrize("position", [-5862, 0, -1, 1 << 40 | 1])
def test_an_end_that_no_leader_can_mean_ends_nobody(position: int) -> None:
    world, leader = started()
    client = world.client()
    world.echo(client, [b"x"])
    follower = world.followers()[0]
    follower.module._messages.on_termination_position(
        world.now, cm.TerminationPosition(leader.module.leadership_term_id, position)
    )
    world.advance(200)
    assert any("not believed" in text for text in follower.errors.texts)
    assert follower.is_follower
    world.echo(client, [b"y"])
