"""The command line on containers, and the one line that it says when the engine does not play along."""

import socket
from pathlib import Path

import pytest

from support.docker_runs import left_of, upheaval
from upheaval.errors import EnvironmentFault
from upheaval.records import RunFolder
from upheaval.runtimes.docker.cluster import DockerCluster
from upheaval.runtimes.docker.engine import Client
from upheaval.system import ClusterSpec


def test_a_cluster_by_hand(tmp_path: Path, node_image: str, engine: Client) -> None:
    where = ("--dir", str(tmp_path / "cluster"))
    try:
        assert upheaval("up", "--runtime", "docker", *where).returncode == 0
        assert upheaval("client", *where, "register", "write", "k", "5").stdout == "ok\n"
        assert upheaval("kill", *where, "0").returncode == 0
        assert upheaval("client", *where, "--timeout", "30", "register", "read", "k").stdout == "5\n"
        assert upheaval("start", *where, "0").stdout == "started member 0\n"
        assert '"alive": false' not in upheaval("status", *where, "--json").stdout
    finally:
        done = upheaval("down", *where)
    assert done.returncode == 0, done.stderr
    assert left_of(engine, RunFolder(tmp_path / "cluster").read_manifest().run_id) == []


@pytest.mark.parametrize(
    ("host", "message"),
    [
        ("unix:///nonexistent/docker.sock", "no Docker engine: its socket does not exist"),
        ("tcp://127.0.0.1:1", "no Docker engine answers"),
    ],
)
def test_without_an_engine(tmp_path: Path, host: str, message: str) -> None:
    folder = tmp_path / "run"
    done = upheaval("demo", "--runtime", "docker", "--dir", str(folder), DOCKER_HOST=host)
    assert (done.returncode, done.stdout) == (2, "")
    (line,) = [line for line in done.stderr.splitlines() if not line.startswith("[")]  # apart from the progress
    assert message in line
    assert not folder.exists()


def test_a_missing_image_is_named(tmp_path: Path) -> None:
    with pytest.raises(EnvironmentFault, match="the image upheaval/nothing:1 is missing: build it with"):
        DockerCluster.create(tmp_path / "run", ClusterSpec(image="upheaval/nothing:1"))
    for own in ("my/nothing:1", "aeron:1"):
        with pytest.raises(EnvironmentFault, match=f"missing: build it with `docker build -t {own}`"):
            DockerCluster.create(tmp_path / "run", ClusterSpec(image=own))
    with pytest.raises(EnvironmentFault, match=r"with `upheaval images build aeron --aeron-version 1\.2`"):
        DockerCluster.create(tmp_path / "run", ClusterSpec(image="upheaval/aeron:1.2"))
    assert not (tmp_path / "run").exists()


def test_a_port_that_is_taken_is_named(tmp_path: Path, node_image: str) -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
        done = upheaval("up", "--runtime", "docker", "--dir", str(tmp_path / "run"), "--base-port", str(port))
    assert done.returncode == 2
    assert f"port {port} is in use" in done.stderr
    assert not (tmp_path / "run").exists()
