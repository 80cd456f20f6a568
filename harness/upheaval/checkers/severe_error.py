"""An error of a member that may explain a broken promise, as a value beside its finding."""

from dataclasses import asdict, dataclass
from typing import Any

from upheaval_node.types import S


@dataclass(frozen=True, slots=True)
class SevereError:
    """The first error of a kind that a process of a member reported."""

    member_id: int
    ns: int
    """When, on the run's clock."""
    text: str
    """The component, and the first line of the error."""
    place: str
    """Its line in the run folder."""
    traceback: str
    """Empty for an error that is not FATAL."""

    def sentence(self, start_ns: int | None) -> str:
        """The error in a line, with the seconds since `start_ns`, the start of the run, where that is known."""
        when = "" if start_ns is None else f" at {(self.ns - start_ns) / S:.3f} s"
        return f"member {self.member_id} reported{when}: {self.text} ({self.place})"

    def to_fields(self) -> dict[str, Any]:
        """The fields for JSON."""
        return asdict(self)
