"""Standbys of whole simulated clusters: they follow through deaths and changes of leader, and take snapshots."""

from typing import Final

import pytest

from support.backup_world import copy_files
from support.system_world import Chorus, System
from upheaval.records import CompanionConfig
from upheaval.runtimes.simulated.companion import SimulatedCompanion
from upheaval.runtimes.simulated.standby import make_standby
from upheaval_node.cluster.module_state import ControlToggle, NodeToggle
from upheaval_node.counters import ARCHIVE_CONTROL_SESSIONS, NODE_CONTROL_TOGGLE, cluster_key
from upheaval_node.files.recording_log import RecordingLog
from upheaval_node.standby.module import StandbyModule

STANDBY: Final = CompanionConfig("standby-0")


class Standby:
    """One standby of a system's cluster, started."""

    def __init__(self, system: System, config: CompanionConfig = STANDBY, *, services: int = 1) -> None:
        self.system = system
        self.services: list[Chorus] = []
        self._count = services
        self.companion: SimulatedCompanion = make_standby(system.cluster, config, services=self._make)
        self.companion.start()

    def _make(self) -> list[Chorus]:
        self.services = [Chorus() for _ in range(self._count)]
        return list(self.services)

    @property
    def module(self) -> StandbyModule:
        """That of the present incarnation."""
        (module,) = (each for each in self.companion.agents if isinstance(each, StandbyModule))
        return module

    @property
    def service(self) -> Chorus:
        return self.services[0]

    @property
    def recording_log(self) -> RecordingLog:
        return self.module.recording_log

    def follow(self) -> None:
        """Wait until it has read what the cluster has committed now, and follows."""
        leader = self.system.leader()
        position = self.system.status(leader).commit_position
        state = self.system.service(leader).state
        self.system.until(
            lambda: (
                self.companion.status().follows
                and self.module.commit_position >= position
                and self.service.state == state
            ),
            f"standby at {position}: {self.companion.status()}",
        )

    def snapshot(self) -> int:
        """Leave a snapshot to it, and wait until every live member knows of it; its position."""
        system = self.system
        system.toggle(ControlToggle.STANDBY_SNAPSHOT)
        before = {member_id: standby_positions(system, member_id) for member_id in system.live}
        system.until(
            lambda: all(standby_positions(system, each) != known for each, known in before.items()),
            f"word of a standby's snapshot: {self.companion.error_texts}",
        )
        positions = {tuple(standby_positions(system, member_id)) for member_id in system.live}
        assert len(positions) == 1
        return positions.pop()[-1]


def standby_positions(system: System, member_id: int) -> list[int]:
    """Where the snapshots were taken that a running member knows of standbys."""
    return sorted({e.log_position for e in system.modules[member_id].recording_log.entries if e.archive_endpoint})


def copies(system: System, member_id: int) -> list[tuple[int, int]]:
    """Position and service of the snapshots that a running member has itself, in the order in which they came."""
    entries = system.modules[member_id].recording_log.entries
    return [(e.log_position, e.service_id) for e in entries if e.is_snapshot and not e.archive_endpoint]


def archive_sessions(standby: Standby) -> int:
    """How many have a session with its archive."""
    count = standby.companion.counters.find(ARCHIVE_CONTROL_SESSIONS)
    assert count is not None
    return count.get()


def replicate(system: System, *member_ids: int) -> None:
    for member_id in member_ids or system.live:
        toggle = system.cluster.members[member_id].counters.find(NODE_CONTROL_TOGGLE, cluster_key(0))
        assert toggle is not None
        assert toggle.get() == NodeToggle.NEUTRAL
        toggle.set(NodeToggle.REPLICATE_STANDBY_SNAPSHOT)


