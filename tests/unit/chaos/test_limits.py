"""A limited processor, by what a kernel counts: who was held back, whether it kept to its share, and no limit."""

from dataclasses import replace
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
    """Counts for one member, each of whose parts wants a whole core, period by period. Stands in for a target and its
    hosts.
    """

    is_exact = False

    def __init__(self, parts: int = 1) -> None:
        self.name = "process 7"
        self.percent = 0
        self.works = [ProcessorWork(0, 0, 0)] * parts
        self.passed_ms = 0

    def run(self, periods: int, *, wants: int = 100, share: int = 0) -> None:
        """Let it run. `share`: what the kernel grants the last part in place of the limit."""
        shares = [self.percent or 100] * len(self.works)
        shares[-1] = share or shares[-1]
        self.passed_ms += periods * PERIOD_MS
        self.works = [
            self._after(work, periods, wants, granted) for work, granted in zip(self.works, shares, strict=True)
        ]

    def _after(self, work: ProcessorWork, periods: int, wants: int, share: int) -> ProcessorWork:
        used_ns = min(wants, share) * PERIOD_MS * MS // 100 * periods
        limited, held_back = bool(self.percent) * periods, (share < wants) * periods
        return ProcessorWork(work.used_ns + used_ns, work.periods + limited, work.held_back + held_back)

    def hosts(self, *_: object) -> "Kernel":
        return self

    def node(self, _: int) -> Any:
        return SimpleNamespace(parts=lambda: {"": frozenset({self.name})})

    def limit_processor(self, _: int, percent: int) -> None:
        self.percent = percent

    def processor_work(self, _: int) -> list[ProcessorWork]:
        return self.works

    def boot(self, _: int) -> str:
        return "boot-1"

    def disk_work(self, _: int) -> None:
        """Not looked at here."""

    def damage_reports(self, _: int) -> int:
        return 0

    def now_ns(self) -> int:
        return self.passed_ms * MS


def limited(parts: int = 1, percent: int = PERCENT) -> tuple[Kernel, HostInjection]:
    kernel = Kernel(parts)
    kernel.run(20)
    target: Any = kernel
    injection = HostInjection(target, HostFault(HostFaultKind.CPU_LIMIT, exactly([0]), percent), [0])
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


@pytest.mark.parametrize("percent", [5, 20, 90])
@pytest.mark.parametrize("parts", [2, 3])
def test_each_part_of_a_split_member_has_its_share(parts: int, percent: int) -> None:
    kernel, injection = limited(parts, percent)
    kernel.run(2)
    assert injection.seen() is None
    kernel.run(18)
    used = f"{20 * percent} ms of processor time in 2000 ms"
    assert injection.seen() == Proof(True, f"a part of member 0 was held back in 20 periods, and used {used}")


def test_a_part_without_the_limit_is_seen_though_all_together_use_less() -> None:
    kernel, injection = limited(parts=3)
    kernel.run(20, wants=0)
    *idle, last = kernel.works
    kernel.works = [*idle, replace(last, used_ns=last.used_ns + 1200 * MS)]
    used = "a part of member 0 used 1200 ms of processor time in 2000 ms"
    assert injection.seen() == Proof(False, f"{used}: there is no limit of 20 %")


def test_each_part_once_held_back_shows_no_limit_yet() -> None:
    kernel, injection = limited(parts=3)
    kernel.run(1)
    assert injection.seen() is None


def test_a_new_container_is_counted_from_its_begin() -> None:
    kernel, injection = limited()
    kernel.run(2)
    kernel.name, kernel.works = "process 8", [ProcessorWork(0, 0, 0)]
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
