"""Runs whose clients wrote down of sessions and answers what no cluster that keeps its promises shows them.

In `sessions-outlive-a-leader` member 2 follows member 0 as the leader, session 1 lives on to the end of the run, and
three clients go without a word: one before the change, the last one when all is calm.
"""

import json
import struct
from collections.abc import Callable
from pathlib import Path
from typing import Any

from support.bad_runs.bad_run import BadRun
from upheaval.checkers.promises import Promise
from upheaval.checkers.verdict import Verdict
from upheaval.records import ClientStall, RunFolder

_SCENARIO = "sessions-outlive-a-leader"
_SESSION_CLOSED, _NEW_TERM = 22, 24
"""Template ids."""
_CLOSED_AT, _TERM_BEGAN_AT = 24, 24
"""Where both have their timestamps (Aeron Cluster: SessionCloseEvent, NewLeadershipTermEvent)."""
_Line = dict[str, Any]


def _read(path: Path) -> list[_Line]:
    return [json.loads(line) for line in path.read_text(encoding="utf-8").splitlines()]


def _write(path: Path, lines: list[_Line]) -> None:
    path.write_text("".join(json.dumps(line, separators=(",", ":")) + "\n" for line in lines), encoding="utf-8")


def _ends(run: Path, change: Callable[[list[_Line]], None]) -> None:
    lines = _read(run / "sessions.jsonl")
    change(lines)
    _write(run / "sessions.jsonl", lines)


def _of_session(lines: list[_Line], session: int) -> _Line:
    return next(line for line in lines if line["session"] == session)


def _silent(lines: list[_Line]) -> list[_Line]:
    return sorted((line for line in lines if line["cause"] == "silent"), key=lambda line: line["ended_ns"])


def _answered(run: Path) -> list[_Line]:
    return [line for line in _read(run / "history.jsonl") if line["outcome"] == "ok"]


def _stray(run: Path, asked: _Line, **fields: object) -> None:
    received_ns = (asked["complete_ns"] or asked["invoke_ns"]) + 1_000_000
    line = {"session": asked["session"], "received_ns": received_ns, "operation": asked["id"]}
    _write(run / "strays.jsonl", [{**line, "position": asked["position"], **fields}])


def _set_session_timeout(run: Path, seconds: int) -> None:
    path = run / "manifest.json"
    manifest = json.loads(path.read_text())
    path.write_text(json.dumps({**manifest, "timeouts": {"session_ns": seconds * 10**9}}))


# --- how long sessions last ---


def sessions_last_ten_times_too_long(run: Path) -> None:
    _set_session_timeout(run, 1)


def sessions_last_a_quarter(run: Path) -> None:
    _set_session_timeout(run, 40)


def a_client_was_gone_long_before(run: Path) -> None:
    def change(lines: list[_Line]) -> None:
        _silent(lines)[-1]["ended_ns"] -= 6_000_000_000

    _ends(run, change)


# --- under a new leader ---


def a_new_leader_closes_the_session_of_a_silent_client(run: Path) -> None:
    """The close in the log has the time at which its term began."""
    for path in run.glob("member-*/archive/*.rec"):
        content = bytearray(path.read_bytes())
        position, began = 0, b""
        while position < len(content) and (length := struct.unpack_from("<i", content, position)[0]) > 0:
            message = position + 32
            _, template, schema = struct.unpack_from("<HHH", content, message)
            if schema == 111 and template == _NEW_TERM:
                began = bytes(content[message + _TERM_BEGAN_AT : message + _TERM_BEGAN_AT + 8])
            if schema == 111 and template == _SESSION_CLOSED:
                content[message + _CLOSED_AT : message + _CLOSED_AT + 8] = began
            position += length + 31 & -32
        path.write_bytes(content)


def _gives_up(lines: list[_Line], session: int, **fields: object) -> None:
    end = _of_session(lines, session)
    end.update(cause="lost", followed_term_id=0, followed_member_id=0, **fields)


def a_client_finds_no_leader_up_to_the_end(run: Path) -> None:
    _ends(run, lambda lines: _gives_up(lines, 1))


def a_client_finds_no_leader_for_some_seconds(run: Path) -> None:
    def change(lines: list[_Line]) -> None:
        _gives_up(lines, 1, ended_ns=_of_session(lines, 1)["ended_ns"] - 3_000_000_000)

    _ends(run, change)


def a_starved_client_finds_no_leader_for_some_seconds(run: Path) -> None:
    a_client_finds_no_leader_for_some_seconds(run)
    RunFolder(run).add_client_stall(ClientStall(10**9, 14 * 10**9))


# --- who asks in which session ---


def a_client_asks_after_it_has_left(run: Path) -> None:
    def change(lines: list[_Line]) -> None:
        last = max(line["invoke_ns"] for line in _answered(run) if line["session"] == 1)
        _of_session(lines, 1).update(cause="client", ended_ns=last - 1)

    _ends(run, change)


def a_client_is_answered_after_it_has_left(run: Path) -> None:
    def change(lines: list[_Line]) -> None:
        last = max(line["invoke_ns"] for line in _answered(run) if line["session"] == 1)
        _of_session(lines, 1).update(cause="client", ended_ns=last)

    _ends(run, change)


def a_silent_client_says_something(run: Path) -> None:
    def change(lines: list[_Line]) -> None:
        silent = _silent(lines)[0]
        asked = next(line for line in _answered(run) if line["session"] == silent["session"])
        silent["ended_ns"] = asked["invoke_ns"] - 5

    _ends(run, change)


