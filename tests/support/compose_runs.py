"""Files of compose/ that are up: what a test asks them by the commands of docker, and what clients do meanwhile."""

import contextlib
import json
import os
import shutil
import subprocess
import urllib.parse
import urllib.request
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Any, Final, TypeVar

from support.compose_projects import PROJECT, left_of_project, new_name
from support.docker_runs import ENGINE_INTERVAL_S
from upheaval.runtimes import ports
from upheaval.runtimes.docker.containers import free_subnets
from upheaval.runtimes.docker.engine import Client
from upheaval.waits import wait_until
from upheaval_node.client.driver import BlockingClient
from upheaval_node.client.driving import NotSent, OutcomeUnknown
from upheaval_node.errors import TimeoutExpired
from upheaval_node.media.resolver import StaticResolver

Result = TypeVar("Result")

COMPOSE: Final = Path(__file__).resolve().parents[2] / "compose"
SUBNETS: Final = "10.214.0.0/16"
STATUS_INTERVAL_S: Final = 1.0
"""A status is a process in a container: asked for without a pause, it takes the processors that members need."""
OF_OUR_NODE: Final = ("python3", "-m", "upheaval_node.runtime.health", "--json")


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

    @contextlib.contextmanager
    def client(self) -> Iterator[BlockingClient]:
        """With a session, for `again`."""
        endpoints = {member: f"member-{member}:9001" for member in range(self.members)}
        names = {endpoints[member]: f"127.0.0.1:{port}" for member, port in enumerate(self.ports)}
        with contextlib.closing(BlockingClient(endpoints, 20, resolver=StaticResolver(names))) as client:
            open_session(client)
            yield client

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

    def await_leader(self, but: int | None = None, timeout_s: float = 240) -> int:
        return wait_until(
            lambda: self.leader(but), timeout_s=timeout_s, describe=self.describe, interval_s=STATUS_INTERVAL_S
        )

    def down(self) -> None:
        """Take it down and look that nothing is left."""
        self.compose("down", "--volumes", "--timeout", "0")
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
            open_session(client)
            return None

    return wait_until(attempt, timeout_s=240, describe=lambda: "no answer")[0]


def open_session(client: BlockingClient) -> None:
    """Another one, if it has one. Members that have just been started or killed take a while to let it in."""

    def is_open() -> bool:
        try:
            client.reconnect()
        except TimeoutExpired:
            return False
        return True

    wait_until(is_open, timeout_s=240, describe=lambda: "no session")


def drive_by_page(project: Project) -> None:
    """Users ask, and all of them are answered."""
    assert ask(project.locust, "/swarm", {"user_count": 3, "spawn_rate": 3})["success"]

    def statistics() -> Any:
        return ask(project.locust, "/stats/requests")

    wait_until(
        lambda: total(statistics())["num_requests"] >= 30,
        timeout_s=240,
        describe=lambda: str(statistics()),
        interval_s=ENGINE_INTERVAL_S,
    )
    assert ask(project.locust, "/stop", b"")["success"]
    wait_until(
        lambda: statistics()["state"] == "stopped",
        timeout_s=240,
        describe=lambda: str(statistics()["state"]),
        interval_s=ENGINE_INTERVAL_S,
    )
    done = statistics()
    assert total(done)["num_failures"] == 0, done["errors"]


def total(statistics: Any) -> Any:
    return next((row for row in statistics["stats"] if row["name"] == "Aggregated"), {"num_requests": 0})


def is_ordered(order: tuple[str, ...]) -> bool:
    """Whether the leader took it; while a member is catching up it may not be ready."""
    try:
        return bool(json.loads(docker(*order))["refused"] == "")
    except AssertionError:
        return False
