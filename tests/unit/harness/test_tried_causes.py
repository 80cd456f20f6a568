"""Why states differ, by replays of logs made by hand in processes of their own."""

import gc
import os
import platform
import re
import socket
import sys
import time
import uuid
from collections.abc import Callable
from pathlib import Path

import pytest

from support.service_logs import SERVICES, Log, recorded, used
from upheaval.checkers.own import replay_conditions
from upheaval.checkers.own.apart import apart
from upheaval.checkers.own.causes import CONDITIONS, Cause, Explanation
from upheaval.checkers.own.effects import EntryKind
from upheaval.checkers.own.explanation import RecordedState, explain
from upheaval.checkers.own.own_replay import OwnReplay
from upheaval.checkers.own.played import entries_of
from upheaval.checkers.own.replay_process import Order, read_log
from upheaval.checkers.states.replay import LoggedMessage, Member, Replay, state_hash

ALL = 1 << 60
PLAIN = Member()


@pytest.fixture(autouse=True)
def importable(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.syspath_prepend(str(SERVICES))


def state_of(log: list[LoggedMessage], service: str, member: Member = PLAIN, begin: int = 0) -> tuple[bytes, ...]:
    """What a member has in the end that began with a snapshot after so many entries."""

    def made() -> tuple[bytes, ...]:
        replay = Replay(service, is_own=True, member=member)
        for message in log[:begin]:
            replay.apply(message)
        if begin:
            replay = Replay(service, replay.state(), is_own=True, member=member)
        for message in log[begin:]:
            replay.apply(message)
        return replay.state().messages

    return apart(made)


def explained(log: Log, folder: Path, states: dict[int, tuple[Member, int]]) -> tuple[Explanation, list[int]]:
    """By the members whose role and first entry are named; and where the log asks for snapshots."""
    run = recorded(log, folder)
    written = read_log(str(run.path), 0, ALL)
    snapshots = [each.position for each in entries_of(written) if each.kind is EntryKind.SNAPSHOT]
    made = {number: state_of(written, log.service, *state) for number, state in states.items()}
    taken = [RecordedState(f"member-{number}", number, state_hash(each), each) for number, each in made.items()]
    order = Order(log.service, str(SERVICES), str(run.path), 0, snapshots[-1], CONDITIONS)
    explanation = explain(OwnReplay(order=order), snapshots[-1], taken, snapshots)
    assert explanation is not None
    return explanation, snapshots


def test_a_replay_from_the_snapshot_shows_which_members_began_with_it(tmp_path: Path) -> None:
    log = used("ForgetsFee")
    begin = len(log.messages)
    log.request(1, id="one more", do="deposit", to="o1", amount=7)
    log.snapshot()
    explanation, snapshots = explained(log, tmp_path, {0: (PLAIN, begin), 1: (PLAIN, 0), 2: (PLAIN, begin)})
    assert explanation.causes == (Cause.SNAPSHOT,)
    assert explanation.snapshot == snapshots[0]
    assert (explanation.begun, explanation.whole) == (("member-0", "member-2"), ("member-1",))
    assert "one more" in explanation.entry
    differs = r"\['answers'\]\['one more'\] is .* in the replay of the whole log and .* in the one from the snapshot"
    assert re.search(differs, explanation.difference)


def test_a_replay_with_the_roles_of_a_member_shows_that_they_decide(tmp_path: Path) -> None:
    log = used("CountsAsLeader", module="surroundings")
    log.begin_term(1, leader=1)
    log.request(1, id="one more", do="deposit", to="o1", amount=7)
    log.snapshot()
    members = {number: (Member(number, follows_terms=True), 0) for number in (0, 1, 2)}
    explanation, _ = explained(log, tmp_path, members)
    assert explanation.causes == (Cause.ROLE,)
    assert explanation.as_members == ("member-0", "member-1")
    whole, changed = "the replay of the whole log", "the one that changes the member id and role"
    assert f"['led'] is 0 in {whole} and 1 in {changed}" in explanation.difference


def test_what_the_machine_and_the_interpreter_decide_is_named_by_trying_each_alone(tmp_path: Path) -> None:
    explanation, _ = explained(used("Everywhere", module="surroundings"), tmp_path, {})
    assert explanation.causes == (Cause.HOST, Cause.PROCESSORS, Cause.COLLECTOR, Cause.RECURSION)
    assert "['host'] is " in explanation.difference
    assert any("calls platform.node(), at surroundings.py:" in each for each in explanation.asked)
    assert any("calls os.cpu_count(), at surroundings.py:" in each for each in explanation.asked)


def test_a_service_that_makes_little_garbage_still_shows_its_collector(tmp_path: Path) -> None:
    """In a process with Python's own threshold no collection comes in so short a log."""
    explanation, _ = explained(used("Seldom", module="surroundings"), tmp_path, {})
    assert explanation.causes == (Cause.COLLECTOR,)
    assert "['alive'] is " in explanation.difference


def test_what_replays_ask_of_the_log_otherwise_has_its_condition_and_line(tmp_path: Path) -> None:
    log = used("ClockInDeadline")
    run = recorded(log, tmp_path)
    written = read_log(str(run.path), 0, ALL)
    order = Order(log.service, str(SERVICES), str(run.path), 0, written[-1].position, CONDITIONS)
    explanation = explain(OwnReplay(order=order), written[20].position, compares_requests=True)
    assert explanation is not None
    assert explanation.causes == (Cause.CLOCK,)
    assert explanation.position is not None
    assert any("calls time.time_ns(), at accounts.py:" in each for each in explanation.asked)


def test_members_that_no_replay_comes_to_differ_in_a_field(tmp_path: Path) -> None:
    log = used("Accounts")
    run = recorded(log, tmp_path)
    position = read_log(str(run.path), 0, ALL)[-1].position
    right = apart(lambda: state_of(read_log(str(run.path), 0, ALL), log.service))
    wrong = (right[0].replace(b'"fee": 3', b'"fee": 4'),)
    order = Order(log.service, str(SERVICES), str(run.path), 0, position, CONDITIONS)
    own = OwnReplay({position: state_hash(right)}, order=order)
    explanation = explain(own, position, [RecordedState("member-2", 2, state_hash(wrong), wrong)])
    assert explanation is not None
    assert explanation.causes == (Cause.OUTSIDE,)
    assert "['fee'] is 4 in member-2 and 3 in the replays" in explanation.difference


@pytest.mark.parametrize(
    ("cause", "seen"),
    [
        (Cause.CLOCK, lambda: time.time() > 1e9 - 1),
        (Cause.HOST, lambda: socket.gethostname()),
        (Cause.HOST, lambda: socket.getfqdn()),
        (Cause.HOST, lambda: platform.node()),
        (Cause.HOST, lambda: os.uname().nodename),
        (Cause.HOST, lambda: uuid.getnode()),
        (Cause.PROCESSORS, lambda: os.cpu_count()),
        (Cause.PROCESSORS, lambda: len(os.sched_getaffinity(0))),
        (Cause.COLLECTOR, gc.isenabled),
        (Cause.RECURSION, sys.getrecursionlimit),
    ],
)
def test_a_service_sees_what_is_changed(cause: Cause, seen: Callable[[], object]) -> None:
    def after(changed: tuple[Cause, ...]) -> object:
        replay_conditions.enter(changed)
        return seen()

    assert apart(lambda: after((cause,))) != apart(lambda: after(()))
