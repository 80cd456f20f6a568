"""Members in containers that the kernel ends for want of memory, as engines of different versions report them: those
from Docker 24 on forget an end when the container starts again, and report it before it has come.
"""

from collections.abc import Callable
from types import SimpleNamespace
from typing import Any

import pytest

from upheaval.errors import UnknownOutcome
from upheaval.runtimes.docker.machines import DockerMachines
from upheaval.runtimes.docker.node import DockerNode
from upheaval_chaos.faults import exactly
from upheaval_chaos.host_faults import MIB, HostFault, HostFaultKind, HostInjection, ended_for_memory
from upheaval_chaos.record import FaultRecord

NEVER = "0001-01-01T00:00:00Z"


class Engine:
    """A client and the only container of its engine, in the shape of docker-py. Nothing of it runs on this machine."""

    id, short_id = "c" * 64, "c" * 12

    def __init__(self, *, forgets: bool) -> None:
        self.containers = self.api = self
        self.forgets = forgets
        self.limit, self.met = 1 << 40, 0
        self.starts = 1
        self.state: dict[str, Any] = {"Running": True, "OOMKilled": False, "ExitCode": 0, "Pid": 1 << 30}
        self.state |= {"StartedAt": "start 1", "FinishedAt": NEVER}

    @property
    def attrs(self) -> dict[str, Any]:
        return {"State": dict(self.state)}

    def get(self, _: str) -> "Engine":
        return self

    def info(self) -> dict[str, int]:
        return {"MemTotal": 1 << 34}

    def stats(self, _: str, *, stream: bool, one_shot: bool) -> dict[str, Any]:
        return {"memory_stats": {"limit": self.limit, "usage": MIB, "failcnt": self.met}}

    def update(self, *, mem_limit: int, memswap_limit: int) -> None:
        self.limit = min(mem_limit, 1 << 40)

    def start(self) -> None:
        self.starts += 1
        self.state |= {"Running": True, "StartedAt": f"start {self.starts}", "ExitCode": 0}
        if self.forgets:
            self.state["OOMKilled"] = False
        self.met = 0

    def hears(self) -> None:
        """That the kernel ended a process in the container."""
        self.state["OOMKilled"] = True

    def end(self, status: int) -> None:
        self.state |= {"Running": False, "ExitCode": status, "FinishedAt": f"end {self.starts}"}

    def end_for_memory(self) -> None:
        self.hears()
        self.end(137)


class Cluster:
    """Its one member in that engine, as a target. Starts of the member go the way of all starts."""

    def __init__(self, engine: Engine) -> None:
        client: Any = engine
        self.limited: set[int] = set()
        self.member = DockerNode("member 0", client, {"all": "name"}, lambda _: None, self.bring)
        self.machines = DockerMachines(client, [self.member], self.limited)
        target: Any = SimpleNamespace(
            hosts=lambda *_: self.machines, node=lambda _: self.member, now_ns=lambda: 0, wait_until=self.wait_until
        )
        fault = HostFault(HostFaultKind.MEMORY_LIMIT, exactly([0]), 64)
        self.injection = HostInjection(target, fault, [0])

    def bring(self, container: Any) -> None:
        self.machines.note_end(0, container)

    def wait_until(self, condition: Callable[[], bool], timeout_s: float, what: str) -> None:
        assert self.limited == {0}
        if not any(condition() for _ in range(100)):
            raise UnknownOutcome(f"no {what} in {timeout_s} s")

    def ended(self) -> int:
        return self.machines.memory_work(0).ended


@pytest.mark.parametrize("forgets", [False, True])
@pytest.mark.parametrize("starts_before_the_heal", [0, 1])
def test_ends_are_counted_whatever_starts_the_member_again(forgets: bool, starts_before_the_heal: int) -> None:
    engine = Engine(forgets=forgets)
    cluster = Cluster(engine)
    cluster.injection.act()
    engine.met += 5
    proof = cluster.injection.prove()
    for _ in range(starts_before_the_heal):
        engine.end_for_memory()
        cluster.member.start()
    engine.end_for_memory()
    cluster.injection.heal()
    record = FaultRecord("memory-limit", "x", 1, 2, 3, 4, proof, cluster.injection.seen_healed(), members=(0,))
    assert record.is_proved, record
    assert ended_for_memory(record) == {0: 1 + starts_before_the_heal}


@pytest.mark.parametrize("forgets", [False, True])
def test_an_end_is_counted_once(forgets: bool) -> None:
    engine = Engine(forgets=forgets)
    cluster = Cluster(engine)
    engine.end(137)
    cluster.member.start()
    engine.hears()
    assert cluster.ended() == 0
    engine.end_for_memory()
    assert [cluster.ended(), cluster.ended()] == [1, 1]
    cluster.member.start()
    assert cluster.ended() == 1


@pytest.mark.parametrize("status", [0, 1, 139])
def test_who_ends_by_itself_after_a_program_in_its_container_was_ended_is_not_counted(status: int) -> None:
    engine = Engine(forgets=False)
    cluster = Cluster(engine)
    engine.hears()
    engine.end(status)
    assert cluster.ended() == 0


def test_a_member_may_end_from_its_limit_until_it_was_healed_and_started() -> None:
    cluster = Cluster(Engine(forgets=True))
    assert not cluster.limited
    cluster.injection.act()
    assert cluster.limited == {0}
    cluster.injection.heal()
    assert not cluster.limited
