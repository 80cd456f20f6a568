"""The versions of Aeron that the processes of a member ran, by its trace, beside those that the run names.

A launcher or an image may bring another jar than the one that the system's text names.
"""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Final

from upheaval.records import MemberFolder, TraceEvent
from upheaval_node.trace_kinds import TraceKind

_AERON: Final = "aeron"
"""The system in the trace of a process of Aeron."""


@dataclass(frozen=True, slots=True)
class Strange:
    """A process that ran another version than the run names for it."""

    line: int
    version: str
    expected: str


def strange_version(starts: Iterable[TraceEvent], systems: Sequence[str], member_id: int) -> Strange | None:
    """The first start of a member with a version that it never was to have, or the last start of a component with
    another one than it was to have last; None without one. `systems` are the systems of the run, in order.
    """
    named = [
        (event, version)
        for event in starts
        if event.fields.get("system") == _AERON and isinstance(version := event.fields.get("version"), str)
    ]
    expected = [_version_of(system, member_id) for system in systems]
    last = {event.fields.get("component"): event.line for event, _ in named}
    for event, version in named:
        is_last = last[event.fields.get("component")] == event.line
        if version not in (expected[-1:] if is_last else expected):
            return Strange(event.line, version, expected[-1])
    return None


def starts_of(folder: MemberFolder) -> list[TraceEvent]:
    """The starts of a member's processes. Raises `UsageError` for a malformed trace."""
    return [event for event in folder.read_trace() if event.event == TraceKind.PROCESS_START]


def _version_of(system: str, member_id: int) -> str:
    """The version of a member in the text of a system, as its jar names itself."""
    versions = system.partition(":")[2].split(",")
    return versions[member_id if member_id < len(versions) else 0].partition("@")[0]
