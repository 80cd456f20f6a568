"""`upheaval clean`: what a harness that is gone left goes, also run folders that are old; what lives stays."""

import json
import os
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path

import pytest

from upheaval.cli.main import main
from upheaval.records import Manifest, RunFolder
from upheaval.runtimes.abandoned import OWNER_VARIABLE
from upheaval.runtimes.owner import Owner
from upheaval.system.process_table import RUN_ID_VARIABLE

HOLDER = """
import sys, tempfile
tempfile.tempdir = sys.argv[1]
from upheaval.records import owned_folder
with owned_folder("trial") as folder:
    print(folder, flush=True)
    sys.stdin.read()
"""
SLOW_DISKS = """
import sys, tempfile
tempfile.tempdir = sys.argv[1]
from upheaval.runtimes.process import ProcessCluster
from upheaval.runtimes.process_machines import ProcessMachines
from upheaval_chaos.host_faults import HostFaultKind
machines = ProcessMachines(ProcessCluster.create(sys.argv[1] + "/run"), [HostFaultKind.DISK_SLOW])
print(machines._latencies, flush=True)
sys.stdin.read()
"""
DAY_S = 86_400


@pytest.fixture(autouse=True)
def place(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Where temporary folders are; no engine can be used."""
    place = tmp_path / "place"
    place.mkdir()
    monkeypatch.setattr(tempfile, "tempdir", str(place))
    monkeypatch.setenv("DOCKER_HOST", "ssh://nowhere")
    return place


@contextmanager
def process(variables: Mapping[str, str]) -> Iterator["subprocess.Popen[bytes]"]:
    """One that waits for its end and has these variables in its environment."""
    command = [sys.executable, "-c", "print(flush=True); import sys; sys.stdin.read()"]
    pipes = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE}
    with subprocess.Popen(command, env={**os.environ, **variables}, **pipes) as started:  # type: ignore[call-overload]
        assert started.stdout is not None
        started.stdout.readline()
        try:
            yield started
        finally:
            started.kill()


@contextmanager
def holder(place: Path, program: str = HOLDER) -> Iterator["tuple[subprocess.Popen[str], Path]"]:
    """A process with a temporary folder of its own."""
    command = [sys.executable, "-c", program, str(place)]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as started:
        assert started.stdout is not None
        yield started, Path(started.stdout.readline().strip())


def cleaned(capsys: pytest.CaptureFixture[str], *arguments: str) -> list[str]:
    assert main(["clean", *arguments]) == 0
    return capsys.readouterr().out.splitlines()


def test_processes_of_a_harness_that_is_gone_are_ended(capsys: pytest.CaptureFixture[str]) -> None:
    gone = {RUN_ID_VARIABLE: "clean-gone", OWNER_VARIABLE: str(replace(Owner.me(), start="1"))}
    lives = {RUN_ID_VARIABLE: "clean-lives", OWNER_VARIABLE: str(Owner.me())}
    kept = {RUN_ID_VARIABLE: "clean-kept", OWNER_VARIABLE: ""}
    with process(lives) as second, process(kept) as third:
        for _ in range(50):
            with process(gone) as first:
                clocks = [Path(f"/dev/shm/{name}_{first.pid}") for name in ("faketime_shm", "sem.faketime_sem")]
                for clock in clocks:
                    clock.touch()
                line = f"process {first.pid} (a companion of run clean-gone)"
                planned = cleaned(capsys, "--dry-run")
                if first.poll() is not None:
                    continue  # a cluster that another test starts now ends it, too
                assert f"would end {line}" in planned
                lines = cleaned(capsys)
                assert first.wait(10) == -signal.SIGKILL
                assert not any(clock.exists() for clock in clocks)
                assert not any("clean-lives" in each or "clean-kept" in each for each in lines)
                if f"ended {line}" in lines:
                    break
        else:
            raise AssertionError("it was never this command that ended it")
        assert (second.poll(), third.poll()) == (None, None)


def test_temporary_folders_without_an_owner_go(place: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (place / "upheaval-of-somebody-else").mkdir()
    with holder(place) as (first, left), holder(place) as (second, held):
        first.kill()
        first.wait()
        assert f"would remove folder {left}" in cleaned(capsys, "--dry-run")
        assert left.exists()
        assert f"removed folder {left}" in cleaned(capsys)
        assert sorted(place.iterdir()) == sorted([held, place / "upheaval-of-somebody-else"])
        second.kill()


def test_what_the_machines_of_a_killed_harness_had_goes(place: Path, capsys: pytest.CaptureFixture[str]) -> None:
    with holder(place, SLOW_DISKS) as (first, left):
        assert not any(str(left) in line for line in cleaned(capsys))
        first.kill()
        first.wait()
        assert f"removed folder {left}" in cleaned(capsys)
        assert not left.exists()


def new_run(folder: Path, run_id: str, days: float, runtime: str = "process") -> Path:
    """A run whose files were changed so long ago."""
    folder.mkdir(parents=True)
    RunFolder(folder).create(Manifest(run_id, runtime, 1, "test", 0))
    (folder / "member-0").mkdir()
    (folder / "member-0" / "trace.jsonl").write_text("")
    then = time.time() - days * DAY_S
    for path in (*folder.rglob("*"), folder):
        os.utime(path, (then, then))
    return folder


def test_run_folders_that_are_old_go_and_those_of_what_lives_stay(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    runs = tmp_path / "runs"
    old, seed = new_run(runs / "old", "clean-old", 8), new_run(runs / "campaign" / "seed-3", "clean-seed", 8)
    young = new_run(runs / "young", "clean-young", 6)
    running = new_run(runs / "running", "clean-running", 8)
    inside = new_run(runs / "inside", "clean-inside", 8, runtime="docker")
    written = new_run(runs / "written", "clean-written", 8)
    (written / "member-0" / "trace.jsonl").write_text("now\n")
    (runs / "notes").mkdir()
    (runs / "link").symlink_to(old)
    options = ("--runs", "7d", "--dir", str(runs))
    with process({RUN_ID_VARIABLE: "clean-running", OWNER_VARIABLE: ""}):
        told = [line for line in cleaned(capsys, *options, "--dry-run") if str(runs) in line]
        expected = [
            f"would remove run {seed}",
            f"left alone: {inside}: ",
            f"would remove run {old}",
            f"left alone: {running}: its members run",
        ]
        assert [line[: len(start)] for line, start in zip(told, expected, strict=True)] == expected
        assert old.exists()
        assert not any(str(runs) in line for line in cleaned(capsys))
        lines = [json.loads(line) for line in cleaned(capsys, *options, "--json")]
    assert [(each["name"], each["removed"]) for each in lines if each.get("kind") == "run"] == [
        (str(seed), True),
        (str(old), True),
    ]
    left = (young, running, inside, written, runs / "notes")
    assert (old.exists(), seed.exists(), all(each.exists() for each in left)) == (False, False, True)


def test_what_makes_no_sense_is_one_line(capsys: pytest.CaptureFixture[str]) -> None:
    for wrong in ("7", "d", "-3d", "1.5h", "7w"):
        with pytest.raises(SystemExit, match="2"):
            main(["clean", f"--runs={wrong}"])
        assert f"expected a number with m, h or d, such as 7d, got {wrong!r}" in capsys.readouterr().err


def test_a_machine_without_an_engine_is_told(capsys: pytest.CaptureFixture[str]) -> None:
    (line,) = [each for each in cleaned(capsys, "--dry-run") if each.startswith("left alone: containers: ")]
    assert line
