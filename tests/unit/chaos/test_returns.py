"""The return of a member of several processes: all of them count."""

from typing import Any

import pytest

from upheaval_chaos.errors import UnknownOutcome
from upheaval_chaos.faults import MemberFault, MemberFaultKind, exactly

PARTS = ("archive", "consensus", "service")


class SplitNode:
    """A node of three processes. `heals` is how many of them start or go on. Stands in for a target, too."""

    member_ids = range(1)

    def __init__(self, heals: int) -> None:
        self._heals = heals
        self._ns = 0
        self._runs = {part: f"{part}/1" for part in PARTS}
        self._asleep: set[str] = set()

    def node(self, _: int) -> "SplitNode":
        return self

    def leader(self) -> int:
        return 0

    def incarnation(self, _: str | None = None) -> frozenset[str]:
        return frozenset(self._runs.values())

    def turns(self, _: str | None = None) -> dict[str, int]:
        return {name: 0 if part in self._asleep else self._ns for part, name in self._runs.items()}

    def pause(self, _: str | None = None) -> None:
        self._asleep = set(PARTS)

    def resume(self, _: str | None = None) -> None:
        self._asleep = set(PARTS[self._heals :])

    def kill(self, _: str | None = None) -> None:
        self._runs = {}

    def start(self) -> None:
        self._runs = {part: f"{part}/2" for part in PARTS[: self._heals]}

    def now_ns(self) -> int:
        return self._ns

    def let_pass(self, seconds: float) -> None:
        self._ns += int(seconds * 1e9)

    def wait_until(self, condition: Any, timeout_s: float, what: str) -> None:
        self.let_pass(timeout_s)
        if not condition():
            raise UnknownOutcome(what)


@pytest.mark.parametrize("kind", [MemberFaultKind.PAUSE, MemberFaultKind.KILL])
@pytest.mark.parametrize("heals", range(4))
def test_a_member_is_back_when_all_its_processes_are(kind: MemberFaultKind, heals: int) -> None:
    target: Any = SplitNode(heals)
    injection = MemberFault(kind, exactly([0])).aim(target)
    injection.act()
    assert injection.prove().holds
    injection.heal()
    assert injection.prove_healed().holds == (heals == len(PARTS))
