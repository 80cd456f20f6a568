"""The message about a cluster whose members did not all end when ordered to."""

from collections.abc import Callable, Sequence

import pytest

from upheaval.cluster.control import perform
from upheaval.errors import UnknownOutcome
from upheaval.records import ControlRecord
from upheaval.system import ControlStatus, MemberStatus
from upheaval_chaos.target import Node


class Ending:
    """Three members of which those in `ends` end at once when they get the command. Implements `Operable`."""

    member_ids: Sequence[int] = (0, 1, 2)

    def __init__(self, ends: Sequence[int]) -> None:
        self._ends = ends
        self._is_ending = False
        self.records: list[ControlRecord] = []

    def leader(self) -> int:
        return 0

    def status(self) -> list[MemberStatus]:
        return [MemberStatus(each, alive=True, election_state="CANVASS") for each in self.member_ids]

    def acknowledged(self) -> int:
        return 7

    def now_ns(self) -> int:
        return 1

    def wait_until(self, condition: Callable[[], bool], timeout_s: float, what: str) -> None:
        if not condition():
            raise UnknownOutcome(f"no {what} within {timeout_s:g} s")

    def record_control(self, record: ControlRecord) -> None:
        self.records.append(record)

    def node(self, member_id: int) -> Node:
        has_ended = self._is_ending and member_id in self._ends
        return _Incarnated(frozenset() if has_ended else frozenset({f"process {10 + member_id}"}))

    def give(self, member_id: int, command: str) -> str:
        self._is_ending = True
        return ""

    def control_statuses(self) -> Sequence[ControlStatus]:
        return [ControlStatus(snapshot_position=64 if self._is_ending else -1) for _ in self.member_ids]

    def exit_status(self, member_id: int, incarnation: str) -> int:
        return 0


class _Incarnated(Node):
    def __init__(self, names: frozenset[str]) -> None:
        self._names = names

    def incarnation(self, component: str | None = None) -> frozenset[str]:
        return self._names


def test_only_members_that_still_run_are_named() -> None:
    cluster = Ending(ends=(0, 1))
    with pytest.raises(UnknownOutcome) as raised:
        perform(cluster, "shutdown", 30)
    still = "process 12 of member 2 runs, its election in CANVASS"
    assert str(raised.value) == f"shutdown, not proved: no end of all members within 30 s: {still}"
    assert not cluster.records[0].proof.holds


def test_members_that_all_end_leave_nothing_to_say() -> None:
    cluster = Ending(ends=(0, 1, 2))
    record = perform(cluster, "shutdown", 30)
    assert record.proof.evidence == "members 0, 1, 2 ended by themselves with status 0, after a snapshot at position 64"
