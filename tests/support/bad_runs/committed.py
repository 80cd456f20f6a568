"""Bad runs in which answers came before their commit or of no member, and traces that lack what is sent to commit.

In `leader-killed` member 0 leads term 0 and is killed, then member 2 leads term 1.
"""

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

from support.bad_runs.bad_run import BadRun
from support.bad_runs.protocol import KILLED, Line, edit, first, having, in_the_middle, last, remove
from upheaval.checkers.promises import Promise
from upheaval.checkers.verdict import Verdict

_MS = 10**6


def _history(run: Path, change: Callable[[list[Line]], None]) -> None:
    path = run / "history.jsonl"
    lines = [json.loads(line) for line in path.read_text().splitlines()]
    change(lines)
    path.write_text("".join(json.dumps(line, separators=(",", ":")) + "\n" for line in lines))


def _trace(run: Path, member: int) -> list[Line]:
    return [json.loads(line) for line in (run / f"member-{member}" / "trace.jsonl").read_text().splitlines()]


def _killed_ns(run: Path) -> int:
    fault: dict[str, Any] = json.loads((run / "faults.jsonl").read_text().splitlines()[0])
    return int(fault["inject_end_ns"])


def _answered(lines: list[Line]) -> list[Line]:
    return sorted((line for line in lines if line["outcome"] == "ok"), key=lambda line: line["position"])


# --- answers ---


def an_answer_was_there_at_once(run: Path) -> None:
    def change(lines: list[Line]) -> None:
        line = _answered(lines)[20]
        line["complete_ns"] = line["invoke_ns"]

    _history(run, change)


def all_answers_of_the_second_leader_were_there_at_once(run: Path) -> None:
    def change(lines: list[Line]) -> None:
        for line in _answered(lines):
            if line["invoke_ns"] > _killed_ns(run):
                line["complete_ns"] = line["invoke_ns"] + 1000

    _history(run, change)


def the_leader_committed_a_second_later(run: Path) -> None:
    """By all traces: what it heard of others, what it sent, what they heard."""

    def change(lines: list[Line]) -> None:
        for line in lines:
            if line.get("message") in ("CommitPosition", "AppendPosition") and line["leadership_term_id"] == 1:
                line["ts"] += 1000 * _MS

    for member in range(3):
        edit(run, member, change)


def an_operation_was_asked_when_its_leader_was_dead(run: Path) -> None:
    def change(lines: list[Line]) -> None:
        dead_ns = _killed_ns(run)
        line = [line for line in _answered(lines) if line["complete_ns"] < dead_ns][-1]
        line.update(process=10**6, invoke_ns=dead_ns + 5 * _MS, complete_ns=dead_ns + 7 * _MS)

    _history(run, change)


def an_operation_was_answered_before_its_leader_was_elected(run: Path) -> None:
    began = next(
        line["ts"]
        for line in _trace(run, 2)
        if line["event"] == "leadership_term" and line.get("source") == "election" and line["leadership_term_id"] == 1
    )

    def change(lines: list[Line]) -> None:
        line = next(line for line in _answered(lines) if line["complete_ns"] > began)
        line.update(process=10**6, invoke_ns=began - 9 * _MS, complete_ns=began - 3 * _MS)

    _history(run, change)


def nobody_told_how_far_the_first_term_was_committed(run: Path) -> None:
    for member in range(3):
        edit(
            run,
            member,
            lambda lines: (
                [
                    remove(lines, message=message, leadership_term_id=0)
                    for message in ("CommitPosition", "AppendPosition")
                ]
                and None
            ),
        )


# --- reports that fall ---


def a_follower_reports_less_than_before(run: Path) -> None:
    def change(lines: list[Line]) -> None:
        in_the_middle(lines, event="send", message="AppendPosition", leadership_term_id=1)["log_position"] -= 4096

    edit(run, 1, change)


def a_follower_reports_nothing_at_last(run: Path) -> None:
    def change(lines: list[Line]) -> None:
        lines[last(lines, event="send", message="AppendPosition")]["log_position"] = 0

    edit(run, 0, change)


