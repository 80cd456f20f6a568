"""Runs in which time does not pass as it should: the log's, and that of leaders who come too late or say nothing."""

import json
import struct
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

from support.bad_runs.bad_run import BadRun
from upheaval.checkers.promises import Promise
from upheaval.checkers.verdict import Verdict

_SCENARIO = "leader-killed"
_HOUR_MS = 3_600_000
_MESSAGE = 1
_NEW_TERM = 24
_SESSION_OPENED = 21


def _move(run: Path, by_ms: int, *, templates: tuple[int, ...], term: int, after: int = 0, count: int = 10**9) -> None:
    """Move the times of a term's entries, in every member's recording, of the first `count` that begin at `after`."""
    for path in run.glob("member-*/archive/*.rec"):
        content = bytearray(path.read_bytes())
        position = moved = 0
        while position < len(content) and (length := struct.unpack_from("<i", content, position)[0]) > 0:
            _, template, schema, _, its_term = struct.unpack_from("<HHHHq", content, position + 32)
            if schema == 111 and template in templates and its_term == term and position >= after and moved < count:
                offset = position + 32 + (32 if template == _SESSION_OPENED else 24)
                struct.pack_into("<q", content, offset, struct.unpack_from("<q", content, offset)[0] + by_ms)
                moved += 1
            position += length + 31 & -32
        path.write_bytes(content)


def _rewrite(trace: Path, change: Callable[[dict[str, Any]], bool]) -> None:
    """The lines that `change` says are to stay, as it has left them."""
    events: Iterator[dict[str, Any]] = map(json.loads, trace.read_text(encoding="utf-8").splitlines())
    trace.write_text("".join(json.dumps(event) + "\n" for event in events if change(event)), encoding="utf-8")


def an_entry_is_a_second_earlier_than_those_before_it(run: Path) -> None:
    _move(run, -1000, templates=(_MESSAGE,), term=1, after=30_000, count=1)


def a_term_is_an_hour_too_early(run: Path) -> None:
    _move(run, -_HOUR_MS, templates=(_MESSAGE, _NEW_TERM), term=1)


def the_log_is_an_hour_ahead_from_the_middle_of_a_term_on(run: Path) -> None:
    _move(run, _HOUR_MS, templates=(_MESSAGE,), term=1, after=30_000)


def the_next_leader_comes_ten_seconds_later(run: Path) -> None:
    killed_ns = json.loads((run / "faults.jsonl").read_text())["inject_end_ns"]

    def later(event: dict[str, Any]) -> bool:
        event["ts"] += 10**10 if event["ts"] > killed_ns + 500_000_000 else 0
        return True

    for trace in run.glob("member-*/trace.jsonl"):
        _rewrite(trace, later)


def the_next_leader_comes_four_seconds_after_an_orderly_end(run: Path) -> None:
    told = [json.loads(line) for line in (run / "member-0" / "trace.jsonl").read_text().splitlines()]
    ended_ns = next(event["ts"] for event in told if event["event"] == "process-end")

    def later(event: dict[str, Any]) -> bool:
        event["ts"] += 4_000_000_000 if event["ts"] > ended_ns else 0
        return True

    for trace in run.glob("member-*/trace.jsonl"):
        _rewrite(trace, later)


def the_next_leader_comes_late_because_of_a_stall(run: Path) -> None:
    the_next_leader_comes_ten_seconds_later(run)
    trace = run / "member-2" / "trace.jsonl"
    lines = [json.loads(line) for line in trace.read_text().splitlines()]
    at = next(number for number, line in enumerate(lines) if line.get("state") == "CLOSED" and line["ts"] > 10**10)
    stall = {**lines[at], "event": "loop-stall", "stall_ns": 9_000_000_000}
    trace.write_text("".join(json.dumps(line) + "\n" for line in [*lines[:at], stall, *lines[at:]]))


def the_leader_says_nothing_for_more_than_a_second(run: Path) -> None:
    def is_kept(event: dict[str, Any]) -> bool:
        is_silence = 3_400_000_000 < event["ts"] < 4_600_000_000
        return not (is_silence and event["event"] == "send" and event["message"] == "CommitPosition")

    _rewrite(run / "member-2" / "trace.jsonl", is_kept)


