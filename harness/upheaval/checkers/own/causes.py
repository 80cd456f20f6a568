"""The classes of what makes the state of a service differ from what its log gives, beside a wrong snapshot.

Most are also a change in a replay: what it changes is what may not decide about the state. This module has the values
and their sentences, and knows nothing of how they are found.
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum
from typing import Any, Final


class Cause(StrEnum):
    """JSON has its value. `changed` is what a replay has otherwise, `guess` the likely mistake if it then differs."""

    changed: str
    guess: str

    def __new__(cls, value: str, changed: str = "", guess: str = "") -> "Cause":
        """As `StrEnum` makes one, with the other values beside it."""
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
    SNAPSHOT = "snapshot", "", "a field that on_take_snapshot does not write, or that on_start does not read?"
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
        """What was seen, and what it may come from."""
        match self:
            case Cause.SNAPSHOT:
                return f"a replay that begins with a snapshot differs from one that reads the whole log: {self.guess}"
            case Cause.EACH_REPLAY:
                return f"two replays under equal conditions differ: {self.guess}"
            case Cause.OUTSIDE:
                return f"all replays agree with each other, and not with a member: {self.guess}"
            case _:
                return f"it differs with the {self.changed} alone: {self.guess}"


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
"""What a process can have otherwise without the service's help."""
EXTERNAL: Final = (Cause.ENVIRONMENT, Cause.DIRECTORY)
"""Those without which a service may not start at all."""
OF_MEMBERS: Final = (Cause.INSTANCES, Cause.ROLE, Cause.BACKGROUND)
"""What members have, and replays have not."""


@dataclass(frozen=True, slots=True)
class Explanation:
    """Why two states of a service differ, as far as replays show it.

    `position` is that of the first entry of the log after which two replays differ, which differ in the first of the
    causes; `entry` says what it is, `results` what was answered or raised there without and with the change, and
    `difference` where the states after it differ. Without such an entry they are None and empty, and `difference` is
    where a member's state differs from that of all replays.
    """

    causes: tuple[Cause, ...]
    position: int | None = None
    entry: str = ""
    results: tuple[str, ...] = ()
    difference: str = ""
    asked: tuple[str, ...] = ()
    """From which lines of its code the service asked for what the causes name."""
    snapshot: int | None = None
    """The position of the snapshot from which a replay comes to the states of `begun`; None without such a replay."""
    begun: tuple[str, ...] = ()
    whole: tuple[str, ...] = ()
    """Whose states a replay from the start of the log comes to."""
    as_members: tuple[str, ...] = ()
    """To whose states a replay comes that has their id, and in each term their role."""

    @property
    def sentences(self) -> tuple[str, ...]:
        """For people, a line each."""
        lines = [*(cause.sentence for cause in self.causes), *self._tried(), *self.asked]
        if self.position is None:
            return (*lines, f"in the states there, {self.difference}") if self.difference else tuple(lines)
        after = f": {self.difference}" if self.difference else ""
        lines.append(f"first after the entry at position {self.position}, {self.entry}{after}")
        one, other = self.results
        same = f"both answer {one}" if one == other else f"one answers {one}, the other {other}"
        return (*lines, f"at this entry {same}")

    def _tried(self) -> Iterator[str]:
        """Which replays come to which members' states."""
        if self.snapshot is not None:
            from_start = f", one from the start of the log to that of {_names(self.whole)}" if self.whole else ""
            yield (
                f"a replay from the snapshot at position {self.snapshot} comes to the state of {_names(self.begun)}"
                f"{from_start}"
            )
        for name in self.as_members:
            yield f"a replay with the id and the roles that {name} had in each term comes to its state"

    def to_fields(self) -> dict[str, Any]:
        """As JSON shows it."""
        fields = {name: getattr(self, name) for name in ("position", "entry", "difference", "snapshot")}
        lists = ("causes", "sentences", "results", "asked", "begun", "whole", "as_members")
        return {**{name: list(getattr(self, name)) for name in lists}, **fields}


def _names(owners: Sequence[str]) -> str:
    return ", ".join(owners)


def parse_explanation(fields: Mapping[str, Any]) -> Explanation:
    """From the fields of one, as `dataclasses.asdict` gives them."""
    values: dict[str, Any] = {
        name: tuple(value) if isinstance(value, list | tuple) else value for name, value in fields.items()
    }
    values["causes"] = tuple(Cause(each) for each in fields["causes"])
    return Explanation(**values)
