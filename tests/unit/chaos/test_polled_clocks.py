"""A jump of a clock that is polled: looks on a busy machine may see nothing, or see it late."""

from types import SimpleNamespace
from typing import Any

from upheaval_chaos.faults import exactly
from upheaval_chaos.host_faults import HostFault, HostFaultKind, HostInjection

JUMP_MS = 200


class Machines:
    """Hosts of members, and the looks at a clock, one after the other. Stands in for a target and its hosts."""

    is_exact = False

    def __init__(self, *looks: tuple[int, int] | None) -> None:
        self._looks = list(looks)

    def hosts(self, *_: object) -> "Machines":
        return self

    def node(self, _: int) -> Any:
        return SimpleNamespace(parts=lambda: {"": frozenset({"process 7"})})

    def clock_lead_ms(self, _: int) -> tuple[int, int] | None:
        return self._looks.pop(0)

    def boot(self, _: int) -> str:
        return "boot-1"

    def disk_work(self, _: int) -> None:
        """Not looked at here."""

    def damage_reports(self, _: int) -> int:
        return 0

    def now_ns(self) -> int:
        return 0


def test_looks_before_a_jump_that_see_nothing_or_are_late_are_made_up_for() -> None:
    late_ms = JUMP_MS
    machines: Any = Machines(None, (1, -2), (2, -late_ms), (3, JUMP_MS - 2))
    injection = HostInjection(machines, HostFault(HostFaultKind.CLOCK_JUMP, exactly([0]), JUMP_MS), [0])
    injection.require_possible()
    proof = injection.seen()
    assert proof is not None
    assert (proof.holds, proof.evidence) == (True, f"member 0 writes a time that is off by {JUMP_MS:+} ms")
