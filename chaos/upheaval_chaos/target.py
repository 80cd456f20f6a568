"""What faults and their probes need of a cluster: hands that break it, eyes that see it, and a clock that passes.

Hands and eyes are apart on purpose: a probe looks at processes and at bytes on the path, never at what a hand was told
to do. A runtime fills this shape; this module knows none of them.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum
from typing import Protocol


@dataclass(frozen=True, slots=True, order=True)
class Link:
    """One direction between two members: the bytes of `source` on their way to `target`."""

    source: int
    target: int

    @property
    def reverse(self) -> "Link":
        return Link(self.target, self.source)

    def __str__(self) -> str:
        return f"{self.source}->{self.target}"


class Answer(StrEnum):
    """What became of a connection that was made along a link."""

    ANSWERED = "answered"
    RESET = "reset"
    SILENT = "silent"


@dataclass(frozen=True, slots=True)
class Ping:
    """A connection made along a link, and how long the answer took."""

    answer: Answer
    round_trip_ns: int = 0


class Clock(Protocol):
    """Time of the runtime. It passes in `wait_until` and in `let_pass`."""

    def now_ns(self) -> int: ...

    def wait_until(self, condition: Callable[[], bool], timeout_s: float, what: str) -> None:
        """Raises `UnknownOutcome` when `condition` does not hold in time."""
        ...

    def let_pass(self, seconds: float) -> None: ...


class MemberHands(Protocol):
    """What can be done to a member, or to one component of it where components are processes of their own."""

    def kill(self, member_id: int, component: str | None) -> None: ...

    def stop(self, member_id: int) -> None: ...

    def start(self, member_id: int) -> None: ...

    def pause(self, member_id: int, component: str | None) -> None: ...

    def resume(self, member_id: int, component: str | None) -> None: ...


class MemberEyes(Protocol):
    """What can be seen of a member from outside of it."""

    def incarnation(self, member_id: int, component: str | None) -> frozenset[str]:
        """Names of the processes that run now, which never come back; empty when nothing runs."""
        ...

    def turns(self, member_id: int, component: str | None) -> int:
        """A number that grows while the process gets to run, and only then."""
        ...


class LinkHands(Protocol):
    """What can be done to links between members."""

    def cut(self, links: Sequence[Link]) -> None:
        """Black holes: what is sent along them vanishes, and nobody is told."""
        ...

    def reset(self, links: Sequence[Link]) -> None:
        """Reset the connections along them, and every new one."""
        ...

    def slow(self, links: Sequence[Link], latency_ns: int, bytes_per_second: int) -> None:
        """Add a latency, limit the bandwidth of each stream; 0 leaves the one or the other as it is."""
        ...

    def heal(self, links: Sequence[Link]) -> None: ...


class LinkEyes(Protocol):
    """What can be seen of links between members."""

    def delivered(self, link: Link) -> int:
        """Bytes that have come out at the end of the link since the beginning."""
        ...

    def delivered_by_stream(self, link: Link) -> Mapping[str, int]:
        """The same for each stream of the link: a limited bandwidth is one for each."""
        ...

    def ping(self, link: Link, timeout_s: float) -> Ping:
        """Make a connection along the link, send a few bytes and see what comes back."""
        ...


class Target(Clock, MemberHands, MemberEyes, LinkHands, LinkEyes, Protocol):
    """A cluster that faults can be done to."""

    @property
    def member_ids(self) -> Sequence[int]: ...

    def leader(self) -> int | None: ...
