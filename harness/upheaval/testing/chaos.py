"""`Chaos`: the faults that a test can inject into its cluster, each proved and recorded.

A fault without proof raises `UnknownOutcome` with one line. The catalogue (`upheaval_chaos`) defines faults and their
proofs; this module offers them to tests.
"""

from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import replace
from types import TracebackType
from typing import Final, Self, TypeVar

from upheaval.cluster import Witnesses
from upheaval.errors import UnknownOutcome, UsageError
from upheaval.records import (
    SPLIT,
)
from upheaval.scenario import Inject, ScenarioError, parse_scenario
from upheaval.system import COMPONENTS
from upheaval.testing.backend import Backend, Tested
from upheaval_chaos.datagram_faults import DatagramFault
from upheaval_chaos.driver import FaultDriver
from upheaval_chaos.faults import Fault, Group, MemberFault, MemberFaultKind, Members, Selector, roster_of
from upheaval_chaos.file_faults import FileFault
from upheaval_chaos.host_faults import HostFault
from upheaval_chaos.link_faults import LinkFault
from upheaval_chaos.target import LinkFaultKind
from upheaval_node.suggestions import did_you_mean

T = TypeVar("T")

WAIT_S: Final = 30.0
_ROLES: Final = (Selector.LEADER, Selector.FOLLOWER, Selector.FOLLOWERS)
_CUTS: Final = tuple(kind.value for kind in LinkFaultKind if kind is not LinkFaultKind.SLOW)

Whom = int | str | Sequence[int | str]
"""A member by its id, or `leader`, `follower`, `followers`, `all`; several of them; or `clients` as one end of a link.
"""


class ActiveFault:
    """A fault in effect. `heal` ends it, and so does the end of a `with` block.

    `member_ids` are the members that it hit; a fault of links has none.
    """

    def __init__(self, chaos: "Chaos", name: str, fault: Fault, member_ids: Sequence[int], proof: str) -> None:
        self.name = name
        self.member_ids = tuple(member_ids)
        self.proof = proof
        self.fault = fault
        self._chaos = chaos

    @property
    def kind(self) -> str:
        """The name of its kind, as scenarios use it."""
        return _kind_of(self.fault)

    @property
    def component(self) -> str | None:
        """The component of each member that it hit; None for whole members and for links."""
        return self.fault.component if isinstance(self.fault, MemberFault) else None

    def heal(self) -> None:
        """Heal the fault and prove it."""
        self._chaos.heal(self)

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if error is None and self in self._chaos.active:
            self.heal()

    def __repr__(self) -> str:
        return f"<fault {self.name!r}: {self.proof}>"


