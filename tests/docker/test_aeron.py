"""Members of Aeron Cluster in containers: a leader is killed under load and comes back, and the run is judged."""

import subprocess
import sys
from pathlib import Path

import pytest

from support.docker_runs import left_of
from support.stranger import copy_of, pytest_in
from upheaval import images
from upheaval.checkers.run import verify_run
from upheaval.checkers.verdict import Verdict
from upheaval.cluster import end_run, perform
from upheaval.errors import UsageError
from upheaval.runtimes.docker.cluster import DockerCluster
from upheaval.runtimes.docker.engine import Client
from upheaval.runtimes.process_load import ProcessLoad
from upheaval.system import ClusterSpec
from upheaval.workload import WorkloadSettings

VERSION = "1.49.3"
"""1.51.0 may lose what it acknowledged when leaders change often, which a slow machine is enough for."""
WAIT_S = 90.0


@pytest.mark.nightly
def test_a_leader_of_aeron_is_killed_and_returns(tmp_path: Path, engine: Client) -> None:
    image = images.image_named("aeron", VERSION)
    images.build(engine, image, base=None, offline=True, say=print)
    assert images.problems_of(engine, image) == []
    cluster = DockerCluster.create(tmp_path / "run", ClusterSpec(system=f"aeron:{VERSION}"))
    try:
        cluster.up(WAIT_S)
        with ProcessLoad(cluster, WorkloadSettings(rate=200, slots=8)) as load:
            load.wait_until_acknowledged(100, WAIT_S)
            perform(cluster, "snapshot", timeout_s=WAIT_S)
            victim = cluster.wait_until_leader(WAIT_S)
            cluster.member(victim).kill()
            cluster.wait_until_leader(WAIT_S, other_than=victim)
            load.wait_until_acknowledged(load.counts.ok + 50, WAIT_S)
            cluster.member(victim).start()
            cluster.wait_until_caught_up(victim, WAIT_S)
            cluster.member(victim).stop()
            cluster.member(victim).start()
            cluster.wait_until_caught_up(victim, WAIT_S)
        end_run(cluster, takes_snapshot=False)
    finally:
        cluster.down()
    report = verify_run(tmp_path / "run")
    assert report.verdict is Verdict.VALID, report.findings
    assert left_of(engine, cluster.config.run_id) == []


@pytest.mark.nightly
def test_a_service_in_java_is_copied_or_brought_by_an_image(tmp_path: Path, engine: Client) -> None:
    images.build(engine, images.AERON, base=None, offline=True, say=print)
    folder = copy_of("java-auction", tmp_path / "auction")
    subprocess.run(["mvn", "-B", "-q", "package"], cwd=folder, check=True)
    tag = f"upheaval-test-auction:{tmp_path.name}"
    engine.images.build(path=str(folder), tag=tag, rm=True, forcerm=True)
    test = ("--runtime", "docker", "tests/test_auction.py::test_bids_outlive_a_restart_from_a_snapshot")
    try:
        for options in ((), ("-o", f"upheaval_image={tag}")):
            done = pytest_in(folder, Path(sys.executable), *test, *options, timeout_s=600)
            assert done.returncode == 0, done.stdout + done.stderr
        spec = ClusterSpec(service="target/auction.jar:auction.AuctionService", image=tag, system="aeron:1.49.3")
        with pytest.raises(UsageError, match=r"label upheaval.aeron: expected 1.49.3, got 1.51.0: build it FROM uphea"):
            DockerCluster.create(tmp_path / "run", spec)
        assert not (tmp_path / "run").exists()
    finally:
        engine.images.remove(tag)
