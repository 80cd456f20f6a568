"""Clusters of real members of Aeron, as processes: made, used, broken, ended and judged like those of our node."""

import json
import threading
from pathlib import Path

import pytest

from support.load_runs import kill_the_leader
from support.valid import is_only_late, require_valid, require_valid_end
from upheaval.checkers.evidence.recordings import snapshot_entries
from upheaval.checkers.judge import verify_run
from upheaval.checkers.promises import Promise
from upheaval.checkers.verdict import Verdict
from upheaval.cli.main import main
from upheaval.cluster import end_run
from upheaval.records import RunFolder
from upheaval.report.elections import Outcome, elections_of
from upheaval.runtimes.live import AnyCluster
from upheaval.runtimes.opening import open_cluster
from upheaval.runtimes.process_load import ProcessLoad
from upheaval.testing.cluster import Cluster
from upheaval.waits import wait_until
from upheaval.workload import WorkloadSettings
from upheaval_node.runtime.exit_status import ExitStatus
from upheaval_node.service.services.encoding import Operation, Request, Status, decode_response, encode_request
from upheaval_node.trace_kinds import TraceKind

FAILED = 255
"""The exit status of what ClusterTool calls -1."""
SCENARIO = """title A leader is killed and returns, and all end and start again from a snapshot
cluster service=ledger
workload rate=200 slots=8 sessions=2 keys=8
wait operations 100
snapshot
backup start
wait backup caught-up
inject dead kill leader
wait leader other-than dead
wait operations 50
heal dead
wait caught-up dead
shutdown
start
wait operations 50
"""


SPLIT_SCENARIO = """title The service of a follower stands still while the others answer, and goes on
cluster components=split
workload rate=100 slots=8 sessions=2 keys=8
wait operations 50
inject stuck pause follower component=service
wait operations 100
heal stuck
wait caught-up stuck
"""


def shared_memory(run: Path) -> list[Path]:
    run_id = RunFolder(run).read_manifest().run_id
    return list(Path("/dev/shm").glob(f"upheaval-*{run_id}*"))


