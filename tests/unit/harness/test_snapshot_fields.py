"""Every field of a snapshot is compared: with what the log gives, and between members where that gives nothing."""

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from support.built_events import FIRST_NUMBER, EventLog, ledger_log, timers_log, workbench_log
from upheaval.checkers.judge import verify_run
from upheaval.checkers.promises import Promise
from upheaval.checkers.signature import Rule, Signature
from upheaval.checkers.states import snapshot_fields
from upheaval.checkers.states.replay import LoggedMessage, expected_states
from upheaval.checkers.states.snapshot_fields import Content, Origin, PendingMessage
from upheaval.checkers.verdict import Finding, Verdict
from upheaval.records import Function
from upheaval_node.protocol import cluster_messages as cm
from upheaval_node.protocol.message import with_values
from upheaval_node.protocol.session_header import pack_session_header
from upheaval_node.types import MAX_POSITION

OWN = Origin(member_id=1, is_copied=False, services=1)


def pending_log() -> EventLog:
    """Ends with a snapshot between a transfer and the message that it made."""
    log = ledger_log()
    log.ask(Function.TRANSFER, "a", ["b", 5], True)
    log.snapshot()
    return log


def read_back(log: EventLog) -> list[LoggedMessage]:
    builder = EventLog(log.service)
    begin = LoggedMessage(0, log.messages[0])
    return [begin, *(LoggedMessage(builder.add(message), message) for message in log.messages[1:])]


def judge_of(log: EventLog) -> Callable[..., str]:
    """Judges contents of a module by the end of this log."""
    whole = read_back(log)
    place, state = [*snapshot_fields.places(whole)][-1], [*expected_states(log.service, whole)][-1]

    def judge(content: Content, origin: Origin = OWN) -> str:
        return snapshot_fields.module_difference(content, place, state, origin)

    return judge


def another(value: Any) -> Any:
    return value + 1 if isinstance(value, int) else value + value[:1] if value else type(value)(b"?")


@pytest.mark.parametrize("make", [workbench_log, timers_log, pending_log])
def test_every_field_of_a_module_is_compared(make: Callable[[], EventLog]) -> None:
    log = make()
    content, judge = snapshot_fields.module_content(log.snapshots[1][-1].module), judge_of(log)
    assert judge(content) == ""
    seen = set()
    for index, message in enumerate(content):
        told: Any = message
        for name in told.__match_args__:
            changed = with_values(told, **{name: another(getattr(told, name))})
            assert judge([*content[:index], changed, *content[index + 1 :]]), (message, name)
            seen.add(type(message))
    everywhere = {cm.SnapshotMarker, cm.ConsensusModule, cm.ClusterSession, cm.PendingMessageTracker}
    assert seen - everywhere == {timers_log: {cm.Timer}, pending_log: {PendingMessage}}.get(make, set())


@pytest.mark.parametrize("make", [workbench_log, pending_log])
def test_nothing_of_a_module_is_missing_and_nothing_more_is_there(make: Callable[[], EventLog]) -> None:
    log = make()
    content, judge = snapshot_fields.module_content(log.snapshots[1][-1].module), judge_of(log)
    for index, message in enumerate(content):
        if 0 < index < len(content) - 1:
            assert judge([*content[:index], *content[index + 1 :]]), message
        assert judge([*content[: index + 1], message, *content[index + 1 :]]), message


def test_every_field_before_the_state_of_a_service_is_compared() -> None:
    log = workbench_log()
    content, _ = snapshot_fields.service_content(log.snapshots[1][-1].service)
    place = [*snapshot_fields.places(read_back(log))][-1]
    assert snapshot_fields.service_difference(content, place) == ""
    for index, message in enumerate(content):
        told: Any = message
        for name in told.__match_args__:
            changed = with_values(told, **{name: another(getattr(told, name))})
            held = [*content[:index], changed, *content[index + 1 :]]
            assert snapshot_fields.service_difference(held, place), (message, name)


