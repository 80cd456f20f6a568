"""What faults and their probes need of a cluster: an injector that breaks it, an observer, and a clock.

Injector and observer are separate on purpose: a probe looks at processes and at bytes on the path, never at what an
injector was asked to do. A runtime implements these protocols; this module knows no runtime.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from enum import StrEnum
from typing import Final, Protocol

from upheaval_node.protocol import cluster_messages as cm
from upheaval_node.protocol.frames import TYPE_DATA, TYPE_NAK, TYPE_SETUP, TYPE_SM
from upheaval_node.protocol.message import Message

CLIENTS: Final = -1
"""In place of a member's id: the clients of the cluster, as one end of a link."""

CHANNELS: Final = ("consensus", "log", "catchup", "archive")
"""The channels between members, in the order of a member's ports after the ingress port."""

INGRESS: Final = "ingress"
"""The channel between clients and members: requests one way, answers the other."""


class Dialler(StrEnum):
    """The connections that make a link: those that one of its ends dialled, or all."""

    ANY = ""
    SOURCE = "source"
    TARGET = "target"

    @property
    def of_reverse(self) -> "Dialler":
        """The same end, seen from the reverse link."""
        return _OTHER_DIALLER[self]


_OTHER_DIALLER: Final = {Dialler.ANY: Dialler.ANY, Dialler.SOURCE: Dialler.TARGET, Dialler.TARGET: Dialler.SOURCE}


@dataclass(frozen=True, slots=True, order=True)
class Link:
    """One direction between two members, or between clients and a member: the bytes that `source` sends to `target`, on
    any connection. A `channel` restricts it to that channel, a `dialler` to the connections of one end.
    """

    source: int
    target: int
    channel: str = ""
    dialler: Dialler = Dialler.ANY

    @property
    def reverse(self) -> "Link":
        """The reverse direction of the same connections."""
        return Link(self.target, self.source, self.channel, self.dialler.of_reverse)

    @property
    def spared(self) -> "Link":
        """The same direction on the connections that the other end dialled."""
        return replace(self, dialler=self.dialler.of_reverse)

    @property
    def roads(self) -> "list[Link]":
        """The links along which to dial, so that requests or answers travel this link. No process can dial clients."""
        both = (self, self.reverse)
        return [road for road in both if road.target != CLIENTS and road.dialler is not Dialler.TARGET]

    @property
    def is_of_clients(self) -> bool:
        """Whether the clients are one of its ends."""
        return CLIENTS in (self.source, self.target)

    @property
    def channels(self) -> tuple[str, ...]:
        """The channels of the link."""
        if self.is_of_clients:
            return (INGRESS,)
        return (self.channel,) if self.channel else CHANNELS

    def __str__(self) -> str:
        text = f"{_end_name(self.source)}->{_end_name(self.target)}"
        if self.channel:
            text += f"/{self.channel}"
        return f"{text} dialled by {self.dialler}" if self.dialler else text


def _end_name(end: int) -> str:
    return "clients" if end == CLIENTS else str(end)


class Means(StrEnum):
    """The means of a link fault: toxics of the link's proxies, or packet filters at the receiver."""

    PROXY = "proxy"
    PACKETS = "packets"


class LinkFaultKind(StrEnum):
    """The kinds of link faults, by their names in scenarios."""

    BLACKHOLE = "blackhole"
    RESET = "reset"
    SLOW = "slow"
    TIMEOUT = "timeout"


@dataclass(frozen=True, slots=True)
class LinkEffect:
    """The effect of a fault on links.

    BLACKHOLE: bytes vanish without an error. RESET: connections are reset, also new ones. SLOW: a latency, or a
    bandwidth for each stream, or both; 0 leaves it unchanged. TIMEOUT: bytes vanish, and a connection ends after
    `timeout_ms` without any.
    """

    kind: LinkFaultKind
    latency_ms: int = 0
    bytes_per_second: int = 0
    timeout_ms: int = 0
    means: Means = Means.PROXY