def the_members_had_shorter_time_outs(run: Path) -> None:
    path = run / "manifest.json"
    shorter = {"leader_heartbeat_ns": 300_000_000, "election_ns": 20_000_000}
    path.write_text(json.dumps({**json.loads(path.read_text()), "timeouts": shorter}))


def the_members_had_longer_time_outs(run: Path) -> None:
    path = run / "manifest.json"
    longer = {"leader_heartbeat_ns": 2_000_000_000, "startup_canvass_ns": 60_000_000_000}
    path.write_text(json.dumps({**json.loads(path.read_text()), "timeouts": longer}))


def a_follower_hears_its_leader_right_before_it_gives_it_up(run: Path) -> None:
    trace = run / "member-2" / "trace.jsonl"
    lines = trace.read_text().splitlines()
    at = next(number for number, line in enumerate(lines) if '"reason":"leader heartbeat timeout"' in line)
    heard = next(line for line in reversed(lines[:at]) if '"receive"' in line and '"CommitPosition"' in line)
    again = {**json.loads(heard), "ts": json.loads(lines[at])["ts"] - 300_000_000}
    trace.write_text("\n".join([*lines[:at], json.dumps(again), *lines[at:]]) + "\n")


def a_follower_calls_a_leader_disconnected_that_it_has_just_heard(run: Path) -> None:
    """Members were configured to do without a connection for 400 ms."""
    a_follower_hears_its_leader_right_before_it_gives_it_up(run)
    manifest, trace = run / "manifest.json", run / "member-2" / "trace.jsonl"
    timeouts = {"leader_disconnect_ns": 400_000_000}
    manifest.write_text(json.dumps({**json.loads(manifest.read_text()), "timeouts": timeouts}))
    trace.write_text(trace.read_text().replace('"leader heartbeat timeout"', '"leader disconnected"'))


def _early(damage: Callable[[Path], None], *says: str, scenario: str = _SCENARIO) -> BadRun:
    return BadRun(scenario, damage, Promise.BOUNDS_KEPT, says)


def _late(
    damage: Callable[[Path], None], *says: str, scenario: str = _SCENARIO, verdict: Verdict = Verdict.INVALID
) -> BadRun:
    return BadRun(scenario, damage, Promise.LEADER_FOUND, says, verdict)


def _wrong(damage: Callable[[Path], None], *says: str) -> BadRun:
    return BadRun(_SCENARIO, damage, Promise.TIME_KEPT, says)


TIMELY = (
    _wrong(an_entry_is_a_second_earlier_than_those_before_it, "term 1 at position 30", "earlier than an entry before"),
    _wrong(a_term_is_an_hour_too_early, "term 1 at position 14", "before member 2 began to lead", "member-2/trace"),
    _wrong(the_log_is_an_hour_ahead_from_the_middle_of_a_term_on, "term 1 at position", "member 2 had ceased to lead"),
    _late(
        the_next_leader_comes_ten_seconds_later, "no member led for 1", "members 1, 2 were healthy (allowed: 5000 ms)"
    ),
    _late(
        the_next_leader_comes_four_seconds_after_an_orderly_end,
        "after the orderly end of member 0, the leader before, while members 1, 2 were healthy (allowed: 4000 ms)",
        scenario="leader-stopped",
    ),
    _late(
        the_next_leader_comes_late_because_of_a_stall,
        "they recorded stalls of 9000 ms in that time, which explain it",
        verdict=Verdict.UNKNOWN,
    ),
    _early(
        the_leader_says_nothing_for_more_than_a_second, "member 2 sent no heartbeat for 12", "member-2/trace.jsonl:"
    ),
    _early(the_members_had_longer_time_outs, "began an election because its leader was silent", "time-out: 2000 ms"),
    _early(
        the_members_had_longer_time_outs,
        "member 0 began an election because a quorum was silent",
        "member-0/trace.jsonl:",
        scenario="leader-isolated-blackhole",
    ),
    _early(
        a_follower_hears_its_leader_right_before_it_gives_it_up,
        "member 2 began an election because its leader was silent; it had heard from its leader only 300 ms before",
    ),
    _early(
        a_follower_calls_a_leader_disconnected_that_it_has_just_heard,
        "because its leader was disconnected; it had heard from its leader only 300 ms before",
        "time-out: 400 ms",
    ),
    _late(the_members_had_shorter_time_outs, "no member led for 1548 ms", "allowed: 1420 ms"),
)
