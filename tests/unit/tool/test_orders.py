"""The toggle procedure, is-leader, list-members and backup-query: what is refused, in which words, and what is set."""

from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path

import pytest

from support.tool_folders import MODULE, mark_content, put
from upheaval_node.cluster.module_state import ControlToggle, ModuleState, NodeToggle
from upheaval_node.counters import (
    BACKUP_QUERY_DEADLINE,
    CLUSTER_NODE_ROLE,
    CONSENSUS_MODULE_STATE,
    CONTROL_TOGGLE,
    ELECTION_STATE,
    NODE_CONTROL_TOGGLE,
    Counters,
    cluster_key,
)
from upheaval_node.files.mark_file import ClusterMarkHeader
from upheaval_node.protocol import cluster_messages as cm
from upheaval_node.protocol.cluster_mark_messages import ClusterComponentType
from upheaval_node.protocol.message import with_values
from upheaval_node.tool.answer import FAILURE, NOT_LEADER, Answer, ToolFault
from upheaval_node.tool.commands import run
from upheaval_node.tool.disk import DiskNode
from upheaval_node.tool.node import MembersAnswer

NOW_MS = 1_700_000_000_000


def members(leader: int = 2, member_id: int = 2) -> cm.ClusterMembersExtendedResponse:
    active = cm.ClusterMembersExtendedResponseActiveMember(
        leadership_term_id=3,
        log_position=640,
        time_of_last_append_ns=7,
        member_id=2,
        ingress_endpoint="a:1",
        consensus_endpoint="a:2",
        log_endpoint="a:3",
        catchup_endpoint="a:4",
        archive_endpoint="a:5",
    )
    return cm.ClusterMembersExtendedResponse(
        correlation_id=1,
        current_time_ns=9,
        leader_member_id=leader,
        member_id=member_id,
        active_members=(active,),
        passive_members=(),
    )


@dataclass
class Operated(DiskNode):
    """A node whose files are real, and whose counters are in this process. `takes`: a toggle has an effect."""

    folder: Path
    values: Counters | None = field(default_factory=lambda: Counters.in_memory(64))
    answer: MembersAnswer | None = field(default_factory=members)
    takes: bool = True
    waited_ms: list[int] = field(default_factory=list)
    asked_ms: list[int] = field(default_factory=list)

    def __post_init__(self) -> None:
        super().__init__(str(self.folder))

    def now_ms(self) -> int:
        return NOW_MS

    def counters(self, header: ClusterMarkHeader) -> Counters | None:
        return self.values

    def query_members(self, header: ClusterMarkHeader, timeout_ms: int) -> MembersAnswer | None:
        self.asked_ms.append(timeout_ms)
        return self.answer

    def wait(self, counters: Counters, counter_id: int, value: int, timeout_ms: int) -> bool:
        self.waited_ms.append(timeout_ms)
        return self.takes

    def set(self, **values: int) -> None:
        """Make counters, by the names of their types."""
        assert self.values is not None
        for name, value in values.items():
            self.values.allocate(_TYPES[name], cluster_key(0), name, value)

    def value(self, type_id: int) -> int:
        assert self.values is not None
        counter = self.values.find(type_id)
        assert counter is not None
        return counter.get()


_TYPES = {
    "state": CONSENSUS_MODULE_STATE,
    "toggle": CONTROL_TOGGLE,
    "node_toggle": NODE_CONTROL_TOGGLE,
    "role": CLUSTER_NODE_ROLE,
    "election": ELECTION_STATE,
    "deadline": BACKUP_QUERY_DEADLINE,
}


@pytest.fixture
def node(tmp_path: Path) -> Operated:
    put(tmp_path / "cluster-mark.dat", mark_content(MODULE))
    return Operated(tmp_path)


def _refused(answer: Answer, text: str) -> None:
    assert (answer.lines, answer.status) == ([text], FAILURE)
    assert answer.values["reason"] == text


