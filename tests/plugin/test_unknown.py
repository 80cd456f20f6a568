"""Tests that pass without a valid run: none does so unseen, and one setting makes them red."""

import re
import xml.etree.ElementTree as ET
from pathlib import Path

import pytest

from support.stranger import pytest_in, require_nothing_running
from upheaval.checkers.promises import Promise
from upheaval.records import Failure, RunFolder

WIDE = {"COLUMNS": "300"}
"""pytest cuts the lines of its summary to the width of the terminal."""
INI = "[pytest]\nupheaval_service = workbench\n"

TESTS = """
import pytest
from pytest import skip

marked = pytest.mark

def test_has_little_traffic(workload):
    workload.wait_for(5)

def test_verifies_and_does_not_look(cluster, workload):
    workload.wait_for(5)
    cluster.verify()

def test_is_valid(workload):
    workload.wait_for(150)

@pytest.mark.upheaval(verify=True)
def test_may_be_unknown(workload):
    workload.wait_for(5)

@pytest.mark.upheaval(verify=False)
def test_is_not_judged(workload):
    workload.wait_for(5)

def test_skips_the_rest(workload):
    workload.wait_for(5)
    skip("no second machine")

def test_verifies_and_skips_the_rest(cluster, workload):
    workload.wait_for(5)
    cluster.verify()
    skip("no second machine")

@marked.xfail
def test_fails_as_expected(workload):
    workload.wait_for(5)
    assert not workload
"""

RAISING = """
from upheaval import ClusteredService

class Raising(ClusteredService):
    def on_session_message(self, session, timestamp, payload, position):
        session.respond(payload)
        raise ValueError("each one")
"""
INVALID = """
import pytest
from pytest import skip

@pytest.fixture
def judged(cluster):
    cluster.client().request(b"1")
    cluster.verify()

def test_verifies_and_does_not_look(judged):
    pass

def test_skips_the_rest(judged):
    skip("no second machine")

def test_does_not_ask(cluster):
    cluster.client().request(b"1")

@pytest.mark.upheaval(verify=False)
def test_wants_it(judged):
    pass

def test_looks(cluster):
    cluster.client().request(b"1")
    cluster.assert_valid()
"""

DYING = """
import pytest
from contextlib import suppress
from pytest import skip
from upheaval import HarnessError
from upheaval.workload import Load

marked = pytest.mark

@pytest.fixture
def dying(workload, monkeypatch):
    do_work = Load.do_work
    def die_late(load, now):
        if load.counts.ok > 50:
            raise OSError(28, "No space left on device")
        return do_work(load, now)
    monkeypatch.setattr(Load, "do_work", die_late)
    workload.wait_for(40)
    with suppress(HarnessError):
        workload.wait_for(1000, timeout_s=120)

@pytest.fixture
def stopped(dying, workload):
    with suppress(HarnessError):
        workload.stop()

@pytest.mark.upheaval(verify=False)
def test_asks_for_no_verdict(dying):
    pass

def test_ended_its_cluster(dying, cluster):
    with suppress(HarnessError):
        cluster.down()

def test_verified_it(dying, cluster):
    with suppress(HarnessError):
        cluster.verify()

def test_skips_the_rest(stopped):
    skip("no second machine")

@marked.xfail
def test_fails_as_expected(stopped):
    raise ValueError("ticket 12")

@pytest.mark.upheaval(verify=False)
def test_is_meant_to_lose_its_load(stopped):
    pass

@pytest.mark.upheaval(verify=False)
def test_is_in_order(workload):
    workload.wait_for(5)
"""
RED = re.findall(r"def (test_\w+)", DYING)[:-2]


def lines_with(text: str, output: str) -> list[str]:
    return [line for line in output.splitlines() if text in line]


def verdicts_in(junit: Path) -> dict[str | None, str]:
    return {
        case.get("name"): item.get("value", "").partition(":")[0]
        for case in ET.parse(junit).findall(".//testcase")
        for item in case.iter("property")
        if item.get("name") == "upheaval_verdict"
    }


@pytest.fixture
def repository(tmp_path: Path) -> Path:
    (tmp_path / "raising.py").write_text(RAISING)
    (tmp_path / "pytest.ini").write_text(INI)
    (tmp_path / "test_it.py").write_text(TESTS)
    return tmp_path


