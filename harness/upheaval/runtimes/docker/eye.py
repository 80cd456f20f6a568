"""A process inside a container that says one line whenever it is asked: looking then costs no start of a process, which
would take the processor from whom it looks at.

It reads its standard input and ends with that. This module knows no members.
"""

import contextlib
import socket
import struct
import threading
from collections.abc import Sequence
from typing import Any, Final

from upheaval.errors import UnknownOutcome
from upheaval.runtimes.docker.container_state import incarnation_of
from upheaval.runtimes.docker.inside import ATTEMPTS, ContainerEnded, ended_errors
from upheaval_chaos.programs import printed

_SLICE_S: Final = 2.0
"""After so long without an answer the container is looked at: it may have been paused."""
_SLICES: Final = 10
_QUESTION: Final = b"\n"
_FRAME: Final = struct.Struct(">B3xI")
"""Stream and length, before each piece of what a process in a container says."""


class Eye:
    """What is asked of one container; for several threads."""

    def __init__(self, command: Sequence[str], doing: str) -> None:
        self._command = command
        self._doing = doing
        self._lock = threading.Lock()
        self._looking: _Looking | None = None

    def ask(self, container: Any) -> str:
        """The answer of the process in this life of the container, which is begun when there is none.

        Raises `ContainerEnded` when the container does not run or not go on, `UnknownOutcome` when the process says
        nothing or ends each time, and `EnvironmentFault` when the engine cannot be used.
        """
        with self._lock:
            for _ in range(ATTEMPTS):
                if container is None or container.status != "running":
                    self._close()
                    raise ContainerEnded(f"{self._doing}: it does not run")
                try:
                    return self._answer(container)
                except _Silent:
                    with ended_errors(self._doing):
                        container.reload()
        raise UnknownOutcome(f"{self._doing}: no answer from `{' '.join(self._command)}` inside")

    def close(self) -> None:
        """End the process."""
        with self._lock:
            self._close()

    def _answer(self, container: Any) -> str:
        """From the process that there is. One that has not answered is asked nothing more: it might answer then."""
        try:
            if self._looking is None or self._looking.incarnation != incarnation_of(container):
                self._close()
                with ended_errors(self._doing):
                    self._looking = _Looking(container, self._command)
            self._looking.send(_QUESTION)
            for _ in range(_SLICES):
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
    """The process has ended, or says nothing."""


class _Looking:
    """The process in one life of a container: its standard input and output."""

    def __init__(self, container: Any, command: Sequence[str]) -> None:
        self.incarnation = incarnation_of(container)
        api = container.client.api
        made = api.exec_create(container.id, list(command), stdin=True, stderr=False)
        # A socket, or a file that has one: which it is depends on the engine's address.
        self._stream = api.exec_start(made["Id"], socket=True)
        self._socket: socket.socket = getattr(self._stream, "_sock", self._stream)
        self._socket.settimeout(_SLICE_S)
        self._frames = bytearray()
        self._said = bytearray()

    def send(self, question: bytes) -> None:
        """Raises `EOFError` for a process that has said something without being asked, or has ended."""
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
        """The answer. Raises `EOFError` at the end or for more than a line, and `TimeoutError`, after which it can be
        asked for again.
        """
        while b"\n" not in self._said:
            piece = self._socket.recv(65536)
            if not piece:
                raise EOFError
            self._frames += piece
            self._take_frames()
        line, _, rest = self._said.partition(b"\n")
        if rest:
            raise EOFError
        self._said.clear()
        return printed(line)

    def _take_frames(self) -> None:
        while len(self._frames) >= _FRAME.size:
            _, length = _FRAME.unpack_from(self._frames)
            end = _FRAME.size + length
            if len(self._frames) < end:
                return
            self._said += self._frames[_FRAME.size : end]
            del self._frames[:end]

    def close(self) -> None:
        with contextlib.suppress(OSError):
            self._socket.shutdown(socket.SHUT_RDWR)
        # Of an engine at https the answer holds the socket open.
        answer = getattr(self._stream, "_response", None)
        if answer is not None:
            answer.close()
        self._stream.close()
        self._socket.close()
