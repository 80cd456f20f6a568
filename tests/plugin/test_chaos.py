"""The fixture `chaos`, as a test holds it: every fault of the catalogue by its words, names, and what is refused."""

from collections.abc import Callable, Iterator, Sequence
from pathlib import Path

import pytest

from support.saboteur import Sabotage, Saboteur
from support.valid import require_valid
from upheaval import ActiveFault, Chaos, Cluster, HarnessError, UnknownOutcome, Verdict
from upheaval.errors import EnvironmentFault
from upheaval.execution.simulated import SimulatedTarget
from upheaval.records import RunFolder
from upheaval.system import ClusterSpec
from upheaval.testing.simulation import SimulatedBackend
from upheaval_chaos.target import Link, LinkEffect, Node

FAULTS: dict[str, Callable[[Chaos], ActiveFault]] = {
    "kill follower": lambda chaos: chaos.kill("follower"),
    "kill member-0,member-1": lambda chaos: chaos.kill([0, 1]),
    "stop leader": lambda chaos: chaos.stop("leader"),
    "pause leader": lambda chaos: chaos.pause("leader"),
    "blackhole member-0 <-> member-1,member-2": lambda chaos: chaos.partition([0], [1, 2]),
    "reset member-0 <-> member-1,member-2": lambda chaos: chaos.partition(0, [1, 2], kind="reset"),
    "blackhole member-2 <-> member-0,member-1": lambda chaos: chaos.isolate(2),
    "blackhole member-1 -> member-2": lambda chaos: chaos.cut(1, 2),
    "blackhole leader <-> follower channel=log": lambda chaos: chaos.partition("leader", "follower", channel="log"),
    "blackhole clients <-> member-0": lambda chaos: chaos.partition("clients", 0),
    "slow leader <-> followers": lambda chaos: chaos.slow("leader", "followers", latency_ms=40, both_ways=True),
    "slow member-0 -> member-1": lambda chaos: chaos.inject("slow member-0 -> member-1 latency-ms=30"),
}


class NothingImposed(SimulatedBackend):
    """An injector that says it did it."""

    def node(self, member_id: int) -> Node:
        return Saboteur(SimulatedTarget(self.cluster), Sabotage.IDLE).node(member_id)

    def impose(self, links: Sequence[Link], effect: LinkEffect) -> None: ...
    def lift(self, links: Sequence[Link], effect: LinkEffect) -> None: ...


@pytest.fixture
def cluster(tmp_path: Path) -> Iterator[Cluster]:
    with Cluster(runtime="simulated", folder=tmp_path / "run") as cluster:
        yield cluster


@pytest.mark.parametrize("name", FAULTS)
def test_a_fault_is_proved_healed_and_written_down(cluster: Cluster, name: str) -> None:
    cluster.workload.start()
    with FAULTS[name](cluster.chaos) as fault:
        assert cluster.chaos.active == [fault]
        assert fault.name == f"{name.split()[0]}-1"
    assert cluster.chaos.active == []
    cluster.workload.wait_for(100)
    report = cluster.verify()
    require_valid(report)
    (record,) = cluster.run.read_faults()
    assert record.is_proved
    assert record.statement.split()[0] == name.split()[0]
    if "member" in name:
        assert record.statement.startswith(name)


def test_faults_are_healed_by_name_by_themselves_and_all_at_once(cluster: Cluster) -> None:
    chaos = cluster.chaos
    chaos.cut(0, 1, name="deaf")
    far = chaos.slow(1, 2, latency_ms=20)
    chaos.slow(2, 0, latency_ms=20)
    chaos.heal("deaf")
    far.heal()
    chaos.pause(2)
    chaos.kill(1)
    assert [fault.name for fault in chaos.active] == ["slow-2", "pause-1", "kill-1"]
    chaos.heal()
    assert chaos.active == []
    assert all(status.alive for status in cluster.status())


def test_what_is_not_healed_is_written_down_when_the_cluster_ends(cluster: Cluster) -> None:
    cluster.chaos.kill(0)
    cluster.down()
    (record,) = cluster.run.read_faults()
    assert (record.name, record.heal_end_ns) == ("kill-1", None)


