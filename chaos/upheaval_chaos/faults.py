"""Faults as values: their kinds, their targets, and how they are injected, healed and proved.

`aim` returns an `Injection` that is bound to the members it found but has not done anything yet. A probe that looks at
the cluster proves both injection and healing. A failed proof is a `Proof` whose `holds` is false, never an exception,
so that healing goes on.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, fields, replace
from enum import StrEnum
from typing import Any, Final, Protocol, TypeVar

from upheaval_chaos.errors import UnknownOutcome, UsageError
from upheaval_chaos.record import FaultRecord, Proof
from upheaval_chaos.target import CLIENTS, Link, Target
from upheaval_node.types import S

TAKES_EFFECT_S: Final = 10.0
COMES_BACK_S: Final = 20.0
# Actions in flight when a fault begins may still complete.
SETTLES_S: Final = 0.2
# A running member takes many turns in this time, because of its heartbeats.
PAUSE_SHOWS_S: Final = 0.4
OTHER_THAN: Final = "!"
"""Separates the target of a fault from the name of the fault whose victims it spares."""
LAST_OWN_STATUS: Final = 128
"""The highest status of a process that ended on its own: a signal gives a negative status, or a higher one in a
container.
"""


class Injection(Protocol):
    """A fault bound to the members at which it was aimed."""

    @property
    def what(self) -> str:
        """The kind of the fault, by its name in scenarios."""

    @property
    def where(self) -> str:
        """Its target, for people: members and components, or links."""

    @property
    def statement(self) -> str:
        """The fault and its target in the language of scenarios."""

    @property
    def member_ids(self) -> Sequence[int]:
        """The members that it hits."""

    @property
    def victims(self) -> Sequence[int]:
        """The members that its name means: all that it hits; of links, those before the arrow, or after it if only
        clients are before it.
        """

    @property
    def links(self) -> Sequence[Link]:
        """The links that it affects; empty for a fault of members or machines."""

    @property
    def component(self) -> str | None:
        """The component of each member that it hits; None for whole members."""

    @property
    def is_exclusive(self) -> bool:
        """Whether healing it also heals another fault of its kind, or of the same injector operation, at the same
        member.
        """

    @property
    def keeps_down(self) -> bool:
        """Whether its members stay down until it is healed."""

    @property
    def starts(self) -> bool:
        """Whether healing it starts its members."""

    def ends_at_start(self) -> bool:
        """Whether a start of its members would end it now."""

    def act(self) -> None:
        """Inject it. Raises `UsageError` before anything is done. After any other error it may be done in part, and
        `heal` undoes that.
        """

    def prove(self) -> Proof:
        """Wait for the proof that it took effect."""

    def seen(self) -> Proof | None:
        """The proof so far, without waiting; None while nothing shows whether it took effect."""

    def heal(self) -> None:
        """Heal it."""

    def prove_healed(self) -> Proof:
        """Wait for the proof that it is healed."""

    def seen_healed(self) -> Proof | None:
        """The proof that it is healed, without waiting; None while nothing shows that."""


class Fault(Protocol):
    """A fault, not yet aimed at a cluster."""

    @property
    def statement(self) -> str:
        """The fault and its target in the language of scenarios."""

    def require_possible(self, members: int) -> None:
        """Raises `UsageError` when it is impossible in a cluster of this size, whichever member leads."""

    def aim(self, target: Target, *, tries: bool = True) -> Injection:
        """Find the members it hits, and observe their state before it. Raises `UnknownOutcome` when it cannot be
        injected now, or could not be proved.

        With `tries`, the probe tries links by its own connections, which takes time; otherwise it watches the usual
        traffic.
        """


FaultT = TypeVar("FaultT", bound=Fault)


def proof_of(look: Callable[[], str]) -> Proof:
    """The proof that `look` returns. An error of `look` becomes the proof that there is none."""
    try:
        return Proof(True, look())
    except UnknownOutcome as error:
        return Proof(False, str(error))


def awaited(target: Target, seen: Callable[[], Proof | None], timeout_s: float, what: str) -> Proof:
    """The first proof that holds, or the last observation at the time-out."""
    last: Proof | None = None

    def holds() -> bool:
        nonlocal last
        last = seen()
        return last is not None and last.holds

    try:
        target.wait_until(holds, timeout_s, what)
    except UnknownOutcome as error:
        return last or Proof(False, str(error))
    assert last is not None
    return last


# --- targets ---


class Selector(StrEnum):
    """The target of a fault, in the words of scenarios."""

    LEADER = "leader"
    FOLLOWER = "follower"
    FOLLOWERS = "followers"
    RUNNING = "running"
    ALL = "all"
    CLIENTS = "clients"
    VICTIM = "victim"
    """The members of the named fault."""


@dataclass(frozen=True, slots=True)
class Roster:
    """The cluster's state on which the choice of targets depends."""

    member_ids: Sequence[int]
    leader: Callable[[], int | None]
    """The serving leader, if it is known."""
    runs: Callable[[int], bool]
    """Whether any part of a member runs now."""


