"""Runs whose clients wait too long, or whose sessions do not end as their clients say."""

import json
import struct
from pathlib import Path
from typing import Any

from support.bad_runs.bad_run import BadRun
from upheaval.checkers.promises import Promise
from upheaval.checkers.verdict import Verdict
from upheaval.records import ClientStall, RunFolder

_CALM = "clients-cut-off"
"""Nothing happens in its last second and a half."""
_SESSION_CLOSED = 22
_REASON = 32
"""Where the close of a session has its reason (Aeron Cluster: SessionCloseEvent)."""


def _set_timeout(run: Path, **timeouts: int) -> None:
    path = run / "manifest.json"
    path.write_text(json.dumps({**json.loads(path.read_text()), "timeouts": timeouts}))


def _end(run: Path, session: int, ended_ns: int, cause: str) -> None:
    told = {"session": session, "leadership_term_id": 0, "ended_ns": ended_ns, "cause": cause}
    with (run / "sessions.jsonl").open("a") as stream:
        stream.write(json.dumps(told) + "\n")


def a_session_outlives_its_client(run: Path) -> None:
    _set_timeout(run, session_ns=100_000_000)
    _end(run, 1, 1_500_000_000, "lost")


def a_session_outlives_its_close_request(run: Path) -> None:
    _set_timeout(run, session_ns=200_000_000)
    _end(run, 2, 4_000_000_000, "client")


def _goes_early(run: Path, session: int) -> None:
    """The client of a session leaves 6.9 s before it does."""
    path = run / "sessions.jsonl"
    lines: list[dict[str, Any]] = [json.loads(line) for line in path.read_text().splitlines()]
    (line,) = (line for line in lines if line["session"] == session)
    line.update(ended_ns=line["ended_ns"] - 6_900_000_000, cause="client")
    line.pop("held_ns", None)
    path.write_text("".join(json.dumps(line) + "\n" for line in lines))


def a_session_outlives_its_client_in_a_kill_that_is_healed_until_the_end(run: Path) -> None:
    _goes_early(run, 5)
    path = run / "faults.jsonl"
    fault = json.loads(path.read_text())
    healed_ns = json.loads((run / "manifest.json").read_text())["converge"]["completed_ns"] - 1
    path.write_text(json.dumps({**fault, "heal_end_ns": healed_ns}) + "\n")


def a_session_ends_by_a_client_that_did_not_end_it(run: Path) -> None:
    for path in run.glob("member-*/archive/*.rec"):
        content = bytearray(path.read_bytes())
        position = 0
        while position < len(content) and (length := struct.unpack_from("<i", content, position)[0]) > 0:
            _, template, schema = struct.unpack_from("<HHH", content, position + 32)
            if schema == 111 and template == _SESSION_CLOSED:
                struct.pack_into("<i", content, position + 32 + _REASON, 0)
            position += length + 31 & -32
        path.write_bytes(content)


def _delay_an_answer(run: Path, seconds: int) -> None:
    path = run / "history.jsonl"
    lines: list[dict[str, Any]] = [json.loads(line) for line in path.read_text().splitlines()]
    answered = max((line for line in lines if line["outcome"] == "ok"), key=lambda line: line["invoke_ns"])
    answered["complete_ns"] += seconds * 10**9
    path.write_text("".join(json.dumps(line, separators=(",", ":")) + "\n" for line in lines))


def an_answer_comes_after_a_hundred_seconds(run: Path) -> None:
    _delay_an_answer(run, 100)


def an_answer_comes_after_more_than_a_change_of_leader(run: Path) -> None:
    _delay_an_answer(run, 11)


def _silence(run: Path, seconds: float, complete_ns: int | None) -> None:
    """No client has an answer for that time, longer than the time-outs of these members allow. `complete_ns` is when
    the answers come after all, counted from its end; None for never.
    """
    _set_timeout(run, leader_heartbeat_ns=200_000_000, election_ns=20_000_000)
    path = run / "history.jsonl"
    lines: list[dict[str, Any]] = [json.loads(line) for line in path.read_text().splitlines()]
    begin_ns = min(line["complete_ns"] for line in lines if line["outcome"] == "ok") + 50_000_000
    end_ns = begin_ns + int(seconds * 10**9)
    for line in lines:
        if line["outcome"] == "ok" and begin_ns < line["complete_ns"] < end_ns:
            if complete_ns is None:
                line.update(outcome="unknown", complete_ns=None, result=None, position=None)
            else:
                line["complete_ns"] = end_ns + complete_ns
    path.write_text("".join(json.dumps(line, separators=(",", ":")) + "\n" for line in lines))


