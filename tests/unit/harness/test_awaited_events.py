"""A step that waits for a message or a state: read from what members trace and forwarders see, while they write it."""

import json
from dataclasses import replace
from pathlib import Path

import pytest

from upheaval.execution.awaited_events import AwaitedEvent, TracedEvents
from upheaval.records import RunFolder, TraceEvent
from upheaval.records.added_lines import AddedLines
from upheaval.scenario import WaitSent, WaitState, parse_scenario
from upheaval_chaos.faults import Roster

ROSTER = Roster(range(3), lambda: 0, lambda _: True)
VOTE = {"event": "send", "member": 1, "to": 2, "message": "Vote", "candidate_term_id": 4, "vote": True}


def written(ns: int, **fields: object) -> bytes:
    return json.dumps({"ts": ns, **VOTE, **fields}).encode() + b"\n"


def wanted(line: str, what: str = "sent") -> AwaitedEvent:
    text = f"title x\ninject a kill member-2\nwait {what} {line}\nwait operations 1"
    step = parse_scenario(text, name="x", where="x").steps[1]
    assert isinstance(step, WaitSent | WaitState)
    return AwaitedEvent(step, ROSTER, {"a": [2]}.__getitem__, 100)


def event(ns: int = 101, **fields: object) -> TraceEvent:
    line = json.loads(written(ns, **fields))
    return TraceEvent(0, ns, line["event"], line)


def test_messages_of_members_and_of_forwarders_are_read_once_and_whole(tmp_path: Path) -> None:
    run = RunFolder(tmp_path)
    run.member(1).path.mkdir()
    run.member(1).trace.write_bytes(written(5) + written(6, event="receive") + written(7)[:20])
    run.consensus_file.write_bytes(b'{"ts":8,"ev\n' + written(9))
    traced = TracedEvents(AddedLines((run.consensus_file, *(run.member(number).trace for number in range(3)))))
    assert sorted(each.ns for each in traced.more()) == [5, 9]
    with run.member(1).trace.open("ab") as file:
        file.write(written(7)[20:])
    assert [each.ns for each in traced.more()] == [7]
    assert list(traced.more()) == []


@pytest.mark.parametrize(
    "line",
    [
        "Vote",
        "Vote from=member-1 to=victim!a",
        "Vote from=followers",
        "Vote to=leader,member-2",
        "Vote vote=true candidateTermId=4",
    ],
)
def test_a_message_is_known_by_its_ends_and_fields(line: str) -> None:
    assert wanted(line).is_meant(event())


@pytest.mark.parametrize(
    ("line", "seen"),
    [
        ("RequestVote", event()),
        ("Vote from=leader", event()),
        ("Vote to=leader", event()),
        ("Vote vote=false", event()),
        ("Vote candidateTermId=5", event()),
        ("Vote", event(100)),
    ],
)
def test_others_are_not_meant(line: str, seen: TraceEvent) -> None:
    assert not wanted(line).is_meant(seen)


def test_a_message_that_is_waited_for_is_printed_with_its_members() -> None:
    assert str(wanted("Vote from=followers to=leader vote=true")) == "Vote vote=true from 1 or 2 to 0"


ENTERED = TraceEvent(0, 101, "election_state", {"member": 1, "state": "FOLLOWER_READY"})
SNAPSHOT = TraceEvent(0, 101, "module_state", {"member": 1, "old": "ACTIVE", "new": "SNAPSHOT"})


@pytest.mark.parametrize(
    ("line", "seen", "is_meant"),
    [
        ("follower-ready", ENTERED, True),
        ("follower-ready of=followers", ENTERED, True),
        ("follower-ready of=all!a", ENTERED, True),
        ("follower-ready of=leader", ENTERED, False),
        ("follower-ready of=victim!a", ENTERED, False),
        ("follower-replay", ENTERED, False),
        ("follower-ready", replace(ENTERED, ns=100), False),
        ("follower-ready", event(), False),
        ("snapshot of=member-1", SNAPSHOT, True),
        ("snapshot of=member-2", SNAPSHOT, False),
        ("snapshot", ENTERED, False),
        ("closed", SNAPSHOT, False),
    ],
)
def test_a_state_is_known_by_the_members_that_enter_it(line: str, seen: TraceEvent, is_meant: bool) -> None:
    assert wanted(line, "state").is_meant(seen) is is_meant


def test_a_state_that_is_waited_for_is_printed_with_its_members() -> None:
    assert wanted("follower-ready of=followers", "state").happened == "follower-ready of member 1 or 2 is entered"
