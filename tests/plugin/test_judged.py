"""Tests that do not ask for a verdict: the plugin judges their runs when they have passed."""

import re
from pathlib import Path

import pytest

from support.stranger import pytest_in, require_nothing_running
from upheaval.checkers.promises import Promise
from upheaval.cli.main import main
from upheaval.records import Failure, RunFolder

SERVICE = """
from upheaval import ClusteredService

class Raising(ClusteredService):
    count = 0

    def on_session_message(self, session, timestamp, payload, position):
        self.count += 1
        session.respond(payload)
        if self.count % 5 == 0:
            raise ValueError("every fifth")

class Startless(ClusteredService):
    def on_start(self, cluster, snapshot_image):
        raise ValueError("no start")

class Answering(ClusteredService):
    def on_session_message(self, session, timestamp, payload, position):
        session.respond(payload)
"""
MODEL = """
from upheaval import Model

class Mistyped(Model):
    def apply(self, request):
        return request.paylod
"""
TESTS = """
import pytest

def asked(cluster):
    client = cluster.client()
    for number in range(6):
        client.request(b"%d" % number)

def test_forgets(cluster):
    asked(cluster)

def test_verifies_and_does_not_look(cluster):
    asked(cluster)
    cluster.verify()

@pytest.mark.upheaval(verify=False)
def test_wants_it(cluster):
    asked(cluster)

@pytest.mark.upheaval(service="raising:Answering", model="mistyped:Mistyped")
def test_has_a_model_that_judges_nothing(cluster):
    asked(cluster)

@pytest.mark.upheaval(service="workbench")
def test_is_right_with_little_traffic(cluster, workload):
    workload.wait_for(5)

@pytest.mark.upheaval(service="workbench", verify=False)
def test_fails(cluster):
    assert not asked
"""

EXPECTED = """
import pytest

marked = pytest.mark
known = marked.xfail(reason="ticket 12", strict=False)
strict = marked.xfail(reason="ticket 13", strict=True)

def asked(cluster):
    client = cluster.client()
    for number in range(6):
        client.request(b"%d" % number)

@known
def test_passes_with_an_invalid_run(cluster):
    asked(cluster)

@known
def test_fails_as_expected(cluster):
    asked(cluster)
    cluster.assert_valid()

@strict
def test_fails_as_it_must(cluster):
    asked(cluster)
    cluster.assert_valid()

def test_says_so_itself(cluster):
    asked(cluster)
    pytest.xfail("ticket 14")

@known
@pytest.mark.upheaval(service="raising:Answering")
def test_passes_with_a_valid_run(cluster):
    asked(cluster)

@strict
@pytest.mark.upheaval(service="raising:Answering")
def test_passes_and_must_not(cluster):
    asked(cluster)

@pytest.fixture
def endless(cluster):
    def end(down=cluster.down):
        down()
        raise RuntimeError("its end fails")
    cluster.down = end

@known
@pytest.mark.upheaval(service="raising:Answering", verify=False)
def test_leaves_a_cluster_that_cannot_end(endless):
    pass

@strict
@pytest.mark.upheaval(service="no_such_module:Nothing")
def test_has_no_service(cluster):
    pass

@strict
@pytest.mark.upheaval(service="no_such_module:Nothing")
def test_asks_late_for_a_cluster(request):
    request.getfixturevalue("cluster")

@known
@pytest.mark.upheaval(service="raising:Startless")
def test_has_a_service_that_does_not_start(cluster):
    pass

@pytest.fixture
def filled(cluster):
    cluster.client().request(b"0")
    raise ValueError("ticket 15")

@known
@pytest.mark.upheaval(service="raising:Answering")
def test_fails_in_a_fixture_of_its_own(filled):
    pass
"""

UNENDED = """
import pytest
from upheaval import UnknownOutcome
from upheaval.records import HistoryWriter

pytestmark = pytest.mark.upheaval(service="workbench", members=1)

def test_has_a_load_that_fails(cluster, workload, monkeypatch):
    add = HistoryWriter.add
    def add_or_fail(writer, operation):
        add(writer, operation)
        if workload.counts.ok > 50:
            raise OSError(28, "No space left on device")
    monkeypatch.setattr(HistoryWriter, "add", add_or_fail)
    workload.wait_for(40)
    with pytest.raises(UnknownOutcome, match="the load on workbench ended: OSError"):
        workload.wait_for(1000, timeout_s=60)

def test_has_a_cluster_that_does_not_heal(cluster, workload):
    workload.wait_for(5)
    def heal():
        raise UnknownOutcome("no leader that all members follow")
    cluster.heal = heal

def test_is_in_order(cluster, workload):
    workload.wait_for(5)
"""


@pytest.fixture
def repository(tmp_path: Path) -> Path:
    (tmp_path / "raising.py").write_text(SERVICE)
    (tmp_path / "mistyped.py").write_text(MODEL)
    (tmp_path / "test_it.py").write_text(TESTS)
    (tmp_path / "pytest.ini").write_text("[pytest]\nupheaval_service = raising:Raising\n")
    return tmp_path


