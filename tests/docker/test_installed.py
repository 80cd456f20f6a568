"""An installed wheel runs containers and compose files, in a folder outside of any clone."""

import json
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest

from support.compose_projects import left_of_project, new_name, remove_project
from support.docker_runs import left_of
from support.stranger import environment, run_ids
from upheaval.checkers.verdict import Verdict
from upheaval.runtimes import ports
from upheaval.runtimes.docker.containers import free_subnets
from upheaval.runtimes.docker.engine import Client

TIMEOUT_S = 400
SUBNETS = "10.214.0.0/16"
ATTEMPTS = 5
TAKEN = ("overlaps with other one", "port is already allocated", "address already in use")
"""What the engine says if another suite took the subnet or the port in between."""


@pytest.fixture
def project(engine: Client) -> Iterator[str]:
    """The name of a compose project, of which nothing is left."""
    name = new_name()
    yield name
    remove_project(engine, name)


def run(folder: Path, *command: str, **settings: str) -> "subprocess.CompletedProcess[str]":
    return subprocess.run(
        command,
        cwd=folder,
        env=environment() | settings,
        capture_output=True,
        text=True,
        timeout=TIMEOUT_S,
        check=False,
    )


def test_its_images_are_those_of_a_clone_and_a_scenario_runs_on_them(
    tmp_path: Path, python: Path, node_image: str, engine: Client
) -> None:
    upheaval = str(python.with_name("upheaval"))
    listed = run(tmp_path, upheaval, "images", "list", "--json")
    assert listed.returncode == 0, listed.stderr
    (node,) = [image for image in json.loads(listed.stdout) if image["tag"] == node_image]
    assert node["is_current"]
    done = run(tmp_path, upheaval, "run", "leader-killed", "--runtime", "docker")
    # On a machine that is too slow for its load the run is unknown.
    assert done.returncode in (Verdict.VALID.exit_status, Verdict.UNKNOWN.exit_status), done.stdout + done.stderr
    (run_id,) = run_ids(tmp_path)
    assert left_of(engine, run_id) == []


def test_a_compose_file_that_it_prints_comes_up(
    tmp_path: Path, python: Path, node_image: str, engine: Client, project: str
) -> None:
    printed = run(tmp_path, str(python.with_name("upheaval")), "compose", "1-member")
    assert printed.returncode == 0, printed.stderr
    (tmp_path / "compose.yaml").write_text(printed.stdout, encoding="utf-8")
    compose = ("docker", "compose", "-p", project)
    for _ in range(ATTEMPTS):
        (subnet,) = free_subnets(engine, SUBNETS, 1)
        port = ports.member_ports(ports.choose_base_port(1), 0)[0]
        settings = {"UPHEAVAL_SUBNET": subnet, "UPHEAVAL_PORT_0": str(port)}
        up = run(tmp_path, *compose, "up", "--detach", "--wait", **settings)
        if not any(reason in up.stderr for reason in TAKEN):
            break
    assert up.returncode == 0, up.stderr
    down = run(tmp_path, *compose, "down", "--volumes", **settings)
    assert down.returncode == 0, down.stderr
    assert left_of_project(engine, project) == []
