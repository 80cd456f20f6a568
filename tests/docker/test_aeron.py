"""Members of Aeron Cluster in containers: a leader is killed under load and comes back, and the run is judged."""

from pathlib import Path

import pytest

from support.docker_runs import left_of
from upheaval import images
from upheaval.checkers.run import verify_run
from upheaval.checkers.verdict import Verdict
from upheaval.cluster import end_run, perform
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
