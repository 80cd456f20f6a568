"""A limited memory, by what a kernel states and counts: the limit, how often it was met, and whom the kernel ended."""

from dataclasses import replace
from types import SimpleNamespace
from typing import Any

import pytest

from upheaval_chaos.errors import UnknownOutcome, UsageError
from upheaval_chaos.faults import exactly
from upheaval_chaos.host_faults import MIB, HostFault, HostFaultKind, HostInjection, ended_for_memory
from upheaval_chaos.record import FaultRecord, Proof
from upheaval_chaos.target import MemoryWork

LIMIT = 64


class Kernel:
    """What it states of one member with several parts. Stands in for a target, its hosts and its node."""

    is_exact = False

    def __init__(self, parts: int = 1) -> None:
        self.names = [f"process {number}" for number in range(parts)]
        self.limits: list[int | None] = [None] * parts
        self.met = self.ended = 0
        self.ending = 0
        """The processes that are on their way out, and for how many looks."""
        self.starts = 0
        self.expects_no_end = False

    def hosts(self, *_: object) -> "Kernel":
        return self

    def node(self, _: int) -> "Kernel":
        return self

    def incarnation(self) -> frozenset[str]:
        if self.ending:
            self.ending -= 1
            if not self.ending:
                self.names.pop()
        return frozenset(self.names)

    def parts(self) -> dict[str, frozenset[str]]:
        return {name.split()[1]: frozenset([name]) for name in self.incarnation()}

    def start(self) -> None:
        self.starts += 1
        while len(self.names) < len(self.limits):
            self.names.append(f"process {len(self.names)} again")

    def limit_memory(self, _: int, megabytes: int) -> None:
        self.limits = [megabytes * MIB or None] * len(self.limits)

    def expect_no_end(self, _: int) -> None:
        self.expects_no_end = True

    def memory_work(self, _: int) -> MemoryWork:
        return MemoryWork(frozenset(self.limits[: len(self.names)]), self.met, self.ended)

    def end_one(self, *, looks: int = 1) -> None:
        self.ended += 1
        self.ending = looks
        if looks == 1:
            self.incarnation()

    def boot(self, _: int) -> str:
        return "boot-1"

    def disk_work(self, _: int) -> None:
        """Not looked at here."""

    def damage_reports(self, _: int) -> int:
        return 0

    def now_ns(self) -> int:
        return 0

    def wait_until(self, condition: Any, timeout_s: float, what: str) -> None:
        if not any(condition() for _ in range(100)):
            raise UnknownOutcome(f"no {what} in {timeout_s} s")


def limited(parts: int = 1) -> tuple[Kernel, HostInjection]:
    kernel = Kernel(parts)
    kernel.met, kernel.ended = 7, 2
    target: Any = kernel
    injection = HostInjection(target, HostFault(HostFaultKind.MEMORY_LIMIT, exactly([0]), LIMIT), [0])
    injection.act()
    return kernel, injection


@pytest.mark.parametrize(("more", "times"), [(1, "once"), (12, "12 times")])
@pytest.mark.parametrize("parts", [1, 3])
def test_a_limit_is_proved_by_that_it_was_met(more: int, times: str, parts: int) -> None:
    kernel, injection = limited(parts)
    assert injection.seen() is None
    kernel.met += more
    assert injection.seen() == Proof(True, f"member 0 met its limit of 64 MiB of memory {times}")


def test_a_limit_that_was_never_met_shows_nothing() -> None:
    _, injection = limited()
    assert injection.prove() == Proof(False, "no effect of memory-limit of member-0 in 10.0 s")


@pytest.mark.parametrize(("limit", "stated"), [(None, "no limit"), (65 * MIB, "a limit of 65 MiB")])
@pytest.mark.parametrize("parts", [1, 3])
def test_another_limit_of_any_part_contradicts_it(limit: int | None, stated: str, parts: int) -> None:
    kernel, injection = limited(parts)
    kernel.met += 10
    kernel.limits[-1] = limit
    text = f"the kernel states {stated} of the memory of member 0, not 64 MiB"
    assert injection.seen() == Proof(False, text)


