"""Runs whose history or log has operations where their clients did not send them, or names terms elsewhere."""

import json
import struct
from collections.abc import Callable
from pathlib import Path
from typing import Any

from support.bad_runs.bad_run import BadRun
from upheaval.checkers.promises import Promise

_SCENARIO = "leader-killed"
_OF_THREE_TERMS = "timers-over-restarts"
_FRAME_HEADER = 32
_TERM, _SESSION = 8, 16
"""Where a message of a session has its leadership term and its session (Aeron Cluster: SessionMessageHeader)."""
_MESSAGE, _NEW_TERM = 1, 24
"""Template ids."""
_RECORD, _KIND, _IS_TERM = 64, 44, 0
"""The length of a record of a recording log, the offset of its kind, and the kind of a term."""


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


def _name(run: Path, member: int, change: Callable[[list[list[int]]], object]) -> None:
    """Change which terms a recording log names: the number, begin and end of each of the three that the log has."""
    path = run / f"member-{member}" / "cluster" / "recording.log"
    content = path.read_bytes()
    records = [content[at : at + _RECORD] for at in range(0, len(content), _RECORD)]
    of_terms = [record for record in records if struct.unpack_from("<i", record, _KIND) == (_IS_TERM,)]
    terms = sorted(list(struct.unpack_from("<qqq", record, 8)) for record in of_terms)
    assert [number for number, _, _ in terms] == [0, 1, 2]
    change(terms)
    named = [of_terms[0][:8] + struct.pack("<qqq", *term) + of_terms[0][32:] for term in terms]
    path.write_bytes(b"".join([*(record for record in records if record not in of_terms), *named]))


def a_term_between_two_is_not_named(run: Path) -> None:
    def change(terms: list[list[int]]) -> None:
        terms[0][2] = terms[1][2]
        del terms[1]

    _name(run, 1, change)


def the_last_term_is_not_named(run: Path) -> None:
    def change(terms: list[list[int]]) -> None:
        terms[1][2] = -1
        del terms[2]

    _name(run, 2, change)


def the_first_term_is_not_named(run: Path) -> None:
    _name(run, 0, lambda terms: terms.pop(0))


def the_first_term_is_named_without_its_entries(run: Path) -> None:
    """As by a member that learned of it only when the next one began."""

    def change(terms: list[list[int]]) -> None:
        terms[0][2] = terms[1][1] = 0

    _name(run, 1, change)


def _bad(damage: Callable[[Path], None], promise: Promise, *says: str, scenario: str = _SCENARIO) -> BadRun:
    return BadRun(scenario, damage, promise, says)


def _misnamed(damage: Callable[[Path], None], member: int, term: int, named: str) -> BadRun:
    log = f"the log of member {member} has term {term} at position"
    return _bad(damage, Promise.ENTRIES_IN_TERM, log, f"where its recording log has {named}", scenario=_OF_THREE_TERMS)


CLIENTS = (
    _bad(the_history_names_another_session, Promise.CLIENTS_IN_ORDER, "was sent in session", "at position"),
    _bad(a_slot_does_not_wait, Promise.CLIENTS_IN_ORDER, "was invoked while operation id=", "of client slot"),
    _bad(a_slot_goes_on_without_an_answer, Promise.CLIENTS_IN_ORDER, "was invoked while operation id="),
    _bad(a_session_is_out_of_order, Promise.CLIENTS_IN_ORDER, "was invoked before operation id=", "at position"),
    _bad(a_session_has_a_gap, Promise.CLIENTS_IN_ORDER, "is not in the log, which has the session at positions"),
    _bad(a_message_is_in_another_session, Promise.CLIENTS_IN_ORDER, "and is in session", "at position"),
    _bad(a_message_is_of_another_term, Promise.ENTRIES_IN_TERM, "SessionMessage at position", "is of term 1"),
    _bad(the_first_term_is_another, Promise.ENTRIES_IN_TERM, "is of term 0, where the log is in term 1"),
    _misnamed(a_term_between_two_is_not_named, 1, 1, "term 0"),
    _misnamed(the_last_term_is_not_named, 2, 2, "term 1"),
    _misnamed(the_first_term_is_not_named, 0, 0, "no term"),
    _misnamed(the_first_term_is_named_without_its_entries, 1, 0, "term 1"),
)
