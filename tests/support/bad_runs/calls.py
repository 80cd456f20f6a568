"""Runs in which the log takes calls of clients too late, never, or at impossible times."""

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

from support.bad_runs.bad_run import CALLS_RUN, QUIET_S, BadRun
from support.bad_runs.protocol import Line, edit
from upheaval.checkers.promises import Promise
from upheaval.checkers.verdict import Verdict

_MS = 10**6
_Lines = list[dict[str, Any]]


def _change(run: Path, change: Callable[[_Lines], None], **timeouts: int) -> None:
    """Of the history; `timeouts` are those of the members, so that less than the quiet time is too long.

    The code of the service is not looked for: what is judged here needs none.
    """
    path, manifest = run / "history.jsonl", run / "manifest.json"
    lines = [json.loads(line) for line in path.read_text().splitlines()]
    change(lines)
    path.write_text("".join(json.dumps(line, separators=(",", ":")) + "\n" for line in lines))
    short = {"leader_heartbeat_ns": 200 * _MS, "election_ns": 20 * _MS, **timeouts}
    manifest.write_text(json.dumps({**json.loads(manifest.read_text()), "timeouts": short, "source": ""}))


def _around_quiet(lines: _Lines) -> tuple[dict[str, Any], dict[str, Any]]:
    """The last call before the quiet time, and the first after it, of one session."""
    last = next(
        number
        for number, line in enumerate(lines[1:])
        if line["invoke_ns"] - lines[number]["complete_ns"] > QUIET_S * 10**9 // 2
    )
    before = lines[last]
    return before, next(line for line in lines[last + 1 :] if line["session"] == before["session"])


def a_call_waits_through_the_quiet_time(run: Path) -> None:
    def change(lines: _Lines) -> None:
        before, after = _around_quiet(lines)
        after["invoke_ns"] = before["complete_ns"] + 1

    _change(run, change)


def calls_in_the_quiet_time_are_never_taken(run: Path) -> None:
    """They ask in the session that was answered before, whose client waits for none of them."""

    def change(lines: _Lines) -> None:
        _add_lost(lines, 4, session=_around_quiet(lines)[0]["session"], outcome="unknown")

    _change(run, change)


def nobody_gets_a_session_in_the_quiet_time(run: Path) -> None:
    _change(run, lambda lines: _add_lost(lines, 4, session=None, outcome="fail"), session_ns=1 * _MS)


def _add_lost(lines: _Lines, count: int, *, session: int | None, outcome: str) -> None:
    before, after = _around_quiet(lines)
    step_ns = (after["invoke_ns"] - before["complete_ns"]) // (count + 1)
    lost = {"complete_ns": None, "result": None, "position": None, "session": session, "outcome": outcome}
    lines += [
        {
            **before,
            **lost,
            "id": 10**6 + number,
            "process": 10**6 + number,
            "value": f"{number:064x}",
            "invoke_ns": before["complete_ns"] + 1 + number * step_ns,
        }
        for number in range(count)
    ]


def a_call_is_answered_wrongly_beside_an_operation_of_a_shipped_service(run: Path) -> None:
    _add_of_shipped(run)
    path = run / "history.jsonl"
    lines = [json.loads(line) for line in path.read_text().splitlines()]
    lines[40]["result"] = "no"
    path.write_text("".join(json.dumps(line) + "\n" for line in lines))


def _add_of_shipped(run: Path) -> dict[str, Any]:
    """An operation that was never sent. Returns the first call."""
    path = run / "history.jsonl"
    call: dict[str, Any] = json.loads(path.read_text().splitlines()[0])
    unsent = {"f": "read", "key": "k", "value": None, "complete_ns": None, "result": None, "outcome": "fail"}
    with path.open("a") as history:
        history.write(json.dumps({**call, **unsent, "id": 10**6, "process": 10**6, "session": None}) + "\n")
    return call


def a_strange_message_is_heard_beside_an_operation_of_a_shipped_service(run: Path) -> None:
    call = _add_of_shipped(run)
    stray = {"session": call["session"], "received_ns": call["complete_ns"], "operation": None, "position": None}
    with (run / "strays.jsonl").open("a") as strays:
        strays.write(json.dumps({**stray, "text": "no replay sends this"}) + "\n")


def nobody_asks_for_longer_than_clients_need_to_find_a_leader(run: Path) -> None:
    """As between two loads: this one is good."""
    _change(run, lambda lines: None, session_ns=1 * _MS)


