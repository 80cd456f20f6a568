"""Admin commands for whose effect a run does not wait: what a campaign asks for while its load and faults go on.

Such a command may have no effect, because a leader lost its quorum or a member was down. It is recorded only if the
cluster was calm when it was given, and every member showed the effect before anything else was done to the cluster.
This module knows no runtime.
"""

from collections.abc import Callable, Mapping
from contextlib import suppress
from typing import Final, Protocol

from upheaval.cluster.control import STATES, Operable, are_in_state, shown_ids
from upheaval.errors import UnknownOutcome
from upheaval.records import ENDINGS, AdminCommand, ControlRecord, Json
from upheaval.system import ControlStatus
from upheaval_chaos.record import Proof

ACTIVE: Final = "ACTIVE"


class Askable(Operable, Protocol):
    """A cluster that can be asked for a command."""

    def has_caught_up(self, member_id: int) -> bool:
        """Whether the member leads, or follows the leader with its election over."""


class AskedCommands:
    """The admin commands that one run asks for. Only the last one can still wait for its effect."""

    def __init__(self, cluster: Askable) -> None:
        self._cluster = cluster
        self._waiting: _Asked | None = None

    @property
    def is_waiting(self) -> bool:
        """Whether the last command has not shown its effect yet."""
        return self._waiting is not None

    def ask(self, command: AdminCommand, *, has_faults: bool) -> None:
        """Give the command to the leader, if there is one. With faults in effect it is not recorded."""
        self.look()
        self.forget()
        leader = self._cluster.leader()
        if leader is None:
            return
        is_calm = not has_faults and all(map(self._cluster.has_caught_up, self._cluster.member_ids))
        asked = _Asked(self._cluster, command, leader) if is_calm else None
        if not self._cluster.give(leader, command):
            self._waiting = asked

    def look(self) -> None:
        """Record the last command if every member shows its effect."""
        record = None if self._waiting is None else self._waiting.record()
        if record is not None:
            self._cluster.record_control(record)
            self._waiting = None

    def wait_for_end(self, timeout_s: float) -> None:
        """If the last command was to end the cluster, wait until its members have ended, and record that. Returns
        after `timeout_s` also without it.
        """
        if self._waiting is None or self._waiting.command not in ENDINGS:
            return

        def is_over() -> bool:
            self.look()
            return self._waiting is None

        with suppress(UnknownOutcome):
            self._cluster.wait_until(is_over, timeout_s, "end of all members")

    def forget(self) -> None:
        """Something else is done to the cluster, so a later state proves nothing about the command."""
        self._waiting = None


class _Asked:
    """A command on its way, with the state of the cluster just before it."""

    def __init__(self, cluster: Askable, command: AdminCommand, leader: int) -> None:
        self._cluster = cluster
        self.command = command
        self._leader = leader
        self._begin_ns, self._operations = cluster.now_ns(), cluster.acknowledged()
        self._members = tuple(cluster.member_ids)
        self._incarnations = {member_id: cluster.node(member_id).incarnation() for member_id in self._members}
        statuses = cluster.control_statuses()
        self._before: dict[Callable[[ControlStatus], int], int] = {
            of: max(of(statuses[member_id]) for member_id in self._members) for of in (_own_position, _standby_position)
        }

    def record(self) -> ControlRecord | None:
        """The record, once every member shows the effect."""
        effect = self._effect()
        if effect is None:
            return None
        seen, text = effect
        return ControlRecord(
            self.command,
            self._begin_ns,
            self._cluster.now_ns(),
            self._leader,
            seen,
            Proof(True, text),
            self._operations,
        )

    def _effect(self) -> tuple[Mapping[str, Json], str] | None:
        if self.command in ENDINGS:
            return self._end()
        if self.command == AdminCommand.SNAPSHOT:
            return self._later(_own_position, "snapshot_position", "snapshot")
        if self.command == AdminCommand.STANDBY_SNAPSHOT:
            return self._later(_standby_position, "standby_position", "snapshot of a standby")
        state = STATES[self.command]
        if not are_in_state(self._cluster.control_statuses(), self._members, state):
            return None
        return (
            {str(member_id): {"module_state": state} for member_id in self._members},
            f"members {shown_ids(self._members)} are {state}",
        )

    def _later(
        self, position_of: "Callable[[ControlStatus], int]", field: str, what: str
    ) -> tuple[Mapping[str, Json], str] | None:
        statuses = self._cluster.control_statuses()
        positions = {position_of(statuses[member_id]) for member_id in self._members}
        position = max(positions)
        is_there = len(positions) == 1 and position > self._before[position_of]
        if not is_there or not are_in_state(statuses, self._members, ACTIVE):
            return None
        return (
            {str(member_id): {field: position} for member_id in self._members},
            f"{what} at position {position} on members {shown_ids(self._members)}",
        )

    def _end(self) -> tuple[Mapping[str, Json], str] | None:
        cluster = self._cluster
        if any(names & cluster.node(member_id).incarnation() for member_id, names in self._incarnations.items()):
            return None
        statuses = {
            member_id: [cluster.exit_status(member_id, name) for name in sorted(names)]
            for member_id, names in self._incarnations.items()
        }
        if any(None in of_member for of_member in statuses.values()):
            return None
        files = cluster.control_statuses()
        seen: dict[str, Json] = {
            str(member_id): {
                "exit_statuses": list(of_member),
                "snapshot_position": files[member_id].snapshot_position,
            }
            for member_id, of_member in statuses.items()
        }
        return seen, f"members {shown_ids(self._members)} ended by themselves"


def _own_position(status: ControlStatus) -> int:
    return status.snapshot_position


def _standby_position(status: ControlStatus) -> int:
    return status.standby_position