@pytest.mark.parity("CT-06")
def test_a_snapshot_is_left_to_the_standby_and_fetched_from_it() -> None:
    system = System()
    standby = Standby(system)
    client = system.client()
    system.echo(client, [b"one", b"o two", b"t 7 600000"])
    standby.follow()
    position = standby.snapshot()
    assert system.is_neutral()
    assert all(system.service(member_id).snapshots == 0 for member_id in system.live)
    assert standby.service.snapshots == 1
    system.echo(client, [b"beyond"])
    before = archive_sessions(standby)
    replicate(system)
    system.until(lambda: all(copies(system, each)[-1:] == [(position, -1)] for each in system.live), "copies")
    system.until(lambda: archive_sessions(standby) == before, "members that have left the standby's archive")
    system.kill()
    system.start()
    system.leader()
    for member_id in system.live:
        assert system.service(member_id).loaded == 3
        assert system.service(member_id).messages[-1] == b"beyond"
    assert standby.companion.error_texts == []


def test_it_follows_through_a_change_of_leader_and_its_own_death() -> None:
    system = System()
    standby = Standby(system)
    client = system.client()
    system.echo(client, [b"one"])
    standby.follow()
    system.kill(system.leader())
    system.follow(client)
    system.echo(client, [b"two"])
    standby.follow()
    standby.snapshot()
    system.echo(client, [b"three"])
    standby.follow()
    standby.companion.kill()
    system.echo(client, [b"four"])
    standby.companion.start()
    standby.follow()
    assert standby.service.loaded == 2
    assert standby.service.messages == [b"one", b"two", b"three", b"four"]


def test_what_a_standby_left_is_a_cluster_of_its_own() -> None:
    system = System()
    standby = Standby(system)
    client = system.client()
    system.echo(client, [b"one", b"o offered", b"t 7 5000"])
    standby.follow()
    standby.snapshot()
    system.echo(client, [b"two"])
    standby.follow()
    standby.companion.stop()
    system.echo(client, [b"lost to the promoted cluster"])
    promoted = System(1, seed=7, starts=[])
    copy_files(standby.companion.disk, promoted.cluster.members[0].disk)
    promoted.start(0)
    assert promoted.leader() == 0
    service = promoted.service(0)
    assert service.loaded == 3
    assert service.messages == [b"one", b"o offered", b"t 7 5000", b"two"]
    assert service.offered == [b"offered"]
    promoted.until(lambda: service.fired == [7], "timer of before the promotion")
    promoted.echo(promoted.client(), [b"three"])
    assert service.messages[-1] == b"three"


def test_each_of_several_services_has_its_state_in_the_snapshot() -> None:
    system = System(services=lambda: [Chorus(), Chorus()])
    standby = Standby(system, services=2)
    client = system.client()
    system.echo(client, [b"one", b"o two"])
    system.await_messages(2)
    standby.follow()
    position = standby.snapshot()
    replicate(system)
    wanted = [(position, 1), (position, 0), (position, -1)]
    system.until(lambda: all(copies(system, each)[-3:] == wanted for each in system.live), "copies")
    system.kill()
    system.start()
    system.leader()
    for member_id in system.live:
        assert [service.loaded for service in system.services[member_id]] == [2, 2]


@pytest.mark.parametrize("after_ms", [0, 1, 2, 5, 10, 20])
def test_a_death_while_it_takes_a_snapshot_costs_at_most_that_snapshot(after_ms: int) -> None:
    system = System()
    standby = Standby(system)
    client = system.client()
    system.echo(client, [b"one"])
    standby.follow()
    system.toggle(ControlToggle.STANDBY_SNAPSHOT)
    system.until(lambda: standby.service.snapshots == 1, "begin of the snapshot")
    system.run_for(after_ms / 1000)
    standby.companion.kill()
    system.echo(client, [b"two"])
    standby.companion.start()
    standby.follow()
    assert standby.service.messages == [b"one", b"two"]
    assert standby.snapshot() > 0


def test_a_standby_of_a_cluster_that_was_shut_down_stays_and_follows_the_next_one() -> None:
    system = System()
    standby = Standby(system)
    system.echo(system.client(), [b"one"])
    standby.follow()
    system.end(ControlToggle.SHUTDOWN)
    system.run_for(20)
    assert standby.companion.alive
    assert standby.service.messages == [b"one"]
    system.start()
    system.leader()
    client = system.client()
    system.echo(client, [b"two"])
    standby.follow()
    assert standby.service.messages == [b"one", b"two"]
    assert standby.service.terms == [0, 1]