def roster_of(target: Target) -> Roster:
    """The current state of the cluster, at each call."""
    return Roster(target.member_ids, target.leader, lambda member_id: bool(target.node(member_id).incarnation()))


def _imagined(members: int, leader_id: int) -> Roster:
    """The state of a cluster in which everyone runs."""
    return Roster(range(members), lambda: leader_id, lambda _: True)


def require_some_leader(members: int, attempt: Callable[[Roster], object]) -> None:
    """Raises the `UsageError` of `attempt` if it fails whichever of these members leads."""
    failure: UsageError | None = None
    for leader_id in range(members):
        try:
            attempt(_imagined(members, leader_id))
        except UsageError as error:
            failure = error
        else:
            return
    if failure is not None:
        raise failure


class Who(Protocol):
    """The target of a fault, selected when the fault begins."""

    def select(self, roster: Roster) -> list[int]:
        """The members' ids. Raises `UnknownOutcome` when there is no such member now, `UsageError` when there
        never is.
        """

    def possible(self, roster: Roster) -> list[int]:
        """All members that it may select while the victims of the faults that it names are not known. Raises as
        `select`.
        """

    def sparing(self, victims: Callable[[str], Sequence[int]]) -> "Who":
        """The same target with the victims of the named faults, which it spares."""


@dataclass(frozen=True, slots=True)
class Members:
    """A named set of members, or the clients. All but `all` and a member's id are resolved when the fault begins."""

    selector: Selector | None = None
    member_id: int = -1
    other_than: str = ""
    """The name of an earlier fault whose victims are excluded, or are themselves the target."""
    spared: tuple[int, ...] = ()
    """These victims, once they are known."""

    def select(self, roster: Roster) -> list[int]:
        """The members' current ids. Raises `UnknownOutcome` when they are not known, `UsageError` when there
        are none.
        """
        if self.selector is Selector.CLIENTS:
            return [CLIENTS]
        if self.selector is Selector.VICTIM:
            if not self.other_than:
                raise UsageError(f"{self.selector} needs the name of a fault: {self.selector}{OTHER_THAN}NAME")
            # Before the run it may be any of them.
            return list(self.spared or roster.member_ids)
        everyone = [member_id for member_id in roster.member_ids if member_id not in self.spared]
        if self.selector is None:
            if self.member_id not in roster.member_ids:
                known = len(roster.member_ids)
                raise UsageError(f"there is no member {self.member_id}: this cluster has {known} members")
            return [self.member_id]
        if not everyone:
            raise UnknownOutcome(f"fault {self.other_than!r} hit every member")
        if self.selector is Selector.ALL:
            return everyone
        if self.selector is Selector.RUNNING:
            running = [member_id for member_id in everyone if roster.runs(member_id)]
            if not running:
                raise UnknownOutcome("no member is running now")
            return running
        leader = roster.leader()
        if leader is None:
            raise UnknownOutcome(f"cannot tell who is {self.selector}: no member leads now")
        if self.selector is Selector.LEADER:
            return [leader]
        followers = [member_id for member_id in everyone if member_id != leader]
        if not followers and self.spared:
            raise UnknownOutcome(f"fault {self.other_than!r} hit every follower")
        if not followers:
            raise UsageError("a cluster of one member has no followers")
        return followers[:1] if self.selector is Selector.FOLLOWER else followers

    def possible(self, roster: Roster) -> list[int]:
        """A follower that spares the victims of a fault may be any follower."""
        is_any = self.selector is Selector.FOLLOWER and self.other_than
        return (replace(self, selector=Selector.FOLLOWERS) if is_any else self).select(roster)

    def sparing(self, victims: Callable[[str], Sequence[int]]) -> "Members":
        """The same set with the victims of the fault that it names."""
        return replace(self, spared=tuple(victims(self.other_than))) if self.other_than else self

    def __str__(self) -> str:
        who = f"member-{self.member_id}" if self.selector is None else self.selector.value
        return f"{who}{OTHER_THAN}{self.other_than}" if self.other_than else who


