"""Snapshots that a test does not ask for, and a restart from one: what a snapshot leaves out is found by them."""

from pathlib import Path

import pytest

from support.own_services import SERVICES
from support.valid import require_valid
from upheaval import Cluster, Verdict
from upheaval.checkers.promises import Promise

pytestmark = pytest.mark.usefixtures("shared")

REQUESTS = 55
FORGETFUL = """
import json

from upheaval import ClusteredService

class Forgetful(ClusteredService):
    def __init__(self):
        self.count = self.sum = 0

    def on_start(self, cluster, snapshot_image):
        if snapshot_image is not None:
            (self.count,) = json.loads(snapshot_image.read())

    def on_take_snapshot(self, publication):
        publication.offer(json.dumps([self.count]).encode())

    def on_session_message(self, session, timestamp, payload, position):
        self.count += 1
        self.sum += len(payload)
        session.respond(b"%d %d" % (self.count, self.sum))
"""


def commands(cluster: Cluster) -> list[str]:
    return [str(control.what) for control in cluster.run.read_controls()]


def asked(cluster: Cluster, name: str) -> None:
    client = cluster.client()
    for number in range(REQUESTS):
        client.request(b'{"id": "%b-%d", "key": "lock"}' % (name.encode(), number), retries=20)


@pytest.mark.parametrize(("witnesses", "count"), [(True, 3), (False, 1)])
def test_a_cluster_takes_them_before_the_first_fault_and_after_a_heal(
    witnesses: bool, count: int, tmp_path: Path
) -> None:
    folder = tmp_path / "run"
    with Cluster("locks:Locks", SERVICES, runtime="simulated", witnesses=witnesses, folder=folder) as cluster:
        asked(cluster, "before")
        cluster.chaos.kill_leader()
        cluster.heal()
        asked(cluster, "after")
        report = cluster.verify()
    assert commands(cluster) == ["snapshot"] * count
    require_valid(report)


def test_none_is_taken_of_a_cluster_that_is_not_calm_or_runs_a_shipped_service(tmp_path: Path) -> None:
    folder = tmp_path / "own"
    with Cluster("locks:Locks", SERVICES, runtime="simulated", witnesses=True, folder=folder) as cluster:
        cluster.suspend()
        cluster.chaos.restart("follower")
        cluster.resume_cluster()
        cluster.chaos.restart("follower")
    assert commands(cluster) == ["suspend", "resume", "snapshot", "snapshot"]
    with Cluster(runtime="simulated", witnesses=True, folder=tmp_path / "shipped") as cluster:
        cluster.chaos.restart("follower")
    assert commands(cluster) == []


def test_a_restart_from_a_snapshot_shows_what_it_leaves_out(tmp_path: Path) -> None:
    (tmp_path / "forgetful.py").write_text(FORGETFUL)
    with Cluster("forgetful:Forgetful", tmp_path, runtime="simulated", folder=tmp_path / "run") as cluster:
        asked(cluster, "before")
        assert cluster.restart_from_snapshot() in cluster.member_ids
        asked(cluster, "after")
        report = cluster.verify()
    assert commands(cluster) == ["shutdown", "start", "snapshot"]
    assert report.verdict is Verdict.INVALID
    assert report.finding(Promise.SNAPSHOT_IS_REPLAY).verdict is Verdict.INVALID, report
