"""Locust users on real clusters: what locust counted, what the history says, and what the log holds agree."""

import signal
from pathlib import Path

import pytest

from support.load_runs import LoadCommands, finish, kill_the_leader, names, require_agreement, running
from upheaval.checkers.promises import Promise
from upheaval.cli.main import main
from upheaval.runtimes.process import ProcessCluster
from upheaval.system import ClusterSpec

OWN_USER = """
from locust import task
from upheaval.records import Function
from upheaval.load.users import ClusterUser
from upheaval.records import encode_operation

class Caller(ClusterUser):
    @task(3)
    def ask(self):
        number = next(self.load.values)
        assert self.call("ask", b"%d" % number) == b"%d %d" % (number, number)

    @task
    def greet(self):
        assert self.call("greet", b"hello") == b"hello hello"

class Doubtful(ClusterUser):
    @task
    def ask(self):
        answer = self.call("ask", b"%d" % self.new_id())
        assert answer == b"something else", "not what I thought"

    def on_stop(self):
        assert self.number < 0, "not at the end, either"

class Mistaken(ClusterUser):
    @task
    def write(self):
        self.call("write", encode_operation(1, Function.WRITE, "key", 5))
"""

OWN_SERVICE = """
from upheaval import ClusteredService

class Doubler(ClusteredService):
    def on_session_message(self, session, timestamp, payload, position):
        session.respond(bytes(payload), b" ", bytes(payload))
"""

ALL = {"read", "write", "cas", "append", "list", "echo"}
CLASSES = {"register": {"read", "write", "cas"}, "append": {"append", "list"}, "echo": {"echo"}, "workbench": ALL}
"""The operations of each class of users."""


@pytest.mark.heavy
def test_a_leader_dies_under_load_and_the_numbers_agree(folder: Path, load: LoadCommands) -> None:
    process = load.start("--users", "15", "--duration", "6s", "--timeout", "2")
    load.wait_until_loaded(process)
    cluster = ProcessCluster.open(folder)
    assert cluster.config.max_sessions >= 30
    kill_the_leader(cluster)
    result = finish(process, 0)
    assert names(result) == ALL
    require_agreement(result)
    # Latency counts from the intended start: the time without a leader is in it.
    assert result["statistics"]["total"]["max_ms"] > 1000
    assert running(folder) == 0


@pytest.mark.heavy
@pytest.mark.parametrize(
    "classes", [("register", "workbench"), pytest.param(tuple(CLASSES), marks=pytest.mark.nightly)], ids=len
)
def test_classes_of_users_agree_with_the_history_on_a_cluster_that_goes_on_running(
    classes: tuple[str, ...], folder: Path, load: LoadCommands
) -> None:
    cluster = ProcessCluster.create(folder, ClusterSpec(members=1))
    cluster.up()
    earlier = 0
    for user in classes:
        result = load.run("--users", "5", "--rate", "50", "--duration", "10s", "--user", user)
        assert names(result) == CLASSES[user]
        assert result["history"]["unknown"] == 0
        earlier += require_agreement(result, earlier=earlier)
        assert running(folder) == 1
    too_many = load.start("--users", "11")
    _, errors = too_many.communicate(timeout=240)
    assert (too_many.returncode, len(errors.splitlines())) == (2, 1)
    assert "allows 10 sessions" in errors


def test_a_cluster_that_is_there_keeps_its_size(folder: Path, load: LoadCommands) -> None:
    ProcessCluster.create(folder, ClusterSpec(members=1))
    process = load.start("--members", "3")
    _, errors = process.communicate(timeout=240)
    assert process.returncode == 2
    assert errors == f"upheaval: {folder} holds a cluster with --members 1: remove --members\n"


@pytest.mark.heavy
def test_a_cluster_that_is_not_there_shows_as_failures(folder: Path, load: LoadCommands) -> None:
    ProcessCluster.create(folder, ClusterSpec(members=1))
    result = load.run("--users", "3", "--duration", "2s", "--timeout", "1", status=3)
    assert result["statistics"]["total"]["failures"] == result["statistics"]["total"]["requests"] > 0
    assert set(result["statistics"]["errors"]) <= {f"{name}: no session: TimeoutExpired" for name in ALL}
    assert result["verdict"] == "unknown"
    require_agreement(result)