def test_what_passes_without_a_valid_run_is_counted(repository: Path, python: Path) -> None:
    done = pytest_in(
        repository, python, "--runtime", "simulated", "--junit-xml", "report.xml", timeout_s=600, variables=WIDE
    )
    assert done.returncode == 0, done.stdout
    assert lines_with("tests with a cluster", done.stdout) == [
        '4 of 8 tests with a cluster passed with verdict unknown: upheaval_verify = "valid" fails such tests '
        "(-v names them)",
        "3 of 8 tests with a cluster ended without a verdict (-v names them)",
    ], done.stdout
    unknown = ("test_has_little_traffic", "test_verifies_and_does_not_look", "test_may_be_unknown")
    assert verdicts_in(repository / "report.xml") == {
        **dict.fromkeys((*unknown, "test_verifies_and_skips_the_rest"), "unknown"),
        "test_is_valid": "valid",
        **dict.fromkeys(("test_is_not_judged", "test_skips_the_rest", "test_fails_as_expected"), "not judged"),
    }
    require_nothing_running(repository)


@pytest.mark.parametrize("options", [("-v",), ("-n", "2"), ("--seeds", "1..2")], ids=" ".join)
def test_one_setting_makes_every_verdict_but_valid_an_error(
    repository: Path, python: Path, options: tuple[str, ...]
) -> None:
    valid = ("--runtime", "simulated", "-o", "upheaval_verify=valid")
    done = pytest_in(repository, python, *valid, *options, timeout_s=900, variables=WIDE)
    assert done.returncode == 1, done.stdout
    seeds = ("[seed-1]", "[seed-2]") if "--seeds" in options else ("",)
    red = ("test_has_little_traffic", "test_verifies_and_does_not_look", "test_verifies_and_skips_the_rest")
    assert sorted(line.split()[1] for line in lines_with("ERROR test_it.py", done.stdout) if " - " in line) == sorted(
        f"test_it.py::{name}{seed}" for name in red for seed in seeds
    ), done.stdout
    assert "the test passed, but the verdict on its run is unknown" in done.stdout
    assert "there was enough traffic to judge: " in done.stdout
    (count,) = lines_with("passed with verdict unknown", done.stdout)
    assert count.startswith(f"{len(seeds)} of "), done.stdout
    named = lines_with("    test_it.py::test_may_be_unknown: unknown: ", done.stdout)
    assert len(named) == ("-v" in options), done.stdout


def test_a_test_that_asks_is_red_where_its_run_is_invalid_whatever_else_is_judged(
    repository: Path, python: Path
) -> None:
    (repository / "test_it.py").write_text(INVALID)
    options = ("-o", "upheaval_service=raising:Raising", "-o", "upheaval_verify=asked", "--junit-xml", "report.xml")
    done = pytest_in(repository, python, "--runtime", "simulated", *options, timeout_s=600, variables=WIDE)
    assert done.returncode == 1, done.stdout
    for word in (
        "ERROR test_it.py::test_verifies_and_does_not_look - Failed: the test passed, but its run is invalid",
        "ERROR test_it.py::test_skips_the_rest - Failed: the test skipped, but its run is invalid",
        "1 failed, 3 passed, 1 skipped, 2 errors",
        "1 of 5 tests with a cluster passed with verdict invalid, as verify=False allows",
        "1 of 5 tests with a cluster ended without a verdict",
    ):
        assert word in done.stdout, done.stdout
    judged = ("test_verifies_and_does_not_look", "test_skips_the_rest", "test_wants_it", "test_looks")
    assert verdicts_in(repository / "report.xml") == {
        **dict.fromkeys(judged, "invalid"),
        "test_does_not_ask": "not judged",
    }


@pytest.mark.parametrize("runtime", ["simulated", "process"])
def test_a_load_that_died_is_an_error_whatever_the_test_does_with_it(
    repository: Path, python: Path, runtime: str
) -> None:
    (repository / "test_it.py").write_text(DYING)
    options = ("--runtime", runtime, "--members", "1", "-o", "upheaval_verify=asked")
    done = pytest_in(repository, python, *options, timeout_s=1200, variables=WIDE)
    assert done.returncode == 1, done.stdout
    ended = r"ended: OSError \[Errno 28\]" if runtime == "process" else r"failed: OSError\(28,"
    errors = [line for line in lines_with("ERROR test_it.py", done.stdout) if re.search(ended, line)]
    assert [line.split()[1].removeprefix("test_it.py::") for line in errors] == RED, done.stdout
    folders = {folder.name.partition("-2")[0]: folder for folder in (repository / "runs").iterdir()}
    assert sorted(folders) == sorted(RED)
    for folder in folders.values():
        failures = RunFolder(folder).read_manifest().failures
        assert any(isinstance(each, Failure) and each.promise == Promise.RUN_ENDED for each in failures), failures
    require_nothing_running(repository)