@dataclass(frozen=True, slots=True)
class Group:
    """The union of several sets."""

    parts: tuple[Members, ...]

    def select(self, roster: Roster) -> list[int]:
        """Each member once, in the order of the parts."""
        return list(dict.fromkeys(member_id for part in self.parts for member_id in part.select(roster)))

    def possible(self, roster: Roster) -> list[int]:
        """The union of those of the parts."""
        return list(dict.fromkeys(member_id for part in self.parts for member_id in part.possible(roster)))

    def sparing(self, victims: Callable[[str], Sequence[int]]) -> "Group":
        """Each part with the victims of the fault that it names."""
        return Group(tuple(part.sparing(victims) for part in self.parts))

    def __str__(self) -> str:
        return ",".join(map(str, self.parts))


def possible_ends(sources: Who, targets: Who, roster: Roster) -> tuple[list[int], list[int]]:
    """The members that may be at both ends, as `Who.possible` has them. The same target selects the same ones."""
    if sources == targets:
        return sources.select(roster), targets.select(roster)
    return sources.possible(roster), targets.possible(roster)


def sparing(fault: FaultT, victims: Callable[[str], Sequence[int]]) -> FaultT:
    """The same fault with the victims that its targets spare."""
    untyped: Any = fault
    named = {field.name: getattr(fault, field.name) for field in fields(untyped)}
    changed = {name: who.sparing(victims) for name, who in named.items() if isinstance(who, Members | Group)}
    spared: FaultT = replace(untyped, **changed)
    return spared


def exactly(ends: Sequence[int]) -> Group:
    """These members, by their ids, or the clients."""
    return Group(tuple(Members(Selector.CLIENTS) if end == CLIENTS else Members(member_id=end) for end in ends))


def has_clients(who: Who) -> bool:
    """Whether the set contains the clients, who are not members."""
    parts = who.parts if isinstance(who, Group) else (who,)
    return any(isinstance(part, Members) and part.selector is Selector.CLIENTS for part in parts)


# --- members ---


class MemberFaultKind(StrEnum):
    """The kinds of member faults, by their names in scenarios."""

    KILL = "kill"
    STOP = "stop"
    PAUSE = "pause"
    RESTART = "restart"


