"""The classes of what makes the state of a service differ from what its log gives, beside a wrong snapshot.

Each one is also a change in the conditions of a replay: what it changes is what may not decide about the state.
"""

from enum import StrEnum
from typing import Final


class Cause(StrEnum):
    """Its value stands in JSON; `changed` is what a replay has otherwise, as it stands in a sentence."""

    changed: str

    def __new__(cls, value: str, changed: str = "") -> "Cause":
        """As `StrEnum` makes one, with the second value beside it."""
        made = str.__new__(cls, value)
        made._value_ = value
        made.changed = changed
        return made

    HASH_SEED = "hash-seed", "hash seed"
    CLOCK = "clock", "clock"
    RANDOM = "random", "random numbers"
    LOCALE = "locale", "locale and time zone"
    ENVIRONMENT = "environment", "environment variables"
    DIRECTORY = "directory", "working directory"
    ADDRESSES = "addresses", "memory addresses"


CONDITIONS: Final = tuple(Cause)
"""All of which a state may not depend on, and which a process can have otherwise without the service's help."""
EXTERNAL: Final = (Cause.ENVIRONMENT, Cause.DIRECTORY)
"""Those without which a service may not start at all."""
