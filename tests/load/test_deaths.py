"""Users that die, or never ask: their load does not end with a verdict that something else earned."""

from pathlib import Path

import pytest

from support.load_runs import LoadCommands, require_agreement
from upheaval.checkers.promises import Promise
from upheaval.errors import EnvironmentFault
from upheaval.load.settings import LoadSettings, Progress
from upheaval.load.users_process import run_users
from upheaval.runtimes.process import ProcessCluster
from upheaval.system import ClusterSpec

USERS = """
import os
import sys

from locust import constant, task
from upheaval import ClusterUser

class Idle(ClusterUser):
    wait_time = constant(0.05)

    @task
    def think(self):
        pass

class Unmade(Idle):
    def __init__(self, environment):
        super().__init__(environment)
        if self.number == 1:
            raise ValueError("no such bank")

class Quitting(Idle):
    @task
    def think(self):
        print("I leave", file=sys.stderr, flush=True)
        sys.exit(0)

class Vanishing(Idle):
    @task
    def think(self):
        print("I leave", file=sys.stderr, flush=True)
        os._exit(0)
"""


class Unheard:
    """Implements `users_process.Listener`."""

    def ready(self) -> None:
        """Do nothing."""

    def progress(self, progress: Progress) -> None:
        """Do nothing."""


@pytest.fixture
def users(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The file with the classes, in the current folder."""
    monkeypatch.chdir(tmp_path)
    (tmp_path / "dying.py").write_text(USERS)
    return tmp_path / "dying.py"


def settings(folder: Path, name: str) -> LoadSettings:
    """Of a load that needs no cluster, as its users ask nothing."""
    return LoadSettings("0=127.0.0.1:1", str(folder / "history.jsonl"), 2, 2.0, user=f"dying:{name}")


def test_a_user_that_cannot_be_made_is_counted_as_raised(users: Path) -> None:
    statistics = run_users(settings(users.parent, "Unmade"), users.parent / "load.log", Unheard())
    number = USERS.splitlines().index('            raise ValueError("no such bank")') + 1
    assert statistics.raised == {f"ValueError: no such bank ({users}:{number} in __init__)": 1}


@pytest.mark.parametrize("name", ["Quitting", "Vanishing"])
def test_users_that_leave_with_status_0_have_not_done_their_load(users: Path, name: str) -> None:
    with pytest.raises(EnvironmentFault, match=r"^the users ended with status 0: "):
        run_users(settings(users.parent, name), users.parent / "load.log", Unheard())


@pytest.mark.heavy
def test_a_load_that_asks_nothing_does_not_inherit_the_verdict_on_an_earlier_one(
    users: Path, folder: Path, load: LoadCommands
) -> None:
    cluster = ProcessCluster.create(folder, ClusterSpec(members=1))
    cluster.up()
    earlier = load.run("--users", "5", "--rate", "50", "--duration", "10s")
    assert require_agreement(earlier) > 100
    idle = load.run("--users", "2", "--duration", "2s", "--user", "dying:Idle", status=3)
    (traffic,) = [each for each in idle["promises"] if each["promise"] == Promise.ENOUGH_TRAFFIC]
    assert traffic["detail"] == "the users made no request (see load.log)"
    assert idle["verdict"] == "unknown"
    assert users.parent == folder.parent
