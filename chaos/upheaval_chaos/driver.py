"""Puts faults in, takes them away, and writes down when that was and how it is known.

Holds what is injected at the moment, so that a run that ends early heals all of it.
"""

from collections.abc import Callable
from dataclasses import dataclass

from upheaval_chaos.errors import UnknownOutcome, UsageError
from upheaval_chaos.faults import Fault, Injection
from upheaval_chaos.record import FaultRecord, Proof
from upheaval_chaos.target import Target


@dataclass(slots=True)
class _Active:
    name: str
    injection: Injection
    is_drawn: bool
    asked_ns: int
    began_ns: int = 0
    end_ns: int = 0
    operations: int = 0
    proof: Proof | None = None
    heal_begin_ns: int | None = None
    heal_end_ns: int | None = None
    heal_operations: int | None = None


class FaultDriver:
    """All faults of one run. `record` takes each when it is healed, or at the end when it was not.

    A fault that is injected is proved before anything else happens. One that is begun, out of a schedule that was drawn,
    is looked at while others act: it is left out when it cannot be done now, and not written down when nothing shows
    whether it took effect; what contradicts its effect is written down as not proved.
    """

    def __init__(self, target: Target, record: Callable[[FaultRecord], None]) -> None:
        self._target = target
        self._record = record
        self._active: dict[str, _Active] = {}
        self._healing: list[_Active] = []
        self._injections: dict[str, Injection] = {}
        self.last_event_ns = 0
        """When the last fault was asked for, or its healing."""

    def inject(self, name: str, fault: Fault) -> Proof:
        """Do it and prove it. The name is for `heal` and for later conditions."""
        active = self._put_in(name, fault, is_drawn=False)
        active.proof = Proof(False, "interrupted")
        active.proof = active.injection.prove()
        return active.proof

    def begin(self, name: str, fault: Fault) -> None:
        """Do it, and see later. Raises `UnknownOutcome` when it is left out: it cannot be done now."""
        self.look()
        self._put_in(name, fault, is_drawn=True)
        self.look()

    def look(self) -> None:
        """See what shows by now of the faults that were begun, and of the healing of those that are over."""
        for active in self._active.values():
            if active.is_drawn:
                active.proof = active.injection.seen() or active.proof
        for active in list(self._healing):
            healed = active.injection.seen_healed()
            if healed is not None:
                self._healing.remove(active)
                self._write(active, healed)

    def heal(self, name: str) -> Proof | None:
        """Take it away, prove that, and record the fault. Raises `UsageError` when it is not there.

        None for a fault that was begun: that is proved when it shows.
        """
        self.look()
        active = self._active.get(name)
        if active is None:
            raise UsageError(f"fault {name!r} is not there: nothing to heal")
        begin_ns, operations = self._target.now_ns(), self._target.acknowledged()
        self.last_event_ns = begin_ns
        active.injection.heal()
        active.heal_begin_ns, active.heal_end_ns, active.heal_operations = begin_ns, self._target.now_ns(), operations
        healed = None if active.is_drawn else active.injection.prove_healed()
        del self._active[name]
        if healed is not None:
            self._write(active, healed)
        elif active.proof is not None:
            self._healing.append(active)
        self.look()
        return healed

    def heal_all(self) -> None:
        """Everything that is there, in the order in which it came; wait until all healing is proved."""
        for name in list(self._active):
            self.heal(name)
        for active in self._healing:
            self._write(active, active.injection.prove_healed())
        self._healing.clear()

    def give_up(self) -> None:
        """The run ends early: record what was not healed, as not proved."""
        for active in [*self._healing, *self._active.values()]:
            if active.proof is not None:
                self._write(active, Proof(False, "the run ended before it was healed"))
        self._healing.clear()
        self._active.clear()

    def holds_down(self, member_id: int) -> bool:
        """Whether a fault is there that keeps this member from running: only its healing starts it."""
        injections = [active.injection for active in self._active.values()]
        return any(injection.keeps_down and member_id in injection.member_ids for injection in injections)

    def victim(self, name: str) -> int:
        """The first member that the last fault of this name was about. Raises `UsageError` when there was none."""
        if name not in self._injections:
            raise UsageError(f"there was no fault {name!r} yet")
        return self._injections[name].member_ids[0]

    def _put_in(self, name: str, fault: Fault, *, is_drawn: bool) -> _Active:
        if name in self._active:
            raise UsageError(f"fault {name!r} is there already: heal it first")
        asked_ns, operations = self._target.now_ns(), self._target.acknowledged()
        self.last_event_ns = asked_ns
        injection = fault.aim(self._target, tries=not is_drawn)
        for other in self._active.values():
            if injection.is_exclusive and _is_same(injection, other.injection):
                raise UnknownOutcome(f"{injection.where} is under fault {other.name!r}, which is of this kind too")
        self._injections[name] = injection
        began_ns = self._target.now_ns()
        injection.act()
        active = _Active(name, injection, is_drawn, asked_ns, began_ns, self._target.now_ns(), operations)
        self._active[name] = active
        return active

    def _write(self, active: _Active, healed: Proof) -> None:
        injection = active.injection
        self._record(
            FaultRecord(
                injection.what,
                injection.where,
                active.began_ns,
                active.end_ns,
                active.heal_begin_ns,
                active.heal_end_ns,
                active.proof,
                healed,
                members=tuple(injection.member_ids),
                component=injection.component,
                name=active.name,
                statement=injection.statement,
                inject_operations=active.operations,
                heal_operations=active.heal_operations,
                asked_ns=active.asked_ns,
            )
        )


def _is_same(one: Injection, other: Injection) -> bool:
    return one.what == other.what and not set(one.member_ids).isdisjoint(other.member_ids)
