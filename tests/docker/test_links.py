"""Links of containers, by Toxiproxy and by filters: who reaches whom, and probes that fail with a false injector."""

import socket
from collections.abc import Iterator
from functools import partial
from pathlib import Path

import pytest

from support.docker_runs import left_of
from support.fault_cases import LIVE_ROUNDS, WORKLOAD, fault_of, one_round, settle
from support.saboteur import OF_ALL, Sabotage
from upheaval.execution.live import LiveStage
from upheaval.runtimes.docker.cluster import DockerCluster
from upheaval.runtimes.docker.engine import Client
from upheaval.runtimes.ports import HOST, is_free, member_ports
from upheaval.scenario import parse_scenario
from upheaval_chaos import faults, link_faults
from upheaval_chaos.driver import FaultDriver
from upheaval_chaos.target import Answer, Link

FILTERED = (
    "blackhole leader <-> follower by=packets",
    "blackhole leader <-> follower channel=consensus by=packets",
    "reset leader <-> follower by=packets",
)
FILTERED_OFTEN = {
    (FILTERED[0], Sabotage.NONE),
    (FILTERED[0], Sabotage.IDLE),
    (FILTERED[2], Sabotage.NONE),
}
SELDOM = {
    ("stop follower", Sabotage.IDLE),
    ("restart follower", Sabotage.IDLE),
    ("timeout leader <-> follower timeout-ms=300", Sabotage.IDLE),
}
"""Their probes look at what those of `kill` and `reset` look at; tests/integration has them on processes every time."""
ROUNDS = [
    pytest.param(*round_.values, marks=pytest.mark.nightly if round_.values in SELDOM else round_.marks)
    for round_ in LIVE_ROUNDS
]
DIAL = """
import socket, sys
from concurrent.futures import ThreadPoolExecutor

def reached(address):
    try:
        socket.create_connection(tuple(address.split("|")), 2).close()
    except OSError:
        return False
    return True

with ThreadPoolExecutor(len(sys.argv)) as pool:
    print(*(address for address, is_reached in zip(sys.argv[1:], pool.map(reached, sys.argv[1:])) if is_reached))
"""


def stage_of(statement: str, folder: Path) -> LiveStage:
    text = f"title links\n{WORKLOAD}wait operations 1\ninject x {statement}\n"
    return LiveStage(parse_scenario(text, name="links", where="links"), "docker", 1, folder)


def opened(statement: str, folder: Path, engine: Client) -> Iterator[LiveStage]:
    stage = stage_of(statement, folder)
    try:
        stage.open(print)
        yield stage
    finally:
        stage.close()
    assert left_of(engine, stage.run.read_manifest().run_id) == []


@pytest.fixture(scope="module")
def proxied(
    tmp_path_factory: pytest.TempPathFactory, node_image: str, link_images: None, engine: Client
) -> Iterator[LiveStage]:
    """Three members with Toxiproxies in their links, under load."""
    yield from opened("blackhole all -> all", tmp_path_factory.mktemp("proxied") / "run", engine)


@pytest.fixture(scope="module")
def filtered(
    tmp_path_factory: pytest.TempPathFactory, node_image: str, link_images: None, engine: Client
) -> Iterator[LiveStage]:
    """Three members without proxies, under load."""
    yield from opened("blackhole all <-> all by=packets", tmp_path_factory.mktemp("filtered") / "run", engine)


@pytest.fixture
def impatient(sabotage: Sabotage, monkeypatch: pytest.MonkeyPatch) -> None:
    """What will never happen need not be waited for as long as in earnest."""
    if sabotage is Sabotage.NONE:
        return
    for module in (faults, link_faults):
        if sabotage is not Sabotage.STAYS:
            monkeypatch.setattr(module, "TAKES_EFFECT_S", 1.0)
        monkeypatch.setattr(module, "COMES_BACK_S", 4.0 if sabotage is Sabotage.STAYS else 1.0)


def cluster_of(stage: LiveStage) -> DockerCluster:
    cluster = stage.target
    assert isinstance(cluster, DockerCluster)
    return cluster


def reached(cluster: DockerCluster, member_id: int, *addresses: tuple[str, int]) -> list[str]:
    """The hosts of those addresses that take a connection from a member."""
    texts = [f"{host}|{port}" for host, port in addresses]
    # The member itself is there in any case, so that something is said.
    own = f"127.0.0.1|{cluster.system.metrics_port}"
    status, output = cluster.member(member_id).node.run_inside(["python3", "-c", DIAL, *texts, own])
    assert status == 0, output
    *found, last = output.split()
    assert last == own
    return [text.partition("|")[0] for text in found]


