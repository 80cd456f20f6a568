"""The tool on members of the simulated runtime: what runs, what is down, and what its changes lead to."""

from collections.abc import Sequence

import pytest

from upheaval.runtimes.simulated.cluster import SimulatedCluster
from upheaval.runtimes.simulated.disk import Disk
from upheaval.runtimes.simulated.tool import Operator, SimulatedNode, run_tool
from upheaval.runtimes.simulated.world import World
from upheaval.system import ClusterSpec, ControlStatus
from upheaval_node.archive.client import ArchiveClient
from upheaval_node.cluster.module_state import ModuleState
from upheaval_node.files import layout
from upheaval_node.files.mark_file import ClusterMarkHeader, MarkFile, decode_mark_file
from upheaval_node.files.recording_log_entry import read_entries
from upheaval_node.media.component import ComponentMedia
from upheaval_node.settings import profile_settings
from upheaval_node.tool.answer import FAILURE, NOT_LEADER, Answer, ToolFault
from upheaval_node.types import S

RECORD = 64


class Operated:
    """A cluster with a leader, and the tool for its members."""

    def __init__(self, seed: int) -> None:
        settings = profile_settings("test", sync_level=1)
        self.cluster = SimulatedCluster(World(seed), settings=settings)
        self.cluster.start_all()
        self.leader = self.cluster.wait_until_leader()
        self.follower = next(each for each in range(3) if each != self.leader)
        self.cluster.wait_until(
            lambda: {each.election_state for each in self.cluster.status()} == {"CLOSED"},
            10,
            "elections of all members",
        )

    def tool(self, member_id: int, command: str, *arguments: str) -> Answer:
        return run_tool(self.cluster.world, self.cluster.members[member_id], command, *arguments)

    def statuses(self) -> list[ControlStatus]:
        return [member.control_status() for member in self.cluster.members]

    def wait_for_state(self, state: ModuleState) -> None:
        self.cluster.wait_until(
            lambda: {each.module_state for each in self.statuses()} == {state.name},
            10,
            f"{state.name} of all members",
        )


@pytest.fixture
def operated() -> Operated:
    return Operated(11)


@pytest.mark.parity("TL-01", "TL-02")
def test_the_leader_takes_a_snapshot_that_can_be_shown_and_followers_refuse(operated: Operated) -> None:
    refused = operated.tool(operated.follower, "snapshot")
    told = f"Current node is not the leader (leaderMemberId = {operated.leader}), unable to SNAPSHOT"
    assert (refused.lines, refused.status) == ([f"Member [{operated.follower}]: {told}"], FAILURE)
    taken = operated.tool(operated.leader, "snapshot")
    assert (taken.lines, taken.status) == ([f"Member [{operated.leader}]: SNAPSHOT applied successfully"], 0)
    shown = operated.tool(operated.leader, "describe-latest-cm-snapshot")
    assert shown.status == 0
    assert shown.lines[0] == "Snapshot: appVersion=1 timeUnit=MILLISECONDS"
    assert shown.lines[-1].startswith(f"Consensus Module Snapshot End: memberId={operated.leader} recordingId=2 ")


@pytest.mark.parity("TL-03", "TL-04", "TL-14")
def test_a_suspended_cluster_takes_no_snapshot_until_it_is_resumed_and_keeps_its_leader(operated: Operated) -> None:
    leader = operated.leader
    assert operated.tool(leader, "suspend").status == 0
    operated.wait_for_state(ModuleState.SUSPENDED)
    refused = operated.tool(leader, "snapshot")
    told = "Unable to SNAPSHOT as the state of the consensus module is SUSPENDED, but needs to be ACTIVE"
    assert (refused.lines, refused.status) == ([f"Member [{leader}]: {told}"], FAILURE)
    leads = {member_id: operated.tool(member_id, "is-leader").status for member_id in range(3)}
    assert leads == {member_id: 0 if member_id == leader else NOT_LEADER for member_id in range(3)}
    assert operated.tool(leader, "resume").status == 0
    operated.wait_for_state(ModuleState.ACTIVE)
    assert operated.tool(leader, "snapshot").status == 0


def test_members_tell_who_they_are_and_where_their_logs_end(operated: Operated) -> None:
    answer = operated.tool(operated.leader, "list-members")
    assert answer.values["leaderMemberId"] == answer.values["memberId"] == operated.leader
    members = answer.values["activeMembers"]
    assert isinstance(members, list)
    assert [each["isLeader"] for each in members] == [each == operated.leader for each in range(3)]
    assert {each["leadershipTermId"] for each in members} == {0}
    assert str(members[0]["endpoints"]).count(",") == 4