FRAMES: Final[Mapping[str, int]] = {"data": TYPE_DATA, "setup": TYPE_SETUP, "status": TYPE_SM, "nak": TYPE_NAK}
"""The types of Aeron's frames, by their names in scenarios. Padding counts as data."""


MESSAGES: Final[Mapping[str, type[Message]]] = {
    message.__name__: message
    for message in (
        cm.CanvassPosition,
        cm.RequestVote,
        cm.Vote,
        cm.NewLeadershipTerm,
        cm.AppendPosition,
        cm.CommitPosition,
        cm.CatchupPosition,
        cm.StopCatchup,
        cm.TerminationPosition,
        cm.TerminationAck,
    )
}
"""The messages between consensus modules, by name."""


class DatagramFaultKind(StrEnum):
    """The kinds of datagram faults, by their names in scenarios."""

    LOSE = "lose"
    DUPLICATE = "duplicate"
    DISORDER = "disorder"
    OMIT = "omit"


@dataclass(frozen=True, slots=True)
class DatagramEffect:
    """The effect of a fault on some of the datagrams of links.

    LOSE: `percent` of them vanish. DUPLICATE: that share arrives twice. DISORDER: each arrives up to `jitter_ms` later.
    `frames` and a stream, if given, restrict the effect. OMIT: that share of the messages called `message` is removed
    from the stream, which continues without them.
    """

    kind: DatagramFaultKind
    percent: int = 0
    jitter_ms: int = 0
    frames: str = ""
    stream_id: int = 0
    message: str = ""


class Answer(StrEnum):
    """The outcome of a connection along a link. ENDED: the target received the request and ended the connection without
    an answer. REFUSED: no process received it.
    """

    ANSWERED = "answered"
    ENDED = "ended"
    RESET = "reset"
    REFUSED = "refused"
    SILENT = "silent"


@dataclass(frozen=True, slots=True)
class Ping:
    """A connection along a link, and the time until its answer."""

    answer: Answer
    round_trip_ns: int = 0


class Clock(Protocol):
    """The time of the runtime. It passes in `wait_until` and in `let_pass`."""

    def now_ns(self) -> int:
        """The monotonic time of the runtime."""

    def wait_until(self, condition: Callable[[], bool], timeout_s: float, what: str) -> None:
        """Raises `UnknownOutcome` when `condition` does not hold before the time-out."""

    def let_pass(self, seconds: float) -> None:
        """Let that many seconds pass."""


class Node(Protocol):
    """Injector and observer of a node. `component` is one of its components that is a process of its own; without it,
    the whole node is meant.
    """

    # --- injector ---

    def kill(self, component: str | None = None) -> None:
        """End it without notice, as SIGKILL does. Returns when it is gone."""

    def stop(self, component: str | None = None, timeout_s: float = ...) -> None:
        """End it in an orderly way, as SIGTERM does, and wait for that."""

    def start(self) -> None:
        """Start the components that are not running. Returns at once."""

    def pause(self, component: str | None = None) -> None:
        """Stop it, as SIGSTOP does. Returns when it is seen to be stopped."""

    def resume(self, component: str | None = None) -> None:
        """Resume it, as SIGCONT does. Does nothing if it is not paused."""

    # --- observer ---

    def incarnation(self, component: str | None = None) -> frozenset[str]:
        """The names of the current incarnations, never used again; empty when nothing runs."""

    def parts(self, component: str | None = None) -> Mapping[str, frozenset[str]]:
        """The names of the current incarnations of each component that runs. One may have several, helper processes
        for example.
        """

    def turns(self, component: str | None = None) -> Mapping[str, int]:
        """By the name of each incarnation, a number that grows only while it gets to run."""


class LinkInjector(Protocol):
    """The injector for links."""

    def impose(self, links: Sequence[Link], effect: LinkEffect) -> None:
        """Impose the effect on the links. Raises `UsageError` when that is impossible, also because of other effects
        there.
        """

    def lift(self, links: Sequence[Link], effect: LinkEffect) -> None:
        """Remove the imposed effect; other effects on these links remain."""


