"""Faults as values: what they are, whom they hit, and how they are put in, taken away and proved.

`inject` returns an `Injection` that is bound to the members it found. Both ways are proved by a probe that looks at the
cluster; a proof that fails is a `Proof` that is not `holds`, never an exception, so that healing goes on.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from enum import StrEnum
from typing import Final, Protocol

from upheaval_chaos.errors import UnknownOutcome, UsageError
from upheaval_chaos.record import FaultRecord, Proof
from upheaval_chaos.target import CLIENTS, Target

TAKES_EFFECT_S: Final = 10.0
COMES_BACK_S: Final = 20.0
# What was under way when a fault began may still happen.
SETTLES_S: Final = 0.2
# A running member takes many turns in this time, because of its heartbeats.
PAUSE_SHOWS_S: Final = 0.4


class Injection(Protocol):
    """A fault that was put into a cluster."""

    @property
    def what(self) -> str: ...

    @property
    def where(self) -> str: ...

    @property
    def statement(self) -> str:
        """What was done to whom, in the language of scenarios."""
        ...

    @property
    def began_ns(self) -> int:
        """When the hands began to act, after everything that had to be looked at before."""
        ...

    @property
    def member_ids(self) -> Sequence[int]:
        """The members that it was about, the first of them the victim."""
        ...

    @property
    def component(self) -> str | None:
        """The component that it hit of each member; None when it was not about one."""
        ...

    def prove(self) -> Proof:
        """That it took effect."""
        ...

    def heal(self) -> None: ...

    def prove_healed(self) -> Proof: ...


class Fault(Protocol):
    """Something that can be done to a cluster."""

    def require_possible(self, members: int) -> None:
        """Raises `UsageError` when it can never be done to a cluster of so many members, whoever leads."""
        ...

    def inject(self, target: Target) -> Injection: ...


def proof_of(look: Callable[[], str]) -> Proof:
    """The proof that `look` returns; what it raises is the proof that there is none."""
    try:
        return Proof(True, look())
    except UnknownOutcome as error:
        return Proof(False, str(error))


# --- whom it hits ---


class Selector(StrEnum):
    LEADER = "leader"
    FOLLOWER = "follower"
    FOLLOWERS = "followers"
    RUNNING = "running"
    ALL = "all"
    CLIENTS = "clients"


class Roster(Protocol):
    """What whom a fault hits depends on."""

    @property
    def member_ids(self) -> Sequence[int]: ...

    def leader(self) -> int | None: ...

    def incarnation(self, member_id: int, component: str | None) -> frozenset[str]: ...


@dataclass(frozen=True, slots=True)
class _Imagined:
    """A cluster in which everyone runs. Implements `Roster`."""

    member_ids: Sequence[int]
    leader_id: int

    def leader(self) -> int:
        return self.leader_id

    def incarnation(self, member_id: int, component: str | None) -> frozenset[str]:
        return frozenset({f"{member_id} {component}"})


def require_some_leader(members: int, attempt: Callable[[Roster], object]) -> None:
    """Raises the `UsageError` of `attempt` when it fails whichever of so many members leads."""
    failure: UsageError | None = None
    for leader_id in range(members):
        try:
            attempt(_Imagined(range(members), leader_id))
        except UsageError as error:
            failure = error
        else:
            return
    if failure is not None:
        raise failure


class Who(Protocol):
    """Whom a fault hits, found when it begins."""

    def select(self, target: Roster) -> list[int]:
        """Raises `UnknownOutcome` when there is no such member now, `UsageError` when there never will be."""
        ...


@dataclass(frozen=True, slots=True)
class Members:
    """A named set of members, or the clients; all but `all` and a member's id are looked up when the fault begins."""

    selector: Selector | None = None
    member_id: int = -1

    def select(self, target: Roster) -> list[int]:
        if self.selector is Selector.CLIENTS:
            return [CLIENTS]
        everyone = list(target.member_ids)
        if self.selector is None:
            if self.member_id not in everyone:
                raise UsageError(f"there is no member {self.member_id}: this cluster has {len(everyone)} members")
            return [self.member_id]
        if self.selector is Selector.ALL:
            return everyone
        if self.selector is Selector.RUNNING:
            running = [member_id for member_id in everyone if target.incarnation(member_id, None)]
            if not running:
                raise UnknownOutcome("no member is running now")
            return running
        leader = target.leader()
        if leader is None:
            raise UnknownOutcome(f"cannot tell who is {self.selector}: no member leads now")
        if self.selector is Selector.LEADER:
            return [leader]
        followers = [member_id for member_id in everyone if member_id != leader]
        if not followers:
            raise UsageError("a cluster of one member has no followers")
        return followers[:1] if self.selector is Selector.FOLLOWER else followers

    def __str__(self) -> str:
        return f"member-{self.member_id}" if self.selector is None else self.selector.value


@dataclass(frozen=True, slots=True)
class Group:
    """Several sets as one."""

    parts: tuple[Members, ...]

    def select(self, target: Roster) -> list[int]:
        return list(dict.fromkeys(member_id for part in self.parts for member_id in part.select(target)))

    def __str__(self) -> str:
        return ",".join(map(str, self.parts))


def who_of(ends: Sequence[int]) -> str:
    """Ends of links as a text names them: members by their ids, clients as such."""
    return ",".join(Selector.CLIENTS if end == CLIENTS else f"member-{end}" for end in ends)


def _has_clients(who: Who) -> bool:
    parts = who.parts if isinstance(who, Group) else (who,)
    return any(isinstance(part, Members) and part.selector is Selector.CLIENTS for part in parts)


