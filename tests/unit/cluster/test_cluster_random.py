"""Random faults against a small cluster: logs agree, and nothing acknowledged to a client is lost or applied twice."""

from collections.abc import Callable
from random import Random

import pytest

from support.cluster_world import Client, ClusterWorld
from upheaval_node.client.session import ClusterClient
from upheaval_node.media.driver import MediaDriver
from upheaval_node.media.resolver import StaticResolver
from upheaval_node.settings import profile_settings
from upheaval_node.types import MS

SIZES = (0, 10, 500, 1300, 3000)


class Storm:
    """One run: faults between bursts of traffic, drawn from a seed."""

    def __init__(self, seed: int, *, count: int = 3, sync_level: int = 0) -> None:
        self.random = Random(seed)
        self.world = ClusterWorld(count, seed=seed, settings=profile_settings("test", sync_level=sync_level))
        self.sync_level = sync_level
        self.down: set[int] = set()
        self.cut_off: set[int] = set()
        self.sent = 0
        # Everything that any service ever applied, in order, also those of members that are gone.
        self.applied: list[tuple[int, bytes]] = []
        self.answered: set[bytes] = set()
        self.client = self.new_client()
        self.faults: list[Callable[[], None]] = [
            self.kill,
            self.close,
            self.cut,
            self.pause,
            self.resume,
            self.start,
            self.heal,
            self.heal,
        ]

    def new_client(self) -> Client:
        world = self.world
        driver = MediaDriver(world.network, StaticResolver(), world.settings.media, Random(self.random.random()))
        endpoints = {member_id: f"m{member_id}:1" for member_id in range(world.count)}
        client = Client(driver, ClusterClient(driver, endpoints, random=Random(self.random.random())))
        world.clients = [client]
        return client

    def one_alive(self) -> int | None:
        alive = sorted(set(self.world.members) - self.cut_off)
        return self.random.choice(alive) if alive else None

    def kill(self) -> None:
        member_id = self.one_alive()
        if member_id is not None:
            self.world.kill(member_id)
            if self.sync_level:
                self.world.storages[member_id].power_cut(Random(self.random.random()))
            self.down.add(member_id)

    def close(self) -> None:
        member_id = self.one_alive()
        if member_id is not None and member_id not in self.world.paused:
            self.world.close(member_id)
            self.down.add(member_id)

    def cut(self) -> None:
        member_id = self.one_alive()
        if member_id is not None:
            self.world.members[member_id].network.cut_off()
            self.cut_off.add(member_id)

    def pause(self) -> None:
        member_id = self.one_alive()
        if member_id is not None:
            self.world.paused.add(member_id)

    def resume(self) -> None:
        self.world.paused.clear()

    def start(self) -> None:
        for member_id in sorted(self.down)[:1]:
            self.world.start(member_id)
            self.down.discard(member_id)
            self.cut_off.discard(member_id)

    def heal(self) -> None:
        self.resume()
        while self.down:
            self.start()
        for member_id in sorted(self.cut_off):
            self.world.members[member_id].network.rejoin()
        self.cut_off.clear()

    def burst(self) -> None:
        world = self.world
        for _ in range(self.random.randrange(5, 60)):
            if self.client.session.is_closed:
                self.client = self.new_client()
            for _ in range(self.random.randrange(0, 8)):
                if self.client.session.is_connected:
                    self.client.offer(b"%d-" % self.sent + bytes(self.random.choice(SIZES)))
                    self.sent += 1
            for _ in range(self.random.randrange(1, 10)):
                world.turn()
            world.ns += self.random.randrange(1, 30) * MS
            self.take_answers()
        self.check_logs()

    def take_answers(self) -> None:
        self.answered.update(self.client.received)
        self.client.received.clear()

    def check_logs(self) -> None:
        members = self.world.members.values()
        assert [str(member.ended) for member in members if member.ended is not None] == []
        for log in (member.service.messages for member in members):
            known = min(len(log), len(self.applied))
            assert log[:known] == self.applied[:known]
            self.applied += log[known:]

    def have_converged(self) -> bool:
        self.take_answers()
        logs = [member.service.messages for member in self.world.members.values()]
        return all(log == logs[0] for log in logs)

    def run(self, rounds: int) -> list[bytes]:
        """The payloads in the log at the end, after everything has healed."""
        self.world.start_all()
        self.world.await_all()
        for _ in range(rounds):
            self.random.choice(self.faults)()
            self.burst()
        self.heal()
        self.world.await_all()
        # The healed cluster serves again.
        self.world.clients.clear()
        self.world.echo(self.world.client(), [b"last-%d" % number for number in range(20)])
        self.world.until(self.have_converged)
        self.world.advance(200)
        self.world.until(self.have_converged)
        return [payload for _, payload in self.world.members[0].service.messages]


@pytest.mark.parametrize(("seed", "count", "sync_level"), [(1, 3, 0), (2, 3, 1), (3, 3, 2), (4, 5, 0), (5, 2, 1)])
def test_nothing_that_was_answered_is_lost_or_doubled(seed: int, count: int, sync_level: int) -> None:
    storm = Storm(seed, count=count, sync_level=sync_level)
    log = storm.run(rounds=25)
    assert storm.answered <= set(log)
    assert log[-20:] == [b"last-%d" % number for number in range(20)]
    assert len(set(log)) == len(log)
