"""Scenarios of the library on containers: the same texts and promises as on the other runtimes."""

import functools
import json
import signal
import subprocess
from collections.abc import Callable
from pathlib import Path

import pytest

from support.docker_runs import ENGINE_INTERVAL_S, command, left_of, upheaval
from support.library import judged_everywhere, planned_faults, promises_in_the_simulation, scenarios_of
from support.valid import require_valid_end
from upheaval.checkers.promises import Promise
from upheaval.records import RunFolder
from upheaval.runtimes.docker.engine import Client
from upheaval.waits import wait_until

# A member, a partition. Pauses and components are in test_cluster and test_split, slow links in test_links, a leader
# that is left alone in the demo of test_nothing_left.
OFTEN = ("leader-killed", "one-way-partition")
Done = subprocess.CompletedProcess[str]


@pytest.fixture(scope="module")
def promises(tmp_path_factory: pytest.TempPathFactory) -> list[str]:
    return promises_in_the_simulation(tmp_path_factory.mktemp("simulated") / "run")


@pytest.fixture(scope="module")
def perform(
    tmp_path_factory: pytest.TempPathFactory, node_image: str, link_images: None
) -> Callable[[str], tuple[Path, Done]]:
    """Runs a scenario, once for all tests, and says where that was."""

    @functools.cache
    def performed(name: str) -> tuple[Path, Done]:
        folder = tmp_path_factory.mktemp(name) / "run"
        return folder, upheaval("run", name, "--runtime", "docker", "--dir", str(folder), "--json")

    return performed


@pytest.mark.parametrize("name", scenarios_of("docker", OFTEN))
def test_the_scenario_is_valid_and_its_faults_are_proved(
    name: str, perform: Callable[[str], tuple[Path, Done]], engine: Client, promises: list[str]
) -> None:
    folder, done = perform(name)
    require_valid_end(done.returncode, folder, done.stdout + done.stderr)
    # Nothing but the result is on stdout.
    result = json.loads(done.stdout)
    assert (result["scenario"], result["runtime"]) == (name, "docker")
    assert judged_everywhere(promise["promise"] for promise in result["promises"]) == promises
    assert Promise.FAULTS_PROVED in promises
    faults = list(RunFolder(folder).read_faults())
    assert len(faults) == planned_faults(name)
    assert all(fault.is_proved and fault.heal_end_ns is not None for fault in faults)
    assert left_of(engine, RunFolder(folder).read_manifest().run_id) == []


def test_what_happened_to_containers_is_replayed_in_the_simulation(
    tmp_path: Path, perform: Callable[[str], tuple[Path, Done]]
) -> None:
    folder, done = perform("leader-killed")
    require_valid_end(done.returncode, folder, done.stdout + done.stderr)
    again = tmp_path / "again"
    done = upheaval("replay", str(folder), "--runtime", "simulated", "--dir", str(again), "--json")
    assert done.returncode == 0, done.stdout + done.stderr
    assert json.loads(done.stdout)["runtime"] == "simulated"
    statements = [fault.statement for path in (folder, again) for fault in RunFolder(path).read_faults()]
    assert statements[0] == statements[1]


def test_an_interrupted_run_leaves_nothing(tmp_path: Path, node_image: str, link_images: None, engine: Client) -> None:
    folder = tmp_path / "run"
    arguments = command("run", "one-way-partition", "--runtime", "docker", "--dir", str(folder), "--json")
    with subprocess.Popen(arguments, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL) as process:
        run = RunFolder(folder)
        wait_until(run.manifest_file.exists, timeout_s=240, describe=lambda: "the run does not begin")
        run_id = run.read_manifest().run_id
        # Three members with a volume each, four Toxiproxies, three networks.
        wait_until(
            lambda: len(left_of(engine, run_id)) >= 13,
            timeout_s=120,
            describe=lambda: "no containers",
            interval_s=ENGINE_INTERVAL_S,
        )
        process.send_signal(signal.SIGINT)
        assert process.wait(120) == 130
        assert process.stdout is not None
        assert process.stdout.read() == b""
    assert left_of(engine, run_id) == []
