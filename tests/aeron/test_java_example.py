"""The example in Java is a stranger's repository: built and tested as its owner does it, and seen when it is wrong."""

import shutil
import subprocess
import sys
import xml.etree.ElementTree as ET
from pathlib import Path
from typing import Final

import pytest

from aeron_jar import jar, member_classes
from support.pages import follow, page_blocks
from support.stranger import ROOT, copy_of, edit_as_its_readme_says, pytest_in
from upheaval.checkers.judge import verify_run
from upheaval.checkers.promises import Promise
from upheaval.checkers.verdict import Verdict
from upheaval.cli.main import main
from upheaval.records import RunFolder
from upheaval.runtimes import cluster_file

EXAMPLE: Final = "java-auction"
CLASSES: Final = "target/classes"
TEST_CLASSES: Final = "target/test-classes"
SERVICE: Final = "auction.AuctionService"
RESTART: Final = "tests/test_auction.py::test_bids_outlive_a_restart_from_a_snapshot"
STOCK: Final = "tests/test_stock.py::test_nothing_is_lost_with_the_leader"
UNKNOWN: Final = "upheaval.errors.UnknownOutcome"
"""On a machine that is too slow for elections a run is unknown; it is never invalid."""
LOSING: Final = """
import os
import signal
import subprocess

import pytest

from tests.bidder import Bidder

@pytest.fixture
def ann(cluster):
    return Bidder(cluster.client(timeout_s=60), 1)

def kill_clients():
    pgrep = subprocess.run(["pgrep", "-P", str(os.getpid()), "-f", "auction.AuctionBridge"], capture_output=True)
    pid = int(pgrep.stdout)
    os.kill(pid, signal.SIGKILL)
    os.waitid(os.P_PID, pid, os.WEXITED | os.WNOWAIT)

def test_loses_its_clients(ann):
    ann.bid(7, 1)
    kill_clients()

@pytest.mark.upheaval(verify=False)
def test_means_to(ann):
    ann.bid(7, 1)
    kill_clients()

def test_is_in_order(ann):
    ann.bid(7, 1)
"""
TIMEOUT_S: Final = 600


def compiled(folder: Path) -> Path:
    """As Maven does it, in a fraction of the time."""
    class_path = [str(jar()), str(member_classes())]
    for kind, target in (("main", CLASSES), ("test", TEST_CLASSES)):
        sources = [str(path) for path in (folder / "src" / kind).rglob("*.java")]
        if not sources:
            continue
        subprocess.run(["javac", "-cp", ":".join(class_path), "-d", str(folder / target), *sources], check=True)
        class_path.append(str(folder / target))
    return folder


def run_in(folder: Path, *options: str) -> "subprocess.CompletedProcess[str]":
    return pytest_in(folder, Path(sys.executable), *options, timeout_s=TIMEOUT_S)


def changed(folder: Path, name: str, right: str, wrong: str) -> None:
    source = folder / "src" / "main" / "java" / "auction" / name
    text = source.read_text()
    assert right in text
    source.write_text(text.replace(right, wrong))


@pytest.mark.heavy
def test_a_test_of_the_example_passes(tmp_path: Path) -> None:
    folder = compiled(copy_of(EXAMPLE, tmp_path / EXAMPLE))
    require_passed(folder, 1, "--members", "1", "-o", f"upheaval_service={CLASSES}:{SERVICE}", RESTART)


@pytest.mark.heavy
def test_a_test_whose_program_of_clients_ended_is_an_error_unless_it_means_that(tmp_path: Path) -> None:
    folder = compiled(copy_of(EXAMPLE, tmp_path / EXAMPLE))
    (folder / "tests" / "test_it.py").write_text(LOSING)
    options = ("--members", "1", "-o", f"upheaval_service={CLASSES}:{SERVICE}", "-o", "upheaval_verify=asked")
    done = run_in(folder, "tests/test_it.py", *options)
    assert done.returncode == 1, done.stdout + done.stderr
    why = "upheaval: the bridge for clients ended with status -9: "
    assert [line for line in done.stdout.splitlines() if line.startswith(why)], done.stdout
    assert "ERROR tests/test_it.py::test_loses_its_clients" in done.stdout
    assert " 3 passed, " in done.stdout
    assert " 1 error in " in done.stdout
    (run,) = (folder / "runs").iterdir()
    assert [failure.promise for failure in RunFolder(run).read_manifest().failures] == [Promise.RUN_ENDED] * 2


@pytest.mark.heavy
@pytest.mark.nightly
def test_the_example_is_built_by_maven_and_its_tests_pass(tmp_path: Path) -> None:
    folder = copy_of(EXAMPLE, tmp_path / EXAMPLE)
    ours = shutil.copytree(ROOT / "images" / "aeron", tmp_path / "aeron")
    subprocess.run(["mvn", "-B", "-q", "install"], cwd=ours, check=True)
    subprocess.run(["mvn", "-B", "-q", "package"], cwd=folder, check=True)
    require_passed(folder, 3, "--members", "3")


def require_passed(folder: Path, passed: int, *options: str) -> None:
    """So many tests pass, and no run is left."""
    done = run_in(folder, "--junit-xml", "report.xml", *options)
    assert done.returncode == 0, done.stdout + done.stderr
    assert len(ET.parse(folder / "report.xml").findall(".//testcase")) == passed
    assert not (folder / "runs").exists()


