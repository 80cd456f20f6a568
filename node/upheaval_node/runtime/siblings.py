"""How the processes of a split member detect each other's end.

The archive process listens on a Unix socket in the member's folder, and every other process keeps a connection to it.
The kernel closes a connection when its process dies, for any reason, so the others learn it at once, without polling or
time stamps. Three words are sent over it: a component's name when it connects, `bye` before an orderly end, and `stop`
from the archive process to ask for an orderly end.
"""

import time
from collections.abc import Callable, Iterable
from typing import Final

from upheaval_node.errors import TerminationError
from upheaval_node.ports import Connection, ConnectionHandler, Network
from upheaval_node.runtime.loop import Loop
from upheaval_node.types import MS, S

SOCKET: Final = "aeron/member.sock"
START_TIMEOUT_NS: Final = 20 * S
REDIAL_NS: Final = 20 * MS
MAX_LINE: Final = 100
BYE: Final = b"bye"
STOP: Final = b"stop"


class ComponentLost(TerminationError):
    """Another process of this member died, or never appeared."""


class _Lines:
    """Splits received bytes into lines. A line that is too long is dropped."""

    def __init__(self) -> None:
        self._rest = b""

    def feed(self, data: memoryview) -> list[bytes]:
        *lines, rest = (self._rest + bytes(data)).split(b"\n")
        self._rest = rest[-MAX_LINE:]
        return lines


class SiblingHub:
    """The archive process's end.

    `on_lost(component)` is called once for every component that dies, or that does not appear within 20 s;
    `on_bye(component)` for one that ends in order.
    """

    def __init__(
        self,
        network: Network,
        loop: Loop,
        components: Iterable[str],
        *,
        on_lost: Callable[[str], None],
        on_bye: Callable[[str], None],
    ) -> None:
        self._missing = set(components)
        self._links: set[_HubLink] = set()
        self._on_lost = on_lost
        self._on_bye = on_bye
        self._is_closed = False
        self._listener = network.listen(f"unix:{SOCKET}", self._accept)
        self._timer = loop.call_at(time.monotonic_ns() + START_TIMEOUT_NS, self._on_start_timeout)

    @property
    def is_alone(self) -> bool:
        """Whether no other process of the member is connected."""
        return not self._links

    @property
    def is_complete(self) -> bool:
        """Whether every component has connected."""
        return not self._missing

    def stop_others(self) -> None:
        """Ask every other process to end in order."""
        for link in sorted(self._links, key=lambda link: link.component):
            link.send(STOP)

    def close(self) -> None:
        """Stop listening to all components."""
        self._is_closed = True
        self._timer.cancel()
        self._listener.close()

    def _accept(self, connection: Connection) -> ConnectionHandler:
        link = _HubLink(connection, self)
        self._links.add(link)
        return link

    def on_link_named(self, component: str) -> None:
        """A process named its component."""
        self._missing.discard(component)

    def on_link_closed(self, link: "_HubLink", *, has_said_bye: bool) -> None:
        """A process is gone. It is ignored if it never named itself."""
        self._links.discard(link)
        if self._is_closed or not link.component:
            return
        if has_said_bye:
            self._on_bye(link.component)
        else:
            self._on_lost(link.component)

    def _on_start_timeout(self) -> None:
        for component in sorted(self._missing):
            self._on_lost(component)


class _HubLink:
    def __init__(self, connection: Connection, hub: SiblingHub) -> None:
        self._connection = connection
        self._hub = hub
        self._lines = _Lines()
        self._has_said_bye = False
        self.component = ""

    def send(self, word: bytes) -> None:
        self._connection.send((word, b"\n"))

    def on_connected(self, connection: Connection) -> None: ...

    def on_data(self, data: memoryview) -> None:
        for line in self._lines.feed(data):
            if line == BYE:
                self._has_said_bye = True
            elif not self.component:
                self.component = line.decode("ascii", "replace")
                self._hub.on_link_named(self.component)

    def on_writable(self) -> None: ...

    def on_closed(self, reason: str) -> None:  # noqa: ARG002
        self._hub.on_link_closed(self, has_said_bye=self._has_said_bye)


class SiblingLink:
    """The other processes' end. Calls `on_stop` when asked to end, `on_lost` when the archive process is gone."""

    def __init__(
        self, network: Network, loop: Loop, component: str, *, on_lost: Callable[[], None], on_stop: Callable[[], None]
    ) -> None:
        self._network = network
        self._loop = loop
        self._component = component
        self._on_lost = on_lost
        self._on_stop = on_stop
        self._lines = _Lines()
        self._deadline_ns = time.monotonic_ns() + START_TIMEOUT_NS
        self._is_connected = False
        self._is_closed = False
        self._connection = network.dial(f"unix:{SOCKET}", self)

    @property
    def is_connected(self) -> bool:
        """Whether the archive process was reached. From then on, each side detects the other's end at once."""
        return self._is_connected

    def close(self, *, orderly: bool) -> None:
        """Send `bye` if this is an orderly end, and close the connection."""
        if self._is_closed:
            return
        self._is_closed = True
        if orderly and self._is_connected:
            self._connection.send((BYE, b"\n"))
        self._connection.close()

    def on_connected(self, connection: Connection) -> None:
        """Send the name of this component."""
        self._is_connected = True
        connection.send((self._component.encode(), b"\n"))

    def on_data(self, data: memoryview) -> None:
        """A line with `stop` asks this process to end."""
        if STOP in self._lines.feed(data):
            self._on_stop()

    def on_writable(self) -> None:
        """Nothing to do: a name and a goodbye fit every buffer."""

    def on_closed(self, reason: str) -> None:  # noqa: ARG002
        """Dial again until the archive process was reached once. Its loss after that is the end."""
        now_ns = time.monotonic_ns()
        if self._is_closed:
            return
        if self._is_connected or now_ns >= self._deadline_ns:
            self._on_lost()
        else:
            self._loop.call_at(now_ns + REDIAL_NS, self._redial)

    def _redial(self) -> None:
        if not self._is_closed:
            self._connection = self._network.dial(f"unix:{SOCKET}", self)
