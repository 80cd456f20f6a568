"""`upheaval tool` on members as processes, running and stopped, and on what it left of their files."""

import json
import socket
from collections.abc import Callable
from pathlib import Path

import pytest

from support.live_clusters import end_without_trace
from upheaval.cli.main import main
from upheaval.runtimes.ports import member_ports
from upheaval.runtimes.process import ProcessCluster
from upheaval.system import ClusterSpec
from upheaval.waits import wait_until
from upheaval_node.client.driver import BlockingClient
from upheaval_node.files.recording_log_entry import read_entries
from upheaval_node.tool.commands import COMMANDS
from upheaval_node.tool.disk import DiskNode
from upheaval_node.tool.marks import find_mark

pytestmark = pytest.mark.heavy

TIMEOUT_S = 240.0
FAILED = 255

Said = tuple[int, str, str]
Tool = Callable[..., Said]


@pytest.fixture
def tool(capsys: pytest.CaptureFixture[str]) -> Tool:
    """Exit status, text and error line of a command on a member, or on a folder."""

    def run(folder: Path, *words: str) -> Said:
        capsys.readouterr()
        status = main(["tool", str(folder), *words, "--timeout", "20"])
        said = capsys.readouterr()
        return status, said.out, said.err

    return run


def _values(tool: Tool, folder: Path, *words: str) -> dict[str, object]:
    status, out, _ = tool(folder, *words, "--json")
    values: dict[str, object] = json.loads(out)
    assert values["exit_status"] == status
    return values


def _state(tool: Tool, cluster: ProcessCluster, state: str) -> None:
    wait_until(
        lambda: {each.module_state for each in cluster.for_all(lambda member: member.control_status())} == {state},
        timeout_s=TIMEOUT_S,
        describe=lambda: f"not all members are {state}: {cluster.for_all(lambda member: member.control_status())}",
    )


@pytest.mark.parity("TL-01", "TL-02", "TL-03", "TL-04", "TL-14")
@pytest.mark.parametrize("components", ["together", "split"])
def test_an_operator_runs_a_cluster_by_the_tool_and_ends_it(components: str, tmp_path: Path, tool: Tool) -> None:
    # A path that no Unix socket may have.
    folder = tmp_path / ("long-" * 30) / "run"
    cluster = ProcessCluster.create(folder, ClusterSpec(members=3, components=components))
    try:
        leader = cluster.up()
        members = [member.folder for member in cluster.members]
        follower = next(each for each in range(3) if each != leader)
        with BlockingClient(cluster.ingress_endpoints(), TIMEOUT_S) as client:
            client.write("k", b"5")
            _order_and_look(tool, cluster, leader, follower)
        _suspend_and_resume(tool, cluster, leader, follower)
        assert tool(members[leader], "shutdown") == (0, f"Member [{leader}]: SHUTDOWN applied successfully\n", "")
        _wait_until_ended(cluster)
        # The kernel may release the driver's lock a little after its process is gone.
        wait_until(
            lambda: tool(members[leader], "is-leader")[2].endswith("cnc.dat does not run\n"),
            timeout_s=TIMEOUT_S,
            describe=lambda: f"is-leader: {tool(members[leader], 'is-leader')}",
        )
        assert tool(members[leader], "is-leader")[:2] == (1, "")
        last = _values(tool, members[follower], "recording-log")["entries"]
        assert isinstance(last, list)
        # The first election may have taken more than one term.
        assert [entry["serviceId"] for entry in last if entry["type"] == "SNAPSHOT"] == [0, -1, 0, -1]
        assert {entry["type"] for entry in last} == {"TERM", "SNAPSHOT"}
    finally:
        end_without_trace(cluster)


