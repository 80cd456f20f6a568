"""What a member commits and applies: no more than a quorum has, than it has itself, and than whole entries."""

import pytest

from support.archive_world import Syncs
from support.cluster_world import ClusterWorld, Member
from upheaval_node.cluster.election_states import ElectionState
from upheaval_node.errors import TimeoutExpired
from upheaval_node.settings import profile_settings
from upheaval_node.types import MS, Position


def started() -> tuple[ClusterWorld, Member, Member, Member]:
    """A leader and its followers, who have recorded what they have synced."""
    world = ClusterWorld(3, settings=profile_settings("test", sync_level=1))
    world.start_all()
    leader = world.await_all()
    follower, other = world.followers()
    return world, leader, follower, other


def syncs_of(member: Member) -> Syncs:
    """While it is held, what the disk has taken does not count as recorded."""
    (syncs,) = [agent for agent in member.agents if isinstance(agent, Syncs)]
    return syncs


def applied(member: Member) -> list[bytes]:
    return [payload for _, payload in member.service.messages]


def recorded(member: Member) -> int:
    position = member.module._log.recording.position
    assert position is not None
    return position


def test_a_leader_commits_nothing_that_its_own_disk_does_not_have() -> None:
    world, leader, follower, other = started()
    client = world.client()
    syncs_of(leader).is_held = True
    world.send(client, [b"x"])
    world.until(lambda: min(recorded(follower), recorded(other)) > recorded(leader))
    world.advance(500)
    assert leader.module.commit_position <= recorded(leader) < recorded(follower)
    assert client.received == applied(leader) == applied(follower) == []
    syncs_of(leader).is_held = False
    world.until(lambda: client.received == [b"x"])


def test_a_follower_applies_nothing_that_its_own_disk_does_not_have() -> None:
    world, leader, follower, other = started()
    client = world.client()
    syncs_of(follower).is_held = True
    world.echo(client, [b"x"])
    world.until(lambda: applied(other) == [b"x"])
    world.advance(500)
    assert leader.module.commit_position > recorded(follower)
    assert follower.module.commit_position <= recorded(follower)
    assert applied(follower) == []
    syncs_of(follower).is_held = False
    world.until(lambda: applied(follower) == [b"x"])


def test_a_follower_applies_nothing_that_only_it_has() -> None:
    world, leader, follower, other = started()
    client = world.client()
    before = leader.module.commit_position
    syncs_of(leader).is_held = True
    world.paused.add(other.id)
    world.send(client, [b"x"])
    world.until(lambda: recorded(follower) > before)
    world.advance(300)
    assert follower.module.commit_position == leader.module.commit_position == before
    assert applied(follower) == []
    syncs_of(leader).is_held = False
    world.until(lambda: applied(follower) == [b"x"])


def test_a_leader_commits_whole_entries() -> None:
    world, leader, follower, other = started()
    client = world.client()
    log, now = leader.module._log, world.now
    term, before = leader.module.leadership_term_id, leader.module.commit_position
    world.paused |= {follower.id, other.id}
    world.send(client, [bytes(5000)])
    publisher = log.publisher
    while publisher.position == before:
        world.turn()
    end = Position(publisher.position)
    log.commit(now, term, end, Position(before + 2 * publisher.mtu))
    assert leader.module.commit_position == before
    log.commit(now, term, end, end)
    assert leader.module.commit_position == end


def test_a_catch_up_reaches_the_leaders_log_and_what_is_committed() -> None:
    world, _leader, follower, _other = started()
    world.echo(world.client(), [b"x"])
    world.advance(100)
    log = follower.module._log
    end = log.commit_position
    assert end == recorded(follower)
    for limit, join, is_done in ((end, end, True), (0, end, True), (end, end + 32, False), (end + 32, end, False)):
        assert log.catch_up(world.now, Position(limit), Position(join)).is_done is is_done
        assert log.commit_position == end


def test_a_catch_up_applies_what_is_recorded_and_committed() -> None:
    world, leader, follower, other = started()
    client = world.client()
    world.advance(100)
    log = follower.module._log
    begin = log.reader.position
    world.paused.add(other.id)
    syncs_of(follower).is_held = True
    world.send(client, [b"x"])
    world.until(lambda: recorded(leader) > begin)
    end = Position(recorded(leader))
    log.catch_up(world.now, end, end)
    assert log.reader.position == log.commit_position == begin == recorded(follower)
    syncs_of(leader).is_held = True
    syncs_of(follower).is_held = False
    syncs_of(follower).do_work(world.now)
    for agent in follower.agents[:3]:
        agent.do_work(world.now)
    assert recorded(follower) == end
    log.catch_up(world.now, Position(begin), Position(begin))
    assert log.reader.position == log.commit_position == begin
    log.catch_up(world.now, end, end)
    assert log.reader.position == log.commit_position == end


def test_a_catch_up_without_progress_is_given_up_after_the_heartbeat_time_out() -> None:
    world, _leader, follower, _other = started()
    world.echo(world.client(), [b"x"])
    world.advance(100)
    log = follower.module._log
    end = log.commit_position
    world.ns = log._append_advance_ns + world.settings.cluster.timeouts.leader_heartbeat_ns
    log.catch_up(world.now, end, end)
    world.ns += 1
    with pytest.raises(TimeoutExpired, match="no catchup progress"):
        log.catch_up(world.now, end, end)


def test_a_catch_up_adds_the_live_log_a_quarter_of_a_term_before_its_end() -> None:
    world, _leader, follower, _other = started()
    world.echo(world.client(), [b"x"])
    world.advance(100)
    log = follower.module._log
    follower_log, received = log.follower_log, log.follower_log.received_position
    window = log.recording.format.term_length // 4
    follower_log.remove_destinations()
    log.catch_up(world.now, log.commit_position, Position(received + window + 32))
    assert not follower_log.has_live_destination
    log.catch_up(world.now, log.commit_position, Position(received + window))
    assert follower_log.has_live_destination


@pytest.mark.parametrize("state", [ElectionState.LEADER_REPLAY, ElectionState.LEADER_INIT])
def test_a_new_leader_whose_service_is_slow_takes_back_no_commit_position(state: ElectionState) -> None:
    world, leader, *_ = started()
    world.echo(world.client(), [b"x"])
    world.kill(leader.id)
    world.clients.clear()

    def opening() -> list[Member]:
        elections = ((member, member.module.election) for member in world.members.values())
        return [member for member, election in elections if election and election.state is state]

    for _ in range(20_000):
        if opening():
            break
        world.ns += 0 if world.turn() else MS
    (successor,) = opening()
    successor.agents.remove(successor.container)
    world.advance(world.settings.cluster.timeouts.leader_heartbeat_ns // MS + 100)
    successor.agents.append(successor.container)
    world.until(lambda: successor.is_leader)
    assert successor.module.leadership_term_id == leader.module.leadership_term_id + 1
    positions = [
        (int(str(fields["leadership_term_id"])), int(str(fields["log_position"])))
        for fields in successor.trace.named("send")
        if fields["message"] == "CommitPosition"
    ]
    assert positions[-1][1] > 0
    assert positions == sorted(positions)
