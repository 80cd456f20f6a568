"""A service container does what its consensus module tells it, never runs ahead of the commit position, and acks it."""

import pytest
from hypothesis import given, settings, strategies as st

from unit.service.module_side import LOG_CHANNEL, ModuleSide, Recorder, new_term, session_close, session_open
from upheaval_node import counters as counter_types
from upheaval_node.errors import TerminationError, UsageError
from upheaval_node.protocol import cluster_messages as cm
from upheaval_node.service.api import MOCKED_OFFER, CloseReason, ClusteredService, ClusterRole, ClusterTimeUnit
from upheaval_node.service.states import LEGAL_LOG_MOVES, LEGAL_MOVES, ContainerState, LogState
from upheaval_node.trace_kinds import TraceKind
from upheaval_node.types import MS, Now


def started() -> ModuleSide:
    side = ModuleSide()
    side.start()
    return side


def state(side: ModuleSide) -> ContainerState:
    return side.container.state


def joined(role: ClusterRole = ClusterRole.LEADER) -> ModuleSide:
    side = started()
    side.join(role)
    return side


def test_it_waits_for_both_counters_before_the_service_starts() -> None:
    side = ModuleSide()
    side.run_for(50)
    assert state(side) is ContainerState.AWAIT_COMMIT_COUNTER
    assert side.recorder.calls == []
    side.start()
    assert side.recorder.calls == [("start", None)]
    assert state(side) is ContainerState.ACTIVE
    assert side.acks == [(0, 0, side.container.client_id)]


def test_the_first_ack_tells_a_failed_start_and_the_container_ends() -> None:
    side = ModuleSide()

    def fail() -> None:
        raise ValueError("no configuration")

    side.recorder.during["start"] = fail
    with pytest.raises(TerminationError, match="no configuration") as caught:
        side.start()
    side.take_messages()
    assert side.acks == [(0, 0, -1)]
    assert not caught.value.expected


def test_a_start_from_a_snapshot_is_refused_as_failed() -> None:
    side = ModuleSide()
    with pytest.raises(TerminationError, match="snapshot"):
        side.start(term_id=3, log_position=640)


def test_it_joins_the_log_when_its_image_is_there_and_acks_the_position() -> None:
    side = started()
    side.join(ClusterRole.FOLLOWER, session_id=5)
    assert (side.container.log_state, len(side.acks)) == (LogState.AWAIT_IMAGE, 1)
    assert not side.container._log.is_attached
    side.media.add_publication(LOG_CHANNEL.replace("session-id=77", "session-id=5"), 100)
    side.run()
    assert side.container.log_state is LogState.READING
    assert side.container._log.is_attached
    assert side.acks[1:] == [(1, 0, -1)]


def test_a_join_without_an_image_gives_way_to_the_next_join() -> None:
    side = started()
    side.join(session_id=5)
    side.join(session_id=77)
    assert side.container.log_state is LogState.READING
    assert side.acks[1:] == [(1, 0, -1)]


def test_a_log_that_is_not_contiguous_ends_the_container() -> None:
    side = started()
    with pytest.raises(TerminationError, match="log must be contiguous") as caught:
        side.join(position=64)
    assert not caught.value.expected


def test_nothing_beyond_the_commit_position_is_delivered() -> None:
    side = joined()
    first = side.append_messages(4, [b"one"])
    second = side.append_messages(4, [b"two"])
    side.run()
    assert side.recorder.named("message") == []
    side.commit_to(first)
    assert side.recorder.named("message") == [("message", None, 5, b"one", first)]
    side.commit_to(second - 32)
    assert len(side.recorder.named("message")) == 1
    side.commit_to(second)
    assert side.recorder.named("message")[1:] == [("message", None, 5, b"two", second)]


def test_entries_come_in_order_with_their_position_and_time() -> None:
    side = joined(ClusterRole.FOLLOWER)
    seen: list[tuple[int, int]] = []
    cluster = side.recorder.cluster
    assert cluster is not None
    for name in ("term", "open", "message", "timer", "close"):
        side.recorder.during[name] = lambda: seen.append((cluster.time, cluster.log_position))
    positions = [side.append(new_term(timestamp=2)), side.append(session_open(4, timestamp=3))]
    positions.append(side.append_messages(4, [b"x"], timestamp=5))
    timer = cm.TimerEvent(leadership_term_id=1, correlation_id=11, timestamp=6)
    positions += [side.append(timer), side.append(session_close(4, timestamp=8))]
    side.commit_all()
    assert side.recorder.calls[1:] == [
        ("term", 1, 2, 2, ClusterTimeUnit.MILLIS),
        ("open", 4, 3),
        ("message", 4, 5, b"x", positions[2]),
        ("timer", 11, 6),
        ("close", 4, 8, CloseReason.CLIENT_ACTION),
    ]
    assert seen == list(zip((2, 3, 5, 6, 8), positions, strict=True))


