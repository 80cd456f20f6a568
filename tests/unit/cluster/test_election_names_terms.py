"""A log never holds entries of a term that its recording log does not name: it would pass for an earlier term's."""

from support.cluster_world import ClusterWorld, Member
from support.memory_storage import MemoryStorage
from upheaval_node.cluster.election_states import ElectionState

JOINING = (ElectionState.FOLLOWER_LOG_AWAIT, ElectionState.FOLLOWER_CATCHUP_AWAIT)


def recorded(member: Member) -> int:
    """How far the log of a member that follows is recorded or replicated; 0 while nothing is."""
    election = member.module.election
    replication = None if election is None else election._replication
    return max(member.module._log.recording.position or 0, 0 if replication is None else replication.position)


def is_recorded_unnamed(member: Member, leader: Member) -> bool:
    position = recorded(member)
    terms = [
        e.leadership_term_id for e in leader.module.recording_log.entries if 0 <= e.term_base_log_position < position
    ]
    last = member.module.recording_log.find_last_term()
    return bool(terms) and (last is None or last.leadership_term_id < terms[-1])


def step(world: ClusterWorld) -> None:
    if world.turn() == 0:
        world.ns += 1_000_000


def same_log(one: Member, other: Member) -> bool:
    return bool(one.service.messages) and one.service.messages == other.service.messages


def test_entries_of_a_new_term_that_a_killed_follower_recorded_are_not_taken_for_the_old_terms() -> None:
    world = ClusterWorld(3)
    world.start_all()
    old = world.await_all()
    client = world.client()
    world.echo(client, [b"a"] * 5)
    world.advance(100)
    follower, ally = world.followers()
    # The ally and the old leader commit what the follower lacks; then the old leader has a tail of its own.
    world.network.stall(f"m{follower.id}:3")
    world.echo(client, [b"committed"] * 20)
    world.network.stall(f"m{ally.id}:3")
    for _ in range(60):
        client.offer(b"tail")
        world.turn()
    for _ in range(50):
        world.turn()
    world.kill(old.id)
    world.clients.clear()
    world.until(lambda: follower.module.election is not None and ally.module.election is not None)

    def has_recorded_the_new_term() -> bool:
        term = ally.module.recording_log.find_last_term()
        election = follower.module.election
        is_joining = election is not None and election.state in JOINING
        return is_joining and term is not None and recorded(follower) > term.term_base_log_position

    # The service of the follower is busy, so that it stays in the state in which its log is joined.
    for _ in range(20_000):
        election = follower.module.election
        if election is not None and election.state in JOINING and follower.container in follower.agents:
            follower.agents.remove(follower.container)
        if has_recorded_the_new_term():
            break
        step(world)
    assert has_recorded_the_new_term()
    world.kill(follower.id)
    world.kill(ally.id)
    follower = world.start(follower.id)
    old = world.start(old.id)
    world.await_all()
    client = world.client()
    world.echo(client, [b"b"] * 5)
    world.until(lambda: same_log(old, follower))


def test_the_first_recording_is_named_before_the_services_have_joined_it() -> None:
    world = ClusterWorld(3)
    world.start_all()
    late: Member | None = None
    for _ in range(20_000):
        step(world)
        for member in world.members.values():
            election = member.module.election
            if late is None and election is not None and election.state is ElectionState.FOLLOWER_LOG_AWAIT:
                late = member
                member.agents.remove(member.container)
        if late is not None and recorded(late) > 0:
            break
    assert late is not None
    assert recorded(late) > 0
    assert not is_recorded_unnamed(late, world.await_leader())


def run_named_until_it_follows(world: ClusterWorld, member_id: int) -> None:
    member = world.start(member_id)
    states = set()
    for _ in range(100_000):
        step(world)
        leader = world.leader()
        if leader is not None:
            assert not is_recorded_unnamed(member, leader), (recorded(member), member.module.recording_log.entries)
        if member.module.election is not None:
            states.add(member.module.election.state)
        if member.is_follower:
            break
    assert member.is_follower
    assert ElectionState.FOLLOWER_LOG_REPLICATION in states


def test_replicated_terms_are_named_before_any_of_their_entries_is_there() -> None:
    world = ClusterWorld(3)
    world.start_all()
    leader = world.await_all()
    client = world.client()
    world.echo(client, [b"a"] * 30)
    absent = world.followers()[0].id
    world.kill(absent)
    world.close(leader.id)
    world.start(leader.id)
    second = world.await_all()
    world.until(lambda: client.session.is_connected)
    world.echo(client, [b"b" * 1000] * 100)
    world.close(second.id)
    world.start(second.id)
    world.await_all()
    run_named_until_it_follows(world, absent)


def test_a_log_that_begins_with_a_replicated_term_is_named_before_it_is_reported() -> None:
    world = ClusterWorld(3)
    world.start_all()
    leader = world.await_all()
    client = world.client()
    world.echo(client, [b"b" * 1000] * 100)
    absent = world.followers()[0].id
    world.kill(absent)
    world.close(leader.id)
    world.start(leader.id)
    world.await_all()
    world.storages[absent] = MemoryStorage()
    run_named_until_it_follows(world, absent)
