"""A restore takes what the engine has of a node, not what the run folder had of it some time ago."""

from pathlib import Path

import pytest

from support.docker_runs import left_of
from upheaval.cli.main import main
from upheaval.operations.restore import examine
from upheaval.records import load_companions
from upheaval.runtimes.docker.cluster import DockerCluster
from upheaval.runtimes.docker.engine import Client
from upheaval.system import ClusterSpec


def test_what_a_dead_container_has_is_restored_and_what_runs_is_refused(
    tmp_path: Path, node_image: str, engine: Client, capsys: pytest.CaptureFixture[str]
) -> None:
    run = tmp_path / "run"
    cluster = DockerCluster.create(run, ClusterSpec(members=1, image=node_image))
    try:
        cluster.up()
        for action in ("start", "wait", "stop"):
            assert main(["backup", "--dir", str(run), action]) == 0
        before = examine(run / "backup-0").position
        assert main(["backup", "--dir", str(run), "start"]) == 0
        cluster.member(0).stop()
        cluster.member(0).start()
        cluster.wait_until_leader()
        for action in ("wait", "kill"):
            assert main(["backup", "--dir", str(run), action]) == 0
        (companion,) = load_companions(run)
        assert companion.position > before
        assert examine(run / "backup-0").position >= companion.position
        capsys.readouterr()
        assert main(["restore", "--from", str(run / "member-0"), "--dir", str(tmp_path / "new")]) == 2
        assert "is in use by member-0, which runs: stop it first" in capsys.readouterr().err
        cluster.member(0).kill()
        assert examine(run / "member-0").position >= companion.position
    finally:
        cluster.down()
    assert left_of(engine, cluster.config.run_id) == []
