"""What a watch reports, however it is shown."""

import time
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Protocol

from upheaval.checkers.verdict import Finding, Report
from upheaval.system.process_table import boot_id


@dataclass(frozen=True)
class Status:
    """How far a watch is."""

    followed: int
    """Answered operations whose place in the log was looked up."""
    waiting: int
    committed: Mapping[int, int]
    """What members say; -1 where one cannot be asked."""
    read: Mapping[int, int]
    unread_bytes: int
    last_ns: int
    """When the last answer came that was read."""
    boot_id: str
    """Of the machine whose clock says so."""

    @property
    def since_answer_s(self) -> float | None:
        """None when there is none, or another clock has its time."""
        if self.last_ns < 0 or self.boot_id != boot_id():
            return None
        return max(time.monotonic_ns() - self.last_ns, 0) / 1e9

    def __str__(self) -> str:
        positions = ", ".join(f"{member}: {'-' if at < 0 else at}" for member, at in self.committed.items())
        since = self.since_answer_s
        shown = [
            f"{self.followed} operations followed, {self.waiting} waiting",
            f"committed {positions}",
            "no answer read yet" if self.last_ns < 0 else "" if since is None else f"last answer {since:.1f} s ago",
            f"{self.unread_bytes / 1024:.0f} KiB unread",
        ]
        return "; ".join(filter(None, shown))

    def to_fields(self) -> dict[str, Any]:
        """As JSON shows it."""
        since = self.since_answer_s
        return {
            "followed": self.followed,
            "waiting": self.waiting,
            "committed": self.committed,
            "read": self.read,
            "since_answer_s": None if since is None else round(since, 3),
            "unread_bytes": self.unread_bytes,
        }


class Output(Protocol):
    """Where a watch reports what it sees."""

    def finding(self, finding: Finding) -> None:
        """A promise is broken."""

    def fault(self, text: str) -> None:
        """A fault was put in or healed."""

    def note(self, text: str) -> None:
        """What a reader has to know to take the findings for what they are."""

    def status(self, status: Status) -> None:
        """How far it is, several times a second."""

    def end(self, report: Report, followed: int) -> None:
        """The run is over and judged as a whole."""