def test_what_the_kernel_ended_is_counted_though_no_process_is_left_to_state_a_limit() -> None:
    kernel, injection = limited()
    kernel.end_one()
    assert kernel.memory_work(0).limits == frozenset()
    assert injection.seen() == Proof(True, "the kernel ended 1 process of member 0 for want of memory")


def test_a_member_that_runs_as_before_without_a_limit_is_healed() -> None:
    kernel, injection = limited(parts=2)
    kernel.met += 1
    injection.heal()
    assert injection.seen_healed() == Proof(True, "member 0 runs, and the kernel states no limit of its memory")
    kernel.limits[1] = LIMIT * MIB
    assert injection.seen_healed() is None


def test_healing_starts_what_the_kernel_ended_once_that_is_gone_and_counts_it() -> None:
    kernel, injection = limited(parts=2)
    kernel.met += 1
    proof = injection.prove()
    kernel.end_one(looks=5)
    injection.heal()
    assert (kernel.starts, len(kernel.names), kernel.expects_no_end) == (1, 2, True)
    healed = injection.seen_healed()
    counted = "the kernel ended 1 process of member 0 for want of memory"
    assert healed == Proof(True, f"member 0 runs, and the kernel states no limit of its memory; {counted}")
    record = FaultRecord("memory-limit", "member-0", 1, 2, 3, 4, proof, healed, members=(0,))
    assert ended_for_memory(record) == {0: 1}


def test_a_member_of_which_a_part_is_missing_is_not_healed() -> None:
    kernel, injection = limited(parts=2)
    injection.heal()
    kernel.names.pop()
    assert injection.seen_healed() is None


def counted(*proofs: tuple[bool, str] | None, what: str = "memory-limit") -> FaultRecord:
    inject, heal = (None if proof is None else Proof(*proof) for proof in proofs)
    return FaultRecord(what, "member-0, member-2", 1, 2, inject_proof=inject, heal_proof=heal, members=(0, 2))


def test_counts_are_those_of_proofs_that_hold() -> None:
    one, two = (f"the kernel ended {what} of member 0 for want of memory" for what in ("1 process", "2 processes"))
    other = "the kernel ended 12 processes of member 2 for want of memory"
    assert ended_for_memory(counted((True, one), None)) == {0: 1}
    assert ended_for_memory(counted((True, f"{one}; {other}"), (True, f"member 0 runs; {two}"))) == {0: 2, 2: 12}
    assert ended_for_memory(counted((True, one), (False, two))) == {0: 1}
    assert ended_for_memory(counted((True, one), None, what="kill")) == {}
    assert ended_for_memory(replace(counted((True, "met"), None), heal_proof=Proof(True, "runs"))) == {}


@pytest.mark.parametrize("megabytes", [-1, 0, 5, (1 << 20) + 1])
def test_a_limit_that_no_engine_takes_is_refused(megabytes: int) -> None:
    with pytest.raises(UsageError, match=rf"^memory-limit: expected megabytes of 6 to 1048576, got {megabytes}$"):
        HostFault(HostFaultKind.MEMORY_LIMIT, exactly([0]), megabytes)


def test_a_member_that_does_not_run_cannot_be_limited() -> None:
    kernel = Kernel()
    kernel.names.clear()
    target: Any = SimpleNamespace(
        hosts=kernel.hosts, node=kernel.node, now_ns=kernel.now_ns, member_ids=[0], leader=lambda: None
    )
    fault = HostFault(HostFaultKind.MEMORY_LIMIT, exactly([0]), LIMIT)
    with pytest.raises(UnknownOutcome, match=r"^cannot do memory-limit to member 0: it is not running$"):
        fault.aim(target)
