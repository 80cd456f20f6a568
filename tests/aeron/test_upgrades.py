"""Members of Aeron are upgraded one by one under load, and the whole run is judged."""

import itertools
from pathlib import Path

import pytest

from upheaval import Cluster, Verdict
from upheaval.aeron_jars import SHA256, order_of
from upheaval.checkers.promises import Promise
from upheaval.operations.maintenance import upgrade
from upheaval.runtimes.process import ProcessCluster
from upheaval.runtimes.process_hosts import ProcessHosts
from upheaval.runtimes.renewal import Renewal
from upheaval.testing.live import LiveBackend

LIMIT_S = 180
"""For everything that a busy machine may take its time for."""
PAIRS = list(itertools.pairwise(sorted(SHA256, key=order_of)))


@pytest.mark.heavy
def test_members_are_upgraded_under_load_and_the_run_is_valid(tmp_path: Path) -> None:
    upgraded(tmp_path, "1.49.3", "1.51.0")


@pytest.mark.nightly
@pytest.mark.parametrize(("old", "new"), PAIRS)
def test_a_leader_is_killed_within_an_upgrade_between_neighbours(tmp_path: Path, old: str, new: str) -> None:
    upgraded(tmp_path, old, new, kills=True)


def upgraded(folder: Path, old: str, new: str, *, kills: bool = False) -> None:
    made = Cluster(runtime="process", system=f"aeron:{old}", folder=folder / "run")
    made.up(LIMIT_S)
    with made as cluster:
        backend = cluster._backend
        assert isinstance(backend, LiveBackend)
        live = backend.target
        assert isinstance(live, ProcessCluster)
        cluster.workload.start(rate=100)
        cluster.workload.wait_for(100, LIMIT_S)
        # Data of the old version under the new one, and not only its log.
        cluster.snapshot(LIMIT_S)
        done: list[str] = []

        def note(text: str) -> None:
            done.append(text)
            if kills and len(done) == 1:
                leader = cluster.wait_until_leader(LIMIT_S)
                live.member(leader).kill()
                live.member(leader).start()
                live.wait_until_caught_up(leader, LIMIT_S)

        upgrade(live, ProcessHosts(live), Renewal(system=f"aeron:{new}"), note)
        cluster.workload.wait_for(100, LIMIT_S)
        cluster.workload.stop()
        cluster.converge(LIMIT_S)
        report = cluster.verify()
    assert len(done) == 3
    manifest = cluster.run.read_manifest()
    assert (manifest.systems_before[0], manifest.system) == (f"aeron:{old}", f"aeron:{new}")
    assert manifest.system_sha256 == SHA256[new]
    # A machine that starves members may miss a bound on time, and breaks nothing else.
    broken = [each for each in report.findings if each.verdict is Verdict.INVALID and not each.late_ms]
    assert broken == []
    for promise in (Promise.ACKNOWLEDGED_NOT_LOST, Promise.STATES_AGREE, Promise.LOGS_EQUAL):
        assert report.finding(promise).verdict is Verdict.VALID
