"""The reasons for which the state of a service can differ from what its log gives, other than a wrong snapshot.

Most of them can be changed in a replay, and such a change must not affect the state. This module has the values and
their sentences, and knows nothing of how they are found.
"""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from enum import StrEnum
from typing import Any, Final


class Cause(StrEnum):
    """A cause; JSON has its value. `changed` is what a replay changes, `guess` the likely mistake if the replay then
    differs.
    """

    changed: str
    guess: str

    def __new__(cls, value: str, changed: str = "", guess: str = "") -> "Cause":
        """Make a member as `StrEnum` does, with the two texts."""
        made = str.__new__(cls, value)
        made._value_ = value
        made.changed, made.guess = changed, guess
        return made

    HASH_SEED = "hash-seed", "hash seed", "the order of a set of texts, or hash() of a text?"
    CLOCK = "clock", "clock", "time or datetime, instead of the timestamp of the callback?"
    RANDOM = "random", "random numbers", "random, os.urandom, uuid or secrets, without a seed from the log?"
    LOCALE = "locale", "locale and time zone", "local time, or texts in the order of a locale?"
    ENVIRONMENT = "environment", "environment variables", "os.environ?"
    DIRECTORY = "directory", "working directory", "a file by a relative path?"
    ADDRESSES = "addresses", "memory addresses", "id(), or a set of objects without a __hash__ of their own?"
    HOST = "host-name", "host name", "socket.gethostname, platform.node or uuid.getnode?"
    PROCESSORS = "processors", "number of processors", "os.cpu_count or os.sched_getaffinity?"
    COLLECTOR = "garbage-collector", "garbage collector", "a weak reference, __del__ or gc?"
    RECURSION = "recursion-limit", "recursion limit", "a RecursionError that is caught?"
    SNAPSHOT = "snapshot", "", "a field or order that on_take_snapshot does not write, or that on_start does not read?"
    INSTANCES = (
        "instances",
        "other instances in its process",
        "a class attribute, a mutable default argument or a global of a module?",
    )
    ROLE = "role", "member id and role", "cluster.member_id, cluster.role or on_role_change?"
    BACKGROUND = "background-work", "background work", "a do_background_work that changes the state?"
    EACH_REPLAY = "each-replay", "", "a thread, a file, the network, a process id or an address?"
    OUTSIDE = "outside-the-log", "", "a thread, a file, the network, or what another instance in the process did?"

    @property
    def sentence(self) -> str:
        """The observation and the likely mistake."""
        match self:
            case Cause.SNAPSHOT:
                return f"a replay that begins with a snapshot differs from one that reads the whole log: {self.guess}"
            case Cause.EACH_REPLAY:
                return f"two replays under equal conditions differ: {self.guess}"
            case Cause.OUTSIDE:
                return f"all replays agree with each other, and not with a member: {self.guess}"
            case _:
                return f"it differs with the {self.changed} alone: {self.guess}"

    @property
    def replays(self) -> tuple[str, str]:
        """The names of the two replays that differ."""
        match self:
            case Cause.SNAPSHOT:
                return _WHOLE, "the one from the snapshot"
            case Cause.EACH_REPLAY:
                return "one replay", "the other"
            case _:
                return _WHOLE, f"the one that changes the {self.changed}"


_WHOLE: Final = "the replay of the whole log"
CONDITIONS: Final = (
    Cause.HASH_SEED,
    Cause.CLOCK,
    Cause.RANDOM,
    Cause.LOCALE,
    Cause.ENVIRONMENT,
    Cause.DIRECTORY,
    Cause.ADDRESSES,
    Cause.HOST,
    Cause.PROCESSORS,
    Cause.COLLECTOR,
    Cause.RECURSION,
)
"""Properties of a process that can be changed without the help of the service."""
EXTERNAL: Final = (Cause.ENVIRONMENT, Cause.DIRECTORY)
"""Conditions whose change may keep a service from starting."""
OF_MEMBERS: Final = (Cause.INSTANCES, Cause.ROLE, Cause.BACKGROUND)
"""What members have and replays lack."""


@dataclass(frozen=True, slots=True)
class Explanation:
    """Why two states of a service differ, as far as replays show it.

    `position` is that of the first entry after which two replays differ; the first of the causes is changed in one of
    them. `entry` describes the entry, `results` are the answers or exceptions there without and with the change, and
    `difference` is where the states after it differ. Without such an entry they are None and empty, and `difference` is
    where a member's state differs from that of all replays.
    """

    causes: tuple[Cause, ...]
    position: int | None = None
    entry: str = ""
    results: tuple[str, ...] = ()
    difference: str = ""
    asked: tuple[str, ...] = ()
    """The lines of the service's code that read what the causes name."""
    snapshot: int | None = None
    """The position of the snapshot from which a replay arrives at the states of `begun`; None without such a replay."""
    begun: tuple[str, ...] = ()
    whole: tuple[str, ...] = ()
    """The owners whose state equals that of a replay from the start of the log."""
    as_members: tuple[str, ...] = ()
    """The members whose state equals that of a replay with their id and, in each term, their role."""

    @property
    def sentences(self) -> tuple[str, ...]:
        """The explanation in words, one line per fact."""
        lines = [*(cause.sentence for cause in self.causes), *self._tried(), *self.asked]
        if self.position is None:
            return (*lines, f"in the states there, {self.difference}") if self.difference else tuple(lines)
        after = f": {self.difference}" if self.difference else ""
        lines.append(f"first after the entry at position {self.position}, {self.entry}{after}")
        (one, other), (first, second) = self.results, self.causes[0].replays
        same = f"both answer {one}" if one == other else f"{first} answers {one}, {second} {other}"
        return (*lines, f"at this entry {same}")

    def _tried(self) -> Iterator[str]:
        """Yield which replays arrive at which members' states."""
        if self.snapshot is not None:
            from_start = f", one from the start of the log to that of {', '.join(self.whole)}" if self.whole else ""
            yield (
                f"a replay from the snapshot at position {self.snapshot} comes to the state of {', '.join(self.begun)}"
                f"{from_start}"
            )
        for name in self.as_members:
            yield f"a replay with the id and the roles that {name} had in each term comes to its state"

    def to_fields(self) -> dict[str, Any]:
        """The fields for JSON."""
        fields = {name: getattr(self, name) for name in ("position", "entry", "difference", "snapshot")}
        lists = ("causes", "sentences", "results", "asked", "begun", "whole", "as_members")
        return {**{name: list(getattr(self, name)) for name in lists}, **fields}


def parse_explanation(fields: Mapping[str, Any]) -> Explanation:
    """Make an explanation from the fields that `dataclasses.asdict` gives."""
    values: dict[str, Any] = {
        name: tuple(value) if isinstance(value, list | tuple) else value for name, value in fields.items()
    }
    values["causes"] = tuple(Cause(field) for field in fields["causes"])
    return Explanation(**values)