@pytest.mark.parametrize(
    ("timestamp", "asks"), [(5, ["ScheduleTimer", "CancelTimer"]), (4, ["ScheduleTimer"])], ids=["due", "not due"]
)
def test_a_timer_of_the_service_is_taken_back_where_its_expiry_is_read(timestamp: int, asks: list[str]) -> None:
    """One whose deadline has not come was set anew while the expiry of the earlier setting was on its way."""
    side = joined()
    cluster = side.recorder.cluster
    assert cluster is not None
    sent_before: list[int] = []
    side.recorder.during["message"] = lambda: cluster.schedule_timer(11, 5)
    side.recorder.during["timer"] = lambda: sent_before.append(cluster.log_position)
    side.append_messages(4, [b"go"], timestamp=1)
    for correlation_id in (11, 12, 11):
        side.append(cm.TimerEvent(leadership_term_id=1, correlation_id=correlation_id, timestamp=timestamp))
    side.commit_all()
    assert len(sent_before) == 3
    assert [type(message).__name__ for message in side.received[2:]] == asks


def test_fragmented_messages_arrive_whole_even_when_the_commit_position_cuts_them() -> None:
    side = joined()
    payload = bytes(range(256)) * 20
    end = side.append_messages(4, [payload])
    side.commit_to(1408)
    assert side.recorder.named("message") == []
    side.commit_to(end)
    assert side.recorder.named("message") == [("message", None, 5, payload, end)]


def test_padding_at_the_end_of_a_term_is_no_entry() -> None:
    side = joined()
    payload = bytes(1000)
    count = 3 * 65536 // 1088
    for _ in range(count):
        side.append_messages(4, [payload])
        side.commit_all()
    assert side.log.position > count * 1088
    assert len(side.recorder.named("message")) == count
    assert side.container.view.log_position == side.log.position


def test_a_message_of_another_schema_version_is_delivered_too() -> None:
    side = joined()
    encoded = bytearray(cm.SCHEMA.encode(cm.SessionMessageHeader(1, 4, 5)))
    encoded[6:8] = (12).to_bytes(2, "little")
    assert side.log.offer(encoded, b"older") > 0
    side.commit_all()
    assert side.recorder.named("message") == [("message", None, 5, b"older", side.log.position)]


def test_a_failing_callback_is_reported_and_delivery_goes_on() -> None:
    side = joined()
    side.append_messages(4, [b"one", b"two"])

    def fail() -> None:
        raise KeyError("lost")

    side.recorder.during["message"] = fail
    side.commit_all()
    assert [call[3] for call in side.recorder.named("message")] == [b"one", b"two"]
    assert [kind for kind, _ in side.records.errors] == ["service-0-service"] * 2


def test_a_failed_assertion_of_the_service_is_not_swallowed() -> None:
    side = joined()
    side.append_messages(4, [b"one"])

    def fail() -> None:
        raise AssertionError("broken invariant")

    side.recorder.during["message"] = fail
    with pytest.raises(AssertionError, match="broken invariant"):
        side.commit_all()


@pytest.mark.parity("SA-03")
def test_entries_that_make_no_sense_are_reported_without_a_callback() -> None:
    side = joined(ClusterRole.FOLLOWER)
    side.append(session_open(4), session_open(4), session_close(9))
    assert side.log.offer(b"\x00" * 7) > 0
    side.commit_all()
    assert [call[0] for call in side.recorder.calls[1:]] == ["open"]
    assert [kind for kind, _ in side.records.errors] == ["service-0-log"] * 3


def test_another_major_version_of_the_application_ends_the_container() -> None:
    side = joined()
    side.append(new_term(app_version=2 << 16))
    with pytest.raises(TerminationError, match="cannot follow"):
        side.commit_all()


def test_a_replay_ends_at_its_bound_and_the_live_log_follows() -> None:
    side = started()
    bound = 96
    side.join(ClusterRole.FOLLOWER, max_position=bound)
    assert side.append_messages(4, [b"old"]) == bound
    side.append_messages(4, [b"new"])
    side.commit_to(side.log.position)
    assert [call[3] for call in side.recorder.named("message")] == [b"old"]
    assert side.container.log_state is LogState.NONE
    live = LOG_CHANNEL.replace("session-id=77", "session-id=5").replace("term-offset=0", f"term-offset={bound}")
    side.media.add_publication(live, 100)
    side.join(ClusterRole.LEADER, position=bound, session_id=5)
    assert side.acks == [(0, 0, side.container.client_id), (1, 0, -1), (2, bound, -1)]
    assert side.recorder.named("role") == [("role", ClusterRole.LEADER)]