def test_a_restart_is_over_when_the_member_has_caught_up(cluster: Cluster) -> None:
    leader = cluster.wait_until_leader()
    cluster.chaos.restart(leader)
    assert cluster.status()[leader].leader_member_id == cluster.leader()
    assert cluster.chaos.active == []


@pytest.mark.parametrize(
    ("do", "says"),
    [
        (lambda chaos: chaos.kill(3), "unknown member 3: this cluster has members 0 to 2"),
        (lambda chaos: chaos.kill("king"), "unknown member 'king': use its id, or one of leader"),
        (lambda chaos: chaos.kill("clients"), "kill is done to members"),
        (lambda chaos: chaos.kill(0, "archive"), "components together: make it with components='split'"),
        (lambda chaos: chaos.kill(0, "heart"), "unknown component 'heart'"),
        (lambda chaos: chaos.kill("folower"), "; did you mean 'follower'?"),
        (lambda chaos: chaos.kill(0, "archvie"), "; did you mean 'archive'?"),
        (lambda chaos: chaos.partition(0, 1, kind="blackhol"), "; did you mean 'blackhole'?"),
        (lambda chaos: chaos.heal("split"), "fault 'split' is not there: there is none"),
        (lambda chaos: chaos.partition(0, 0), "have no link between them"),
        (lambda chaos: chaos.partition(0, 1, kind="slow"), "a partition of kind 'slow': use one of blackhole, reset"),
        (lambda chaos: chaos.partition(0, 1, kind="reset", one_way=True), "ends both directions"),
        (lambda chaos: chaos.cut(0, 1, channel="gossip"), "there is no channel 'gossip'"),
        (lambda chaos: chaos.slow(0, 1), "slow needs latency-ms or bytes-per-second"),
        (lambda chaos: chaos.inject("slow 0 -> 1"), "fault 'slow 0 -> 1': unknown target '0'"),
    ],
)
def test_what_cannot_be_done_is_one_line(cluster: Cluster, do: Callable[[Chaos], object], says: str) -> None:
    with pytest.raises(HarnessError, match=says) as raised:
        do(cluster.chaos)
    assert "\n" not in str(raised.value)
    assert cluster.chaos.active == []


@pytest.mark.parametrize(
    "name", ["blackhole member-1 -> member-2", "kill follower", "reset member-0 <-> member-1,member-2"]
)
def test_a_fault_that_was_not_done_fails_the_test(tmp_path: Path, name: str) -> None:
    run = RunFolder(tmp_path / "run")
    backend = NothingImposed(run, ClusterSpec(members=3), seed=1)
    backend.up(30)
    chaos = Chaos(lambda: backend, components="together")
    with pytest.raises(UnknownOutcome, match="-1', not proved: ") as raised:
        FAULTS[name](chaos)
    assert "\n" not in str(raised.value)
    chaos.give_up()
    backend.down()
    (record,) = run.read_faults()
    assert not record.is_proved


def test_what_failed_while_it_was_done_is_healed_with_all_others(
    cluster: Cluster, monkeypatch: pytest.MonkeyPatch
) -> None:
    impose = SimulatedTarget.impose

    def fail(target: SimulatedTarget, links: Sequence[Link], effect: LinkEffect) -> None:
        impose(target, links, effect)
        raise EnvironmentFault("the engine does not answer")

    cluster.workload.start()
    with monkeypatch.context() as patch:
        patch.setattr(SimulatedTarget, "impose", fail)
        with pytest.raises(EnvironmentFault):
            cluster.chaos.isolate(2)
    cluster.chaos.heal()
    cluster.workload.wait_for(100)
    assert cluster.verify().verdict is Verdict.UNKNOWN
    (record,) = cluster.run.read_faults()
    assert record.heal_proof is not None
    assert record.heal_proof.holds
    assert not record.is_proved


@pytest.mark.heavy
def test_links_of_real_members_need_proxies(tmp_path: Path) -> None:
    with (
        Cluster(members=2, folder=tmp_path / "run") as cluster,
        pytest.raises(
            HarnessError, match="no proxies in its links, which faults of links need: make it with links=True"
        ),
    ):
        cluster.partition(0, 1)
