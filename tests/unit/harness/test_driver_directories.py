"""The directories of media drivers in shared memory: what killed harnesses left goes, and nothing but that."""

import os
import shutil
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from upheaval.cli.main import main
from upheaval.records import Manifest, RunFolder
from upheaval.system.aeron import AeronSystem
from upheaval.system.aeron_files import PROPERTIES_FILE, properties_text, shared_directory
from upheaval_node.files import layout

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


def test_the_directory_of_a_driver_goes_and_its_counters_stay(driver: Path, tmp_path: Path) -> None:
    AeronSystem().clean_up(configured(tmp_path, driver))
    assert not driver.exists()
    assert (tmp_path / layout.CNC).read_bytes() == b"counters"


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


@pytest.mark.parametrize(("hours", "is_left"), [(0.5, True), (2, False)])
def test_a_driver_of_a_run_without_processes_goes_after_an_hour(
    hours: float, is_left: bool, driver: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    aged(driver, hours)
    assert main(["clean", "--dry-run"]) == 0
    assert (f"would remove folder {driver}" in capsys.readouterr().out) is not is_left
    assert driver.is_dir()
    assert main(["clean"]) == 0
    assert driver.is_dir() is is_left


def test_a_driver_that_runs_stays(driver: Path, capsys: pytest.CaptureFixture[str]) -> None:
    from upheaval_node.runtime.shared_counters import create_cnc

    (driver / "cnc.dat").unlink()
    cnc = create_cnc(str(driver / "cnc.dat"), pid=os.getpid(), now_ms=0, is_shared=False)
    aged(driver, 2)
    assert main(["clean"]) == 0
    assert driver.is_dir()
    cnc.close()


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
