"""Admin commands: snapshot, suspend, resume, shutdown, abort, and the start after an end.

A command goes through the control toggle of the leader, as an operator's tool sets it, or through the toggle of each
node. Every member that runs must show the effect: the position of its latest snapshot, the state of its consensus
module, its exit status. Each command is recorded with that proof (docs/run-folder.md). This module knows no runtime.
"""

from collections.abc import Callable, Mapping, Sequence
from typing import Final, Protocol

from upheaval.errors import UnknownOutcome, UsageError
from upheaval.records import (
    ENDINGS,
    AdminCommand,
    ControlRecord,
    Json,
)
from upheaval.system import ControlStatus, MemberStatus, is_caught_up
from upheaval_chaos.record import Proof
from upheaval_chaos.target import Node
from upheaval_node.suggestions import did_you_mean

COMMAND_TIMEOUT_S: Final = 30.0
STATES: Final = {AdminCommand.SUSPEND: "SUSPENDED", AdminCommand.RESUME: "ACTIVE"}
"""The state of all modules after a command."""


class Controlled(Protocol):
    """A cluster that takes recorded commands. Times and waits are those of its runtime."""

    def status(self) -> list[MemberStatus]:
        """The current status of each member, by its own account."""

    def acknowledged(self) -> int:
        """How many operations of the load are acknowledged."""

    def now_ns(self) -> int:
        """The monotonic time of the runtime."""

    def wait_until(self, condition: Callable[[], bool], timeout_s: float, what: str) -> None:
        """Raises `UnknownOutcome` when `condition` does not hold in time."""

    def record_control(self, record: ControlRecord) -> None:
        """Record an action with its proof."""


class Operable(Controlled, Protocol):
    """The part of a cluster that an admin command needs."""

    @property
    def member_ids(self) -> Sequence[int]:
        """The ids of all members, up or down."""

    def leader(self) -> int | None:
        """The current leader, if one serves."""

    def node(self, member_id: int) -> Node:
        """Controls and observes a member."""

    def give(self, member_id: int, command: str) -> str:
        """Set the member's control toggle. Returns why that failed; empty when it worked."""

    def control_statuses(self) -> Sequence[ControlStatus]:
        """The status of each member in order of ids: its own account, or that of its files when it is down."""

    def exit_status(self, member_id: int, incarnation: str) -> int | None:
        """The exit status of the process; None while it runs, or when it is not known."""


def perform(cluster: Operable, command: str, timeout_s: float = COMMAND_TIMEOUT_S) -> ControlRecord:
    """Give an admin command, wait for its effect on every running member, and record it with the proof.

    Raises `UnknownOutcome` when the effect is not there in time; that is recorded, too. Raises `UsageError` for an
    unknown command, and when members are to fetch a standby's snapshot and know of none.
    """
    if command not in list(AdminCommand):
        hint = did_you_mean(command, AdminCommand)
        raise UsageError(f"unknown admin command {command!r}: use one of {', '.join(AdminCommand)}{hint}")
    work = _Work(cluster, AdminCommand(command), timeout_s)
    return write_down(cluster, command, work.run, work)


class Effect:
    """The member that took a command, -1 for none, and the observation of each member by its id as text."""

    def __init__(self) -> None:
        self.leader = -1
        self.seen: dict[str, Json] = {}


def write_down(cluster: Controlled, what: str, act: Callable[[], str], effect: Effect | None = None) -> ControlRecord:
    """Run `act` and record its result as the proof, or the reason why there is none.

    Raises `UnknownOutcome` when there is none.
    """
    begin_ns, operations = cluster.now_ns(), cluster.acknowledged()
    effect = effect or Effect()
    failure: UnknownOutcome | None = None
    try:
        proof = Proof(True, act())
    except UnknownOutcome as error:
        failure, proof = error, Proof(False, " ".join(str(error).split()))
    record = ControlRecord(what, begin_ns, cluster.now_ns(), effect.leader, effect.seen, proof, operations)
    cluster.record_control(record)
    if failure is not None:
        raise UnknownOutcome(f"{what}, {record.proof}") from failure
    return record


