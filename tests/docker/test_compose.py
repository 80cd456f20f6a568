"""The files in compose/ with plain docker commands: start, send, kill a member, send again, take down."""

import json
import os
import shutil
import subprocess
from collections.abc import Iterator, Mapping
from pathlib import Path

import pytest

from upheaval import images
from upheaval.runtimes import ports
from upheaval.waits import wait_until
from upheaval_node.client.driver import BlockingClient
from upheaval_node.media.resolver import StaticResolver

COMPOSE = Path(__file__).resolve().parents[2] / "compose"
SUBNET = "10.214.255.0/28"


class Project:
    """One compose file that is up."""

    def __init__(self, file: str, members: int) -> None:
        base_port = ports.choose_base_port(members)
        self.members = members
        self.ports = [ports.member_ports(base_port, member)[0] for member in range(members)]
        self._file = COMPOSE / file
        self.name = f"upheaval-test-{base_port}"

    def compose(self, *arguments: str) -> str:
        environment = {f"UPHEAVAL_PORT_{member}": str(port) for member, port in enumerate(self.ports)}
        return docker(
            "compose",
            "-p",
            self.name,
            "-f",
            str(self._file),
            *arguments,
            environment={**environment, "UPHEAVAL_SUBNET": SUBNET},
        )

    def client(self) -> BlockingClient:
        endpoints = {member: f"member-{member}:9001" for member in range(self.members)}
        names = {endpoints[member]: f"127.0.0.1:{port}" for member, port in enumerate(self.ports)}
        return BlockingClient(endpoints, 20, resolver=StaticResolver(names))

    def leader(self) -> str | None:
        """The container of the leader."""
        for container in self.compose("ps", "-q").split():
            command = ("exec", container, "python3", "-m", "upheaval_node.runtime.health", "--json")
            if json.loads(docker(*command)).get("role") == "LEADER":
                return container
        return None


def docker(*arguments: str, environment: Mapping[str, str] | None = None) -> str:
    program = shutil.which("docker")
    assert program is not None
    done = subprocess.run(
        [program, *arguments],
        env={**os.environ, **(environment or {})},
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    return done.stdout


@pytest.fixture(params=[("1-member.yaml", 1), ("3-members.yaml", 3)], ids=["1 member", "3 members"])
def project(request: pytest.FixtureRequest, node_image: str) -> Iterator[Project]:
    project = Project(*request.param)
    try:
        project.compose("up", "-d", "--wait")
        yield project
    finally:
        project.compose("down", "--volumes", "--timeout", "5")
    assert docker("ps", "-aq", "--filter", f"label=com.docker.compose.project={project.name}") == ""


def test_a_killed_leader_loses_nothing(project: Project) -> None:
    with project.client() as client:
        client.write("k", b"before")
        assert client.read("k") == b"before"
    leader = wait_until(project.leader, timeout_s=20, describe=lambda: "no leader")
    docker("kill", leader)
    if project.members == 1:
        docker("start", leader)
    with project.client() as client:
        assert client.read("k") == b"before"
        client.write("k", b"after")
        assert client.read("k") == b"after"


def test_the_files_name_the_image_of_this_version() -> None:
    for file in sorted(COMPOSE.glob("*.yaml")):
        assert f"${{UPHEAVAL_NODE_IMAGE:-{images.NODE.tag}}}" in file.read_text(encoding="utf-8")
