"""The text of a simulated scenario for live members: roles for ids, conditions for times, faults that they can have.

Which member led when comes from a simulated run of the text. What live members cannot have is an error, and so are
members that no role tells from the others: the schedule would be another one. Members with one history, of faults and
leadership, are interchangeable.
"""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import Final

from upheaval.errors import UnknownOutcome, UsageError
from upheaval.system import ClusterSpec
from upheaval_chaos.faults import OTHER_THAN, Members, Roster, Selector

LeaderAt = Callable[[str, bool], int | None]
"""The member that led the simulated run when the fault of that name began (False) or ended (True)."""

_BEGINS: Final = ("inject", "begin")
_ENDS: Final = ("heal", "end")
_MEMBER: Final = "member-"
_SIMPLER: Final = {
    "power-cut": "kill",
    "die-in-change": "kill",
    "power-lost-in-change": "kill",
    "reset": "blackhole",
    "wrong-bytes": "kill",
}
"""A fault that members of Aeron can have, by one that they cannot."""
_ENDS_CONNECTIONS: Final = "timeout"
"""A link fault of connections, which members of Aeron do not have."""
_DROPPED: Final = ("compatibility=", "leader-disconnect-ms=")
"""Options of a cluster that are of our node alone."""
_ARROWS: Final = ("->", "<->")


@dataclass(frozen=True, slots=True)
class Portable:
    """The text, and what differs from the simulated one."""

    text: str
    changes: tuple[str, ...]


def portable(text: str, leader_at: LeaderAt) -> Portable:
    """The text for live members of another system. Raises `UsageError` for a fault that they cannot have."""
    writer = _Writer(leader_at)
    lines = [written for line in text.splitlines() for written in writer.lines(line.partition("#")[0].split())]
    return Portable("\n".join([*lines, *writer.last_waits(), ""]), tuple(dict.fromkeys(writer.changes)))


