"""The files in compose/ with plain docker commands: start, send, kill a member, send again, take down."""

import contextlib
import dataclasses
import json
import os
import shlex
import shutil
import subprocess
import time
import urllib.parse
import urllib.request
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Any, TypeVar

import docker as docker_sdk
import pytest

from support.built_images import require
from support.compose_projects import PROJECT, left_of_project, new_name, remove_abandoned, remove_project
from support.page_commands import blocks_of
from support.pages import page_blocks
from upheaval import images
from upheaval.cli.main import main
from upheaval.errors import EnvironmentFault
from upheaval.runtimes import ports
from upheaval.runtimes.docker.containers import free_subnets
from upheaval.runtimes.docker.engine import Client
from upheaval.runtimes.owner import Owner
from upheaval.waits import wait_until
from upheaval_node.client.driver import BlockingClient
from upheaval_node.client.driving import NotSent, OutcomeUnknown
from upheaval_node.media.resolver import StaticResolver

Result = TypeVar("Result")

COMPOSE = Path(__file__).resolve().parents[2] / "compose"
SUBNETS = "10.214.0.0/16"
LATENCY_S = 0.4
STATUS_INTERVAL_S = 1.0
"""A status is a process in a container: asked for without a pause, it takes the processors that members need."""
OF_JVMS_S = 240.0
"""What members of Aeron are given: beside twelve busy processes, one that was killed took 35 s to follow again."""
INSIDE_AERON = ("python3", "-m", "upheaval.system.aeron_inside")
OF_OUR_NODE = ("python3", "-m", "upheaval_node.runtime.health", "--json")


class Project:
    """One compose file that is up; `status` is the command by which a member tells of itself."""

    def __init__(
        self,
        engine: Client,
        file: str,
        members: int,
        profiles: str = "",
        status: tuple[str, ...] = OF_OUR_NODE,
    ) -> None:
        base_port = ports.choose_base_port(members + 1)
        first, *others = free_subnets(engine, SUBNETS, 1 + members)
        self.members = members
        self.ports = [ports.member_ports(base_port, member)[0] for member in range(members)]
        self.toxiproxy, self.locust, self.prometheus, self.grafana = ports.member_ports(base_port, members)[:4]
        self._subnets = {f"UPHEAVAL_SUBNET_{member}": subnet for member, subnet in enumerate(others)}
        self._subnets["UPHEAVAL_SUBNET"] = first
        self._status = status
        self._file = COMPOSE / file
        self._profiles = profiles
        self._engine = engine
        self.name = new_name()

    def compose(self, *arguments: str) -> str:
        environment = {
            **self._subnets,
            "COMPOSE_PROFILES": self._profiles,
            **{f"UPHEAVAL_PORT_{member}": str(port) for member, port in enumerate(self.ports)},
            "UPHEAVAL_TOXIPROXY_PORT": str(self.toxiproxy),
            "UPHEAVAL_LOCUST_PORT": str(self.locust),
            "UPHEAVAL_PROMETHEUS_PORT": str(self.prometheus),
            "UPHEAVAL_GRAFANA_PORT": str(self.grafana),
        }
        return docker("compose", "-p", self.name, "-f", str(self._file), *arguments, environment=environment)

    def client(self) -> BlockingClient:
        endpoints = {member: f"member-{member}:9001" for member in range(self.members)}
        names = {endpoints[member]: f"127.0.0.1:{port}" for member, port in enumerate(self.ports)}
        return BlockingClient(endpoints, 20, resolver=StaticResolver(names))

    def container(self, service: str) -> str:
        """Its id, from the engine: `docker compose ps` costs a second of a processor, and polls ask for it often."""
        labels = [f"{PROJECT}={self.name}", f"com.docker.compose.service={service}", "com.docker.compose.oneoff=False"]
        (container,) = self._engine.containers.list(all=True, filters={"label": labels})
        return str(container.id)

    def status(self, member: int) -> dict[str, Any]:
        """What it tells of itself: nothing of one that is not there."""
        try:
            answer: dict[str, Any] = json.loads(docker("exec", self.container(f"member-{member}"), *self._status))
        except AssertionError:
            return {}
        return answer

    def describe(self) -> str:
        """Status of each member, and state and last output of the containers of those that have none."""
        lines = []
        for member in range(self.members):
            status = self.status(member)
            lines.append(f"member {member}: {status}")
            if not status:
                container = self.container(f"member-{member}")
                lines += [docker("inspect", "--format", "{{json .State}}", container)]
                lines += [docker("logs", "--tail", "30", container, both=True)]
        return "\n".join(lines)

    def leader(self, but: int | None = None) -> int | None:
        """The member that leads and is not the one named."""
        others = (member for member in range(self.members) if member != but)
        return next((member for member in others if self.status(member).get("role") == "LEADER"), None)

    def await_leader(self, but: int | None = None, timeout_s: float = 20) -> int:
        return wait_until(
            lambda: self.leader(but), timeout_s=timeout_s, describe=self.describe, interval_s=STATUS_INTERVAL_S
        )

    def down(self) -> None:
        """Take it down and look that nothing is left."""
        self.compose("down", "--volumes", "--timeout", "5")
        assert left_of_project(self._engine, self.name) == []


