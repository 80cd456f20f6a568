"""A cluster of three members: election, replication, change of leader, return of a member."""

from itertools import repeat

import pytest

from support.cluster_world import ClusterWorld, Member
from upheaval_node.cluster.election_states import ElectionState
from upheaval_node.counters import COMMIT_LATENCY_BUCKET, Counter


def numbered(prefix: str, count: int, size: int = 0) -> list[bytes]:
    return [f"{prefix}-{i}".encode().ljust(size, b".") for i in range(count)]


def same_everywhere(world: ClusterWorld) -> bool:
    """Every running service has applied the same entries at the same positions."""
    logs = [member.service.messages for member in world.members.values()]
    return all(log == logs[0] for log in logs)


def latencies(member: Member) -> int:
    """How many times to commit the member has counted."""
    counts: list[int] = []

    def visit(counter: Counter, type_id: int, _key: bytes, _label: str) -> None:
        if type_id == COMMIT_LATENCY_BUCKET:
            counts.append(counter.get())

    member.counters.for_each(visit)
    return sum(counts)


def test_three_members_elect_one_leader_and_apply_the_same_entries() -> None:
    world = ClusterWorld(3)
    world.start_all()
    leader = world.await_all()
    client = world.client()
    payloads = numbered("a", 200)
    world.echo(client, payloads)
    assert client.received == payloads
    world.until(lambda: same_everywhere(world))
    assert [payload for _, payload in leader.service.messages] == payloads
    assert len({m.module.leadership_term_id for m in world.members.values()}) == 1


def test_a_client_of_a_follower_is_redirected() -> None:
    world = ClusterWorld(3)
    world.start_all()
    leader = world.await_all()
    clients = [world.client() for _ in range(4)]
    assert {client.session.leader_member_id for client in clients} == {leader.id}


@pytest.mark.parity("CT-16")
def test_when_the_leader_closes_another_one_takes_over_at_once_and_sessions_go_on() -> None:
    world = ClusterWorld(3)
    world.start_all()
    old = world.await_all()
    client = world.client()
    world.echo(client, numbered("before", 50))
    start_ns = world.ns
    world.close(old.id)
    new = world.await_all()
    assert new.id != old.id
    assert world.ns - start_ns < 1_000_000_000
    world.until(lambda: client.session.is_connected and client.session.leader_member_id == new.id)
    world.echo(client, numbered("after", 50))
    assert client.received == numbered("before", 50) + numbered("after", 50)
    world.until(lambda: same_everywhere(world))


@pytest.mark.parity("CT-19")
def test_a_killed_leader_comes_back_as_a_follower_and_catches_up() -> None:
    world = ClusterWorld(3)
    world.start_all()
    old = world.await_all()
    client = world.client()
    world.echo(client, numbered("before", 100))
    world.kill(old.id)
    new = world.await_all()
    world.until(lambda: client.session.is_connected and client.session.leader_member_id == new.id)
    world.echo(client, numbered("between", 100, size=500))
    back = world.start(old.id)
    world.until(lambda: back.is_follower)
    world.echo(client, numbered("after", 100))
    world.until(lambda: same_everywhere(world))
    assert len(back.service.messages) == 300


def test_a_stopped_follower_that_missed_whole_terms_replicates_them() -> None:
    world = ClusterWorld(3)
    world.start_all()
    leader = world.await_all()
    client = world.client()
    world.echo(client, numbered("a", 30))
    absent = world.followers()[0].id
    world.kill(absent)
    world.echo(client, numbered("b", 300, size=400))
    second = next(m for m in world.members.values() if m is not leader)
    world.close(leader.id)
    world.start(leader.id)
    world.await_all()
    world.until(lambda: client.session.is_connected)
    world.echo(client, numbered("c", 30))
    assert second.service.messages
    back = world.start(absent)
    world.until(lambda: back.is_follower)
    world.until(lambda: same_everywhere(world))
    assert len(back.service.messages) == 360


