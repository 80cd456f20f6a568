"""Members as processes tell over HTTP what they are: through an election, in one process or several."""

import json
import re
import signal
import urllib.error
import urllib.request
from collections.abc import Iterator
from pathlib import Path

import pytest

from support.prometheus_text import Exposition
from unit.runtime.member_processes import SPLIT, TOGETHER, Members, free_ports, wait_until
from upheaval_node.client.driver import BlockingClient
from upheaval_node.runtime.health import read_health

pytestmark = pytest.mark.heavy

ELECTION_CLOSED = 17
HISTOGRAM = "upheaval_commit_latency_seconds"


class Watched(Members):
    """A cluster whose members have an endpoint for metrics each."""

    def __init__(self, folder: Path, count: int, components: tuple[str, ...]) -> None:
        super().__init__(folder, count, components)
        self.metrics_ports = free_ports(count)
        for member_id, port in enumerate(self.metrics_ports):
            self.configure(member_id, metrics_port=port)

    def get(self, member_id: int, path: str) -> tuple[int, str]:
        """Status and body; 0 without an answer."""
        try:
            with urllib.request.urlopen(f"http://127.0.0.1:{self.metrics_ports[member_id]}{path}", timeout=5) as answer:
                return answer.status, answer.read().decode()
        except urllib.error.HTTPError as error:
            with error:
                return error.code, error.read().decode()
        except OSError:
            return 0, ""

    def wait_until_healthy(self) -> None:
        wait_until(lambda: all(self.get(each, "/health")[0] == 200 for each in range(len(self.metrics_ports))))

    def metrics(self, member_id: int) -> Exposition:
        status, text = self.get(member_id, "/metrics")
        assert status == 200
        return Exposition(text)

    def value(self, member_id: int, name: str, **labels: str) -> float:
        value = self.metrics(member_id).value(name, **labels)
        assert value is not None, name
        return value


@pytest.fixture(
    params=[pytest.param(TOGETHER, id="together"), pytest.param(SPLIT, id="split", marks=pytest.mark.nightly)]
)
def cluster(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Watched]:
    cluster = Watched(tmp_path, 3, request.param)
    cluster.start_all()
    yield cluster
    cluster.end()


def is_settled(cluster: Watched, member_ids: list[int]) -> bool:
    found = [cluster.metrics(member_id) for member_id in member_ids]
    is_quiet = all(each.value("upheaval_election_state") == ELECTION_CLOSED for each in found)
    return is_quiet and sorted(each.role for each in found) == ["follower"] * (len(found) - 1) + ["leader"]


def are_even(cluster: Watched, member_ids: list[int], name: str) -> bool:
    return len({cluster.metrics(member_id).value(name) for member_id in member_ids}) == 1


def follows_another(client: BlockingClient, leader: int) -> bool:
    """Whether the client, which learns nothing between its calls, knows that `leader` leads no more."""
    client.idle(0.02)
    return client.leader_member_id != leader


def test_the_kill_of_the_leader_shows_in_the_metrics_of_the_others(cluster: Watched) -> None:
    members = [0, 1, 2]
    cluster.wait_until_healthy()
    leader = cluster.wait_until_leader()
    wait_until(lambda: is_settled(cluster, members))
    with BlockingClient(cluster.ingress, timeout=60) as client:
        for number in range(100):
            client.write("key", b"%d" % number)
        for member_id in members:
            wait_until(lambda member_id=member_id: cluster.value(member_id, "upheaval_sessions") == 1)  # type: ignore[misc]
        assert cluster.value(leader, f"{HISTOGRAM}_count") > 10
        term = cluster.value(leader, "upheaval_leadership_term_id")
        others = [each for each in members if each != leader]
        before = {each: cluster.value(each, "upheaval_elections_total") for each in others}
        for process in cluster.of_member(leader):
            process.kill()
        assert cluster.get(leader, "/metrics") == cluster.get(leader, "/health") == (0, "")
        wait_until(lambda: is_settled(cluster, others))
        wait_until(lambda: follows_another(client, leader))
        client.write("key", b"again")
        for each in others:
            assert cluster.value(each, "upheaval_leadership_term_id") > term
            assert cluster.value(each, "upheaval_elections_total") > before[each]
            assert cluster.value(each, "upheaval_sessions") == 1
        successor = next(each for each in others if cluster.metrics(each).role == "leader")
        assert cluster.value(successor, f"{HISTOGRAM}_count") >= 1
    wait_until(lambda: are_even(cluster, others, "upheaval_commit_position_bytes"))
    wait_until(lambda: are_even(cluster, others, "upheaval_append_position_bytes"))
    wait_until(lambda: cluster.value(successor, "upheaval_sessions") == 0)


def test_health_is_what_the_command_says(cluster: Watched) -> None:
    cluster.wait_until_healthy()
    wait_until(lambda: is_settled(cluster, [0, 1, 2]))
    for member_id in range(3):
        status, body = cluster.get(member_id, "/health")
        assert status == 200
        told = json.loads(body)
        assert told["role"] == cluster.metrics(member_id).role.upper()
        assert told.keys() == read_health(str(cluster.path(member_id))).keys()
        assert told["pid"] == read_health(str(cluster.path(member_id)))["pid"]


def test_a_member_without_its_consensus_module_is_not_healthy(tmp_path: Path) -> None:
    cluster = Watched(tmp_path, 1, SPLIT)
    try:
        archive = cluster.start(0, "archive")
        wait_until(lambda: cluster.get(0, "/health")[0] != 0)
        assert cluster.get(0, "/health") == (503, '{"alive": false}\n')
        assert cluster.metrics(0).role == ""
        cluster.start(0, "consensus")
        cluster.start(0, "service")
        wait_until(lambda: cluster.get(0, "/health")[0] == 200)
        wait_until(lambda: is_settled(cluster, [0]))
        archive.send_signal(signal.SIGTERM)
        wait_until(lambda: all(process.poll() == 0 for process in cluster.of_member(0)))
    finally:
        cluster.end()


DASHBOARD = Path(__file__).resolve().parents[2] / "compose/3-members-toxiproxy/grafana/dashboards/upheaval.json"


def test_every_metric_of_the_dashboard_is_one_of_a_member(tmp_path: Path) -> None:
    panels = json.loads(DASHBOARD.read_text())["panels"]
    questions = [target["expr"] for panel in panels for target in panel["targets"]]
    named = {name for question in questions for name in re.findall(r"upheaval_[a-z_]+", question)}
    cluster = Watched(tmp_path, 1, TOGETHER)
    try:
        cluster.start_all()
        cluster.wait_until_healthy()
        wait_until(lambda: is_settled(cluster, [0]))
        known = cluster.metrics(0).families
    finally:
        cluster.end()
    assert len(named) >= 10
    assert {name.removesuffix("_bucket") for name in named} <= known.keys()
    assert len({panel["id"] for panel in panels}) == len(panels)
    assert {target["refId"] for panel in panels for target in panel["targets"]} <= set("ABCD")
    sources = (DASHBOARD.parents[1] / "datasources" / "prometheus.yaml").read_text()
    assert {f"uid: {panel['datasource']['uid']}" in sources for panel in panels} == {True}