def test_the_next_join_bounds_the_log_that_is_being_read() -> None:
    side = joined()
    end = side.append_messages(4, [b"one"])
    side.append_messages(4, [b"beyond"])
    side.commit_to(end)
    side.join(ClusterRole.FOLLOWER, position=end, session_id=5)
    side.commit_all()
    assert [call[3] for call in side.recorder.named("message")] == [b"one"]
    assert side.container.log_state is LogState.AWAIT_IMAGE
    assert side.recorder.named("role") == [("role", ClusterRole.LEADER), ("role", ClusterRole.FOLLOWER)]


def test_a_log_that_ends_makes_the_service_a_follower() -> None:
    side = joined()
    end = side.append_messages(4, [b"one"])
    side.commit_to(end)
    side.log.close()
    side.run_for(20)
    assert side.container.log_state is LogState.NONE
    assert side.container.view.role is ClusterRole.FOLLOWER


def test_the_role_of_the_service_is_in_the_trace() -> None:
    side = joined(ClusterRole.LEADER)
    side.join(ClusterRole.FOLLOWER)
    events = zip(side.records.events, side.records.fields, strict=True)
    told = [(fields["service_id"], fields["role"]) for event, fields in events if event == TraceKind.SERVICE_ROLE]
    assert told == [(0, "LEADER"), (0, "FOLLOWER")]


def test_an_ack_is_given_on_request_when_the_position_is_reached() -> None:
    side = joined()
    end = side.append_messages(4, [b"one"])
    side.tell(cm.RequestServiceAck(log_position=end))
    assert len(side.acks) == 2
    side.commit_to(end)
    assert side.acks[2:] == [(2, end, -1)]


@pytest.mark.parametrize("ack_required", [True, False])
def test_it_terminates_at_the_position_and_acks_if_asked(ack_required: bool) -> None:
    side = joined()
    end = side.append_messages(4, [b"last"])
    side.tell(cm.ServiceTerminationPosition(log_position=end, ack_required=ack_required))
    assert state(side) is ContainerState.ACTIVE
    assert side.commit is not None
    side.commit.set(end)
    error = side.run_to_termination()
    assert error.expected
    assert side.recorder.calls[-2:] == [("message", None, 5, b"last", end), ("terminate", end)]
    assert side.acks[2:] == ([(2, end, -1)] if ack_required else [])
    assert state(side) is ContainerState.CLOSED


def test_a_termination_position_that_is_passed_already_is_unexpected() -> None:
    side = joined()
    end = side.append_messages(4, [b"one"])
    side.commit_to(end)
    assert side.to_service.offer(cm.SCHEMA.encode(cm.ServiceTerminationPosition(log_position=0))) > 0
    assert not side.run_to_termination().expected


@pytest.mark.parity("SA-02")
def test_a_commit_counter_that_vanishes_ends_the_container_as_expected() -> None:
    side = joined()
    assert side.commit is not None
    side.commit.close()
    assert side.run_to_termination().expected
    assert side.recorder.named("terminate") == [("terminate", 0)]


def test_a_module_that_ends_before_the_recovery_ends_the_container_as_expected() -> None:
    side = ModuleSide()
    key = counter_types.cluster_key(0)
    commit = side.counters.allocate(counter_types.COMMIT_POSITION, key, "commit", 0)
    side.run_for(10)
    assert state(side) is ContainerState.AWAIT_RECOVERY_STATE
    commit.close()
    assert side.run_to_termination().expected
    assert side.recorder.calls == []


def test_closing_tells_the_service_once() -> None:
    side = joined()
    side.container.close()
    side.container.close()
    assert side.recorder.named("terminate") == [("terminate", 0)]
    assert side.container.do_work(Now(side.now.ns + 1, 0)) == 0


def test_a_snapshot_without_an_archive_is_answered_as_failed_and_the_service_goes_on() -> None:
    side = joined()
    end = side.append(
        cm.ClusterActionRequest(
            leadership_term_id=1, log_position=96, timestamp=4, action=cm.ClusterAction.SNAPSHOT, flags=0
        )
    )
    after = side.append_messages(4, [b"after"])
    side.commit_all()
    assert end > 0
    side.run_for(100)
    assert side.recorder.named("message") == []
    side.run_for(11_000)
    assert side.acks[2:] == [(2, 96, -1)]
    assert side.recorder.named("message") == [("message", None, 5, b"after", after)]


def test_bytes_that_are_no_message_on_the_control_stream_are_reported() -> None:
    side = started()
    assert side.to_service.offer(b"\xff" * 30) > 0
    side.run()
    assert [kind for kind, _ in side.records.errors] == ["service-0-module"]
    side.join()
    assert side.container.log_state is LogState.READING


