"""Locust users on containers: a leader dies under load, and locust, history and log agree on what happened."""

import signal
from collections.abc import Iterator
from pathlib import Path

import pytest

from support.docker_runs import left_of, upheaval
from support.load_runs import LoadCommands, finish, kill_the_leader, require_agreement
from upheaval.records import RunFolder
from upheaval.runtimes.docker.cluster import DockerCluster
from upheaval.runtimes.docker.engine import Client
from upheaval.system import ClusterSpec


@pytest.fixture
def load(tmp_path: Path, node_image: str, engine: Client) -> Iterator[LoadCommands]:
    """Starts `upheaval load` on a folder; nothing of its run is left in the engine."""
    commands = LoadCommands(tmp_path / "run")
    yield commands
    commands.end()
    assert left_of(engine, RunFolder(commands.folder).read_manifest().run_id) == []


def test_a_leader_dies_under_load_and_the_run_is_judged(load: LoadCommands) -> None:
    process = load.start("--runtime", "docker", "--users", "12", "--rate", "5", "--duration", "14s", "--timeout", "3")
    load.wait_until_loaded(process)
    cluster = DockerCluster.open(load.folder)
    assert cluster.config.max_sessions >= 24
    kill_the_leader(cluster)
    cluster.close()
    result = finish(process, 0)
    assert require_agreement(result) >= 100
    (fault,) = RunFolder(load.folder).read_faults()
    assert fault.what == "kill"
    page = load.folder / "report.html"
    assert upheaval("report", str(load.folder), "--out", str(page)).returncode == 0
    assert "kill" in page.read_text()


@pytest.mark.nightly
def test_a_running_cluster_is_judged_and_goes_on_running(load: LoadCommands, node_image: str) -> None:
    cluster = DockerCluster.create(load.folder, ClusterSpec(image=node_image, members=1), detached=True)
    try:
        cluster.up()
        result = load.run("--users", "4", "--rate", "20", "--duration", "4s")
        earlier = require_agreement(result)
        assert cluster.is_running()
        again = load.run("--users", "4", "--rate", "20", "--duration", "4s")
        require_agreement(again, earlier=earlier)
    finally:
        cluster.down()


@pytest.mark.nightly
def test_ctrl_c_leaves_nothing(load: LoadCommands) -> None:
    process = load.start("--runtime", "docker", "--users", "2", "--duration", "600s", "--members", "1")
    load.wait_until_loaded(process)
    process.send_signal(signal.SIGINT)
    output, errors = process.communicate(timeout=240)
    assert (process.returncode, output) == (130, "")
    assert "nothing was left running" in errors
    assert load.users() == []