def with_reason(log: EventLog, reason: int) -> Content:
    content = snapshot_fields.module_content(log.snapshots[1][-1].module)
    return [with_values(each, close_reason=reason) if isinstance(each, cm.ClusterSession) else each for each in content]


@pytest.mark.parametrize(
    ("origin", "reason", "is_right"),
    [
        (Origin(0, is_copied=False, services=1), cm.CloseReason.CLIENT_ACTION, True),
        (Origin(0, is_copied=False, services=1), cm.CloseReason.TIMEOUT, True),
        (Origin(1, is_copied=False, services=1), cm.CloseReason.TIMEOUT, False),
        (Origin(1, is_copied=True, services=1), cm.CloseReason.TIMEOUT, True),
        (Origin(0, is_copied=False, services=1), cm.CloseReason.SERVICE_ACTION, False),
        (Origin(0, is_copied=False, services=2), cm.CloseReason.SERVICE_ACTION, True),
        (Origin(0, is_copied=True, services=1), 77, False),
    ],
)
def test_a_session_that_is_about_to_close_is_so_only_where_it_may_be(
    origin: Origin, reason: int, *, is_right: bool
) -> None:
    log = workbench_log()
    content = with_reason(log, reason)
    if origin.services == 2:
        tracker = cm.PendingMessageTracker(FIRST_NUMBER + (1 << 56), FIRST_NUMBER - 1 + (1 << 56), 4096, 1)
        content = [*content[:-1], tracker, content[-1]]
    found = judge_of(log)(content, origin)
    assert ("close_reason" not in found and not found) is is_right, found


def found_in(log: EventLog, folder: Path, promise: Promise = Promise.SNAPSHOT_IS_REPLAY) -> Finding:
    log.write(folder)
    return verify_run(folder).finding(promise)


def test_modules_of_members_agree_at_a_position(tmp_path: Path) -> None:
    log = workbench_log()
    assert found_in(log, tmp_path / "good", Promise.STATES_AGREE).verdict is Verdict.VALID
    module = log.snapshots[1][-1].module
    index = next(i for i, each in enumerate(module) if isinstance(cm.SCHEMA.decode(each), cm.ConsensusModule))
    state = cm.SCHEMA.decode(module[index])
    assert isinstance(state, cm.ConsensusModule)
    module[index] = cm.SCHEMA.encode(with_values(state, next_session_id=state.next_session_id + 1))
    finding = found_in(log, tmp_path / "bad", Promise.STATES_AGREE)
    assert finding.verdict is Verdict.INVALID
    assert finding.members == (0, 1)
    assert f"has next_session_id {state.next_session_id + 1} in the state of the module, member 0 has" in finding.detail
    assert finding.signature == Signature(Rule.MODULES_DIFFER, entry="ConsensusModule.next_session_id")


def test_what_a_member_has_of_its_own_in_its_module_makes_no_difference() -> None:
    content = snapshot_fields.module_content(workbench_log().snapshots[1][-1].module)
    own: list[Any] = []
    for each in content:
        match each:
            case cm.SnapshotMarker():
                own.append(with_values(each, app_version=each.app_version + 1))
            case cm.ConsensusModule() | cm.PendingMessageTracker():
                own.append(with_values(each, pending_message_capacity=64))
            case cm.ClusterSession():
                own.append(with_values(each, close_reason=cm.CloseReason.TIMEOUT))
            case _:
                own.append(each)
    assert own != list(content)
    assert snapshot_fields.members_difference(own, content, "member 0") == ""
    assert snapshot_fields.members_difference(own[:-1], content, "member 0") != ""


