"""Runs in which one field of a recorded snapshot is another."""

import struct
from collections.abc import Callable
from pathlib import Path

from support.bad_runs.bad_run import BadRun
from upheaval.checkers.promises import Promise

_SCENARIO = "snapshot-and-restart"
_FRAME_HEADER = 32
_MESSAGE_HEADER = 8
_MARKER, _CLIENT_SESSION, _CLUSTER_SESSION, _MODULE, _TRACKER = 100, 102, 103, 105, 107
"""Template ids (Aeron Cluster schema 111)."""


def _change(run: Path, member: int, recording: int, template: int, change: Callable[[bytearray, int], None]) -> None:
    """Do something to the first message of that kind; `change` gets the file's bytes and where the fields begin."""
    path = run / f"member-{member}" / "archive" / f"{recording}-0.rec"
    content = bytearray(path.read_bytes())
    offset = 0
    while length := int.from_bytes(content[offset : offset + 4], "little"):
        message = offset + _FRAME_HEADER
        if int.from_bytes(content[message + 2 : message + 4], "little") == template:
            change(content, message + _MESSAGE_HEADER)
            path.write_bytes(content)
            return
        offset += length + 31 & -32
    raise LookupError(f"{path} has no message of template {template}")


def _adding(form: str, offset: int) -> Callable[[bytearray, int], None]:
    def change(content: bytearray, begin: int) -> None:
        (number,) = struct.unpack_from(form, content, begin + offset)
        struct.pack_into(form, content, begin + offset, number + 1)

    return change


def the_next_session_is_another(run: Path) -> None:
    _change(run, 1, 2, _MODULE, _adding("<q", 0))


def a_session_opened_elsewhere(run: Path) -> None:
    _change(run, 2, 2, _CLUSTER_SESSION, _adding("<q", 16))


def a_session_is_answered_on_another_stream(run: Path) -> None:
    _change(run, 0, 2, _CLUSTER_SESSION, _adding("<i", 36))


def the_next_message_of_the_service_is_another(run: Path) -> None:
    _change(run, 1, 2, _TRACKER, _adding("<q", 0))


def a_snapshot_is_of_another_term(run: Path) -> None:
    _change(run, 2, 4, _MARKER, _adding("<q", 16))


def a_snapshot_is_of_another_version(run: Path) -> None:
    _change(run, 2, 4, _MARKER, _adding("<i", 36))


def a_client_is_answered_elsewhere(run: Path) -> None:
    def change(content: bytearray, begin: int) -> None:
        content[begin + 12 + 4] ^= 1

    _change(run, 1, 1, _CLIENT_SESSION, change)


def _bad(damage: Callable[[Path], None], *says: str) -> BadRun:
    return BadRun(_SCENARIO, damage, Promise.SNAPSHOT_IS_REPLAY, says)


SNAPSHOTS = (
    _bad(the_next_session_is_another, "consensus module of member 1 at position", "next_session_id"),
    _bad(a_session_opened_elsewhere, "consensus module of member 2 at position", "opened_log_position"),
    _bad(a_session_is_answered_on_another_stream, "consensus module of member 0 at position", "response_stream_id"),
    _bad(
        the_next_message_of_the_service_is_another, "consensus module of member 1 at position", "message 2 of service 0"
    ),
    _bad(a_snapshot_is_of_another_term, "consensus module of member 2 at position", "leadership_term_id 1", "gives 0"),
    _bad(a_snapshot_is_of_another_version, "consensus module of member 2 at position", "app_version"),
    _bad(a_client_is_answered_elsewhere, "service 0 of member 1 at position", "response_channel"),
)