def nobody_is_answered_for_a_while(run: Path) -> None:
    _silence(run, 1.5, None)


def nobody_is_answered_before_that_time_is_over(run: Path) -> None:
    _silence(run, 1.5, 1)


def nobody_is_answered_any_more(run: Path) -> None:
    _silence(run, 100, None)


def nobody_is_answered_while_the_machine_is_starved(run: Path) -> None:
    """The leader stalls four times, each time for less than answers are late."""
    _silence(run, 1.5, 1)
    _stall(run, 1, 2, 3, 4)


def nobody_is_answered_and_two_loops_of_the_leader_tell_of_each_stall(run: Path) -> None:
    """Together they stalled for longer than answers are late, and at the same time for less."""
    _silence(run, 1.5, 1)
    _stall(run, 1, 1, 2, 2)


def _stall(run: Path, *numbers: int) -> None:
    begin_ns = _first_answer_ns(run)
    trace = run / "member-0" / "trace.jsonl"
    told = json.loads(trace.read_text().splitlines()[-1])
    stalls = [
        {**told, "event": "loop-stall", "ts": begin_ns + number * 300_000_000, "stall_ns": 60_000_000}
        for number in numbers
    ]
    with trace.open("a") as stream:
        stream.write("".join(json.dumps(stall) + "\n" for stall in stalls))


def nobody_is_answered_while_the_clients_are_starved(run: Path) -> None:
    """Their process stalls four times, each time for less than answers are late."""
    _silence(run, 1.5, 1)
    _stall_clients(run, 1, 2, 3, 4)


def nobody_is_answered_and_the_clients_are_starved_for_less(run: Path) -> None:
    _silence(run, 1.5, 1)
    _stall_clients(run, 1, 2)


def nobody_is_answered_and_the_clients_are_starved_before(run: Path) -> None:
    _silence(run, 1.5, 1)
    _stall_clients(run, -4, -3, -2, -1, 0)


def _stall_clients(run: Path, *numbers: int) -> None:
    begin_ns = _first_answer_ns(run)
    for number in numbers:
        over_ns = begin_ns + number * 300_000_000
        RunFolder(run).add_client_stall(ClientStall(over_ns - 60_000_000, over_ns))


def _first_answer_ns(run: Path) -> int:
    lines = [json.loads(line) for line in (run / "history.jsonl").read_text().splitlines()]
    first: int = min(line["complete_ns"] for line in lines if line["outcome"] == "ok")
    return first


def an_answer_is_late_and_its_client_was_starved(run: Path) -> None:
    _delay_an_answer(run, 11)
    RunFolder(run).add_client_stall(ClientStall(10**9, 12 * 10**9))


def an_answer_is_late_and_its_client_was_starved_for_less(run: Path) -> None:
    _delay_an_answer(run, 100)
    RunFolder(run).add_client_stall(ClientStall(10**9, 12 * 10**9))


def nobody_is_answered_by_a_leader_whose_module_takes_nothing(run: Path) -> None:
    """No command in the log says so: the modules of its followers are active."""
    _silence(run, 1.6, None)
    path = run / "history.jsonl"
    history = [json.loads(line) for line in path.read_text().splitlines()]
    at_ns = min(line["complete_ns"] for line in history if line["outcome"] == "ok") + 60_000_000
    trace = run / "member-0" / "trace.jsonl"
    lines = [json.loads(line) for line in trace.read_text().splitlines()]
    place = next(number for number, line in enumerate(lines) if line["ts"] > at_ns)
    lines.insert(place, {**lines[place - 1], "event": "module_state", "ts": at_ns, "old": "ACTIVE", "new": "SNAPSHOT"})
    trace.write_text("".join(json.dumps(line) + "\n" for line in lines))