@pytest.mark.heavy
def test_calls_to_a_service_of_ones_own_are_judged(folder: Path, load: LoadCommands) -> None:
    (folder.parent / "doubler.py").write_text(OWN_SERVICE)
    (folder.parent / "callers.py").write_text(OWN_USER)
    options = ("--users", "3", "--duration", "10s", "--rate", "50", "--members", "1", "--service", "doubler:Doubler")
    result = load.run(*options, "--user", "callers:Caller")
    assert names(result) == {"ask", "greet"}
    assert result["statistics"]["total"]["failures"] == 0
    assert require_agreement(result) > 100


@pytest.mark.heavy
def test_a_call_in_the_form_of_a_shipped_operation_is_refused(folder: Path, load: LoadCommands) -> None:
    (folder.parent / "callers.py").write_text(OWN_USER)
    result = load.run("--users", "1", "--duration", "1s", "--members", "1", "--user", "callers:Mistaken", status=3)
    (error,) = result["statistics"]["errors"]
    assert "use perform()" in error
    assert result["history"]["fail"] == result["statistics"]["total"]["failures"] > 0
    require_agreement(result)


@pytest.mark.heavy
def test_users_that_cannot_be_made_are_one_line_and_nothing_is_left(folder: Path, load: LoadCommands) -> None:
    process = load.start("--members", "1", "--user", "nowhere:Nobody")
    output, errors = process.communicate(timeout=240)
    assert (process.returncode, output) == (2, "")
    assert errors == "upheaval: user 'nowhere:Nobody': no module 'nowhere' on the Python path\n"
    assert not folder.exists()


@pytest.mark.heavy
def test_what_a_users_task_raises_is_told_and_is_no_success(folder: Path, load: LoadCommands) -> None:
    (folder.parent / "doubler.py").write_text(OWN_SERVICE)
    (folder.parent / "callers.py").write_text(OWN_USER)
    own = ("--service", "doubler:Doubler", "--user", "callers:Doubtful")
    result = load.run(*own, "--users", "2", "--rate", "50", "--duration", "2s", "--members", "1", status=1)
    assert result["verdict"] == "invalid"
    (broken,) = [each for each in result["promises"] if each["verdict"] == "invalid"]
    number = OWN_USER.splitlines().index('        assert answer == b"something else", "not what I thought"') + 1
    callers = folder.parent / "callers.py"
    text = f"AssertionError: not what I thought ({callers}:{number} in ask)"
    at_end = f"AssertionError: not at the end, either ({callers}:{number + 3} in on_stop)"
    assert (broken["promise"], broken["detail"]) == (Promise.TASKS_PASSED, f"{text} (and 1 other texts)")
    assert result["statistics"]["raised"] == {text: require_agreement(result), at_end: 2}
    assert main(["verify", str(folder)]) == 1


@pytest.mark.heavy
def test_a_history_that_cannot_be_written_ends_the_load(folder: Path, load: LoadCommands) -> None:
    cluster = ProcessCluster.create(folder, ClusterSpec(members=1))
    (folder / "history.jsonl").unlink()
    (folder / "history.jsonl").symlink_to("/dev/full")
    cluster.up()
    process = load.start("--users", "4", "--rate", "0", "--duration", "600s")
    output, errors = process.communicate(timeout=240)
    assert (process.returncode, output) == (2, "")
    assert "cannot write" in errors.splitlines()[-1]
    assert "No space left" in errors.splitlines()[-1]
    assert load.users() == []


@pytest.mark.heavy
def test_ctrl_c_ends_users_and_cluster(folder: Path, load: LoadCommands) -> None:
    process = load.start("--users", "4", "--duration", "600s", "--members", "1")
    load.wait_until_loaded(process)
    process.send_signal(signal.SIGINT)
    output, errors = process.communicate(timeout=240)
    assert (process.returncode, output) == (130, "")
    assert errors.splitlines()[-1] == "upheaval: interrupted: nothing was left running by this command"
    assert load.users() == []
    assert running(folder) == 0