def a_session_is_not_written_down(run: Path) -> None:
    _ends(run, lambda lines: lines.remove(_of_session(lines, 1)))


def one_session_alone_is_written_down(run: Path) -> None:
    def change(lines: list[_Line]) -> None:
        lines[:] = [_of_session(lines, 1)]

    _ends(run, change)


# --- answers that no client waits for ---


def an_operation_is_answered_again(run: Path) -> None:
    _stray(run, _answered(run)[20])


def an_operation_is_answered_that_nobody_asked_for(run: Path) -> None:
    _stray(run, _answered(run)[20], operation=10**9)


def another_session_is_answered(run: Path) -> None:
    """It comes in place of the answer that was due."""
    lines = _read(run / "history.jsonl")
    asked = next(line for line in lines[20:] if line["outcome"] == "ok" and line["session"] == 1)
    _stray(run, asked, session=7)
    asked.update(outcome="unknown", complete_ns=None, result=None, position=None)
    _write(run / "history.jsonl", lines)


def a_late_answer_names_another_position(run: Path) -> None:
    lines = _read(run / "history.jsonl")
    asked = next(line for line in lines[20:] if line["outcome"] == "ok")
    _stray(run, asked, position=asked["position"] + 32)
    asked.update(outcome="unknown", complete_ns=None, result=None, position=None)
    _write(run / "history.jsonl", lines)


def a_late_answer_comes_twice(run: Path) -> None:
    lines = _read(run / "history.jsonl")
    asked = next(line for line in lines[20:] if line["outcome"] == "ok")
    _stray(run, asked)
    asked.update(outcome="unknown", complete_ns=None, result=None, position=None)
    _write(run / "history.jsonl", lines)
    strays = (run / "strays.jsonl").read_text()
    (run / "strays.jsonl").write_text(2 * strays)


def a_client_receives_what_answers_nothing(run: Path) -> None:
    _stray(run, _answered(run)[20], operation=None, position=None)


def _bad(damage: Callable[[Path], None], promise: Promise, *says: str, verdict: Verdict = Verdict.INVALID) -> BadRun:
    return BadRun(_SCENARIO, damage, promise, says, verdict)


SESSIONS = (
    _bad(sessions_last_ten_times_too_long, Promise.CLIENTS_IN_TIME, "without its client, up to position", "2100 ms"),
    _bad(
        sessions_last_a_quarter,
        Promise.CLIENTS_IN_TIME,
        "closed at position",
        "ms after its last message, while nothing was done to the cluster (time-out: 40000 ms)",
    ),
    _bad(a_client_was_gone_long_before, Promise.CLIENTS_IN_TIME, "without its client, up to position", "12000 ms"),
    _bad(
        a_new_leader_closes_the_session_of_a_silent_client,
        Promise.SESSIONS_OUTLIVE_LEADERS,
        "closed at position",
        "after member 2 began to lead term 1",
    ),
    _bad(
        sessions_last_a_quarter,
        Promise.SESSIONS_OUTLIVE_LEADERS,
        "after member 2 began to lead term 1",
        "(time-out: 40000 ms)",
    ),
    _bad(
        a_client_finds_no_leader_up_to_the_end,
        Promise.SESSIONS_OUTLIVE_LEADERS,
        "the client of session 1 found no leader",
        "where member 2 had led term 1",
    ),
    _bad(
        a_client_finds_no_leader_for_some_seconds,
        Promise.SESSIONS_OUTLIVE_LEADERS,
        "the client of session 1 found no leader",
        "where member 2 had led term 1",
    ),
    _bad(
        a_starved_client_finds_no_leader_for_some_seconds,
        Promise.SESSIONS_OUTLIVE_LEADERS,
        "a stall of 13000 ms (client-stalls.jsonl:1) explains",
        verdict=Verdict.UNKNOWN,
    ),
    _bad(a_client_asks_after_it_has_left, Promise.CLIENTS_IN_ORDER, "was invoked in session 1 after its client had"),
    _bad(
        a_client_is_answered_after_it_has_left,
        Promise.CLIENTS_IN_ORDER,
        "was answered in session 1 after its client had left it at",
    ),
    _bad(a_silent_client_says_something, Promise.CLIENTS_IN_ORDER, "was invoked in session", "after its client had"),
    _bad(
        a_session_is_not_written_down,
        Promise.CLIENTS_IN_ORDER,
        "in session 1, which sessions.jsonl does not have",
        verdict=Verdict.UNKNOWN,
    ),
    _bad(
        one_session_alone_is_written_down,
        Promise.CLIENTS_IN_ORDER,
        "which sessions.jsonl does not have",
        verdict=Verdict.UNKNOWN,
    ),
    _bad(an_operation_is_answered_again, Promise.ANSWERED_ONCE, "an answer to operation id=", "had been answered"),
    _bad(
        an_operation_is_answered_that_nobody_asked_for,
        Promise.ANSWERED_ONCE,
        "an answer to operation id=1000000000, which the history does not know",
    ),
    _bad(another_session_is_answered, Promise.ANSWERED_ONCE, "session 7 received", "which was sent in session 1"),
    _bad(a_late_answer_names_another_position, Promise.ANSWERED_ONCE, "as if at position", "which is at position"),
    _bad(a_late_answer_comes_twice, Promise.ANSWERED_ONCE, "had been answered"),
    _bad(a_client_receives_what_answers_nothing, Promise.ANSWERED_ONCE, "a message that answers nothing"),
)
