"""A cluster of one member: election, log, clients, toggles, restart, and what ends it."""

from itertools import pairwise

import pytest

from support.cluster_world import ClusterWorld, Member
from upheaval_node.cluster.module_state import ControlToggle, ModuleState
from upheaval_node.counters import (
    COMMIT_POSITION,
    CONSENSUS_MODULE_STATE,
    CONTROL_TOGGLE,
    ELECTION_STATE,
    LEADERSHIP_TERM_ID,
    cluster_key,
)
from upheaval_node.errors import TerminationError
from upheaval_node.protocol import cluster_messages as cm


def started(count: int = 1) -> tuple[ClusterWorld, Member]:
    world = ClusterWorld(count)
    world.start_all()
    return world, world.await_leader()


def counter(member: Member, type_id: int) -> int:
    found = member.counters.find(type_id, cluster_key(0))
    assert found is not None
    return found.get()


@pytest.mark.parity("SN-01", "SN-03", "CN-02")
def test_a_single_member_elects_itself_and_answers_clients() -> None:
    world, leader = started()
    client = world.client()
    world.echo(client, [b"one", b"two", b"three"])
    assert client.received == [b"one", b"two", b"three"]
    assert counter(leader, LEADERSHIP_TERM_ID) == 0
    assert counter(leader, CONSENSUS_MODULE_STATE) == ModuleState.ACTIVE
    assert counter(leader, ELECTION_STATE) == 17
    assert counter(leader, COMMIT_POSITION) == leader.service.messages[-1][0]


def test_messages_of_all_sizes_keep_their_order() -> None:
    world, leader = started()
    client = world.client()
    payloads = [bytes([n]) * size for n, size in enumerate([0, 1, 1311, 1312, 1313, 5000, 8000, 3, 1344, 1345])]
    world.echo(client, payloads)
    assert [payload for _, payload in leader.service.messages] == payloads
    assert client.received == payloads


@pytest.mark.parity("SN-04", "NX-01")
def test_a_restart_replays_the_log_into_the_service() -> None:
    world, leader = started()
    client = world.client()
    payloads = [b"%d" % n * 50 for n in range(2000)]
    world.echo(client, payloads)
    before = leader.service.messages
    world.kill(0)
    world.clients.clear()
    world.start(0)
    again = world.await_leader()
    world.until(lambda: again.service.messages == before)
    assert again.module.leadership_term_id == 1
    # No client of before is there: the new leader closes the sessions that the log left open.
    world.until(lambda: again.service.closed == [(1, "TIMEOUT")])


def test_terms_follow_each_other_without_a_gap_over_restarts() -> None:
    world, _ = started()
    for term in range(1, 5):
        world.kill(0)
        world.start(0)
        leader = world.await_leader()
        assert leader.module.leadership_term_id == term
    world.until(lambda: leader.service.terms == [0, 1, 2, 3, 4])
    entries = leader.module.recording_log.entries
    assert [entry.leadership_term_id for entry in entries] == [0, 1, 2, 3, 4]
    assert all(a.log_position == b.term_base_log_position for a, b in pairwise(entries))


@pytest.mark.parity("CM-05")
def test_suspend_and_resume_stop_and_start_the_ingress() -> None:
    world, leader = started()
    client = world.client()
    toggle = leader.counters.find(CONTROL_TOGGLE, cluster_key(0))
    assert toggle is not None
    assert toggle.get() == ControlToggle.NEUTRAL
    toggle.set(ControlToggle.SUSPEND)
    world.until(lambda: leader.module.state is ModuleState.SUSPENDED)
    world.send(client, [b"held"])
    world.advance(500)
    assert client.received == []
    toggle.set(ControlToggle.RESUME)
    world.until(lambda: client.received == [b"held"])
    assert toggle.get() == ControlToggle.NEUTRAL


def test_an_orderly_end_tells_service_and_archive() -> None:
    world, leader = started()
    client = world.client()
    world.echo(client, [b"x"])
    leader.module.close(world.now)
    world.settle()
    assert leader.module.state is ModuleState.CLOSED
    assert leader.container not in leader.agents
    assert leader.ended is None
    recording_id = leader.module._log.recording_id
    world.advance(100)
    assert leader.counters.find(100, recording_id.to_bytes(8, "little")) is None


@pytest.mark.parity("CM-18")
def test_a_member_that_loses_its_archive_ends() -> None:
    world, leader = started()
    leader.agents.remove(leader.archive)
    leader.archive.close()
    world.until(lambda: leader.ended is not None)
    assert isinstance(leader.ended, TerminationError)
    assert "archive" in str(leader.ended)
    assert not leader.ended.expected


@pytest.mark.parity("CM-04")
def test_a_service_that_closes_a_session_closes_it_for_the_client() -> None:
    world, leader = started()
    client = world.client()
    world.echo(client, [b"x"])
    (session_id,) = leader.module._state.sessions.open
    leader.container.view.close_client_session(session_id)
    world.until(lambda: client.session.is_closed)
    assert "SERVICE_ACTION" in str(client.session.error)
    assert leader.service.closed == [(session_id, "SERVICE_ACTION")]


def test_a_tool_that_asks_for_the_members_is_answered() -> None:
    world, leader = started()
    publication = leader.driver.add_publication("aeron:ipc?term-length=128k", 105)
    answers = leader.driver.add_subscription("aeron:ipc?term-length=128k", 104)
    world.settle()
    publication.offer(cm.SCHEMA.encode(cm.ClusterMembersQuery(7, False)))
    publication.offer(cm.SCHEMA.encode(cm.ClusterMembersQuery(8, True)))
    world.settle()
    got: list[object] = []
    answers.poll(lambda message: got.append(cm.SCHEMA.decode(message.payload)), 10)
    simple, extended = got
    assert isinstance(simple, cm.ClusterMembersResponse)
    assert (simple.correlation_id, simple.leader_member_id) == (7, 0)
    assert simple.active_members == "0,m0:1,m0:2,m0:3,m0:4,m0:5"
    assert isinstance(extended, cm.ClusterMembersExtendedResponse)
    assert extended.active_members[0].log_position == counter(leader, COMMIT_POSITION)


def test_one_seed_gives_one_run() -> None:
    def run() -> list[object]:
        world = ClusterWorld(3, seed=11)
        world.start_all()
        old = world.await_all()
        client = world.client()
        world.echo(client, [b"%d" % n for n in range(40)])
        events: list[object] = list(old.trace.events)
        world.kill(old.id)
        world.await_all()
        for member in world.members.values():
            events += member.trace.events
            events += member.service.messages
        return events

    first = run()
    assert len(first) > 100
    assert first == run()