@pytest.mark.heavy
@pytest.mark.nightly
def test_a_repository_of_init_is_green_at_once(tmp_path: Path) -> None:
    assert main(["init", "--java", str(tmp_path / "mine")]) == 0
    folder = compiled(tmp_path / "mine")
    done = run_in(folder, STOCK)
    assert done.returncode == 0 or UNKNOWN in done.stdout, done.stdout + done.stderr


@pytest.mark.heavy
@pytest.mark.nightly
def test_a_repository_of_init_is_red_after_the_edit_of_its_readme(tmp_path: Path) -> None:
    assert main(["init", "--java", str(tmp_path / "mine")]) == 0
    edit_as_its_readme_says(tmp_path / "mine")
    done = run_in(compiled(tmp_path / "mine"), STOCK)
    assert done.returncode == 1, done.stdout + done.stderr
    assert "invalid: linearizable: " in done.stdout


@pytest.mark.heavy
@pytest.mark.nightly
def test_the_tutorial_works_as_written(tmp_path: Path) -> None:
    assert main(["init", "--java", str(tmp_path / "stock")]) == 0
    folder = compiled(tmp_path / "stock")
    printed = follow("docs/tutorials/aeron-cluster.md", folder, frozenset({"install"}))
    assert [" 1 passed" in text for text in printed] == [True, True]


@pytest.mark.heavy
@pytest.mark.nightly
def test_the_first_test_of_the_page_passes(tmp_path: Path) -> None:
    folder = compiled(copy_of(EXAMPLE, tmp_path / EXAMPLE))
    block, _ = [block for block in page_blocks("python") if "aeron" in block.marks]
    (folder / "tests" / "test_it.py").write_text(block.block.text + "\n")
    done = run_in(folder, "tests/test_it.py", "-o", f"upheaval_service={CLASSES}:{SERVICE}")
    assert done.returncode == 0, done.stdout + done.stderr


_WRONG: Final = [
    (
        "a-client-that-bids-more",
        "AuctionClient.java",
        "out.putLong(16, price,",
        "out.putLong(16, price + 1,",
        1,
        Promise.ACKNOWLEDGED_NOT_LOST,
    ),
    ("a-snapshot-without-a-field", "AuctionService.java", "(16, lot.bids(),", "(16, 0,", 1, Promise.LINEARIZABLE),
    (
        "bids-that-are-forgotten",
        "Lot.java",
        "newPrice > price)",
        "newPrice > price && newPrice % 9 > 0)",
        1,
        Promise.LINEARIZABLE,
    ),
    ("a-state-that-asks-the-clock", "Lot.java", "bids++;", "bids += System.nanoTime() % 3;", 3, Promise.STATES_AGREE),
]


@pytest.mark.heavy
@pytest.mark.parametrize(
    ("name", "right", "wrong", "members", "promise"),
    [
        pytest.param(*each, marks=pytest.mark.nightly if nr > 0 else (), id=what)
        for nr, (what, *each) in enumerate(_WRONG)
    ],
)
def test_a_service_or_client_that_is_wrong_breaks_a_promise(
    name: str, right: str, wrong: str, members: int, promise: Promise, tmp_path: Path
) -> None:
    folder = copy_of(EXAMPLE, tmp_path / EXAMPLE)
    changed(folder, name, right, wrong)
    compiled(folder)
    done = run_in(folder, "--members", str(members), "-o", f"upheaval_service={CLASSES}:{SERVICE}", RESTART)
    assert done.returncode == 1, done.stdout + done.stderr
    (run,) = (folder / "runs").iterdir()
    broken = [finding.promise for finding in verify_run(run).findings if finding.verdict is Verdict.INVALID]
    assert promise in broken


@pytest.mark.heavy
def test_a_class_that_is_not_there_is_refused_with_what_the_member_said(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    run = tmp_path / "run"
    command = ["up", "--dir", str(run), "--system", "aeron", "--members", "1", "--service", f"{tmp_path}:auction.Bid"]
    assert main(command) == 2
    said = capsys.readouterr().err
    assert (
        "member 0 ended with status 2: member: unknown service 'auction.Bid': use ledger, tally, timers, workbench"
        in said
    )
    assert said.count("\n") == 1
    # Containers copy the folder of the class, and it is part of what a verdict names.
    assert cluster_file.start_of(run)[2] == str(Path.cwd())
    assert list(Path("/dev/shm").glob(f"upheaval-*{RunFolder(run).read_manifest().run_id}*")) == []


@pytest.mark.heavy
@pytest.mark.nightly
def test_the_public_service_on_the_page_is_tested_as_the_page_says(tmp_path: Path) -> None:
    page = "docs/test-your-aeron-cluster.md"
    (settings,) = [block for block in page_blocks("ini") if block.page == page and "tutorial" in block.block.text]
    (test,) = [block for block in page_blocks("python") if block.page == page and "class Auction" in block.block.text]
    (tmp_path / "pytest.ini").write_text(settings.block.text + "\n")
    (tmp_path / "test_auction.py").write_text(test.block.text + "\n")
    shutil.copy(jar(), tmp_path / "aeron.jar")
    done = run_in(tmp_path)
    assert done.returncode == 0, done.stdout + done.stderr