def test_a_test_that_does_not_judge_its_run_is_red_where_that_is_invalid_or_not_judged(
    repository: Path, python: Path
) -> None:
    done = pytest_in(repository, python, "--runtime", "simulated", timeout_s=600)
    assert done.returncode == 1
    for word in (
        "ERROR test_it.py::test_forgets",
        "ERROR test_it.py::test_verifies_and_does_not_look",
        "ERROR test_it.py::test_has_a_model_that_judges_nothing",
        "FAILED test_it.py::test_fails",
        "its model or promises judge nothing",
        "mistyped.py:6",
        "its run is invalid",
        "every fifth",
        "raising.py:11",
        "1 failed, 5 passed, 3 errors",
        "is judged by: upheaval verify",
    ):
        assert word in done.stdout, done.stdout
    runs = {folder.name.partition("-2")[0] for folder in (repository / "runs").iterdir()}
    red = {"test_forgets", "test_verifies_and_does_not_look", "test_has_a_model_that_judges_nothing", "test_fails"}
    assert runs == red
    require_nothing_running(repository)


def test_the_ini_file_leaves_it_to_the_tests(repository: Path, python: Path) -> None:
    done = pytest_in(repository, python, "--runtime", "simulated", "-k", "forgets", "-o", "upheaval_verify=asked")
    assert done.returncode == 0, done.stdout
    done = pytest_in(repository, python, "--runtime", "simulated", "-k", "forgets", "-o", "upheaval_verify=never")
    assert (done.returncode, "upheaval_verify 'never': use always, valid, asked" in done.stdout) == (1, True), (
        done.stdout
    )


def test_an_expected_failure_covers_the_body_and_neither_the_verdict_nor_the_cluster(
    repository: Path, python: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (repository / "test_it.py").write_text(EXPECTED)
    done = pytest_in(repository, python, "--runtime", "simulated", "-rA", timeout_s=600)
    assert done.returncode == 1, done.stdout
    for word in (
        "XPASS test_it.py::test_passes_with_an_invalid_run",
        "ERROR test_it.py::test_passes_with_an_invalid_run - Failed: ",
        "the test passed, but its run is invalid",
        "XFAIL test_it.py::test_fails_as_expected",
        "XFAIL test_it.py::test_fails_as_it_must",
        "XFAIL test_it.py::test_says_so_itself",
        "XPASS test_it.py::test_passes_with_a_valid_run",
        "FAILED test_it.py::test_passes_and_must_not - [XPASS(strict)] ticket 13",
        "ERROR test_it.py::test_leaves_a_cluster_that_cannot_end - RuntimeError: ",
        "ERROR test_it.py::test_has_no_service",
        "FAILED test_it.py::test_asks_late_for_a_cluster",
        "ERROR test_it.py::test_has_a_service_that_does_not_start",
        "XFAIL at setup of test_it.py::test_fails_in_a_fixture_of_its_own",
        "2 failed, 4 xfailed, 3 xpassed, 4 errors",
    ):
        assert word in done.stdout, done.stdout
    folders = {folder.name.partition("-2")[0]: folder for folder in (repository / "runs").iterdir()}
    details = {
        "test_passes_with_an_invalid_run": "every fifth",
        "test_passes_and_must_not": "test_it.py::test_passes_and_must_not: [XPASS(strict)] ticket 13",
        "test_leaves_a_cluster_that_cannot_end": "test_leaves_a_cluster_that_cannot_end: RuntimeError: its end fails",
    }
    assert folders.keys() == details.keys()
    for name, detail in details.items():
        assert main(["verify", str(folders[name])]) == 1
        assert detail in capsys.readouterr().out


def test_a_load_that_failed_is_an_error_and_the_cluster_is_judged_to_its_end(repository: Path, python: Path) -> None:
    (repository / "test_it.py").write_text(UNENDED)
    done = pytest_in(repository, python, "--upheaval-keep-runs", "-n", "1", timeout_s=600, variables={"COLUMNS": "300"})
    assert done.returncode == 1, done.stdout
    why = "the load on workbench ended: OSError [Errno 28] No space left on device"
    failed = "test_it.py::test_has_a_load_that_fails"
    error = f"UnknownOutcome: {why}"
    assert f"ERROR {failed} - upheaval: {why}" in done.stdout.splitlines(), done.stdout
    unhealed = "test_has_a_cluster_that_does_not_heal: unknown: its run did not end in order: no leader that all"
    assert f"    test_it.py::{unhealed} members follow" in done.stdout.splitlines(), done.stdout
    assert re.search(r"= 3 passed, (1 warning, )?1 error in ", done.stdout), done.stdout
    (folder,) = (repository / "runs").glob("test_has_a_load_that_fails*")
    manifest = RunFolder(folder).read_manifest()
    assert manifest.converge is not None
    assert manifest.failures == tuple(Failure(Promise.RUN_ENDED, detail) for detail in (why, f"{failed}: {error}"))
    require_nothing_running(repository)