def two_reports_of_a_follower_changed_places(run: Path) -> None:
    def change(lines: list[Line]) -> None:
        places = list(having(lines, event="send", message="AppendPosition", leadership_term_id=0))
        one = places[len(places) // 2]
        other = next(at for at in places if lines[at]["log_position"] > lines[one]["log_position"])
        lines[one]["log_position"], lines[other]["log_position"] = (
            lines[other]["log_position"],
            lines[one]["log_position"],
        )

    edit(run, 1, change)


# --- messages that are gone ---


def _without(run: Path, members: tuple[int, ...], **fields: object) -> None:
    for member in members:
        edit(run, member, lambda lines: remove(lines, **fields))


def no_trace_has_a_commit_position(run: Path) -> None:
    _without(run, (0, 1, 2), message="CommitPosition")


def no_trace_has_an_append_position(run: Path) -> None:
    _without(run, (0, 1, 2), message="AppendPosition")


def a_leader_sent_no_commit_position(run: Path) -> None:
    _without(run, (0,), message="CommitPosition", event="send")


def a_follower_heard_no_commit_position(run: Path) -> None:
    _without(run, (1,), message="CommitPosition", event="receive")


def followers_of_the_first_term_reported_nothing(run: Path) -> None:
    _without(run, (1, 2), message="AppendPosition", event="send", leadership_term_id=0)


def the_last_leader_stopped_to_tell_how_far_it_had_come(run: Path) -> None:
    def change(lines: list[Line]) -> None:
        end = lines[last(lines, message="CommitPosition", event="send")]["log_position"]
        at = first(lines, message="CommitPosition", event="send", log_position=end)
        lines[at:] = [line for line in lines[at:] if line.get("message") != "CommitPosition"]

    edit(run, 2, change)


def _early(damage: Callable[[Path], None], *says: str, verdict: Verdict = Verdict.INVALID) -> BadRun:
    return BadRun(KILLED, damage, Promise.ANSWERED_WHEN_COMMITTED, says, verdict)


def _fallen(damage: Callable[[Path], None], *says: str) -> BadRun:
    return BadRun(KILLED, damage, Promise.COMMITS_KEPT, ("the position that member", "went back from", *says))


def _gone(damage: Callable[[Path], None], *says: str) -> BadRun:
    return BadRun(KILLED, damage, Promise.EVIDENCE_COMPLETE, says, Verdict.UNKNOWN)


COMMITTED = (
    _early(an_answer_was_there_at_once, "at position", "before any trace shows", "member-0/trace.jsonl:"),
    _early(all_answers_of_the_second_leader_were_there_at_once, "before any trace shows", "member-2/trace.jsonl:"),
    _early(the_leader_committed_a_second_later, "before any trace shows", "was complete 9"),
    _early(an_operation_was_asked_when_its_leader_was_dead, "was invoked 5.000 ms after member 0 had ceased to lead"),
    _early(an_operation_was_answered_before_its_leader_was_elected, "was complete 3.000 ms before member 2 began"),
    _early(
        nobody_told_how_far_the_first_term_was_committed,
        "no trace shows that its position was committed in term 0",
        verdict=Verdict.UNKNOWN,
    ),
    _fallen(a_follower_reports_less_than_before, "member 1", "in term 1", "member-1/trace.jsonl:"),
    _fallen(a_follower_reports_nothing_at_last, "member 0", "to 0 (member-0/trace.jsonl:"),
    _fallen(two_reports_of_a_follower_changed_places, "member 1", "in term 0"),
    _gone(no_trace_has_a_commit_position, "has no CommitPosition that was sent in term 0"),
    _gone(no_trace_has_an_append_position, "has no AppendPosition that was sent in term 0"),
    _gone(a_leader_sent_no_commit_position, "member-0/trace.jsonl has no CommitPosition", "in term 0"),
    _gone(a_follower_heard_no_commit_position, "member-1/trace.jsonl has no CommitPosition", "that was received"),
    _gone(followers_of_the_first_term_reported_nothing, "member-1/trace.jsonl has no AppendPosition", "in term 0"),
    _gone(the_last_leader_stopped_to_tell_how_far_it_had_come, "member-2/trace.jsonl has no CommitPosition of"),
)
