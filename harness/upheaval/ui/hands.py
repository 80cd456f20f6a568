"""What a page does to a cluster: faults, healing and admin commands, one after the other.

Everything goes where the commands go: faults of members and admin commands are written down at once with their proof,
and another process can heal them. Faults of links are held by this process, which has the proxies.
"""

import contextlib
import threading
import time
from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import Final

from upheaval.cluster import perform
from upheaval.errors import HarnessError, UnknownOutcome, UsageError
from upheaval.records import AdminCommand
from upheaval.runtimes.live import AnyCluster
from upheaval.scenario.by_hand import fault_in
from upheaval_chaos.driver import FaultDriver
from upheaval_chaos.faults import Fault, MemberFault, MemberFaultKind
from upheaval_chaos.file_faults import FileFault, FileFaultKind
from upheaval_chaos.record import FaultRecord
from upheaval_node.types import S

LONGEST_S: Final = 3600.0
"""A fault that heals by itself is there for at most so long."""


@dataclass(frozen=True, slots=True)
class Done:
    """Something that was asked for, and what came of it."""

    epoch_ms: int
    what: str
    answer: str
    is_done: bool


class Hands:
    """Of one cluster. Methods may be called by any thread; they return when the effect is proved."""

    def __init__(self, cluster: AnyCluster) -> None:
        self._cluster = cluster
        self._driver = FaultDriver(cluster, self._write_healed)
        self._lock = threading.Lock()
        self.doing = ""
        """What is asked for and not proved yet; empty when nothing is."""
        self.done: list[Done] = []
        self.heals_at: dict[str, int] = {}
        """When faults that have an end are healed, in monotonic nanoseconds, by their names."""
        self._timers: dict[str, threading.Timer] = {}

    def open_faults(self) -> list[FaultRecord]:
        """What was written down as put in and not as healed."""
        return [fault for fault in self._cluster.run.read_faults() if fault.heal_end_ns is None]

    def inject(self, statement: str, for_s: float | None = None) -> str:
        """Put in the fault of a statement of scenarios; returns its name.

        With `for_s` it is healed after so many seconds. Raises `UsageError` for a statement that makes no
        sense, `UnknownOutcome` when nothing shows the effect.
        """
        if for_s is not None and not 0 < for_s <= LONGEST_S:
            raise UsageError(f"a fault heals after more than 0 and at most {LONGEST_S:g} s, not {for_s:g}")
        fault = fault_in(statement, self._cluster.config)
        with self._asked(statement):
            name = f"{statement.split()[0]}-{len(list(self._cluster.run.read_faults())) + 1}"
            try:
                self._inject(name, statement, fault)
            finally:
                # One that was not proved may be there all the same.
                if for_s is not None and any(known.name == name for known in self.open_faults()):
                    self._heal_after(name, for_s)
        return name

    def _inject(self, name: str, statement: str, fault: Fault) -> None:
        if isinstance(fault, MemberFault | FileFault):
            self._cluster.inject(fault, name)
            return
        try:
            proof = self._driver.inject(name, fault)
        finally:
            # A part of it may be there although it failed.
            if name in self._driver.active:
                self._cluster.run.add_fault(_of_hands(self._driver.record_of(name)))
        if not proof.holds:
            raise UnknownOutcome(f"{statement}, {proof}")

    def _heal_after(self, name: str, seconds: float) -> None:
        self.heals_at[name] = time.monotonic_ns() + int(seconds * S)
        timer = self._timers[name] = threading.Timer(seconds, self._heal_later, (name,))
        timer.daemon = True
        timer.start()

    def heal(self, name: str) -> None:
        """Take a fault away. Raises `UsageError` when there is none of that name, `UnknownOutcome` without a proof."""
        with self._asked(f"heal {name}"):
            self._heal(name)

    def heal_all(self) -> None:
        """Take away every fault, the last one first; one that cannot be proved keeps none of the others."""
        with self._asked("heal all"):
            failures = []
            for fault in reversed(self.open_faults()):
                try:
                    self._heal_record(fault)
                except HarnessError as error:
                    failures.append(f"{fault.name or fault.what}: {error}")
            if failures:
                raise UnknownOutcome("; ".join(failures))

    def close(self) -> None:
        """Heal at once, the last one first, what nothing else would heal: faults that have an end, and those that this
        process alone knows how to heal.
        """
        order = {fault.name: place for place, fault in enumerate(self.open_faults())}
        for name in sorted({*self.heals_at, *self._driver.active}, key=lambda name: order.get(name, 0), reverse=True):
            self._heal_later(name)

    def _heal_later(self, name: str) -> None:
        # What it could not do is among what was done.
        with contextlib.suppress(HarnessError):
            self.heal(name)

    def command(self, word: str) -> None:
        """Give an admin command. Raises as `upheaval.cluster.perform` does."""
        with self._asked(word):
            if word == AdminCommand.START:
                faults = [fault for fault in self.open_faults() if _is_of_members(fault)]
                self._cluster.run.unseal()
                self._cluster.heal_recorded(faults)
                for fault in faults:
                    self._forget_end(fault.name)
            perform(self._cluster, word)

    def _heal(self, name: str) -> None:
        self._forget_end(name)
        if name in self._driver.active:
            proof = self._driver.heal(name)
            if not proof.holds:
                raise UnknownOutcome(f"heal {name}, {proof}")
            return
        numbered = enumerate(self._cluster.run.read_faults(), start=1)
        faults = [fault for number, fault in numbered if name == name_of(fault, number) and fault.heal_end_ns is None]
        if not faults:
            raise UsageError(f"no fault {name!r} to heal")
        if not all(map(_is_of_members, faults)):
            raise UsageError(f"fault {name!r} belongs to the program that injected it: heal it there")
        self._cluster.heal_recorded(faults)

    def _heal_record(self, fault: FaultRecord) -> None:
        """Faults of members may share a name: those of the commands have none."""
        if _is_of_members(fault):
            self._forget_end(fault.name)
            self._cluster.heal_recorded([fault])
        else:
            self._heal(fault.name)

    def _forget_end(self, name: str) -> None:
        self.heals_at.pop(name, None)
        timer = self._timers.pop(name, None)
        if timer is not None:
            timer.cancel()

    def _write_healed(self, record: FaultRecord) -> None:
        self._cluster.run.heal_fault(_of_hands(record))

    @contextlib.contextmanager
    def _asked(self, what: str) -> Iterator[None]:
        with self._lock:
            self.doing = what
            answer, is_done = "failed", False
            try:
                yield
                answer, is_done = "done", True
            except HarnessError as error:
                answer = " ".join(str(error).split())
                raise
            finally:
                self.doing = ""
                self.done.append(Done(int(time.time() * 1000), what, answer, is_done))


def name_of(fault: FaultRecord, number: int) -> str:
    """What the page calls a fault: faults of commands have no names, so theirs is the one that a saved scenario has.
    `number` counts the run's faults from 1.
    """
    return fault.name or f"{fault.what}-{number}"


def _is_of_members(fault: FaultRecord) -> bool:
    return fault.what in (*MemberFaultKind, *FileFaultKind)


def _of_hands(record: FaultRecord) -> FaultRecord:
    """As it is written down: how much a load had done by then is not known here."""
    return replace(record, inject_operations=None, heal_operations=None)
