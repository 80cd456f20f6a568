"""Runs whose damage must be named: the field of the catalog or of a frame's header, and not what follows from it."""

import struct
from collections.abc import Callable
from pathlib import Path

from support.bad_runs.bad_run import BadRun
from upheaval.checkers.promises import Promise
from upheaval.checkers.verdict import Verdict

_SCENARIO = "snapshot-and-restart"
_HEADER = 32
_FIRST_DESCRIPTOR = 64


def _put(path: Path, offset: int, kind: str, value: int) -> None:
    with path.open("r+b") as stream:
        stream.seek(offset)
        stream.write(struct.pack(f"<{kind}", value))


def _log(run: Path) -> Path:
    return run / "member-1" / "archive" / "0-0.rec"


def _catalog(run: Path) -> Path:
    return run / "member-1" / "archive" / "archive.catalog"


def _operation(run: Path) -> int:
    """Where the frame of an operation begins, some way into the log: it is a data frame with a session's message."""
    content = _log(run).read_bytes()
    offset = 0
    while offset < 5000 or struct.unpack_from("<H", content, offset + _HEADER + 2) != (1,):
        offset += struct.unpack_from("<i", content, offset)[0] + 31 & -32
    return offset


def the_initial_term_id_is_another(run: Path) -> None:
    _put(_catalog(run), _FIRST_DESCRIPTOR + 56, "i", 3)


def the_term_length_is_half(run: Path) -> None:
    _put(_catalog(run), _FIRST_DESCRIPTOR + 64, "i", 16384)


def the_start_is_in_another_term(run: Path) -> None:
    _put(_catalog(run), _FIRST_DESCRIPTOR + 40, "q", 65536)


def the_start_is_within_a_frame(run: Path) -> None:
    _put(_catalog(run), _FIRST_DESCRIPTOR + 40, "q", 32)


def a_frame_has_another_type(run: Path) -> None:
    _put(_log(run), _operation(run) + 6, "H", 5)


def a_frame_has_another_term_offset(run: Path) -> None:
    _put(_log(run), _operation(run) + 8, "i", 7)


def a_frame_has_another_stream(run: Path) -> None:
    _put(_log(run), _operation(run) + 16, "i", 101)


def a_frame_has_another_reserved_value(run: Path) -> None:
    _put(_log(run), _operation(run) + 24, "q", 7)


def a_message_has_another_time(run: Path) -> None:
    _put(_log(run), _operation(run) + _HEADER + 24, "q", 5)


def _bad(damage: Callable[[Path], None], promise: Promise, *says: str, verdict: Verdict = Verdict.INVALID) -> BadRun:
    return BadRun(_SCENARIO, damage, promise, says, verdict)


_BY_CATALOG = "in archive.catalog"

NAMED = (
    _bad(the_initial_term_id_is_another, Promise.LOGS_COMPLETE, "term id is 0 and not 3", "term id 3", _BY_CATALOG),
    _bad(the_term_length_is_half, Promise.LOGS_COMPLETE, "term length 16384", _BY_CATALOG),
    _bad(
        the_start_is_in_another_term,
        Promise.LOGS_COMPLETE,
        "archive.catalog says that it starts at position 65536",
        verdict=Verdict.UNKNOWN,
    ),
    _bad(the_start_is_within_a_frame, Promise.LOGS_COMPLETE, "position 32, where the log starts by archive.catalog"),
    _bad(a_frame_has_another_type, Promise.LOGS_COMPLETE, "its version is 0 and its type 5"),
    _bad(a_frame_has_another_term_offset, Promise.LOGS_COMPLETE, "its term offset is 7 and not"),
    _bad(a_frame_has_another_stream, Promise.LOGS_EQUAL, "with stream id 100 against 101"),
    _bad(a_frame_has_another_reserved_value, Promise.LOGS_EQUAL, "with reserved value 0 against 7"),
    _bad(a_message_has_another_time, Promise.LOGS_EQUAL, "with timestamp", "against 5"),
)
