"""The commands that need the running node: members, leader, toggles, and the time of a backup's next query.

Source: Aeron Cluster, ClusterTool toggle procedure and ClusterControl. A toggle is set only while it is NEUTRAL, on the
leader, in the state that the command needs; validate-recording-log has a toggle of its own, on every member.
"""

import re
from collections.abc import Sequence
from dataclasses import dataclass
from enum import IntEnum
from typing import Final

from upheaval_node import counters as counter_types
from upheaval_node.cluster.module_state import ControlToggle, ModuleState, NodeToggle
from upheaval_node.counters import Counter, Counters
from upheaval_node.protocol.cluster_mark_messages import ClusterComponentType
from upheaval_node.protocol.cluster_messages import ClusterMembersExtendedResponse
from upheaval_node.tool.answer import FAILURE, NOT_LEADER, Answer, ToolFault, Value, failure
from upheaval_node.tool.marks import Mark, require_mark, time_text
from upheaval_node.tool.node import MembersAnswer, Node
from upheaval_node.types import MS, US, S

QUERY_TIMEOUT_MS: Final = 1000
"""The minimum time that a module has to answer."""
SNAPSHOT_TIMEOUT_MS: Final = 30_000
RESUME_TIMEOUT_MS: Final = 1000

NOT_BACKUP: Final = "not a cluster backup node"
_LEADER_ROLE: Final = 2
_ELECTION_CLOSED: Final = 17
_DURATION: Final = re.compile(r"(\d{1,18})(ns|us|ms|s)?", re.ASCII)
_NS_IN: Final = {None: 1, "ns": 1, "us": US, "ms": MS, "s": S}
_MAX_MS: Final = (1 << 63) - 1


@dataclass(frozen=True, slots=True)
class AdminCommand:
    """A toggle, the state that the module must be in, and how long to wait for NEUTRAL (0: no wait)."""

    toggle: IntEnum
    state: ModuleState = ModuleState.ACTIVE
    wait_ms: int = 0

    @property
    def needs_leader(self) -> bool:
        """Whether only the leader takes it, which is so for all that use the cluster's control toggle."""
        return isinstance(self.toggle, ControlToggle)


ADMIN_COMMANDS: Final = {
    "snapshot": AdminCommand(ControlToggle.SNAPSHOT, wait_ms=SNAPSHOT_TIMEOUT_MS),
    "suspend": AdminCommand(ControlToggle.SUSPEND),
    "resume": AdminCommand(ControlToggle.RESUME, ModuleState.SUSPENDED, RESUME_TIMEOUT_MS),
    "shutdown": AdminCommand(ControlToggle.SHUTDOWN),
    "abort": AdminCommand(ControlToggle.ABORT),
    "validate-recording-log": AdminCommand(NodeToggle.VALIDATE_RECORDING_LOG, wait_ms=SNAPSHOT_TIMEOUT_MS),
}


def give(node: Node, word: str, timeout_ms: int) -> Answer:
    """Run one of `ADMIN_COMMANDS`. `timeout_ms` extends the waits."""
    command = ADMIN_COMMANDS[word]
    mark = require_mark(node)
    if isinstance(mark, Answer):
        return mark
    _require_module(mark)
    members = node.query_members(mark.header, max(QUERY_TIMEOUT_MS, timeout_ms))
    if members is None:
        return failure("Timed out querying cluster.")
    name = command.toggle.name
    member_id = members.member_id if isinstance(members, ClusterMembersExtendedResponse) else mark.header.member_id
    values: dict[str, Value] = {"memberId": member_id, "leaderMemberId": members.leader_member_id, "toggle": name}
    refused = _refusal(node, mark, command, members, member_id, max(command.wait_ms, timeout_ms))
    line = f"Member [{member_id}]: {refused or f'{name} applied successfully'}"
    if refused:
        return failure(line, **values)
    return Answer([line], values)


def _refusal(
    node: Node, mark: Mark, command: AdminCommand, members: MembersAnswer, member_id: int, timeout_ms: int
) -> str:
    """Why the command is refused; empty when it is not."""
    name = command.toggle.name
    if command.needs_leader and members.leader_member_id != member_id:
        leader = members.leader_member_id
        return f"Current node is not the leader (leaderMemberId = {leader}), unable to {name}"
    counters = node.counters(mark.header)
    if counters is None:
        return f"Unable to locate media driver. C`n`C file [{node.cnc(mark.header)[0]}] does not exist."
    state = counters.value_of(counter_types.CONSENSUS_MODULE_STATE)
    if state is None:
        return "Unable to resolve state of consensus module."
    if state != command.state:
        return (
            f"Unable to {name} as the state of the consensus module is {_name_of(ModuleState, state)}, "
            f"but needs to be {command.state.name}"
        )
    kind = counter_types.CONTROL_TOGGLE if command.needs_leader else counter_types.NODE_CONTROL_TOGGLE
    toggle = counters.find(kind)
    if toggle is None:
        return "Failed to find control toggle"
    if not _apply(toggle, command.toggle):
        return f"Failed to apply {name}, current toggle value = {_name_of(type(command.toggle), toggle.get())}"
    # NEUTRAL has the same code in both.
    if command.wait_ms and not node.wait(counters, toggle.id, ControlToggle.NEUTRAL, timeout_ms):
        return f"Timed out after {timeout_ms}ms waiting for {name} to complete."
    return ""


def _apply(toggle: Counter, command: IntEnum) -> bool:
    if command is ControlToggle.RESUME and toggle.compare_and_set(ControlToggle.SUSPEND, command):
        return True
    return toggle.compare_and_set(ControlToggle.NEUTRAL, command)


