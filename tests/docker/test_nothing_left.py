"""Whatever ends a run, the engine is as before; and a command that cleans up leaves parallel runs alone."""

import contextlib
import os
import signal
import subprocess
import threading
from collections.abc import Iterator
from pathlib import Path

import pytest

from support.docker_runs import command, left_of, upheaval, wait_for_members
from support.valid import require_valid_end
from upheaval.checkers.judge import verify_run
from upheaval.cli.main import main
from upheaval.records import RunFolder
from upheaval.runtimes.docker import labels
from upheaval.runtimes.docker.cluster import DockerCluster
from upheaval.runtimes.docker.engine import Client
from upheaval.system import ClusterSpec
from upheaval.waits import wait_until


@contextlib.contextmanager
def running_demo(folder: Path, engine: Client) -> Iterator["tuple[subprocess.Popen[bytes], str]"]:
    """A demo in a process of its own, in the middle of its run: its three members run."""
    arguments = command("demo", "--runtime", "docker", "--dir", str(folder), "--operations", "1000000")
    with subprocess.Popen(arguments, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL) as process:
        try:
            run = RunFolder(folder)
            wait_until(run.manifest_file.exists, timeout_s=240, describe=lambda: "the demo does not begin")
            run_id = run.read_manifest().run_id
            wait_for_members(engine, run_id)
            yield process, run_id
        finally:
            process.kill()


def test_a_demo_is_valid_and_leaves_nothing(tmp_path: Path, node_image: str, engine: Client) -> None:
    folder = tmp_path / "demo"
    done = upheaval("demo", "--runtime", "docker", "--dir", str(folder), "--operations", "300")
    require_valid_end(done.returncode, folder, done.stderr)
    assert f"verdict: {verify_run(folder).verdict.text}" in done.stdout
    assert "<html" in (folder / "report.html").read_text(encoding="utf-8")
    run = RunFolder(folder)
    faults = list(run.read_faults())
    assert [fault.what for fault in faults] == ["kill", "blackhole"]
    assert all(fault.is_proved and fault.heal_proof for fault in faults)
    assert left_of(engine, run.read_manifest().run_id) == []


@pytest.mark.nightly
def test_an_interrupted_demo_leaves_nothing(tmp_path: Path, node_image: str, engine: Client) -> None:
    with running_demo(tmp_path / "demo", engine) as (process, run_id):
        process.send_signal(signal.SIGINT)
        assert process.wait(60) == 130
        assert left_of(engine, run_id) == []


def test_the_next_start_removes_what_a_killed_harness_left_and_nothing_else(
    tmp_path: Path, cluster: DockerCluster, engine: Client
) -> None:
    with running_demo(tmp_path / "demo", engine) as (process, run_id):
        assert not labels.remove_abandoned(engine)
        process.kill()
        process.wait(30)
        assert left_of(engine, run_id)
        DockerCluster.create(tmp_path / "next", ClusterSpec(image=cluster.config.image)).down()
        assert left_of(engine, run_id) == []
        assert cluster.wait_until_leader() is not None
        assert all(member.is_running() for member in cluster.members)


def test_a_network_whose_containers_another_process_is_removing_is_waited_for(node_image: str, engine: Client) -> None:
    run_id = f"emptied-{os.getpid()}"
    engine.networks.create(run_id, labels=labels.labels_of_run(run_id, detached=False))
    holder = engine.containers.run(node_image, ["infinity"], entrypoint="sleep", network=run_id, detach=True)
    other = threading.Timer(1, holder.remove, kwargs={"force": True, "v": True})
    other.start()
    try:
        assert labels.remove_run(engine, run_id) == 1
        assert left_of(engine, run_id) == []
    finally:
        other.join()


def test_clean_removes_what_is_abandoned_and_nothing_else(
    node_image: str, engine: Client, capsys: pytest.CaptureFixture[str]
) -> None:
    gone, lives = f"clean-{os.getpid()}-gone", f"clean-{os.getpid()}-lives"

    def make(run_id: str, **changes: str) -> None:
        labelled = {**labels.labels_of_run(run_id, detached=False), **changes}
        engine.api.create_volume(run_id, labels=labelled)
        engine.api.create_container(node_image, name=run_id, labels=labelled)

    def cleaned(*options: str) -> set[str]:
        assert main(["clean", *options]) == 0
        return set(capsys.readouterr().out.splitlines())

    def is_told_and_removed() -> bool:
        """Whether this command removed it, and not another test that starts a cluster just now."""
        make(gone, **{"upheaval.harness-start": "1"})
        told = cleaned("--dry-run")
        is_there = bool(left_of(engine, gone))
        assert not is_there or {f"would remove container {gone}", f"would remove volume {gone}"} <= told
        done = cleaned()
        assert left_of(engine, gone) == []
        assert not any(lives in line for line in told | done)
        return is_there and {f"removed container {gone}", f"removed volume {gone}"} <= done

    try:
        make(lives)
        wait_until(is_told_and_removed, timeout_s=240, describe=lambda: "another process always removes it first")
        assert left_of(engine, lives)
    finally:
        for run_id in (gone, lives):
            labels.remove_run(engine, run_id)


@pytest.mark.parametrize(
    ("changes", "is_abandoned"),
    [
        ({}, False),
        ({"upheaval.harness-start": "1"}, True),
        ({"upheaval.harness-pid": "4194305"}, True),
        ({"upheaval.harness-pid": "4194305", "upheaval.harness-place": "elsewhere"}, False),
        ({"upheaval.harness-pid": "4194305", "upheaval.kept": "true"}, False),
    ],
)
def test_what_is_abandoned(changes: dict[str, str], is_abandoned: bool) -> None:
    own = labels.labels_of_run("a run", detached=False)
    assert own["upheaval.harness-pid"] == str(os.getpid())
    assert labels.is_abandoned({**own, **changes}) is is_abandoned
