"""What faults and their probes need of a cluster: an injector that breaks it, an observer that sees it, and a clock
that passes.

Injector and observer are apart on purpose: a probe looks at processes and at bytes on the path, never at what an
injector was asked to do. A runtime fills this shape; this module knows none of them.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from enum import StrEnum
from typing import Final, Protocol

from upheaval_node.protocol import cluster_messages as cm
from upheaval_node.protocol.frames import TYPE_DATA, TYPE_NAK, TYPE_SETUP, TYPE_SM
from upheaval_node.protocol.message import Message

CLIENTS: Final = -1
"""In the place of a member's id: the clients of the cluster, as one end of a link."""

CHANNELS: Final = ("consensus", "log", "catchup", "archive")
"""The channels between members, in the order of a member's ports, after that for ingress."""

INGRESS: Final = "ingress"
"""The channel between clients and members: requests one way, their answers the other."""


class Dialler(StrEnum):
    """Whose connections a link consists of: those that one of its ends has dialled, or all."""

    ANY = ""
    SOURCE = "source"
    TARGET = "target"

    @property
    def of_reverse(self) -> "Dialler":
        """The same end, as the other direction calls it."""
        return _OTHER_DIALLER[self]


_OTHER_DIALLER: Final = {Dialler.ANY: Dialler.ANY, Dialler.SOURCE: Dialler.TARGET, Dialler.TARGET: Dialler.SOURCE}


@dataclass(frozen=True, slots=True, order=True)
class Link:
    """One direction between two members, or between clients and a member: the bytes of `source` on their way to
    `target`, on whichever connection they travel; those of one channel only if `channel` is not empty, and those on
    connections of one end only if `dialler` names it.
    """

    source: int
    target: int
    channel: str = ""
    dialler: Dialler = Dialler.ANY

    @property
    def reverse(self) -> "Link":
        """The other direction of the same connections."""
        return Link(self.target, self.source, self.channel, self.dialler.of_reverse)

    @property
    def spared(self) -> "Link":
        """The same direction of the connections that the other end has dialled."""
        return replace(self, dialler=self.dialler.of_reverse)

    @property
    def roads(self) -> "list[Link]":
        """By which links something is dialled whose bytes or answers go along this one; no process dials clients."""
        both = (self, self.reverse)
        return [road for road in both if road.target != CLIENTS and road.dialler is not Dialler.TARGET]

    @property
    def is_of_clients(self) -> bool:
        """Whether one of its ends are the clients."""
        return CLIENTS in (self.source, self.target)

    @property
    def channels(self) -> tuple[str, ...]:
        """The channels that it consists of."""
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
    """By what a link is broken: toxics of the proxies on it, or filters of packets at the receiver."""

    PROXY = "proxy"
    PACKETS = "packets"


class LinkFaultKind(StrEnum):
    """What can be done to links, by the names of scenarios."""

    BLACKHOLE = "blackhole"
    RESET = "reset"
    SLOW = "slow"
    TIMEOUT = "timeout"


@dataclass(frozen=True, slots=True)
class LinkEffect:
    """What is done to links.

    BLACKHOLE: what is sent vanishes, without an error. RESET: connections are reset, and every new one. SLOW: a
    latency, or a bandwidth for each stream, or both; 0 leaves it as it is. TIMEOUT: what is sent vanishes, and a
    connection ends when nothing came for `timeout_ms`.
    """

    kind: LinkFaultKind
    latency_ms: int = 0
    bytes_per_second: int = 0
    timeout_ms: int = 0
    means: Means = Means.PROXY


FRAMES: Final[Mapping[str, int]] = {"data": TYPE_DATA, "setup": TYPE_SETUP, "status": TYPE_SM, "nak": TYPE_NAK}
"""The types of Aeron's frames, by the names of scenarios; padding counts as data."""


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
"""The messages between consensus modules, by their names."""


class DatagramFaultKind(StrEnum):
    """What can be done to some of the datagrams of links, by the names of scenarios."""

    LOSE = "lose"
    DUPLICATE = "duplicate"
    DISORDER = "disorder"
    OMIT = "omit"


