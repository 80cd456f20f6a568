"""A process inside a container that prints one line per request. Starting a process for each look would take processor
time from the member under observation.

The process reads its standard input and ends when that ends. This module knows no members.
"""

import contextlib
import socket
import struct
import threading
from collections.abc import Sequence
from typing import Any, Final

from upheaval.errors import UnknownOutcome
from upheaval.runtimes.docker.container_state import incarnation_of
from upheaval.runtimes.docker.inside import ContainerEnded, ended_errors
from upheaval_chaos.programs import printed

_SLICE_S: Final = 2.0
"""The seconds without an answer after which the container's state is checked: it may have been paused."""
_PATIENCE: Final = (7, 8, 20)
"""The slices of each attempt: a lost answer is requested again soon, and a busy machine has time to start the
process.
"""
_QUESTION: Final = b"\n"
_FRAME: Final = struct.Struct(">B3xI")
"""The header of each piece of output of a process in a container: stream and length."""


class Eye:
    """Asks a process in one container. Thread-safe."""

    def __init__(self, command: Sequence[str], doing: str) -> None:
        self._command = command
        self._doing = doing
        self._lock = threading.Lock()
        self._looking: _Looking | None = None

    def ask(self, container: Any) -> str:
        """The answer of the process in this incarnation of the container. Starts the process if there is none.

        Raises `ContainerEnded` when the container does not run or stops running, `UnknownOutcome` when the process
        stays silent or ends on each attempt, and `EnvironmentFault` when the engine cannot be used.
        """
        with self._lock:
            for slices in _PATIENCE:
                if container is None or container.status != "running":
                    self._close()
                    raise ContainerEnded(f"{self._doing}: it does not run")
                try:
                    return self._answer(container, slices)
                except _Silent:
                    with ended_errors(self._doing):
                        container.reload()
        raise UnknownOutcome(f"{self._doing}: no answer from `{' '.join(self._command)}` inside")

    def close(self) -> None:
        """End the process."""
        with self._lock:
            self._close()

    def _answer(self, container: Any, slices: int) -> str:
        """The answer of the current process. A process that did not answer is closed, since a late answer would pass
        for the next.
        """
        try:
            if self._looking is None or self._looking.incarnation != incarnation_of(container):
                self._close()
                with ended_errors(self._doing):
                    self._looking = _Looking(container, self._command)
            self._looking.send(_QUESTION)
            for _ in range(slices):
                with contextlib.suppress(TimeoutError):
                    return self._looking.line()
                with ended_errors(self._doing):
                    container.reload()
                if container.status != "running":
                    break
            raise _Silent
        except (EOFError, OSError):
            self._close()
            raise _Silent from None
        except BaseException:
            self._close()
            raise

    def _close(self) -> None:
        if self._looking is not None:
            self._looking.close()
            self._looking = None


class _Silent(Exception):
    """The process has ended, or does not answer."""


class _Looking:
    """The process in one incarnation of a container: its standard input and output."""

    def __init__(self, container: Any, command: Sequence[str]) -> None:
        self.incarnation = incarnation_of(container)
        api = container.client.api
        made = api.exec_create(container.id, list(command), stdin=True, stderr=False)
        # The engine's address decides whether this is a socket, or a file that wraps one.
        self._stream = api.exec_start(made["Id"], socket=True)
        self._socket: socket.socket = getattr(self._stream, "_sock", self._stream)
        self._socket.settimeout(_SLICE_S)
        self._frames = bytearray()
        self._output = bytearray()

    def send(self, question: bytes) -> None:
        """Send a request. Raises `EOFError` when the process has ended, or printed something without a request."""
        self._socket.setblocking(False)
        try:
            self._socket.recv(1)
        except BlockingIOError:
            pass
        else:
            raise EOFError
        finally:
            self._socket.settimeout(_SLICE_S)
        self._socket.sendall(question)

    def line(self) -> str:
        """The next line. Raises `EOFError` at the end of the output or for more than one line, and `TimeoutError`,
        after which the caller may try again.
        """
        while b"\n" not in self._output:
            piece = self._socket.recv(65536)
            if not piece:
                raise EOFError
            self._frames += piece
            self._take_frames()
        line, _, rest = self._output.partition(b"\n")
        if rest:
            raise EOFError
        self._output.clear()
        return printed(line)

    def _take_frames(self) -> None:
        while len(self._frames) >= _FRAME.size:
            _, length = _FRAME.unpack_from(self._frames)
            end = _FRAME.size + length
            if len(self._frames) < end:
                return
            self._output += self._frames[_FRAME.size : end]
            del self._frames[:end]

    def close(self) -> None:
        with contextlib.suppress(OSError):
            self._socket.shutdown(socket.SHUT_RDWR)
        # With an engine at https, the response keeps the socket open.
        answer = getattr(self._stream, "_response", None)
        if answer is not None:
            answer.close()
        self._stream.close()
        self._socket.close()
