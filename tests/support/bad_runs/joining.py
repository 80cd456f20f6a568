"""Runs in which a member does not come out of an election, though there is a leader."""

import json
from pathlib import Path
from typing import Any

from support.bad_runs.bad_run import BadRun
from upheaval.checkers.promises import Promise
from upheaval.checkers.verdict import Verdict

_SCENARIO = "snapshot-and-restart"


def _returned(run: Path) -> tuple[Path, list[dict[str, Any]], int]:
    """The trace of a member that followed after all were started again, and the number of its line of that start."""
    for trace in sorted(run.glob("member-*/trace.jsonl")):
        lines = [json.loads(line) for line in trace.read_text().splitlines()]
        start = max(number for number, line in enumerate(lines) if line["event"] == "process-start")
        if not any(line["event"] == "role" and line["new"] == "LEADER" for line in lines[start:]):
            return trace, lines, start
    raise AssertionError("all of them led")


def _later(run: Path) -> None:
    """From the moment on at which there is a leader again, every event is twenty seconds later."""
    traces = {
        trace: [json.loads(line) for line in trace.read_text().splitlines()]
        for trace in run.glob("member-*/trace.jsonl")
    }
    elected_ns = max(
        line["ts"]
        for lines in traces.values()
        for line in lines
        if line.get("state") == "CLOSED" and line.get("leader_member_id") == line["member"]
    )
    for trace, lines in traces.items():
        moved = [{**line, "ts": line["ts"] + (20_000_000_000 if line["ts"] > elected_ns else 0)} for line in lines]
        _write(trace, moved)


def _write(trace: Path, lines: list[dict[str, Any]]) -> None:
    trace.write_text("".join(json.dumps(line) + "\n" for line in lines), encoding="utf-8")


def a_member_that_returns_joins_much_later(run: Path) -> None:
    _later(run)


def a_member_that_returns_begins_one_election_after_the_other(run: Path) -> None:
    _later(run)
    trace, lines, start = _returned(run)
    after = [{**line, "state": "CANVASS"} if "state" in line else line for line in lines[start:]]
    _write(trace, lines[:start] + after)


def a_member_that_returns_says_no_more(run: Path) -> None:
    _later(run)
    trace, lines, start = _returned(run)
    first = next(number for number, line in enumerate(lines[start:], start) if line["event"] == "election_state")
    _write(trace, lines[: first + 1])


def a_member_that_returns_is_starved(run: Path) -> None:
    """It tells of a stall that is longer than it is late."""
    _later(run)
    trace, lines, start = _returned(run)
    stall = {**lines[-1], "event": "loop-stall", "stall_ns": lines[-1]["ts"] - lines[start]["ts"]}
    _write(trace, [*lines, stall])


def _stays(damage: Any, *says: str, verdict: Verdict = Verdict.INVALID) -> BadRun:
    words = ("was in an election for ", "and both were healthy (allowed: 15", *says)
    return BadRun(_SCENARIO, damage, Promise.MEMBERS_JOIN, words, verdict)


JOINING = (
    _stays(a_member_that_returns_joins_much_later),
    _stays(a_member_that_returns_begins_one_election_after_the_other, "in state CANVASS at last"),
    _stays(a_member_that_returns_says_no_more, "in state INIT at last"),
    _stays(a_member_that_returns_is_starved, "which explain it", verdict=Verdict.UNKNOWN),
)