@dataclass(frozen=True, slots=True)
class DatagramEffect:
    """What is done to some of the datagrams of links.

    LOSE: `percent` of them vanish. DUPLICATE: as many come twice. DISORDER: each comes up to `jitter_ms` later. Of
    `frames` of one type, and of one stream, where these are given. OMIT: of the messages called `message` so many are
    not in the stream any more, which goes on without them.
    """

    kind: DatagramFaultKind
    percent: int = 0
    jitter_ms: int = 0
    frames: str = ""
    stream_id: int = 0
    message: str = ""


class Answer(StrEnum):
    """What became of a connection that was made along a link.

    ENDED: by its target, which received what was sent but has no answer. REFUSED: no process received it.
    """

    ANSWERED = "answered"
    ENDED = "ended"
    RESET = "reset"
    REFUSED = "refused"
    SILENT = "silent"


@dataclass(frozen=True, slots=True)
class Ping:
    """A connection made along a link, and how long the answer took."""

    answer: Answer
    round_trip_ns: int = 0


class Clock(Protocol):
    """Time of the runtime. It passes in `wait_until` and in `let_pass`."""

    def now_ns(self) -> int:
        """Monotonic time of the runtime."""

    def wait_until(self, condition: Callable[[], bool], timeout_s: float, what: str) -> None:
        """Raises `UnknownOutcome` when `condition` does not hold in time."""

    def let_pass(self, seconds: float) -> None:
        """Let so much time pass."""


class Node(Protocol):
    """What can be done to a node, and seen of it from outside. A component is one of those that are processes of their
    own; without one, it is about all of the node.
    """

    # --- injector ---

    def kill(self, component: str | None = None) -> None:
        """End it without any notice, as SIGKILL does. Returns when it is gone."""

    def stop(self, component: str | None = None, timeout_s: float = ...) -> None:
        """Have it end in good order, as SIGTERM does, and wait for that."""

    def start(self) -> None:
        """Start what is not running of it. Returns at once."""

    def pause(self, component: str | None = None) -> None:
        """Let it not run, as SIGSTOP does. Returns when it is seen not to."""

    def resume(self, component: str | None = None) -> None:
        """Let it go on, as SIGCONT does. Does nothing to what is not paused."""

    # --- observer ---

    def incarnation(self, component: str | None = None) -> frozenset[str]:
        """Names of what runs now, which never come back; empty when nothing runs."""

    def turns(self, component: str | None = None) -> int:
        """A number that grows while it gets to run, and only then."""


class LinkInjector(Protocol):
    """What can be done to links."""

    def impose(self, links: Sequence[Link], effect: LinkEffect) -> None:
        """Raises `UsageError` when it cannot be done, or not beside what is done to them already."""

    def lift(self, links: Sequence[Link], effect: LinkEffect) -> None:
        """Take away what was imposed; what else is done to these links stays."""


class LinkObserver(Protocol):
    """What can be seen of links."""

    def delivered_by_stream(self, link: Link) -> Mapping[str, int]:
        """Bytes that have come out at the end of each stream of the link since the beginning."""

    def ping(self, link: Link, timeout_s: float, extra_length: int = 0) -> Ping:
        """Make a connection to the target of the link as its source does, send a few bytes and see what comes back.

        They go along the link, what comes back goes along its reverse. No process can dial clients.
        With about `extra_length` bytes more, the answer comes when these have come out.
        """


class Datagrams(Protocol):
    """Links on which members send datagrams. `disturb` and `restore` are the injector, `volley` is the observer."""

    def disturb(self, links: Sequence[Link], effect: DatagramEffect) -> None:
        """Raises `UsageError` when it cannot be done beside what is done to the links already."""

    def restore(self, links: Sequence[Link], effect: DatagramEffect) -> None:
        """Take away what `disturb` did; what else is done to these links stays."""

    def volley(self, link: Link, count: int, effect: DatagramEffect) -> Mapping[str, Sequence[int]]:
        """Send so many probes along each leg of the link, like the frames that the effect is about.

        Their numbers, from 0, in the order in which they came, answers included.
        """