class LinkObserver(Protocol):
    """The observer of links."""

    def delivered_by_stream(self, link: Link) -> Mapping[str, int]:
        """The bytes delivered at the end of each stream of the link since the beginning."""

    def ping(self, link: Link, timeout_s: float, extra_length: int = 0) -> Ping:
        """Make a connection to the link's target as its source does, send a few bytes and observe the answer.

        They travel the link, and the answer travels its reverse. No process can dial clients. With about `extra_length`
        bytes more, the answer comes when these have arrived.
        """


class Datagrams(Protocol):
    """Links on which members send datagrams. `disturb` and `restore` are the injector, `volley` is the observer."""

    def disturb(self, links: Sequence[Link], effect: DatagramEffect) -> None:
        """Impose an effect. Raises `UsageError` when it conflicts with other effects on the links."""

    def restore(self, links: Sequence[Link], effect: DatagramEffect) -> None:
        """Remove the effect of `disturb`; other effects on these links remain."""

    def volley(self, link: Link, count: int, effect: DatagramEffect) -> Mapping[str, Sequence[int]]:
        """Send `count` probes along each leg of the link, with the frame type and stream of the effect.

        Returns their numbers, from 0, in order of arrival, including answers.
        """


class HostInjector(Protocol):
    """The injector for a member's host."""

    def cut_power(self, member_id: int) -> None:
        """Cut the host's power. A start of the member restores it."""

    def move_clock(self, member_id: int, milliseconds: int) -> None:
        """Move the wall clock forward, or back."""

    def fill_disk(self, member_id: int) -> None:
        """Fill the disk."""

    def free_disk(self, member_id: int) -> None:
        """Free the disk."""

    def slow_disk(self, member_id: int, latency_ms: int) -> None:
        """Add this latency to each sync; 0 ends that."""

    def limit_processor(self, member_id: int, percent: int) -> None:
        """Limit the member to this share of one processor core; 0 ends that. In containers, each of its containers."""

    def limit_memory(self, member_id: int, megabytes: int) -> None:
        """Limit the member to so many MiB of memory; 0 ends that. In containers, each of its containers. Raises
        `UnknownOutcome` when it uses more and the kernel takes none of that back.
        """

    def expect_no_end(self, member_id: int) -> None:
        """End what `limit_memory` permits: the member has its memory and was started, so that it ends by its own fault
        alone.
        """

    def end_in_change(self, member_id: int, changes: int, *, loses_power: bool) -> None:
        """End the member in the middle of a file change, after that many complete ones."""

    def end_in_no_change(self, member_id: int) -> None:
        """Cancel `end_in_change` if the end is still to come."""

    def change_bytes(self, member_id: int, percent: int) -> None:
        """End the member, change durable bytes of its log at `percent` of the way from the first to the last, and
        restart it.
        """

    def restore_bytes(self, member_id: int) -> None:
        """Restore the bytes where no process has written since, and end the processes that may have read the wrong
        ones.
        """


class Files(Protocol):
    """Injector and observer of the archive and the cluster state of one member, while it does not run.

    Names are paths in the member's folder.
    """

    # --- injector ---

    def overwrite(self, name: str, offset: int, content: bytes) -> None:
        """Replace bytes of a file, whose length stays."""

    def rewrite(self, name: str, content: bytes) -> None:
        """Replace the content of a file; a power cut does not take it back."""

    def remove(self, names: Sequence[str]) -> None:
        """Remove files; a power cut does not bring them back."""

    def remove_all(self) -> None:
        """Remove every file."""

    # --- observer ---

    def names(self) -> Sequence[str]:
        """All files."""

    def read(self, name: str) -> bytes:
        """The content of a file."""


@dataclass(frozen=True, slots=True)
class DiskWork:
    """The work of a disk so far: file changes begun, changes that their process did not survive, changes (of any
    process) that found no space, bytes that found space, the latest syncs, and how often the disk fell back to its
    synced content.

    Each sync has its begin and duration in ns. `syncs` took at least that long, `bounded` at most.
    """

    changes: int
    unfinished: int
    refused: int
    grown: int
    syncs: Sequence[tuple[int, int]]
    bounded: Sequence[tuple[int, int]]
    power_losses: int


