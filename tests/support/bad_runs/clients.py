"""Runs whose history or log has operations where their clients did not send them."""

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

from support.bad_runs.bad_run import BadRun
from upheaval.checkers.promises import Promise

_SCENARIO = "leader-killed"
_FRAME_HEADER = 32
_TERM, _SESSION = 8, 16
"""Where a message of a session has its leadership term and its session (Aeron Cluster: SessionMessageHeader)."""
_MESSAGE, _NEW_TERM = 1, 24
"""Template ids."""


def _change(run: Path, change: Callable[[list[dict[str, Any]]], None]) -> None:
    path = run / "history.jsonl"
    lines = [json.loads(line) for line in path.read_text().splitlines()]
    change(lines)
    path.write_text("".join(json.dumps(line, separators=(",", ":")) + "\n" for line in lines))


def _answered(lines: list[dict[str, Any]]) -> dict[str, Any]:
    """One in the middle of what its session and its slot asked for."""
    return next(line for line in lines[len(lines) // 2 :] if line["outcome"] == "ok")


def the_history_names_another_session(run: Path) -> None:
    def change(lines: list[dict[str, Any]]) -> None:
        _answered(lines)["session"] += 1

    _change(run, change)


def a_slot_does_not_wait(run: Path) -> None:
    def change(lines: list[dict[str, Any]]) -> None:
        line = _answered(lines)
        later = next(each for each in lines if each["process"] == line["process"] and each["id"] > line["id"])
        later["invoke_ns"] = line["complete_ns"] - 1

    _change(run, change)


def a_slot_goes_on_without_an_answer(run: Path) -> None:
    def change(lines: list[dict[str, Any]]) -> None:
        _answered(lines).update(outcome="unknown", complete_ns=None, result=None, position=None)

    _change(run, change)


def a_session_is_out_of_order(run: Path) -> None:
    def change(lines: list[dict[str, Any]]) -> None:
        _answered(lines).update(process=10**6, invoke_ns=1)

    _change(run, change)


def a_session_has_a_gap(run: Path) -> None:
    """A client sent one more operation, which is not in the log."""

    def change(lines: list[dict[str, Any]]) -> None:
        line = _answered(lines)
        invoke_ns = line["invoke_ns"] + 1
        lines.append(line | {"process": 10**6, "id": 10**9, "invoke_ns": invoke_ns, "outcome": "unknown"})
        lines[-1].update(complete_ns=None, result=None, position=None)

    _change(run, change)


def _in_the_logs(run: Path, template: int, number: int, offset: int) -> None:
    """Add one to a field of the message of that number and kind in the log of each member."""
    for member in range(3):
        path = run / f"member-{member}" / "archive" / "0-0.rec"
        content = bytearray(path.read_bytes())
        begin, left = 0, number
        while length := int.from_bytes(content[begin : begin + 4], "little"):
            message = begin + _FRAME_HEADER
            if int.from_bytes(content[message + 2 : message + 4], "little") == template:
                left -= 1
            if left < 0:
                content[message + offset] += 1
                break
            begin += length + 31 & -32
        path.write_bytes(content)


def a_message_is_in_another_session(run: Path) -> None:
    _in_the_logs(run, _MESSAGE, 20, _SESSION)


def a_message_is_of_another_term(run: Path) -> None:
    _in_the_logs(run, _MESSAGE, 20, _TERM)


def the_first_term_is_another(run: Path) -> None:
    _in_the_logs(run, _NEW_TERM, 0, _TERM)


def _bad(damage: Callable[[Path], None], promise: Promise, *says: str) -> BadRun:
    return BadRun(_SCENARIO, damage, promise, says)


CLIENTS = (
    _bad(the_history_names_another_session, Promise.CLIENTS_IN_ORDER, "was sent in session", "at position"),
    _bad(a_slot_does_not_wait, Promise.CLIENTS_IN_ORDER, "was invoked while operation id=", "of client slot"),
    _bad(a_slot_goes_on_without_an_answer, Promise.CLIENTS_IN_ORDER, "was invoked while operation id="),
    _bad(a_session_is_out_of_order, Promise.CLIENTS_IN_ORDER, "was invoked before operation id=", "at position"),
    _bad(a_session_has_a_gap, Promise.CLIENTS_IN_ORDER, "is not in the log, which has the session at positions"),
    _bad(a_message_is_in_another_session, Promise.CLIENTS_IN_ORDER, "and is in session", "at position"),
    _bad(a_message_is_of_another_term, Promise.ENTRIES_IN_TERM, "SessionMessage at position", "is of term 1"),
    _bad(the_first_term_is_another, Promise.ENTRIES_IN_TERM, "is of term 0, where the log is in term 1"),
)
