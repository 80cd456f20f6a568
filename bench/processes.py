"""Child processes that end with the measurement, whatever happens."""

import contextlib
import socket
import subprocess
from collections.abc import Iterator, Sequence
from pathlib import Path


def free_ports(count: int) -> list[int]:
    """Loopback ports on which no process listens at this moment."""
    with contextlib.ExitStack() as stack:
        sockets = [stack.enter_context(socket.socket()) for _ in range(count)]
        for s in sockets:
            s.bind(("127.0.0.1", 0))
        return [int(s.getsockname()[1]) for s in sockets]


@contextlib.contextmanager
def running(commands: Sequence[Sequence[str]], log: Path) -> Iterator[list[subprocess.Popen[bytes]]]:
    """Start the commands, give them to the caller, and end them all when the caller is done."""
    children: list[subprocess.Popen[bytes]] = []
    with log.open("ab") as output:
        try:
            for command in commands:
                children.append(subprocess.Popen(command, stdout=output, stderr=output))  # noqa: PERF401
            yield children
        finally:
            for child in children:
                child.kill()
            for child in children:
                child.wait()
