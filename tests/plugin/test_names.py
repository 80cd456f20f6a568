"""Options and fixtures of the plugin in a project that has some of the same names: the project's own are in force."""

from pathlib import Path

import pytest

from support.stranger import pytest_in

OURS = {"runtime": "simulated", "members": "5", "seed": "7", "seeds": "2..4", "keep-runs": None}

OPTION = """
def pytest_addoption(parser):
    parser.addoption("--{name}", default="unset")
"""

READS = """
def test_each_has_its_own(request):
    option = request.config.getoption
    assert option("--{name}") == "theirs"
    assert str(option("--upheaval-{name}")) == "{ours}"
"""

ALL_SHORT = """
def test_all(request):
    option = request.config.getoption
    assert option("--their-own") == "theirs"
    assert (option("upheaval_runtime"), option("upheaval_members")) == ("simulated", 5)
    assert (option("upheaval_seed"), option("upheaval_keep_runs")) == (7, True)
"""

FIXTURES = """
import pytest

@pytest.fixture
def cluster():
    return "their cluster"

@pytest.fixture
def chaos():
    return "their chaos"

@pytest.fixture
def workload():
    return "their workload"
"""

USES_BOTH = """
def test_ours_beside_theirs(cluster, chaos, workload, upheaval_cluster, upheaval_chaos, upheaval_workload):
    assert (cluster, chaos, workload) == ("their cluster", "their chaos", "their workload")
    upheaval_workload.wait_for(20)
    killed = upheaval_chaos.kill_leader()
    assert upheaval_cluster.wait_until_leader() != killed

def test_theirs_alone(cluster, chaos, workload):
    assert (cluster, chaos, workload) == ("their cluster", "their chaos", "their workload")
"""


@pytest.mark.parametrize(("place", "name"), [*(("conftest.py", name) for name in OURS), ("their_plugin.py", "seed")])
def test_an_option_of_a_project_or_a_plugin_takes_nothing_from_ours(
    tmp_path: Path, python: Path, place: str, name: str
) -> None:
    value = OURS[name]
    (tmp_path / place).write_text(OPTION.format(name=name))
    (tmp_path / "test_it.py").write_text(READS.format(name=name, ours="True" if value is None else value))
    ours = [f"--upheaval-{name}", *([] if value is None else [value])]
    plugin = [] if place == "conftest.py" else ["-p", "their_plugin"]
    done = pytest_in(tmp_path, python, *plugin, f"--{name}", "theirs", *ours)
    assert done.returncode == 0, done.stdout + done.stderr


def test_a_folder_may_be_named_as_the_value_of_a_short_name(tmp_path: Path, python: Path) -> None:
    for folder in ("tests", "simulated", "5", "7"):
        (tmp_path / folder).mkdir()
    (tmp_path / "pytest.ini").write_text("[pytest]\ntestpaths = tests\n")
    (tmp_path / "tests" / "conftest.py").write_text(OPTION.format(name="their-own"))
    (tmp_path / "tests" / "test_it.py").write_text(ALL_SHORT)
    (tmp_path / "simulated" / "test_other.py").write_text("def test_fails(): raise AssertionError\n")
    short = ("--runtime", "simulated", "--members", "5", "--seed", "7", "--keep-runs")
    # Without a value of its own, and with a space: known only once the conftest is read.
    done = pytest_in(tmp_path, python, *short, "--their-own", "theirs")
    assert done.returncode == 0, done.stdout + done.stderr
    both = pytest_in(tmp_path, python, *short, "--their-own=theirs", "tests", "simulated")
    assert both.returncode == 1, both.stdout + both.stderr
    assert "1 failed, 1 passed" in both.stdout


def test_short_names_leave_the_conftest_of_testpaths_to_be_found(tmp_path: Path, python: Path) -> None:
    (tmp_path / "pytest.ini").write_text("[pytest]\ntestpaths = tests\n")
    (tmp_path / "tests").mkdir()
    (tmp_path / "tests" / "conftest.py").write_text(OPTION.format(name="their-own"))
    (tmp_path / "tests" / "test_it.py").write_text(ALL_SHORT)
    short = ("--runtime", "simulated", "--members", "5", "--seed", "7", "--keep-runs")
    done = pytest_in(tmp_path, python, *short, "--their-own=theirs")
    assert done.returncode == 0, done.stdout + done.stderr


def test_fixtures_of_a_project_stand_beside_ours(tmp_path: Path, python: Path) -> None:
    (tmp_path / "conftest.py").write_text(FIXTURES)
    (tmp_path / "test_it.py").write_text(USES_BOTH)
    done = pytest_in(tmp_path, python, "--runtime", "simulated")
    assert done.returncode == 0, done.stdout + done.stderr
    assert not (tmp_path / "runs").exists()
