"""Faults of members' hosts: power, wall clock, disk, processor and memory, on runtimes that have hosts to break.

Proved by what the host and the member show: the current boot, the time that the member records, what the disk accepted
and refused, how long its syncs take, how often the scheduler held the member back, and how often it met its limit of
memory or was ended for that.
"""

import contextlib
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from enum import StrEnum
from typing import Final

from upheaval_chaos.errors import UnknownOutcome, UsageError
from upheaval_chaos.faults import (
    COMES_BACK_S,
    TAKES_EFFECT_S,
    Who,
    awaited,
    exactly,
    has_clients,
    require_some_leader,
    roster_of,
)
from upheaval_chaos.record import FaultRecord, Proof
from upheaval_chaos.target import LIMIT_PERIOD_NS, DiskWork, Link, MemoryWork, ProcessorWork, Target
from upheaval_node.types import MS

CLOCK_EXACT_MS: Final = 20
POLLED_SHARE: Final = 4
"""With polling, a time that is off by a quarter of the jump shows the fault: a busy machine polls late."""
_POLLED_SYNCS: Final = 3
_POLLED_LOOKS: Final = 3
"""With polling, the looks at a clock before its jump."""
LEAST_JUMP_MS: Final = 100
LONGEST_JUMP_MS: Final = 60_000
SLOWEST_DISK_MS: Final = 10_000
HIGHEST_LIMIT: Final = 90
"""A higher limit of the processor, in percent of one core, holds hardly any member back."""
_HELD_BACK: Final = 3
"""The periods in which a limited member was held back: a single one may be due to the begin of the limit."""
_LIMIT_SLACK_NS: Final = 20 * MS
"""What a limited member may use beyond its share: each core takes a slice of the share in advance."""
_UNLIMITED_NS: Final = 10 * LIMIT_PERIOD_NS
"""How long a member that runs counts no period of a limit once that is lifted."""
LOWEST_MEMORY_MB: Final = 6
"""The least limit of memory that container engines take, in MiB."""
HIGHEST_MEMORY_MB: Final = 1 << 20
MIB: Final = 1 << 20


class HostFaultKind(StrEnum):
    """The kinds of host faults, by their names in scenarios."""

    POWER_CUT = "power-cut"
    CLOCK_JUMP = "clock-jump"
    DISK_FULL = "disk-full"
    DISK_SLOW = "disk-slow"
    CPU_LIMIT = "cpu-limit"
    MEMORY_LIMIT = "memory-limit"
    DIE_IN_CHANGE = "die-in-change"
    POWER_LOST_IN_CHANGE = "power-lost-in-change"
    WRONG_BYTES = "wrong-bytes"


IN_CHANGE: Final = frozenset({HostFaultKind.DIE_IN_CHANGE, HostFaultKind.POWER_LOST_IN_CHANGE})
"""Both use the same injector operation, and a disk waits for one change at a time."""
ON_PROCESSES: Final = (
    HostFaultKind.CLOCK_JUMP,
    HostFaultKind.DISK_FULL,
    HostFaultKind.DISK_SLOW,
    HostFaultKind.CPU_LIMIT,
    HostFaultKind.MEMORY_LIMIT,
)
"""The kinds that are possible when members share a machine."""
IN_CONTAINERS: Final = (HostFaultKind.CPU_LIMIT, HostFaultKind.MEMORY_LIMIT)
"""The kinds that are possible when members run in containers."""
NOT_SIMULATED: Final[Mapping[str, str]] = {
    HostFaultKind.MEMORY_LIMIT: "simulated members share the memory of one process, and no kernel counts theirs"
}
"""The kinds that are not possible when members are simulated, and why."""
HOST_OPTIONS: Final = {
    HostFaultKind.CLOCK_JUMP: "jump-ms",
    HostFaultKind.DISK_SLOW: "latency-ms",
    HostFaultKind.CPU_LIMIT: "percent",
    HostFaultKind.MEMORY_LIMIT: "megabytes",
    HostFaultKind.WRONG_BYTES: "at-percent",
    **dict.fromkeys(IN_CHANGE, "changes"),
}
"""The option with the amount of a fault, for the kinds that have one."""


