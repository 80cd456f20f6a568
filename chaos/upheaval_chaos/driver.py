"""Puts faults in, takes them away, and writes down when that was and how it is known.

Holds what is injected at the moment, so that a run that ends early heals all of it.
"""

from collections.abc import Callable
from dataclasses import dataclass

from upheaval_chaos.errors import UsageError
from upheaval_chaos.faults import Fault, Injection
from upheaval_chaos.record import FaultRecord, Proof
from upheaval_chaos.target import Target


@dataclass(slots=True)
class _Active:
    injection: Injection
    asked_ns: int
    end_ns: int
    operations: int
    proof: Proof


# When it was healed: begin and end on the clock, and how many operations were acknowledged by then.
_Healed = tuple[int | None, int | None, int | None]


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
        end_ns = self._target.now_ns()
        active = self._active[name] = _Active(injection, asked_ns, end_ns, operations, Proof(False, "interrupted"))
        active.proof = injection.prove()
        return active.proof

    def heal(self, name: str) -> Proof:
        """Take it away, prove that, and record the fault. Raises `UsageError` when it is not there."""
        active = self._active.get(name)
        if active is None:
            raise UsageError(f"fault {name!r} is not there: nothing to heal")
        begin_ns, operations = self._target.now_ns(), self._target.acknowledged()
        self.last_event_ns = begin_ns
        active.injection.heal()
        end_ns = self._target.now_ns()
        healed = active.injection.prove_healed()
        del self._active[name]
        self._write(name, active, (begin_ns, end_ns, operations), healed)
        return healed

    def heal_all(self) -> None:
        """Everything that is there, in the order in which it came."""
        for name in list(self._active):
            self.heal(name)

    def give_up(self) -> None:
        """The run ends early: record what was not healed, as not proved."""
        for name in list(self._active):
            self._write(
                name, self._active.pop(name), (None, None, None), Proof(False, "the run ended before it was healed")
            )

    def victim(self, name: str) -> int:
        """The first member that the last fault of this name was about. Raises `UsageError` when there was none."""
        if name not in self._injections:
            raise UsageError(f"there was no fault {name!r} yet")
        return self._injections[name].member_ids[0]

    def _write(self, name: str, active: _Active, healed_at: _Healed, healed: Proof) -> None:
        heal_begin_ns, heal_end_ns, heal_operations = healed_at
        self._record(
            FaultRecord(
                active.injection.what,
                active.injection.where,
                active.injection.began_ns,
                active.end_ns,
                heal_begin_ns,
                heal_end_ns,
                active.proof,
                healed,
                members=tuple(active.injection.member_ids),
                component=active.injection.component,
                name=name,
                statement=active.injection.statement,
                inject_operations=active.operations,
                heal_operations=heal_operations,
                asked_ns=active.asked_ns,
            )
        )
