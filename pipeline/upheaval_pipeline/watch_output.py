"""What `upheaval watch` prints: findings and notes as lines, and how far it is on a line that is drawn over.

As JSON each of them is an object a line. Nothing is judged here.
"""

import json
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final, Protocol

from upheaval.checkers.verdict import Verdict
from upheaval.cli.progress import ProgressLine
from upheaval.system.process_table import boot_id

_STATUS_EVERY_S: Final = 1.0
_LINES_EVERY_S: Final = 30.0


@dataclass(frozen=True)
class Status:
    """How far a watch is."""

    followed: int
    """Answered operations whose place in the log was looked up."""
    waiting: int
    given_up: int
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
            "given_up": self.given_up,
            "committed": self.committed,
            "read": self.read,
            "since_answer_s": None if since is None else round(since, 3),
            "unread_bytes": self.unread_bytes,
        }


class Output(Protocol):
    """Where a watch says what it sees."""

    def finding(self, finding: Mapping[str, Any]) -> None:
        """A promise is broken; the fields are those of `Finding.to_fields`."""

    def note(self, text: str) -> None:
        """What a reader has to know to take the findings for what they are."""

    def status(self, status: Status) -> None:
        """How far it is, several times a second."""

    def end(self, verdict: Verdict, followed: int, broken: Sequence[str]) -> None:
        """The run has ended and is read."""


class Lines:
    """For people."""

    def __init__(self) -> None:
        self._line = ProgressLine(_LINES_EVERY_S)

    def finding(self, finding: Mapping[str, Any]) -> None:
        """Its promise by the id, which says how it is looked up, and the evidence."""
        self._say(f"{finding['verdict']}: {finding['promise']}: {finding['detail']}{_about(finding)}")

    def note(self, text: str) -> None:
        """On a line of its own."""
        self._say(text)

    def status(self, status: Status) -> None:
        """In place, where standard error is a terminal."""
        self._line.show(str(status))

    def end(self, verdict: Verdict, followed: int, broken: Sequence[str]) -> None:
        """The last line."""
        what = f"broken: {', '.join(broken)}" if broken else f"verdict on what was judged: {verdict.text}"
        self._say(f"the run has ended, {followed} operations followed; {what}")

    def _say(self, text: str) -> None:
        self._line.end()
        print(text, flush=True)


class Objects:
    """For programs."""

    def __init__(self) -> None:
        self._next_s = 0.0

    def finding(self, finding: Mapping[str, Any]) -> None:
        """As `upheaval verify --json` has it."""
        self._say("finding", finding)

    def note(self, text: str) -> None:
        """As it is."""
        self._say("note", {"text": text})

    def status(self, status: Status) -> None:
        """Once a second."""
        if time.monotonic() >= self._next_s:
            self._next_s = time.monotonic() + _STATUS_EVERY_S
            self._say("status", status.to_fields())

    def end(self, verdict: Verdict, followed: int, broken: Sequence[str]) -> None:
        """The last object."""
        self._say("end", {"verdict": verdict.text, "followed": followed, "broken": list(broken)})

    def _say(self, kind: str, fields: Mapping[str, Any]) -> None:
        print(json.dumps({"kind": kind, **fields}), flush=True)


def _about(finding: Mapping[str, Any]) -> str:
    """The fields that its line may not have."""
    members = ", ".join(map(str, finding["members"]))
    told = [f"{name} {finding[name]}" for name in ("operation", "position") if finding[name] is not None]
    told += [f"members {members}"] if members else []
    return f" ({', '.join(told)})" if told else ""
