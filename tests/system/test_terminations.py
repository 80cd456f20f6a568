"""Ends of members and clusters that something other than an order brings about, and orders that meet a difficulty."""

from collections.abc import Callable, Iterable

import pytest

from support.system_world import Chorus, System, numbered
from upheaval_node.cluster.module_state import ControlToggle, ModuleState
from upheaval_node.counters import CONSENSUS_MODULE_STATE
from upheaval_node.errors import StorageError, TerminationError, UsageError
from upheaval_node.protocol import cluster_messages as cm
from upheaval_node.service.api import Cluster, SnapshotPublication
from upheaval_node.types import Now


class Ending(Chorus):
    """Keeps where it received the order to end; fails in a snapshot with `failure`, if there is one."""

    failure: Exception | None = None

    def __init__(self) -> None:
        super().__init__()
        self.ends: list[int] = []

    def on_take_snapshot(self, publication: SnapshotPublication) -> None:
        if self.failure is not None:
            raise self.failure
        super().on_take_snapshot(publication)

    def on_terminate(self, cluster: Cluster) -> None:
        super().on_terminate(cluster)
        self.ends.append(cluster.log_position)


def ends(system: System, member_id: int) -> list[int]:
    found = []
    for service in system.services[member_id]:
        assert isinstance(service, Ending)
        found += service.ends
    return found


def expect_failures(system: System, *member_ids: int) -> None:
    """These members may end by a failure, which then is none of the test."""
    for member_id in member_ids or system.cluster.member_ids:
        process = system.cluster.members[member_id].process
        assert process is not None
        system.cluster.members[member_id].expected_ends.add(process.name)


def statuses(system: System) -> list[int]:
    """With which the latest start of each member ended."""
    return [list(member.exit_statuses.values())[-1] for member in system.cluster.members]


def fail_in_snapshots(system: System, failure: Exception) -> None:
    for services in system.services.values():
        for service in services:
            assert isinstance(service, Ending)
            service.failure = failure


@pytest.mark.parity("CT-08")
def test_services_that_are_told_to_end_take_their_members_with_them() -> None:
    system = System(services=lambda: [Ending()])
    system.echo(system.client(), numbered("a", 10))
    system.await_messages(10)
    expect_failures(system)
    for member_id, module in system.modules.items():
        position = module.commit_position
        process = system.cluster.members[member_id].process
        assert process is not None
        told = cm.ServiceTerminationPosition(log_position=position, ack_required=False)
        process.post(lambda module=module, told=told: module._services.send(told) and None)  # type: ignore[misc]
    system.until(lambda: not system.live, "end of all members")
    assert [len(ends(system, member_id)) for member_id in range(3)] == [1, 1, 1]
    assert 0 not in statuses(system)


@pytest.mark.parametrize("order", [ControlToggle.SHUTDOWN, ControlToggle.ABORT])
def test_each_of_several_services_is_told_once_and_at_the_same_place(order: ControlToggle) -> None:
    system = System(services=lambda: [Ending(), Ending(), Ending()])
    system.echo(system.client(), numbered("a", 10))
    system.end(order)
    told = [ends(system, member_id) for member_id in range(3)]
    assert [len(each) for each in told] == [3, 3, 3]
    (position,) = {place for each in told for place in each}
    assert position > 0
    assert statuses(system) == [0, 0, 0]
    last_terms = [system.modules[member_id].recording_log.find_last_term() for member_id in range(3)]
    assert [term.log_position for term in last_terms if term is not None] == [position] * 3


@pytest.mark.parity("CT-32")
def test_a_leader_whose_service_ends_goes_with_it_and_its_clients_go_on_elsewhere() -> None:
    system = System(services=lambda: [Ending()])
    client = system.client()
    system.echo(client, numbered("a", 10))
    leader = system.leader()
    expect_failures(system, leader)
    module = system.modules[leader]
    process = system.cluster.members[leader].process
    assert process is not None
    told = cm.ServiceTerminationPosition(log_position=module.commit_position, ack_required=False)
    process.post(lambda: module._services.send(told) and None)
    system.until(lambda: leader not in system.live, "end of the leader")
    assert len(ends(system, leader)) == 1
    system.follow(client)
    assert client.leader_id != leader
    system.echo(client, numbered("b", 5))
    system.await_messages(15)