@pytest.mark.parity("NP-01")
def test_an_isolated_leader_steps_down_and_its_uncommitted_tail_is_cut() -> None:
    world = ClusterWorld(3)
    world.start_all()
    old = world.await_all()
    client = world.client()
    world.echo(client, numbered("a", 20))
    lone_client = world.client()
    for member in world.followers():
        member.network.cut_off()
    world.send(lone_client, numbered("lost", 5))
    world.advance(50)
    assert old.module._log.recording.position is not None
    assert old.module._log.recording.position > old.module.commit_position
    old.network.cut_off()
    for member in list(world.members.values()):
        if member is not old:
            member.network.rejoin()

    def leads() -> bool:
        return any(m.is_leader and m is not old for m in world.members.values())

    world.until(leads)
    old.network.rejoin()
    world.until(lambda: old.is_follower)
    fresh = world.client()
    world.echo(fresh, numbered("b", 20))
    world.until(lambda: same_everywhere(world))
    assert not any(payload.startswith(b"lost") for _, payload in old.service.messages)


@pytest.mark.parity("MN-02")
def test_all_members_restart_and_keep_the_log() -> None:
    world = ClusterWorld(3)
    world.start_all()
    world.await_all()
    client = world.client()
    world.echo(client, numbered("a", 200, size=600))
    world.until(lambda: same_everywhere(world))
    before = next(iter(world.members.values())).service.messages
    for member_id in range(3):
        world.kill(member_id)
    world.clients.clear()
    world.start_all()
    world.await_all()
    world.until(lambda: same_everywhere(world))
    assert next(iter(world.members.values())).service.messages == before
    # No client is there any more: the new leader closes the sessions of the time before.
    world.until(lambda: all(is_without_sessions(m) for m in world.members.values()))


def is_without_sessions(member: Member) -> bool:
    return not member.module._state.sessions.sessions


@pytest.mark.parity("CT-38")
def test_a_follower_catches_up_while_clients_never_pause() -> None:
    world = ClusterWorld(3)
    world.start_all()
    leader = world.await_all()
    client = world.client()
    absent = world.followers()[0].id
    world.kill(absent)
    world.echo(client, numbered("a", 200, size=300))
    back = world.start(absent)
    for number in range(3000):
        # The log grows in every turn, so the follower is never level with it for a whole turn.
        client.offer(b"load-%d" % number)
        world.turn()
        world.ns += 1_000_000
        if back.is_follower:
            break
    assert back.is_follower, world.describe()
    assert leader.is_leader
    world.until(lambda: same_everywhere(world))


def test_a_longer_log_of_an_earlier_term_commits_nothing_of_a_later_one() -> None:
    world = ClusterWorld(3)
    world.start_all()
    first = world.await_all()
    client = world.client()
    world.echo(client, numbered("a", 5))
    # The first leader, alone, writes a long tail that no other member has.
    for member in world.followers():
        member.network.cut_off()
    world.send(client, numbered("lost", 200))
    world.advance(50)
    first.network.cut_off()
    others = [member for member in world.members.values() if member is not first]
    for member in others:
        member.network.rejoin()
    world.until(lambda: any(member.is_leader for member in others))
    second = next(member for member in others if member.is_leader)
    third = next(member for member in others if member is not second)
    # The second one, alone as well, writes a short tail in a later term.
    fresh = world.client()
    third.network.cut_off()
    world.send(fresh, numbered("kept?", 3))
    world.advance(50)
    agreed = list(third.service.messages)
    third.network.rejoin()
    world.kill(third.id)
    # Its only voter now is the first, whose log is longer and holds something else.
    first.network.rejoin()
    stop = world.ns + 3_000_000_000
    while world.ns < stop:
        world.turn()
        world.ns += 200_000
        applied = second.service.messages[len(agreed) :]
        held = first.module._log.recording.position or first.module._log.recording.stop_position
        if applied:
            assert first.module.leadership_term_id >= 1
            assert held >= applied[-1][0]
            assert not any(payload.startswith(b"lost") for _, payload in first.service.messages)
    world.until(lambda: same_everywhere(world))
    world.start(third.id)
    world.until(lambda: same_everywhere(world))


