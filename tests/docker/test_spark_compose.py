"""compose/spark.yaml: a master with two workers judges run folders, one of which dies while it does."""

import json
import os
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest

from support.built_images import require
from support.built_runs import good_run
from support.compose_projects import PROJECT, left_of_project, new_name
from upheaval import images
from upheaval.checkers.judge import verify_run
from upheaval.runtimes import ports
from upheaval.runtimes.docker.containers import free_subnets
from upheaval.runtimes.docker.engine import Client
from upheaval.waits import wait_until

FILE = Path(__file__).resolve().parents[2] / "compose" / "spark.yaml"
COMMAND_TIMEOUT_S = 900
pytestmark = pytest.mark.nightly


class Spark:
    """The project, over a folder of runs that everybody may write to."""

    def __init__(self, engine: Client, runs: Path) -> None:
        (subnet,) = free_subnets(engine, "10.214.0.0/16", 1)
        self.runs = runs
        self.name = new_name()
        self._environment = {
            "UPHEAVAL_RUNS": str(runs),
            "UPHEAVAL_SUBNET": subnet,
            "UPHEAVAL_SPARK_PORT": str(ports.choose_base_port(1)),
        }

    def begin(self, *arguments: str) -> "subprocess.Popen[str]":
        return subprocess.Popen(
            ["docker", "compose", "-p", self.name, "-f", str(FILE), *arguments],
            env={**os.environ, **self._environment},
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
        )

    def compose(self, *arguments: str) -> str:
        with self.begin(*arguments) as process:
            told, why = process.communicate(timeout=COMMAND_TIMEOUT_S)
        assert process.returncode == 0, why
        return told

    def upheaval(self, *arguments: str) -> "subprocess.Popen[str]":
        return self.begin("run", "--rm", "--no-TTY", "upheaval", *arguments, "--master", "spark://master:7077")


@pytest.fixture(scope="module")
def spark(engine: Client, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Spark]:
    require(engine, images.ANALYSIS)
    runs = tmp_path_factory.mktemp("runs")
    good_run(20_000).write(runs / "run")
    for path in (runs, *runs.parents[:2]):
        path.chmod(0o777)
    project = Spark(engine, runs)
    try:
        project.compose("up", "--detach", "--wait")
        yield project
    finally:
        project.compose("down", "--volumes", "--timeout", "5")
    assert left_of_project(engine, project.name) == []


def executors(engine: Client, spark: Spark) -> list[str]:
    """The workers' containers in which an executor runs."""
    workers = engine.containers.list(filters={"label": f"{PROJECT}={spark.name}"})
    return [
        each.id
        for each in workers
        if "worker" in each.name and "CoarseGrainedExecutorBackend" in str(each.top()["Processes"])
    ]


def test_a_worker_that_is_killed_in_the_middle_changes_nothing(engine: Client, spark: Spark) -> None:
    expected = {finding.promise: finding.detail for finding in verify_run(spark.runs / "run").findings}
    with spark.upheaval("verify", "run", "--engine", "spark", "--json") as judging:
        wait_until(
            lambda: judging.poll() is not None or len(executors(engine, spark)) > 1,
            timeout_s=COMMAND_TIMEOUT_S,
            describe=lambda: f"executors in {executors(engine, spark)}",
        )
        assert judging.poll() is None, judging.communicate()
        engine.api.kill(executors(engine, spark)[0])
        told, why = judging.communicate(timeout=COMMAND_TIMEOUT_S)
    assert judging.returncode == 0, why
    assert {each["promise"]: each["detail"] for each in json.loads(told)["promises"]} == expected


def test_a_lake_is_written_and_judged_by_the_workers(spark: Spark) -> None:
    for arguments in (["ingest", "run", "--lake", "lake"], ["verify", "--engine", "spark", "--lake", "lake"]):
        with spark.upheaval(*arguments) as running:
            told, why = running.communicate(timeout=COMMAND_TIMEOUT_S)
        assert running.returncode == 0, why
    assert "verdict: valid" in told