LIMIT_PERIOD_NS: Final = 100_000_000
"""A limited processor grants its share anew in each period of this length, the kernel's default."""


@dataclass(frozen=True, slots=True)
class ProcessorWork:
    """The processor time that live processes under one limit have used, in ns, and what their host has counted of them:
    the periods of the limit in which they ran, and those in which it held them back.
    """

    used_ns: int
    periods: int
    held_back: int


@dataclass(frozen=True, slots=True)
class MemoryWork:
    """What the kernel states of a member's memory: the limits of its live parts in bytes, None for one without; how
    often its parts have met a limit, and how many of its processes were ended because nothing else gave memory back.
    The counts grow only.
    """

    limits: frozenset[int | None]
    met: int
    ended: int


class Traffic(Protocol):
    """The bytes sent along a link since a watch began, and their delivery at the far end."""

    @property
    def sent(self) -> int:
        """The bytes sent along the link."""

    @property
    def came_out(self) -> int:
        """How many of those bytes were delivered."""

    @property
    def fastest_ns(self) -> int | None:
        """The shortest time in flight; None before the first delivery."""

    @property
    def connections(self) -> int:
        """The number of connections when the watch began."""

    @property
    def connections_left(self) -> int:
        """How many of those connections still live."""

    @property
    def was_used(self) -> bool:
        """Whether bytes were delivered within the last second before the watch began."""

    def end(self) -> None:
        """End the watch."""


class HostObserver(Protocol):
    """The observer of hosts."""

    def boot(self, member_id: int) -> str:
        """The name of the host's current boot, never used again; empty without power."""

    @property
    def is_exact(self) -> bool:
        """Whether observations of members and disks are current and exact. With polling they are not: a time from the
        member is as late as the poll, and may be older than the fault.
        """

    def clock_lead_ms(self, member_id: int) -> tuple[int, int] | None:
        """The member's last recorded wall clock, and its lead over the true time of that record; None without
        a record.
        """

    def disk_work(self, member_id: int) -> DiskWork:
        """The work and the refusals of the member's disk so far."""

    def processor_work(self, member_id: int) -> Sequence[ProcessorWork]:
        """The work of the member's processor, of each part with a limit of its own, always in the same order. A new
        process of the member may begin at 0.
        """

    def memory_work(self, member_id: int) -> MemoryWork:
        """What the kernel states of the member's memory."""

    def has_room(self, member_id: int) -> bool:
        """Whether the member's disk accepts bytes of another program, which are removed again."""

    def has_durable_log(self, member_id: int) -> bool:
        """Whether the member's recorded log has durable bytes, according to its own journal."""

    def damage_reports(self, member_id: int) -> int:
        """How often the member reported that the content of its recording is not what was written."""

    def takes_part(self, member_id: int) -> bool:
        """Whether the member has read its log since its start, and its election is over."""

    def watch(self, link: Link) -> Traffic:
        """Start to watch the usual traffic on a link."""


class Hosts(HostInjector, HostObserver, Protocol):
    """The hosts of a cluster, and the links between them."""


class Target(Clock, LinkInjector, LinkObserver, Protocol):
    """A cluster as the target of faults."""

    def node(self, member_id: int) -> Node:
        """The node of a member."""

    def files(self, member_id: int) -> Files:
        """The files of a member."""

    def hosts(self, purpose: str, kind: str = "") -> Hosts:
        """The members' hosts. Raises `UsageError` when the runtime has none of their own for this purpose or kind of
        fault.
        """

    def datagrams(self, purpose: str) -> Datagrams:
        """The links as injector for datagrams. Raises `UsageError` when members send no datagrams."""

    @property
    def member_ids(self) -> Sequence[int]:
        """The ids of all members, running or not."""

    def exit_status(self, member_id: int, incarnation: str) -> int | None:
        """The exit status of that incarnation, negative or over 128 for a signal; None when it is unknown."""

    def leader(self) -> int | None:
        """The serving leader, if it is known."""

    def acknowledged(self) -> int:
        """The number of acknowledged operations of the load so far."""