_PURPOSES: Final = {
    HostFaultKind.POWER_CUT: "cut the power of a host",
    HostFaultKind.CLOCK_JUMP: "set the wall clock of a host",
    HostFaultKind.DISK_FULL: "fill the disk of a host",
    HostFaultKind.DISK_SLOW: "slow down the disk of a host",
    HostFaultKind.CPU_LIMIT: "limit the processor of a host",
    HostFaultKind.MEMORY_LIMIT: "limit the memory of a host",
    HostFaultKind.WRONG_BYTES: "change bytes on the disk of a host",
    **dict.fromkeys(IN_CHANGE, "end a member in a change of its files"),
}


@dataclass(frozen=True, slots=True)
class HostFault:
    """A fault of members' hosts.

    `amount` is the clock jump in ms, the added sync latency in ms, the share of one processor core in percent, the
    memory in MiB, the number of file changes before the member dies in one, or the place of the wrong bytes in its log.
    """

    kind: HostFaultKind
    members: Who
    amount: int = 0

    def __post_init__(self) -> None:
        if has_clients(self.members):
            raise UsageError(f"{self.kind} is done to members: clients are an end of a link")
        kind, amount = self.kind, self.amount
        if amount and self.option is None:
            raise UsageError(f"{kind} takes no amount, got {amount}")
        if kind is HostFaultKind.CLOCK_JUMP and not LEAST_JUMP_MS <= abs(amount) <= LONGEST_JUMP_MS:
            bounds = f"{LEAST_JUMP_MS} to {LONGEST_JUMP_MS}, ahead or back"
            raise UsageError(f"clock-jump: expected jump-ms of {bounds}, got {amount}")
        if kind is HostFaultKind.DISK_SLOW and not 0 < amount <= SLOWEST_DISK_MS:
            raise UsageError(f"disk-slow: expected latency-ms of 1 to {SLOWEST_DISK_MS}, got {amount}")
        if kind is HostFaultKind.CPU_LIMIT and not 0 < amount <= HIGHEST_LIMIT:
            raise UsageError(f"cpu-limit: expected percent of 1 to {HIGHEST_LIMIT}, got {amount}")
        if kind is HostFaultKind.MEMORY_LIMIT and not LOWEST_MEMORY_MB <= amount <= HIGHEST_MEMORY_MB:
            bounds = f"{LOWEST_MEMORY_MB} to {HIGHEST_MEMORY_MB}"
            raise UsageError(f"memory-limit: expected megabytes of {bounds}, got {amount}")
        if kind in IN_CHANGE and amount < 0:
            raise UsageError(f"{kind}: expected changes of 0 or more, got {amount}")
        if kind is HostFaultKind.WRONG_BYTES and not 0 <= amount <= 100:
            raise UsageError(f"{kind}: expected at-percent of 0 to 100, got {amount}")

    @property
    def option(self) -> str | None:
        """The option with the amount; None for a kind without one."""
        return HOST_OPTIONS.get(self.kind)

    @property
    def statement(self) -> str:
        """The fault and its target in the language of scenarios."""
        return f"{self.kind} {self.members}" + (f" {self.option}={self.amount}" if self.amount else "")

    def require_possible(self, members: int) -> None:
        """The cluster must have enough members, whichever one leads."""
        require_some_leader(members, self.members.select)

    def aim(self, target: Target, *, tries: bool = True) -> "HostInjection":  # noqa: ARG002 - there is nothing to try
        """Aim at the hosts of the members that are selected now. Raises `UsageError` when the runtime has no such
        hosts, and `UnknownOutcome` when one of them cannot be hit now.
        """
        injection = HostInjection(target, self, self.members.select(roster_of(target)))
        injection.require_possible()
        return injection


@dataclass(frozen=True, slots=True)
class _Before:
    """The state of a member before the fault."""

    boot: str
    parts: Mapping[str, frozenset[str]]
    clock: tuple[int, int] | None
    disk: DiskWork
    damage: int
    processor: Sequence[ProcessorWork]
    memory: MemoryWork
    ns: int

    @property
    def names(self) -> frozenset[str]:
        return frozenset[str]().union(*self.parts.values())


