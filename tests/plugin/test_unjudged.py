"""What would judge nothing in silence: models and promises, tests with `chaos` and no fault, labels without a value."""

from pathlib import Path

import pytest

from support.stranger import pytest_in, require_nothing_running, upheaval_in
from upheaval.checkers.promises import Promise

SIMULATED = ("--runtime", "simulated", "--members", "1")
INI = "[pytest]\nupheaval_service = echo:Echo\nupheaval_source = .\n"
SERVICE = """
from upheaval import ClusteredService

class Echo(ClusteredService):
    def on_session_message(self, session, timestamp, payload, position):
        session.respond(payload)
"""
TESTS = """
def test_requests(cluster):
    client = cluster.client()
    for number in range(120):
        client.request(b"%d" % number)
"""
PROMISE = """
from upheaval.model import promise

@promise("every request has two letters")
def has_two_letters(run):
    assert all(len(request.payload) == 2 for request in run.requests())
"""
MACHINE = """
from hypothesis.stateful import rule
from upheaval import ClusterMachine

class Requests(ClusterMachine):
    service, source, members, has_failures = "echo:Echo", ".", 1, False

    @rule()
    def ask(self):
        self.clients[0].request(b"1")

TestRequests = Requests.TestCase
"""
# The processes that judge cannot make it.
ELSEWHERE = """
import sys
from upheaval import ClusteredService

class Echo(ClusteredService):
    def __init__(self):
        if "pytest" not in sys.modules:
            raise RuntimeError("not on this machine")

    def on_session_message(self, session, timestamp, payload, position):
        session.respond(payload)
"""
OWN_CLUSTER = """
from upheaval import Cluster

def test_requests():
    with Cluster("echo:Echo", ".", runtime="simulated", members=1) as cluster:
        cluster.client().request(b"1")
        cluster.assert_valid()
"""
USER = """
from locust import task
from upheaval import ClusterUser

class Asker(ClusterUser):
    @task
    def ask(self):
        self.cluster.request(b"1")
"""
JUDGED_BY_NONE = (
    "promise 'every request has two letters' in {} judges no run: "
    "name that module as the model (--model, upheaval_model), or move the promise to the model's"
)
UNDECORATED = PROMISE.replace("@promise", "# @promise")
JUDGES_NOTHING = "checks has no Model and no promise: name module:Class, or use @promise"

CHAOS = """
import pytest
from pytest import skip

def test_injects_nothing(chaos):
    for fault in []:
        chaos.inject(fault)

@pytest.mark.parametrize("heals", [True, False])
def test_injects(chaos, heals):
    chaos.kill("follower")
    if heals:
        chaos.heal()

def test_has_no_chaos(cluster):
    pass

def test_skips_the_rest(chaos):
    skip("no second machine")

def test_fails_before_its_fault(chaos):
    raise ValueError("ticket 12")
"""


@pytest.fixture
def repository(tmp_path: Path) -> Path:
    (tmp_path / "pytest.ini").write_text(INI)
    (tmp_path / "echo.py").write_text(SERVICE)
    (tmp_path / "test_it.py").write_text(TESTS)
    return tmp_path


def test_a_module_without_model_and_promise_is_refused(repository: Path, python: Path) -> None:
    (repository / "checks.py").write_text(UNDECORATED)
    done = pytest_in(repository, python, *SIMULATED, "-o", "upheaval_model=checks")
    assert done.returncode == 1, done.stdout
    assert f"upheaval: model 'checks': {JUDGES_NOTHING}" in done.stdout
    assert not (repository / "runs").exists()


def test_it_judges_nothing_where_tests_have_other_promises(repository: Path, python: Path) -> None:
    (repository / "checks.py").write_text(UNDECORATED)
    (repository / "conftest.py").write_text(PROMISE)
    done = pytest_in(repository, python, *SIMULATED, "-o", "upheaval_model=checks")
    assert done.returncode == 1, done.stdout
    assert "the test passed, but its model or promises judge nothing" in done.stdout
    assert JUDGES_NOTHING in done.stdout


@pytest.mark.parametrize("place", ["checks.py", "kept.py", "echo.py"], ids=["its own", "imported", "the service's"])
def test_promises_of_a_module_without_model_are_judged_wherever_they_are(
    repository: Path, python: Path, place: str
) -> None:
    (repository / "checks.py").write_text("import kept\n")
    (repository / "kept.py").touch()
    with (repository / place).open("a") as module:
        module.write(PROMISE)
    done = pytest_in(repository, python, *SIMULATED, "-o", "upheaval_model=checks")
    assert done.returncode == 1, done.stdout
    assert "invalid: every request has two letters: AssertionError" in done.stdout


@pytest.mark.parametrize(("module", "runtime"), [("test_it", "simulated"), ("echo", "process")])
def test_a_promise_of_tests_or_service_is_refused_without_a_model(
    repository: Path, python: Path, module: str, runtime: str
) -> None:
    file = repository / f"{module}.py"
    file.write_text(PROMISE + file.read_text())
    refused = pytest_in(repository, python, "--runtime", runtime)
    assert refused.returncode == 1, refused.stdout
    assert JUDGED_BY_NONE.format(module) in refused.stdout
    assert not (repository / "runs").exists()
    require_nothing_running(repository)
    judged = pytest_in(repository, python, *SIMULATED, "-o", f"upheaval_model={module}")
    assert judged.returncode == 1, judged.stdout
    assert "invalid: every request has two letters: AssertionError" in judged.stdout