@pytest.mark.parity("TL-16")
def test_a_module_that_is_silent_is_given_up(operated: Operated) -> None:
    operated.cluster.members[operated.follower].pause()
    begin_ns = operated.cluster.world.now_ns
    answer = operated.tool(operated.follower, "list-members")
    assert (answer.lines, answer.status) == (["timeout waiting for response from node"], FAILURE)
    assert operated.cluster.world.now_ns - begin_ns == S


def test_what_the_tool_does_to_a_member_that_is_down_counts_when_it_returns(operated: Operated) -> None:
    cluster, follower = operated.cluster, operated.follower
    assert operated.tool(operated.leader, "snapshot").status == 0
    cluster.wait_until(lambda: operated.statuses()[follower].snapshot_position > 0, 10, "snapshot")
    with pytest.raises(ToolFault, match=r"recording.log is in use: the node runs"):
        operated.tool(follower, "seed-recording-log-from-snapshot")
    cluster.members[follower].stop()
    plan = operated.tool(follower, "recovery-plan", "1").values
    assert plan["snapshots"] != []
    assert operated.tool(follower, "invalidate-latest-snapshot").lines == [" invalidate latest snapshot: true"]
    assert operated.tool(follower, "recovery-plan", "1").values["snapshots"] == []
    assert operated.tool(follower, "list-members").status == FAILURE
    cluster.members[follower].start()
    cluster.wait_until(lambda: cluster.status()[follower].election_state == "CLOSED", 10, "return of the member")
    # It replayed its log from the beginning, and took the snapshot anew at the entry that asks for it.
    assert operated.statuses()[follower].snapshot_count == 1
    assert operated.statuses()[follower].snapshot_position > 0


@pytest.mark.parity("CT-87")
def test_snapshots_whose_recordings_are_gone_are_invalidated_on_demand(operated: Operated) -> None:
    cluster, follower = operated.cluster, operated.follower
    for _ in range(2):
        assert operated.tool(operated.leader, "snapshot").status == 0
    cluster.wait_until(lambda: operated.statuses()[follower].snapshot_count == 2, 10, "snapshots")
    entries = _snapshots(operated, follower)
    _purge(cluster, follower, [entry["recordingId"] for entry in entries[2:]])
    answer = operated.tool(follower, "validate-recording-log")
    told = f"Member [{follower}]: VALIDATE_RECORDING_LOG applied successfully"
    assert (answer.lines, answer.status) == ([told], 0)
    cluster.wait_until(
        lambda: [each["isValid"] for each in _snapshots(operated, follower)] == [True, True, False, False],
        10,
        "invalid entries",
    )
    assert operated.statuses()[follower].snapshot_position == entries[0]["logPosition"]


def _snapshots(operated: Operated, member_id: int) -> list[dict[str, int]]:
    entries = operated.tool(member_id, "recording-log").values["entries"]
    assert isinstance(entries, list)
    return [entry for entry in entries if entry["type"] == "SNAPSHOT"]


def _purge(cluster: SimulatedCluster, member_id: int, recording_ids: Sequence[int]) -> None:
    """Have the running archive of a member forget recordings."""
    member = cluster.members[member_id]
    process = member.process
    assert process is not None
    client = ArchiveClient(ComponentMedia(member.media_driver), name="test")

    def turn() -> None:
        process.post(lambda: [client.do_work(process.now())])
        if not client.is_closed:
            cluster.world.after(1_000_000, turn)

    turn()
    cluster.wait_until(lambda: client.is_connected, 10, "connection to the archive")
    calls = [client.purge_recording(each) for each in recording_ids]
    cluster.wait_until(lambda: all(call.done for call in calls), 10, "end of the recordings")
    assert [call.error for call in calls] == [None] * len(calls)
    client.close()


@pytest.mark.parity("TL-05", "TL-15")
@pytest.mark.parametrize("command", ["snapshot", "suspend", "shutdown", "is-leader", "list-members"])
def test_of_a_member_without_a_mark_file_that_is_said(command: str) -> None:
    cluster = SimulatedCluster(World(12), ClusterSpec(1), settings=profile_settings("test"))
    answer = run_tool(cluster.world, cluster.members[0], command)
    assert (answer.lines, answer.status) == (["cluster-mark.dat does not exist."], FAILURE)


# --- files of a member that is down


