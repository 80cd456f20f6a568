"""The protocol trace of simulated members: complete, bounded, without effect on the run; and what only it shows."""

from collections.abc import Callable
from pathlib import Path

from upheaval.execution.run import play
from upheaval.execution.simulated import SimulatedStage
from upheaval.records import Choice, Entry, RunFolder, chosen, read_entries
from upheaval.runtimes.simulated.cluster import SimulatedCluster
from upheaval.runtimes.simulated.trace import ProtocolTraces
from upheaval.runtimes.simulated.world import World
from upheaval.scenario import parse_scenario
from upheaval.workload import WorkloadSettings
from upheaval_node.protocol.describe import describe
from upheaval_node.types import MAX_POSITION, S


def traced(folder: Path, act: Callable[[SimulatedCluster], None]) -> list[Entry]:
    """What three members said and became while a load ran and `act` was done to them."""
    cluster = SimulatedCluster(World(3), folder=RunFolder(folder), traces_protocol=True)
    cluster.start_all()
    cluster.wait_until_leader()
    load = cluster.start_load(WorkloadSettings(rate=50, slots=4))
    cluster.world.run_for(S)
    act(cluster)
    load.stop()
    cluster.wait_until(lambda: load.is_idle, 30, "end of the load")
    cluster.converge()
    cluster.write()
    return [entry for _, entry in chosen(read_entries(cluster.run), Choice())]


def restart_all(cluster: SimulatedCluster) -> None:
    for member_id in cluster.member_ids:
        cluster.members[member_id].kill()
    cluster.start_all()
    cluster.wait_until_leader()


def test_every_stream_is_traced_at_both_ends(tmp_path: Path) -> None:
    entries = traced(tmp_path, restart_all)
    sent = {(entry.component, entry.message) for entry in entries if entry.event == "send"}
    received = {(entry.component, entry.message) for entry in entries if entry.event == "receive"}
    assert {
        ("consensus", "CanvassPosition"),
        ("consensus", "NewLeadershipTerm"),
        ("consensus", "AppendPosition"),
        ("consensus", "CommitPosition"),
        ("consensus", "JoinLog"),
        ("consensus", "SessionEvent"),
        ("consensus", "SessionMessageHeader"),
        ("consensus", "NewLeadershipTermEvent"),
        ("consensus", "StartRecordingRequest2"),
        ("service-0", "ServiceAck"),
        ("service-0", "SessionMessageHeader"),
        ("archive", "ControlResponse"),
    } <= sent
    assert {
        ("consensus", "CanvassPosition"),
        ("consensus", "NewLeadershipTerm"),
        ("consensus", "ServiceAck"),
        ("consensus", "SessionConnectRequest"),
        ("consensus", "SessionMessageHeader"),
        ("consensus", "SessionOpenEvent"),
        ("consensus", "ControlResponse"),
        ("service-0", "JoinLog"),
        ("service-0", "SessionMessageHeader"),
        ("service-0", "NewLeadershipTermEvent"),
        ("archive", "StartRecordingRequest2"),
    } <= received
    assert {"election_state", "role", "module_state", "service-state"} <= {entry.event for entry in entries}
    assert "?" not in {entry.message for entry in entries}


def test_each_message_of_a_client_is_shown_once_on_its_way(tmp_path: Path) -> None:
    entries = traced(tmp_path, lambda cluster: cluster.world.run_for(S))
    operations = sum(1 for _ in RunFolder(tmp_path).read_history())
    messages = [entry for entry in entries if entry.message == "SessionMessageHeader"]
    leader = next(entry.member_id for entry in entries if entry.fields.get("new") == "LEADER")

    def count(event: str, stream_id: int, component: str, *, leads: bool) -> int:
        return sum(
            entry.event == event
            and entry.record["stream_id"] == stream_id
            and entry.component == component
            and (entry.member_id == leader) is leads
            for entry in messages
        )

    assert count("receive", 101, "consensus", leads=True) == operations
    assert count("send", 100, "consensus", leads=True) == operations
    assert count("receive", 100, "consensus", leads=False) == 2 * operations
    assert count("receive", 100, "service-0", leads=True) == operations
    assert count("receive", 100, "service-0", leads=False) == 2 * operations
    assert count("send", 102, "service-0", leads=True) == operations


def test_services_join_a_replay_up_to_its_end_and_the_live_log_without_one(tmp_path: Path) -> None:
    entries = traced(tmp_path, restart_all)
    joins = [entry for entry in entries if entry.message == "JoinLog" and entry.event == "receive"]
    starts = {member_id: [each.fields for each in joins if each.member_id == member_id] for member_id in range(3)}
    for member_id, (first, replay, live) in starts.items():
        assert {each["memberId"] for each in (first, replay, live)} == {member_id}
        assert (first["logPosition"], first["maxLogPosition"], first["logStreamId"]) == (0, MAX_POSITION, 100)
        assert (replay["logPosition"], replay["logStreamId"]) == (0, 103)
        assert isinstance(replay["maxLogPosition"], int)
        assert 0 < replay["maxLogPosition"] < MAX_POSITION
        assert live["logPosition"] == replay["maxLogPosition"]
        assert (live["maxLogPosition"], live["logStreamId"]) == (MAX_POSITION, 100)
        assert {each["isStandby"] for each in (first, replay, live)} == {False}
        assert live["logSessionId"] != replay["logSessionId"]
        assert all(str(each["logChannel"]).startswith("aeron") for each in (first, replay, live))
    roles = sorted(each["role"] == 2 for _, _, each in starts.values())
    assert roles == [False, False, True]
    assert {each["isStartup"] for _, _, each in starts.values() if each["role"] == 2} == {True}, starts


def test_a_leader_ends_as_soon_as_all_have_answered() -> None:
    cluster = SimulatedCluster(World(4), traces_protocol=True)
    cluster.start_all()
    leader = cluster.wait_until_leader()
    cluster.world.run_for(S)
    begin_ns = cluster.world.now_ns
    assert cluster.members[leader].give("abort") == ""
    cluster.wait_until(lambda: not cluster.members[leader].alive, 20, "end of the leader")
    assert cluster.world.now_ns - begin_ns < S
    assert not any(member.alive for member in cluster.members)
    assert cluster.protocol is not None
    names = [describe(each.payload)[0] for each in cluster.protocol.of(leader) if each.event == "receive"]
    assert names.count("TerminationAck") == 2


QUIET = parse_scenario("title no faults\nworkload rate=20\nwait operations 60\n", name="quiet", where="quiet")


def test_a_trace_changes_nothing_and_is_bounded(tmp_path: Path) -> None:
    digests = []
    for traces in (None, ProtocolTraces(100)):
        stage = SimulatedStage(QUIET, 5, tmp_path)
        stage.cluster.protocol = traces
        play(QUIET, stage, print)
        digests.append(stage.digest())
    assert digests[0] == digests[1]
    assert traces is not None
    assert [len(traces.of(member_id)) for member_id in range(3)] == [100] * 3
    numbers = [observation.number for observation in traces.of(0)]
    assert numbers == list(range(numbers[0], numbers[0] + 100))
