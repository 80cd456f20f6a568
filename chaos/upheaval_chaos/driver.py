"""Injects and heals faults, and records when that was and what proves it.

Holds all active faults, so that a run that ends early can heal them.
"""

from collections.abc import Callable, Sequence, Set as AbstractSet
from dataclasses import dataclass, replace
from typing import Final, TypeVar

from upheaval_chaos.errors import Conflict, UnknownOutcome, UsageError
from upheaval_chaos.faults import Fault, Injection, MemberFaultKind, fault_of, sparing
from upheaval_chaos.file_faults import FileFaultKind
from upheaval_chaos.host_faults import IN_CHANGE
from upheaval_chaos.record import FaultRecord, Proof
from upheaval_chaos.target import Target

T = TypeVar("T")

_INTERRUPTED: Final = Proof(False, "interrupted")


@dataclass(slots=True)
class _Active:
    injection: Injection
    record: FaultRecord

    def note(self, proof: Proof | None) -> None:
        """Note what was seen of the effect. A contradiction stays: anything seen later is the effect of other
        faults.
        """
        before = self.record.inject_proof
        if proof is not None and (before is None or before.holds):
            self.record = replace(self.record, inject_proof=proof)

    def note_end(self, begin_ns: int, end_ns: int, operations: int) -> None:
        """Note when it was healed. An earlier end stays."""
        if self.record.heal_end_ns is None:
            self.record = replace(self.record, heal_begin_ns=begin_ns, heal_end_ns=end_ns, heal_operations=operations)


