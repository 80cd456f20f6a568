"""The classes of what makes the state of a service differ from what its log gives, beside a wrong snapshot.

Most are also a change in a replay: what it changes is what may not decide about the state. This module has the values
and their sentences, and knows nothing of how they are found.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from enum import StrEnum
from typing import Any, Final


class Cause(StrEnum):
    """Its value stands in JSON; `changed` is what a replay has otherwise, `guess` what then is the likely mistake."""

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
    `difference` where the states after it differ, if that was seen once more. Without such an entry they are None and
    empty.
    """

    causes: tuple[Cause, ...]
    position: int | None = None
    entry: str = ""
    results: tuple[str, ...] = ()
    difference: str = ""
    asked: tuple[str, ...] = ()
    """From which lines of its code the service asked for what the causes name."""

    @property
    def sentences(self) -> tuple[str, ...]:
        """For people, a line each."""
        said = [*(cause.sentence for cause in self.causes), *self.asked]
        if self.position is not None:
            after = f": {self.difference}" if self.difference else ""
            said.append(f"first after the entry at position {self.position}, {self.entry}{after}")
            one, other = self.results
            same = f"both answer {one}" if one == other else f"one answers {one}, the other {other}"
            said.append(f"at this entry {same}")
        return tuple(said)

    def to_fields(self) -> dict[str, Any]:
        """As JSON shows it."""
        return {
            "causes": list(self.causes),
            "sentences": list(self.sentences),
            "position": self.position,
            "entry": self.entry,
            "results": list(self.results),
            "difference": self.difference,
            "asked": list(self.asked),
        }


def parse_explanation(fields: Mapping[str, Any]) -> Explanation:
    """From the fields of one, as `dataclasses.asdict` gives them."""
    causes = tuple(Cause(each) for each in fields["causes"])
    return Explanation(
        causes,
        fields["position"],
        fields["entry"],
        tuple(fields["results"]),
        fields["difference"],
        tuple(fields["asked"]),
    )