@dataclass(frozen=True, slots=True)
class MemberFault:
    """A fault of whole members, or of one component of each."""

    kind: MemberFaultKind
    members: Who
    component: str | None = None

    def __post_init__(self) -> None:
        if has_clients(self.members):
            raise UsageError(f"{self.kind} is done to members: clients are an end of a link")

    @property
    def statement(self) -> str:
        """The fault and its target in the language of scenarios."""
        return f"{self.kind} {self.members}" + (f" component={self.component}" if self.component else "")

    def require_possible(self, members: int) -> None:
        """The cluster must have enough members, whichever one leads."""
        require_some_leader(members, self.members.select)

    def aim(self, target: Target, *, tries: bool = True) -> "MemberInjection":  # noqa: ARG002 - there is nothing to try
        """Aim at the members that are selected now. Raises `UnknownOutcome` when one of them does not run."""
        injection = self.injection_on(target, self.members.select(roster_of(target)))
        injection.require_running()
        return injection

    def injection_on(self, target: Target, member_ids: Sequence[int]) -> "MemberInjection":
        """A fault of these members in their current state, which is not injected: it may be in effect already."""
        return MemberInjection(target, self, member_ids)


def fault_of(record: FaultRecord) -> MemberFault:
    """The member fault from its record. Raises `UsageError` for another kind of fault."""
    if record.what not in list(MemberFaultKind):
        raise UsageError(f"expected a fault of members, got {record.what}")
    return MemberFault(MemberFaultKind(record.what), exactly(record.members), record.component)


