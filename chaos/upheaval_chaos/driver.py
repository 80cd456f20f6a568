"""Puts faults in, takes them away, and writes down when that was and how it is known.

Holds what is injected at the moment, so that a run that ends early heals all of it.
"""

from collections.abc import Callable
from dataclasses import dataclass, replace

from upheaval_chaos.errors import UsageError
from upheaval_chaos.faults import Fault, Injection, fault_of
from upheaval_chaos.record import FaultRecord, Proof
from upheaval_chaos.target import Target


@dataclass(slots=True)
class _Active:
    injection: Injection
    record: FaultRecord


class FaultDriver:
    """All faults of one run. `record` takes each when it is healed, or at the end when it was not."""

    def __init__(self, target: Target, record: Callable[[FaultRecord], None]) -> None:
        self._target = target
        self._record = record
        self._active: dict[str, _Active] = {}
        self._injections: dict[str, Injection] = {}
        self.last_event_ns = 0
        """When the last fault was asked for, or its healing."""

    def inject(self, name: str, fault: Fault) -> Proof:
        """Do it and prove it. The name is for `heal` and for later conditions."""
        if name in self._active:
            raise UsageError(f"fault {name!r} is there already: heal it first")
        asked_ns, operations = self._target.now_ns(), self._target.acknowledged()
        self.last_event_ns = asked_ns
        injection = fault.inject(self._target)
        self._injections[name] = injection
        record = FaultRecord(
            injection.what,
            injection.where,
            injection.began_ns,
            self._target.now_ns(),
            inject_proof=Proof(False, "interrupted"),
            members=tuple(injection.member_ids),
            component=injection.component,
            name=name,
            statement=injection.statement,
            inject_operations=operations,
            asked_ns=asked_ns,
        )
        active = self._active[name] = _Active(injection, record)
        proof = injection.prove()
        active.record = replace(record, inject_proof=proof)
        return proof

    def heal(self, name: str) -> Proof:
        """Take it away, prove that, and record the fault. Raises `UsageError` when it is not there."""
        active = self._active.get(name)
        if active is None:
            raise UsageError(f"fault {name!r} is not there: nothing to heal")
        begin_ns, operations = self._target.now_ns(), self._target.acknowledged()
        self.last_event_ns = begin_ns
        active.injection.heal()
        end_ns = self._target.now_ns()
        proof = active.injection.prove_healed()
        del self._active[name]
        healed = replace(active.record, heal_begin_ns=begin_ns, heal_end_ns=end_ns, heal_operations=operations)
        self._record(replace(healed, heal_proof=proof))
        return proof

    def heal_all(self) -> None:
        """Everything that is there, in the order in which it came."""
        for name in list(self._active):
            self.heal(name)

    def give_up(self) -> None:
        """The run ends early: record what was not healed, as not proved."""
        for name in list(self._active):
            record = self._active.pop(name).record
            self._record(replace(record, heal_proof=Proof(False, "the run ended before it was healed")))

    def leave(self) -> None:
        """The run goes on without this driver: record what is there, for another one to `adopt`."""
        for name in list(self._active):
            self._record(self._active.pop(name).record)

    def adopt(self, name: str, record: FaultRecord) -> None:
        """Take over a fault of members that another driver left."""
        self._active[name] = _Active(fault_of(record).found(self._target, record.members), record)

    def victim(self, name: str) -> int:
        """The first member that the last fault of this name was about. Raises `UsageError` when there was none."""
        if name not in self._injections:
            raise UsageError(f"there was no fault {name!r} yet")
        return self._injections[name].member_ids[0]