class Stopped(Operated):
    """A follower has two snapshots, and was ordered to end."""

    def __init__(self, seed: int) -> None:
        super().__init__(seed)
        for count in (1, 2):
            assert self.tool(self.leader, "snapshot").status == 0
            self.cluster.wait_until(
                lambda count=count: self.statuses()[self.follower].snapshot_count == count, 10, "snapshot"
            )
        self.cluster.members[self.follower].stop()
        self.disk = self.cluster.members[self.follower].disk
        self.node = SimulatedNode(self.cluster.world, self.cluster.members[self.follower])
        self.log = self.content

    @property
    def content(self) -> bytes:
        return self.disk.read(layout.RECORDING_LOG)

    def on_files(self, command: str, *arguments: str) -> Answer:
        return self.tool(self.follower, command, *arguments)

    def names(self) -> list[str]:
        return self.disk.names(layout.CLUSTER_DIRECTORY)


@pytest.fixture
def stopped() -> Stopped:
    return Stopped(13)


def _reversed(content: bytes) -> bytes:
    return b"".join(reversed([content[at : at + RECORD] for at in range(0, len(content), RECORD)]))


@pytest.mark.parity("TL-06")
def test_mark_files_elsewhere_are_found_through_link_files(stopped: Stopped) -> None:
    disk = stopped.disk
    mark = MarkFile(
        disk.storage(Operator()), layout.service_mark(0), _service_mark(disk), now_ms=1, liveness_timeout_ms=None
    )
    mark.error_log.record(1000, "the service's error")
    mark.signal_terminated()
    for name in ("cluster-mark", "cluster-mark-service-0"):
        disk.rename(f"cluster/{name}.dat", f"marks/{name}.dat")
        stopped.node.replace(f"cluster/{name}.lnk", b"marks")
    assert stopped.on_files("pid").status == 0
    assert "the service's error" in stopped.on_files("errors").lines


def _service_mark(disk: Disk) -> ClusterMarkHeader:
    return decode_mark_file(disk.read(layout.service_mark(0)), ClusterMarkHeader).header


@pytest.mark.parity("TL-07")
def test_an_empty_recording_log_is_not_sorted(stopped: Stopped) -> None:
    stopped.node.replace(layout.RECORDING_LOG, b"")
    answer = stopped.on_files("sort-recording-log")
    assert (answer.status, answer.values["sorted"], stopped.content) == (FAILURE, False, b"")


@pytest.mark.parity("TL-08")
def test_a_missing_recording_log_is_not_made_by_sorting(stopped: Stopped) -> None:
    stopped.node.remove(layout.RECORDING_LOG)
    names = stopped.names()
    assert stopped.on_files("sort-recording-log").status == FAILURE
    assert stopped.names() == names


@pytest.mark.parity("TL-09")
def test_a_sorted_recording_log_is_left(stopped: Stopped) -> None:
    assert stopped.on_files("sort-recording-log").status == FAILURE
    assert stopped.content == stopped.log


@pytest.mark.parity("TL-10")
def test_an_unsorted_recording_log_gets_the_order_of_memory(stopped: Stopped) -> None:
    stopped.node.replace(layout.RECORDING_LOG, _reversed(stopped.log))
    assert stopped.on_files("sort-recording-log").status == 0
    entries = stopped.on_files("recording-log").values["entries"]
    assert isinstance(entries, list)
    assert [entry["entryIndex"] for entry in entries] == list(range(5))
    assert stopped.content == stopped.log


@pytest.mark.parity("TL-11")
def test_seeding_without_a_valid_snapshot_leaves_only_a_backup(stopped: Stopped) -> None:
    for _ in range(2):
        assert stopped.on_files("invalidate-latest-snapshot").status == 0
    content = stopped.content
    assert stopped.on_files("seed-recording-log-from-snapshot").status == 0
    assert "recording.log" not in stopped.names()
    assert stopped.disk.read("cluster/recording.log.bak") == content


@pytest.mark.parity("TL-12")
def test_seeding_leaves_the_newest_snapshot_at_position_zero(stopped: Stopped) -> None:
    assert stopped.on_files("seed-recording-log-from-snapshot").status == 0
    assert stopped.disk.read("cluster/recording.log.bak") == stopped.log
    entries, _, _ = read_entries(stopped.content)
    assert [(e.recording_id, e.service_id, e.term_base_log_position, e.log_position) for e in entries] == [
        (3, 0, 0, 0),
        (4, -1, 0, 0),
    ]