class Chaos:
    """Injects faults. Each has a name for `heal`: the caller's, or one made from its kind (`kill-1`)."""

    def __init__(self, running: Callable[[], Backend], *, components: str, witnesses: Witnesses | None = None) -> None:
        """`running` returns the backend, and raises once the cluster has ended."""
        backend = running()
        self._running = running
        self._witnesses = witnesses or Witnesses(backend.target, "", is_on=False)
        self._components = components
        self._driver = FaultDriver(backend.target, backend.record_fault)
        self._active: dict[str, ActiveFault] = {}
        self._counts: Counter[str] = Counter()

    @property
    def _target(self) -> Tested:
        return self._running().target

    @property
    def active(self) -> list[ActiveFault]:
        """The faults in effect, oldest first."""
        return list(self._active.values())

    # --- members ---

    def kill(self, who: Whom, component: str | None = None, *, name: str | None = None) -> ActiveFault:
        """Kill members, or one component of each (SIGKILL)."""
        return self._do_to_members(MemberFaultKind.KILL, who, component, name)

    def stop(self, who: Whom, component: str | None = None, *, name: str | None = None) -> ActiveFault:
        """Stop members in order (SIGTERM)."""
        return self._do_to_members(MemberFaultKind.STOP, who, component, name)

    def pause(self, who: Whom, component: str | None = None, *, name: str | None = None) -> ActiveFault:
        """Pause members (SIGSTOP): they keep their connections and answer nothing."""
        return self._do_to_members(MemberFaultKind.PAUSE, who, component, name)

    def restart(self, who: Whom, component: str | None = None, *, name: str | None = None) -> None:
        """Stop members, start them again, and wait until they have caught up."""
        fault = self._do_to_members(MemberFaultKind.RESTART, who, component, name)
        fault.heal()
        for member_id in fault.member_ids:
            self._target.wait_until_caught_up(member_id, WAIT_S)
        if not self._active:
            self._witnesses.take_if_due()

    def start(self, member_id: int) -> None:
        """Start what is down of a member. Heals the fault that ended it. The member joins by itself."""
        for fault in self._faults_of(member_id):
            if fault.kind != MemberFaultKind.PAUSE:
                self.heal(fault)
                return
        self._driver.start([member_id], self._target.node(member_id).start)

    def start_by(self, start: Callable[[], T]) -> T:
        """Start all members that are down by `start`, which ends the faults that kept them down."""
        return self._driver.start(self._target.member_ids, start)

    def resume(self, member_id: int) -> None:
        """Resume a paused member. Heals the fault that paused it."""
        for fault in self._faults_of(member_id):
            if fault.kind == MemberFaultKind.PAUSE:
                self.heal(fault)

    def kill_leader(self) -> int:
        """Kill the leader and return its member id."""
        leader = self._target.wait_until_leader(WAIT_S)
        self.kill(leader)
        return leader

    # --- links ---

    def partition(
        self,
        one: Whom,
        other: Whom,
        *,
        kind: str = LinkFaultKind.BLACKHOLE.value,
        one_way: bool = False,
        timeout_ms: int = 0,
        channel: str = "",
        name: str | None = None,
    ) -> ActiveFault:
        """Cut the links between two groups of members, or only those from the first to the second.

        `blackhole`: bytes vanish without an error. `reset`: connections are reset, new ones too. `timeout`: bytes
        vanish, and connections end after `timeout_ms`. `channel`: cut only that channel.
        """
        if kind not in _CUTS:
            hint = did_you_mean(kind, _CUTS)
            raise UsageError(f"a partition of kind {kind!r}: use one of {', '.join(_CUTS)}{hint}")
        fault = LinkFault(
            LinkFaultKind(kind),
            self._members(one),
            self._members(other),
            both_ways=not one_way,
            timeout_ms=timeout_ms,
            channel=channel,
        )
        return self.inject(fault, name=name)

    def isolate(
        self, who: Whom, *, kind: str = LinkFaultKind.BLACKHOLE.value, timeout_ms: int = 0, name: str | None = None
    ) -> ActiveFault:
        """Cut members off from all others in both directions. Clients still reach them."""
        alone = self._members(who).select(roster_of(self._target))
        others = [member_id for member_id in self._target.member_ids if member_id not in alone]
        return self.partition(alone, others, kind=kind, timeout_ms=timeout_ms, name=name)

    def cut(self, source: Whom, target: Whom, *, channel: str = "", name: str | None = None) -> ActiveFault:
        """Drop what `source` sends to `target`. The other direction still works."""
        return self.partition(source, target, one_way=True, channel=channel, name=name)

    def slow(
        self,
        source: Whom,
        target: Whom,
        *,
        latency_ms: int = 0,
        bytes_per_second: int = 0,
        both_ways: bool = False,
        channel: str = "",
        name: str | None = None,
    ) -> ActiveFault:
        """Delay bytes from `source` to `target`, or limit their rate."""
        fault = LinkFault(
            LinkFaultKind.SLOW,
            self._members(source),
            self._members(target),
            both_ways,
            latency_ms,
            bytes_per_second,
            channel=channel,
        )
        return self.inject(fault, name=name)

    # --- all of them ---

    def inject(self, fault: Fault | str, *, name: str | None = None) -> ActiveFault:
        """Inject any fault of the catalogue, given as an object or as a line of a scenario: `pause follower`."""
        target, kind = self._target, _kind_of(fault)
        name = name or f"{kind}-{self._counts[kind] + 1}"
        if isinstance(fault, str):
            fault = self._parsed(name, fault)
        if _names_roles(fault):
            target.wait_until_leader(WAIT_S)
        member_ids: Sequence[int] = ()
        if isinstance(fault, MemberFault):
            self._require_component(fault.component)
            member_ids = fault.members.select(roster_of(target))
            self._require_free(member_ids, fault.component)
            fault = replace(fault, members=Group(tuple(Members(member_id=member_id) for member_id in member_ids)))
        if not self._active:
            self._witnesses.take_if_due()
        proof = self._driver.inject(name, fault)
        self._counts[kind] += 1
        active = self._active[name] = ActiveFault(self, name, fault, member_ids, str(proof))
        proof.require(f"fault {name!r}")
        return active

    def heal(self, fault: ActiveFault | str | None = None) -> None:
        """Heal a fault, given by itself or by its name, and prove it.

        Without an argument: heal all faults, start all members that are down, and wait until all follow one leader.
        """
        if fault is not None:
            self._heal(fault if isinstance(fault, str) else fault.name)
            if not self._active:
                self._witnesses.take_if_due()
            return
        self.heal_faults()
        for status in self._target.status():
            if not status.alive:
                self._target.node(status.member_id).start()
        self._target.wait_until_leader(WAIT_S)
        for member_id in self._target.member_ids:
            self._target.wait_until_caught_up(member_id, WAIT_S)
        if self._counts:
            self._witnesses.take_if_due()

    def heal_faults(self) -> None:
        """Heal all faults, the newest first, because only running members prove that a link is healed.

        Tries all of them, then raises for those without proof.
        """
        failures = []
        for name in reversed(list(self._active)):
            try:
                self._heal(name)
            except UnknownOutcome as error:
                failures.append(str(error))
        # A fault that failed during injection has no handle here.
        self._driver.heal_all()
        if failures:
            raise UnknownOutcome("; ".join(failures))

    def give_up(self) -> None:
        """Record the faults that were not healed when the run ends."""
        self._active.clear()
        self._driver.give_up()

    # --- how ---

    def _do_to_members(self, kind: MemberFaultKind, who: Whom, component: str | None, name: str | None) -> ActiveFault:
        return self.inject(MemberFault(kind, self._members(who), component), name=name)

    def _members(self, who: Whom) -> Group:
        parts = [who] if isinstance(who, int | str) else who
        return Group(tuple(self._part(part) for part in parts))

    def _part(self, who: int | str) -> Members:
        size = len(self._target.member_ids)
        if isinstance(who, int):
            if not 0 <= who < size:
                raise UsageError(f"unknown member {who}: this cluster has members 0 to {size - 1}")
            return Members(member_id=who)
        if who not in list(Selector):
            hint = did_you_mean(who, Selector)
            raise UsageError(f"unknown member {who!r}: use its id, or one of {', '.join(Selector)}{hint}")
        return Members(Selector(who))

    def _parsed(self, name: str, text: str) -> Fault:
        cluster = f"cluster members={len(self._target.member_ids)} components={self._components}"
        lines = ("title one fault", cluster, "wait operations 1", f"inject {name} {text}")
        try:
            scenario = parse_scenario("\n".join(lines), name=name, where="fault")
        except ScenarioError as error:
            raise UsageError(f"fault {text!r}: {error.message}") from None
        step = scenario.steps[-1]
        assert isinstance(step, Inject)
        return step.fault

    def _faults_of(self, member_id: int) -> list[ActiveFault]:
        self._part(member_id)
        return [fault for fault in self._active.values() if member_id in fault.member_ids]

    def _require_component(self, component: str | None) -> None:
        if component is None:
            return
        if component not in COMPONENTS:
            hint = did_you_mean(component, COMPONENTS)
            raise UsageError(f"unknown component {component!r}: use one of {', '.join(COMPONENTS)}{hint}")
        if self._components != SPLIT:
            raise UsageError(
                f"members of this cluster run their components together: make it with components={SPLIT!r}"
            )

    def _require_free(self, member_ids: Sequence[int], component: str | None) -> None:
        """Raises `UsageError` for a second fault of one member: its heal would be ambiguous."""
        for member_id in member_ids:
            for fault in self._faults_of(member_id):
                if component is None or fault.component in (None, component):
                    raise UsageError(f"member {member_id} is under fault {fault.name!r}: heal it first")

    def _heal(self, name: str) -> None:
        if self._active.pop(name, None) is None:
            known = ", ".join(self._active) or "none"
            raise UsageError(f"fault {name!r} is not there: there is {known}")
        self._driver.heal(name).require(f"fault {name!r} healed")
        self._witnesses.note_heal()


def _names_roles(fault: Fault) -> bool:
    """Whether the fault needs a leader to find its target."""
    if isinstance(fault, MemberFault | HostFault | FileFault):
        whom = [fault.members]
    else:
        whom = [fault.sources, fault.targets] if isinstance(fault, LinkFault | DatagramFault) else []
    parts = [part for who in whom for part in (who.parts if isinstance(who, Group) else (who,))]
    return any(isinstance(part, Members) and part.selector in _ROLES for part in parts)


def _kind_of(fault: Fault | str) -> str:
    """The name of its kind in scenarios."""
    if isinstance(fault, str):
        return (fault.split() or ["fault"])[0]
    known = MemberFault | LinkFault | DatagramFault | HostFault | FileFault
    return fault.kind.value if isinstance(fault, known) else "fault"
