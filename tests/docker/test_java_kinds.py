"""Services in Java of several kinds, on members of Aeron in containers."""

import subprocess
import sys
from pathlib import Path
from typing import Final

import pytest

from support.docker_runs import left_of
from support.java_kinds import ask_across_failover_and_restart, compile_kinds, require_right
from support.stranger import copy_of, pytest_in
from upheaval import Cluster, images
from upheaval.records import RunFolder
from upheaval.runtimes.docker.engine import Client

pytestmark = pytest.mark.nightly

START_S: Final = 240.0
"""Three containers of Aeron begin at once."""


@pytest.fixture(scope="module", autouse=True)
def _built(engine: Client) -> None:
    for image in (images.AERON, images.NETFAULT):
        images.build(engine, image, base=None, offline=True, say=print)


@pytest.mark.parametrize("name", ["Accounts", "News"])
def test_a_right_service_of_each_kind_is_not_accused_in_containers(name: str, tmp_path: Path, engine: Client) -> None:
    """Answers and timers; broadcasts beside answers."""
    source, folder = compile_kinds(tmp_path), tmp_path / "run"
    service = f"classes:kinds.{name}"
    cluster = Cluster(service, source, runtime="docker", system="aeron", witnesses=True, folder=folder)
    try:
        cluster.up(START_S)
        require_right(ask_across_failover_and_restart(cluster))
    finally:
        cluster.down()
    assert left_of(engine, RunFolder(folder).read_manifest().run_id) == []


def test_a_service_with_sbe_and_a_snapshot_of_several_messages_runs_in_containers(tmp_path: Path) -> None:
    folder = copy_of("java-rooms", tmp_path / "rooms")
    subprocess.run(["mvn", "-B", "-q", "package"], cwd=folder, check=True)
    done = pytest_in(folder, Path(sys.executable), "--runtime", "docker", "tests/test_rooms.py", timeout_s=600)
    assert done.returncode == 0, done.stdout + done.stderr