def test_large_messages_survive_a_change_of_leader_whole() -> None:
    world = ClusterWorld(3)
    world.start_all()
    old = world.await_all()
    client = world.client()
    payloads = [bytes([n]) * 7900 for n in range(60)]
    sent = 0
    while sent < 40:
        sent += client.offer(payloads[sent]) > 0
        world.turn()
        world.ns += 1_000_000
    world.kill(old.id)
    world.await_all()
    world.until(lambda: client.session.is_connected)
    world.start(old.id)
    world.await_all()
    world.echo(client, payloads[40:])
    world.until(lambda: same_everywhere(world))
    received = [payload for _, payload in next(iter(world.members.values())).service.messages]
    assert received == [payload for payload in payloads if payload in set(received)]
    assert set(client.received) <= set(received)


def test_a_message_of_which_only_a_part_was_recorded_reaches_the_service_after_a_restart() -> None:
    world = ClusterWorld(3)
    world.start_all()
    leader = world.await_all()
    client = world.client()
    world.echo(client, numbered("a", 5))
    world.settle()
    cut_short = world.followers()[0]
    publisher = leader.module._log.leader_log.publisher
    assert publisher is not None
    before = publisher.position

    def is_in_the_middle() -> bool:
        recorded = cut_short.module._log.recording.position
        return recorded is not None and before < recorded < publisher.position

    # Less than the message arrives at a time.
    world.network.pieces = repeat(3000)
    big = b"B" * 6000
    assert client.offer(big) > 0
    for _ in range(1000):
        world.turn()
        if is_in_the_middle():
            break
    assert is_in_the_middle()
    world.kill(cut_short.id)
    world.network.pieces = repeat(1 << 30)
    world.echo(client, numbered("b", 5))
    back = world.start(cut_short.id)
    world.until(lambda: back.is_follower)
    world.echo(client, numbered("c", 5))
    world.until(lambda: same_everywhere(world))
    assert big in [payload for _, payload in back.service.messages]


def test_a_recording_that_starts_after_its_request_timed_out_does_not_shut_the_member_out() -> None:
    """The archive does no work while the log joins a new term, longer than its requests may take."""
    world = ClusterWorld(3)
    world.start_all()
    old = world.await_all()
    world.kill(old.id)
    stuck: list[Member] = []
    while not stuck:
        for member in world.members.values():
            election = member.module.election
            if election is not None and election.state is ElectionState.FOLLOWER_LOG_INIT:
                stuck.append(member)
        if world.turn() == 0:
            world.ns += 1_000_000
    (member,) = stuck
    place = member.agents.index(member.archive)
    member.agents.remove(member.archive)
    world.advance(12_000, step_ms=100)
    assert not member.is_follower
    member.agents.insert(place, member.archive)
    world.await_all()
    client = world.client()
    world.echo(client, numbered("a", 5))
    world.until(lambda: same_everywhere(world))


@pytest.mark.parametrize("is_orderly", [True, False])
def test_a_late_service_finds_a_log_that_was_over_before_it_joined(is_orderly: bool) -> None:
    world = ClusterWorld(3)
    world.start_all()
    old = world.await_all()
    client = world.client()
    world.echo(client, numbered("a", 5))
    world.advance(100)
    world.kill(old.id)
    late: Member | None = None
    for _ in range(20_000):
        if world.turn() == 0:
            world.ns += 1_000_000
        for member in world.members.values():
            election = member.module.election
            if late is None and election is not None and election.state is ElectionState.FOLLOWER_LOG_AWAIT:
                late = member
                member.agents.remove(member.container)
        if late is not None and late.module._services.is_joining:
            break
    assert late is not None
    assert late.module._services.is_joining
    (leader,) = (member for member in world.members.values() if member is not late)
    if is_orderly:
        world.close(leader.id)
    else:
        world.kill(leader.id)
    world.advance(4000)
    late.agents.append(late.container)
    world.start(old.id)
    world.await_all()
    assert late.ended is None
    world.until(lambda: client.session.is_connected)
    world.echo(client, numbered("b", 5))
    world.until(lambda: same_everywhere(world))


def test_the_time_to_commit_is_counted_by_the_leader_alone() -> None:
    world = ClusterWorld(3)
    world.start_all()
    leader = world.await_all()
    world.echo(world.client(), [b"x"])
    counted = {member.id: latencies(member) for member in world.members.values()}
    assert counted[leader.id] > 0
    assert sum(counted.values()) == counted[leader.id]