@pytest.mark.parametrize(
    ("command", "toggle", "state", "waited"),
    [
        ("snapshot", ControlToggle.SNAPSHOT, ModuleState.ACTIVE, [30_000]),
        ("suspend", ControlToggle.SUSPEND, ModuleState.ACTIVE, []),
        ("resume", ControlToggle.RESUME, ModuleState.SUSPENDED, [1000]),
        ("shutdown", ControlToggle.SHUTDOWN, ModuleState.ACTIVE, []),
        ("abort", ControlToggle.ABORT, ModuleState.ACTIVE, []),
    ],
)
def test_an_order_sets_the_toggle_of_the_leader(
    node: Operated, command: str, toggle: ControlToggle, state: ModuleState, waited: Sequence[int]
) -> None:
    node.set(state=state, toggle=ControlToggle.NEUTRAL)
    answer = run(node, command, [])
    assert (answer.lines, answer.status) == ([f"Member [2]: {toggle.name} applied successfully"], 0)
    assert (node.value(CONTROL_TOGGLE), node.waited_ms, node.asked_ms) == (toggle, waited, [1000])


def test_a_time_out_extends_the_waits(node: Operated) -> None:
    node.set(state=ModuleState.ACTIVE, toggle=ControlToggle.NEUTRAL)
    node.takes = False
    answer = run(node, "snapshot", [], 40_000)
    _refused(answer, "Member [2]: Timed out after 40000ms waiting for SNAPSHOT to complete.")
    assert (node.asked_ms, node.waited_ms) == ([40_000], [40_000])


def test_resume_follows_a_suspend_that_is_still_in_the_toggle(node: Operated) -> None:
    node.set(state=ModuleState.SUSPENDED, toggle=ControlToggle.SUSPEND)
    assert run(node, "resume", []).status == 0
    assert node.value(CONTROL_TOGGLE) == ControlToggle.RESUME


def test_followers_validate_their_recording_logs(node: Operated) -> None:
    node.answer = members(leader=0)
    node.set(state=ModuleState.ACTIVE, node_toggle=NodeToggle.NEUTRAL)
    assert run(node, "validate-recording-log", []).lines == ["Member [2]: VALIDATE_RECORDING_LOG applied successfully"]
    assert node.value(NODE_CONTROL_TOGGLE) == NodeToggle.VALIDATE_RECORDING_LOG


def test_every_refusal_has_its_words_and_sets_nothing(node: Operated, tmp_path: Path) -> None:
    node.answer = None
    _refused(run(node, "snapshot", []), "Timed out querying cluster.")
    node.answer = members(leader=1)
    told = "Member [2]: Current node is not the leader (leaderMemberId = 1), unable to SNAPSHOT"
    _refused(run(node, "snapshot", []), told)
    node.answer = members()
    kept, node.values = node.values, None
    told = "Unable to locate media driver. C`n`C file [/nowhere/aeron/cnc.dat] does not exist."
    _refused(run(node, "snapshot", []), f"Member [2]: {told}")
    node.values = kept
    _refused(run(node, "snapshot", []), "Member [2]: Unable to resolve state of consensus module.")
    node.set(state=ModuleState.SNAPSHOT)
    told = "Unable to ABORT as the state of the consensus module is SNAPSHOT, but needs to be ACTIVE"
    _refused(run(node, "abort", []), f"Member [2]: {told}")
    assert node.waited_ms == []


@pytest.mark.parametrize(("value", "shown"), [(ControlToggle.INACTIVE, "INACTIVE"), (99, "99")])
def test_a_toggle_that_is_not_neutral_is_left(node: Operated, value: int, shown: str) -> None:
    node.set(state=ModuleState.ACTIVE)
    _refused(run(node, "snapshot", []), "Member [2]: Failed to find control toggle")
    node.set(toggle=value)
    told = f"Member [2]: Failed to apply SNAPSHOT, current toggle value = {shown}"
    _refused(run(node, "snapshot", []), told)
    assert node.value(CONTROL_TOGGLE) == value


@pytest.mark.parametrize(
    ("role", "election", "status"), [(2, 17, 0), (0, 17, NOT_LEADER), (2, 5, NOT_LEADER), (1, 17, NOT_LEADER)]
)
def test_a_leader_has_the_role_and_no_election(node: Operated, role: int, election: int, status: int) -> None:
    node.set(role=role, election=election, state=ModuleState.SUSPENDED)
    answer = run(node, "is-leader", [])
    assert (answer.lines, answer.status, answer.values["leader"]) == ([], status, status == 0)


