"""What the tests of the process runtime share: waiting on a loop, a handler that records, child processes."""

import subprocess
import sys
import textwrap
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager

from upheaval_node.ports import Buffer, Connection
from upheaval_node.runtime.loop import Loop
from upheaval_node.runtime.network import SelectorNetwork
from upheaval_node.runtime.readiness import READABLE

PATIENCE_S = 60.0


def run_until(loop: Loop, condition: Callable[[], object], patience_s: float = PATIENCE_S) -> None:
    """Run the loop until the condition holds; fails after ten seconds."""
    deadline = time.monotonic() + patience_s
    while not condition():
        left = deadline - time.monotonic()
        assert left > 0, "the condition never came true"
        loop.run_once(min(left, 0.1))


class Recorder:
    """A connection handler that writes down what happens."""

    def __init__(self) -> None:
        self.connection: Connection | None = None
        self.received = bytearray()
        self.chunk_count = 0
        self.closed: list[str] = []
        self.writable_count = 0

    @property
    def link(self) -> Connection:
        assert self.connection is not None
        return self.connection

    def on_connected(self, connection: Connection) -> None:
        self.connection = connection

    def on_data(self, data: memoryview) -> None:
        self.received += data
        self.chunk_count += 1

    def on_writable(self) -> None:
        self.writable_count += 1

    def on_closed(self, reason: str) -> None:
        self.closed.append(reason)


class Sender(Recorder):
    """Sends a payload as fast as the connection takes it."""

    def __init__(self, payload: Buffer) -> None:
        super().__init__()
        self.rest = memoryview(payload)

    def on_connected(self, connection: Connection) -> None:
        super().on_connected(connection)
        self.push()

    def on_writable(self) -> None:
        super().on_writable()
        self.push()

    def push(self) -> None:
        if self.rest:
            self.rest = self.rest[self.link.send([self.rest]) :]


class Echo(Recorder):
    """Sends back what it gets, and stops reading while its answers are not taken."""

    def __init__(self) -> None:
        super().__init__()
        self._unsent = b""

    def on_data(self, data: memoryview) -> None:
        self._send(bytes(data))

    def on_writable(self) -> None:
        self._send(self._unsent)

    def _send(self, data: bytes) -> None:
        self._unsent = data[self.link.send([data]) :]
        self.link.pause_reading(bool(self._unsent))


class Pair:
    """A dialled connection and the accepted one at its other end."""

    def __init__(self, network: SelectorNetwork, address: str, client: Recorder, server: Recorder) -> None:
        self.client = client
        self.server = server
        self.listener = network.listen(address, lambda _: server)
        network.dial(self.listener.address, client)
        run_until(network.loop, lambda: client.connection and server.connection)


@contextmanager
def child(code: str, *arguments: str) -> Iterator[subprocess.Popen[bytes]]:
    """A Python process that runs `code`; killed at the end of the block if it still runs."""
    command = [sys.executable, "-c", textwrap.dedent(code), *arguments]
    environment_path = [path for path in sys.path if path.endswith("/node")]
    process = subprocess.Popen(
        command,
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        env={"PYTHONPATH": ":".join(environment_path), "PATH": "/usr/bin:/bin"},
    )
    try:
        yield process
    finally:
        process.kill()
        process.communicate()


def read_line(process: subprocess.Popen[bytes]) -> bytes:
    """The next line that a child printed; waits for it."""
    assert process.stdout is not None
    return process.stdout.readline().strip()


def run_until_printed(loop: Loop, process: subprocess.Popen[bytes]) -> None:
    """Run the loop until the child has printed something, and read it."""
    assert process.stdout is not None
    printed: list[int] = []
    fd = process.stdout.fileno()
    loop.register(fd, READABLE, printed.append)
    run_until(loop, lambda: printed)
    loop.unregister(fd)
    process.stdout.readline()
