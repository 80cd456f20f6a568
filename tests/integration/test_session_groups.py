"""A thousand sessions of one process on real sockets: one connection to each member, through a change of leader."""

import time
from collections.abc import Callable
from pathlib import Path
from random import SystemRandom

from upheaval.runtimes.process import ProcessCluster
from upheaval.system import ClusterSpec
from upheaval_node.client.operations import echo_request
from upheaval_node.client.session import ClusterClient
from upheaval_node.client.session_group import SessionGroup
from upheaval_node.media.driver import MediaDriver
from upheaval_node.media.resolver import StaticResolver
from upheaval_node.ports import Buffer
from upheaval_node.runtime.clock import SystemClock
from upheaval_node.runtime.duty_cycle import DutyCycle
from upheaval_node.runtime.loop import Loop
from upheaval_node.runtime.network import SelectorNetwork
from upheaval_node.settings import MediaSettings
from upheaval_node.types import S

COUNT = 1000


class Gateway:
    """A process's sessions, and how many answers each of them had."""

    def __init__(self, cluster: ProcessCluster) -> None:
        self.loop = Loop()
        self.network = SelectorNetwork(self.loop, None)
        self.media = MediaDriver(self.network, StaticResolver(), MediaSettings(), SystemRandom(), None)
        self.group = SessionGroup(
            self.media, cluster.ingress_endpoints(), random=SystemRandom(), message_timeout_ns=60 * S
        )
        self._cycle = DutyCycle(self.loop, SystemClock(), (self.media, self.group))
        self.answers = [0] * COUNT
        self.sessions = [self.group.open(self._counting(number)) for number in range(COUNT)]

    def _counting(self, number: int) -> Callable[[int, Buffer], None]:
        def count(_timestamp: int, _payload: Buffer) -> None:
            self.answers[number] += 1

        return count

    def until(self, condition: Callable[[], bool], what: str) -> None:
        done = self._cycle.run_until(condition, time.monotonic_ns() + 120 * S)
        states = {each.state.name for each in self.sessions}
        assert done, f"no {what}: sessions are {states}, answers {min(self.answers)} to {max(self.answers)}"

    def say(self, text: bytes) -> None:
        """Each of them once, and an answer for each."""
        wanted = [count + 1 for count in self.answers]
        for number, session in enumerate(self.sessions):
            self.until(lambda of=session, number=number: _offer(of, number, text), "room")  # type: ignore[misc]
        self.until(lambda: self.answers == wanted, f"answers to {text.decode()}")

    def close(self) -> None:
        self.group.close()
        self.media.close()
        self.network.close()
        self.loop.close()


def _offer(session: ClusterClient, number: int, text: bytes) -> bool:
    return session.offer(echo_request(number, text)) > 0


def test_a_thousand_sessions_share_a_connection_and_follow_the_leader(tmp_path: Path) -> None:
    spec = ClusterSpec(members=3, service="echo", max_sessions=COUNT + 10)
    cluster = ProcessCluster.create(tmp_path / "run", spec)
    cluster.up()
    gateway = Gateway(cluster)
    try:
        gateway.until(lambda: all(each.is_connected for each in gateway.sessions), "sessions")
        assert len({each.session_id for each in gateway.sessions}) == COUNT
        assert len(gateway.media.endpoints.links) == 3
        gateway.say(b"before")
        leader = gateway.sessions[0].leader_member_id
        cluster.member(leader).node.kill()
        gateway.until(
            lambda: all(each.is_connected and each.leader_member_id != leader for each in gateway.sessions), "leader"
        )
        gateway.say(b"after")
    finally:
        gateway.close()
        cluster.down()
