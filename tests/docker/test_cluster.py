"""A cluster of containers: faults by the engine, a user's own service, what is collected."""

import contextlib
import json
import re
import signal
from pathlib import Path

import pytest

from support.docker_runs import TIMEOUT_S, left_of
from upheaval.errors import EnvironmentFault, UnknownOutcome
from upheaval.records import FORCED_END
from upheaval.runtimes.docker.cluster import DockerCluster
from upheaval.runtimes.docker.engine import Client
from upheaval.system import LEADER, ClusterSpec
from upheaval.waits import wait_until
from upheaval_node.client.driver import BlockingClient
from upheaval_node.errors import NodeError
from upheaval_node.trace_kinds import TraceKind

SHOUTING = """
from upheaval_node.service.api import ClusteredService


class Shouting(ClusteredService):
    def on_session_message(self, session, timestamp, payload, position):
        if session is not None:
            session.respond(bytes(payload).upper())
"""


def test_members_are_confined_and_labelled(cluster: DockerCluster) -> None:
    for member in cluster.members:
        container = member.node.container()
        assert container is not None
        host = container.attrs["HostConfig"]
        assert host["ReadonlyRootfs"]
        assert host["Init"]
        assert host["CapDrop"] == ["ALL"]
        assert not host["Privileged"]
        assert not host["Binds"] or all(bind.startswith("upheaval-") for bind in host["Binds"])
        assert container.labels["upheaval.run-id"] == cluster.config.run_id
        assert container.labels["upheaval.harness-pid"].isdigit()
        assert container.labels["upheaval.harness-start"].isdigit()
        assert container.attrs["Config"]["Healthcheck"]["Test"] == ["NONE"]


def test_whoever_looks_at_a_member_looks_no_longer_than_it_is_open(cluster: DockerCluster) -> None:
    container = cluster.member(0).node.container()
    assert container is not None

    def looking() -> int:
        return sum("--repeat" in line[-1] for line in container.top()["Processes"])

    other = DockerCluster.open(cluster.folder)
    before = looking()
    assert other.member(0).status().alive
    assert looking() == before + 1
    other.close()
    wait_until(lambda: looking() == before, timeout_s=TIMEOUT_S, describe=lambda: f"{looking()} processes look at it")


def test_a_killed_leader_is_replaced_and_returns_with_its_log(cluster: DockerCluster) -> None:
    leader = cluster.wait_until_leader(TIMEOUT_S)
    cluster.member(leader).kill()
    assert not cluster.status()[leader].alive
    successor = cluster.wait_until_leader(TIMEOUT_S, other_than=leader)
    cluster.member(leader).start()
    returned = cluster.wait_until_caught_up(leader, TIMEOUT_S)
    assert returned.leader_member_id == successor
    converge = cluster.converge(TIMEOUT_S)
    assert converge.reached, converge.why


def test_a_failed_wait_names_the_stall_of_a_member_in_a_container(cluster: DockerCluster) -> None:
    leader = cluster.wait_until_leader(TIMEOUT_S)
    (paused,) = [each for each in cluster.members if each.member_id == (leader + 1) % 3]

    def pauses() -> bool:
        paused.node.pause()
        cluster.let_pass(0.5)
        paused.node.resume()
        cluster.wait_until_caught_up(paused.member_id, TIMEOUT_S)
        return False

    with pytest.raises(UnknownOutcome) as failed:
        cluster.wait_until(pauses, 3.0, "such thing")
    stalls = str(failed.value).partition("; meanwhile ")[2]
    assert re.search(rf"a stall of [0-9]+ ms \(member-{paused.member_id}/trace\.jsonl:[0-9]+\)", stalls), failed.value


def test_a_paused_leader_is_replaced_and_follows_when_it_goes_on(cluster: DockerCluster) -> None:
    leader = cluster.wait_until_leader(TIMEOUT_S)
    cluster.member(leader).pause()
    assert not cluster.status()[leader].alive
    cluster.wait_until_leader(TIMEOUT_S, other_than=leader)
    cluster.member(leader).resume()
    assert cluster.wait_until_caught_up(leader, TIMEOUT_S).role != LEADER
    fault = list(cluster.run.read_faults())[-1]
    assert fault.what == "pause"
    assert fault.inject_proof is not None
    assert fault.inject_proof.evidence.startswith("took no turn in ")
    assert fault.heal_proof is not None
    assert fault.heal_proof.evidence.startswith("running: container ")
    assert fault.is_proved


def test_a_signal_ends_a_member_in_an_orderly_way(cluster: DockerCluster) -> None:
    member = cluster.member(0)
    for container in member.node.running():
        container.kill(signal=signal.SIGTERM.name)
    wait_until(lambda: not member.is_running(), timeout_s=TIMEOUT_S, describe=lambda: "member 0 does not end")
    member.collect()
    last = list(cluster.run.member(0).read_trace())[-1]
    assert (last.event, last.fields["status"]) == ("process-end", 0)
    member.start()
    cluster.wait_until_caught_up(0, TIMEOUT_S)


