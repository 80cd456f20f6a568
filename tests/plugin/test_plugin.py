"""The plugin in a stranger's repository: what it costs, what a failed test leaves and says."""

import json
import shlex
import xml.etree.ElementTree as ET
from pathlib import Path

import pytest

from support.stranger import pytest_in, require_nothing_running, run_ids
from upheaval.cli.main import main

WORKLOAD = """
from upheaval import Verdict

def test_load(cluster, chaos, workload):
    workload.wait_for(100)
    member = chaos.kill_leader()
    workload.wait_for(50)
    chaos.start(member)
    follower = next(s.member_id for s in cluster.status() if s.alive and s.role == "FOLLOWER")
    chaos.pause(follower)
    chaos.resume(follower)
    chaos.restart(cluster.wait_until_leader())
    workload.wait_for(50)
    report = cluster.verify()
    assert report.verdict is Verdict.VALID, report
    assert [fault.what for fault in cluster.run.read_faults()] == ["kill", "pause", "restart"]
    assert all(fault.heal_end_ns for fault in cluster.run.read_faults())
"""

FAILING = """
def test_{name}(cluster, workload):
    counts = workload.wait_for(20)
    assert sorted((s.append_position, s.role) for s in cluster.status()) == []
"""

CHECKED_LATE = """
import pytest

@pytest.fixture(params=["fails", "passes"])
def checked(request, cluster):
    yield cluster
    assert request.param == "passes", "the ledger is not whole"

def test_it(checked): pass

@pytest.fixture(scope="module")
def of_all():
    yield
    raise ValueError("of the module")

def test_last(of_all, cluster): pass
"""

UNTOUCHED = """
import sys

def test_nothing_was_imported():
    ours = [name for name in sys.modules if name.startswith(("upheaval.", "upheaval_node"))]
    assert sorted(ours) == ["upheaval.pytest_plugin", "upheaval.runtime_names"]
"""

MISTAKES = """
import pytest

@pytest.mark.upheaval(service="no.such:Service")
def test_a(cluster): pass

@pytest.mark.upheaval(color="red")
def test_b(cluster): pass
"""


def test_a_repository_that_does_not_use_it_pays_nothing(tmp_path: Path, python: Path) -> None:
    (tmp_path / "test_it.py").write_text(UNTOUCHED)
    done = pytest_in(tmp_path, python)
    assert done.returncode == 0, done.stdout


@pytest.mark.heavy
@pytest.mark.parametrize("runtime", ["simulated", "process"])
def test_load_and_faults_end_in_a_verdict(tmp_path: Path, python: Path, runtime: str) -> None:
    (tmp_path / "test_it.py").write_text(WORKLOAD)
    options = ["--runtime", runtime, "--keep-runs", "--seed", "3", "--label", "branch=topic", "--label", "team=money"]
    done = pytest_in(tmp_path, python, *options)
    assert done.returncode == 0, done.stdout
    (folder,) = (tmp_path / "runs").iterdir()
    named = {"branch": "topic", "team": "money", "test": "test_it.py::test_load"}
    assert named.items() <= json.loads((folder / "labels.json").read_text()).items()
    assert json.loads((folder / "manifest.json").read_text())["seed"] == 3
    require_nothing_running(tmp_path)


@pytest.mark.heavy
def test_failed_tests_of_several_workers_leave_their_runs(tmp_path: Path, python: Path) -> None:
    (tmp_path / "test_it.py").write_text(FAILING.format(name="one") + FAILING.format(name="two"))
    done = pytest_in(tmp_path, python, "-n", "2", "--members", "1", "--junit-xml", "report.xml")
    assert done.returncode == 1, done.stdout
    assert len(run_ids(tmp_path)) == 2
    lines = [line for line in done.stdout.splitlines() if "is judged by: upheaval verify " in line]
    folders = {shlex.split(line.partition(": ")[2])[-1] for line in lines}
    assert folders == {str(path) for path in (tmp_path / "runs").iterdir()}
    cases = ET.parse(tmp_path / "report.xml").findall(".//testcase")
    told = {prop.get("value") for case in cases for prop in case.findall(".//property[@name='upheaval_run']")}
    assert told == folders
    require_nothing_running(tmp_path)


@pytest.mark.heavy
def test_the_line_of_a_simulated_failure_makes_it_again(tmp_path: Path, python: Path) -> None:
    (tmp_path / "test_it.py").write_text(FAILING.format(name="it"))
    first = pytest_in(tmp_path, python, "--runtime", "simulated", "--seed", "11")
    assert first.returncode == 1
    (line,) = [line for line in first.stdout.splitlines() if ": pytest " in line]
    command = shlex.split(line.partition(": ")[2])
    assert command == [
        "pytest",
        "test_it.py::test_it",
        *("--upheaval-runtime", "simulated", "--upheaval-members", "3", "--upheaval-seed", "11"),
    ]
    second = pytest_in(tmp_path, python, *command[1:])
    (one, other) = (tmp_path / "runs").iterdir()
    assert second.returncode == 1
    assert all(f"upheaval logs {path}" in first.stdout + second.stdout for path in (one, other))
    for name in ("history.jsonl", "member-0/trace.jsonl", "member-1/trace.jsonl", "member-2/trace.jsonl"):
        assert (one / name).read_bytes() == (other / name).read_bytes()