def nobody_comes_to_the_leader_any_more(run: Path) -> None:
    """The clients that ask have no session: they take the one that is over for open."""
    _set_timeout(run, leader_heartbeat_ns=200_000_000, election_ns=20_000_000, session_ns=1_000_000)
    path = run / "history.jsonl"
    lines: list[dict[str, Any]] = [json.loads(line) for line in path.read_text().splitlines()]
    begin_ns = min(line["complete_ns"] for line in lines if line["outcome"] == "ok") + 50_000_000
    kept = [line for line in lines if line["outcome"] != "ok" or line["complete_ns"] < begin_ns]
    last = max(kept, key=lambda line: line["invoke_ns"])
    asked = [
        {
            "id": 10**6 + number,
            "process": 10**6,
            "f": "read",
            "key": "r0",
            "value": None,
            "invoke_ns": last["invoke_ns"] + number * 10_000_000,
            "complete_ns": last["invoke_ns"] + number * 10_000_000,
            "outcome": "fail",
            "result": None,
            "position": None,
        }
        for number in range(1000)
    ]
    path.write_text("".join(json.dumps(line, separators=(",", ":")) + "\n" for line in [*kept, *asked]))


def _still(damage: Any, *more: str, verdict: Verdict = Verdict.INVALID) -> BadRun:
    """A follower is killed meanwhile; the other two are a quorum."""
    says = ("no client was answered for ", "while clients asked, member ", "were healthy (allowed: 1320 ms)", *more)
    return BadRun("follower-killed-and-returned", damage, Promise.PROGRESS, says, verdict)


def _bad(damage: Any, *says: str, scenario: str = _CALM, verdict: Verdict = Verdict.INVALID) -> BadRun:
    return BadRun(scenario, damage, Promise.CLIENTS_IN_TIME, says, verdict)


CLIENT_TIMES = (
    _bad(a_session_outlives_its_client, "session 1 was open for ", "of term 0 (allowed: 1110 ms)"),
    _bad(
        a_session_outlives_its_client_in_a_kill_that_is_healed_until_the_end,
        "session 5 was open for 14309 ms",
        scenario="sessions-outlive-a-leader",
    ),
    _bad(a_session_outlives_its_close_request, "session 2 was open for ", "of term 0 (allowed: 1220 ms)"),
    _bad(
        a_session_ends_by_a_client_that_did_not_end_it,
        "session 2 closed at position",
        "by its client, which did not",
        scenario="money-is-conserved",
    ),
    _bad(an_answer_comes_after_a_hundred_seconds, "was answered only after 100", "allowed: 10000 ms"),
    _bad(
        an_answer_comes_after_more_than_a_change_of_leader,
        "was answered only after 110",
        "allowed: 10000 ms",
        scenario="leader-killed",
    ),
    _still(nobody_is_answered_for_a_while),
    _still(nobody_is_answered_before_that_time_is_over),
    _still(nobody_is_answered_any_more),
    BadRun(
        "follower-killed-and-returned",
        nobody_comes_to_the_leader_any_more,
        Promise.PROGRESS,
        (
            "no client was answered for ",
            "while clients asked, member 0 led, and members 0",
            "were healthy (allowed: 13",
        ),
    ),
    _still(nobody_is_answered_by_a_leader_whose_module_takes_nothing, "member 0 led with a module that was not active"),
    _still(nobody_is_answered_while_the_machine_is_starved, "stalls of 240 ms", verdict=Verdict.UNKNOWN),
    _still(nobody_is_answered_and_two_loops_of_the_leader_tell_of_each_stall),
    _still(nobody_is_answered_while_the_clients_are_starved, "stalls of 240 ms", verdict=Verdict.UNKNOWN),
    _still(nobody_is_answered_and_the_clients_are_starved_for_less),
    _still(nobody_is_answered_and_the_clients_are_starved_before),
    _bad(
        an_answer_is_late_and_its_client_was_starved,
        "was answered only after ",
        "a stall of 11000 ms (client-stalls.jsonl:1) explains",
        verdict=Verdict.UNKNOWN,
    ),
    _bad(an_answer_is_late_and_its_client_was_starved_for_less, "was answered only after "),
)
