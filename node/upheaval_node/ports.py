"""What the core asks of the outside world: the seams that a runtime fills.

The core (media, archive, cluster, service, client) imports no sockets, files, threads or clocks. A runtime hands
it objects of these shapes and calls `do_work` with the time. The process runtime fills them with real sockets,
files and one thread that syncs; the simulated runtime with virtual ones. Every call returns at once; whatever takes
time is reported later through a callback, which the runtime calls from the member's own loop, never from another
thread and never from inside the call that started it.
"""

from collections.abc import Callable, Sequence
from typing import Protocol

from upheaval_node.trace_kinds import TraceKind
from upheaval_node.types import Now

Buffer = bytes | bytearray | memoryview


class Agent(Protocol):
    """A component with a duty cycle: media driver, archive, consensus module, service container, client."""

    def do_work(self, now: Now) -> int:
        """Do what is due and return how much was done; 0 means that nothing was."""

    def next_deadline_ns(self) -> int:
        """The monotonic time at which `do_work` must run even without input (`types.NEVER_NS` if none)."""


# --- network: reliable byte streams, as TCP and Unix sockets give them --------------------------------------------


class ConnectionHandler(Protocol):
    """What the core does with one connection. `data` is only valid during the call."""

    def on_connected(self, connection: "Connection") -> None:
        """The connection is up (over TLS: both ends know each other's names); bytes may be sent from now on."""

    def on_data(self, data: memoryview) -> None:
        """Bytes arrived, in order; how they are cut into calls means nothing."""

    def on_writable(self) -> None:
        """The connection accepts bytes again after a `send` that accepted only a part."""

    def on_closed(self, reason: str) -> None:
        """The connection is gone (refused, FIN, RST, time-out) and nothing follows. Not called after `close`."""


class Connection(Protocol):
    """One end of a byte stream."""

    @property
    def peer(self) -> str:
        """Address of the other end, `host:port`, for diagnostics and `sourceIdentity`."""

    def send(self, parts: Sequence[Buffer]) -> int:
        """Hand over bytes in order and return how many were accepted; the rest is the caller's to send again."""

    def pause_reading(self, paused: bool) -> None:
        """Stop or resume the delivery of data, so that a slow reader makes the sender wait."""

    def close(self) -> None:
        """Give the connection up: nothing is called for it any more."""


class Listener(Protocol):
    """A bound address on which connections are accepted."""

    @property
    def address(self) -> str:
        """The bound `host:port`, with the real port where 0 was asked for."""

    def close(self) -> None:
        """Accept no further connections; those that were accepted stay."""


class Network(Protocol):
    """Addresses are `host:port` for TCP and `unix:PATH` for Unix sockets."""

    def listen(self, address: str, accept: Callable[[Connection], ConnectionHandler]) -> Listener:
        """Bind and listen. Raises `NetworkError` when the address cannot be bound."""

    def dial(self, address: str, handler: ConnectionHandler) -> Connection:
        """Start to connect; the outcome is `on_connected` or `on_closed`."""


# --- storage ------------------------------------------------------------------------------------------------------


class File(Protocol):
    """A file of fixed-offset reads and writes. Every failure raises `StorageError`."""

    def read(self, offset: int, length: int) -> bytes:
        """Up to `length` bytes; fewer at the end of the file."""

    def write(self, offset: int, parts: Sequence[Buffer]) -> None:
        """Write all parts one after the other from `offset`. Survives the process, not a power cut."""

    def size(self) -> int:
        """The length in bytes."""

    def truncate(self, length: int) -> None:
        """Cut or extend (sparse, zeros) to `length`."""

    def sync(self, level: int) -> None:
        """Have all that was written survive a power cut before returning: 1 data, 2 data and metadata, 0 nothing."""

    def sync_later(self, level: int, done: Callable[[Exception | None], None]) -> None:
        """The same without waiting: `done` is called from the loop when it has happened, or with the error."""

    def close(self) -> None:
        """Close the file; what was written and not synced may still get lost in a power cut."""


class Storage(Protocol):
    """The files of one member. Paths are relative to the member's folder, with `/` between the parts."""

    def open(self, path: str, *, create: bool = False) -> File:
        """Open for reading and writing; `create` makes a missing file (and its folders)."""

    def exists(self, path: str) -> bool:
        """Whether there is a file of that name."""

    def names(self, directory: str) -> list[str]:
        """Sorted names in a folder; empty when it does not exist."""

    def remove(self, path: str) -> None:
        """Delete a file. Raises `StorageError` where there is none."""

    def rename(self, path: str, new_path: str) -> None:
        """Give a file another name in one step, in place of a file that has it."""

    def sync_directory(self, directory: str) -> None:
        """Have files that were made, renamed or removed in the folder survive a power cut."""


# --- observation --------------------------------------------------------------------------------------------------


class Tracer(Protocol):
    """Protocol events and state changes of one member, for people and checkers."""

    def emit(self, now: Now, event: TraceKind, **fields: int | str | bool | None) -> None:
        """Record one event. It is on its way to the file before anything that happens after the call is sent."""


class MessageObserver(Protocol):
    """Sees every message that a member sends or receives, when its protocol is traced."""

    def on_message(
        self, component: str, direction: str, stream_id: int, peer: str, position: int, payload: bytes
    ) -> None:
        """One whole message: `send` when a stream took it, `receive` when it was taken from one.

        `peer` is `host:port` as far as it is known, `position` that after the message in its stream.
        """

    def tracer(self, tracer: Tracer, component: str) -> Tracer:
        """A tracer of one component, of which the observer sees the events too."""


class ErrorSink(Protocol):
    """Errors that do not end the component: counted, logged once a kind, kept in the mark file's error log."""

    def report(self, now: Now, kind: str, text: str) -> None:
        """Take one error; `kind` is the category by which errors are counted and logged."""
