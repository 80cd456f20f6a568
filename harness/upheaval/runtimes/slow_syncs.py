"""Runs a program whose syncs take longer: `python slow_syncs.py LATENCY_FILE PROGRAM ARGUMENT..`

The kernel reports each `fsync`, `fdatasync` and `msync` of the program to a supervisor process (seccomp user
notification) and blocks the calling thread until the supervisor lets it go on. The supervisor reads how many ms that
takes from the file, at each sync. It has no environment, so that it is not taken for a process of a run, and ends with
the last process of the program. Needs no privilege. Imports nothing but the standard library.
"""

import ctypes
import errno
import fcntl
import heapq
import os
import platform
import select
import socket
import struct
import sys
import time
from pathlib import Path
from typing import Final, NamedTuple

SERVE: Final = "--serve"
_WRONG_USE: Final = 2
_NS_PER_MS: Final = 1_000_000
# linux/prctl.h, linux/seccomp.h, linux/filter.h
_SET_NO_NEW_PRIVS: Final = 38
_SET_MODE_FILTER: Final = 1
_NEW_LISTENER: Final = 8
_LOAD, _EQUAL, _RETURN = 0x20, 0x15, 0x06
_ALLOW: Final = 0x7FFF0000
_NOTIFY: Final = 0x7FC00000
_NUMBER_OFFSET, _ARCHITECTURE_OFFSET = 0, 4
_RECEIVE: Final = 0xC0502100
_SEND: Final = 0xC0182101
_NOTIFICATION_LENGTH: Final = 80
_ID: Final = struct.Struct("=Q")
_GO_ON: Final = struct.Struct("=QqiI")
_CONTINUE: Final = 1


class Calls(NamedTuple):
    """The numbers of system calls on one kind of processor."""

    architecture: int
    """The `AUDIT_ARCH` value."""
    seccomp: int
    syncs: tuple[int, ...]
    """`fsync`, `fdatasync` and `msync`."""


CALLS: Final = {
    "x86_64": Calls(0xC000003E, 317, (74, 75, 26)),
    "aarch64": Calls(0xC00000B7, 277, (82, 83, 227)),
}


def sync_calls() -> tuple[int, ...]:
    """The numbers of the calls that sync, on this machine; empty on an unknown kind of processor."""
    calls = CALLS.get(platform.machine())
    return () if calls is None else calls.syncs


def _listener() -> int:
    """Install the filter in this process and return the descriptor that its notifications come from."""
    calls = CALLS[platform.machine()]
    count = len(calls.syncs)
    instructions = [
        (_LOAD, 0, 0, _ARCHITECTURE_OFFSET),
        (_EQUAL, 0, count + 1, calls.architecture),
        (_LOAD, 0, 0, _NUMBER_OFFSET),
        *((_EQUAL, count - index, 0, number) for index, number in enumerate(calls.syncs)),
        (_RETURN, 0, 0, _ALLOW),
        (_RETURN, 0, 0, _NOTIFY),
    ]
    code = ctypes.create_string_buffer(b"".join(struct.pack("=HBBI", *instruction) for instruction in instructions))
    program = ctypes.create_string_buffer(struct.pack("@HP", len(instructions), ctypes.addressof(code)))
    libc = ctypes.CDLL(None, use_errno=True)
    if libc.prctl(_SET_NO_NEW_PRIVS, 1, 0, 0, 0) == 0:
        listener = int(libc.syscall(calls.seccomp, _SET_MODE_FILTER, _NEW_LISTENER, program))
        if listener >= 0:
            return listener
    raise OSError(ctypes.get_errno(), os.strerror(ctypes.get_errno()))


def _start_supervisor(latency_file: str) -> socket.socket:
    """Start it, and return the socket on which it waits for the listener."""
    ours, its = socket.socketpair()
    child = os.fork()
    if child:
        its.close()
        os.waitpid(child, 0)
        return ours
    # The grandchild is adopted by init: a member may wait for all of its own children.
    os.setsid()
    if os.fork():
        os._exit(0)
    null = os.open(os.devnull, os.O_RDWR)
    for standard in range(3):
        os.dup2(null, standard)
    its.set_inheritable(True)
    arguments = [sys.executable, "-I", "-S", __file__, SERVE, str(its.fileno()), latency_file]
    os.execve(sys.executable, arguments, {})
    raise AssertionError("unreachable")


def _latency_ns(path: Path) -> int:
    try:
        return int(path.read_text(encoding="utf-8")) * _NS_PER_MS
    except (OSError, ValueError):
        return 0


def _serve(listener: int, latency_file: Path) -> None:
    """Let each sync go on when its time has come, until no process has the filter any more."""
    poller = select.poll()
    poller.register(listener, select.POLLIN)
    waiting: list[tuple[int, int]] = []
    while True:
        now_ns = time.monotonic_ns()
        while waiting and waiting[0][0] <= now_ns:
            _ioctl(listener, _SEND, bytearray(_GO_ON.pack(heapq.heappop(waiting)[1], 0, 0, _CONTINUE)))
        timeout_ms = (waiting[0][0] - now_ns) // _NS_PER_MS + 1 if waiting else None
        for _, events in poller.poll(timeout_ms):
            if not events & select.POLLIN:
                return
            notification = bytearray(_NOTIFICATION_LENGTH)
            if _ioctl(listener, _RECEIVE, notification):
                (number,) = _ID.unpack_from(notification)
                heapq.heappush(waiting, (time.monotonic_ns() + _latency_ns(latency_file), number))


def _ioctl(listener: int, request: int, argument: bytearray) -> bool:
    """False when the thread is gone, or interrupted by a signal: it syncs anew then."""
    try:
        fcntl.ioctl(listener, request, argument)
    except OSError as error:
        if error.errno in (errno.ENOENT, errno.EINTR):
            return False
        raise
    return True


def main(arguments: list[str]) -> None:
    """Become the program, or serve one."""
    if arguments[0] == SERVE:
        with socket.socket(fileno=int(arguments[1])) as starter:
            _, descriptors, _, _ = socket.recv_fds(starter, 1, 1)
        if descriptors:
            _serve(descriptors[0], Path(arguments[2]))
        return
    latency_file, *program = arguments
    starter = _start_supervisor(latency_file)
    try:
        listener = _listener()
    except (KeyError, OSError) as error:
        print(f"slow_syncs: cannot filter system calls: {error}", file=sys.stderr)
        sys.exit(_WRONG_USE)
    socket.send_fds(starter, [b"\0"], [listener])
    starter.close()
    os.close(listener)
    os.execvp(program[0], program)


if __name__ == "__main__":
    main(sys.argv[1:])