class _Work(Effect):
    """One admin command in progress."""

    def __init__(self, cluster: Operable, command: AdminCommand, timeout_s: float) -> None:
        super().__init__()
        self._cluster = cluster
        self._command = command
        self._timeout_s = timeout_s

    def run(self) -> str:
        if self._command == AdminCommand.START:
            return self._start()
        running = {m: names for m in self._cluster.member_ids if (names := self._cluster.node(m).incarnation())}
        if not running:
            raise UnknownOutcome("no member is running")
        if self._command in ENDINGS:
            return self._end(running)
        if self._command == AdminCommand.SNAPSHOT:
            return self._snapshot(list(running))
        if self._command == AdminCommand.STANDBY_SNAPSHOT:
            return self._standby_snapshot(list(running))
        if self._command == AdminCommand.REPLICATE_STANDBY_SNAPSHOT:
            return self._replicate(list(running))
        return self._change_state(list(running), STATES[self._command])

    # --- one each ---

    def _snapshot(self, running: Sequence[int]) -> str:
        before = max(self._positions(running))
        self._give()
        what = f"snapshot after position {before} on members {shown_ids(running)}"
        position = self._wait_for_later(before, lambda status: status.snapshot_position, running, what)
        self.seen = {str(member_id): {"snapshot_position": position} for member_id in running}
        return f"snapshot at position {position} on members {shown_ids(running)}"

    def _standby_snapshot(self, running: Sequence[int]) -> str:
        statuses = self._cluster.control_statuses()
        before = max(statuses[member_id].standby_position for member_id in running)
        own = self._positions(running)
        self._give()
        what = f"word of a standby's snapshot after position {before} to members {shown_ids(running)}"
        position = self._wait_for_later(before, lambda status: status.standby_position, running, what)
        if self._positions(running) != own:
            raise UnknownOutcome(f"a member took a snapshot that only standbys should take: {self._positions(running)}")
        self.seen = {str(member_id): {"standby_position": position} for member_id in running}
        return f"members {shown_ids(running)} know of a standby's snapshot at position {position}, and took none"

    def _replicate(self, running: Sequence[int]) -> str:
        statuses = self._cluster.control_statuses()
        wanted = {member_id: statuses[member_id].standby_position for member_id in running}
        if max(wanted.values()) < 0:
            raise UsageError(
                f"members {shown_ids(running)} know of no snapshot of a standby: take one first, with "
                "`upheaval standby snapshot`"
            )
        for member_id in running:
            self._give(member_id)

        def is_there() -> bool:
            statuses = self._cluster.control_statuses()
            return all(statuses[member_id].snapshot_position >= position for member_id, position in wanted.items())

        self._wait(is_there, f"snapshots at positions {sorted(set(wanted.values()))} on members {shown_ids(running)}")
        self.seen = {str(member_id): {"snapshot_position": position} for member_id, position in wanted.items()}
        positions = ", ".join(map(str, sorted(set(wanted.values()))))
        return f"members {shown_ids(running)} have the snapshot of a standby at position {positions}"

    def _change_state(self, running: Sequence[int], state: str) -> str:
        self._give()
        self._wait(
            lambda: are_in_state(self._cluster.control_statuses(), running, state),
            f"state {state} of members {shown_ids(running)}",
        )
        self.seen = {str(member_id): {"module_state": state} for member_id in running}
        return f"members {shown_ids(running)} are {state}"

    def _end(self, running: Mapping[int, frozenset[str]]) -> str:
        before = max(self._positions(list(running)))
        self._give()

        def survivors() -> dict[int, frozenset[str]]:
            left = {
                member_id: names & self._cluster.node(member_id).incarnation() for member_id, names in running.items()
            }
            return {member_id: names for member_id, names in left.items() if names}

        try:
            self._wait(lambda: not survivors(), "end of all members")
        except UnknownOutcome as error:
            raise UnknownOutcome(f"{error}: {self._alive(survivors())}") from error
        self._wait(lambda: None not in self._statuses(running), "word of how the members ended")
        positions = self._positions(list(running))
        for (member_id, names), position in zip(running.items(), positions, strict=True):
            statuses = [self._cluster.exit_status(member_id, name) for name in sorted(names)]
            self.seen[str(member_id)] = {
                "exit_statuses": list(statuses),
                "snapshot_position": position,
            }
            if any(statuses):
                raise UnknownOutcome(f"member {member_id} ended with status {next(filter(None, statuses))}")
        text = f"members {shown_ids(list(running))} ended by themselves with status 0"
        if self._command == AdminCommand.ABORT:
            return text
        if len(set(positions)) != 1 or max(positions) <= before:
            raise UnknownOutcome(f"{text}, but with snapshots at {sorted(set(positions))} (before: {before})")
        return f"{text}, after a snapshot at position {max(positions)}"

    def _start(self) -> str:
        cluster = self._cluster
        started: list[int] = []

        def do_all_follow() -> bool:
            for member_id in cluster.member_ids:
                # Once each: a member that refuses its start is not started again.
                if member_id not in started and not cluster.node(member_id).incarnation():
                    started.append(member_id)
                    cluster.node(member_id).start()
            statuses = cluster.status()
            return all(is_caught_up(statuses, member_id) for member_id in cluster.member_ids)

        self._wait(do_all_follow, "leader that all members follow")
        leader = cluster.leader()
        self.leader = -1 if leader is None else leader
        started.sort()
        self.seen = {str(m): {"incarnation": [*sorted(cluster.node(m).incarnation())]} for m in started}
        what = f"started members {shown_ids(started)}" if started else "no member was down"
        return f"{what}; member {self.leader} leads"

    # --- how ---

    def _alive(self, survivors: Mapping[int, frozenset[str]]) -> str:
        """The members that run, with the state of their elections."""
        states = {status.member_id: status.election_state for status in self._cluster.status()}
        alive = [
            f"{', '.join(sorted(names))} of member {member_id} runs, "
            f"its election in {states.get(member_id) or 'no state'}"
            for member_id, names in survivors.items()
        ]
        return "; ".join(alive) or "the last one ended just after that"

    def _wait_for_later(
        self, before: int, position_of: Callable[[ControlStatus], int], running: Sequence[int], what: str
    ) -> int:
        """Wait until all members are active and at one position after `before`. Returns the position."""
        position = -1

        def is_there() -> bool:
            nonlocal position
            statuses = self._cluster.control_statuses()
            positions = {position_of(statuses[member_id]) for member_id in running}
            position = max(positions)
            return len(positions) == 1 and position > before and are_in_state(statuses, running, "ACTIVE")

        self._wait(is_there, what)
        return position

    def _give(self, member_id: int | None = None) -> None:
        """Set the toggle of that member, or of the leader. Retries while an election goes on or the toggle is not
        ready.
        """
        refused = "no member leads"

        def is_taken() -> bool:
            nonlocal refused
            taker = member_id
            if taker is None:
                taker = self._cluster.leader()
                if taker is None:
                    return False
                self.leader = taker
            refused = self._cluster.give(taker, self._command)
            return not refused

        command = self._command
        what = f"leader that takes {command}" if member_id is None else f"{command} taken by member {member_id}"
        try:
            self._wait(is_taken, what)
        except UnknownOutcome as error:
            raise UnknownOutcome(f"{error}: {refused}") from error

    def _wait(self, condition: Callable[[], bool], what: str) -> None:
        self._cluster.wait_until(condition, self._timeout_s, what)

    def _positions(self, running: Sequence[int]) -> list[int]:
        """The position of each member's latest snapshot."""
        statuses = self._cluster.control_statuses()
        return [statuses[member_id].snapshot_position for member_id in running]

    def _statuses(self, running: Mapping[int, frozenset[str]]) -> list[int | None]:
        return [self._cluster.exit_status(m, name) for m, names in running.items() for name in names]


def are_in_state(statuses: Sequence[ControlStatus], running: Sequence[int], state: str) -> bool:
    """Whether the modules of these members are in a state."""
    return all(statuses[member_id].module_state == state for member_id in running)


def shown_ids(member_ids: Sequence[int]) -> str:
    """Member ids in a sentence."""
    return ", ".join(map(str, member_ids)) or "none"
