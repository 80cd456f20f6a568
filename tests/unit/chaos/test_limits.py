"""A limited processor, by what a kernel counts: who was held back, whether it kept to its share, and no limit."""

from types import SimpleNamespace
from typing import Any

import pytest

from upheaval_chaos.errors import UsageError
from upheaval_chaos.faults import exactly
from upheaval_chaos.host_faults import HostFault, HostFaultKind, HostInjection
from upheaval_chaos.record import Proof
from upheaval_chaos.target import ProcessorWork
from upheaval_node.types import MS

PERCENT = 20
PERIOD_MS = 100


class Kernel:
    """Counts for one member that wants a whole core, period by period. Stands in for a target and its hosts."""

    is_exact = False

    def __init__(self) -> None:
        self.name = "process 7"
        self.percent = 0
        self.work = ProcessorWork(0, 0, 0)
        self.passed_ms = 0

    def run(self, periods: int, *, wants: int = 100, share: int = 0) -> None:
        """Let it run. `share`: what the kernel grants in place of the limit."""
        used, counted, held_back = self.work.used_ns, self.work.periods, self.work.held_back
        granted = min(wants, share or self.percent or 100)
        is_limited = bool(self.percent)
        used += granted * PERIOD_MS * MS // 100 * periods
        self.passed_ms += periods * PERIOD_MS
        self.work = ProcessorWork(used, counted + is_limited * periods, held_back + (granted < wants) * periods)

    def hosts(self, *_: object) -> "Kernel":
        return self

    def node(self, _: int) -> Any:
        return SimpleNamespace(incarnation=lambda: frozenset({self.name}))

    def limit_processor(self, _: int, percent: int) -> None:
        self.percent = percent

    def processor_work(self, _: int) -> ProcessorWork:
        return self.work

    def boot(self, _: int) -> str:
        return "boot-1"

    def disk_work(self, _: int) -> None:
        """Not looked at here."""

    def damage_reports(self, _: int) -> int:
        return 0

    def now_ns(self) -> int:
        return self.passed_ms * MS


def limited() -> tuple[Kernel, HostInjection]:
    kernel = Kernel()
    kernel.run(20)
    target: Any = kernel
    injection = HostInjection(target, HostFault(HostFaultKind.CPU_LIMIT, exactly([0]), PERCENT), [0])
    injection.act()
    return kernel, injection


def test_a_member_that_was_held_back_and_kept_to_its_share_is_limited() -> None:
    kernel, injection = limited()
    kernel.run(2)
    assert injection.seen() is None
    kernel.run(1)
    evidence = "member 0 was held back in 3 periods, and used 60 ms of processor time in 300 ms"
    assert injection.seen() == Proof(True, evidence)


def test_a_member_that_needs_less_than_its_share_shows_nothing() -> None:
    kernel, injection = limited()
    kernel.run(100, wants=10)
    assert injection.seen() is None


@pytest.mark.parametrize("share", [40, 100])
def test_a_member_that_uses_more_than_its_share_is_not_limited_as_ordered(share: int) -> None:
    kernel, injection = limited()
    kernel.run(20, wants=101, share=share)
    used = f"member 0 used {20 * share} ms of processor time in 2000 ms"
    assert injection.seen() == Proof(False, f"{used}: there is no limit of 20 %")


def test_a_new_container_is_counted_from_its_begin() -> None:
    kernel, injection = limited()
    kernel.run(2)
    kernel.name, kernel.work = "process 8", ProcessorWork(0, 0, 0)
    kernel.run(2)
    assert injection.seen() is None
    kernel.run(3)
    assert injection.seen() == Proof(
        True, "member 0 was held back in 3 periods, and used 60 ms of processor time in 300 ms"
    )


def test_only_a_member_that_runs_for_a_while_without_a_period_of_a_limit_is_not_limited_any_more() -> None:
    kernel, injection = limited()
    kernel.run(3)
    injection.heal()
    assert injection.seen_healed() is None
    kernel.run(40, wants=0)
    assert injection.seen_healed() is None
    kernel.run(5)
    assert injection.seen_healed() is None
    kernel.run(10)
    evidence = "member 0 used 1500 ms of processor time in 5500 ms, and no limit counts"
    assert injection.seen_healed() == Proof(True, evidence)


def test_a_limit_that_stays_is_seen_however_little_the_member_uses() -> None:
    kernel, injection = limited()
    injection.heal()
    kernel.percent = PERCENT
    for _ in range(100):
        kernel.run(1, wants=1)
        assert injection.seen_healed() is None


@pytest.mark.parametrize("percent", [-1, 0, 91])
def test_a_limit_that_shows_nothing_is_refused(percent: int) -> None:
    with pytest.raises(UsageError, match=rf"^cpu-limit: expected percent of 1 to 90, got {percent}$"):
        HostFault(HostFaultKind.CPU_LIMIT, exactly([0]), percent)