def test_members_are_reached_through_proxies_only(proxied: LiveStage) -> None:
    cluster = cluster_of(proxied)
    container = cluster.member(1).node.container()
    assert container is not None
    assert not any(container.attrs["NetworkSettings"]["Ports"].values())
    (network,) = container.attrs["NetworkSettings"]["Networks"].values()
    direct = [(host, port) for host in ("member-1", network["IPAddress"]) for port in cluster.system.ports]
    # The same port is there: through the proxy, and for the member itself.
    assert reached(cluster, 0, *direct, ("toxiproxy-0", 20000 + 10 + 1)) == ["toxiproxy-0"]
    assert reached(cluster, 1, (network["IPAddress"], cluster.system.ports[1])) == [network["IPAddress"]]


def test_members_have_no_rights_and_no_network_but_their_own(proxied: LiveStage) -> None:
    cluster = cluster_of(proxied)
    for member in cluster.members:
        container = member.node.container()
        assert container is not None
        assert list(container.attrs["NetworkSettings"]["Networks"]) == [
            cluster.engine_run.member_network(member.member_id)
        ]
        assert container.attrs["HostConfig"]["CapDrop"] == ["ALL"]
        assert not container.attrs["HostConfig"]["CapAdd"]


def test_clients_come_in_through_toxiproxy_on_the_usual_ports(proxied: LiveStage) -> None:
    cluster = cluster_of(proxied)
    port = member_ports(cluster.config.base_port, 0)[0]
    assert not is_free(port)
    with socket.create_connection((HOST, port), 5):
        pass
    owners = cluster.client.containers.list(filters={"publish": f"{cluster.system.ports[0]}"})
    assert all(not owner.name.endswith("-member-0") for owner in owners)


@pytest.mark.parametrize(("statement", "sabotage"), ROUNDS)
def test_probes_through_proxies(statement: str, sabotage: Sabotage, proxied: LiveStage, impatient: None) -> None:
    record = one_round(proxied.target, fault_of(statement), sabotage)
    assert record.is_proved == (sabotage is Sabotage.NONE), record


@pytest.mark.parametrize(
    ("statement", "sabotage"),
    [
        pytest.param(statement, how, marks=() if (statement, how) in FILTERED_OFTEN else pytest.mark.nightly)
        for statement in FILTERED
        for how in OF_ALL
    ],
)
def test_probes_of_filters(statement: str, sabotage: Sabotage, filtered: LiveStage, impatient: None) -> None:
    record = one_round(filtered.target, fault_of(statement), sabotage)
    assert record.is_proved == (sabotage is Sabotage.NONE), record


def test_a_filter_holds_for_a_member_that_was_started_again(filtered: LiveStage) -> None:
    cluster = cluster_of(filtered)
    victim, other, third = 0, 1, 2
    driver = FaultDriver(cluster, filtered.record_fault)
    assert driver.inject("x", fault_of("blackhole member-0 <-> member-1 by=packets")).holds
    cluster.node(victim).kill()
    cluster.node(victim).start()
    hears = partial(cluster.ping, Link(third, victim, "consensus"), link_faults.PING_TIMEOUT_S)
    cluster.wait_until(lambda: hears().answer is Answer.ANSWERED, faults.COMES_BACK_S, "the member to listen again")
    assert cluster.ping(Link(other, victim, "consensus"), link_faults.SILENCE_S).answer is Answer.SILENT
    assert driver.heal("x").holds
    settle(cluster)


def test_the_rights_to_filter_are_the_helpers(filtered: LiveStage) -> None:
    cluster = cluster_of(filtered)
    assert cluster.ping(Link(1, 0, "consensus"), link_faults.PING_TIMEOUT_S).answer is Answer.ANSWERED
    assert sum(cluster.delivered_by_stream(Link(1, 0)).values()) > 0
    helpers = cluster.client.containers.list(filters={"label": f"upheaval.run-id={cluster.config.run_id}"})
    rights = {helper.name: helper.attrs["HostConfig"]["CapAdd"] or [] for helper in helpers}
    assert any(name.endswith("-netfault-0") and "NET_ADMIN" in added for name, added in rights.items())
    assert not any(added for name, added in rights.items() if "-member-" in name)
