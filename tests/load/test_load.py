"""Locust users on real clusters: what locust counted, what the history says, and what the log holds agree."""

import json
import subprocess
from pathlib import Path
from typing import Any

import pytest

from upheaval.runtimes.process import ProcessCluster
from upheaval.waits import wait_until

from .conftest import Start, running

OWN_USER = """
from locust import task
from upheaval.load.users import ClusterUser

class Caller(ClusterUser):
    @task
    def ask(self):
        assert self.call("ask", b"hello") == b"hello hello"
"""

OWN_SERVICE = """
from upheaval import ClusteredService

class Doubler(ClusteredService):
    def on_session_message(self, session, timestamp, payload, position):
        session.respond(bytes(payload), b" ", bytes(payload))
"""


def finish(process: "subprocess.Popen[str]", status: int) -> dict[str, Any]:
    output, errors = process.communicate(timeout=90)
    assert process.returncode == status, errors
    result: dict[str, Any] = json.loads(output)
    return result


def require_agreement(result: dict[str, Any]) -> None:
    rows, total, history = result["statistics"]["rows"], result["statistics"]["total"], result["history"]
    assert total["requests"] - total["failures"] == history["ok"]
    assert total["failures"] == history["fail"] + history["unknown"]
    assert sum(row["requests"] for row in rows) == total["requests"]


@pytest.mark.heavy
def test_a_leader_dies_under_load_and_the_numbers_agree(folder: Path, start_load: Start) -> None:
    process = start_load("--users", "15", "--duration", "6s", "--timeout", "2")
    history = folder / "history.jsonl"
    wait_until(
        lambda: history.exists() and history.stat().st_size > 0, timeout_s=30, describe=lambda: "there is no load"
    )
    cluster = ProcessCluster.open(folder)
    leader = cluster.wait_until_leader()
    cluster.member(leader).kill()
    cluster.wait_until_leader(other_than=leader)
    cluster.member(leader).start()
    cluster.flush_faults()
    result = finish(process, 0)
    assert result["verdict"] == "valid"
    assert {row["name"] for row in result["statistics"]["rows"]} == {"read", "write", "cas", "append", "list", "echo"}
    require_agreement(result)
    # Latency counts from the intended start: the time without a leader is in it.
    assert result["statistics"]["total"]["max_ms"] > 1000
    assert running(folder) == 0


@pytest.mark.heavy
def test_a_cluster_that_runs_is_used_and_goes_on_running(folder: Path, start_load: Start) -> None:
    cluster = ProcessCluster.create(folder, members=1)
    cluster.up()
    for user, names in (("register", {"read", "write", "cas"}), ("append", {"append", "list"}), ("echo", {"echo"})):
        result = finish(start_load("--users", "5", "--rate", "50", "--duration", "1s", "--user", user), 0)
        assert {row["name"] for row in result["statistics"]["rows"]} == names
        assert result["history"]["unknown"] == 0
        require_agreement(result)
        assert running(folder) == 1
    too_many = start_load("--users", "11")
    _, errors = too_many.communicate(timeout=30)
    assert (too_many.returncode, len(errors.splitlines())) == (2, 1)
    assert "lets 10 sessions in" in errors


@pytest.mark.heavy
def test_a_cluster_that_is_not_there_shows_as_failures(folder: Path, start_load: Start) -> None:
    ProcessCluster.create(folder, members=1)
    result = finish(start_load("--users", "3", "--duration", "2s", "--timeout", "1"), 3)
    assert result["statistics"]["total"]["failures"] == result["statistics"]["total"]["requests"] > 0
    assert set(result["statistics"]["errors"]) <= {
        f"{name}: no session: TimeoutExpired" for name in ("read", "write", "cas", "append", "list", "echo")
    }
    assert result["verdict"] == "unknown"
    require_agreement(result)


@pytest.mark.heavy
def test_a_user_of_ones_own_calls_a_service_of_ones_own(folder: Path, start_load: Start) -> None:
    (folder.parent / "doubler.py").write_text(OWN_SERVICE)
    (folder.parent / "callers.py").write_text(OWN_USER)
    cluster = ProcessCluster.create(folder, members=1, service="doubler:Doubler", source=folder.parent)
    cluster.up()
    result = finish(start_load("--users", "3", "--duration", "1s", "--user", "callers:Caller"), 3)
    (row,) = result["statistics"]["rows"]
    assert (row["name"], row["failures"]) == ("ask", 0)
    assert row["requests"] > 10