# --- members ---


class MemberFaultKind(StrEnum):
    KILL = "kill"
    STOP = "stop"
    PAUSE = "pause"
    RESTART = "restart"


@dataclass(frozen=True, slots=True)
class MemberFault:
    """Something done to whole members, or to one component of each."""

    kind: MemberFaultKind
    members: Who
    component: str | None = None

    def __post_init__(self) -> None:
        if _has_clients(self.members):
            raise UsageError(f"{self.kind} is done to members: clients are an end of a link")

    def require_possible(self, members: int) -> None:
        require_some_leader(members, self.members.select)

    def inject(self, target: Target) -> "MemberInjection":
        injection = self.found(target, self.members.select(target))
        injection.act()
        return injection

    def found(self, target: Target, member_ids: Sequence[int]) -> "MemberInjection":
        """Bound to these members as they are now, and not put in: it may have been before."""
        return MemberInjection(target, self, member_ids)


def fault_of(record: FaultRecord) -> MemberFault:
    """The fault of members that was written down. Raises `UsageError` for one of another kind."""
    if record.what not in list(MemberFaultKind):
        raise UsageError(f"expected a fault of members, got {record.what}")
    members = Group(tuple(Members(member_id=member_id) for member_id in record.members))
    return MemberFault(MemberFaultKind(record.what), members, record.component)


class MemberInjection:
    """A fault of members that was put in. Implements `Injection`."""

    def __init__(self, target: Target, fault: MemberFault, member_ids: Sequence[int]) -> None:
        self._target = target
        self._fault = fault
        self.member_ids = member_ids
        self.component = fault.component
        self.what = fault.kind.value
        suffix = f"/{fault.component}" if fault.component else ""
        self.where = ", ".join(f"member-{member_id}{suffix}" for member_id in member_ids)
        option = f" component={fault.component}" if fault.component else ""
        self.statement = f"{fault.kind} {who_of(member_ids)}{option}"
        self._before = {member_id: self._incarnation(member_id) for member_id in member_ids}
        self.began_ns = target.now_ns()
        self._failure: Proof | None = None

    def act(self) -> None:
        """Put it in. A hand that cannot tell whether it did is a proof that there is none."""
        dead = [member_id for member_id, names in self._before.items() if not names]
        if dead:
            raise UnknownOutcome(f"cannot {self.what} member {dead[0]}: it is not running")
        self.began_ns = self._target.now_ns()
        try:
            for member_id in self.member_ids:
                self._do(member_id)
        except UnknownOutcome as error:
            self._failure = Proof(False, str(error))

    def prove(self) -> Proof:
        return self._failure or proof_of(
            self._look_paused if self._fault.kind is MemberFaultKind.PAUSE else self._look_gone
        )

    def heal(self) -> None:
        for member_id in self.member_ids:
            if self._fault.kind is MemberFaultKind.PAUSE:
                self._target.resume(member_id, self._fault.component)
            else:
                self._target.start(member_id)

    def prove_healed(self) -> Proof:
        return proof_of(self._look_running)

    def _do(self, member_id: int) -> None:
        match self._fault.kind:
            case MemberFaultKind.KILL:
                self._target.kill(member_id, self._fault.component)
            case MemberFaultKind.STOP:
                self._target.stop(member_id, self._fault.component)
            case MemberFaultKind.PAUSE:
                self._target.pause(member_id, self._fault.component)
            case MemberFaultKind.RESTART:
                self._target.stop(member_id, self._fault.component)
                self._target.start(member_id)

    def _incarnation(self, member_id: int) -> frozenset[str]:
        return self._target.incarnation(member_id, self._fault.component)

    def _turns(self) -> dict[int, int]:
        return {m: self._target.turns(m, self._fault.component) for m in self.member_ids}

    def _look_gone(self) -> str:
        """None of the processes that were there before is there now."""

        def survivors() -> list[str]:
            return sorted(name for m, names in self._before.items() for name in names & self._incarnation(m))

        self._target.wait_until(lambda: not survivors(), TAKES_EFFECT_S, f"end of the processes of {self.where}")
        names = ", ".join(sorted(name for names in self._before.values() for name in names))
        return f"gone: {names}"

    def _look_paused(self) -> str:
        """The processes are there and do not get to run."""
        self._target.let_pass(SETTLES_S)
        before = self._turns()
        self._target.let_pass(PAUSE_SHOWS_S)
        after = self._turns()
        running = [member_id for member_id in self.member_ids if after[member_id] != before[member_id]]
        if running:
            raise UnknownOutcome(f"member {running[0]} goes on running")
        if any(self._incarnation(member_id) != names for member_id, names in self._before.items()):
            raise UnknownOutcome(f"{self.where} is not running any more")
        return f"took no turn in {PAUSE_SHOWS_S:g} s"

    def _look_running(self) -> str:
        """Something runs that was not there before or, after a pause, that takes turns again."""
        before = self._turns()
        is_pause = self._fault.kind is MemberFaultKind.PAUSE

        def runs(member_id: int) -> bool:
            names = self._incarnation(member_id)
            if is_pause:
                return names == self._before[member_id] and self._turns()[member_id] > before[member_id]
            return bool(names) and not names & self._before[member_id]

        self._target.wait_until(
            lambda: all(runs(member_id) for member_id in self.member_ids), COMES_BACK_S, f"return of {self.where}"
        )
        names = ", ".join(sorted(name for m in self.member_ids for name in self._incarnation(m)))
        return f"running: {names}"