class HostInjector(Protocol):
    """What can be done to the host of a member."""

    def cut_power(self, member_id: int) -> None:
        """A start of the member gives it back."""

    def move_clock(self, member_id: int, milliseconds: int) -> None:
        """Set the wall clock so much ahead, or back."""

    def fill_disk(self, member_id: int) -> None:
        """Let the disk have no room for anything more."""

    def free_disk(self, member_id: int) -> None:
        """Let the disk have room again."""

    def slow_disk(self, member_id: int, latency_ms: int) -> None:
        """Let each sync take longer by so much; 0 ends that."""

    def end_in_change(self, member_id: int, changes: int, *, loses_power: bool) -> None:
        """Let the member die in the middle of a change of its files, after it has made so many whole ones."""

    def end_in_no_change(self, member_id: int) -> None:
        """Take that back if it is still to come."""

    def change_bytes(self, member_id: int, percent: int) -> None:
        """End the member, change bytes of its log that were durable, so far from the first of them to the last, and
        start it over them.
        """

    def restore_bytes(self, member_id: int) -> None:
        """Put back what was there, where no process has written since, and end what may have read the other bytes."""


@dataclass(frozen=True, slots=True)
class DiskWork:
    """What a disk did since it is there: changes of files begun, those that their process did not live to finish, those
    that found no room (of any process), bytes that found it, the latest syncs, each with when it began and how long
    it took, in ns; and how often it fell back to what was synced.
    """

    changes: int
    unfinished: int
    refused: int
    grown: int
    syncs: Sequence[tuple[int, int]]
    power_losses: int


class Traffic(Protocol):
    """What is sent along a link after it began to be watched, and what of that comes out at the far end."""

    @property
    def sent(self) -> int:
        """Bytes that were sent along the link."""

    @property
    def came_out(self) -> int:
        """Those of them that have come out at the far end."""

    @property
    def fastest_ns(self) -> int | None:
        """How long the fastest bytes were under way; None while none came out."""

    @property
    def connections(self) -> int:
        """How many there were at the beginning."""

    @property
    def connections_left(self) -> int:
        """How many of those still live."""

    @property
    def was_used(self) -> bool:
        """Whether bytes came out within the last second before the watch began."""

    def end(self) -> None:
        """Watch no more."""


class HostObserver(Protocol):
    """What can be seen of the hosts."""

    def boot(self, member_id: int) -> str:
        """The name of the time since the host has power, which never comes back; empty without power."""

    @property
    def is_exact(self) -> bool:
        """Whether what members and disks show is as new and as exact as the host itself has it. It is not where one
        polls: a time of the member is as late as the poll, and may be older than the fault.
        """

    def clock_lead_ms(self, member_id: int) -> tuple[int, int] | None:
        """The wall clock that the member wrote down last, and how far that is ahead of the true one at the time at
        which it was written; None when it has written none.
        """

    def disk_work(self, member_id: int) -> DiskWork:
        """What the disk of the member has done and refused so far."""

    def has_room(self, member_id: int) -> bool:
        """Whether the disk of the member takes bytes of another program; nothing of them is left."""

    def has_durable_log(self, member_id: int) -> bool:
        """Whether the log that the member records has bytes that were durable, by its own journal."""

    def damage_reports(self, member_id: int) -> int:
        """How often the member has said that a recording of its own is not what was written."""

    def watch(self, link: Link) -> Traffic:
        """Begin to watch what is sent along a link anyway."""


class Hosts(HostInjector, HostObserver, Protocol):
    """The machines under a cluster, and the wires between them."""


class Target(Clock, LinkInjector, LinkObserver, Protocol):
    """A cluster that faults can be done to."""

    def node(self, member_id: int) -> Node:
        """The node of a member."""

    def hosts(self, purpose: str, kind: str = "") -> Hosts:
        """Raises `UsageError` where the runtime has none of its own, and so cannot do what they are wanted for, or not
        a fault of this kind.
        """

    def datagrams(self, purpose: str) -> Datagrams:
        """Raises `UsageError` where members send none, and so cannot do what they are wanted for."""

    @property
    def member_ids(self) -> Sequence[int]:
        """The ids of all members, whether they run or not."""

    def exit_status(self, member_id: int, incarnation: str) -> int | None:
        """With which status that incarnation ended, negative or over 128 by a signal; None when that is unknown."""

    def leader(self) -> int | None:
        """The member that leads and serves now, if it is known."""

    def acknowledged(self) -> int:
        """How many operations of the load were acknowledged so far."""
