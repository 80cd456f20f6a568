"""The directories of media drivers in shared memory: what killed harnesses left goes, and nothing but that."""

import os
import shutil
import signal
import subprocess
import time
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest

from upheaval.cli.main import main
from upheaval.records import Manifest, RunFolder
from upheaval.runtimes.abandoned import OWNER_VARIABLE
from upheaval.runtimes.owner import Owner
from upheaval.system.aeron import AeronSystem
from upheaval.system.aeron_files import PROPERTIES_FILE, properties_text, shared_directory
from upheaval.system.process_table import RUN_ID_VARIABLE
from upheaval_node.files import layout
from upheaval_node.runtime.shared_counters import create_cnc

HOUR_S = 3600
RUN_ID = f"drivers-{os.getpid()}"


@pytest.fixture(autouse=True)
def engine(monkeypatch: pytest.MonkeyPatch) -> None:
    """None can be used."""
    monkeypatch.setenv("DOCKER_HOST", "ssh://nowhere")


@pytest.fixture
def driver() -> Iterator[Path]:
    """The directory that the driver of a member would have made."""
    directory = shared_directory(RUN_ID, "0")
    directory.mkdir(parents=True)
    (directory / "cnc.dat").write_bytes(b"counters")
    yield directory
    shutil.rmtree(directory, ignore_errors=True)


def configured(folder: Path, directory: Path | str) -> Path:
    folder.mkdir(parents=True, exist_ok=True)
    properties = {"member.id": "0", "run.id": RUN_ID, "aeron.dir": str(directory)}
    (folder / PROPERTIES_FILE).write_text(properties_text(properties))
    return folder


def aged(directory: Path, hours: float) -> None:
    then = time.time() - hours * HOUR_S
    for path in (directory / "cnc.dat", directory):
        os.utime(path, (then, then))


def beaten(directory: Path, heartbeat_ms: int, pid: int = 1 << 30) -> None:
    """Let the driver have its last heartbeat then. No process has an id as large as the default."""
    path = directory / "cnc.dat"
    path.unlink()
    cnc = create_cnc(str(path), pid=pid, now_ms=0, is_shared=False)
    with path.open("r+b") as stream:
        stream.seek(cnc.header.heartbeat_offset)
        stream.write(heartbeat_ms.to_bytes(8, "little", signed=True))
    cnc.close()


def test_the_directory_of_a_driver_goes_and_its_counters_stay(driver: Path, tmp_path: Path) -> None:
    AeronSystem().clean_up(configured(tmp_path, driver))
    assert not driver.exists()
    assert (tmp_path / layout.CNC).read_bytes() == b"counters"


def test_a_directory_in_other_temporary_files_goes_and_its_counters_stay(tmp_path: Path) -> None:
    directory = tmp_path / "other" / f"aeron-{os.getuid()}" / shared_directory(RUN_ID, "0").name
    directory.mkdir(parents=True)
    (directory / "cnc.dat").write_bytes(b"counters")
    AeronSystem().clean_up(configured(tmp_path / "member-0", directory))
    assert not directory.exists()
    assert (tmp_path / "member-0" / layout.CNC).read_bytes() == b"counters"


@pytest.mark.parametrize("forged", ["there", "/dev/shm/upheaval-0-other-0", "{driver}/../{name}-1"])
def test_a_directory_that_the_harness_never_made_stays(forged: str, driver: Path, tmp_path: Path) -> None:
    """Run folders come from elsewhere, too."""
    place = Path(forged.format(driver=driver, name=driver.name)) if forged != "there" else tmp_path / forged
    place.mkdir(parents=True)
    try:
        AeronSystem().clean_up(configured(tmp_path / "member-0", place))
        assert place.is_dir()
    finally:
        shutil.rmtree(place)


def test_the_driver_in_the_volume_of_a_split_member_goes(tmp_path: Path) -> None:
    (tmp_path / "driver").mkdir()
    AeronSystem().clean_up(configured(tmp_path, tmp_path / "driver"))
    assert not (tmp_path / "driver").exists()


@pytest.mark.parametrize(
    ("hours", "file_hours", "is_left"),
    [
        (0.5, 0.5, True),
        (2, 2, False),
        # A driver of another container, or one that has just ended: writes to a mapped file do not change its times.
        (0, 2, True),
        # A fault had set the clock of the driver back.
        (2, 0, True),
    ],
)
def test_a_driver_of_a_run_without_processes_goes_an_hour_after_its_last_heartbeat(
    hours: float, file_hours: float, is_left: bool, driver: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    beaten(driver, round((time.time() - hours * HOUR_S) * 1000))
    aged(driver, file_hours)
    assert main(["clean", "--dry-run"]) == 0
    assert (f"would remove folder {driver}" in capsys.readouterr().out) is not is_left
    assert driver.is_dir()
    assert main(["clean"]) == 0
    assert driver.is_dir() is is_left


def test_a_driver_that_ended_in_order_goes_an_hour_after_the_first_look(driver: Path) -> None:
    beaten(driver, -1)
    aged(driver, 2)
    for options in (["--dry-run"], [], []):
        assert main(["clean", *options]) == 0
        assert driver.is_dir()
    for path in (*driver.iterdir(), driver):
        os.utime(path, (time.time() - 2 * HOUR_S,) * 2)
    assert main(["clean"]) == 0
    assert not driver.exists()


def test_a_directory_without_a_readable_driver_stays(driver: Path) -> None:
    aged(driver, 2)
    assert main(["clean"]) == 0
    assert driver.is_dir()


def test_a_driver_that_runs_stays(driver: Path, capsys: pytest.CaptureFixture[str]) -> None:
    beaten(driver, 0, pid=os.getpid())
    aged(driver, 2)
    assert main(["clean"]) == 0
    assert driver.is_dir()


def test_a_member_of_a_killed_harness_takes_no_driver_of_another_member_along(
    driver: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    gone = {RUN_ID_VARIABLE: RUN_ID, OWNER_VARIABLE: str(replace(Owner.me(), start="1"))}
    kept = {RUN_ID_VARIABLE: RUN_ID, OWNER_VARIABLE: ""}
    sleep = ["sleep", "600"]
    with subprocess.Popen(sleep, env=os.environ | kept) as other, subprocess.Popen(sleep, env=os.environ | gone) as one:
        try:
            assert main(["clean", "--dry-run"]) == 0
            assert str(driver) not in capsys.readouterr().out
            assert main(["clean"]) == 0
            assert one.wait(30) == -signal.SIGKILL
            assert driver.is_dir()
            assert other.poll() is None
        finally:
            one.kill()
            other.kill()


def test_an_old_run_goes_with_the_directories_of_its_drivers(
    driver: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    run = tmp_path / "runs" / "old"
    run.mkdir(parents=True)
    RunFolder(run).create(Manifest(RUN_ID, "process", 1, "test", 0, system="aeron:1.51.0"))
    then = time.time() - 200 * HOUR_S
    for path in (*run.rglob("*"), run):
        os.utime(path, (then, then))
    assert main(["clean", "--runs", "7d", "--dir", str(run.parent), "--dry-run"]) == 0
    assert driver.is_dir()
    assert main(["clean", "--runs", "7d", "--dir", str(run.parent)]) == 0
    assert (run.exists(), driver.exists()) == (False, False)