@contextlib.contextmanager
def running(project: Project) -> Iterator[Project]:
    """It is up and healthy inside, and taken down at the end."""
    try:
        project.compose("up", "-d", "--wait")
        yield project
    finally:
        project.down()


def docker(*arguments: str, environment: Mapping[str, str] | None = None, both: bool = False) -> str:
    """What a command of docker prints; with `both` on stderr, too."""
    program = shutil.which("docker")
    assert program is not None
    done = subprocess.run(
        [program, *arguments],
        env={**os.environ, **(environment or {})},
        capture_output=True,
        text=True,
        timeout=180,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    return done.stdout + done.stderr if both else done.stdout


def ask(port: int, path: str, body: Mapping[str, Any] | bytes | None = None, method: str | None = None) -> Any:
    """The JSON that a web server of the project answers; a mapping is sent as a form."""
    data = urllib.parse.urlencode(body).encode() if isinstance(body, Mapping) else body
    request = urllib.request.Request(f"http://127.0.0.1:{port}{path}", data=data, method=method)
    with urllib.request.urlopen(request, timeout=20) as response:
        text = response.read()
    return json.loads(text) if text else None


@pytest.fixture(scope="module")
def tidy(engine: Client) -> Client:
    """An engine without what killed test runs left."""
    remove_abandoned(engine)
    return engine


@pytest.fixture(params=[("1-member.yaml", 1), ("3-members.yaml", 3)], ids=["1 member", "3 members"])
def project(request: pytest.FixtureRequest, node_image: str, tidy: Client) -> Iterator[Project]:
    with running(Project(tidy, *request.param)) as project:
        yield project


@pytest.fixture(scope="module")
def platform(tidy: Client) -> Iterator[Project]:
    """Three members with Toxiproxy, locust and Prometheus."""
    for image in (images.NODE, images.TOXIPROXY, images.LOAD, images.PROMETHEUS):
        require(tidy, image)
    with running(Project(tidy, "3-members-toxiproxy.yaml", 3)) as project:
        yield project


def kill_the_leader_between_two_writes(project: Project) -> None:
    with project.client() as client:
        again(client, lambda: client.write("k", b"before"))
        assert again(client, lambda: client.read("k")) == b"before"
    leader = project.container(f"member-{project.await_leader()}")
    docker("kill", leader)
    if project.members == 1:
        docker("start", leader)
    with project.client() as client:
        assert again(client, lambda: client.read("k")) == b"before"
        again(client, lambda: client.write("k", b"after"))
        assert again(client, lambda: client.read("k")) == b"after"
    docker("start", leader)


def again(client: BlockingClient, act: Callable[[], Result]) -> Result:
    """What `act` returns. On a busy machine members elect anew, which ends sessions: then once more in another one."""

    def attempt() -> tuple[Result] | None:
        try:
            return (act(),)
        except (NotSent, OutcomeUnknown):
            client.reconnect()
            return None

    return wait_until(attempt, timeout_s=240, describe=lambda: "no answer")[0]


def test_a_killed_leader_loses_nothing_and_a_cluster_that_was_ended_stays_down(project: Project) -> None:
    kill_the_leader_between_two_writes(project)
    members = [project.container(f"member-{member}") for member in range(project.members)]

    def are_settled() -> bool:
        states = [project.status(member).get("election_state") for member in range(project.members)]
        return states == ["CLOSED"] * project.members

    # One that is catching up hears nothing of the end, and catches up at the next start.
    wait_until(are_settled, timeout_s=240, describe=lambda: "not all members are settled")
    leader = members[project.await_leader()]
    order = ("exec", leader, "python3", "-m", "upheaval_node.runtime.control", "shutdown", "/var/lib/upheaval")
    wait_until(lambda: is_ordered(order), timeout_s=240, describe=lambda: "no member takes the shutdown")
    wait_until(
        lambda: {state_of(member) for member in members} == {"exited 0 0"},
        timeout_s=240,
        describe=lambda: str([state_of(member) for member in members]),
    )
    for member in members:
        told = [json.loads(line) for line in docker("logs", "--tail", "20", member, both=True).splitlines()]
        assert told[-1]["event"] == "process-end"
        assert "cluster-end" in {line["event"] for line in told}
    docker("start", *members)
    with project.client() as client:
        assert again(client, lambda: client.read("k")) == b"after"


def is_ordered(order: tuple[str, ...]) -> bool:
    """Whether the leader took it; while a member is catching up it may not be ready."""
    try:
        return bool(json.loads(docker(*order))["refused"] == "")
    except AssertionError:
        return False


def state_of(container: str) -> str:
    """Its state, exit status, and how often the engine started it again."""
    return docker("inspect", "-f", "{{.State.Status}} {{.State.ExitCode}} {{.RestartCount}}", container).strip()


def test_a_killed_leader_loses_nothing_with_proxies(platform: Project) -> None:
    kill_the_leader_between_two_writes(platform)


def test_the_client_of_the_page_reaches_the_members(platform: Project) -> None:
    (block,) = [block for block in page_blocks("python") if "docker" in block.marks]
    text = block.block.text.replace("{19001 + 10 * n}", "{ports[n]}")
    assert "ports" in text
    exec(text, {"ports": platform.ports})
    with platform.client() as client:
        assert again(client, lambda: client.read("k")) == b"5"


def test_members_reach_each_other_only_through_the_proxy(platform: Project) -> None:
    script = """
import socket, sys
for host in sys.argv[1:]:
    try:
        socket.create_connection((host, 9002), 1).close()
        print(host, "reached")
    except OSError:
        print(host, "out of reach")
"""
    other = platform.container("member-1")
    address = docker("inspect", "-f", "{{range .NetworkSettings.Networks}}{{.IPAddress}}{{end}}", other).strip()
    command = ("exec", platform.container("member-0"), "python3", "-c", script, "member-1", address, "member-0")
    assert docker(*command).splitlines() == [
        "member-1 out of reach",
        f"{address} out of reach",
        "member-0 reached",
    ]


def test_a_toxic_on_the_links_of_the_leader_is_felt(platform: Project) -> None:
    slowed: dict[int, list[str]] = {}
    with platform.client() as client:
        assert min(seconds_of_a_write(client) for _ in range(5)) < LATENCY_S
        times: list[float] = []
        while len(times) < 3:
            leader = platform.await_leader()
            if leader not in slowed:
                slowed[leader] = slow_log_links(platform, leader)
            seconds = seconds_of_a_write(client)
            # On a busy machine another member may lead meanwhile, whose links are fast.
            if platform.leader() == leader:
                times.append(seconds)
        assert min(times) >= LATENCY_S, times
        for link in [link for links in slowed.values() for link in links]:
            ask(platform.toxiproxy, f"{link}/slow", method="DELETE")
        wait_until(lambda: seconds_of_a_write(client) < LATENCY_S, timeout_s=240, describe=lambda: "still slow")


def slow_log_links(platform: Project, leader: int) -> list[str]:
    """Latency on the log's way from the leader, which dials: upstream. Returns the toxics' paths."""
    toxic = {
        "type": "latency",
        "name": "slow",
        "stream": "upstream",
        "attributes": {"latency": round(LATENCY_S * 1000)},
    }
    links = [f"/proxies/{leader}-to-{other}-log/toxics" for other in range(3) if other != leader]
    for link in links:
        ask(platform.toxiproxy, link, json.dumps(toxic).encode())
    return links


def seconds_of_a_write(client: BlockingClient) -> float:
    def write() -> float:
        begin = time.monotonic()
        client.write("timed", b"x")
        return time.monotonic() - begin

    return again(client, write)


def test_locust_is_started_from_its_page(platform: Project) -> None:
    platform.await_leader()
    drive_by_page(platform, timeout_s=30)


def drive_by_page(project: Project, timeout_s: float) -> None:
    """Users ask, and all of them are answered."""
    assert ask(project.locust, "/swarm", {"user_count": 3, "spawn_rate": 3})["success"]

    def statistics() -> Any:
        return ask(project.locust, "/stats/requests")

    wait_until(
        lambda: total(statistics())["num_requests"] >= 30, timeout_s=timeout_s, describe=lambda: str(statistics())
    )
    assert ask(project.locust, "/stop", b"")["success"]
    wait_until(lambda: statistics()["state"] == "stopped", timeout_s=240, describe=lambda: str(statistics()["state"]))
    assert total(statistics())["num_failures"] == 0


def total(statistics: Any) -> Any:
    return next((row for row in statistics["stats"] if row["name"] == "Aggregated"), {"num_requests": 0})


def test_locust_runs_without_a_page(platform: Project) -> None:
    platform.await_leader()
    arguments = ("--headless", "--users", "2", "--run-time", "2s", "--json")
    statistics = json.loads(platform.compose("run", "--rm", "-T", "locust", *arguments))
    assert sum(row["num_requests"] for row in statistics) > 0
    assert sum(row["num_failures"] for row in statistics) == 0


def test_prometheus_sees_every_member_and_the_proxy(platform: Project) -> None:
    def value(query: str) -> float:
        answer = ask(platform.prometheus, "/api/v1/query?" + urllib.parse.urlencode({"query": query}))
        return sum(float(each["value"][1]) for each in answer["data"]["result"])

    for query, expected in (
        ('up{job="members"}', 3),
        ('up{job="links"}', 1),
        ('upheaval_role{role="leader"}', 1),
    ):
        wait_until(
            lambda q=query, n=expected: value(q) == n, timeout_s=240, describe=lambda q=query: f"{q}: {value(q)}"
        )  # type: ignore[misc]
    assert value('up{job="members"}') == 3


def test_subnets_that_somebody_has_are_not_drawn(engine: Client) -> None:
    within = "10.215.0.0/27"
    taken, free = sorted(free_subnets(engine, within, 2))
    pool = docker_sdk.types.IPAMConfig(pool_configs=[docker_sdk.types.IPAMPool(subnet=taken)])
    network = engine.networks.create(new_name(), ipam=pool)
    try:
        assert [free_subnets(engine, within, 1) for _ in range(3)] == [[free]] * 3
        with pytest.raises(EnvironmentFault, match=f"no 2 subnets of {within} are free"):
            free_subnets(engine, within, 2)
    finally:
        network.remove()


@pytest.fixture(params=["backup", pytest.param("standby", marks=pytest.mark.nightly)])
def companion(request: pytest.FixtureRequest) -> str:
    """The kind of the node beside the members."""
    return str(request.param)


@pytest.fixture
def accompanied(companion: str, node_image: str, tidy: Client) -> Iterator[Project]:
    """Three members and that node."""
    with running(Project(tidy, "3-members.yaml", 3, profiles=companion)) as project:
        yield project


def test_a_new_cluster_begins_with_a_copy_of_the_volume_of_a_companion(
    companion: str,
    accompanied: Project,
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """By the commands of docs/backup.md and docs/standby.md."""
    monkeypatch.chdir(tmp_path)
    (block,) = [block for block in blocks_of(f"{companion}.md") if block.info == "sh docker"]
    prefix = f"docker compose -f compose/3-members.yaml --profile {companion} "
    assert all(line.startswith(prefix) for line in block.text.splitlines())
    up, health, stop, copy = (shlex.split(line.removeprefix(prefix)) for line in block.text.splitlines())
    assert up == ["up", "-d", "--wait"]
    reached = {"backup": "live_log_position", "standby": "applied_position"}[companion]

    def has_all() -> bool:
        held = json.loads(accompanied.compose(*health))
        return bool(held["state"] == "BACKING_UP" and held[reached] >= committed)

    with accompanied.client() as client:
        again(client, lambda: client.write("k", b"kept"))
    committed = accompanied.status(accompanied.await_leader())["commit_position"]
    wait_until(has_all, timeout_s=240, describe=lambda: f"the {companion} does not come to position {committed}")
    accompanied.compose(*stop)
    accompanied.compose(*copy)
    command = {"backup": "restore", "standby": "promote"}[companion]
    try:
        assert main([command, "--from", f"{companion}-0", "--dir", "new"]) == 0, capsys.readouterr().err
        assert main(["client", "--dir", "new", "register", "read", "k"]) == 0
        assert b"kept".hex() in capsys.readouterr().out
    finally:
        assert main(["down", "--dir", "new"]) == 0


def test_what_a_killed_test_run_left_is_removed_and_nothing_else(engine: Client, node_image: str) -> None:
    """Made without compose, by the same labels: a project of a process that is gone, and one of this process."""
    me = Owner.me()
    gone, ours = new_name(dataclasses.replace(me, start="1")), new_name()
    try:
        for name in (gone, ours):
            labels = {PROJECT: name}
            engine.networks.create(name, labels=labels)
            engine.volumes.create(name, labels=labels)
            engine.containers.create(node_image, labels=labels, network=name, volumes={name: {"bind": "/x"}})
        kept = left_of_project(engine, ours)
        assert len(kept) == len(left_of_project(engine, gone)) == 3
        remove_abandoned(engine)
        assert left_of_project(engine, gone) == []
        assert left_of_project(engine, ours) == kept
    finally:
        remove_project(engine, gone)
        remove_project(engine, ours)


@pytest.fixture
def of_aeron(tidy: Client) -> Iterator[Project]:
    require(tidy, images.AERON)
    require(tidy, images.LOAD)
    with running(Project(tidy, "3-members-aeron.yaml", 3, "load", status=(*INSIDE_AERON, "status"))) as project:
        yield project


def test_members_of_aeron_elect_again_answer_locust_and_take_a_snapshot(of_aeron: Project) -> None:
    first = of_aeron.await_leader(timeout_s=OF_JVMS_S)
    docker("kill", of_aeron.container(f"member-{first}"))
    second = of_aeron.await_leader(but=first, timeout_s=OF_JVMS_S)
    drive_by_page(of_aeron, timeout_s=OF_JVMS_S)
    leader = of_aeron.container(f"member-{second}")
    wait_until(
        lambda: is_ordered(("exec", leader, *INSIDE_AERON, "control", "snapshot")),
        timeout_s=OF_JVMS_S,
        describe=lambda: "the leader takes no snapshot",
        interval_s=STATUS_INTERVAL_S,
    )
    wait_until(
        lambda: json.loads(docker("exec", leader, *INSIDE_AERON, "control"))["snapshot_count"] == 1,
        timeout_s=OF_JVMS_S,
        describe=lambda: docker("exec", leader, *INSIDE_AERON, "control"),
        interval_s=STATUS_INTERVAL_S,
    )
    # It is started again by hand: a container that was killed is not one that failed.
    docker("start", of_aeron.container(f"member-{first}"))

    def follows() -> bool:
        mine, leaders = of_aeron.status(first), of_aeron.status(second)
        return bool(mine.get("role") == "FOLLOWER" and mine["commit_position"] == leaders.get("commit_position"))

    wait_until(
        follows,
        timeout_s=OF_JVMS_S,
        describe=of_aeron.describe,
        interval_s=STATUS_INTERVAL_S,
    )


def test_the_files_name_the_images_of_this_version() -> None:
    files = {file.name: file.read_text(encoding="utf-8") for file in sorted(COMPOSE.glob("*.yaml"))}
    members = {"1-member.yaml", "3-members.yaml", "3-members-aeron.yaml", "3-members-toxiproxy.yaml"}
    assert files.keys() == {*members, "spark.yaml"}
    assert f"${{UPHEAVAL_ANALYSIS_IMAGE:-{images.ANALYSIS.tag}}}" in files.pop("spark.yaml")
    assert f"${{UPHEAVAL_AERON_IMAGE:-{images.AERON.tag}}}" in files.pop("3-members-aeron.yaml")
    for text in files.values():
        assert f"${{UPHEAVAL_NODE_IMAGE:-{images.NODE.tag}}}" in text
        assert "version:" not in text
    for image in (images.TOXIPROXY, images.LOAD, images.PROMETHEUS):
        assert f"_IMAGE:-{image.tag}}}" in files["3-members-toxiproxy.yaml"]