class MemberInjection:
    """An injected member fault. Implements `Injection`."""

    is_exclusive = True
    links: Sequence[Link] = ()

    def __init__(self, target: Target, fault: MemberFault, member_ids: Sequence[int]) -> None:
        self._target = target
        self._fault = fault
        self.member_ids = self.victims = member_ids
        self.component = fault.component
        self.what = fault.kind.value
        suffix = f"/{fault.component}" if fault.component else ""
        self.where = ", ".join(f"member-{member_id}{suffix}" for member_id in member_ids)
        self.statement = replace(fault, members=exactly(member_ids)).statement
        self._is_pause = fault.kind is MemberFaultKind.PAUSE
        self.keeps_down = fault.kind in (MemberFaultKind.KILL, MemberFaultKind.STOP)
        self.starts = not self._is_pause
        self._before = {member_id: self._incarnation(member_id) for member_id in member_ids}
        self._parts_before = {member_id: target.node(member_id).parts(self.component) for member_id in member_ids}
        self._statuses: dict[str, int | None] = {}
        self._since_ns = 0
        self._turns_then: dict[int, Mapping[str, int]] = {}
        self._begin_watch()

    def ends_at_start(self) -> bool:
        """A pause ends when another fault has ended the paused processes."""
        if not self._is_pause:
            return self.keeps_down
        return not any(names & self._incarnation(member_id) for member_id, names in self._before.items())

    def require_running(self) -> None:
        """Raises `UnknownOutcome` when one of its members, or its component there, does not run."""
        dead = [member_id for member_id, names in self._before.items() if not names]
        if dead:
            raise UnknownOutcome(f"cannot {self.what} {self._victim(dead[0])}: it is not running")

    def act(self) -> None:
        """Inject it at each member in turn. Raises `UnknownOutcome` when the injector does not know whether it
        succeeded.
        """
        for member_id in self.member_ids:
            self._do(member_id)

    def prove(self) -> Proof:
        """Wait until a paused member takes no turns for a while; for other faults, until the old processes are gone."""
        if not self._is_pause:
            return awaited(self._target, self.seen, TAKES_EFFECT_S, f"{self.what} of {self.where}")
        self._target.let_pass(SETTLES_S)
        self._begin_watch()
        self._target.let_pass(PAUSE_SHOWS_S)
        return self.seen() or Proof(False, f"{self.where} is not running any more")

    def seen(self) -> Proof | None:
        """A paused member takes no turns; for other faults, the old processes are gone."""
        return self._seen_paused() if self._is_pause else self._seen_gone()

    def heal(self) -> None:
        """Resume a paused member; start any other."""
        for member_id in self.member_ids:
            if self._is_pause:
                self._target.node(member_id).resume(self.component)
            else:
                self._target.node(member_id).start()
        self._begin_watch()

    def prove_healed(self) -> Proof:
        """Wait until each member shows it, see `seen_healed`."""
        return awaited(self._target, self.seen_healed, COMES_BACK_S, f"return of {self.where}")

    def seen_healed(self) -> Proof | None:
        """Each component that ran runs in new processes or, after a pause, takes turns again."""
        if not all(self._is_back(member_id) for member_id in self.member_ids):
            return None
        return Proof(True, f"running: {self._names_now()}")

    def _is_back(self, member_id: int) -> bool:
        parts, before = self._target.node(member_id).parts(self.component), self._parts_before[member_id]
        if self._is_pause and any(parts.get(part, frozenset()) & names for part, names in before.items()):
            turns, then = self._turns()[member_id], self._turns_then[member_id]
            running = {name for name, count in turns.items() if count > then.get(name, 0)}
            return all(parts.get(part, frozenset()) & running for part in before)
        # Another fault may have ended a paused process.
        is_new = not self._before[member_id] & frozenset[str]().union(*parts.values())
        return bool(parts) and parts.keys() >= before.keys() and is_new

    def _do(self, member_id: int) -> None:
        node = self._target.node(member_id)
        match self._fault.kind:
            case MemberFaultKind.KILL:
                node.kill(self.component)
            case MemberFaultKind.PAUSE:
                node.pause(self.component)
            case _:
                node.stop(self.component)
                # Recorded before a start, since the name of the old incarnation is lost when a container is started
                # again.
                for name in self._before[member_id]:
                    self._statuses[name] = self._target.exit_status(member_id, name)
                if self._fault.kind is MemberFaultKind.RESTART:
                    node.start()

    def _victim(self, member_id: int) -> str:
        return f"{self.component} of member {member_id}" if self.component else f"member {member_id}"

    def _incarnation(self, member_id: int) -> frozenset[str]:
        return self._target.node(member_id).incarnation(self.component)

    def _names_now(self) -> str:
        return ", ".join(sorted(name for member_id in self.member_ids for name in self._incarnation(member_id)))

    def _turns(self) -> dict[int, Mapping[str, int]]:
        return {m: self._target.node(m).turns(self.component) for m in self.member_ids}

    def _begin_watch(self) -> None:
        if self._is_pause:
            self._since_ns, self._turns_then = self._target.now_ns(), self._turns()

    def _seen_gone(self) -> Proof | None:
        """None of the old processes is alive; after a restart, there are new ones."""
        survivors = sorted(name for m, names in self._before.items() for name in names & self._incarnation(m))
        if survivors:
            return Proof(False, f"still there: {', '.join(survivors)}")
        for name, status in sorted(self._statuses.items()):
            if status is None or not 0 <= status <= LAST_OWN_STATUS:
                return Proof(False, f"{name} was ordered to end, and ended with status {status}")
        gone = f"gone: {', '.join(sorted(name for names in self._before.values() for name in names))}"
        if self._fault.kind is not MemberFaultKind.RESTART:
            return Proof(True, gone)
        if not all(self._is_back(member_id) for member_id in self.member_ids):
            return Proof(False, f"{gone}; nothing runs in their place")
        return Proof(True, f"{gone}; running: {self._names_now()}")

    def _seen_paused(self) -> Proof | None:
        """The old processes are alive and did not run for long enough."""
        if any(self._incarnation(member_id) != names for member_id, names in self._before.items()):
            return None
        turns, passed_ns = self._turns(), self._target.now_ns() - self._since_ns
        running = [member_id for member_id in self.member_ids if turns[member_id] != self._turns_then[member_id]]
        if running:
            return Proof(False, f"{self._victim(running[0])} is still running")
        return Proof(True, f"took no turn in {PAUSE_SHOWS_S:g} s") if passed_ns >= int(PAUSE_SHOWS_S * S) else None
