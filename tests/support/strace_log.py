"""What a process wrote, synced and sent, in order, from the output of `strace -f -y -xx`.

Strings, paths included, are hexadecimal in that output. A call counts as done at its return, as begun at its start.
"""

import re
import shutil
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

COMMAND = (
    "strace",
    "-f",
    "-y",
    "-qq",
    "-xx",
    "-s",
    "1000000",
    "-e",
    "signal=none",
    "-e",
    "trace=pwritev,pwritev2,pwrite64,fdatasync,fsync,msync,sendmsg,sendto",
)

_LINE = re.compile(r"^(\d+) +(?:<\.\.\. (\w+) resumed>|(\w+)\()(.*)$")
_PATH = re.compile(r"^\d+<([^>]*)>")
_STRING = re.compile(r'iov_base="((?:\\x[0-9a-f]{2})*)"')
_TEXT = re.compile(r'"((?:\\x[0-9a-f]{2})*)"')
_RESULT = re.compile(r"\) += (-?\d+)")
_OFFSET = re.compile(r", (\d+)\) += \d+$")
_OFFSET_BEFORE_FLAGS = re.compile(r", (\d+), [A-Z_0-9|]+\) += \d+$")


@dataclass(frozen=True, slots=True)
class Written:
    path: str
    offset: int
    data: bytes


@dataclass(frozen=True, slots=True)
class SyncBegun:
    path: str


@dataclass(frozen=True, slots=True)
class Synced:
    """A sync has returned. It covers what was written before it began."""

    path: str


@dataclass(frozen=True, slots=True)
class Sent:
    """Bytes that a process began to send: from then on another party may see them."""

    thread: int
    data: bytes


Event = Written | SyncBegun | Synced | Sent


def command(output: Path) -> tuple[str, ...]:
    """What to put in front of a command so that its calls are written to `output`."""
    return (*COMMAND, "-o", str(output))


def is_installed() -> bool:
    return shutil.which("strace") is not None


def read_events(path: Path) -> Iterator[Event]:
    begun: dict[int, str] = {}
    for line in path.read_text(encoding="ascii").splitlines():
        match = _LINE.match(line)
        if match is None:
            continue
        thread, resumed, call, rest = int(match[1]), match[2], match[3], match[4]
        if call is not None:
            yield from _on_begin(thread, call, rest)
            if rest.endswith("<unfinished ...>"):
                begun[thread] = rest.removesuffix("<unfinished ...>").rstrip()
                continue
        else:
            call, rest = resumed, begun.pop(thread, "") + rest
        yield from _on_return(call, rest)


def _on_begin(thread: int, call: str, rest: str) -> Iterator[Event]:
    if call in ("fdatasync", "fsync"):
        yield SyncBegun(_path(rest))
    elif call in ("sendmsg", "sendto"):
        pattern = _STRING if call == "sendmsg" else _TEXT
        yield Sent(thread, b"".join(_bytes(text) for text in pattern.findall(rest)))


def _on_return(call: str, rest: str) -> Iterator[Event]:
    result = _RESULT.search(rest)
    if result is None or int(result[1]) < 0:
        return
    if call in ("fdatasync", "fsync"):
        yield Synced(_path(rest))
    elif call in ("pwritev", "pwritev2", "pwrite64"):
        pattern = _TEXT if call == "pwrite64" else _STRING
        data = b"".join(_bytes(text) for text in pattern.findall(rest))
        offset = (_OFFSET_BEFORE_FLAGS if call == "pwritev2" else _OFFSET).search(rest)
        assert offset is not None, rest[-80:]
        yield Written(_path(rest), int(offset[1]), data)


def _path(rest: str) -> str:
    match = _PATH.match(rest)
    return _bytes(match[1]).decode() if match else ""


def _bytes(text: str) -> bytes:
    return bytes.fromhex(text.replace("\\x", "")) if text.startswith("\\x") else text.encode()
