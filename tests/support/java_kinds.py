"""Right services in Java of several kinds, and requests to them across a failover and a restart from a snapshot."""

import subprocess
from pathlib import Path
from typing import Final

from aeron_jar import jar
from upheaval import Cluster, Report, Verdict
from upheaval.checkers.promises import Promise

SERVICES: Final = Path(__file__).parent / "java_services"
KINDS: Final = ("Accounts", "News", "Parcels")
"""Answers and timers; broadcasts beside answers; a snapshot of several binary messages."""
REQUESTS: Final = 120


def compile_kinds(folder: Path) -> Path:
    """Compile all services to `classes` in that folder, and return the folder."""
    sources = map(str, sorted((SERVICES / "kinds").glob("*.java")))
    subprocess.run(["javac", "-cp", str(jar()), "-d", str(folder / "classes"), *sources], check=True)
    return folder


def ask_across_failover_and_restart(cluster: Cluster) -> Report:
    """Returns the verdict on the run."""
    client = cluster.client(accepts=lambda answer: not bytes(answer).startswith(b"news of "))
    for number in range(REQUESTS):
        if number == REQUESTS // 2:
            cluster.chaos.kill_leader()
        request = f"later n{number % 11} {number} 40" if number % 5 == 0 else f"add n{number % 11} {number}"
        client.request(request.encode(), retries=40)
    cluster.restart_from_snapshot(timeout_s=240)
    client.request(b"add last 1", retries=40)
    return cluster.verify()


def require_right(report: Report) -> None:
    """A starved machine leaves bounds on time unknown."""
    assert report.verdict is not Verdict.INVALID, report
    for promise in (Promise.SNAPSHOT_IS_REPLAY, Promise.STATES_AGREE, Promise.ACKNOWLEDGED_NOT_LOST):
        assert report.finding(promise).verdict is Verdict.VALID, report