def test_what_a_service_asks_of_the_module_goes_to_stream_105_on_every_member() -> None:
    side = joined(ClusterRole.FOLLOWER)
    cluster = side.recorder.cluster
    assert cluster is not None
    results: list[object] = []

    def ask() -> None:
        results.append(cluster.schedule_timer(1, 500))
        results.append(cluster.cancel_timer(1))
        results.append(cluster.offer(b"to ", b"all") > 0)
        results.append(cluster.close_client_session(4))
        results.append(cluster.close_client_session(4))

    side.append(session_open(4))
    side.append_messages(4, [b"go"])
    side.recorder.during["message"] = ask
    side.commit_all()
    assert results == [True] * 5
    assert [type(m).__name__ for m in side.received[2:]] == [
        "ScheduleTimer",
        "CancelTimer",
        "SessionMessageHeader",
        "CloseSession",
    ]
    assert side.service_messages == [(0, b"to all")]


@pytest.mark.parametrize("callback", ["start", "role", "terminate", "background"])
def test_life_cycle_callbacks_must_not_send(callback: str) -> None:
    side = ModuleSide()
    refused: list[str] = []

    def ask() -> None:
        cluster = side.recorder.cluster
        assert cluster is not None
        for method, arguments in (
            (cluster.schedule_timer, (1, 2)),
            (cluster.offer, (b"x",)),
            (cluster.close_client_session, (4,)),
        ):
            with pytest.raises(UsageError) as caught:
                method(*arguments)
            refused.append(str(caught.value))

    side.recorder.during[callback] = ask
    side.start()
    side.join()
    side.container.close()
    assert len(refused) == 3
    assert side.records.errors == []


class Quiet(Recorder):
    """Has no work in the background."""

    do_background_work = ClusteredService.do_background_work


@pytest.mark.parametrize(("service", "longest_ms"), [(Recorder(), 10), (Quiet(), 1000)], ids=["some", "none"])
def test_who_has_work_in_the_background_is_not_left_alone_for_long(service: Recorder, longest_ms: int) -> None:
    side = ModuleSide(service)
    side.start()
    side.join()
    assert side.container.next_deadline_ns() - side.now.ns == longest_ms * MS


@pytest.mark.parity("SA-01")
def test_a_follower_only_pretends_to_send_to_clients() -> None:
    side = joined(ClusterRole.FOLLOWER)
    side.append(session_open(4))
    side.commit_all()
    session = side.container.view.sessions[4]
    assert session.offer(b"answer") == MOCKED_OFFER
    assert session.respond(b"answer")
    assert not session.is_connected


@pytest.mark.parametrize(
    "channel",
    [
        "aeron:ipc",
        "aeron-spy:aeron:tcp?endpoint=a:1",
        "nonsense",
        "aeron:tcp?control-mode=manual",
        "aeron:tcp?control-mode=response|response-correlation-id=1|alias=" + "x" * 1024,
    ],
)
def test_a_channel_that_the_module_would_refuse_leaves_the_session_without_a_connection(channel: str) -> None:
    side = joined(ClusterRole.LEADER)
    side.append(session_open(4, channel))
    side.commit_all()
    assert not side.container.view.sessions[4].is_connected
    assert [kind for kind, _ in side.records.errors] == ["service-0-egress"]
    assert side.recorder.named("open") == [("open", 4, 1)]


@given(
    # The log must take all of them before anything is read.
    st.lists(st.integers(0, 6000), min_size=1, max_size=25).filter(lambda each: sum(each) + 300 * len(each) < 30_000),
    st.lists(st.integers(1, 400), min_size=1, max_size=25),
)
@settings(max_examples=30, deadline=None)
def test_however_the_commit_position_moves_every_message_comes_once_and_in_order(
    lengths: list[int], steps: list[int]
) -> None:
    side = joined()
    payloads = [bytes([number]) * length for number, length in enumerate(lengths)]
    ends = [side.append_messages(4, [payload]) for payload in payloads]
    position = 0
    for step in steps:
        position = min(position + 32 * step, ends[-1])
        side.commit_to(position)
        delivered = [call[3] for call in side.recorder.named("message")]
        assert delivered == [payload for payload, end in zip(payloads, ends, strict=True) if end <= position]
    side.commit_all()
    assert [call[3:] for call in side.recorder.named("message")] == list(zip(payloads, ends, strict=True))
    assert side.records.errors == []


def test_every_state_has_its_moves() -> None:
    assert set(LEGAL_MOVES) == set(ContainerState)
    assert set(LEGAL_LOG_MOVES) == set(LogState)