def is_leader(node: Node, arguments: Sequence[str]) -> Answer:  # noqa: ARG001 - all commands have this shape
    """Exit status 0 on a leader without an election, as in Aeron's ClusterTool."""
    mark = require_mark(node)
    if isinstance(mark, Answer):
        return mark
    counters = _require_counters(node, mark)
    role = counters.value_of(counter_types.CLUSTER_NODE_ROLE)
    election = counters.value_of(counter_types.ELECTION_STATE)
    leads = role == _LEADER_ROLE and election == _ELECTION_CLOSED
    return Answer([], {"leader": leads, "role": role, "electionState": election}, 0 if leads else NOT_LEADER)


def list_members(node: Node, timeout_ms: int) -> Answer:
    """Query the running module and print its answer as Aeron's ClusterTool does."""
    mark = require_mark(node)
    if isinstance(mark, Answer):
        return mark
    _require_module(mark)
    members = node.query_members(mark.header, max(QUERY_TIMEOUT_MS, timeout_ms))
    if members is None:
        return failure("timeout waiting for response from node")
    if not isinstance(members, ClusterMembersExtendedResponse):
        text = members.active_members
        values: dict[str, Value] = {"leaderMemberId": members.leader_member_id, "activeMembers": text}
        head = f"currentTimeNs=-1, leaderMemberId={members.leader_member_id}, memberId={mark.header.member_id}"
        return Answer([f"{head}, activeMembers={text}"], values)
    active = [_member_values(members, at) for at in range(len(members.active_members))]
    shown = ", ".join(_member_text(member) for member in active)
    head = f"currentTimeNs={members.current_time_ns}, leaderMemberId={members.leader_member_id}"
    values = {
        "currentTimeNs": members.current_time_ns,
        "leaderMemberId": members.leader_member_id,
        "memberId": members.member_id,
        "activeMembers": active,
    }
    return Answer([f"{head}, memberId={members.member_id}, activeMembers=[{shown}]"], values)


def _member_values(members: ClusterMembersExtendedResponse, at: int) -> dict[str, Value]:
    """The values in Aeron's order. Values that no answer holds are those of Aeron's tool."""
    member = members.active_members[at]
    endpoints = (
        member.ingress_endpoint,
        member.consensus_endpoint,
        member.log_endpoint,
        member.catchup_endpoint,
        member.archive_endpoint,
    )
    return {
        "id": member.member_id,
        "isBallotSent": False,
        "isLeader": member.member_id == members.leader_member_id,
        "leadershipTermId": member.leadership_term_id,
        "logPosition": member.log_position,
        "candidateTermId": -1,
        "catchupReplaySessionId": -1,
        "correlationId": -1,
        "timeOfLastAppendPositionNs": member.time_of_last_append_ns,
        "ingressEndpoint": member.ingress_endpoint,
        "consensusEndpoint": member.consensus_endpoint,
        "logEndpoint": member.log_endpoint,
        "catchupEndpoint": member.catchup_endpoint,
        "archiveEndpoint": member.archive_endpoint,
        "endpoints": ",".join(endpoints),
        "publication": None,
        "vote": None,
    }


def _member_text(values: dict[str, Value]) -> str:
    return f"ClusterMember{{{', '.join(f'{name}={_shown(value)}' for name, value in values.items())}}}"


def _shown(value: Value) -> str:
    if isinstance(value, bool):
        return str(value).lower()
    if value is None:
        return "null"
    return f"'{value}'" if isinstance(value, str) else str(value)


def backup_query(node: Node, arguments: Sequence[str]) -> Answer:
    """The time of a backup's next query. With a delay, that time is set first."""
    delay_ms = None if not arguments else _duration_ms(arguments[0])
    mark = require_mark(node)
    if isinstance(mark, Answer):
        return mark
    if mark.header.component_type is not ClusterComponentType.BACKUP:
        return failure(NOT_BACKUP)
    counter = _require_counters(node, mark).find(counter_types.BACKUP_QUERY_DEADLINE)
    if counter is None:
        return Answer(["the backup has no next query yet"], {"nextQueryMs": None}, FAILURE)
    now_ms = node.now_ms()
    if delay_ms is not None:
        counter.set(min(now_ms + delay_ms, _MAX_MS))
    deadline_ms = counter.get()
    word = "next" if delay_ms is None else "setting next"
    # Aeron prints the day of the next query before the present time.
    head = f"{time_text(deadline_ms, '%Y-%m-%d')} {time_text(now_ms, '%H:%M:%S')}"
    return Answer([f"{head} {word}: {time_text(deadline_ms)}"], {"nowMs": now_ms, "nextQueryMs": deadline_ms})


def _duration_ms(text: str) -> int:
    """Parse a duration in Aeron's form: a number and ns (the default), us, ms or s."""
    match = _DURATION.fullmatch(text.lower())
    if match is None:
        raise ToolFault(f"expected a delay in ns, us, ms or s, got {text[:30]!r}")
    return int(match[1]) * _NS_IN[match[2]] // MS


# --- helpers


def _require_module(mark: Mark) -> None:
    kind = mark.header.component_type
    if kind in (ClusterComponentType.BACKUP, ClusterComponentType.STANDBY, ClusterComponentType.CONTAINER):
        raise ToolFault(
            f"{mark.path} is that of a {ClusterComponentType(kind).name}: it has no consensus module to ask"
        )


def _require_counters(node: Node, mark: Mark) -> Counters:
    counters = node.counters(mark.header)
    if counters is None:
        raise ToolFault(f"the media driver of {node.cnc(mark.header)[0]} does not run")
    return counters


def _name_of(names: type[IntEnum], value: int) -> str:
    return names(value).name if value in {name.value for name in names} else str(value)