@pytest.mark.parametrize(
    ("files", "module"),
    [
        ({"test_it.py": PROMISE + MACHINE}, "test_it"),
        ({"test_it.py": MACHINE, "echo.py": SERVICE + PROMISE}, "echo"),
        ({"test_it.py": OWN_CLUSTER, "echo.py": SERVICE + PROMISE}, "echo"),
        ({"test_it.py": PROMISE + TESTS, "pytest.ini": "[pytest]\n"}, "test_it"),
    ],
    ids=["machine", "service of a machine", "service of the test's own cluster", "service of ours"],
)
def test_no_cluster_of_tests_leaves_a_promise_unjudged(
    repository: Path, python: Path, files: dict[str, str], module: str
) -> None:
    for file, text in files.items():
        (repository / file).write_text(text)
    refused = pytest_in(repository, python, *SIMULATED)
    assert refused.returncode == 1, refused.stdout
    assert JUDGED_BY_NONE.format(module) in refused.stdout


@pytest.mark.parametrize("command", [("run", "leader-killed"), ("campaign", "--seeds", "1..1")], ids=" ".join)
def test_no_command_leaves_a_promise_of_the_service_unjudged(
    repository: Path, python: Path, command: tuple[str, ...]
) -> None:
    (repository / "echo.py").write_text(SERVICE + PROMISE)
    (repository / "asker.py").write_text(USER)
    options = ["--service", "echo:Echo", "--user", "asker:Asker"]
    refused = upheaval_in(repository, python, *command, *options)
    assert (refused.returncode, refused.stdout) == (2, "")
    assert refused.stderr == f"upheaval: {JUDGED_BY_NONE.format('echo')}\n"
    assert not (repository / "runs").exists()


@pytest.mark.parametrize("options", [(), ("-v",)], ids=["short", "verbose"])
def test_promises_that_could_not_be_judged_are_counted(
    repository: Path, python: Path, options: tuple[str, ...]
) -> None:
    (repository / "echo.py").write_text(ELSEWHERE)
    done = pytest_in(repository, python, *SIMULATED, "--junit-xml", "report.xml", *options)
    assert done.returncode == 0, done.stdout
    assert "1 of 1 tests with a cluster passed with a promise that could not be judged (-v names them)" in done.stdout
    line = f"    test_it.py::test_requests: valid with gaps: not checked: {Promise.LINEARIZABLE.sentence}: "
    assert (line in done.stdout) is bool(options), done.stdout
    assert "valid with gaps: not checked: " in (repository / "report.xml").read_text()


def test_a_machine_warns_of_promises_that_could_not_be_judged(repository: Path, python: Path) -> None:
    (repository / "echo.py").write_text(ELSEWHERE)
    (repository / "test_it.py").write_text(MACHINE)
    done = pytest_in(repository, python)
    assert done.returncode == 0, done.stdout
    assert f"UserWarning: Requests: not checked: {Promise.LINEARIZABLE.sentence}: " in done.stdout


def test_a_file_of_tests_that_one_of_them_names_may_have_promises(repository: Path, python: Path) -> None:
    marker = "import pytest\n@pytest.mark.upheaval(model='test_it', verify=False)"
    (repository / "test_it.py").write_text(PROMISE + marker + TESTS.replace("_req", "_judged_req") + TESTS)
    done = pytest_in(repository, python, *SIMULATED)
    assert done.returncode == 0, done.stdout


@pytest.mark.parametrize("options", [("-v",), ("-n", "2")], ids=" ".join)
def test_passed_tests_with_chaos_and_no_fault_are_counted(
    repository: Path, python: Path, options: tuple[str, ...]
) -> None:
    (repository / "test_it.py").write_text(CHAOS)
    done = pytest_in(repository, python, "--runtime", "simulated", *options, timeout_s=600)
    assert "1 failed, 4 passed, 1 skipped" in done.stdout, done.stdout
    lines = done.stdout.splitlines()
    at = lines.index("1 of 3 passed tests with chaos had no fault (-v names them)")
    assert (lines[at + 1] == "    test_it.py::test_injects_nothing") is ("-v" in options), done.stdout


@pytest.mark.parametrize("options", [("--label", "x"), ("-o", "upheaval_labels=x"), ("-n", "2", "--label", "x")])
def test_a_label_without_value_is_one_line_before_any_test(
    repository: Path, python: Path, options: tuple[str, ...]
) -> None:
    done = pytest_in(repository, python, *SIMULATED, *options)
    assert done.returncode == pytest.ExitCode.USAGE_ERROR, done.stdout
    expected = "expected NAME=VALUE, such as commit=4f2a91c, got 'x'"
    assert done.stderr.split("\n\n") == [f"ERROR: --upheaval-label or upheaval_labels: {expected}", ""]
    assert not done.stdout
