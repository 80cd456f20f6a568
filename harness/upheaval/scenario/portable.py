"""The text of a simulated scenario for live members: roles for ids, conditions for times, faults that they can have.

Which member led when comes from a simulated run of the text. What live members cannot have is an error.
"""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import Final

from upheaval.errors import UsageError

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
    _victims: dict[int, str] = field(default_factory=dict)
    """The fault whose victim a member is."""
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
                dropped = [option for option in options if option.startswith(_DROPPED)]
                self.changes += [f"no {option}" for option in dropped]
                options = [option for option in options if option not in dropped]
                if options:
                    yield " ".join(["cluster", *options])
            case ["wait", "moment" | "seconds", *_] if self._last is not None:
                self._waits.append(list(words))
            case [verb, name, kind, *rest] if verb in _BEGINS:
                yield from self._awaited((name, False))
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
        led = self.leader_at(name, False)
        ends = [self._ends(word, led) for word in rest]
        single = rest[0] if rest else ""
        hit = led if single == "leader" else _member(single)
        if hit is not None:
            self._faults[name] = hit
            self._victims.setdefault(hit, name)
        return " ".join([verb, name, simpler, *ends])

    def _ends(self, word: str, led: int | None) -> str:
        """One word of a fault, with roles in place of ids."""
        if word in _ARROWS or _MEMBER not in word:
            return word
        parts = [self._role(part, led) for part in word.split(",")]
        self.changes.append("roles of members in place of ids")
        plural = {part: part.replace("follower", "followers", 1) for part in parts if parts.count(part) > 1}
        return ",".join(dict.fromkeys(plural.get(part, part) for part in parts))

    def _role(self, part: str, led: int | None) -> str:
        member = _member(part)
        if member is None:
            return part
        if member in self._victims:
            return f"victim!{self._victims[member]}"
        if member == led:
            return "leader"
        others = [fault for hit, fault in self._victims.items() if hit != led]
        return f"follower!{others[0]}" if others else "follower"


def _member(word: str) -> int | None:
    number = word.removeprefix(_MEMBER)
    return int(number) if number != word and number.isdecimal() else None