def test_whether_a_node_that_is_down_leads_is_not_known(node: Operated) -> None:
    node.values = None
    with pytest.raises(ToolFault, match=r"^the media driver of /nowhere/aeron/cnc.dat does not run$"):
        run(node, "is-leader", [])


def test_members_are_listed_with_what_the_module_knows_of_them(node: Operated) -> None:
    answer = run(node, "list-members", [])
    member = (
        "ClusterMember{id=2, isBallotSent=false, isLeader=true, leadershipTermId=3, logPosition=640, "
        "candidateTermId=-1, catchupReplaySessionId=-1, correlationId=-1, timeOfLastAppendPositionNs=7, "
        "ingressEndpoint='a:1', consensusEndpoint='a:2', logEndpoint='a:3', catchupEndpoint='a:4', "
        "archiveEndpoint='a:5', endpoints='a:1,a:2,a:3,a:4,a:5', publication=null, vote=null}"
    )
    assert answer.lines == [f"currentTimeNs=9, leaderMemberId=2, memberId=2, activeMembers=[{member}]"]


def test_a_module_of_an_older_release_answers_shorter(node: Operated) -> None:
    node.answer = cm.ClusterMembersResponse(
        correlation_id=1, leader_member_id=0, active_members="0,a:1,a:2,a:3,a:4,a:5", passive_followers=""
    )
    answer = run(node, "list-members", [])
    assert answer.values == {"leaderMemberId": 0, "activeMembers": "0,a:1,a:2,a:3,a:4,a:5"}


def test_a_module_that_does_not_answer_has_no_members(node: Operated) -> None:
    node.answer = None
    _refused(run(node, "list-members", []), "timeout waiting for response from node")


@pytest.fixture
def backup(node: Operated, tmp_path: Path) -> Operated:
    put(tmp_path / "cluster-mark.dat", mark_content(with_values(MODULE, component_type=ClusterComponentType.BACKUP)))
    return node


def test_only_a_backup_has_a_next_query(node: Operated) -> None:
    _refused(run(node, "backup-query", []), "not a cluster backup node")


@pytest.mark.parametrize("command", ["snapshot", "abort", "validate-recording-log", "list-members"])
def test_a_backup_has_no_module_to_ask(backup: Operated, command: str) -> None:
    with pytest.raises(ToolFault, match=r"is that of a BACKUP: it has no consensus module to ask$"):
        run(backup, command, [])
    assert backup.asked_ms == []


def test_the_next_query_is_shown_and_set(backup: Operated) -> None:
    assert run(backup, "backup-query", []).status == FAILURE
    backup.set(deadline=NOW_MS + 60_000)
    answer = run(backup, "backup-query", [])
    assert answer.values == {"nowMs": NOW_MS, "nextQueryMs": NOW_MS + 60_000}
    day, _, rest = answer.lines[0].partition(" ")
    assert rest.endswith(f" next: {day} {rest[-8:]}")
    answer = run(backup, "backup-query", ["5s"])
    assert " setting next: " in answer.lines[0]
    assert backup.value(BACKUP_QUERY_DEADLINE) == answer.values["nextQueryMs"] == NOW_MS + 5000


@pytest.mark.parametrize(
    ("text", "delay_ms"), [("0", 0), ("7000000", 7), ("7000000ns", 7), ("9000us", 9), ("250ms", 250), ("2S", 2000)]
)
def test_a_delay_has_a_unit_or_is_in_nanoseconds(backup: Operated, text: str, delay_ms: int) -> None:
    backup.set(deadline=0)
    assert run(backup, "backup-query", [text]).values["nextQueryMs"] == NOW_MS + delay_ms


@pytest.mark.parametrize("text", ["", "s", "-1s", "1m", "1.5s", "٣s", "9" * 19])
def test_a_delay_that_is_none_sets_nothing(backup: Operated, text: str) -> None:
    backup.set(deadline=5)
    with pytest.raises(ToolFault, match="expected a delay in ns, us, ms or s"):
        run(backup, "backup-query", [text])
    assert backup.value(BACKUP_QUERY_DEADLINE) == 5


def test_a_delay_without_end_stays_within_the_counter(backup: Operated) -> None:
    backup.set(deadline=5)
    assert run(backup, "backup-query", ["9" * 18 + "s"]).values["nextQueryMs"] == (1 << 63) - 1
