"""Clusters of real members of Aeron, as processes: made, used, broken, ended and judged like those of our node."""

import json
from pathlib import Path

import pytest

from upheaval.checkers.run import verify_run
from upheaval.checkers.verdict import Verdict
from upheaval.cli.main import main
from upheaval.cluster import end_run
from upheaval.records import RunFolder
from upheaval.runtimes.opening import open_cluster
from upheaval.runtimes.process_load import ProcessLoad
from upheaval.waits import wait_until
from upheaval.workload import WorkloadSettings

SCENARIO = """title A leader is killed and returns, and all end and start again from a snapshot
cluster service=ledger
workload rate=200 slots=8 sessions=2 keys=8
wait operations 100
snapshot
inject dead kill leader
wait leader other-than dead
wait operations 50
heal dead
wait caught-up dead
shutdown
start
wait operations 50
"""


def shared_memory(run: Path) -> list[Path]:
    run_id = RunFolder(run).read_manifest().run_id
    return list(Path("/dev/shm").glob(f"upheaval-*{run_id}*"))


@pytest.mark.heavy
def test_a_scenario_is_run_and_valid(tmp_path: Path) -> None:
    (tmp_path / "it.scenario").write_text(SCENARIO)
    run = tmp_path / "run"
    command = ["run", str(tmp_path / "it.scenario"), "--runtime", "process", "--system", "aeron", "--dir", str(run)]
    assert main(command) == 0
    assert RunFolder(run).read_manifest().system == "aeron:1.51.0"
    assert shared_memory(run) == []
    assert all((run / f"member-{member}" / "aeron" / "cnc.dat").is_file() for member in range(3))


@pytest.mark.heavy
def test_a_cluster_is_made_used_broken_and_ended_by_hand(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    folder = tmp_path / "c"
    place = ["--dir", str(folder)]
    try:
        assert main(["up", *place, "--system", "aeron", "--timeout", "90"]) == 0
        with open_cluster(folder) as cluster:
            with ProcessLoad(cluster, WorkloadSettings(rate=300, slots=8)) as load:
                load.wait_until_acknowledged(150, 60)
            capsys.readouterr()
            assert main(["status", *place, "--json"]) == 0
            assert "LEADER" in json.dumps(json.loads(capsys.readouterr().out))
            victim = cluster.wait_until_leader()
            assert main(["kill", *place, str(victim)]) == 0
            assert main(["start", *place, str(victim)]) == 0
            wait_until(
                lambda: cluster.member(victim).status().election_state == "CLOSED",
                timeout_s=60,
                describe=lambda: f"not caught up: {cluster.status()}",
            )
            for command in ("snapshot", "suspend", "resume"):
                assert main([command, *place]) == 0
            end_run(cluster, takes_snapshot=False)
        assert main(["shutdown", *place]) == 0
    finally:
        assert main(["down", *place]) == 0
    assert verify_run(folder).verdict is Verdict.VALID, verify_run(folder).findings
    assert shared_memory(folder) == []