def _order_and_look(tool: Tool, cluster: ProcessCluster, leader: int, follower: int) -> None:
    leading, following = cluster.member(leader).folder, cluster.member(follower).folder
    assert [tool(member.folder, "is-leader")[0] for member in cluster.members] == [
        0 if each == leader else 1 for each in range(3)
    ]
    refused = f"Current node is not the leader (leaderMemberId = {leader}), unable to SNAPSHOT"
    assert tool(following, "snapshot") == (FAILED, f"Member [{follower}]: {refused}\n", "")
    assert tool(leading, "snapshot") == (0, f"Member [{leader}]: SNAPSHOT applied successfully\n", "")
    status, out, _ = tool(leading, "describe-latest-cm-snapshot")
    assert status == 0
    assert out.startswith("Snapshot: appVersion=1 timeUnit=MILLISECONDS\nConsensus Module State: nextSessionId=2 ")
    assert "Cluster Session: clusterSessionId=1 " in out
    pids = {entry["pid"] for entry in _marks(tool, leading)}
    assert pids <= set(cluster.member(leader).status().pids.values())
    assert tool(leading, "pid")[1] == f"{_marks(tool, leading)[0]['pid']}\n"
    members = _values(tool, following, "list-members")
    assert (members["leaderMemberId"], members["memberId"]) == (leader, follower)
    plan = _values(tool, leading, "recovery-plan", "1")
    assert isinstance(plan["log"], dict)
    assert plan["log"]["stopPosition"] == -1
    status, out, _ = tool(following, "validate-recording-log")
    assert (status, out) == (0, f"Member [{follower}]: VALIDATE_RECORDING_LOG applied successfully\n")
    before = (following / "cluster" / "recording.log").read_bytes()
    status, out, error = tool(following, "seed-recording-log-from-snapshot")
    assert (status, out) == (1, "")
    assert error.startswith("upheaval tool: recording.log is in use: the node runs")
    assert (following / "cluster" / "recording.log").read_bytes() == before
    assert tool(following, "backup-query") == (FAILED, "not a cluster backup node\n", "")
    assert tool(following, "errors")[1].count("distinct errors observed") == 3


def _wait_until_ended(cluster: ProcessCluster) -> None:
    wait_until(
        lambda: not any(member.incarnation() for member in cluster.members),
        timeout_s=TIMEOUT_S,
        describe=lambda: f"members still run: {[sorted(member.incarnation()) for member in cluster.members]}",
    )


def _marks(tool: Tool, folder: Path) -> list[dict[str, int]]:
    marks = _values(tool, folder, "describe")["marks"]
    assert isinstance(marks, list)
    return marks


def _suspend_and_resume(tool: Tool, cluster: ProcessCluster, leader: int, follower: int) -> None:
    leading = cluster.member(leader).folder
    assert tool(leading, "suspend")[0] == 0
    _state(tool, cluster, "SUSPENDED")
    told = "Unable to SNAPSHOT as the state of the consensus module is SUSPENDED, but needs to be ACTIVE"
    assert tool(leading, "snapshot") == (FAILED, f"Member [{leader}]: {told}\n", "")
    assert [tool(cluster.member(each).folder, "is-leader")[0] for each in (leader, follower)] == [0, 1]
    assert tool(leading, "resume") == (0, f"Member [{leader}]: RESUME applied successfully\n", "")
    _state(tool, cluster, "ACTIVE")


def test_a_backup_tells_when_it_queries_next_and_is_told(tmp_path: Path, tool: Tool) -> None:
    cluster = ProcessCluster.create(tmp_path / "run", ClusterSpec(members=1))
    try:
        cluster.up()
        member, backup = cluster.member(0).folder, cluster.folder / "backup-0"
        assert main(["backup", "start", "--dir", str(cluster.folder)]) == 0
        assert main(["backup", "wait", "--dir", str(cluster.folder)]) == 0
        assert tool(member, "snapshot")[0] == 0
        assert tool(backup, "describe-latest-cm-snapshot") == (FAILED, "Snapshot not found\n", "")
        status, out, _ = tool(backup, "backup-query", "0")
        assert (status, " setting next: " in out) == (0, True)
        wait_until(
            lambda: len(_entries(tool, backup)) == 3,
            timeout_s=TIMEOUT_S,
            describe=lambda: f"no snapshot in {_entries(tool, backup)}",
        )
        far = _values(tool, backup, "backup-query", "3600s")
        assert isinstance(far["nextQueryMs"], int)
        assert isinstance(far["nowMs"], int)
        assert far["nextQueryMs"] - far["nowMs"] == 3_600_000
        shown = tool(backup, "describe-latest-cm-snapshot")
        assert (shown[0], shown[1].count("Snapshot: appVersion=1")) == (0, 1)
        status, out, error = tool(backup, "list-members")
        assert (status, out) == (1, "")
        assert error.endswith("it has no consensus module to ask\n")
    finally:
        end_without_trace(cluster)


def _entries(tool: Tool, folder: Path) -> list[object]:
    entries = _values(tool, folder, "recording-log")["entries"]
    assert isinstance(entries, list)
    return entries


