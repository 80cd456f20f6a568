"""What rules over the events of members share: an event with its member, and what it costs to have lost files.

An event is a line of a member's trace. Rules compare events of one member in their order; between members they compare
values alone, because clocks of hosts differ and traces are read one after the other. This module knows no rule.
"""

from collections.abc import Iterator, Mapping
from typing import Final, Protocol

from upheaval.checkers.promises import Promise
from upheaval.checkers.signature import Signature
from upheaval.checkers.verdict import Broken, Verdict
from upheaval.records import Json
from upheaval.records.jsonfields import integer

OF_MODULE: Final = ("all", "consensus")
"""The processes of a member that its consensus module is in."""
DEADLY: Final = frozenset({"kill", "power-cut", "die-in-change", "power-lost-in-change", "wrong-bytes"})
"""The kinds of faults after which nothing is left of the processes that they hit, and none of them traced its end."""


class Place:
    """A line of a member's trace, or of another `file` that tells of the member."""

    __slots__ = ("file", "line", "member_id")

    def __init__(self, member_id: int, line: int, file: str = "") -> None:
        self.member_id = member_id
        self.line = line
        self.file = file

    def __str__(self) -> str:
        return f"{self.file or f'member-{self.member_id}/trace.jsonl'}:{self.line}"


class MemberEvent:
    """One event of a member, `ns` by its own monotonic clock."""

    __slots__ = ("fields", "kind", "ns", "place")

    def __init__(self, place: Place, ns: int, kind: str, fields: Mapping[str, Json]) -> None:
        self.place = place
        self.ns = ns
        self.kind = kind
        self.fields = fields

    @property
    def member_id(self) -> int:
        """Whose event it is."""
        return self.place.member_id

    def integer(self, name: str) -> int:
        """A field. Raises `FieldError` when it is missing or is none."""
        return integer(self.fields, name)

    def invalid(
        self, detail: str, *others: int, position: int | None = None, signature: Signature | None = None
    ) -> "NotTold":
        """That this event breaks a rule, by the events before it; `others` are members that it is about, too."""
        members = tuple(dict.fromkeys((self.member_id, *others)))
        text = f"{detail} ({self.place})"
        return NotTold(Verdict.INVALID, text, members=members, position=position, signature=signature)


class NotTold(Broken):
    """What breaks a rule unless a line of a trace was lost."""


class Rules(Protocol):
    """What a promise about the protocol forbids."""

    promise: Promise

    def on_event(self, event: MemberEvent) -> None:
        """The next event of a member. Raises `Broken`; after one that is unknown the rules take further events."""

    def at_end(self) -> Iterator[tuple[int, Broken]]:
        """All events of all members were given: what one heard, and whose trace does not say it."""

    def said(self) -> str:
        """What the promise rests on, when nothing broke it."""


def quorum_of(members: int) -> int:
    """How many of so many members are a majority."""
    return members // 2 + 1
