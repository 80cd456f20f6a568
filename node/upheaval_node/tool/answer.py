"""The answer of a command: lines for people, the same as values for machines, and Aeron's exit status."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Final

from upheaval_node.errors import NodeError

SUCCESS: Final = 0
FAILURE: Final = -1
"""The status that the command line turns into exit status 255."""
NOT_LEADER: Final = 1
FAULT: Final = 1
"""The exit status where Aeron's tool ends with an exception: it cannot read what it needs."""

Value = int | float | str | bool | None | Sequence["Value"] | Mapping[str, "Value"]


@dataclass(frozen=True, slots=True)
class Answer:
    """`values` hold everything that `lines` show."""

    lines: Sequence[str] = ()
    values: Mapping[str, Value] = field(default_factory=dict)
    status: int = SUCCESS


class ToolFault(NodeError):
    """A command cannot do its work, for the reason in one line. Nothing has been changed."""


def failure(line: str, **values: Value) -> Answer:
    """The answer of a command that did not do its work, with the reason."""
    return Answer([line], {"reason": line, **values}, FAILURE)
