"""The cluster control toggle on leaders, followers and in elections, and what it does to every member."""

from support.cluster_world import ClusterWorld, Member
from upheaval_node.cluster.module_state import ControlToggle, ModuleState, NodeToggle
from upheaval_node.counters import CONTROL_TOGGLE, Counter, cluster_key
from upheaval_node.protocol import cluster_messages as cm


def toggle(member: Member) -> Counter:
    found = member.counters.find(CONTROL_TOGGLE, cluster_key(0))
    assert found is not None
    return found


def toggles(world: ClusterWorld) -> list[int]:
    return sorted(toggle(member).get() for member in world.members.values())


def states(world: ClusterWorld) -> set[ModuleState]:
    return {member.module.state for member in world.members.values()}


def test_only_a_leader_without_an_election_takes_orders() -> None:
    world = ClusterWorld(3)
    world.start_all()
    assert toggles(world) == [ControlToggle.INACTIVE] * 3
    leader = world.await_all()
    assert toggles(world) == [ControlToggle.INACTIVE] * 2 + [ControlToggle.NEUTRAL]
    assert toggle(leader).get() == ControlToggle.NEUTRAL
    leader.network.cut_off()
    world.until(lambda: leader.module.election is not None)
    assert toggle(leader).get() == ControlToggle.INACTIVE
    world.until(lambda: world.leader() not in (None, leader))
    leader.network.rejoin()
    new = world.await_all()
    assert toggle(new).get() == ControlToggle.NEUTRAL
    assert toggles(world) == [ControlToggle.INACTIVE] * 2 + [ControlToggle.NEUTRAL]


def test_an_order_to_a_follower_does_nothing() -> None:
    world = ClusterWorld(3)
    world.start_all()
    world.await_all()
    follower = world.followers()[0]
    for order in (ControlToggle.SUSPEND, ControlToggle.SNAPSHOT, ControlToggle.SHUTDOWN, ControlToggle.ABORT):
        toggle(follower).set(order)
        world.advance(300)
        assert toggle(follower).get() == order
        assert states(world) == {ModuleState.ACTIVE}


def test_suspend_and_resume_are_in_the_log_of_every_member() -> None:
    world = ClusterWorld(3)
    world.start_all()
    leader = world.await_all()
    client = world.client()
    toggle(leader).set(ControlToggle.SUSPEND)
    world.until(lambda: states(world) == {ModuleState.SUSPENDED})
    assert toggle(leader).get() == ControlToggle.SUSPEND
    end = leader.module.commit_position
    world.send(client, [b"held"])
    world.advance(500)
    assert leader.module.commit_position == end
    # Whatever does not suit the state stays where it is.
    toggle(leader).set(ControlToggle.SNAPSHOT)
    world.advance(300)
    assert toggle(leader).get() == ControlToggle.SNAPSHOT
    toggle(leader).set(ControlToggle.RESUME)
    world.until(lambda: states(world) == {ModuleState.ACTIVE})
    assert toggle(leader).get() == ControlToggle.NEUTRAL
    world.until(lambda: client.received == [b"held"])


def test_a_cluster_that_was_suspended_is_suspended_after_a_restart_until_it_resumes() -> None:
    world = ClusterWorld(3)
    world.start_all()
    leader = world.await_all()
    world.echo(world.client(), [b"a"])
    toggle(leader).set(ControlToggle.SUSPEND)
    world.until(lambda: states(world) == {ModuleState.SUSPENDED})
    for member_id in range(3):
        world.kill(member_id)
    world.clients.clear()
    world.start_all()
    world.until(lambda: states(world) == {ModuleState.SUSPENDED})
    world.until(lambda: all(member.module.election is None for member in world.members.values()))
    (leader,) = [member for member in world.members.values() if toggle(member).get() == ControlToggle.NEUTRAL]
    toggle(leader).set(ControlToggle.RESUME)
    world.until(lambda: states(world) == {ModuleState.ACTIVE})
    client = world.client()
    world.echo(client, [b"b"])
    assert client.received == [b"b"]


def test_an_action_of_another_term_is_not_acted_on() -> None:
    world = ClusterWorld(1)
    world.start(0)
    module = world.await_leader().module
    stale = cm.ClusterActionRequest(
        leadership_term_id=module.leadership_term_id + 1,
        log_position=module.commit_position,
        timestamp=1,
        action=cm.ClusterAction.SUSPEND,
        flags=0,
    )
    module._state.on_log_entry(world.now, stale, module.commit_position)
    assert module.state is ModuleState.ACTIVE


def test_the_values_of_toggles_are_those_of_aeron_cluster() -> None:
    """Tools of Aeron store them. Source: ClusterControl.ToggleState, NodeControl.ToggleState."""
    assert [(each.name, each.value) for each in NodeToggle] == [
        ("INACTIVE", 0),
        ("NEUTRAL", 1),
        ("REPLICATE_STANDBY_SNAPSHOT", 2),
        ("VALIDATE_RECORDING_LOG", 3),
    ]
    assert [each.value for each in ControlToggle] == list(range(8))
    assert [ControlToggle.SNAPSHOT, ControlToggle.ABORT] == [4, 6]
