"""A service in Java whose messages are SBE: `sbe-tool` generates its codecs, and its runs are shown by field."""

import shutil
import subprocess
import sys
from dataclasses import replace
from pathlib import Path
from typing import Final

import pytest

from aeron_jar import jar
from support.stranger import copy_of, edit_as_its_readme_says, pytest_in
from upheaval.checkers.judge import verify_run
from upheaval.checkers.promises import Promise
from upheaval.checkers.verdict import Verdict
from upheaval.cli.main import main
from upheaval.records import RunFolder, code_digest

pytestmark = [pytest.mark.heavy, pytest.mark.nightly]

SERVICE: Final = "target/classes:rooms.RoomService"
RESTART: Final = "tests/test_rooms.py::test_the_hotel_outlives_a_restart_from_a_snapshot"
TIMEOUT_S: Final = 600


@pytest.fixture(scope="module")
def rooms(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The example, as its owner builds it."""
    folder = copy_of("java-rooms", tmp_path_factory.mktemp("rooms") / "rooms")
    subprocess.run(["mvn", "-B", "-q", "package"], cwd=folder, check=True)
    return folder


@pytest.fixture(scope="module")
def run(rooms: Path) -> RunFolder:
    """A run that was valid, of one member that restarted from its snapshot."""
    done = pytest_in(rooms, Path(sys.executable), "--members", "1", "--keep-runs", RESTART, timeout_s=TIMEOUT_S)
    assert done.returncode == 0, done.stdout + done.stderr
    (folder,) = (rooms / "runs").iterdir()
    return RunFolder(folder)


def test_all_tests_of_the_example_pass_on_three_members(rooms: Path, tmp_path: Path) -> None:
    folder = Path(shutil.copytree(rooms, tmp_path / "rooms", ignore=shutil.ignore_patterns("runs")))
    done = pytest_in(folder, Path(sys.executable), timeout_s=TIMEOUT_S)
    assert done.returncode == 0, done.stdout + done.stderr


def test_requests_and_answers_are_shown_by_field(run: RunFolder, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["trace", str(run.path), "--requests"]) == 0
    printed = capsys.readouterr().out
    for text in (
        'Book(requestId=1, room=0, guest="ann") -> Booked(requestId=1, booking=1)',
        'Book(requestId=2, room=0, guest="bob") -> Refused(requestId=2, reason=OCCUPIED)',
        'rooms=[(room=0, guest="ann"), (room=1, guest="ann"), ',
    ):
        assert text in printed
    assert main(["report", str(run.path)]) == 0
    assert "Booked(requestId=1, booking=1)" in (run.path / "report.html").read_text(encoding="utf-8")


def test_a_field_that_is_not_in_the_snapshot_is_named(rooms: Path, run: RunFolder, tmp_path: Path) -> None:
    """The wrong service reads the log of the right one."""
    wrong = Path(shutil.copytree(rooms, tmp_path / "rooms", ignore=shutil.ignore_patterns("runs")))
    edit_as_its_readme_says(wrong)
    sources = map(str, (wrong / "src" / "main").rglob("*.java"))
    class_path = f"{jar()}:{wrong / 'target' / 'classes'}"
    subprocess.run(["javac", "-cp", class_path, "-d", str(wrong / "target" / "classes"), *sources], check=True)
    judged = RunFolder(shutil.copytree(run.path, tmp_path / "run"))
    manifest = judged.read_manifest()
    digest = code_digest(str(wrong), SERVICE, manifest.system)
    judged.write_manifest(replace(manifest, source=str(wrong), source_digest=digest))
    finding = verify_run(judged.path).finding(Promise.SNAPSHOT_IS_REPLAY)
    assert finding.verdict is Verdict.INVALID, finding
    for text in (
        "a copy that begins with its own snapshot at position ",
        "Booked(requestId=",
        "booking=",
        "all of the state",
    ):
        assert text in finding.detail