@pytest.mark.heavy
def test_a_scenario_is_run_and_valid(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (tmp_path / "it.scenario").write_text(SCENARIO)
    run = tmp_path / "run"
    command = ["run", str(tmp_path / "it.scenario"), "--runtime", "process", "--system", "aeron", "--dir", str(run)]
    require_valid_end(main(command), run, capsys.readouterr())
    assert RunFolder(run).read_manifest().system == "aeron:1.51.0"
    assert shared_memory(run) == []
    assert all((run / f"member-{member}" / "aeron" / "cnc.dat").is_file() for member in range(3))
    report = verify_run(run)
    seen = [report.finding(promise) for promise in (Promise.VOTES_KEPT, Promise.COMMITS_KEPT)]
    assert [each.verdict for each in seen] == [Verdict.VALID] * 2, seen
    assert report.finding(Promise.BACKED_UP).verdict is Verdict.VALID
    found = elections_of(RunFolder(run))
    assert sum(each.outcome is Outcome.LEADS and len(each.voters) > 1 for each in found) >= 3
    capsys.readouterr()
    assert main(["trace", str(run), "--message", "Vote"]) == 0
    assert "followerMemberId" in capsys.readouterr().out


def test_the_service_of_a_follower_stands_still_in_its_own_process(tmp_path: Path) -> None:
    (tmp_path / "it.scenario").write_text(SPLIT_SCENARIO)
    for run in (tmp_path / "first", tmp_path / "second", tmp_path / "third"):
        command = ["run", str(tmp_path / "it.scenario"), "--runtime", "process", "--system", "aeron", "--dir", str(run)]
        status = main(command)
        if status == 0 or not is_only_late(verify_run(run)):
            break
    assert status == 0
    [fault] = RunFolder(run).read_faults()
    assert (fault.what, fault.component) == ("pause", "service")
    for member in range(3):
        events = list(RunFolder(run).member(member).read_trace())
        ends = {str(each.fields["component"]): each for each in events if each.event == TraceKind.PROCESS_END}
        assert {name: each.fields["status"] for name, each in ends.items()} == dict.fromkeys(
            ("archive", "consensus", "service-0"), 0
        )
        assert len({each.fields["pid"] for each in events}) == 3
    assert fault.heal_begin_ns is not None
    stood_ns = fault.heal_begin_ns - fault.inject_end_ns
    trace = RunFolder(run).member(fault.members[0]).read_trace()
    stalls = [
        each.fields["stall_ns"]
        for each in trace
        if each.fields["component"] == "service-0" and each.event == TraceKind.LOOP_STALL
    ]
    assert any(isinstance(stall, int) and stall >= stood_ns for stall in stalls), (stood_ns, stalls)


@pytest.mark.nightly
@pytest.mark.parametrize("name", ["component-killed", "service-restarted"])
def test_a_member_whose_component_ends_ends_as_a_whole_and_returns(name: str, tmp_path: Path) -> None:
    run = tmp_path / "run"
    require_valid_end(main(["run", name, "--runtime", "process", "--system", "aeron", "--dir", str(run)]), run)
    [fault] = RunFolder(run).read_faults()
    events = list(RunFolder(run).member(fault.members[0]).read_trace())
    assert {each.fields["component"] for each in events if each.fields.get("status") == ExitStatus.COMPONENT_LOST} == (
        {"consensus", "service-0"} if name == "component-killed" else {"consensus"}
    )


@pytest.mark.heavy
def test_a_cluster_is_made_used_broken_and_ended_by_hand(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    folder = tmp_path / "c"
    place = ["--dir", str(folder)]
    try:
        assert main(["up", *place, "--system", "aeron", "--timeout", "90"]) == 0
        with open_cluster(folder) as cluster:
            with ProcessLoad(cluster, WorkloadSettings(rate=300, slots=8)) as load:
                load.wait_until_acknowledged(150, 60)
            assert main(["client", *place, "register", "write", "by-hand", "5"]) == 0
            capsys.readouterr()
            assert main(["client", *place, "register", "read", "by-hand"]) == 0
            assert capsys.readouterr().out == "5\n"
            assert main(["status", *place, "--json"]) == 0
            assert "LEADER" in json.dumps(json.loads(capsys.readouterr().out))
            victim = cluster.wait_until_leader()
            assert main(["kill", *place, str(victim)]) == 0
            assert main(["start", *place, str(victim)]) == 0
            wait_until(
                lambda: cluster.member(victim).status().election_state == "CLOSED",
                timeout_s=240,
                describe=lambda: f"not caught up: {cluster.status()}",
            )
            for command in ("snapshot", "suspend", "resume"):
                assert main([command, *place]) == 0
            ask_by_the_tool(cluster, capsys)
            end_run(cluster, takes_snapshot=False)
        assert main(["shutdown", *place]) == 0
    finally:
        assert main(["down", *place]) == 0
    capsys.readouterr()
    assert main(["tool", str(folder / "member-0"), "list-members"]) == FAILED
    assert capsys.readouterr().out == "timeout waiting for response from node\n"
    require_valid(verify_run(folder))
    assert shared_memory(folder) == []


def ask_by_the_tool(cluster: AnyCluster, capsys: pytest.CaptureFixture[str]) -> None:
    """What needs an answer of a member is printed as by the tool on our own members."""
    leader = cluster.wait_until_leader()
    follower = (leader + 1) % 3
    capsys.readouterr()

    def tool(member_id: int, *words: str) -> tuple[int, str]:
        status = main(["tool", str(cluster.folder / f"member-{member_id}"), *words, "--timeout", "20"])
        return status, capsys.readouterr().out

    status, out = tool(follower, "list-members", "--json")
    listing = json.loads(out)
    assert (status, listing["leaderMemberId"], listing["memberId"]) == (0, leader, follower)
    assert [(each["id"], each["isLeader"], each["vote"]) for each in listing["activeMembers"]] == [
        (member, member == leader, None) for member in range(3)
    ]
    assert listing["activeMembers"][leader]["ingressEndpoint"] == cluster.ingress_endpoints()[leader]
    assert tool(leader, "suspend") == (0, f"Member [{leader}]: SUSPEND applied successfully\n")
    why = "as the state of the consensus module is SUSPENDED, but needs to be ACTIVE"
    assert tool(leader, "snapshot") == (FAILED, f"Member [{leader}]: Unable to SNAPSHOT {why}\n")
    assert tool(leader, "resume") == (0, f"Member [{leader}]: RESUME applied successfully\n")
    done = f"Member [{follower}]: VALIDATE_RECORDING_LOG applied successfully\n"
    assert tool(follower, "validate-recording-log") == (0, done)


@pytest.mark.heavy
def test_clients_of_a_test_ask_a_cluster_that_is_aborted(tmp_path: Path) -> None:
    with Cluster(system="aeron", members=1, folder=tmp_path / "run") as cluster:
        cluster.workload.start(rate=200)
        with cluster.client() as client, cluster.client() as other:
            answer = decode_response(client.request(encode_request(Request(1 << 60, Operation.WRITE, "mine", b"1"))))
            assert answer.status is Status.OK
            read = encode_request(Request((1 << 60) + 1, Operation.READ, "mine"))
            assert decode_response(other.request(read)).value == b"1"
        cluster.workload.wait_for(120)
        cluster.workload.stop()
        cluster.abort()
    ends = [each.fields for each in cluster.run.member(0).read_trace() if each.event == TraceKind.CLUSTER_END]
    assert [each["services"] for each in ends] == [1]
    assert snapshot_entries(cluster.run.member(0).recording_log) == []
    assert shared_memory(tmp_path / "run") == []


@pytest.mark.nightly
def test_users_of_locust_survive_a_leader(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    run = tmp_path / "run"
    killed = threading.Thread(target=kill_the_leader_under_load, args=(run,))
    killed.start()
    status = main(["load", "--system", "aeron", "--users", "8", "--duration", "20s", "--new-dir", str(run), "--json"])
    killed.join()
    printed = capsys.readouterr()
    require_valid_end(status, run, printed)
    summary = json.loads(printed.out)
    assert summary["history"]["ok"] > 100
    assert [fault.what for fault in RunFolder(run).read_faults()] == ["kill"]
    assert shared_memory(run) == []


def kill_the_leader_under_load(run: Path) -> None:
    history = run / "history.jsonl"
    wait_until(
        lambda: history.exists() and history.stat().st_size > 10_000,
        timeout_s=120,
        describe=lambda: "the users ask nothing",
    )
    with open_cluster(run) as cluster:
        kill_the_leader(cluster)


@pytest.mark.nightly
def test_a_backup_loses_its_source_and_is_restored(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    run, new = tmp_path / "run", ["--dir", str(tmp_path / "new")]
    command = ["run", "backup-loses-its-source", "--runtime", "process", "--system", "aeron", "--dir", str(run)]
    assert main(command) == 0, capsys.readouterr()
    try:
        assert main(["restore", "--from", str(run / "backup-0"), *new]) == 0, capsys.readouterr()
        assert main(["standby", *new, "start"]) == 2
        assert capsys.readouterr().err.endswith("system aeron has no standby: that of Aeron is not open source\n")
        for action in ("start", "wait"):
            assert main(["backup", *new, action]) == 0
        capsys.readouterr()
        assert main(["tool", str(tmp_path / "new" / "backup-0"), "backup-query", "0"]) == 0
        assert " setting next: " in capsys.readouterr().out
        with open_cluster(tmp_path / "new") as cluster:
            end_run(cluster, takes_snapshot=False)
    finally:
        assert main(["down", *new]) == 0
    report = verify_run(tmp_path / "new")
    bound = [report.finding(promise).verdict for promise in (Promise.BACKED_UP, Promise.EVIDENCE_BOUND)]
    assert (report.verdict, *bound) == (Verdict.VALID,) * 3, report.findings
    assert shared_memory(run) == shared_memory(tmp_path / "new") == []
