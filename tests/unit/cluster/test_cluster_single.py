"""A cluster of one member: election, log, clients, restart."""

from support.cluster_world import ClusterWorld


def test_a_single_member_elects_itself_and_answers_clients() -> None:
    world = ClusterWorld(1)
    world.start_all()
    leader = world.await_leader()
    client = world.client()
    world.echo(client, [b"one", b"two", b"three"])
    assert client.received == [b"one", b"two", b"three"]
    assert leader.module.leadership_term_id == 0
    assert leader.module.commit_position == leader.module._leader_log.publisher.position