class HostInjection:
    """An injected host fault. Implements `Injection`."""

    is_exclusive = True
    component = None
    links: Sequence[Link] = ()

    def __init__(self, target: Target, fault: HostFault, member_ids: Sequence[int]) -> None:
        self._target = target
        self._hosts = target.hosts(_PURPOSES[fault.kind], fault.kind)
        self._fault = fault
        self.member_ids = self.victims = member_ids
        self.what = fault.kind.value
        self.where = ", ".join(f"member-{member_id}" for member_id in member_ids)
        self.statement = replace(fault, members=exactly(member_ids)).statement
        self.keeps_down = fault.kind in (HostFaultKind.POWER_CUT, HostFaultKind.WRONG_BYTES, *IN_CHANGE)
        self.starts = self.keeps_down or fault.kind in (HostFaultKind.DISK_FULL, HostFaultKind.MEMORY_LIMIT)
        looks = 1 if self._hosts.is_exact else _POLLED_LOOKS
        self._before = {member_id: self._look_at(member_id, looks) for member_id in member_ids}
        self._acted = dict(self._before)
        self._healed = dict(self._before)
        self._took_effect = False
        self._unlimited: dict[int, _Before] = {}
        """The first look, after the limit was lifted, at which a member had run."""

    def ends_at_start(self) -> bool:
        """Power comes back with a start. An end in a change that is still to come stays, and so do wrong bytes."""
        if self._fault.kind not in IN_CHANGE:
            return self._fault.kind is HostFaultKind.POWER_CUT
        self.seen()
        return self._took_effect

    def act(self) -> None:
        """Inject it at every host in turn."""
        hosts, amount = self._hosts, self._fault.amount
        for member_id in self.member_ids:
            match self._fault.kind:
                case HostFaultKind.POWER_CUT:
                    hosts.cut_power(member_id)
                case HostFaultKind.CLOCK_JUMP:
                    hosts.move_clock(member_id, amount)
                case HostFaultKind.DISK_FULL:
                    hosts.fill_disk(member_id)
                case HostFaultKind.DISK_SLOW:
                    hosts.slow_disk(member_id, amount)
                case HostFaultKind.CPU_LIMIT:
                    hosts.limit_processor(member_id, amount)
                case HostFaultKind.MEMORY_LIMIT:
                    hosts.limit_memory(member_id, amount)
                case HostFaultKind.DIE_IN_CHANGE:
                    hosts.end_in_change(member_id, amount, loses_power=False)
                case HostFaultKind.POWER_LOST_IN_CHANGE:
                    hosts.end_in_change(member_id, amount, loses_power=True)
                case HostFaultKind.WRONG_BYTES:
                    hosts.change_bytes(member_id, amount)
        if self._fault.kind in (HostFaultKind.DISK_FULL, HostFaultKind.CPU_LIMIT):
            # A live member writes until the disk is full, and has its processor until the limit is set.
            self._acted = {member_id: self._look_at(member_id) for member_id in self.member_ids}

    def prove(self) -> Proof:
        """Wait until every host shows it."""
        return awaited(self._target, self.seen, TAKES_EFFECT_S, f"effect of {self.what} of {self.where}")

    def seen(self) -> Proof | None:
        """The evidence of all hosts and members; None while one of them has none."""
        try:
            evidence = [self._seen_of(member_id, before) for member_id, before in self._before.items()]
        except UnknownOutcome as error:
            return Proof(False, str(error))
        self._took_effect = self._took_effect or all(evidence)
        return Proof(True, "; ".join(evidence)) if all(evidence) else None

    def heal(self) -> None:
        """Undo the fault, and start the members that it ended."""
        hosts = self._hosts
        for member_id in self.member_ids:
            match self._fault.kind:
                case HostFaultKind.CLOCK_JUMP:
                    hosts.move_clock(member_id, -self._fault.amount)
                case HostFaultKind.DISK_SLOW:
                    hosts.slow_disk(member_id, 0)
                case HostFaultKind.CPU_LIMIT:
                    hosts.limit_processor(member_id, 0)
                case HostFaultKind.MEMORY_LIMIT:
                    hosts.limit_memory(member_id, 0)
                    self._await_end(member_id)
                    self._target.node(member_id).start()
                    hosts.expect_no_end(member_id)
                case HostFaultKind.DISK_FULL:
                    hosts.free_disk(member_id)
                    self._target.node(member_id).start()
                case HostFaultKind.POWER_CUT:
                    self._target.node(member_id).start()
                case HostFaultKind.WRONG_BYTES:
                    hosts.restore_bytes(member_id)
                    self._target.node(member_id).start()
                case _:
                    hosts.end_in_no_change(member_id)
                    self._target.node(member_id).start()
        self._healed = {member_id: self._look_at(member_id) for member_id in self.member_ids}

    def prove_healed(self) -> Proof:
        """Wait until every host shows it."""
        proof = awaited(self._target, self.seen_healed, COMES_BACK_S, f"end of {self.what} of {self.where}")
        # A member whose files do not grow any more shows nothing on its own.
        if proof.holds or self._fault.kind is not HostFaultKind.DISK_FULL or not all(map(self._has_room, self._before)):
            return proof
        return Proof(True, f"the disk of {self.where} takes bytes; the member, which runs, has needed no room")

    def _has_room(self, member_id: int) -> bool:
        return bool(self._target.node(member_id).incarnation()) and self._hosts.has_room(member_id)

    def seen_healed(self) -> Proof | None:
        """The evidence of all hosts and members; None while one of them has none."""
        evidence = [self._seen_healed_of(member_id, before) for member_id, before in self._before.items()]
        return Proof(True, "; ".join(evidence)) if all(evidence) else None

    def require_possible(self) -> None:
        """Raises `UnknownOutcome` when one of its hosts cannot be hit now."""
        kind = self._fault.kind
        for member_id, before in self._before.items():
            if not before.boot:
                raise UnknownOutcome(f"cannot do {kind} to member {member_id}: its host is off")
            if not before.names and kind is not HostFaultKind.POWER_CUT:
                raise UnknownOutcome(f"cannot do {kind} to member {member_id}: it is not running")
            if before.clock is None and kind is HostFaultKind.CLOCK_JUMP:
                raise UnknownOutcome(f"member {member_id} has not written any time yet")
            if kind is HostFaultKind.WRONG_BYTES and not self._hosts.has_durable_log(member_id):
                raise UnknownOutcome(f"cannot do {kind} to member {member_id}: no part of its log is certainly durable")

    # --- one member; empty text without evidence ---

    def _look_at(self, member_id: int, looks: int = 1) -> _Before:
        hosts, target = self._hosts, self._target
        parts = target.node(member_id).parts()
        clock = self._clock_of(member_id, looks) if self._fault.kind is HostFaultKind.CLOCK_JUMP else None
        disk = hosts.disk_work(member_id)
        damage = hosts.damage_reports(member_id)
        boot = hosts.boot(member_id)
        processor = hosts.processor_work(member_id) if self._fault.kind is HostFaultKind.CPU_LIMIT else ()
        memory = hosts.memory_work(member_id) if self._fault.kind is HostFaultKind.MEMORY_LIMIT else _NO_MEMORY
        return _Before(boot, parts, clock, disk, damage, processor, memory, target.now_ns())

    def _clock_of(self, member_id: int, looks: int) -> tuple[int, int] | None:
        """What the member wrote last, with the largest lead of several looks: one that is late makes it smaller."""
        # These calls may wait.
        seen = [clock for _ in range(looks) if (clock := self._hosts.clock_lead_ms(member_id)) is not None]
        return (seen[-1][0], max(lead_ms for _, lead_ms in seen)) if seen else None

    def _seen_of(self, member_id: int, before: _Before) -> str:
        """The evidence of one member. Raises `UnknownOutcome` when an observation contradicts the fault."""
        match self._fault.kind:
            case HostFaultKind.POWER_CUT:
                return self._seen_off(member_id, before)
            case HostFaultKind.CLOCK_JUMP:
                return self._seen_moved(member_id, before, self._fault.amount)
            case HostFaultKind.DISK_FULL:
                return self._seen_full(member_id, before)
            case HostFaultKind.DISK_SLOW:
                return self._seen_slow(member_id, before)
            case HostFaultKind.CPU_LIMIT:
                return self._seen_held_back(member_id)
            case HostFaultKind.MEMORY_LIMIT:
                return self._seen_short_of_memory(member_id, before)
            case HostFaultKind.DIE_IN_CHANGE | HostFaultKind.POWER_LOST_IN_CHANGE:
                return self._seen_dead_in_change(member_id, before)
            case HostFaultKind.WRONG_BYTES:
                return self._seen_refused(member_id, before)

    def _seen_off(self, member_id: int, before: _Before) -> str:
        if self._hosts.boot(member_id) == before.boot:
            raise UnknownOutcome(f"the host of member {member_id} still runs: {before.boot}")
        if before.names & self._target.node(member_id).incarnation():
            raise UnknownOutcome(f"member {member_id} still runs without power")
        if before.boot and self._hosts.disk_work(member_id).power_losses == before.disk.power_losses:
            raise UnknownOutcome(f"the disk of member {member_id} kept what was not synced")
        return f"{before.boot} is over, with all that ran"

    def _seen_moved(self, member_id: int, before: _Before, wanted_ms: int) -> str:
        now = self._hosts.clock_lead_ms(member_id)
        if now is None or before.clock is None or now[0] == before.clock[0]:
            return ""
        moved_ms = now[1] - before.clock[1]
        if abs(moved_ms - wanted_ms) > self._clock_exact_ms:
            if not self._hosts.is_exact:
                return ""
            raise UnknownOutcome(f"member {member_id} writes a time that is off by {moved_ms:+} ms, not {wanted_ms:+}")
        return f"member {member_id} writes a time that is off by {moved_ms:+} ms"

    def _seen_full(self, member_id: int, before: _Before) -> str:
        work = self._hosts.disk_work(member_id)
        refused, grown = work.refused - before.disk.refused, work.grown - self._acted[member_id].disk.grown
        if grown:
            raise UnknownOutcome(f"the disk of member {member_id} found room for {grown} bytes")
        return f"{refused} writes to the disk of member {member_id} found no room" if refused else ""

    def _seen_slow(self, member_id: int, before: _Before) -> str:
        work, slow_ns = self._hosts.disk_work(member_id), self._fault.amount * MS
        fastest_ns = min(_since(work.bounded, before), default=slow_ns)
        if fastest_ns < slow_ns:
            raise UnknownOutcome(f"a sync of member {member_id} took {fastest_ns / MS:.1f} ms: the disk is not slow")
        # With polling, a sync was seen for less than it took, and a busy disk makes a single one slow.
        least_ns, least = (slow_ns, 1) if self._hosts.is_exact else (slow_ns - slow_ns // POLLED_SHARE, _POLLED_SYNCS)
        took_ns = [took_ns for took_ns in _since(work.syncs, before) if took_ns >= least_ns]
        if len(took_ns) < least:
            return ""
        return f"{len(took_ns)} syncs of member {member_id} took {min(took_ns) / MS:.1f} ms or longer"

    def _seen_held_back(self, member_id: int) -> str:
        since, now = self._acted[member_id], self._look_at(member_id)
        if now.names != since.names:
            # The kernel counts anew for a new container.
            self._acted[member_id] = now
            return ""
        works = _work_between(since, now)
        busiest, hindered = max(works, key=lambda work: work.used_ns), max(works, key=lambda work: work.held_back)
        who = f"a part of member {member_id}" if len(works) > 1 else f"member {member_id}"
        passed_ns, percent = now.ns - since.ns, self._fault.amount
        share_ns = (passed_ns + 2 * LIMIT_PERIOD_NS) * percent // 100
        if busiest.used_ns > share_ns + share_ns // POLLED_SHARE + _LIMIT_SLACK_NS:
            used = f"{busiest.used_ns // MS} ms of processor time in {passed_ns // MS} ms"
            raise UnknownOutcome(f"{who} used {used}: there is no limit of {percent} %")
        if hindered.held_back < _HELD_BACK:
            return ""
        used = f"{hindered.used_ns / MS:.0f} ms of processor time in {passed_ns // MS} ms"
        return f"{who} was held back in {hindered.held_back} periods, and used {used}"

    def _seen_short_of_memory(self, member_id: int, before: _Before) -> str:
        work, megabytes = self._hosts.memory_work(member_id), self._fault.amount
        for limit in work.limits - {megabytes * MIB}:
            stated = "no limit" if limit is None else f"a limit of {limit / MIB:g} MiB"
            raise UnknownOutcome(f"the kernel states {stated} of the memory of member {member_id}, not {megabytes} MiB")
        met, ended = work.met - before.memory.met, _ended_between(member_id, before.memory, work)
        times = "once" if met == 1 else f"{met} times"
        often = f"member {member_id} met its limit of {megabytes} MiB of memory {times}" if met else ""
        return ", and ".join(filter(None, (often, ended)))

    def _await_end(self, member_id: int) -> None:
        """Wait until a process that the kernel is ending is gone, so that a start sees it."""
        before = self._before[member_id]

        def is_gone() -> bool:
            names = self._target.node(member_id).incarnation()
            return names != before.names or self._hosts.memory_work(member_id).ended == before.memory.ended

        with contextlib.suppress(UnknownOutcome):
            self._target.wait_until(is_gone, TAKES_EFFECT_S, f"end of member {member_id}")

    def _seen_dead_in_change(self, member_id: int, before: _Before) -> str:
        work = self._hosts.disk_work(member_id)
        if before.names & self._target.node(member_id).incarnation():
            made = work.changes - before.disk.changes
            if made > self._fault.amount:
                raise UnknownOutcome(f"member {member_id} still runs after {made} changes of its files")
            return ""
        if work.unfinished == before.disk.unfinished:
            return ""
        text = f"a change of files of member {member_id} was begun and never finished, its process is gone"
        if self._fault.kind is HostFaultKind.DIE_IN_CHANGE:
            return text
        return f"{text}, {self._seen_off(member_id, before)}"

    def _seen_refused(self, member_id: int, before: _Before) -> str:
        if self._hosts.damage_reports(member_id) > before.damage:
            return f"member {member_id} says that its log is not what was written"
        if before.names & self._target.node(member_id).incarnation():
            raise UnknownOutcome(f"member {member_id} is still running")
        if self._hosts.takes_part(member_id):
            raise UnknownOutcome(f"member {member_id} found nothing wrong and takes part")
        return ""

    def _seen_healed_of(self, member_id: int, before: _Before) -> str:
        match self._fault.kind:
            case HostFaultKind.CLOCK_JUMP:
                return self._seen_clock_right(member_id, before)
            case HostFaultKind.DISK_FULL:
                grown = self._hosts.disk_work(member_id).grown - self._healed[member_id].disk.grown
                return f"{grown} bytes of member {member_id} found room" if grown else ""
            case HostFaultKind.DISK_SLOW:
                bounded = self._hosts.disk_work(member_id).bounded
                took_ns = min(_since(bounded, self._healed[member_id]), default=self._fault.amount * MS)
                is_fast = took_ns < self._fault.amount * MS
                return f"a sync of member {member_id} took {took_ns / MS:.1f} ms" if is_fast else ""
            case HostFaultKind.CPU_LIMIT:
                return self._seen_unlimited(member_id)
            case HostFaultKind.MEMORY_LIMIT:
                return self._seen_with_memory(member_id, before)
            case HostFaultKind.WRONG_BYTES:
                return self._seen_recording(member_id)
        names, boot = self._target.node(member_id).incarnation(), self._hosts.boot(member_id)
        has_power_again = self._fault.kind is HostFaultKind.DIE_IN_CHANGE or boot not in ("", before.boot)
        return f"running: {', '.join(sorted(names))}" if names - before.names and has_power_again else ""

    def _seen_unlimited(self, member_id: int) -> str:
        """It runs, and counts no period of a limit from a second before until now."""
        healed, now = self._healed[member_id], self._look_at(member_id)
        works = _work_between(healed, now)
        used_ns = sum(work.used_ns for work in works)
        if now.names != healed.names or any(work.periods for work in works):
            self._healed[member_id] = now
            self._unlimited.pop(member_id, None)
            return ""
        if not used_ns or now.ns - self._unlimited.setdefault(member_id, now).ns < _UNLIMITED_NS:
            return ""
        passed_ms = (now.ns - healed.ns) // MS
        return f"member {member_id} used {used_ns / MS:.0f} ms of processor time in {passed_ms} ms, and no limit counts"

    def _seen_with_memory(self, member_id: int, before: _Before) -> str:
        now = self._look_at(member_id)
        if now.memory.limits != {None} or not now.parts.keys() >= before.parts.keys():
            return ""
        evidence = f"member {member_id} runs, and the kernel states no limit of its memory"
        return "; ".join(filter(None, (evidence, _ended_between(member_id, before.memory, now.memory))))

    def _seen_recording(self, member_id: int) -> str:
        healed, names = self._healed[member_id], self._target.node(member_id).incarnation()
        grown = self._hosts.disk_work(member_id).grown - healed.disk.grown
        if not names or not grown or self._hosts.damage_reports(member_id) > healed.damage:
            return ""
        return f"running: {', '.join(sorted(names))}, with {grown} bytes more"

    def _seen_clock_right(self, member_id: int, before: _Before) -> str:
        now, healed = self._hosts.clock_lead_ms(member_id), self._healed[member_id].clock
        if now is None or before.clock is None or now == healed or (healed is not None and now[0] == healed[0]):
            return ""
        moved_ms = now[1] - before.clock[1]
        return f"member {member_id} writes the time as before" if abs(moved_ms) <= self._clock_exact_ms else ""

    @property
    def _clock_exact_ms(self) -> int:
        """The tolerance in ms within which a time still shows the fault, or its healing."""
        if self._hosts.is_exact:
            return CLOCK_EXACT_MS
        return max(CLOCK_EXACT_MS, abs(self._fault.amount) // POLLED_SHARE)


_NO_MEMORY: Final = MemoryWork(frozenset(), 0, 0)
_ENDED: Final = re.compile(r"\bthe kernel ended (\d+) process(?:es)? of member (\d+) for want of memory\b")


def _ended_between(member_id: int, since: MemoryWork, now: MemoryWork) -> str:
    """What a proof says of processes that a limit of memory ended; empty if it ended none."""
    ended = now.ended - since.ended
    processes = "1 process" if ended == 1 else f"{ended} processes"
    return f"the kernel ended {processes} of member {member_id} for want of memory" if ended else ""


def ended_for_memory(fault: FaultRecord) -> Mapping[int, int]:
    """How many processes of which members the kernel ended under a limit of their memory, as the proofs show."""
    proofs = (fault.inject_proof, fault.heal_proof) if fault.what == HostFaultKind.MEMORY_LIMIT else ()
    ends = [pair for proof in proofs if proof is not None and proof.holds for pair in _ENDED.findall(proof.evidence)]
    ended: dict[int, int] = {}
    for count, member_id in ends:
        ended[int(member_id)] = max(int(count), ended.get(int(member_id), 0))
    return ended


def _work_between(since: _Before, now: _Before) -> list[ProcessorWork]:
    """The growth of each part's work."""
    return [
        ProcessorWork(work.used_ns - then.used_ns, work.periods - then.periods, work.held_back - then.held_back)
        for then, work in zip(since.processor, now.processor, strict=True)
    ]


def _since(syncs: Sequence[tuple[int, int]], look: _Before) -> list[int]:
    """The durations of the syncs that began after the look, in ns."""
    return [took_ns for began_ns, took_ns in syncs if began_ns > look.ns]