def test_members_have_the_same_timers_of_a_service_that_is_not_shipped(tmp_path: Path) -> None:
    log = timers_log()
    log.service = "own.services:Timers"
    assert found_in(log, tmp_path / "good", Promise.STATES_AGREE).verdict is Verdict.VALID
    module = log.snapshots[2][0].module
    index = next(i for i, each in enumerate(module) if isinstance(cm.SCHEMA.decode(each), cm.Timer))
    timer = cm.SCHEMA.decode(module[index])
    assert isinstance(timer, cm.Timer)
    module[index] = cm.SCHEMA.encode(with_values(timer, deadline=timer.deadline + 1))
    finding = found_in(log, tmp_path / "bad", Promise.STATES_AGREE)
    assert finding.verdict is Verdict.INVALID
    assert finding.members == (0, 2)
    assert f"has deadline {timer.deadline + 1} in timer {timer.correlation_id}, member 0 has {timer.deadline}" in (
        finding.detail
    )


def test_members_have_the_same_messages_of_a_service_that_is_not_shipped(tmp_path: Path) -> None:
    log = pending_log()
    log.service = "own.services:Ledger"
    assert found_in(log, tmp_path / "good", Promise.STATES_AGREE).verdict is Verdict.VALID
    module = log.snapshots[1][-1].module
    assert module[-2][:8] == pack_session_header(0, FIRST_NUMBER, MAX_POSITION)[:8]
    module[-2] += b"!"
    finding = found_in(log, tmp_path / "bad", Promise.STATES_AGREE)
    assert finding.verdict is Verdict.INVALID
    assert finding.members == (0, 1)
    assert "of service 0, member 0 has" in finding.detail


def test_the_recordings_of_one_member_are_of_one_version(tmp_path: Path) -> None:
    log = workbench_log()
    module = log.snapshots[1][-1].module
    for index in (0, -1):
        marker = cm.SCHEMA.decode(module[index])
        assert isinstance(marker, cm.SnapshotMarker)
        module[index] = cm.SCHEMA.encode(with_values(marker, app_version=2))
    finding = found_in(log, tmp_path)
    assert finding.verdict is Verdict.INVALID
    assert "the consensus module of member 1" in finding.detail
    assert "is of app version 2" in finding.detail


def test_what_is_on_the_way_of_a_service_that_has_a_snapshot_is_there() -> None:
    log = workbench_log()
    content = snapshot_fields.module_content(log.snapshots[1][-1].module)
    assert "the tracker of service 1" in judge_of(log)(content, replace(OWN, services=2))


def test_a_snapshot_that_breaks_off_is_unknown(tmp_path: Path) -> None:
    log = workbench_log()
    log.snapshots[1][-1].module.pop()
    finding = found_in(log, tmp_path)
    assert finding.verdict is Verdict.UNKNOWN
    assert "member 1, consensus module at position" in finding.detail


def test_members_of_aeron_keep_sessions_in_any_order_and_tell_how_much_of_a_buffer_is_used() -> None:
    log = pending_log()
    judge = judge_of(log)
    content = list(snapshot_fields.module_content(log.snapshots[1][-1].module))
    payloads = [each.payload for each in content if isinstance(each, PendingMessage)]
    used = sum(8 + 32 + len(payload) + 7 & -8 for payload in payloads)
    assert used > 0

    def with_capacity(capacity: int) -> Content:
        holders = cm.ConsensusModule | cm.PendingMessageTracker
        return [
            with_values(each, pending_message_capacity=capacity) if isinstance(each, holders) else each
            for each in content
        ]

    assert judge(with_capacity(used)) == ""
    for wrong in (used - 8, used + 1, 0):
        assert "pending_message_capacity" in judge(with_capacity(wrong))


def test_sessions_of_a_service_may_be_in_any_order() -> None:
    sessions = [cm.ClientSession(number, 102, "aeron:udp?endpoint=c:1", b"") for number in (1, 2)]
    begin = cm.SnapshotMarker(2, 0, 0, 0, cm.SnapshotMark.BEGIN, 0, 1)
    end = with_values(begin, mark=cm.SnapshotMark.END)
    found = [
        snapshot_fields.service_content([cm.SCHEMA.encode(each) for each in (begin, *order, end)])[0]
        for order in (sessions, sessions[::-1])
    ]
    assert found[0] == found[1]