class FaultDriver:
    """All faults of one run. `record` gets each fault when it is healed, or at the end when it was not.

    A fault of `inject` is proved before anything else happens, a fault of `begin` before it is healed. A fault from a
    drawn schedule is observed while other faults are active. It is left out when it cannot be injected now, and
    recorded without a proof when nothing shows its effect; an observation that contradicts its effect is recorded as
    not proved. A fault whose injection fails counts as active, without proof, until it is healed: part of it may have
    taken effect.

    A start of members ends every fault that had kept them down: the record of each has the times of that start,
    although the fault stays active until it is healed itself.
    """

    def __init__(self, target: Target, record: Callable[[FaultRecord], None]) -> None:
        self._target = target
        self._record = record
        self._active: dict[str, _Active] = {}
        self._healing: list[_Active] = []
        self._injections: dict[str, Injection] = {}
        self._named: dict[str, Sequence[int]] = {}
        self.last_event_ns = 0
        """When the last fault was asked for, or its healing."""
        self.last_changed_ns = 0
        """When the last fault began, or was healed: later than it was asked for, by what the probes take before it."""

    def note_event(self, ns: int) -> None:
        """Note that something else than a fault happened."""
        self.last_event_ns = self.last_changed_ns = ns

    def name_members(self, name: str, member_ids: Sequence[int]) -> None:
        """Give members a name, by which later targets mean them; an empty sequence for members that did not come."""
        self._named[name] = member_ids

    def inject(self, name: str, fault: Fault) -> Proof:
        """Inject a fault and prove it. `name` is for `heal` and for later conditions."""
        active = self._put_in(name, fault, is_drawn=False)
        failure = active.record.inject_proof
        active.record = replace(active.record, inject_proof=failure or _INTERRUPTED)
        proof = failure or active.injection.prove()
        active.record = replace(active.record, inject_proof=proof)
        return proof

    def begin(self, name: str, fault: Fault, *, is_drawn: bool = True) -> None:
        """Inject a fault and observe it later. A fault that is not drawn is proved before it is healed.

        Raises `UnknownOutcome` when it is left out, because it cannot be injected now.
        """
        self.look()
        self._put_in(name, fault, is_drawn=is_drawn)
        self.look()

    def look(self) -> None:
        """Observe the effects of all drawn faults, and the healing of ended ones."""
        for active in self._active.values():
            if active.record.is_drawn:
                active.note(active.injection.seen())
        for active in list(self._healing):
            proof = active.injection.seen_healed()
            if proof is not None:
                self._healing.remove(active)
                self._record(replace(active.record, heal_proof=proof))

    def heal(self, name: str) -> Proof:
        """Heal a fault, prove that, and record the fault. Raises `UsageError` when it is not active."""
        self._prove_late(name)
        active = self._take_away(name)
        proof = active.injection.prove_healed()
        del self._active[name]
        self._record(replace(active.record, heal_proof=proof))
        return proof

    def end(self, name: str) -> None:
        """Heal a fault of `begin`, and observe that later. Does nothing when the fault was left out."""
        if name not in self._active:
            return
        self.look()
        self._prove_late(name)
        active = self._take_away(name)
        del self._active[name]
        if active.record.was_unseen:
            self._record(active.record)
        else:
            self._healing.append(active)
        self.look()

    def heal_all(self) -> None:
        """Heal all active faults in the order of their injection; before one of links, those that keep its members
        from running, since only running members prove that a link is healed. Waits until all healing is proved.
        """
        while self._active:
            name = self._next_to_heal()
            (self.end if self._active[name].record.is_drawn else self.heal)(name)
        while self._healing:
            active = self._healing[0]
            proof = active.injection.prove_healed()
            self._healing.remove(active)
            self._record(replace(active.record, heal_proof=proof))

    def give_up(self) -> None:
        """Record all faults that are not healed as not proved, because the run ends early."""
        records = [active.record for active in (*self._healing, *self._active.values())]
        self._healing.clear()
        self._active.clear()
        for record in records:
            unhealed = Proof(False, "the run ended before it was healed")
            self._record(record if record.was_unseen else replace(record, heal_proof=unhealed))

    def leave(self) -> None:
        """Record the active faults for another driver to `adopt`: the run continues without this one."""
        for name in list(self._active):
            self._record(self._active.pop(name).record)

    def adopt(self, name: str, record: FaultRecord) -> None:
        """Take over a fault of members or of their files that another driver left."""
        # A start heals damaged files as it heals a kill.
        what = MemberFaultKind.KILL.value if record.what in list(FileFaultKind) else record.what
        fault = fault_of(replace(record, what=what))
        self._active[name] = _Active(fault.injection_on(self._target, record.members), record)

    @property
    def begun(self) -> AbstractSet[str]:
        """The names of all faults that were not left out, whether or not their effect was seen."""
        return self._injections.keys()

    @property
    def active(self) -> AbstractSet[str]:
        """The names of the active faults."""
        return self._active.keys()

    def record_of(self, name: str) -> FaultRecord:
        """The current record of an active fault. Raises `UsageError` when it is not active."""
        active = self._active.get(name)
        if active is None:
            raise UsageError(f"fault {name!r} is not there")
        return active.record

    def holds_down(self, member_id: int) -> bool:
        """Whether an active fault keeps this member down, so that only its healing starts the member."""
        injections = [active.injection for active in self._active.values()]
        return any(injection.keeps_down and member_id in injection.member_ids for injection in injections)

    def start(self, member_ids: Sequence[int], start: Callable[[], T]) -> T:
        """Start members by `start`, and not by healing a fault."""
        ended = self._ended_by_start_of(member_ids)
        begin_ns, operations = self._target.now_ns(), self._target.acknowledged()
        started = start()
        for active in ended:
            active.note_end(begin_ns, self._target.now_ns(), operations)
        return started

    def victims(self, name: str) -> Sequence[int]:
        """The members of this name, or those that the last fault of this name means, see `Injection.victims`.

        Raises `UsageError` when there was no such fault, `UnknownOutcome` when there is no such member.
        """
        if name in self._named:
            if not self._named[name]:
                raise UnknownOutcome(f"there was no member {name!r}")
            return self._named[name]
        if name not in self._injections:
            raise UsageError(f"there was no fault {name!r} yet")
        return self._injections[name].victims

    def _next_to_heal(self) -> str:
        first, *others = self._active
        injection = self._active[first].injection
        needed = injection.member_ids if injection.links else ()
        return next((name for name in others if self._halts(self._active[name].injection, needed)), first)

    def _halts(self, injection: Injection, member_ids: Sequence[int]) -> bool:
        """Whether one of these members does not run, or is paused, until this fault is healed."""
        hit = set(injection.member_ids) & set(member_ids)
        if injection.what == MemberFaultKind.PAUSE:
            return bool(hit)
        return injection.starts and not all(self._target.node(m).incarnation(injection.component) for m in hit)

    def _prove_late(self, name: str) -> None:
        """Prove a fault of `begin` that was not drawn, while it is active."""
        active = self._active.get(name)
        if active is not None and not active.record.is_drawn and active.record.inject_proof is None:
            active.record = replace(active.record, inject_proof=active.injection.prove())

    def _take_away(self, name: str) -> _Active:
        active = self._active.get(name)
        if active is None:
            raise UsageError(f"fault {name!r} is not there: nothing to heal")
        begin_ns, operations = self._target.now_ns(), self._target.acknowledged()
        self.last_event_ns = begin_ns
        injection = active.injection
        ended = self._ended_by_start_of(injection.member_ids) if injection.starts else []
        injection.heal()
        end_ns = self.last_changed_ns = self._target.now_ns()
        for one in (active, *ended):
            one.note_end(begin_ns, end_ns, operations)
        return active

    def _ended_by_start_of(self, member_ids: Sequence[int]) -> list[_Active]:
        """The faults that a start of these members ends. Those that can be proved only before it are proved."""
        ended = [
            (name, active)
            for name, active in self._active.items()
            if set(active.injection.member_ids) <= set(member_ids)
            and active.record.heal_end_ns is None
            and active.injection.ends_at_start()
        ]
        for name, _ in ended:
            self._prove_late(name)
        return [active for _, active in ended]

    def _put_in(self, name: str, fault: Fault, *, is_drawn: bool) -> _Active:
        if name in self._active:
            raise UsageError(f"fault {name!r} is already active: heal it first")
        asked_ns, operations = self._target.now_ns(), self._target.acknowledged()
        self.last_event_ns = asked_ns
        injection = sparing(fault, self.victims).aim(self._target, tries=not is_drawn)
        if injection.is_exclusive:
            self._require_alone(injection)
        began_ns = self.last_changed_ns = self._target.now_ns()
        record = FaultRecord(
            injection.what,
            injection.where,
            began_ns,
            began_ns,
            inject_proof=_INTERRUPTED,
            members=tuple(injection.member_ids),
            component=injection.component,
            name=name,
            statement=injection.statement,
            inject_operations=operations,
            asked_ns=asked_ns,
            is_drawn=is_drawn,
            links=tuple(map(str, injection.links)),
        )
        active = self._active[name] = _Active(injection, record)
        self._injections[name] = injection
        failure = None
        try:
            injection.act()
        except UsageError as error:
            del self._active[name]
            if isinstance(error, Conflict):
                raise UnknownOutcome(str(error)) from None
            raise
        except UnknownOutcome as error:
            failure = Proof(False, str(error))
        active.record = replace(record, inject_end_ns=self._target.now_ns(), inject_proof=failure)
        return active

    def _require_alone(self, injection: Injection) -> None:
        for other, active in self._active.items():
            if _is_same(injection, active.injection):
                raise UnknownOutcome(f"{injection.where} is under fault {other!r}: to heal one would end the other too")
        for active in self._healing:
            if _is_same(injection, active.injection):
                # An earlier fault at the same place may still cause what is observed.
                raise UnknownOutcome(f"{injection.where} was under fault {active.record.name!r}, whose end is not seen")


def _is_same(one: Injection, other: Injection) -> bool:
    is_same = one.what == other.what or {one.what, other.what} <= IN_CHANGE
    return is_same and not set(one.member_ids).isdisjoint(other.member_ids)