@dataclass(slots=True)
class _Writer:
    leader_at: LeaderAt
    changes: list[str] = field(default_factory=list)
    _members: int = ClusterSpec().members
    _led: int | None = None
    """The last known leader."""
    _victims: dict[int, str] = field(default_factory=dict)
    """The fault whose only victim a member is."""
    _hit: dict[str, Sequence[int]] = field(default_factory=dict)
    """The members that the name of each fault means."""
    _histories: dict[int, frozenset[str]] = field(default_factory=dict)
    """The faults that have hit a member, by their names and ends, and those at whose begin it led."""
    _picked: dict[tuple[str, int | None], int] = field(default_factory=dict)
    """The member that a role selects of several that are alike, by the role and the leader."""
    _last: tuple[str, bool] | None = None
    """The fault that began or ended last, and whether it ended."""
    _faults: dict[str, int] = field(default_factory=dict)
    """The member that each fault on a single one hits."""
    _waits: list[list[str]] = field(default_factory=list)

    def lines(self, words: Sequence[str]) -> Iterator[str]:
        """The lines for one statement."""
        match words:
            case []:
                return
            case ["invariants", *_]:
                self.changes.append("no invariants: they are judged inside the simulation")
            case ["cluster", *options]:
                self._members = next((int(o[8:]) for o in options if o.startswith("members=")), self._members)
                dropped = [option for option in options if option.startswith(_DROPPED)]
                self.changes += [f"no {option}" for option in dropped]
                options = [option for option in options if option not in dropped]
                if options:
                    yield " ".join(["cluster", *options])
            case ["wait", "moment" | "seconds", *_] if self._last is not None:
                self._waits.append(list(words))
            case [verb, name, kind, *rest] if verb in _BEGINS:
                yield from self._awaited((name, False))
                self._note_leader(name)
                yield self._begun(verb, name, kind, rest)
            case [verb, name] if verb in _ENDS:
                yield from self._awaited((name, True))
                yield " ".join(words)
            case _:
                yield from self.last_waits()
                yield " ".join(words)

    def last_waits(self) -> Iterator[str]:
        """The waits after the last line, as they are."""
        yield from (" ".join(wait) for wait in self._waits)
        self._waits = []

    def _awaited(self, event: tuple[str, bool]) -> Iterator[str]:
        """The waits before an event: for a leader, where another one came meanwhile in the simulated run."""
        last, self._last = self._last, event
        if last is not None and self._waits:
            before, after = self.leader_at(*last), self.leader_at(*event)
            hit = [name for name, member in self._faults.items() if member == before]
            if after is not None and after != before and hit:
                self.changes.append("waits for another leader in place of times")
                self._waits = [["wait", "leader", "other-than", hit[-1]]]
        yield from self.last_waits()

    def _begun(self, verb: str, name: str, kind: str, rest: Sequence[str]) -> str:
        if kind == _ENDS_CONNECTIONS:
            raise UsageError(f"fault {name!r}: {kind} cannot be done to live members of another system")
        simpler = _SIMPLER.get(kind, kind)
        if simpler != kind:
            self.changes.append(f"{simpler} for {kind}")
            rest = [word for word in rest if not word.startswith(("changes=", "at-percent="))]
        words, places = list(rest), (0, 2) if len(rest) > 1 and rest[1] in _ARROWS else (0,)
        hit = {place: self._select(rest[place]) for place in places}
        picked: dict[int, str] = {}
        for place in places:
            if _MEMBER in rest[place]:
                # No link leads from a member to itself.
                idle = set(hit[0]) if place and len(hit[0]) == 1 else set()
                words[place] = self._roles(name, rest[place], set(hit[place]), idle, picked)
                self.changes.append("roles of members in place of ids")
        self._note_hits(name, hit)
        return " ".join([verb, name, simpler, *words])

    def _note_leader(self, name: str) -> None:
        member = self.leader_at(name, False)
        if member is not None:
            if member != self._led:
                # Who was picked under another leader may have led since, and so is known apart from the others.
                self._picked = {}
            self._led = member
            self._histories[member] = self._histories.get(member, frozenset()) | {f"{name} led"}

    def _note_hits(self, name: str, hit: dict[int, list[int]]) -> None:
        for place, members in hit.items():
            for member in members:
                self._histories[member] = self._histories.get(member, frozenset()) | {f"{name} {place}"}
        self._victims = {member: fault for member, fault in self._victims.items() if fault != name}
        self._hit[name] = hit[0]
        if len(hit[0]) == 1:
            (member,) = hit[0]
            self._faults[name] = member
            self._victims.setdefault(member, name)

    def _select(self, word: str) -> list[int]:
        """The members that a target means in the simulated run."""
        roster = Roster(range(self._members), lambda: self._led, lambda _: True)
        selected: dict[int, None] = {}
        for part in word.split(","):
            who, _, fault = part.partition(OTHER_THAN)
            member = _member(who)
            members = Members(Selector(who), other_than=fault) if member is None else Members(member_id=member)
            try:
                chosen = members.sparing(lambda fault: self._hit.get(fault, ())).select(roster)
            except UnknownOutcome:
                continue
            selected |= dict.fromkeys(member_id for member_id in chosen if member_id >= 0)
        return list(selected)

    def _roles(self, name: str, word: str, hit: set[int], idle: set[int], picked: dict[int, str]) -> str:
        """A target with roles in place of ids. `idle` may be hit as well. `picked` has a follower of several
        that are alike, by the role that selects one of them in this fault.
        """
        roles = {member: f"victim{OTHER_THAN}{fault}" for member, fault in self._victims.items()} | picked
        if self._led is not None:
            roles.setdefault(self._led, Selector.LEADER.value)
        ids = [member for part in word.split(",") if (member := _member(part)) is not None]
        rest = {member for member in ids if member not in roles}
        if rest:
            role, is_picked = self._follower(rest, hit | idle, set(picked))
            if not role:
                raise UsageError(f"fault {name!r}: no role distinguishes {word} from the other followers")
            roles |= dict.fromkeys(rest, role)
            picked |= dict.fromkeys(rest, role) if is_picked else {}
        parts = [part if (member := _member(part)) is None else roles[member] for part in word.split(",")]
        return ",".join(dict.fromkeys(parts))

    def _follower(self, rest: set[int], allowed: set[int], picked: set[int]) -> tuple[str, bool]:
        """The role of these followers, whether it selects one of several that are alike; empty without one."""
        signs = [(member, f"{OTHER_THAN}{fault}") for member, fault in self._victims.items() if member != self._led]
        for spared, sign in [*signs, (None, "")]:
            pool, one = {*range(self._members)} - {spared, self._led}, f"{Selector.FOLLOWER}{sign}"
            if rest <= pool <= allowed:
                return (one if len(pool) == 1 else f"{Selector.FOLLOWERS}{sign}"), False
            histories = {self._histories.get(member, frozenset()) for member in pool}
            known = self._picked.get((one, self._led))
            is_any = known is None and rest <= pool and not pool & picked and len(histories) == 1
            if len(rest) == 1 and (is_any or known in rest):
                (self._picked[one, self._led],) = rest
                return one, True
        return "", False


def _member(word: str) -> int | None:
    number = word.removeprefix(_MEMBER)
    return int(number) if number != word and number.isdecimal() else None