def test_mistakes_are_one_clear_line_and_leave_nothing(tmp_path: Path, python: Path) -> None:
    (tmp_path / "test_it.py").write_text(MISTAKES)
    done = pytest_in(tmp_path, python)
    assert done.returncode == 1
    assert "service 'no.such:Service': no module 'no' on the Python path" in done.stdout
    names = "service, source, image, model, schema, client, system, launcher, jvm, members"
    assert f"marker upheaval: unknown color: use {names}" in done.stdout
    assert not (tmp_path / "runs").exists()


@pytest.mark.parametrize(
    ("options", "line"),
    [
        (("--label", "x"), "ERROR: --upheaval-label or upheaval_labels: "),
        (("-o", "upheaval_labels=x"), "ERROR: --upheaval-label or upheaval_labels: "),
        (("--seed", "-5"), "pytest: error: argument --seed: a seed is a number from 0 "),
    ],
)
def test_a_wrong_option_is_one_line_before_any_test(
    tmp_path: Path, python: Path, options: tuple[str, ...], line: str
) -> None:
    (tmp_path / "test_it.py").write_text("def test_it(cluster): pass\ndef test_other(cluster): pass\n")
    done = pytest_in(tmp_path, python, *options)
    assert done.returncode == 4
    assert line in done.stderr
    assert "Traceback" not in done.stdout + done.stderr
    assert not (tmp_path / "runs").exists()


def test_containers_without_their_packages_are_one_line(tmp_path: Path, python: Path) -> None:
    (tmp_path / "test_it.py").write_text("def test_it(cluster): pass")
    done = pytest_in(tmp_path, python, "--runtime", "docker")
    assert done.returncode == 1
    (line,) = [line for line in done.stdout.splitlines() if line.startswith("upheaval: ")]
    assert "the Python packages docker and testcontainers are missing" in line
    assert line.endswith("(without containers: runtimes simulated and process)")
    assert "Traceback" not in done.stdout
    assert not (tmp_path / "runs").exists()


def test_errors_of_the_harness_in_a_test_show_the_test_and_one_line(tmp_path: Path, python: Path) -> None:
    (tmp_path / "test_it.py").write_text("def test_it(cluster, chaos):\n    chaos.kill(7)")
    done = pytest_in(tmp_path, python, "--runtime", "simulated")
    assert "upheaval.errors.UsageError: unknown member 7: this cluster has members 0 to 2" in done.stdout
    assert "chaos.py" not in done.stdout
    assert "chaos.py" in pytest_in(tmp_path, python, "--runtime", "simulated", "--full-trace").stdout


def test_a_fixture_that_fails_after_its_test_leaves_a_run_that_says_so(
    tmp_path: Path, python: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "test_it.py").write_text(CHECKED_LATE)
    done = pytest_in(tmp_path, python, "--runtime", "simulated")
    assert done.returncode == 1, done.stdout
    for folder, name, why in zip(
        sorted((tmp_path / "runs").iterdir()),
        ("test_it[fails]", "test_last"),
        ("AssertionError: the ledger is not whole", "ValueError: of the module"),
        strict=True,
    ):
        assert f"test_it.py::{name} left runs/{folder.name}: " in done.stdout
        assert main(["verify", str(folder)]) == 1
        assert f"test_it.py::{name}: {why}" in capsys.readouterr().out


@pytest.mark.parametrize("is_link", [True, False])
def test_runs_that_can_be_no_folder_are_one_line(tmp_path: Path, python: Path, is_link: bool) -> None:
    runs = tmp_path / "runs"
    if is_link:
        runs.symlink_to(tmp_path / "not mounted")
    else:
        runs.write_text("")
    (tmp_path / "test_it.py").write_text("def test_it(cluster): pass\n")
    done = pytest_in(tmp_path, python, "--runtime", "simulated")
    assert done.returncode == 1, done.stdout
    assert f"{runs} is not a folder: run folders of tests go there" in done.stdout


def test_a_start_folder_that_takes_no_runs_is_one_line(tmp_path: Path, python: Path) -> None:
    # No user may make folders there, root neither. Without a file pytest would search all of it for tests.
    (tmp_path / "runs").symlink_to("/sys")
    (tmp_path / "test_it.py").write_text("def test_it(cluster): pass\n")
    done = pytest_in(tmp_path, python, "--runtime", "simulated", "test_it.py")
    assert done.returncode == 1, done.stdout
    assert f"upheaval: cannot make {tmp_path / 'runs' / 'test_it'}-" in done.stdout
    assert ": start pytest in a folder that it may write to" in done.stdout
    assert "pytest_plugin.py" not in done.stdout
    assert "Traceback" not in done.stdout