@pytest.mark.parity("CT-81")
def test_a_shutdown_goes_on_without_the_snapshot_that_its_services_did_not_take() -> None:
    system = System(services=lambda: [Ending()])
    system.echo(system.client(), numbered("a", 10))
    fail_in_snapshots(system, UsageError("this state is not for keeping"))
    system.end(ControlToggle.SHUTDOWN)
    assert statuses(system) == [0, 0, 0]
    assert [len(ends(system, member_id)) for member_id in range(3)] == [1, 1, 1]
    assert all(system.snapshot_entries(member_id) == [] for member_id in range(3))
    system.start()
    system.leader()
    system.await_messages(10)


@pytest.mark.parity("CT-82")
@pytest.mark.parametrize(
    "failure",
    [
        TerminationError("enough", expected=False),
        TerminationError("enough", expected=True),
        StorageError("no space left on the archive's disk"),
    ],
    ids=["agent", "cluster", "storage"],
)
def test_a_terminal_failure_in_a_snapshot_ends_every_member(failure: Exception) -> None:
    # In this execution all of them know that the entry is committed before the first one ends.
    system = System(seed=3, services=lambda: [Ending()])
    system.echo(system.client(), numbered("a", 10))
    system.await_messages(10)
    expect_failures(system)
    fail_in_snapshots(system, failure)
    system.toggle(ControlToggle.SNAPSHOT)
    system.until(lambda: not system.live, "end of all members")
    assert [len(ends(system, member_id)) for member_id in range(3)] == [1, 1, 1]
    assert 0 not in statuses(system)
    assert all(system.snapshot_entries(member_id) == [] for member_id in range(3))
    system.start()
    system.leader()
    system.await_messages(10)


def heard_acks(system: System, member_ids: Iterable[int]) -> list[cm.TerminationAck]:
    """The acknowledgements of an end that these members get from now on."""
    acks: list[cm.TerminationAck] = []

    def listening(handle: Callable[..., None]) -> Callable[..., None]:
        def on_termination_ack(now: Now, message: cm.TerminationAck) -> None:
            acks.append(message)
            handle(now, message)

        return on_termination_ack

    for member_id in member_ids:
        adapter = system.modules[member_id]._consensus
        assert adapter is not None
        adapter._handlers[cm.TerminationAck] = listening(adapter._handlers[cm.TerminationAck])
    return acks


@pytest.mark.pure
def test_a_leader_hears_an_ack_of_each_follower_in_an_ordinary_shutdown() -> None:
    system = System(services=lambda: [Ending()])
    system.echo(system.client(), numbered("a", 10))
    acks, followers = heard_acks(system, [system.leader()]), system.followers()
    system.toggle(ControlToggle.SHUTDOWN)
    system.until(lambda: not system.live, "end of all members", 10)
    assert sorted(ack.member_id for ack in acks) == sorted(followers)


@pytest.mark.pure
@pytest.mark.parity("IS-01")
def test_a_leader_that_goes_in_the_middle_of_its_shutdown_gets_no_ack_in_the_next_term() -> None:
    system = System(services=lambda: [Ending()])
    client = system.client()
    system.echo(client, numbered("a", 10))
    leader, followers = system.leader(), system.followers()
    acks = heard_acks(system, followers)
    term = system.status(leader).leadership_term_id
    system.toggle(ControlToggle.SHUTDOWN)
    system.until(
        lambda: system.counter(leader, CONSENSUS_MODULE_STATE) != ModuleState.ACTIVE, "shutdown of the leader", 5
    )
    system.kill(leader)
    system.run_for(10)
    # Those that had got to the end of the term that was named are gone, in order; the others go on in a later one.
    told = {member_id: len(ends(system, member_id)) for member_id in followers}
    gone = {member_id: int(member_id not in system.live) for member_id in followers}
    ended = [system.cluster.members[member_id].exit_statuses for member_id in followers if gone[member_id]]
    assert all(set(each.values()) == {0} for each in ended)
    system.start()
    system.leader()
    system.echo(system.client(), numbered("b", 5))
    system.await_messages(15)
    assert all(ack.leadership_term_id == term for ack in acks)
    assert told == gone