def test_sessions_are_limited_as_wished(tmp_path: Path, node_image: str, engine: Client) -> None:
    cluster = DockerCluster.create(tmp_path / "run", ClusterSpec(members=1, image=node_image, max_sessions=1))
    try:
        cluster.up()
        endpoints, resolver = cluster.ingress_endpoints(), cluster.resolver()
        with BlockingClient(endpoints, 60, resolver=resolver) as first:
            first.write("k", b"1")
            second = BlockingClient(endpoints, 60, resolver=resolver)
            with pytest.raises(NodeError, match="concurrent session limit"), second:
                second.write("k", b"2")
    finally:
        cluster.down()


def test_a_users_service_is_copied_in(tmp_path: Path, node_image: str, engine: Client) -> None:
    source = tmp_path / "source"
    source.mkdir()
    (source / "shouting.py").write_text(SHOUTING, encoding="utf-8")
    cluster = DockerCluster.create(
        tmp_path / "run", ClusterSpec(members=1, image=node_image, service="shouting:Shouting", source=str(source))
    )
    try:
        cluster.up()
        with BlockingClient(cluster.ingress_endpoints(), 60, resolver=cluster.resolver()) as client:
            assert bytes(client.request(b"hello", lambda _: True)) == b"HELLO"
    finally:
        cluster.down()


def test_what_fails_ends_what_it_started_and_nothing_else(cluster: DockerCluster) -> None:
    cluster.member(0).node.kill()
    kept = [cluster.member(member_id).incarnation() for member_id in (1, 2)]
    started: list[bool] = []
    with contextlib.suppress(KeyboardInterrupt), cluster.all_or_nothing():
        cluster.member(0).node.start()
        started.append(cluster.member(0).is_running())
        raise KeyboardInterrupt
    assert started == [True]
    assert not cluster.member(0).is_running()
    assert [cluster.member(member_id).incarnation() for member_id in (1, 2)] == kept
    cluster.member(0).node.start()
    cluster.wait_until_caught_up(0, TIMEOUT_S)


def test_a_cluster_that_was_given_up_tells_who_ended_its_members(
    tmp_path: Path, node_image: str, engine: Client
) -> None:
    cluster = DockerCluster.create(tmp_path / "run", ClusterSpec(members=1, image=node_image))
    with contextlib.suppress(KeyboardInterrupt), cluster.all_or_nothing():
        cluster.up()
        raise KeyboardInterrupt
    assert left_of(engine, cluster.config.run_id) == []
    assert [(each.what, list(each.members)) for each in cluster.run.read_controls()] == [(FORCED_END, ["0"])]
    assert any(event.event == TraceKind.PROCESS_START for event in cluster.run.member(0).read_trace())


def test_containers_go_though_the_faults_cannot_be_written(tmp_path: Path, node_image: str, engine: Client) -> None:
    cluster = DockerCluster.create(tmp_path / "run", ClusterSpec(members=1, image=node_image))
    cluster.up()
    cluster.run.faults_file.unlink()
    cluster.run.faults_file.mkdir()
    with pytest.raises(EnvironmentFault, match=r"cannot write .*faults\.jsonl"):
        cluster.member(0).kill()
    cluster.down()
    assert left_of(engine, cluster.config.run_id) == []


# The last tests, because they need the end of the shared cluster.


@pytest.fixture(scope="module")
def term_before(shared_cluster: DockerCluster) -> int:
    """The term of a cluster that was given a value and went down then."""
    with BlockingClient(shared_cluster.ingress_endpoints(), 60, resolver=shared_cluster.resolver()) as client:
        client.write("k", b"5")
    term = shared_cluster.status()[shared_cluster.wait_until_leader(TIMEOUT_S)].leadership_term_id
    shared_cluster.down()
    return term


def test_what_members_wrote_is_collected(shared_cluster: DockerCluster, term_before: int) -> None:
    assert term_before >= 0
    assert json.loads(shared_cluster.run.manifest_file.read_text())["runtime"] == "docker"
    for member in shared_cluster.members:
        folder = shared_cluster.run.member(member.member_id)
        assert any(event.event == "leadership_term" for event in folder.read_trace())
        assert folder.recording_log.stat().st_size > 0
        assert list(folder.archive.glob("*.rec"))
        assert (folder.path / "all.log").is_file()


def test_a_cluster_that_was_down_goes_on_where_it_was(shared_cluster: DockerCluster, term_before: int) -> None:
    again = DockerCluster.open(shared_cluster.folder)
    try:
        leader = again.up()
        assert again.status()[leader].leadership_term_id > term_before
        with BlockingClient(again.ingress_endpoints(), 60, resolver=again.resolver()) as client:
            assert client.read("k") == b"5"
    finally:
        again.down()