@pytest.mark.parametrize(("components", "place"), [("together", 0), ("split", 1)])
def test_errors_of_a_running_member_are_told(components: str, place: int, tmp_path: Path, tool: Tool) -> None:
    """The media driver's are in the module's log, or in the driver's own when the module is another process."""
    cluster = ProcessCluster.create(tmp_path / "run", ClusterSpec(members=1, components=components))
    try:
        cluster.up()
        member = cluster.member(0).folder
        consensus = member_ports(cluster.config.base_port, 0)[1]
        with socket.create_connection(("127.0.0.1", consensus)) as stranger:
            stranger.sendall(b"\xff" * 64)
        wait_until(lambda: bool(_logs(tool, member)[place]), timeout_s=TIMEOUT_S, describe=lambda: "no error")
        status, out, _ = tool(member, "errors")
        assert status == 0
        assert "1 distinct errors observed." in out
        error = _logs(tool, member)[place][0]
        assert out.count(error["text"]) == 1
        assert [len(log) for log in _logs(tool, member)] == [1 - place, place, 0]
    finally:
        end_without_trace(cluster)


def _logs(tool: Tool, folder: Path) -> list[list[dict[str, str]]]:
    """The errors of module, media driver and service."""
    logs = _values(tool, folder, "errors")["logs"]
    assert isinstance(logs, list)
    return [log["errors"] for log in logs]


@pytest.mark.parity("TL-16")
def test_a_module_that_is_silent_is_given_up(tmp_path: Path) -> None:
    cluster = ProcessCluster.create(tmp_path / "run", ClusterSpec(members=1))
    try:
        cluster.up()
        member = cluster.member(0)
        member.node.pause()
        with DiskNode(str(member.folder / "cluster")) as node:
            mark = find_mark(node)
            assert mark is not None
            assert node.query_members(mark.header, 300) is None
        member.node.resume()
        with DiskNode(str(member.folder / "cluster")) as node:
            assert node.query_members(mark.header, 20_000) is not None
    finally:
        end_without_trace(cluster)


@pytest.mark.parity("TL-10", "TL-12", "TL-13")
def test_a_cluster_goes_on_from_what_the_tool_made_of_its_recording_logs(tmp_path: Path, tool: Tool) -> None:
    cluster = ProcessCluster.create(tmp_path / "run", ClusterSpec(members=1))
    log = cluster.member(0).folder / "cluster" / "recording.log"
    try:
        cluster.up()
        with BlockingClient(cluster.ingress_endpoints(), TIMEOUT_S) as client:
            client.write("k", b"in the snapshot")
            assert tool(cluster.member(0).folder, "snapshot")[0] == 0
            client.write("l", b"in the log only")
        cluster.member(0).kill()
        member = cluster.member(0).folder
        ends = _values(tool, member, "recovery-plan", "1")
        assert isinstance(ends["log"], dict)
        assert ends["appendedLogPosition"] == ends["log"]["stopPosition"] > 0
        assert tool(member, "invalidate-latest-snapshot") == (0, " invalidate latest snapshot: true\n", "")
        assert tool(member, "invalidate-latest-snapshot") == (FAILED, " invalidate latest snapshot: false\n", "")
        invalidated = _values_after_a_start(cluster)
        assert tool(member, "sort-recording-log")[0] == FAILED
        content = log.read_bytes()
        log.write_bytes(b"".join(reversed([content[at : at + 64] for at in range(0, len(content), 64)])))
        assert tool(member, "sort-recording-log") == (0, "", "")
        assert log.read_bytes() == content
        assert tool(member, "seed-recording-log-from-snapshot") == (0, "", "")
        assert log.with_name("recording.log.bak").read_bytes() == content
        assert {entry.log_position for entry in read_entries(log.read_bytes())[0]} == {0}
        seeded = _values_after_a_start(cluster)
    finally:
        end_without_trace(cluster)
    assert invalidated == seeded == [b"in the snapshot", b"in the log only"]


def _values_after_a_start(cluster: ProcessCluster) -> list[bytes | None]:
    """Every start but the last ends by a snapshot, which the next one has."""
    leader = cluster.up()
    with BlockingClient(cluster.ingress_endpoints(), TIMEOUT_S) as client:
        values = [client.read(key) for key in "kl"]
    with DiskNode(str(cluster.member(leader).folder / "cluster")) as node:
        assert COMMANDS["shutdown"].run(node, [], 20_000).status == 0
    _wait_until_ended(cluster)
    return values