def a_call_is_asked_when_the_run_had_converged(run: Path) -> None:
    def change(lines: _Lines) -> None:
        for moment in ("invoke_ns", "complete_ns"):
            lines[-1][moment] += 1000 * 10**9

    _change(run, change)


def a_call_is_asked_long_before_the_run_had_converged_and_answered_after_it(run: Path) -> None:
    """What is judged is when it was asked: this one is good."""

    def change(lines: _Lines) -> None:
        lines[-1]["complete_ns"] += 1000 * 10**9

    _change(run, change)


def an_answer_to_a_call_was_there_at_once(run: Path) -> None:
    def change(lines: _Lines) -> None:
        lines[40]["complete_ns"] = lines[40]["invoke_ns"]

    _change(run, change)


def the_leader_committed_the_calls_a_second_later(run: Path) -> None:
    """By all traces: what it heard of others, what it sent, what they heard."""

    def change(lines: list[Line]) -> None:
        for line in lines:
            if line.get("message") in ("CommitPosition", "AppendPosition"):
                line["ts"] += 1000 * _MS

    for member in range(3):
        edit(run, member, change)
    _change(run, lambda lines: None)


def a_call_was_answered_before_there_was_a_leader(run: Path) -> None:
    def change(lines: _Lines) -> None:
        lines[0].update(invoke_ns=1, complete_ns=2)

    _change(run, change)


CALLS = (
    BadRun(
        CALLS_RUN,
        a_call_is_answered_wrongly_beside_an_operation_of_a_shipped_service,
        Promise.LINEARIZABLE,
        ("call request (operation 40) at position", "expected ", " by a replay of "),
    ),
    BadRun(
        CALLS_RUN,
        a_strange_message_is_heard_beside_an_operation_of_a_shipped_service,
        Promise.ANSWERED_ONCE,
        ("heard 'no replay sends this', which a replay of the log does not send to it",),
    ),
    BadRun(
        CALLS_RUN,
        an_answer_to_a_call_was_there_at_once,
        Promise.ANSWERED_WHEN_COMMITTED,
        ("operation id=40 at position", "before any trace shows", "/trace.jsonl:", "request(payload, accepts=...)"),
    ),
    BadRun(
        CALLS_RUN,
        the_leader_committed_the_calls_a_second_later,
        Promise.ANSWERED_WHEN_COMMITTED,
        ("was complete 9", "before any trace shows that its position was committed"),
    ),
    BadRun(
        CALLS_RUN,
        a_call_was_answered_before_there_was_a_leader,
        Promise.ANSWERED_WHEN_COMMITTED,
        ("operation id=0 at position", "began to lead term 0 (member-"),
    ),
    BadRun(
        CALLS_RUN,
        a_call_waits_through_the_quiet_time,
        Promise.PROGRESS,
        ("no client was answered for 7", "and members 0, 1, 2 were healthy (allowed: 1320 ms)"),
    ),
    BadRun(
        CALLS_RUN,
        calls_in_the_quiet_time_are_never_taken,
        Promise.PROGRESS,
        ("no client was answered for 6", "and members 0, 1, 2 were healthy (allowed: 1320 ms)"),
    ),
    BadRun(
        CALLS_RUN,
        nobody_gets_a_session_in_the_quiet_time,
        Promise.PROGRESS,
        ("no client was answered for ", "and members 0, 1, 2 were healthy (allowed: 1322 ms)"),
    ),
    BadRun(
        CALLS_RUN,
        nobody_asks_for_longer_than_clients_need_to_find_a_leader,
        Promise.PROGRESS,
        ("160 answers, none later than 1320 ms after the one before it",),
        Verdict.VALID,
    ),
    BadRun(
        CALLS_RUN,
        a_call_waits_through_the_quiet_time,
        Promise.CLIENTS_IN_TIME,
        ("call request (operation 81) is in the log only 7", "(allowed: 6320 ms from then"),
    ),
    BadRun(
        CALLS_RUN,
        a_call_is_asked_when_the_run_had_converged,
        Promise.RUN_CONVERGED,
        ("operation id=159, at position", "was asked for at 10"),
        Verdict.UNKNOWN,
    ),
    BadRun(
        CALLS_RUN,
        a_call_is_asked_long_before_the_run_had_converged_and_answered_after_it,
        Promise.RUN_CONVERGED,
        ("3 members at position",),
        Verdict.VALID,
    ),
)
